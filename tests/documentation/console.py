"""The commands of a console block, and the lines that the page shows below each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LOOP = re.compile(r"for (\w+) in (.+?); do\s+(.+); done", re.DOTALL)
_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|#.*|;|[^'"#;]+|.""")


@dataclass(frozen=True)
class Command:
    """A command as a page shows it, and its output there."""

    text: str
    output: tuple[str, ...] = ()


def commands_of(text: str) -> list[Command]:
    """Return the commands of a block in their order; a loop is the commands that it stands for."""
    return [
        Command(part, output if place == len(parts) - 1 else ())
        for command, output in _prompts(text)
        for parts in [list(_parts(command))]
        for place, part in enumerate(parts)
    ]


def _prompts(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what follows each prompt, with continued lines joined, and the lines of output after it."""
    for prompt in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        first, *rest = prompt.splitlines()
        while first.endswith("\\") or (first.startswith("for ") and not first.endswith("done")):
            first = f"{first.removesuffix(chr(92)).rstrip()} {rest.pop(0).strip()}"
        yield first, tuple(line for line in rest if line.strip())


def _parts(command: str) -> Iterator[str]:
    """Yield the commands of a line that has several, and those of each turn of a loop."""
    if loop := _LOOP.fullmatch(command):
        name, values, body = loop.groups()
        for value in values.split():
            yield from _parts(re.sub(rf"\${name}\b", value, body))
        return
    part = ""
    for piece in _QUOTED.findall(command):
        if piece == ";":
            yield part.strip()
            part = ""
        elif not (piece.startswith("#") and (not part or part[-1].isspace())):
            part += piece
    if part.strip():
        yield part.strip()
