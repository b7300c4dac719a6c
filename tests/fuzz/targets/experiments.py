"""Experiment files: TOML to plans, values of `--set`, search spaces, studies, agreements of silos."""

import json
import os
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from fuzz.target import Target
from fuzz.targets.specs import whole_specs
from silobench.cli.running import settings_of
from silobench.runs.experiment import REGISTRIES, at_scale, override, plan, read_experiment
from silobench.runs.plan import Cell
from silobench.spec.toml import toml_value
from silobench.tuning.search import definition_of
from silobench.tuning.study import read_outcome, read_study

_MOST_RUNS = "60"  # of an experiment: planning more of them is slow, and shows nothing new
_PLAIN = b"""dataset = "fcube"
partition = "octants"
algorithm = ["fedavg", "scaffold", "fedprox(mu=0.1)"]
solver = "sgd(lr=0.1, epochs=1)"
rounds = 3
trials = 2
"""
_GRID = b"""title = "t"
dataset = "fcube"
parties = 4
model = "mlp"
rounds = 2
[[grid]]
partition = ["iid", "label-dirichlet(beta=0.5)"]
[[grid]]
participation = 0.5
transforms = "clip(norm=1) | gaussian-noise(multiplier=1)"
[scale.smoke]
note = "n"
rounds = 1
[tune]
"solver.lr" = "log(0.001, 1.0)"
"algorithm.fedprox.mu" = [0.1, 1]
"""
_VERTICAL = b"""dataset = "fcube"
partition = "columns(parties=2)"
algorithm = "split"
measure = ["distance-correlation"]
rounds = 2
"""
_WORDS = (
    *(name.encode() + b" = " for name in Cell.model_fields),
    *(
        name.encode()
        for kind in ("algorithms", "transforms", "partitions", "solvers")
        for name in REGISTRIES[kind].factories
    ),
    b"[[grid]]\n",
    b"[scale.smoke]\n",
    b'"""',
    b"'''",
    b"[",
    b"]",
    b"{",
    b"}",
    b"1979-05-27",
    b"07:32:00",
    b"inf",
    b"nan",
    b"0x1f",
    b"\n",
)


def _few_runs() -> None:
    os.environ["SILOBENCH_MAX_RUNS"] = _MOST_RUNS
    os.environ["SILOBENCH_DATA"] = str(Path.cwd() / "data")


def _experiment(data: bytes) -> None:
    file = Path("mine.toml")
    file.write_bytes(data)
    choices = read_experiment(file)
    plan(at_scale(choices, "smoke") if choices.get("scale") else choices)


def _experiment_seeds() -> tuple[bytes, ...]:
    _few_runs()
    return _PLAIN, _GRID, _VERTICAL


def _choices() -> st.SearchStrategy[bytes]:
    """Return a strategy of experiment files with the keys of an experiment and any values."""
    named = [name for registry in REGISTRIES.values() for name in registry.factories]
    spec = st.tuples(st.sampled_from(named), whole_specs()).map(
        lambda pair: f"{pair[0]}({str(pair[1]).partition('(')[2]}"
    )
    texts = st.one_of(
        st.sampled_from(named), spec, st.text(max_size=12), st.sampled_from(["star", "given", "cpu", "4:1"])
    )
    number = st.one_of(st.integers(-2, 300), st.floats(), st.integers())
    value: st.SearchStrategy[Any] = st.one_of(texts, number, st.booleans(), st.lists(texts | number, max_size=3))
    keys = st.sampled_from([*Cell.model_fields, "trials", "title", "x"])
    fixed = {"dataset": "fcube", "rounds": 1}
    return st.dictionaries(keys, value, max_size=4).map(lambda choices: _toml({**fixed, **choices}))


def _toml(choices: dict[str, Any]) -> bytes:
    lines = [f"{key} = {toml_value(value)}\n" for key, value in choices.items()]
    return "".join(lines).replace("Infinity", "inf").replace("NaN", "nan").encode("utf-8", "replace")


def _settings(data: bytes) -> None:
    pairs = data.decode("utf-8", "surrogateescape").split("\x1f")
    plan(override({"dataset": "fcube", "partition": "octants", "rounds": 1}, settings_of(pairs)))


def _settings_seeds() -> tuple[bytes, ...]:
    _few_runs()
    return (
        b"rounds=20",
        b"algorithm=fedprox(mu=0.1)",
        b'algorithm=["fedavg", "scaffold"]\x1frounds=2',
        b"seed=[1,2]",
        b"participation=0.5\x1fselection=round-robin",
        b"transforms=top-k(share=0.1) | quantize(bits=4)",
        b"model=mlp(hidden=[4])",
        b"measure=weight-divergence",
    )


def _space(data: bytes) -> None:
    file = Path("mine.toml")
    file.write_bytes(data)
    choices = read_experiment(file)
    definition_of(choices, choices.get("tune", {}) if isinstance(choices.get("tune", {}), dict) else {})


def _space_seeds() -> tuple[bytes, ...]:
    _few_runs()
    base = b'dataset = "fcube"\npartition = "octants"\nrounds = 2\nalgorithm = "fedprox"\n[tune]\n'
    return (
        base + b'"solver.lr" = "log(0.001, 1.0)"\n"solver.batch" = [16, 32]\n',
        base + b'algorithm = ["fedavg", "fedprox"]\n"algorithm.fedprox.mu" = "range(0.1, 1, step=0.1)"\n',
        base,
    )


_STUDY = {
    "format": 1,
    "definition": {
        "choices": {"dataset": "fcube", "rounds": 2, "seed": 0},
        "space": {"solver.lr": "log(0.001, 1.0)", "solver.batch": [16, 32]},
        "sampler": "tpe", "seed": 0, "seeds": 3, "validation": "4:1", "prune": False, "batch": 4,
    },
    "trials": [{"number": 0, "values": {"solver.lr": 0.1}, "runs": ["0123456789abcdef", "x/../y"], "pruned": 3}],
    "repeats": {"0": ["0123456789abcdef"]},
    "confirm": {"trial": 0, "default": ["a"], "tuned": ["b"]},
}  # fmt: skip


def _study(data: bytes) -> None:
    Path("study.json").write_bytes(data)
    study = read_study(Path())
    read_outcome(study, Path())
    study.write(Path("again"))
    if read_study(Path("again")) != study:
        raise AssertionError("a study is read otherwise than it was written")


TARGETS = (
    Target("experiment", _experiment, _experiment_seeds, _choices, _WORDS, share=0.5, most_bytes=1024),
    Target("settings", _settings, _settings_seeds, words=(*_WORDS, b"\x1f"), share=0.5, most_bytes=256),
    Target("tune-space", _space, _space_seeds, words=_WORDS, share=0.4, most_bytes=512),
    Target("tune-study", _study, lambda: (json.dumps(_STUDY).encode(), json.dumps(_STUDY, indent=1).encode())),
)
