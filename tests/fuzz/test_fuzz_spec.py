"""Everything that is no file of data: inputs that once broke a promise, and fresh ones under a fixed seed.

`python -m fuzz` is the long form.
"""

from pathlib import Path

import pytest

from fuzz.edits import EDITS, edited
from fuzz.short import cases_of, first_finding, fresh_inputs
from fuzz.target import Target
from fuzz.targets import experiments, letters, plugins, private, records, requests, specs
from silobench.errors import RecordError
from silobench.runs.stored import read_run

MODULES = (experiments, letters, plugins, private, records, requests, specs)
TARGETS = {target.name: target for module in MODULES for target in module.TARGETS}
FRESH = 40  # inputs of a target that is quick; a share of it for others
CASES = [
    pytest.param(target, case, id=f"{target.name}-{case.name}")
    for target in TARGETS.values()
    for case in cases_of(target)
]


@pytest.fixture
def _output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "output").mkdir()
    monkeypatch.chdir(tmp_path / "output")
    monkeypatch.setenv("SILOBENCH_MAX_RUNS", "60")
    monkeypatch.setenv("SILOBENCH_DATA", str(tmp_path / "output" / "data"))


@pytest.mark.usefixtures("_output")
@pytest.mark.parametrize("name", TARGETS)
def test_fresh_inputs_are_read_or_refused_in_one_sentence(name: str) -> None:
    target = TARGETS[name]
    finding = first_finding(target, fresh_inputs(target, round(FRESH * target.share), seed=26))
    assert finding is None, f"{finding.kind} {finding.place}: {finding.detail}\n{finding.data!r}"


@pytest.mark.usefixtures("_output")
@pytest.mark.parametrize(("target", "case"), CASES)
def test_what_once_broke_a_promise_breaks_none(target: Target, case: Path) -> None:
    target.seeds()
    finding = first_finding(target, [case.read_bytes()])
    assert finding is None, f"{finding.kind} {finding.place}: {finding.detail}"


@pytest.mark.usefixtures("_output")
@pytest.mark.parametrize("name", EDITS)
def test_a_record_that_was_edited_and_sealed_again_is_refused_by_name(name: str) -> None:
    files = edited(name, records.run_files(str(Path.cwd())))
    path = records.write_run(records.sealed(files), Path("runs"))
    with pytest.raises(RecordError, match=path.name):
        read_run(path)


def test_no_case_is_left_over() -> None:
    folder = Path(__file__).with_name("cases")
    known = {target.name for target in TARGETS.values()}
    from fuzz.target import all_targets

    assert known <= set(all_targets())
    assert {path.name for path in folder.iterdir()} <= set(all_targets())
