"""The native step: one C++ source, compiled at first use for the processor it runs on, and its way into Python."""

from silobench.engines.kernel.binding import Kernel, KernelError, Rows, Rule, Shape, Walk
from silobench.engines.kernel.build import Native, NoNativeError, native, say_why_not, why_not

__all__ = [
    "Kernel", "KernelError", "Native", "NoNativeError", "Rows", "Rule", "Shape", "Walk", "native", "say_why_not",
    "why_not",
]  # fmt: skip
