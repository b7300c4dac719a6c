"""Tables of a leaderboard: the standings over settings, and ranks and scores by setting; and its rules in words."""

from collections.abc import Sequence

from silobench.analysis.cells import CellResult
from silobench.analysis.leaderboard import Board, RankedContest
from silobench.analysis.ranking import Place
from silobench.analysis.tables import Entry, Table, entries, published_text, replication_notes

MOST_ACROSS = 12  # methods of a table; of more, those of the standings are shown
RULES = (
    "A setting is one task: the same data (by checksum), the same partition (by spec, and by the fingerprint of each "
    "seed), the same model, number of parties, rounds, participation, network and test rows. Runs that differ in any "
    "of these are never compared.",
    "A method is what its author chooses: algorithm, solver, transforms, server optimizer, exchange, aggregate and "
    "the like. Another learning rate is another method of the same setting. Its name is the algorithm, and what else "
    "tells it apart in its setting; so over settings a name can stand for several solvers.",
    "The score is the main metric in the last tested round, or in the last tested round inside the budget; never in "
    "the best round. A method is out of a budget if one of its trials has no tested round inside it.",
    "Trials are paired by seed. A method is better than another if it is better by more than the region of practical "
    "equivalence (one percentage point for accuracy) with a probability above 0.95, by the Bayesian correlated "
    "t-test. Everything else is a tie.",
    "A rank is 1 + the number of methods that are better. So a method shares rank 1 unless another is decidedly "
    "better, also if its trials are few or scatter widely.",
    "A method with one trial has a score and no rank: there is no spread to judge by.",
    "A method with a trial without a finite score is worse than any method whose trials all have one.",
    "Solo (each party alone), combined (all rows in one place) and joined trees are reference points: they are shown "
    "and not ranked.",
    "The mean rank is over settings; in a setting, methods that tie share the mean of their places. Its interval is "
    "95%, by resampling settings. Methods are ordered by the mean share of rivals that are better, ties counting "
    "half; where all methods have all settings that is the order of mean ranks.",
    "Over settings too, methods share a rank unless one is ahead in six settings or more that both have: the 95% "
    "interval of the difference, by resampling settings, then excludes 0. The ranks over one setting are those in it.",
    "The standings list methods that entered at least a quarter of the settings of the method that entered most; the "
    "others are in the tables of their settings.",
    "A limit on epsilon counts only runs with a guarantee of differential privacy. Time is virtual: network and "
    "computing of the slowest party.",
)  # fmt: skip

_ROWS = "rows are in the order of the mean share of rivals that are better, ties counting half"
_RANKS = (
    "a rank is 1 + the number of methods that are ahead where both entered six settings or more, so it need not follow "
    "the order of rows or of mean ranks"
)


def rank_text(place: Place | None) -> str:
    """Return a rank, with = if it is shared; a dash without one.

    >>> rank_text(Place(0, 2, 1)), rank_text(Place(2, 0, 0)), rank_text(None)
    ('1=', '3', '-')
    """
    if place is None:
        return "-"
    return f"{place.above + 1}{'=' * (place.ties > 0)}"


def standings_table(board: Board) -> Table:
    """Return the methods over all settings, the best first."""
    shared = [standing.rank for standing in board.standings]
    rows = []
    for standing in board.listed:
        interval = "-" if standing.interval is None else "[{:.2f}, {:.2f}]".format(*standing.interval)
        texts = [
            f"{standing.rank}{'=' * (shared.count(standing.rank) > 1)}", standing.method, str(standing.settings),
            f"{standing.mean_rank:.2f}", interval, str(standing.first), str(standing.alone),
            f"{standing.wins} / {standing.ties} / {standing.losses}",
        ]  # fmt: skip
        rows.append([Entry(texts[0], best=standing.rank == 1), *entries(*texts[1:])])
    count = len(board.ranked)
    columns = [
        "rank", "method", "settings", "mean rank", "95% interval", "first", "first alone",
        "wins / ties / losses",
    ]  # fmt: skip
    note = f"{_ROWS}, and {_RANKS}" if count > 1 else _ROWS
    note += (
        "; = shares its rank; first: settings in which no method is better; wins, ties and losses: over all pairs of a "
        "setting and a rival"
    )
    if rare := len(board.standings) - len(board.listed):
        note += f"; {rare} more methods entered too few settings to be listed here"
    return Table(f"Methods over {count} setting{'s' * (count != 1)}, {board.budget.text}", columns, rows, note)


def contests_table(board: Board) -> Table:
    """Return ranks and scores by setting, methods across, and the baselines beside them.

    Of very many methods it has those of the standings, and the settings that these entered.
    """
    entered = [[*one.listed, *one.contest.outside] for one in board.contests]
    methods = _in_order(entered, [standing.method for standing in board.standings])
    every = len(methods)
    if every > MOST_ACROSS:
        methods = [standing.method for standing in board.listed]
    baselines = _in_order([list(one.contest.baselines) for one in board.contests], [])
    keys = list(dict.fromkeys(key for one in board.contests for key, _ in one.contest.choices))
    rows = []
    for one in board.contests:
        choices = dict(one.contest.choices)
        scores = [_score(one, name) for name in methods]
        compared = [_reference(one, name) for name in baselines]
        if not any(entry.text for entry in (*scores, *compared)):
            continue
        texts = entries(one.contest.skew, *(choices.get(key, "") for key in keys), one.contest.metric.heading)
        rows.append([*texts, *scores, *compared])
    note = (
        "mean ± standard deviation over trials (rank); * shares rank 1; = ties with another method; no rank: one "
        "trial, or no rival with two shared seeds"
    )
    references = f"; not ranked: {', '.join(baselines)}" if baselines else ""
    return Table(
        f"Ranks and scores by setting, {board.budget.text}",
        ["skew", *keys, "metric", *methods, *baselines],
        rows,
        "; ".join([note + references, *replication_notes(_cells(board))])
        + _left_out(board)
        + _not_shown(every - len(methods), len(board.contests) - len(rows)),
    )


def _not_shown(methods: int, settings: int) -> str:
    """Return how many methods are not in the table, and how many settings have no others."""
    if not methods:
        return ""
    only = f", and {settings} setting{'s' * (settings != 1)} with no other" if settings else ""
    return f"; {methods} more method{'s' * (methods != 1)}{only}, on the page and in --json"


def _cells(board: Board) -> list[CellResult]:
    return [cell for one in board.contests for cell in (*one.contest.methods.values(), *one.contest.baselines.values())]


def _left_out(board: Board) -> str:
    texts = []
    if board.budget and (outside := sum(len(one.contest.outside) for one in board.contests)):
        texts.append(f"{outside} entries have no tested round inside the budget")
    if board.other_partition:
        texts.append(f"{board.other_partition} runs are left out: their parties have other rows for the same seed")
    return "".join(f"; {text}" for text in texts)


def _in_order(groups: Sequence[Sequence[str]], first: Sequence[str]) -> list[str]:
    return list(dict.fromkeys((*first, *(name for group in groups for name in group))))


def _score(one: RankedContest, name: str) -> Entry:
    if name in one.contest.outside:
        return Entry("over budget")
    cell = one.contest.methods.get(name)
    if cell is None:
        return Entry("")
    place = one.places.get(name)
    texts = (rank_text(place) if place else "", published_text(cell.published))
    return Entry(score_text(cell), best=bool(place and place.above == 0), paper="; ".join(filter(None, texts)))


def _reference(one: RankedContest, name: str) -> Entry:
    cell = one.contest.baselines.get(name)
    return Entry(score_text(cell) if cell else "")


def score_text(cell: CellResult) -> str:
    """Return the main metric over trials, without its unit."""
    return "diverged" if cell.diverged else cell.metric.number(cell.score.mean, cell.score.std)
