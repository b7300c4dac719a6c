"""Every place in the source that could execute bytes, with the reason why it may: a new one needs a reason here."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import silobench

SOURCE = Path(silobench.__file__).parent
# Modules whose functions run what they read, or start programs. Whoever imports one is listed below.
MODULES = {
    "cloudpickle", "code", "ctypes", "dill", "importlib", "jsonpickle", "joblib", "marshal", "pickle", "pickletools",
    "pty", "runpy", "shelve", "subprocess", "webbrowser", "xmlrpc", "yaml",
}  # fmt: skip
# Functions that do so, by their last name.
CALLS = {"__import__", "breakpoint", "compile", "eval", "exec", "execl", "execv", "execve", "popen", "spawnv", "system"}
LOADERS = {"load", "loads", "load_module", "read_pickle"}  # those of the modules in the next line
LOADING = {"torch", "numpy", "pickle", "joblib", "safetensors", "pandas"}

_CIFAR = "the python form of CIFAR-10 is a pickle: an own unpickler knows five names, and none of them runs code"
_PIPE = "values between this process and its own workers, by a pipe that no other process has"
_RAY = "values between this process and a Ray cluster, which runs any code of whoever has its token"
_FIXED = "it starts a program with arguments as a list, without a shell"
_VERSIONS = "versions and packaged files only (importlib.metadata, importlib.resources)"
_OPTIONAL = "a module with a fixed name, which is imported only where it is needed"
REASONS = {
    ("cli/doctor.py", "importlib"): _VERSIONS,
    ("cli/doctor.py", "subprocess"): _FIXED,
    ("cli/watch.py", "webbrowser"): "it opens the page of the live view, if --open is given",
    ("analysis/flat/needed.py", "importlib"): _OPTIONAL,
    ("data/readers/cifar.py", "pickle"): _CIFAR,
    ("data/readers/cifar.py", "pickletools"): _CIFAR,
    ("data/readers/cifar.py", "load"): _CIFAR,
    ("data/readers/geo.py", "importlib"): _VERSIONS,
    ("data/store/cache.py", "importlib"): _VERSIONS,
    ("data/store/cache.py", "load"): "numpy with allow_pickle=False",
    ("data/store/catalog.py", "importlib"): _VERSIONS,
    ("data/store/download.py", "subprocess"): "pip, npm and apt download what the catalogue names, and install nothing",
    ("data/store/sdists.py", "subprocess"): "pip states its settings",
    ("data/word_vectors.py", "load"): "numpy with allow_pickle=False",
    ("engines/cluster/connection.py", "importlib"): _OPTIONAL,
    ("engines/cluster/parcels.py", "pickle"): _RAY,
    ("engines/cluster/parcels.py", "load"): _RAY,
    ("engines/cluster/tasks.py", "importlib"): _VERSIONS,
    ("engines/kernel/binding.py", "ctypes"): "it loads the library that build.py compiled and whose owner it checked",
    ("engines/kernel/build.py", "subprocess"): "the compiler, and the check of what it compiled",
    ("engines/shipping.py", "cloudpickle"): _PIPE,
    ("engines/shipping.py", "importlib"): _PIPE,
    ("engines/shipping.py", "pickle"): _PIPE,
    ("engines/shipping.py", "loads"): _PIPE,
    ("live/site.py", "importlib"): _VERSIONS,
    ("models/module_file.py", "compile"): "the user's own file; `code_file` tells it before a spec of others is built",
    ("models/module_file.py", "exec"): "the user's own file; `code_file` tells it before a spec of others is built",
    ("papers/__init__.py", "importlib"): "folders of the package",
    ("privacy/encryption/scheme.py", "importlib"): _OPTIONAL,
    ("processes.py", "ctypes"): "the C library of this process: mallopt",
    ("report/rendering.py", "importlib"): _VERSIONS,
    ("runs/experiment.py", "runpy"): "a plugin that the user names with --plugin",
    ("runs/versions.py", "importlib"): _VERSIONS,
    ("silos/flower/environment.py", "importlib"): _OPTIONAL,
    ("silos/flower/serving.py", "subprocess"): _FIXED,
    ("silos/flower/supervision.py", "subprocess"): _FIXED,
    ("silos/store.py", "load"): "safetensors, which has arrays only",
}


_NAMED = re.compile(rf"\b({'|'.join(sorted(MODULES | CALLS | LOADERS | {'random'}))})\b")  # parsing takes long


@functools.cache
def calls_and_imports(file: Path) -> tuple[list[ast.Call], list[tuple[str, ast.alias]]]:
    """Return every call in a file, and every import: the module and the name; nothing of a file without such names."""
    text = file.read_text(encoding="utf-8")
    if not _NAMED.search(text):
        return [], []
    nodes = list(ast.walk(ast.parse(text)))
    imports = [(alias.name, alias) for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports += [(node.module, alias) for alias in node.names]
    return [node for node in nodes if isinstance(node, ast.Call)], imports


def uses(file: Path, root: Path = SOURCE) -> Iterator[tuple[str, str]]:
    """Yield the file and every name in it that needs a reason."""
    place, (calls, imports) = file.relative_to(root).as_posix(), calls_and_imports(file)
    loaded = {alias.asname or alias.name for module, alias in imports if module.split(".")[0] in LOADING}
    for module, _ in imports:
        if module.split(".")[0] in MODULES:
            yield place, module.split(".")[0]
    for call in calls:
        if name := _dangerous(call, loaded):
            yield place, name


def _dangerous(call: ast.Call, loaded: set[str]) -> str:
    """Return the name of a function that may execute what it is given; empty for all others."""
    function = call.func
    if isinstance(function, ast.Name):
        is_loader = function.id in LOADERS and function.id in loaded
        return function.id if function.id in CALLS or is_loader else ""
    if not isinstance(function, ast.Attribute):
        return ""
    if function.attr not in LOADERS | CALLS:
        return ""
    owner = ast.unparse(function.value)
    if function.attr in LOADERS:
        is_unpickler = "npickler(" in owner or "_Reader(" in owner  # those of the files in REASONS
        return function.attr if owner in {"np", "pd", *LOADING} or is_unpickler else ""
    is_harmless = owner in ("platform", "re") or (function.attr == "eval" and not call.args)  # module.eval() of torch
    return function.attr if function.attr in CALLS and not is_harmless else ""


def test_every_use_has_a_reason() -> None:
    found = {use for file in SOURCE.rglob("*.py") for use in uses(file)}
    assert sorted(found - REASONS.keys()) == [], "state in REASONS why these may be there"
    assert sorted(REASONS.keys() - found) == [], "these are gone: delete their reasons"


@pytest.mark.parametrize(
    "line",
    [
        "import pickle", "from marshal import loads", "import yaml", "from joblib import load", "import subprocess",
        "import torch\ntorch.load('f')", "import numpy as np\nnp.load('f')", "from torch import load\nload('f')",
        "eval('1')", "exec('1')", "__import__('os')", "import os\nos.system('ls')", "import os\nos.popen('ls')",
    ],
)  # fmt: skip
def test_a_new_use_is_noticed(line: str, tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(line)
    assert list(uses(tmp_path / "new.py", tmp_path))


def calls_of(*names: str) -> dict[str, ast.Call]:
    """Return the calls of functions in the source, by file and line."""
    return {
        f"{file.relative_to(SOURCE)}:{call.lineno}": call
        for file in SOURCE.rglob("*.py")
        for call in calls_and_imports(file)[0]
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func) in names
    }


def keyword(call: ast.Call, name: str) -> object:
    return next((ast.unparse(each.value) for each in call.keywords if each.arg == name), None)


def test_arrays_are_read_without_pickle() -> None:
    calls = calls_of("np.load", "numpy.load")
    assert calls
    assert {place: keyword(call, "allow_pickle") for place, call in calls.items()} == dict.fromkeys(calls, "False")


def test_no_program_is_started_by_a_shell() -> None:
    calls = calls_of("subprocess.run", "subprocess.Popen", "subprocess.check_output", "subprocess.call")
    assert len(calls) >= 6
    assert {place for place, call in calls.items() if keyword(call, "shell")} == set()


def test_secrets_are_not_drawn_by_predictable_generators() -> None:
    """The module random, which predicts itself, is nowhere: numbers are derived from seeds, or are secret."""
    files = [file for file in SOURCE.rglob("*.py") if "random" in [module for module, _ in calls_and_imports(file)[1]]]
    assert files == []
