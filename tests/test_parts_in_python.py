"""Wrong arguments in Python: a sentence about the argument, not an error somewhere inside."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import silobench as sb
from silobench.spec import Spec


@pytest.fixture(scope="module")
def data() -> sb.Dataset:
    return sb.load("digits")


METHODS: dict[str, tuple[Callable[[], Any], str]] = {
    "a function": (
        lambda: sb.Method(sb.fedavg),  # type: ignore[arg-type]
        "the algorithm of an sb.Method is the function fedavg, but what it returns is needed: call it",
    ),
    "a text": (
        lambda: sb.Method("fedavg"),  # type: ignore[arg-type]
        "is the text 'fedavg', but an sb.Algorithm is needed: write, for example, sb.Method",
    ),
    "another kind": (lambda: sb.Method(sb.clip()), "is a Transform, but an sb.Algorithm is needed"),  # type: ignore[arg-type]
    "a solver": (lambda: sb.Method(sb.fedavg(), sb.sgd), "the solver .* is the function sgd"),  # type: ignore[arg-type]
    "a transform alone": (
        lambda: sb.Method(sb.fedavg(), transforms=sb.clip()),  # type: ignore[arg-type]
        r"is a Transform, but a part is needed: write, for example, transforms=\(sb.clip\(norm=1.0\),\)",
    ),
    "a function as a transform": (
        lambda: sb.Method(sb.fedavg(), transforms=(sb.top_k,)),  # type: ignore[arg-type]
        r"one of the transforms of an sb.Method is the function top_k, .* as in sb.top_k\(\)",
    ),
    "a server": (lambda: sb.Method(sb.fedavg(), server=sb.sgd()), "the server of an sb.Method is a"),  # type: ignore[arg-type]
    "an aggregate": (lambda: sb.Method(sb.fedavg(), aggregate="median"), "the aggregate of an sb.Method is the text"),  # type: ignore[arg-type]
    "buffers": (lambda: sb.Method(sb.fedavg(), buffers="mean"), "buffers is 'mean', but one of average, local and"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_of_wrong_parts(name: str) -> None:
    build, sentence = METHODS[name]
    with pytest.raises(sb.ConfigError, match=sentence):
        build()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rounds": 0}, "rounds is 0, but a number of rounds of at least 1 is needed"),
        ({"rounds": 2.5}, "rounds is 2.5, but"),
        ({"rounds": True}, "rounds is True, but"),
        ({"engine": "inline"}, "the engine is the text 'inline', but an sb.Engine is needed"),
        ({"selection": sb.uniform}, r"the selection is the function uniform, .* call it, as in sb.uniform\(\)"),
        ({"availability": sb.dropout}, "the availability is the function dropout"),
        ({"availability": 0.1}, "the availability is 0.1, but a part is needed"),
        ({"adversary": sb.sign_flip}, "the adversary is the function sign_flip"),
        ({"adversary": "noise"}, "the adversary is the text 'noise', but an sb.Adversary is needed"),
        ({"exchange": "gossip"}, "the exchange is the text 'gossip', but an sb.Exchange is needed"),
        ({"exchange": sb.gossip}, "the exchange is the function gossip"),
        ({"network": "100Mbps"}, "the network is the text '100Mbps', but an sb.Network is needed"),
        ({"pace": sb.device()}, "the pace is a Clock, but an sb.Pace is needed"),
        ({"clock": sb.buffered()}, "the clock is a Pace, but an sb.Clock is needed"),
        ({"controller": sb.skewscout}, "the controller is the function skewscout"),
    ],
)
def test_rounds_of_wrong_parts(data: sb.Dataset, options: dict[str, Any], sentence: str) -> None:
    federation, task = sb.federate(data, "iid", parties=3), sb.task("linear", data)
    with pytest.raises(sb.ConfigError, match=sentence):
        sb.rounds(sb.Method(sb.fedavg()), federation, task, **options)


def test_a_task_of_another_dataset(data: sb.Dataset) -> None:
    task = sb.task("linear", sb.load("fcube"))
    federation = sb.federate(data, "iid", parties=3)
    with pytest.raises(
        sb.ConfigError, match=r"rows of shape \(3,\) and 2 classes, but digits has rows of shape \(1, 8, 8\)"
    ):
        sb.rounds(sb.Method(sb.fedavg()), federation, task)


def test_other_calls_with_wrong_parts(data: sb.Dataset) -> None:
    with pytest.raises(sb.ConfigError, match="the dataset of a federation is the text 'digits'"):
        sb.federate("digits", "iid")  # type: ignore[arg-type]
    with pytest.raises(sb.ConfigError, match="the partition is 5, but the text of a spec is needed"):
        sb.federate(data, 5)  # type: ignore[arg-type]
    with pytest.raises(sb.ConfigError, match="the dataset of a task is the text 'digits'"):
        sb.task("mlp", "digits")  # type: ignore[arg-type]
    with pytest.raises(sb.SilobenchError, match="a solver is named by the text of a spec, but"):
        sb.SOLVERS.build(sb.sgd())  # type: ignore[arg-type]
    with pytest.raises(sb.ConfigError, match="the course of measures is None"):
        list(sb.measured([], {"replicas": sb.replicas()}, None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"parties": 2.5},
            r"parties is 2\.5, but a whole number of at least 1 is needed: write, for example, parties=10",
        ),
        ({"parties": True}, "parties is True, but a whole number"),
        ({"parties": "3"}, "parties is the text '3', but a whole number"),
        ({"seed": 1.5}, r"seed is 1\.5, but a whole number of at least 0 is needed: write, for example, seed=0"),
        ({"seed": True}, "seed is True, but"),
        ({"seed": None}, "seed is None, but"),
        ({"seed": "a"}, "seed is the text 'a', but"),
        (
            {"validation": "a"},
            "validation must be a fraction of a party's rows, 0 or more and below 1, not the text 'a'",
        ),
        ({"validation": None}, "validation must be a fraction of a party's rows, .* not None"),
        ({"validation": True}, "validation must be a fraction of a party's rows, .* not True"),
    ],
)
def test_a_federation_of_wrong_numbers(data: sb.Dataset, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(sb.ConfigError, match=sentence):
        sb.federate(data, "iid", **{"parties": 3, **options})
    with pytest.raises(sb.ConfigError, match=sentence):
        sb.federate_columns(data, "columns(by=block)", **{"parties": 3, **options})
    if "validation" not in options:
        with pytest.raises(sb.ConfigError, match=sentence):
            sb.partition(data, "iid", **{"parties": 3, **options})
    if "seed" in options:
        with pytest.raises(sb.ConfigError, match=sentence):
            sb.task("linear", data, **options)
        with pytest.raises(sb.ConfigError, match=sentence):
            sb.rounds(sb.Method(sb.fedavg()), sb.federate(data, "iid", 3), sb.task("linear", data), **options)


def test_paths_and_specs_that_are_no_text(data: sb.Dataset) -> None:
    for wrong, shown in ((None, "None"), (5, "5")):
        with pytest.raises(sb.SilobenchError, match=f"a dataset is named by the text of a spec, but {shown} was given"):
            sb.load(wrong)  # type: ignore[arg-type]
        with pytest.raises(sb.ConfigError, match=f"the partition is {shown}, but the text of a spec is needed"):
            sb.partition(data, wrong)  # type: ignore[arg-type]
        with pytest.raises(sb.ConfigError, match=f"the partition is {shown}, but the text of a spec is needed"):
            sb.federate_columns(data, wrong)  # type: ignore[arg-type]
        with pytest.raises(sb.ConfigError, match=f"the dataset of a partition is {shown}"):
            sb.partition(wrong, "iid")  # type: ignore[arg-type]
        with pytest.raises(sb.ConfigError, match=f"the dataset of a federation is {shown}"):
            sb.federate_columns(wrong, "columns")  # type: ignore[arg-type]
        with pytest.raises(sb.ConfigError, match=f"the directory of results is {shown}, but a path is needed"):
            sb.results(wrong)  # type: ignore[arg-type]


def test_whole_numbers_of_numpy_are_whole_numbers(data: sb.Dataset) -> None:
    ours, numpys = sb.sgd(lr=0.1, batch=16), sb.sgd(lr=0.1, batch=np.int64(16))
    assert repr(numpys) == repr(ours)
    bound = sb.SOLVERS.bind(Spec("sgd", (), (("batch", np.uint8(16)),)))  # type: ignore[arg-type]
    assert str(bound.short) == "sgd(batch=16)"
    with pytest.raises(sb.SilobenchError, match="sgd: batch must be"):
        sb.sgd(batch=True)
    with pytest.raises(sb.SilobenchError, match="sgd: epochs must be a whole number"):
        sb.sgd(epochs=np.True_)  # type: ignore[arg-type]
    federation = sb.federate(data, "iid", np.int32(3), np.int64(1))  # type: ignore[arg-type]
    assert repr(federation) == repr(sb.federate(data, "iid", 3, 1))
    assert type(federation.seed) is int
    options = {"rounds": np.int64(1), "participation": np.int64(2), "eval_every": np.int64(1), "eval_on": np.int64(50)}
    method, task = sb.Method(sb.fedavg(), sb.sgd(epochs=1)), sb.task("linear", data)
    (record,) = sb.rounds(method, federation, task, **options)  # type: ignore[arg-type]
    (same,) = sb.rounds(method, federation, task, rounds=1, participation=2, eval_every=1, eval_on=50)
    assert (record.cohort, record.loss) == (same.cohort, same.loss)


def test_arguments_in_the_wrong_order(data: sb.Dataset) -> None:
    federation, task = sb.federate(data, "iid", parties=3), sb.task("linear", data)
    with pytest.raises(sb.ConfigError, match=r"the federation is a Task, but an sb.Federation is needed"):
        sb.rounds(sb.Method(sb.fedavg()), task, federation)  # type: ignore[arg-type]
    with pytest.raises(sb.ConfigError, match=r"the method is an Algorithm, but an sb.Method is needed"):
        sb.rounds(sb.fedavg(), federation, task)  # type: ignore[arg-type]
    with pytest.raises(sb.ConfigError, match=r"the task is the text 'mlp', but an sb.Task is needed"):
        sb.rounds(sb.Method(sb.fedavg()), federation, "mlp")  # type: ignore[arg-type]


def test_a_seed_below_0(data: sb.Dataset) -> None:
    for call in (lambda: sb.task("linear", data, seed=-1), lambda: sb.federate(data, "iid", 4, seed=-1)):
        with pytest.raises(sb.ConfigError, match=r"^seed must be a whole number of at least 0, but -1 was given\.$"):
            call()
