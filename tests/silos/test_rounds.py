"""Rounds between silos: the results of the engine inline, whoever is slow, away, restarted or resumed."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from commands import call
from consortia import NAMES, Rehearsal, rehearsal
from silobench.errors import ConfigError, RunError
from silobench.runs.stored import read_json
from silobench.silos.consortium import sign, write_consortium
from silobench.silos.letters import Letter, refusal
from silobench.silos.post import Answer
from silobench.silos.server import TESTED, plan_of, run_consortium
from silobench.training.state import RoundRecord

SECURE = "rand_k(fraction=0.5) | secure_sum(protocol=pairwise, range=100)"


def need_equal(records: list[RoundRecord], others: list[RoundRecord]) -> None:
    """Assert that two runs have the same models, bit for bit, and the same results."""
    assert len(records) == len(others)
    for one, other in zip(records, others, strict=True):
        assert torch.equal(one.state.server.params, other.state.server.params)
        assert one.accuracy == other.accuracy
        assert one.loss == pytest.approx(other.loss, abs=1e-5)  # silos add up their own rows first
        assert (one.cohort, one.replied) == (other.cohort, other.replied)


METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {"rounds": 5},
    "fedprox": {"algorithm": "fedprox(mu=0.1)"},
    "scaffold": {"algorithm": "scaffold", "rounds": 5},
    "fednova": {"algorithm": "fednova"},
    "feddyn": {"algorithm": "feddyn"},
    "server adam": {"server": "adam(lr=0.1)"},
    "some of the silos": {"participation": 2, "rounds": 5},
    "top_k": {"transforms": "top_k(fraction=0.3)"},
    "quantize": {"transforms": "quantize(bits=4)"},
    "secure": {"transforms": SECURE, "rounds": 5},
    "masked scaffold": {"algorithm": "scaffold", "transforms": SECURE},
    "noise": {"transforms": "clip(norm=1) | gaussian_noise(multiplier=0.5, reproducible=true)"},
    "dp_sgd": {"solver": "dp_sgd(lr=0.1, batch=16, noise=1, clip=1, reproducible=true)", "rounds": 2},
    "momentum": {"solver": "sgd(lr=0.05, batch=16, momentum=0.9, keep_momentum=true)"},
    "median": {"aggregate": "median"},
    "batchnorm": {"model": "cnn(norm=batch)", "columns": {"label": "label", "size": 32, "colour": "grey"}, "rounds": 2},
}


@pytest.mark.parametrize("choices", METHODS.values(), ids=METHODS.keys())
def test_silos_have_the_bits_of_inline(tmp_path: Path, choices: dict[str, Any]) -> None:
    three = rehearsal(tmp_path, **choices)
    need_equal(three.run(), three.inline)


def test_the_engine_auto_of_a_silo_gives_the_same_up_to_rounding(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, engine="auto", model="mlp(8)")
    for one, other in zip(three.run(), three.inline, strict=True):
        assert one.accuracy == pytest.approx(other.accuracy, abs=1e-5)
        assert one.state.server.params.numpy() == pytest.approx(other.state.server.params.numpy(), abs=1e-5)


def test_a_regression_is_learnt_too(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, columns={"label": "weight", "task": "regression"})
    ours, theirs = three.run()[-1], three.inline[-1]
    assert ours.metrics["mae"] == pytest.approx(theirs.metrics["mae"], abs=1e-5)
    assert ours.state.server.params.numpy() == pytest.approx(theirs.state.server.params.numpy(), abs=1e-5)


def test_the_final_test_has_sums_of_all_silos(tmp_path: Path) -> None:
    three = rehearsal(tmp_path)
    ours, theirs = three.run()[-1].final, three.inline[-1].final
    assert ours["confusion"] == theirs["confusion"]
    assert ours["parties"] == theirs["parties"]
    assert ours["cross"] == theirs["cross"]
    assert ours["calibration"]["error"] == pytest.approx(theirs["calibration"]["error"])


# --- silos that are slow, away, or start again --------------------------------------------------------


class Absence:
    """A hook that loses letters, or the answers to them, of one silo in some rounds (counted from 0)."""

    def __init__(self, silo: str, rounds: set[int], kinds: set[str], late: bool = False):
        self.silo, self.rounds, self.kinds, self.late = silo, rounds, kinds, late

    def __call__(self, name: str, content: bytes, answer: Answer) -> bytes | None:
        letter = Letter.of(content)
        if name != self.silo or letter.round not in self.rounds or letter.kind not in self.kinds:
            return answer(content)
        if self.late:
            answer(content)  # it trains, but the server does not wait for it
        return None


@pytest.mark.parametrize("late", [False, True], ids=["away", "late"])
def test_a_silo_that_misses_a_round_comes_back_with_its_memory(tmp_path: Path, late: bool) -> None:
    three = rehearsal(tmp_path, algorithm="scaffold", rounds=5)
    three.hook = Absence("south", {1, 2}, {"train"}, late)
    records = three.run()
    assert [record.replied for record in records] == [None, (0, 2), (0, 2), None, None]
    after = [
        Letter.of(content).facts["after"] for name, content, _ in three.letters if is_train(name, content, "south")
    ]
    assert after == [-1, 0, 0, 0, 3]  # it goes on after the last round in which its answer counted


def is_train(name: str, content: bytes, silo: str) -> bool:
    return name == silo and Letter.of(content).kind == "train"


def test_a_late_answer_changes_nothing(tmp_path: Path) -> None:
    runs = []
    for place, late in enumerate((False, True)):
        three = rehearsal(tmp_path / str(place), algorithm="scaffold", rounds=4)
        three.hook = Absence("south", {1}, {"train"}, late)
        runs.append(three.run())
    need_equal(*runs)


def test_a_training_whose_answer_is_late_counts_for_privacy(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, solver="dp_sgd(lr=0.1, batch=16, noise=1, clip=1)", rounds=2, eval_every=2)
    three.hook = Absence("south", {0}, {"train"}, late=True)
    first, second = three.run()
    assert first.replied == (0, 2)
    spent = second.privacy["example"]["steps"]
    assert spent[1] == 2 * 3  # 36 rows in batches of 16, in two rounds


def test_a_round_without_the_quorum_is_lost_and_recorded(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, quorum=3, algorithm="scaffold", rounds=3)
    three.hook = Absence("south", {1}, {"train"})
    records = three.run()
    assert records[1].replied == ()
    assert torch.equal(records[0].state.server.params, records[1].state.server.params)
    assert not torch.equal(records[1].state.server.params, records[2].state.server.params)


def test_a_model_that_some_silos_do_not_test_says_so(tmp_path: Path) -> None:
    three = rehearsal(tmp_path)
    three.hook = Absence("west", {1}, {"score"})
    records = three.run()
    assert [record.reports.get(TESTED) for record in records] == [None, 2.0, None]


def test_a_silo_that_never_comes_is_not_on_the_roster(tmp_path: Path) -> None:
    three = rehearsal(tmp_path)
    del three.silos["south"]
    records = three.run()
    assert [record.cohort for record in records] == [(0, 1)] * 3
    path = tmp_path / "runs" / plan_of(three.consortium).id
    assert read_json(path)[0]["partition"]["parties"] == ["north", "west"]


def test_too_few_silos_stop_the_server_with_a_sentence(tmp_path: Path) -> None:
    three = rehearsal(tmp_path)
    del three.silos["south"], three.silos["north"]
    with pytest.raises(RunError, match="1 of 3 silos joined, but 2 are needed"):
        three.run()


def test_a_silo_that_is_restarted_goes_on(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, algorithm="scaffold", rounds=4)
    expected = rehearsal(tmp_path / "whole", algorithm="scaffold", rounds=4).run()
    records = []
    for record in run_consortium(three.consortium, three.post, tmp_path / "runs"):
        records.append(record)
        three.open("south", "north")  # all that they had in memory is gone
    need_equal(records, expected)


@pytest.mark.parametrize(
    ("kind", "transforms"),
    [("train", ""), ("score", "top_k(fraction=0.3)"), ("train", SECURE), ("unmask", SECURE)],
    ids=["train", "score with top_k", "train with a secure sum", "unmask"],
)
def test_a_server_that_is_killed_resumes_with_the_same_bits(tmp_path: Path, kind: str, transforms: str) -> None:
    choices = {"transforms": transforms, "algorithm": "scaffold", "rounds": 4}
    expected = rehearsal(tmp_path / "whole", **choices).run()
    three = rehearsal(tmp_path / "killed", **choices)

    def kill(name: str, content: bytes, answer: Answer) -> bytes | None:
        answered = answer(content)
        letter = Letter.of(content)
        if (letter.kind, letter.round, name) == (kind, 2, "south"):
            raise KeyboardInterrupt  # after the silo answered, before the server stores the round
        return answered

    three.hook = kill
    with pytest.raises(KeyboardInterrupt):
        three.run()
    three.hook = None
    rest = three.run()
    assert [record.round for record in rest] == [3, 4]
    need_equal(rest, expected[2:])


def test_a_silo_that_refuses_for_good_stops_the_run_with_its_reason(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, limits="max_rounds = 1", quorum=2)
    with pytest.raises(RunError, match=r"trains in 1 rounds, by max_rounds.*settle it"):
        three.run()


def test_an_answer_that_cannot_be_read_does_not_count(tmp_path: Path) -> None:
    three = rehearsal(tmp_path)

    def forged(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter, answered = Letter.of(content), answer(content)
        if name != "west" or letter.kind != "train" or answered is None:
            return answered
        if letter.round == 0:
            return b"nonsense"
        reply = Letter.of(answered)
        arrays = {key: each[:-1] for key, each in reply.arrays.items()} if letter.round == 1 else {}
        return Letter("train", reply.facts, arrays, reply.consortium, reply.run, "west", letter.round).content

    three.hook = forged
    assert [record.replied for record in three.run()] == [(0, 1)] * 3


@pytest.mark.parametrize("field", ["run", "consortium", "silo", "round", "kind"])
def test_an_answer_to_another_letter_does_not_count(tmp_path: Path, field: str) -> None:
    three = rehearsal(tmp_path, rounds=1)

    def forged(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter, answered = Letter.of(content), answer(content)
        if name != "west" or letter.kind != "train" or answered is None:
            return answered
        values = {**vars(Letter.of(answered)), field: 7 if field == "round" else "other"}
        return Letter(**values).content

    three.hook = forged
    assert three.run()[0].replied == (0, 1)


def test_somebody_who_signs_with_another_key_is_not_let_in(tmp_path: Path) -> None:
    three = rehearsal(tmp_path)
    impostor = rehearsal(tmp_path / "other")
    impostor.silos["west"].consortium = three.consortium
    impostor.silos["west"].agreement = three.silos["west"].agreement
    three.silos["west"] = impostor.silos["west"]
    assert {record.cohort for record in three.run()} == {(0, 1)}


def test_a_server_that_was_killed_keeps_the_roster_that_it_told(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, rounds=2)
    west = three.silos.pop("west")

    def kill(name: str, content: bytes, answer: Answer) -> bytes | None:
        if Letter.of(content).kind == "begin" and name == "south":
            raise KeyboardInterrupt
        return answer(content)

    three.hook = kill
    with pytest.raises(KeyboardInterrupt):
        three.run()
    three.silos["west"], three.hook = west, None
    records = three.run()
    assert [(record.cohort, record.replied) for record in records] == [((0, 1), None)] * 2


def test_only_silos_that_know_the_roster_are_asked_to_train(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, rounds=2)
    lost = list[str]()

    def lose(name: str, content: bytes, answer: Answer) -> bytes | None:
        if Letter.of(content).kind == "begin" and name == "south" and len(lost) < 2:
            lost.append(name)
            return None
        return answer(content)

    three.hook = lose
    assert [record.replied for record in three.run()] == [(0, 2), None]
    asked = [Letter.of(content).round for name, content, _ in three.letters if name == "south" and
             Letter.of(content).kind == "train"]  # fmt: skip
    assert asked == [1]


# --- the run directory ------------------------------------------------------------------------------


COMMANDS = [["show"], ["show", "--json"], ["compare"], ["report"]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Rehearsal:
    three = rehearsal(tmp_path_factory.mktemp("finished"), limits="max_runs = 4")
    three.run()
    for choices in ({"algorithm": "scaffold"}, {"seed": 1}, {"algorithm": "scaffold", "seed": 1}):
        three.again(**choices).run(str(three.folder / "runs"))
    return three


def test_the_run_directory_is_an_ordinary_one(finished: Rehearsal) -> None:
    path = finished.folder / "runs" / plan_of(finished.consortium).id
    facts, rows = read_json(path)
    assert facts["status"] == "complete"
    assert facts["made_by"]["engine"] == "silos"
    assert facts["partition"]["sizes"] == [48, 36, 72]
    assert facts["partition"]["parties"] == list(NAMES)
    assert "counts" not in facts["partition"]
    assert facts["dataset"]["train"] == 156
    assert facts["dataset"]["test"] == 39
    assert [row["round"] for row in rows] == [1, 2, 3]
    assert not list(finished.folder.glob("north/state/*/*/memory-*"))  # the run has ended


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_that_read_runs_do_not_know_the_difference(finished: Rehearsal, command: list[str], capsys) -> None:
    page = finished.folder / "report.html"
    more = {"report": ["--out", page], "compare": ["fedavg", "scaffold"]}.get(command[0], [])
    result = call(capsys, *command, finished.folder / "runs", *more)
    assert result.code == 0, result.err
    if command == ["report"]:
        assert "north" in page.read_text()


def test_a_finished_run_is_not_run_again(finished: Rehearsal) -> None:
    letters = len(finished.letters)
    finished.open_with(finished.consortium)
    assert finished.run() == []
    kinds = {Letter.of(content).kind for _, content, _ in finished.letters[letters:]}
    assert "train" not in kinds


def test_another_consortium_does_not_continue_the_run(finished: Rehearsal) -> None:
    old, app = finished.consortium, finished.folder / "app-quorum"
    lines = {silo.name: silo.key for silo in old.silos}
    write_consortium(app, old.name, old.lead, lines, old.experiment, old.columns, 3, old.engine, old.waits)
    other = sign(app, finished.folder / "lead")
    with pytest.raises(ConfigError, match="the run of another consortium"):
        next(run_consortium(other, finished.post, finished.folder / "runs"))


def test_run_json_and_rounds_are_json(finished: Rehearsal) -> None:
    path = finished.folder / "runs" / plan_of(finished.consortium).id
    lines = (path / "rounds.jsonl").read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 3


def test_a_refusal_can_be_written() -> None:
    assert Letter.of(refusal("no").content).facts["reason"] == "no"
