"""Build the wheel into `dist/`, install it with its dependencies into an empty environment, and use it there.

    python -m release

It needs the package index that pip is configured for. The demo and a suite of each paper run at smoke scale; each line
of the table is a command that ended well.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from release import ROOT, SUITES, build_wheel, clean_variables, install, new_environment, package_files, wheel_files

_WHERE = "import silobench; print(silobench.__version__, silobench.__file__)"


def main() -> None:
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    wheel = build_wheel(dist)
    difference = wheel_files(wheel) ^ package_files()
    if difference:
        raise SystemExit(f"{wheel.name} does not have the files of the package: {', '.join(sorted(difference))}")
    print(f"{wheel.name}: {len(wheel_files(wheel))} files, {wheel.stat().st_size / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory(prefix="silobench-release-") as folder:
        _use(wheel, Path(folder))
    print(f"{wheel} works in an empty environment.")


def _use(wheel: Path, folder: Path) -> None:
    programs = new_environment(folder / "environment")
    constraints = ("-c", ROOT / "constraints.txt")
    _timed("install torch", lambda: install(programs, "torch", *constraints))
    _timed("install the wheel", lambda: install(programs, wheel, *constraints))

    def call(*command: str) -> Callable[[], None]:
        return lambda: _call([programs / command[0], *command[1:]], folder)

    _timed("imported from", call("python", "-I", "-c", _WHERE))
    _timed("silobench doctor", call("silobench", "doctor"))
    _timed("silobench demo", call("silobench", "demo"))
    for suite in SUITES:
        options = ("--scale", "smoke", "--trials", "1", "--out", f"runs/{suite}")
        _timed(f"silobench run {suite}", call("silobench", "run", suite, *options))


def _call(command: list[str | Path], folder: Path) -> None:
    """Run a command in a folder of its own, without data that were fetched; print the end of what it prints."""
    variables = clean_variables(SILOBENCH_DATA=str(folder / "no-data"))
    result = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{command[0]} ended with {result.returncode}: {result.stderr}")
    print("\n".join(f"    {line}" for line in result.stdout.splitlines()[-12:]))


def _timed(name: str, work: Callable[[], None]) -> None:
    """Do something, and print its name with the seconds that it took: of the clock, and of processors."""
    begin, used = time.monotonic(), _processor_seconds()
    work()
    print(f"{name}: {time.monotonic() - begin:.0f} s, {_processor_seconds() - used:.0f} core-seconds", flush=True)


def _processor_seconds() -> float:
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    main()
