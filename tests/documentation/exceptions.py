"""What is not executed as the page shows it: where, which command, why, and what is checked instead.

Everything else on every page is executed. A test fails if a line of this list matches nothing.
"""

from dataclasses import dataclass
from typing import Literal

Check = Literal["plan", "parse", "shorten", "make", "pip", "test", "nothing"]


@dataclass(frozen=True)
class Exempt:
    """Commands that match a glob, on pages that match a glob.

    `check` is what is done instead:

    - plan: the command line is parsed, and all its runs are planned, with embedded data for datasets that are not here
    - parse: the command line is parsed
    - shorten: the command is executed with `more` options
    - make: the Makefile has the target
    - pip: the folder, the constraints and the extras exist
    - test: the test `more` executes it
    - nothing: it is a step of a shell outside of the project
    """

    pages: str
    command: str
    reason: str
    check: Check
    more: str = ""


_ONE_ROUND = "--set rounds=1 --trials 1"
_NO_RAY = "--engine inline --set rounds=1"

COMMANDS = (
    # --- the README's study on Ray: minutes more for the same runs
    Exempt("README.md", "silobench run skew.toml --engine ray*", "it takes minutes", "plan"),
    # --- setting up
    Exempt("*", "git clone REPOSITORY*", "there is no network", "nothing"),
    Exempt("*", "cd silobench", "the folder of the clone above", "nothing"),
    Exempt("*", "python3 -m venv *", "tests install nothing", "nothing"),
    Exempt("*", ". .venv/bin/activate", "tests have an environment", "nothing"),
    Exempt("*", "pip install *", "tests install nothing", "pip"),
    Exempt("*", "make *", "it would set up an environment, and test itself", "make"),
    # --- data of others
    Exempt("*", "silobench data fetch *", "tests download nothing", "parse"),
    Exempt("*", "silobench data import *", "somebody must have downloaded the files", "parse"),
    # --- results that took hours to days, on data that are not embedded
    Exempt("docs/results/*", "silobench run *", "hours to days, on datasets that are not embedded", "plan"),
    Exempt("docs/results/*", "silobench show *", "the runs above are only planned", "parse"),
    Exempt("docs/results/*", "silobench claims *", "the runs above are only planned", "parse"),
    Exempt("docs/results/*", "silobench report *", "the runs above are only planned", "parse"),
    Exempt("*", "silobench run * --scale paper *", "days, on datasets that are not embedded", "plan"),
    Exempt("docs/performance.md", "silobench run curves.toml *", "an hour, on MNIST and CIFAR-10", "plan"),
    Exempt("docs/performance.md", "silobench run gpu.toml --device cuda *", "there is no GPU", "parse"),
    Exempt("docs/performance.md", "grep -h model_sha256 *", "it reads runs of a GPU", "nothing"),
    Exempt(
        "docs/scale.md",
        "python benchmarks/scale.py measure*",
        "a quarter of an hour",
        "test",
        "tests/benchmarks/test_scale.py",
    ),
    # --- clusters
    Exempt("docs/cluster.md", "ray *", "it starts a service, which other tests would find", "nothing"),
    Exempt("docs/cluster.md", "RAY_AUTH_MODE=token ray start *", "it starts a service on another machine", "nothing"),
    Exempt("docs/cluster.md", "chmod 600 *", "a file on another machine", "nothing"),
    Exempt("docs/cluster.md", "silobench * --ray-address *", "a cluster of machines", "parse"),
    Exempt("*", "silobench run study.toml --engine ray --out *", "half a minute of Ray", "shorten", _NO_RAY),
    # --- grids, of which the pages show no numbers
    Exempt("*", "silobench run skew.toml *", "27 runs", "shorten", f"{_ONE_ROUND} --trials 2"),
    Exempt("docs/figures.md", "silobench run figures.toml *", "dozens of figures", "shorten", "--only '*iid*'"),
    Exempt("docs/report.md", "silobench run demo *", "24 runs", "shorten", "--set rounds=2 --only '*k=2*'"),
    # --- suites that take a minute or more
    Exempt("*", "silobench watch *", "it ends with Ctrl-C", "test", "tests/cli/test_watch.py"),
    Exempt("*", "silobench demo*", "fifteen seconds", "test", "tests/cli/test_demo.py"),
    Exempt("*", "silobench run demo --plugin *", "a minute", "shorten", f"{_ONE_ROUND} --only '*iid*'"),
    Exempt(
        "*", "silobench run niid-table3 *", "minutes", "shorten", f"{_ONE_ROUND} --trials 2 --only '*label-count(k=2)*'"
    ),
    Exempt("*", "silobench run zhao-sharing *", "a minute", "shorten", _ONE_ROUND),
    Exempt("*", "silobench run quagmire-skewscout *", "a minute", "shorten", _ONE_ROUND),
    Exempt("*", "silobench run oarf-baseline *", "a minute", "shorten", "--trials 2 --only 'synthetic*'"),
    Exempt("*", "silobench run oarf-* *", "a minute", "shorten", _ONE_ROUND),
    Exempt(
        "*", "silobench run docs/results/personal.toml *", "minutes", "shorten", f"{_ONE_ROUND} --only '*count* / f*'"
    ),
)

# Blocks that only make sense as parts of something larger, which a test puts together and executes.
BLOCKS = {
    "docs/papers.md": ("files of a package for a new paper", "tests/papers/test_papers.py"),
}

# Pages whose commands of silobench are processes of their own, as a reader's are; elsewhere they run in one process.
OWN_PROCESSES = ("docs/first-leaderboard-entry.md",)
