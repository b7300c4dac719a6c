"""Where an error happened: the round, the party and, if they are known, the step."""

import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from silobench.errors import HookError, RunError, SilobenchError
from silobench.training.party import LocalRound


def located(error: Exception, local_round: LocalRound, parties: Sequence[int]) -> Exception:
    """Return an error as a `RunError` that names the round, the parties and the step; call it where it is caught.

    An error that a user can correct (`SilobenchError`) is a sentence already, and is returned unchanged, unless it is
    that of a hook: that names the hook only.
    """
    if isinstance(error, SilobenchError) and not isinstance(error, HookError):
        return error
    step = _step(error, local_round, parties[0]) if len(parties) == 1 else None
    place = f"round {local_round.server.round + 1}, {_text(parties)}" + (f", step {step}" if step else "")
    if isinstance(error, HookError):
        failure = RunError(f"{place}: {error}", error.details or traceback.format_exc())
    else:
        failure = RunError(f"{place}: {type(error).__name__}: {error}{_file(error)}", traceback.format_exc())
    failure.__cause__ = error
    return failure


def _file(error: BaseException) -> str:
    """Return the last line of a user's file that was reached before an error; empty for an error in a package."""
    own = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == "<run_path>"  # of a plugin file
    ]
    return f" ({Path(own[-1][0]).name}, line {own[-1][1]})" if own else ""


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
