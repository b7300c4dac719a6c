"""Letters: what goes in comes out, equal letters have equal bytes, and nothing else than a letter is read."""

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays, boolean_dtypes, floating_dtypes, integer_dtypes

from silobench.silos.letters import Letter, LetterError, refusal

ANY_ARRAY = arrays(
    st.one_of(boolean_dtypes(), integer_dtypes(), floating_dtypes()), array_shapes(min_dims=0, min_side=0, max_side=4)
)
FACTS = st.dictionaries(st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=5), st.booleans()), max_size=3)


@settings(max_examples=60)
@given(facts=FACTS, named=st.dictionaries(st.text(max_size=6), ANY_ARRAY, max_size=3), round=st.integers(0, 9))
def test_a_letter_arrives_as_it_was_written(facts, named, round) -> None:
    letter = Letter("train", facts, named, "c", "r", "north", round)
    arrived = Letter.of(letter.content)
    assert arrived.content == letter.content
    assert (arrived.facts, arrived.round, arrived.silo) == (facts, round, "north")
    for name, array in named.items():
        assert arrived.arrays[name].shape == array.shape
        assert arrived.arrays[name].tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()


@settings(max_examples=200)
@given(content=st.binary(max_size=200))
def test_other_bytes_are_no_letter(content: bytes) -> None:
    with pytest.raises(LetterError):
        Letter.of(content)


@settings(max_examples=300)
@given(data=st.data())
def test_a_damaged_letter_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    content = bytearray(Letter("score", {"a": 1}, {"x": np.arange(5.0), "y": np.zeros((2, 3), np.int8)}).content)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))])
    for each in (bytes(content), cut, bytes(content) + b"\0"):
        with suppress(LetterError):
            Letter.of(each)


def with_header(**changes: object) -> bytes:
    whole = Letter("score", {}, {"x": np.zeros(2, np.float32)}).content
    start = whole.index(b"{")
    end = whole.rindex(b"}") + 1
    header = json.dumps({**json.loads(whole[start:end]), **changes}).encode()
    return whole[: start - 4] + len(header).to_bytes(4) + header + whole[end:]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"arrays": [["x", "|O", [2]]]}, "type or shape"),
        ({"arrays": [["x", "<f4", [3]]]}, "fewer bytes"),
        ({"arrays": [["x", "<f4", [1]]]}, "4 bytes after"),
        ({"arrays": [["x", "<f4", [1]], ["x", "<f4", [1]]]}, "twice"),
        ({"arrays": [["x", "<f4", [-2]]]}, "type or shape"),
        ({"arrays": [["x", "<f4", [2**40, 2**40]]]}, "fewer bytes"),
        ({"arrays": [["x", "<f4", [True, True]]]}, "type or shape"),
        ({"arrays": [["x", "<f4", [2]], ["y", "<f4", [0, 2**70]]]}, "shape that no array can have"),
        ({"arrays": [["x", "<f4", [2]], ["y", "<f4", [0, 2**40, 2**40]]]}, "shape that no array can have"),
        ({"round": -1}, "counted from 0"),
        ({"round": True}, "another type than int"),
        ({"kind": 3}, "another type than str"),
        ({"more": 3}, "other fields"),
        ({"facts": {"a": float("nan")}}, "not JSON"),
        ({"facts": {"a": "\ud800"}}, "not JSON"),
        ({"silo": "\ud800"}, "not JSON"),
    ],
)
def test_every_field_is_checked(changes, reason: str) -> None:
    with pytest.raises(LetterError, match=reason):
        Letter.of(with_header(**changes))


def test_what_was_read_can_be_written() -> None:
    """A number beyond float64 would be stored as `Infinity`, which no letter has."""
    content = with_header(facts={"a": 12345}).replace(b"12345", b"1e999")
    with pytest.raises(LetterError, match="not JSON"):
        Letter.of(content)


def test_only_numbers_are_written() -> None:
    with pytest.raises(LetterError, match="use numbers or booleans"):
        Letter("train", {}, {"names": np.array(["a"])}).content  # noqa: B018  # it is a property


def test_a_refusal_belongs_to_its_letter() -> None:
    letter = Letter("train", {}, {}, "c", "r", "north", 4)
    answer = Letter.of(refusal("no", letter).content)
    assert (answer.kind, answer.run, answer.round, answer.facts) == ("refusal", "r", 4, {"reason": "no"})


def test_a_reason_with_the_name_of_any_file_can_be_sent() -> None:
    answer = Letter.of(refusal("the file caf\udce9.csv is not there").content)
    assert answer.facts == {"reason": "the file caf\\udce9.csv is not there"}
