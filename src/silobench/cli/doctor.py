"""Facts about this machine for `silobench doctor`."""

import os
import platform
import shutil
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from silobench import __version__
from silobench.data.store.directory import data_dir
from silobench.engines import kernel as kernels
from silobench.processes import cores, cpu_info


def diagnose() -> dict[str, Any]:
    """Return facts by name, including whether the native kernel is available and, if not, why."""
    packages = {name: metadata.version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}
    folder = data_dir()
    return {
        "silobench": __version__,
        "python": platform.python_version(),
        **packages,
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "processor": processor(),
        "cores": cores(),
        "memory_gb": _gigabytes(),
        "data": {"folder": str(folder), "free_gb": round(_free(folder) / 1e9, 1)},
        "native": _native(),
        "devices": _devices(),
    }


def _devices() -> dict[str, Any]:
    """Return what `--device` can use: the CPU, the GPUs of CUDA with their driver, and Apple's GPU."""
    import torch  # what is above does not need it

    return {
        "cpu": "always; two runs have the same bits",
        "cuda": _cuda() if torch.cuda.is_available() else _why_no_cuda(),
        "mps": "present; two runs may differ by rounding" if torch.backends.mps.is_available() else "none",
    }


def _why_no_cuda() -> str:
    import torch

    if torch.version.cuda is None:
        return f"none: PyTorch {torch.__version__} was built without CUDA"
    return f"none: PyTorch {torch.__version__} for CUDA {torch.version.cuda} finds no GPU or no driver"


def _cuda() -> dict[str, Any]:
    """Return facts about the GPUs of CUDA. A process that asks for their memory starts CUDA, so only `doctor` does."""
    import torch

    properties = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    gpus = {
        f"gpu {number}": f"{each.name}, {each.total_memory / 1e9:.1f} GB, compute capability {each.major}.{each.minor}"
        for number, each in enumerate(properties)
    }
    return {
        **gpus,
        "cuda": str(torch.version.cuda),
        "cudnn": str(torch.backends.cudnn.version()),
        "driver": _driver(),
        "workers": f"{len(gpus)}: one process per GPU" if len(gpus) > 1 else "none: this process uses the GPU",
        "deterministic": "cuda: same bits on GPUs of one model with one PyTorch; cuda-nondeterministic: not",
        "tf32": "off",
    }


def _driver() -> str:
    """Return the version of NVIDIA's driver, as its own tool names it."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return "unknown: nvidia-smi does not answer"
    return answer[0] if answer else "unknown: nvidia-smi lists no GPU"


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


def processor() -> str:
    """Return the name of the processor."""
    return cpu_info("model name") or platform.processor() or "unknown"


def _gigabytes() -> float | None:
    if not hasattr(os, "sysconf"):
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)


def _free(folder: Path) -> int:
    """Return the free bytes at the folder, or at its closest parent that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free
