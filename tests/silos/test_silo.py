"""A silo's door: it refuses what it did not agree to, repeats its answers, and shows no cell of its rows."""

import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from consortia import MARK, NAMES, Rehearsal, rehearsal
from silobench.errors import RecordError
from silobench.silos.allowance import spent_before
from silobench.silos.letters import REFUSAL, Letter
from silobench.silos.post import Answer
from silobench.silos.silo import Silo
from silobench.silos.store import Drawer

SECURE = "rand_k(fraction=0.5) | secure_sum(protocol=pairwise, range=100)"


def letters_of(three: Rehearsal, silo: str, kind: str) -> list[bytes]:
    return [content for name, content, _ in three.letters if name == silo and Letter.of(content).kind == kind]


def stopped(three: Rehearsal, kind: str, round: int = 0) -> Letter:
    """Run until the first silo has a letter of this kind; return that letter, which nobody has answered."""

    def stop(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter = Letter.of(content)
        if (letter.kind, letter.round) == (kind, round):
            raise KeyboardInterrupt
        return answer(content)

    three.hook = stop
    caught: list[bytes] = []
    inner = three._deliver

    def deliver(name: str, content: bytes, answer: Answer) -> bytes | None:
        caught.append(content)
        return inner(name, content, answer)

    three._deliver = deliver  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        three.run()
    three.hook = None
    return Letter.of(caught[-1])


def changed(letter: Letter, **changes: object) -> bytes:
    return Letter(**{**vars(letter), **changes}).content


def reason(content: bytes) -> str:
    answer = Letter.of(content)
    return str(answer.facts["reason"]) if answer.kind == REFUSAL else ""


@pytest.fixture(scope="module")
def waiting(tmp_path_factory) -> tuple[Rehearsal, Letter]:
    """Silos before their first round, and the first letter to train for the silo north."""
    three = rehearsal(tmp_path_factory.mktemp("waiting"), algorithm="scaffold")
    return three, stopped(three, "train")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"consortium": "0" * 64}, "another consortium"),
        ({"silo": "south"}, "another silo"),
        ({"silo": ""}, "another silo"),
        ({"run": "0" * 32}, "did not join"),
        ({"run": "../../../../../etc"}, "no id of a run"),
        ({"kind": "rows"}, "not known"),
        ({"kind": "unmask", "changed": {"survivors": ["north"]}}, "no secure sum"),
        ({"round": 3}, "there is no round 4"),
        ({"arrays": {}}, "wrong content"),
        ({"facts": {}}, "wrong content"),
        ({"facts": {"begin": "0" * 64}}, "another roster"),
        ({"changed": {"after": 0}}, "no earlier round"),
        ({"changed": {"cohort": ["x"]}}, "wrong content"),
        ({"changed": {"cohort": [0]}}, "another cohort"),
        ({"changed": {"cohort": [0, 1, 2, 2]}}, "another cohort"),
        ({"changed": {"knobs": 3}}, "wrong content"),
        ({"changed": {"knobs": {"fraction": 1.0}}}, "turns a knob"),
        ({"round": 2, "changed": {"after": 1}}, "no memory of round 2"),
    ],
)
def test_a_letter_that_does_not_belong_here_is_refused(waiting, changes, why: str) -> None:
    three, letter = waiting
    facts = {**letter.facts, **changes.get("changed", {})}
    changes = {"facts": facts, **{name: each for name, each in changes.items() if name != "changed"}}
    assert why in reason(three.silos["north"].answer(changed(letter, **changes)))


def test_a_model_of_another_size_is_refused(waiting) -> None:
    three, letter = waiting
    arrays = {**letter.arrays, "params": np.zeros(3, np.float32)}
    assert "another number of parameters" in reason(three.silos["north"].answer(changed(letter, arrays=arrays)))
    score = changed(letter, kind="score", arrays={"params": arrays["params"], "buffers": np.zeros(0, "f4")})
    assert "another number of parameters" in reason(three.silos["north"].answer(score))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_whatever_comes_there_is_a_letter_back(waiting, data: st.DataObject) -> None:
    three, letter = waiting
    kind = data.draw(st.sampled_from(["train", "score", "final", "begin", "unmask", "join"]))
    facts = data.draw(
        st.dictionaries(
            st.sampled_from(["after", "cohort", "knobs", "roster", "rows", "cards", "survivors", "summary", "tests"]),
            st.recursive(
                st.none() | st.integers(-2, 3) | st.sampled_from(NAMES),
                lambda inner: st.lists(inner, max_size=3),
                max_leaves=4,
            ),
        )
    )
    names = data.draw(st.sets(st.sampled_from(["params", "buffers", "extra/c", "box/south", "adverts/north"])))
    arrays = {name: np.zeros(data.draw(st.integers(0, 12)), np.float32) for name in names}
    silo = "" if kind == "join" else "north"
    content = Letter(kind, facts, arrays, letter.consortium, letter.run, silo, data.draw(st.integers(0, 3))).content
    answer = Letter.of(three.silos["north"].answer(content))
    assert answer.kind in (REFUSAL, "join", "score", "train", "final", "begin")
    if answer.kind == REFUSAL:
        assert "Traceback" not in answer.facts["reason"]
        assert "\n" not in answer.facts["reason"]


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=100))
def test_bytes_that_are_no_letter_are_refused(waiting, content: bytes) -> None:
    assert reason(waiting[0].silos["north"].answer(content))


@pytest.mark.parametrize(
    ("old", "new"), [(b'"silo":"north"', b'"silo":"\\ud800"'), (b",[0]]", b",[0,1%s]]" % (b"0" * 30))]
)
def test_a_letter_that_python_reads_but_cannot_repeat_is_refused(waiting, old: bytes, new: bytes) -> None:
    three, letter = waiting
    whole = letter.content
    start = whole.index(b"{")
    end = start + int.from_bytes(whole[start - 4 : start])
    assert old in whole[start:end]
    header = whole[start:end].replace(old, new)
    assert reason(three.silos["north"].answer(whole[: start - 4] + len(header).to_bytes(4) + header + whole[end:]))


def test_the_same_letter_gets_the_same_answer(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, solver="dp_sgd(lr=0.1, batch=16, noise=1, clip=1)", rounds=2)  # with real random noise
    letter = stopped(three, "train").content
    first = three.silos["north"].answer(letter)
    three.open("north")
    assert three.silos["north"].answer(letter) == first


def test_a_join_is_repeated_with_the_same_keys(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=SECURE)
    letter = stopped(three, "begin")
    join = changed(letter, kind="join", silo="", facts={}, arrays={})
    first = three.silos["north"].answer(join)
    three.open("north")
    assert three.silos["north"].answer(join) == first
    assert "keys are used once" in reason(three.silos["north"].answer(changed(Letter.of(join), facts={"a": 1})))


def test_a_silo_joins_as_many_runs_as_it_allows(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, rounds=1)
    three.run("first")
    join = Letter.of(letters_of(three, "north", "join")[0])
    assert "takes part in 1 run" in reason(three.silos["north"].answer(changed(join, run="f" * 32)))
    assert "has ended" in reason(three.silos["north"].answer(join.content))


def test_a_limit_of_epsilon_counts_every_training(tmp_path: Path) -> None:
    three = rehearsal(
        tmp_path, limits="max_epsilon = 6.0\nmax_runs = 2", solver="dp_sgd(lr=0.1, batch=16, noise=1, clip=1)", rounds=3
    )  # one round costs 5.1 by the accountant, and two cost 6.5
    letter = stopped(three, "train")
    north = three.silos["north"]
    first = north.answer(letter.content)
    assert not reason(first)
    assert north.answer(letter.content) == first  # it costs nothing again
    other = {**letter.arrays, "params": letter.arrays["params"] + 1}
    assert "epsilon of 6 at most" in reason(north.answer(changed(letter, arrays=other)))
    three.open("north")
    assert "epsilon of 6 at most" in reason(three.silos["north"].answer(changed(letter, arrays=other)))


def test_a_silo_scores_a_few_models_only(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, rounds=1)
    letter = stopped(three, "score")
    answers = []
    for number in range(8):
        arrays = {**letter.arrays, "params": letter.arrays["params"] + number}
        answers.append(reason(three.silos["north"].answer(changed(letter, arrays=arrays))))
    assert [bool(each) for each in answers] == [False] * 6 + [True] * 2
    assert "scores no more" in answers[-1]


def test_rows_that_change_during_a_run_are_noticed(tmp_path: Path) -> None:
    three = rehearsal(tmp_path)
    letter = stopped(three, "train")
    table = tmp_path / "north" / "north.csv"
    table.write_text(table.read_text() + "1.0,2.0,3.0,red,yes\n" * 20)
    three.open("north")
    assert "other rows" in reason(three.silos["north"].answer(letter.content))


def test_an_error_about_rows_stays_at_the_silo(tmp_path: Path) -> None:
    three = rehearsal(tmp_path)
    table = tmp_path / "north" / "north.csv"
    table.write_text(table.read_text().replace("green", "green").replace(",yes", ",perhaps"))
    three.open("north")
    three.run()
    answers = [Letter.of(answer) for name, _, answer in three.letters if name == "north" and answer]
    assert {letter.kind for letter in answers} == {REFUSAL}
    assert not any("perhaps" in str(letter.facts) or "north.csv" in str(letter.facts) for letter in answers)


def test_files_of_a_silo_are_for_its_owner_only(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=SECURE)
    stopped(three, "train", round=1)
    state = tmp_path / "north" / "state"
    assert state.stat().st_mode & 0o777 == 0o700
    files = [path for path in state.rglob("*") if path.is_file()]
    assert files
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


@pytest.mark.parametrize("transforms", ["", "top_k(fraction=0.3)", SECURE], ids=["plain", "top_k", "secure"])
def test_no_letter_has_a_cell_of_a_row(tmp_path: Path, transforms: str) -> None:
    three = rehearsal(tmp_path, transforms=transforms, algorithm="scaffold")
    three.run()
    rows = three.silos["north"].rows
    assert MARK in rows.cells["dose"].numbers(".", "").tolist()  # the marked cell is there
    forms = [struct.pack(f"{order}{kind}", MARK) for order in "<>" for kind in "fd"]
    forms += [repr(MARK).encode(), f"{MARK:.6f}".encode(), f"{MARK:.4f}".encode()]
    wire = [content for _, letter, answer in three.letters for content in (letter, answer) if content]
    assert len(wire) > 50
    assert not [form for form in forms for content in wire if form in content]


def test_a_search_for_a_cell_would_find_it() -> None:
    content = Letter("train", {}, {"rows": np.array([[1.0, MARK]])}).content
    assert struct.pack("<d", MARK) in content


def test_a_silo_runs_once(tmp_path: Path) -> None:
    three = rehearsal(tmp_path)
    with pytest.raises(RecordError, match="in use by another process"):
        Silo.open(three.silo_file("north"))
    three.close("north")
    Silo.open(three.silo_file("north")).close()


PRIVATE = "dp_sgd(lr=0.1, batch=16, noise=1, clip=1)"


def test_limits_are_those_of_all_consortia(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, limits="max_epsilon = 6.0\nmax_runs = 2", solver=PRIVATE, rounds=1)
    (record,) = three.run()
    spent = pytest.approx(record.privacy["example"]["parties"][0], abs=1e-4)
    assert spent_before(Drawer(tmp_path / "north" / "state")) == {"runs": 1, "rounds": 1, "epsilon of a row": spent}
    second = three.again(eval_every=2)
    letter = stopped(second, "train")
    assert "epsilon of 6 at most" in reason(second.silos["north"].answer(letter.content))
    third = three.again(eval_every=3)
    join = Letter("join", consortium=third.consortium.digest, run="0" * 32)
    assert "takes part in 2 run at most, over all consortia" in reason(third.silos["north"].answer(join.content))


def test_noise_that_silos_share_is_charged_for_the_fewest_answers(tmp_path: Path) -> None:
    noise = "clip(norm=1) | skellam_noise(multiplier=2) | secure_sum(protocol=pairwise, threshold={})"
    spent = []
    for threshold in (2, 3):
        three = rehearsal(
            tmp_path / str(threshold), limits="max_epsilon = 1000", transforms=noise.format(threshold), rounds=1
        )
        (record,) = three.run()
        spent.append(spent_before(Drawer(three.folder / "north" / "state"))["epsilon of the silo"])
    assert spent[1] == pytest.approx(record.privacy["party"]["epsilon"], abs=1e-4)  # all three answered
    assert spent[1] < spent[0] < 1000


@pytest.mark.parametrize("kind", ["begin", "train", "unmask"])
def test_a_crash_before_an_answer_is_stored_costs_nothing(tmp_path: Path, kind: str, monkeypatch) -> None:
    expected = rehearsal(tmp_path / "whole", transforms=SECURE, rounds=1).run()
    three = rehearsal(tmp_path / "crash", transforms=SECURE, rounds=1)
    crashes = list[bytes]()

    def crash(name: str, content: bytes, answer: Answer) -> bytes | None:
        if name == "north" and Letter.of(content).kind == kind and not crashes:
            with monkeypatch.context() as patch:
                patch.setattr(Drawer, "put_answer", lambda *_: 1 / 0)
                crashes.append(answer(content))
            three.open("north")
        return answer(content)

    three.hook = crash
    records = three.run()
    assert reason(crashes[0])
    assert [record.replied for record in records] == [None]
    assert torch.equal(records[0].state.server.params, expected[0].state.server.params)


def test_joins_that_never_begin_do_not_fill_the_disk(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=SECURE)
    join = Letter("join", consortium=three.consortium.digest)
    for number in range(6):
        assert not reason(three.silos["north"].answer(changed(join, run=f"{number:032x}")))
    runs = {path.name for path in (tmp_path / "north" / "state").glob("*/*") if path.is_dir()}
    assert runs == {f"{number:032x}" for number in (3, 4, 5)}


@pytest.mark.parametrize("change", ["one bit", "cut off", "deleted", "a folder"])
def test_a_damaged_ledger_does_not_count_as_unspent(tmp_path: Path, change: str) -> None:
    """What a silo spent of its rows' privacy must never seem to be less than it is."""
    three = rehearsal(tmp_path, limits="max_epsilon = 6.0", solver=PRIVATE, rounds=1)
    three.run()
    drawer, file = Drawer(tmp_path / "north" / "state"), tmp_path / "north" / "state" / "spent"
    content = file.read_bytes()
    file.unlink()
    if change == "a folder":
        file.mkdir()
    elif change != "deleted":
        place = len(content) - 3
        flipped = content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
        file.write_bytes(flipped if change == "one bit" else content[:place])
    with pytest.raises(RecordError, match="spent is damaged or missing: put it back"):
        spent_before(drawer)


def test_an_emptied_count_of_rounds_does_not_count_as_none(tmp_path: Path) -> None:
    drawer = Drawer.open(tmp_path / "state")
    (drawer.path / "rounds-trained").write_bytes(b"")
    with pytest.raises(RecordError, match="rounds-trained is damaged or missing: put it back"):
        spent_before(drawer)


def test_files_of_an_earlier_version_have_no_seal(tmp_path: Path) -> None:
    drawer = Drawer.open(tmp_path / "state")
    (drawer.path / "rounds-trained").write_bytes(b"4")
    (drawer.path / "begin").write_bytes(b"a letter")
    assert spent_before(drawer) == {"runs": 0, "rounds": 4}
    assert drawer.get("begin") == b"a letter"
    drawer.put("begin", b"another")
    assert drawer.get("begin") == b"another"
