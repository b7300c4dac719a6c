"""What is killed: tiny runs over every part of silobench that has a memory, drawn from the registries.

A registry's parts are tried one by one. A new part is tried too, without a line here, unless it needs arguments; then
`EXAMPLES` has its spec.
"""

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from silobench.engines import ENGINES
from silobench.errors import ConfigError
from silobench.loop.exchanges import EXCHANGES
from silobench.loop.paces import PACES
from silobench.measures import MEASURES
from silobench.method.adversaries import ADVERSARIES
from silobench.method.aggregates import AGGREGATES
from silobench.method.algorithms import ALGORITHMS
from silobench.method.availability import AVAILABILITIES
from silobench.method.controllers import CONTROLLERS
from silobench.method.schedules import SCHEDULES
from silobench.method.selection import SELECTIONS
from silobench.method.servers import SERVERS
from silobench.method.solvers import SOLVERS
from silobench.method.transforms import TRANSFORMS
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.runs.starts import STARTS
from silobench.spec import Registry
from silobench.vertical.defences import DEFENCES
from silobench.vertical.leaks import VERTICAL_MEASURES
from silobench.vertical.methods import VERTICAL_ALGORITHMS
from silobench.vertical.networks import VERTICAL_MODELS

# Specs of parts that need arguments, or that have more memory with others than by default, by kind and name.
EXAMPLES: dict[tuple[str, str], Sequence[str]] = {
    ("algorithm", "fedrep"): ["fedrep(head_epochs=1)"],
    ("algorithm", "finetune"): ["finetune(fedrep(head_epochs=1), epochs=1)"],
    ("algorithm", "scaffold"): ["scaffold", "scaffold(option=1, momentum=inside)"],
    ("algorithm", "dgc"): ["dgc(warmup=0.5)"],
    ("transform", "clip"): ["clip(norm=1, adaptive=true)"],
    ("transform", "error-feedback"): ["error_feedback(decay=0.1) | sign"],
    ("transform", "gaussian-noise"): ["clip | gaussian_noise(multiplier=1, reproducible=true)"],
    ("transform", "low-rank"): ["low_rank(rank=1, decay=0.5)"],
    ("transform", "rand-k"): ["rand_k(fraction=0.3, scale=false, feedback=true)"],
    ("transform", "secure-sum"): [
        "secure_sum(protocol=splits, range=100)",
        "secure_sum(protocol=pairwise, range=100)",
    ],
    ("transform", "skellam-noise"): [
        "clip | skellam_noise(multiplier=1, reproducible=true) | secure_sum(range=100, bits=32)"
    ],
    ("transform", "top-k"): ["top_k(fraction=0.2) | quantize(bits=4)"],
    ("pace", "buffered"): ["buffered(size=2)"],
    ("selection", "poisson"): ["poisson(reproducible=true)"],
    ("solver", "adam"): ["adam(lr=0.01, steps=2, batch=8, keep_moments=true)"],
    ("solver", "sgd"): ["sgd(lr=0.05, steps=2, batch=8, keep_momentum=true)"],
    ("solver", "dp-sgd"): ["dp_sgd(noise=1, steps=2, batch=8, keep_momentum=true, reproducible=true)"],
    ("schedule", "constant"): ["constant(0.05)"],
    ("schedule", "exponential"): ["exponential(0.05, decay=0.9)"],
    ("schedule", "plateau"): ["plateau(0.05, factor=0.5, patience=1, drops=9)"],
    ("schedule", "polynomial"): ["polynomial(0.05, over=6)"],
    ("schedule", "step"): ["step(0.05, at=[3])"],
    ("schedule", "warmup"): ["warmup(0.05, over=3)"],
    ("start", "centralised"): ["centralised(rounds=2)"],
    ("start", "run"): [],  # a run of another command, which is finished before
    ("measure", "canaries"): ["canaries(count=8)"],
    ("measure", "inversion"): ["inversion(steps=5, round=3, victims=1)"],
    ("measure", "membership"): ["membership(rows=20)"],
    ("vertical algorithm", "boosted-trees"): [
        "boosted_trees(leaves=4)",
        "boosted_trees(leaves=4, encryption=paillier)",
    ],
    ("vertical algorithm", "joined-trees"): ["joined_trees(leaves=4)"],
    ("vertical algorithm", "split"): ["split", "split(encryption=ckks)"],
    ("vertical model", "ncf"): ["ncf(embedding=4, top=[4], user=a, item=b)"],
    ("vertical model", "dlrm"): ["dlrm(embedding=4, top=[4])"],
    ("vertical measure", "reconstruction"): ["reconstruction(steps=5)"],
    ("engine", "pool"): ["pool(workers=1)", "pool(workers=2)"],
}
Victim: TypeAlias = Literal["group", "process", "worker"]  # all processes of a command, one, or one that is a worker
NEEDS = {"=ckks": "tenseal", "=paillier": "gmpy2"}  # packages for arguments
OFTEN = {"every": 2, "period": 2}  # arguments that would let a part sleep through a tiny run
BASE: Mapping[str, Any] = {
    "dataset": "csv(path=PEOPLE, label=rich)",
    "partition": "label-dirichlet(beta=0.5)",
    "model": "mlp(6)",
    "parties": 6,
    "participation": 0.5,
    "solver": "sgd(lr=0.05, steps=2, batch=8, keep_momentum=True)",
    "rounds": 6,
}
# The first that a part accepts is taken: others' memories beside its own, or none.
HORIZONTAL: Sequence[Mapping[str, Any]] = (
    {**BASE, "transforms": "top_k(fraction=0.5)", "server": "adam(lr=0.05)", "clock": "device(speed=100, spread=0.5)"},
    {**BASE, "clock": "device(speed=100, spread=0.5)"},
    {**BASE, "solver": "sgd(lr=0.05, batch=8, epochs=1)", "participation": 1.0},
    {**BASE, "solver": "sgd(lr=0.05, batch=8, keep_momentum=True)", "participation": 1.0},  # for lockstep
    {**BASE, "solver": "sgd(lr=0.05, batch=8)", "participation": 1.0, "transforms": "top_k(fraction=0.5)"},
    {**BASE, "solver": "dp_sgd(noise=1, steps=2, batch=8, keep_momentum=True, reproducible=True)"},
    {**BASE, "dataset": "digits", "model": "lenet(norm=batch)", "parties": 3, "rounds": 3},
)
VERTICAL: Sequence[Mapping[str, Any]] = (
    {
        "dataset": "csv(path=PEOPLE, label=rich)",
        "partition": "columns(by=block, overlap=0.8)",
        "model": "mlp(hidden=4, top=4)",
        "solver": "adam(lr=0.01, batch=32, epochs=1)",
        "rounds": 4,
    },
    {
        "dataset": "csv(path=PEOPLE, label=rich)",
        "partition": "columns(by=block)",
        "model": "linear",
        "solver": "sgd(lr=0.05, batch=32, epochs=1)",
        "rounds": 3,
    },
)


@dataclass(frozen=True)
class Case:
    """One setting that is killed, and the ids of its runs; the id "" stands for all that the command does."""

    name: str
    choices: Mapping[str, Any]
    ids: tuple[str, ...]
    victim: Victim = "group"
    place: str = ""  # a part of the paths at which it is killed, for the id ""


@dataclass(frozen=True)
class Experiment:
    """A file with the settings of some cases, and the command that runs it."""

    group: str
    cases: tuple[Case, ...]
    choices: Mapping[str, Any]  # of the file
    options: tuple[str, ...] = ("--workers", "1")
    is_secret: bool = False  # numbers that nobody can predict: only what follows without them is compared
    command: str = "run"
    in_a_row: tuple[int, ...] = (1, 1, 2, 3)  # kills of one run, drawn from these

    @property
    def has_workers(self) -> bool:
        """Whether the command starts worker processes, which must have the trap too."""
        return self.options[:2] != ("--workers", "1")


def write_people(folder: Path, rows: int = 240) -> Path:
    """Write a small table, and return its path."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 4))
    x[:, 0], x[:, 2] = rng.integers(5, size=rows), rng.integers(4, size=rows)
    rich = np.where(x[:, 3] + 0.3 * rng.normal(size=rows) > 0.5, "yes", "no")
    lines = [",".join(f"{value:.3f}" for value in row) + f",{label}" for row, label in zip(x, rich, strict=True)]
    path = folder / "people.csv"
    path.write_text("\n".join(["a,b,c,d,rich", *lines, ""]), encoding="utf-8")
    return path


def specs_of(registry: Registry[Any]) -> Iterator[str]:
    """Yield specs of all parts of a registry."""
    for name, factory in sorted(registry.factories.items()):
        parameters = inspect.signature(factory).parameters
        often = ", ".join(f"{key}={value}" for key, value in OFTEN.items() if key in parameters)
        specs = EXAMPLES.get((registry.kind, name), [f"{name}({often})" if often else name])
        yield from (spec for spec in specs if all(find_spec(NEEDS[word]) for word in NEEDS if word in spec))


def cases_of(key: str, specs: Iterable[str], bases: Sequence[Mapping[str, Any]], people: Path) -> Iterator[Case]:
    """Yield a case for each spec of a key, with the first of some bases that it accepts."""
    for spec in specs:
        for base in bases:
            choices = {**base, "dataset": base["dataset"].replace("PEOPLE", str(people)), key: spec}
            try:
                plans = plan(choices)
                for each in plans:
                    prepare(each)
            except ConfigError as error:
                reason = error
                continue
            yield Case(spec, choices, tuple(each.id for each in plans))
            break
        else:
            raise ConfigError(f"no base of the gauntlet suits {key} = {spec!r} ({reason}): add one, or an example.")


def files_of(group: str, key: str, cases: Iterable[Case], **options: Any) -> Iterator[Experiment]:
    """Yield an experiment for all cases that differ in one key only."""
    files: dict[str, list[Case]] = {}
    for case in cases:
        files.setdefault(repr({**case.choices, key: ""}), []).append(case)
    for each in files.values():
        choices = {**each[0].choices, key: [case.name for case in each]}
        if key == "measure":  # a list of measures is one run
            each = [Case(", ".join(choices[key]), choices, tuple(one.id for one in plan(choices)))]
        yield Experiment(group, tuple(each), choices, **options)


def experiments(people: Path) -> Iterator[Experiment]:
    """Yield all experiments of the gauntlet; each is one command, and no run is in two of them."""
    seen: set[tuple[str, ...]] = set()
    for group, key, specs, bases in _parts():
        cases = [case for case in cases_of(key, specs, bases, people) if case.ids not in seen]
        seen |= {case.ids for case in cases}
        yield from files_of(group, key, cases)
    secret = [*cases_of("solver", SECRET_SOLVERS, HORIZONTAL[1:], people)]
    yield from files_of("secret noise", "solver", secret, is_secret=True)
    secret = [*cases_of("transforms", SECRET_TRANSFORMS, HORIZONTAL[1:], people)]
    yield from files_of("secret noise", "transforms", secret, is_secret=True)
    yield from _other_commands(people)


def _parts() -> Iterator[tuple[str, str, Iterable[str], Sequence[Mapping[str, Any]]]]:
    """Yield groups of cases: the name, the key that differs, its specs, and bases."""
    for group, (key, registry) in HORIZONTAL_PARTS.items():
        yield group, key, specs_of(registry), HORIZONTAL
    lrs = (f"sgd(lr={spec}, steps=2, batch=8, keep_momentum=true)" for spec in specs_of(SCHEDULES))
    yield "schedules", "solver", lrs, [{**base, "split": "4:1:1"} for base in HORIZONTAL]
    longer = [{**base, "rounds": 12} for base in HORIZONTAL[1:]]
    yield "privacy budgets", "solver", ["dp_sgd(noise=1, epsilon=15, steps=2, batch=8, reproducible=true)"], longer
    budget = "clip | gaussian_noise(multiplier=1, epsilon=15, reproducible=true)"
    yield "privacy budgets", "transforms", [budget], longer
    yield "large checkpoints", "model", ["mlp(500, 500)"], [{**BASE, "algorithm": "scaffold"}]
    for group, (key, registry) in VERTICAL_PARTS.items():
        yield group, key, specs_of(registry), VERTICAL
    yield "vertical defences", "algorithm", [f"split(defence={spec})" for spec in specs_of(DEFENCES)], VERTICAL


def _other_commands(people: Path) -> Iterator[Experiment]:
    """Yield experiments with other engines, more workers, other options, and another command."""
    remembering = {**HORIZONTAL[0], "algorithm": "scaffold"}
    (case,) = cases_of("algorithm", ["scaffold"], [remembering], people)
    for spec in specs_of(ENGINES):
        if spec != "ray" or find_spec("ray") is not None:
            options = ("--engine", spec, *(() if "workers" in spec else ("--workers", "2")))
            kills = (2,) if spec == "ray" else (3,)
            yield Experiment("engines", (replace(case, name=spec),), case.choices, options, in_a_row=kills)
    grid = [*cases_of("algorithm", ("scaffold", "ditto", "feddyn", "moon"), [{**BASE, "rounds": 12}], people)]
    yield from files_of("grids", "algorithm", grid, options=("--workers", "2"))
    for file in files_of("grids", "algorithm", grid, options=("--workers", "2"), in_a_row=(2,)):
        yield replace(file, cases=(Case("only a worker process", file.choices, ("",), victim="worker"),))
    short = [*cases_of("algorithm", ("scaffold", "apfl"), HORIZONTAL, people)]
    yield from files_of("records only", "algorithm", short, options=("--workers", "1", "--records-only"))
    study = ("--workers", "1", "--trials", "3", "--seeds", "1", "--repeats", "1", "--confirm", "1")
    space = ("--space", "solver.lr=log(0.01, 0.5)")
    choices = {key: value for key, value in case.choices.items() if key != "split"}
    whole = (Case("tpe", choices, ("",)),)
    if find_spec("optuna"):
        yield Experiment("studies", whole, choices, (*study, *space), command="tune", in_a_row=(8,))


HORIZONTAL_PARTS: Mapping[str, tuple[str, Registry[Any]]] = {
    "algorithms": ("algorithm", ALGORITHMS),
    "transforms": ("transforms", TRANSFORMS),
    "controllers": ("controller", CONTROLLERS),
    "paces": ("pace", PACES),
    "exchanges": ("exchange", EXCHANGES),
    "server optimizers": ("server", SERVERS),
    "solvers": ("solver", SOLVERS),
    "selections": ("selection", SELECTIONS),
    "aggregates": ("aggregate", AGGREGATES),
    "adversaries": ("adversary", ADVERSARIES),
    "availabilities": ("availability", AVAILABILITIES),
    "starts": ("start", STARTS),
    "measures": ("measure", MEASURES),
}
VERTICAL_PARTS: Mapping[str, tuple[str, Registry[Any]]] = {
    "vertical algorithms": ("algorithm", VERTICAL_ALGORITHMS),
    "vertical models": ("model", VERTICAL_MODELS),
    "vertical measures": ("measure", VERTICAL_MEASURES),
}
SECRET_SOLVERS = ("dp_sgd(noise=1, steps=2, batch=8)",)
SECRET_TRANSFORMS = (
    "clip | gaussian_noise(multiplier=1)",
    "clip | skellam_noise(multiplier=1) | secure_sum(range=100, bits=32)",
)
