"""A turn of the parties: who trains in a round, and whose messages arrive in it."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from statistics import fmean

from silobench.engines import Engine
from silobench.loop.downlink import Downlink
from silobench.loop.paces import Flight, packed, unpacked
from silobench.loop.schedule import Schedule
from silobench.loop.timing import Timing
from silobench.method.availability import present
from silobench.method.selection import Cohort
from silobench.method.types import LostRoundError, Memory, Phase, Server, placed
from silobench.rng import stream
from silobench.training.party import LocalRound, server_key, server_memories, transform_key
from silobench.training.setting import Setting
from silobench.training.state import PartyMemory, Reply, State, Tally

_FLIGHTS = "flights"  # the owner of messages in flight in `State.extra`


@dataclass(frozen=True)
class Turn:
    """The parties' part of a round, before the exchange."""

    engine: Engine  # that was used
    replies: Iterator[Reply]  # for the exchange
    cohort: Cohort  # parties that were sent the model
    replied: Cohort  # parties whose messages the exchange gets
    phases: Sequence[Phase] = ()  # messages before training
    trained: Tally | None = None  # of the parties that trained now, where messages arrive in other rounds
    flights: Sequence[Flight] = ()  # messages that arrive later
    arrived: Sequence[Flight] = ()  # messages that the exchange gets, where `trained` is given
    clock: float = 0.0  # when the last of the messages arrives, where `trained` is given
    report: Mapping[str, float] = field(default_factory=dict)  # on the messages, for the record
    agreeing: float = 0.0  # measured seconds of all parties together, before training
    present: Callable[[str], Collection[int]] | None = None  # (phase) -> parties that are still there in it

    def extra(self, before: Mapping[str, Memory]) -> dict[str, Memory]:
        """Return the memories of the loop's parts, with the messages that are still in flight."""
        others = {name: memory for name, memory in before.items() if name != _FLIGHTS}
        return {**others, _FLIGHTS: packed(self.flights)} if self.flights else others


def turn(schedule: Schedule, state: State, sent: Downlink) -> Turn:
    """Ask parties to train, and return the messages that arrive in this round."""
    take_turn = _all_at_once if schedule.pace.takes is None else _in_flight
    return take_turn(schedule, state, sent)


def _all_at_once(schedule: Schedule, state: State, sent: Downlink) -> Turn:
    """Train all parties of the cohort that are available. Their messages arrive in this round."""
    setting, number = schedule.setting, state.server.round
    cohort = schedule.selection(setting.federation, schedule.cohort, setting.seed, number)
    replied = schedule.availability(cohort, setting.seed, number)
    at_phase: Callable[[str], Cohort] = partial(present, schedule.availability, cohort, setting.seed, number)
    if setting.method.transforms:  # which ask often
        at_phase = lru_cache(at_phase)
    began = time.perf_counter()
    try:
        memory, phases = _agreed(schedule, state, sent.server, cohort, at_phase)
    except LostRoundError as error:
        spent = time.perf_counter() - began
        return Turn(schedule.engine, iter(()), cohort, (), error.phases, agreeing=spent, present=at_phase)
    agreeing = time.perf_counter() - began if cohort and (phases or setting.method.hides) else 0.0
    replied = tuple(party for party in replied if party in memory)
    engine, replies = _trained(schedule, sent.server, {party: memory[party] for party in replied}, cohort)
    if engine.may_miss:
        answers = list(replies)
        replies, replied = iter(answers), tuple(sorted(party for reply in answers for party in reply.sizes))
    return Turn(engine, replies, cohort, replied, phases, agreeing=agreeing, present=at_phase)


def _in_flight(schedule: Schedule, state: State, sent: Downlink) -> Turn:
    """Train the parties that are free, and take the messages that arrive first."""
    setting, number, pace = schedule.setting, state.server.round, schedule.pace
    flights = unpacked(state.extra.get(_FLIGHTS, {}))
    starters = _starters(schedule, number, {flight.party for flight in flights})
    available = schedule.availability(starters, setting.seed, number)
    memory = _informed(setting, state, schedule.engine.memories.of(state.memory, available))
    engine, replies = _trained(schedule, sent.server, memory, starters)
    trained, timing, sizes = Tally(), Timing(schedule), sent.sizes(starters)
    is_silent = setting.method.algorithm.silent
    for reply in replies:
        trained.add(reply)
        ((party, size),) = reply.sizes.items()
        down, up = (0, 0) if is_silent else (sizes[party], size)
        trip = timing.trip(party, down, up, schedule.cohort)
        flights.append(Flight(party, number, state.clock + trip, replace(reply, memory={}, seconds={})))
    assert pace.takes is not None
    first = sorted(flights, key=lambda flight: (flight.arrival, flight.party))
    count = pace.takes([flight.arrival for flight in first]) if flights else 0
    arrived = {flight.party for flight in first[:count]}
    taken = [flight for flight in flights if flight.party in arrived]  # in the order in which engines return replies
    return Turn(
        engine,
        (flight.discounted(number, pace.discount, state.server.buffers) for flight in taken),
        starters,
        tuple(sorted(flight.party for flight in taken)),
        trained=trained,
        flights=first[count:],
        arrived=taken,
        clock=max([state.clock, *(flight.arrival for flight in taken)]),  # it waited already where models travelled
        report={"staleness": fmean(number - flight.version for flight in taken)} if taken else {},
    )


def _starters(schedule: Schedule, number: int, busy: set[int]) -> Cohort:
    """Return the parties that start now: as many as are missing from a cohort, drawn from those that are free."""
    setting = schedule.setting
    cohort = schedule.selection(setting.federation, schedule.cohort, setting.seed, number)
    free = [party for party in cohort if party not in busy]
    order = stream(setting.seed, "starters", number).permutation(len(free))
    return tuple(sorted(free[place] for place in order[: schedule.cohort - len(busy)]))


def _trained(
    schedule: Schedule, broadcast: Server, memory: Mapping[int, PartyMemory], cohort: Cohort
) -> tuple[Engine, Iterator[Reply]]:
    if not memory:
        return schedule.engine, iter(())
    return schedule.engine.train(LocalRound(schedule.setting, broadcast, cohort), memory)


def _agreed(
    schedule: Schedule, state: State, broadcast: Server, cohort: Cohort, at_phase: Callable[[str], Collection[int]]
) -> tuple[Mapping[int, PartyMemory], list[Phase]]:
    """Return the memories of the parties that agreed on what transforms need, and the messages for that."""
    setting, phases = schedule.setting, list[Phase]()
    memory = _informed(setting, state, schedule.engine.memories.of(state.memory, cohort))
    transforms = () if setting.method.algorithm.silent or not cohort else setting.method.transforms
    if not any(transform.agree for transform in transforms):
        return memory, phases
    context = replace(setting.context(broadcast, cohort=cohort), present=at_phase)
    for transform, at_place in zip(
        transforms, placed(transforms, context, server_memories(state.extra, setting)), strict=True
    ):
        if transform.agree is not None:
            key = transform_key(at_place.place)
            before = {party: each.get(key, {}) for party, each in memory.items()}
            try:
                memories, messages = transform.agree(before, at_place)
            except LostRoundError as error:
                raise LostRoundError(str(error), (*phases, *error.phases)) from error
            memory = {party: {**each, key: memories[party]} for party, each in memory.items() if party in memories}
            phases += messages
    return memory, phases


def _informed(setting: Setting, state: State, memory: Mapping[int, PartyMemory]) -> Mapping[int, PartyMemory]:
    """Return the memories of parties with what they are sent of the transforms' memories at the server."""
    servers = enumerate(server_memories(state.extra, setting))
    sent = {server_key(place): each for place, each in servers if each}
    return {party: {**each, **sent} for party, each in memory.items()} if sent else memory
