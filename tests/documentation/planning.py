"""Command lines that are checked without being carried out: they are parsed, and experiments are planned."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer

from silobench.cli import app as cli
from silobench.cli.running import settings_of
from silobench.data import DATASETS, Dataset, load
from silobench.errors import AbsentError, DataError
from silobench.runs import plan as planning
from silobench.runs.experiment import override, plan_present

# Embedded data that stand for datasets which are not here, so that the rest of a run is checked with data of its kind.
_STAND_INS = {
    "adult": "breast-cancer", "covtype": "breast-cancer", "sentiment": "synthetic-reviews",
    "identities": "synthetic-faces", "csv": "breast-cancer",
}  # fmt: skip


def parsed(arguments: Sequence[str]) -> dict[str, Any]:
    """Return the options of a command line, which must be one that silobench takes."""
    group = typer.main.get_command(cli.app)
    command, names = group, list(arguments)
    while hasattr(command, "commands"):
        command = command.commands[names.pop(0)]
    with patch.object(command, "callback", lambda **options: options):  # all calls of a process share the parsers
        return group.main(list(arguments), prog_name="silobench", standalone_mode=False)  # type: ignore[no-any-return]


def planned(arguments: Sequence[str]) -> int:
    """Return the number of runs that `silobench run` would do if all datasets were here; there must be some."""
    options = parsed(arguments)
    choices = cli._scaled(cli._read(cli._experiment_path(options["experiment"])), options["scale"])
    changes = settings_of(options["set_"] or []) | ({"trials": options["trials"]} if options["trials"] else {})
    with _with_stand_ins():
        plans, absent = plan_present(override(choices, changes), options["only"], options["plugin"] or ())
    assert plans
    assert not absent
    return len(plans)


def planned_text(text: str) -> int:
    """Return the number of runs of an experiment, or of a part of one. A key that is repeated has alternatives."""
    try:
        experiments = [tomllib.loads(text)]
    except tomllib.TOMLDecodeError:
        lines = [line for line in text.splitlines() if line.strip()]
        assert len({line.partition("=")[0].strip() for line in lines}) == 1, (
            "a block with a mistake, or with several keys"
        )
        experiments = [tomllib.loads(line) for line in lines]
    return sum(_planned_choices({"dataset": "digits", **experiment}) for experiment in experiments)


def _planned_choices(choices: Mapping[str, Any]) -> int:
    with _with_stand_ins():
        plans, absent = plan_present(choices)
    assert not absent
    return len(plans)


@contextmanager
def _with_stand_ins() -> Iterator[None]:
    data = planning._data

    def stand_in(spec: str) -> Dataset:
        try:
            return data(spec)
        except DataError as error:
            if not isinstance(error, AbsentError) and "there is no" not in str(error):
                raise
            name = DATASETS.bind(spec).full.name  # the spec itself must be right
            return load(_STAND_INS.get(name, "digits"))

    with patch.object(planning, "_data", stand_in):
        yield


def make_target(root: Path, arguments: Sequence[str]) -> None:
    """Check that make has these targets, and uses these variables, as in DEVICE=cuda."""
    text = (root / "Makefile").read_text(encoding="utf-8")
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if equals:
            assert f"$({name})" in text, f"the Makefile does not use the variable {name}"
        else:
            assert any(line.startswith(f"{name}:") for line in text.splitlines()), f"the Makefile has no target {name}"


def installable(root: Path, arguments: Sequence[str]) -> None:
    """Check that pip is given a folder and extras that exist."""
    facts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    assert arguments[0] == "install"
    places = [argument for argument in arguments[1:] if not argument.startswith("-")]
    for place in places:
        folder, _, extras = place.partition("[")
        names = filter(None, extras.removesuffix("]").split(","))
        assert folder == facts["project"]["name"] or (root / folder).exists()
        assert set(names) <= facts["project"]["optional-dependencies"].keys()
