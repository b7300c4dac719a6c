"""Every error a user can cause. Each message is one sentence: what was given, what was needed, what to do.

    SilobenchError
    ├── SpecError        a spec that cannot be read, or that names something unknown
    ├── ConfigError      a wrong value in an experiment file or a command-line option
    ├── DataError        a dataset that is empty, malformed or not finite
    │   └── AbsentError  a dataset that is not on this machine
    ├── PartitionError   a partition that is impossible for this dataset
    ├── RecordError      a run directory that is damaged, busy or not writable
    ├── RunError         code that failed during a run: a plugin, or a bug in silobench
    │   └── HookError    a function of a plugin that failed, or returned something else than is expected
    └── StoppedError     Ctrl-C: not an error, but reported in the same way

The command line prints the message and exits with code 2. With `silobench --debug` it also prints the traceback, which
the author of failing code needs.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from typing import Any

_LONGEST = 1400  # characters of a message


class SilobenchError(Exception):
    """The base of all user errors: catch this to catch them all. Its text is one line that a terminal can show."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class SpecError(SilobenchError):
    """A spec cannot be read, or names something unknown."""


class ConfigError(SilobenchError):
    """A choice in an experiment or on the command line is wrong."""


class DataError(SilobenchError):
    """A dataset is empty, malformed or not finite."""


class AbsentError(DataError):
    """A dataset is not on this machine."""


class PartitionError(SilobenchError):
    """A partition is impossible for this dataset."""


class RecordError(SilobenchError):
    """A run directory is damaged, busy or not writable."""


class StoppedError(SilobenchError):
    """The user pressed Ctrl-C."""


class RunError(SilobenchError):
    """Code failed during a run; `details` is its traceback."""

    def __init__(self, sentence: str, details: str):
        super().__init__(sentence, details)  # both, so that the error can be pickled between processes
        self.details = details

    def __str__(self) -> str:
        return one_line(str(self.args[0]))


class HookError(RunError):
    """A function of a plugin failed, or returned something else than is expected; the message names it."""


def one_line(text: str) -> str:
    """Return text with everything escaped that a terminal would obey or could not show; a line break is a space.

    Messages repeat what users, files and other machines wrote. The middle of a very long one is left out.

    >>> print(one_line("no key 'rounds\\x1b[31m'\\nin mine.toml"))
    no key 'rounds\\x1b[31m' in mine.toml
    """
    if not text.isprintable():
        spaced = re.sub(r"\s*[\t\n\r]\s*", " ", text)
        text = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in spaced)
    text = shortened_words(text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 400]} ... {text[-395:]}"


def shortened_words(text: str) -> str:
    """Return text in which words of more than 200 letters have only their ends."""
    return re.sub(r"\S{201,}", lambda word: f"{word[0][:30]}...{word[0][-30:]}", text)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message about an unknown name.

    >>> suggest("fedprx", ["fedavg", "fedprox"])
    'did you mean fedprox?'
    >>> suggest("zzz", ["fedavg", "fedprox"])
    'choose from fedavg, fedprox.'
    >>> suggest("eps", ["epsilon", "steps"])
    'did you mean epsilon?'
    """
    options = sorted(known)
    whole = [option for option in options if option.startswith(name.lower()) and len(name) > 1]
    close = whole if len(whole) == 1 else difflib.get_close_matches(name.lower(), options, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    named = ", ".join(options)
    return f"choose from {named if len(named) <= 400 else listed(options, most=12)}."


def value_shown(value: Any) -> str:
    """Return a value of an experiment as its author writes it, shortened if it is long.

    >>> value_shown(True), value_shown("many"), value_shown({"a": 1}), value_shown([1, 2])
    ('true', "'many'", 'a table', '[1, 2]')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date | datetime | time):
        return f"the date or time {value.isoformat()}"
    if isinstance(value, dict):
        return "a table"
    try:
        text = repr(list(value)) if isinstance(value, tuple) else repr(value)
    except ValueError:  # Python does not write integers of more than 4300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}..."


def listed(items: Sequence[str], most: int = 10) -> str:
    """Return items as a list in a sentence; only the first `most` are named.

    >>> listed(["age", "sex", "ward"])
    'age, sex and ward'
    >>> listed(["a", "b", "c", "d"], most=2)
    'a, b and 2 more'
    """
    named = [*items[:most], *([f"{len(items) - most} more"] if len(items) > most else [])]
    return " and ".join([", ".join(named[:-1]), named[-1]]) if len(named) > 1 else "".join(named)
