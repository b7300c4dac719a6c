"""The run directory: what is written can be read back, what is torn is named, what is whole is never lost."""

import json
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save

import silobench as sb
from commands import TINY, call, write
from laws import bits, lasting
from natives import FIRST_CHOICE
from silobench.errors import DataError, RecordError
from silobench.runs import stored as stored_module
from silobench.runs import writer
from silobench.runs.checkpoint import load_state
from silobench.runs.execute import execute
from silobench.runs.experiment import plan, read_experiment
from silobench.runs.prepare import prepare
from silobench.runs.stored import facts_digest, read_facts, read_header, read_json, read_run, read_runs, run_id
from silobench.runs.versions import SAME_BITS
from silobench.runs.writer import discard_checkpoint, open_run
from silobench.training.state import RoundRecord


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One complete run of SCAFFOLD, which has every kind of state."""
    out = tmp_path_factory.mktemp("runs")
    return _run(out, rounds=3)


def _plan(rounds: int, extra: dict[str, object] | None = None):
    choices = {"dataset": "fcube", "partition": "octants", "algorithm": "scaffold", "rounds": rounds}
    return plan({**choices, "solver": "sgd(epochs=1, keep_momentum=True)", **(extra or {})})[0]


def _run(out: Path, rounds: int, stop_after: int | None = None) -> Path:
    made = _plan(rounds)
    for record in execute(prepare(made), out):
        if record.round == stop_after:
            break
    return out / made.id


def _comparable(path: Path) -> list[dict[str, object]]:
    return list(map(lasting, read_json(path)[1]))


def test_a_finished_run_states_what_was_run_and_on_what(finished: Path) -> None:
    facts = read_run(finished).facts
    assert facts.status == "complete"
    assert finished.name == facts.id == run_id(facts.config)
    assert facts.config["algorithm"] == "scaffold(option=2, init=zeros, momentum=outside)"
    assert facts.label["algorithm"] == "scaffold"
    assert sum(facts.partition.sizes) == facts.dataset.train == 4000
    assert facts.environment["torch"] == torch.__version__
    assert facts.environment["engine"] == FIRST_CHOICE
    assert facts.environment["cpu"]
    assert ("kernel" in facts.environment) == (FIRST_CHOICE == "native")
    assert [row.round for row in read_run(finished).rounds] == [1, 2, 3]


def test_stopping_after_any_round_and_going_on_gives_the_same_bits(finished: Path, tmp_path: Path) -> None:
    for stop_after in (1, 2):
        out = tmp_path / str(stop_after)
        _run(out, 3, stop_after)
        path = _run(out, 3)
        assert _comparable(path) == _comparable(finished)
        assert read_run(path).facts.model_sha256 == read_run(finished).facts.model_sha256
        assert (path / "checkpoint/state.safetensors").stat().st_size > 0


def test_a_line_without_a_commit_was_under_way_and_is_dropped(finished: Path, tmp_path: Path) -> None:
    path = _run(tmp_path, 3, stop_after=2)
    with (path / "rounds.jsonl").open("ab") as file:
        file.write(b'{"round": 3, "accur')
    assert len(read_run(path).rounds) == 2
    assert _comparable(_run(tmp_path, 3)) == _comparable(finished)


def test_a_complete_run_is_not_done_again(finished: Path) -> None:
    before = (finished / "rounds.jsonl").read_bytes()
    made = _plan(3)
    assert list(execute(prepare(made), finished.parent)) == []
    assert (finished / "rounds.jsonl").read_bytes() == before


def test_state_survives_the_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    made = _plan(2)
    records = list(execute(prepare(made), tmp_path))
    stored, last = load_state(tmp_path / made.id), records[-1].state
    assert torch.equal(stored.server.params, last.server.params)
    assert torch.equal(stored.server.extras["control"], last.server.extras["control"])
    assert stored.memory.keys() == last.memory.keys()
    for party, owners in last.memory.items():
        for owner, kept in owners.items():
            for name, value in kept.items():
                assert torch.equal(stored.memory[party][owner][name], value)
    assert (stored.clock, stored.server.round) == (last.clock, last.server.round)


def test_a_round_that_ctrl_c_cut_off_while_it_was_recorded_is_not_committed(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line without the state after it would be there twice when the run goes on."""
    made, append = _plan(3), writer.RunWriter.append

    class Lines(list[bytes]):
        def append(self, line: bytes) -> None:
            super().append(line)
            raise KeyboardInterrupt

    def appended(run: writer.RunWriter, record: RoundRecord) -> None:
        if record.round == 2:
            run._pending = Lines(run._pending)
        append(run, record)

    with monkeypatch.context() as patch:
        patch.setattr(writer.RunWriter, "append", appended)
        with pytest.raises(KeyboardInterrupt):
            list(execute(prepare(made), tmp_path))
    assert list(execute(prepare(made), tmp_path))
    assert _comparable(tmp_path / made.id) == _comparable(finished)


def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    made = _plan(2)
    ready = prepare(made)
    with (
        open_run(tmp_path / made.id, {}, ready.facts),
        pytest.raises(RecordError, match="another process"),
    ):
        open_run(tmp_path / made.id, {}, ready.facts)


@pytest.mark.parametrize("file", ["run.json", "rounds.jsonl"])
def test_a_finished_run_cut_at_any_byte_is_refused_by_name(finished: Path, tmp_path: Path, file: str) -> None:
    content = (finished / file).read_bytes()
    copy = Path(shutil.copytree(finished, tmp_path / finished.name))
    for cut in {*range(0, len(content), max(1, len(content) // 150)), len(content) - 1}:
        (copy / file).write_bytes(content[:cut])
        with pytest.raises(RecordError, match=file):
            read_run(copy)


def test_an_unfinished_run_cut_at_any_byte_is_refused_by_name(tmp_path: Path) -> None:
    broken = _run(tmp_path / "whole", 3, stop_after=2)
    for file in ("run.json", "rounds.jsonl", "checkpoint/state.safetensors"):
        content = (broken / file).read_bytes()
        for cut in {0, 1, 7, len(content) // 3, len(content) // 2, len(content) - 1}:
            out = tmp_path / f"{Path(file).name}-{cut}"
            shutil.copytree(broken.parent, out)
            (out / broken.name / file).write_bytes(content[:cut])
            with pytest.raises(RecordError, match=Path(file).name):
                _run(out, 3)
            shutil.rmtree(out)


def test_one_changed_bit_of_a_checkpoint_is_found(tmp_path: Path) -> None:
    path = _run(tmp_path, 3, stop_after=2)
    file = path / "checkpoint/state.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(RecordError, match=r"state\.safetensors is damaged"):
        _run(tmp_path, 3)


def _state_origin(path: Path, name: str, value: str) -> None:
    """Let a run state that it was started with another version of something."""
    facts = json.loads((path / "run.json").read_text())
    facts = {**facts, "made_by": {**facts["made_by"], name: value}}
    facts["facts_sha256"] = facts_digest(facts)
    (path / "run.json").write_text(json.dumps(facts))


@pytest.mark.parametrize("origin", ["silobench", "torch", "engine", "cpu"])
def test_a_run_of_other_code_is_not_resumed(tmp_path: Path, origin: str) -> None:
    path = _run(tmp_path, 3, stop_after=2)
    _state_origin(path, origin, "other")
    with pytest.raises(RecordError, match=f"started with {origin} other"):
        _run(tmp_path, 3)


def test_a_run_of_a_version_with_the_same_bits_is_resumed(tmp_path: Path) -> None:
    path = _run(tmp_path, 3, stop_after=2)
    assert sb.__version__ in SAME_BITS
    assert SAME_BITS[0] == "0.1.0"
    _state_origin(path, "silobench", SAME_BITS[0])
    resumed = read_run(_run(tmp_path, 3))
    assert len(resumed.rounds) == 3
    assert resumed.facts.environment["silobench"] == SAME_BITS[0]


def test_a_run_that_does_not_name_its_cpu_is_resumed(tmp_path: Path) -> None:
    """Earlier versions named the processor for the native step only."""
    path = _run(tmp_path, 3, stop_after=2)
    facts = json.loads((path / "run.json").read_text())
    del facts["made_by"]["cpu"], facts["facts_sha256"]
    (path / "run.json").write_text(json.dumps(facts))
    assert len(read_run(_run(tmp_path, 3)).rounds) == 3


@pytest.mark.parametrize("missing", ["run.json", "checkpoint/state.safetensors"])
def test_a_missing_file_beside_recorded_rounds_is_named(tmp_path: Path, missing: str) -> None:
    path = _run(tmp_path, 3, stop_after=2)
    (path / missing).unlink()
    with pytest.raises(RecordError, match=missing.split("/")[0]):
        _run(tmp_path, 3)
    assert (path / "rounds.jsonl").read_bytes().count(b"\n") == 2


def test_records_can_be_read_without_their_checkpoint(finished: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(finished, tmp_path / finished.name))
    shutil.rmtree(copy / "checkpoint")
    assert len(read_runs(tmp_path)[0].rounds) == 3


def test_a_diverged_run_is_recorded_with_null_losses(tmp_path: Path) -> None:
    made = _plan(2, {"solver": "sgd(lr=1e30, epochs=1)", "algorithm": "fedavg"})
    list(execute(prepare(made), tmp_path))
    assert read_run(tmp_path / made.id).rounds[-1].loss is None


def test_a_diverged_run_is_read_though_its_transforms_report_no_numbers(tmp_path: Path) -> None:
    made = _plan(2, {"solver": "sgd(lr=1e30, epochs=1)", "algorithm": "fedavg", "transforms": "clip(norm=1)"})
    list(execute(prepare(made), tmp_path))
    assert None in read_run(tmp_path / made.id).rounds[-1].reports.values()


def test_any_two_runs_of_one_configuration_agree_also_between_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "tiny.toml", TINY)
    for workers in ("1", "2"):
        assert call(capsys, "run", file, "--workers", workers, "--out", tmp_path / workers).code == 0
    for made in plan(read_experiment(file)):
        one, two = (tmp_path / workers / made.id for workers in ("1", "2"))
        assert _comparable(one) == _comparable(two)
        assert read_run(one).facts.model_sha256 == read_run(two).facts.model_sha256


def test_every_line_is_json_that_any_tool_reads(finished: Path) -> None:
    for line in (finished / "rounds.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert {"round", "accuracy", "loss", "bytes_up", "bytes_down", "seconds", "clock", "cohort"} <= row.keys()
        assert {"train", "encode", "aggregate", "evaluate"} <= row["seconds"].keys()


def test_names_with_slashes_survive_the_checkpoint(tmp_path: Path) -> None:
    made = _plan(1)
    ready = prepare(made)
    record = next(execute(ready, tmp_path / "a"))
    server = replace(record.state.server, extras={"layer/one": torch.ones(2)})
    state = replace(record.state, server=server, memory={3: {"algorithm": {"layer/two": torch.zeros(1)}}})
    with open_run(tmp_path / "b", {}, ready.facts) as run:
        run.append(replace(record, state=state))
    stored = load_state(tmp_path / "b")
    assert stored.server.extras.keys() == {"layer/one"}
    assert stored.memory[3]["algorithm"].keys() == {"layer/two"}


def test_data_that_change_after_the_plan_are_not_recorded_under_it(tmp_path: Path) -> None:
    rows = "\n".join(f"{n % 7},{n % 2}" for n in range(60))
    table = write(tmp_path / "t.csv", f"x,y\n{rows}\n")
    made = plan({"dataset": f"csv(path='{table}', label=y)", "rounds": 1, "solver": "sgd(epochs=1)"})[0]
    prepare(made)
    write(table, f"x,y\n{rows}\n3,1\n")
    with pytest.raises(DataError, match="has changed since this experiment was planned"):
        prepare(made)


def test_a_run_on_other_proportions_is_another_run(tmp_path: Path) -> None:
    counts, runs = tmp_path / "counts.csv", []
    for text in ("1,2\n2,1\n", "1,2\n2,1\n", "1,9\n9,1\n"):
        write(counts, text)
        choices = {"dataset": "breast-cancer", "partition": f"like(reference='{counts}')", "parties": 2}
        runs.append(plan(choices)[0].id)
    assert runs[0] == runs[1] != runs[2]


def test_a_run_without_a_round_starts_with_the_engine_that_comes(tmp_path: Path) -> None:
    """A run that failed in its first round can be looked at with another engine, as debug."""
    planned = _plan(2)
    open_run(tmp_path / planned.id, {"engine": "native", "silobench": "0"}, prepare(planned).facts).close()
    list(execute(prepare(planned), tmp_path, "inline"))
    facts, rows = read_json(tmp_path / planned.id)
    assert (facts["made_by"]["engine"], facts["status"], len(rows)) == ("inline", "complete", planned.cell.rounds)


def test_one_changed_bit_of_a_checkpoint_s_header_is_found(tmp_path: Path) -> None:
    """The round, the clock and the knobs are in it: a run that continued with others would have other bits."""
    path = _run(tmp_path, 3, stop_after=2)
    file, rows = path / "checkpoint/state.safetensors", read_json(path)[1]
    content, state, random = file.read_bytes(), bits(load_state(path)), Random(0)
    unnoticed = []
    for place in range(0, 8 + int.from_bytes(content[:8], "little"), 3):
        changed = bytearray(content)
        changed[place] ^= 1 << random.randrange(8)
        file.write_bytes(changed)
        with suppress(RecordError):
            if (bits(load_state(path)), read_json(path)[1]) != (state, rows):
                unnoticed.append(place)
    assert unnoticed == []


def test_a_checkpoint_of_an_earlier_version_has_no_checksum_of_its_header(finished: Path, tmp_path: Path) -> None:
    path = _run(tmp_path, 3, stop_after=2)
    file = path / "checkpoint/state.safetensors"
    header = read_header(path)
    assert header is not None
    del header["header_crc"]
    with safe_open(file, "numpy") as content:
        tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118 - it is no mapping
    file.write_bytes(save(tensors, {"silobench": json.dumps(header)}))
    assert _comparable(_run(tmp_path, 3)) == _comparable(finished)


def test_a_missing_checkpoint_is_named_by_readers(tmp_path: Path) -> None:
    path = _run(tmp_path, 3, stop_after=2)
    (path / "checkpoint/state.safetensors").unlink()
    with pytest.raises(RecordError, match="checkpoint is missing beside recorded rounds"):
        read_run(path)


def test_a_run_that_ends_while_it_is_read_is_not_called_damaged(tmp_path: Path, monkeypatch: Any) -> None:
    """Its checkpoint may be deleted between a look at run.json and a look at the checkpoint."""
    path = _run(tmp_path, 3, stop_after=2)
    before = read_facts(path)
    _run(tmp_path, 3)
    discard_checkpoint(path)
    looks = iter([before])
    monkeypatch.setattr(stored_module, "read_facts", lambda path: next(looks, None) or read_facts(path))
    assert len(read_json(path)[1]) == 3


@pytest.mark.parametrize("change", ["delete", "truncate", "append"])
def test_records_that_something_else_changes_during_a_run_are_refused(tmp_path: Path, change: str) -> None:
    made = _plan(3)
    file = tmp_path / made.id / "rounds.jsonl"
    records = execute(prepare(made), tmp_path, commit_each=True)
    next(records)
    if change == "delete":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-1] if change == "truncate" else file.read_bytes() + b"{}\n")
    with pytest.raises(RecordError, match=r"rounds\.jsonl was changed by another program"):
        list(records)


def test_a_folder_in_the_place_of_a_lock_is_named(finished: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(finished, tmp_path / finished.name))
    (copy / ".lock").unlink(missing_ok=True)
    (copy / ".lock").mkdir()
    with pytest.raises(RecordError, match=r"\.lock cannot be written .* something else removed or replaced it"):
        open_run(copy, {}, dict)


@pytest.mark.parametrize("place", ["before the checkpoint", "after the checkpoint"])
def test_ctrl_c_in_the_middle_of_a_commit_loses_no_round(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The commit that follows it writes the same lines over those of the first."""
    real, checkpoints = writer.replace_atomically, 0

    def interrupted(path: Path, content: bytes, **options: bool) -> None:
        nonlocal checkpoints
        checkpoints += path.name == "state.safetensors"
        if path.name != "state.safetensors" or checkpoints != 2 or place == "after the checkpoint":
            real(path, content, **options)
        if path.name == "state.safetensors" and checkpoints == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(writer, "replace_atomically", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(execute(prepare(_plan(3)), tmp_path, commit_each=True))
    path = tmp_path / finished.name
    assert [row.round for row in read_run(path).rounds] == [1, 2]
    assert (path / "rounds.jsonl").read_bytes().count(b"\n") == 2
    assert _comparable(_run(tmp_path, 3)) == _comparable(finished)
