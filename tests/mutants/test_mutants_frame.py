"""The frame of mutation testing: a change is made, swapped in, and noticed by what it breaks and by nothing else."""

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("cosmic_ray", reason="cosmic-ray is not installed: make mutants brings it")

from mutants import plan, sources, survivors, swaps, trial
from mutants.surveys import Footprint, options
from mutants.table import Score, write_page

_TEXT = """
from functools import cache

LIMIT: int | None = 10


def clipped(value: int | None, *, low: int = 0) -> int:
    if value is None:
        raise ValueError("7 values: " + str(1 + 1))
    return max(value - 1, low)


def powers():
    return [lambda x: x * x]


SQUARE = powers()[0]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A tiny module of its own, imported."""
    (tmp_path / "tiny_product.py").write_text(_TEXT, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("tiny_product")
    del sys.modules["tiny_product"]


def _mutants(module: ModuleType) -> dict[str, sources.Mutant]:
    """Return the mutants of a module by the line that they make."""
    file = Path(str(module.__file__))
    texts = [(mutant, (mutant.source() or "").splitlines()) for mutant in sources.mutants_of(file)]
    return {" ".join(lines[mutant.start[0] - 1].split()): mutant for mutant, lines in texts}


def test_types_words_and_markers_are_not_mutated(module: ModuleType) -> None:
    lines = _mutants(module)
    assert "return max(value + 1, low)" in lines
    assert "return max(value - 2, low)" in lines
    assert "if value is not None:" in lines
    assert not [line for line in lines if "raise" in line or "int & None" in line or "/," in line]
    assert not any("<<" in line for line in lines)  # of numbers: every test would notice


def test_a_changed_function_is_noticed_where_it_is_already_in_use(module: ModuleType) -> None:
    mutant = _mutants(module)["return [lambda x: x + x]"]
    pairs = swaps.changed_functions(mutant.file, mutant.source() or "")
    assert pairs is not None
    bodies = swaps.live_bodies([mutant.file])

    def noticed(change: bool, argument: int) -> bool:
        def work() -> str | None:
            if change:
                swaps.swap(pairs or [], bodies)
            return None if module.SQUARE(argument) == argument**2 else "test"

        return trial.result_of(work).is_killed

    assert noticed(True, 3)
    assert not noticed(True, 2)  # 2 + 2 is 2 * 2
    assert not noticed(False, 3)
    assert module.SQUARE(3) == 9  # the child is another process


def test_a_change_that_acts_at_import_needs_an_import(module: ModuleType) -> None:
    mutant = _mutants(module)["LIMIT: int | None = 11"]
    source = mutant.source() or ""
    assert swaps.changed_functions(mutant.file, source) is None

    def work() -> str | None:
        del sys.modules["tiny_product"]
        swaps.import_instead(mutant.file, source)
        return f"limit {importlib.import_module('tiny_product').LIMIT}"

    assert trial.result_of(work).output == "limit 11"


def test_a_child_that_dies_is_noticed() -> None:
    def work() -> str | None:
        raise SystemExit(0)

    assert trial.result_of(work).is_killed


@pytest.mark.parametrize(
    ("conftest", "test", "output"),
    [
        ("", "assert True", ""),
        ("", "assert False", "test_one.py::test_one"),
        ("raise ValueError('of a product that cannot be imported')", "assert True", trial.IMPORT),
    ],
)
def test_a_session_that_cannot_begin_is_noticed(tmp_path: Path, conftest: str, test: str, output: str) -> None:
    (tmp_path / "conftest.py").write_text(f"{conftest}\n", "utf-8")
    (tmp_path / "test_one.py").write_text(f"def test_one():\n    {test}\n", "utf-8")

    def work() -> str | None:
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # some of them allow one session in a process
        witness = trial.Witness()
        options = ("-p", "no:cacheprovider", "--import-mode=importlib", f"--rootdir={tmp_path}", str(tmp_path))
        return trial.noticed(witness, pytest.main([*options], plugins=[witness]))

    result = trial.result_of(work)
    assert (result.output, result.is_killed) == (output, bool(output))


@pytest.mark.parametrize("number", [10, 11])
def test_a_change_at_import_acts_in_a_file_with_doctests(tmp_path: Path, number: int) -> None:
    file, text = tmp_path / "tiny_doctests.py", '"""\n>>> LIMIT\n10\n"""\n\nLIMIT = 10\n'
    file.write_text(text, "utf-8")

    def work() -> str | None:
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        swaps.import_instead(file, text.replace("LIMIT = 10", f"LIMIT = {number}"))
        witness = trial.Witness()
        code = pytest.main(["--doctest-modules", *options(tmp_path / "tmp", [file])], plugins=[witness])
        return trial.noticed(witness, code)

    assert trial.result_of(work).is_killed == (number == 11)


def test_every_beginning_of_the_order_has_its_share_of_each_file(tmp_path: Path) -> None:
    for name, lines in (("a.py", 30), ("b.py", 10)):
        (tmp_path / name).write_text("".join(f"x{i} = y{i} and z{i}\n" for i in range(lines)), "utf-8")
    files = [tmp_path / "a.py", tmp_path / "b.py"]
    order = sources.sample(files, seed=3)
    assert len(order) == len(set(order)) == 40
    assert sorted(mutant.file.name for mutant in order[:8]) == ["a.py"] * 6 + ["b.py"] * 2
    assert order == sources.sample(files, seed=3) != sources.sample(files, seed=4)
    fresh, seen = sources.chosen(files, 3, 25, seen=12), sources.sample(files, seed=0)[:12]
    assert fresh == [mutant for mutant in order if mutant not in seen][:25]
    assert sources.chosen(files, 3, 10, seen=12, skip=15) == fresh[15:]
    assert len(fresh) == 25
    assert sources.chosen(files, 0, 7, seen=0) == seen[:7]


def test_short_tests_come_first_and_each_function_once() -> None:
    tests = [Footprint("f[1]", 0.1, {}), Footprint("f[2]", 0.2, {}), Footprint("g", 0.3, {}), Footprint("h", 9.0, {})]
    assert trial.choose(tests, 1.0) == ["f[1]", "g"]
    assert trial.choose(tests, 20.0) == ["f[1]", "g", "h", "f[2]"]
    assert trial.choose(tests[3:], 1.0) == ["h"]  # one test at least


def test_a_line_is_found_with_its_statement() -> None:
    source = "def f(x):\n    if (\n        x\n    ):\n        y = (1 +\n             2)\n        return y\n"
    lines = [list(swaps.statement_lines(source, line)) for line in range(1, 8)]
    assert lines == [[1], [2, 3, 4], [2, 3, 4], [2, 3, 4], [5, 6], [5, 6], [7]]


def test_wilson_interval_of_a_sample() -> None:
    """By hand for 8 of 10: (0.8 + z^2/20 -+ z sqrt(0.016 + z^2/400)) / (1 + z^2/10) with z = 1.96."""
    mutants: list[Any] = [object(), object()]
    assert Score("f", 100, 8, 0, [], mutants).interval == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert Score("f", 10, 8, 0, [], mutants).interval == (0.8, 0.8)


def test_a_page_lists_survivors_with_their_reasons(tmp_path: Path) -> None:
    known = {change for entry in survivors.explanations() for change in entry.changes}
    mutants = [mutant for each in plan.FOLDERS["codecs"].files() for mutant in sources.mutants_of(each)]
    explained = next(mutant for mutant in mutants if survivors.change_of(mutant) in known)
    other = next(mutant for mutant in mutants if survivors.change_of(mutant) not in known)
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- mutants of codecs -->\n- `old`\n<!-- end of codecs -->\nb\n", "utf-8")
    for _ in range(2):  # the second time, the list of the first is replaced
        write_page(page, [Score("codecs", 900, 8, 0, [explained], [other])])
    text = page.read_text("utf-8")
    assert (text[:2], text[-2:], text.count("\n- `")) == ("a\n", "b\n", 2)
    for mutant in (explained, other):
        change = survivors.change_of(mutant)
        (line,) = [each for each in text.splitlines() if f"`{change.before}` becomes `{change.after}`" in each]
        assert line.endswith("*Not explained.*") == (mutant is other)


def test_every_explained_survivor_is_still_a_mutant() -> None:
    assert survivors.stale() == []
