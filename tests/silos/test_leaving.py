"""What a silo is shown before it starts is what leaves it afterwards."""

import re
from pathlib import Path

import pytest

from consortia import rehearsal
from silobench.silos.leaving import leaving
from silobench.silos.letters import Letter

CHAINS = {
    "plain": "",
    "top_k": "top_k(fraction=0.3)",
    "quantize": "quantize(bits=4)",
    "secure": "rand_k(fraction=0.5) | secure_sum(protocol=pairwise, range=100)",
}


@pytest.mark.parametrize("transforms", CHAINS.values(), ids=CHAINS.keys())
def test_parts_and_sizes_are_those_of_the_letters(tmp_path: Path, transforms: str) -> None:
    three = rehearsal(tmp_path, transforms=transforms, algorithm="scaffold")
    departures = leaving(three.consortium, 48)
    three.run()
    answers = [Letter.of(answer) for name, _, answer in three.letters if name == "north" and answer]
    shown = {
        each.what.removeprefix("the part ").removesuffix(" of its message"): (each.bytes, each.times)
        for each in departures
        if each.what.startswith("the part ")
    }
    sent = [letter for letter in answers if letter.kind == "train"]
    if transforms != "top_k(fraction=0.3)":  # how many bytes it takes depends on the values
        assert shown == {name.partition("/")[2]: (each.nbytes, len(sent)) for name, each in sent[0].arrays.items()}
    assert {name.partition("/")[2] for name in sent[0].arrays} == shown.keys()
    is_secure = "secure" in transforms
    assert {each.form.split(":")[0] for each in departures if each.what.startswith("the part")} == {
        "masked" if is_secure else "readable"
    }
    by_what = {each.what: each for each in departures}
    assert by_what["of its test rows, by class: all, and those with the right answer; the sum of losses"].times == 3
    if is_secure:
        (join,) = [letter for letter in answers if letter.kind == "join"]
        public = by_what["public keys for all rounds, and digests of secret ones, signed"]
        assert public.bytes == join.arrays["adverts"].nbytes
        assert by_what["shares of keys, to unmask the sum"].times == 3


def test_epsilon_is_that_of_the_record(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, solver="dp_sgd(lr=0.1, batch=16, noise=1, clip=1)", eval_every=3)
    (message,) = [each for each in leaving(three.consortium, 48) if each.privacy.startswith("epsilon")]
    numbers = re.findall(r"epsilon ([\d.]+) after one round and ([\d.]+) after all", message.privacy)
    records = three.run()
    spent = [record.privacy["example"]["parties"][0] for record in (records[0], records[-1])]
    assert [float(number) for number in numbers[0]] == pytest.approx(spent, rel=0.005)  # three digits are shown
    assert "for a row" in message.privacy


def test_facts_are_json(tmp_path: Path) -> None:
    (first, *_) = leaving(rehearsal(tmp_path).consortium, 48)
    assert first.as_json() == {
        "when": "once, when it joins",
        "what": "for 3 columns of numbers: known cells, their sum, and squares about the mean",
        "bytes": first.bytes,
        "times": 1,
        "form": "readable",
        "privacy": "",
    }


def test_what_epsilon_does_not_cover_is_marked(tmp_path: Path) -> None:
    three = rehearsal(tmp_path, solver="dp_sgd(lr=0.1, batch=16, noise=1, clip=1)", rounds=1)
    departures = leaving(three.consortium, 48)
    covered = [each.what for each in departures if each.privacy != "not covered by epsilon"]
    assert covered == ["the part delta of its message"]
    assert not any("training loss" in each.what for each in departures)
    three.run()
    trained = [Letter.of(answer) for _, content, answer in three.letters if Letter.of(content).kind == "train"]
    assert {letter.facts["loss"] for letter in trained} == {None}
