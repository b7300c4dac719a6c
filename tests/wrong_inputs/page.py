"""The page of wrong inputs, docs/errors.md."""

import re
from collections.abc import Mapping
from pathlib import Path

from wrong_inputs.case import Case

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
_HEAD = """# What silobench answers to wrong inputs

An input that is wrong gets one sentence on stderr, which says what was given, what is needed and what to do. The exit
code is 2, no traceback is shown (`silobench --debug` shows it), and nothing that was recorded is lost. A command that
stops because of its input writes nothing into the results directory. Inputs that look wrong and are not have the exit
code 0 and no message. A submission that `silobench leaderboard check` refuses is not wrong input: the exit code is
1, with the reasons ([verdicts](leaderboard.md#check-a-submission)).

The last table has plugins with a fault; `tests/wrong_inputs/plugins.py` has their code.

`tests/cli/test_wrong_inputs.py` and `tests/cli/test_wrong_plugins.py` run every row. `make errors`
writes this page anew.
"""


def row(case: Case | str, code: int, message: str) -> str:
    """Return a row of the page, of a case or of the name of a plugin."""
    shown = case if isinstance(case, str) else case.shown
    return f"| {_cell(shown)} | {code} | {_cell(message)} |"


def page(rows: Mapping[str, list[str]]) -> str:
    """Return the page; `rows` are those of each heading."""
    parts = [_HEAD]
    for heading, lines in rows.items():
        parts.append("\n".join([f"## {heading}", "", "| input | exit code | message |", "|---|---|---|", *lines, ""]))
    return "\n".join(parts)


def rows_of(text: str) -> list[str]:
    """Return the rows of a page, without the heads of its tables."""
    return [line for line in text.splitlines() if line.startswith("|") and not re.match(r"\| input |\|---", line)]


def _cell(text: str) -> str:
    """Return text on one line without marks of Markdown, except for backticks."""
    text = text.replace("\n", " ⏎ ")
    text = text if text.isprintable() else text.encode("unicode_escape").decode()
    parts = re.split(r"(`[^`]*`)", text.removeprefix("error: "))
    parts[::2] = [re.sub(r"([*_<>\[\]\\])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts).replace("|", "\\|")
