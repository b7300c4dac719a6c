"""OARF (Hu, Li, Liu, Li, Wu and He, TIST 2022): its horizontal settings, printed numbers and findings."""

from silobench.papers.oarf import baseline, compression, sampling, skew
from silobench.papers.oarf.numbers import FOLDER, accuracy
from silobench.papers.oarf.settings import NAME
from silobench.papers.paper import Paper

PAPER = Paper(
    name=NAME,
    citation="Hu, Li, Liu, Li, Wu and He: The OARF Benchmark Suite, ACM TIST 13, 2022",
    folder=FOLDER,
    findings=(*baseline.FINDINGS, *skew.FINDINGS, *sampling.FINDINGS, *compression.FINDINGS),
    accuracy=accuracy,
)
