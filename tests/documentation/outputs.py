"""Whether a page shows what its code prints."""

import re
from collections.abc import Sequence

from commands import Result
from documentation.blocks import Block
from documentation.console import Command

# How far a number with a decimal point may be off, by command. Rounding, which differs between processors, decides
# about rows that lie between two classes: of 150 rows of a class each counts 0.7 percent. A partition has no rounding.
# The probabilities of `compare` follow from a few such numbers, so only the names of its lines are compared (None).
_TOLERANCES = {"partition": 0.0, "run": 4.0, "show": 4.0, "predict": 0.1, "silo": 0.1, "compare": None}
_FIXED = {"predict"}  # commands whose numbers always have as many decimals as the page shows
_IN_PYTHON = 0.01
_MEASURED = {"docs/clock.md": 2.0}  # seconds of the server on this machine are in the last digits
_NUMBER = re.compile(r"[+-]?\d+\.\d+")
_ANYTHING = "..."  # in a page: any text


def need_printed(block: Block, printed: str) -> None:
    """Check the output that a page shows below its code."""
    assert block.output is not None
    shown, lines = block.output.strip().splitlines(), printed.strip().splitlines()
    assert len(shown) == len(lines), f"{block} prints\n{printed}"
    for ours, theirs in zip(shown, lines, strict=True):
        tolerance = _MEASURED.get(block.page, _IN_PYTHON)
        assert _is_alike(ours, theirs, tolerance), f"{block} prints\n{theirs}\nnot\n{ours}"


def need_alike(block: Block, command: Command, result: Result) -> None:
    """Check that a command prints each line that a page shows below it, in any order and among others."""
    name = command.text.split()[1] if command.output else ""
    tolerance = _TOLERANCES.get(name, 0.0)
    printed = [re.sub(r"\s+", " ", line.rstrip()) for line in (result.out + result.err).splitlines()]
    for line in command.output:
        shown = re.sub(r"\s+", " ", line.rstrip())
        if tolerance is None:
            start = _NUMBER.split(shown)[0].rstrip("+-[ ")
            alike = any(each.startswith(start) for each in printed)
        else:
            alike = any(_is_alike(shown, each, tolerance, name in _FIXED) for each in printed)
        assert alike, f"{block}: `{command.text}` does not print\n{line}\nbut\n{result.out}{result.err}"


def _is_alike(shown: str, printed: str, tolerance: float, is_fixed: bool = False) -> bool:
    """Whether two lines have the same text between their decimal numbers, and numbers that are close.

    Numbers that are fixed have the same number of decimals, too.
    """
    pattern = re.escape(_NUMBER.sub("\0", shown)).replace(re.escape(_ANYTHING), ".*")
    pattern = pattern.replace(re.escape("\0"), f"({_NUMBER.pattern})").replace("\0", f"({_NUMBER.pattern})")
    match = re.fullmatch(pattern, printed)
    if match is None:
        return False
    ours, theirs = _NUMBER.findall(shown), match.groups()
    return _are_close(ours, theirs, tolerance) and (not is_fixed or _decimals(ours) == _decimals(theirs))


def _decimals(numbers: Sequence[str]) -> list[int]:
    return [len(number.partition(".")[2]) for number in numbers]


def _are_close(shown: Sequence[str], printed: Sequence[str], tolerance: float) -> bool:
    return all(abs(float(a) - float(b)) <= tolerance for a, b in zip(shown, printed, strict=True))
