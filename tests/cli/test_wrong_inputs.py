"""Every wrong input of the table gets one sentence and exit code 2, and loses nothing; docs/errors.md shows them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from silobench.runs.experiment import REGISTRIES
from silobench.spec.registry import origin_of
from wrong_inputs import PAGE, TABLE, Case, answer, make_results, normalised, row, rows_of
from wrong_inputs.plugins import ALGORITHMS, OTHERS

CASES = [case for cases in TABLE.values() for case in cases]
MOST = 420  # characters of a sentence
PAGE_ROWS = set(rows_of(PAGE.read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(autouse=True)
def only_built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the plugins that other tests registered in this process, because messages list all names."""
    for registry in REGISTRIES.values():
        built_in = {name: factory for name, factory in registry.factories.items() if not is_plugin(factory)}
        monkeypatch.setattr(registry, "factories", built_in)


def is_plugin(factory: Callable[..., object]) -> bool:
    origin = origin_of(factory)
    return origin is not None and origin.is_plugin


def recorded(runs: Path) -> dict[str, bytes]:
    """Return everything that runs recorded."""
    names = ("run.json", "rounds.jsonl", "state.safetensors")
    return {
        str(path): path.read_bytes()
        for path in sorted(runs.glob("[0-9a-f]*/**/*"))
        if path.name in names and path.is_file()
    }


@pytest.mark.parametrize("case", CASES, ids=[f"{place}: {case.shown[:60]}" for place, case in enumerate(CASES)])
def test_an_input(case: Case, tmp_path: Path, results: Path) -> None:
    damage, before = case.damage, {}

    def damaged(runs: Path) -> None:
        assert damage is not None
        damage(runs)
        before.update(recorded(runs))

    reply = answer(case if damage is None else case.__class__(**{**vars(case), "damage": damaged}), tmp_path, results)
    assert reply.code == case.code, reply
    assert "Traceback" not in reply.out + reply.err
    if case.code:
        needs_a_sentence(reply.err)
        assert not (tmp_path / "runs").exists() or damage
        assert recorded(tmp_path / "runs") == before
    message = normalised(reply.message, tmp_path)
    assert case.expected in (message if case.code else reply.out)
    assert row(case, reply.code, message) in PAGE_ROWS, "write docs/errors.md anew: make errors"


def needs_a_sentence(text: str) -> None:
    """Check the form of a message."""
    assert text.startswith("error: ")
    assert "\n" not in text
    assert text.endswith((".", "?"))
    assert not text.endswith(("..", "?.", ".?"))
    assert len(text) < MOST


def test_the_page_has_every_case_and_no_other() -> None:
    plugins = len(ALGORITHMS) + len(OTHERS)
    assert plugins >= 100
    assert len(rows_of(PAGE.read_text(encoding="utf-8"))) == len(CASES) + plugins


def test_the_table_has_the_kinds_of_inputs_that_users_get_wrong() -> None:
    sizes = {heading: len(cases) for heading, cases in TABLE.items()}
    assert sizes["Experiment files"] + sizes["Lines of an experiment"] >= 52
    assert sizes["Dataset specs and data files"] >= 62
    assert sizes["Command lines"] >= 18
    assert sizes["Results directories"] >= 16
    assert len(CASES) >= 52 + 62 + 18 + 16 + 100
