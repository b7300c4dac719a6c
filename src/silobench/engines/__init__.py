"""Engines decide how and where the parties' local rounds run. They answer in a fixed order, so sums are the same."""

from silobench.engines.engine import ENGINES, Engine, auto, inline, native, pool, stacked

__all__ = ["ENGINES", "Engine", "auto", "inline", "native", "pool", "stacked"]
