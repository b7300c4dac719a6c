"""The shape of the source tree: imports point one way, light modules stay light, and names say what they hold."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import silobench

SOURCE = Path(silobench.__file__).parent
EMPTY_NAMES = {"utils", "helpers", "common", "base", "manager", "handler"}

# The whole import order: a module imports from its own line and from the lines above it, never from below.
# Modules on one line do not import each other, unless they are in the same package.
ORDER = (
    ("errors", "rng", "atomic", "processes", "vectors"),
    ("spec",),
    ("privacy",),
    ("data",),
    ("partitions",),
    ("federation",),
    ("models",),
    ("tasks",),
    ("method",),
    ("training",),
    ("engines",),
    ("loop",),
    ("vertical",),
    ("measures",),
    ("runs",),
    ("silos",),
    ("analysis",),
    ("advice",),
    ("tuning",),
    ("report",),
    ("papers",),
    ("live",),
    ("cli",),
)
LEVEL = {package: level for level, packages in enumerate(ORDER) for package in packages}

# Inside `method` everything rests on `types`, so that an algorithm can be read alone. Folders import these besides.
LEAVES: dict[str, set[str]] = {
    "method/algorithms": set(),
    "method/transforms": {
        "silobench.method.secure",
        "silobench.method.noise",
        *(f"silobench.privacy.{name}" for name in ("accountant", "mechanism", "randomness", "skellam")),
    },
}


FILES = [file for file in sorted(SOURCE.rglob("*.py")) if file.parent != SOURCE or not file.name.startswith("__")]


def module_of(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(("silobench", *(parts[:-1] if parts[-1] == "__init__" else parts)))


MODULES = {module_of(file) for file in FILES}


def imported(file: Path) -> set[str]:
    """Return every module of silobench that a file imports, by its full name; relative imports start with a dot."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            full = {f"{module}.{alias.name}" for alias in node.names}
            names |= full if module == "silobench" else full & MODULES | ({module} if full - MODULES else set())
    return {name for name in names if name.startswith(".") or name.split(".")[0] == "silobench"}


def package_of(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_one_way(file: Path) -> None:
    place = file.relative_to(SOURCE)
    own = place.parts[0].removesuffix(".py")
    for name in imported(file) - {"silobench.__version__"}:
        assert not name.startswith("."), f"{place} imports {name}: write the full name"
        other = package_of(name)
        assert other in LEVEL, f"{place} imports {name}: only the command line uses the public names"
        assert other == own or LEVEL[other] < LEVEL[own], f"{place} imports {name}, which is not above it in ORDER"


def test_the_order_names_every_package() -> None:
    packages = {path.stem for path in SOURCE.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert packages - {"__init__", "__main__", "__pycache__"} == set(LEVEL)


@pytest.mark.parametrize("folder", LEAVES)
def test_algorithms_and_transforms_import_only_types(folder: str) -> None:
    files = [file for file in (SOURCE / folder).glob("*.py") if file.name != "__init__.py"]
    assert files
    needed = {file.name: imported(file) - LEAVES[folder] for file in files}
    assert needed == {file.name: {"silobench.method.types"} for file in files}


def test_there_is_no_cycle_between_modules() -> None:
    edges = {module_of(file): imported(file) & MODULES for file in FILES}
    while leaves := [name for name, needs in edges.items() if not needs & edges.keys()]:
        for name in leaves:
            del edges[name]
    assert not edges


def test_few_files_at_the_top_level() -> None:
    assert len([path for path in SOURCE.iterdir() if path.is_file()]) <= 10


def test_every_package_says_what_lives_there() -> None:
    silent = [
        str(file.parent.relative_to(SOURCE))
        for file in SOURCE.rglob("__init__.py")
        if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert not silent


def test_data_load_without_torch() -> None:
    """Reading a dataset needs a fraction of the memory that torch takes."""
    code = "import sys, silobench; silobench.load('digits'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_module_has_an_empty_name() -> None:
    names = {path.stem.lower().strip("_") for path in SOURCE.rglob("*") if path.is_dir() or path.suffix == ".py"}
    assert "rounds" in names
    assert not names & EMPTY_NAMES


OPENINGS = ("The same", "Of ", "Those", "All of them", "None ", "And ", "Same ")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_docstrings_stand_alone(file: Path) -> None:
    """A docstring that begins in the middle of another sentence makes sense only beside that sentence."""
    kinds = (ast.FunctionDef, ast.ClassDef, ast.Module)
    nodes = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, kinds)]
    texts = [text for node in nodes if (text := ast.get_docstring(node))]
    assert not [text.splitlines()[0] for text in texts if text.startswith(OPENINGS)]


def test_no_test_module_imports_another() -> None:
    """Shared code is in modules without the prefix `test_`; there are several modules called conftest."""
    for file in Path(__file__).parent.rglob("*.py"):
        lines = file.read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.startswith(("from conftest ", "from test_", "import test_"))], file
