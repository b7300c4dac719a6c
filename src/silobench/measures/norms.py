"""How much the inputs of normalisation layers differ between parties (Hsieh et al., ICML 2020, section 5.1)."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from silobench.engines import Engine
from silobench.errors import ConfigError
from silobench.federation import Party
from silobench.measures.measure import MEASURES, Findings, Measure
from silobench.measures.parties import periodic
from silobench.method.types import Count
from silobench.models.devices import seed_torch
from silobench.rng import stream
from silobench.tasks.task import Weights
from silobench.training.setting import Setting
from silobench.training.state import State

Statistics = Mapping[str, tuple[Tensor, Tensor]]  # by layer: mean and variance of every channel


@MEASURES.register
def norm_divergence(every: Count = 500, minibatches: Count = 100) -> Measure:
    """How much parties' minibatch means and variances differ, by layer and channel (Figure 4 of the quagmire study).

        ‖μ_0 - μ_1‖ / ‖mean(μ_0, μ_1)‖,    the mean over all pairs of parties where there are more than two

    A party's μ is the mean output of a convolution over `minibatches` of its training rows: the input of a
    normalisation layer after it, whether or not there is one. The paper takes the minibatches of training.
    """

    def look(setting: Setting, engine: Engine, state: State) -> Findings:
        parties = setting.federation.parties
        models = [setting.model_at(state.server, state.memory.get(party.id, {})) for party in parties]
        statistics = [
            _statistics(setting, party, model, minibatches, state.server.round)
            for party, model in zip(parties, models, strict=True)
        ]
        return {
            kind: {layer: _differences([of[layer][place] for of in statistics]) for layer in statistics[0]}
            for place, kind in enumerate(("mean", "variance"))
        }

    return periodic(every, look, _check)


def _check(setting: Setting, cohort: int) -> None:
    parties = len(setting.federation.parties)
    if parties < 2:
        raise ConfigError(
            f"norm-divergence compares the minibatches of parties, but there is {parties} party: use two parties or "
            "more, or leave the measure out."
        )
    if not _convolutions(setting.task.network.module):
        raise ConfigError(
            "norm-divergence measures the outputs of convolutions, but this model has no convolution: choose a model "
            "with convolutions, such as cnn, or leave the measure out."
        )


def _convolutions(module: nn.Module) -> list[tuple[str, nn.Module]]:
    return [(name, layer) for name, layer in module.named_modules() if isinstance(layer, nn.Conv2d)]


def _statistics(setting: Setting, party: Party, model: Weights, minibatches: int, now: int) -> Statistics:
    """Return mean and variance of every convolution's output, over some minibatches of a party's rows."""
    network, batch = setting.task.network, min(setting.method.solver.batch or party.samples, party.samples)
    network.params.copy_(model[0])
    network.buffers.copy_(model[1])
    rng = stream(setting.seed, "norm divergence", now, party.id)
    by_layer: dict[str, list[tuple[Tensor, Tensor]]] = {}
    with _recording(network.module, by_layer), torch.random.fork_rng(devices=[]):
        seed_torch(0)  # for a network that draws numbers while it trains
        for _ in range(minibatches):
            rows = torch.from_numpy(rng.choice(party.rows.numpy(), batch, replace=False))
            network.module(setting.federation.batch(rows)[0])  # in training mode: a test may compute something else
    network.buffers.copy_(model[1])  # running statistics moved meanwhile
    return {layer: _means(of) for layer, of in by_layer.items()}


def _means(of: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    means, variances = zip(*of, strict=True)
    return torch.stack(means).mean(0), torch.stack(variances).mean(0)


@contextmanager
def _recording(module: nn.Module, by_layer: dict[str, list[tuple[Tensor, Tensor]]]) -> Iterator[None]:
    """Record mean and variance of every channel of every convolution meanwhile."""

    def note(name: str, output: Tensor) -> None:
        variance, mean = torch.var_mean(output.detach(), (0, 2, 3), correction=0)
        by_layer.setdefault(name, []).append((mean.cpu(), variance.cpu()))

    hooks = [
        layer.register_forward_hook(lambda _layer, _input, output, name=name: note(name, output))
        for name, layer in _convolutions(module)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _differences(vectors: list[Tensor]) -> list[float | None]:
    """Return the mean over pairs of |a - b| / |(a + b) / 2| by channel; None where all are 0."""
    pairs = [(a, b) for place, a in enumerate(vectors) for b in vectors[:place]]
    ratios = torch.stack([(a - b).abs() / ((a + b) / 2).abs() for a, b in pairs]).double().mean(0)
    return [ratio if math.isfinite(ratio) else None for ratio in ratios.tolist()]
