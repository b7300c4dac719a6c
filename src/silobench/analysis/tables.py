"""Tables as values: scores with settings down and algorithms across, other metrics, and what runs cost."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from silobench.analysis.cells import CellResult, Published
from silobench.analysis.choices import method_choices as method_choices
from silobench.analysis.choices import shown as shown
from silobench.analysis.choices import varying as varying
from silobench.analysis.constants import beats_constant, versus_constant
from silobench.analysis.grids import GRID as GRID
from silobench.analysis.grids import best_of_grids as best_of_grids
from silobench.analysis.grids import column_of
from silobench.analysis.grids import folded as folded
from silobench.analysis.grids import is_fedprox as is_fedprox
from silobench.analysis.groups import accuracy_text, by_metric, grouped, settings_of
from silobench.analysis.specs import arguments, partition_kinds
from silobench.analysis.units import duration, percent, size
from silobench.errors import listed
from silobench.tasks.metrics import Metric

_SILOS = "silos"  # the engine of runs between real organisations
BASELINES = ("solo", "combined", "joined-trees")  # reference points: they are never marked as the best of a row
CONSTANT = "constant"  # the column of the best constant answer
BY_PARTY = "`silobench show DIR --parties`"
MORE_TRIALS = "three trials or more give a spread (`trials = 3` in the experiment, or `silobench run FILE --trials 3`)"
_MOST_NAMED = 5  # settings in a note
_DEFAULT_MU = 0.01
_SKEWS = ("label", "feature", "quantity", "natural", "mixed", "homogeneous", "vertical")  # in the order of rows
_SKEW_OF_KIND = {
    "iid": "homogeneous", "noise": "feature", "octants": "feature", "by-group": "natural",
    "quantity-dirichlet": "quantity", "quantity-power-law": "quantity", "columns": "vertical",
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One cell of a table: its text, whether it is the best of its row, and the published numbers beside it."""

    text: str
    best: bool = False
    paper: str = ""
    gap: float | None = None  # by how much it is better than the published number, as the text counts
    href: str = ""  # what a page links it to
    replications: str = ""  # what independent replications of the paper have

    @property
    def beside(self) -> str:
        """All published numbers in one line."""
        return "; ".join(filter(None, (self.paper, self.replications)))


@dataclass(frozen=True)
class Table:
    """Column names and rows of entries, for a terminal, a page or a file."""

    title: str
    columns: list[str]
    rows: list[list[Entry]]
    note: str = ""  # how to read it, below the table
    footer: list[list[Entry]] = field(default_factory=list)  # totals, after a separator


def entries(*texts: str) -> list[Entry]:
    return [Entry(text) for text in texts]


def shown_choices(cell: CellResult, names: Sequence[str], cells: Sequence[CellResult]) -> list[Entry]:
    """Return the first entries of a row: a cell's choices."""
    return entries(*(shown(cell, name, cells) for name in names))


def score_tables(cells: Sequence[CellResult], every: bool = False) -> list[Table]:
    """Return one table of scores per main metric, each followed by those on own rows and of the other metrics.

    These two are left out where runs do not have them.
    """
    tables = [
        table
        for group in by_metric(cells)
        for table in (score_table(group, every), own_rows_table(group, every), metrics_table(group))
    ]
    return [table for table in tables if table.rows]


def score_table(cells: Sequence[CellResult], every: bool = False) -> Table:
    """Return the main metric by setting and algorithm, such as accuracy in percent; all cells have the same one.

    An entry is mean ± std over trials, with the published number and the difference to it. The best mean of a row is
    marked if trials have a spread and an algorithm of the row beats the constant answer, which is the last column where
    runs state it. FedProx over a grid of mu is one column with the best mu, unless `every` is set.
    """
    chosen, column = (list(cells) if every else best_of_grids(cells)), column_of(cells, every)
    algorithms, names = list(dict.fromkeys(map(column, chosen))), varying(chosen)
    kinds = [kind for kind in _SKEWS if any(skew_of(cell) == kind for cell in chosen)]
    constant = [CONSTANT] if any(cell.baseline is not None for cell in chosen) else []
    rows, footer = [], []
    for kind in kinds:
        wins: Counter[str] = Counter()
        settings = [group for group in settings_of(chosen) if skew_of(group[0]) == kind]
        for setting in settings:
            by_column = {column(cell): cell for cell in setting}
            best = _best(by_column)
            wins.update(best)  # an equal best counts for each
            scores = [_entry(by_column.get(name), name in best, name == GRID) for name in algorithms]
            scores += entries(*(_constant_text(setting) for _ in constant))
            rows.append([Entry(kind), *entries(*(shown(setting[0], name, cells) for name in names)), *scores])
        if wins and len(settings) > 1:
            blank = [""] * (len(names) - 1)
            counts = [str(wins[name]) for name in algorithms]
            footer.append(entries(kind, f"times best of {len(settings)}", *blank, *counts, *("" for _ in constant)))
    marks = max(sum(entry.best for entry in row) for row in rows)
    columns = ["skew", *names, *algorithms, *constant]
    return Table(_title(chosen), columns, rows, _note(chosen, names, marks, GRID in algorithms), footer)


def own_rows_table(cells: Sequence[CellResult], every: bool = False) -> Table:
    """Return the main metric on the parties' own test rows, by setting and algorithm, as a mean over parties.

    It has the settings in which some algorithm gives parties models of their own, because a score on all test rows
    says little about these models.
    """
    chosen, column = (list(cells) if every else best_of_grids(cells)), column_of(cells, every)
    settings = [group for group in settings_of(chosen) if any(cell.has_party_models for cell in group)]
    settings.sort(key=lambda group: _SKEWS.index(skew_of(group[0])))  # as in the table of scores
    algorithms = list(dict.fromkeys(column(cell) for group in settings for cell in group))
    names, rows, metric = varying(chosen), [], cells[0].metric
    for setting in settings:
        scores = {column(cell): cell.on_own_rows for cell in setting if cell.on_own_rows is not None}
        rivals = {name: score for name, score in scores.items() if not is_baseline(name)}
        has_spread = all(score[1] is not None for score in rivals.values())
        best = best_means({name: score[0] for name, score in rivals.items()}, metric) if has_spread else set()
        texts = {name: metric.number(*score) for name, score in scores.items()}
        marked = [Entry(texts.get(name, ""), name in best) for name in algorithms]
        rows.append([*shown_choices(setting[0], names, cells), *marked])
    where = f"{metric.title[:1].upper()}{metric.title[1:]} on the parties' own test rows"
    title = f"{', '.join(filter(None, (where, metric.unit_text)))} (mean over parties; {over_trials(chosen)})"
    personal = [name for name in algorithms if any(cell.has_party_models and column(cell) == name for cell in chosen)]
    references = [name for name in algorithms if is_baseline(name)]
    star = "* best mean of its row; " if any(entry.best for row in rows for entry in row) else ""
    star += f"{', '.join(references)}: for comparison, never marked; " if star and references else ""
    note = f"{star}{', '.join(personal)}: each party is tested with its own model; {BY_PARTY} lists the parties"
    return Table(title, [*names, *algorithms], rows, note)


def is_baseline(algorithm: str) -> bool:
    """Whether an algorithm is a reference point, with any arguments.

    >>> is_baseline("solo(party=bank)"), is_baseline("split")
    (True, False)
    """
    return algorithm.partition("(")[0] in BASELINES


def skew_of(cell: CellResult) -> str:
    """Return the kind of skew that a partition has, by its name."""
    kinds = partition_kinds(cell.label) or ["iid"]  # rows that are only shared have no skew
    if len(kinds) > 1:
        return "mixed"
    if (cell.label["dataset"], kinds[0]) == ("femnist", "by-group"):
        return "feature"  # each party is one writer with a handwriting of their own
    return _SKEW_OF_KIND.get(kinds[0], "label")


# --- entries ------------------------------------------------------------------------------------------


def _best(by_column: dict[str, CellResult]) -> set[str]:
    """Return the best means of a row, at the precision shown.

    Empty without rivals, without a spread, or if no algorithm of the row beats the constant answer.
    """
    rivals = {name: cell for name, cell in by_column.items() if not is_baseline(name)}
    if len(rivals) < 2 or any(len(cell.seeds) == 1 for cell in rivals.values()):
        return set()
    if all(beats_constant(cell, len(rivals)) is False for cell in rivals.values()):
        return set()
    return best_means({name: cell.score.mean for name, cell in rivals.items()}, next(iter(rivals.values())).metric)


def best_means(means: Mapping[str, float], metric: Metric) -> set[str]:
    """Return the names of the best means at the precision shown; empty for fewer than two."""
    if len(means) < 2:
        return set()
    rounded = {name: round(mean, metric.decimals) for name, mean in means.items()}
    best = metric.best(rounded.values())
    return {name for name, mean in rounded.items() if mean == best != metric.failure}


def _entry(cell: CellResult | None, best: bool, of_grid: bool) -> Entry:
    if cell is None:
        return Entry("")
    mu = f" [mu={arguments(cell.label.algorithm).get('mu', _DEFAULT_MU)}]" if of_grid else ""
    return accuracy_entry(cell, (" †" if cell.diverged else "") + mu, best)


def accuracy_entry(cell: CellResult, mark: str = "", best: bool = False) -> Entry:
    """Return the accuracy of a cell, with a mark behind it and the published numbers beside it."""
    gap = 100 * (cell.score.mean - cell.paper.mean) if cell.paper else None
    paper = f"{published_text([cell.paper])}, {gap:+z.1f}" if cell.paper else ""
    return Entry(accuracy_text(cell) + mark, best, paper, gap, replications=published_text(cell.replications))


def published_text(numbers: Iterable[Published]) -> str:
    """Return published accuracies in percent, each after the name of who prints it.

    >>> published_text([Published(0.682, 0.007, "Table III"), Published(0.634, None, "", by="Flower")])
    'paper 68.2 ± 0.7; Flower 63.4'
    """
    return "; ".join(f"{number.by} {percent(number.mean, number.std)}" for number in numbers)


def _note(cells: Sequence[CellResult], names: Sequence[str], marks: int, of_grid: bool) -> str:
    """Return how to read the table; `marks` is the largest number of entries that are marked in a row."""
    notes, algorithms = (
        [*_losses(cells, names), *_unbeaten(cells, names)],
        {str(cell.label["algorithm"]) for cell in cells},
    )
    if max(len(cell.seeds) for cell in cells) == 1:
        notes.append(f"one trial has no spread, so no best is marked: {MORE_TRIALS}")
    elif marks:
        notes.append(
            "* best mean of its row; a difference within the spread over trials says little (silobench compare)"
        )
        notes += ["equal means are all marked and all counted as best"] if marks > 1 else []
        if baselines := [name for name in BASELINES if any(each.partition("(")[0] == name for each in algorithms)]:
            notes.append(f"{listed(baselines)}: baselines, never marked")
    notes += _lone_algorithm(cells)
    if personal := list(dict.fromkeys(str(cell.label["algorithm"]) for cell in cells if cell.has_party_models)):
        where = f"the mean over the parties' models on all test rows; own rows: the next table, and {BY_PARTY}"
        notes.append(f"{', '.join(personal)}: {where}")
    if of_grid:
        notes.append(f"{GRID}: the mu with the best {cells[0].metric.title} on the test rows, as papers report it")
    notes += replication_notes(cells)
    if any(cell.baseline is not None for cell in cells):
        notes.append(f"{CONSTANT}: the best constant answer on the test rows")
    return "; ".join(notes)


def replication_notes(cells: Iterable[CellResult]) -> list[str]:
    """Return who is behind each replication beside these cells."""
    return sorted({f"{other.by}: {other.setting}" for cell in cells for other in cell.replications})


def _losses(cells: Sequence[CellResult], names: Sequence[str]) -> list[str]:
    """Return a sentence about the cells that lost some rounds, and one about those that lost all of them."""
    some, every = list[str](), list[str]()
    for cell in cells:
        lost, rounds = sum(run.lost_rounds for run in cell.runs), sum(len(run.rounds) for run in cell.runs)
        name = " ".join(filter(None, (*(shown(cell, key, cells) for key in names), str(cell.label["algorithm"]))))
        if lost == rounds:
            every.append(name)
        elif lost:
            some.append(f"{lost} of {rounds} rounds of {name}")
    notes = [f"all rounds were lost, so the score is that of the initial model: {_listed(every)}"] if every else []
    return notes + ([f"lost, because too few parties answered: {_listed(some)}"] if some else [])


def _lone_algorithm(cells: Sequence[CellResult]) -> list[str]:
    """Return why nothing is marked if one algorithm is beside baselines, and whether it beats the constant answer."""
    rivals = [cell for cell in cells if not is_baseline(str(cell.label["algorithm"]))]
    names = {str(cell.label["algorithm"]) for cell in rivals}
    if len(names) != 1 or len(rivals) == len(cells):
        return []
    verdicts = [versus_constant(cell) for cell in rivals]
    better, judged = verdicts.count("better"), [verdict for verdict in verdicts if verdict is not None]
    some = f" in {better} of {len(judged)} settings" if better < len(judged) else ""
    beats = f", and it beats the constant answer{some}" if better else ""
    return [f"{names.pop()} is the only algorithm beside baselines, so no best is marked{beats}"]


def _constant_text(setting: Sequence[CellResult]) -> str:
    """Return the score of the constant answer; empty if no run states it."""
    known = [cell for cell in setting if cell.baseline is not None]
    return known[0].metric.number(known[0].baseline or 0.0) if known else ""


def _unbeaten(cells: Sequence[CellResult], names: Sequence[str]) -> list[str]:
    """Return a sentence for each constant answer that no algorithm beats, with the settings in which none does."""
    settings: dict[tuple[bool, str], list[str]] = {}
    for setting in settings_of(cells):
        rivals = [cell for cell in setting if not is_baseline(str(cell.label["algorithm"]))]
        verdicts = {versus_constant(cell, len(rivals)) for cell in rivals}
        if verdicts and not verdicts & {"better", None}:
            name = " ".join(filter(None, (shown(rivals[0], name, cells) for name in names)))
            settings.setdefault(("unclear" in verdicts, _constant_sentence(rivals)), []).append(name)
    start = {
        False: "no algorithm beats the constant answer by more than noise on",
        True: "the spread over trials is too large to say that an algorithm beats the constant answer on",
    }
    return [f"{start[unclear]} {_listed(where)}: {text}" for (unclear, text), where in settings.items()]


def _constant_sentence(setting: Sequence[CellResult]) -> str:
    answer = setting[0].constant_answer
    always = f"always answering '{answer}'" if answer else "the constant answer"
    return f"{always} scores {_constant_text(setting)}"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _title(cells: Sequence[CellResult]) -> str:
    settings = dict.fromkeys(cell.paper.setting for cell in cells if cell.paper)
    papers = "; paper, and the difference to it: " + "; ".join(settings) if settings else ""
    diverged = "; † diverged, the loss is not finite" if any(cell.diverged for cell in cells) else ""
    metric = cells[0].metric
    title = f"{_task(cells)} {metric.title} in the last round"
    return ", ".join(filter(None, (title, metric.unit_text))) + f" ({over_trials(cells)}{papers}{diverged})"


def over_trials(cells: Sequence[CellResult]) -> str:
    """Return what the numbers of a table are: mean ± std over the trials of a cell, or those of one trial."""
    trials = sorted({len(cell.seeds) for cell in cells})
    upto = "" if len(trials) == 1 else "up to "
    return f"mean ± std over {upto}{trials[-1]} trials" if trials[-1] > 1 else "one trial"


def _task(cells: Sequence[CellResult]) -> str:
    return "Verification" if {cell.dataset.task for cell in cells} == {"verification"} else "Test"


# --- other metrics ------------------------------------------------------------------------------------


def metrics_table(cells: Sequence[CellResult]) -> Table:
    """Return the metrics of each cell besides its main one, and of the constant answer in each setting.

    The main metric is shown next to those that only the final test has. There are no rows where runs record one metric.
    """
    several = [cell for cell in cells if _has_metrics(cell)]
    names = [*varying(several), "algorithm"] if several else []
    final_only = any(cell.runs[0].facts.objective.extra for cell in several)
    shown_metrics = {
        (metric.name, metric.unit): metric
        for cell in several
        for metric, _ in cell.metrics.values()
        if final_only or metric.name != cell.metric.name
    }
    rows = []
    for setting in settings_of(several):
        for cell in setting:
            texts = [_other(cell, metric) for metric in shown_metrics.values()]
            rows.append([*shown_choices(cell, names, several), *entries(*texts)])
        constants = [_constant_of(setting[0], metric) for metric in shown_metrics.values()]
        if any(constants):
            choices = shown_choices(setting[0], names[:-1], several)
            rows.append([*choices, *entries(CONSTANT, *constants)])
    columns = [*names, *(metric.heading for metric in shown_metrics.values())]
    title = "Metrics" if final_only else "Other metrics"
    return Table(f"{title} in the last round (mean ± std over trials)", columns, rows, _metrics_note(rows))


def _has_metrics(cell: CellResult) -> bool:
    last = cell.runs[0].last_test
    return bool(last and (last.metrics or last.final.metrics)) and len(cell.metrics) > 1


def _metrics_note(rows: Sequence[Sequence[Entry]]) -> str:
    has_constants = any(entry.text == CONSTANT for row in rows for entry in row)
    return f"{CONSTANT}: the best constant answer on the test rows, chosen for each metric" if has_constants else ""


def _constant_of(cell: CellResult, metric: Metric) -> str:
    """Return a metric of the constant answer as text; empty where the cell does not have it in this unit."""
    same, _ = cell.metrics.get(metric.name, (None, None))
    return "" if same is None or same.unit != metric.unit or same.constant is None else metric.number(same.constant)


def _other(cell: CellResult, metric: Metric) -> str:
    """Return another metric of a cell as text; empty where the cell does not have it in this unit."""
    same, result = cell.metrics.get(metric.name, (None, None))
    if same is None or result is None or same.unit != metric.unit:
        return ""
    return metric.number(result.mean, result.std)


# --- costs --------------------------------------------------------------------------------------------


def _virtual_time(group: Sequence[CellResult]) -> str:
    """Return the virtual time of a run; only that of the network for runs from before parties were timed."""
    known = [cell.virtual_seconds for cell in group if cell.virtual_seconds is not None]
    if len(known) == len(group):
        return duration(fmean(known))
    return f"{duration(fmean(cell.clock for cell in group))} (network)"


def cost_groups(cells: Sequence[CellResult]) -> tuple[list[str], list[list[CellResult]]]:
    """Return the choices that tables of costs show, and the cells that share them: partitions are left out."""
    names = [name for name in varying(cells) if name not in ("partition", "rounds")] + ["algorithm"]

    def choices_of(cell: CellResult) -> str:
        """Return a key of the choices; the number of parties is that of the cell, which the data may have decided."""
        return repr([cell.parties if name == "parties" else cell.label.get(name) for name in (*names, "rounds")])

    return names, grouped(cells, choices_of)


def cost_table(cells: Sequence[CellResult]) -> Table:
    """Return what a run sends and takes, and what one round does beside the published cost, by algorithm."""
    names, groups = cost_groups(cells)
    rows = []
    for group in groups:
        up, down = (size(fmean(getattr(c, key) for c in group)) for key in ("bytes_up", "bytes_down"))
        computing = duration(fmean(cell.seconds for cell in group))
        done = fmean(cell.rounds for cell in group)  # fewer than planned, where a schedule ended the run
        choices = [*shown_choices(group[0], names, cells), Entry(f"{done:g}" if done.is_integer() else f"{done:.1f}")]
        rows.append([*choices, *entries(up, down, computing, _virtual_time(group)), *_round_cost(group)])
    columns = [
        *names, "rounds", "sent up", "sent down", "computing", "virtual time", "bytes per round", "time per round",
    ]  # fmt: skip
    note = (
        f"computing: {_computing_note(cells)}; virtual time: network and the training of the slowest party in each "
        "round, as if parties worked side by side, without tests, encoding and aggregation; "
        f"bytes per round: {_sent_note(cells)}; "
        "time per round: training and aggregation, without tests"
    )
    return Table("Cost of a run (mean over partitions and trials)", columns, rows, note)


def _computing_note(cells: Sequence[CellResult]) -> str:
    """Return whose seconds the computing of a run is."""
    real = [run.facts.environment.get("engine") == _SILOS for cell in cells for run in cell.runs]
    if not any(real):
        return "wall-clock time, all parties together"
    by_the_lead = "the rounds by the clock of the lead, letters and waits included"
    return by_the_lead if all(real) else f"wall-clock time, all parties together; between real silos {by_the_lead}"


def _sent_note(cells: Sequence[CellResult]) -> str:
    """Return what the bytes of a round are."""
    one_copy = "all parties' messages and one copy of the server's, as published costs are counted"
    if all(cell.is_vertical for cell in cells):
        return "all messages"
    return one_copy + ("; where parties hold columns, all messages" if any(cell.is_vertical for cell in cells) else "")


def _round_cost(group: Sequence[CellResult]) -> list[Entry]:
    copies = {id(c): 1 if c.is_vertical else c.cohort for c in group}  # a message across a cut is for one party
    sent = fmean((c.bytes_up + c.bytes_down / copies[id(c)]) / c.rounds for c in group)
    seconds = fmean(c.round_seconds for c in group)
    paper = group[0].paper_cost
    published = (f"paper {size(paper.bytes)}", f"paper {duration(paper.seconds)}") if paper else ("", "")
    return [Entry(size(sent), paper=published[0]), Entry(duration(seconds), paper=published[1])]
