"""Every published experiment as a TOML file, by name."""

import tomllib
from importlib import resources
from pathlib import Path


def names() -> list[str]:
    return sorted(Path(file.name).stem for file in resources.files(__name__).iterdir() if file.name.endswith(".toml"))


def path(name: str) -> Path:
    """The file of a suite; the package is always installed as plain files."""
    return Path(str(resources.files(__name__) / f"{name}.toml"))


def describe() -> list[dict[str, str]]:
    found = []
    for name in names():
        title = tomllib.loads(path(name).read_text(encoding="utf-8")).get("title", "")
        found.append({"name": name, "signature": name, "summary": str(title)})
    return found
