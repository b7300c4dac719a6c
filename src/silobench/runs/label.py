"""Labels: the choices of a run, as text to show and as specs to compute with."""

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from silobench.spec import Spec, parse, parse_terms

# Keys that were added later: at these values they are left out, so that older runs keep their names.
LATER = {
    "selection": "uniform",
    "buffers": "average",
    "start": "random",
    "measure": "",
    "exchange": "star",
    "aggregate": "mean",
    "availability": "always",
    "pace": "synchronous",
    "clock": "measured",
    "device": "cpu",
    "objective": "auto",
    "split": "given",
    "metric": "",
    "broadcast": "",
    "adversary": "none",
}
PLUGIN = "plugin"  # the argument of a spec in a label whose name was taken by a plugin
_DEFAULTS = {"server": "step", "controller": "fixed", "network": "link", "transforms": "", **LATER}


class _Parsed:
    """An attribute of a label: the spec that the choice of this name means."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, label: "Label", owner: type) -> Spec:
        return _parsed(label.text(self._name))


class _Terms:
    """An attribute of a label: the specs of a sum or a chain."""

    def __init__(self, mark: str) -> None:
        self._mark = mark

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, label: "Label", owner: type) -> tuple[Spec, ...]:
        return _terms(label.text(self._name), self._mark)


class Label(Mapping[str, Any]):
    """The choices of a run. An item is the choice as written, an attribute of the same name the spec that it means.

    Labels with the same choices are equal and have the same hash: a label is a key to group runs by.

    >>> label = Label({"algorithm": "fedprox(mu=0.1)", "partition": "shards + share(beta=0.1)", "seed": 3})
    >>> label["algorithm"], label.algorithm.name, dict(label.algorithm.kwargs)
    ('fedprox(mu=0.1)', 'fedprox', {'mu': 0.1})
    >>> [term.name for term in label.partition]
    ['shards', 'share']
    >>> label.without("seed", "partition") == Label({"algorithm": "fedprox(mu=0.1)"})
    True
    >>> label.text("start")  # runs without this choice, and runs from before it existed, do not state it
    'random'
    """

    __slots__ = ("_choices", "_key", "_parts")

    def __init__(self, choices: Mapping[str, Any]) -> None:
        self._choices = dict(choices)
        self._key: frozenset[tuple[str, str]] | None = None
        self._parts: dict[tuple[str, ...], Label] | None = None

    def __getitem__(self, name: str) -> Any:
        return self._choices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)

    def __repr__(self) -> str:
        return f"Label({self._choices!r})"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Label) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> frozenset[tuple[str, str]]:
        """All choices by name. Values count by their form: a participation of 1.0 is all parties, and of 1 is one."""
        if self._key is None:
            self._key = frozenset(zip(self._choices, map(repr, self._choices.values()), strict=True))
        return self._key

    def without(self, *names: str) -> "Label":
        """Return all choices but these: the same label each time, because groups ask again and again for its hash."""
        if self._parts is None:
            self._parts = {}
        part = self._parts.get(names)
        if part is None:
            part = Label({name: value for name, value in self._choices.items() if name not in names})
            self._parts[names] = part
        return part

    def replace(self, **choices: Any) -> "Label":
        """Return the label with some choices replaced or added."""
        return Label({**self._choices, **choices})

    def with_seed(self, seed: int) -> "Label":
        """Return the label of a trial: another seed in the same place. All of them share one label without it."""
        label = self.replace(seed=seed)
        label._parts = {("seed",): self.without("seed")}
        return label

    def text(self, name: str) -> str:
        """Return a choice as it is shown; one that is not stated is at its default, or empty."""
        return str(self._choices.get(name, _DEFAULTS.get(name, "")))

    # --- parsed ---------------------------------------------------------------------------------------

    dataset = _Parsed()
    model = _Parsed()
    algorithm = _Parsed()
    solver = _Parsed()
    server = _Parsed()
    selection = _Parsed()
    controller = _Parsed()
    network = _Parsed()
    exchange = _Parsed()
    aggregate = _Parsed()
    availability = _Parsed()
    adversary = _Parsed()
    pace = _Parsed()
    clock = _Parsed()
    start = _Parsed()
    objective = _Parsed()
    partition = _Terms("+")
    measure = _Terms("+")
    metric = _Terms("+")  # those that were asked for besides the metrics of the objective
    transforms = _Terms("|")  # empty where messages are sent as they are
    broadcast = _Terms("|")  # empty where the server sends the whole model

    @property
    def split(self) -> str:
        return self.text("split")

    @property
    def buffers(self) -> str:
        return self.text("buffers")

    @property
    def device(self) -> str:
        return self.text("device")

    @property
    def has_replaced_parts(self) -> bool:
        """Whether a plugin has replaced a part of silobench that this run used."""
        if not any(PLUGIN in text for text in self._choices.values() if isinstance(text, str)):
            return False
        names = ("dataset", "model", "algorithm", "solver", "server", "selection", "controller", "network")
        later = ("exchange", "aggregate", "availability", "pace", "clock", "start", "objective", "adversary")
        parts = [_parsed(self.text(name)) for name in (*names, *later) if self.text(name)]
        every = (*parts, *self.partition, *self.transforms, *self.broadcast, *self.measure)
        return any(name == PLUGIN for part in every for name, _ in part.kwargs)

    @property
    def replaced_measures(self) -> frozenset[str]:
        """The measures of silobench that a plugin has replaced: their findings have another form."""
        specs = self.measure if PLUGIN in self.text("measure") else ()
        return frozenset(spec.name for spec in specs if any(name == PLUGIN for name, _ in spec.kwargs))

    @property
    def parties(self) -> int | None:
        """The number of parties that was chosen; None where the partition itself decides."""
        return self._choices.get("parties")

    @property
    def participation(self) -> float | int:
        """A fraction of the parties, or a count if it is an integer."""
        return self._choices.get("participation", 1.0)  # type: ignore[no-any-return]

    @property
    def rounds(self) -> int:
        return int(self._choices["rounds"])

    @property
    def eval_every(self) -> int:
        return int(self._choices.get("eval_every", 1))

    @property
    def eval_on(self) -> float | int:
        """A fraction of the test rows, or a count if it is an integer."""
        return self._choices.get("eval_on", 1.0)  # type: ignore[no-any-return]

    @property
    def validation(self) -> float:
        return float(self._choices.get("validation", 0.0))

    @property
    def seed(self) -> int:
        return int(self._choices["seed"])


_parsed = functools.cache(parse)


@functools.cache
def _terms(text: str, operator: Any) -> tuple[Spec, ...]:
    return parse_terms(text, operator) if text else ()


def distinguishing(labels: Sequence[Mapping[str, Any]], but: Sequence[str]) -> list[str]:
    """Return the choices in which runs of one dataset differ, leaving some out.

    >>> distinguishing([{"dataset": "a", "lr": 1, "seed": 0}, {"dataset": "a", "lr": 2, "seed": 1}], but=["seed"])
    ['lr']
    """
    differences = Differences()
    for label in labels:
        differences.add(label)
    return differences.names(but)


class Differences:
    """The choices in which runs of one dataset differ, from labels that are added one by one and not stored."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], set[str]] = {}
        self._counts: Counter[str] = Counter()
        self._labels = 0

    def add(self, label: Mapping[str, Any]) -> None:
        self._labels += 1
        self._counts.update(label.keys())
        for key, value in label.items():
            self._values.setdefault((key, label["dataset"]), set()).add(repr(value))

    def names(self, but: Sequence[str]) -> list[str]:
        """Return the choices that differ, leaving some out; one that only some labels state differs."""
        different = [
            key for (key, _), values in self._values.items() if len(values) > 1 or self._counts[key] < self._labels
        ]
        return [key for key in dict.fromkeys(different) if key not in but]
