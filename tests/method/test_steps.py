"""Trainings, steps and losses of algorithms on functions whose gradients are known, by hand."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from hooks import Recorder, sent, server_at, trained, vector
from silobench.errors import ConfigError
from silobench.method.algorithms import (
    ALGORITHMS,
    apfl,
    bsp,
    ditto,
    fednova,
    fedprox,
    fedrep,
    fedrs,
    gaia,
    moon,
    perfedavg,
    pfedme,
    solo,
)
from silobench.method.types import Adaptation, Algorithm, Batch, Layout, Memory, Step, Update

LAYERS = Layout(
    ("a.weight", "a.bias", "norm.weight", "b.weight", "norm.mean"),
    (torch.Size([2]), torch.Size([1]), torch.Size([1]), torch.Size([2]), torch.Size([1])),
    trainable=6,
    norms=frozenset({"norm.weight", "norm.mean"}),
)


def direction_of(algorithm: Algorithm, memory: Memory | None = None) -> Callable[[Step], tuple[Tensor, Memory]]:
    """Return the direction of the only training of an algorithm."""
    train = Recorder()
    assert algorithm.trainings is not None
    algorithm.trainings(train, server_at(vector(0.0)), memory or {})
    (call,) = train.calls
    direction: Callable[[Step], tuple[Tensor, Memory]] = call["direction"]
    return direction


# --- APFL ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lr", "sign", "adaptive", "alpha"),
    [(0.01, 1, True, 0.25 - 0.01 * 19.5), (0.1, 1, True, 0.0), (0.1, -1, True, 1.0), (0.01, 1, False, 0.25)],
)
def test_a_step_of_apfl(lr: float, sign: int, adaptive: bool, alpha: float) -> None:
    """v = (3, 5) and w = (1, 2) have the mixture (1.5, 2.75). There the gradient of |x|² - x₂ is (3, 4.5).

    Its product with v - w = (2, 3) is 19.5. With the other sign of |x|² it is negative, and α grows.
    """
    algorithm = apfl(alpha=0.25, adaptive=adaptive)
    both = torch.stack([vector(3.0, 5.0), vector(1.0, 2.0)])
    step = Step(both, lambda x, draw=0: sign * 2 * x - vector(0.0, 1.0), {"alpha": torch.tensor(0.25)}, lr)
    found, scratch = direction_of(algorithm, algorithm.memory(vector(0.0)))(step)
    slopes = [sign * 3.0, sign * 5.5 - 1]
    assert found.tolist() == [[0.25 * slopes[0], 0.25 * slopes[1]], [sign * 2.0, sign * 4.0 - 1]]
    assert float(scratch["alpha"]) == pytest.approx(alpha)


def test_a_round_of_apfl() -> None:
    algorithm, server = apfl(alpha=0.25), server_at(vector(1.0, 2.0))
    first = algorithm.memory(vector(7.0, 8.0))
    assert (first["model"].tolist(), float(first["alpha"]), first["alpha"].dtype) == ([7.0, 8.0], 0.25, torch.float64)
    train = Recorder(scratch={"alpha": vector(0.625)})
    assert algorithm.trainings is not None
    assert algorithm.replica is not None
    local, memory = algorithm.trainings(train, server, {"model": vector(3.0, 5.0), "alpha": vector(0.5)})
    (call,) = train.calls
    assert call["start"].tolist() == [[3.0, 5.0], [1.0, 2.0]]
    assert float(call["scratch"]["alpha"]) == 0.5
    assert (memory["model"].tolist(), float(memory["alpha"])) == ([4.0, 6.0], 0.625)
    apart = trained(call["start"], torch.stack([vector(9.0, 9.0), vector(0.5, 0.25)]))
    update, after = algorithm.message(apart, server, memory)
    assert (sent(update), update.weight, after) == ([3.5, 1.75], 7, memory)  # of w alone, times its rows
    assert algorithm.replica(server, memory).tolist() == [0.625 * 4 + 0.375 * 1, 0.625 * 6 + 0.375 * 2]
    assert local.end.tolist() == [[4.0, 6.0], [2.0, 3.0]]


# --- Per-FedAvg and pFedMe ----------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "correction"), [("FO", 0.0), ("HF", 0.1 * (2.058**3 - 1.942**3) / 0.02)])
def test_a_step_of_perfedavg(variant: Any, correction: float) -> None:
    """The gradients of three batches at x are 2 x, 3 x + 1 and x³: from 2 to 1.6, where the second one is 5.8."""
    algorithm = perfedavg(alpha=0.1, variant=variant, delta=0.01)
    slopes = (lambda x: 2 * x, lambda x: 3 * x + 1, lambda x: x**3)
    step = Step(vector(2.0), lambda x, draw=0: slopes[draw](x), {}, 0.5)
    found, scratch = direction_of(algorithm)(step)
    assert float(found) == pytest.approx(5.8 - correction)
    assert scratch == {}
    assert algorithm.adaptation == Adaptation(epochs=1, lr=0.1)


def test_a_step_of_pfedme() -> None:
    """θ = 7 at w = 2 with λ = 4, for a gradient of 2 θ: 7 - 0.1 (14 + 20) = 3.6, then 3.6 - 0.1 (7.2 + 6.4) = 2.24."""
    step = Step(vector(2.0), lambda x, draw=0: 2 * x, {"model": vector(7.0)}, 0.5)
    found, scratch = direction_of(pfedme(lam=4.0, inner_steps=2, inner_lr=0.1))(step)
    assert float(scratch["model"]) == pytest.approx(2.24)
    assert float(found) == pytest.approx(4 * (2 - 2.24))


def test_a_round_of_pfedme() -> None:
    algorithm, server = pfedme(beta=0.5), server_at(vector(3.0))
    train = Recorder(scratch={"model": vector(9.0)})
    assert algorithm.trainings is not None
    assert algorithm.replica is not None
    _, memory = algorithm.trainings(train, server, {})
    assert float(train.calls[0]["scratch"]["model"]) == float(train.calls[0]["start"]) == 3.0
    assert float(memory["model"]) == float(algorithm.replica(server, memory)) == 9.0
    assert float(algorithm.replica(server, {})) == 3.0
    direction, extras = algorithm.absorb(server, Update.of(7.0, delta=vector(6.0)))
    assert (float(direction), extras) == (3.0, {})


# --- trainings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("epochs", [None, 4])
def test_dittos_two_trainings(epochs: int | None) -> None:
    algorithm, server, train = ditto(lam=0.5, epochs=epochs), server_at(vector(3.0)), Recorder()
    assert algorithm.trainings is not None
    assert algorithm.replica is not None
    local, memory = algorithm.trainings(train, server, {"model": vector(10.0)})
    shared, own = train.calls
    assert (float(shared["start"]), shared["name"], shared.get("pull")) == (3.0, "", None)
    assert (float(own["start"]), own["name"], own["epochs"]) == (10.0, "personal", epochs)
    assert (own["pull"].strength, float(own["pull"].anchor)) == (0.5, 3.0)
    assert (float(local.end), float(memory["model"]), float(algorithm.replica(server, memory))) == (4.0, 12.0, 12.0)


@pytest.mark.parametrize("head_epochs", [0, 3])
def test_fedreps_two_trainings(head_epochs: int) -> None:
    algorithm, train = fedrep(head_epochs=head_epochs), Recorder(LAYERS)
    assert algorithm.trainings is not None
    local, memory = algorithm.trainings(train, server_at(vector(1.0)), {})
    *heads, body = train.calls
    assert (body["frozen"], float(body["start"]), body["name"]) == ({"b.weight"}, 2.0 if head_epochs else 1.0, "")
    assert [(call["name"], call["epochs"]) for call in heads] == ([("head", 3)] if head_epochs else [])
    assert all(call["frozen"] == {"a.weight", "a.bias", "norm.weight", "norm.mean"} for call in heads)
    assert (float(local.end), memory) == (4.0 if head_epochs else 2.0, {})


@pytest.mark.parametrize(
    ("spec", "tensors"),
    [
        ("fedper", {"b.weight"}),
        ("fedper(layers=2)", {"norm.weight", "b.weight"}),
        ("fedrep", {"b.weight"}),
        ("fedbn", {"norm.weight", "norm.mean"}),
    ],
)
def test_what_stays_with_a_party(spec: str, tensors: set[str]) -> None:
    personal = ALGORITHMS.build(spec).personal
    assert personal is not None
    assert set(personal(LAYERS)) == tensors
    assert ALGORITHMS.build("fedper(layers=0)").personal is None
    with pytest.raises(ConfigError, match="layers=3 would stay"):
        ALGORITHMS.build("fedper(layers=3)").personal(LAYERS)


def test_finetune_adds_its_epochs_and_nothing_else() -> None:
    inner = ALGORITHMS.build("finetune(feddyn(alpha=0.5), epochs=3)")
    assert inner.adaptation == Adaptation(epochs=3)
    assert (inner.broadcast, inner.weighs_rows) == ((), False)


# --- losses -------------------------------------------------------------------------------------------


def batch_of(network: Callable[[Tensor | None], tuple[Tensor, Tensor]], *counts: int) -> Batch:
    return Batch(torch.zeros(1, 2), torch.tensor([0]), torch.tensor(counts), network)


def test_the_loss_of_fedrs() -> None:
    """Logits of 2, 1 and 4, of which the party holds no rows of the third class and one of the second."""
    loss = fedrs(alpha=0.25).loss
    assert loss is not None
    found = loss(
        batch_of(lambda params: (vector(0.0), torch.tensor([[2.0, 1.0, 4.0]])), 5, 1, 0), server_at(vector(0.0)), {}
    )
    assert float(found) == pytest.approx(-2 + math.log(math.exp(2) + math.exp(1) + math.exp(1)), rel=1e-6)


def test_the_loss_of_moon() -> None:
    """The representation (1, 0) has a cosine of 0.6 with that of the server and of 0.8 with that of the last round."""
    seen = {1.0: torch.tensor([[3.0, 4.0]]), 2.0: torch.tensor([[8.0, -6.0]])}
    logits = torch.tensor([[1.0, 3.0]])

    def network(params: Tensor | None) -> tuple[Tensor, Tensor]:
        return (torch.tensor([[1.0, 0.0]]) if params is None else seen[float(params)]), logits

    algorithm = moon(mu=2.0, temperature=0.5)
    assert algorithm.loss is not None
    found = algorithm.loss(batch_of(network, 1, 1), server_at(vector(1.0)), {"previous": vector(2.0)})
    near, far = math.exp(0.6 / 0.5), math.exp(0.8 / 0.5)
    task = -1 + math.log(math.exp(1) + math.exp(3))
    assert float(found) == pytest.approx(task - 2 * math.log(near / (near + far)), rel=1e-6)
    update, memory = algorithm.message(trained(vector(1.0), vector(3.0)), server_at(vector(1.0)), {})
    assert (sent(update), update.weight, float(memory["previous"])) == ([21.0], 7, 4.0)
    assert float(algorithm.memory(vector(5.0))["previous"]) == 5.0


# --- messages -----------------------------------------------------------------------------------------


def test_fednova_divides_by_the_reach_and_multiplies_by_its_mean() -> None:
    """Parties of 1 and 3 rows with a reach of 2 and 4 move by 6 and 8: 14 / 4 times (1 · 3 + 3 · 2) / 4."""
    algorithm, server = fednova(), server_at(vector(0.0))
    parts = ((1, 2.0, 6.0), (3, 4.0, 8.0))
    updates = [
        algorithm.message(trained(vector(0.0), vector(delta), samples=rows, reach=reach), server, {})[0]
        for rows, reach, delta in parts
    ]
    total = {name: sum(update.total[name] for update in updates) for name in updates[0].total}
    direction, extras = algorithm.absorb(server, Update(total, 4.0))
    assert float(direction) == pytest.approx(3.5 * 2.25)
    assert extras == {}


@pytest.mark.parametrize(("combine", "expected"), [("sum", 8.0), ("mean", 4.0)])
def test_bsp_adds_or_averages(combine: Any, expected: float) -> None:
    algorithm, server = bsp(combine=combine), server_at(vector(0.0))
    updates = [algorithm.message(trained(vector(0.0), vector(delta)), server, {})[0] for delta in (3.0, 5.0)]
    assert [update.weight for update in updates] == [1, 1]
    total = Update({"delta": updates[0].total["delta"] + updates[1].total["delta"]}, 2.0)
    assert float(algorithm.absorb(server, total)[0]) == expected


def test_gaias_model_is_the_shared_one_with_what_was_not_sent() -> None:
    algorithm, server = gaia(), server_at(vector(3.0, 4.0))
    assert algorithm.replica is not None
    assert algorithm.memory(vector(5.0, 5.0))["residual"].tolist() == [0.0, 0.0]
    for model in (algorithm.start, algorithm.replica):
        assert model(server, {"residual": vector(0.5, -1.0)}).tolist() == [3.5, 3.0]
    total = Update({"delta": vector(6.0, 8.0)}, 2.0)
    assert algorithm.absorb(server, total)[0].tolist() == [6.0, 8.0]


def test_a_solo_party_goes_on_from_its_model() -> None:
    algorithm, server = solo(), server_at(vector(3.0))
    memory = algorithm.memory(vector(5.0))
    assert float(algorithm.start(server, memory)) == 5.0
    update, after = algorithm.message(trained(vector(5.0), vector(2.0)), server, memory)
    assert algorithm.replica is not None
    assert (update.total, update.weight, float(algorithm.replica(server, after))) == ({}, 7, 7.0)
    assert float(algorithm.absorb(server, update)[0]) == 0.0


def test_fedprox_pulls_to_the_shared_model() -> None:
    pull = fedprox(mu=0.5).pull(server_at(vector(3.0)), {})
    assert (pull.strength, float(pull.anchor), pull.linear, pull.drift) == (0.5, 3.0, None, None)
