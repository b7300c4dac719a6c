"""Findings 28 to 31 of OARF: parties that hold columns, and encryption at the cut (appendices B.7 and B.8)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from silobench.analysis import costs
from silobench.analysis.cells import CellResult
from silobench.analysis.claims import Findings
from silobench.analysis.compare import Question, paired, rope_of
from silobench.analysis.costs import PARTIES
from silobench.analysis.evidence import Evidence, Gap, any_holds, gap, has_learnt
from silobench.analysis.groups import Cells, accuracy_text, by_seed, dataset_name, grouped, setting_name
from silobench.analysis.specs import arguments
from silobench.papers.oarf.hybrid import seconds
from silobench.papers.oarf.measures import mean_of, too_few_text, two_text
from silobench.papers.oarf.settings import COMBINED, NAME, SOLO
from silobench.runs.label import Label

FINDINGS = Findings(NAME, is_vertical=True)
SPLIT = "split"
YEAR, RECOMMENDATION = "year", "recommendation"
METRICS = {YEAR: "mae", RECOMMENDATION: "mse"}  # by which the paper judges its tasks
ROPES = {"mae": 0.1, "mse": 0.01, "throughput": 1000.0}  # the paper's regions of equivalence
PAPERS_RATE = 0.61  # samples per second with encryption, in the paper
_LEARNT = 0.95  # of the error of a constant answer
_SLOWER = 10.0  # times: what is slower by more is called unusable
_LONGER = 10.0  # times as long as communication
_ON_CIPHERTEXTS = ("encrypt", "encode", "aggregate")  # parts of time: encryption, addition, decryption
_NOT_TRAINED = ("measure", "metric", "eval_every", "eval_on")  # keys that do not change what is trained


@dataclass(frozen=True)
class Setup:
    """The ways to train on the columns of the same parties."""

    split: CellResult | None = None
    combined: CellResult | None = None
    single: Mapping[str, CellResult] = field(default_factory=dict)  # by party
    encrypted: Mapping[str, CellResult] = field(default_factory=dict)  # by scheme

    @property
    def cells(self) -> list[tuple[str, CellResult]]:
        """Every cell by name: each party by itself, combined, split, encrypted."""
        named = [(COMBINED, self.combined), (SPLIT, self.split)]
        return [
            *self.single.items(), *((name, cell) for name, cell in named if cell),
            *((f"{SPLIT} with {scheme}", cell) for scheme, cell in self.encrypted.items()),
        ]  # fmt: skip


def setups(cells: Cells) -> list[Setup]:
    """Return the plain ways to train of all settings: no defences, no transforms, one solver for all parties.

    A run that also measures leakage counts only where there is none without measures.
    """
    plain = [cell for cell in cells if not cell.label.text("transforms") and not cell.label.text("broadcast")]
    ordered = sorted(plain, key=lambda cell: not cell.label.measure)
    settings = grouped(ordered, lambda cell: cell.label.without("algorithm", *_NOT_TRAINED))
    return [setup for setup in map(_setup, settings) if len(setup.cells) > 1]


def _setup(setting: Cells) -> Setup:
    named: dict[str, CellResult] = {}
    single: dict[str, CellResult] = {}
    encrypted: dict[str, CellResult] = {}
    for cell in setting:  # those without measures come last, and replace others
        name, options = cell.label.algorithm.name, arguments(cell.config.algorithm)
        if name == SOLO and (facts := cell.runs[0].facts.vertical):
            single[str(options.get("party") or facts.label)] = cell
        elif name == COMBINED:
            named[COMBINED] = cell
        elif name == SPLIT and not options.get("defence") and not options.get("solvers"):
            scheme = str(options.get("encryption") or "none")
            if scheme == "none":
                named[SPLIT] = cell
            else:
                encrypted[scheme] = cell
    return Setup(named.get(SPLIT), named.get(COMBINED), single, encrypted)


def vertical_task(label: Label) -> str | None:
    """Return the paper's task that a run is of, or the nearest one; None for any other task.

    Here year prediction is of Billboard's number ones, for FMA and the Million Song Dataset, and recommendation is of
    MovieLens with facts of films.
    """
    name = label.dataset.name
    if name in ("billboard", "year-prediction", "fma"):
        return YEAR
    return RECOMMENDATION if name.startswith("movielens") else None


def rope(cell: CellResult) -> float:
    """Return the difference in the main metric that does not matter: the paper's for its tasks, else a default."""
    is_papers = METRICS.get(vertical_task(cell.label) or "") == cell.metric.name
    return ROPES[cell.metric.name] if is_papers else rope_of(cell.metric)


def lead(a: CellResult, b: CellResult, *references: CellResult) -> Gap:
    """Return by how much `a` is better than `b` on the aligned rows; it decides nothing if no cell has learnt."""
    pairs = paired(a, b, Question(a.metric.name, rope(a), score=a.metric))
    posterior = pairs.posterior if pairs else None
    if posterior and not a.metric.higher_is_better:
        posterior = replace(posterior, mean=-posterior.mean)
    return Gap(posterior, any(map(learns, (a, b, *references))))


def learns(cell: CellResult) -> bool:
    """Whether a model is better than a constant answer: by 5 points, or by a twentieth of its error."""
    if cell.metric.higher_is_better:
        return has_learnt(cell)
    return cell.baseline is not None and cell.score.mean < _LEARNT * cell.baseline


def _lead_text(a: CellResult, b: CellResult) -> str:
    """Return the scores of two cells, with the lead of the first."""
    metric, difference = a.metric, lead(a, b)
    scores = f"{accuracy_text(a)} and {accuracy_text(b)}"
    if difference.posterior is None:
        return f"{scores}, {difference.text()}"
    mean, (low, high) = difference.posterior.mean, difference.posterior.interval()
    shown = (f"{metric.factor * value:+z.3f}" for value in (mean, low, high))
    return f"{scores}, better by {{}} [{{}}, {{}}] {_unit(a)}".format(*shown)


def _unit(cell: CellResult) -> str:
    """Return the unit of a difference in the main metric."""
    metric = cell.metric
    return "percentage points" if metric.is_share else metric.unit or metric.title


def _name(cell: CellResult) -> str:
    """Return the dataset, the partition and the network of a cell."""
    return f"{setting_name(cell)} {cell.label.text('model')}"


def _rates(a: Mapping[int, float], b: Mapping[int, float]) -> str:
    """Return two rates with whole numbers."""
    return f"{mean_of(a):,.0f} and {mean_of(b):,.0f} rows/s{too_few_text(a, b)}"


# --- findings -----------------------------------------------------------------------------------------


@FINDINGS.add(
    "oarf-28",
    "Split learning over columns is as good as training on all columns in one place.",
    {"as good as combined": "most"},
    "oarf-vertical",
)
def split_equals_combined(cells: Cells) -> Iterator[Evidence]:
    """Compare split with combined training by the paper's regions of equivalence, on the same rows."""
    for setup in setups(cells):
        split, combined = setup.split, setup.combined
        if split and combined:
            holds = lead(split, combined).within(rope(split))
            most = f"{split.metric.factor * rope(split):g} {_unit(split)}"
            test = f"correlated t-test: they differ by at most {most}, only if a model has learnt"
            yield Evidence("as good as combined", _name(split), _lead_text(split, combined), test, holds)


@FINDINGS.add(
    "oarf-29",
    "Vertical federation is not always better: in some task, a party by itself has a better model.",
    {"a party by itself is better in some task": "any"},
    "oarf-vertical",
)
def single_may_be_better(cells: Cells) -> Iterator[Evidence]:
    """Look for a task in which a party's own model is better than the split one, on the rows that all parties have."""
    every = _with_single(cells)
    looks = sum(len(single) for _, single in every)
    for tasks in grouped(every, lambda setup: _task_key(setup[0])):
        pairs = [(split, party, cell) for split, single in tasks for party, cell in single.items()]
        holds = any_holds(lead(cell, split).more_than(rope(split), looks) for split, _, cell in pairs)
        names = f"{', '.join(dict.fromkeys(dataset_name(split) for split, _ in tasks))}: each party against split"
        numbers = "; ".join(
            f"{dataset_name(split)}, {party}: {_lead_text(cell, split)}" for split, party, cell in pairs
        )
        test = "correlated t-test: better by more than the region of equivalence somewhere, on the same rows"
        yield Evidence("a party by itself is better in some task", names, numbers, test, holds)


def _with_single(cells: Cells) -> list[tuple[CellResult, Mapping[str, CellResult]]]:
    return [(setup.split, setup.single) for setup in setups(cells) if setup.split and setup.single]


def _task_key(cell: CellResult) -> Label:
    """Return the choices that tasks share."""
    return cell.label.without(
        "dataset", "model", "partition", "parties", "solver", "rounds", "objective", "algorithm", *_NOT_TRAINED
    )


@FINDINGS.add(
    "oarf-30",
    "A party by itself trains faster than all columns in one place, and split learning is slower than both.",
    {"a party by itself is faster than combined": "most", "combined is faster than split": "most"},
    "oarf-vertical",
)
def throughput_falls(cells: Cells) -> Iterator[Evidence]:
    """Compare rows per second of round time, in which a set of linked rows counts once."""
    for setup in setups(cells):
        if setup.combined is None:
            continue
        name = _name(setup.combined)
        combined = by_seed(setup.combined, costs.throughput)
        pairs = [
            ("a party by itself is faster than combined", f"{party} by itself against combined", cell, True)
            for party, cell in setup.single.items()
        ]
        if setup.split:
            pairs.append(("combined is faster than split", "combined against split", setup.split, False))
        for part, names, cell, is_fast in pairs:
            other = by_seed(cell, costs.throughput)
            fast, slow = (other, combined) if is_fast else (combined, other)
            if fast and slow:
                holds = gap(fast, slow).more_than(ROPES["throughput"])
                test = "t-test: more than 1,000 rows/s higher"
                yield Evidence(part, f"{name}: {names}", _rates(fast, slow), test, holds)


@FINDINGS.add(
    "oarf-31",
    "Homomorphic encryption makes training at the cut much slower; its cost is encryption, not communication.",
    {"more than 10 times slower": "most", "encryption takes over 10 times as long as communication": "most"},
    "oarf-he",
)
def encryption_is_slow(cells: Cells) -> Iterator[Evidence]:
    """Compare encrypted with plain split learning, and encryption with communication; the paper's rate is an aside."""
    for setup in setups(cells):
        plain = by_seed(setup.split, costs.throughput) if setup.split else {}
        for scheme, cell in setup.encrypted.items():
            names = f"{_name(cell)}: {scheme}"
            rate = by_seed(cell, costs.throughput)
            if not rate:
                continue
            if plain:
                holds = gap(plain, {seed: _SLOWER * value for seed, value in rate.items()}).more_than(0)
                test = "t-test: throughput in the clear is more than 10 times higher"
                numbers = f"{_rates(rate, plain)}; the paper has {PAPERS_RATE} and 19496"
                yield Evidence("more than 10 times slower", f"{names} against none", numbers, test, holds)
            yield _encryption_share(names, cell)
            packed = gap(rate, dict.fromkeys(rate, 100 * PAPERS_RATE)).more_than(0)
            numbers = f"{mean_of(rate):,.0f} rows/s{too_few_text(rate)}"
            test = f"t-test: more than 100 times {PAPERS_RATE} rows/s"
            yield Evidence("over 100 times as fast as the paper's", names, numbers, test, packed, counts=False)


def _encryption_share(names: str, cell: CellResult) -> Evidence:
    encrypted, sent = (by_seed(cell, seconds(PARTIES, *parts)) for parts in (_ON_CIPHERTEXTS, ("communicate",)))
    holds = gap(encrypted, {seed: _LONGER * value for seed, value in sent.items()}).more_than(0)
    numbers = two_text(encrypted, sent, "s per round") if encrypted and sent else "time was not recorded"
    test = "t-test: the mean party works on ciphertexts more than 10 times as long as its messages travel"
    return Evidence("encryption takes over 10 times as long as communication", names, numbers, test, holds)
