"""Cross-tests in the record: every model on the test rows of every party, as a slow loop over rows gives them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import silobench as sb
from silobench.data.dataset import Dataset, Split
from silobench.loop.final import MOST_CROSSED, final_test
from silobench.runs.facts import CrossFacts
from silobench.training.setting import Setting

PLACES = ("Bergen", "Cork", "Delft")
CLASSES = ("ill", "well", "dead")


def hospitals(rows: int = 300, places: Sequence[str] = PLACES) -> Dataset:
    """Return rows of hospitals with different shares of the classes; some test rows belong to a place of their own."""
    draw = np.random.default_rng(0)
    home = np.arange(rows) % len(places)
    shares = draw.dirichlet(np.ones(3), len(places))
    y = np.array([draw.choice(3, p=shares[place]) for place in home])
    x = (draw.normal(size=(rows, 3)) + np.eye(3)[y] * (1 + home[:, None])).astype(np.float32)
    groups = np.array(places)[home]
    test = groups.copy()
    test[: rows // 10] = "elsewhere"
    whole = Split(x, y, {"place": groups})
    return Dataset("hospitals", whole, Split(x, y, {"place": test}), CLASSES, "none")


def trained(
    data: Dataset, algorithm: str, partition: str = "by-group", parties: int | None = None, model: str = "linear"
) -> dict[str, Any]:
    federation = sb.federate(data, partition, parties, seed=0)
    task = sb.task(model, data)
    method = sb.Method(sb.ALGORITHMS.build(algorithm), sb.sgd(lr=0.1, epochs=1))
    *_, last = sb.rounds(method, federation, task, rounds=2, engine=sb.inline())
    return {"record": last, "federation": federation, "task": task, "final": last.final}


def by_hand(answer: Callable[[int, np.ndarray], int], data: Dataset, places: Sequence[str]) -> list[list[float]]:
    """Return the accuracy of models 0, 1, ... on the rows of each place and on all, row by row."""
    table = []
    for model in range(len(places)):
        right: dict[str, list[bool]] = {place: [] for place in (*places, "all")}
        for x, y, place in zip(data.test.x, data.test.y, data.test.groups["place"], strict=True):
            is_right = answer(model, x) == y
            right["all"].append(is_right)
            if place in right:
                right[str(place)].append(is_right)
        table.append([sum(each) / len(each) for each in right.values()])
    return table


def test_models_are_lines_and_test_rows_are_columns() -> None:
    """Model c answers class c to every row, so a score is the share of class c in the rows of a column."""
    data = hospitals()
    federation, task = sb.federate(data, "by-group"), sb.task("linear", data)
    layout, models = task.network.layout, []
    for label in range(3):
        params = torch.zeros_like(task.initial)
        (bias,) = (name for name in layout.names if name.endswith("bias"))
        params[layout.slices[bias]] = torch.eye(3)[label]
        models.append((params, task.buffers))
    setting = Setting(sb.Method(sb.solo(), sb.sgd(lr=0.1)), federation, task, 0)
    cross = final_test(setting, sb.inline(), models)["cross"]
    assert (cross["models"], cross["tests"]) == (list(PLACES), [*PLACES, "all"])
    y, place = data.test.y, data.test.groups["place"]
    expected = [
        [*(float((y[place == name] == label).mean()) for name in PLACES), float((y == label).mean())]
        for label in range(3)
    ]
    assert cross["scores"] == [pytest.approx(row) for row in expected]
    square = np.array(expected)[:, :3]
    assert np.abs(square - square.T).max() > 0.1  # lines and columns cannot be swapped unnoticed


@pytest.mark.parametrize("algorithm", ["solo", "ditto", "fedper"])
def test_own_models_on_all_parties_row_by_row(algorithm: str) -> None:
    data = hospitals()
    facts = trained(data, algorithm, model="mlp(4)")
    record, task = facts["record"], facts["task"]
    setting = Setting(sb.Method(sb.ALGORITHMS.build(algorithm), sb.sgd(lr=0.1, epochs=1)), facts["federation"], task, 0)
    models = [setting.model_at(record.state.server, record.state.memory[party])[0] for party in range(3)]

    def answer(model: int, x: np.ndarray) -> int:
        task.network.params.copy_(models[model])
        with torch.no_grad():
            return int(task.network.module(torch.from_numpy(x)[None]).argmax())

    cross = facts["final"]["cross"]
    assert cross["scores"] == [pytest.approx(row) for row in by_hand(answer, data, PLACES)]
    for place, name in enumerate(PLACES):  # results by party are the diagonal and the last column
        result = facts["final"]["parties"][name]
        assert (result["own"], result["all"]) == (cross["scores"][place][place], cross["scores"][place][-1])


@pytest.mark.parametrize("algorithm", ["fedavg", "combined"])
def test_a_shared_model_is_one_line(algorithm: str) -> None:
    data = hospitals()
    facts = trained(data, algorithm)
    task = facts["task"]
    task.network.params.copy_(facts["record"].state.server.params)

    def answer(_: int, x: np.ndarray) -> int:
        with torch.no_grad():
            return int(task.network.module(torch.from_numpy(x)[None]).argmax())

    cross = facts["final"]["cross"]
    assert (cross["models"], cross["tests"]) == (["shared"], [*PLACES, "all"])
    assert cross["scores"] == [pytest.approx(by_hand(answer, data, PLACES)[0])]
    assert cross["scores"][0][-1] == pytest.approx(facts["record"].accuracy)
    assert not CrossFacts.from_json(cross).has_party_models


def test_columns_have_the_noise_of_their_party() -> None:
    data = sb.load("digits")
    facts = trained(data, "solo", "noise(sigma=4, test=noisy)", 3)
    scores = np.array(facts["final"]["cross"]["scores"])
    assert scores[0][0] > scores[0][2] + 0.1  # the last party has the most noise
    federation, task, memory = facts["federation"], facts["task"], facts["record"].state.memory
    task.network.params.copy_(memory[0]["algorithm"]["model"])
    (noisy,) = [part for part in federation.test_parts() if part.copy == 2]
    x, y = federation.part(noisy)
    with torch.no_grad():
        right = (task.network.module(x).argmax(1) == y).double()
    assert scores[0][2] == pytest.approx(right[federation.own_test_rows(2)].mean().item())


def test_a_party_without_test_rows_has_an_empty_column() -> None:
    data = hospitals()
    here = data.test.groups["place"] != "Cork"
    few = Dataset("few", data.train, data.test.take(np.flatnonzero(here)), data.classes, "none")
    scores = trained(few, "solo")["final"]["cross"]["scores"]
    assert [row[1] for row in scores] == [None] * 3
    assert all(row[place] is not None for row in scores for place in (0, 2, 3))


def test_many_parties_have_none() -> None:
    places = [str(place) for place in range(100, 101 + MOST_CROSSED)]
    assert "cross" not in trained(hospitals(660, places), "fedavg")["final"]
    assert len(trained(hospitals(640, places[:-1]), "fedavg")["final"]["cross"]["tests"]) == MOST_CROSSED + 1
