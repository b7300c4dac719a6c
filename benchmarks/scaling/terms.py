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
    Term("parties", "party of the federation", _parties, "no step of a round visits all parties, so it is near 0"),
    Term("cohort", "party of the cohort", _cohort, "random order, message and record of a party: the same for any size"),
    Term("steps", "step of a party", lambda case: case.cohort * case.steps, "calls per minibatch, without its arithmetic"),
    Term(
        "training", "row × parameter",
        lambda case: case.cohort * case.rows * case.parameters,
        "arithmetic of one pass over a row, forward and backward; the rate of the kernels is the same for any layer",
    ),
    Term(
        "messages", "number of a message",
        lambda case: case.cohort * case.vectors * case.parameters,
        "a message is copied and added a fixed number of times",
    ),
    Term(
        "test", "test row × parameter",
        lambda case: case.tested * case.parameters,
        "arithmetic of one forward pass, on all test rows",
    ),
    Term("memories", "party with a memory", _remembered, "the table of memories is copied in every round, the vectors are not"),
)  # fmt: skip
_START = (
    Term("run", "run", _one, "imports of torch are not in it"),
    Term("parties", "party of the federation", _parties, _EVERY_PARTY),
    Term("rows", "row", _all_rows, "a file is read, checked by its sha256 and counted by class once"),
)
_END = (
    Term("run", "run", _one, "the last test is one of the shared model"),
    Term("parties", "party of the federation", _parties, "the model is scored on each party's own test rows, one by one"),
)
_MEMORY = (
    Term("process", "process", _one, "Python, torch and its libraries"),
    Term("rows", "stored byte of the rows", _stored_bytes, "rows are in memory once, whatever the number of parties"),
    Term("parties", "party of the federation", _parties, "an object, an array and two tensors for each"),
    Term("memories", "byte of a memory", _remembered_bytes, "one vector per party that took part (SCAFFOLD)"),
    Term("owners", "party with a memory", _remembered, "the objects around a memory"),
)
COSTS = {
    "native round": Cost("a round, native", "s", _ROUND),
    "inline round": Cost("a round, inline", "s", _ROUND),
    "prepare": Cost("reading and partitioning", "s", _START),
    "open": Cost("describing the run (run.json)", "s", _START),
    "end": Cost("final test and seal", "s", _END),
    "commit": Cost(
        "packing a checkpoint", "s",
        (
            Term("checkpoint", "checkpoint", _one, "one file"),
            Term("owners", "party with a memory", _remembered, "a name and a checksum for each"),
            Term("memories", "byte of a memory", _remembered_bytes, "copied and summed once or twice"),
        ),
    ),
    "resident": Cost("memory during rounds", "B", _MEMORY),
    "peak": Cost("largest memory", "B", _MEMORY),
    "run.json": Cost(
        "run.json", "B",
        (
            Term("run", "run", _one, "what does not depend on parties"),
            Term("parties", "party of the federation", _parties, "name, rows, rows by class (10 classes), distance of labels"),
        ),
    ),
    "line": Cost(
        "a line of rounds.jsonl", "B",
        (
            Term("round", "round", _one, "metrics, times, bytes"),
            Term("cohort", "party of the cohort", _cohort, "its number"),
        ),
    ),
    "last line": Cost(
        "the last line", "B",
        (
            Term("round", "round", _one, "confusions and calibration too"),
            Term("parties", "party of the federation", _parties, "the result on its own test rows"),
            Term("cohort", "party of the cohort", _cohort, "its number"),
        ),
    ),
    "checkpoint": Cost(
        "the checkpoint", "B",
        (
            Term("run", "run", _one, "header"),
            Term("model", "byte of the server's vectors", _server_bytes, "parameters, and SCAFFOLD's c"),
            Term("memories", "byte of a memory", _remembered_bytes, "as it is"),
            Term("owners", "party with a memory", _remembered, "its name in the header"),
        ),
    ),
}  # fmt: skip
