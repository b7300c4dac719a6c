"""Transforms with random numbers, cohorts and reports; BatchNorm statistics on the wire; and a secure sum."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from laws import SOLVER, bits, close, draw_cohort, models, run
from natives import needs_native
from precision import bound, bound_of_steps
from silobench.engines import ENGINES
from silobench.loop.network import link
from silobench.method.availability import dropout
from silobench.method.transforms import clip, top_k
from silobench.method.types import Context, Layout, Memory, Phase, Transform, Update
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.training.setting import BUFFERS
from silobench.training.state import RoundRecord
from wire import identity, noted

CONTEXT = Context(3, 2, 1, Layout((), (), 0), {})
WORKERS = ["pool(workers=1)", "pool(workers=2)"]
SIZES = (20, 12, 30, 52, 16)


def same(records: Sequence[RoundRecord]) -> list[Any]:
    return [{**bits(record), "engine": None, "workers": None} for record in records]


# --- random numbers -----------------------------------------------------------------------------------


def test_every_transform_round_and_party_has_its_own_random_numbers() -> None:
    def drawn(**changes: Any) -> float:
        purpose = changes.pop("purpose", "noise")
        return float(replace(CONTEXT, **changes).stream(purpose).random())

    others = [drawn(seed=4), drawn(round=3), drawn(party=2), drawn(party=-1), drawn(place=1), drawn(purpose="mask")]
    assert drawn() == drawn()
    assert len({drawn(), *others}) == 7


def test_shared_random_numbers_are_the_same_for_all_parties_and_the_server() -> None:
    def drawn(**changes: Any) -> float:
        return float(replace(CONTEXT, **changes).stream("rotation", shared=True).random())

    assert drawn() == drawn(party=0) == drawn(party=-1)
    assert len({drawn(), drawn(round=3), drawn(place=1), drawn(seed=4)}) == 4
    assert drawn() not in [float(replace(CONTEXT, party=party).stream("rotation").random()) for party in range(-1, 9)]


def noise(log: list[Any] | None = None) -> Transform:
    """Return a transform that adds random numbers, and logs the first of them."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        draw, shared = context.stream("noise"), context.stream("noise", shared=True).random()
        if log is not None:
            log.append((context.round, context.party, context.place, draw.random(), shared))
        return update.map(lambda part: part + torch.from_numpy(draw.normal(size=len(part))).to(part.dtype)), memory

    return Transform(encode)


def test_noise_is_the_same_for_any_number_of_workers(toy) -> None:
    chain, options = (noise(), noise()), {"participation": 2, "seed": 3}
    inline = run("fedavg", toy((20, 9, 30)), SOLVER, *chain, **options)
    for engine in WORKERS:
        assert same(run("fedavg", toy((20, 9, 30)), SOLVER, *chain, **options, engine=ENGINES.build(engine))) == same(
            inline
        )
    assert not torch.equal(models(inline), models(run("fedavg", toy((20, 9, 30)), SOLVER, **options)))


def test_noise_differs_by_round_party_and_place(toy) -> None:
    log: list[Any] = []
    run("fedavg", toy(), SOLVER, noise(log), noise(log))
    assert len({entry[3] for entry in log}) == len(log) == 3 * 3 * 2
    by_round_and_place: dict[Any, set[float]] = {}
    for now, _, place, _, shared in log:
        by_round_and_place.setdefault((now, place), set()).add(shared)
    assert [len(each) for each in by_round_and_place.values()] == [1] * 6


# --- the cohort and reports ---------------------------------------------------------------------------


def reporting() -> Transform:
    """Return a transform that reports its party and its cohort as numbers."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory, Mapping[str, float]]:
        return update, memory, {"cohort": sum(2.0**party for party in context.cohort), "party": float(context.party)}

    return Transform(encode)


@pytest.mark.parametrize("engine", ["inline", *WORKERS, "stacked", pytest.param("native", marks=needs_native)])
def test_a_transform_knows_its_cohort_and_its_reports_are_averaged(toy, engine: str) -> None:
    records = run(
        "fedavg", toy((20, 9, 30, 12)), SOLVER, reporting(), participation=2, seed=1, engine=ENGINES.build(engine)
    )
    for now, record in enumerate(records):
        cohort = draw_cohort(4, 2, 1, now)
        assert record.reports == {"cohort": sum(2.0**party for party in cohort), "party": sum(cohort) / 2}


def test_decode_knows_who_answered(toy) -> None:
    log: list[Context] = []

    def decode(update: Update, context: Context) -> Update:
        log.append(context)
        return update

    chain = identity(), Transform(identity().encode, decode)
    records = run("fedavg", toy((20,) * 8), SOLVER, *chain, participation=0.5, availability=dropout(0.4), rounds=6)
    assert [(c.cohort, c.replied, c.party, c.place) for c in log] == [
        (r.cohort, r.replied if r.replied is not None else r.cohort, -1, 1) for r in records if r.replied != ()
    ]
    assert any(record.replied for record in records)


def test_clip_reports_its_rate_and_the_mean_norm(toy) -> None:
    log: list[float] = []
    measure = noted(log, lambda update, context: float(torch.cat(list(update.vectors().values())).norm()))
    (free,) = run("fedavg", toy((20, 9, 30)), SOLVER, measure, clip(1e9), rounds=1)
    norms = list(log)
    between = sum(sorted(norms)[:2]) / 2  # the shortest passes, the other two are clipped
    (record,) = run("fedavg", toy((20, 9, 30)), SOLVER, clip(between), rounds=1)
    assert free.reports["clip rate"] == 0
    assert record.reports["clip rate"] == pytest.approx(2 / 3)
    assert record.reports["update norm"] == pytest.approx(sum(norms) / 3, rel=bound(60))
    assert "reports" not in run("fedavg", toy(), rounds=1)[0].as_json()


def test_reports_are_in_the_stored_rounds(tmp_path: Path) -> None:
    cell = {"dataset": "digits", "model": "linear", "parties": 4, "rounds": 2, "transforms": "clip(norm=0.01)"}
    (made,) = plan(cell)
    records = list(execute(prepare(made), tmp_path))
    rows = [json.loads(line) for line in (tmp_path / made.id / "rounds.jsonl").read_text().splitlines()]
    assert [row["reports"] for row in rows] == [record.reports for record in records]
    assert rows[0]["reports"]["clip rate"] == 1.0
    assert rows[0]["reports"]["update norm"] > 0.01


# --- BatchNorm statistics -----------------------------------------------------------------------------


def buffers_of(records: Sequence[RoundRecord]) -> Tensor:
    return torch.stack([record.state.server.buffers for record in records])


@pytest.mark.usefixtures("in_double")
def test_statistics_are_a_part_of_the_message_as_changes(normed) -> None:
    log: list[Any] = []
    federated = normed()
    records = run("fedavg", federated, SOLVER, noted(log, lambda update, context: (context.round, update)))
    assert {frozenset(update.total) for _, update in log} == {frozenset(["delta", BUFFERS])}
    before = federated[1].buffers
    for now, after in enumerate(buffers_of(records)):
        updates = [update for place, update in log if place == now]
        change = sum(update.total[BUFFERS] for update in updates) / sum(update.weight for update in updates)
        assert close(after, before + change)
        assert (after - before).norm() > 0.01
        before = after


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "fednova", "fedbn"])
def test_the_identity_changes_nothing_but_rounding(normed, spec: str) -> None:
    plain, ours = run(spec, normed()), run(spec, normed(), SOLVER, identity(), identity())
    assert close(models(ours), models(plain))
    assert close(buffers_of(ours), buffers_of(plain))


@pytest.mark.usefixtures("in_double")
def test_clip_bounds_the_length_including_statistics(normed) -> None:
    log: list[Tensor] = []
    federated = normed()
    vector = noted(log, lambda update, context: torch.cat([update.vectors()[name] for name in ("delta", BUFFERS)]))
    (record,) = run("fedavg", federated, SOLVER, vector, clip(0.01), vector, rounds=1)
    for before, after in zip(log[::2], log[1::2], strict=True):
        assert before[-10:].norm() > 0.01  # the statistics alone are longer
        assert close(after, before * (0.01 / before.norm()))
    params, buffers = (
        getattr(record.state.server, name) - start
        for name, start in (("params", federated[1].initial), ("buffers", federated[1].buffers))
    )
    assert 1e-4 < torch.cat([params, buffers]).norm() <= 0.01 * (1 + bound(63, torch.float64))


@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_top_k_keeps_variances_at_or_above_zero_and_statistics_out_of_its_memory(normed, fraction: float) -> None:
    federated = normed()
    records = run("fedavg", federated, SOLVER, top_k(fraction), rounds=8)
    variances = federated[1].network.layout.slices["1.running_var"]
    size = federated[1].network.layout.trainable
    every = buffers_of(records)[:, variances.start - size : variances.stop - size]
    assert (every >= 0).all()
    assert (every != 1).any()
    assert {name for memory in records[-1].state.memory.values() for name in memory["transform-0"]} == {"delta"}


# --- phases: a secure sum -----------------------------------------------------------------------------

KEY, SHARE = 32, 16  # bytes of a public key, and of a share of one


def masks(keys: Tensor, party: int, others: Sequence[int], size: int) -> Any:
    """Return the sum of a party's masks with others: of two parties, one adds a mask and the other subtracts it."""
    signed = [np.random.default_rng(int(keys[o])).normal(size=size) * (1 if party < o else -1) for o in others]
    return torch.from_numpy(np.sum(signed, axis=0)) if signed else torch.zeros(size)


def secure_sum(log: list[Any] | None = None) -> Transform:
    """Return a transform that hides every message from the server, but not their sum (Bonawitz et al., 2017).

    Parties agree on one key per pair. The masks of two parties cancel in the sum; those with parties that did not
    answer are computed by the server from the keys that the others reveal.
    """

    def agree(memories: Mapping[int, Memory], context: Context) -> tuple[dict[int, Memory], Sequence[Phase]]:
        cohort, count = context.cohort, max(context.cohort) + 1
        drawn = torch.from_numpy(context.stream("keys").integers(1 << 40, size=(count, count)))
        keys = drawn + drawn.T  # the same for both
        others = len(cohort) - 1
        phase = Phase("keys", up=dict.fromkeys(cohort, KEY), down=dict.fromkeys(cohort, KEY * others))
        return {party: {"keys": keys[party]} for party in cohort}, [phase]

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        others = [other for other in context.cohort if other != context.party]
        hidden = update.map(lambda part: part + 100 * masks(memory["keys"], context.party, others, len(part)))
        if log is not None:
            log.append((update, hidden))
        return hidden, memory

    def reveal(memories: Mapping[int, Memory], context: Context) -> tuple[Any, Sequence[Phase]]:
        absent = [party for party in context.cohort if party not in context.replied]
        keys = {party: memory["keys"] for party, memory in memories.items()}
        return (keys, absent), [Phase("shares", up=dict.fromkeys(context.replied, SHARE * len(absent)))]

    def decode(update: Update, context: Context) -> Update:
        keys, absent = context.revealed

        def without_masks(part: Tensor) -> Tensor:
            return part - sum(100 * masks(keys[party], party, absent, len(part)) for party in context.replied)

        return update.map(without_masks)

    return Transform(encode, decode, agree=agree, reveal=reveal)


PLAIN: dict[str, Any] = {"participation": 6, "seed": 2, "rounds": 4, "network": link("1Mbps", latency=0.25)}
MASKED = bound_of_steps(4 * 6 * 8, 50, torch.float64) * 100 * 6  # the rounding of masks, which are this much longer


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("spec", ["fedavg", "scaffold"])
def test_the_server_gets_the_sum_and_nothing_else(toy, spec: str, rate: float) -> None:
    log: list[Any] = []
    options, federated = {**PLAIN, "availability": dropout(rate)}, toy((20, 9, 30, 12, 16, 40, 8, 24))
    plain, ours = run(spec, federated, **options), run(spec, federated, SOLVER, secure_sum(log), **options)
    assert close(models(ours), models(plain), MASKED)
    assert all((hidden.total["delta"] - update.total["delta"]).norm() > 100 for update, hidden in log)
    assert any(record.replied is not None for record in ours) == (rate > 0)
    # Without what is revealed, masks of absent parties stay in the sum.
    half = replace(secure_sum(), decode=lambda update, context: update)
    forgetful = run(spec, federated, SOLVER, half, **options)
    assert close(models(forgetful), models(plain), 1e-3) == (rate == 0)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_every_phase_is_counted_in_bytes_and_on_the_clock(toy, rate: float) -> None:
    options, federated = {**PLAIN, "availability": dropout(rate)}, toy((20, 9, 30, 12, 16, 40, 8, 24))
    plain, ours = run("fedavg", federated, **options), run("fedavg", federated, SOLVER, secure_sum(), **options)
    before, expected = 0.0, 0.0

    def seconds(size: int) -> float:
        return 0.25 + 8 * size / 1e6 if size else 0.0

    for ordinary, record in zip(plain, ours, strict=True):
        replied = record.cohort if record.replied is None else record.replied
        absent = len(record.cohort) - len(replied)
        keys, shares = KEY * 6, SHARE * absent * len(replied)
        assert ordinary.bytes_up == 8 * 15 * len(replied)
        assert record.bytes_up == ordinary.bytes_up + keys + shares
        assert record.bytes_down == ordinary.bytes_down + KEY * 5 * 6
        expected += ordinary.clock - before + seconds(KEY) + seconds(KEY * 5) + seconds(SHARE * absent)
        before = ordinary.clock
        assert record.clock == pytest.approx(expected)
        assert record.state.spent == sum(each.bytes_up + each.bytes_down for each in ours[: record.round])


@pytest.mark.parametrize("engine", WORKERS)
def test_agreed_keys_reach_the_workers(toy, engine: str) -> None:
    options: dict[str, Any] = {**PLAIN, "availability": dropout(0.4)}
    federated = toy((20, 9, 30, 12, 16, 40, 8, 24))
    inline, workers = (
        run("fedavg", federated, SOLVER, secure_sum(), **options, **others)
        for others in ({}, {"engine": ENGINES.build(engine)})
    )
    assert same(inline) == same(workers)
    for record in inline:
        replied = record.cohort if record.replied is None else record.replied
        assert set(replied) <= {party for party, memory in record.state.memory.items() if "transform-0" in memory}


def test_a_run_with_phases_resumes_bit_for_bit(toy) -> None:
    options: dict[str, Any] = {**PLAIN, "availability": dropout(0.4)}
    federated = toy((20, 9, 30, 12, 16, 40, 8, 24))
    whole = run("fedavg", federated, SOLVER, secure_sum(), **options)
    for done, record in enumerate(whole):
        rest = run("fedavg", federated, SOLVER, secure_sum(), **options, state=record.state)
        assert same(rest) == same(whole[done + 1 :])


def chained(log: list[str], name: str) -> Transform:
    """Return a transform that logs its phases."""

    def logged(what: str) -> Callable[..., Any]:
        def call(memories: Mapping[int, Memory], context: Context) -> tuple[Any, Sequence[Phase]]:
            log.append(f"{what} {name}{context.place}")
            return memories if what == "agree" else what, []

        return call

    def decode(update: Update, context: Context) -> Update:
        log.append(f"decode {name}{context.place} {context.revealed}")
        return update

    return Transform(identity().encode, decode, agree=logged("agree"), reveal=logged("reveal"))


def test_a_chain_agrees_in_order_and_reveals_and_decodes_in_reverse(toy) -> None:
    log: list[str] = []
    run("fedavg", toy(), SOLVER, chained(log, "a"), identity(), chained(log, "b"), rounds=1)
    assert log == ["agree a0", "agree b2", "reveal b2", "decode b2 reveal", "reveal a0", "decode a0 reveal"]
