"""The files about the project: the workflow, forms of issues, the citation and the changelog agree with the code."""

import re
import tomllib
from datetime import date
from typing import Any

import pytest

import silobench as sb
from release import ROOT
from silobench.runs.versions import SAME_BITS

yaml = pytest.importorskip("yaml")
_FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_workflow_tests_every_python_that_the_package_names() -> None:
    jobs = _read(".github/workflows/test.yml")["jobs"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(_PROJECT["classifiers"]))
    assert jobs["test"]["strategy"]["matrix"]["python"] == named
    assert _PROJECT["requires-python"] == f">={named[0]}"


def test_the_workflow_calls_targets_that_exist_and_pinned_actions() -> None:
    workflow, makefile = _read(".github/workflows/test.yml"), (ROOT / "Makefile").read_text(encoding="utf-8")
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    targets = [step["run"].split()[1] for step in steps if step.get("run", "").startswith("make ")]
    assert targets == ["test", "release"]
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    actions = [step["uses"] for step in steps if "uses" in step]
    assert actions
    assert all(re.fullmatch(r"[\w/-]+@(release/)?v\d+", action) for action in actions)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert set(workflow["jobs"]["publish"]["needs"]) == {"test", "wheel"}


@pytest.mark.parametrize("path", [path for path in _FORMS if path.stem != "config"], ids=lambda path: path.stem)
def test_a_form_has_what_a_code_host_asks_for(path: Any) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    ids = [field["id"] for field in fields]
    assert len(set(ids)) == len(ids) > 2
    assert all(field["attributes"]["label"] and field["type"] in ("textarea", "input") for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_citation_is_complete() -> None:
    citation = _read("CITATION.cff")
    assert citation.keys() >= {"cff-version", "message", "title", "authors"}
    assert (citation["cff-version"], citation["version"]) == ("1.2.0", sb.__version__)
    assert citation["license"] == _PROJECT["license"]
    assert isinstance(citation["date-released"], date)


def test_the_changelog_begins_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, day = re.findall(r"^## (\d\S+) \((.+)\)$", changelog, re.MULTILINE)[0]
    assert (version, day) == (sb.__version__, str(_read("CITATION.cff")["date-released"]))
    assert all(f"{version}" in changelog.partition("**Bits.**")[2] for version in SAME_BITS)
