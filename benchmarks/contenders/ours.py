"""silobench as a user runs it: choices are bound, prepared and executed into a run directory."""

import argparse
import tempfile
from pathlib import Path

from contenders.gate import Gate
from silobench.runs.execute import execute
from silobench.runs.experiment import bind
from silobench.runs.prepare import prepare
from silobench.training.state import RoundRecord
from workloads import LR, MOMENTUM, SEED, read_facts


def work_seconds(record: RoundRecord) -> float:
    """Return the wall-clock time of training and testing; the rest of a round is silobench's overhead."""
    return record.seconds["train"] + record.seconds["evaluate"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("warm_up", type=int)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--algorithm", default="fedavg")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--eval-every", type=int)
    options = parser.parse_args()
    gate = Gate(options.warm_up)
    facts = read_facts(options.folder)
    workload = facts["workload"]
    epochs = options.epochs or workload["epochs"]
    choices = {
        "dataset": facts["spec"],
        "partition": "iid",
        "parties": workload["parties"],
        "participation": workload["cohort"],
        "model": workload["model"],
        "algorithm": options.algorithm,
        "solver": f"sgd(lr={LR}, momentum={MOMENTUM}, weight_decay=0, epochs={epochs}, batch={workload['batch']})",
        "rounds": 10**9,
        "eval_every": options.eval_every or workload["eval_every"],
        "seed": SEED,
    }
    with tempfile.TemporaryDirectory() as out:
        for record in execute(prepare(bind(choices)), Path(out), options.engine):
            gate.lap(record.accuracy, work_seconds(record))


if __name__ == "__main__":
    main()
