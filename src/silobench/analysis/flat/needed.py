"""Packages that only some exports need."""

import importlib
from typing import Any

from silobench.errors import ConfigError


def needed(module: str, package: str, extra: str) -> Any:
    """Import a module of an optional package; without it, say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"this export needs the package {package}, which is not installed: run pip install 'silobench[{extra}]'."
        ) from error
