"""Facts about this machine for `silobench doctor`."""

import os
import platform
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

from silobench import __version__
from silobench.data.store.directory import data_dir
from silobench.engines import kernel as kernels
from silobench.processes import cores


def diagnose() -> dict[str, Any]:
    """Return facts by name, including whether the native kernel is available and, if not, why."""
    packages = {name: metadata.version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}
    folder = data_dir()
    return {
        "silobench": __version__,
        "python": platform.python_version(),
        **packages,
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "processor": _processor(),
        "cores": cores(),
        "memory_gb": _gigabytes(),
        "data": {"folder": str(folder), "free_gb": round(_free(folder) / 1e9, 1)},
        "native": _native(),
    }


def _native() -> dict[str, Any]:
    try:
        native = kernels.native()
    except kernels.NoNativeError as reason:
        return {
            "available": False,
            "why": str(reason),
            "used": "PyTorch for everything: linear and mlp train all parties as one batch, cnn one party per worker",
        }
    return {
        "available": True,
        "used": "for cnn, mlp and linear, with an algorithm without its own loss or gradient hook (not moon or fedrs); "
        "PyTorch otherwise",
        "kernel": native.key,
        "vectors": f"{native.kernel.lanes} numbers at a time ({' '.join(native.features) or platform.machine()})",
        "compiler": native.compiler,
        "library": str(native.path),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or "unknown")


def _gigabytes() -> float | None:
    if not hasattr(os, "sysconf"):
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)


def _free(folder: Path) -> int:
    """Return the free bytes at the folder, or at its closest parent that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free
