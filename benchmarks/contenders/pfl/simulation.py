"""One process of pfl's simulation."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contenders.gate import Gate
from contenders.networks import build, tensors
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
from pfl.internal import ops
from pfl.metrics import Metrics, StringMetricName, Weighted
from pfl.model.pytorch import PyTorchModel
from workloads import LR, MOMENTUM, Material, read


class Classifier(nn.Module):
    """A network with the loss and the metrics that pfl requires."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.network(x), y)

    @torch.no_grad()
    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Weighted]:
        return {"accuracy": Weighted(int((self.network(x).argmax(1) == y).sum()), len(y))}


class Shuffled(PyTorchTensorDataset):
    """A user's rows, in a new order in every epoch."""

    def iter(self, batch_size: int | None) -> Iterator[list[Tensor]]:
        x, y = self.raw_data
        for rows in torch.randperm(len(y)).split(batch_size or len(y)):
            yield [x[rows], y[rows]]


class Central(TrainingProcessCallback):
    """Test the model when due, and pass the gate after each round; the other processes wait for the first."""

    def __init__(self, material: Material, gate: Gate | None) -> None:
        self.material, self.gate = material, gate
        whole = PyTorchTensorDataset(tensors(material.test))
        self.test = whole.get_worker_partition()

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration: int):
        accuracy = None
        if self.material.evaluates(central_iteration + 1):
            metrics = model.evaluate(self.test, eval_params=NNEvalHyperParams(local_batch_size=1000))
            metrics = ops.all_reduce_metrics(metrics)
            accuracy = float(metrics[StringMetricName("accuracy")].overall_value)
        if self.gate is not None:
            self.gate.lap(accuracy)
        if torch.distributed.is_initialized():
            torch.distributed.barrier()
        return False, Metrics()


def main(folder: Path, warm_up: int) -> None:
    rank = ops.get_ops().distributed.global_rank
    gate = Gate(warm_up) if rank == 0 else None
    material = read(folder)
    workload = material.workload
    torch.manual_seed(rank)
    users = [Shuffled(tensors(material.party(number))) for number in range(workload.parties)]
    cohorts = (user for cohort in material.cohorts() for user in cohort)
    training = FederatedDataset(users.__getitem__, lambda: next(cohorts))
    network = Classifier(build(material))
    model = PyTorchModel(
        network,
        local_optimizer_create=partial(torch.optim.SGD, momentum=MOMENTUM),
        central_optimizer=torch.optim.SGD(network.parameters(), lr=1.0),
    )
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=10**9,
            evaluation_frequency=10**9,
            train_cohort_size=workload.cohort,
            val_cohort_size=None,
        ),
        SimulatedBackend(training, training, postprocessors=[WeightByDatapoints()]),
        model,
        NNTrainHyperParams(local_num_epochs=workload.epochs, local_learning_rate=LR, local_batch_size=workload.batch),
        callbacks=[Central(material, gate)],
        send_metrics_to_platform=False,
    )
