"""LeNet with every normalisation: its sizes, what it computes, and that it trains."""

import pytest
import torch
from torch import Tensor, nn

from silobench.data import digits
from silobench.errors import ConfigError, SpecError
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.method.algorithms import fedavg
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.models import MODELS, Classifier, Network, Sizes
from silobench.tasks.task import task

NORMS = ["none", "batch", "group", "layer"]


def build(spec: str, shape: tuple[int, ...] = (3, 32, 32), classes: int = 10) -> Classifier:
    module = MODELS.build(spec).build(Sizes(shape, classes), 0)
    assert isinstance(module, Classifier)
    return module


@pytest.mark.parametrize("norm", NORMS)
def test_it_has_its_number_of_parameters_and_layers_to_read(norm: str) -> None:
    layout = Network(build(f"lenet(norm={norm})")).layout
    assert layout.trainable == 2432 + 25_632 + 51_264 + 10_250 + (norm != "none") * 2 * 128
    assert {name.split(".")[0] for name in layout.names} >= {"conv1", "conv2", "conv3", "out"}
    assert {name.split(".")[0] for name in layout.norms} == (set() if norm == "none" else {"norm1", "norm2", "norm3"})


def pooled(x: Tensor, largest: bool) -> Tensor:
    """The largest or the mean of each window of 3 x 3, in steps of two, of what the picture has of it."""
    height, width = x.shape[2:]
    windows = [[x[:, :, i : i + 3, j : j + 3] for j in range(0, width - 1, 2)] for i in range(0, height - 1, 2)]
    found = [[w.amax((2, 3)) if largest else w.mean((2, 3)) for w in line] for line in windows]
    return torch.stack([torch.stack(line, 2) for line in found], 2)


def normed(x: Tensor, norm: str) -> Tensor:
    rows, channels, *sides = x.shape
    shape = {
        "none": (-1, 1),
        "batch": (channels, -1),
        "group": (rows * channels // 2, -1),
        "layer": (rows, -1),
    }[norm]
    if norm == "none":
        return x
    flat = (x.transpose(0, 1) if norm == "batch" else x).reshape(shape)
    flat = (flat - flat.mean(1, keepdim=True)) / (flat.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
    return flat.view(channels, rows, *sides).transpose(0, 1) if norm == "batch" else flat.view(x.shape)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 8, 8), (2, 9, 15)])
def test_it_is_its_layers_one_after_the_other(norm: str, shape: tuple[int, int, int]) -> None:
    module, x = build(f"lenet(norm={norm})", shape).double(), torch.randn(4, *shape, dtype=torch.float64)
    seen = x
    for place in (1, 2, 3):
        seen = normed(module.get_submodule(f"conv{place}")(seen), norm)
        seen = pooled(seen.relu(), largest=place == 1)
    torch.testing.assert_close(module.features(x), seen.flatten(1))
    torch.testing.assert_close(module(x), module.get_submodule("out")(seen.flatten(1)))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 9, 17)])
def test_a_single_row_and_gradients(norm: str, shape: tuple[int, int, int]) -> None:
    module = build(f"lenet(norm={norm})", shape, classes=7)
    for rows in (1, 3):
        answer = module(torch.rand(rows, *shape))
        answer.square().sum().backward()
        assert answer.shape == (rows, 7)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize(
    ("spec", "shape", "message"),
    [
        ("lenet", (20,), "lenet needs images .* at least 8 x 8"),
        ("lenet", (3, 7, 32), "lenet needs images .* at least 8 x 8"),
        ("lenet(norm=grup)", (3, 32, 32), "norm"),
        ("lenet(norm=group, group_size=3)", (3, 32, 32), "32 channels cannot be divided into groups of 3"),
        ("lenet(norm=group, group_size=1)", (3, 32, 32), "group_size"),
    ],
)
def test_what_cannot_be_built_is_refused(spec: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises((ConfigError, SpecError), match=message):
        build(spec, shape)


@pytest.mark.parametrize("norm", NORMS)
def test_it_learns(norm: str) -> None:
    data, lr = digits(), 0.1 if norm == "none" else 0.02  # from torch's own weights it needs a while to come off
    method = Method(fedavg(), sgd(lr=lr, steps=30, batch=20, keep_momentum=True))
    setting = federate(data, "iid", 1, seed=0), task(f"lenet(norm={norm})", data)
    losses = [record.train_loss for record in rounds(method, *setting, rounds=4, eval_on=64)]
    assert losses[-1] < 0.7 * losses[0], losses


def test_its_convolutions_keep_their_biases() -> None:
    """LeNet with a normalisation is LeNet and these layers: a bias matters where a group has several channels."""
    module = build("lenet(norm=group)")
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Conv2d)]
    assert len(layers) == 3
    assert all(layer.bias is not None for layer in layers)
