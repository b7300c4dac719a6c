"""``silobench compare``: is one algorithm better than another, by more than matters?"""

import json
from pathlib import Path
from typing import Annotated

import typer

from silobench.cli_data import Json


def compare(
    directory: Annotated[Path, typer.Argument(help="Directory of runs.")],
    a: Annotated[str, typer.Argument(metavar="A", help='An algorithm of these runs, as "fedprox(mu=0.1)".')],
    b: Annotated[str, typer.Argument(metavar="B", help="The algorithm to compare it with.")],
    metric: Annotated[str, typer.Option(help="accuracy, best, rounds, bytes or seconds.")] = "accuracy",
    rope: Annotated[
        float | None,
        typer.Option(
            help="Differences up to this do not matter; 0.01 of accuracy, 10 rounds, a tenth of bytes or seconds."
        ),
    ] = None,
    rho: Annotated[
        float | None, typer.Option(help="Correlation between trials; the share of test rows by default.")
    ] = None,
    target: Annotated[float | None, typer.Option(help="The accuracy to reach, for rounds and bytes.")] = None,
    only: Annotated[str, typer.Option(help="Only settings that match this glob, as 'digits / *dirichlet*'.")] = "*",
    json_: Json = False,
) -> None:
    """Compare two algorithms on equal settings and seeds: Bayesian tests with a region of practical equivalence."""
    from silobench.analysis import collect
    from silobench.analysis.compare import compare as test
    from silobench.analysis.compare import comparison_table, question
    from silobench.record import read_runs
    from silobench.terminal import print_table

    asked = question(metric, rope, rho, target)
    found = test(collect(read_runs(directory)), a, b, asked, only)
    if json_:
        print(json.dumps(found.as_json(), indent=1))
    else:
        print_table(comparison_table(found))
