"""Flower's app at the lead: it runs the rounds of a consortium and writes an ordinary run directory."""

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silobench.errors import SilobenchError, listed
from silobench.silos.flower.post import FlowerPost
from silobench.silos.flower.presence import Presence
from silobench.silos.flower.serving import Task

if TYPE_CHECKING:
    from silobench.training.state import RoundRecord


def server_app() -> Any:
    """Return the ServerApp; the lead's process writes its task."""
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        run_rounds(grid, Task.read())

    return app


def run_rounds(grid: Any, task: Task) -> None:
    """Run the rounds, with one line of news each; an error is the last line."""
    from silobench.silos.consortium import Consortium
    from silobench.silos.server import FOLDER, plan_of, run_consortium

    log, news = logging.getLogger("silobench"), logging.FileHandler(task.news, encoding="utf-8")
    log.setLevel(logging.INFO)
    log.addHandler(news)
    try:
        consortium = Consortium.read_signed(task.folder)
        session = task.out / plan_of(consortium).id / FOLDER
        post = FlowerPost(grid, consortium.waits.grace)
        presence = Presence(post, consortium.names, consortium.quorum, session)
        news.setFormatter(_NamingFormatter(presence))
        for record in run_consortium(consortium, presence, task.out):
            log.info("%s", line_of(record, _roster(session), len(consortium.names)))
    except SilobenchError as error:
        log.info("error: %s", error)
        raise


class _NamingFormatter(logging.Formatter):
    """Lines for people, who know silos by their names."""

    def __init__(self, presence: Presence):
        super().__init__()
        self._presence = presence

    def format(self, record: logging.LogRecord) -> str:
        return self._presence.named(super().format(record))


def _roster(session: Path) -> list[str]:
    """Return the names of the parties of a run that has begun."""
    roster: list[str] = json.loads((session / "session.json").read_text(encoding="utf-8"))["roster"]
    return roster


def line_of(record: "RoundRecord", roster: Sequence[str], silos: int) -> str:
    """Return what people read about a round: how many silos answered, who they are if some did not, and the metrics."""
    answers = record.cohort if record.replied is None else record.replied
    names = f" ({listed([roster[party] for party in answers])})" if 0 < len(answers) < silos else ""
    metrics = {"accuracy": record.accuracy, **record.metrics, "loss": record.loss}
    tested = [f"{name} {value:.4g}" for name, value in metrics.items() if value is not None]
    return ", ".join([f"round {record.round}: {len(answers)} of {silos} silos answered{names}", *tested])
