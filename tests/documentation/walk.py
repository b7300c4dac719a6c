"""Walk a page as a newcomer does: everything on it is typed into one shell, in an empty folder, from the clone on.

    python tests/documentation/walk.py docs/first-leaderboard-entry.md [FOLDER]

It needs nothing but Python, git and what pip finds. REPOSITORY is this repository, as it is committed. Each step is
shown with the seconds that it took: by the clock, and of the processor. It ends with the first step that fails.
"""

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from documentation.blocks import ROOT, Block, blocks_of
from documentation.console import Command, commands_of

_START = """TIMEFORMAT='    (%R s by the clock, %U s of the processor)'
step() { expected=$1; code=0; printf '$ %s\\n' "$2"; time eval "$2" || code=$?; [ $code -eq $expected ] || exit 1; }
"""


def script_of(page: str) -> str:
    """Return a shell script that does everything on a page."""
    return _START + "\n".join(line for block in blocks_of(page) for line in _lines(block)) + "\n"


def _lines(block: Block) -> Iterator[str]:
    """Yield the lines of a script for a block: a file is written, a command is executed and timed."""
    if block.language == "console":
        yield from map(_step, commands_of(block.text))
    elif block.file:
        yield f"printf %s {shlex.quote(block.text)} > {block.file}"
    elif block.language == "python":
        yield _step(Command(f"python -c {shlex.quote(block.text)}"))


def _step(command: Command) -> str:
    text = command.text.replace("REPOSITORY", shlex.quote(str(ROOT)))
    is_refused = bool(command.output) and command.output[0].startswith("error:")
    return f"step {2 if is_refused else 0} {shlex.quote(text)}"


def main(page: str, folder: str | None = None) -> None:
    place = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="newcomer-"))
    place.mkdir(parents=True, exist_ok=True)
    print(f"walking {page} in {place}", flush=True)
    raise SystemExit(subprocess.run(["bash", "-c", script_of(page)], cwd=place, check=False).returncode)


if __name__ == "__main__":
    main(*sys.argv[1:])
