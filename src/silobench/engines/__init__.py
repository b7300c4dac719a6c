"""Engines decide how and where parties train. Replies come in a fixed order, so sums do not depend on the workers.

An engine is a preference among modes (how: `modes/`) and an executor (where: `executor.py`, `workers.py`).
"""

from silobench.engines.engine import ENGINES, Engine, auto, debug, inline, native, pool, stacked
from silobench.engines.executor import EXECUTORS, Executor, Job, News
from silobench.engines.modes import MODES, Mode
from silobench.engines.workers import Workers

__all__ = [
    "ENGINES", "EXECUTORS", "MODES", "Engine", "Executor", "Job", "Mode", "News", "Workers", "auto", "debug", "inline",
    "native", "pool", "stacked",
]  # fmt: skip
