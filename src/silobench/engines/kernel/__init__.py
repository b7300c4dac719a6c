"""The native step: one C++ source, compiled at first use for the processor it runs on, and its Python binding."""

from silobench.engines.kernel.binding import PARTY, Kernel, KernelError, PartyError, Passes, Rows, Rule, Shape, Walk
from silobench.engines.kernel.build import Native, NoNativeError, cpu_type, native, warn_if_missing, why_not

__all__ = [
    "PARTY", "Kernel", "KernelError", "Native", "NoNativeError", "PartyError", "Passes", "Rows", "Rule", "Shape",
    "Walk", "cpu_type", "native", "warn_if_missing", "why_not",
]  # fmt: skip
