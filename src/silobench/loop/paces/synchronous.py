"""Rounds in which the server waits for everyone."""

from silobench.loop.paces.pace import PACES, Pace


@PACES.register
def synchronous() -> Pace:
    """The server waits for all parties of the cohort before it takes its step."""
    return Pace()
