"""Measure how long a round of a secure sum takes, by step, for all parties together on one core.

python benchmarks/secure.py                          # 5 parties x 1 million values, 100 parties x 100,000 values
python benchmarks/secure.py --sizes 20x300000 --bits 64 --repeats 5

Times are core-seconds of the fastest of several repeats. Agree: keys and shares before training. Encode: numbers to
integers. Mask: at the parties. Add: at the server. Reveal: the exchange of shares after the replies. Unmask: at the
server, with decoding. With dropouts, as many parties as the threshold allows send no masked values, which is the most
work for the server.
"""

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from silobench.method.secure import Pairwise, Ring, Splits, SumProtocol

GOALS = {(5, 1_000_000): 1.0, (100, 100_000): 20.0}  # seconds per round
STEPS = ("agree", "encode", "mask", "add", "reveal", "unmask")


class Clock:
    """Core-seconds by step."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STEPS, 0.0)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add the time of a block to a step."""
        began = time.process_time()
        yield
        self.seconds[name] += time.process_time() - began


def one_round(protocol: SumProtocol, updates: list[np.ndarray], bits: int, dropouts: int) -> dict[str, float]:
    """Return core-seconds by step of one round, whose sum is checked."""
    parties, clock = range(len(updates)), Clock()
    ring = Ring.of(1.0, len(updates), bits)
    total, expected = np.zeros(len(updates[0]), ring.dtype), np.zeros(len(updates[0]), ring.dtype)
    with clock.step("agree"):
        memories, _ = protocol.agree(parties, lambda phase: parties)
    answers = {party: memories[party] for party in parties[dropouts:]}
    for party, memory in answers.items():
        with clock.step("encode"):
            integers = ring.encode(updates[party])
        with clock.step("mask"):
            (masked,) = protocol.mask([integers], memory, party)
        with clock.step("add"):
            total += masked
        expected += integers
    with clock.step("reveal"):
        revealed, _ = protocol.reveal(answers, parties, lambda phase: parties, total.nbytes)
    with clock.step("unmask"):
        (result,) = protocol.unmask([total], revealed)
        ring.decode(result)
    if not np.array_equal(result, expected):
        raise SystemExit("the secure sum is not the sum")
    return clock.seconds


def cases(parties: int) -> dict[str, tuple[SumProtocol, int]]:
    """Return protocols by title, with the number of dropouts."""
    pairwise = Pairwise()
    most = parties - pairwise.least(parties)
    return {
        "splits=2": (Splits(2), 0),
        f"splits={parties}": (Splits(parties), 0),
        "pairwise": (pairwise, 0),
        f"pairwise, dropouts: {most}": (pairwise, most),
    }


def size(text: str) -> tuple[int, int]:
    parties, values = text.split("x")
    return int(parties), int(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", type=size, default=list(GOALS), help="parties x values")
    parser.add_argument("--bits", type=int, choices=(32, 64), default=32)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"{'parties x values':18} {'protocol':24}" + "".join(f"{step:>9}" for step in (*STEPS, "round", "goal")))
    for parties, values in options.sizes:
        updates = list(np.random.default_rng(0).uniform(-1, 1, (parties, values)))
        for title, (protocol, dropouts) in cases(parties).items():
            rounds = [one_round(protocol, updates, options.bits, dropouts) for _ in range(options.repeats)]
            fastest = min(rounds, key=lambda seconds: sum(seconds.values()))
            times = [*fastest.values(), sum(fastest.values()), GOALS.get((parties, values), float("nan"))]
            print(f"{f'{parties} x {values:,}':18} {title:24}" + "".join(f"{seconds:9.3f}" for seconds in times))


if __name__ == "__main__":
    main()
