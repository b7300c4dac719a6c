"""Oracle (Hsieh et al., ICML 2020): run every setting of a knob, and choose the cheapest that is as good as BSP."""

from collections.abc import Sequence
from dataclasses import replace

from silobench.errors import ConfigError
from silobench.method.control import CONTROLLERS, Controller
from silobench.method.controllers.dials import chosen_dial
from silobench.method.types import Dial


@CONTROLLERS.register
def oracle(knob: str | None = None, grid: tuple[float, ...] = ()) -> Controller:
    """Several runs instead of one: `silobench run` makes a run of BSP and one of each setting of `knob`.

    `silobench show` then names the run that sends least among those that keep BSP's accuracy. This is an ideal that a
    single run cannot reach. `grid` replaces the paper's settings.
    """

    def refuse(dials: Sequence[Dial]) -> Controller:
        raise ConfigError(
            "oracle stands for several runs and cannot control a single one: give it as the controller of an "
            "experiment to `silobench run`."
        )

    return Controller(dialled=refuse)


def settings_of(dials: Sequence[Dial], knob: str | None = None, grid: tuple[float, ...] = ()) -> Dial:
    """Return the dial with the settings that an oracle tries: whole numbers where the method's own grid has them."""
    dial = chosen_dial("oracle", dials, knob, grid)
    usual = next(known for known in dials if known.name == dial.name)
    if not all(isinstance(theta, int) for theta in usual.grid):
        return dial
    return replace(dial, grid=tuple(int(theta) if float(theta).is_integer() else theta for theta in dial.grid))
