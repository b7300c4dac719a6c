"""Flower's app at the lead: it runs the rounds of a consortium and writes an ordinary run directory."""

from typing import Any


def server_app() -> Any:
    """Return the ServerApp."""
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        raise NotImplementedError

    return app
