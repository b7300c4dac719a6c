"""What commands that make runs share: settings from the command line, progress, and how Ctrl-C ends them."""

import sys
import tomllib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from silobench.cli.busy import waiting
from silobench.cli.output import print
from silobench.errors import ConfigError, StoppedError
from silobench.processes import cores, start_server

if TYPE_CHECKING:
    from silobench.engines import Engine
    from silobench.runs.plan import Plan
    from silobench.runs.plans import Plans
    from silobench.runs.preview import Preview
    from silobench.runs.stored import StoredRun

_LISTED = 20  # runs that a preview names


def settings_of(pairs: Sequence[str], option: str = "--set", example: str = "rounds=20") -> dict[str, Any]:
    """Parse ``key=value`` pairs of an option. A value is read as TOML if possible, else as text."""
    values = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(
                f"{option} takes key=value, but '{pair}' was given: write, for example, {option} {example}."
            )
        try:
            values[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            values[key.strip()] = value.strip()
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"{option} {key.strip()} has a value that is too long or nested too deeply: shorten it."
            ) from error
    return values


def with_cluster(engine: str, workers: int | None, address: str | None, cpus: float | None, gpus: float | None) -> str:
    """Return the spec of an engine with the options of a Ray cluster; refuse them for another engine.

    >>> with_cluster("ray", 8, "auto", None, 0.5)
    'ray(workers=8, address=auto, gpus=0.5)'
    >>> with_cluster("pool", 8, None, None, None)
    'pool'
    """
    options = {"--ray-address": address, "--cpus-per-party": cpus, "--gpus-per-party": gpus}
    option = next((name for name, value in options.items() if value is not None), None)
    if not is_cluster(engine):
        if option:
            raise ConfigError(f"{option} is for the engine ray, but the engine is {engine}: add --engine ray.")
        return engine
    from silobench.spec import Spec, parse

    spec = parse(engine)
    arguments = {"workers": workers, "address": address, "cpus": cpus, "gpus": gpus}
    chosen = {**dict(spec.kwargs), **{name: value for name, value in arguments.items() if value is not None}}
    return str(Spec(spec.name, spec.args, tuple(chosen.items())))


def is_cluster(engine: str) -> bool:
    """Whether the spec of an engine is that of a Ray cluster."""
    return engine.partition("(")[0].strip() == "ray"


def need_folder(out: Path) -> None:
    """Refuse a file in the place of a results directory."""
    if out.is_file():
        raise ConfigError(f"--out {out} is a file, but a folder is needed: give another path.")


def need_no_study(out: Path) -> None:
    """Refuse the directory of a study: tables would show its trials beside other runs."""
    from silobench.tuning.study import STUDY

    if (out / STUDY).exists():
        raise ConfigError(
            f"--out {out} holds a study of `silobench tune`, and other runs need a folder of their own: give another "
            "path."
        )


def prepare_workers(engine: str, workers: int | None) -> None:
    """Start the server of worker processes for an engine that may use them: it imports while this process does."""
    if (workers or cores()) > 1 and engine != "debug" and not is_cluster(engine):
        start_server()


def engine_for(spec: str) -> "Engine":
    """Build an engine. Starting Ray, or connecting to a cluster, takes seconds."""
    from silobench.engines import ENGINES

    with waiting("connecting to Ray" if is_cluster(spec) else "preparing the engine"):
        return ENGINES.build(spec)


@contextmanager
def resumable() -> Iterator[None]:
    """Say how to resume, if Ctrl-C stops the runs or what comes before them."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise StoppedError("stopped; finished rounds are kept: run the same command again to resume.") from error


def sweep_with_progress(
    missing: "Sequence[Plan]",
    out: Path,
    engine: str,
    workers: int,
    plugins: Sequence[Path],
    *,
    total: int,
    live: bool,
    notes: set[str] | None = None,
) -> None:
    """Do the missing runs of a total, and show the progress; with moving bars, if `live`.

    `notes` were printed before, and are not printed again; new ones are added to them.
    """
    from silobench.cli.progress import Progress
    from silobench.runs.sweep import sweep

    with (
        Progress(total=total, done=total - len(missing), live=live) as progress,
        closing(sweep(missing, out, engine, workers, plugins)) as events,
    ):
        progress.notes = notes if notes is not None else progress.notes
        for event in events:
            progress.show(event)


@resumable()
def run_all(
    choices: Mapping[str, Any],
    out: Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    only: str = "*",
    engine: str = "auto",
    workers: int | None = None,
    plugins: Sequence[Path] = (),
    records_only: bool = False,
    name: str,
) -> "list[StoredRun]":
    """Check all runs, then do those that are not finished. Runs without their dataset are reported and skipped.

    `name` is that of the experiment with its overrides: the list of its runs is stored under it.
    """
    need_folder(out)
    prepare_workers(engine, workers)
    need_no_study(out)
    from silobench.runs.prepare import check, is_finished
    from silobench.runs.results import read_finished, write_planned

    plans, absent = _planned(choices, overrides, only, plugins)
    chosen = engine_for(engine)  # after planning, because a plugin may register an engine or an executor
    with waiting(f"checking {len(plans):,} run{'s' * (len(plans) != 1)}"):
        missing = plans.of_ids(id for id in plans.ids if not is_finished(out / id))
        check(missing, out, chosen)  # every error of a choice comes before any round
        write_planned(out, name, {plan.id: plan.name for plan in plans}, is_part=only != "*")
    workers = workers or chosen.workers or cores()
    with _tracebacks(chosen.is_debug):
        sweep_with_progress(missing, out, engine, workers, plugins, total=len(plans), live=not chosen.is_debug)
    if absent:
        count = sum(absent.values())
        print(f"skipped {count} runs: their datasets are not on this machine (see above)", file=sys.stderr)
    if records_only:
        _discard_checkpoints(plans, out)
    with waiting("reading the results"):
        return read_finished(out, plans.ids)


def _planned(
    choices: Mapping[str, Any], overrides: Mapping[str, Any] | None, only: str, plugins: Sequence[Path]
) -> "tuple[Plans, dict[str, int]]":
    """Return the plans of an experiment and the number of runs without their dataset, which are reported.

    Notes about the plans are printed.
    """
    from silobench.runs import experiment

    with waiting("planning the runs"):
        plans, absent = experiment.plan_present(experiment.override(choices, overrides or {}), only, plugins)
    for reason, count in absent.items():
        print(f"skipped {count} runs: {reason}", file=sys.stderr)
    for note in plans.notes():
        print(f"note: {note}", file=sys.stderr)
    return plans, absent


def preview_all(
    choices: Mapping[str, Any],
    out: Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    only: str = "*",
    engine: str = "auto",
    plugins: Sequence[Path] = (),
) -> "Preview":
    """Plan and check all runs as `run_all` does, and do none of them."""
    need_no_study(out)
    from silobench.runs.prepare import check
    from silobench.runs.preview import preview

    plans, absent = _planned(choices, overrides, only, plugins)
    chosen = engine_for(engine)
    with waiting(f"checking {len(plans):,} run{'s' * (len(plans) != 1)}"):
        result = preview(plans, absent, out)
        check(result.missing, out, chosen)
    return result


def print_preview(preview: "Preview", as_json: bool) -> None:
    """Print what a command would do: counts, an estimate, and the first runs; as JSON, all of them."""
    from silobench.analysis.units import duration
    from silobench.runs.preview import BEGUN, FINISHED, MISSING, rounds_to_do

    missing = preview.missing
    with waiting("counting the rounds"):
        rounds = rounds_to_do(preview)
    if as_json:
        sys.stdout.writelines(preview.json_parts(rounds))
        return
    counts = ", ".join(f"{preview.count(status):,} {status}" for status in (FINISHED, BEGUN, MISSING))
    print(f"{len(preview.plans):,} run{'s' * (len(preview.plans) != 1)}: {counts}")
    if not missing:
        print("nothing is left to do")
        return
    seconds = preview.seconds(rounds)
    estimate = (
        "the time can be estimated once a run is finished"
        if seconds is None
        else f"about {duration(seconds)} of one worker"
    )
    print(f"{rounds:,} rounds to do: {estimate}")
    for plan in missing[:_LISTED]:
        print(f"  {plan.id}  {plan.name}")
    if len(missing) > _LISTED:
        print(f"  and {len(missing) - _LISTED:,} more; --json lists all of them")


@contextmanager
def _tracebacks(show: bool) -> Iterator[None]:
    """Print the traceback of an error of a run instead of its sentence, if `show`, and exit with code 1."""
    try:
        yield
    except Exception as error:
        if not show or isinstance(error, StoppedError):
            raise
        traceback.print_exc()
        raise typer.Exit(1) from error


def _discard_checkpoints(plans: "Sequence[Plan]", out: Path) -> None:
    """Delete the checkpoints of finished runs, except those that other runs start from."""
    from silobench.runs.plans import ids_of, waves
    from silobench.runs.writer import discard_checkpoint

    origins = {plan.origin.id for plan in waves(plans)[1] if plan.origin}
    for id in ids_of(plans):
        if id not in origins:
            discard_checkpoint(out / id)
