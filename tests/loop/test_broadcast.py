"""A compressed broadcast: rounds by hand, bytes of parties that missed rounds, and work that survives a stop."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from laws import SOLVER, ByHand, bits, close, draw_cohort, run
from precision import bound_of_steps
from silobench.engines import ENGINES
from silobench.errors import ConfigError
from silobench.loop.clocks import device
from silobench.loop.downlink import downlink
from silobench.loop.exchanges import gossip, mesh
from silobench.loop.loop import initial_state
from silobench.loop.network import link
from silobench.loop.network import mesh as mesh_network
from silobench.loop.paces import Pace, buffered
from silobench.loop.schedule import Schedule
from silobench.method.algorithms import fedavg
from silobench.method.availability import dropout
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.method.transforms import bind_chain, clip, top_k
from silobench.method.types import SPARSE, Context, Local, Memory, Server, Transform, Update, send_delta
from silobench.runs.checkpoint import pack, unpack
from silobench.runs.plan import bind
from silobench.runs.stored import checkpoint_file
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State
from wire import identity, noted, quantised

SIZES = (20, 9, 30, 12, 16, 40)


def replica(state: State, part: str = "delta") -> Tensor:
    """Return what parties hold after a round."""
    return state.extra["broadcast"][f"part/{part}"]


def built(chain: str) -> tuple[Transform, ...]:
    return tuple(transform.build() for transform in bind_chain(chain))


def without_broadcast(record: RoundRecord) -> Any:
    """Return all of a record to the bit, except what only a run with a compressed broadcast has."""
    facts = bits(record)
    facts["reports"] = {name: value for name, value in record.reports.items() if name != "broadcast gap"}
    facts["state"]["extra"] = {name: value for name, value in facts["state"]["extra"].items() if name != "broadcast"}
    return facts


# --- by hand ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feedback", [True, False])
@pytest.mark.parametrize("participation", [1.0, 2])
def test_three_rounds_by_hand(in_double, toy, gradient, feedback: bool, participation: float | int) -> None:
    """The server adds changes to its own model, and the largest entries of what parties lack reach them."""
    hand, seed = ByHand(toy(), gradient, seed=5), 5
    chain = (top_k(0.4, feedback=feedback),)
    ours = run("fedavg", toy(), hand.solver, seed=seed, participation=participation, broadcast=chain)
    model, held = hand.start, hand.start
    for now, record in enumerate(ours):
        gap = model - held
        sent = gap.abs().argsort(descending=True)[: 6 if now else 15]  # 0.4 of 15 entries
        held = held.clone()
        held[sent] += gap[sent]
        cohort = draw_cohort(3, participation, seed, now)
        ends = [hand.walk(party, now, held)[0] for party in cohort]
        model = model + sum(w * (end - held) for w, end in zip(hand.shares(cohort), ends, strict=True))
        assert close(record.state.server.params, model)
        assert close(replica(record.state), held)


def test_every_party_trains_from_the_replica(toy) -> None:
    seen: dict[int, list[Tensor]] = {}

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        seen.setdefault(server.round, []).append(server.params)
        return send_delta(local, server, memory)

    algorithm = replace(fedavg(), message=message)
    records = run(algorithm, toy(SIZES), participation=4, rounds=5, broadcast=(top_k(0.2),))
    for now, record in enumerate(records):
        assert len(seen[now]) == 4
        assert all(torch.equal(params, replica(record.state)) for params in seen[now])
        assert now == 0 or not torch.equal(replica(record.state), records[now - 1].state.server.params)
        assert (record.reports["broadcast gap"] > 0) == (now > 0)


# --- bytes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("availability", [None, dropout(0.4)])
def test_a_party_is_sent_what_it_missed_or_the_whole_model(toy, availability) -> None:
    options = {"participation": 2, "availability": availability, "rounds": 14, "broadcast": (top_k(0.3),)}
    records = run("fedavg", toy(SIZES, "mlp(6)"), **options)
    whole, messages, last_seen = records[0].state.server.params.nbytes, list[int](), dict[int, int]()
    kinds = set()
    for now, record in enumerate(records):
        before = replica(records[now - 1].state) if now else None
        change = replica(record.state) - before if before is not None else None
        messages.append(whole if change is None else Update({"delta": change}, 1.0).coded(SPARSE).nbytes)
        missed = {party: sum(messages[last_seen[party] + 1 :]) for party in record.cohort if party in last_seen}
        assert record.bytes_down == sum(min(whole, missed.get(party, whole)) for party in record.cohort)
        assert record.dense_down == whole * len(record.cohort)
        kinds |= {"whole" if size >= whole else size // messages[-1] for size in missed.values()}
        last_seen |= dict.fromkeys(record.cohort, now)
    assert kinds >= {"whole", 1, 2}  # else this test shows less than it claims


def test_time_and_budget_follow_the_bytes(toy) -> None:
    options = {"network": link("1Mbps", latency=0.0), "rounds": 3}
    plain, ours = (
        run("fedavg", toy(SIZES, "mlp(6)"), **options, broadcast=chain) for chain in ((), (top_k(0.1, False),))
    )
    for before, one, other in zip((None, *ours[:-1]), ours, plain, strict=True):
        saved = (other.bytes_down - one.bytes_down) / len(SIZES)
        assert (saved > 0) == (one.round > 1)
        start, begin = (before.clock, before.state.spent) if before else (0.0, 0)
        assert one.clock - start == pytest.approx(other.clock / other.round - saved * 8 / 1e6)
        assert one.state.spent - begin == one.bytes_up + one.bytes_down


# --- everything that is sent --------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["scaffold", "scaffold(option=1)", "fedavg", "fedbn", "fedper", "feddyn(alpha=0.1)"])
def test_all_parts_go_through_the_chain(normed, spec: str) -> None:
    log: list[Any] = []
    chain = (noted(log, lambda update, context: (context.party, set(update.total))), quantised())
    records = run(spec, normed(), rounds=3, broadcast=chain)
    sent = {"delta"} | ({"network buffers"} if spec not in ("fedbn", "fedper") else set())
    sent |= {"extra/control"} if "scaffold" in spec else set()
    assert log == [(-1, sent)] * 2
    state = records[-1].state
    sizes = {name: replica(state, name).numel() for name in sent}
    assert records[-1].bytes_down == 5 * sum(8 + size for size in sizes.values())  # one byte per entry, and a scale
    for name in sent - {"delta"}:
        before = records[-2].state
        exact = before.server.buffers if name == "network buffers" else before.server.extras["control"]
        step = (exact - replica(before, name)).abs().max() / 127
        assert (replica(state, name) - exact).abs().max() <= 0.5 * step * (1 + 1e-9)


def test_statistics_are_those_of_the_parties_whatever_form_they_are_sent_in(in_double, normed) -> None:
    """With transforms parties send the change of the statistics that they hold, and not of the server's own."""
    chain = (top_k(0.3),)
    whole, changes = (run("fedavg", normed(), SOLVER, *t, rounds=4, broadcast=chain) for t in ((), (identity(),)))
    for one, other in zip(whole, changes, strict=True):
        assert close(other.state.server.buffers, one.state.server.buffers)
    assert not close(replica(whole[-1].state, "network buffers"), whole[-2].state.server.buffers)


def test_a_lost_round_leaves_the_server_as_it_is(normed) -> None:
    records = run(
        "fedavg",
        normed(),
        rounds=3,
        availability=lambda cohort, seed, now: cohort[: now < 2 and 9],
        broadcast=(top_k(0.2),),
    )
    for part in ("params", "buffers"):
        assert torch.equal(*(getattr(record.state.server, part) for record in records[1:]))


def test_scalars_and_integers_are_sent_as_they_are(toy) -> None:
    """Extras of any kind: they are neither differences nor compressed."""
    algorithm = replace(
        fedavg(),
        extras=lambda params: {"count": torch.tensor([3, 4]), "scale": torch.tensor(0.1)},
        absorb=lambda server, update: (
            update.mean()["delta"], {"count": server.extras["count"] + 1, "scale": server.extras["scale"] * 3},
        ),
    )  # fmt: skip
    records = run(algorithm, toy(), broadcast=(clip(1e-3), quantised()))
    for before, record in pairwise(records):
        for name, value in before.state.server.extras.items():
            assert torch.equal(replica(record.state, f"extra/{name}"), value)
        assert record.bytes_down == 3 * (8 + 15 + 2 * 8 + 4)  # two integers and a scalar beside the model


# --- chains that compress nothing, or too much --------------------------------------------------------


@pytest.mark.parametrize("chain", ["top-k(1)", "clip(1e-6)", "quantize(bits=32)", "rand-k(1)", "low-rank(rank=99)"])
@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "fedbn"])
def test_a_chain_that_shortens_nothing_has_the_bits_of_none(normed, spec: str, chain: str) -> None:
    """The whole model is sent where that is not longer, so nothing is rounded."""
    ours, plain = (run(spec, normed(), participation=3, broadcast=built(each)) for each in (chain, ""))
    assert [without_broadcast(record) for record in ours] == [without_broadcast(record) for record in plain]


@pytest.mark.parametrize("spec", ["solo", "combined"])
def test_baselines_ignore_it(toy, spec: str) -> None:
    ours, plain = (run(spec, toy(), broadcast=each) for each in ((top_k(0.1),), ()))
    assert [bits(record) for record in ours] == [bits(record) for record in plain]


def scaled_choice(share: float) -> Transform:
    """Return a transform that sends random entries, scaled up so that their mean is right."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        draw = torch.from_numpy(context.stream("choice").random(15)) < share
        return update.map(lambda part: part * draw / share).coded(SPARSE), memory

    return Transform(encode)


@pytest.mark.parametrize(
    "chain",
    [
        "top-k(0.2)", "rand-k(0.1)", "rand-k(0.3, scale=false)", "low-rank(rank=1)", "sign", "quantize(bits=2)",
        "quantize(bits=8)", "error-feedback | sign", "top-k(0.2) | quantize(bits=4)", "low-rank(1) | quantize",
    ],
)  # fmt: skip
def test_every_chain_brings_the_replica_to_the_model(toy, chain: str) -> None:
    """A model that stays as it is arrives in the end, by shorter messages than the whole of it."""
    federated = toy((20, 20, 20), "mlp(16)", features=12)
    schedule = Schedule(Setting(Method(fedavg(), sgd()), *federated, seed=0), broadcast=built(chain))
    state = initial_state(schedule.setting)
    state = replace(state, extra=downlink(schedule, state, state.server).extra({}, (0, 1, 2)))
    change = torch.from_numpy(np.random.default_rng(0).normal(size=state.server.params.shape)).float()
    server, sizes, gaps = replace(state.server, params=state.server.params + change), list[int](), list[float]()
    for now in range(1, 150):
        sent = downlink(schedule, state, replace(server, round=now))
        gaps.append(sent.report["broadcast gap"])
        sizes.append(sent.sizes((0,))[0])
        state = replace(state, extra=sent.extra(state.extra, (0, 1, 2)))
    assert gaps[-1] < 0.02 * gaps[0] or gaps[-1] < 1e-6
    assert max(sizes) < server.params.nbytes


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.9])
def test_an_unbiased_chain_does_not_diverge(toy, share: float) -> None:
    """Without a factor the distance would grow by (1 - share) / share in each round."""
    schedule = Schedule(Setting(Method(fedavg(), sgd()), *toy(), seed=0), broadcast=(scaled_choice(share),))
    state = initial_state(schedule.setting)
    state = replace(state, extra=downlink(schedule, state, state.server).extra({}, (0, 1, 2)))
    server = replace(state.server, params=state.server.params + torch.linspace(1, 2, 15))
    gaps = []
    for now in range(1, 60):
        before, sent = state.extra["broadcast"], downlink(schedule, state, replace(server, round=now))
        change = sent.memory["part/delta"] - before["part/delta"]
        size = Update({"delta": change}, 1.0).coded(SPARSE).nbytes + (4 if share < 0.75 and change.any() else 0)
        assert int(sent.memory["sent"] - before["sent"]) == min(size, sent.whole)
        gaps.append(sent.report["broadcast gap"])
        state = replace(state, extra=sent.extra(state.extra, (0,)))
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(gaps))
    assert gaps[-1] < 0.05 * gaps[0]


# --- resuming, engines, paces -------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["scaffold", "fedbn", "fedavg"])
@pytest.mark.parametrize("options", [{}, {"pace": buffered(2), "clock": device(100, spread=1.0)}], ids=["all", "two"])
def test_a_run_continues_from_its_checkpoint(tmp_path: Path, normed, spec: str, options: Mapping[str, Any]) -> None:
    common = {**options, "rounds": 6, "participation": 4, "broadcast": (top_k(0.2), quantised())}
    whole = run(spec, normed(), **common)
    file = checkpoint_file(tmp_path)
    file.parent.mkdir(parents=True)
    file.write_bytes(pack(whole[2].state, {"bytes": 0, "sha256": ""}))
    rest = run(spec, normed(), **common, state=unpack(tmp_path))
    assert [bits(record) for record in rest] == [bits(record) for record in whole[3:]]


@pytest.mark.parametrize("spec", ["fedavg", "scaffold", "fedprox(mu=0.1)"])
@pytest.mark.parametrize("engine", ["stacked", "native"])
def test_engines_agree(toy, spec: str, engine: str) -> None:
    federated, chain = toy(SIZES, "mlp(6)"), (top_k(0.2),)
    first, second, third = run(spec, federated, broadcast=chain)
    for earlier, expected in ((first, second), (second, third)):
        options = {"rounds": expected.round, "state": earlier.state, "engine": ENGINES.build(engine)}
        (ours,) = run(spec, federated, broadcast=chain, **options)
        assert ours.engine == engine
        assert torch.equal(replica(ours.state), replica(expected.state))
        assert (ours.bytes_down, ours.dense_down) == (expected.bytes_down, expected.dense_down)
        assert close(ours.state.server.params, expected.state.server.params, bound_of_steps(20, 30))


def test_a_buffer_of_the_size_of_the_cohort_is_synchronous(toy) -> None:
    options = {"clock": device(100), "network": link("1Mbps"), "participation": 3, "broadcast": (top_k(0.2),)}
    together, ours = (run("fedavg", toy(SIZES), **options, pace=pace) for pace in (None, buffered(6)))
    for one, other in zip(ours, together, strict=True):
        assert {**bits(one), "reports": {}} == {**bits(other), "reports": {}}
        assert one.time["parties"]["communicate"] == pytest.approx(other.time["parties"]["communicate"], abs=1e-8)


def test_messages_in_flight_take_as_long_as_their_bytes(toy) -> None:
    pace = Pace(takes=lambda arrivals: 1)
    options = {"pace": pace, "clock": device(1000, spread=1.0), "network": link("10kbps", latency=0.0)}
    records = run("fedavg", toy(SIZES, "mlp(16)"), **options, rounds=60, broadcast=(top_k(0.02),))
    communicate = len(SIZES) * sum(record.time["parties"]["communicate"] for record in records)
    up, down = (sum(getattr(record, f"bytes_{way}") for record in records) for way in ("up", "down"))
    whole = records[0].state.server.params.nbytes
    assert (up + down) * 8 / 1e4 == pytest.approx(communicate, abs=len(SIZES) * 2 * whole * 8 / 1e4)  # last trips
    assert down < 0.5 * sum(record.dense_down for record in records)


def test_statistics_of_a_message_that_counts_nothing_are_the_servers_own(in_double, normed) -> None:
    """They are not those of the replica, which a party was sent."""
    pace = Pace(takes=lambda arrivals: 1, discount=lambda staleness: float(staleness == 0))
    options = {"pace": pace, "clock": device(100, spread=1.0), "rounds": 8, "broadcast": (top_k(0.2),)}
    records, stale = run("fedavg", normed(), **options), 0
    for before, record in pairwise(records):
        if record.reports["staleness"]:
            stale += 1
            assert close(record.state.server.buffers, before.state.server.buffers)
    assert stale > 2


def test_random_numbers_of_both_ways_are_independent(toy) -> None:
    ways: list[list[float]] = [[], []]
    up, down = (noted(log, lambda update, context: context.stream("places", shared=True).random()) for log in ways)
    run("fedavg", toy(), SOLVER, up, rounds=4, broadcast=(down,))
    assert len(set(ways[0])) == 4
    assert len(set(ways[1])) == 3
    assert not {*ways[0]} & {*ways[1]}


# --- refused ------------------------------------------------------------------------------------------


def hidden() -> Transform:
    return replace(identity(), agree=lambda memories, context: (memories, []))


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("bsp", {}, "the server sends only what the parties' messages add up to: leave broadcast out"),
        ("gaia", {}, "the server sends only what the parties' messages add up to: leave broadcast out"),
        ("fedavg", {"exchange": mesh()}, "the exchange mesh has no server that does: leave broadcast out"),
        ("fedavg", {"network": mesh_network()}, "the exchange mesh has no server that does: leave broadcast out"),
        ("fedavg", {"exchange": gossip()}, "the exchange gossip has no server that does: leave broadcast out"),
        ("fedavg", {"broadcast": (hidden(),)}, "hides the messages of parties from the server"),
        ("fedavg", {"broadcast": (top_k,)}, "one of the transforms of broadcast is the function top_k"),
        ("fedavg", {"broadcast": "top-k"}, "broadcast is the text 'top-k', but a part is needed"),
        ("fedavg", {"broadcast": (quantised(), quantised())}, "two transforms pack the values of delta"),
    ],
)
def test_refusals(toy, spec: str, options: Mapping[str, Any], message: str) -> None:
    solver = sgd(steps=1, keep_momentum=True) if spec in ("bsp", "gaia") else SOLVER
    with pytest.raises(ConfigError, match=message.replace("(", "\\(")) as refusal:
        run(spec, toy(), solver, **{"broadcast": (top_k(0.1),), **options})
    assert "\n" not in str(refusal.value)


# --- the key ------------------------------------------------------------------------------------------


def test_the_key_is_part_of_a_run_and_its_absence_is_not() -> None:
    plain, empty, ours = (
        bind({"dataset": "fcube", **key}) for key in ({}, {"broadcast": ""}, {"broadcast": "top-k | clip"})
    )
    assert plain.id == empty.id
    assert "broadcast" not in plain.config
    assert "broadcast" not in plain.label
    assert ours.id != plain.id
    assert ours.label["broadcast"] == "top-k | clip"
    assert ours.config["broadcast"].startswith("top-k(fraction=0.01, feedback=True")
    start = bind({"dataset": "fcube", "broadcast": "top-k", "start": "centralised(rounds=1)"}).origin
    assert start is not None
    assert "broadcast" not in start.config
