"""What the record of a round states about its costs: bytes without transforms, and time by part."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from silobench.loop.downlink import Downlink
from silobench.loop.exchanges import Outcome
from silobench.loop.probe import ModelProbe
from silobench.loop.schedule import Schedule
from silobench.loop.timeline import Seconds, Timeline
from silobench.loop.timing import Timing, Ways
from silobench.loop.turns import Turn
from silobench.method.control import Orders
from silobench.method.types import Phase
from silobench.training.state import State, Work

_NOTHING = Work(0)
_REPLIES = "replies"  # the phase in which an exchange sends the parties' messages
_DIGITS = 9  # of a second in a record


@dataclass(frozen=True)
class FinishedRound:
    """One round after its exchange: the state before it, and what happened."""

    before: State
    orders: Orders
    probe: ModelProbe
    turn: Turn
    outcome: Outcome
    sent: Downlink

    @property
    def other_phases(self) -> Sequence[Phase]:
        """Messages besides the broadcast and the replies, one after the other."""
        return *self.turn.phases, *self.outcome.phases

    @property
    def work(self) -> Mapping[int, Work]:
        """The measured work of the parties that trained in this round."""
        return (self.turn.trained or self.outcome.tally).work

    @property
    def travelling_models(self) -> Phase:
        """The messages of a controller's probe; none if it sent no models around."""
        parties = range(self.before.server.parties) if self.probe.largest else ()
        return Phase("models", up=dict.fromkeys(parties, self.probe.largest))


def bytes_of(phases: Iterable[Phase]) -> tuple[int, int]:
    """Return the bytes that parties send, and those that they are sent."""
    ways = [(sum(phase.up.values()), sum(phase.down.values())) for phase in phases]
    return sum(up for up, _ in ways), sum(down for _, down in ways)


def phases_of(done: FinishedRound, phases: Sequence[Phase]) -> dict[str, dict[str, float]]:
    """Return bytes, messages and measured seconds by phase; empty if only broadcast and replies cross the network.

    `phases` are the broadcast and the replies. Replies are in the result, with the seconds of their encryption.
    """
    if not done.other_phases:
        return {}
    encrypting = sum(work.encrypt for work in done.work.values())
    replies = [replace(each, seconds=encrypting) for each in phases if each.name == _REPLIES and each.up]
    by_phase = dict[str, dict[str, float]]()
    for each in (*done.turn.phases, *replies, *done.outcome.phases):
        up, down = bytes_of([each])
        total = by_phase.setdefault(each.name, {"up": 0, "down": 0, "messages": 0, "seconds": 0.0})
        for key, value in {"up": up, "down": down, "messages": each.messages, "seconds": each.seconds}.items():
            total[key] += value
    return {name: {**total, "seconds": round(total["seconds"], _DIGITS)} for name, total in by_phase.items()}


def dense_bytes_of(schedule: Schedule, done: FinishedRound, phases: Sequence[Phase]) -> tuple[int, int]:
    """Return the bytes of the broadcast and the replies, which are `phases`, if nothing were compressed."""
    setting, tally = schedule.setting, done.outcome.tally
    algorithm = setting.method.algorithm
    if algorithm.silent or schedule.exchange.mixes:  # such an exchange sends whole models
        return bytes_of(phases)
    sizes = {party: tally.work[party].dense if party in tally.work else size for party, size in tally.sizes.items()}
    if sizes == tally.sizes and not (algorithm.lockstep or schedule.broadcast):
        return bytes_of(phases)
    answer = max(sizes.values(), default=0) if algorithm.lockstep else done.sent.whole
    return bytes_of(schedule.exchange.phases(setting, done.turn.cohort, answer, sizes))


def time_of(timing: Timing, done: FinishedRound, ways: Ways, laps: Mapping[str, float], test_core: float) -> Timeline:
    """Return the timeline of a round from its messages, the seconds of parties, and `laps`: those of the server.

    `ways` are the seconds of downloads and uploads by party, and `test_core` are the core-seconds of the test.
    """
    schedule, turn = timing.schedule, done.turn
    timeline = Timeline(done.before.server.parties, schedule.has_server)
    _before_training(timeline, timing, done, laps)
    if turn.trained is None:
        _trips(timeline, timing, done, ways)
    else:
        _flights(timeline, timing, done)
    for phase in done.outcome.phases:
        _messages(timeline, timing, phase)
    _centrally(timeline, schedule, "aggregate", laps["aggregate"] + sum([work.decode for work in done.work.values()]))
    if timeline.has_server and schedule.setting.has_party_models:
        _shared(timeline, "test", test_core)
    else:
        _centrally(timeline, schedule, "test", laps["evaluate"], test_core)
    return timeline


def _before_training(timeline: Timeline, timing: Timing, done: FinishedRound, laps: Mapping[str, float]) -> None:
    """Add what precedes the broadcast: shared rows, a controller's probe, and what transforms agree on."""
    schedule, cohort, agreeing = timing.schedule, done.turn.cohort, done.turn.agreeing
    if done.before.server.round == 0 and schedule.prelude:
        timeline.messages([schedule.prelude.clock] * timeline.parties)
    if done.probe.largest:  # parties test each other's models
        _messages(timeline, timing, done.travelling_models)
        _shared(timeline, "test", laps["control"])
    else:
        _centrally(timeline, schedule, "aggregate", laps["control"])
    if agreeing:
        timeline.at_parties("encrypt", [agreeing / len(cohort)] * len(cohort))
    for phase in done.turn.phases:
        _messages(timeline, timing, phase)
    if timeline.has_server:
        timeline.at_server("encode", laps["broadcast"])


def _trips(timeline: Timeline, timing: Timing, done: FinishedRound, ways: Ways) -> None:
    """Add the trips of parties that start together; the last one ends the wait."""
    cohort, replied, work, (down, up) = done.turn.cohort, done.turn.replied, done.work, ways
    is_measured, end, trips = timing.schedule.clock.speed is None, 0.0, list[Seconds]()
    for party in replied:
        _, train, encode, encrypt, _ = work.get(party, _NOTHING)
        first, last = down[party], up[party]
        if not is_measured:
            train = timing.computing(party)
        trips.append((0.0, first, train, encode, encrypt, last))
        end = max(end, first + train + encode + encrypt + last)
    if len(replied) < len(cohort):  # a party that does not answer was sent the model
        trips += [(0.0, down[party], 0.0, 0.0, 0.0, 0.0) for party in set(cohort).difference(replied)]
    timeline.trips(trips, 0.0, end)


def _flights(timeline: Timeline, timing: Timing, done: FinishedRound) -> None:
    """Add what happened between two steps of a server that does not wait for all: trips overlap with several rounds.

    Encoding is measured, and not a part of the clock by which messages arrive: it counts when it happens. A broadcast
    may be shorter than the whole model: a trip that would begin before its round is cut where the round begins.
    """
    turn, trips = done.turn, list[Seconds]()
    for flight in (*turn.arrived, *turn.flights):
        size, computing = flight.reply.sizes[flight.party], timing.computing(flight.party)
        down, up = timing.ways(flight.party, done.sent.whole, size, timing.schedule.cohort)
        trips.append((flight.arrival - (down + computing + up), down, computing, 0.0, 0.0, up))
    timeline.trips(trips, done.before.clock, turn.clock)
    timeline.at_parties("encode", [work.encode for work in done.work.values()])
    timeline.at_parties("encrypt", [work.encrypt for work in done.work.values()])


def _messages(timeline: Timeline, timing: Timing, phase: Phase) -> None:
    for way in timing.crossings(phase):
        timeline.messages(way.values())


def _centrally(timeline: Timeline, schedule: Schedule, part: str, seconds: float, core: float | None = None) -> None:
    """Add work of the server. Without one each party does it with its own model, or all of them with the same model."""
    if timeline.has_server:
        timeline.at_server(part, seconds, core)
    elif schedule.exchange.has_server or schedule.exchange.mixes:  # parties alone, or that mix their models
        _shared(timeline, part, min(seconds * timeline.parties, seconds if core is None else core))
    else:
        timeline.at_parties(part, [seconds] * timeline.parties)


def _shared(timeline: Timeline, part: str, core: float) -> None:
    """Add work that all parties share, side by side."""
    timeline.at_parties(part, [core / timeline.parties] * timeline.parties)


def core_seconds(wall: float, cpu: float, workers: int) -> float:
    """Return the core-seconds of work that took `wall` seconds: `cpu` seconds of this process, else its workers'."""
    return cpu + max(0.0, wall - cpu) * max(1, workers)
