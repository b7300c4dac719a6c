"""SkewScout (Hsieh et al., ICML 2020): as much communication as the skew of the data asks for, found while training."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from silobench.errors import ConfigError
from silobench.method.control import Controller, Orders, Probe, Travel
from silobench.method.controllers.dials import chosen_dial
from silobench.method.types import Count, Dial, Fraction, Memory, NonNegative, Positive, Server

Search = Literal["hill-climbing", "stochastic", "annealing"]


def skewscout(
    knob: str | None = None,
    grid: tuple[float, ...] = (),
    start: float | None = None,
    period: Count = 500,
    sample: Count = 500,
    trips: Count = 1,
    search: Search = "hill-climbing",
    sigma_al: Fraction = 0.05,
    lambda_al: NonNegative = 50.0,
    lambda_c: NonNegative = 1.0,
    temperature: Positive = 1.0,
    cooling: Positive = 0.8,
    forget: Count | None = None,
) -> Controller:
    """Turns one communication knob θ by the accuracy that models lose away from home.

    The Non-IID Data Quagmire of Decentralized Machine Learning, Hsieh et al., ICML 2020, section 7. Every `period`
    rounds each party's model travels to `trips` others and is tested on `sample` of their training rows. What it loses
    against home is AL(θ), what the period took of the traffic of whole models C(θ) / CM, and the next θ is sought by

        min  λ_AL max(0, AL(θ) - σ_AL) + λ_C C(θ) / CM

    among the present θ and its neighbours in `grid`. Of each θ the latest values are remembered. One that was never
    tried counts as the best it can be if, along the grid, traffic falls and accuracy loss grows. `search` takes the
    best neighbour (hill-climbing), a better one by chance (stochastic), or any by chance, a worse one ever less
    willingly (annealing, from `temperature`, times `cooling` after each decision). Travelling counts as traffic.

    `knob` is the method's own (gaia: threshold, fedavg: iter_local, dgc: warmup or sparsity, top_k: fraction), with the
    paper's grid. It begins at `start`, or in the middle of the grid; the paper does not say where. An `iter_local` that
    is longer than the period is kept until models were averaged: before that its traffic is not known.

    The paper remembers for ever, so that a setting which was bad once, early or by chance, is not tried again unless
    the present one gets worse. With `forget` what was found so many decisions ago is unknown again.
    """
    objective = _Objective(sigma_al, lambda_al, lambda_c)
    step = {"hill-climbing": _best, "stochastic": _better, "annealing": _annealed(temperature, cooling)}[search]

    def dialled(dials: Sequence[Dial]) -> Controller:
        dial = chosen_dial("skewscout", dials, knob, grid)
        return Controller(_Scout(dial, _place(dial, start), period, sample, trips, forget, objective, step))

    return Controller(dialled=dialled)


def _place(dial: Dial, start: float | None) -> int:
    if start is None:
        return len(dial.grid) // 2
    if start not in dial.grid:
        settings = ", ".join(f"{theta:g}" for theta in dial.grid)
        raise ConfigError(f"skewscout: start={start:g} is none of the settings of {dial.name}: give one of {settings}.")
    return dial.grid.index(start)


@dataclass(frozen=True)
class _Objective:
    """Equation (1)."""

    sigma_al: float
    lambda_al: float
    lambda_c: float

    def __call__(self, loss: float, cost: float) -> float:
        return self.lambda_al * max(0.0, loss - self.sigma_al) + self.lambda_c * cost


@dataclass(frozen=True)
class _Seen:
    """What is known of every setting: the latest accuracy loss and traffic, NaN where it was never tried."""

    losses: list[float]
    costs: list[float]
    place: int
    objective: _Objective

    def value(self, place: int) -> float:
        """The objective, or its least possible value given the present setting."""
        here_loss, here_cost = self.losses[self.place], self.costs[self.place]
        loss, cost = self.losses[place], self.costs[place]
        if math.isnan(loss):
            loss, cost = (here_loss, 0.0) if place > self.place else (0.0, here_cost)
        return self.objective(loss, cost)

    @property
    def neighbours(self) -> list[int]:
        return [place for place in (self.place - 1, self.place + 1) if 0 <= place < len(self.losses)]


Step = Callable[[_Seen, int, Callable[[int], Sequence[float]]], int]  # (seen, decisions before, draw) -> the next place


def _best(seen: _Seen, decisions: int, draw: Callable[[int], Sequence[float]]) -> int:
    return min((seen.place, *seen.neighbours), key=seen.value)


def _better(seen: _Seen, decisions: int, draw: Callable[[int], Sequence[float]]) -> int:
    """One of the better neighbours, by how much better it is."""
    gains = {place: seen.value(seen.place) - seen.value(place) for place in seen.neighbours}
    better = {place: gain for place, gain in gains.items() if gain > 0}
    (left,) = (number * sum(better.values()) for number in draw(1))
    for place, gain in better.items():
        if left <= gain:
            return place
        left -= gain
    return seen.place


def _annealed(temperature: float, cooling: float) -> Step:
    def step(seen: _Seen, decisions: int, draw: Callable[[int], Sequence[float]]) -> int:
        which, courage = draw(2)
        if not seen.neighbours:
            return seen.place
        place = seen.neighbours[int(which * len(seen.neighbours))]
        worse = seen.value(place) - seen.value(seen.place)
        warmth = temperature * cooling**decisions
        willing = worse <= 0 or (warmth > 0 and courage < math.exp(-worse / warmth))
        return place if willing else seen.place

    return step


@dataclass(frozen=True)
class _Scout:
    dial: Dial
    start: int
    period: int
    sample: int
    trips: int
    forget: int | None
    objective: _Objective
    step: Step

    def __call__(self, server: Server, memory: Memory, probe: Probe) -> Orders:
        memory = memory or self._begin(server, probe)
        place = int(memory["place"])
        if server.round - int(memory["since"]) < self._wait(place):
            return Orders(self._knobs(place), memory)
        return self._decide(server, memory, probe)

    def _wait(self, place: int) -> float:
        """Return the rounds before a decision: a period, or until a setting that waits to exchange has done so."""
        return max(self.period, self.dial.grid[place]) if self.dial.waits else self.period

    def _begin(self, server: Server, probe: Probe) -> dict[str, torch.Tensor]:
        unknown = torch.full((len(self.dial.grid),), math.nan, dtype=torch.float64)
        return {
            "place": torch.tensor(self.start),
            "since": torch.tensor(server.round),
            "spent": torch.tensor(probe.spent),
            "losses": unknown,
            "costs": unknown.clone(),
            "tried": torch.zeros(len(self.dial.grid), dtype=torch.int64),
            "decisions": torch.tensor(0),
        }

    def _decide(self, server: Server, memory: Memory, probe: Probe) -> Orders:
        place, decisions = int(memory["place"]), int(memory["decisions"])
        steps = server.round - int(memory["since"])
        cost = (probe.spent - int(memory["spent"])) / (steps * probe.whole)
        trip = probe.travel(self.sample, self.trips)
        losses, costs, tried = (memory[name].clone() for name in ("losses", "costs", "tried"))
        losses[place], costs[place], tried[place] = trip.loss, cost, decisions
        if self.forget is not None:
            losses[tried <= decisions - self.forget] = math.nan
        seen = _Seen(losses.tolist(), costs.tolist(), place, self.objective)
        then = self.step(seen, decisions, probe.draw)
        kept = {
            "place": torch.tensor(then),
            "since": torch.tensor(server.round),
            "spent": torch.tensor(probe.spent),
            "losses": losses,
            "costs": costs,
            "tried": tried,
            "decisions": torch.tensor(decisions + 1),
        }
        return Orders(self._knobs(then), kept, self._told(seen, trip, then))

    def _knobs(self, place: int) -> dict[str, float]:
        return {self.dial.name: self.dial.grid[place]}

    def _told(self, seen: _Seen, trip: Travel, then: int) -> dict[str, Any]:
        place = seen.place
        return {
            "knob": self.dial.name,
            "theta": self.dial.grid[place],
            "accuracy_loss": trip.loss,
            "home": sum(trip.home) / len(trip.home),
            "away": sum(trip.away) / len(trip.away),
            "cost": seen.costs[place],
            "objective": seen.value(place),
            "travelled": trip.nbytes,
            "next": self.dial.grid[then],
            "reason": _reason(seen, then),
        }


def _reason(seen: _Seen, then: int) -> str:
    """Why a decision was taken, in a few words."""
    loss, bound = seen.losses[seen.place], seen.objective.sigma_al
    known = "tried before" if not math.isnan(seen.losses[then]) else "never tried"
    far = f"accuracy loss {loss:.1%} is {'above' if loss > bound else 'within'} {bound:.1%}"
    if then == seen.place:
        return f"{far}: no neighbour promises less than {seen.value(then):.3f}"
    way = "less" if then > seen.place else "more"
    return f"{far}: {way} traffic ({known}) may cost {seen.value(then):.3f} instead of {seen.value(seen.place):.3f}"
