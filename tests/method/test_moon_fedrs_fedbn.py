"""Losses of an algorithm's own, entries and statistics that stay with parties: identities, slow versions by hand."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from laws import bits, close, draw_cohort, feedback, models
from precision import bound, bound_of_steps
from silobench.engines import auto, inline, native, pool, stacked
from silobench.engines.kernel import parties as compiled
from silobench.engines.stacks.stack import can_stack
from silobench.errors import ConfigError
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS, fedavg, fedbn, fedrs, moon
from silobench.method.method import Method
from silobench.method.solvers import Problem, sgd
from silobench.method.transforms import clip
from silobench.method.types import Algorithm, Batch, Context, Memory, Server, Transform, Update
from silobench.tasks.task import task
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State

SIZES = (20, 12, 30, 52, 16)  # no batch of one row, which BatchNorm1d refuses
SOLVER = sgd(lr=0.05, momentum=0.9, weight_decay=0.01, epochs=2, batch=8)
MLP = "mlp(6, init=torch)"


def run(algorithm: Algorithm | str, federated, *transforms: Transform, **options) -> list[RoundRecord]:
    algorithm = ALGORITHMS.build(algorithm) if isinstance(algorithm, str) else algorithm
    chosen = {key: options.pop(key) for key in ("buffers", "solver") if key in options}
    method = replace(Method(algorithm, SOLVER, transforms), **chosen)
    return list(rounds(method, *federated, **{"rounds": 3, "seed": 5} | options))


class Slow:
    """SGD by plain loops in double precision; only the order of rows and the cohorts are silobench's."""

    def __init__(self, federated):
        self.federation, self.task = federated
        self.start = self.task.initial.double()
        self.sizes = [party.samples for party in self.federation.parties]

    def rows(self, party: int, now: int) -> Iterator[tuple[Tensor, Tensor]]:
        problem = Problem(self.task, self.federation, self.federation.parties[party], 5)
        for rows in SOLVER.batches(problem, now):
            x, y = self.federation.batch(rows)
            yield x.double(), y

    def walk(self, party: int, now: int, start: Tensor, loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        here, velocity = start, torch.zeros_like(start)
        for x, y in self.rows(party, now):
            flat = here.clone().requires_grad_()
            loss(flat, x, y).backward()
            velocity = 0.9 * velocity + flat.grad + 0.01 * here
            here = here - 0.05 * velocity
        return here

    def mean(self, cohort: tuple[int, ...], ends: list[Tensor]) -> Tensor:
        weights = [self.sizes[party] for party in cohort]
        return sum(weight * end for weight, end in zip(weights, ends, strict=True)) / sum(weights)


def hidden(flat: Tensor, x: Tensor) -> Tensor:
    """What the last layer of mlp(6) on four numbers reads."""
    return (x @ flat[:24].view(6, 4).T + flat[24:30]).clamp(min=0)


def logits(flat: Tensor, x: Tensor) -> Tensor:
    return hidden(flat, x) @ flat[30:48].view(3, 6).T + flat[48:51]


def cross_entropy(answers: Tensor, y: Tensor) -> Tensor:
    return (answers.exp().sum(1).log() - answers[torch.arange(len(y)), y]).mean()


@pytest.fixture(params=[1.0, 3], ids=["all", "three"])
def participation(request) -> float | int:
    return request.param


# --- a loss of its own --------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["moon(mu=0)", "fedrs(alpha=1)", "fedbn"])
@pytest.mark.parametrize("model", ["linear", MLP])
def test_without_their_extra_terms_they_are_fedavg(toy, spec: str, model: str) -> None:
    federated = toy(SIZES, model)
    ours, average = run(spec, federated), run("fedavg", federated)
    assert torch.equal(models(ours), models(average))
    assert [r.accuracy_std for r in ours] == [None] * 3


@pytest.mark.parametrize(("spec", "other"), [("moon(mu=2)", "moon(mu=1)"), ("fedrs(alpha=0)", "fedrs(alpha=0.9)")])
def test_their_arguments_matter(lacking, spec: str, other: str) -> None:
    federated = lacking(MLP)
    assert len({bits(models(run(name, federated))) for name in (spec, other, "fedavg")}) == 3


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize(("mu", "temperature"), [(1.0, 0.5), (5.0, 2.0)])
def test_moon_by_hand(toy, participation: float | int, mu: float, temperature: float) -> None:
    federated = toy(SIZES, MLP)
    slow = Slow(federated)

    def cosine(a: Tensor, b: Tensor) -> Tensor:
        lengths = [v.square().sum(1).clamp(min=1e-16).sqrt() for v in (a, b)]
        return (a * b).sum(1) / lengths[0] / lengths[1]

    shared, previous = slow.start, [slow.start] * 5
    for record in run(moon(mu=mu, temperature=temperature), federated, participation=participation):
        cohort, ends = draw_cohort(5, participation, 5, record.round - 1), []
        for party in cohort:

            def loss(flat: Tensor, x: Tensor, y: Tensor, shared=shared, last=previous[party]) -> Tensor:
                near, far = ((cosine(hidden(flat, x), hidden(to, x)) / temperature).exp() for to in (shared, last))
                return cross_entropy(logits(flat, x), y) - mu * (near / (near + far)).log().mean()

            ends.append(slow.walk(party, record.round - 1, shared, loss))
        for party, end in zip(cohort, ends, strict=True):
            previous[party] = end
            assert close(record.state.memory[party]["algorithm"]["previous"], end)
        shared = slow.mean(cohort, ends)
        assert close(record.state.server.params, shared)


@pytest.fixture
def lacking(silos):
    """(model) -> parties that hold all three classes, two, or one."""

    def make(model: str):
        rng = np.random.default_rng(3)
        y = np.concatenate([rng.permutation(np.arange(20) % 3), np.arange(12) % 2, np.full(16, 2)])
        return silos((rng.normal(size=(48, 4)) + y[:, None]).astype(np.float32), y, (20, 12, 16), model)

    return make


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9])
def test_fedrs_by_hand(lacking, alpha: float) -> None:
    federated = lacking(MLP)
    slow, scales = Slow(federated), torch.tensor([[1.0, 1, 1], [1, 1, alpha], [alpha, alpha, 1]]).double()
    shared = slow.start
    for record in run(fedrs(alpha=alpha), federated):
        ends = [
            slow.walk(party, record.round - 1, shared, lambda flat, x, y, s=s: cross_entropy(s * logits(flat, x), y))
            for party, s in enumerate(scales)
        ]
        shared = slow.mean((0, 1, 2), ends)
        assert close(record.state.server.params, shared)


@pytest.mark.parametrize(("spec", "up"), [("moon", 51), ("fedrs", 51), ("fedbn", 51)])
def test_they_send_what_fedavg_sends(toy, spec: str, up: int) -> None:
    records = run(spec, toy(SIZES, MLP))
    assert {(r.bytes_up, r.bytes_down) for r in records} == {(5 * 4 * up, 5 * 4 * up)}


@pytest.mark.usefixtures("in_double")
def test_the_full_gradient_is_that_of_the_custom_loss(toy) -> None:
    """An algorithm with both gets one consistent objective."""
    found = []

    def loss(batch: Batch, server: Server, memory: Memory) -> Tensor:
        return 3 * nn.functional.cross_entropy(batch.network(None)[1], batch.y)

    def message(local, server, memory) -> tuple[Update, Memory]:
        found.append(local.gradient(server.params))
        return Update.of(local.samples, delta=local.delta), memory

    solver = sgd(epochs=1, weight_decay=0.0)
    for hook in (None, loss):
        run(Algorithm(loss=hook, message=message), toy((20,)), rounds=1, solver=solver)
    assert close(found[1], 3 * found[0])


def test_a_batch_has_the_class_counts_of_the_party(lacking) -> None:
    held = []

    def loss(batch: Batch, server: Server, memory: Memory) -> Tensor:
        held.append(tuple(batch.class_counts.tolist()))
        return nn.functional.cross_entropy(batch.network(None)[1], batch.y)

    run(Algorithm(loss=loss), lacking("linear"), rounds=1)
    assert set(held) == {(7, 7, 6), (6, 6, 0), (0, 0, 16)}


def test_a_network_without_features_is_refused(normed) -> None:
    with pytest.raises(ConfigError, match="Sequential has no separate `features`"):
        run("fedrs", normed())


@pytest.mark.parametrize("spec", ["moon", "fedrs"])
def test_sparse_rows_and_a_linear_model_do(silos, spec: str) -> None:
    from scipy import sparse

    x, y = np.random.default_rng(0).normal(size=(24, 5)).astype(np.float32), np.arange(24) % 3
    dense, thin = (run(spec, silos(form(x), y, (12, 12)), rounds=2) for form in (np.asarray, sparse.csr_matrix))
    assert close(models(dense), models(thin), rel=bound_of_steps(2 * 2 * 2, 8 + 5))  # rounds, epochs, batches


# --- what stays with parties --------------------------------------------------------------------------


NORM = slice(25, 35)  # the weights and biases of its BatchNorm


def test_the_layout_knows_its_normalisation_layers(normed) -> None:
    _, its_task = normed()
    layout = its_task.network.layout
    assert layout.norms == {"1.weight", "1.bias", "1.running_mean", "1.running_var"}
    shared = layout.without(["1.weight", "1.bias"])
    assert (shared.trainable, shared.size) == (43, 53)
    assert shared.slices["3.weight"] == slice(25, 40)


def answers(flat: Tensor, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    found = x @ flat[:20].view(5, 4).T + flat[20:25]
    found = (found - mean) / (variance + 1e-5).sqrt() * flat[25:30] + flat[30:35]
    return found.clamp(min=0) @ flat[35:50].view(3, 5).T + flat[50:53]


def moments(flat: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    found = x @ flat[:20].view(5, 4).T + flat[20:25]
    return found.mean(0), (found - found.mean(0)).square().mean(0)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize(
    ("name", "buffers"), [("fedbn", "average"), ("fedavg", "local"), ("fedavg", "average"), ("fedavg", "keep")]
)
def test_normalisation_by_hand(normed, participation: float | int, name: str, buffers: str) -> None:
    federated = normed()
    slow = Slow(federated)
    federation, _ = federated
    test = [(x.double(), y) for x, y in federation.test_batches()]
    shared, first = slow.start, torch.cat([torch.zeros(5), torch.ones(5)]).double()
    norms, kept, averaged = [shared[NORM]] * 5, [first] * 5, first
    records = run(name, federated, participation=participation, buffers=buffers)
    for record in records:
        cohort, ends, ended = draw_cohort(5, participation, 5, record.round - 1), [], []
        for party in cohort:
            own = kept[party] if name == "fedbn" or buffers == "local" else averaged if buffers == "average" else first
            stats = [own]

            def loss(flat: Tensor, x: Tensor, y: Tensor, stats=stats) -> Tensor:
                mean, variance = moments(flat, x)
                seen = torch.cat([mean, variance * len(x) / (len(x) - 1)]).detach()
                stats.append(0.9 * stats[-1] + 0.1 * seen)
                return cross_entropy(answers(flat, x, mean, variance), y)

            start = shared.clone()
            if name == "fedbn":
                start[NORM] = norms[party]
            end = slow.walk(party, record.round - 1, start, loss)
            norms[party], kept[party] = end[NORM], stats[-1]
            ends.append(end)
            ended.append(stats[-1])
        before, shared, averaged = shared, slow.mean(cohort, ends), slow.mean(cohort, ended)
        if name == "fedbn":
            shared[NORM] = before[NORM]  # the server never hears of them
        server, memory = record.state.server, record.state.memory
        assert close(server.params, shared)
        assert close(server.buffers, averaged if (name, buffers) == ("fedavg", "average") else first)
        has_party_models = []
        for party in range(5):
            model, stats = shared.clone(), kept[party]
            if name == "fedbn":
                model[NORM] = norms[party]
            if party in memory and name == "fedbn":
                assert close(memory[party]["personal"]["params"], norms[party])
            if party in memory and (name == "fedbn" or buffers == "local"):
                assert close(memory[party]["network"]["buffers"], stats)
            has_party_models.append((model, stats))
        alone = name == "fedavg" and buffers != "local"
        tested = [(shared, averaged if buffers == "average" else first)] if alone else has_party_models
        hits = [sum(int((answers(m, x, s[:5], s[5:]).argmax(1) == y).sum()) for x, y in test) / 30 for m, s in tested]
        assert record.accuracy == pytest.approx(np.mean(hits))
        assert record.accuracy_std == (None if alone else pytest.approx(np.std(hits)))


@pytest.mark.parametrize(
    ("name", "buffers", "numbers"),
    [
        ("fedavg", "average", 53 + 10),
        ("fedavg", "local", 53),
        ("fedavg", "keep", 53),
        ("fedbn", "average", 43),
        ("fedbn", "local", 43),
    ],
)
def test_personal_entries_are_not_sent(normed, name: str, buffers: str, numbers: int) -> None:
    records = run(name, normed(), participation=3, buffers=buffers)
    assert {(r.bytes_up, r.bytes_down) for r in records} == {(3 * 4 * numbers, 3 * 4 * numbers)}


def test_transforms_see_the_shared_entries_and_their_layout(normed) -> None:
    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        assert update.total["delta"].shape == (43,)
        part = update.total["delta"].clone()
        part[context.layout.slices["3.bias"]] = 0
        return replace(update, total={"delta": part}), memory

    def decode(update: Update, context: Context) -> Update:
        part = update.total["delta"].clone()
        part[context.layout.slices["0.bias"]] = 0
        return replace(update, total={"delta": part})

    _, its_task = federated = normed()
    last = run("fedbn", federated, Transform(encode, decode))[-1].state.server.params
    moved = its_task.network.layout.views(last != its_task.initial)
    still = {name for name, changed in moved.items() if not changed.any()}
    assert still == {"0.bias", "3.bias", "1.weight", "1.bias"}
    clipped = run("fedbn", federated, clip(norm=1e-3), rounds=1)[0].state.server.params
    # The length is added up of 43 squares, and the difference of the weights has their rounding.
    rounding = bound(43) * 1e-3 + torch.finfo(torch.float32).eps * its_task.initial.norm()
    assert 0 < (clipped - its_task.initial).norm() <= 1e-3 + rounding


def test_a_name_that_is_no_tensor_is_refused(toy) -> None:
    with pytest.raises(ConfigError, match=r"no tensor 'layers.9.bias' .* did you mean"):
        run(Algorithm(personal=lambda layout: ["layers.9.bias"]), toy(SIZES, MLP))


@pytest.mark.usefixtures("in_double")
def test_any_entries_can_be_personal(toy) -> None:
    """A head of its own for each party (FedPer): what is shared is what FedAvg makes of the rest."""
    algorithm = Algorithm(personal=lambda layout: ["layers.1.weight", "layers.1.bias"])
    _, its_task = federated = toy(SIZES, MLP)
    first, *_ = run(algorithm, federated)
    average, *_ = run("fedavg", federated)
    ours, theirs = first.state.server.params, average.state.server.params
    assert close(ours[:30], theirs[:30])  # the heads have not yet come apart
    assert torch.equal(ours[30:], its_task.initial[30:])
    assert first.bytes_up == 5 * 8 * 30
    assert len({bits(first.state.memory[party]["personal"]["params"]) for party in range(5)}) == 5


@pytest.mark.parametrize(("name", "buffers"), [("fedbn", "average"), ("fedavg", "local"), ("fedavg", "keep")])
def test_they_resume_bit_for_bit_and_need_their_memory(normed, name: str, buffers: str) -> None:
    options = {"participation": 3, "buffers": buffers, "rounds": 4}
    whole = run(name, normed(), feedback(), **options)
    for done, record in enumerate(whole):
        resumed = run(name, normed(), feedback(), **options, state=record.state)
        assert [bits(r) for r in resumed] == [bits(r) for r in whole[done + 1 :]]
    forgotten = State(whole[0].state.server)
    assert bits(run(name, normed(), feedback(), **options, state=forgotten)[-1]) != bits(whole[-1])


@pytest.mark.parametrize(("name", "buffers"), [("fedbn", "average"), ("fedavg", "local")])
def test_workers_have_the_same_bits(normed, name: str, buffers: str) -> None:
    alone, others = (
        [{k: v for k, v in bits(r).items() if k not in ("engine", "workers")} for r in found]
        for found in (
            run(name, normed(), clip(0.5), buffers=buffers, engine=engine) for engine in (inline(), pool(workers=2))
        )
    )
    assert alone == others


# --- engines ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "algorithm", [moon(), fedrs(), Algorithm(personal=lambda layout: ["layers.0.bias"])], ids=["moon", "fedrs", "own"]
)
def test_only_pytorch_runs_them(toy, algorithm: Algorithm) -> None:
    setting = Setting(Method(algorithm, SOLVER), *toy(SIZES, MLP), 0)
    assert not compiled.can_run(setting)
    assert not can_stack(setting)
    assert auto().settled(setting).way == "inline"
    for engine in (native(), stacked()):
        with pytest.raises(ConfigError, match="use auto"):
            engine.settled(setting)


def test_fedbn_without_normalisation_runs_as_fedavg_does(toy) -> None:
    settings = [Setting(Method(algorithm, SOLVER), *toy(SIZES, MLP), 0) for algorithm in (fedbn(), fedavg())]
    assert all(map(compiled.can_run, settings))
    assert all(map(can_stack, settings))


# --- the network at other parameters ------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", ["cnn", "mlp(6)", "linear", "resnet(depth=20)", "vgg9(dropout=False)", "mcmahan-cifar"]
)
def test_a_network_answers_at_other_parameters_and_is_not_disturbed(model: str) -> None:
    from silobench.data import digits

    data = digits()
    network, other = task(model, data).network, task(model, data, seed=1).network
    before = [tensor.clone() for tensor in network.module.state_dict().values()]
    x = torch.from_numpy(data.train.x[:8]).float() / 255
    features, found = network.answer(x, other.params)
    assert not found.requires_grad
    with torch.no_grad():
        torch.testing.assert_close(found, other.module(x))
    assert all(torch.equal(*pair) for pair in zip(before, network.module.state_dict().values(), strict=True))
    representation, logits = network.answer(x)
    assert torch.equal(network.module.last(representation), logits)
    assert features.shape == representation.shape
    logits.sum().backward()
    assert network.grad.any()
