"""NIID-Bench (Li, Diao, Chen and He, ICDE 2022): its settings, printed numbers and findings."""

from silobench.papers.niid_bench.findings import FINDINGS, NAME
from silobench.papers.niid_bench.numbers import FOLDER, accuracy, cost, flower_accuracy
from silobench.papers.paper import Paper

PAPER = Paper(
    name=NAME,
    citation="Li, Diao, Chen and He: Federated Learning on Non-IID Data Silos: An Experimental Study, ICDE 2022",
    folder=FOLDER,
    findings=FINDINGS,
    accuracy=accuracy,
    replications=(flower_accuracy,),
    cost=cost,
)
