"""Flower's simulation (flwr in Ray), as its tutorials write it, with the maths of the other contenders.

Settings: FedAvg weighted by each client's number of rows (`num-examples`, Flower's default); all clients take part, or
a cohort drawn without replacement (`fraction_train`, `min_train_nodes`); a new SGD optimizer at the start of each
client's round, so momentum restarts; rows in a new order each epoch, with the last short batch. The server tests the
model (`evaluate_fn`), and clients do not (`fraction_evaluate=0`). One core per client process (`num_cpus=1`; with
Flower's default of 2, two cores would run one process). Clients keep their rows in memory between rounds.
"""

import os
import sys
from functools import cache
from pathlib import Path

os.environ["FLWR_TELEMETRY_ENABLED"] = os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch import Tensor

from contenders.gate import Gate
from contenders.networks import build, tensors
from contenders.plain import evaluate, train
from workloads import Material, read

FOLDER = "SILOBENCH_BENCH_FOLDER"  # passes the folder of the material to client processes
client = ClientApp()


@cache
def material() -> Material:
    return read(Path(os.environ[FOLDER]))


@cache
def model() -> torch.nn.Module:
    return build(material())


@cache
def party(number: int) -> tuple[Tensor, Tensor]:
    return tensors(material().party(number))


@client.train()
def train_client(message: Message, context: Context) -> Message:
    x, y = party(int(context.node_config["partition-id"]))
    model().load_state_dict(message.content["arrays"].to_torch_state_dict())
    train(model(), x, y, material().workload.epochs, material().workload.batch)
    metrics = MetricRecord({"num-examples": len(y)})
    content = RecordDict({"arrays": ArrayRecord(model().state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=message)


def main(folder: Path, warm_up: int) -> None:
    os.environ[FOLDER] = str(folder)
    gate = Gate(warm_up)
    workload = material().workload
    test = tensors(material().test)
    server = ServerApp()

    def after_round(done: int, arrays: ArrayRecord) -> MetricRecord | None:
        if not done:  # Flower also calls this before the first round
            return None
        accuracy = None
        if material().evaluates(done):
            model().load_state_dict(arrays.to_torch_state_dict())
            accuracy = evaluate(model(), *test)
        try:
            gate.lap(accuracy)
        except SystemExit:
            os._exit(0)  # ends all threads of the simulation; bench.py ends Ray's processes
        return None

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = FedAvg(
            fraction_train=workload.cohort / workload.parties,
            fraction_evaluate=0.0,
            min_train_nodes=workload.cohort,
            min_available_nodes=workload.parties,
        )
        arrays = ArrayRecord(model().state_dict())
        strategy.start(grid=grid, initial_arrays=arrays, num_rounds=10**9, evaluate_fn=after_round)

    run_simulation(
        server_app=server,
        client_app=client,
        num_supernodes=workload.parties,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"_temp_dir": os.path.realpath("."), "log_to_driver": False},
        },
    )


if __name__ == "__main__":
    # Imported by name, so that client processes import this module and share its caches instead of receiving a copy.
    from contenders import flower

    flower.main(Path(sys.argv[1]), int(sys.argv[2]))
