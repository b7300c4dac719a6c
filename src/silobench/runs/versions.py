"""The versions that the bits of a run depend on, and which of them give the same bits."""

import platform
from importlib import metadata

# Versions of silobench that compute the same bits, which `make determinism` shows before a release.
SAME_BITS = ("0.1.0", "1.0.0")


def versions() -> dict[str, str]:
    """Return the versions that the bits of a run depend on."""
    packages = {name: metadata.version(name) for name in ("silobench", "torch", "numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), "machine": platform.machine(), **packages}


def gives_same_bits(name: str, one: str | None, other: str | None) -> bool:
    """Whether two values of a fact about the environment, such as the version of torch, give the same bits.

    >>> gives_same_bits("silobench", "0.1.0", "1.0.0")
    True
    >>> gives_same_bits("torch", "0.1.0", "1.0.0")
    False
    """
    return one == other or (name == "silobench" and one in SAME_BITS and other in SAME_BITS)
