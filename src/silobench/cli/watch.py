"""The command `watch`: the report in a browser while runs are in progress."""

import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from silobench.cli.busy import waiting
from silobench.cli.options import LoadedPlugins
from silobench.cli.output import print
from silobench.errors import RecordError

if TYPE_CHECKING:
    from silobench.live.server import LiveServer
    from silobench.live.site import LiveSite

_PORT = 8642  # if it is free and no other is asked for, so that a page finds the server again after a restart


def watch(
    directory: Annotated[Path, typer.Argument(help="Directory of runs; it may have none yet, or not exist yet.")],
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help=f"Port of the pages; 0 for any free one. Default: {_PORT}, if it is free."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address of the pages. Others than 127.0.0.1 let other machines read them.")
    ] = "127.0.0.1",
    every: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds between two looks at the directory.")] = 2.0,
    open_: Annotated[bool, typer.Option("--open", help="Open the pages in a browser.")] = False,
    plugin: LoadedPlugins = None,
) -> None:
    """Show the report of runs in a browser while they are in progress. Pages renew themselves; Ctrl-C ends it.

    The pages can only be read, and nothing is written into the directory.
    """
    if directory.exists() and not directory.is_dir():
        raise RecordError(f"{directory} is a file: give the directory of runs, as in `silobench run ... --out DIR`.")
    from silobench.live.pages import live_pages
    from silobench.live.site import LiveSite

    site = LiveSite(directory, live_pages(directory.resolve().name))
    with waiting(f"reading the runs in {directory}"):
        site.refresh()
    server = _server(host, port, site)
    _print_address(directory, host, server.address)
    if open_:
        import webbrowser

        webbrowser.open(server.address)
    over = threading.Event()
    with server.serving():
        try:
            site.keep_fresh(every, over)
        finally:
            over.set()


def _server(host: str, port: int | None, site: "LiveSite") -> "LiveServer":
    """Return a server at a port, or at the usual one or any free one if none is asked for."""
    from silobench.errors import ConfigError
    from silobench.live.server import LiveServer

    if port is not None:
        return LiveServer(host, port, lambda: site.edition)
    try:
        return LiveServer(host, _PORT, lambda: site.edition)
    except ConfigError:
        return LiveServer(host, 0, lambda: site.edition)


def _print_address(directory: Path, host: str, address: str) -> None:
    from silobench.live.server import is_private

    is_there = directory.exists()
    print(f"watching {directory}: {address} (Ctrl-C ends it)", flush=True)
    if not is_there:
        note = f"note: {directory} does not exist yet, so this waits for it: check the path, or start the runs."
        print(note, file=sys.stderr)
    if not is_private(host):
        print(
            f"warning: --host {host} lets everyone who can reach this machine read the results; there is no password.",
            file=sys.stderr,
        )
