"""The environment of Flower's processes: no telemetry, a home of their own, and the programs of this Python."""

import importlib.util
import os
import sys
from pathlib import Path

from silobench.errors import ConfigError
from silobench.safety.private_files import FOLDER_MODE

_QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "GRPC_VERBOSITY": "ERROR"}


def require_flower() -> None:
    """Raise an error with the command that installs Flower, if it is not installed."""
    if importlib.util.find_spec("flwr") is None:
        raise ConfigError(
            "letters between silos travel by Flower, which is not installed: install it with "
            "`pip install 'silobench[flower]'`, in an environment of its own."
        )


def flower_environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a process of Flower whose files are in `home`."""
    home.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    programs = str(Path(sys.executable).parent)  # Flower starts its programs by name
    path = os.pathsep.join([programs, os.environ.get("PATH", "")])
    return {**os.environ, **_QUIET, "FLWR_HOME": str(home.resolve()), "PATH": path, **more}
