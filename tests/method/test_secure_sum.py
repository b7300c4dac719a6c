"""The transform secure_sum: exact sums, what is sent, and what it can be combined with."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from laws import SOLVER, bits, models, run
from natives import needs_native
from silobench.engines import ENGINES
from silobench.errors import ConfigError, RunError, SpecError
from silobench.loop.advice import advice
from silobench.loop.clocks import device
from silobench.loop.exchanges import gossip
from silobench.loop.network import mesh
from silobench.loop.paces import buffered
from silobench.loop.schedule import Schedule
from silobench.method.aggregates import AGGREGATES
from silobench.method.algorithms import ALGORITHMS
from silobench.method.chain import send
from silobench.method.codecs import SPARSE, Codec, random_subset
from silobench.method.method import Method
from silobench.method.secure import Ring
from silobench.method.solvers import sgd
from silobench.method.transforms import TRANSFORMS, bind_chain, clip, rand_k, secure_sum
from silobench.method.types import ENCRYPT, Context, Layout, Memory, Transform, Update
from silobench.training.party import LocalRound
from silobench.training.setting import BUFFERS, Setting
from silobench.training.state import Reply, RoundRecord

SIZES = (20, 9, 30, 50, 16)
STEPWISE = sgd(lr=0.1, momentum=0.9, steps=1, batch=8, keep_momentum=True)
FINE = 2.0**-16  # of the range: the largest error of a mean
CONTEXT = Context(0, 0, 0, Layout((), (), 0), {}, (0, 1, 2, 3))
PROTOCOLS = ["secure_sum(splits=2, range=4)", "secure_sum(protocol=pairwise, range=4)"]


def built(text: str) -> tuple[Transform, ...]:
    return tuple(term.build() for term in bind_chain(text))


def solver_of(algorithm: str) -> Any:
    return STEPWISE if ALGORITHMS.build(algorithm).lockstep else SOLVER


def catching(log: list[Update], decoded: list[Update]) -> Transform:
    """Return a transform that logs the update of each party, and the sum that the server decodes."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        log.append(update)
        return update, memory

    def adapt(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        decoded.append(update)
        return update, memory

    return Transform(encode, adapt=adapt)


def rounded(update: Update, name: str, kind: str, ring: Ring) -> Any:
    """Return a part as integers of Python, rounded as the ring does it."""
    values = getattr(update, kind)[name].double().numpy().reshape(-1)
    return [round(value * 2.0**ring.exponent) for value in values.tolist()]


# --- exactly the plain sum ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "secure"),
    [
        *(
            (spec, PROTOCOLS[0])
            for spec in ("fedavg", "fedprox(mu=0.1)", "scaffold", "fednova", "gaia", "dgc", "feddyn")
        ),
        *((spec, PROTOCOLS[1]) for spec in ("fedavg", "scaffold", "gaia")),
    ],
)
def test_the_mean_is_that_of_the_plain_run(toy, spec: str, secure: str) -> None:
    plain = run(spec, toy(SIZES), solver_of(spec))
    ours = run(spec, toy(SIZES), solver_of(spec), *built(secure))
    first = (models(ours)[0] - models(plain)[0]).abs().max()
    assert first <= 4 * FINE * (5 if spec in ("gaia", "dgc") else 1)  # these two take the sum of all parties
    assert (models(ours) - models(plain)).abs().max() <= 64 * FINE  # later rounds start from models that differ
    assert [record.train_loss for record in ours] == pytest.approx([record.train_loss for record in plain], abs=1e-4)
    assert [record.steps for record in ours] == [record.steps for record in plain]


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "fednova", "gaia"])
@pytest.mark.parametrize("secure", ["secure_sum(splits=3, range=4)", "secure_sum(protocol=pairwise, range=4, bits=64)"])
def test_the_sum_is_exact_in_the_ring(normed, spec: str, secure: str) -> None:
    log: list[Update] = []
    decoded: list[Update] = []
    run(spec, normed(), solver_of(spec), catching(log, decoded), *built(secure), rounds=2)
    assert len(log) == 2 * 5
    rows = 1 if spec == "gaia" else 64  # the largest party has 52 rows
    width = 64 if "bits=64" in secure else 32
    for now, total in enumerate(decoded):
        parties = log[5 * now : 5 * now + 5]
        assert total.weight == sum(party.weight for party in parties)
        for kind in ("total", "sums"):
            ring = Ring.of(4.0 * (rows if kind == "total" else 1), 5, width)
            names = getattr(parties[0], kind)
            assert set(getattr(total, kind)) == set(names)
            for name, part in names.items():
                if part.dim() > 0:
                    sums = [
                        sum(column) for column in zip(*(rounded(p, name, kind, ring) for p in parties), strict=True)
                    ]
                    expected = torch.tensor([each / 2**ring.exponent for each in sums], dtype=torch.float64)
                    assert torch.equal(getattr(total, kind)[name], expected.to(part.dtype).view(part.shape))
        if BUFFERS in parties[0].total:
            assert BUFFERS in total.total


@pytest.mark.parametrize("buffers", ["average", "local", "keep"])
def test_statistics_are_a_part_of_the_sum(normed, buffers: Any) -> None:
    def after(*transforms: Transform) -> list[RoundRecord]:
        from silobench.loop.rounds import rounds

        method = Method(ALGORITHMS.build("fedavg"), SOLVER, transforms, buffers=buffers)
        return list(rounds(method, *normed(), rounds=2))

    plain, ours = after(), after(secure_sum(range=8.0))
    for one, other in zip(plain, ours, strict=True):
        assert (one.state.server.buffers - other.state.server.buffers).abs().max() <= 64 * FINE


@pytest.mark.parametrize(
    ("engine", "secure"),
    [
        ("pool(workers=2)", PROTOCOLS[1]),
        ("stacked", PROTOCOLS[0]),
        pytest.param("native", PROTOCOLS[0], marks=needs_native),
    ],
)
def test_engines_and_workers_agree(toy, engine: str, secure: str) -> None:
    inline, other = (
        run("scaffold", toy(SIZES), SOLVER, *built(secure), rounds=2, engine=ENGINES.build(name))
        for name in ("inline", engine)
    )
    if engine.startswith("pool"):
        assert [{**bits(each), "engine": 0, "workers": 0} for each in inline] == [
            {**bits(each), "engine": 0, "workers": 0} for each in other
        ]
    assert (models(inline) - models(other)).abs().max() <= 64 * FINE


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.integers(1, 100_000), min_size=2, max_size=6),
    reach=st.floats(1e-3, 1e3),
    data=st.randoms(use_true_random=False),
)
def test_auto_bits_keep_the_mean_fine(rows: list[int], reach: float, data: Any) -> None:
    """Whatever the sizes of the parties and the range, and whoever of them the round is about."""
    secure, least, most = secure_sum(range=reach), min(rows), max(rows)
    context = Context(
        0, 0, 0, Layout((), (), 0), {}, tuple(range(len(rows))),
        weight_bound=2.0 ** math.ceil(math.log2(most)), least_weight=2.0 ** math.floor(math.log2(least)),
    )  # fmt: skip
    values = [torch.tensor([data.uniform(-reach, reach), reach, -reach], dtype=torch.float64) for _ in rows]
    updates = [Update.of(float(count), delta=value) for count, value in zip(rows, values, strict=True)]
    total = summed(secure, updates, context)
    exact = sum(update.total["delta"] for update in updates) / sum(rows)
    assert total.weight == sum(rows)
    assert (total.mean()["delta"] - exact).abs().max() <= FINE * min(1.0, reach)
    # A single party, the smallest one, is no less exact than the mean of all: so no group of survivors is.
    ring = total_ring(secure, updates[0], context)
    assert ring.step / 2 / least <= FINE * min(1.0, reach)


def summed(secure: Transform, updates: Sequence[Update], context: Context) -> Update:
    """Return what the server decodes from the messages of these parties."""
    assert secure.agree
    assert secure.reveal
    memories, _ = secure.agree({party: {} for party in context.cohort}, context)
    sent = [
        secure.encode(update, memories[party], replace(context, party=party)) for party, update in enumerate(updates)
    ]
    total = sent[0][0]
    for each in sent[1:]:
        total = total + each[0]
    at_server = replace(context, replied=context.cohort, nbytes=total.dense_nbytes)
    revealed, _ = secure.reveal(memories, at_server)
    return secure.decode(total, replace(at_server, revealed=revealed))


def total_ring(secure: Transform, update: Update, context: Context) -> Ring:
    assert secure.agree
    memories, _ = secure.agree({party: {} for party in context.cohort}, context)
    message = secure.encode(update, memories[0], context)[0]
    ring: Ring = message.codecs["secure total delta"].note.ring
    return ring


@pytest.mark.parametrize(("rows", "least", "width"), [(64, 16, 32), (64, 1, 32), (2**12, 1, 32), (2**14, 1, 64)])
def test_auto_takes_32_bits_where_they_suffice(rows: int, least: int, width: int) -> None:
    context = replace(CONTEXT, weight_bound=float(rows), least_weight=float(least))
    update = Update.of(float(rows), delta=torch.ones(3))
    assert total_ring(secure_sum(range=1.0), update, context).bits == width
    assert total_ring(secure_sum(range=1.0, bits=64), update, context).bits == 64
    assert total_ring(secure_sum(range=1.0, bits=32), update, context).bits == 32


def test_a_range_that_would_round_updates_to_nothing_is_refused() -> None:
    update = Update.of(1.0, delta=torch.ones(3))
    assert total_ring(secure_sum(range=1e6), update, CONTEXT).bits == 64
    with pytest.raises(ConfigError, match=r"with 32 bits the mean may be wrong by .*write bits=64, or give a smaller"):
        total_ring(secure_sum(range=1e9, bits=32), update, CONTEXT)
    with pytest.raises(ConfigError, match=r"with 64 bits the mean may be wrong by .*: give a smaller range"):
        total_ring(secure_sum(range=1e25), update, CONTEXT)


@pytest.mark.parametrize("codec", [None, SPARSE, random_subset(0.5, seed=1)], ids=["none", "sparse", "rand_k"])
def test_only_a_lossless_codec_is_taken_for_the_sum(codec: Codec | None) -> None:
    """By it the server packs its answer, which would lose entries by another one."""
    update = Update.of(1.0, delta=torch.tensor([1.0, 0.0, 0.0, 2.0]))
    total = summed(secure_sum(range=4.0), [update.coded(codec) if codec else update] * 4, CONTEXT)
    assert total.codecs == ({"delta": SPARSE} if codec is SPARSE else {})


def test_the_seconds_of_encryption_are_a_part_of_those_that_pass() -> None:
    secure, update = secure_sum(range=1.0), Update.of(1.0, delta=torch.zeros(3))
    assert secure.agree
    memories, _ = secure.agree({}, CONTEXT)
    began = time.perf_counter()
    *_, report = secure.encode(update, memories[0], CONTEXT)
    assert 0 <= report[ENCRYPT] <= time.perf_counter() - began


# --- what the server sees -----------------------------------------------------------------------------


def replies_of(toy: Any, monkeypatch: pytest.MonkeyPatch, *transforms: Transform) -> list[Reply]:
    seen: list[Reply] = []
    before = LocalRound.reply

    def reply(self: LocalRound, *arguments: Any, **named: Any) -> Reply:
        seen.append(before(self, *arguments, **named))
        return seen[-1]

    monkeypatch.setattr(LocalRound, "reply", reply)
    run("fednova", toy(SIZES), SOLVER, *transforms, rounds=2)
    return seen


@pytest.mark.parametrize("protocol", ["splits", "pairwise"])
def test_nothing_arrives_in_the_clear(toy, monkeypatch: pytest.MonkeyPatch, protocol: Any) -> None:
    replies = replies_of(toy, monkeypatch, clip(1.0), secure_sum(protocol=protocol))
    assert len(replies) == 10
    for reply in replies:
        assert reply.update.weight == 0
        assert not reply.update.total
        assert math.isnan(reply.loss)
        assert not reply.reports
        assert set(reply.update.sums) == {"secure numbers", "secure total direction"}
        assert all(not part.is_floating_point() for part in reply.update.sums.values())
    # Weight, loss, reach, and what clip reports: the same five numbers for all, under masks that are never the same.
    numbers = [tuple(reply.update.sums["secure numbers"].tolist()) for reply in replies]
    assert {len(each) for each in numbers} == {5}
    assert len({number for each in numbers for number in each}) == 50  # 64 random bits: equal with probability 2^-53
    plain = replies_of(toy, monkeypatch, clip(1.0))
    assert all(reply.update.weight > 1 and reply.reports for reply in plain)  # so the checks above can fail


def test_reports_and_losses_are_means_over_all_parties(toy) -> None:
    plain = run("fedavg", toy(SIZES), SOLVER, clip(0.5))
    ours = run("fedavg", toy(SIZES), SOLVER, clip(0.5), secure_sum())
    assert [record.reports.keys() for record in ours] == [record.reports.keys() for record in plain]
    for one, other in zip(plain, ours, strict=True):
        assert other.reports == pytest.approx(one.reports, abs=1e-4)
        assert other.train_loss == pytest.approx(one.train_loss, abs=1e-4)


def test_masks_differ_and_results_do_not(toy) -> None:
    first, second = (run("scaffold", toy(SIZES), SOLVER, secure_sum(protocol="pairwise", range=4.0)) for _ in range(2))
    assert list(map(bits, first)) == list(map(bits, second))


def test_rand_k_sends_and_masks_only_the_shared_places(toy) -> None:
    chain = (clip(1.0), rand_k(0.2), secure_sum(splits=2))
    plain, ours = run("scaffold", toy(SIZES), SOLVER, *chain[:2]), run("scaffold", toy(SIZES), SOLVER, *chain)
    assert (models(plain) - models(ours)).abs().max() <= 5 * 64 * FINE  # values arrive five times as long
    vectors, entries, numbers, seal = 2, 3, 2 + 2, 28  # a fifth of 15; weight, loss and two reports
    assert ours[0].bytes_up == 5 * (2 * (4 * vectors * entries + 8 * numbers) + seal)
    assert ours[0].dense_up == plain[0].dense_up


@pytest.mark.parametrize(
    "chain", ["error_feedback | rand_k(fraction=0.4, scale=false)", "rand_k(fraction=0.4, scale=false, feedback=true)"]
)
def test_errors_are_fed_back(toy, chain: str) -> None:
    plain, ours = (
        run("fedavg", toy(SIZES), SOLVER, *built(f"{chain}{end}"), rounds=4) for end in ("", " | secure_sum(range=8)")
    )
    assert (models(plain) - models(ours)).abs().max() <= 8 * 16 * FINE
    for one, other in zip(plain, ours, strict=True):
        for party, memory in one.state.memory.items():
            rest, other_rest = memory["transform-0"]["delta"], other.state.memory[party]["transform-0"]["delta"]
            assert rest.norm() > 0
            assert (rest - other_rest).abs().max() <= 8 * 16 * FINE


def test_the_answer_in_lockstep_is_the_decoded_sum(toy) -> None:
    """Gaia's messages are whole, because places would tell; the server's answer is as short as it is without masks."""
    plain, ours = (
        run("gaia(threshold=0.5)", toy(SIZES, "mlp(6)"), STEPWISE, *chain) for chain in ((), (secure_sum(range=1.0),))
    )
    seal, numbers = 28, 2
    for one, other in zip(plain, ours, strict=True):
        shared = 5 * ((one.bytes_up and 4 * 51) + 8 * numbers + seal)
        assert other.bytes_down - shared == one.bytes_down
        assert other.bytes_up == shared + 5 * (4 * 51 + 8 * numbers)


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chain", "reason"),
    [
        ("secure_sum(splits=2)", "needs to know how large an entry can be"),
        ("clip(norm=1) | error_feedback | rand_k(scale=false) | secure_sum", "needs to know how large"),
        ("clip(norm=1) | quantize | secure_sum", "in a form of its own"),
        ("clip(norm=1) | sign | secure_sum", "in a form of its own"),
        ("clip(norm=1) | low_rank | secure_sum(range=1)", "in a form of its own"),
        ("clip(norm=1) | top_k | secure_sum(range=1)", "every party chooses the entries"),
        ("secure_sum(range=1) | clip(norm=1)", "cannot come after it"),
        ("secure_sum(range=1) | secure_sum(range=1)", "cannot come after it"),
    ],
)
def test_chains_that_are_refused(chain: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Method(ALGORITHMS.build("fedavg"), SOLVER, built(chain))


def test_the_bound_of_a_plugin_may_follow_from_the_round() -> None:
    """Before a run it is asked for that of the first round, and no round comes before it."""
    asked = list[int]()

    def bound(context: Context) -> float:
        asked.append(context.round)
        return 1 / (1 + context.round)

    Method(ALGORITHMS.build("fedavg"), SOLVER, (Transform(lambda u, m, c: (u, m), bound=bound), secure_sum()))
    assert set(asked) == {0}


@pytest.mark.parametrize(
    "spec",
    [
        "secure_sum(protocol=pairwise, splits=2)",
        "secure_sum(protocol=pairwise, send=seeds)",
        "secure_sum(threshold=3)",
        "secure_sum(bits=16)",
        "secure_sum(range=0)",
        "secure_sum(splits=0)",
    ],
)
def test_arguments_that_are_refused(spec: str) -> None:
    with pytest.raises((ConfigError, SpecError)):
        TRANSFORMS.build(spec)


@pytest.mark.parametrize("aggregate", ["median", "trimmed_mean", "krum"])
def test_other_aggregates_are_refused(aggregate: str) -> None:
    with pytest.raises(ConfigError, match="aggregate = mean"):
        Method(ALGORITHMS.build("fedavg"), SOLVER, (secure_sum(range=1.0),), aggregate=AGGREGATES.build(aggregate))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"network": mesh()}, "exchange = star"),
        ({"exchange": gossip("ring")}, "leave transforms empty"),
        ({"pace": buffered(2), "clock": device(speed=100.0)}, "leave pace at synchronous"),
        ({"participation": 1}, "let at least two parties take part in a round, better three"),
    ],
)
def test_rounds_without_a_common_server_are_refused(toy, options: Mapping[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        run("fedavg", toy(SIZES), SOLVER, secure_sum(range=1.0), **options)


def test_too_many_parts_and_a_low_threshold_are_refused(toy) -> None:
    for secure, reason in (
        (secure_sum(splits=6, range=1.0), "splits=6"),
        (secure_sum(protocol="pairwise", threshold=2, range=1.0), "more than half"),
    ):
        with pytest.raises(ConfigError, match=reason):
            run("fedavg", toy(SIZES), SOLVER, secure)


@pytest.mark.parametrize("value", [1.5, math.nan, math.inf, -math.inf])
def test_an_entry_beyond_the_range_is_an_error(toy, value: float) -> None:
    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        def spoilt(part: Tensor) -> Tensor:
            part = part.clone()
            part[2] = value * update.weight
            return part

        return (update.map(spoilt) if (context.round, context.party) == (1, 1) else update), memory

    chain = (clip(1.0), Transform(encode), secure_sum(range=1.0))
    with pytest.raises(RunError, match=f"round 2, party 1: an entry of delta is {abs(value):g}, but"):
        run("fedavg", toy(SIZES), SOLVER, *chain)


@pytest.mark.parametrize("loss", [math.nan, math.inf, 2.0**25])
def test_a_loss_without_room_is_an_error(loss: float) -> None:
    secure, update = secure_sum(range=1.0), Update.of(9.0, delta=torch.zeros(3))
    context = replace(CONTEXT, weight_bound=64.0)
    assert secure.agree is not None
    memories, _ = secure.agree({}, context)
    send(update, (secure,), [memories[0]], context, loss=2.0**24)
    with pytest.raises(RunError, match=f"round 1, party 0: the training loss is {loss:.6g}, but".replace("+", r"\+")):
        send(update, (secure,), [memories[0]], context, loss=loss)


@pytest.mark.parametrize(("size", "reason"), [(3, "different parts"), (2, "different lengths")])
def test_messages_with_other_parts_are_an_error(toy, size: int, reason: str) -> None:
    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        more = {"first": torch.zeros(3)} if context.party == 0 else {"other": torch.zeros(size)}
        return update.with_sums(**more), memory

    with pytest.raises(RunError, match=reason):
        run("fedavg", toy((20, 9)), SOLVER, Transform(encode), secure_sum(range=4.0))


def test_a_clipped_update_at_its_bound_fits(toy) -> None:
    """One entry as large as the norm allows, up to rounding, at a party with as many rows as the bound on weights."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        return update.map(lambda part: torch.zeros_like(part).index_fill_(0, torch.tensor(0), 1e6)), memory

    (record,) = run("fedavg", toy((32, 32)), SOLVER, Transform(encode), clip(0.3), secure_sum(), rounds=1)
    start = toy((32, 32))[1].initial
    change = record.state.server.params - start
    assert change[0] == pytest.approx(0.3, abs=0.3 * FINE + 1e-6)
    assert not change[1:].any()


def test_sparse_algorithms_get_a_note(toy) -> None:
    def notes(algorithm: str, *transforms: Transform) -> str:
        method = Method(ALGORITHMS.build(algorithm), STEPWISE, transforms)
        federation, task = toy(SIZES)
        return " ".join(advice(Schedule(Setting(method, federation, task, 0))))

    assert "all are sent" in notes("gaia", secure_sum(range=1.0))
    assert "all are sent" not in notes("gaia") + notes("bsp", secure_sum(range=1.0))
