"""Leaks at the cut: attacks find what is there, and nothing where nothing is."""

import json
import math
from typing import Any

import numpy as np
import pytest
import torch

from silobench.data import load
from silobench.loop.clocks import measured
from silobench.loop.network import link
from silobench.method.solvers import SOLVERS
from silobench.tasks.objectives import OBJECTIVES
from silobench.vertical.federation import federate_columns
from silobench.vertical.leaks import VERTICAL_MEASURES, CutView
from silobench.vertical.leaks.distances import centred_distances, correlation, unbiased_squared_correlation
from silobench.vertical.leaks.label_leakage import attack, positive_rows
from silobench.vertical.methods import VERTICAL_ALGORITHMS, VerticalProblem
from silobench.vertical.networks import VERTICAL_MODELS
from silobench.vertical.rounds import run_vertical


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def view(
    y: Any, gradients: Any = None, inputs: Any = None, activations: Any = None, classes: int = 2, parties: int = 1
) -> CutView:
    """Return a view of one party without labels, or of several with the same values."""
    rows = len(y)
    some = torch.zeros(rows, 2)
    values = [some if each is None else torch.as_tensor(each) for each in (inputs, activations, gradients)]
    by_party = [dict.fromkeys(["shop", "mail"][:parties], each) for each in values]
    return CutView(*by_party, torch.as_tensor(y), classes)


def facts(measure: str, seen: CutView, seed: int = 0) -> dict[str, Any]:
    result = VERTICAL_MEASURES.build(measure).measure(seen, rng(seed))
    return json.loads(json.dumps(result, allow_nan=False))


def separable(rows: int, share: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Return labels and gradients as of a logistic loss: longer ones of the rarer class, in opposite directions."""
    y = (np.arange(rows) < share * rows).astype(np.int64)
    length = np.where(y == 1, -(1 - share), share) * rng(1).uniform(0.8, 1.2, rows)
    return y, length[:, None] * np.array([1.0, 2.0, -1.0]) + 0.01 * rng(2).standard_normal((rows, 3))


# --- labels -------------------------------------------------------------------------------------------


def test_attacks_by_hand() -> None:
    """Five rows: the longest gradient is of a negative row, and one negative row points like the positive ones."""
    gradients = np.array([[2.0, 0.0], [3.0, 0.0], [1.0, 0.1], [0.0, -4.0], [-1.0, 0.0]])
    positive = np.array([True, True, False, False, False])
    result = attack(gradients, positive, 1, rng())
    assert result["norm"] == pytest.approx(4 / 6)  # 3 > 1.005, 3 > 1, 2 > 1.005, 2 > 1; 4 is longer than both
    assert result["direction"] == 1  # the other positive row has the cosine 1, all others less
    assert attack(-gradients, positive, 1, rng()) == result  # a known row has the sign of its class
    assert attack(gradients, ~positive, 1, rng())["norm"] == pytest.approx(4 / 6)  # shorter ones are of the majority


def test_separable_gradients_show_the_labels() -> None:
    y, gradients = separable(300)
    result = facts("label-leakage", view(y, gradients, parties=2))
    assert (result["positive"], result["norms"], result["rows"]) == ("class 1", "larger", 300)
    assert result["share"] == pytest.approx(0.2)
    for party in ("shop", "mail"):
        for name in ("norm", "direction", "directions"):
            numbers = result["parties"][party][name]
            assert numbers["auc"] > 0.99
            assert abs(numbers["null"] - 0.5) < 5 * numbers["null_se"] / math.sqrt(20)
    assert result["largest"]["auc"] > 0.99
    assert result["largest"]["party"] in ("shop", "mail")


def test_the_attacker_does_not_turn_its_score_round() -> None:
    """Where the rarer class has the shorter gradients, the norm attack is wrong, and its AUC says so."""
    y, gradients = separable(300)
    shorter = gradients / np.square(gradients).sum(1, keepdims=True)
    assert facts("label-leakage", view(y, shorter))["parties"]["shop"]["norm"]["auc"] < 0.01


def test_pure_noise_shows_nothing() -> None:
    """Over 60 views, the AUC has the mean 0.5 and the standard error without effect: a null effect reads as null."""
    y = (np.arange(200) < 60).astype(np.int64)
    names = ("norm", "direction", "directions")
    values = {name: [] for name in names}
    for seed in range(60):
        result = attack(rng(seed).standard_normal((200, 4)), y == 1, 3, rng(seed))
        for name in names:
            values[name].append(result[name])
    for name in names:
        spread = float(np.std(values[name], ddof=1))
        assert abs(np.mean(values[name]) - 0.5) < 4 * spread / math.sqrt(60)
        assert spread < 2 * math.sqrt(201 / (12 * 60 * 140))  # the standard error of an AUC without effect
    result = facts("label-leakage", view(y, rng(9).standard_normal((200, 4))))["parties"]["shop"]["norm"]
    assert abs(result["auc"] - result["null"]) < 5 * result["null_se"]
    assert result["null_se"] == pytest.approx(math.sqrt(201 / (12 * 60 * 140)), rel=5 / math.sqrt(2 * 19))


def test_the_direction_attack_needs_its_known_rows_to_be_left_out() -> None:
    """With one positive row besides the known one, a known row in the test would raise the AUC above 0.5."""
    gradients = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.8, 0.6]])
    positive = np.array([True, True, False, False])
    assert attack(gradients, positive, 1, rng())["direction"] == 0


@pytest.mark.parametrize(
    ("y", "classes", "positive", "name"),
    [
        ([0, 1, 1, 0], 2, [False, True, True, False], "class 1"),
        ([0, 2, 2, 0, 4, 0], 5, [False, False, False, False, True, False], "class 4"),
        ([0.5, 2.0, 9.0, 2.5], 0, [False, False, True, True], "above the median"),
    ],
)
def test_positive_rows(y: list[float], classes: int, positive: list[bool], name: str) -> None:
    rows, text = positive_rows(view(y, classes=classes))
    assert (rows.tolist(), text) == (positive, name)


def test_labels_of_one_kind_and_gradients_that_are_not_finite_give_no_number() -> None:
    y, gradients = separable(40)
    nothing = {"norm": None, "direction": None, "directions": None}
    for seen in (view(y * 0, gradients), view(y, gradients * math.nan), view(y * 0 + 1, gradients)):
        result = facts("label-leakage", seen)
        assert result["parties"] == {"shop": nothing}
        assert result["largest"] is None


# --- columns ------------------------------------------------------------------------------------------


def columns(rows: int) -> np.ndarray:
    """Return two columns of numbers, one of two values, and a constant one."""
    draw = rng(3)
    numbers = draw.standard_normal((rows, 2)) * [1, 5] + [0, 10]
    return np.column_stack([numbers, draw.uniform(size=rows) < 0.4, np.full(rows, 7.0)]).astype(np.float32)


def test_a_decoder_inverts_a_linear_map() -> None:
    x = columns(600)
    h = x @ rng(4).standard_normal((4, 8)).astype(np.float32)
    result = facts("reconstruction", view(np.zeros(600), inputs=x, activations=h))["parties"]["shop"]
    assert result["r2"] > 0.97
    assert set(result["columns"]) == {"0", "1", "2"}
    assert (result["left_out"], result["binary"]["columns"]) == (1, 1)
    assert result["binary"]["accuracy"] > 0.97 > 0.7 > result["binary"]["majority"]
    assert result["null"] < 0.1


def test_a_decoder_finds_nothing_in_noise() -> None:
    x, h = columns(600), rng(5).standard_normal((600, 8))
    result = facts("reconstruction", view(np.zeros(600), inputs=x, activations=h))["parties"]["shop"]
    assert abs(result["r2"] - result["null"]) < 0.05
    assert result["r2"] < 0.05
    assert result["binary"]["accuracy"] < result["binary"]["majority"] + 5 * math.sqrt(0.25 / 300)


def test_a_decoder_learns_nothing_from_the_rows_it_attacks() -> None:
    """Half of the columns' variance is in the activations, so R² is near one half, whatever the decoder memorises."""
    draw = rng(6)
    h = draw.standard_normal((1200, 1))
    x = h + draw.standard_normal((1200, 1))
    result = facts("reconstruction(columns=1)", view(np.zeros(1200), inputs=x, activations=h))
    assert result["largest"]["party"] == "shop"
    assert result["largest"]["r2"] == pytest.approx(0.5, abs=0.12)  # 5 standard errors of R², with 600 rows


def test_columns_that_hardly_vary_are_left_out() -> None:
    x = np.zeros((100, 3), np.float32)
    x[:3, 1] = 1
    result = facts("reconstruction(rows=50)", view(np.zeros(100), inputs=x, activations=x))
    assert result["rows"] == 50
    assert result["parties"]["shop"] == {"r2": None, "null": None, "columns": {}, "left_out": 3, "binary": None}
    assert result["largest"] is None


# --- distance correlation -----------------------------------------------------------------------------


def by_hand(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the distance correlation of 2007 and the bias-corrected square, by loops over the definitions."""
    n = len(x)
    a, b = ([[math.dist(p, q) for q in values] for p in values] for values in (x.tolist(), y.tolist()))

    def centred(d: list[list[float]], unbiased: bool) -> list[list[float]]:
        rows, total = [sum(row) for row in d], sum(map(sum, d))
        if unbiased:
            return [
                [
                    0 if i == j else d[i][j] - (rows[i] + rows[j]) / (n - 2) + total / ((n - 1) * (n - 2))
                    for j in range(n)
                ]
                for i in range(n)
            ]
        return [[d[i][j] - (rows[i] + rows[j]) / n + total / n**2 for j in range(n)] for i in range(n)]

    def product(p: list[list[float]], q: list[list[float]]) -> float:
        return sum(p[i][j] * q[i][j] for i in range(n) for j in range(n))

    squares = []
    for unbiased in (False, True):
        p, q = centred(a, unbiased), centred(b, unbiased)
        squares.append(product(p, q) / math.sqrt(product(p, p) * product(q, q)))
    return math.sqrt(squares[0]), squares[1]


def test_distance_correlation_by_hand() -> None:
    draw = rng(7)
    x = draw.standard_normal((9, 3))
    y = np.column_stack([x[:, 0] ** 2, draw.standard_normal(9)])
    expected = by_hand(x, y)
    a, b = torch.from_numpy(x), torch.from_numpy(y)
    assert float(correlation(centred_distances(a), centred_distances(b))) == pytest.approx(expected[0], rel=1e-9)
    assert unbiased_squared_correlation(a, b) == pytest.approx(expected[1], rel=1e-9)


def test_distance_correlation_of_a_copy_and_of_noise() -> None:
    x = rng(8).standard_normal((300, 3)).astype(np.float32)
    turn = np.linalg.qr(rng(9).standard_normal((3, 3)))[0]
    copy = facts("distance-correlation", view(np.zeros(300), inputs=x, activations=2 * x @ turn + 1))
    assert copy["largest"]["correlation"] == pytest.approx(1, rel=1e-5)
    assert copy["parties"]["shop"]["unbiased_squared"] == pytest.approx(1, rel=1e-5)
    noise = rng(10).standard_normal((300, 3))
    result = facts("distance-correlation", view(np.zeros(300), inputs=x, activations=noise))["parties"]["shop"]
    assert abs(result["correlation"] - result["null"]) < 5 * result["null_se"]
    assert abs(result["unbiased_squared"]) < 5 / 300  # it shrinks as 1/n
    assert result["null"] > 0.05  # the bias that makes `null` necessary
    constant = facts("distance-correlation(rows=20)", view(np.zeros(300), inputs=x, activations=noise * 0))
    assert constant["rows"] == 20
    assert constant["parties"]["shop"]["correlation"] == 0
    assert constant["parties"]["shop"]["unbiased_squared"] is None


# --- all ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["label-leakage", "reconstruction(steps=20)", "distance-correlation(rows=60)"])
def test_the_same_generator_gives_the_same_facts(measure: str) -> None:
    y, gradients = separable(120)
    seen = view(y, gradients, inputs=columns(120), activations=columns(120)[:, :2])
    torch.manual_seed(1)
    first = facts(measure, seen, 5)
    torch.manual_seed(2)
    before = torch.random.get_rng_state()
    assert facts(measure, seen, 5) == first
    assert torch.equal(torch.random.get_rng_state(), before)


# --- in a run -----------------------------------------------------------------------------------------


def last_facts(method: str, measures: tuple[str, ...]) -> tuple[dict[str, Any], list[int]]:
    """Return the last facts of a split run on breast-cancer with two parties, and the rounds that have facts."""
    dataset = load("breast-cancer")
    built = {text: VERTICAL_MEASURES.build(text) for text in measures}
    task = VerticalProblem(
        federate_columns(dataset, "columns(by=block)", 2, seed=3),
        VERTICAL_MODELS.build("mlp"),
        SOLVERS.build("adam(lr=0.01, batch=32)"),
        OBJECTIVES.build("auto")(dataset),
        link(),
        measured(),
        3,
        3,
        measures=built,
    )
    records = list(run_vertical(task, VERTICAL_ALGORITHMS.build(method), None))
    return dict(records[-1].measures), [record.round for record in records if record.measures]


def test_defences_lower_what_a_run_leaks() -> None:
    measures = "label-leakage(every=2, known=3)", "reconstruction(steps=60)", "distance-correlation(rows=200)"
    plain, rounds = last_facts("split", measures)
    assert rounds == [2, 3]
    leak, columns, dependence = (plain[name]["largest"] for name in measures)
    assert leak["auc"] > 0.9
    assert columns["r2"] > plain[measures[1]]["parties"][columns["party"]]["null"] + 0.3
    hidden = last_facts("split(defence=marvell(power=10))", measures[:1])[0][measures[0]]["largest"]
    assert hidden["auc"] < leak["auc"] - 0.1
    noisy = last_facts("split(defence=noise(deviation=3))", measures[1:2])[0][measures[1]]["largest"]
    assert noisy["r2"] < columns["r2"] - 0.2
    unrelated = last_facts("split(defence=nopeek(weight=10))", measures[2:])[0][measures[2]]["largest"]
    assert unrelated["correlation"] < dependence["correlation"] - 0.1


def test_a_view_has_the_gradients_of_single_rows_whatever_the_batch() -> None:
    """Rows cross in batches of 32, of which the last is smaller: without a defence, it must not have other norms."""
    dataset = load("breast-cancer")
    federation = federate_columns(dataset, "columns(by=block)", 2, seed=3)
    parts = [VERTICAL_MODELS.build("mlp"), SOLVERS.build("sgd(lr=0.1, batch=32)"), OBJECTIVES.build("auto")(dataset)]
    task = VerticalProblem(federation, *parts, link(), measured(), 3, 3)
    trainer = VERTICAL_ALGORITHMS.build("split").trainer(task)
    seen, rows = trainer.view(trainer.initial(), federation.rows[:40]), federation.rows[:40]
    network = trainer.module(trainer.initial())
    x, y = federation.x[rows], federation.y[rows]
    leaves = [each.detach().requires_grad_() for each in network.activations(x)]
    (40 * task.objective.loss(network.head(leaves, network.flags(x)), y)).backward()
    (party,), name = federation.others, federation.names[federation.others[0]]
    # The view has its rows in random order: they are paired by their columns.
    columns = network.part(x, party)
    places = (seen.inputs[name][:, None] == columns[None]).all(2).double().argmax(1)
    assert sorted(places.tolist()) == list(range(40))
    assert torch.equal(seen.y, y[places])
    assert torch.allclose(seen.gradients[name], leaves[party].grad[places], rtol=1e-4, atol=1e-7)
    assert torch.allclose(seen.activations[name], leaves[party].detach()[places], rtol=1e-5, atol=1e-6)
