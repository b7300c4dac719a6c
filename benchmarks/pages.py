"""Measure the pages of many runs: how long they take to write and to open in Chromium, how large they are, and how long
the live view needs after one new round.

PYTHONPATH=tests:tests/browser python benchmarks/pages.py            # 1,000 runs of 50 rounds
PYTHONPATH=tests:tests/browser python benchmarks/pages.py 100 20     # runs, rounds
"""

import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from statistics import median

from chromium import MISSING, executable, launch_options
from playwright.sync_api import Page, sync_playwright

from growing import GrowingRun
from silobench.cli.report import write_report
from silobench.live.pages import live_pages
from silobench.live.site import LiveSite
from silobench.runs.results import read_results
from stored import noises, stored

SEEDS = 5
ALGORITHMS = ("fedavg", "fedprox(mu=0.01)", "scaffold", "fednova")
TRIES = 3


def write_runs(out: Path, count: int, rounds: int) -> None:
    """Write runs of four algorithms on as many partitions as are needed, five trials each."""
    settings = product(range(-(-count // (SEEDS * len(ALGORITHMS)))), enumerate(ALGORITHMS), range(SEEDS))
    for number, (setting, (place, algorithm), seed) in enumerate(settings):
        if number == count:
            return
        partition = f"label-dirichlet(beta={(setting + 1) / 100})"
        best = 0.5 + setting / 200 + place / 50 + noises(0.01, {"algorithm": algorithm})[seed % 3] + seed / 1000
        curve = [best * (1 - 0.9**step) for step in range(1, rounds + 1)]
        stored(curve, seed, out=out, partition=partition, algorithm=algorithm)


def seconds_to_open(page: Page, address: str) -> tuple[float, float]:
    """Return the seconds until a page is loaded and its scripts have run, and until it is drawn: medians of tries."""
    loads, draws = [], []
    for _ in range(TRIES):
        began = time.perf_counter()
        page.goto(address)
        loads.append(time.perf_counter() - began)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        draws.append(time.perf_counter() - began)
    return median(loads), median(draws)


def measure_pages(site: Path) -> None:
    """Print the size of every page and the time to open it."""
    print(f"{'page':28} {'size':>10} {'loaded':>9} {'drawn':>9}")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(**launch_options())  # type: ignore[arg-type]
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto("about:blank")
        for file in [*sorted(site.glob("*.html")), next((site / "runs").glob("*.html"))]:
            loaded, drawn = seconds_to_open(page, file.as_uri())
            name = file.name if file.parent == site else "runs/..."
            print(f"{name:28} {file.stat().st_size / 1000:7,.0f} kB {loaded:8.2f}s {drawn:8.2f}s")
        browser.close()


def measure_live(runs: Path, rounds: int) -> None:
    """Print how long the live view takes at first, without a change, and after a new round of one run."""
    growing = GrowingRun(runs, [0.5] * rounds, seed=SEEDS)
    growing.grow(1)
    site = LiveSite(runs, live_pages("many runs"))
    for what, rounds_done in (("the first time", 1), ("without a change", 1), ("after a round", 2)):
        growing.grow(rounds_done) if rounds_done > 1 else None
        began = time.perf_counter()
        site.refresh()
        print(f"live view, {what}: {time.perf_counter() - began:.2f} s")


def main() -> None:
    count, rounds = (*map(int, sys.argv[1:]), 1000, 50)[:2] if len(sys.argv) < 3 else map(int, sys.argv[1:3])
    if executable() is None:
        raise SystemExit(MISSING)
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        write_runs(runs, count, rounds)
        began = time.perf_counter()
        results = read_results(runs)
        read = time.perf_counter()
        index = write_report(results, Path(folder) / "site", "many runs")
        written = time.perf_counter()
        size = sum(path.stat().st_size for path in index.parent.rglob("*") if path.is_file())
        print(
            f"{count:,} runs of {rounds} rounds: read in {read - began:.1f} s, pages written in {written - read:.1f} s"
        )
        print(f"{sum(1 for _ in index.parent.rglob('*')):,} files, {size / 1e6:.1f} MB")
        measure_pages(index.parent)
        measure_live(runs, rounds)


if __name__ == "__main__":
    main()
