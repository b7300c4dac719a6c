"""Choices that have no effect are stated before the first round."""

from pathlib import Path

import pytest

from commands import call, write

TINY = 'dataset = "fcube"\npartition = "octants"\nmodel = "linear"\nsolver = "sgd(epochs=1, batch=512)"\nrounds = 2\n'
CASES = {
    "buffer above the cohort": (
        "pace = 'buffered(size=9)'\nclock = 'device'",
        "the pace buffered waits for 9 messages, but 4 parties take part at a time, so the server waits for all",
    ),
    "nothing is trimmed": (
        "aggregate = 'trimmed-mean(share=0.2)'",
        "leaves out 0.2 of 4 messages at each end, which is none: a share of at least 0.25 leaves out one",
    ),
    "too few answers": (
        "partition = 'iid'\nparties = 10\naggregate = 'krum'\navailability = 'dropout(0.9)'",
        "in 2 of 2 rounds fewer than 5 parties answer, which the aggregate krum needs",
    ),
    "mesh and star": ("network = 'mesh'\nexchange = 'star'", "exchange = star has no effect"),
    "equal seeds": ("seed = [0, 0]", "seed has 0 more than once: equal runs are done once"),
    "a broadcast that is not compressed": (
        "broadcast = 'clip(norm=1)'",
        "the transforms of broadcast send 32 bytes, and the whole model has 32, so the server sends that instead",
    ),
    "parties that miss too many rounds": (
        "broadcast = 'top-k(fraction=0.3)'\npartition = 'iid'\nparties = 40\nparticipation = 2",
        "a party takes part in one of about 20 rounds, and the messages of the server that it misses are as long",
    ),
    "errors that grow": (
        "transforms = 'error_feedback | quantize(bits=2)'",
        "the errors of the transform quantize are about 1.4 times as long as the update, so they grow from round to",
    ),
    "feedback in a broadcast": (
        "broadcast = 'error_feedback | top_k(fraction=0.3)'",
        "the transform error-feedback has no effect in broadcast, because what a message of the server loses is a part",
    ),
    "plateau without tests": (
        "validation = 0.2\neval_every = 5\nsolver = 'sgd(lr=plateau(0.1), epochs=1)'",
        "sees the validation loss of 1 tests in 2 rounds, and drops the learning rate after 12 tests at the earliest",
    ),
}
WITHOUT = {
    "a small buffer": "pace = 'buffered(size=2)'\nclock = 'device'",
    "something is trimmed": "aggregate = 'trimmed-mean(share=0.25)'",
    "enough answers": "aggregate = 'krum'\npartition = 'iid'\nparties = 10\navailability = 'dropout(0.1)'",
    "mesh alone": "network = 'mesh'",
    "a broadcast that is compressed": "broadcast = 'top-k(fraction=0.3)'",
    "errors that do not grow": "transforms = ['error_feedback | quantize(bits=2, bucket=8)', 'error_feedback | sign']",
    "no feedback": "transforms = ['quantize(bits=2)', 'top_k(fraction=0.3) | quantize(bits=2)']",
    "two seeds": "seed = [0, 1]",
    "a patient plateau": "validation = 0.2\nsolver = 'sgd(lr=plateau(0.1, patience=0), epochs=1)'",
}


def run(capsys: pytest.CaptureFixture[str], folder: Path, choices: str) -> str:
    keys = {line.split(" = ")[0] for line in choices.splitlines()}
    others = "".join(f"{line}\n" for line in TINY.splitlines() if line.split(" = ")[0] not in keys)
    result = call(capsys, "run", write(folder / "e.toml", others + choices), "--workers", "1", "--out", folder / "runs")
    assert result.code == 0, result.err
    return result.err


@pytest.mark.parametrize("name", CASES)
def test_a_choice_without_effect_is_noted(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    choices, note = CASES[name]
    assert note in run(capsys, tmp_path, choices)


@pytest.mark.parametrize("name", WITHOUT)
def test_other_choices_are_not(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    printed = run(capsys, tmp_path, WITHOUT[name])
    assert not [note for _, note in CASES.values() if note.split(",")[0][-20:] in printed]
