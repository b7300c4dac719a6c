"""`rounds`: a run from Python, without files."""

from collections.abc import Callable, Iterator

from silobench.engines import Engine, inline
from silobench.federation import Federation
from silobench.loop.clocks import Clock, measured
from silobench.loop.exchanges import Exchange, star
from silobench.loop.loop import run_rounds
from silobench.loop.network import Network, link
from silobench.loop.paces import Pace, synchronous
from silobench.loop.prelude import with_prelude
from silobench.loop.schedule import Schedule
from silobench.method.adversaries import Adversary, none
from silobench.method.availability import Availability, always
from silobench.method.control import Controller
from silobench.method.controllers import fixed
from silobench.method.method import Method
from silobench.method.selection import Selection, uniform
from silobench.method.types import Transform
from silobench.spec.arguments import as_python
from silobench.tasks.task import Task
from silobench.training.setting import Setting, checked_setting
from silobench.training.state import RoundRecord, State


def rounds(
    method: Method,
    federation: Federation,
    task: Task,
    *,
    seed: int = 0,
    rounds: int = 50,
    participation: float | int = 1.0,
    selection: Selection | None = None,
    eval_every: int = 1,
    eval_on: float | int = 1.0,
    engine: Engine | None = None,
    controller: Controller | None = None,
    network: Network | None = None,
    exchange: Exchange | None = None,
    availability: Availability | None = None,
    pace: Pace | None = None,
    clock: Clock | None = None,
    broadcast: tuple[Transform, ...] = (),
    adversary: Adversary | None = None,
    state: State | None = None,
    plant: Callable[[Setting], Setting] | None = None,
) -> Iterator[RoundRecord]:
    """Run a method over a federation and yield one record per round; `state` continues from an earlier record.

    `participation` is a fraction of the parties, or a count if it is an integer; `selection` draws them, uniformly by
    default. The model is tested every `eval_every` rounds on `eval_on` of the test rows (a fraction, or a count), and
    after the last round on all of them. The transforms in `broadcast` compress what the server sends. With an
    `adversary` some parties are malicious. Where the partition shares rows, parties are sent them before the first
    round, and the model is warmed up on them. `plant` is the hook of a measure that adds something to the training, as
    that of `canaries` does.

    A private run ends before the round that would exceed its budget of epsilon. If that is the first round, or the
    first after `state` because of a lower budget or more rounds than before, a `ConfigError` is raised and nothing is
    trained. A `state` whose run has ended yields no record.
    """
    setting = checked_setting(method, federation, task, seed)
    planted = setting if plant is None else plant(setting)
    schedule = Schedule(
        planted, as_python(rounds), as_python(participation), as_python(eval_every), as_python(eval_on),
        engine or inline(), selection or uniform(),
        controller or fixed(), network or link(), exchange or star(), availability or always(), pace or synchronous(),
        clock or measured(), broadcast, adversary=adversary or none(),
    )  # fmt: skip
    return _records(schedule, state)  # wrong arguments are refused now, not when the first round is asked for


def _records(schedule: Schedule, state: State | None) -> Iterator[RoundRecord]:
    yield from run_rounds(with_prelude(schedule), state)
