"""The command line: parse, call, print. Heavy imports wait until a command needs them, so --help is quick."""

import json
import logging
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silobench import __version__
from silobench.cli import data as cli_data
from silobench.cli import results as cli_results
from silobench.cli.data import DataDir, Json
from silobench.cli.results import Profile
from silobench.errors import ConfigError, RunError, SilobenchError, StoppedError, suggest
from silobench.processes import cores, start_server

if TYPE_CHECKING:
    from silobench.runs.record import StoredRun

app = typer.Typer(
    name="silobench",
    help="Learn from data that cannot leave its silos: cut it by a skew, run federated methods, see what it costs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(cli_data.app)

Out = Annotated[Path, typer.Option("--out", help="Directory that holds the runs.")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="A Python file that registers algorithms of your own; may be repeated."),
]


def main() -> None:
    """Entry point: one sentence and exit code 2 for everything a user can cause."""
    _say_what_takes_long()
    try:
        app(prog_name="silobench")
    except StoppedError as error:
        print(error, file=sys.stderr)
        sys.exit(130)
    except RunError as error:
        print(error.details, file=sys.stderr)
        _fail(str(error), code=1)
    except SilobenchError as error:
        _fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `silobench list ... | head` is no error
    except OSError as error:
        _fail(f"the operating system refused ({error.strerror}): check space and permissions.")


class _Said(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(record.getMessage(), file=sys.stderr)


def _say_what_takes_long() -> None:
    log = logging.getLogger("silobench")
    log.setLevel(logging.INFO)
    log.handlers = [_Said()]


def _fail(sentence: str, code: int = 2) -> None:
    print(f"error: {' '.join(sentence.split())}", file=sys.stderr)
    sys.exit(code)


def _version(shown: bool) -> None:
    if shown:
        print(f"silobench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(out: Out = Path("runs/demo")) -> None:
    """Four algorithms under nine skews on embedded data: tables here, and an HTML report."""
    from silobench.papers import suites

    cli_results.print_tables(_run_all(_read(suites.path("demo")), out))
    cli_results.report(out)


@app.command()
def run(
    experiment: Annotated[
        str, typer.Argument(metavar="SUITE|FILE.toml", help="A suite's name, or an experiment file.")
    ],
    scale: Annotated[
        str | None,
        typer.Option(help="How much of a suite: smoke (minutes, embedded data; the default), laptop or paper."),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a choice; may be repeated.")
    ] = None,
    only: Annotated[
        str,
        typer.Option(
            help="Run only what matches this glob, as '*fedprox*' (of 'dataset / partition / algorithm / seed')."
        ),
    ] = "*",
    trials: Annotated[int | None, typer.Option(min=1, help="How many seeds, counted up from `seed`.")] = None,
    engine: Annotated[str, typer.Option(help="Where parties run: auto, or one of `silobench list engines`.")] = "auto",
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes; as many as cores by default.")] = None,
    out: Out = Path("runs"),
    records_only: Annotated[
        bool,
        typer.Option(
            "--records-only", help="Delete the checkpoint of every run that is complete and at whose model none begins."
        ),
    ] = False,
    plugin: Plugins = None,
    profile: Profile = False,
    data_dir: DataDir = None,
) -> None:
    """Run an experiment. Resumable: run it again and it finishes what is missing and redoes nothing."""
    changed = _overrides(set_ or []) | ({"trials": trials} if trials else {})
    path = _experiment_path(experiment)
    choices = _scaled(_read(path), scale)
    options: dict[str, Any] = {"only": only, "engine": engine, "workers": workers, "plugins": plugin or ()}
    runs = _run_all(choices, out, changed, **options, records_only=records_only)
    cli_results.print_tables(runs, profile)


for command in (cli_results.show, cli_results.claims, cli_results.report, cli_results.compare):
    app.command()(command)


@app.command()
def partition(
    dataset: Annotated[str, typer.Argument(help='A dataset spec, as digits or "csv(path=my.csv, label=y)".')],
    spec: Annotated[str, typer.Argument(help='A partition spec, as "label-dirichlet(beta=0.5)" or "#C=2".')],
    parties: Annotated[
        int | None, typer.Option(min=1, help="How many; by default 10, or what the data suggest.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    plot: Annotated[Path | None, typer.Option(help="Write the party x class heatmap to this .png or .svg.")] = None,
    export: Annotated[
        Path | None,
        typer.Option(help="Write the row numbers of each party (of the training rows) as CSV and npz here."),
    ] = None,
    json_: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Cut a dataset among parties and measure the skew; nothing is trained."""
    from silobench.data import load
    from silobench.partitions import bind_sum, measure, sharing
    from silobench.partitions import partition as cut

    data = load(dataset)
    made = cut(data, spec, parties, seed)
    skew, shared = measure(made, data), sharing(made, data)
    canonical = " + ".join(str(term.short) for term in bind_sum(spec))
    names = list(made.names or map(str, range(len(made))))
    classes = data.classes or ("rows",)  # numbers have no classes to tell apart
    if plot:
        from silobench.report import plot_partition

        plot_partition(skew.counts, plot, f"{data.name}: {canonical}", names, classes)
    if export:
        from silobench.partitions.export import export_partition

        export_partition(made, skew.counts, names, classes, export)
    notes = (*data.notes, *made.notes)
    facts = {"dataset": data.name, "spec": canonical, "parties": len(made), "seed": seed, "names": names}
    if json_:
        extra: dict[str, Any] = {"shared": shared.as_json()} if shared else {}
        extra |= {"fingerprint": made.fingerprint, "noise": list(made.noise), "classes": list(data.classes)}
        of_classes = dict.fromkeys(("emd", "emd_weighted", "jensen_shannon")) if not data.classes else {}
        print(json.dumps({**facts, **skew.as_json(), **of_classes, **extra, "notes": list(notes)}))
        return
    from silobench.cli.terminal import print_partition

    print_partition(facts, skew, data, notes, made.fingerprint, shared)
    for written in filter(None, (plot, export)):
        print(f"wrote {written}")


@app.command()
def doctor(json_: Json = False) -> None:
    """What this machine has, and what silobench makes of it: versions, processor, native step, folders."""
    from silobench.cli.doctor import diagnose

    facts = diagnose()
    if json_:
        print(json.dumps(facts, indent=1))
        return
    from silobench.cli.terminal import print_facts

    print_facts(facts)


KINDS = (
    "algorithms", "controllers", "datasets", "engines", "measures", "models", "networks", "partitions",
    "schedules", "selections", "servers", "solvers", "starts", "suites", "transforms",
)  # fmt: skip


@app.command("list")
def list_(
    kind: Annotated[str, typer.Argument(help=f"What to list: {', '.join(KINDS)}.")],
    json_: Json = False,
    plugin: Plugins = None,
) -> None:
    """What a spec can name, with its arguments and what it does."""
    if kind not in KINDS:
        raise ConfigError(f"there is nothing to list under '{kind}': {suggest(kind, KINDS)}")
    rows = _describe(kind, plugin or [])
    if json_:
        print(json.dumps(rows, indent=1))
        return
    from silobench.cli.terminal import print_list

    print_list(kind, rows)
    if kind == "suites":
        print("silobench run SUITE --scale smoke|laptop|paper runs one; --json says what each scale is.")


def _describe(kind: str, plugins: list[Path]) -> list[dict[str, str]]:
    from silobench.papers import suites
    from silobench.runs import experiment

    for file in plugins:
        experiment.load_plugin(file)
    return suites.describe() if kind == "suites" else experiment.REGISTRIES[kind].describe()


def _experiment_path(given: str) -> Path:
    from silobench.papers import suites

    if given in suites.names():
        return suites.path(given)
    if given.endswith(".toml") or Path(given).exists():
        return Path(given)
    raise ConfigError(
        f"there is no suite '{given}', and an experiment file ends in .toml: {suggest(given, suites.names())}"
    )


def _read(path: Path) -> dict[str, Any]:
    from silobench.runs import experiment

    return experiment.read_experiment(path)


def _scaled(choices: dict[str, Any], scale: str | None) -> dict[str, Any]:
    """A suite at the scale asked for, which is said; an experiment without scales as it is."""
    from silobench.runs import experiment

    if scale is None and "scale" not in choices:
        return choices
    name = scale or "smoke"
    chosen, scales = experiment.at_scale(choices, name), choices["scale"]
    others = ", ".join(f"--scale {other}" for other in scales if other != name)
    note, more = scales[name].get("note", ""), f" ({others} for more or less)" if others else ""
    print(f"scale {name}{': ' if note else ''}{note}{more}", file=sys.stderr)
    return chosen


def _overrides(settings: list[str]) -> dict[str, Any]:
    """``key=value`` pairs; a value is TOML where it reads as such, else text."""
    found = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set takes key=value, but '{setting}' was given.")
        try:
            found[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key.strip()] = value.strip()
    return found


def _run_all(
    choices: Mapping[str, Any],
    out: Path,
    changed: Mapping[str, Any] | None = None,
    *,
    only: str = "*",
    engine: str = "auto",
    workers: int | None = None,
    plugins: Sequence[Path] = (),
    records_only: bool = False,
) -> "list[StoredRun]":
    """Check every run first, then do those that are missing; those whose data are not here are told and left out."""
    if (workers or cores()) > 1:
        start_server()  # which imports what workers need, while this process does the same
    from silobench.cli.terminal import Progress
    from silobench.engines import ENGINES
    from silobench.runs import experiment
    from silobench.runs.prepare import check, is_complete
    from silobench.runs.record import discard_checkpoint, read_run
    from silobench.runs.sweep import sweep

    chosen = ENGINES.build(engine)
    workers = workers or chosen.workers or cores()
    plans, absent = experiment.plan_present(experiment.override(choices, changed or {}), only, plugins)
    _say_absent(absent)
    missing = [made for made in plans if not is_complete(made, out)]
    check(missing, out, chosen)  # every error comes before any round
    try:
        with (
            Progress(total=len(plans), done=len(plans) - len(missing)) as progress,
            closing(sweep(missing, out, engine, workers, plugins)) as events,
        ):
            for event in events:
                progress.show(event)
    except KeyboardInterrupt as error:
        raise StoppedError("stopped; finished rounds are kept, and the same command goes on from them.") from error
    if absent:
        print(f"{sum(absent.values())} runs were skipped, whose data are not here: see above.", file=sys.stderr)
    origins = {made.origin.id for made in plans if made.origin}
    for made in plans if records_only else ():
        if made.id not in origins:  # at whose models more runs may begin
            discard_checkpoint(out / made.id)
    return [read_run(out / made.id) for made in plans]


def _say_absent(absent: Mapping[str, int]) -> None:
    for reason, count in absent.items():
        print(f"skipped {count} runs: {reason}", file=sys.stderr)
