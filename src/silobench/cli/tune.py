"""The command tune: search the arguments of an experiment on validation rows, and confirm the best on test rows."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silobench.cli import options
from silobench.cli.busy import waiting
from silobench.cli.output import print
from silobench.cli.running import (
    engine_for,
    need_folder,
    prepare_workers,
    resumable,
    settings_of,
    sweep_with_progress,
    with_cluster,
)
from silobench.errors import ConfigError
from silobench.processes import cores

if TYPE_CHECKING:
    from silobench.runs.plan import Plan
    from silobench.tuning.search import Run
    from silobench.tuning.study import Outcome, Study

_Experiment = Annotated[
    Path,
    typer.Argument(metavar="FILE.toml", help="An experiment with one setting; its table `tune` has the ranges."),
]
_Space = Annotated[
    list[str] | None,
    typer.Option(
        "--space",
        metavar="KEY=RANGE",
        help='A key or an argument to search and its range, such as "solver.lr=log(0.001, 1.0)", '
        "\"solver.batch=[16, 32]\" or \"algorithm=['fedavg', 'fedprox']\". Repeatable; it replaces that of the file.",
    ),
]
_Trials = Annotated[int, typer.Option(min=1, help="Number of settings to try. The first is the experiment as it is.")]
_Validation = Annotated[
    str, typer.Option(metavar="A:B", help="Training rows and validation rows of a trial, as a ratio.")
]
_Prune = Annotated[
    bool, typer.Option("--prune", help="Give up trials below the median after a quarter or half of their rounds.")
]
_Repeats = Annotated[
    int, typer.Option(min=0, help="Further seeds of the three best trials and of the defaults, on validation rows.")
]
_Folder = Annotated[
    Path | None, typer.Option("--out", "--output", help="Directory of the study. Default: runs/tune-NAME, by the file.")
]


@resumable()
def tune(
    experiment: _Experiment, space: _Space = None, trials: _Trials = 24,
    sampler: Annotated[str, typer.Option(help="tpe, random or grid.")] = "tpe",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sampler.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Runs per trial; a trial is judged by their mean.")] = 3,
    validation: _Validation = "4:1", prune: _Prune = False,
    batch: Annotated[int, typer.Option(min=1, help="Trials that are suggested together and run side by side.")] = 4,
    repeats: _Repeats = 3,
    confirm: Annotated[int, typer.Option(min=0, help="Fresh seeds of both with all training rows, on test rows.")] = 3,
    set_: options.Overrides = None, engine: options.EngineName = "auto", workers: options.Workers = None,
    ray_address: options.RayAddress = None, cpus_per_party: options.CpusPerParty = None,
    gpus_per_party: options.GpusPerParty = None, device: options.Device = None, out: _Folder = None,
    json_: options.Json = False, plugin: options.Plugins = None, data_dir: options.DataDir = None,
) -> None:  # fmt: skip
    """Search any arguments of an experiment by validation rows; run it again to resume.

    Trials never see the test rows. At the end the tuned experiment is written as a file, and it is compared with the
    defaults on fresh seeds.
    """
    engine = with_cluster(engine, workers, ray_address, cpus_per_party, gpus_per_party)
    folder, plugins = out or Path("runs") / f"tune-{experiment.stem}", tuple(plugin or ())
    need_folder(folder)
    prepare_workers(engine, workers)
    overrides = settings_of(set_ or []) | ({"device": device} if device else {})
    sampling = {"sampler": sampler, "seed": seed, "seeds": seeds, "validation": validation, "prune": prune}
    study = _opened(folder, experiment, overrides, space or [], plugins, {**sampling, "batch": batch})
    from silobench.tuning.search import Search, outcome_of

    search = Search(folder, _runner(engine, workers, plugins), plugins, _announcer(folder))
    study = search.until(study, trials)
    study = search.repeat(study, repeats) if repeats else study
    study = search.confirm(study, confirm) if confirm else study
    study.write(folder)
    outcome = outcome_of(study, folder)
    _write_tuned(outcome, folder)
    _print_outcome(outcome, folder, json_)


def _opened(
    folder: Path,
    experiment: Path,
    overrides: Mapping[str, Any],
    space: list[str],
    plugins: Sequence[Path],
    sampling: Mapping[str, Any],
) -> "Study":
    """Return the study of a folder, as it was left or new, and print the notes about its search space."""
    with waiting("planning the study"):
        from silobench.runs.experiment import load_plugin, override, read_experiment
        from silobench.tuning.search import definition_of, notes, open_study

        for path in plugins:
            load_plugin(path)
        choices = override(read_experiment(experiment), overrides)
        ranges = _ranges(choices, settings_of(space, "--space", '"solver.lr=log(0.001, 1.0)"'))
        definition = definition_of(choices, ranges, **sampling)
        study = open_study(definition, folder)
    for note in notes(definition):
        print(f"note: {note}", file=sys.stderr)
    return study


def _ranges(choices: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the search space of the file and of the command line."""
    table = choices.get("tune", {})
    if not isinstance(table, dict):
        raise ConfigError('tune must be a table of ranges: write [tune], and below it "solver.lr" = "log(0.001, 1.0)".')
    return {**_flat(table), **given}


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table of ranges by whole keys; solver.lr without quotation marks is a table in a table."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{name}": each for name, each in _flat(value).items()}
        else:
            flat[key] = value
    return flat


def _runner(engine: str, workers: int | None, plugins: Sequence[Path]) -> "Run":
    """Return a function that checks plans and runs them with progress bars."""
    notes: set[str] = set()

    def run(plans: "Sequence[Plan]", out: Path) -> None:
        from silobench.runs.prepare import check

        chosen = engine_for(engine)
        with waiting(f"checking {len(plans)} run{'s' * (len(plans) != 1)}"):
            check(plans, out, chosen)
        count = workers or chosen.workers or cores()
        sweep_with_progress(plans, out, engine, count, plugins, total=len(plans), live=not chosen.is_debug, notes=notes)

    return run


def _announcer(folder: Path) -> "Any":
    def announce(study: "Study") -> None:
        from silobench.tuning.study import read_outcome

        outcome = read_outcome(study, folder)
        if outcome.finished:
            best = outcome.best
            score = outcome.metric.text(best.score)
            line = f"{len(outcome.trials)} trials; the best is trial {best.trial.number}, {score} on validation rows"
            print(line, file=sys.stderr)

    return announce


def _write_tuned(outcome: "Outcome", folder: Path) -> Path:
    from silobench.atomic import replace_atomically
    from silobench.spec.toml import toml_text
    from silobench.tuning.search import tuned_choices
    from silobench.tuning.verdict import sentences

    choices = tuned_choices(outcome.study.definition.choices, outcome.best.trial.values)
    path = folder / "tuned.toml"
    replace_atomically(path, toml_text(choices, [f"Tuned: {sentences(outcome)[0]}"]).encode())
    return path


def _print_outcome(outcome: "Outcome", folder: Path, json_: bool) -> None:
    from silobench.tuning.verdict import facts, sentences

    if json_:
        print(json.dumps({**facts(outcome), "file": str(folder / "tuned.toml")}, indent=1))
        return
    from silobench.cli.terminal import print_table
    from silobench.tuning.tables import confirm_table, trials_table

    print_table(trials_table(outcome))
    if outcome.confirm[0]:
        print_table(confirm_table(outcome))
    for line in sentences(outcome):
        print(line)
    print(f"tuned experiment: {folder / 'tuned.toml'}")
