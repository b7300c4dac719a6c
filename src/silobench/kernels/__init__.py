"""The native step: one C++ source, compiled at first use for the processor it runs on, and its way into Python."""

from silobench.kernels.binding import Kernel, KernelError, Rows, Rule, Shape, Walk
from silobench.kernels.build import Native, NoNativeError, native, say_why_not, why_not

__all__ = [
    "Kernel", "KernelError", "Native", "NoNativeError", "Rows", "Rule", "Shape", "Walk", "native", "say_why_not",
    "why_not",
]  # fmt: skip
