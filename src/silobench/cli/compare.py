"""The command `compare`: is one of two algorithms better, by a difference that matters?"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from silobench.cli.busy import waiting
from silobench.cli.options import Json, LoadedPlugins
from silobench.cli.output import print
from silobench.cli.results import readable, report_damage
from silobench.cli.sources import Directory, Published, Source
from silobench.errors import SilobenchError

if TYPE_CHECKING:
    from silobench.analysis.compare import Comparison, Ropes

_A = Annotated[str | None, typer.Argument(metavar="A", help='An algorithm of these runs, such as "fedprox(mu=0.1)".')]
_By = Annotated[
    str,
    typer.Option(
        help='The key that A and B are values of, such as transforms, with "" or none for no transforms; the runs '
        "of a pair differ in nothing else."
    ),
]
_Metric = Annotated[
    str | None,
    typer.Option(
        help="A metric that the runs record, such as accuracy, mae or auc; best, rounds, bytes or seconds; own "
        "(the mean over parties on their own test rows); convergence, throughput, throughput-core, overhead or "
        "uplink-ratio. The main metric by default."
    ),
]
_Rope = Annotated[
    str | None,
    typer.Option(
        help="Smaller differences do not matter; 0.01 of accuracy and most metrics, 0.1 of MAE or RMSE, 10 rounds, "
        "0.1 of overhead, a tenth of other costs. Or a paper that states them, such as oarf."
    ),
]
_Rho = Annotated[float | None, typer.Option(help="Correlation between trials; the share of test rows by default.")]
_Target = Annotated[float | None, typer.Option(help="The value of the main metric to reach, for rounds and bytes.")]
_Plot = Annotated[
    Path | None,
    typer.Option(help="Draw the posterior of each setting with the region of equivalence: a .pdf, .svg or .png file."),
]


def compare(
    directory: Directory = None, a: _A = None,
    b: Annotated[str | None, typer.Argument(metavar="B", help="The algorithm to compare it with.")] = None,
    by: _By = "algorithm", metric: _Metric = None, rope: _Rope = None, rho: _Rho = None, target: _Target = None,
    only: Annotated[str, typer.Option(help="Only settings that match this glob, as in 'digits / *dirichlet*'.")] = "*",
    plot: _Plot = None, published: Published = False, json_: Json = False, plugin: LoadedPlugins = None,
) -> None:  # fmt: skip
    """Compare two algorithms on equal settings and seeds: Bayesian tests with a region of practical equivalence.

    --by compares two values of another key of the experiment instead.
    """
    from silobench.analysis import compare as comparing
    from silobench.analysis.cells import collect

    if published and b is None:  # without the name of a study
        directory, a, b = None, directory and str(directory), a
    results = Source(directory, published).read()
    cells = collect(readable(results))
    try:
        a, b = comparing.checked_names(a, b, cells, by)
        chosen = _rope(rope)
        question = comparing.checked_question(metric, chosen, rho, target, comparing.matching(cells, only, by) or cells)
        with waiting("comparing"):
            comparison = comparing.compare(cells, a, b, question, only, by)
    except SilobenchError:
        report_damage(results)  # what is asked for may be in a damaged run
        raise
    _show(comparison, plot, json_)
    report_damage(results)


def _show(comparison: "Comparison", plot: Path | None, json_: bool) -> None:
    """Draw the comparison, if there is a file for it, and print it as a table or as JSON."""
    from silobench.analysis.comparison_table import comparison_table
    from silobench.cli.terminal import print_table

    if plot:
        from silobench.report.posteriors import plot_comparison  # loads matplotlib

        plot_comparison(comparison, plot)
    if json_:
        print(json.dumps(comparison.as_json(), indent=1))
    else:
        print_table(comparison_table(comparison))
        if plot:
            print(f"wrote {plot}")


def _rope(text: str | None) -> "float | Ropes | None":
    """Return what --rope means."""
    if text is None:
        return None
    from silobench.papers import rope_option

    return rope_option(text)
