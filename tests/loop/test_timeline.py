"""Time by part: bars add up, by hand and for any trips; and what rounds record of their rows, bytes and seconds."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import silobench as sb
from laws import SOLVER, Toy, run
from natives import needs_native
from silobench.engines import ENGINES
from silobench.errors import ConfigError, SpecError
from silobench.loop.accounts import core_seconds
from silobench.loop.clocks import CLOCKS, device
from silobench.loop.exchanges import gossip, mesh
from silobench.loop.loop import initial_state
from silobench.loop.network import link
from silobench.loop.paces import buffered, unpacked
from silobench.loop.timeline import PARTY_PARTS, SERVER_PARTS, Timeline, Trip
from silobench.method.availability import dropout
from silobench.method.control import Controller, Orders
from silobench.method.method import Method
from silobench.method.transforms import top_k
from silobench.method.types import Context, Memory, Phase, Transform, Update
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.facts import RoundRow
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run
from silobench.training.party import LocalRound
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, Tally
from silobench.training.stopwatch import Stopwatch

SIZES = (20, 9, 30, 12)
BYTES = 4 * 15
SLOW = link("0.1kbps")  # a message of the toy model takes 4.8 seconds: far more than anything that is measured
ROUNDING = 1e-9 * (len(PARTY_PARTS) + 1)  # every number of a record is rounded to nine digits


def adds_up(time: dict[str, Any]) -> bool:
    bars = [time[bar] for bar in ("server", "parties") if bar in time]
    is_positive = all(seconds >= 0 for bar in bars for seconds in bar.values())
    return is_positive and all(abs(sum(bar.values()) - time["total"]) <= ROUNDING * (1 + time["total"]) for bar in bars)


# --- the timeline by itself ---------------------------------------------------------------------------


def test_a_round_by_hand() -> None:
    """Three parties, of which one was not asked; one of the others trains twice as long."""
    timeline = Timeline(parties=3)
    timeline.at_server("encode", 0.5)
    timeline.trips([Trip(0, 1, 4, 0.25, 0.5, 2), Trip(0, 1, 2, 0.25, 0.5, 2)], 0, 7.75)
    timeline.at_server("aggregate", 0.25)
    timeline.at_server("test", 1.5, core=3.0)
    time = timeline.as_json()
    assert time["total"] == 10.0
    assert time["core"] == 0.5 + (4.75 + 2.75) + 0.25 + 3.0
    # Messages cross from 0 to 1, and from 3.75 to 7.75, when the first upload follows on the second.
    assert time["server"] == {"test": 1.5, "aggregate": 0.25, "communicate": 5.0, "idle": 2.75, "encode": 0.5}
    busy = {"train": 6 / 3, "encode": 0.5 / 3, "encrypt": 1 / 3, "communicate": 6 / 3, "test": 0.0, "aggregate": 0.0}
    assert time["parties"] == pytest.approx(busy | {"idle": 10 - sum(busy.values())}, abs=1e-9)


def test_messages_that_everybody_waits_for() -> None:
    timeline = Timeline(parties=4)
    timeline.messages([1.0, 3.0])
    time = timeline.as_json()
    assert (time["total"], time["server"]["communicate"], time["parties"]["communicate"]) == (3.0, 3.0, 1.0)
    assert (time["server"]["idle"], time["parties"]["idle"], time["core"]) == (0.0, 2.0, 0.0)


def test_without_a_server_there_is_one_bar() -> None:
    timeline = Timeline(parties=2, has_server=False)
    timeline.at_parties("test", [1.0, 3.0])
    assert timeline.as_json() == {
        "total": 3.0,
        "core": 4.0,
        "parties": {**dict.fromkeys(PARTY_PARTS, 0.0), "test": 2.0, "idle": 1.0},
    }


SECONDS = st.one_of(st.just(0.0), st.floats(1e-7, 1e4))
TRIPS = st.lists(st.builds(Trip, *[SECONDS] * 6), max_size=6)


@settings(max_examples=60, deadline=None)
@given(TRIPS, SECONDS, SECONDS, st.lists(SECONDS, max_size=6), SECONDS, st.booleans())
def test_the_parts_of_any_round_add_up(
    trips: list[Trip], begin: float, length: float, others: list[float], work: float, has_server: bool
) -> None:
    timeline = Timeline(6, has_server)
    timeline.messages(others)
    timeline.trips(trips, begin, begin + length)
    timeline.at_parties("encode", others)
    if has_server:
        timeline.at_server("aggregate", work)
        timeline.at_server("test", work)
    time = timeline.as_json()
    assert adds_up(time)
    assert set(time.get("server", SERVER_PARTS)) == set(SERVER_PARTS)
    assert set(time["parties"]) == set(PARTY_PARTS)
    assert time["total"] == pytest.approx(length + 2 * max(others, default=0.0) + 2 * work * has_server, abs=1e-8)


@settings(max_examples=60, deadline=None)
@given(TRIPS, SECONDS, SECONDS, SECONDS)
def test_trips_over_two_windows_are_those_over_both(trips: list[Trip], begin: float, one: float, two: float) -> None:
    """What counts does not depend on when the server takes its steps: nothing is lost, and nothing counts twice."""
    whole, parts = Timeline(6), Timeline(6)
    whole.trips(trips, begin, begin + one + two)
    parts.trips(trips, begin, begin + one)
    parts.trips(trips, begin + one, begin + one + two)
    ours, expected = parts.as_json(), whole.as_json()
    size = 1e-8 + 64 * 2**-52 * (begin + one + two + sum(map(sum, trips)))  # a few roundings of times this large
    assert ours["core"] == pytest.approx(expected["core"], abs=size)
    for bar in ("server", "parties"):
        assert ours[bar] == pytest.approx(expected[bar], abs=size)


def test_core_seconds_count_the_workers_that_this_process_waits_for() -> None:
    assert core_seconds(wall=2.0, cpu=2.0, workers=2) == 2.0  # it did the work itself
    assert core_seconds(wall=2.0, cpu=4.0, workers=0) == 4.0  # with two threads
    assert core_seconds(wall=2.0, cpu=0.5, workers=2) == 3.5  # for 1.5 seconds two processes worked
    assert core_seconds(wall=2.0, cpu=0.5, workers=0) == 2.0  # it had to wait for the processor


def test_a_stopwatch_adds_the_laps_of_a_phase() -> None:
    watch = Stopwatch(spent=100.0)
    first, second, third = watch.lap("train"), watch.lap("encode"), watch.lap("train")
    assert first >= 100.0
    assert watch.laps == {"train": first + third, "encode": second}


# --- rounds -------------------------------------------------------------------------------------------


def keys(agreed: int, revealed: int) -> Transform:
    """Return a transform whose parties send keys before training, and shares after it."""

    def agree(memories: Any, context: Context) -> Any:
        return memories, [Phase("keys", up=dict.fromkeys(memories, agreed))]

    def reveal(memories: Any, context: Context) -> Any:
        return None, [Phase("shares", up=dict.fromkeys(memories, revealed))]

    return Transform(lambda update, memory, context: (update, memory), agree=agree, reveal=reveal)


def encrypting(seconds: float) -> Transform:
    def encode(update: Update, memory: Memory, context: Context) -> Any:
        return update, memory, {"encrypt_seconds": seconds, "norm": 1.0}

    return Transform(encode)


def travelling() -> Controller:
    def steer(server: Any, memory: Any, probe: Any) -> Orders:
        probe.travel(5, 1)
        return Orders({}, memory, {})

    return Controller(steer)


ROUNDS: dict[str, tuple[str, Sequence[Transform], dict[str, Any]]] = {
    "plain": ("fedavg", (), {}),
    "slow": ("fedavg", (), {"network": SLOW}),
    "own links": ("fedavg", (), {"network": link("1kbps", 0.01, "3kbps", 0.7)}),
    "devices": ("fedavg", (), {"clock": device(100, 0.5), "network": SLOW}),
    "compressed": ("scaffold", (top_k(0.2),), {"network": SLOW}),
    "sampled": ("fedavg", (), {"participation": 2, "network": SLOW}),
    "dropout": ("fedavg", (), {"availability": dropout(0.5), "network": SLOW, "rounds": 8}),
    "buffered": ("fedavg", (), {"pace": buffered(2), "clock": device(10, 1.0), "network": SLOW, "rounds": 8}),
    "probed": ("fedavg", (), {"controller": travelling(), "network": SLOW}),
    "keys": ("fedavg", (keys(10, 5),), {"network": SLOW}),
    "lockstep": ("gaia", (), {"network": SLOW}),
    "personal": ("fedbn", (), {"network": SLOW}),
    "gossip": ("fedavg", (), {"exchange": gossip(), "network": SLOW}),
    "mesh": ("fedavg", (top_k(0.2),), {"exchange": mesh(), "network": SLOW}),
    "solo": ("solo", (), {}),
    "combined": ("combined", (), {}),
}
WITHOUT_SERVER = {"gossip", "mesh", "solo", "combined"}


def records_of(name: str, toy: Toy, **options: Any) -> list[RoundRecord]:
    algorithm, transforms, others = ROUNDS[name]
    solver = sb.sgd(lr=0.1, steps=1, batch=8) if name == "lockstep" else SOLVER
    return run(algorithm, toy(SIZES), solver, *transforms, **others | options)


@pytest.mark.parametrize("name", ROUNDS)
def test_the_parts_of_rounds_add_up(toy: Toy, name: str) -> None:
    for record in records_of(name, toy):
        assert adds_up(dict(record.time))
        assert ("server" in record.time) == (name not in WITHOUT_SERVER)
        assert record.time["core"] >= record.time["parties"]["train"] * (1 if name == "combined" else 4) - 1e-6
        assert json.loads(json.dumps(record.as_json()))["time"] == record.time


@pytest.mark.parametrize("name", sorted(WITHOUT_SERVER))
def test_without_a_server_parties_test(toy: Toy, name: str) -> None:
    for record in records_of(name, toy):
        assert record.time["parties"]["test"] > 0
        assert record.time["parties"]["communicate"] == 0 if name in ("solo", "combined") else True


def test_a_shared_model_is_tested_by_the_server_and_own_models_by_parties(toy: Toy) -> None:
    shared, own = (records_of(name, toy)[0].time for name in ("plain", "lockstep"))
    assert shared["server"]["test"] > 0 == shared["parties"]["test"]
    assert own["parties"]["test"] > 0 == own["server"]["test"]


@pytest.mark.parametrize("name", ["slow", "devices", "sampled", "buffered", "gossip", "mesh", "keys", "probed"])
def test_the_network_is_in_communicate_and_in_the_total(toy: Toy, name: str) -> None:
    """With a clock, the total is what the virtual clock says and what was measured, which is far less."""
    before = 0.0
    for record in records_of(name, toy, **{"clock": device(10, 1.0)}):
        virtual, time = record.clock - before, record.time
        before = record.clock
        assert virtual <= time["total"] + 1e-6
        assert time["total"] == pytest.approx(virtual, abs=2.0)  # a busy machine may take its time
        assert time["parties"]["communicate"] <= virtual + 1e-6


@pytest.mark.parametrize("name", ["slow", "devices", "compressed", "sampled", "keys", "probed", "gossip", "mesh"])
def test_twice_the_bandwidth_halves_communicate(toy: Toy, name: str) -> None:
    equal = {"clock": device(1000.0)}
    slow = records_of(name, toy, **equal)
    fast = records_of(name, toy, **equal | {"network": link("0.2kbps")})
    for one, other in zip(slow, fast, strict=True):
        assert one.time["parties"]["communicate"] > 1
        assert one.time["parties"]["communicate"] == pytest.approx(2 * other.time["parties"]["communicate"], abs=1e-8)
        if "server" in one.time:  # parties encode for some milliseconds, so their uploads do not begin together
            ratio = one.time["server"]["communicate"] / other.time["server"]["communicate"]
            assert ratio == pytest.approx(2, rel=0.1)


def test_a_party_at_half_speed_makes_the_others_idle(toy: Toy) -> None:
    """Four parties visit 40 rows; one of them needs 80 seconds instead of 40, and three wait 40 seconds for it."""
    equal, uneven = (
        run("fedavg", toy((20,) * 4), clock=device(speed), rounds=1)[0].time for speed in (1, [1, 1, 0.5, 1])
    )
    assert equal["parties"]["train"] == 40.0
    assert uneven["parties"]["train"] == 50.0
    assert equal["parties"]["idle"] == pytest.approx(0, abs=2.0)
    assert uneven["parties"]["idle"] - 0.75 * 40 == pytest.approx(0, abs=2.0)
    assert uneven["total"] - equal["total"] == pytest.approx(40, abs=2.0)
    assert uneven["server"]["idle"] - equal["server"]["idle"] == pytest.approx(40, abs=2.0)


def test_parties_that_are_not_asked_are_idle(toy: Toy) -> None:
    for record in run("fedavg", toy((20,) * 4), clock=device(1), participation=1):
        assert record.rows == 40
        assert record.time["parties"]["train"] == 10.0
        assert record.time["parties"]["idle"] == pytest.approx(30.0, abs=2.0)


def test_parties_that_do_not_answer_only_download(toy: Toy) -> None:
    records, counts = records_of("dropout", toy, clock=device(10)), set[int]()
    for record in records:
        replied = record.cohort if record.replied is None else record.replied
        counts.add(len(replied))
        assert record.rows == sum(2 * SIZES[party] for party in replied)
        assert record.time["parties"]["train"] == pytest.approx(record.rows / 10 / 4, abs=1e-8)
        way = 8 * BYTES / 100 if replied else 0.0  # the round is over at once if nobody answers
        assert record.time["parties"]["communicate"] == pytest.approx(way * (4 + len(replied)) / 4, abs=1e-8)
    assert len(counts) > 2


def test_asynchronous_trips_count_while_they_last(toy: Toy) -> None:
    """All that parties trained until the last step: trips that arrived, and the begin of those on their way."""
    records = records_of("buffered", toy, participation=3)
    clock = device(10, 1.0)
    trained = 4 * sum(record.time["parties"]["train"] for record in records)
    arrived = sum(clock.computing(2 * SIZES[p], p, 0) for record in records for p in record.replied or record.cohort)
    flights = unpacked(records[-1].state.extra["flights"])
    on_their_way = sum(clock.computing(2 * SIZES[flight.party], flight.party, 0) for flight in flights)
    assert flights
    assert arrived <= trained + 1e-6
    assert trained <= arrived + on_their_way + 1e-6
    assert sum(record.rows for record in records) == sum(
        2 * SIZES[p] for record in records for p in record.replied or record.cohort
    )


def test_a_resumed_asynchronous_run_records_the_same_times_but_for_what_is_measured(toy: Toy) -> None:
    whole = records_of("buffered", toy)
    rest = records_of("buffered", toy, state=whole[3].state)
    for one, other in zip(whole[4:], rest, strict=True):
        for part in ("train", "communicate"):
            assert one.time["parties"][part] == other.time["parties"][part]
        assert (one.rows, one.dense_up, one.dense_down) == (other.rows, other.dense_up, other.dense_down)


def test_the_time_that_a_transform_encrypts_is_stated_by_its_report(toy: Toy) -> None:
    for record in run("fedavg", toy(SIZES), SOLVER, encrypting(2.0), participation=2):
        assert record.time["parties"]["encrypt"] == 2.0 * 2 / 4
        assert record.time["parties"]["encode"] == 0.0  # encryption is a part of what encoding took
        assert adds_up(dict(record.time))
        assert record.reports == {"norm": 1.0}


# --- seconds by party, from every engine --------------------------------------------------------------


@pytest.mark.parametrize(
    "engine", ["inline", pytest.param("native", marks=needs_native), "stacked", "pool(workers=2, executor=here)"]
)
@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold"])
def test_every_engine_reports_the_seconds_of_each_party(toy: Toy, engine: str, algorithm: str) -> None:
    federation, task = toy(SIZES)
    setting = Setting(Method(sb.ALGORITHMS.build(algorithm), SOLVER), federation, task, seed=0)
    parties, server = range(4), setting.sent(initial_state(setting).server)
    _, replies = (
        ENGINES.build(engine)
        .settled(setting)
        .train(LocalRound(setting, server, tuple(parties)), {party: {} for party in parties})
    )
    tally = Tally()
    for reply in replies:
        tally.add(reply)
    assert sorted(tally.work) == list(parties)
    assert all(work.train > 0 and work.encode >= 0 and work.encrypt == 0 for work in tally.work.values())
    assert {party: work.dense for party, work in tally.work.items()} == tally.sizes
    assert sum(work.train for work in tally.work.values()) == pytest.approx(tally.seconds["train"])
    assert max(work.train for work in tally.work.values()) == pytest.approx(tally.slowest)


def test_a_stack_divides_its_seconds_by_the_steps_of_its_parties(toy: Toy) -> None:
    records = run("fedavg", toy((64, 16)), sb.sgd(lr=0.1, epochs=2, batch=8), engine=ENGINES.build("stacked"))
    for record in records:  # 16 and 4 steps
        assert record.seconds["slowest"] == pytest.approx(0.8 * record.seconds["train"])
        assert record.time["parties"]["train"] == pytest.approx(record.seconds["train"] / 2, abs=1e-8)


# --- rows and bytes without transforms ----------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ROUNDS if name not in ("compressed", "lockstep", "mesh", "keys")])
def test_without_compression_dense_bytes_are_the_bytes(toy: Toy, name: str) -> None:
    for record in records_of(name, toy):
        assert (record.dense_up, record.dense_down) == (record.bytes_up, record.bytes_down)


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "fednova"])
@pytest.mark.parametrize("options", [{}, {"exchange": mesh()}, {"participation": 2}], ids=["star", "mesh", "sampled"])
def test_dense_bytes_are_those_of_the_run_without_transforms(toy: Toy, algorithm: str, options: Any) -> None:
    packed = run(algorithm, toy(SIZES), SOLVER, top_k(0.2), **options)
    plain = run(algorithm, toy(SIZES), SOLVER, **options)
    assert [(one.dense_up, one.dense_down) for one in packed] == [(one.bytes_up, one.bytes_down) for one in plain]
    assert all(one.bytes_up < one.dense_up for one in packed)


def test_statistics_of_normalisation_are_in_the_dense_bytes(normed: Toy) -> None:
    packed, plain = (run("fedavg", normed(), SOLVER, *chain) for chain in ((top_k(0.2),), ()))
    assert packed[0].dense_up == plain[0].bytes_up == 5 * 4 * 63


def test_keys_are_not_in_the_dense_bytes(toy: Toy) -> None:
    for record in records_of("keys", toy):
        assert record.dense_up == 4 * BYTES == record.bytes_up - 4 * 15


def test_messages_of_an_algorithm_in_a_compact_form_are_dense_without_it(toy: Toy) -> None:
    for record in records_of("lockstep", toy):
        sent = [size for size in (record.dense_up, record.dense_down) if size]
        assert set(sent) <= {4 * BYTES * count // 4 for count in range(1, 5)}
        assert record.dense_up >= record.bytes_up or record.bytes_up == 0


def test_late_messages_are_dense_in_the_round_in_which_they_arrive(toy: Toy) -> None:
    algorithm, _, options = ROUNDS["buffered"]
    for record in run(algorithm, toy(SIZES), SOLVER, top_k(0.2), **options):
        assert record.dense_up == BYTES * len(record.replied or record.cohort)
        assert record.dense_down == BYTES * len(record.cohort) == record.bytes_down


@pytest.mark.parametrize("solver", [SOLVER, sb.sgd(lr=0.1, steps=3, batch=10), sb.sgd(lr=0.1, steps=2, batch="full")])
def test_rows_are_the_visits_of_all_parties(toy: Toy, solver: Any) -> None:
    (record, *_) = run("fedavg", toy(SIZES), solver)
    assert record.rows == sum(solver.rows(size) for size in SIZES)
    assert run("combined", toy(SIZES), SOLVER)[0].rows == 2 * sum(SIZES)


# --- records ------------------------------------------------------------------------------------------


CELL = {"dataset": "digits", "model": "linear", "parties": 4, "rounds": 2}


def stored_rows(path: Path, **choices: Any) -> Sequence[RoundRow]:
    (planned,) = plan({**CELL, **choices})
    list(execute(prepare(planned), path))
    return read_run(path / planned.id).rounds


def test_the_fields_of_a_stored_run(tmp_path: Path) -> None:
    rows = stored_rows(tmp_path, transforms="top-k(0.1)", solver="sgd(lr=0.1, epochs=1, batch=32)")
    for row in rows:
        assert row.rows == 1438  # the training rows of digits, those of four equal parties
        assert row.dense_up == row.dense_down == row.bytes_down == 4 * 4 * 650
        assert row.time is not None
        assert adds_up(dict(row.time))
        assert not row.converged


def test_shared_rows_are_in_the_first_round(tmp_path: Path) -> None:
    first, second = stored_rows(tmp_path, partition="iid + share(beta=0.1)", network="link(1Mbps)")
    assert first.dense_down == first.bytes_down > second.bytes_down == second.dense_down
    assert first.time is not None and second.time is not None  # noqa: PT018
    assert first.time["parties"]["communicate"] > 2 * second.time["parties"]["communicate"]


def test_only_the_last_round_of_a_run_that_its_schedule_ended_has_converged(tmp_path: Path) -> None:
    plateau = {"solver": "sgd(lr=plateau(0.2, patience=0, drops=1, threshold=0.9), batch=32)", "validation": 0.1}
    rows = stored_rows(tmp_path, **plateau | {"rounds": 9})
    assert [row.converged for row in rows] == [False, True]
    assert not any(row.converged for row in stored_rows(tmp_path, **plateau | {"rounds": 1}))


def test_records_of_earlier_versions_lack_the_fields() -> None:
    row = RoundRow.from_json({"round": 1, "bytes_up": 5})
    assert (row.rows, row.dense_up, row.dense_down, row.converged, row.time) == (None, None, None, False, None)
    earlier = next((Path(__file__).parents[1] / "runs" / "earlier" / "runs").iterdir())
    assert all(row.time is None and row.rows is None for row in read_run(earlier).rounds)


def test_a_record_made_by_hand_has_no_time(toy: Toy) -> None:
    record = replace(run("fedavg", toy(SIZES), rounds=1)[0], time={})
    assert not {"time", "converged"} & set(record.as_json())


# --- speeds by party ----------------------------------------------------------------------------------


def test_a_list_of_speeds_is_by_party(toy: Toy) -> None:
    speeds = [1000.0, 500.0, 250.0, 2000.0]
    clock = CLOCKS.build("device(speed=[1000, 500, 250, 2000])")
    assert clock.speed is not None
    assert [clock.speed(seed, party) for seed, party in zip((3, 4, 5, 6), range(4), strict=True)] == speeds
    seconds = [2 * size / speed for size, speed in zip(SIZES, speeds, strict=True)]
    (record,) = run("fedavg", toy(SIZES), clock=clock, rounds=1)
    assert record.computing == max(seconds)
    assert record.time["parties"]["train"] == pytest.approx(sum(seconds) / 4, abs=1e-9)


def test_a_spread_is_around_the_speed_of_each_party() -> None:
    spread, by_party = device(speed=1, spread=0.5).speed, device(speed=[100, 50], spread=0.5).speed
    assert spread is not None and by_party is not None  # noqa: PT018
    assert [by_party(7, party) for party in (0, 1)] == pytest.approx([100 * spread(7, 0), 50 * spread(7, 1)])


def test_a_list_of_speeds_in_a_spec() -> None:
    assert str(CLOCKS.bind("device([1000, 500])").full) == "device(speed=[1000.0, 500.0], spread=0.0)"
    assert str(CLOCKS.bind("device(speed=1000)").full) == "device(speed=1000.0, spread=0.0)"  # as it always was


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_list_of_speeds_for_other_parties_is_refused(toy: Toy, count: int) -> None:
    with pytest.raises(ConfigError, match=rf"the clock has speeds of {count} parties, but the federation has 4: give"):
        run("fedavg", toy(SIZES), clock=device([100.0] * count))


def test_all_rows_at_one_place_are_trained_at_the_first_speed(toy: Toy) -> None:
    (record,) = run("combined", toy(SIZES), clock=device([100.0, 50.0, 50.0, 50.0]), rounds=1)
    assert record.computing == 2 * sum(SIZES) / 100


@pytest.mark.parametrize("speeds", ["[]", "[1, 0]", "[1, fast]", "[1, [2]]"])
def test_impossible_lists_of_speeds_are_refused(speeds: str) -> None:
    with pytest.raises(SpecError, match=r"^device: (entry 2 of )?speed "):
        CLOCKS.build(f"device(speed={speeds})")


# --- the page -----------------------------------------------------------------------------------------


PAGE = (Path(__file__).parents[2] / "docs" / "clock.md").read_text(encoding="utf-8")


def test_the_fields_on_the_page_are_those_of_a_record(toy: Toy) -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    fields, record = json.loads(example), run("fedavg", toy(SIZES), rounds=1)[0].as_json()
    assert set(fields) <= set(record)
    for bar in ("server", "parties"):
        assert list(fields["time"][bar]) == list(record["time"][bar])
        assert sum(fields["time"][bar].values()) == pytest.approx(fields["time"]["total"])
    assert set(fields["time"]) == set(record["time"])
