"""Where an error happened: the round, the party and, if they are known, the step."""

import traceback
from collections.abc import Iterator, Sequence
from types import FrameType

from silobench.errors import RunError, SilobenchError
from silobench.training.party import LocalRound


def located(error: Exception, local_round: LocalRound, parties: Sequence[int]) -> Exception:
    """Return an error as a `RunError` that names the round, the parties and the step; call it where it is caught.

    An error that a user can correct (`SilobenchError`) is a sentence already, and is returned unchanged.
    """
    if isinstance(error, SilobenchError):
        return error
    step = _step(error, local_round, parties[0]) if len(parties) == 1 else None
    place = f"round {local_round.server.round + 1}, {_text(parties)}" + (f", step {step}" if step else "")
    failure = RunError(f"{place}: {type(error).__name__}: {error}", traceback.format_exc())
    failure.__cause__ = error
    return failure


def _text(parties: Sequence[int]) -> str:
    if len(parties) == 1:
        return f"party {parties[0]}"
    return f"parties {', '.join(map(str, parties[:-1]))} and {parties[-1]} (trained together)"


def _step(error: BaseException, local_round: LocalRound, party: int) -> int | None:
    """Return the step that failed, counted from 1; None for an error before the first step or after the last.

    The solver's loop counts its steps in the variable `steps`. It is read from the traceback, so that naming the step
    costs nothing while nothing fails.
    """
    solver = local_round.setting.solver
    for frame in _frames(error):
        steps = frame.f_locals.get("steps")
        if frame.f_locals.get("self") is solver and isinstance(steps, int):
            return steps + 1 if steps < solver.count(local_round.party(party).samples) else None
    return None


def _frames(error: BaseException) -> Iterator[FrameType]:
    return (frame for frame, _ in traceback.walk_tb(error.__traceback__))
