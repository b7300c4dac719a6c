"""The recurrent network: PyTorch's numbers and gradients, its sizes, what it refuses, and that it trains."""

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import silobench as sb
from silobench.data.dataset import Dataset, Split
from silobench.errors import ConfigError
from silobench.models import MODELS, Classifier, Network, Sizes
from silobench.models.gru import GruLayer


def build(spec: str, shape: tuple[int, ...] = (12,), outputs: int = 12) -> Classifier:
    module = MODELS.build(spec).build(Sizes(shape, outputs), 0)
    assert isinstance(module, Classifier)
    return module


def torch_gru(module: nn.Module, numbers: int, hidden: int, layers: int) -> nn.GRU:
    """Return PyTorch's network with the weights of ours, in double precision."""
    other = nn.GRU(numbers, hidden, layers, batch_first=True).double()
    cells = [layer for layer in module.modules() if isinstance(layer, GruLayer)]
    for place, layer in enumerate(cells):
        for name, part in (("ih", layer.inputs), ("hh", layer.states)):
            for kind in ("weight", "bias"):
                getattr(other, f"{kind}_{name}_l{place}").data.copy_(getattr(part, kind).data)
    return other


@pytest.mark.parametrize(("shape", "layers"), [((5,), 1), ((12,), 2), ((4, 3), 3), ((1, 2), 2)])
def test_it_computes_what_pytorch_computes(shape: tuple[int, ...], layers: int) -> None:
    module = build(f"gru(hidden=6, layers={layers})", shape).double()
    numbers = shape[1] if len(shape) == 2 else 1
    other = torch_gru(module, numbers, 6, layers)
    x = torch.randn(7, *shape, dtype=torch.float64)

    def features(x: Tensor) -> Tensor:
        return other(x.reshape(7, shape[0], numbers))[0][:, -1]  # type: ignore[no-any-return]

    torch.testing.assert_close(module.features(x), features(x))
    weights = torch.randn(7, 6, dtype=torch.float64)
    (module.features(x) * weights).sum().backward()
    (features(x) * weights).sum().backward()
    cells = [layer for layer in module.modules() if isinstance(layer, GruLayer)]
    for place, layer in enumerate(cells):
        torch.testing.assert_close(layer.inputs.weight.grad, getattr(other, f"weight_ih_l{place}").grad)
        torch.testing.assert_close(layer.states.weight.grad, getattr(other, f"weight_hh_l{place}").grad)
        torch.testing.assert_close(layer.states.bias.grad, getattr(other, f"bias_hh_l{place}").grad)


def test_its_size() -> None:
    """Three gates of 64 units read a number or 64 of them, and 64 states, each with two biases; then 12 outputs."""
    first, second, out = 3 * 64 * (1 + 64 + 2), 3 * 64 * (64 + 64 + 2), 65 * 12
    assert Network(build("gru")).layout.trainable == first + second + out
    assert Network(build("gru(hidden=8, layers=1)", (12, 5), 3)).layout.trainable == 3 * 8 * (5 + 8 + 2) + 9 * 3


def test_other_weights_can_take_the_place_of_its_own() -> None:
    """Losses with two models (MOON) need this; nn.GRU would compute with its own weights."""
    network, other = Network(build("gru(hidden=4)")), Network(build("gru(hidden=4)"))
    other.params.mul_(2)
    x = torch.randn(3, 12)
    _, logits = network.answer(x, other.params)
    torch.testing.assert_close(logits, other.module(x))
    assert not torch.allclose(logits, copy.deepcopy(network).module(x))


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 4, 4)])
def test_images_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"gru needs rows of steps, .* but rows have shape .*: use cnn for images"):
        build("gru", shape)


def test_it_learns_the_order_of_steps() -> None:
    """The targets are the next two of a wave; the mean of a row does not tell whether it rises or falls."""
    draw = np.random.default_rng(0)
    phase = draw.uniform(0, 2 * np.pi, 600)[:, None]
    wave = np.sin(phase + 0.5 * np.arange(8)).astype(np.float32)
    splits = [Split(wave[rows, :6], wave[rows, 6:]) for rows in (slice(0, 400), slice(400, 600))]
    data = Dataset("waves", *splits, (), task="regression")
    federation, task = sb.federate(data, "iid", 2), sb.task("gru(hidden=16, layers=1)", data)
    method = sb.Method(sb.fedavg(), sb.SOLVERS.build("adam(lr=0.02, epochs=2, batch=32)"))
    *_, last = sb.rounds(method, federation, task, rounds=8, engine=sb.inline())
    assert last.metrics["r2"] > 0.95  # type: ignore[operator]
