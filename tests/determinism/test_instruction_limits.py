"""Limits of the instructions that libraries may use are part of a run's environment, because they change its bits."""

from contextlib import closing
from pathlib import Path

import pytest

from determinism.cpu import AVX2
from determinism.examples import ROWS
from silobench.engines.kernel import cpu_type
from silobench.errors import RecordError
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_run


def test_a_run_is_not_finished_under_another_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in AVX2:
        monkeypatch.delenv(name, raising=False)
    (planned,) = plan(ROWS)
    with closing(execute(prepare(planned), tmp_path, "inline")) as records:
        next(records)
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "avx2")
    with pytest.raises(
        RecordError, match=r"was started with cpu .*, and this is .* ATEN_CPU_CAPABILITY=avx2, which may"
    ):
        list(execute(prepare(planned), tmp_path, "inline"))
    monkeypatch.delenv("ATEN_CPU_CAPABILITY")
    list(execute(prepare(planned), tmp_path, "inline"))
    assert read_run(tmp_path / planned.id).complete


def test_without_limits_records_name_the_processor_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in AVX2:
        monkeypatch.delenv(name, raising=False)
    assert "=" not in cpu_type()
