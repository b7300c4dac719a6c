"""Oracle (Hsieh et al., ICML 2020): every setting of a knob is run, the cheapest as good as BSP chosen."""

from collections.abc import Sequence
from dataclasses import replace

from silobench.errors import ConfigError
from silobench.method.control import Controller
from silobench.method.controllers.dials import chosen_dial
from silobench.method.types import Dial


def oracle(knob: str | None = None, grid: tuple[float, ...] = ()) -> Controller:
    """Not one run but many: `silobench run` makes one of BSP and one of each setting of `knob`, all through training.

    `silobench show` then names the one that sends least among those that keep BSP's accuracy: an ideal that nobody can
    have in one run. `grid` replaces the paper's settings.
    """

    def refuse(dials: Sequence[Dial]) -> Controller:
        raise ConfigError(
            "oracle stands for many runs and cannot steer one: give it as a controller to `silobench run`."
        )

    return Controller(dialled=refuse)


def settings_of(dials: Sequence[Dial], knob: str | None = None, grid: tuple[float, ...] = ()) -> Dial:
    """Return what an oracle tries; a setting of a dial of whole numbers is one, as it is written into a spec."""
    dial = chosen_dial("oracle", dials, knob, grid)
    usual = next(known for known in dials if known.name == dial.name)
    if not all(isinstance(theta, int) for theta in usual.grid):
        return dial
    return replace(dial, grid=tuple(int(theta) if float(theta).is_integer() else theta for theta in dial.grid))
