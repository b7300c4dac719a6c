"""Weights of classes: the loss by hand, what stays equal, and which engines train with them."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.utils.class_weight import compute_class_weight

import silobench as sb
from silobench.data.dataset import Dataset, Split
from silobench.errors import ConfigError
from silobench.runs.plan import bind
from silobench.tasks.objectives import OBJECTIVES
from silobench.tasks.objectives.cross_entropy import class_weights

BALANCED = "cross-entropy(weights=balanced)"


def points(y: list[int], classes: int = 2, seed: int = 0) -> Dataset:
    draw, labels = np.random.default_rng(seed), np.array(y)
    x = (draw.normal(size=(len(y), 2)) + labels[:, None]).astype(np.float32)
    return Dataset("points", Split(x, labels), Split(x, labels), tuple("abc"[:classes]), "none")


def trained(data: Dataset, objective: str, rounds: int = 3, algorithm: str = "fedavg") -> list[sb.RoundRecord]:
    federation = sb.federate(data, "iid", 2, seed=0)
    method = sb.Method(sb.ALGORITHMS.build(algorithm), sb.sgd(lr=0.1, epochs=1, batch=4, momentum=0))
    task = sb.task("linear", data, objective=objective)
    return list(sb.rounds(method, federation, task, rounds=rounds, engine=sb.inline()))


def test_weights_are_those_of_scikit_learn_and_their_mean_is_1() -> None:
    data = points([0] * 12 + [1] * 3 + [2] * 5, 3)
    weights = np.array(class_weights(data))
    assert weights.tolist() == compute_class_weight("balanced", classes=np.arange(3), y=data.train.y).tolist()
    assert weights[data.train.y].mean() == pytest.approx(1)


def test_a_class_without_rows_does_not_count() -> None:
    assert class_weights(points([0] * 6 + [2] * 2, 3)) == (8 / 12, 1.0, 8 / 4)


@pytest.mark.parametrize("spec", [BALANCED, "binary(weights=balanced)"])
def test_the_loss_by_hand(spec: str) -> None:
    """Ten rows, of which eight are of class 0: their weights are 10/16, those of the other two 10/4."""
    objective = OBJECTIVES.build(spec)(points([0] * 8 + [1] * 2))
    outputs, y = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1, 1])
    losses = [math.log(1 + math.exp(-2)), math.log(1 + math.exp(-1)), math.log(1 + math.exp(0.5))]
    total = 10 / 16 * losses[0] + 10 / 4 * (losses[1] + losses[2])
    assert objective.loss(outputs, y).item() == pytest.approx(total / 3, rel=1e-6)
    score = objective.score(outputs, y)
    assert score.loss == pytest.approx(total / 3, rel=1e-6)
    assert score.accuracy == pytest.approx(2 / 3)


def test_weights_do_not_cancel_out_in_a_batch_of_one_class() -> None:
    objective = OBJECTIVES.build(BALANCED)(points([0] * 8 + [1] * 2))
    outputs, y = torch.randn(5, 2, generator=torch.manual_seed(0)), torch.ones(5, dtype=torch.int64)
    assert objective.loss(outputs, y).item() == pytest.approx(2.5 * F.cross_entropy(outputs, y).item(), rel=1e-6)


def test_equal_classes_train_as_without_weights() -> None:
    """Weights are then 1. PyTorch multiplies by them, which changes no bit, and adds losses up before it divides."""
    data = points([0, 1] * 20)
    plain, weighted = (trained(data, spec)[-1].state.server.params for spec in ("cross-entropy", BALANCED))
    assert torch.allclose(plain, weighted, rtol=1e-5, atol=1e-6)


def test_a_repeated_rare_class_is_a_weighted_one() -> None:
    """The gradient of the weighted loss is that of rows of which each class occurs equally often."""
    data = points([0] * 8 + [1] * 2)
    rows = np.concatenate([np.arange(8), np.repeat([8, 9], 4)])
    x, y = torch.from_numpy(data.train.x), torch.from_numpy(data.train.y)
    weighted, plain = OBJECTIVES.build(BALANCED)(data), OBJECTIVES.build("cross-entropy")(data)
    weights = torch.randn(2, 2, generator=torch.manual_seed(1), dtype=torch.float64)
    gradients = []
    for objective, some in ((weighted, np.arange(10)), (plain, rows)):
        layer = weights.clone().requires_grad_()
        objective.loss(x[some].double() @ layer, y[some]).backward()  # type: ignore[no-untyped-call]
        assert layer.grad is not None
        gradients.append(layer.grad)
    assert torch.allclose(*gradients, rtol=1e-6, atol=1e-12)


def test_a_rare_class_is_answered_more_often() -> None:
    draw = np.random.default_rng(0)
    y = (draw.random(400) < 0.12).astype(np.int64)
    x = (draw.normal(size=(400, 2)) + 0.8 * y[:, None]).astype(np.float32)
    data = Dataset("rare", Split(x, y), Split(x, y), ("alive", "died"), "none")
    plain, weighted = (trained(data, spec, rounds=15)[-1] for spec in ("cross-entropy", BALANCED))
    assert weighted.metrics["balanced-accuracy"] > 0.15 + plain.metrics["balanced-accuracy"]  # type: ignore[operator]
    assert plain.accuracy > weighted.accuracy  # type: ignore[operator]


def test_ids_know_weights_only_if_there_are_any() -> None:
    plain = bind({"dataset": "digits", "objective": "cross-entropy"})
    assert plain.config["objective"] == "cross-entropy(main=accuracy)"
    assert bind({"dataset": "digits", "objective": "cross-entropy(weights=equal)"}).id == plain.id
    assert bind({"dataset": "digits", "objective": BALANCED}).config["objective"].endswith("weights=balanced)")


def test_compiled_code_refuses_weights_and_auto_trains_with_pytorch() -> None:
    data = points([0] * 30 + [1] * 10)
    setting = sb.Setting(
        sb.Method(sb.fedavg(), sb.sgd()), sb.federate(data, "iid", 2), sb.task("linear", data, objective=BALANCED), 0
    )
    assert sb.auto().settled(setting).mode == "inline"
    for engine in (sb.native(), sb.stacked()):
        with pytest.raises(ConfigError, match="cannot run this experiment"):
            engine.settled(setting)


@pytest.mark.parametrize("algorithm", ["moon", "fedrs(alpha=0.5)"])
def test_algorithms_with_their_own_loss_refuse_weights(algorithm: str) -> None:
    with pytest.raises(ConfigError, match="the objective is weighted cross-entropy"):
        trained(points([0] * 30 + [1] * 10), BALANCED, algorithm=algorithm)
