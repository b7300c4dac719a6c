"""The server's side of letters: a faulty silo counts as one that did not answer, and a killed server goes on."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from consortia import NAMES, rehearsal
from silobench.data.agreed import Summary
from silobench.errors import RecordError
from silobench.silos.letters import Letter, refusal
from silobench.silos.post import Answer

TWO = "secure_sum(protocol=pairwise, range=100, threshold=2)"
Change = Callable[[Letter], Letter]


def with_facts(**facts: Any) -> Change:
    return lambda letter: replace(letter, facts={**letter.facts, **facts})


def with_arrays(**arrays: Any) -> Change:
    return lambda letter: replace(letter, arrays={**letter.arrays, **arrays})


def without_arrays(letter: Letter) -> Letter:
    return replace(letter, arrays={})


FAULTS: dict[str, tuple[str, Change]] = {
    "a signature that is not hexadecimal": ("join", with_facts(signature="zz")),
    "a signature that is a number": ("join", with_facts(signature=1)),
    "no public keys": ("join", without_arrays),
    "no shares of keys": ("begin", without_arrays),
    "shares of another length": (
        "begin",
        lambda letter: with_arrays(**{"box/south": np.zeros((1, 9), np.uint8)})(letter),
    ),
    "no message": ("train", without_arrays),
    "a weight that is a text": ("train", with_facts(weight="much")),
    "a report of no silo": ("train", with_facts(reports={"clip rate": [1.0, 0]})),
    "a round that a silo calls lost": ("train", with_facts(reports={"lost rounds": [1.0, 1]})),
    "fewer steps than none": ("train", with_facts(steps=-50)),
    "more bytes than there are": ("train", with_facts(work=[10**300, 0, 0, 0, 0])),
    "a loss that is no number": ("train", with_facts(loss="inf")),
    "nothing to unmask with": ("unmask", without_arrays),
    "no score": ("score", without_arrays),
    "a score of other classes": ("score", with_arrays(hits=np.zeros(7, np.int64))),
    "more right answers than rows": ("score", with_arrays(hits=np.full(2, 10**9))),
    "a loss that is a list": ("score", with_facts(loss=[1])),
    "a loss beyond float64": ("score", with_facts(loss=10**400)),
    "rows below none": ("score", with_arrays(hits=np.full(2, -5), rows=np.full(2, -5))),
    "more rows than int64 adds up": ("score", with_arrays(rows=np.full(2, 2**62))),
    "answers below none": ("final", with_arrays(confusion=np.full((2, 2), -1))),
    "squares beyond float64": ("final", with_facts(squares=10**400)),
    "no final test": ("final", without_arrays),
    "no squares": ("final", with_facts(squares=None)),
}


@pytest.mark.parametrize(("kind", "change"), FAULTS.values(), ids=FAULTS)
def test_a_faulty_silo_counts_as_one_that_did_not_answer(
    tmp_path: Path, kind: str, change: Change, caplog: pytest.LogCaptureFixture
) -> None:
    three = rehearsal(tmp_path, transforms=TWO, rounds=1)

    def deliver(name: str, content: bytes, answer: Answer) -> bytes | None:
        answered = answer(content)
        is_faulty = name == "west" and Letter.of(content).kind == kind
        return change(Letter.of(answered)).content if is_faulty else answered

    three.hook = deliver
    (record,) = three.run()
    replied = record.cohort if record.replied is None else record.replied
    assert replied == ((0, 1) if kind in ("join", "begin", "train") else (0, 1, 2))
    assert "west does not take part: " in caplog.text
    assert not list(tmp_path.rglob(f"silos/west.{kind}"))  # nothing is stored before it is checked


def test_a_reason_is_one_line_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    three = rehearsal(tmp_path, rounds=1)

    def deliver(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter = Letter.of(content)
        is_refused = name == "west" and letter.kind == "train"
        return refusal("no rows\nround 9: 3 of 3 silos answered", letter).content if is_refused else answer(content)

    three.hook = deliver
    three.run()
    assert "west does not take part: no rows round 9: 3 of 3 silos answered" in caplog.messages


def test_a_card_that_the_other_silos_would_refuse_does_not_stop_them(tmp_path: Path, monkeypatch: Any) -> None:
    three = rehearsal(tmp_path, rounds=1)
    west = three.silos["west"]
    signed = west._signed
    monkeypatch.setattr(west, "_signed", lambda purpose, content: signed(purpose, content[purpose == "card" :]))
    (record,) = three.run()
    assert record.cohort == (0, 1)


def test_a_silo_with_sums_of_other_columns_is_left_out_also_if_it_is_the_first(
    tmp_path: Path, monkeypatch: Any
) -> None:
    three = rehearsal(tmp_path, rounds=1)
    monkeypatch.setattr(three.silos["north"], "_introduced_by", lambda: (48, Summary(48)))
    (record,) = three.run()
    assert record.cohort == (0, 1)
    assert {join.stem for join in tmp_path.rglob("silos/*.join")} == {"south", "west"}


class KilledError(Exception):
    """The server is killed."""


def test_a_server_that_is_killed_while_it_unmasks_a_sum_goes_on_with_the_same_survivors(tmp_path: Path) -> None:
    three, plain = (rehearsal(tmp_path / name, transforms=TWO) for name in ("killed", "plain"))
    shares = list[str]()

    def late(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter, answered = Letter.of(content), answer(content)
        return None if (letter.kind, letter.round, name) == ("train", 1, "west") else answered

    def killing(name: str, content: bytes, answer: Answer) -> bytes | None:
        answered, letter = late(name, content, answer), Letter.of(content)
        if letter.kind == "unmask" and letter.round == 1:
            shares.append(name)
            if len(shares) == 2:
                raise KilledError
        return answered

    plain.hook, three.hook = late, killing
    expected = plain.run()
    with pytest.raises(KilledError):
        three.run()
    three.hook = None  # the late silo is here again, and all have their answers
    three.open(*NAMES)
    records = three.run()
    assert [record.replied for record in records] == [(0, 1), None]
    assert torch.equal(records[-1].state.server.params, expected[-1].state.server.params)


def test_a_survivor_that_is_away_after_the_kill_is_waited_for(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=TWO.replace(")", ", too_few=skip)"))

    def killing(name: str, content: bytes, answer: Answer) -> bytes | None:
        if Letter.of(content).kind == "unmask":
            raise KilledError
        return answer(content)

    three.hook = killing
    with pytest.raises(KilledError):
        three.run()
    three.open(*NAMES)

    def away(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter = Letter.of(content)
        return None if (letter.kind, letter.round, name) == ("train", 0, "west") else answer(content)

    three.hook = away
    records = three.run()
    assert records[0].reports["lost rounds"] == 1.0  # two of the three have messages, which nobody can unmask
    assert records[-1].replied is None


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"run": "a"}', "\x00"])
def test_a_damaged_session_is_refused_by_name(tmp_path: Path, content: str) -> None:
    three = rehearsal(tmp_path, rounds=1)
    three.run()
    (file,) = tmp_path.rglob("session.json")
    file.write_text(content)
    with pytest.raises(RecordError, match=rf"{file} is damaged"):
        three.run()
