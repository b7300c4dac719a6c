"""The page of runs without a server: who sends to whom, and how far the parties' models are apart."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from silobench.analysis.cells import CellResult
from silobench.analysis.methods import Setting
from silobench.analysis.tables import Table, entries, shown_choices, varying
from silobench.analysis.units import size
from silobench.errors import listed
from silobench.report.charts.values import Axis, Line, LineChart, Point
from silobench.report.contents import Contents
from silobench.report.drawing import Drawing, Section
from silobench.report.page import Page
from silobench.runs.stored import StoredRun
from silobench.tasks.metrics import Metric

_MOST = 12  # charts; the table has all cells
_SERVER = "star"
_LINKS = "links: messages of a round, each from one party to another"
_MODELS = (
    "best and worst model: those of parties on all test rows, in the last round, as means over trials; where parties "
    "share one model they are empty"
)


def decentralised_page(contents: Contents) -> Page:
    """Return the page of runs without a server; empty if there are none."""
    cells = [cell for cell in contents.cells if is_decentralised(cell)]
    if not cells:
        return Page("decentralised.html", "Decentralised")
    drawings = [
        Drawing(
            f"{setting.name}: {listed([line.name for line in chart.lines])}",
            chart,
            "0 is a perfect consensus: all parties' models have the same score.",
        )
        for setting in contents.settings
        if (chart := _spread_chart(setting, contents.colours))
    ]
    sections = [Section("Exchanges and models", (), _table(cells))]
    if drawings:
        lead = ["How far the scores of the parties' own models are apart after each round."]
        sections.append(Section("Consensus of the models", drawings[:_MOST], lead=lead))
    lead_text = "Parties send messages to each other, and no server adds them up."
    return Page("decentralised.html", "Decentralised", sections, lead_text)


def is_decentralised(cell: CellResult) -> bool:
    """Whether parties that hold rows talk to each other without a server."""
    label = cell.label
    return not cell.is_vertical and (label.exchange.name != _SERVER or label.network.name == "mesh")


def _spread_chart(setting: Setting, colours: Mapping[str, int]) -> LineChart | None:
    """Return the deviation of the score over the parties' models by round; None where there is a shared model."""
    metric = setting.first.metric
    lines = [
        Line(method, points, colours[method])
        for method, cell in setting.cells.items()
        if is_decentralised(cell) and (points := _spreads(cell, metric))
    ]
    if not lines:
        return None
    y = Axis(f"deviation of the {metric.title} over models", "points" if metric.is_share else metric.unit, low=0.0)
    return LineChart(f"spread of the parties' models, {setting.name}", Axis("round", scale="whole"), y, lines)


def _spreads(cell: CellResult, metric: Metric) -> list[Point]:
    trials = [{row.round: row.accuracy_std for row in run.tested if row.accuracy_std is not None} for run in cell.runs]
    shared = [at for at in trials[0] if all(at in trial for trial in trials)]
    return [Point(at, metric.factor * fmean(trial[at] for trial in trials)) for at in shared]


def _table(cells: Sequence[CellResult]) -> Table:
    names = [*varying(cells), "algorithm"]
    names = [*names, *(name for name in ("exchange",) if name not in names)]
    rows = []
    for cell in cells:
        models = [_of_models(run) for run in cell.runs]
        known = [pair for pair in models if pair]
        best, worst = ([metric_mean(known, place, cell.metric)] if known else [""] for place in (0, 1))
        rows.append([
            *shown_choices(cell, names, cells),
            *entries(_links(cell), size((cell.bytes_up + cell.bytes_down) / cell.rounds),
                     cell.metric.number(cell.score.mean, cell.score.std), *best, *worst),
        ])  # fmt: skip
    heading = cells[0].metric.heading
    columns = [*names, "links", "bytes per round", heading, "best model", "worst model"]
    note = "; ".join(text for place, text in ((-5, _LINKS), (-2, _MODELS)) if any(row[place].text for row in rows))
    return Table("Runs without a server", columns, rows, note)


def metric_mean(pairs: Sequence[tuple[float, float]], place: int, metric: Metric) -> str:
    """Return the mean of the best, place 0, or the worst model over trials."""
    return metric.number(fmean(pair[place] for pair in pairs))


def _of_models(run: StoredRun) -> tuple[float, float] | None:
    """Return the best and the worst score of a party's model on all test rows; None where all share one."""
    scores = [result.score_on_all for result in run.final.parties.values() if result.score_on_all is not None]
    return (run.metric.best(scores), run.metric.worst(scores)) if scores else None


def _links(cell: CellResult) -> str:
    """Return the messages of a round; empty for runs from before they were counted."""
    counts = [sum(phase.get("messages", 0) for phase in row.phases.values()) for row in cell.runs[0].rounds]
    return f"{fmean(counts):g}" if any(counts) else ""
