"""Flower's app at the lead: it runs the rounds of a consortium and writes an ordinary run directory."""

import logging
from typing import TYPE_CHECKING, Any

from silobench.errors import SilobenchError
from silobench.silos.flower.post import FlowerPost
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
    from silobench.silos.server import run_consortium

    log = logging.getLogger("silobench")
    log.setLevel(logging.INFO)
    log.addHandler(logging.FileHandler(task.news, encoding="utf-8"))
    try:
        consortium = Consortium.read_signed(task.folder)
        for record in run_consortium(consortium, FlowerPost(grid, consortium.waits.grace), task.out):
            log.info("%s", _line(record, len(consortium.names)))
    except SilobenchError as error:
        log.info("error: %s", error)
        raise


def _line(record: "RoundRecord", silos: int) -> str:
    """Return what people read about a round."""
    answers = len(record.cohort if record.replied is None else record.replied)
    metrics = {"accuracy": record.accuracy, **record.metrics, "loss": record.loss}
    tested = [f"{name} {value:.4g}" for name, value in metrics.items() if value is not None]
    return ", ".join([f"round {record.round}: {answers} of {silos} silos answered", *tested])
