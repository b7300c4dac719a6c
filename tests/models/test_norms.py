"""Normalisation in every network for pictures: what each kind computes, and how its statistics travel."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from silobench.data import digits
from silobench.engines.kernel.parties import can_run
from silobench.errors import ConfigError, SpecError
from silobench.federation import federate
from silobench.loop.loop import initial_state
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.models import MODELS, Classifier, Cnn, Network, Sizes
from silobench.models.norms import BatchNorm, BatchRenorm, BatchStats, norm_of
from silobench.runs.execute import execute
from silobench.runs.experiment import bind, plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run
from silobench.tasks.task import task
from silobench.training.party import LocalRound
from silobench.training.setting import Setting

Array = NDArray[np.float64]
NORMS = ["batch", "group", "layer", "batch-renorm", "batch-stats"]
MODELS_OF_PICTURES = {
    "cnn": 2, "vgg9": 6, "resnet(depth=20": 19, "lenet": 3, "mcmahan-mnist": 2, "mcmahan-cifar": 2, "kws": 3,
}  # fmt: skip


def build(spec: str, shape: tuple[int, ...] = (3, 32, 32), classes: int = 10, seed: int = 0) -> Classifier:
    module = MODELS.build(spec).build(Sizes(shape, classes), seed)
    assert isinstance(module, Classifier)
    return module


def with_norm(model: str, norm: str) -> str:
    return f"{model}, norm={norm})" if "(" in model else f"{model}(norm={norm})"


def norm_layers(module: nn.Module) -> list[nn.Module]:
    return [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d | nn.GroupNorm)]


# --- in every network --------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("model", MODELS_OF_PICTURES)
def test_every_network_has_every_normalisation(model: str, norm: str) -> None:
    shape = (1, 50, 10) if model == "kws" else (3, 32, 32)
    module = build(with_norm(model, norm), shape)
    layers = norm_layers(module)
    assert len(layers) == MODELS_OF_PICTURES[model]
    kind = {"batch": BatchNorm, "batch-renorm": BatchRenorm, "batch-stats": BatchStats}.get(norm, nn.GroupNorm)
    assert all(type(layer) is kind for layer in layers)
    layout = Network(module).layout
    assert len([name for name in layout.norms if layout.slices[name].stop <= layout.trainable]) == 2 * len(layers)
    assert (layout.size > layout.trainable) == (norm in ("batch", "batch-renorm"))
    for rows in (1, 4):  # a row alone too
        answer = module(torch.rand(rows, *shape))
        assert answer.isfinite().all()
    answer.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("model", [*MODELS_OF_PICTURES, "resnet", "resnet(depth=50"])
def test_weights_begin_as_they_do_without(model: str) -> None:
    """A normalisation draws nothing: weights are those of the network without one, but resnet's own choice."""
    shape = (1, 50, 10) if model == "kws" else (3, 32, 32)
    networks = [dict(build(with_norm(model, norm), shape).named_parameters()) for norm in ("group", "layer")]
    assert all(torch.equal(tensor, networks[1][name]) for name, tensor in networks[0].items())


def test_a_plain_cnn_is_the_one_that_engines_know_and_one_with_a_norm_is_not() -> None:
    plain, normed = build("cnn"), build("cnn(norm=batch)")
    assert isinstance(plain, Cnn)
    assert list(dict(plain.named_parameters())) == [
        f"{layer}.{kind}" for layer in ("conv1", "conv2", "fc1", "fc2", "out") for kind in ("weight", "bias")
    ]
    its = dict(normed.named_parameters())
    assert all(torch.equal(tensor, its[name]) for name, tensor in plain.named_parameters())
    data = digits()
    for spec, known in (("cnn", True), ("cnn(norm=none)", True), ("cnn(norm=group)", False)):
        method = Method(ALGORITHMS.build("fedavg"), sgd())
        assert can_run(Setting(method, federate(data, "iid", 2, seed=0), task(spec, data), 0)) == known


@pytest.mark.parametrize("name", ["cnn", "mcmahan-mnist"])
def test_a_norm_follows_each_convolution(name: str) -> None:
    module, x = build(f"{name}(norm=group)", (1, 28, 28)), torch.randn(3, 1, 28, 28)
    seen = x
    for place in "12":
        seen = module.get_submodule(f"norm{place}")(module.get_submodule(f"conv{place}")(seen))
        seen = nn.functional.max_pool2d(seen.relu(), 2)
    seen = module.get_submodule("fc1")(seen.flatten(1)).relu()
    seen = module.get_submodule("fc2")(seen).relu() if name == "cnn" else seen
    torch.testing.assert_close(module.features(x), seen)


def test_names_may_have_hyphens_or_underscores() -> None:
    a, b = (MODELS.bind(f"lenet(norm={name})") for name in ("batch-renorm", "batch_renorm"))
    assert str(a.full) == str(b.full) == "lenet(norm=batch-renorm, group_size=2)"
    assert MODELS.bind(str(a.full)).full == a.full
    assert str(MODELS.bind("cnn(norm=batch-renorm, renorm_from=9)").full) == "cnn(norm=batch-renorm, renorm_from=9)"


def test_arguments_that_came_later_do_not_name_runs_anew() -> None:
    assert bind({"dataset": "digits"}).config["model"] == "cnn"
    assert bind({"dataset": "digits", "model": "cnn(norm=none)"}).id == bind({"dataset": "digits"}).id
    assert bind({"dataset": "digits", "model": "cnn(norm=group)"}).id != bind({"dataset": "digits"}).id
    assert (
        bind({"dataset": "digits", "model": "resnet"}).config["model"] == "resnet(depth=18, norm=batch, group_size=2)"
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cnn(norm=group, group_size=4)", "6 channels cannot be divided into groups of 4: take a group_size"),
        ("cnn(norm=instance)", "norm must be"),
        ("vgg9(norm=batch-renorm, renorm_from=0)", "renorm_from"),
        ("kws(norm=grup)", "norm must be"),
    ],
)
def test_what_cannot_be_built_is_refused(spec: str, message: str) -> None:
    with pytest.raises((ConfigError, SpecError), match=message):
        build(spec)


# --- what they compute -------------------------------------------------------------------------------


def by_hand(x: Array, grad: Array, weight: Array, bias: Array, shape: tuple[int, ...], axes: tuple[int, ...]):
    """Normalised over `axes` of x seen as `shape`, and the gradients, as sums written out."""
    seen, wide = x.reshape(shape), (1, -1, 1, 1)
    mean = seen.mean(axes, keepdims=True)
    deviation = np.sqrt(((seen - mean) ** 2).mean(axes, keepdims=True) + 1e-5)
    normed = (seen - mean) / deviation
    flat = normed.reshape(x.shape)
    inner = (grad * weight.reshape(wide)).reshape(shape)
    of_x = inner - inner.mean(axes, keepdims=True) - normed * (inner * normed).mean(axes, keepdims=True)
    return (
        flat * weight.reshape(wide) + bias.reshape(wide),
        (of_x / deviation).reshape(x.shape),
        (grad * flat).sum((0, 2, 3)),
        grad.sum((0, 2, 3)),
    )


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("norm", "shape", "axes"),
    [
        ("batch", (5, 6, 3, 4), (0, 2, 3)),
        ("batch-renorm", (5, 6, 3, 4), (0, 2, 3)),
        ("batch-stats", (5, 6, 3, 4), (0, 2, 3)),
        ("group", (5, 3, 2, 3, 4), (2, 3, 4)),
        ("layer", (5, 6, 3, 4), (1, 2, 3)),
    ],
)
def test_values_and_gradients_by_hand(norm: str, shape: tuple[int, ...], axes: tuple[int, ...], memory) -> None:
    build_layer = norm_of(norm, group_size=2, renorm_from=5)
    assert build_layer is not None
    layer, rng = build_layer(6).double(), np.random.default_rng(0)
    x, grad = rng.normal(2.0, 3.0, (5, 6, 3, 4)), rng.normal(size=(5, 6, 3, 4))
    weight, bias = rng.normal(size=6), rng.normal(size=6)
    layer.load_state_dict({"weight": torch.from_numpy(weight), "bias": torch.from_numpy(bias)}, strict=False)
    image = torch.from_numpy(x).contiguous(memory_format=memory).requires_grad_()
    found = layer(image)
    found.backward(torch.from_numpy(grad))
    answers = [found, image.grad, layer.get_parameter("weight").grad, layer.get_parameter("bias").grad]
    for answer, expected in zip(answers, by_hand(x, grad, weight, bias, shape, axes), strict=True):
        torch.testing.assert_close(answer.detach(), torch.from_numpy(expected))


# --- BatchNorm without running statistics ------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
def test_batch_statistics_are_used_in_training_and_in_a_test(training: bool) -> None:
    layer, x = BatchStats(4).train(training), 2 + 3 * torch.randn(6, 4, 5, 5)
    with torch.no_grad():
        layer.weight.copy_(torch.rand(4))
        layer.bias.copy_(torch.rand(4))
        expected = nn.functional.batch_norm(x, None, None, layer.weight, layer.bias, training=True)
        assert torch.equal(layer(x), expected)
        assert not torch.allclose(layer(x[:3]), expected[:3])  # other rows matter
    assert not list(layer.buffers())


def test_a_single_value_is_its_own_mean() -> None:
    layer = BatchStats(3)
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([1.0, 2.0, 3.0]))
    x = torch.randn(1, 3, 1, 1, requires_grad=True)
    out = layer(x)
    rounding = 4 * torch.finfo(torch.float32).eps * layer.eps**-0.5 * x.abs().max().item()  # of value / deviation
    assert out.flatten().tolist() == pytest.approx([1.0, 2.0, 3.0], abs=rounding)
    out.sum().backward()
    assert x.grad is not None
    assert not x.grad.any()


def test_oarfs_network_has_its_number_of_parameters_and_no_statistics() -> None:
    network = Network(build("resnet(norm=batch-stats)"))
    assert (len(network.params), len(network.buffers)) == (11_173_962, 0)
    images = torch.rand(5, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(network.module(images), network.module.eval()(images))


def test_the_order_of_channels_is_a_matter_of_rounding() -> None:
    """Networks of earlier versions keep the order of theirs, and so their bits."""
    module, images = build("resnet(depth=20, norm=batch-stats)").double(), torch.rand(4, 3, 16, 16, dtype=torch.float64)
    answers = []
    for channels_last in (True, False):
        module.channels_last = channels_last  # type: ignore[assignment]
        answers.append(module(images))
    # 20 layers of sums of up to 576 products; a normalisation may enlarge errors, by less than 10 each
    assert (answers[0] - answers[1]).abs().max() < 20 * 576 * 10 * torch.finfo(torch.float64).eps
    for norm in ("batch", "group", "layer", "batch-renorm", "none"):
        assert not build(f"resnet(depth=20, norm={norm})").channels_last


# --- batch renormalisation ---------------------------------------------------------------------------


def test_renormalisation_begins_as_batch_normalisation() -> None:
    torch.manual_seed(0)
    layers = [BatchRenorm(4, begin=3), BatchNorm(4)]
    for step in range(5):
        x, grad = 2 + 3 * torch.randn(6, 4, 5, 5), torch.randn(6, 4, 5, 5)
        seen = []
        for layer in layers:
            image = x.clone().requires_grad_()
            out = layer(image)
            layer.zero_grad()
            out.backward(grad)
            seen.append((out, image.grad, layer.weight.grad, layer.bias.grad))
        same = [torch.equal(a, b) for a, b in zip(*seen, strict=True)]
        assert same == [step < 4] * 3 + [True], step  # the fourth has limits of 1 and 0; a bias knows of neither
        for name in ("running_mean", "running_var"):
            torch.testing.assert_close(layers[0].get_buffer(name), layers[1].get_buffer(name))
    assert layers[0].get_buffer("steps").item() == 5
    for layer in layers:
        layer.eval()
    torch.testing.assert_close(layers[0](x), layers[1](x))
    assert layers[0].get_buffer("steps").item() == 5


def renormed(
    x: Array,
    grad: Array,
    weight: Array,
    bias: Array,
    before: tuple[Array, Array],
    limits: tuple[float, float],
):
    """Algorithm 1 of Ioffe and its gradients as the paper writes them, value by value."""
    out, of_x = np.empty_like(x), np.empty_like(x)
    of_weight, clipped = np.zeros(x.shape[1]), np.zeros((x.shape[1], 2), dtype=bool)
    after = before[0].copy(), before[1].copy()
    for channel in range(x.shape[1]):
        values, its = x[:, channel], grad[:, channel]
        m, mean = values.size, values.mean()
        deviation, running = np.sqrt(values.var() + 1e-5), np.sqrt(before[1][channel] + 1e-5)
        exact = deviation / running, (mean - before[0][channel]) / running
        r, d = min(max(exact[0], 1 / limits[0]), limits[0]), min(max(exact[1], -limits[1]), limits[1])
        clipped[channel] = (r, d) != exact and [r != exact[0], d != exact[1]]
        normed = (values - mean) / deviation * r + d
        out[:, channel] = weight[channel] * normed + bias[channel]
        inner = its * weight[channel]
        of_deviation = (inner * (values - mean)).sum() * -r / deviation**2
        of_mean = -r / deviation * inner.sum()
        of_x[:, channel] = inner * r / deviation + of_deviation * (values - mean) / (m * deviation) + of_mean / m
        of_weight[channel] = (its * normed).sum()
        after[0][channel] += 0.1 * (mean - before[0][channel])
        after[1][channel] += 0.1 * (values.var(ddof=1) - before[1][channel])
    return out, of_x, of_weight, grad.sum((0, 2, 3)), after, clipped


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("begin", "steps", "limits"), [(1, 60, (3.0, 5.0)), (10, 31, (1.6, 2.625)), (10, 200, (3.0, 5.0))]
)
def test_renormalisation_by_hand(begin: int, steps: int, limits: tuple[float, float], memory) -> None:
    """Channels whose mean and deviation are near the running ones, and channels that are far off either way."""
    rng = np.random.default_rng(1)
    means, deviations = np.array([0.1, -9.0, 9.0, 0.3]), np.array([1.1, 7.0, 0.05, 0.9])
    x = rng.normal(size=(7, 4, 3, 5)) * deviations.reshape(1, -1, 1, 1) + means.reshape(1, -1, 1, 1)
    grad, weight, bias = rng.normal(size=x.shape), rng.normal(size=4), rng.normal(size=4)
    before = rng.normal(size=4) * 0.1, np.array([1.2, 0.9, 1.0, 0.8])
    layer = BatchRenorm(4, begin).double()
    assert layer.steps.dtype == torch.float64
    state = {"weight": weight, "bias": bias, "running_mean": before[0], "running_var": before[1]}
    layer.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in state.items()}, strict=False)
    layer.steps.fill_(steps)
    assert layer.limits() == pytest.approx(limits)
    image = torch.from_numpy(x).contiguous(memory_format=memory).requires_grad_()
    out = layer(image)
    out.backward(torch.from_numpy(grad))
    *expected, after, clipped = renormed(x, grad, weight, bias, before, limits)
    assert clipped.tolist() == [[False, False], [True, True], [True, True], [False, False]]
    for found, wanted in zip([out, image.grad, layer.weight.grad, layer.bias.grad], expected, strict=True):
        torch.testing.assert_close(found.detach(), torch.from_numpy(wanted))
    for found, wanted in zip([layer.running_mean, layer.running_var], after, strict=True):
        torch.testing.assert_close(found, torch.from_numpy(wanted))
    assert layer.steps.item() == steps + 1


def test_where_statistics_agree_with_the_running_ones_it_uses_these() -> None:
    """Within the limits a renormalised batch is normalised by the running statistics alone, as in a test."""
    layer = BatchRenorm(2, begin=1).double()
    layer.steps.fill_(100)
    x = 0.5 + 1.5 * torch.randn(8, 2, 4, 4, dtype=torch.float64)
    torch.testing.assert_close(layer(x), x / (1 + 1e-5) ** 0.5)


@pytest.mark.parametrize(
    ("steps", "limits"),
    [
        (0, (1, 0)),
        (99, (1, 0)),
        (100, (1, 0)),
        (200, (9 / 7, 1.25)),
        (500, (1 + 8 / 7, 5)),
        (800, (3, 5)),
        (9999, (3, 5)),
    ],
)
def test_its_limits_grow_evenly(steps: int, limits: tuple[float, float]) -> None:
    """Ioffe's: BatchNorm for 5,000 steps, d_max to 5 at 25,000, r_max to 3 at 40,000; here in units of 100."""
    layer = BatchRenorm(1, begin=100)
    layer.steps.fill_(steps)
    assert layer.limits() == pytest.approx(limits)


def test_a_single_value_is_normalised_by_running_statistics_and_is_not_a_step() -> None:
    layer = BatchRenorm(3, begin=1)
    layer.running_mean.fill_(2.0)
    layer.running_var.fill_(4.0)
    alone = layer(torch.full((1, 3, 1, 1), 6.0))
    torch.testing.assert_close(alone, torch.full_like(alone, 2.0), rtol=1e-5, atol=1e-5)
    assert layer.steps.item() == 0


# --- how statistics travel ---------------------------------------------------------------------------


def test_the_counter_lies_among_the_buffers_of_a_network() -> None:
    network = Network(build("lenet(norm=batch-renorm)"))
    layout = network.layout
    steps = [name for name in layout.names if name.endswith("steps")]
    assert steps == ["norm1.steps", "norm2.steps", "norm3.steps"]
    assert layout.norms.issuperset(steps)

    def counted(flat: Tensor) -> list[float]:
        return [flat[layout.slices[name].start - layout.trainable].item() for name in steps]

    network.module(torch.rand(2, 3, 32, 32))
    assert counted(network.buffers) == [1, 1, 1]
    network.buffers.add_(6)
    network.module(torch.rand(2, 3, 32, 32))
    assert counted(network.buffers) == [8, 8, 8]
    before = network.buffers.clone()
    network.answer(torch.rand(2, 3, 32, 32), network.params.clone())  # another model's step is not its own
    assert torch.equal(network.buffers, before)
    network.module.eval()
    network.module(torch.rand(2, 3, 32, 32))
    assert torch.equal(network.buffers, before)


@pytest.mark.parametrize(("algorithm", "buffers"), [("fedavg", "average"), ("fedavg", "local"), ("fedbn", "average")])
def test_counters_are_averaged_or_stay_as_the_statistics_do(algorithm: str, buffers: str) -> None:
    data = digits()
    federation, its_task = (
        federate(data, "quantity-dirichlet(beta=0.5)", 3, seed=1),
        task("cnn(norm=batch-renorm)", data),
    )
    layout = its_task.network.layout
    place = layout.slices["norm1.steps"].start - layout.trainable
    method = Method(ALGORITHMS.build(algorithm), sgd(lr=0.01, epochs=1, batch=64), buffers=buffers)
    *_, record = rounds(method, federation, its_task, rounds=2, eval_on=16)
    sizes = np.array([party.samples for party in federation.parties])
    steps = -(-sizes // 64)
    server, memory = record.state.server, record.state.memory
    if (algorithm, buffers) == ("fedavg", "average"):
        assert server.buffers[place].item() == pytest.approx(2 * (steps * sizes).sum() / sizes.sum(), rel=1e-5)
    else:
        assert [memory[party]["network"]["buffers"][place].item() for party in range(3)] == (2 * steps).tolist()
    if algorithm == "fedbn":
        assert len(memory[0]["personal"]["params"]) == 2 * (6 + 16)


@pytest.mark.parametrize(
    ("norm", "warned"), [("batch-renorm", True), ("batch", True), ("group", False), ("none", False)]
)
def test_averaged_statistics_under_label_skew_are_warned_of(norm: str, warned: bool) -> None:
    choices = {"dataset": "digits", "model": f"lenet(norm={norm})", "partition": "#C=1"}
    assert bool(prepare(bind(choices)).warnings) == warned


def test_a_run_that_stops_in_the_middle_ends_as_one_that_did_not(tmp_path: Path) -> None:
    """Three rounds of three steps: BatchNorm for four of them, then ever wider limits."""
    cell = {"dataset": "digits", "model": "cnn(norm=batch-renorm, renorm_from=4)", "parties": 2, "rounds": 3}
    (planned,) = plan({**cell, "solver": "sgd(lr=0.05, steps=3, batch=16)", "eval_on": 32})
    list(execute(prepare(planned), tmp_path / "whole"))
    for _ in range(2):
        stopped = execute(prepare(planned), tmp_path / "stopped")
        next(stopped)
        stopped.close()
    assert [record.round for record in execute(prepare(planned), tmp_path / "stopped")] == [3]
    ends = [read_run(tmp_path / name / planned.id).facts.state_sha256 for name in ("whole", "stopped")]
    assert ends[0] == ends[1]


@pytest.mark.parametrize(
    ("algorithm", "by_samples"),
    [("fedavg", True), ("scaffold", True), ("fednova", True), ("feddyn", False), ("bsp", False), ("dgc", False)],
)
def test_statistics_are_averaged_by_the_weights_of_the_algorithm(algorithm: str, by_samples: bool) -> None:
    """By samples, as models are; equally where the algorithm's mean is the plain one, or all minibatches are equal."""
    data = digits()
    federation, its_task = federate(data, "quantity-dirichlet(beta=0.5)", 3, seed=1), task("cnn(norm=batch)", data)
    built = ALGORITHMS.build(algorithm)
    solver = sgd(lr=0.01, batch=10, steps=1, keep_momentum=True) if built.lockstep else sgd(lr=0.01, batch=10, steps=2)
    method = Method(built, solver)
    setting = Setting(method, federation, its_task, 0)
    first = initial_state(setting)
    local = LocalRound(setting, setting.sent(first.server))
    own = []
    for party in range(3):
        local(party, {})
        own.append(its_task.network.buffers.double())
    sizes = [party.samples for party in federation.parties]
    assert max(sizes) > 2 * min(sizes)
    weights = torch.tensor([float(size) if by_samples else 1.0 for size in sizes], dtype=torch.float64)
    expected = (weights / weights.sum()) @ torch.stack(own)
    (record,) = rounds(method, federation, its_task, rounds=1)
    torch.testing.assert_close(record.state.server.buffers.double(), expected, rtol=1e-5, atol=1e-6)
