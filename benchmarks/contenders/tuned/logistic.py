"""Logistic regression for small parties: the whole cohort stacked, in one process with torch's threads.

A round takes less than a millisecond, too short to synchronise two processes. Times on two cores, in ms per round: this
0.63 (on one thread 1.03); with separate weights and bias 0.75; in the space of samples, where the steps need only inner
products of rows, 0.97, and 0.84 if these are cached between the rounds of a party.
"""

import numpy as np
import torch
from torch import Tensor

from contenders.gate import Gate
from contenders.networks import tensors
from contenders.tuned.stack import one_hot
from workloads import LR, MOMENTUM, Material


@torch.inference_mode()
def run(material: Material, gate: Gate) -> None:
    workload = material.workload
    x, y = tensors(material.train.take(np.concatenate(material.parties)))
    x = torch.cat([x.flatten(1), torch.ones(len(x), 1)], 1)  # the bias is one more weight
    targets = one_hot(y, material.classes)
    test = tensors(material.test)

    size = len(material.parties[0])  # all are of this size
    cohort, inputs, classes = workload.cohort, x.shape[1], material.classes
    weight, bias = torch.from_numpy(material.initial).split([classes * (inputs - 1), classes])
    model = torch.cat([weight.view(classes, -1), bias[:, None]], 1)
    weights, velocity = torch.empty(cohort, classes, inputs), torch.empty(cohort, classes, inputs)
    gathered, wanted = torch.empty(cohort * size, inputs), torch.empty(cohort * size, classes)
    batches = list(
        zip(
            gathered.view(cohort, size, inputs).split(workload.batch, 1),
            wanted.view(cohort, size, classes).split(workload.batch, 1),
            strict=True,
        )
    )
    for done, parties in enumerate(material.cohorts(), 1):
        weights.copy_(model)
        velocity.zero_()
        for _ in range(workload.epochs):
            rows = (torch.rand(cohort, size).argsort(1) + torch.tensor(parties)[:, None] * size).flatten()
            torch.index_select(x, 0, rows, out=gathered)
            torch.index_select(targets, 0, rows, out=wanted)
            for inputs_, targets_ in batches:
                delta = torch.softmax(torch.bmm(inputs_, weights.transpose(1, 2)), 2).sub_(targets_)
                share = 1 / inputs_.shape[1]
                velocity.baddbmm_(delta.transpose(1, 2), inputs_, beta=MOMENTUM, alpha=share)
                weights.add_(velocity, alpha=-LR)
        torch.mean(weights, 0, out=model)
        gate.lap(_accuracy(model, *test) if material.evaluates(done) else None)


def _accuracy(model: Tensor, x: Tensor, y: Tensor) -> float:
    return float((torch.addmm(model[:, -1], x.flatten(1), model[:, :-1].t()).argmax(1) == y).float().mean())
