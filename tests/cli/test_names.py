"""Lists of names come from the source files, and are those of the registries."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import silobench
from commands import PATIENCE
from silobench.cli.app import KINDS
from silobench.cli.names import built_in
from silobench.runs.experiment import REGISTRIES

ROOT = Path(silobench.__file__).parent


@pytest.mark.parametrize("kind", REGISTRIES)
def test_a_list_is_that_of_the_registry(kind: str) -> None:
    registry = REGISTRIES[kind]
    sources = {name: Path(inspect.getfile(inspect.unwrap(factory))) for name, factory in registry.factories.items()}
    plugins = {name for name, path in sources.items() if ROOT not in path.parents}  # of other tests
    assert built_in(kind) == [row for row in registry.describe() if row["name"] not in plugins]


def test_lists_do_not_load_torch() -> None:
    code = """
import sys
from silobench.cli.app import KINDS, main
for kind in KINDS:
    sys.argv = ["silobench", "list", kind]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code
    assert "torch" not in sys.modules, kind
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("description") >= len(KINDS)
