"""Labels: choices as text, as specs, and as keys."""

import pickle

import pytest

from silobench.errors import SpecError
from silobench.runs.label import LATER, Label, distinguishing
from silobench.spec import parse

CHOICES = {
    "dataset": "digits(variant=small)", "partition": "shards(per_party=1) + share(beta=0.1)", "model": "cnn",
    "algorithm": "fedprox(mu=0.1)", "solver": "sgd(lr=exponential(start=0.1, decay=0.99), batch=10)",
    "transforms": "top-k(ratio=0.1) | clip(norm=1.0)", "server": "step", "controller": "fixed", "network": "link",
    "parties": 10, "participation": 1.0, "rounds": 20, "eval_every": 2, "eval_on": 100, "validation": 0.1, "seed": 3,
}  # fmt: skip


def test_a_choice_is_text_as_an_item_and_a_spec_as_an_attribute() -> None:
    label = Label(CHOICES)
    assert dict(label) == CHOICES
    for name in ("dataset", "model", "algorithm", "solver", "server", "controller", "network"):
        assert getattr(label, name) == parse(label[name])
    assert [term.name for term in label.partition] == ["shards", "share"]
    assert [term.name for term in label.transforms] == ["top-k", "clip"]
    numbers = ("parties", "participation", "rounds", "eval_every", "eval_on", "validation", "seed")
    assert {name: getattr(label, name) for name in numbers} == {name: CHOICES[name] for name in numbers}


def test_choices_that_a_run_does_not_state_are_at_their_defaults() -> None:
    label = Label({"dataset": "digits", "transforms": ""})
    assert {name: label.text(name) for name in LATER} == LATER
    assert (label.start.name, label.selection.name, label.buffers) == ("random", "uniform", "average")
    assert (label.transforms, label.measure) == ((), ())
    assert (label.controller.name, label.network.name, label.server.name) == ("fixed", "link", "step")
    assert "start" not in label
    assert (label.parties, label.participation) == (None, 1.0)


def test_labels_are_keys_and_values_count_by_their_form() -> None:
    label, same = Label(CHOICES), Label(dict(reversed(CHOICES.items())))
    assert label == same
    assert hash(label) == hash(same)
    assert label != label.replace(participation=1)  # one party, not all of them
    assert label.without("seed") == label.replace(seed=4).without("seed") != label.without("rounds")
    assert {label: "found"}[pickle.loads(pickle.dumps(same))] == "found"
    assert Label({"plugins": ["a"]}) == Label({"plugins": ["a"]})


def test_text_that_is_not_a_spec_is_refused_only_when_it_is_parsed() -> None:
    label = Label({"algorithm": "fedprox, best mu"})
    assert label["algorithm"] == "fedprox, best mu"
    with pytest.raises(SpecError):
        _ = label.algorithm


def test_labels_differ_in_what_some_state_and_others_do_not() -> None:
    plain = Label(CHOICES)
    labels = [plain, plain.replace(seed=4), plain.replace(start="centralised(rounds=5)"), plain.replace(model="mlp")]
    assert distinguishing(labels, but=["seed"]) == ["model", "start"]
