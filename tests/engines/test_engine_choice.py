"""Which engine runs an experiment, and how an interrupted run continues."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_cases import DIGITS, Case, inputs, near, run, same

from laws import models
from natives import needs_native
from silobench.engines import ENGINES, auto, inline, native, stacked
from silobench.engines import engine as engines
from silobench.errors import ConfigError, RecordError
from silobench.method.solvers import sgd
from silobench.method.types import Algorithm, Vector
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run

# Without names, because what has one is imported in the worker together with these tests.
CORRECTIONS = {
    "each number": lambda g, at, server, own: (
        g / 2 + torch.sin(at - server.params) * own["scale"] + server.extras["tilt"]
    ),
    "norm": lambda grad, at, server, own: grad / (1 + grad.norm()),
    "memory": lambda grad, at, server, own: grad + own["scale"].mean(),
}


def custom_algorithm(correct: Callable[..., Vector]) -> Algorithm:
    """A user's algorithm with a variable at the server and one at every party."""

    def extras(params: Vector) -> dict[str, Vector]:
        return {"tilt": torch.linspace(-1, 1, len(params)), "count": torch.zeros(3)}

    def memory(params: Vector) -> dict[str, Vector]:
        return {"scale": torch.full_like(params, 0.3)}

    return Algorithm(extras=extras, memory=memory, correct=correct)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_correction_that_is_not_a_pull_is_run_by_pytorch(silos, correction: str) -> None:
    case = Case(widths=(6, 3))
    federated, algorithm = case.federated(silos), custom_algorithm(CORRECTIONS[correction])
    alone = run(algorithm, federated, inline(), case.solver, rounds=2)
    assert not near(models(alone), models(run("fedavg", federated, inline(), case.solver, rounds=2)), 1e-2)
    for workers in (1, 2):
        by_choice = run(algorithm, federated, replace(auto(workers=workers), least=0.0), case.solver, rounds=2)
        assert same(by_choice) == same(alone)
        assert {record.engine for record in by_choice} == {"inline" if workers == 1 else "pool"}
    for engine in (stacked(), native()):
        with pytest.raises(
            ConfigError, match=r"^engine (stacked|native) cannot run this experiment: [^.]*; use auto\.$"
        ):
            run(algorithm, federated, engine, case.solver, rounds=2)


def test_a_correction_may_use_autograd(silos) -> None:
    def correct(grad: Vector, at: Vector, server: object, own: object) -> Vector:
        here = at.detach().clone().requires_grad_()
        (here**4).sum().backward()
        return grad + here.grad

    case = Case(widths=(6, 3))
    federated = case.federated(silos)
    by_choice, alone = (
        run(custom_algorithm(correct), federated, engine, case.solver, rounds=1) for engine in (auto(), inline())
    )
    assert near(models(by_choice), models(alone))


@pytest.mark.parametrize(
    ("kind", "model", "spec", "arithmetic"),
    [
        ("dense", "linear", "fedavg", "stacked"),
        ("dense", "mlp(6, 3)", "scaffold(momentum=inside)", "stacked"),
        ("bytes", "mlp(6)", "fedprox", "stacked"),
        ("bytes", "cnn", "fedavg", "inline"),
        ("sparse", "linear", "scaffold", "stacked"),
        ("sparse", "linear", "fedprox", "inline"),
        ("sparse", "mlp(6)", "scaffold(momentum=inside)", "inline"),
    ],
)
def test_without_a_native_step_the_way_is_chosen_by_model_and_method(
    silos, monkeypatch, kind: str, model: str, spec: str, arithmetic: str
) -> None:
    monkeypatch.setattr("silobench.engines.kernel.why_not", lambda: "there is no compiler")
    monkeypatch.setattr(engines, "_WORTH_SENDING", 0.0)
    monkeypatch.setattr("silobench.engines.modes.stacked._IN_A_STACK", 2)
    x = inputs(kind, 30, np.random.default_rng(0)) if model != "cnn" else DIGITS.train.x[:30]
    federated, solver = silos(x, np.arange(30) % 3, (20, 1, 9), model), sgd(0.05, epochs=1, batch=8)
    first = run(spec, federated, auto(workers=1), solver, rounds=2)
    assert {record.engine for record in first} == {arithmetic}
    for workers in (2, 3):
        others = run(spec, federated, auto(workers=workers), solver, rounds=2)
        assert same(others) == same(first)
        used = {("stacked" if arithmetic == "stacked" else "pool", workers)}
        assert {(record.engine, record.workers) for record in others} == used
    alone = {"inline": inline(), "stacked": stacked(workers=1)}[arithmetic]
    assert same(run(spec, federated, alone, solver, rounds=2)) == same(first)
    if arithmetic == "inline":
        with pytest.raises(ConfigError, match="use auto"):
            run(spec, federated, stacked(), solver, rounds=2)


@needs_native
@pytest.mark.parametrize(
    ("kind", "model", "spec", "way"),
    [
        ("dense", "linear", "fedavg", "native"),
        ("bytes", "cnn", "feddyn", "native"),
        ("sparse", "mlp(6)", "fedprox", "native"),
        ("words", "bag(4)", "fedavg", "inline"),
    ],
)
def test_auto_prefers_the_native_step(silos, monkeypatch, kind: str, model: str, spec: str, way: str) -> None:
    monkeypatch.setattr(engines, "_WORTH_SENDING", 0.0)
    facts = {}
    if kind == "words":
        x, facts = np.random.default_rng(0).integers(0, 5, (30, 4)), {"vocabulary": tuple("?abcd")}
    else:
        x = DIGITS.train.x[:30] if model == "cnn" else inputs(kind, 30, np.random.default_rng(0))
    federated = silos(x, np.arange(30) % 3, (20, 1, 9), model, **facts)
    solver = sgd(0.05, epochs=1, batch=8)
    first = run(spec, federated, auto(workers=1), solver, rounds=2)
    assert {record.engine for record in first} == {way}
    for workers in (2, 4):
        others = run(spec, federated, auto(workers=workers), solver, rounds=2)
        assert same(others) == same(first)
        assert {(record.engine, record.workers) for record in others} == {(way if way == "native" else "pool", workers)}


def test_a_short_round_stays_in_this_process(toy) -> None:
    assert {r.workers for r in run("fedavg", toy(), auto(workers=2), sgd(epochs=1), rounds=2)} == {1}


def test_engines_have_specs() -> None:
    specs = ("inline", "pool(workers=3)", "stacked(workers=1)", "native(workers=2)", "auto(workers=2)")
    built = [(engine.ways, engine.workers) for engine in map(ENGINES.build, specs)]
    every = ("native", "stacked", "vmap", "inline")
    assert built == [(("inline",), 0), (("inline",), 3), (("stacked",), 0), (("native",), 2), (every, 2)]


@pytest.mark.parametrize(
    ("started", "refused", "ends"),
    [
        ("inline", ["stacked", "native"], ["pool(workers=2)", "auto"]),
        ("stacked", ["inline", "native"], ["stacked(workers=2)", "auto"]),
        pytest.param("native", ["inline", "stacked"], ["native(workers=2)", "auto"], marks=needs_native),
    ],
)
def test_an_interrupted_run_continues_with_its_engine(
    tmp_path: Path, started: str, refused: list[str], ends: list[str]
) -> None:
    choices = {"dataset": "fcube", "partition": "octants", "algorithm": "scaffold", "rounds": 4}
    (made,) = plan({**choices, "solver": "sgd(epochs=1, keep_momentum=True)"})
    ready = prepare(made)
    list(execute(ready, tmp_path / "whole", started))
    for end in ends:
        for record in execute(ready, tmp_path / end, started):
            if record.round == 2:
                break
        for other in refused:
            with pytest.raises(
                (RecordError, ConfigError), match=f"started with engine {started}, and|engine native cannot"
            ):
                list(execute(ready, tmp_path / end, other))
        assert len(list(execute(ready, tmp_path / end, end))) == 2
        whole, parts = (read_run(tmp_path / name / made.id) for name in ("whole", end))
        for fact in ("model_sha256", "state_sha256", "environment"):
            assert getattr(whole.facts, fact) == getattr(parts.facts, fact)


@needs_native
def test_a_native_run_is_not_continued_without_a_native_step(tmp_path: Path, monkeypatch) -> None:
    (made,) = plan({"dataset": "fcube", "partition": "octants", "rounds": 3, "solver": "sgd(epochs=1)"})
    ready = prepare(made)
    next(iter(execute(ready, tmp_path)))
    monkeypatch.setattr("silobench.engines.kernel.why_not", lambda: "no C++ compiler was found")
    with pytest.raises(
        ConfigError, match=r"started with engine native, which cannot continue it on this machine \(no C\+\+"
    ):
        list(execute(ready, tmp_path))
    monkeypatch.undo()
    assert [record.round for record in execute(ready, tmp_path)] == [2, 3]
