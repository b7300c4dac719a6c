"""An error inside a party says where it happened: the round, the party and, for PyTorch, the step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from engine_cases import Case, run

from commands import call, write
from natives import needs_native
from silobench.engines import Engine, debug, inline, native, pool, stacked
from silobench.engines.kernel.batches import is_exact
from silobench.errors import ConfigError, RunError
from silobench.method.solvers import SOLVERS
from silobench.method.types import Algorithm, Server
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run


def failing_step(round: int, step: int, error: Exception) -> Algorithm:
    """Return an algorithm whose correction of a gradient fails in one step of the party with most rows."""
    calls: dict[int, int] = {}

    def correct(grad: Any, params: Any, server: Server, memory: Any) -> Any:
        calls[server.round] = calls.get(server.round, 0) + 1
        if server.round + 1 == round and calls[server.round] == step:
            raise error
        return grad

    return Algorithm(correct=correct)


def failing_message(error: Exception) -> Algorithm:
    def message(local: Any, server: Server, memory: Any) -> Any:
        raise error

    return Algorithm(message=message)


@pytest.mark.parametrize("engine", [inline, debug, lambda: pool(workers=2)])
def test_a_failing_step_is_named(silos, engine: Callable[[], Engine]) -> None:
    case = Case(sizes=(20, 20))
    with pytest.raises(RunError) as caught:
        run(failing_step(2, 3, ValueError("it broke")), case.federated(silos), engine(), case.solver, rounds=3)
    assert str(caught.value) in {f"round 2, party {party}, step 3: ValueError: it broke" for party in (0, 1)}
    assert isinstance(caught.value.__cause__, ValueError)
    assert "in correct" in caught.value.details
    notes = getattr(caught.value, "__notes__", [])
    assert bool(notes) == (engine not in (inline, debug))
    assert all("in a worker process" in note for note in notes)


@pytest.mark.parametrize("name", SOLVERS.factories)
def test_every_solver_counts_its_steps(toy, name: str) -> None:
    algorithm, solver = failing_step(1, 4, KeyError("x")), f"{name}(noise=1)" if name == "dp-sgd" else name
    with pytest.raises(RunError, match=r"^round 1, party 0, step 4: KeyError: 'x'$"):
        run(algorithm, toy((400,)), inline(), SOLVERS.build(solver), rounds=1)


def test_an_error_after_the_last_step_names_no_step(silos) -> None:
    case = Case()
    with pytest.raises(RunError, match=r"^round 1, party 0: ZeroDivisionError: by hand$"):
        run(failing_message(ZeroDivisionError("by hand")), case.federated(silos), inline(), case.solver, rounds=1)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("engine", "place"),
    [
        (stacked, r"parties 0, 2 and 1 \(trained together\)"),
        pytest.param(native, "party 0", marks=needs_native),
    ],
)
def test_fast_engines_name_the_parties(silos, engine: Callable[..., Engine], place: str, workers: int) -> None:
    case = Case(sizes=(20, 1, 9))
    with pytest.raises(RunError, match=f"^round 1, {place}: ValueError: it broke$"):
        run(failing_message(ValueError("it broke")), case.federated(silos), engine(workers), case.solver, rounds=1)


@needs_native
@pytest.mark.parametrize(
    ("function", "spec", "place"),
    [("train", "scaffold", "party 1"), ("train_batch", "fedavg", r"parties 1 and 0 \(trained together\)")],
)
def test_an_error_of_the_native_step_names_its_parties(
    silos, monkeypatch, function: str, spec: str, place: str
) -> None:
    def train(*_: Any) -> float:
        raise MemoryError("no room")

    assert is_exact()
    monkeypatch.setattr(f"silobench.engines.kernel.Kernel.{function}", train)
    case = Case(sizes=(20, 30))
    for engine in (Engine(("native",)), Engine(("native",), workers=2)):
        with pytest.raises(RunError, match=f"^round 1, {place}: MemoryError: no room$"):
            run(spec, case.federated(silos), engine, case.solver, rounds=1)


def test_an_error_that_a_user_can_correct_stays_as_it_is(silos) -> None:
    case = Case()
    with pytest.raises(ConfigError, match=r"^mu must be smaller\.$"):
        run(failing_message(ConfigError("mu must be smaller.")), case.federated(silos), inline(), case.solver, rounds=1)


# --- the engine debug ---------------------------------------------------------------------------------

TINY = 'dataset = "fcube"\npartition = "octants"\nrounds = 2\nsolver = "sgd(epochs=1)"\nalgorithm = "mine"\n'
PLUGIN = """
import silobench as sb

def correct(grad, params, server, memory):
    {line}
    return grad

@sb.ALGORITHMS.register
def mine() -> sb.Algorithm:
    "Mine."
    return sb.Algorithm(correct=correct)
"""


def command(capsys, folder: Path, line: str, *options: str) -> Any:
    plugin, file = write(folder / "mine.py", PLUGIN.format(line=line)), write(folder / "e.toml", TINY)
    return call(capsys, "run", file, "--plugin", plugin, "--out", folder / "runs", *options)


@pytest.mark.parametrize("error", ["ValueError('it broke')", "sb.errors.ConfigError('it broke')"])
def test_debug_prints_the_traceback_and_no_sentence(capsys, monkeypatch, tmp_path: Path, error: str) -> None:
    monkeypatch.setattr("silobench.cli.running.start_server", lambda: pytest.fail("a server was started"))
    monkeypatch.setattr("silobench.engines.workers._start_worker", lambda: pytest.fail("a worker was started"))
    line = f"import silobench.errors; raise {error}"
    result = command(capsys, tmp_path, line, "--engine", "debug", "--workers", "2", "--set", "seed=[0, 1]")
    assert result.code == 1
    assert "Traceback (most recent call last)" in result.err
    assert "in correct" in result.err
    assert error.partition("(")[0].rpartition(".")[2] + ": it broke" in result.err
    assert "error: " not in result.err


def test_a_breakpoint_in_debug_stops_in_this_process(capsys, monkeypatch, tmp_path: Path) -> None:
    stops = []
    monkeypatch.setattr("sys.breakpointhook", lambda: stops.append(torch.get_num_threads()))
    assert command(capsys, tmp_path, "breakpoint()", "--engine", "debug", "--workers", "2").code == 0
    assert set(stops) == {1}


def test_a_debugged_run_has_the_bits_of_inline_and_continues_anywhere(tmp_path: Path) -> None:
    choices = {"dataset": "fcube", "partition": "octants", "algorithm": "scaffold", "rounds": 3}
    (each,) = plan({**choices, "solver": "sgd(epochs=1, keep_momentum=True)"})
    list(execute(prepare(each), tmp_path / "inline", "inline"))
    next(execute(prepare(each), tmp_path / "debug", "debug"))
    list(execute(prepare(each), tmp_path / "debug", "pool(workers=2)"))
    first, second = (read_run(tmp_path / name / each.id).facts for name in ("inline", "debug"))
    for fact in ("model_sha256", "state_sha256", "environment"):
        assert getattr(first, fact) == getattr(second, fact)
    assert first.environment["engine"] == "inline"
