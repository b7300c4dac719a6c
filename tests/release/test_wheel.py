"""The wheel has every file of the package, and works where the repository is not: `make release` does it at length."""

import json
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import silobench as sb
from release import SUITES, build_wheel, clean_variables, install, new_environment, package_files, wheel_files
from silobench.papers import suites
from silobench.runs.stored import read_run

_SMALL = ["--scale", "smoke", "--trials", "1", "--workers", "1"]
_RUNS = {
    "niid-parties": ["--only", "* / fedavg / 5 / *", "--set", "rounds=2"],
    "zhao-table3": ["--only", "* / shards / fedavg *", "--set", "rounds=2"],
    "quagmire-table6": ["--only", "* / iid / gaia / *", "--set", "rounds=2"],
    "oarf-skew": ["--only", "* / iid / *", "--set", "rounds=2"],
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of an environment with the wheel and the libraries of this one, without its silobench.

    A folder that a file `.pth` names is searched, but the files `.pth` in it are not read, and one of those leads to
    the repository.
    """
    programs = new_environment(tmp_path_factory.mktemp("environment"))
    install(programs, "--no-deps", "--no-index", wheel)
    (packages,) = programs.parent.glob("lib/python*/site-packages")
    libraries = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "libraries.pth").write_text("\n".join([*sorted(libraries), ""]))
    return programs


def test_the_wheel_has_the_files_of_the_package(wheel: Path) -> None:
    assert wheel.name == f"silobench-{sb.__version__}-py3-none-any.whl"
    assert wheel_files(wheel) == package_files()
    kinds = {Path(name).suffix for name in wheel_files(wheel)}
    assert kinds >= {".cpp", ".csv", ".h", ".html", ".js", ".css", ".py", ".pyi", ".toml", ".typed", ".xz"}


def test_the_wheel_works_without_the_repository(programs: Path, tmp_path: Path) -> None:
    commands = [
        *(["run", suite, *_SMALL, *options, "--out", suite] for suite, options in _RUNS.items()),
        ["run", "demo", "--only", "fcube *", "--workers", "1", "--out", "demo"],
        ["report", "demo"],
        ["claims", "zhao-table3"],
        ["list", "algorithms"],
        ["show", "--published", "personal"],
        ["data", "list"],
    ]
    facts = _visit(programs, tmp_path, commands)
    assert facts["version"] == sb.__version__
    place = str(programs.parent)
    assert len(facts["modules"]) > 300
    assert not {name: file for name, file in facts["modules"].items() if not str(file).startswith(place)}
    runs = [read_run(file.parent) for file in tmp_path.glob("*/*/run.json")]
    assert [run.complete for run in runs] == [True] * (len(SUITES) + 4)
    assert {run.facts.environment["silobench"] for run in runs} == {sb.__version__}
    assert (tmp_path / "demo/report/index.html").stat().st_size > 1000


def _visit(programs: Path, folder: Path, commands: list[list[str]]) -> dict[str, Any]:
    """Run commands in the environment, in a folder without anything else, and return where its modules are."""
    (folder / "commands.json").write_text(json.dumps(commands))
    shutil.copy(Path(__file__).with_name("visit.py"), folder)
    result = subprocess.run(
        [programs / "python", "-I", "visit.py", "commands.json"],
        cwd=folder,
        env=clean_variables(SILOBENCH_DATA=str(folder / "no-data")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    facts: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return facts


def test_the_program_has_the_version_of_the_wheel(programs: Path, tmp_path: Path) -> None:
    command = [programs / "silobench", "--version"]
    result = subprocess.run(command, cwd=tmp_path, env=clean_variables(), capture_output=True, text=True, check=True)
    assert result.stdout == f"silobench {sb.__version__}\n"


def test_there_is_a_suite_of_every_paper() -> None:
    papers = {row["name"]: row["paper"] for row in suites.describe() if row["paper"]}
    assert sorted(papers[suite] for suite in SUITES) == sorted(set(papers.values()))
    assert tuple(_RUNS) == SUITES
