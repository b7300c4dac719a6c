"""Readers of data: what once broke a promise, and fresh inputs, are read or refused in one sentence."""

from pathlib import Path

import pytest

from fuzz.short import cases_of, first_finding, fresh_inputs
from fuzz.target import Target
from fuzz.targets.data import TARGETS

_SLOW = ("data-csv-wide",)  # a table of 100,000 columns takes seconds: only campaigns have fresh ones


@pytest.fixture(autouse=True)
def _output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "output").mkdir()
    monkeypatch.chdir(tmp_path / "output")


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_input_breaks_a_promise(target: Target) -> None:
    inputs = [case.read_bytes() for case in cases_of(target)]
    inputs += [] if target.name in _SLOW else fresh_inputs(target, count=20, seed=1)
    assert inputs
    finding = first_finding(target, inputs)
    assert finding is None, f"{finding.kind}: {finding.place}: {finding.detail}"
