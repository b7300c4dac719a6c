"""Start the other processes before pfl is imported, because its import connects to them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from workloads import read_facts

ADDRESSES, RANK = "PFL_WORKER_ADDRESSES", "PFL_WORKER_RANK"  # from which pfl learns of its other processes


def start_others() -> None:
    count = len(os.sched_getaffinity(0))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    os.environ[ADDRESSES] = ",".join([address] * count)
    os.environ["OMP_NUM_THREADS"] = "1"
    for rank in range(1, count):
        subprocess.Popen(
            [sys.executable, "-m", "contenders.pfl", *sys.argv[1:]],
            env={**os.environ, RANK: str(rank)},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
        )
    os.environ[RANK] = "0"


if __name__ == "__main__":
    folder, warm_up = Path(sys.argv[1]), int(sys.argv[2])
    if RANK not in os.environ and read_facts(folder)["workload"]["widths"] is None:
        start_others()

    from contenders.pfl.simulation import main

    main(folder, warm_up)
