"""Engines decide how and where parties train. Replies come in a fixed order, so sums do not depend on the workers."""

from silobench.engines.engine import ENGINES, Engine, auto, inline, native, pool, stacked

__all__ = ["ENGINES", "Engine", "auto", "inline", "native", "pool", "stacked"]
