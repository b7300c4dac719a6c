"""The virtual clock by hand: devices, links of parties, and a server's link that they share."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laws import SOLVER, run
from silobench.engines import ENGINES
from silobench.errors import SpecError
from silobench.loop.clocks import CLOCKS, device, measured
from silobench.loop.exchanges import gossip
from silobench.loop.network import NETWORKS, link
from silobench.method.availability import dropout
from silobench.method.solvers import sgd
from silobench.rng import stream
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_json

SIZES = (20, 9, 30, 12)
BYTES = 4 * 15


# --- devices ------------------------------------------------------------------------------------------


def test_the_seed_determines_the_speed_of_each_party() -> None:
    speed = device(speed=200, spread=0.5).speed
    assert speed is not None
    speeds = np.array([speed(3, party) for party in range(4000)])
    assert speeds.tolist() == [speed(3, party) for party in range(4000)]
    assert len(set(speeds)) == 4000
    assert speed(3, 7) == 200 * math.exp(0.5 * stream(3, "device", party=7).standard_normal())
    assert speed(4, 0) != speed(3, 0)
    logarithms = np.log(speeds / 200)
    # Five standard deviations of a mean and of a standard deviation of 4000 draws.
    assert abs(logarithms.mean()) < 5 * 0.5 / math.sqrt(4000)
    assert abs(logarithms.std() - 0.5) < 5 * 0.5 / math.sqrt(8000)


def test_without_a_spread_all_parties_have_the_same_speed() -> None:
    clock = device(speed=200)
    assert {clock.computing(100, party, seed) for party in range(5) for seed in range(5)} == {0.5}
    assert measured().computing(100, 0, 0) == 0.0


@pytest.mark.parametrize("spec", ["device(speed=0)", "device(spread=-1)"])
def test_impossible_devices_are_refused(spec: str) -> None:
    with pytest.raises(SpecError):
        CLOCKS.build(spec)


@pytest.mark.parametrize(
    ("solver", "rows"),
    [
        (sgd(lr=0.1, epochs=2, batch=8), [40, 18, 60, 24]),
        (sgd(lr=0.1, steps=3, batch=10), [30, 27, 30, 30]),
        (sgd(lr=0.1, steps=2, batch="full"), [40, 18, 60, 24]),
    ],
)
def test_computing_by_hand(toy, solver: Any, rows: list[int]) -> None:
    """A round takes as long as its slowest party; `computing` is its time without the network."""
    clock = device(speed=100, spread=0.7)
    assert clock.speed is not None
    seconds = [count / clock.speed(6, party) for party, count in enumerate(rows)]
    records = run("fedavg", toy(SIZES), solver, clock=clock, seed=6, network=link("1Mbps", latency=0.5))
    both_ways = 2 * (0.5 + 8 * BYTES / 1e6)
    assert [record.computing for record in records] == pytest.approx([max(seconds)] * 3)
    assert [record.clock for record in records] == pytest.approx([(max(seconds) + both_ways) * n for n in (1, 2, 3)])


def test_only_parties_that_answer_are_waited_for(toy) -> None:
    clock = device(speed=100, spread=0.7)
    assert clock.speed is not None
    before = 0.0
    for record in run("fedavg", toy(SIZES), clock=clock, availability=dropout(0.5), rounds=8, network=link("1Mbps")):
        replied = record.cohort if record.replied is None else record.replied
        computing = max((2 * SIZES[p] / clock.speed(0, p) for p in replied), default=0.0)
        assert record.computing == pytest.approx(computing)
        assert record.as_json()["computing"] == record.computing
        network = 2 * 8 * BYTES / 1e6 if replied else 0.0
        assert record.clock - before == pytest.approx(computing + network)
        before = record.clock


def test_where_computing_is_measured_the_clock_is_that_of_the_network(toy) -> None:
    records = run("fedavg", toy(SIZES), network=link("1Mbps", latency=0.25))
    assert [record.clock for record in records] == pytest.approx([2 * (0.25 + 8 * BYTES / 1e6) * n for n in (1, 2, 3)])
    assert [record.computing for record in records] == [None] * 3
    assert "computing" not in records[0].as_json()


@pytest.mark.parametrize("engine", ["inline", "stacked", "pool(workers=2)"])
def test_the_seconds_of_the_slowest_party_are_a_part_of_training(toy, engine: str) -> None:
    for record in run("fedavg", toy(SIZES), engine=ENGINES.build(engine)):
        workers = max(1, record.workers)
        assert 0 < record.seconds["slowest"] <= record.seconds["train"] * workers * (1 + 1e-9)
        assert record.seconds["slowest"] >= record.seconds["train"] * workers / 4 * (1 - 1e-9)  # four parties
        assert record.total_seconds == pytest.approx(sum(v for k, v in record.seconds.items() if k != "slowest"))
        assert 4 * record.time["parties"]["train"] == pytest.approx(record.seconds["train"] * workers, abs=1e-8)


# --- links --------------------------------------------------------------------------------------------


def test_every_party_has_its_own_link(toy) -> None:
    network = link("1Mbps", latency=0.25, spread=0.8)
    rates = [1e6 * math.exp(0.8 * stream(4, "link", party=party).standard_normal()) for party in range(4)]
    records = run("fednova", toy(SIZES), network=network, seed=4)
    seconds = max(0.5 + 8 * (BYTES + BYTES + 4) / rate for rate in rates)
    assert [record.clock for record in records] == pytest.approx([seconds, 2 * seconds, 3 * seconds])
    assert len(set(rates)) == 4


def test_the_bandwidths_of_links_are_log_normal() -> None:
    network = link("1Mbps", spread=0.5)
    rates = np.array([8e6 / network.transfer(1_000_000, party, 0) for party in range(4000)])
    logarithms = np.log(rates / 1e6)
    assert abs(logarithms.mean()) < 5 * 0.5 / math.sqrt(4000)
    assert abs(logarithms.std() - 0.5) < 5 * 0.5 / math.sqrt(8000)
    assert network.transfer(0, 0, 0) == 0.0


@pytest.mark.parametrize(("server", "rate"), [("1Mbps", 1e6 / 3), ("2.4Mbps", 0.8e6), ("6Mbps", 1e6)])
def test_the_link_of_the_server_is_shared_by_the_parties_of_a_round(toy, server: str, rate: float) -> None:
    network = link("1Mbps", latency=0.25, server=server)
    records = run("fedavg", toy(SIZES), network=network, participation=3)
    seconds = 2 * (0.25 + 8 * BYTES / rate)
    assert [record.clock for record in records] == pytest.approx([seconds, 2 * seconds, 3 * seconds])


def test_a_round_by_hand_with_everything(toy) -> None:
    """Download, computing and upload of each party, one after the other; the slowest party decides."""
    network, clock, seed = link("1Mbps", latency=0.1, server="3Mbps", spread=0.6), device(100, 0.5), 9
    assert clock.speed is not None
    trips = []
    for party, size in enumerate(SIZES):
        own = 1e6 * math.exp(0.6 * stream(seed, "link", party=party).standard_normal())
        way = 0.1 + 8 * BYTES / min(own, 3e6 / 4)
        trips.append(way + 2 * size / clock.speed(seed, party) + way)
    records = run("fedavg", toy(SIZES), SOLVER, network=network, clock=clock, seed=seed)
    assert records[-1].clock == pytest.approx(3 * max(trips))


def test_gossip_waits_for_its_slowest_party(toy) -> None:
    network, clock = link("1Mbps", latency=0.1, spread=0.6), device(100, 0.5)
    assert clock.speed is not None
    trips = []
    for party, size in enumerate(SIZES):
        own = 1e6 * math.exp(0.6 * stream(0, "link", party=party).standard_normal())
        trips.append(2 * size / clock.speed(0, party) + 0.1 + 8 * 2 * BYTES / own)
    records = run("fedavg", toy(SIZES), SOLVER, network=network, clock=clock, exchange=gossip())
    assert records[-1].clock == pytest.approx(3 * max(trips))


@pytest.mark.parametrize("spec", ["link(server=fast)", "link(server=0Mbps)", "link(spread=-1)"])
def test_impossible_links_are_refused(spec: str) -> None:
    with pytest.raises(SpecError):
        NETWORKS.build(spec)


def test_the_clock_of_a_stored_run(tmp_path: Path) -> None:
    cell = {"dataset": "digits", "model": "linear", "parties": 4, "rounds": 2, "clock": "device(speed=500, spread=0.5)"}
    (made,) = plan(cell)
    records = list(execute(prepare(made), tmp_path))
    _, rows = read_json(tmp_path / made.id)
    assert [row["computing"] for row in rows] == [record.computing for record in records]
    assert [row["clock"] for row in rows] == [record.clock for record in records]
    (plain,) = plan({**cell, "clock": "measured"})
    assert plain.id != made.id
    assert plain.id == plan({key: value for key, value in cell.items() if key != "clock"})[0].id
