"""A report as a folder of pages, or as one file to send. The same runs give the same bytes.

The folder has a list of the files that silobench wrote. A report that is written again replaces these, deletes those
that it no longer has, and refuses to touch any other file. A report of one file replaces only a page of silobench.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from filelock import FileLock, Timeout

from silobench.analysis.cells import CellResult, collect
from silobench.analysis.claims import Finding
from silobench.atomic import replace_atomically
from silobench.errors import RecordError
from silobench.report.contents import Contents
from silobench.report.page import Page
from silobench.report.pages import pages_of
from silobench.report.pages.runs import MOST_ALONE, MOST_PAGES, run_page
from silobench.report.rendering import Frame, Link, assets, refuse_foreign, render
from silobench.runs.results import Results
from silobench.runs.stored import StoredRun

WRITTEN = ".written-by-silobench.json"  # the list of files in the folder of a report
_LOCK = ".written-by-silobench.lock"  # for two commands that write a report at once
_PATIENCE = 60.0  # seconds to wait for the other command
_ALONE = "alone.html"


def write_site(
    results: Results | Sequence[CellResult],
    path: Path,
    title: str = "silobench report",
    *,
    cells: Sequence[CellResult] | None = None,
    findings: Sequence[Finding] = (),
    more: Sequence[Page] = (),
    live: bool = False,
) -> Path:
    """Write the report of some runs and return its first page.

    `path` is the folder of the pages, or a file that ends in .html for a report of one file. `cells` are those of the
    runs with the papers' numbers; `findings` are judged by them, and `more` are further pages, such as those of papers.
    With `live`, pages may ask their server for news.
    """
    contents = contents_of(results, title, cells, findings, more, live)
    if not contents.runs:
        raise RecordError("there is no run to report: run the experiment first.")
    if is_one_file(path):
        refuse_foreign(path)
        return _write_alone(replace(contents, is_alone=True), path)
    files = dict(site_files(contents))
    _write_folder(files, path)
    return path / "index.html"


def is_one_file(path: Path) -> bool:
    """Whether a report at this path is one file, by its ending."""
    return path.suffix.lower() in (".html", ".htm")


def contents_of(
    results: Results | Sequence[CellResult], title: str, cells: Sequence[CellResult] | None,
    findings: Sequence[Finding], more: Sequence[Page], live: bool = False,
) -> Contents:  # fmt: skip
    """Return what the pages of some runs are made from."""
    if isinstance(results, Results):
        known = collect(results.runs) if cells is None else cells
        ordered = sorted(results.runs, key=lambda run: (run.facts.created, run.facts.id))
        absent, problems = len(results.not_started), results.problems
        return Contents(title, known, ordered, findings, more, absent, problems, live)
    runs = [run for cell in results for run in cell.runs]
    return Contents(title, results, runs, findings, more, live=live)


# --- pages --------------------------------------------------------------------------------------------


def run_files(run: StoredRun, frame: Frame) -> dict[str, bytes]:
    """Return the page of a run in its frame, and its experiment file, by their path."""
    page = run_page(run)
    toml = str(page.content["toml"]).encode()
    return {page.file: render(page, frame).encode(), page.file.replace(".html", ".toml"): toml}


def site_files(
    contents: Contents, of_run: Callable[[StoredRun, Frame], Mapping[str, bytes]] = run_files
) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a site by their path: pages, pages of runs with their experiment files, and assets.

    `of_run` returns the files of a run; one that remembers them may be used in place of `run_files`.
    """
    pages = pages_of(contents)
    for page in pages:
        yield page.file, render(page, _frame(contents, pages, page.file)).encode()
    frame = _frame(contents, pages, "runs.html", root="../")
    for run in contents.runs[:MOST_PAGES]:
        yield from of_run(run, frame).items()
    for path, text in assets().items():
        yield path, text.encode()


def _frame(contents: Contents, pages: Sequence[Page], current: str, root: str = "") -> Frame:
    links = [Link(root + page.file, page.title) for page in pages]
    return Frame(contents.title, links, root + current, root, live=contents.live)


def _write_alone(contents: Contents, path: Path) -> Path:
    """Write all pages as one file."""
    pages = pages_of(contents)
    links = [Link(f"#{page.anchor}", page.title) for page in pages]
    few = contents.runs[:MOST_ALONE]
    content = {"pages": pages, "run_pages": [run_page(run) for run in few]}
    whole = Page(path.name, contents.title, template=_ALONE, content=content)
    text = render(whole, Frame(contents.title, links, is_alone=True, live=contents.live))
    _write(path, text.encode())
    return path


# --- files --------------------------------------------------------------------------------------------


def _write_folder(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a site. Those of an earlier report are replaced or deleted, and no others are touched."""
    try:
        _earlier(files, folder)  # before anything is written, the lock included
    except RecordError:
        if not (folder / _LOCK).exists():  # else another command may be writing these files now
            raise
    with _locked(folder):
        earlier = _earlier(files, folder)
        try:
            for parent in sorted({(folder / name).parent for name in files}):
                parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordError(f"{folder} cannot be written ({error.strerror}): choose another place.") from error
        _write(folder / WRITTEN, _listing({*earlier, *files}))  # before the pages: a report that is cut off can go on
        for name, content in files.items():
            _write(folder / name, content)
        for name in sorted(earlier - files.keys()):
            (folder / name).unlink(missing_ok=True)
        _write(folder / WRITTEN, _listing(set(files)))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Create the folder of a report, if there is none, and keep other commands out of it."""
    place = folder / _LOCK
    if place.is_symlink():
        raise RecordError(f"{place} is a link, and a report writes only into its own folder: delete the link.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordError(f"{folder} cannot be written ({error.strerror}): choose another place.") from error
    lock = FileLock(place)
    try:
        lock.acquire(timeout=_PATIENCE)
    except Timeout as error:
        raise RecordError(
            f"{folder} is being written by another process: wait for it, or choose another place with --out."
        ) from error
    except (OSError, NotImplementedError):
        pass  # read-only, the lock of another person, or no locks: pages that cannot be written are refused themselves
    try:
        yield
    finally:
        lock.release()


def _earlier(files: Mapping[str, bytes], folder: Path) -> set[str]:
    """Return the files of an earlier report; refuse a folder where others have files of these names."""
    earlier = _written(folder)
    foreign = [name for name in files if (name not in earlier and (folder / name).exists()) or _leaves(folder, name)]
    if foreign:
        raise RecordError(
            f"{folder / foreign[0]} exists and was not written by `silobench report`: move it away, or choose another "
            "place with --out."
        )
    return earlier


def _written(folder: Path) -> set[str]:
    """Return the files of an earlier report in a folder.

    A list that is damaged counts as none. Names that lead elsewhere, and names of anything but files, are left out.
    """
    try:
        names = json.loads((folder / WRITTEN).read_text(encoding="utf-8"))["files"]
        return {str(name) for name in names if not _leaves(folder, name) and (folder / name).is_file()}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _leaves(folder: Path, name: str) -> bool:
    """Whether the place of a file is not in the folder: a link, or a name with two dots, leads elsewhere."""
    place = Path(name)
    return (
        place.is_absolute()
        or ".." in place.parts
        or not (folder / place).parent.resolve().is_relative_to(folder.resolve())
    )


def _listing(names: set[str]) -> bytes:
    return json.dumps({"files": sorted(names)}, indent=0).encode()


def _write(path: Path, content: bytes) -> None:
    """Write a file that a reader sees whole; one that has this content already is left as it is."""
    try:
        if path.is_file() and path.read_bytes() == content:
            return
        replace_atomically(path, content, durable=False)
    except OSError as error:
        raise RecordError(f"{path} cannot be written ({error.strerror}): choose another place.") from error
