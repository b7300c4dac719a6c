"""Printing: what a terminal gets is text, whatever the names in it are.

Commands print by these two. A name from somebody's file can then move no cursor, change no colour and set no title.
"""

import builtins
from collections.abc import Iterable
from typing import TextIO

import rich.console
from rich.segment import Segment

from silobench.safety.texts import visible


def print(*values: object, file: TextIO | None = None, flush: bool = False) -> None:
    """Print values as the function of Python does, with active characters written out."""
    builtins.print(*(visible(str(value)) for value in values), file=file, flush=flush)


class Console(rich.console.Console):
    """A console of rich that writes out active characters. Its own colours and movements are not text, and stay."""

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        return super()._render_buffer(map(_harmless, buffer))


def _harmless(segment: Segment) -> Segment:
    return segment if segment.control else Segment(visible(segment.text), *segment[1:])


__all__ = ["Console", "print"]
