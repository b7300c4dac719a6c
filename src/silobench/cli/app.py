"""The commands: parse arguments, call the library, print. Heavy imports wait for a command, so --help is quick."""

import io
import json
import logging
import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer

from silobench import __version__
from silobench.cli import advise as cli_advise
from silobench.cli import data as cli_data
from silobench.cli import leaderboard as cli_leaderboard
from silobench.cli import models as cli_models
from silobench.cli import results as cli_results
from silobench.cli import silo as cli_silo
from silobench.cli.busy import show_progress
from silobench.cli.compare import compare
from silobench.cli.export import export
from silobench.cli.leaving import leave
from silobench.cli.options import (
    CpusPerParty,
    DataDir,
    Device,
    EngineName,
    GpusPerParty,
    Json,
    LoadedPlugins,
    Out,
    Overrides,
    Plugins,
    RayAddress,
    Workers,
)
from silobench.cli.output import print
from silobench.cli.partitions import partition
from silobench.cli.report import report
from silobench.cli.results import Profile
from silobench.cli.running import preview_all, print_preview, run_all, settings_of, with_cluster
from silobench.cli.tune import tune
from silobench.cli.usage import UsageError, sentence
from silobench.cli.watch import watch
from silobench.errors import ConfigError, RunError, SilobenchError, StoppedError, shortened_words, suggest

app = typer.Typer(
    name="silobench",
    help="A benchmark of federated learning: partition data by a skew, run algorithms, compare accuracy and cost.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(cli_data.app)
app.add_typer(cli_leaderboard.app)
app.add_typer(cli_advise.app)
app.add_typer(cli_silo.app)


def main() -> None:
    """Run a command. An error that a user can cause prints one sentence and exits with code 2."""
    global _debugging
    _debugging = False
    _need_no_utf8()
    _print_log_messages()
    try:
        code = app(prog_name="silobench", standalone_mode=False)
    except UsageError as error:
        _fail_usage(error)
    except StoppedError as error:
        print(error, file=sys.stderr)
        sys.exit(_INTERRUPTED)
    except SilobenchError as error:
        _fail(_explained(error))
    except MemoryError:
        _fail("this machine has too little memory for it: give fewer rows or columns, or use a larger machine.")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # as in `silobench list ... | head`
    except OSError as error:
        place, reason = f" for {error.filename}" if error.filename else "", error.strerror or error
        _fail(f"the operating system reported '{reason}'{place}: check the path, disk space and permissions.")
    else:
        if code == _INTERRUPTED:  # in a command that records nothing
            print("stopped.", file=sys.stderr)
        leave(code or 0)


_INTERRUPTED = 130  # the code of a command that Ctrl-C ended
_DEBUG = "SILOBENCH_DEBUG"
_debugging = False


def _explained(error: SilobenchError) -> str:
    """Return the sentence of an error. Print its traceback before, if --debug asks for it; else say how to see it."""
    details = error.details if isinstance(error, RunError) else ""
    if _debugging or os.environ.get(_DEBUG, "0") not in ("", "0"):
        print(details or "".join(traceback.format_exception(error)), file=sys.stderr)
        return str(error)
    hint = "; `silobench --debug ...` shows the traceback." if details else ""
    return str(error).rstrip(".") + hint if hint else str(error)


def _need_no_utf8() -> None:
    r"""Let output in another encoding have any name: a letter that the encoding lacks is written out, such as \xb1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


class _ToStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        if not show_progress(record):
            print(record.getMessage(), file=sys.stderr)


def _print_log_messages() -> None:
    """Print what the library logs, such as notices of slow steps."""
    log = logging.getLogger("silobench")
    log.setLevel(logging.INFO)
    log.handlers = [_ToStderr()]


def _fail(sentence: str, code: int = 2) -> None:
    print(f"error: {' '.join(shortened_words(sentence).split())}", file=sys.stderr)
    sys.exit(code)


def _fail_usage(error: Exception) -> None:
    """Exit with a sentence about the command line, or without one after help that a group of commands prints."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.exit(2)
    _fail(sentence(error))


def _version(show: bool) -> None:
    if show:
        print(f"silobench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error too; so does SILOBENCH_DEBUG=1.")
    ] = False,
) -> None:
    global _debugging
    _debugging = debug


@app.command()
def demo(out: Out = Path("runs/demo"), device: Device = None) -> None:
    """Run four algorithms under nine skews on embedded data, print tables and write an HTML report."""
    from silobench.papers import suites

    overrides = {"device": device} if device else {}
    cli_results.print_tables(run_all(_read(suites.path("demo")), out, overrides, name="demo"))
    report(out)


_Experiment = Annotated[str, typer.Argument(metavar="SUITE|FILE.toml", help="Name of a suite, or an experiment file.")]
_Scale = Annotated[
    str | None, typer.Option(help="Size of a suite: smoke (embedded data, minutes; the default), laptop or paper.")
]
_Only = Annotated[
    str,
    typer.Option(
        help="Run only the runs whose name ('dataset / partition / algorithm / seed 0') matches this glob, "
        "such as '*fedprox*'."
    ),
]
_RecordsOnly = Annotated[
    bool,
    typer.Option(
        "--records-only", help="Delete checkpoints of finished runs, except those that other runs start from."
    ),
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Plan and check all runs and show what would be done; run nothing.")
]


@app.command()
def run(
    experiment: _Experiment, scale: _Scale = None, set_: Overrides = None, only: _Only = "*",
    trials: Annotated[int | None, typer.Option(min=1, help="Number of seeds, counted up from `seed`.")] = None,
    engine: EngineName = "auto", workers: Workers = None, ray_address: RayAddress = None,
    cpus_per_party: CpusPerParty = None, gpus_per_party: GpusPerParty = None, device: Device = None,
    out: Out = Path("runs"), records_only: _RecordsOnly = False, plugin: Plugins = None, profile: Profile = False,
    dry_run: _DryRun = False, json_: Json = False, data_dir: DataDir = None,
) -> None:  # fmt: skip
    """Run an experiment. Run it again to resume: finished runs are not repeated."""
    if json_ and not dry_run:
        raise ConfigError("--json of run is for a preview: add --dry-run, or show the results with show --json.")
    engine = with_cluster(engine, workers, ray_address, cpus_per_party, gpus_per_party)
    settings = {"trials": trials, "device": device}
    overrides = settings_of(set_ or []) | {key: value for key, value in settings.items() if value}
    path = _experiment_path(experiment)
    choices = _scaled(_read(path), scale)
    options: dict[str, Any] = {"only": only, "engine": engine, "plugins": plugin or ()}
    if dry_run:
        print_preview(preview_all(choices, out, overrides, **options), json_)
        return
    name = " ".join([experiment, *([f"--scale {scale}"] if scale else []), *map(str, overrides.items())])
    runs = run_all(choices, out, overrides, **options, workers=workers, records_only=records_only, name=name)
    cli_results.print_tables(runs, profile)


for command in (cli_results.show, cli_results.claims, report, compare, partition, watch):
    app.command()(command)
app.command()(tune)
app.command()(export)
app.command()(cli_models.predict)
app.command()(cli_models.model)


@app.command()
def doctor(json_: Json = False) -> None:
    """Show what silobench uses on this machine: versions, processor, native kernel, folders."""
    from silobench.cli.doctor import diagnose

    facts = diagnose()
    if json_:
        print(json.dumps(facts, indent=1))
        return
    from silobench.cli.terminal import print_facts

    print_facts(facts)


KINDS = (
    "adversaries", "aggregates", "algorithms", "availabilities", "clocks", "codecs", "controllers", "datasets",
    "defences", "engines", "exchanges", "executors", "measures", "metrics", "models", "networks", "objectives", "paces",
    "partitions", "published", "schedules", "selections", "servers", "solvers", "starts", "suites", "transforms",
    "vertical-algorithms", "vertical-measures", "vertical-models",
)  # fmt: skip

_LIST_NOTES = {
    "suites": "Run one with `silobench run SUITE --scale smoke|laptop|paper`; --json shows what each scale contains.",
    "published": "Read one with `silobench show --published NAME`; so do claims, report, compare and leaderboard.",
}
_SINGULAR = {
    f"{kind[:-3]}y" if kind.endswith("ies") else kind.removesuffix("s"): kind for kind in KINDS
}  # as keys are written


@app.command("list")
def list_(
    kind: Annotated[str, typer.Argument(help=f"What to list: {', '.join(KINDS)}.")],
    json_: Json = False,
    plugin: LoadedPlugins = None,
) -> None:
    """List the names that a spec can use, with their arguments."""
    kind = _SINGULAR.get(kind, kind)
    if kind not in KINDS:
        raise ConfigError(f"there is no list of '{kind}': {suggest(kind, KINDS)}")
    rows = _describe(kind, is_extended=bool(plugin))
    if json_:
        print(json.dumps(rows, indent=1))
        return
    from silobench.cli.terminal import print_list

    print_list(kind, rows, _LIST_NOTES.get(kind, ""))


def _describe(kind: str, is_extended: bool) -> list[dict[str, str]]:
    """Return the rows of a list: from the source files, or from the registry if plugins have extended it."""
    if kind == "suites":
        from silobench.papers import suites

        return suites.describe()
    if kind == "published":
        from silobench.runs.archive import describe_published

        return describe_published()
    if not is_extended:
        from silobench.cli.names import built_in

        return built_in(kind)
    from silobench.runs import experiment

    return experiment.REGISTRIES[kind].describe()


def _experiment_path(name: str) -> Path:
    from silobench.papers import suites

    if not name.strip():
        raise ConfigError(
            "the name of the experiment is empty: give a suite, such as demo, or the path of a .toml file."
        )
    if name in suites.names():
        return suites.path(name)
    if name.endswith(".toml") or Path(name).exists():
        return Path(name)
    raise ConfigError(
        f"there is no suite '{name}', and an experiment file ends in .toml: {suggest(name, suites.names())}"
    )


def _read(path: Path) -> dict[str, Any]:
    from silobench.runs import experiment

    return experiment.read_experiment(path)


def _scaled(choices: dict[str, Any], scale: str | None) -> dict[str, Any]:
    """Return a suite at a scale and print which; return an experiment without scales unchanged."""
    from silobench.runs import experiment

    if scale is None and "scale" not in choices:
        return choices
    name = scale or "smoke"
    chosen, scales = experiment.at_scale(choices, name), choices["scale"]
    others = ", ".join(f"--scale {other}" for other in scales if other != name)
    note, more = scales[name].get("note", ""), f" (other scales: {others})" if others else ""
    print(f"scale {name}{': ' if note else ''}{note}{more}", file=sys.stderr)
    return chosen
