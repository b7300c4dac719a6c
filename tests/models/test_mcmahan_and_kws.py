"""Networks of single papers: their sizes, what they compute, the windows they look through, and that they train."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from commands import call, write
from silobench.data import digits
from silobench.data.augment import random_windows
from silobench.errors import ConfigError, SpecError
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.method.algorithms import fedavg
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.models import MODELS, Classifier, Network, Sizes
from silobench.models.mcmahan import local_response_norm
from silobench.runs.stored import read_runs
from silobench.tasks.task import task


def build(spec: str, shape: tuple[int, ...] = (3, 32, 32), classes: int = 10) -> Classifier:
    module = MODELS.build(spec).build(Sizes(shape, classes), 0)
    assert isinstance(module, Classifier)
    return module


@pytest.mark.parametrize(
    ("spec", "shape", "count"),
    [
        ("mcmahan-mnist", (1, 28, 28), 1_663_370),  # the paper's
        ("mcmahan_mnist", (1, 8, 8), 832 + 51_264 + (64 * 4 + 1) * 512 + 5130),
        ("mcmahan-cifar", (3, 24, 24), 1_068_298),
        ("mcmahan-cifar", (3, 32, 32), 1_068_298),
        ("mcmahan-cifar(crop=none)", (3, 32, 32), 4864 + 102_464 + (64 * 64 + 1) * 384 + 385 * 192 + 1930),
        ("mcmahan-cifar", (1, 5, 9), 1664 + 102_464 + (64 * 2 * 3 + 1) * 384 + 385 * 192 + 1930),
        # convolutions, low-rank layer on 16 x 4 steps of time and frequency, 128, classes
        ("kws", (1, 50, 10), 1148 + 33_630 + (64 * 30 + 1) * 16 + 17 * 128 + 1290),
        ("kws(size=medium)", (1, 50, 10), 2624 + 122_928 + (64 * 48 + 1) * 16 + 17 * 128 + 1290),
        ("kws(size=large)", (1, 50, 10), 2460 + 182_476 + (64 * 76 + 1) * 58 + 59 * 128 + 1290),
        ("kws(norm=batch)", (1, 50, 10), 68_980 + 2 * (28 + 30 + 128)),
    ],
)
def test_they_have_the_papers_numbers_of_parameters(spec: str, shape: tuple[int, ...], count: int) -> None:
    assert Network(build(spec, shape)).layout.trainable == count


def test_their_layers_have_names_to_read() -> None:
    for spec, shape, layers in (
        ("mcmahan-mnist", (1, 28, 28), "conv1 conv2 fc1 out"),
        ("mcmahan-cifar", (3, 32, 32), "conv1 conv2 fc1 fc2 out"),
        ("kws", (1, 50, 10), "conv1 conv2 low_rank fc1 out"),
    ):
        names = Network(build(spec, shape)).layout.names
        assert list(names) == [f"{layer}.{kind}" for layer in layers.split() for kind in ("weight", "bias")]


# --- what they compute -------------------------------------------------------------------------------


def convolved(x: Tensor, layer: nn.Module, padding: int, stride: tuple[int, int] = (1, 1)) -> Tensor:
    """A convolution as the sum over places of its kernel, written out."""
    weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
    x = F.pad(x, (padding, padding, padding, padding))
    high, wide = (x.shape[2 + i] - weight.shape[2 + i] + 1 for i in (0, 1))
    total = bias[None, :, None, None]
    for down in range(weight.shape[2]):
        for right in range(weight.shape[3]):
            seen = x[:, :, down : down + high : stride[0], right : right + wide : stride[1]]
            total = total + torch.einsum("nchw,oc->nohw", seen, weight[:, :, down, right])
    return total


def pooled(x: Tensor, side: int) -> Tensor:
    """TensorFlow's max pool in steps of two, "same": what is missing to the last window, half of it before."""
    ends: list[int] = []
    for length in (x.shape[3], x.shape[2]):
        missing = max((-(-length // 2) - 1) * 2 + side - length, 0)
        ends += [missing // 2, missing - missing // 2]
    x = F.pad(x, ends, value=-torch.inf).unfold(2, side, 2).unfold(3, side, 2)
    return x.amax((-1, -2))


def normed_by_hand(x: Tensor) -> Tensor:
    found = torch.empty_like(x)
    for channel in range(x.shape[1]):
        near = x[:, max(channel - 4, 0) : channel + 5]
        found[:, channel] = x[:, channel] / (1 + 0.001 / 9 * (near**2).sum(1)) ** 0.75
    return found


def dense(x: Tensor, layer: nn.Module) -> Tensor:
    return x @ layer.get_parameter("weight").T + layer.get_parameter("bias")


def close(found: Tensor, expected: Tensor) -> None:
    assert expected.std() > 1e-3
    torch.testing.assert_close(found, expected)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("shape", [(1, 28, 28), (1, 8, 8), (2, 4, 12)])
def test_mcmahans_network_for_mnist_is_its_layers_one_after_the_other(shape: tuple[int, int, int]) -> None:
    module, x = build("mcmahan-mnist", shape), torch.randn(3, *shape)
    first = pooled(convolved(x, module.get_submodule("conv1"), 2), 2).relu()
    second = pooled(convolved(first, module.get_submodule("conv2"), 2), 2).relu()
    features = dense(second.flatten(1), module.get_submodule("fc1")).relu()
    close(module.features(x), features)
    close(module(x), dense(features, module.get_submodule("out")))
    with torch.no_grad():
        close(module(x), dense(features, module.get_submodule("out")))


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("norm", ["true", "false"])
@pytest.mark.parametrize("shape", [(3, 24, 24), (1, 9, 14), (3, 2, 1)])
def test_the_tutorials_network_is_its_layers_one_after_the_other(norm: str, shape: tuple[int, int, int]) -> None:
    module = build(f"mcmahan-cifar(crop=none, standardise=false, response_norm={norm})", shape)
    normed = normed_by_hand if norm == "true" else lambda x: x
    x = 20 * torch.randn(3, *shape)  # so large that the normalisation matters
    first = normed(pooled(convolved(x, module.get_submodule("conv1"), 2).relu(), 3))
    second = pooled(normed(convolved(first, module.get_submodule("conv2"), 2).relu()), 3)
    features = dense(dense(second.flatten(1), module.get_submodule("fc1")).relu(), module.get_submodule("fc2")).relu()
    close(module(x), dense(features, module.get_submodule("out")))


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("shape", [(1, 50, 10), (1, 19, 7), (2, 28, 28)])
def test_the_network_of_hello_edge_is_its_layers_one_after_the_other(shape: tuple[int, int, int]) -> None:
    module, x = build("kws", shape), torch.randn(3, *shape)
    first = convolved(x, module.get_submodule("conv1"), 0).relu()
    second = convolved(first, module.get_submodule("conv2"), 0, (2, 1)).relu()
    low = dense(second.flatten(1), module.get_submodule("low_rank"))
    features = dense(low, module.get_submodule("fc1")).relu()
    close(module.features(x), features)
    close(module(x), dense(features, module.get_submodule("out")))


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("channels", [1, 6, 64])
def test_response_normalisation_is_torchs_and_the_formulas(channels: int) -> None:
    """Torch divides alpha by the size of the window, 9; TensorFlow, whose formula is written out here, does not."""
    x = 30 * torch.randn(2, channels, 3, 4)
    found = []
    for norm in (local_response_norm, normed_by_hand, nn.LocalResponseNorm(9, alpha=0.001, beta=0.75, k=1.0)):
        image = x.clone().requires_grad_()
        out = norm(image)
        (out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
        found.append((out.detach(), image.grad))
    assert (found[0][0] / x).min() < 0.97  # it does something
    for values, gradient in found[1:]:
        torch.testing.assert_close(found[0][0], values)
        torch.testing.assert_close(found[0][1], gradient)


@pytest.mark.usefixtures("in_double")
def test_batch_normalisation_precedes_every_relu_and_reads_a_single_row() -> None:
    module = build("kws(norm=batch)", (1, 50, 10))
    layout = Network(module).layout
    assert {name.split(".")[0] for name in layout.norms} == {"norm1", "norm2", "norm3"}
    assert module(torch.randn(1, 1, 50, 10)).isfinite().all()
    x = torch.randn(40, 1, 50, 10)
    features = module.features(x)
    normed = F.batch_norm(
        dense(_low(module, x), module.get_submodule("fc1")), torch.zeros(128), torch.ones(128), training=True
    )
    torch.testing.assert_close(features, normed.relu())


def _low(module: nn.Module, x: Tensor) -> Tensor:
    for place in "12":
        layer = module.get_submodule(f"conv{place}")
        x = convolved(x, layer, 0, (int(place), 1))
        x = F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1]), training=True).relu()
    return dense(x.flatten(1), module.get_submodule("low_rank"))


# --- what they look at -------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_double")
def test_pictures_are_standardised_one_by_one_after_the_cut() -> None:
    torch.manual_seed(0)
    module = build("mcmahan-cifar").eval()
    plain = build("mcmahan-cifar(crop=none, standardise=false)", (3, 24, 24))
    x = torch.rand(4, 3, 32, 32)
    x[3] = 0.5  # no deviation: divided by 1/sqrt(3 · 24 · 24)
    x[2] = 0.5 + 1e-3 * x[2]
    seen = x[:, :, 4:28, 4:28]
    by_hand = []
    for picture in seen:
        deviation = ((picture - picture.mean()) ** 2).mean().sqrt()
        by_hand.append((picture - picture.mean()) / max(deviation.item(), 1 / np.sqrt(1728)))
    torch.testing.assert_close(module(x), plain(torch.stack(by_hand)))


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 9, 12)])
def test_a_test_looks_at_the_middle_and_draws_nothing(shape: tuple[int, int, int]) -> None:
    side = 8
    module = build(f"mcmahan-cifar(crop={side})", shape).eval()
    x, before = torch.rand(5, *shape), torch.get_rng_state()
    answer = module(x)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(answer, module(x))
    top, left = (shape[1] - side) // 2, (shape[2] - side) // 2
    beyond = torch.rand_like(x)
    beyond[:, :, top : top + side, left : left + side] = x[:, :, top : top + side, left : left + side]
    assert torch.equal(answer, module(beyond))


def test_training_looks_through_windows_that_the_generator_decides() -> None:
    module, x = build("mcmahan-cifar"), torch.rand(5, 3, 32, 32)
    answers = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        answers.append(module(x))
    assert torch.equal(answers[0], answers[1])
    assert not torch.equal(answers[0], answers[2])
    torch.manual_seed(5)
    seen = random_windows(x, 24)
    assert torch.equal(answers[0], build("mcmahan-cifar(crop=none)", (3, 24, 24))(seen))


def test_every_window_occurs_about_equally_often() -> None:
    torch.manual_seed(1)
    image = torch.arange(20.0).reshape(1, 4, 5)
    views = [image[:, y : y + 3, x : x + 3] for y in range(2) for x in range(3)]
    seen = random_windows(image.expand(6000, 1, 4, 5), 3)
    counts = [int((seen == view).flatten(1).all(1).sum()) for view in (*views, *(view.flip(2) for view in views))]
    assert sum(counts) == 6000
    assert min(counts) > 400  # 500 each are expected, with a standard deviation of 21
    assert max(counts) < 600


@pytest.mark.parametrize(
    ("spec", "shape"),
    [("mcmahan-cifar", (1, 8, 8)), ("mcmahan-cifar", (3, 23, 40)), ("mcmahan-cifar(crop=none)", (3, 32, 32))],
)
def test_small_pictures_and_all_without_a_crop_are_taken_whole_and_as_they_are(
    spec: str, shape: tuple[int, int, int]
) -> None:
    module, x, before = build(spec, shape), torch.rand(3, *shape), torch.get_rng_state()
    assert torch.equal(module(x), module.eval()(x))
    assert torch.equal(torch.get_rng_state(), before)


# --- what they refuse --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "shape", "message"),
    [
        ("mcmahan-mnist", (20,), "mcmahan-mnist needs images .* at least 4 x 4 .*20.*use mlp or linear"),
        ("mcmahan-mnist", (1, 3, 28), "at least 4 x 4"),
        ("mcmahan-cifar", (28, 28), "mcmahan-cifar needs images"),
        ("kws", (500,), "kws needs sounds .* at least 19 x 7 .*500.*: use cnn"),
        ("kws", (50, 10), "kws needs sounds"),
        ("kws", (1, 8, 8), "kws needs sounds"),
        ("kws", (1, 18, 10), "kws needs sounds"),
        ("kws", (1, 50, 6), "kws needs sounds"),
        ("kws(size=tiny)", (1, 50, 10), "size"),
        ("kws(norm=grup)", (1, 50, 10), "norm"),
        ("mcmahan-cifar(crop=0)", (3, 32, 32), "crop"),
    ],
)
def test_what_cannot_be_built_is_refused(spec: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises((ConfigError, SpecError), match=message):
        build(spec, shape)


# --- that they train ---------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], folder: Path, text: str) -> list[float]:
    """The accuracies of an experiment's rounds."""
    result = call(capsys, "run", write(folder / "e.toml", text), "--workers", "1", "--out", folder / "runs")
    assert result.code == 0, result.err
    (stored,) = read_runs(folder / "runs")
    return [row.accuracy for row in stored.rounds]


@pytest.mark.parametrize("model", ["mcmahan-mnist", "mcmahan-cifar"])
def test_the_networks_for_pictures_learn_digits(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        f'dataset = "digits"\nmodel = "{model}"\nparties = 2\nsolver = "sgd(lr=0.02, steps=40, batch=16)"\nrounds = 3'
    )
    accuracies = run(capsys, tmp_path, text)
    assert accuracies[-1] > max(0.75, accuracies[0]), accuracies


def test_the_windows_of_a_run_depend_on_its_seed_and_not_on_what_was_drawn_before() -> None:
    data = digits()
    federation, method = federate(data, "iid", 2, seed=0), Method(fedavg(), sgd(steps=2, batch=8))
    ends = []
    for state in (1, 2):
        torch.manual_seed(state)
        (record,) = rounds(method, federation, task("mcmahan-cifar(crop=6)", data), rounds=1, eval_on=8)
        ends.append(record.state.server.params)
    assert torch.equal(*ends)


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_the_network_for_sounds_learns(norm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    tones = rng.normal(size=(3, 1, 50, 10))
    x = (3 * tones[y] + rng.normal(size=(240, 1, 50, 10))).astype(np.float32)
    np.savez(tmp_path / "tones.npz", x=x, y=y)
    text = f'dataset = "npz(path={tmp_path / "tones.npz"})"\nmodel = "kws(norm={norm})"\nparties = 2\n'
    accuracies = run(capsys, tmp_path, text + 'solver = "sgd(lr=0.05, epochs=2, batch=10)"\nrounds = 3')
    assert accuracies[-1] > 0.8, accuracies
