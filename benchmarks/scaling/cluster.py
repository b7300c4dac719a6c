"""A round on a cluster of equal machines, from the prices of Ray on one machine."""

from dataclasses import dataclass, replace

from scaling.model import Case
from scaling.study import Study
from silobench.engines.cluster.batches import batches
from silobench.engines.executor import Job

LINK = 1.25e9  # bytes per second of the driver's link: ten gigabits; assumed, not measured


@dataclass(frozen=True)
class Machines:
    """Machines with as many workers as cores."""

    nodes: int
    cores: int

    @property
    def workers(self) -> int:
        return self.nodes * self.cores


@dataclass(frozen=True)
class ClusterRound:
    """Seconds of a round by what limits them. Nothing overlaps, so a real round is at most as long."""

    tasks: int
    parallel: float  # the workers, side by side
    driver: float  # one process, whatever the number of machines
    network: float  # the driver's link
    traffic: float  # bytes through the driver

    @property
    def seconds(self) -> float:
        return self.parallel + self.driver + self.network


def on_workers(case: Case, workers: int) -> Case:
    """Return the case on Ray: small parties are sent in batches, as the engine makes them."""
    jobs = [Job(int, (), (), float(case.rows * case.parameters))] * case.cohort
    return replace(case, workers=workers, tasks=len(batches(jobs, workers)))


def round_on(study: Study, case: Case, machines: Machines) -> ClusterRound:
    """Predict a round. The model is sent to each machine once, and every party's reply to the driver."""
    case = on_workers(case, machines.workers)
    waves = -(-case.tasks // machines.workers)  # tasks of the worker that has most of them
    parallel = study.cost("ray workers", case) * waves / case.tasks
    traffic = case.bytes_up + machines.nodes * case.vectors * case.parameters * 4
    return ClusterRound(case.tasks, parallel, study.cost("ray driver", case), traffic / LINK, traffic)
