"""Option types that several commands share."""

import os
from pathlib import Path
from typing import Annotated

import typer


def _use_data_dir(path: Path | None) -> Path | None:
    """Set the data directory for this process and for the worker processes that it starts."""
    if path is not None:
        os.environ["SILOBENCH_DATA"] = str(path)
        os.environ["SILOBENCH_DATA_DIR_GIVEN"] = str(path)  # commands suggested in messages repeat the option
    return path


DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        callback=_use_data_dir,
        help="Directory of the datasets. Default: $SILOBENCH_DATA, else a folder in the user's cache.",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="Device that trains and tests networks: cpu, cuda, mps, or auto for the first that is there; "
        "cuda-nondeterministic, if a network needs operations that differ from run to run. Default: the experiment's, "
        "else cpu.",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="auto|HOST:PORT",
        help="Ray cluster for --engine ray: auto for one that runs on this machine, or its head. Default: start Ray "
        "here for this command.",
    ),
]
CpusPerParty = Annotated[
    float | None, typer.Option("--cpus-per-party", help="CPUs that --engine ray reserves for a party. Default: 1.")
]
GpusPerParty = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-party", help="GPUs that --engine ray reserves for a party, such as 1 or 0.25. Default: none."
    ),
]
EngineName = Annotated[str, typer.Option(help="Engine that trains the parties: one of `silobench list engines`.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Number of worker processes. Default: one per core.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the experiment. Repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print the results as JSON and nothing else.")]
Out = Annotated[Path, typer.Option("--out", "--output", help="Directory for the runs.")]
_PLUGIN = (
    "Python file that registers your own parts: algorithms, models, partitions, objectives, metrics, measures, "
    "transforms, datasets, or anything else that `silobench list` has. Repeatable."
)


def _load_plugins(paths: list[Path] | None) -> list[Path] | None:
    if paths:
        from silobench.runs.experiment import load_plugin

        for path in paths:
            load_plugin(path)
    return paths


Plugins = Annotated[list[Path] | None, typer.Option("--plugin", help=_PLUGIN)]
LoadedPlugins = Annotated[list[Path] | None, typer.Option("--plugin", callback=_load_plugins, help=_PLUGIN)]
