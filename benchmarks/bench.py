"""How fast silobench is, against a plain PyTorch loop, the best one by hand, Flower and pfl: one command, in turns.

    python benchmarks/bench.py                            # everything, about half an hour; writes RESULTS.md
    python benchmarks/bench.py --only W1,W3 --repeats 3   # a part of it, to be looked at

Datasets are looked for in silobench's data directory (SILOBENCH_DATA); random rows of the same shape stand in for those
that are absent.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import HERE, Contender, Measured, measure, say
from report import Found, Scaling, page, table
from workloads import WORKLOADS, read_facts

SIDE = {  # name: environment variable with its Python, how to make one
    "flower": ("SILOBENCH_BENCH_FLOWER", "'torch==2.13.0' 'flwr[simulation]==1.41.0'"),
    "pfl": ("SILOBENCH_BENCH_PFL", "'torch==2.13.0' 'pfl[pytorch]==0.6.0'"),
}
NAMES = ("silobench", "torch", "plain", "tuned", *SIDE)
PARTS = (*WORKLOADS, "scaling")


def main() -> None:
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that contenders are ended and files removed
    contenders = available(given.contenders, given.engine)
    subprocess.run(
        [sys.executable, "-m", "silobench", "doctor"], check=True
    )  # compiles the native step, once and for all
    found: list[Found] = []
    scaling = None
    with tempfile.TemporaryDirectory(prefix="sb-") as scratch:
        folders = Folders(Path(scratch))
        for name in (part for part in given.only if part in WORKLOADS):
            workload = WORKLOADS[name]
            say(f"{name}: {workload.title}")
            chosen = [c for c in contenders if workload.frameworks or c.name not in SIDE]
            measured = measure(chosen, folders[name], workload.unit, given.repeats)
            failed = tuple(c.name for c in chosen if c.name not in measured)
            found.append(Found(workload, read_facts(folders[name])["stand_in"], measured, failed))
            print(table(found[-1]), flush=True)
        if "scaling" in given.only:
            scaling = scale(folders, given.engine, given.repeats)
            print(scaling.text(), flush=True)
    whole = set(given.only) == set(PARTS) and len(contenders) == len(NAMES) and given.repeats >= 5
    if whole if given.write is None else given.write:
        target = HERE / "RESULTS.md"
        target.write_text(page(found, scaling, given.repeats, {c.name: c.python for c in contenders}))
        say(f"wrote {target}")


def arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=_several(PARTS), default=PARTS, help=f"some of {','.join(PARTS)}")
    parser.add_argument("--contenders", type=_several(NAMES), default=NAMES, help=f"some of {','.join(NAMES)}")
    parser.add_argument("--repeats", type=int, default=5, help="how often all take their turn (default 5)")
    parser.add_argument("--engine", default="auto", help="silobench's engine (default auto)")
    parser.add_argument(
        "--write",
        action=argparse.BooleanOptionalAction,
        help="write RESULTS.md; by default only if everything was measured, by all contenders, at least 5 times",
    )
    return parser.parse_args()


def _several(known: tuple[str, ...]):
    def parse(text: str) -> tuple[str, ...]:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' is none of {', '.join(known)}")
        return tuple(name for name in known if name in chosen)

    return parse


def available(names: tuple[str, ...], engine: str) -> list[Contender]:
    """The contenders that can run here; of others it is said how they could."""
    found = []
    for name in names:
        if name in SIDE:
            variable, packages = SIDE[name]
            python = os.environ.get(variable)
            if python:
                found.append(Contender(name, name, python))
            else:
                say(f"{name} is not installed. To compare with it, in an environment of its own:")
                say(f"  python -m venv side/{name} && side/{name}/bin/pip install {packages}")
                say(f"  export {variable}=$PWD/side/{name}/bin/python")
        elif name == "silobench":
            found.append(ours(name, engine))
        elif name == "torch":
            found.append(ours(name, "auto(native=false)"))
        else:
            found.append(Contender(name, name))
    return found


def ours(name: str, engine: str, *arguments: str) -> Contender:
    return Contender(name, "ours", arguments=("--engine", engine, *arguments))


class Folders(dict):
    """The material of workloads, written when it is asked for; one process each, so that its memory is given back."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def __missing__(self, name: str) -> Path:
        self[name] = folder = self.root / name
        subprocess.run([sys.executable, str(HERE / "prepare.py"), name, str(folder)], check=True)
        return folder


def scale(folders: Folders, engine: str, repeats: int) -> Scaling:
    """How silobench's time grows with the work, shrinks with workers, and differs between algorithms."""

    def times(title: str, workload: str, variants: list[Contender]) -> dict[str, Measured]:
        say(f"scaling: {title}, {workload}")
        return measure(variants, folders[workload], WORKLOADS[workload].unit, repeats, alone=False)

    never = ("--eval-every", str(10**9))
    epochs = [ours(str(count), engine, "--epochs", str(count), *never) for count in (1, 2, 4, 8)]
    workers = [ours(str(count), f"auto(workers={count})") for count in (1, 2)]
    methods = ("fedavg", "fedprox(mu=0.01)", "scaffold")
    algorithms = [ours(method, engine, "--algorithm", method, *never) for method in methods]
    return Scaling(
        times("epochs", "W6", epochs),
        {name: times("workers", name, workers) for name in ("W1", "W4")},
        {name: times("algorithms", name, algorithms) for name in ("W1", "W2")},
    )


if __name__ == "__main__":
    main()
