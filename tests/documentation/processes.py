"""Commands of a page that are processes of their own: forks, shells, some in the background, some with Flower."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from commands import PATIENCE, Program, Result
from deployment import flower_python, free_port
from documentation.blocks import ROOT

_PORT = "9092"  # on pages; another program may listen there
_SILOBENCH = "from silobench.cli import main; main()"
_SCRIPT = """
import runpy, sys
from pathlib import Path

sys.argv = sys.argv[1:]
sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_NEEDS_FLOWER = re.compile(r"silobench silo (start|serve) ")


def needs_flower(text: str) -> bool:
    """Whether a command needs an environment that has Flower."""
    return _NEEDS_FLOWER.match(text) is not None


@dataclass
class Processes:
    """The processes of one page, in the current folder."""

    _background: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    @cached_property
    def flower(self) -> str | None:
        """A Python that has Flower; None if there is none."""
        return flower_python()

    @cached_property
    def _port(self) -> str:
        return str(free_port())

    def run(self, text: str) -> Result:
        """Run a command in a shell that finds this Python, and silobench as it is here; do not wait if it ends in &."""
        if text.startswith("kill %"):
            return Result(max(self.end()), "", "")
        if needs_flower(text):
            text = f"{shlex.quote(str(self.flower))} -m {text}".replace(f":{_PORT}", f":{self._port}")
            text = text.replace(f"--port {_PORT}", f"--port {self._port}")
        if text.endswith("&"):
            command = ["bash", "-c", f"exec {text.removesuffix('&')}"]
            self._background.append(subprocess.Popen(command, env=_environment()))
            return Result(0, "", "")
        finished = subprocess.run(
            ["bash", "-c", text], env=_environment(), capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        shown = [output.replace(f":{self._port}", f":{_PORT}") for output in (finished.stdout, finished.stderr)]
        return Result(finished.returncode, *shown)

    @staticmethod
    def fork(program: str, arguments: Sequence[str]) -> Result:
        """Run silobench, or python with a file, in a fork that has imported the package already."""
        code, out, err = Program(_SILOBENCH if program == "silobench" else _SCRIPT, *arguments).wait()
        return Result(-1 if code is None else code, out.decode(), err.decode())

    def end(self) -> list[int]:
        """End the processes in the background, and return their exit codes."""
        for process in self._background:
            process.terminate()
        codes = [abs(process.wait(PATIENCE)) for process in self._background]
        self._background.clear()
        return codes


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}
