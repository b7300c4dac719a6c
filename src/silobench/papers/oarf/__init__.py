"""OARF (Hu, Li, Liu, Li, Wu and He, TIST 2022): its settings, printed numbers and findings."""

from silobench.papers.oarf import (
    baseline,
    compression,
    encryption,
    hybrid,
    privacy,
    sampling,
    skew,
    vertical,
    vertical_tables,
)
from silobench.papers.oarf.figures import sections
from silobench.papers.oarf.numbers import FOLDER, accuracy
from silobench.papers.oarf.settings import NAME
from silobench.papers.oarf.tables import TABLES, compression_json
from silobench.papers.paper import Paper

PAPER = Paper(
    name=NAME,
    citation="Hu, Li, Liu, Li, Wu and He: The OARF Benchmark Suite, ACM TIST 13, 2022",
    folder=FOLDER,
    findings=(
        *baseline.FINDINGS,
        *skew.FINDINGS,
        *sampling.FINDINGS,
        *encryption.FINDINGS,
        *privacy.FINDINGS,
        *compression.FINDINGS,
        *hybrid.FINDINGS,
        *vertical.FINDINGS,
    ),
    accuracy=accuracy,
    tables=TABLES,
    vertical_tables=vertical_tables.TABLES,
    facts={"compression": compression_json},
    sections=sections,
    ropes={
        "accuracy": 0.01,
        "convergence": 10,
        "throughput": 100,
        "overhead": 0.1,
        "mae": 0.1,
        "mse": 0.01,
    },
    vertical_ropes={"throughput": vertical.ROPES["throughput"]},
)
