"""What `silobench doctor` says."""

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
    """Facts by name; of the native step also why it is not there, where it is not."""
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
        found = kernels.native()
    except kernels.NoNativeError as reason:
        return {
            "available": False,
            "why": str(reason),
            "used": "PyTorch for everything: linear and mlp stacked, cnn one party at a time in each worker",
        }
    return {
        "available": True,
        "used": "for cnn, mlp and linear under any algorithm that corrects by a pull; PyTorch for everything else",
        "kernel": found.key,
        "vectors": f"{found.kernel.lanes} numbers at a time ({' '.join(found.features) or platform.machine()})",
        "compiler": found.compiler,
        "library": str(found.path),
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
    """Of the first folder on the way up that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free
