"""The shape of the source tree: imports point one way, and no module is named after nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import silobench

SOURCE = Path(silobench.__file__).parent
EMPTY_NAMES = {"utils", "helpers", "common", "base", "manager", "handler"}


def imported(file: Path) -> set[str]:
    """Every module of silobench that a file imports, by its full name; relative imports as dots."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add("." * node.level + (node.module or ""))
    return {name for name in found if name.startswith(".") or name.split(".")[0] == "silobench"}


@pytest.mark.parametrize("package", ["algorithms", "transforms"])
def test_algorithms_and_transforms_import_only_types(package: str) -> None:
    files = [file for file in (SOURCE / package).rglob("*.py") if file.name != "__init__.py"]
    assert files
    assert {file.name: imported(file) for file in files} == {file.name: {"silobench.method.types"} for file in files}


def test_types_imports_only_ranges_of_arguments_and_the_wire() -> None:
    assert imported(SOURCE / "types.py") == {"silobench.spec.ranges", "silobench.vectors"}
    assert imported(SOURCE / "wire.py") == set()
    assert imported(SOURCE / "ranges.py") == set()


def test_data_load_without_torch() -> None:
    """Reading a dataset needs a fraction of the memory that torch takes."""
    code = "import sys, silobench; silobench.load('digits'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_module_has_an_empty_name() -> None:
    names = {path.stem.lower().strip("_") for path in SOURCE.rglob("*") if path.is_dir() or path.suffix == ".py"}
    assert "rounds" in names
    assert not names & EMPTY_NAMES
