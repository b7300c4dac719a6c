"""Commands of a page that are processes of their own, some of them in the background, some of them with Flower."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from commands import PATIENCE, Result
from deployment import flower_python, free_port
from documentation.blocks import ROOT

_PORT = "9092"  # on pages; another program may listen there
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
