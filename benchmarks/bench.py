"""Compare the speed of silobench with a plain PyTorch loop, the best loop by hand, Flower and pfl, in turns.

    python benchmarks/bench.py                            # everything, about half an hour; writes RESULTS.md
    python benchmarks/bench.py --only W1,W3 --repeats 3   # a part of it, printed only

Datasets come from silobench's data directory (SILOBENCH_DATA); random rows of the same shape replace missing ones.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import ROOT, Contender, Measured, log, measure
from report import Result, Scaling, page, table
from workloads import WORKLOADS, read_facts

SIDE = {  # name: environment variable with its Python, packages to install
    "flower": ("SILOBENCH_BENCH_FLOWER", "'torch==2.13.0' 'flwr[simulation]==1.41.0'"),
    "pfl": ("SILOBENCH_BENCH_PFL", "'torch==2.13.0' 'pfl[pytorch]==0.6.0'"),
}
NAMES = ("silobench", "torch", "plain", "tuned", *SIDE)
PARTS = (*WORKLOADS, "scaling")


def main() -> None:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that contenders are ended and files removed
    contenders = available(options.contenders, options.engine)
    subprocess.run([sys.executable, "-m", "silobench", "doctor"], check=True)  # compiles the native step
    results: list[Result] = []
    scaling = None
    with tempfile.TemporaryDirectory(prefix="sb-") as scratch:
        folders = Folders(Path(scratch))
        for name in (part for part in options.only if part in WORKLOADS):
            workload = WORKLOADS[name]
            log(f"{name}: {workload.title}")
            chosen = [c for c in contenders if workload.frameworks or c.name not in SIDE]
            measured = measure(chosen, folders[name], workload.unit, options.repeats)
            failed = tuple(c.name for c in chosen if c.name not in measured)
            results.append(Result(workload, read_facts(folders[name])["stand_in"], measured, failed))
            print(table(results[-1]), flush=True)
        if "scaling" in options.only:
            scaling = scale(folders, options.engine, options.repeats)
            print(scaling.text(), flush=True)
    whole = set(options.only) == set(PARTS) and len(contenders) == len(NAMES) and options.repeats >= 5
    if whole if options.write is None else options.write:
        target = ROOT / "RESULTS.md"
        target.write_text(page(results, scaling, options.repeats, {c.name: c.python for c in contenders}))
        log(f"wrote {target}")


def arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=_several(PARTS), default=PARTS, help=f"some of {','.join(PARTS)}")
    parser.add_argument("--contenders", type=_several(NAMES), default=NAMES, help=f"some of {','.join(NAMES)}")
    parser.add_argument("--repeats", type=int, default=5, help="how often each contender takes its turn (default 5)")
    parser.add_argument("--engine", default="auto", help="silobench's engine (default auto)")
    parser.add_argument(
        "--write",
        action=argparse.BooleanOptionalAction,
        help="write RESULTS.md (default: only if all workloads and contenders were measured, at least 5 times)",
    )
    return parser.parse_args()


def _several(known: tuple[str, ...]):
    def parse(text: str) -> tuple[str, ...]:
        chosen = text.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' must be one of {', '.join(known)}")
        return tuple(name for name in known if name in chosen)

    return parse


def available(names: tuple[str, ...], engine: str) -> list[Contender]:
    """Return the contenders that can run on this machine; log how to install the others."""
    contenders = []
    for name in names:
        if name in SIDE:
            variable, packages = SIDE[name]
            python = os.environ.get(variable)
            if python:
                contenders.append(Contender(name, name, python))
            else:
                log(f"{name} is not installed. To compare with it, give it an environment:")
                log(f"  python -m venv side/{name} && side/{name}/bin/pip install {packages}")
                log(f"  export {variable}=$PWD/side/{name}/bin/python")
        elif name == "silobench":
            contenders.append(ours(name, engine))
        elif name == "torch":
            contenders.append(ours(name, "auto(native=false)"))
        else:
            contenders.append(Contender(name, name))
    return contenders


def ours(name: str, engine: str, *arguments: str) -> Contender:
    return Contender(name, "ours", arguments=("--engine", engine, *arguments))


class Folders(dict):
    """The folders of workloads, written at first use by a separate process, so that its memory is freed."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def __missing__(self, name: str) -> Path:
        self[name] = folder = self.root / name
        subprocess.run([sys.executable, str(ROOT / "prepare.py"), name, str(folder)], check=True)
        return folder


def scale(folders: Folders, engine: str, repeats: int) -> Scaling:
    """Measure how silobench's time depends on the epochs, the workers and the algorithm."""

    def times(title: str, workload: str, variants: list[Contender]) -> dict[str, Measured]:
        log(f"scaling: {title}, {workload}")
        return measure(variants, folders[workload], WORKLOADS[workload].unit, repeats, memory_first=False)

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
