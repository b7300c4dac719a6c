"""The pages of the live view, in memory: made anew when records have changed, and written nowhere."""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TypeAlias

from silobench.errors import SilobenchError
from silobench.live.progress import Progress, progress_of
from silobench.live.records import Look, RecordReader, look_at
from silobench.runs.results import Results

Render: TypeAlias = Callable[[Results], Mapping[str, bytes]]  # from runs to the files of a site, by path
LIVE_FILES = ("live.js", "live.css")  # what a page needs to renew itself
STATE = "live.json"  # what a page asks for: version, progress, problems
_BLANK = b'<!doctype html><html lang="en"><head><title>silobench</title></head><body></body></html>'
_RESTS = 4  # times what writing the pages took: runs need the processor too


@dataclass(frozen=True)
class Edition:
    """The site at one time: its files by path, a digest of them, and when they were written."""

    files: Mapping[str, bytes]
    version: str
    updated: str  # ISO 8601, UTC
    progress: Progress
    problems: tuple[str, ...] = ()

    def state(self) -> bytes:
        """Return what pages of an earlier edition need to know, as JSON."""
        facts = {
            "version": self.version, "updated": self.updated, "progress": self.progress.as_json(),
            "problems": self.problems,
        }  # fmt: skip
        return json.dumps(facts).encode()


@dataclass
class LiveSite:
    """The newest edition of the pages of a directory. One thread calls `refresh`; any thread may read `edition`.

    `render` returns the files of the pages of some runs.
    """

    root: Path
    render: Render
    reader: RecordReader = field(init=False)
    edition: Edition = field(init=False)  # after the first call of `refresh`
    _look: Look | None = None
    _pages: Mapping[str, bytes] = field(
        default_factory=lambda: {"index.html": _BLANK}
    )  # the newest, without the script
    _results: Results = field(default_factory=lambda: Results([], []))

    def __post_init__(self) -> None:
        self.reader = RecordReader(self.root)

    def refresh(self) -> bool:
        """Look at the directory, and write the pages anew if it changed. Return whether it did."""
        look = look_at(self.root)
        if look == self._look:
            self.edition = self._with_progress(look)
            return False
        results = self.reader.read(look)
        files, problems = self._files(results)
        self._look, self._results = look, results
        version, now = _digest(files), datetime.now(UTC).isoformat(timespec="seconds")
        progress = progress_of(results, look, time.time())
        self.edition = Edition(_with_script(files, version), version, now, progress, (*results.problems, *problems))
        return True

    def keep_fresh(self, every: float, over: threading.Event) -> None:
        """Refresh every so many seconds, and less often where writing the pages takes long, until `over` is set."""
        pause = every
        while not over.wait(pause):
            began = time.monotonic()
            changed = self.refresh()
            pause = max(every, _RESTS * (time.monotonic() - began)) if changed else every

    def _with_progress(self, look: Look) -> Edition:
        """Return the edition with what time alone changes: a run without a new round for long has stopped."""
        edition = self.edition
        progress = progress_of(self._results, look, time.time())
        return Edition(edition.files, edition.version, edition.updated, progress, edition.problems)

    def _files(self, results: Results) -> tuple[Mapping[str, bytes], list[str]]:
        """Return the files of the site, and what went wrong; the pages of before stay if there are no new ones."""
        try:
            self._pages = self.render(results)
        except Exception as error:
            what = str(error) if isinstance(error, SilobenchError) else f"{type(error).__name__}: {error}"
            return self._pages, [f"the pages are not up to date, because new ones cannot be made ({what})."]
        return self._pages, []


def _digest(files: Mapping[str, bytes]) -> str:
    """Return a short digest of files and their names."""
    parts = (part for name in sorted(files) for part in (name.encode(), files[name]))
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]


def _with_script(files: Mapping[str, bytes], version: str) -> dict[str, bytes]:
    """Return the files of a site whose pages load the script that renews them, and know their version."""
    assets = resources.files("silobench.report") / "assets"
    more = {name: (assets / name).read_bytes() for name in LIVE_FILES}
    script = f'<script src="/live.js" data-version="{version}" defer></script>'
    head = f'<link rel="stylesheet" href="/live.css">{script}</head>'.encode()
    pages = {name: content.replace(b"</head>", head, 1) for name, content in files.items() if name.endswith(".html")}
    return {**files, **pages, **more}
