"""Labels: the choices of a run, as text to show and as specs to compute with."""

import functools
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

    __slots__ = ("_choices", "_key")

    def __init__(self, choices: Mapping[str, Any]) -> None:
        self._choices = dict(choices)
        self._key: frozenset[tuple[str, str]] | None = None

    def __getitem__(self, name: str) -> Any:
        return self._choices[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)

    def __repr__(self) -> str:
        return f"Label({self._choices!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Label) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> frozenset[tuple[str, str]]:
        """All choices by name. Values count by their form: a participation of 1.0 is all parties, and of 1 is one."""
        if self._key is None:
            self._key = frozenset((name, repr(value)) for name, value in self._choices.items())
        return self._key

    def without(self, *names: str) -> "Label":
        """Return all choices but these."""
        return Label({name: value for name, value in self._choices.items() if name not in names})

    def replace(self, **choices: Any) -> "Label":
        """Return the label with some choices replaced or added."""
        return Label({**self._choices, **choices})

    def text(self, name: str) -> str:
        """Return a choice as it is shown; one that is not stated is at its default, or empty."""
        return str(self._choices.get(name, _DEFAULTS.get(name, "")))

    # --- parsed ---------------------------------------------------------------------------------------

    @property
    def dataset(self) -> Spec:
        return self._spec("dataset")

    @property
    def partition(self) -> tuple[Spec, ...]:
        """The terms of the sum."""
        return _terms(self.text("partition"), "+")

    @property
    def model(self) -> Spec:
        return self._spec("model")

    @property
    def algorithm(self) -> Spec:
        return self._spec("algorithm")

    @property
    def solver(self) -> Spec:
        return self._spec("solver")

    @property
    def transforms(self) -> tuple[Spec, ...]:
        """The links of the chain; empty where messages are sent as they are."""
        return _terms(self.text("transforms"), "|")

    @property
    def broadcast(self) -> tuple[Spec, ...]:
        """The links of the chain of the server's messages; empty where the whole model is sent."""
        return _terms(self.text("broadcast"), "|")

    @property
    def server(self) -> Spec:
        return self._spec("server")

    @property
    def selection(self) -> Spec:
        return self._spec("selection")

    @property
    def controller(self) -> Spec:
        return self._spec("controller")

    @property
    def network(self) -> Spec:
        return self._spec("network")

    @property
    def exchange(self) -> Spec:
        return self._spec("exchange")

    @property
    def aggregate(self) -> Spec:
        return self._spec("aggregate")

    @property
    def availability(self) -> Spec:
        return self._spec("availability")

    @property
    def adversary(self) -> Spec:
        return self._spec("adversary")

    @property
    def pace(self) -> Spec:
        return self._spec("pace")

    @property
    def clock(self) -> Spec:
        return self._spec("clock")

    @property
    def start(self) -> Spec:
        return self._spec("start")

    @property
    def measure(self) -> tuple[Spec, ...]:
        return _terms(self.text("measure"), "+")

    @property
    def objective(self) -> Spec:
        return self._spec("objective")

    @property
    def metric(self) -> tuple[Spec, ...]:
        """The metrics that were asked for besides those of the objective."""
        return _terms(self.text("metric"), "+")

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
        names = ("dataset", "model", "algorithm", "solver", "server", "selection", "controller", "network")
        later = ("exchange", "aggregate", "availability", "pace", "clock", "start", "objective", "adversary")
        parts = [self._spec(name) for name in (*names, *later) if self.text(name)]
        every = (*parts, *self.partition, *self.transforms, *self.broadcast, *self.measure)
        return any(name == PLUGIN for part in every for name, _ in part.kwargs)

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

    def _spec(self, name: str) -> Spec:
        return _parsed(self.text(name))


_parsed = functools.cache(parse)


@functools.cache
def _terms(text: str, operator: Any) -> tuple[Spec, ...]:
    return parse_terms(text, operator) if text else ()


def distinguishing(labels: Sequence[Mapping[str, Any]], but: Sequence[str]) -> list[str]:
    """Return the choices in which runs of one dataset differ, leaving some out.

    >>> distinguishing([{"dataset": "a", "lr": 1, "seed": 0}, {"dataset": "a", "lr": 2, "seed": 1}], but=["seed"])
    ['lr']
    """
    seen: dict[tuple[str, str], set[str]] = {}
    for label in labels:
        for key, value in label.items():
            seen.setdefault((key, label["dataset"]), set()).add(repr(value))
    sometimes = {key for key, _ in seen if not all(key in label for label in labels)}
    different = [key for (key, _), values in seen.items() if len(values) > 1 or key in sometimes]
    return [key for key in dict.fromkeys(different) if key not in but]
