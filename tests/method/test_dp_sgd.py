"""dp_sgd: clipped gradients of single rows against a slow loop, noise, samples, refusals, and plain SGD as a limit."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy import sparse, stats
from torch import Tensor, nn

import silobench as sb
from laws import Toy, bits, close, run
from precision import bound
from silobench.errors import ConfigError, SpecError
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import SOLVERS, Problem
from silobench.method.solvers.dp_sgd import DpSgd
from silobench.method.solvers.per_example import by_layers, clipped_sum_of, mixes_rows, one_by_one, vectorised
from silobench.method.types import Pull, Server
from silobench.models import MODELS, Network, Sizes
from silobench.privacy.randomness import Randomness
from silobench.training.party import LocalRound

ROWS = 5


# --- the gradients of single rows ---------------------------------------------------------------------


class Steps(nn.Module):
    """A layer that is used several times, and one that reads all steps at once."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(3):
            x = torch.tanh(self.inner(x))
        return self.out(x).sum(1)


class Turned(nn.Module):
    """Steps come first, so a dense layer has no bias in its product."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.out = nn.Linear(4, 4), nn.Linear(4, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.inner(x.transpose(1, 2)))).mean(1)


class Recurrent(nn.Module):
    """Torch's LSTM over two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 3, 2, batch_first=True), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(x)[0][:, -1])


def images(*layers: nn.Module, places: int) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(places, 3))


def words(*shape: int) -> Tensor:
    return torch.randint(0, 6, shape, generator=torch.Generator().manual_seed(1))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "one dense layer": (lambda: nn.Linear(4, 3), (4,)),
    "dense layers": (lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 3)), (4,)),
    "without a bias": (lambda: nn.Sequential(nn.Linear(4, 6, bias=False), nn.Tanh(), nn.Linear(6, 3)), (4,)),
    "several steps": (Steps, (7, 4)),
    "steps first": (Turned, (4, 7)),
    "many places": (lambda: images(nn.Conv2d(2, 3, 3), nn.ReLU(inplace=True), places=3 * 36), (2, 8, 8)),
    "few places": (lambda: images(nn.Conv2d(6, 12, 3), nn.Tanh(), places=12), (6, 3, 3)),
    "stride, padding": (lambda: images(nn.Conv2d(2, 4, 3, stride=(2, 1), padding=(1, 2)), places=4 * 36), (2, 7, 7)),
    "dilation, groups": (lambda: images(nn.Conv2d(4, 6, 2, dilation=2, groups=2), places=6 * 25), (4, 7, 7)),
    "few places, groups": (lambda: images(nn.Conv2d(8, 16, 2, groups=2), places=16), (8, 2, 2)),
    "group norm": (lambda: images(nn.Conv2d(2, 4, 3, bias=False), nn.GroupNorm(2, 4), places=4 * 16), (2, 6, 6)),
    "layer norm": (lambda: nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 3)), (4,)),
    "frozen weight": (lambda: frozen(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))), (4,)),
    "word vectors": (lambda: nn.Sequential(nn.Embedding(6, 4, padding_idx=0), nn.Flatten(), nn.Linear(36, 3)), (9,)),
    "bag of words": (lambda: nn.Sequential(nn.EmbeddingBag(6, 4, mode="sum", padding_idx=0), nn.Linear(4, 3)), (9,)),
}


def frozen(module: nn.Module) -> nn.Module:
    module.get_parameter("0.weight").requires_grad_(False)
    return module


def loss_of(module: Any, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(module(x), y)


def slow(network: Network, loss: Any, x: Tensor, y: Tensor, clip: float) -> Tensor:
    """Return the sum of clipped gradients, row after row."""
    total = torch.zeros_like(network.params)
    for row in range(len(x)):
        network.grad.zero_()
        loss(network.module, x[row : row + 1], y[row : row + 1]).backward()
        total += network.grad * min(1.0, clip / float(network.grad.norm()))
    return total


def typical_norm(network: Network, loss: Any, x: Tensor, y: Tensor) -> float:
    """Return a norm that is between those of single rows."""
    norms = [float(slow(network, loss, x[row : row + 1], y[row : row + 1], math.inf).norm()) for row in range(len(x))]
    assert min(norms) < max(norms)
    return (min(norms) + max(norms)) / 2


def drawn(build: Callable[[], nn.Module], shape: tuple[int, ...], reads_words: bool) -> tuple[Network, Tensor, Tensor]:
    torch.manual_seed(0)
    x = (
        words(ROWS, *shape)
        if reads_words
        else torch.randn(ROWS, *shape) * torch.linspace(0.2, 3, ROWS).view(-1, *[1] * len(shape))
    )
    return Network(build()), x, torch.arange(ROWS) % 3


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("name", NETWORKS)
def test_sums_are_those_of_a_slow_loop(name: str) -> None:
    network, x, y = drawn(*NETWORKS[name], reads_words="word" in name)
    middle = typical_norm(network, loss_of, x, y)
    ways = [by_layers, one_by_one] + [vectorised] * (name != "bag of words")  # which vmap does not know
    for clip in (middle, middle / 1e3, math.inf):
        expected = slow(network, loss_of, x, y, clip)
        for way in ways:
            network.grad.fill_(7.0)
            loss = way(network, loss_of, x, y, clip)
            assert close(network.grad, expected, bound(1000, torch.float64)), way
            assert float(loss) == pytest.approx(float(loss_of(network.module, x, y).detach()), rel=1e-12)


def squared(module: Any, x: Tensor, y: Tensor) -> Tensor:
    """Return a loss that overflows sooner than its gradient."""
    return (module(x)[:, 0] - y).square().mean()


@pytest.mark.parametrize("loss", [loss_of, squared], ids=["cross-entropy", "squares"])
@pytest.mark.parametrize("name", ["one dense layer", "dense layers", "without a bias", "many places", "layer norm"])
@pytest.mark.parametrize("value", [1e19, 1e20, 3e38])
def test_a_row_that_is_not_finite_counts_as_zero(name: str, value: float, loss: Any) -> None:
    network, x, y = drawn(*NETWORKS[name], reads_words=False)
    others, clip = slow(network, loss, x[1:], y[1:], 0.1), 0.1
    mean = float(loss(network.module, x[1:], y[1:]).detach())
    x[0] = value
    loss_of_row = float(loss(network.module, x[:1], y[:1]).detach())
    for way in (by_layers, vectorised, one_by_one):
        reported = float(way(network, loss, x, y, clip))
        assert float((network.grad - others).norm()) <= clip * (1 + bound(1000)), way
        if not math.isfinite(loss_of_row):
            assert float((network.grad - others).norm()) <= clip * bound(1000), way
            assert reported == pytest.approx(mean, rel=bound(1000)), way
            assert math.isnan(way(network, loss, x[:1], y[:1], clip)), way
            assert not network.grad.any()


def test_large_inputs_do_not_hide_the_norms_of_small_gradients() -> None:
    """The square of the gradient by the output is below the smallest number, but the gradient is not."""
    for bias in (True, False):
        network = Network(nn.Linear(4, 3, bias=bias))
        x, y = torch.full((4, 4), 5e18), torch.zeros(4)  # the gradient of a row has the norm 2e-5
        by_layers(network, lambda module, x, y: (module(x) * 1e-24).sum(1).mean(), x, y, 1e-7)
        assert 0 < float(network.grad.norm()) <= 4 * 1e-7 * (1 + bound(1000))


def test_a_party_with_a_row_that_is_not_finite_still_sends_a_model(silos: Toy) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(40, 4)).astype(np.float32)
    rows[3] = 1e20
    federated = silos(rows, rng.integers(0, 3, 40), (20, 20), model="mlp(8)")
    record = run("fedavg", federated, sb.dp_sgd(noise=5.0, batch="full", steps=3), rounds=2)[-1]
    assert record.state.server.params.isfinite().all()
    assert math.isfinite(record.train_loss)


@pytest.mark.parametrize("name", NETWORKS)
def test_book_keeping_is_chosen(name: str) -> None:
    network, x, y = drawn(*NETWORKS[name], reads_words="word" in name)
    params, random = network.params.clone(), torch.get_rng_state()
    assert clipped_sum_of(network, loss_of, lambda count: (x[:count], y[:count])) is by_layers
    assert torch.equal(network.params, params)
    assert torch.equal(torch.get_rng_state(), random)
    assert network.module.training


@pytest.mark.parametrize("lengths", [(9, 4, 1, 6, 9), (9, 9, 9, 9, 9)], ids=["packed", "whole"])
def test_book_keeping_of_an_lstm(lengths: tuple[int, ...]) -> None:
    network = Network(MODELS.build("lstm(hidden=4, vectors=random-5d)").build(Sizes((9,), 3, 6), 0))
    network.module.dropout = network.module.last_dropout = 0.0  # type: ignore[assignment]
    x, y = words(ROWS, 9).clamp_min(1), torch.arange(ROWS) % 3
    for row, length in enumerate(lengths):
        x[row, length:] = 0
    network.params.mul_(3)
    for clip in (typical_norm(network, loss_of, x, y), math.inf):
        by_layers(network, loss_of, x, y, clip)
        assert close(network.grad.clone(), slow(network, loss_of, x, y, clip), bound(1000))
    assert clipped_sum_of(network, loss_of, lambda count: (x[:count], y[:count])) is by_layers


def test_book_keeping_of_torchs_lstm() -> None:
    network, x, y = drawn(Recurrent, (7, 4), reads_words=False)
    for clip in (typical_norm(network, loss_of, x, y), math.inf):
        by_layers(network, loss_of, x, y, clip)
        assert close(network.grad.clone(), slow(network, loss_of, x, y, clip), bound(1000))


class Scaled(nn.Module):
    """A layer with a parameter that book-keeping does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.out = nn.Parameter(torch.ones(4)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x * self.scale)


class Choosing(Scaled):
    """A network that vmap cannot run either: a choice by the value of a row."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x if float(x.detach().sum()) > 0 else -x)


class Tied(nn.Module):
    """Two different layers with the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.bias, self.out = nn.Parameter(torch.ones(4)), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.linear(torch.tanh(self.inner(x)), self.inner.weight, self.bias))


class Centred(nn.Module):
    """A network whose answers depend on all rows of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x - x.mean(0))


class Final(nn.Module):
    """A network that reads the last state of an LSTM, which is another output of the same node."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.out = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.lstm(x)[1][0][0])


@pytest.mark.parametrize(
    ("build", "shape", "way"),
    [
        (Scaled, (4,), vectorised),
        (Choosing, (4,), one_by_one),
        (Tied, (4,), vectorised),
        (Centred, (4,), vectorised),
        (Final, (7, 4), None),
    ],
)
def test_networks_that_book_keeping_does_not_know_take_another_way(build: Any, shape: Any, way: Any) -> None:
    network, x, y = drawn(build, shape, reads_words=False)
    chosen = clipped_sum_of(network, loss_of, lambda count: (x[:count], y[:count]))
    assert chosen is way if way else chosen is not by_layers
    chosen(network, loss_of, x, y, 0.5)
    assert close(network.grad.clone(), slow(network, loss_of, x, y, 0.5), bound(1000))


def test_a_batch_on_an_unknown_path_is_computed_row_by_row() -> None:
    network, x, y = drawn(lambda: nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)), (4,), reads_words=False)

    def loss(module: Any, x: Tensor, y: Tensor) -> Tensor:
        penalty = network.module[0].weight.sum() if x.abs().max() > 100 else 0.0  # type: ignore[index]
        return loss_of(module, x, y) + penalty

    assert clipped_sum_of(network, loss, lambda count: (x[:count], y[:count])) is by_layers
    x = x * 1000
    by_layers(network, loss, x, y, 0.5)
    assert close(network.grad.clone(), slow(network, loss, x, y, 0.5), bound(1000))


def test_a_loss_that_is_not_a_mean_over_rows_is_computed_row_by_row() -> None:
    def by_largest(module: Any, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(module(x), y, reduction="none").max()

    network, x, y = drawn(*NETWORKS["dense layers"], reads_words=False)
    chosen = clipped_sum_of(network, by_largest, lambda count: (x[:count], y[:count]))
    assert chosen is vectorised
    chosen(network, by_largest, x, y, 0.5)
    assert close(network.grad.clone(), slow(network, by_largest, x, y, 0.5), bound(1000))


def test_dropout_differs_between_rows() -> None:
    network, x, y = drawn(lambda: nn.Sequential(nn.Dropout(0.5), nn.Linear(400, 3)), (400,), reads_words=False)
    x, y = torch.ones(2, 400), torch.zeros(2, dtype=torch.int64)
    assert clipped_sum_of(network, loss_of, lambda count: (x.expand(2, -1)[:count], y[:count])) is by_layers
    by_layers(network, loss_of, x, y, math.inf)
    assert len(network.grad[:400].unique()) == 4  # both rows drop an input, one of them, or none


@pytest.mark.parametrize(
    "objective", ["cross-entropy(weights=balanced)", "hinge", "binary", "regression", "regression(loss=huber)"]
)
def test_every_objective_is_a_mean_over_rows(objective: str) -> None:
    generator = np.random.default_rng(0)
    x, kind = generator.normal(size=(20, 4)).astype(np.float32), objective.split("(")[0]
    y = x[:, 0] * 3 + 1 if kind == "regression" else (x[:, 0] > 0).astype(np.int64)
    facts = {"task": "regression", "target": "t"} if kind == "regression" else {}
    split = sb.Split(x, y)
    dataset = sb.Dataset("rows", split, split, () if facts else ("no", "yes"), "none", **facts)
    task = sb.task("mlp(5)", dataset, objective=objective)
    rows, labels = torch.from_numpy(x), torch.from_numpy(y)
    way = clipped_sum_of(task.network, task.loss_of, lambda count: (rows[:count], labels[:count]))
    assert way is by_layers
    way(task.network, task.loss_of, rows, labels, 0.5)
    assert close(task.network.grad.clone(), slow(task.network, task.loss_of, rows, labels, 0.5), bound(1000))


# --- the catalogue ------------------------------------------------------------------------------------

IMAGES, SMALL = Sizes((3, 16, 16), 3), Sizes((1, 10, 10), 3)
CATALOGUE = {
    "linear": SMALL, "mlp": SMALL, "cnn": SMALL, "lenet": IMAGES, "vgg9(dropout=false)": IMAGES,
    "alexnet(width=0.1, dropout=false)": IMAGES, "googlenet(width=0.05, norm=layer)": IMAGES,
    "resnet(20)": IMAGES, "resnet(20, norm=group)": IMAGES, "resnet(20, norm=batch-stats)": IMAGES,
    "face-cnn(dim=4, width=2)": IMAGES, "mcmahan-mnist": SMALL, "mcmahan-cifar": IMAGES,
    "kws(norm=group)": Sizes((1, 32, 20), 3), "bag": Sizes((9,), 3, 6), "gru(hidden=4)": Sizes((9, 2), 3),
    "lstm(hidden=4, vectors=random-5d)": Sizes((9,), 3, 6),
}  # fmt: skip

BATCH_NORMS = ("resnet(20)", "resnet(20, norm=batch-stats)")


def test_the_catalogue_is_complete() -> None:
    names = {re.split(r"[(]", spec)[0] for spec in CATALOGUE}
    assert names == set(MODELS.factories) - {"module"}  # which reads a network from a file


@pytest.mark.parametrize("spec", CATALOGUE)
def test_every_model_of_the_catalogue_is_trained_or_refused(spec: str) -> None:
    sizes = CATALOGUE[spec]
    network = Network(MODELS.build(spec).build(sizes, 0))
    refusal = build("noise=1").refuses_network(network.module)
    assert (refusal is not None) == mixes_rows(network.module) == (spec in BATCH_NORMS)
    if refusal:
        assert "use norm=group" in refusal
        return
    x = words(3, *sizes.shape) if sizes.vocabulary else torch.randn(3, *sizes.shape)

    def loss(module: Any, x: Tensor, y: Tensor) -> Tensor:
        return module.loss(x, y) if isinstance(module, sb.models.CustomLoss) else loss_of(module, x, y)

    way = clipped_sum_of(network, loss, lambda count: (x[:count], torch.arange(count)))
    assert way is (one_by_one if spec.startswith("face-cnn") else by_layers)
    network.grad.zero_()
    way(network, loss, x, torch.arange(3), 0.1)
    assert 0 < float(network.grad.norm()) <= 0.3 * (1 + 1e-5)


# --- the solver ---------------------------------------------------------------------------------------


def server(round: int = 0) -> Server:
    return Server(torch.zeros(1), {}, {}, round, 1, {})


def problem(toy: Toy, rows: int = 20, model: str = "linear", seed: int = 0) -> Problem:
    federation, task = toy((rows,), model)
    return Problem(task, federation, federation.parties[0], seed)


def build(arguments: str) -> DpSgd:
    solver = SOLVERS.build(f"dp_sgd({arguments})")
    assert isinstance(solver, DpSgd)
    return solver


@pytest.mark.usefixtures("in_double")
def test_steps_are_those_of_the_definition(toy: Toy) -> None:
    solver = build("lr=0.3, clip=0.4, noise=0.7, momentum=0.5, weight_decay=0.1, steps=6, batch=8, reproducible=true")
    ours, pull = problem(toy, seed=3), Pull(0.2, torch.ones(15), torch.full((15,), 0.1), torch.full((15,), 0.01))
    network, start = ours.task.network, ours.task.initial
    local, _ = solver.train(ours, start, server(4), None, pull, {})

    random = Randomness.seeded(3, "dp noise", 4, 0)
    params, velocity = start.clone(), torch.zeros_like(start)
    for _ in range(6):
        rows = ours.party.rows[torch.from_numpy(random.sample(8 / 20, 20))]
        network.params.copy_(params)
        total = slow(network, loss_of, *ours.federation.batch(rows), 0.4) + 0.7 * 0.4 * random.normal(15).double()
        grad = total / 8 + 0.1 * params + 0.2 * (params - 1) + 0.1
        velocity = 0.5 * velocity + grad
        params = params - 0.3 * velocity - 0.3 * 0.01
    assert close(local.end, params, bound(5000, torch.float64))
    assert (local.steps, local.reach) == (6, sb.sgd(momentum=0.5).reach(6))


@pytest.mark.parametrize("model", ["linear", "mlp(6, 5)"])
def test_without_noise_and_clip_it_is_sgd_bit_for_bit(toy: Toy, model: str) -> None:
    plain = "momentum=0.9, weight_decay=0.01, epochs=2, batch=7, keep_momentum=true"
    solvers = SOLVERS.build(f"sgd(lr=0.1, {plain})"), build(f"noise=0, clip=inf, sampling=shuffled, {plain}")
    first, second = (run("fedavg", toy((20, 9), model), solver, engine=sb.inline()) for solver in solvers)
    for plain_record, private_record in zip(first, second, strict=True):
        assert bits(plain_record.state.server) == bits(private_record.state.server)
        assert bits(plain_record.state.memory) == bits(private_record.state.memory)
    assert [record.train_loss for record in first] == [record.train_loss for record in second]


def test_the_noise_of_empty_batches_has_the_stated_deviation(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    solver, ours, seen = build("lr=1, clip=3, noise=2, batch=4, reproducible=true"), problem(toy), list[Tensor]()
    monkeypatch.setattr(DpSgd, "sampled", lambda self, problem, *_: [problem.party.rows[:0]] * 400)

    def correct(grad: Tensor, params: Tensor) -> Tensor:
        seen.append(grad.clone())
        return grad

    local, _ = solver.train(ours, ours.task.initial, server(), correct, Pull(), {})
    numbers = torch.cat(seen).double() * 4 / (2 * 3)
    assert (local.steps, local.loss, len(numbers)) == (400, 0, 6000)
    assert stats.kstest(numbers.numpy(), "norm").pvalue > 1e-6  # the seed is fixed
    assert abs(float(numbers.mean())) < 5 / math.sqrt(6000)
    assert abs(float(numbers.var()) - 1) < 5 * math.sqrt(2 / 6000)


def test_batches_are_drawn_with_the_stated_rate(toy: Toy) -> None:
    ours = problem(toy, rows=50)
    solver = build("noise=1, batch=5, epochs=40, reproducible=true")
    batches = list(solver.sampled(ours, 0, Randomness.seeded(5, "test")))
    assert len(batches) == solver.count(50) == 400
    rows = torch.cat(batches)
    assert abs(len(rows) - 2000) < 5 * math.sqrt(400 * 50 * 0.1 * 0.9)
    assert set(rows.tolist()) == set(ours.party.rows.tolist())
    assert len({len(each) for each in batches}) > 5
    shuffled = list(replace(solver, sampling="shuffled").sampled(ours, 0, Randomness.secret()))
    assert [each.tolist() for each in shuffled] == [each.tolist() for each in solver.batches(ours, 0)]


def test_noise_is_secret_unless_it_is_reproducible(toy: Toy) -> None:
    ours = problem(toy)

    def end(reproducible: str, round: int) -> Tensor:
        solver = build(f"noise=1, batch=8, reproducible={reproducible}")
        return solver.train(ours, ours.task.initial, server(round), None, Pull(), {})[0].end

    assert torch.equal(end("true", 0), end("true", 0))
    assert not torch.equal(end("true", 0), end("true", 1))
    assert not torch.equal(end("false", 0), end("false", 0))


def test_a_batch_as_large_as_the_data_is_all_rows_in_every_step(toy: Toy) -> None:
    ours = problem(toy, rows=9)
    for batch in ("full", "64"):
        solver = build(f"noise=1, batch={batch}, epochs=3")
        batches = list(solver.sampled(ours, 0, Randomness.secret()))
        assert [len(each) for each in batches] == [9, 9, 9]
        mechanism, steps = solver.release(0, 9)
        assert (mechanism.rate, steps) == (1.0, 3)


def test_the_release_states_noise_rate_and_steps() -> None:
    mechanism, steps = build("noise=1.5, batch=50, epochs=2").release(3, 1000)
    assert (mechanism.unit, mechanism.noise, mechanism.rate, mechanism.sampling) == ("example", 1.5, 0.05, "poisson")
    assert (mechanism.delta, mechanism.reproducible, steps) == (1e-5, False, 40)
    mechanism, steps = build("noise=1, batch=50, steps=7, sampling=shuffled, reproducible=true").release(0, 1_000_000)
    assert (mechanism.delta, mechanism.sampling, mechanism.reproducible, steps) == (1e-6, "shuffled", True, 7)
    assert build("noise=1, delta=0.001").release(0, 10)[0].delta == 0.001


def test_sparse_rows_are_trained_as_dense_ones(silos: Toy) -> None:
    x = np.array([[0, 2, 0], [1, 0, 0], [0, 0, 3], [1, 1, 0]], np.float32)
    solver = build("noise=1, clip=0.5, batch=2, epochs=3, reproducible=true")
    ends = []
    for values in (x, sparse.csr_matrix(x)):
        federation, task = silos(values, [0, 1, 2, 0], (4,))
        ours = Problem(task, federation, federation.parties[0], 0)
        ends.append(solver.train(ours, task.initial, server(), None, Pull(), {})[0].end)
    assert torch.equal(*ends)


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("", "neither noise nor epsilon was given: give one"),
        ("noise=1, clip=inf", "noise needs a finite clip"),
        ("noise=1, epochs=2, steps=3", "were both given"),
        ("noise=-1", "noise"),
        ("noise=1, clip=0", "clip"),
        ("noise=1, delta=1", "delta"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        build(arguments)


@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [
        ("scaffold(option=1)", "exact gradient .* use scaffold"),
        ("scaffold(option=1, momentum=inside)", "exact gradient .* use scaffold"),
        ("ditto", "one training per round"),
        ("fedrep", "one training per round"),
        ("finetune(fedavg)", "trains again on the same rows before each test"),
        ("apfl", "one training per round"),
        ("moon", "a loss of its own"),
        ("fedrs", "a loss of its own"),
    ],
)
def test_algorithms_that_would_leak_are_refused(algorithm: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Method(ALGORITHMS.build(algorithm), build("noise=1"))


def test_no_message_gets_the_exact_gradient(toy: Toy) -> None:
    def message(local: sb.Local, server: Server, memory: Any) -> Any:
        return sb.Update.of(local.samples, delta=local.gradient(server.params)), memory

    with pytest.raises(ConfigError, match="exact gradient over all rows"):
        run(sb.Algorithm(message=message), toy((20,)), build("noise=1"), rounds=1)


@pytest.mark.parametrize("algorithm", ["fedprox", "scaffold", "fednova", "feddyn(alpha=0.1)", "fedbn", "gaia"])
def test_other_algorithms_run(toy: Toy, algorithm: str) -> None:
    federation, task = toy((20, 9))
    steps = "steps=1, keep_momentum=true" if algorithm == "gaia" else "epochs=2"
    method = Method(ALGORITHMS.build(algorithm), build(f"noise=1, batch=8, momentum=0.5, {steps}"))
    extras = method.algorithm.extras(task.initial)
    reply = LocalRound(sb.Setting(method, federation, task, 0), Server(task.initial, extras, {}, 0, 2, {}))(1, {})
    assert all(part.isfinite().all() for part in reply.update.vectors().values())


def test_networks_with_batch_norm_are_refused(silos: Toy) -> None:
    federation, task = silos(np.zeros((4, 1, 16, 16), np.float32), [0, 1, 2, 0], (4,), "cnn(norm=batch)")
    with pytest.raises(ConfigError, match=r"BatchNorm, which mixes the rows .* use norm=group"):
        sb.Setting(Method(sb.fedavg(), build("noise=1")), federation, task, 0)


def test_engines_with_steps_of_their_own_refuse_it(toy: Toy) -> None:
    for engine in (sb.native(), sb.stacked()):
        with pytest.raises(ConfigError, match="the solver is dp_sgd"):
            run("fedavg", toy((20, 9)), build("noise=1"), rounds=1, engine=engine)


def test_the_noise_of_a_target_needs_a_number_of_rounds(toy: Toy) -> None:
    ours = problem(toy)
    with pytest.raises(ConfigError, match=r"call calibrated\(rounds, samples\)"):
        build("epsilon=2").train(ours, ours.task.initial, server(), None, Pull(), {})
