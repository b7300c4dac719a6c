"""The page of the first hour is true: its commands run, and print what it shows."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from commands import PATIENCE, call

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/hospital.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"```console\n\$ (.*?)\n(.*?)```", re.DOTALL)
_MOST_COMMANDS = 12
# Each of 150 deaths counts 0.7 percent, and rounding decides about some of them; a partition has no rounding.
_TOLERANCE = {"partition": 0.0, "run": 4.0, "show": 4.0, "predict": 0.1}


def test_the_page_prints_what_its_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    experiment = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert experiment is not None
    Path("hospital.toml").write_text(experiment[1], encoding="utf-8")
    blocks = _BLOCK.findall(PAGE)
    assert 9 <= len(blocks) <= _MOST_COMMANDS
    for command, shown in blocks:
        program, *arguments = shlex.split(command)
        if program == "python":
            script = ROOT / arguments[0]
            subprocess.run([sys.executable, script, *arguments[1:]], check=True, timeout=PATIENCE)
            continue
        result = call(capsys, *arguments, *(["--workers", "1"] if arguments[0] == "run" else []))
        assert result.code == (2 if shown.startswith("error:") else 0), result.err
        printed = [_words(line) for line in (result.out + result.err).splitlines()]
        for line in filter(None, shown.splitlines()):
            tolerance = _TOLERANCE.get(arguments[0], 0.0)
            assert any(_is_alike(_words(line), words, tolerance) for words in printed), f"{command}: {line}"


def test_the_verdicts_of_the_page() -> None:
    verdict = "no algorithm beats the constant answer"
    plain, weighted = (PAGE.split(f"--out runs/{name}", 1)[1].split("```")[0] for name in ("plain", "weighted"))
    assert verdict in plain
    assert verdict not in weighted


def _words(line: str) -> list[str]:
    return re.split(r"[\s,]+", line)


def _is_alike(shown: list[str], printed: list[str], tolerance: float) -> bool:
    """Whether two lines have the same words, and numbers with a decimal point that are close."""
    same_length = len(shown) == len(printed)
    return same_length and all(_is_close(*pair, tolerance) for pair in zip(shown, printed, strict=True))


def _is_close(shown: str, printed: str, tolerance: float) -> bool:
    if shown == printed:
        return True
    try:
        return "." in shown and abs(float(shown) - float(printed)) <= tolerance
    except ValueError:
        return False
