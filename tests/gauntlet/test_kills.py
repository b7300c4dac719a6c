"""Some kills, the short form of the gauntlet; and the gauntlet itself, which must notice what is lost."""

import json
import random
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from gauntlet.cases import HORIZONTAL, VERTICAL, Case, Experiment, cases_of, files_of, write_people
from gauntlet.chain import AT_A_FILE, AT_ANY_MOMENT, Gauntlet, Operation, Target, drawn_moment, drawn_start
from gauntlet.contents import contents, differences
from gauntlet.outcome import Options, Outcome, merged
from gauntlet.table import markdown, plain, total, write_markdown

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells who is alive")
# Momentum of parties, what top_k has not sent, Adam at the server, messages in flight, control variates, own models.
REMEMBERING = {**HORIZONTAL[0], "pace": "buffered(size=2)", "rounds": 5}
FORGETFUL = """
import silobench as sb

calls = []


@sb.ALGORITHMS.register
def forgetful():
    def message(local, server, memory):
        calls.append(local)  # not in the memory, so not in the checkpoint
        return sb.Update.of(local.samples, delta=local.delta / len(calls)), memory

    return sb.Algorithm(message=message)
"""


@pytest.mark.parametrize(
    ("key", "specs", "base", "kills"),
    [("algorithm", ("scaffold", "ditto"), REMEMBERING, 3), ("algorithm", ("split",), VERTICAL[0], 2)],
    ids=["rows", "columns"],
)
def test_killed_runs_end_as_runs_never_interrupted(key, specs, base, kills, tmp_path: Path) -> None:
    cases = cases_of(key, specs, [base], write_people(tmp_path))
    (experiment,) = files_of("runs", key, cases, in_a_row=(kills,))
    outcomes = list(Gauntlet(experiment, tmp_path / "gauntlet", seed=1, is_forked=True).outcomes())
    assert [outcome for outcome in outcomes if outcome.result != "survived"] == []
    assert {outcome.case for outcome in outcomes} == {f"runs: {spec}" for spec in specs}
    assert len(outcomes) > kills * len(specs) / 2  # a resumed run may end before its next trap


def test_a_run_that_keeps_its_memory_to_itself_is_lost(tmp_path: Path) -> None:
    """The gauntlet must be able to fail: here it kills a part that breaks the rule on parts."""
    plugin = tmp_path / "forgetful.py"
    plugin.write_text(FORGETFUL)
    choices = {**HORIZONTAL[1], "dataset": f"csv(path={write_people(tmp_path)}, label=rich)", "algorithm": "forgetful"}
    case = Case("forgetful", choices, ("",), place="rounds.jsonl")
    options = ("--workers", "1", "--plugin", str(plugin))
    experiment = Experiment("runs", (case,), choices, options, in_a_row=(1,))
    outcomes = list(Gauntlet(experiment, tmp_path / "gauntlet", seed=7, is_forked=True).outcomes())
    assert [outcome.result for outcome in outcomes] == ["lost"], outcomes
    assert "model_sha256" in outcomes[0].detail


def test_moments_are_those_of_the_undisturbed_command() -> None:
    operations = tuple(Operation(3.0 + place / 10, "first", f"/out/{place}") for place in range(10))
    target = Target(Case("run", {}, ("",)), "/out/", operations, 1)
    draws = [random.Random(seed) for seed in range(300)]
    starts = [each.seconds for draw in draws for each in drawn_start(target, 3.0, draw)]
    assert 30 < len(starts) < 90  # one in five
    assert 0 < min(starts) < 0.3 < 2.7 < max(starts) < 3
    moments = [drawn_moment(target, draw) for draw in draws]
    assert {each.number for each in moments if each.fault == AT_A_FILE} == set(range(10))
    between = [each for each in moments if each.fault == AT_ANY_MOMENT]
    assert all(0 < each.seconds < 0.1 + 1e-9 for each in between)
    assert {each.number for each in between} == set(range(9))  # after the last operation there is nothing to kill


def test_differences_name_the_place() -> None:
    whole = {"a": {"rounds": [{"loss": 1.0}, {"loss": 2.0}], "id": "a"}}
    assert differences(whole, whole) == []
    other = {"a": {"rounds": [{"loss": 1.0}, {"loss": 2.0000000000000004}], "id": "a"}}
    assert differences(whole, other) == ["a.rounds[1].loss"]
    assert differences(whole, {}) == ["a"]
    assert differences(whole, {"a": {**whole["a"], "rounds": whole["a"]["rounds"][:1]}}) == ["a.rounds"]


def test_the_table_counts_by_fault_and_group(tmp_path: Path) -> None:
    outcomes = [
        Outcome("kill", "engines: pool", "survived", ""),
        Outcome("kill", "engines: ray", "lost", "other bits"),
        Outcome("flip", "files: run.json", "refused", ""),
    ]
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- gauntlet -->\nold\n<!-- end of gauntlet -->\nafter\n")
    write_markdown(page, outcomes)
    assert page.read_text() == f"before\n<!-- gauntlet -->\n\n{markdown(outcomes)}\n<!-- end of gauntlet -->\nafter\n"
    assert "| kill | engines | 2 | 1 | 0 | 1 |" in markdown(outcomes)
    assert plain(outcomes).splitlines()[-1].split() == ["all", "3", "1", "1", "1"]


def test_a_case_that_was_tried_again_counts_once(tmp_path: Path) -> None:
    files = [tmp_path / "first.json", tmp_path / "again.json"]
    lost, survived = (Outcome("kill", "engines: ray", result, "") for result in ("lost", "survived"))
    other = Outcome("flip", "files: run.json", "refused", "")
    for file, outcomes in zip(files, ([lost, other, other], [survived]), strict=True):
        file.write_text(json.dumps([asdict(outcome) for outcome in outcomes]))
    assert list(merged(Options(tmp_path), files)) == [survived, other, other]
    assert list(merged(Options(tmp_path, only="flip / *"), files)) == [other, other]
    assert total([lost, other, other]) == "Faults: 3 tried, 0 survived, 2 refused, 1 lost."


def test_contents_leave_out_only_what_time_changes(tmp_path: Path) -> None:
    """Two undisturbed runs have the same contents, and another seed has others."""
    from silobench.runs.execute import execute
    from silobench.runs.experiment import plan
    from silobench.runs.prepare import prepare

    choices = {**HORIZONTAL[0], "dataset": "fcube", "partition": "octants", "parties": 4, "rounds": 2}
    for name, seed in (("one", 0), ("two", 0), ("other", 1)):
        (planned,) = plan({**choices, "seed": seed})
        list(execute(prepare(planned), tmp_path / name, "inline"))
    one, two, other = (next(iter(contents(tmp_path / name).values())) for name in ("one", "two", "other"))
    assert one == two
    assert one["state_sha256"] != other["state_sha256"]
    assert one["rounds"][0]["loss"] != other["rounds"][0]["loss"]
