"""Flower's app at a silo: it forwards a letter to the silo's process, and sees neither rows nor keys."""

from pathlib import Path
from typing import Any

from silobench.silos.flower.desk import forward
from silobench.silos.flower.parcels import letter_in, record_of

DESK = "silobench-desk"  # the key of the node's configuration that names the folder of the desk


def client_app() -> Any:
    """Return the ClientApp."""
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()  # type: ignore[untyped-decorator]
    def answered(message: Message, context: Context) -> Message:
        answer = forward(Path(str(context.node_config[DESK])), letter_in(message.content))
        return Message(record_of(answer), reply_to=message)

    return app
