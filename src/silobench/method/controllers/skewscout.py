"""SkewScout (Hsieh et al., ICML 2020): adapt communication to the skew of the data during training."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from silobench.errors import ConfigError
from silobench.method.control import CONTROLLERS, Controller, Orders, Probe, Travel
from silobench.method.controllers.dials import chosen_dial
from silobench.method.types import Count, Dial, Memory, NonNegative, Positive, Server
from silobench.tasks.metrics import ACCURACY, Metric

Search = Literal["hill-climbing", "stochastic", "annealing"]


@CONTROLLERS.register
def skewscout(
    knob: str | None = None,
    grid: tuple[float, ...] = (),
    start: float | None = None,
    period: Count = 500,
    sample: Count = 500,
    trips: Count = 1,
    search: Search = "hill-climbing",
    sigma_al: NonNegative = 0.05,
    lambda_al: NonNegative = 50.0,
    lambda_c: NonNegative = 1.0,
    temperature: Positive = 1.0,
    cooling: Positive = 0.8,
    forget: Count | None = None,
) -> Controller:
    """Adapt one communication knob θ to the accuracy that models lose on other parties' data.

    The Non-IID Data Quagmire of Decentralized Machine Learning, Hsieh et al., ICML 2020, section 7. Every `period`
    rounds, each party's model is sent to `trips` other parties and tested on `sample` of their training rows. AL(θ) is
    the accuracy it loses there, and C(θ) / CM the traffic of the period relative to whole models. The next θ is

        argmin  λ_AL max(0, AL(θ) - σ_AL) + λ_C C(θ) / CM

    among the current θ and its neighbours in `grid`. The latest values of each θ are remembered. A θ that was never
    tried counts with the best possible values, given that along the grid traffic falls and accuracy loss grows.
    `search` takes the best neighbour (hill-climbing), a random better one (stochastic), or a random one, if worse with
    a probability that falls with time (annealing: from `temperature`, times `cooling` after each decision). Sending
    models for these tests counts as traffic.

    `knob` is a dial of the method (gaia: threshold, fedavg: iter_local, dgc: warmup or sparsity, top_k: fraction), with
    the paper's grid. It starts at `start`, by default in the middle of the grid; the paper does not give a start. An
    `iter_local` that is longer than the period stays until models have been averaged: before that its traffic is
    unknown.

    AL(θ) and σ_AL are in the units of the objective's main metric: 0.05 is five points of accuracy, and for regression
    an MAE that is 0.05 units of the target larger away than at home, so choose `sigma_al` and `lambda_al` to suit the
    target. AUC, average precision, F1 and R2 are undefined on the rows of some parties: models travel by balanced
    accuracy instead of the first three, and by RMSE instead of R2.

    The paper remembers values forever, so a setting that was bad once, early or by chance, is not tried again unless
    the current one becomes worse. With `forget`, values that are `forget` decisions old are unknown again.
    """
    objective = _Objective(sigma_al, lambda_al, lambda_c)
    step = {"hill-climbing": _best, "stochastic": _better, "annealing": _annealed(temperature, cooling)}[search]

    def dialled(dials: Sequence[Dial]) -> Controller:
        dial = chosen_dial("skewscout", dials, knob, grid)
        scout = _Scout(dial, _place(dial, start), period, sample, trips, forget, objective, step)
        return Controller(scout, travels=True)

    return Controller(dialled=dialled, travels=True)


def _place(dial: Dial, start: float | None) -> int:
    """Return the index of `start` in the grid."""
    if start is None:
        return len(dial.grid) // 2
    if start not in dial.grid:
        settings = ", ".join(f"{theta:g}" for theta in dial.grid)
        raise ConfigError(f"skewscout: start={start:g} is not a setting of {dial.name}: give one of {settings}.")
    return dial.grid.index(start)


@dataclass(frozen=True)
class _Objective:
    """Equation (1) of the paper."""

    sigma_al: float
    lambda_al: float
    lambda_c: float

    def __call__(self, loss: float, cost: float) -> float:
        return self.lambda_al * max(0.0, loss - self.sigma_al) + self.lambda_c * cost


@dataclass(frozen=True)
class _Seen:
    """The latest accuracy loss and traffic of every setting; NaN if it was never tried."""

    losses: list[float]
    costs: list[float]
    place: int  # index of the current setting in the grid
    objective: _Objective

    def value(self, place: int) -> float:
        """Return the objective at a setting, or its lowest possible value if the setting was never tried."""
        loss, cost = self.losses[place], self.costs[place]
        if math.isnan(loss):
            current_loss, current_cost = self.losses[self.place], self.costs[self.place]
            loss, cost = (current_loss, 0.0) if place > self.place else (0.0, current_cost)
        return self.objective(loss, cost)

    @property
    def neighbours(self) -> list[int]:
        return [place for place in (self.place - 1, self.place + 1) if 0 <= place < len(self.losses)]


Step = Callable[[_Seen, int, Callable[[int], Sequence[float]]], int]  # (seen, earlier decisions, draw) -> next place


def _best(seen: _Seen, decisions: int, draw: Callable[[int], Sequence[float]]) -> int:
    return min((seen.place, *seen.neighbours), key=seen.value)


def _better(seen: _Seen, decisions: int, draw: Callable[[int], Sequence[float]]) -> int:
    """Draw one of the better neighbours, with probability proportional to its gain."""
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
        which, chance = draw(2)
        if not seen.neighbours:
            return seen.place
        place = seen.neighbours[int(which * len(seen.neighbours))]
        worse = seen.value(place) - seen.value(seen.place)
        warmth = temperature * cooling**decisions
        accepts = worse <= 0 or (warmth > 0 and chance < math.exp(-worse / warmth))
        return place if accepts else seen.place

    return step


@dataclass(frozen=True)
class _Scout:
    """The function `Controller.steer`. Its memory: the current place, since which round, and what it has seen."""

    dial: Dial
    start: int
    period: int
    sample: int
    trips: int
    forget: int | None
    objective: _Objective
    step: Step

    def __call__(self, server: Server, memory: Memory, probe: Probe) -> Orders:
        memory = memory or self._initial_memory(server, probe)
        place = int(memory["place"])
        if server.round - int(memory["since"]) < self._wait(place):
            return Orders(self._knobs(place), memory)
        return self._decide(server, memory, probe)

    def _wait(self, place: int) -> float:
        """Return the rounds before a decision: a period, or longer if the setting exchanges only after longer."""
        return max(self.period, self.dial.grid[place]) if self.dial.waits else self.period

    def _initial_memory(self, server: Server, probe: Probe) -> dict[str, torch.Tensor]:
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
        after = self.step(seen, decisions, probe.draw)
        new_memory = {
            "place": torch.tensor(after),
            "since": torch.tensor(server.round),
            "spent": torch.tensor(probe.spent),
            "losses": losses,
            "costs": costs,
            "tried": tried,
            "decisions": torch.tensor(decisions + 1),
        }
        return Orders(self._knobs(after), new_memory, self._report(seen, trip, after))

    def _knobs(self, place: int) -> dict[str, float]:
        return {self.dial.name: self.dial.grid[place]}

    def _report(self, seen: _Seen, trip: Travel, after: int) -> dict[str, Any]:
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
            "next": self.dial.grid[after],
            "reason": _reason(seen, after, trip.metric),
            **({"metric": trip.metric.name} if trip.metric != ACCURACY else {}),
        }


def _reason(seen: _Seen, after: int, metric: Metric = ACCURACY) -> str:
    """Explain a decision in a few words."""
    loss, bound = seen.losses[seen.place], seen.objective.sigma_al
    known = "tried before" if not math.isnan(seen.losses[after]) else "never tried"
    loss_text, bound_text = map(metric.text, (loss, bound))
    far = f"{metric.title} loss {loss_text} is {'above' if loss > bound else 'within'} {bound_text}"
    if after == seen.place:
        return f"{far}: no neighbour promises less than {seen.value(after):.3f}"
    way = "less" if after > seen.place else "more"
    return f"{far}: {way} traffic ({known}) may cost {seen.value(after):.3f} instead of {seen.value(seen.place):.3f}"
