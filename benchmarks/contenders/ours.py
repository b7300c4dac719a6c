"""silobench by its real path: choices are bound, prepared and executed into a run directory, round for round."""

import argparse
import tempfile
from pathlib import Path

from contenders.gate import Gate
from workloads import LR, MOMENTUM, SEED, read_facts

from silobench.runs.execute import execute, prepare
from silobench.runs.experiment import bind
from silobench.training.state import RoundRecord


def work_seconds(record: RoundRecord) -> float:
    """What of a round, by the clock on the wall, any loop would have to do: training and testing. The rest is ours."""
    return record.seconds["train"] + record.seconds["evaluate"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("warm_up", type=int)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--algorithm", default="fedavg")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--eval-every", type=int)
    given = parser.parse_args()
    gate = Gate(given.warm_up)
    facts = read_facts(given.folder)
    workload = facts["workload"]
    epochs = given.epochs or workload["epochs"]
    choices = {
        "dataset": facts["spec"],
        "partition": "iid",
        "parties": workload["parties"],
        "participation": workload["cohort"],
        "model": workload["model"],
        "algorithm": given.algorithm,
        "solver": f"sgd(lr={LR}, momentum={MOMENTUM}, weight_decay=0, epochs={epochs}, batch={workload['batch']})",
        "rounds": 10**9,
        "eval_every": given.eval_every or workload["eval_every"],
        "seed": SEED,
    }
    with tempfile.TemporaryDirectory() as out:
        for record in execute(prepare(bind(choices)), Path(out), given.engine):
            gate.lap(record.accuracy, work_seconds(record))


if __name__ == "__main__":
    main()
