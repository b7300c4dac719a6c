"""Every error a user can cause. Each carries one sentence: what was given, what was needed, what to do.

    SilobenchError
    ├── SpecError        a spec that cannot be read, or names something that does not exist
    ├── ConfigError      an experiment file or a command-line option
    ├── DataError        a dataset that is empty, malformed or not finite
    │   └── AbsentError  one that is not on this machine
    ├── PartitionError   a split that this dataset cannot give
    ├── RecordError      a run directory that is damaged, busy or not writable
    ├── RunError         code that failed in the middle of a run: a plugin's, or a bug of ours
    └── StoppedError     Ctrl-C: no error of anyone's, but said and ended the same way

The command line prints the sentence and exits with code 2. Only a `RunError` brings its traceback along, and exits with
code 1: whoever wrote the failing code needs it.
"""

import difflib
from collections.abc import Iterable


class SilobenchError(Exception):
    """Root of the tree: catch this to catch every user error."""


class SpecError(SilobenchError):
    pass


class ConfigError(SilobenchError):
    pass


class DataError(SilobenchError):
    pass


class AbsentError(DataError):
    pass


class PartitionError(SilobenchError):
    pass


class RecordError(SilobenchError):
    pass


class StoppedError(SilobenchError):
    """Ctrl-C: no error of anyone's."""


class RunError(SilobenchError):
    """`details` is the traceback of what failed."""

    def __init__(self, sentence: str, details: str):
        super().__init__(sentence, details)  # both, so that it can travel between processes
        self.details = details

    def __str__(self) -> str:
        return str(self.args[0])


def suggest(name: str, known: Iterable[str]) -> str:
    """The tail of an error about an unknown name.

    >>> suggest("fedprx", ["fedavg", "fedprox"])
    'did you mean fedprox?'
    >>> suggest("zzz", ["fedavg", "fedprox"])
    'choose from fedavg, fedprox.'
    """
    options = sorted(known)
    close = difflib.get_close_matches(name.lower(), options, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    return f"choose from {', '.join(options)}."
