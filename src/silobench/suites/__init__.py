"""Every published experiment as a TOML file: its paper, the paper's numbers, and the scales it can be run at."""

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any


def names() -> list[str]:
    return sorted(Path(file.name).stem for file in resources.files(__name__).iterdir() if file.name.endswith(".toml"))


def path(name: str) -> Path:
    """The file of a suite; the package is always installed as plain files."""
    return Path(str(resources.files(__name__) / f"{name}.toml"))


def describe() -> list[dict[str, Any]]:
    """What each suite says of itself."""
    return [_about(name, tomllib.loads(path(name).read_text(encoding="utf-8"))) for name in names()]


def _about(name: str, suite: dict[str, Any]) -> dict[str, Any]:
    origin = f" ({suite['paper'].split(':')[0]}, {suite['table']})" if "paper" in suite else ""
    facts = {key: suite.get(key, "") for key in ("title", "paper", "table", "numbers")}
    scales = {scale: told["note"] for scale, told in sorted(suite.get("scale", {}).items(), reverse=True)}
    return {"name": name, "signature": name, "summary": suite.get("title", "") + origin, **facts, "scales": scales}
