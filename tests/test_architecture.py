"""The shape of the source tree: imports point one way, light modules stay light, and names say what they hold."""

import ast
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import silobench

SOURCE = Path(silobench.__file__).parent
EMPTY_NAMES = {"utils", "helpers", "common", "base", "manager", "handler"}

# The whole import order: a module imports from its own line and from the lines above it, never from below.
# Modules on one line do not import each other, unless they are in the same package.
ORDER = (
    ("errors",),
    ("rng", "safety"),
    ("atomic", "processes", "vectors"),
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
PACKAGES: dict[str, list[Path]] = defaultdict(list)  # one test for each, since one for each file takes longer to start
for each in FILES:
    PACKAGES[each.relative_to(SOURCE).parts[0].removesuffix(".py")].append(each)


def module_of(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return ".".join(("silobench", *(parts[:-1] if parts[-1] == "__init__" else parts)))


MODULES = {module_of(file) for file in FILES}


@cache
def content_of(file: Path) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return every module that a file imports, by its full name, and its docstrings."""
    names: set[str] = set()
    docstrings: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            full = {f"{module}.{alias.name}" for alias in node.names}
            names |= full if module == "silobench" else full & MODULES | ({module} if full - MODULES else set())
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            docstrings.append(ast.get_docstring(node) or "")
    return frozenset(names), tuple(docstrings)


def imported(file: Path) -> set[str]:
    """Return every module of silobench that a file imports, by its full name; relative imports start with a dot."""
    return {name for name in content_of(file)[0] if name.startswith(".") or name.split(".")[0] == "silobench"}


def package_of(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


@pytest.mark.parametrize("own", PACKAGES)
def test_imports_point_one_way(own: str) -> None:
    imports = [(file.relative_to(SOURCE), name) for file in PACKAGES[own] for name in imported(file)]
    for place, name in imports:
        if name == "silobench.__version__":
            continue
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


LONGEST_FILE = 450
LONGEST_FUNCTION = 45
# Functions that are longer, and why. What remains without arguments and docstring must fit on a screen anyway.
LONG_FUNCTIONS = {
    "data/readers/user_linked.py: linked": "16 arguments of a spec, and what they mean",
    "data/readers/user_tables.py: csv": "18 arguments of a spec, and what they mean",
    "method/controllers/skewscout.py: skewscout": "13 arguments of a spec, the equation and departures from the paper",
    "method/solvers/dp_sgd.py: dp_sgd": "13 arguments of a spec, the equation and what it guarantees",
}


def test_files_are_short() -> None:
    lengths = {str(file.relative_to(SOURCE)): len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert not {name: lines for name, lines in lengths.items() if lines >= LONGEST_FILE}


def lengths_of_functions(file: Path) -> dict[str, tuple[int, int]]:
    """Return the lines of each function of a file: all, from `def` to the end, and those of statements."""
    lengths = {}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            end = node.end_lineno or node.lineno
            first = node.body[1:][0].lineno if ast.get_docstring(node) and node.body[1:] else node.body[0].lineno
            lengths[f"{file.relative_to(SOURCE)}: {node.name}"] = end - node.lineno + 1, end - first + 1
    return lengths


def test_functions_fit_on_a_screen() -> None:
    """A function is at most 45 lines, with arguments and docstring; the list of exceptions has no other entry."""
    lengths = {name: lines for file in FILES for name, lines in lengths_of_functions(file).items()}
    assert len(lengths) > 1000
    assert {name for name, (lines, _) in lengths.items() if lines > LONGEST_FUNCTION} == LONG_FUNCTIONS.keys()
    assert all(lengths[name][1] <= 30 for name in LONG_FUNCTIONS)


OPENINGS = ("The same", "Of ", "Those", "All of them", "None ", "And ", "Same ")


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_stand_alone(package: str) -> None:
    """A docstring that begins in the middle of another sentence makes sense only beside that sentence."""
    for file in PACKAGES[package]:
        _, texts = content_of(file)
        assert not [text.splitlines()[0] for text in texts if text.startswith(OPENINGS)], file


def test_no_test_module_imports_another() -> None:
    """Shared code is in modules without the prefix `test_`; there are several modules called conftest."""
    for file in Path(__file__).parent.rglob("*.py"):
        lines = file.read_text(encoding="utf-8").splitlines()
        assert not [line for line in lines if line.startswith(("from conftest ", "from test_", "import test_"))], file
