"""Debian's Chromium for tests of pages: where it is, how it is started, and why it may be missing."""

import shutil
from pathlib import Path

# A headless browser of a test needs no sandbox (tests may run as root), no graphics card, and nothing from the network.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
AXE = Path(__file__).parents[2] / ".venv" / "axe" / "axe.min.js"  # `make test` brings it
MISSING_AXE = "there is no axe-core, which looks for barriers: `make browser` brings it where npm is installed"
MISSING = "there is no chromium on this machine: `apt-get install chromium`, and run the tests again"


def executable() -> str | None:
    """Return the path of the browser, or None where it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def launch_options() -> dict[str, object]:
    """Return how Playwright starts the browser. Playwright downloads none."""
    return {"executable_path": executable(), "args": list(ARGUMENTS), "headless": True}
