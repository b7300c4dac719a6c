"""The terms of every cost, with the assumption behind each."""

from dataclasses import dataclass

from scaling.model import Case, Term


def _one(case: Case) -> float:
    return 1.0


def _parties(case: Case) -> float:
    return case.parties


def _cohort(case: Case) -> float:
    return case.cohort


def _all_rows(case: Case) -> float:
    return case.parties * case.rows


def _stored_bytes(case: Case) -> float:
    """Bytes of all rows: four per feature, eight for the label and eight for the number of the row."""
    return _all_rows(case) * (4 * case.features + 16)


def _remembered(case: Case) -> float:
    return case.remembered


def _remembered_bytes(case: Case) -> float:
    return case.remembered * case.parameters * 4


def _server_bytes(case: Case) -> float:
    return case.vectors * case.parameters * 4


@dataclass(frozen=True)
class Cost:
    """A cost and its terms."""

    title: str
    unit: str  # s or B
    terms: tuple[Term, ...]


_EVERY_PARTY = "silobench's own steps by party are loops: twice the parties take twice as long"
_ROUND = (
    Term("round", "round", _one, "cohort, clock and record do not depend on the method"),
    Term("parties", "party of the federation", _parties, "no step of a round visits all parties"),
    Term("cohort", "party of the cohort", _cohort, "seeds, message and record of a party: the same for any size"),
    Term(
        "steps",
        "step of a party",
        lambda case: case.cohort * case.steps,
        "calls for a minibatch, without its arithmetic",
    ),
    Term(
        "rows", "row of the cohort", lambda case: case.cohort * case.rows, "its place in a random order, its features"
    ),
    Term(
        "training",
        "row of the cohort × parameter",
        lambda case: case.cohort * case.rows * case.parameters,
        "arithmetic forward and backward; kernels have the same rate for any layer, which holds least",
    ),
    Term(
        "messages",
        "number of the messages",
        lambda case: case.cohort * case.vectors * case.parameters,
        "a message is copied and added a fixed number of times",
    ),
    Term(
        "own memories",
        "party of the cohort with a memory",
        lambda case: case.cohort * (case.vectors - 1),
        "SCAFFOLD: parties are trained by a call each, and return a new memory",
    ),
    Term("memories", "party with a memory", _remembered, "the table of memories is copied, the vectors are not"),
    Term("test rows", "test row", lambda case: case.tested, "its output is compared with its label"),
    Term("test", "test row × parameter", lambda case: case.tested * case.parameters, "arithmetic of a forward pass"),
)
_START = (
    Term("run", "run", _one, "the import of torch is not in it"),
    Term("parties", "party of the federation", _parties, _EVERY_PARTY),
    Term("rows", "row", _all_rows, "a file is read, checked by its sha256 and counted by class once"),
)
_END = (
    Term("run", "run", _one, "the import of torch is not in it"),
    Term("parties", "party of the federation", _parties, _EVERY_PARTY),
    Term("tested", "party with test rows", lambda case: min(case.parties, case.tested), "it is scored on its own rows"),
)
_MEMORY = (
    Term("process", "process", _one, "Python, torch and its libraries"),
    Term("rows", "stored byte of the rows", _stored_bytes, "rows are in memory once, whatever the number of parties"),
    Term(
        "parties",
        "party of the federation",
        _parties,
        "objects, an array and two tensors; texts while files are written",
    ),
    Term("memories", "byte of a memory", _remembered_bytes, "SCAFFOLD: a vector per party; copies while it is written"),
    Term("owners", "party with a memory", _remembered, "objects around a memory"),
)
_CLUSTER = (
    Term("round", "round", _one, "the state and the record"),
    Term("tasks", "task", lambda case: case.tasks, "it is sent, awaited and fetched, one after the other"),
    Term("cohort", "party of the cohort", _cohort, "replies are unpacked and added one after the other"),
    Term("replies", "byte of the replies", lambda case: case.bytes_up, "every reply reaches the driver as it is"),
)
_WORKERS = (
    Term("tasks", "task", lambda case: case.tasks, "it is sent, awaited and fetched, one after the other"),
    Term(
        "models",
        "byte of the model × worker",
        lambda case: case.workers * case.vectors * case.parameters * 4,
        "each worker unpacks the model once per round",
    ),
    *(term for term in _ROUND if term.name in ("cohort", "steps", "rows", "training", "messages")),
)
_SETTING = (
    Term("setting", "setting", _one, "method, names of columns and code"),
    Term("model", "byte of the model", lambda case: case.parameters * 4, "the initial model and its layout"),
    Term("parties", "party of the federation", _parties, "its objects and its row numbers, pickled one by one"),
    Term("rows", "stored byte of the rows", _stored_bytes, "as they are; the workers of a machine share them"),
)
COSTS = {
    "native round": Cost("a round, native", "s", _ROUND),
    "inline round": Cost("a round, inline", "s", _ROUND),
    "prepare": Cost("reading and partitioning", "s", _START),
    "open": Cost("describing the run (run.json)", "s", _START),
    "end": Cost("final test and seal", "s", _END),
    "commit": Cost(
        "packing a checkpoint",
        "s",
        (
            Term("run", "run", _one, "the import of torch is not in it"),
            Term("owners", "party with a memory", _remembered, "a name and a checksum for each"),
            Term("memories", "byte of a memory", _remembered_bytes, "copied and summed; the disk is not in it"),
        ),
    ),
    "resident": Cost("memory during rounds", "B", _MEMORY),
    "peak": Cost("largest memory", "B", _MEMORY),
    "run.json": Cost(
        "run.json",
        "B",
        (
            Term("file", "file", _one, "what does not depend on parties"),
            Term(
                "parties",
                "party of the federation",
                _parties,
                "name, rows, rows by class (ten), result of the last test",
            ),
        ),
    ),
    "line": Cost(
        "a line of rounds.jsonl",
        "B",
        (
            Term("file", "file", _one, "what does not depend on parties"),
            Term("cohort", "party of the cohort", _cohort, "its number"),
        ),
    ),
    "last line": Cost(
        "the last line",
        "B",
        (
            Term("file", "file", _one, "what does not depend on parties"),
            Term(
                "parties",
                "party of the federation",
                _parties,
                "name, rows, rows by class (ten), result of the last test",
            ),
            Term("cohort", "party of the cohort", _cohort, "its number"),
        ),
    ),
    "checkpoint": Cost(
        "the checkpoint",
        "B",
        (
            Term("file", "file", _one, "what does not depend on parties"),
            Term("model", "byte of the server's vectors", _server_bytes, "parameters, and SCAFFOLD's c"),
            Term("owners", "party with a memory", _remembered, "its name in the header"),
            Term("memories", "byte of a memory", _remembered_bytes, "as it is"),
        ),
    ),
    "setting": Cost("a setting for a machine", "B", _SETTING),
    "unpack": Cost("its unpacking by a worker", "s", _SETTING),
    "ray start": Cost(
        "start of Ray",
        "s",
        (
            Term("cluster", "cluster", _one, "services start, machines state their versions; seconds of the clock"),
            Term("workers", "worker", lambda case: case.workers, "a process that imports torch"),
        ),
    ),
    "ray driver": Cost("driver", "s", _CLUSTER),
    "ray workers": Cost("all workers together", "s", _WORKERS),
}
