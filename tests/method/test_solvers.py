"""Local training: SGD as torch does it, batches without repetition, schedules and reach by hand."""

from itertools import chain, pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from laws import close
from precision import bound
from silobench.errors import SpecError
from silobench.loop.rounds import rounds
from silobench.method.algorithms import fedavg
from silobench.method.method import Method
from silobench.method.schedules import SCHEDULES
from silobench.method.solvers import SOLVERS, Problem, reach, sgd
from silobench.method.types import Pull, Server, at


def server(round: int = 0) -> Server:
    return Server(torch.zeros(1), {}, {}, round, 1, {})


def problem(toy, size: int = 20, model: str = "linear", seed: int = 0) -> Problem:
    federation, task = toy((size,), model)
    return Problem(task, federation, federation.parties[0], seed)


def passes(batches: list[torch.Tensor], length: int) -> list[list[int]]:
    """The rows of each whole pass of `length` batches, in order."""
    return [torch.cat(batches[i : i + length]).tolist() for i in range(0, len(batches) - length + 1, length)]


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("model", ["linear", "mlp(6, 5)"])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.1), (0.9, 0.1)])
def test_every_step_is_torchs(toy, model: str, momentum: float, weight_decay: float) -> None:
    solver = sgd(lr=0.1, momentum=momentum, weight_decay=weight_decay, epochs=3, batch=7)
    ours = problem(toy, model=model)
    network, start = ours.task.network, ours.task.initial
    seen = []
    local, _ = solver.train(ours, start, server(), lambda grad, x: seen.append(x.clone()) or grad, Pull(), {})
    assert local.steps == len(seen) == 9

    network.params.copy_(start)
    optimizer = torch.optim.SGD(network.module.parameters(), lr=0.1, momentum=momentum, weight_decay=weight_decay)
    losses = []
    for rows, after in zip(solver.batches(ours, 0), [*seen[1:], local.end], strict=True):
        optimizer.zero_grad(set_to_none=False)
        x, y = ours.federation.batch(rows)
        loss = torch.nn.functional.cross_entropy(network.module(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        assert close(network.params, after)
    assert local.loss == pytest.approx(sum(losses) / 9, rel=bound(100, torch.float64))


def test_training_reports_what_it_did(toy) -> None:
    ours = problem(toy)
    start = torch.full_like(ours.task.initial, 0.5)
    local, kept = sgd(lr=0.25, momentum=0.5, steps=4, batch=5).train(ours, start, server(), None, Pull(), {})
    assert (local.steps, local.lr, local.samples, kept) == (4, 0.25, 20, {})
    assert local.reach == pytest.approx(1.875 + 1.75 + 1.5 + 1)
    assert torch.equal(local.start, torch.full_like(start, 0.5))  # the start itself is not written
    assert torch.equal(local.delta, local.end - start)


@pytest.mark.usefixtures("in_double")
def test_corrections_come_before_momentum_and_drift_after(toy) -> None:
    ours, pull = problem(toy), torch.linspace(-1, 1, 15)
    solver = sgd(lr=0.1, momentum=0.5, weight_decay=0.0, steps=2, batch="full")
    ends = {
        name: solver.train(ours, ours.task.initial, server(), correct, pulled, {})[0].end
        for name, correct, pulled in [
            ("inside", lambda grad, x: 0 * grad + pull, Pull()),
            ("outside", lambda grad, x: 0 * grad, Pull(drift=pull)),
            ("linear", None, Pull(linear=pull)),
            ("plain", None, Pull()),
        ]
    }
    assert close(ends["inside"], ours.task.initial - 0.1 * (1 + 1.5) * pull)
    assert close(ends["outside"], ours.task.initial - 0.1 * 2 * pull)
    assert (ends["linear"] - ends["plain"] + 0.1 * (1 + 1.5) * pull).norm() < 0.1 * pull.norm()


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("anchor", [None, torch.linspace(-2, 2, 15, dtype=torch.float64)])
def test_a_pull_draws_the_model_to_its_anchor(toy, anchor: torch.Tensor | None) -> None:
    ours = problem(toy)
    solver = sgd(lr=0.1, momentum=0.0, weight_decay=0.0, steps=1, batch="full")
    start = torch.ones(15)
    pulled, plain = (
        solver.train(ours, start, server(), None, pull, {})[0].end for pull in (Pull(0.5, anchor=anchor), Pull())
    )
    assert close(pulled - plain, -0.1 * 0.5 * (start - (0 if anchor is None else anchor)))


@pytest.mark.usefixtures("in_double")
def test_the_full_gradient_is_that_of_the_regularised_loss_on_all_rows(toy, gradient) -> None:
    ours = problem(toy, size=2300)  # more than two blocks of rows, the last one short
    local, _ = sgd(weight_decay=0.1, steps=1).train(ours, ours.task.initial, server(), None, Pull(), {})
    point = torch.linspace(-1, 1, 15)
    by_hand = gradient(point, *ours.federation.batch(ours.party.rows)) + 0.1 * point
    assert close(local.gradient(point), by_hand, bound(2300 + 20, torch.float64))


@pytest.mark.parametrize(("size", "batch"), [(20, 7), (20, 5), (20, 1), (20, 20), (20, 64), (1, 4)])
def test_every_epoch_visits_each_row_once(toy, size: int, batch: int) -> None:
    ours = problem(toy, size)
    batches = list(sgd(epochs=3, batch=batch).batches(ours, 5))
    per_epoch = -(-size // batch)
    assert [len(rows) for rows in batches[: per_epoch - 1]] == [batch] * (per_epoch - 1)
    epochs = passes(batches, per_epoch)
    assert [sorted(epoch) for epoch in epochs] == [ours.party.rows.tolist()] * 3
    if size > 1:
        assert all(one != two for one, two in pairwise(epochs))


@pytest.mark.parametrize(("steps", "batch"), [(1, 7), (2, 7), (4, 7), (5, 7), (3, 5), (2, 64)])
def test_steps_go_through_whole_passes_across_rounds(toy, steps: int, batch: int) -> None:
    ours, solver = problem(toy), sgd(steps=steps, batch=batch)
    rounds = [list(solver.batches(ours, now)) for now in range(12)]
    assert {len(batches) for batches in rounds} == {steps}
    per_pass = -(-20 // batch)
    done = passes(list(chain(*rounds)), per_pass)
    assert len(done) == 12 * steps // per_pass
    assert all(sorted(rows) == ours.party.rows.tolist() for rows in done)
    assert len({tuple(rows) for rows in done}) == len(done)


@pytest.mark.parametrize("mode", [{"epochs": 1}, {"steps": 3}])
def test_order_depends_only_on_seed_round_and_party(toy, mode: dict[str, int]) -> None:
    federation, task = toy((20, 20))
    solver = sgd(batch=7, **mode)

    def order(seed: int = 0, round: int = 0, party: int = 0) -> list[int]:
        rows = federation.parties[party].rows
        batches = solver.batches(Problem(task, federation, federation.parties[party], seed), round)
        return (torch.cat(list(batches)) - rows[0]).tolist()

    assert order() == order()
    assert len({tuple(o) for o in (order(), order(seed=1), order(round=1), order(party=1))}) == 4


def test_full_batch_takes_all_rows_at_once(toy) -> None:
    ours = problem(toy)
    batches = list(sgd(epochs=2, batch="full").batches(ours, 0))
    assert [rows.sort().values.tolist() for rows in batches] == [ours.party.rows.tolist()] * 2


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("keep", [True, False])
def test_momentum_is_kept_only_with_keep_momentum(toy, keep: bool) -> None:
    """Two parties of equal size over two rounds, against one torch optimizer per party."""
    federation, task = toy((20, 20))
    solver = sgd(lr=0.1, momentum=0.9, weight_decay=0.01, epochs=2, batch=7, keep_momentum=keep)
    *_, last = rounds(Method(fedavg(), solver), federation, task, rounds=2)

    layers = [torch.nn.Linear(4, 3) for _ in federation.parties]
    optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01) for layer in layers]
    shared = task.initial
    for now in range(2):
        ends = []
        for party, layer, optimizer in zip(federation.parties, layers, optimizers, strict=True):
            if not keep:
                optimizer.state.clear()
            torch.nn.utils.vector_to_parameters(shared.clone(), layer.parameters())
            for rows in solver.batches(Problem(task, federation, party, 0), now):
                x, y = federation.batch(rows)
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(layer(x), y).backward()
                optimizer.step()
            ends.append(torch.nn.utils.parameters_to_vector(layer.parameters()).detach().clone())
        shared = (ends[0] + ends[1]) / 2
    assert close(last.state.server.params, shared)


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ("constant(0.1)", {0: 0.1, 7: 0.1}),
        ("exponential(0.1, decay=0.5)", {0: 0.1, 1: 0.05, 3: 0.0125}),
        ("step(0.1, at=[2, 5])", {0: 0.1, 1: 0.1, 2: 0.01, 4: 0.01, 5: 0.001, 9: 0.001}),
        ("step(1.0, at=[1], factor=0.25)", {0: 1.0, 1: 0.25}),
        ("polynomial(1.0, over=4)", {0: 1.0, 1: 0.75, 4: 0.0, 9: 0.0}),
        ("polynomial(1.0, over=4, end=0.2, power=2.0)", {0: 1.0, 2: 0.4, 4: 0.2, 6: 0.2}),
    ],
)
def test_schedules_by_hand(spec: str, values: dict[int, float]) -> None:
    knob = SCHEDULES.build(spec)
    assert {now: at(knob, server(round=now)) for now in values} == pytest.approx(values)


def test_a_schedule_sets_the_rate_of_a_round(toy) -> None:
    ours, solver = problem(toy), SOLVERS.build("sgd(lr=exponential(0.4, decay=0.5), steps=1)")
    local, _ = solver.train(ours, ours.task.initial, server(round=2), None, Pull(), {})
    assert local.lr == pytest.approx(0.1)


@given(st.integers(1, 200), st.floats(0, 0.99))
def test_reach_is_fednovas_closed_form(steps: int, momentum: float) -> None:
    closed = (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)
    assert reach(steps, momentum) == pytest.approx(closed, rel=1e-9)


@pytest.mark.parametrize("epochs", [1, 3])
def test_steps_and_epochs_together_are_refused(epochs: int) -> None:
    with pytest.raises(SpecError, match="both given"):
        sgd(steps=5, epochs=epochs)
    with pytest.raises(SpecError, match="both given"):
        SOLVERS.build(f"sgd(steps=5, epochs={epochs})")


@pytest.mark.parametrize(
    "bad",
    ["lr=0", "lr=-1", "momentum=1", "momentum=-0.1", "weight_decay=-1", "epochs=0", "steps=0", "batch=0", "batch=half"],
)
def test_arguments_out_of_range_are_refused(bad: str) -> None:
    with pytest.raises(SpecError, match=bad.split("=")[0]):
        SOLVERS.build(f"sgd({bad})")
