"""Between two rounds every contender passes the gate, where it waits until bench.py lets it run the next few.

Lines of JSON: bench.py writes {"rounds": n}; n rounds later the contender answers what they took, and waits again. It
warms up unasked with the first rounds, and tells when the very first ended.
"""

import json
import os
import sys
import time


class Gate:
    """Make it first of all: it keeps standard output to itself and leaves the rest of the program standard error."""

    def __init__(self, warm_up: int) -> None:
        sys.stdout.flush()
        self._answers = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)
        self._done, self._until = 0, warm_up
        self._first: float | None = None
        self._begin()

    def _begin(self) -> None:
        self._rounds, self._accuracy, self._working = 0, {}, []
        self._since = time.perf_counter()

    def lap(self, accuracy: float | None, work_seconds: float | None = None) -> None:
        """A round is over. `work_seconds` is what of it went into training and testing, where that is known."""
        now = time.perf_counter()
        self._first = self._first or time.monotonic()
        self._done += 1
        self._rounds += 1
        if accuracy is not None:
            self._accuracy[self._done] = accuracy
        if work_seconds is not None:
            self._working.append(work_seconds)
        if self._done < self._until:
            return
        self._answer(now - self._since)
        line = sys.stdin.readline()
        if not line:
            raise SystemExit
        self._until = self._done + json.loads(line)["rounds"]
        self._begin()

    def _answer(self, seconds: float) -> None:
        answer = {
            "first_round_at": self._first,
            "seconds_per_round": seconds / self._rounds,
            "work_seconds": sum(self._working) / self._rounds if self._working else None,
            "accuracy": self._accuracy,
        }
        self._answers.write(json.dumps(answer) + "\n")
