"""Deep networks: their sizes, what they accept, and that every normalisation trains."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from silobench.data import digits
from silobench.errors import ConfigError, SpecError
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.method.algorithms import fedavg
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.models import MODELS, Classifier, Network, Sizes
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run
from silobench.tasks.task import task

NORMS = ["batch", "group", "layer", "none"]
SMALL = ["vgg9", *(f"resnet(depth=20, norm={norm})" for norm in NORMS)]


def build(spec: str, shape: tuple[int, ...] = (3, 32, 32), classes: int = 10) -> nn.Module:
    return MODELS.build(spec).build(Sizes(shape, classes), 0)


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ("resnet(depth=18)", 11_173_962),
        ("resnet(depth=20)", 269_722),
        ("resnet(depth=50)", 23_520_842),
        # convolutions; 4096 - 512 - 512 - 10
        ("vgg9", 896 + 18_496 + 73_856 + 147_584 + 295_168 + 590_080 + 4097 * 512 + 513 * 512 + 513 * 10),
    ],
)
def test_they_have_the_known_numbers_of_parameters(spec: str, count: int) -> None:
    assert sum(p.numel() for p in build(spec).parameters()) == count


@pytest.mark.parametrize(
    ("spec", "shape"),
    [*((spec, shape) for spec in SMALL for shape in [(1, 8, 8), (1, 28, 28), (3, 9, 17)])]
    + [(spec, (1, 8, 8)) for spec in ("resnet", "resnet(norm=group, group_size=4)")],
)
def test_any_image_from_eight_pixels_and_batches_of_one(spec: str, shape: tuple[int, int, int]) -> None:
    """A last batch of one row must not stop a training; on 8 x 8 pixels it has one value per channel at the end."""
    module = build(spec, shape, classes=7)
    assert isinstance(module, Classifier)
    for rows in (1, 2):
        answer = module(torch.rand(rows, *shape))
        answer.sum().backward()
        assert answer.shape == (rows, 7)
        assert answer.isfinite().all()
    assert module.features(torch.rand(2, *shape)).shape[0] == 2


def test_a_single_value_is_normalised_by_running_statistics() -> None:
    module = build("resnet", (1, 8, 8))
    layer = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)][-1]
    layer.running_mean.fill_(2.0)
    layer.running_var.fill_(4.0)
    alone = layer(torch.full((1, 512, 1, 1), 6.0))
    torch.testing.assert_close(alone, torch.full_like(alone, 2.0), rtol=1e-5, atol=1e-5)
    assert (layer.running_mean == 2).all()


@pytest.mark.parametrize("spec", ["vgg9", "resnet"])
@pytest.mark.parametrize("shape", [(20,), (28, 28), (1, 7, 7), (3, 32, 4)])
def test_what_is_no_picture_or_too_small_is_refused(spec: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=f"{spec} needs images .* at least 8 x 8"):
        build(spec, shape)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("resnet(depth=19)", "depth"),
        ("resnet(norm=grup)", "norm"),
        ("resnet(norm=group, group_size=1)", "group_size"),
        ("resnet(norm=group, group_size=3)", "16|64 channels cannot be divided into groups of 3"),
    ],
)
def test_what_cannot_be_built_is_refused(spec: str, message: str) -> None:
    with pytest.raises((ConfigError, SpecError), match=message):
        build(spec)


@pytest.mark.parametrize(
    ("norm", "kind", "buffers"),
    [("batch", nn.BatchNorm2d, True), ("group", nn.GroupNorm, False), ("layer", nn.GroupNorm, False)],
)
def test_the_norm_argument_chooses_the_normalisation(norm: str, kind: type[nn.Module], buffers: bool) -> None:
    module = build(f"resnet(depth=20, norm={norm})")
    layers = [layer for layer in module.modules() if isinstance(layer, kind)]
    assert len(layers) == 19
    groups = {"group": [8, 16, 32], "layer": [1]}.get(norm)
    assert groups is None or sorted({layer.num_groups for layer in layers}) == groups
    layout = Network(module).layout
    assert (layout.size > layout.trainable) == buffers
    trained = [name for name in layout.norms if layout.slices[name].stop <= layout.trainable]
    assert len(trained) == 2 * 19


def test_without_normalisation_every_block_begins_as_the_identity() -> None:
    module = build("resnet(depth=20, norm=none)")
    assert not Network(module).layout.norms
    x = torch.rand(2, 16, 8, 8)
    assert torch.equal(module.get_submodule("blocks.1")(x), x)  # which is positive, as after a ReLU


@pytest.mark.parametrize(
    ("spec", "scale"), [(spec, 2.4 if spec == "vgg9" else 1.0) for spec in SMALL if "layer" not in spec]
)
def test_each_learns(spec: str, scale: float) -> None:
    """Normalisation by layer is that of one group. From torch's own weights VGG-9 needs hundreds of steps before it
    learns anything, so its weights begin at He et al.'s size.
    """
    data = digits()
    federation, its_task = federate(data, "iid", 1, seed=0), task(spec, data)
    its_task = replace(its_task, initial=scale * its_task.initial)
    method = Method(fedavg(), sgd(lr=0.01 if spec == "vgg9" else 0.05, steps=30, batch=16, keep_momentum=True))
    losses = [record.train_loss for record in rounds(method, federation, its_task, rounds=4, eval_on=64)]
    assert losses[-1] < 0.7 * losses[0], losses


def test_a_gradient_in_a_message_draws_from_the_stream_of_the_party(tmp_path: Path) -> None:
    """SCAFFOLD's option 1 runs the network once more: what dropout draws there must not depend on who drew before."""
    found = []
    for name in ("a", "b"):
        cell = {"dataset": "digits", "model": "vgg9", "algorithm": "scaffold(option=1)", "parties": 3, "rounds": 1}
        (planned,) = plan({**cell, "solver": "sgd(lr=0.01, steps=1, batch=8)"})
        torch.rand(len(found) + 1)
        list(execute(prepare(planned), tmp_path / name))
        found.append(read_run(tmp_path / name / planned.id).facts.state_sha256)
    assert found[0] == found[1]


@pytest.mark.parametrize("norm", ["batch", "group", "none"])
def test_a_residual_network_has_the_bits_of_plain_operations(norm: str) -> None:
    """Its sums and ReLUs overwrite their inputs, which no gradient needs."""
    module, x = build(f"resnet(depth=20, norm={norm})", (3, 16, 16)), torch.rand(4, 3, 16, 16)

    def plain() -> torch.Tensor:
        hidden = nn.functional.relu(module.get_submodule("stem")(x))
        for block in module.get_submodule("blocks").children():
            first, last = block.get_submodule("parts").children()
            hidden = nn.functional.relu(last(nn.functional.relu(first(hidden))) + block._short(hidden))
        return module.last(hidden.mean((2, 3)))

    answers = [module(x), plain()]
    assert torch.equal(*answers)
    gradients = [torch.autograd.grad(answer.square().sum(), list(module.parameters())) for answer in answers]
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
