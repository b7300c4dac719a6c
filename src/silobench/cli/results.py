"""The commands that read runs: show, claims, report, compare. Nothing here trains."""

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from silobench.cli.options import Json
from silobench.errors import ConfigError, RecordError, suggest

if TYPE_CHECKING:
    from silobench.analysis import CellResult
    from silobench.runs.record import StoredRun

FORMATS = ("terminal", "markdown", "latex", "csv")
Directory = Annotated[Path, typer.Argument(help="Directory of runs.")]
Profile = Annotated[bool, typer.Option("--profile", help="Show where the time of each run went, phase by phase.")]


def show(
    directory: Directory,
    form: Annotated[
        str, typer.Option("--format", help="terminal, markdown, latex, or csv (one line for every cell).")
    ] = "terminal",
    every: Annotated[
        bool, typer.Option("--every", help="FedProx at every mu, and not at the best of its grid in each setting.")
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="Best and last round, steadiness, the worst class and party of each cell.")
    ] = False,
    target: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="An accuracy, as 0.9: the rounds and bytes until it was reached (--details)."),
    ] = None,
    profile: Profile = False,
    json_: Json = False,
) -> None:
    """Tables of finished runs: accuracy as in NIID-Bench's Table III, the paper's number beside it; ranks; costs.

    Also accuracy against EMD, weight divergence and data sharing, as Zhao et al. have them, and what is lost and saved
    against BSP, what a controller decided and what was measured of parties' models, as the quagmire study has it.
    """
    from silobench.analysis import accuracy_table, collect, details_table, export, ranking, skew_json
    from silobench.analysis.details import details as of_cell
    from silobench.cli.terminal import print_table
    from silobench.runs.record import read_runs

    if form not in FORMATS:
        raise ConfigError(f"there is no format '{form}': {suggest(form, FORMATS)}")
    if form != "terminal" and (json_ or details or profile or target is not None):
        raise ConfigError(f"--format {form} writes the table of accuracies alone: leave the other options out.")
    runs = read_runs(directory)
    if json_:
        unfinished, cells = sum(not run.complete for run in runs), collect(runs)
        told = [cell.as_json() | of_cell(cell, target) for cell in cells]
        ranks = ranking(cells, every=every).as_json()
        print(json.dumps({"cells": told, "ranking": ranks, "unfinished": unfinished, **skew_json(cells)}, indent=1))
    elif form == "terminal":
        print_tables(runs, profile, every)
        if details or target is not None:
            print_table(details_table(_finished(runs, directory), target))
    else:
        cells = _finished(runs, directory)
        write = {"markdown": export.markdown, "latex": export.latex}
        print(export.accuracy_csv(cells, every) if form == "csv" else write[form](accuracy_table(cells, every)))


def _finished(runs: "list[StoredRun]", directory: Path) -> "list[CellResult]":
    from silobench.analysis import collect

    cells = collect(runs)
    if not cells:
        raise RecordError(f"no run in {directory} is finished: run the experiment to its end first.")
    return cells


def print_tables(runs: "list[StoredRun]", profile: bool = False, every: bool = False) -> None:
    from silobench.analysis import accuracy_table, collect, cost_table, profile_table, ranking_table, skew_tables
    from silobench.cli.terminal import print_table

    if cells := collect(runs):
        print_table(accuracy_table(cells, every))
        for table in (*skew_tables(cells), ranking_table(cells, every)):
            if table.rows:
                print_table(table)
        print_table(cost_table(cells))
        if profile:
            print_table(profile_table(cells))
    unfinished = sum(not run.complete for run in runs)
    if unfinished:
        print(f"{unfinished} of {len(runs)} runs are not finished: run the same experiment again to go on.")


def claims(
    directory: Directory,
    only: Annotated[str, typer.Option(help="Only claims whose id matches this glob, as 'niid-6' or 'zhao-*'.")] = "*",
    evidence: Annotated[bool, typer.Option("--evidence", help="Show every piece of evidence.")] = False,
    json_: Json = False,
) -> None:
    """What the papers found, judged by these runs: supported, contradicted or undecided, with the evidence."""
    from silobench.analysis.claims import claims_table, evidence_table, judge
    from silobench.papers.findings import FINDINGS
    from silobench.runs.record import read_runs

    asked = [finding for finding in FINDINGS if fnmatch(finding.id, only)]
    if not asked:
        raise ConfigError(f"--only '{only}' matches no claim: {suggest(only, [f.id for f in FINDINGS])}")
    judged = judge(_finished(read_runs(directory), directory), asked)
    if json_:
        print(json.dumps([claim.as_json() for claim in judged], indent=1))
        return
    from silobench.cli.terminal import print_table

    print_table(claims_table(judged))
    for claim in judged if evidence or only != "*" else ():
        print_table(evidence_table(claim))


def report(
    directory: Directory,
    output: Annotated[
        Path | None, typer.Option("--output", help="The page to write; DIR/report.html by default.")
    ] = None,
) -> None:
    """Write the HTML page of finished runs: tables, partitions, training curves; one file, nothing loaded."""
    from silobench.analysis import collect
    from silobench.report import write_report
    from silobench.runs.record import read_runs

    page = write_report(
        collect(read_runs(directory)), output or directory / "report.html", f"silobench: {directory.name}"
    )
    print(f"report: {page.resolve()}")


def compare(
    directory: Directory,
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
    from silobench.cli.terminal import print_table
    from silobench.runs.record import read_runs

    asked = question(metric, rope, rho, target)
    found = test(collect(read_runs(directory)), a, b, asked, only)
    if json_:
        print(json.dumps(found.as_json(), indent=1))
    else:
        print_table(comparison_table(found))
