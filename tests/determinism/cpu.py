"""The CPU type: everything of a machine and its libraries that decides how sums are rounded.

Two machines of one type give the same bits. Each library chooses its code by what the processor can do, and some by its
maker, so the type states what each of them chose: the compiled step (compiler and target), ATen, oneDNN, MKL, OpenBLAS
and NumPy. Versions are part of it, because another version may add up in another order.
"""

import os
import platform
import subprocess
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  # it loads the second OpenBLAS, which threadpoolctl then lists
import torch
from threadpoolctl import threadpool_info

from silobench.engines.kernel import build, why_not
from silobench.processes import cpu_info
from silobench.runs.versions import versions

# A processor without AVX-512, on one that has it: the second type that digests are recorded for.
AVX2 = {
    "SILOBENCH_MARCH": "x86-64-v3",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Haswell",
}


def type_facts() -> dict[str, str]:
    """Return the CPU type of this process, fact by fact."""
    blas = {str(each["architecture"]) for each in threadpool_info() if each["internal_api"] == "openblas"}
    extensions: Any = np.show_config(mode="dicts")
    return {
        "vendor": cpu_info("vendor_id", "CPU implementer"),  # by which MKL chooses
        "features": " ".join(build.cpu_features()),
        "kernel": _kernel(),
        "aten": torch.backends.cpu.get_cpu_capability(),
        "mkl": _limit("MKL_ENABLE_INSTRUCTIONS"),
        "onednn": _limit("ONEDNN_MAX_CPU_ISA"),
        "openblas": " ".join(sorted(blas)),
        "numpy simd": " ".join(extensions["SIMD Extensions"]["found"]),
        **{name: version for name, version in versions().items() if name != "silobench"},
    }


def _limit(variable: str) -> str:
    """Return the instructions that a variable limits a library to; without one it uses what the processor has."""
    return os.environ.get(variable, "all")


def _kernel() -> str:
    """Return compiler and target of the compiled step; `native` is replaced by what GCC takes it for.

    A target that a variable names stays an option: the name alone may allow fewer instructions than the processor has.
    """
    if why_not() is not None:
        return "none"
    compiler, target = build._compiler(), build._target()
    if target.endswith("=native"):
        shown = subprocess.run([*compiler, target, "-Q", "--help=target"], capture_output=True, text=True, check=False)
        lines = [line.split() for line in shown.stdout.splitlines()]
        target = next((words[1] for words in lines if len(words) == 2 and words[0] == "-march="), target)
    return f"{build._version(compiler)} {target} {platform.machine()}"
