"""Measure private set intersection, and compare it with openmined-psi where that is installed.

python benchmarks/intersection.py                       # 100,000 keys per side, half of them shared
python benchmarks/intersection.py --keys 10000
"""

import argparse
import importlib
import time
from collections.abc import Callable, Sequence

from silobench.privacy.intersection import intersect

GOAL = 60.0  # seconds for 100,000 keys per side on two cores


def ours(first: Sequence[str], second: Sequence[str]) -> tuple[int, int]:
    """Return the number of shared keys and the bytes of all messages."""
    result = intersect(first, second)
    return len(result.shared), result.bytes


def openmined(first: Sequence[str], second: Sequence[str]) -> tuple[int, int]:
    """Return the number of shared keys and the bytes of all messages; only one side learns the keys."""
    psi = importlib.import_module("private_set_intersection.python")
    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    setup = server.CreateSetupMessage(0.0, len(first), list(second), psi.DataStructure.RAW)
    request = client.CreateRequest(list(first))
    response = server.ProcessRequest(request)
    sent = sum(len(message.SerializeToString()) for message in (setup, request, response))
    return len(client.GetIntersection(setup, response)), sent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=100_000)
    count = parser.parse_args().keys
    first, second = ([f"person-{i}" for i in range(start, start + count)] for start in (0, count // 2))
    contenders: dict[str, Callable[[Sequence[str], Sequence[str]], tuple[int, int]]] = {"silobench": ours}
    try:
        importlib.import_module("private_set_intersection.python")
        contenders["openmined-psi"] = openmined
    except ImportError:
        print("openmined-psi is not installed: pip install --no-deps openmined-psi==2.0.6")
    for name, work in contenders.items():
        began = time.perf_counter()
        shared, sent = work(first, second)
        seconds = time.perf_counter() - began
        assert shared == count - count // 2
        print(f"{name:14} {count} keys per side, {shared} shared: {seconds:6.1f} s, {sent / 1e6:.1f} MB")
        if name == "silobench" and count == 100_000:
            print(f"{'':14} goal of {GOAL:g} s: {'reached' if seconds < GOAL else 'missed'}")


if __name__ == "__main__":
    main()
