"""The wheel: what it must contain, how it is built, and an environment that has it and not the repository."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src/silobench"
# A suite of each paper, whose smoke scale runs on embedded data.
SUITES = ("niid-parties", "zhao-table3", "quagmire-table6", "oarf-skew")
_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "SILOBENCH_DATA")


def package_files() -> set[str]:
    """Return the paths that the wheel must have: all files of the package."""
    files = (path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(PACKAGE.parent)) for path in files}


def build_wheel(folder: Path) -> Path:
    """Build the wheel into a folder with the hatchling of this environment, so that nothing is downloaded."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-index"]
    subprocess.run([*pip, "--no-build-isolation", "--no-deps", "--wheel-dir", folder, ROOT], check=True, cwd=folder)
    (wheel,) = folder.glob("silobench-*.whl")
    return wheel


def wheel_files(wheel: Path) -> set[str]:
    """Return the paths of the files in a wheel, without those that describe it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}


def new_environment(folder: Path) -> Path:
    """Create an environment without any package and return its folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    return folder / "bin"


def install(programs: Path, *arguments: str | Path) -> None:
    """Install something into an environment with the pip of this one."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", programs / "python"]
    subprocess.run([*pip, "install", "--quiet", *arguments], check=True, env=clean_variables())


def clean_variables(**more: str) -> Mapping[str, str]:
    """Return the variables of this process without those that lead Python to other packages, or silobench to data."""
    return {name: value for name, value in os.environ.items() if name not in _FOREIGN} | more
