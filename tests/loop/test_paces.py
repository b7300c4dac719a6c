"""Paces: who arrives when, by a simulation; late messages by hand; and work in flight that survives a stop."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from laws import SOLVER, ByHand, bits, close, feedback, models, run
from precision import bound_of_steps
from silobench.engines import ENGINES
from silobench.errors import ConfigError
from silobench.loop.clocks import device, measured
from silobench.loop.exchanges import mesh
from silobench.loop.network import link
from silobench.loop.paces import PACES, buffered, fedasync, packed, unpacked
from silobench.loop.rounds import rounds
from silobench.loop.schedule import Schedule
from silobench.loop.timing import Timing
from silobench.method.aggregates import krum
from silobench.method.algorithms import ALGORITHMS, fedavg
from silobench.method.availability import dropout
from silobench.method.control import Controller, Orders
from silobench.method.method import Method
from silobench.method.servers import step
from silobench.method.solvers import sgd
from silobench.method.transforms import clip, top_k
from silobench.method.types import Transform, Update
from silobench.training.setting import BUFFERS, Setting
from silobench.training.state import RoundRecord
from wire import identity, noted

SIZES = (20, 9, 30, 12, 16, 40)
UNEVEN = device(speed=100, spread=1.0)
NETWORK = link("1Mbps", latency=0.01)


def facts(record: RoundRecord) -> dict[str, Any]:
    """Return all of a record to the bit, without what only an asynchronous run reports."""
    return {key: value for key, value in bits(record).items() if key not in ("reports", "engine", "workers")}


# --- with the size of the cohort ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("fedavg", {}),
        ("fedavg", {"participation": 4}),
        ("fedavg", {"availability": dropout(0.4), "participation": 0.5}),
        ("fedprox(mu=0.1)", {"participation": 4}),
        ("scaffold", {"participation": 4, "availability": dropout(0.3)}),
        ("fednova", {}),
        ("fedbn", {"participation": 5}),
        ("solo", {}),
    ],
)
@pytest.mark.parametrize("chain", [(), (feedback(), clip(0.5))], ids=["plain", "transforms"])
@pytest.mark.parametrize("engine", ["inline", "pool(workers=2)"])
def test_a_buffer_of_the_size_of_the_cohort_is_synchronous(
    toy, spec: str, options: dict[str, Any], chain: tuple[Transform, ...], engine: str
) -> None:
    solver = replace(SOLVER, keep_momentum=True)
    common = {**options, "clock": device(100), "network": NETWORK, "engine": ENGINES.build(engine)}
    together = run(spec, toy(SIZES, "mlp(6)"), solver, *chain, **common)
    ours = run(spec, toy(SIZES, "mlp(6)"), solver, *chain, **common, pace=buffered(size=6))
    assert [facts(record) for record in ours] == [facts(record) for record in together]
    assert {record.reports.get("staleness", 0) for record in ours} == {0}


def test_statistics_too(normed) -> None:
    options: dict[str, Any] = {"clock": device(100), "network": NETWORK}
    ours, together = (run("fedavg", normed(), **options, pace=pace) for pace in (buffered(5), None))
    assert [facts(record) for record in ours] == [facts(record) for record in together]


def test_with_uneven_speeds_too_if_it_waits_for_all(toy) -> None:
    options: dict[str, Any] = {"clock": UNEVEN, "network": NETWORK}
    ours, together = (run("scaffold", toy(SIZES), **options, pace=pace) for pace in (buffered(9), None))
    assert [facts(record) for record in ours] == [facts(record) for record in together]


def test_fedasync_is_a_buffer_of_one(toy) -> None:
    options: dict[str, Any] = {"clock": UNEVEN, "rounds": 6}
    ours, one = (run("fedavg", toy(SIZES), **options, pace=PACES.build(p)) for p in ("fedasync", "buffered(size=1)"))
    assert [bits(record) for record in ours] == [bits(record) for record in one]
    assert not torch.equal(models(ours), models(run("fedavg", toy(SIZES), **options, pace=buffered(2))))
    assert not torch.equal(models(ours), models(run("fedavg", toy(SIZES), **options, pace=fedasync(0.0))))


# --- who arrives when ---------------------------------------------------------------------------------


class Simulation:
    """An event simulation without silobench's loop: parties that are free start, and the first messages count."""

    def __init__(self, trips: Sequence[float], size: int):
        self.trips, self.size, self.clock, self.step = trips, size, 0.0, 0
        self.flights: dict[int, tuple[float, int]] = {}  # by party: its arrival, and the model it was sent

    def next(self) -> tuple[list[int], dict[int, int]]:
        """Take one step of the server; return who was sent the model, and the staleness of each arrival."""
        starters = [party for party in range(len(self.trips)) if party not in self.flights]
        for party in starters:
            self.flights[party] = (self.clock + self.trips[party], self.step)
        arrived = {}
        for _ in range(min(self.size, len(self.flights))):
            party = min(self.flights, key=lambda p: (self.flights[p][0], p))
            self.clock, version = self.flights.pop(party)
            arrived[party] = self.step - version
        self.step += 1
        return starters, arrived


def trips(federated: Any, clock: Any, seed: int, size: int = 60) -> list[float]:
    """Return the seconds that each party takes: download, two epochs and upload."""
    speeds = [clock.speed(seed, party) for party in range(len(SIZES))]
    return [2 * (0.01 + 8 * size / 1e6) + 2 * n / speed for n, speed in zip(SIZES, speeds, strict=True)]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("clock", [UNEVEN, device(100)], ids=["uneven", "even"])
@pytest.mark.parametrize("seed", [0, 1])
def test_messages_arrive_as_in_a_simulation(toy, size: int, clock: Any, seed: int) -> None:
    federated = toy(SIZES)
    simulation = Simulation(trips(federated, clock, seed), size)
    records = run("fedavg", federated, clock=clock, network=NETWORK, seed=seed, pace=buffered(size), rounds=12)
    staleness = set()
    for record in records:
        starters, arrived = simulation.next()
        assert list(record.cohort) == starters
        assert list(record.cohort if record.replied is None else record.replied) == sorted(arrived)
        assert record.reports["staleness"] == pytest.approx(np.mean(list(arrived.values())))
        assert record.clock == pytest.approx(simulation.clock)
        assert (record.bytes_down, record.bytes_up) == (60 * len(starters), 60 * len(arrived))
        staleness |= set(arrived.values())
    assert len(staleness) > 1
    assert all(before.clock <= after.clock for before, after in pairwise(records))


def test_of_messages_that_arrive_together_those_of_the_first_parties_count(toy) -> None:
    records = run("fedavg", toy((20,) * 4), clock=device(100), pace=buffered(3), rounds=3)
    assert [record.replied or record.cohort for record in records] == [(0, 1, 2), (0, 1, 3), (0, 1, 2)]
    assert [record.reports["staleness"] for record in records] == pytest.approx([0, 1 / 3, 1 / 3])


def test_as_many_parties_train_at_the_same_time_as_a_cohort_has(toy) -> None:
    options: dict[str, Any] = {"participation": 3, "clock": UNEVEN, "pace": buffered(2), "rounds": 20}
    in_flight: set[int] = set()
    taken = set()
    for record in run("fedavg", toy(SIZES), **options, availability=dropout(0.3)):
        replied = set(record.cohort if record.replied is None else record.replied)
        assert not in_flight & set(record.cohort)  # nobody starts twice
        assert len(in_flight) + len(record.cohort) <= 3
        flights = {flight.party for flight in unpacked(record.state.extra.get("flights", {}))}
        assert flights <= in_flight | set(record.cohort)
        assert replied <= in_flight | set(record.cohort)
        assert not replied & flights
        in_flight, taken = flights, taken | replied
    assert taken == set(range(6))


# --- late messages by hand ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("staleness", [0.5, 0.0, 2.0])
def test_fedbuff_by_hand(in_double, toy, gradient, size: int, staleness: float) -> None:
    hand = ByHand(toy(SIZES), gradient, seed=5)
    federated, count = (hand.federation, hand.task), 8
    records = run(
        "fedavg", federated, hand.solver, seed=5, clock=UNEVEN, network=NETWORK, rounds=count,
        pace=buffered(size, staleness),
    )  # fmt: skip
    simulation = Simulation(trips(federated, UNEVEN, 5, 120), size)
    shared, changes = hand.start, dict[int, Tensor]()
    for now, record in enumerate(records):
        starters, arrived = simulation.next()
        changes |= {party: hand.walk(party, now, shared)[0] - shared for party in starters}
        weighed = [(1 + late) ** -staleness * SIZES[p] * changes[p] for p, late in arrived.items()]
        shared = shared + sum(weighed) / sum(SIZES[p] for p in arrived)
        assert close(record.state.server.params, shared, bound_of_steps(count * 60, 50, torch.float64))


def moved(records: Sequence[RoundRecord], start: Tensor) -> list[Tensor]:
    every = [start, *models(list(records))]
    return [after - before for before, after in pairwise(every)]


@pytest.mark.usefixtures("in_double")
def test_a_late_message_of_fednova_is_discounted_once(toy) -> None:
    """Its direction is, and its reach, which is multiplied with it, is not."""
    federated, log = toy(SIZES), dict[tuple[int, int], Update]()
    entry = noted([], lambda update, context: log.__setitem__((context.party, context.round), update))
    records = run("fednova", federated, SOLVER, entry, clock=UNEVEN, pace=fedasync(), rounds=6)
    for now, change in enumerate(moved(records, federated[1].initial)):
        (party,) = records[now].cohort if records[now].replied is None else records[now].replied
        late = round(records[now].reports["staleness"])
        mean = log[party, now - late].mean()
        assert close(change, (1 + late) ** -0.5 * mean["reach"] * mean["direction"], 1e-9)
    assert any(record.reports["staleness"] > 0 for record in records)


@pytest.mark.usefixtures("in_double")
def test_late_statistics_are_mixed_with_those_of_the_server(normed) -> None:
    """As they are sent in full, a discount on them would shrink variances towards zero."""
    records = run("fedavg", normed(), SOLVER, clock=UNEVEN, pace=fedasync(), rounds=6)
    before = records[0]
    for record in records[1:]:
        (party,) = record.cohort if record.replied is None else record.replied
        late = round(record.reports["staleness"])
        if late:
            flight = {f.party: f for f in unpacked(before.state.extra["flights"])}[party]
            factor, sent = (1 + late) ** -0.5, flight.reply.update.mean()[BUFFERS]
            assert close(record.state.server.buffers, factor * sent + (1 - factor) * before.state.server.buffers)
        before = record
    assert any(record.reports["staleness"] > 0 for record in records)


def test_the_servers_rate_mixes(toy) -> None:
    method = Method(fedavg(), SOLVER, server=step(lr=0.6))
    options: dict[str, Any] = {"clock": UNEVEN, "pace": fedasync(), "rounds": 1}
    (half,) = rounds(method, *toy(SIZES), **options)
    (full,) = rounds(Method(fedavg(), SOLVER), *toy(SIZES), **options)
    start = toy(SIZES)[1].initial
    assert close(half.state.server.params - start, 0.6 * (full.state.server.params - start), bound_of_steps(1, 1) * 100)


# --- in flight over a stop ----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["inline", "pool(workers=2)"])
@pytest.mark.parametrize(
    ("spec", "chain"),
    [("fedavg", ()), ("scaffold", (feedback(), clip(0.5))), ("fedbn", (top_k(0.3),)), ("fednova", ())],
)
def test_a_run_resumed_after_any_round_continues_bit_for_bit(toy, spec: str, chain: Any, engine: str) -> None:
    options: dict[str, Any] = {
        "participation": 5, "clock": UNEVEN, "network": NETWORK, "pace": buffered(2), "availability": dropout(0.2),
        "rounds": 6, "engine": ENGINES.build(engine),
    }  # fmt: skip
    solver = replace(SOLVER, keep_momentum=True)
    whole = run(spec, toy(SIZES, "mlp(6)"), solver, *chain, **options)
    assert any(record.state.extra for record in whole)
    for done, record in enumerate(whole):
        rest = run(spec, toy(SIZES, "mlp(6)"), solver, *chain, **options, state=record.state)
        assert [bits(r) for r in rest] == [bits(r) for r in whole[done + 1 :]]


def test_personal_entries_of_messages_in_flight_stay_personal(normed) -> None:
    options: dict[str, Any] = {"clock": UNEVEN, "pace": buffered(2), "rounds": 4}
    whole, personal = run("fedbn", normed(), **options), slice(25, 35)
    for done, record in enumerate(whole):
        rest = run("fedbn", normed(), **options, state=record.state)
        assert [bits(r) for r in rest] == [bits(r) for r in whole[done + 1 :]]
        assert torch.equal(record.state.server.params[personal], normed()[1].initial[personal])
    assert any(record.reports["staleness"] > 0 for record in whole)


def test_without_the_messages_in_flight_a_run_continues_otherwise(toy) -> None:
    options: dict[str, Any] = {"clock": UNEVEN, "pace": buffered(2), "rounds": 3}
    first, second, _ = run("fedavg", toy(SIZES), **options)
    resumed = run("fedavg", toy(SIZES), **options, state=replace(first.state, extra={}))[0]
    assert not torch.equal(resumed.state.server.params, second.state.server.params)


def test_flights_are_tensors_and_back(toy) -> None:
    options: dict[str, Any] = {"clock": UNEVEN, "pace": buffered(2), "rounds": 1}
    chain = clip(0.5), Transform(identity().encode)
    (record,) = run("scaffold", toy((20,) * 12), SOLVER, *chain, **options)
    memory = record.state.extra["flights"]
    shuffled = dict(sorted(memory.items(), reverse=True))  # a file of them has another order
    flights, again = unpacked(memory), unpacked(shuffled)
    assert [flight.party for flight in flights] == sorted(flight.party for flight in flights)
    assert len(flights) == 10
    assert [bits(flight) for flight in flights] == [bits(flight) for flight in again]
    assert bits(packed(flights)).keys() == bits(memory).keys()
    assert bits(packed(flights)) == bits(memory)
    assert {name for flight in flights for name in flight.reply.reports} == {"clip rate", "update norm"}


def test_the_clock_does_not_go_back_where_models_travel(toy) -> None:
    """A controller that moves models takes time, and messages may arrive meanwhile."""

    def steer(server: Any, memory: Any, probe: Any) -> Orders:
        probe.nbytes, probe.largest = 1000, 10**7 if server.round == 1 else 0
        return Orders({}, memory)

    options: dict[str, Any] = {"clock": UNEVEN, "network": NETWORK, "pace": fedasync(), "rounds": 6}
    records = run("fedavg", toy(SIZES), **options, controller=Controller(steer))
    times = [record.clock for record in records]
    assert times == sorted(times)
    assert times[1] - times[0] > 80


# --- refusals -----------------------------------------------------------------------------------------


def refused(toy, spec: str = "fedavg", solver: Any = SOLVER, options: Any = None, **parts: Any) -> str:
    federated = parts.pop("federated", None) or toy(SIZES)
    choices = {"pace": buffered(2), "clock": UNEVEN, **(options or {})}
    with pytest.raises(ConfigError) as caught:
        list(rounds(Method(ALGORITHMS.build(spec), solver, **parts), *federated, **choices))
    return str(caught.value)


def test_what_a_pace_needs(toy, normed) -> None:
    assert 'set clock, as in clock = "device(speed=1000, spread=0.5)"' in refused(toy, options={"clock": measured()})
    minibatch = sgd(lr=0.05, steps=1, batch=8, keep_momentum=True)
    for spec in ("bsp", "gaia", "dgc", "fedavg(iter_local=4)"):
        assert "leave pace at synchronous and availability at always" in refused(toy, spec, minibatch)
    agreeing = Transform(identity().encode, agree=lambda memories, context: (memories, ()))
    assert "needs all parties of a round at the same time" in refused(toy, transforms=(agreeing,))
    assert "the exchange mesh has no server" in refused(toy, options={"exchange": mesh()})
    assert (
        "the aggregate krum needs 5 messages, but with the pace buffered the server takes its step after 2"
        in refused(toy, aggregate=krum())
    )
    assert "use buffers = local" in refused(toy, federated=normed(), transforms=(clip(),))


def test_what_a_pace_can_do(toy, normed) -> None:
    options: dict[str, Any] = {"clock": UNEVEN, "rounds": 4}
    enough = Method(fedavg(), SOLVER, aggregate=krum())
    assert len(list(rounds(enough, *toy(SIZES), **options, pace=buffered(5)))) == 4
    local = Method(fedavg(), SOLVER, (clip(),), buffers="local")
    records = list(rounds(local, *normed(), **options, pace=buffered(2)))
    assert records[-1].accuracy is not None


def test_a_silent_algorithm_waits_for_nobody_and_takes_no_time_on_the_network(toy) -> None:
    setting = Setting(Method(ALGORITHMS.build("solo"), SOLVER), *toy(SIZES), 0)
    timing = Timing(Schedule(setting, clock=UNEVEN))
    record = run("solo", toy(SIZES), clock=UNEVEN, network=NETWORK, pace=fedasync(), rounds=1)[0]
    assert record.clock == max(map(timing.computing, range(6)))  # parties that exchange nothing train equally often
