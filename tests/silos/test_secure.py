"""Secure sums between silos: the server sees sums only, silos may leave, and keys are used once and deleted."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from consortia import NAMES, Rehearsal, rehearsal
from silobench.errors import RunError
from silobench.silos.letters import Letter
from silobench.silos.post import Answer
from silobench.training.state import RoundRecord

SUM = "secure_sum(protocol=pairwise, range=100)"
TWO = "secure_sum(protocol=pairwise, range=100, threshold=2)"
SKIP = "secure_sum(protocol=pairwise, range=100, too_few=skip)"


def losing(silo: str, kind: str, rounds: set[int]) -> Callable[[str, bytes, Answer], bytes | None]:
    """Return a hook that loses the letters of a kind to a silo in some rounds."""

    def deliver(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter = Letter.of(content)
        is_lost = name == silo and letter.kind == kind and letter.round in rounds
        return None if is_lost else answer(content)

    return deliver


def changed(letter: Letter, **changes: object) -> bytes:
    return Letter(**{**vars(letter), **changes}).content


def answers(three: Rehearsal, kind: str) -> list[Letter]:
    read = [(Letter.of(content), Letter.of(answer)) for _, content, answer in three.letters if answer is not None]
    return [answer for letter, answer in read if letter.kind == kind]


def params(records: list[RoundRecord]) -> torch.Tensor:
    return records[-1].state.server.params


def test_a_round_has_two_letters_and_keys_are_agreed_once(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=SUM, rounds=4)
    three.run()
    for silo in NAMES:
        kinds = [Letter.of(content) for name, content, _ in three.letters if name == silo]
        before = [each.kind for each in kinds if each.kind in ("join", "begin")]
        in_rounds = [(each.kind, each.round) for each in kinds if each.kind in ("train", "unmask")]
        assert before == ["join", "begin"]
        assert in_rounds == [(kind, number) for number in range(4) for kind in ("train", "unmask")]


# --- what the server sees ----------------------------------------------------------------------------


def chi_square(values: np.ndarray) -> float:
    """Return the statistic of the highest byte of integers; for uniform ones its mean is 255, its deviation 22.6."""
    counts = np.bincount(values.view(np.uint8).reshape(-1, values.itemsize)[:, -1], minlength=256)
    expected = len(values) / 256
    return float(((counts - expected) ** 2 / expected).sum())


MOST = 255 + 6 * 22.6


def test_every_message_is_uniform_and_the_sum_is_not(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=SUM, model="mlp(256)", rounds=2)
    records = three.run()
    messages = [
        np.frombuffer(each.tobytes(), np.uint32)
        for letter in answers(three, "train")
        for name, each in letter.arrays.items()
        if name == "sums/secure total delta"
    ]
    assert len(messages) == 6
    assert all(chi_square(message) < MOST for message in messages)
    total = sum(messages[:3], np.zeros_like(messages[0]))
    assert chi_square(total) < MOST  # own masks are left in it until silos give shares
    delta = (records[0].state.server.params - three.inline[0].state.server.params).abs().max()
    assert delta < 1e-5  # and with the shares it is the sum
    in_the_clear = np.rint(records[1].state.server.params.numpy() * 2.0**20).astype(np.int32).view(np.uint32)
    assert chi_square(in_the_clear) > MOST  # the statistic tells values from masks


def test_nothing_else_of_a_message_is_readable(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=f"clip(norm=1) | {SUM}")
    three.run()
    for letter in answers(three, "train"):
        assert letter.facts["weight"] == 0.0
        assert letter.facts["loss"] is None
        assert letter.facts["steps"] == 0
        assert letter.facts["reports"] == {}
        assert {name.split("/")[0] for name in letter.arrays} == {"sums"}
    assert {letter.facts["rows"] for letter in answers(three, "join")} == {33, 65}  # 48, 36 and 72 rows


def test_masks_of_two_rounds_differ(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=SUM, solver="sgd(lr=1e-30, batch=16)")  # every update is nearly zero
    three.run()
    messages = {letter.arrays["sums/secure total delta"].tobytes() for letter in answers(three, "train")}
    assert len(messages) == 9


# --- silos that leave --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["train", "unmask"])
def test_a_silo_may_leave_in_a_round(tmp_path: Path, kind: str) -> None:
    three = rehearsal(tmp_path / "secure", transforms=TWO)
    three.hook = losing("south", kind, {1})
    records = three.run()
    plain = rehearsal(tmp_path / "plain")
    plain.hook = losing("south", kind, {1})
    expected = plain.run()
    assert [record.replied for record in records] == [record.replied for record in expected]
    assert (records[1].replied == (0, 2)) == (kind == "train")
    assert params(records).numpy() == pytest.approx(params(expected).numpy(), abs=1e-5)


def test_a_silo_that_missed_the_keys_only_tests(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=TWO)
    three.hook = losing("south", "begin", {0})
    seen = list[str]()

    def once(name: str, content: bytes, answer: Answer) -> bytes | None:
        is_begin = name == "south" and Letter.of(content).kind == "begin"
        if is_begin and not seen:
            seen.append(name)
            return None
        return answer(content)

    three.hook = once
    records = three.run()
    assert [record.replied for record in records] == [(0, 2)] * 3
    assert {letter.silo for letter in answers(three, "score")} == set(NAMES)


@pytest.mark.parametrize("kind", ["train", "unmask"])
def test_too_few_silos_lose_the_round_or_stop_the_run(tmp_path: Path, kind: str) -> None:
    three = rehearsal(tmp_path / "skip", transforms=SKIP, algorithm="scaffold")
    three.hook = losing("south", kind, {1})
    records = three.run()
    assert torch.equal(records[0].state.server.params, records[1].state.server.params)
    assert not torch.equal(params(records), records[1].state.server.params)
    assert records[1].reports["lost rounds"] == 1.0
    after = [Letter.of(content).facts["after"] for _, content, _ in three.letters if Letter.of(content).kind == "train"]
    assert after == [-1, -1, -1, 0, 0, 0, 0, 0, 0]  # the lost round counts for nobody
    three = rehearsal(tmp_path / "stop", transforms=SUM)
    three.hook = losing("south", kind, {1})
    with pytest.raises(RunError, match="the secure sum needs 3"):
        three.run()


# --- keys --------------------------------------------------------------------------------------------


def key_files(three: Rehearsal, silo: str) -> set[str]:
    kinds = ("newcomer", "sharer", "member")
    return {path.name for kind in kinds for path in (three.folder / silo / "state").rglob(f"{kind}-*")}


def test_keys_are_deleted_when_they_are_used(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=SUM)
    seen = dict[tuple[str, int], set[str]]()

    def look(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter, answered = Letter.of(content), answer(content)
        if name == "north":
            seen[letter.kind, letter.round] = key_files(three, "north")
        return answered

    three.hook = look
    three.run()
    assert seen["join", 0] == {f"newcomer-{number:06}" for number in range(3)}
    assert seen["begin", 0] == {f"sharer-{number:06}" for number in range(3)}
    assert seen["unmask", 0] == {"sharer-000001", "sharer-000002"}
    assert seen["unmask", 2] == set()
    assert not any(key_files(three, silo) for silo in NAMES)


def test_keys_of_a_round_that_was_missed_are_deleted_too(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=TWO, rounds=4)
    three.hook = losing("south", "unmask", {0, 1})
    seen = list[set[str]]()
    hook = three.hook

    def look(name: str, content: bytes, answer: Answer) -> bytes | None:
        answered = hook(name, content, answer)
        if name == "south" and Letter.of(content).kind == "train":
            seen.append(key_files(three, "south"))
        return answered

    three.hook = look
    three.run()
    assert not any(file.endswith("000000") for file in seen[1])
    assert not any(file.endswith("000001") for file in seen[2])


def test_a_mask_is_used_once(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=SUM)
    refusals = list[str]()

    def greedy(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter, answered = Letter.of(content), answer(content)
        if name == "north" and letter.kind == "train":
            arrays = {**letter.arrays, "params": letter.arrays["params"] + 1}
            other = Letter(**{**vars(letter), "arrays": arrays})
            assert answer(content) == answered  # the same letter is answered again
            refusals.append(str(Letter.of(answer(other.content)).facts.get("reason")))
        if name == "north" and letter.kind == "unmask":
            other = Letter(**{**vars(letter), "facts": {**letter.facts, "survivors": ["north", "south"]}})
            assert answer(content) == answered
            refusals.append(str(Letter.of(answer(other.content)).facts.get("reason")))
        return answered

    three.hook = greedy
    three.run()
    assert len(refusals) == 6
    assert all("used once" in each for each in refusals)


def test_silos_that_were_sent_different_models_reveal_nothing(tmp_path: Path) -> None:
    choices = {"model": "mlp(64)", "rounds": 1}
    plain = rehearsal(tmp_path / "plain", **choices)
    plain.run()
    north = np.frombuffer(answers(plain, "train")[0].arrays["total/delta"].tobytes(), np.float32)
    three = rehearsal(tmp_path / "secure", transforms=SUM, **choices)
    first = (len(north) - 2) - 64 - 2 * 64  # weights of the first layer, before its biases
    before = list[np.ndarray]()

    def dead_units(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter = Letter.of(content)
        if letter.kind != "train":
            return answer(content)
        params = letter.arrays["params"].copy()
        before.append(params.copy())
        if name != "north":
            params[first : first + 64] = -50  # no unit is active, so the first layer's update is zero
        return answer(changed(letter, arrays={**letter.arrays, "params": params}))

    three.hook = dead_units
    (record,) = three.run()
    assert record.replied is None  # all silos answered
    update = record.state.server.params.numpy() - before[0]
    likeness = np.corrcoef(update[:first], north[:first])[0, 1]
    assert abs(likeness) < 6 / first**0.5  # that of noise; it would be 1


def test_a_restored_folder_does_not_use_a_mask_for_two_letters(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=SUM, model="mlp(256)", rounds=1)
    state, backup, messages = tmp_path / "north" / "state", tmp_path / "backup", list[np.ndarray]()

    def restore(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter = Letter.of(content)
        if name != "north" or letter.kind != "train":
            return answer(content)
        shutil.copytree(state, backup)
        for add in (0, 1):
            three.close("north")
            shutil.rmtree(state)
            shutil.copytree(backup, state)
            three.open("north")
            other = changed(letter, arrays={**letter.arrays, "params": letter.arrays["params"] + add})
            part = Letter.of(answer(other)).arrays["sums/secure total delta"]
            messages.append(np.frombuffer(part.tobytes(), np.uint32))
        raise KeyboardInterrupt

    three.hook = restore
    with pytest.raises(KeyboardInterrupt):
        three.run()
    assert chi_square(messages[0] - messages[1]) < MOST


def test_a_secure_sum_has_all_silos_in_its_cohort(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, transforms=SUM, rounds=1)
    reasons = list[str]()

    def other_cohort(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter = Letter.of(content)
        if letter.kind == "train" and name == "north":
            for cohort in ([0, 1], [0, 1, 2, 3], [0, 1, 2, 2]):
                refused = Letter.of(answer(changed(letter, facts={**letter.facts, "cohort": cohort})))
                reasons.append(str(refused.facts["reason"]))
        return answer(content)

    three.hook = other_cohort
    three.run()
    assert len(reasons) == 3
    assert all("another cohort" in each for each in reasons)


@pytest.mark.parametrize(
    ("survivors", "why"),
    [
        (["north", "south"], "needs at least 3 parties"),
        (["south", "west", "south"], "itself included"),
        (["north", "nobody", "west"], "wrong content"),
    ],
)
def test_a_silo_gives_no_shares_for_another_list(tmp_path: Path, survivors: list[str], why: str) -> None:
    three = rehearsal(tmp_path, transforms=SUM, rounds=1)
    reasons = list[str]()

    def lying(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter = Letter.of(content)
        if letter.kind != "unmask" or name != "north":
            return answer(content)
        answered = answer(Letter(**{**vars(letter), "facts": {**letter.facts, "survivors": survivors}}).content)
        reasons.append(str(Letter.of(answered).facts["reason"]))
        return answered

    three.hook = lying
    with pytest.raises(RunError):
        three.run()
    assert why in reasons[0]


def wrong_shares(name: str, content: bytes, answer: Answer) -> bytes | None:
    """Let the silo north give wrong shares."""
    answered = answer(content)
    if name != "north" or Letter.of(content).kind != "unmask":
        return answered
    letter = Letter.of(answered)
    return changed(letter, arrays={key: array[::-1].copy() for key, array in letter.arrays.items()})


def test_wrong_shares_are_left_out_or_lose_the_round(tmp_path: Path) -> None:
    expected = rehearsal(tmp_path / "right", transforms=TWO, rounds=1).run()
    three = rehearsal(tmp_path / "wrong", transforms=TWO, rounds=1)
    three.hook = wrong_shares
    assert torch.equal(params(three.run()), params(expected))
    three = rehearsal(tmp_path / "all", transforms=SUM, rounds=1)  # all three shares are needed
    three.hook = wrong_shares
    with pytest.raises(RunError, match=r"so the sum is lost: one of north, south and west sent wrong ones"):
        three.run()


@pytest.mark.parametrize("what", ["key", "rows", "silo"])
def test_a_server_cannot_put_itself_between_silos(tmp_path: Path, what: str) -> None:
    three = rehearsal(tmp_path, transforms=SUM)

    def between(name: str, content: bytes, answer: Answer) -> bytes | None:
        letter = Letter.of(content)
        if letter.kind != "begin":
            return answer(content)
        arrays, facts = dict(letter.arrays), dict(letter.facts)
        if what == "key":
            arrays["adverts/west"] = arrays["adverts/west"][::-1].copy()  # well-formed keys that west did not sign
        elif what == "rows":
            facts["rows"] = [facts["rows"][0], facts["rows"][1], 1]
        else:
            facts["roster"] = [*facts["roster"][:2], "server"]
        return answer(Letter(**{**vars(letter), "arrays": arrays, "facts": facts}).content)

    three.hook = between
    with pytest.raises(RunError, match=r"not signed by it|not in the order"):
        three.run()
    assert not answers(three, "train")
