"""Networks as vectors: what lies where, that views are views, and that a seed is all that decides the start."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from silobench.data import Dataset, Split
from silobench.errors import ConfigError
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS, solo
from silobench.method.method import Method
from silobench.method.servers import SERVERS
from silobench.method.solvers import Problem, sgd
from silobench.method.types import Layout, Pull, Server
from silobench.models import MODELS, Network, Sizes
from silobench.models.pooling import relu_of_pool, relu_of_pooled_convolution
from silobench.tasks.task import Task, task

LAYOUT = Layout(("weight", "bias", "mean"), (torch.Size([2, 3]), torch.Size([2]), torch.Size([])), trainable=8)


def build(spec: str, shape: tuple[int, ...], classes: int = 10, seed: int = 0) -> nn.Module:
    return MODELS.build(spec).build(Sizes(shape, classes), seed)


def test_layout_places_tensors_one_after_the_other() -> None:
    assert LAYOUT.size == 9
    assert LAYOUT.slices == {"weight": slice(0, 6), "bias": slice(6, 8), "mean": slice(8, 9)}
    views = LAYOUT.views(torch.arange(9.0))
    assert views["weight"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert views["bias"].tolist() == [6, 7]
    assert views["mean"].item() == 8


@pytest.mark.parametrize("stack", [(), (4,), (2, 3)])
def test_layout_views_share_memory_with_any_stack_of_vectors(stack: tuple[int, ...]) -> None:
    vector = torch.zeros(*stack, LAYOUT.size)
    views = LAYOUT.views(vector)
    assert {name: tuple(view.shape) for name, view in views.items()} == {
        "weight": (*stack, 2, 3),
        "bias": (*stack, 2),
        "mean": stack,
    }
    views["bias"].fill_(5.0)
    assert torch.equal(vector[..., 6:8], torch.full((*stack, 2), 5.0))
    assert vector.sum() == views["bias"].sum()  # nothing else was written
    vector[..., 5] = 7.0
    assert (views["weight"][..., 1, 2] == 7.0).all()


def test_writing_the_vector_changes_the_module() -> None:
    network = Network(nn.Linear(2, 1))
    x = torch.tensor([[10.0, 100.0]])
    for weights, answer in ([1.0, 2.0, 3.0], 213.0), ([0.0, 1.0, 0.0], 100.0):
        network.params.copy_(torch.tensor(weights))
        assert network.module(x).item() == answer
    with torch.no_grad():
        network.module.get_parameter("bias").fill_(9.0)
    assert network.params.tolist() == [0.0, 1.0, 9.0]


def test_backward_adds_into_the_flat_gradient() -> None:
    network = Network(nn.Linear(2, 1))
    flat = network.grad
    x = torch.tensor([[2.0, 3.0]])
    for times in 1.0, 2.0:
        network.module(x).sum().backward()
        assert flat.tolist() == [2 * times, 3 * times, times]
    assert network.grad is flat
    flat.zero_()
    assert not network.module.get_parameter("weight").grad.any()


def normed() -> Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Network(nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3)))


def test_buffers_lie_last_and_counters_are_left_out() -> None:
    layout = normed().layout
    assert layout.names == ("0.weight", "0.bias", "1.weight", "1.bias", "0.running_mean", "0.running_var")
    assert (layout.trainable, layout.size) == (4 + 4 + 12 + 3, 4 + 4 + 12 + 3 + 8)


def test_only_the_forward_pass_moves_buffers(toy) -> None:
    federation, _ = toy((20,))
    network = normed()
    task = Task(network, network.params.clone(), network.buffers.clone())
    server = Server(task.initial, {}, {}, 0, 1, {}, task.buffers)
    problem, solver = Problem(task, federation, federation.parties[0], 0), sgd(weight_decay=0.5, epochs=3, batch=8)
    local, _ = solver.train(problem, task.initial, server, lambda g, at: g + 1.0, Pull(drift=torch.ones(23)), {})
    # The normalisation stands first, so its statistics depend on the batches alone.
    lone = nn.BatchNorm1d(4)
    for rows in solver.batches(problem, 0):
        lone(federation.batch(rows)[0])
    assert torch.equal(network.buffers, torch.cat([lone.running_mean, lone.running_var]))
    assert not torch.equal(network.buffers, task.buffers)
    assert (local.end != task.initial).all()


@pytest.mark.parametrize("name", ["fedavg", "fedprox(mu=1.0)", "scaffold", "scaffold(option=1)", "fednova"])
@pytest.mark.parametrize("server", ["step", "step(lr=2.0)"])
def test_buffers_are_averaged_by_samples_under_every_algorithm(name: str, server: str, toy) -> None:
    """A step of the server or a correction on a variance could make it negative: they must not touch it."""
    federation, _ = toy((8, 30, 16))
    network = normed()
    task = Task(network, network.params.clone(), network.buffers.clone())
    solver = sgd(lr=0.01, epochs=1, batch=8)
    method = Method(ALGORITHMS.build(name), solver, server=SERVERS.build(server))
    first, second = rounds(method, federation, task, rounds=2)
    for record, start in ((first, task.buffers), (second, first.state.server.buffers)):
        total = torch.zeros(8)
        for party in federation.parties:  # the normalisation stands first: its statistics depend on the rows alone
            lone = nn.BatchNorm1d(4)
            lone.running_mean, lone.running_var = start[:4].clone(), start[4:].clone()
            for rows in solver.batches(Problem(task, federation, party, 0), record.round - 1):
                lone(federation.batch(rows)[0])
            total += party.samples * torch.cat([lone.running_mean, lone.running_var])
        torch.testing.assert_close(record.state.server.buffers, total / 54)
    assert first.bytes_down == 3 * 4 * ((2 if "scaffold" in name else 1) * 23 + 8)


def test_solo_parties_keep_their_buffers(toy) -> None:
    federation, _ = toy((8, 30))
    network = normed()
    task = Task(network, network.params.clone(), network.buffers.clone())
    (record,) = rounds(Method(solo(), sgd(epochs=1, batch=8)), federation, task, rounds=1)
    kept = [record.state.memory[party]["network"]["buffers"] for party in range(2)]
    assert not torch.equal(*kept)
    assert torch.equal(record.state.server.buffers, task.buffers)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (1, 4, 4), (3, 16, 40)])
def test_cnn_answers_one_logit_a_class(shape: tuple[int, int, int]) -> None:
    assert build("cnn", shape, classes=7)(torch.zeros(5, *shape)).shape == (5, 7)


@pytest.mark.parametrize("shape", [(20,), (28, 28), (1, 3, 3), (1, 20, 3), (2, 2, 8, 8)])
def test_cnn_refuses_what_is_no_image_or_too_small(shape: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="cnn needs images"):
        build("cnn", shape)


@pytest.mark.parametrize(
    ("spec", "shape", "counts"),
    [
        # conv1, conv2, fc1 (16 maps of 4 x 4), fc2, out; each weights + biases
        ("cnn", (1, 28, 28), [150 + 6, 2400 + 16, 256 * 120 + 120, 120 * 84 + 84, 840 + 10]),  # 44,426
        ("cnn", (3, 32, 32), [450 + 6, 2400 + 16, 400 * 120 + 120, 120 * 84 + 84, 840 + 10]),  # 62,006
        ("cnn", (1, 8, 8), [150 + 6, 2400 + 16, 64 * 120 + 120, 120 * 84 + 84, 840 + 10]),
        ("mlp", (123,), [123 * 32 + 32, 32 * 16 + 16, 16 * 8 + 8, 8 * 10 + 10]),
        ("mlp(5)", (3, 2), [6 * 5 + 5, 5 * 10 + 10]),
        ("linear", (3, 2), [6 * 10 + 10]),
    ],
)
def test_models_have_the_papers_numbers_of_parameters(spec: str, shape: tuple[int, ...], counts: list[int]) -> None:
    assert Network(build(spec, shape)).layout.size == sum(counts)


def test_mlp_starts_from_normal_weights_and_constant_biases() -> None:
    for name, tensor in build("mlp(200, 100)", (300,), classes=50).named_parameters():
        if name.endswith("bias"):
            assert (tensor == 0.1).all()
        else:
            assert tensor.std().item() == pytest.approx(0.1, rel=0.05)
            assert tensor.mean().item() == pytest.approx(0.0, abs=0.01)


def test_mlp_can_start_as_torch_does() -> None:
    layer = dict(build("mlp(100, init=torch)", (400,)).named_parameters())["layers.0.weight"]
    assert layer.abs().max().item() <= 1 / 20  # U(-1/sqrt(400), 1/sqrt(400))


def test_linear_is_an_affine_map() -> None:
    network = Network(build("linear", (2,), classes=2))
    network.params.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    assert network.module(torch.tensor([[1.0, 10.0]])).tolist() == [[26.0, 49.0]]


@pytest.mark.parametrize("spec", ["cnn", "mlp", "linear", "mcmahan-mnist", "mcmahan-cifar"])
def test_only_the_seed_decides_the_start(spec: str) -> None:
    first = Network(build(spec, (1, 8, 8), seed=3)).params
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(99)
        again = Network(build(spec, (1, 8, 8), seed=3)).params
    assert torch.equal(first, again)
    assert not torch.equal(first, Network(build(spec, (1, 8, 8), seed=4)).params)


@pytest.mark.parametrize("spec", ["cnn", "mlp", "linear", "mcmahan-mnist", "mcmahan-cifar"])
def test_building_does_not_touch_the_global_generator(spec: str) -> None:
    before = torch.get_rng_state()
    build(spec, (1, 8, 8))
    assert torch.equal(torch.get_rng_state(), before)


def test_bag_adds_up_the_vectors_of_the_words_and_leaves_out_the_padding() -> None:
    module = MODELS.build("bag(width=4)").build(Sizes((3,), 2, vocabulary=6), 0)
    vectors, out = module.get_parameter("words.weight"), module.get_submodule("out")
    rows = torch.tensor([[2, 2, 5], [3, 0, 0]], dtype=torch.int32)
    sums = torch.stack([2 * vectors[2] + vectors[5], vectors[3]])
    torch.testing.assert_close(module(rows), out(sums))
    module(rows).sum().backward()
    assert vectors.grad is not None
    assert vectors.grad.abs().sum(1).gt(0).tolist() == [False, False, True, True, False, True]


@pytest.mark.parametrize(("spec", "vocabulary", "remedy"), [("bag", 0, "cnn, mlp or linear"), ("mlp", 9, "bag")])
def test_a_model_for_words_and_one_for_numbers_are_not_mistaken(spec: str, vocabulary: int, remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        MODELS.build(spec).build(Sizes((3,), 2, vocabulary), 0)


@pytest.mark.parametrize("model", ["linear", "mlp", "cnn", "lenet", "vgg9"])
def test_a_network_for_a_number_has_one_output(model: str) -> None:
    rows = np.random.default_rng(0).random((4, 3, 32, 32), dtype=np.float32)
    split = Split(rows, np.arange(4, dtype=np.float32))
    built = task(model, Dataset("years", split, split, (), "none", task="regression"))
    assert built.network.module(torch.from_numpy(rows)).shape == (4, 1)


def test_a_model_with_its_own_loss_for_classes_does_not_predict_a_number() -> None:
    split = Split(np.ones((4, 1, 16, 16), dtype=np.float32), np.arange(4, dtype=np.float32))
    with pytest.raises(ConfigError, match="has its own loss for classes, but the objective of years is regression"):
        task("face-cnn", Dataset("years", split, split, (), "none", task="regression"))


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(2, 9), st.integers(2, 9)),
    st.booleans(),
    st.integers(0, 99),
)
def test_pool_and_relu_in_one_are_torchs_bit_for_bit(shape: tuple[int, ...], ties: bool, seed: int) -> None:
    """Also where two values of a window are equal, below zero, or left over at an odd edge."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randint(-2, 3, shape, generator=draw).float() if ties else torch.randn(shape, generator=draw)
    found = []
    for pool in (relu_of_pool, lambda image: torch.relu(torch.nn.functional.max_pool2d(image, 2))):
        image = x.clone().requires_grad_()
        out = pool(image)
        (out * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
        found.append((out.detach(), image.grad))
    assert torch.equal(found[0][0], found[1][0])
    assert torch.equal(found[0][1], found[1][1])
    with torch.no_grad():
        assert torch.equal(relu_of_pool(x), found[1][0])


@settings(max_examples=40, deadline=None)
@given(
    channels=st.integers(1, 3),
    outputs=st.integers(1, 7),
    sides=st.tuples(st.integers(6, 13), st.integers(6, 13)),
    padding=st.integers(0, 2),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_pooled_convolution_is_that_and_its_pool(
    channels: int, outputs: int, sides: tuple[int, int], padding: int, bias: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    convolution, x = nn.Conv2d(channels, outputs, 5, padding=padding, bias=bias), torch.randn(3, channels, *sides)
    with torch.no_grad():
        found, expected = relu_of_pooled_convolution(convolution, x), relu_of_pool(convolution(x))
    assert expected.any()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_pool_and_relu_in_one_pass_nan_on() -> None:
    x = torch.zeros(1, 1, 2, 4)
    x[..., 1, 3] = torch.nan
    for context in (torch.enable_grad(), torch.no_grad()):
        with context:
            assert relu_of_pool(x).isnan().tolist() == [[[[False, True]]]]
