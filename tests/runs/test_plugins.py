"""Plugins: names that are taken, files that are loaded again, replaced parts, and measures in tables and pages."""

import json
from pathlib import Path

import pytest

import silobench as sb
from commands import call, write
from silobench.errors import ConfigError
from silobench.runs.experiment import REGISTRIES, load_plugin, plan
from silobench.runs.stored import read_runs
from silobench.spec.registry import origin_of

EXAMPLES = Path(__file__).parents[2] / "examples"
TINY = """
dataset = "fcube"
partition = "octants"
model = "linear"
algorithm = ["fedavg", "scaffold"]
solver = "sgd(epochs=1, batch=512)"
rounds = 3
seed = [0, 1]
"""
FEDAVG = """
import silobench as sb


@sb.ALGORITHMS.register{}
def fedavg() -> sb.Algorithm:
    "Mine."

    def absorb(server, update):
        return 0.5 * update.mean()["delta"], server.extras

    return sb.Algorithm(absorb=absorb)
"""
SHARES = """
import silobench as sb


@sb.MEASURES.register
def shares() -> sb.Measure:
    "Findings of many kinds."

    def begin(course, state, memory):
        def observe(record):
            by_party = [record.round + 0.5 * party for party in range(4)]
            findings = {"by party": by_party, "layer": {"weight": 1.5, "bias": None}, "state": "good", "two": [1, 2]}
            return findings, {}

        return observe

    return sb.Measure(begin)
"""


DELTA = """
import silobench as sb


@sb.MEASURES.register(replace=True)
def NAME() -> sb.Measure:
    "Findings of another form."

    def begin(course, state, memory):
        return lambda record: ({"mean": [1, 2], "parties": 3}, {})

    return sb.Measure(begin)
"""


@pytest.mark.parametrize("name", ["update_delta", "membership"])
def test_findings_of_a_plugin_that_replaces_a_measure_have_any_form(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin = write(tmp_path / "delta.py", DELTA.replace("NAME", name))
    before, file = dict(sb.MEASURES.factories), write(tmp_path / "e.toml", f"{TINY}measure = '{name}'\n")
    try:
        reply = call(capsys, "run", file, "--plugin", plugin, "--out", tmp_path / "runs", "--workers", "1")
    finally:
        sb.MEASURES.factories.update(before)
    assert reply.code == 0, reply.err
    assert all(run.measured(name.replace("_", "-")) == {} for run in read_runs(tmp_path / "runs"))
    assert call(capsys, "report", tmp_path / "runs").code == 0


def test_every_registry_has_a_contract_and_is_public() -> None:
    assert not [kind for kind, registry in REGISTRIES.items() if registry.contract is None]
    for kind in REGISTRIES:
        if kind not in ("engines", "starts"):
            assert getattr(sb, kind.upper().replace("-", "_")) is REGISTRIES[kind]


def test_a_file_may_be_loaded_again_and_a_copy_may_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = FEDAVG.format("").replace("def fedavg", "def mine")
    first = write(tmp_path / "a.py", code)
    digest = load_plugin(first)
    assert load_plugin(first) == digest
    monkeypatch.chdir(tmp_path)
    assert load_plugin(Path("a.py")) == digest
    write(first, "\n\n" + code)  # its lines have moved
    load_plugin(first)
    with pytest.raises(
        ConfigError, match=r"b.py cannot be used: the algorithm mine \(b.py, line 5\) has a name that is"
    ):
        load_plugin(write(tmp_path / "b.py", code))
    load_plugin(write(tmp_path / "b.py", code.replace("register", "register(replace=True)")))
    origin = origin_of(sb.ALGORITHMS.factories["mine"])
    assert origin is not None
    assert origin.file_name == "b.py"


def test_a_cell_of_a_notebook_may_be_run_again() -> None:
    for place in range(2):  # a notebook compiles each run of a cell as another file
        code = compile(FEDAVG.format("").replace("def fedavg", "def noted"), f"/tmp/ipykernel_1/{place}.py", "exec")
        exec(code, {"__name__": "__main__"})
    origin = origin_of(sb.ALGORITHMS.factories["noted"])
    assert origin is not None
    assert origin.file == "/tmp/ipykernel_1/1.py"


def test_a_replaced_part_is_marked_and_not_compared_with_papers(capsys, tmp_path: Path) -> None:
    file, runs = write(tmp_path / "e.toml", TINY), tmp_path / "runs"
    command = ["run", file, "--workers", "1", "--out", runs]
    refused = call(capsys, *command, "--plugin", write(tmp_path / "mine.py", FEDAVG.format("")))
    assert refused.code == 2
    assert "silobench has an algorithm of this name" in refused.err
    assert call(capsys, *command).code == 0
    plugin = write(tmp_path / "mine.py", FEDAVG.format("(replace=True)"))
    result = call(capsys, *command, "--plugin", plugin, "--set", "algorithm=fedavg")
    assert result.code == 0, result.err
    assert "fedavg(plugin=mine.py)" in result.out
    cells = json.loads(call(capsys, "show", runs, "--json").out)["cells"]
    published = {cell["algorithm"]: cell["paper"] is not None for cell in cells}
    assert published == {"fedavg": True, "scaffold": True, "fedavg(plugin=mine.py)": False}
    claims = json.loads(call(capsys, "claims", runs, "--json").out)
    assert "plugin" not in json.dumps(claims)
    assert call(capsys, "compare", runs, "fedavg", "fedavg(plugin=mine.py)").code == 0


def test_a_replaced_part_keeps_the_configuration(tmp_path: Path) -> None:
    plugin = write(tmp_path / "mine.py", FEDAVG.format("(replace=True)"))
    (after,) = plan({"dataset": "fcube", "partition": "octants"}, plugins=[plugin])
    assert after.config["algorithm"] == "fedavg"  # the digest of the plugin is part of the id, as ever
    assert after.config["plugins"] == [load_plugin(plugin)]
    assert after.name.startswith("fcube / octants / fedavg(plugin=mine.py)")


def test_own_measures_are_in_tables_and_in_the_report(capsys, tmp_path: Path) -> None:
    file, runs = write(tmp_path / "e.toml", TINY), tmp_path / "runs"
    plugins = ["--plugin", EXAMPLES / "step_length.py", "--plugin", write(tmp_path / "shares.py", SHARES)]
    options = ["--set", 'measure=["step_length", "shares"]', "--workers", "1", "--out", runs]
    printed = call(capsys, "run", file, *plugins, *options)
    assert printed.code == 0, printed.err
    shown = call(capsys, "show", runs).out
    for text in ("Measure step-length", "length", "straight", "Measure shares", "by party, party 3", "layer, weight"):
        assert text in printed.out
        assert text in shown
    assert "4.5" in shown  # of party 3 after the last round
    assert "layer, bias" not in shown  # it was never known
    cells = json.loads(call(capsys, "show", runs, "--json").out)["cells"]
    stored = {(run.label["algorithm"], run.seed): run.measured("step-length")[3] for run in read_runs(runs)}
    for cell in cells:
        assert {(cell["algorithm"], 0), (cell["algorithm"], 1)} <= stored.keys()
        for seed in (0, 1):
            assert cell["measures"]["step-length"][str(seed)] == stored[cell["algorithm"], seed]
    assert call(capsys, "report", runs, *plugins).code == 0
    page = (runs / "report/measures.html").read_text(encoding="utf-8")
    for text in ("Measure step-length", "octants · length", "Measure shares", "by party, party 3", "two, 2", "good"):
        assert text in page


def test_measures_name_parties(capsys, tmp_path: Path) -> None:
    rows = [f"{i % 7},{i % 2},{('Bern', 'Oslo', 'Rome', 'Wien')[i % 4]}" for i in range(80)]
    spec = f"csv(path={write(tmp_path / 't.csv', 'x,y,town' + chr(10) + chr(10).join(rows))}, label=y, group=town)"
    file = write(tmp_path / "e.toml", f"dataset = {json.dumps(spec)}\npartition = 'by-group'\nrounds = 1\n")
    plugin = write(tmp_path / "shares.py", SHARES)
    options = ["--plugin", plugin, "--set", "measure=shares", "--workers", "1", "--out", tmp_path / "runs"]
    assert "by party, Oslo" in call(capsys, "run", file, *options).out


PARTITION = """
import numpy as np

import silobench as sb


@sb.PARTITIONS.register
def striped() -> sb.Skew:
    "Deal rows in turn."


    def cut(split, parties, rng):
        return sb.Partition(tuple(np.arange(len(split))[party::parties] for party in range(parties)))

    return sb.Skew(cut)
"""


def test_every_command_takes_plugins(capsys, tmp_path: Path) -> None:
    plugin, runs = write(tmp_path / "striped.py", PARTITION), tmp_path / "runs"
    facts = json.loads(call(capsys, "partition", "digits", "striped", "--plugin", plugin, "--json").out)
    assert facts["spec"] == "striped"
    file = write(tmp_path / "e.toml", TINY.replace('"octants"', '"striped"') + "parties = 3\n")
    assert call(capsys, "run", file, "--plugin", plugin, "--workers", "1", "--out", runs).code == 0
    for command in (["list", "partitions"], ["show", runs], ["report", runs], ["claims", runs]):
        assert call(capsys, *command, "--plugin", plugin).code == 0
    assert call(capsys, "compare", runs, "fedavg", "scaffold", "--plugin", plugin).code == 0
    refused = call(capsys, "show", runs, "--plugin", tmp_path / "nowhere.py")
    assert refused.code == 2
    assert "there is no plugin file" in refused.err
