"""Every published experiment as a TOML file: its paper, the paper's numbers, and the scales it can be run at."""

import tomllib
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Return the names of all suites: the demo and those of every paper."""
    return sorted(file.stem for file in (_FOLDER / "demo.toml", *_FOLDER.glob("*/suites/*.toml")))


def path(name: str) -> Path:
    """Return the file of a suite."""
    return next(iter(_FOLDER.glob(f"*/suites/{name}.toml")), _FOLDER / f"{name}.toml")


def describe() -> list[dict[str, Any]]:
    """What each suite says of itself."""
    return [_about(name, tomllib.loads(path(name).read_text(encoding="utf-8"))) for name in names()]


def _about(name: str, suite: dict[str, Any]) -> dict[str, Any]:
    origin = f" ({suite['paper'].split(':')[0]}, {suite['table']})" if "paper" in suite else ""
    facts = {key: suite.get(key, "") for key in ("title", "paper", "table", "numbers")}
    scales = {scale: told["note"] for scale, told in sorted(suite.get("scale", {}).items(), reverse=True)}
    return {"name": name, "signature": name, "summary": suite.get("title", "") + origin, **facts, "scales": scales}
