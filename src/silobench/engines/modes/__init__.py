"""Modes: how parties are trained. Results differ between modes only by rounding."""

from silobench.engines.modes.inline import INLINE
from silobench.engines.modes.mode import Mode
from silobench.engines.modes.native import NATIVE
from silobench.engines.modes.stacked import STACKED
from silobench.engines.modes.vmap import VMAP

MODES = {mode.name: mode for mode in (NATIVE, STACKED, VMAP, INLINE)}

__all__ = ["INLINE", "MODES", "NATIVE", "STACKED", "VMAP", "Mode"]
