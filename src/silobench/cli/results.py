"""The commands that print stored runs: show and claims. They train nothing and do not load torch."""

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Annotated

import typer

from silobench.cli.busy import waiting
from silobench.cli.options import Json, LoadedPlugins
from silobench.cli.output import print
from silobench.cli.sources import Directory, Published, Source
from silobench.errors import ConfigError, RecordError, suggest

if TYPE_CHECKING:
    from silobench.analysis.cells import CellResult
    from silobench.analysis.claims import Claim
    from silobench.analysis.tables import Table
    from silobench.runs.results import Results
    from silobench.runs.stored import StoredRun

_NO_CROSS = (
    "these runs have no cross-tests, because they are from an earlier version, have more than 32 parties, or no test "
    "row belongs to a party"
)
_NO_TIMES = "these runs have no time of server and parties, because they are from an earlier version"
FORMATS = ("terminal", "markdown", "latex", "csv")
Profile = Annotated[bool, typer.Option("--profile", help="Show where the time of each run went, phase by phase.")]
_Form = Annotated[str, typer.Option("--format", help="terminal, markdown, latex, or csv (one line per cell or party).")]
_Every = Annotated[
    bool, typer.Option("--every", help="Show FedProx at every mu, not only at the best of its grid in each setting.")
]
_Details = Annotated[
    bool,
    typer.Option(
        "--details",
        help="Show best and last round, steadiness, calibration, confusions, and the worst class and party of each "
        "cell.",
    ),
]
_Target = Annotated[
    float | None,
    typer.Option(
        help="An accuracy, such as 0.9, or a value of the runs' main metric in its unit: "
        "show the rounds and bytes until it is reached (--details)."
    ),
]
_Parties = Annotated[
    bool,
    typer.Option(
        "--parties", help="Show the score of each party by name on its own test rows, and the worst and best party."
    ),
]
_Cross = Annotated[
    bool,
    typer.Option(
        "--cross",
        help="Show each model on the test rows of every party; where parties are groups, this is always shown.",
    ),
]
_Time = Annotated[
    bool,
    typer.Option(
        "--time",
        help="Show convergence, throughput, overhead and compression of each partition, and how server and parties "
        "spent their time.",
    ),
]


def show(
    directory: Directory = None, form: _Form = "terminal", every: _Every = False, details: _Details = False,
    target: _Target = None, profile: Profile = False, parties: _Parties = False, cross: _Cross = False,
    time: _Time = False, published: Published = False, json_: Json = False, plugin: LoadedPlugins = None,
) -> None:  # fmt: skip
    """Show finished runs as tables: accuracy, or another main metric, with the published number beside it; costs.

    Runs of a paper's experiments also get that paper's tables.
    """
    from silobench.analysis.details import checked_target
    from silobench.analysis.export import latex, markdown

    _check_form(form, json_ or profile, details or time or target is not None)
    source = Source(directory, published)
    results = source.read()
    runs = readable(results)
    checked_target(target, runs)
    if json_:
        _print_json(results, target, every, parties)
    elif form == "csv":
        _print_csv(_finished(runs, source), every, parties, cross)
    elif form == "terminal":
        print_tables(runs, profile, every, cross, time)
        print_missing(results)
        if details or parties or target is not None:
            _print_more(_finished(runs, source), details, target, parties)
    else:
        cells = _finished(runs, source)
        tables = [*_main_tables(cells, every, cross), *_more_tables(cells, details, target, parties)]
        if time:
            tables += _time_tables(cells, each=True)
        print("\n\n".join(map(markdown if form == "markdown" else latex, tables)))
    report_damage(results)


def _main_tables(cells: "list[CellResult]", every: bool, cross: bool) -> "list[Table]":
    """Return the tables of a document about these cells: scores, what some kinds of runs have besides, privacy."""
    from silobench.analysis.cross_tests import cross_tables
    from silobench.analysis.malicious import malicious_tables
    from silobench.analysis.privacy import privacy_table
    from silobench.analysis.tables import score_tables
    from silobench.analysis.vertical import vertical_tables

    privacy = [table for table in (privacy_table(cells),) if table.rows]
    return [
        *score_tables(cells, every), *vertical_tables(cells), *malicious_tables(cells), *cross_tables(cells, cross),
        *privacy,
    ]  # fmt: skip


def _check_form(form: str, has_own_form: bool, has_details: bool) -> None:
    """Refuse an unknown format, and one beside options that it cannot show."""
    if form not in FORMATS:
        raise ConfigError(f"there is no format '{form}': {suggest(form, FORMATS)}")
    if form != "terminal" and has_own_form:
        raise ConfigError(
            f"--format {form} writes tables of results: leave out --json and --profile, or leave out --format."
        )
    if form == "csv" and has_details:
        raise ConfigError(
            "--format csv has one line per cell, or per party with --parties, and no details: leave out --details, "
            "--target and --time, or use --json."
        )


def _print_more(cells: "list[CellResult]", details: bool, target: float | None, parties: bool) -> None:
    """Print the tables of details and parties."""
    from silobench.analysis.parties import no_parties_text
    from silobench.cli.terminal import print_table

    for table in _more_tables(cells, details, target, parties):
        print_table(table)
    if parties and not any(cell.runs[0].final.parties for cell in cells):
        print(f"{no_parties_text(cells)}.")


def _more_tables(cells: "list[CellResult]", details: bool, target: float | None, parties: bool) -> "Iterator[Table]":
    """Yield the tables of --details, --target and --parties."""
    from silobench.analysis.attacks import party_attack_tables
    from silobench.analysis.confusion import confusion_tables
    from silobench.analysis.details import details_tables
    from silobench.analysis.parties import parties_tables

    if details or target is not None:
        yield from details_tables(cells, target)
    if details:
        yield from confusion_tables(cells)
    if parties:
        yield from parties_tables(cells)
        yield from party_attack_tables(cells)


def _time_tables(cells: "list[CellResult]", each: bool) -> "list[Table]":
    """Return the tables of time and communication that have rows; with `each`, by partition and by part of the time."""
    from silobench.analysis.time_tables import decomposition_table, phases_tables, time_table

    tables = [
        time_table(cells, by_partition=each), *([decomposition_table(cells)] if each else []), *phases_tables(cells),
    ]  # fmt: skip
    return [table for table in tables if table.rows]


def _print_csv(cells: "list[CellResult]", every: bool, parties: bool, cross: bool) -> None:
    from silobench.analysis.export import cross_csv, parties_csv, scores_csv
    from silobench.analysis.parties import no_parties_text

    if parties and cross:
        raise ConfigError("--format csv has one line per party or per cross-test: leave out --parties or --cross.")
    if parties and not any(cell.runs[0].final.parties for cell in cells):
        raise RecordError(f"{no_parties_text(cells)}: leave out --parties.")
    if cross and not any(cell.runs[0].final.cross for cell in cells):
        raise RecordError(f"{_NO_CROSS}: leave out --cross.")
    print(parties_csv(cells) if parties else cross_csv(cells) if cross else scores_csv(cells, every))


def readable(results: "Results") -> "list[StoredRun]":
    """Return the runs that can be read; raise what is wrong with the others if there are none."""
    if not results.runs:
        report_damage(results)
    return results.runs


def report_damage(results: "Results") -> None:
    """Raise an error about damaged runs, after everything else was shown."""
    refuse_damage(results.problems, len(results.runs))


def refuse_damage(problems: Sequence[str], read: int) -> None:
    """Raise an error about damaged runs, if there are any, beside a number of runs that were read."""
    damaged, total = len(problems), len(problems) + read
    if damaged == 1:
        raise RecordError(f"1 of {total} runs is left out: {problems[0]}")
    if damaged:
        raise RecordError(f"{damaged} of {total} runs are left out, the first because {problems[0]}")


def print_missing(results: "Results") -> None:
    """Print how many runs are not finished, and how many of those that were planned have not been started."""
    unfinished, absent = results.unfinished, len(results.not_started)
    total = len(results.runs) + len(results.problems) + absent
    verb, have = "run is" if unfinished == 1 else "runs are", "has" if absent == 1 else "have"
    texts = {
        (True, False): f"{unfinished} of {total} runs {verb.split()[-1]} not finished",
        (True, True): f"{unfinished} {verb} not finished and {absent} of {total} {have} not been started",
        (False, True): f"{absent} of {total} runs {have} not been started",
    }
    if text := texts.get((bool(unfinished), bool(absent))):
        print(f"{text}: run the same experiment again to continue.")


def _print_json(results: "Results", target: float | None, every: bool, parties: bool) -> None:
    from silobench.analysis.costs import costs_json, uncompressed
    from silobench.analysis.cross_tests import cross_json
    from silobench.analysis.details import details
    from silobench.analysis.measured import measures_json
    from silobench.analysis.parties import party_results
    from silobench.analysis.privacy import privacy_json
    from silobench.analysis.ranking import ranking, rankings
    from silobench.analysis.vertical import vertical_json
    from silobench.papers import collect_cells, paper_facts

    cells = collect_cells(results.runs)
    baseline = uncompressed(cells)
    facts = {
        "cells": [
            cell.as_json()
            | details(cell, target)
            | {"measures": measures_json(cell), "cross": cross_json(cell), "costs": costs_json(cell, baseline(cell))}
            | ({"privacy": privacy} if (privacy := privacy_json(cell)) else {})
            | ({"vertical": vertical} if (vertical := vertical_json(cell)) else {})
            | ({"party_results": party_results(cell)} if parties else {})
            for cell in cells
        ],
        "ranking": ranking(cells, every=every).as_json(),
        "rankings": rankings(cells, every),
        "unfinished": results.unfinished,
        "not_started": len(results.not_started),
        "left_out": results.problems,
        **paper_facts(cells),
    }
    print(json.dumps(facts, indent=1))


def _finished(runs: "list[StoredRun]", source: Source) -> "list[CellResult]":
    from silobench.papers import collect_cells

    cells = collect_cells(runs)
    if not cells:
        raise RecordError(f"no run in {source.name} is finished: run the experiment to its end first.")
    return cells


def print_tables(
    runs: "list[StoredRun]", profile: bool = False, every: bool = False, cross: bool = False, time: bool = False
) -> None:
    """Print all tables of finished runs.

    `cross` prints the cross-tests of all partitions, not only of groups; `time` prints times by partition and part.
    """
    from silobench.analysis.cross_tests import cross_tables
    from silobench.analysis.malicious import malicious_tables
    from silobench.analysis.privacy import privacy_table
    from silobench.analysis.profile import profile_table
    from silobench.analysis.ranking import ranking_tables
    from silobench.analysis.tables import cost_table, score_tables
    from silobench.analysis.vertical import vertical_tables
    from silobench.cli.terminal import print_table
    from silobench.papers import collect_cells, other_measures, paper_tables

    if cells := collect_cells(runs):
        for table in (
            *score_tables(cells, every),
            *vertical_tables(cells),
            *paper_tables(cells),
            *other_measures(cells),
            *malicious_tables(cells),
            *ranking_tables(cells, every),
            *cross_tables(cells, cross),
            privacy_table(cells),
        ):
            if table.rows:
                print_table(table)
        if cross and not any(cell.runs[0].final.cross for cell in cells):
            print(f"{_NO_CROSS}.")
        print_table(cost_table(cells))
        for table in (times := _time_tables(cells, time)):
            print_table(table)
        if time and not times:
            print(f"{_NO_TIMES}.")
        if profile:
            print_table(profile_table(cells))


def claims(
    directory: Directory = None,
    only: Annotated[
        str, typer.Option(help="Only claims whose id matches this glob, such as 'niid-6' or 'zhao-*'.")
    ] = "*",
    evidence: Annotated[bool, typer.Option("--evidence", help="Show every piece of evidence.")] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="List also the claims that these runs say nothing about.")
    ] = False,
    published: Published = False,
    json_: Json = False,
    plugin: LoadedPlugins = None,
) -> None:
    """Judge the findings of the papers by these runs: supported, contradicted or undecided, with the evidence."""
    from silobench.analysis.claims import judge
    from silobench.papers import FINDINGS

    findings = [finding for finding in FINDINGS if fnmatch(finding.id, only)]
    if not findings:
        raise ConfigError(f"--only '{only}' matches no claim: {suggest(only, [f.id for f in FINDINGS])}")
    source = Source(directory, published)
    results = source.read()
    with waiting("judging the claims"):
        verdicts = judge(_finished(readable(results), source), findings)
    if json_:
        print(json.dumps([claim.as_json() for claim in verdicts], indent=1))
    else:
        _print_claims(verdicts, evidence or only != "*", all_ or only != "*")
    report_damage(results)


def _print_claims(claims: "list[Claim]", evidence: bool, with_untested: bool) -> None:
    from silobench.analysis.claims import claims_table, evidence_table, untested_text
    from silobench.cli.terminal import print_table

    table = claims_table(claims, with_untested=with_untested)
    if not table.rows:
        print(f"{untested_text(len(claims), len(claims))}.")
        return
    print_table(table)
    for claim in claims if evidence else ():
        if claim.evidence:
            print_table(evidence_table(claim))
