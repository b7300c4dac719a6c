"""The examples of docs/datasets.md run as they are written."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/datasets.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("place", range(len(EXAMPLES)))
def test_examples_are_short_and_run(
    place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(EXAMPLES[place].strip().splitlines()) <= 15
    names: dict[str, object] = {"__name__": "example"}
    exec(compile(EXAMPLES[place], f"example {place}", "exec"), names)
    data = names["data"]
    assert len(data.train) >= 80
    if "print" in EXAMPLES[place]:
        assert capsys.readouterr().out.strip()


def test_there_is_an_example_for_every_form() -> None:
    for form in ("from_pandas", "(path=stays.parquet", "from_torch", "from_huggingface", "linked("):
        assert sum(form in example for example in EXAMPLES) == 1
