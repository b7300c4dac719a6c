"""What the demo promises, on those of its runs that the promises are about."""

import json
from pathlib import Path

import pytest

from commands import call


def test_the_demo_shows_skew_hurting_and_scaffold_sending_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for only in ("digits / iid / [fs]*d* / seed 0", "digits / label-count(k=1) / fedavg *", "fcube *"):
        result = call(capsys, "run", "demo", "--only", only, "--out", tmp_path)
        assert result.code == 0, result.err
    shown = json.loads(call(capsys, "show", tmp_path, "--json").out)["cells"]
    cells = {(cell["partition"], cell["algorithm"]): cell for cell in shown}
    iid = cells["iid", "fedavg"]["accuracy"]["mean"]
    assert iid >= 0.95
    assert cells["label-count(k=1)", "fedavg"]["accuracy"]["mean"] <= iid - 0.2
    assert cells["iid", "scaffold"]["bytes_up"] == 2 * cells["iid", "fedavg"]["bytes_up"]
    for algorithm in ("fedavg", "fedprox", "scaffold", "fednova"):
        assert cells["octants", algorithm]["accuracy"]["mean"] >= 0.97
    result = call(capsys, "report", tmp_path)
    folder = Path(result.out.removeprefix("report: ").strip()).parent
    assert (folder / "partitions.html").read_text().count("<figure") == 3  # one per setting
    assert (folder / "curves.html").read_text().count("<figure") == 3
    assert len(list((folder / "runs").glob("*.toml"))) == len(cells)
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 2_000_000
