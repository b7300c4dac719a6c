"""The gate between two rounds, where a contender waits until bench.py lets it run the next few rounds.

Messages are lines of JSON: bench.py writes {"rounds": n}; after n rounds the contender answers with their time and
waits again. The first rounds are a warm-up and need no message; the first answer has the time at which round 1 ended.
"""

import json
import os
import sys
import time


class Gate:
    """Create it first: it takes standard output for answers and redirects all other output to standard error."""

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
        """End a round; `work_seconds` is its time for training and testing, where known."""
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
