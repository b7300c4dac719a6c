"""Flower's app at the lead: it runs the rounds of a consortium and writes an ordinary run directory."""

import logging
import os
from pathlib import Path
from typing import Any

from silobench.silos.flower.post import FlowerPost
from silobench.silos.flower.serving import CONSORTIUM, NEWS, OUT


def server_app() -> Any:
    """Return the ServerApp. The lead's process states in its environment which folder to read and where to write."""
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        run_rounds(grid, Path(os.environ[CONSORTIUM]), Path(os.environ[OUT]), Path(os.environ[NEWS]))

    return app


def run_rounds(grid: Any, folder: Path, out: Path, news: Path) -> None:
    """Run the rounds, with one line of news each; an error is the last line."""
    from silobench.silos.consortium import Consortium
    from silobench.silos.server import run_consortium

    log = logging.getLogger("silobench")
    log.setLevel(logging.INFO)
    log.addHandler(logging.FileHandler(news, encoding="utf-8"))
    try:
        consortium = Consortium.read_signed(folder)
        for record in run_consortium(consortium, FlowerPost(grid, consortium.waits.grace), out):
            log.info("round %d", record.round)
    except Exception as error:
        log.info("error: %s", error)
        raise
