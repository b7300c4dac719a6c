"""A program for an environment that has the wheel: run commands, then print where each module of silobench is.

It is a file of its own, because nothing of the repository may be on the path: ``python -I visit.py COMMANDS.json``.
"""

import json
import sys
from importlib import metadata
from pathlib import Path

from silobench.cli import main


def run(arguments: list[str]) -> None:
    sys.argv = ["silobench", *arguments]
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            sys.exit(f"silobench {' '.join(arguments)} ended with {stop.code}")


if __name__ == "__main__":
    for command in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")):
        run(command)
    modules = {name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "silobench"}
    print(json.dumps({"version": metadata.version("silobench"), "modules": modules}))
