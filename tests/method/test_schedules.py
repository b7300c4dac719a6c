"""Warm-up by hand, and plateau as torch.optim.lr_scheduler.ReduceLROnPlateau does it."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import Toy
from silobench.errors import ConfigError, SpecError
from silobench.method.schedules import FIRST, SCHEDULES, check_validation, first_value, plateau, warmup
from silobench.method.schedules.plateau import Plateau
from silobench.method.solvers import SOLVERS, Problem
from silobench.method.types import Knob, Memory, Pull, Server, at

LOSSES = st.one_of(st.floats(-1, 10), st.sampled_from([math.nan, math.inf, 1.0, 0.9999, 0.99995]), st.none())

NEEDED = {"dp-sgd": ", noise=1"}  # arguments without a default


def server(round: int = 0, **knobs: float) -> Server:
    return Server(torch.zeros(1), {}, {}, round, 1, knobs)


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ("warmup(0.1, over=5)", {0: 0.02, 1: 0.04, 4: 0.1, 5: 0.1, 99: 0.1}),
        ("warmup(0.1, over=1)", {0: 0.1, 1: 0.1}),
        ("warmup(0.1, over=4, start=0.02)", {0: 0.04, 1: 0.06, 2: 0.08, 3: 0.1, 4: 0.1}),
        ("warmup(step(0.1, at=[3, 6]), over=5)", {0: 0.02, 2: 0.06, 3: 0.008, 4: 0.01, 5: 0.01, 6: 0.001}),
        ("warmup(exponential(1.0, decay=0.5), over=2)", {0: 0.5, 1: 0.5, 2: 0.25}),
        ("warmup(constant(0.1), over=2)", {0: 0.05, 1: 0.1}),
        ("warmup(warmup(0.4, over=4), over=2)", {0: 0.05, 1: 0.2, 2: 0.3, 3: 0.4}),
    ],
)
def test_warmup_by_hand(spec: str, values: dict[int, float]) -> None:
    knob = SCHEDULES.build(spec)
    assert {now: at(knob, server(now)) for now in values} == pytest.approx(values)


@pytest.mark.parametrize(
    ("spec", "first", "after_warmup"),
    [
        ("warmup(0.1, over=5)", 0.02, 0.1),
        ("warmup(step(0.1, at=[64]), over=5)", 0.02, 0.1),
        ("warmup(plateau(0.2), over=4)", 0.05, 0.2),
        ("plateau(0.2)", 0.2, 0.2),
        ("polynomial(0.3, over=9)", 0.3, 0.3),
    ],
)
def test_the_rate_of_the_first_round(spec: str, first: float, after_warmup: float) -> None:
    """A threshold that follows the learning rate is relative to the rate without the warm-up."""
    knob = SCHEDULES.build(spec)
    assert at(knob, FIRST) == pytest.approx(first)
    assert first_value(knob) == after_warmup
    for solver in SOLVERS.factories:
        assert SOLVERS.build(f"{solver}(lr={spec}{NEEDED.get(solver, '')})").first_lr == after_warmup


@pytest.mark.parametrize("solver", SOLVERS.factories)
def test_a_schedule_of_schedules_sets_the_rate_of_a_round(toy: Toy, solver: str) -> None:
    federation, task = toy((20,))
    built = SOLVERS.build(f"{solver}(lr=warmup(step(0.4, at=[3]), over=4), steps=1{NEEDED.get(solver, '')})")
    ours = Problem(task, federation, federation.parties[0], 0)
    rates = [built.train(ours, task.initial, server(now), None, Pull(), {})[0].lr for now in range(5)]
    assert rates == pytest.approx([0.1, 0.2, 0.3, 0.04, 0.04])


def test_nested_specs_state_every_argument() -> None:
    bound = SOLVERS.bind("sgd(lr=warmup(step(0.1, at=[64]), over=5))")
    assert "lr=warmup(then=step(start=0.1, at=[64], factor=0.1), over=5, start=0.0)" in str(bound.full)
    assert str(bound.short) == "sgd(lr=warmup(then=step(start=0.1, at=[64]), over=5))"
    assert SOLVERS.bind(str(bound.full)).full == bound.full


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("warmup(0, over=2)", "then must be"),
        ("warmup(0.1, over=0)", "over must be"),
        ("warmup(0.1)", "over"),
        ("step(step(0.1, at=[1]), at=[2])", "start must be"),
        ("plateau(0.1, factor=1)", "factor must be"),
        ("plateau(0.1, drops=0)", "drops must be"),
        ("plateau(0.1, patience=-1)", "patience must be"),
        ("plateau(exponential(0.1, 0.9))", "start must be"),
    ],
)
def test_bad_arguments_are_refused(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        SCHEDULES.build(spec)


def followed(knob: Knob, losses: list[float | None]) -> tuple[list[float], list[bool], Memory]:
    """Return the rate after each round with its loss, whether the run was finished then, and the last memory."""
    assert isinstance(knob, Plateau)
    memory: Memory = {}
    rates, ends = [], []
    for loss in losses:
        memory, is_finished = knob.follow(memory, loss)
        rates.append(at(knob, server(**knob.knobs(memory))))
        ends.append(is_finished)
    return rates, ends, memory


@settings(deadline=None)  # torch loads its compiler with the first optimizer
@given(
    losses=st.lists(LOSSES, max_size=80),
    factor=st.sampled_from([0.1, 0.5]),
    patience=st.integers(0, 4),
    threshold=st.sampled_from([0.0, 1e-4, 0.1]),
    cooldown=st.integers(0, 3),
)
def test_plateau_is_torchs(
    losses: list[float | None], factor: float, patience: int, threshold: float, cooldown: int
) -> None:
    knob = plateau(0.5, factor=factor, patience=patience, drops=1000, threshold=threshold, cooldown=cooldown)
    theirs = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
        theirs, "min", factor, patience, threshold, cooldown=cooldown, eps=0.0
    )
    expected = []
    for loss in losses:
        if loss is not None:  # a round that was not tested is not an epoch of torch's
            scheduler.step(loss)
        expected.append(theirs.param_groups[0]["lr"])
    rates, ends, memory = followed(knob, losses)
    assert rates == pytest.approx(expected, rel=1e-12)
    assert not any(ends)
    if memory:
        assert float(memory["best"]) == scheduler.best
        assert (int(memory["bad"]), int(memory["cooldown"])) == (scheduler.num_bad_epochs, scheduler.cooldown_counter)


def test_the_run_ends_at_the_last_drop() -> None:
    knob = plateau(1.0, patience=1, drops=3)
    rates, ends, _ = followed(knob, [1.0] * 7)
    assert rates == pytest.approx([1.0, 1.0, 0.1, 0.1, 0.01, 0.01, 0.001])  # a drop at every second bad loss
    assert ends == [False] * 6 + [True]


def test_the_memory_is_tensors_that_a_checkpoint_stores() -> None:
    *_, memory = followed(plateau(1.0), [1.0, None, 2.0])
    dtypes = {name: (value.dtype, value.dim()) for name, value in memory.items()}
    assert dtypes.pop("best") == (torch.float64, 0)
    assert set(dtypes.values()) == {(torch.int64, 0)}
    assert int(memory["bad"]) == 1


def test_a_round_without_a_loss_changes_nothing() -> None:
    *_, before = followed(plateau(1.0, patience=1), [1.0, 2.0])
    *_, after = followed(plateau(1.0, patience=1), [1.0, 2.0, None, None])
    assert before == after


def test_a_warmup_follows_what_comes_after_it() -> None:
    knob = warmup(plateau(1.0, patience=0, drops=2), over=2)
    memory, is_finished = knob.follow({}, 1.0)
    assert (dict(knob.knobs(memory)), is_finished) == ({"plateau": 1.0}, False)
    memory, is_finished = knob.follow(memory, 1.0)
    assert not is_finished
    assert at(knob, server(0, **knob.knobs(memory))) == pytest.approx(0.05)
    assert at(knob, server(5, **knob.knobs(memory))) == pytest.approx(0.1)
    assert knob.follow(memory, 1.0)[1]
    plain = warmup(0.1, over=2)
    assert (plain.follow, plain.knobs, plain.needs_validation) == (None, None, False)


@pytest.mark.parametrize("spec", ["plateau(0.1)", "warmup(plateau(0.1), over=3)"])
def test_plateau_needs_validation_rows(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"validation = 0\.1"):
        check_validation(SCHEDULES.build(spec), has_validation=False)
    check_validation(SCHEDULES.build(spec), has_validation=True)
    check_validation(SCHEDULES.build("warmup(0.1, over=3)"), has_validation=False)
    check_validation(0.1, has_validation=False)
