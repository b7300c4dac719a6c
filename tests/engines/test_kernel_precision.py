"""The native step is as exact as PyTorch in single precision, on any shape and value."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from torch import Tensor

from natives import needs_native
from precision import bound, bound_of_steps
from silobench.data import digits
from silobench.engines import Engine
from silobench.engines.kernel import Rows, Rule, Shape, Walk, native
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.models import Cnn, Mlp, Sizes
from silobench.tasks.task import task

PULLS = {
    "fedavg": Rule(0.0),
    "fedprox": Rule(0.0, strength=0.1, anchor=np.zeros(1)),
    "scaffold outside": Rule(0.0, drift=np.zeros(1)),
    "scaffold inside": Rule(0.0, linear=np.zeros(1)),
    "feddyn": Rule(0.0, strength=0.1, anchor=np.zeros(1), linear=np.zeros(1)),
}


def flat(module: torch.nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


def by_torch(module: torch.nn.Module, x: Any, y: Any, walk: Walk, rule: Rule, dtype: torch.dtype) -> tuple[Any, Any]:
    """Where PyTorch ends, and its velocity, calculating with numbers of this kind."""
    module = copy.deepcopy(module).to(dtype)
    weights, parameters = flat(module), list(module.parameters())
    velocity = torch.zeros_like(weights)
    anchor, linear, drift = (
        None if v is None else torch.tensor(v, dtype=dtype) for v in (rule.anchor, rule.linear, rule.drift)
    )
    for rows in np.split(walk.order, np.cumsum(walk.sizes)[:-1]):
        values = torch.from_numpy(x[rows]).to(dtype) / (255 if x.dtype == np.uint8 else 1)
        grads = torch.autograd.grad(F.cross_entropy(module(values), torch.from_numpy(y[rows])), parameters)
        grad = torch.cat([g.flatten() for g in grads]) + rule.decay * weights
        if anchor is not None:
            grad += rule.strength * (weights - anchor)
        if linear is not None:
            grad += linear
        velocity = rule.momentum * velocity + grad
        weights = weights - rule.lr * velocity
        if drift is not None:
            weights = weights - rule.lr * drift
        torch.nn.utils.vector_to_parameters(weights.clone(), parameters)
    return weights.double().numpy(), velocity.double().numpy()


@dataclass(frozen=True)
class Errors:
    """Of where a training ends and of its velocity, in lengths of the way and of the velocity in double precision."""

    native: tuple[float, float]
    torch: tuple[float, float]


def measure(module: Any, x: Any, y: Any, walk: Walk, rule: Rule, pictures: Any = None) -> Errors:
    shape = Shape(module.widths, pictures, module.padding) if pictures else Shape(module.widths)
    start = flat(module).numpy()
    params, velocity = start.copy(), np.zeros_like(start)
    rows = x.toarray() if sparse.issparse(x) else x
    native().kernel.train(
        shape, Rows((x.data, x.indices, x.indptr) if sparse.issparse(x) else x, y), walk, rule, params, velocity
    )
    (exact, exact_velocity), theirs = (by_torch(module, rows, y, walk, rule, d) for d in (torch.float64, torch.float32))
    lengths = np.linalg.norm(exact - start), np.linalg.norm(exact_velocity)

    def errors(end: Any, its_velocity: Any) -> tuple[float, float]:
        differences = np.linalg.norm(end - exact), np.linalg.norm(its_velocity - exact_velocity)
        return tuple(float(d / length) if length else float(d) for d, length in zip(differences, lengths, strict=True))

    return Errors(errors(params, velocity), errors(*theirs))


def pulled(rule: Rule, size: int, rng: np.random.Generator, **facts: float) -> Rule:
    """A rule with random vectors in place of its zeros."""
    vectors = {
        name: None if getattr(rule, name) is None else rng.normal(0, 0.05, size).astype(np.float32)
        for name in ("anchor", "linear", "drift")
    }
    return replace(rule, **vectors, **facts)


def walk(count: int, sizes: list[int], rng: np.random.Generator) -> Walk:
    return Walk(np.concatenate([rng.permutation(count)[:size] for size in sizes]), sizes)


LENGTHS = {"one step": [37], "eight steps": [8, 5, 16, 3, 8, 16, 5, 8]}


NETWORKS: dict[str, tuple[int, ...]] = {
    "32 x 32 x 3": (3, 32, 32), "28 x 28 x 1": (1, 28, 28), "8 x 8 x 1": (1, 8, 8), "any": (2, 18, 21),
    "mlp": (54,), "logistic regression": (40,), "sparse": (40,),
}  # fmt: skip


def example(network: str, pull: str, sizes: list[int], seed: int, momentum: float, decay: float) -> Errors:
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    shape, count, classes = NETWORKS[network], 83, int(rng.integers(2, 12))
    if len(shape) == 3:
        module: Any = Cnn(Sizes(shape, classes))
        x: Any = rng.integers(0, 256, (count, *shape), dtype=np.uint8)
    else:
        module = Mlp(Sizes(shape, classes), (32, 16, 8) if network != "logistic regression" else (), "torch")
        x = rng.normal(size=(count, *shape)).astype(np.float32)
    if network == "sparse":
        x = sparse.csr_matrix(x * (rng.random(x.shape) < 0.2))
    rule = pulled(PULLS[pull], len(flat(module)), rng, lr=0.05, momentum=momentum, decay=decay)
    y = rng.integers(0, classes, count)
    return measure(module, x, y, walk(count, sizes, rng), rule, shape if len(shape) == 3 else None)


@needs_native
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_error_is_that_of_pytorch_in_single_precision(network: str, length: str) -> None:
    """By the middle one of many: after many steps a few of either are far off, where rounding has decided a ReLU."""
    found = [
        example(network, pull, LENGTHS[length], seed, momentum, decay)
        for seed, pull in enumerate(PULLS)
        for momentum, decay in ((0.0, 0.0), (0.9, 1e-3))
    ]
    for kind in (0, 1):
        ratios = [errors.native[kind] / errors.torch[kind] for errors in found]
        assert np.median(ratios) <= 2**0.5, (kind, ratios)  # it is about 1; more would be half a bit lost
        assert max(errors.native[kind] for errors in found) < 1e-2
    if length == "one step":
        assert max(errors.native[1] for errors in found) < bound(LENGTHS[length][0])


@dataclass(frozen=True)
class Odd:
    """A network and rows as they may come, the degenerate ones included."""

    pictures: tuple[int, int, int] | None
    widths: tuple[int, ...]  # of hidden layers, or none for a CNN
    classes: int
    values: str
    bias: float
    sizes: tuple[int, ...]
    rule: str
    momentum: float
    decay: float
    seed: int


@st.composite
def odd_ones(draw: st.DrawFn) -> Odd:
    pictures = st.tuples(st.integers(1, 3), st.integers(4, 20), st.integers(4, 20))
    return Odd(
        pictures=draw(st.one_of(st.none(), pictures, st.sampled_from([(1, 8, 8), (1, 28, 28), (3, 32, 32)]))),
        widths=tuple(draw(st.lists(st.integers(1, 40), max_size=3))),
        classes=draw(st.integers(1, 20)),
        values=draw(st.sampled_from(["bytes", "floats", "ties", "zeros", "sparse"])),
        bias=draw(st.sampled_from([0.0, 0.0, 0.1, -5.0])),
        sizes=tuple(draw(st.lists(st.sampled_from([1, 2, 7, 16, 17, 33, 70]), min_size=1, max_size=3))),
        rule=draw(st.sampled_from(sorted(PULLS))),
        momentum=draw(st.sampled_from([0.0, 0.5, 0.99])),
        decay=draw(st.sampled_from([0.0, 0.1])),
        seed=draw(st.integers(0, 999)),
    )


def rows_of(odd: Odd, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Ties: few different pixels in blocks, so that windows of the pool have equal values all over."""
    size = (70, *shape)
    if odd.values == "bytes":
        return rng.integers(0, 256, size, dtype=np.uint8)
    if odd.values == "zeros":
        return np.zeros(size, np.float32)
    if odd.values == "ties":
        return (
            np.repeat(rng.integers(0, 2, (*size[:-1], -(-size[-1] // 6))), 6, -1)[..., : size[-1]].astype(np.uint8)
            * 255
        )
    x = rng.normal(size=size).astype(np.float32)
    return sparse.csr_matrix(x * (rng.random(size) < 0.1)) if odd.values == "sparse" and len(shape) == 1 else x


@needs_native
@settings(max_examples=100, deadline=None, derandomize=True)
@given(odd=odd_ones())
def test_odd_shapes_and_values_are_as_in_double_precision(odd: Odd) -> None:
    """Once in a million, rounding decides whether a ReLU is on, here or in PyTorch: not in three draws of numbers."""
    allowed = bound_of_steps(len(odd.sizes), 70 + 400)  # rows, and inputs of the widest layer
    found = []
    for seed in (odd.seed, odd.seed + 1000, odd.seed + 2000):
        errors = errors_of(replace(odd, seed=seed))
        found.append(errors)
        if all(ours <= max(2 * theirs, allowed) for ours, theirs in zip(errors.native, errors.torch, strict=True)):
            return
    pytest.fail(str(found))


def errors_of(odd: Odd) -> Errors:
    rng = np.random.default_rng(odd.seed)
    torch.manual_seed(odd.seed)
    shape = odd.pictures or (int(rng.integers(1, 60)),)
    sizes = Sizes(shape, odd.classes)
    module: Any = Cnn(sizes) if odd.pictures else Mlp(sizes, odd.widths, "torch")
    for name, parameter in module.named_parameters():
        if name.endswith("bias") and odd.bias:
            parameter.data.fill_(odd.bias)
    x, y = rows_of(odd, shape, rng), rng.integers(0, odd.classes, 70)
    facts = {"lr": 0.05, "momentum": odd.momentum, "decay": odd.decay}
    rule = pulled(PULLS[odd.rule], len(flat(module)), rng, **facts)
    return measure(module, x, y, walk(70, list(odd.sizes), rng), rule, odd.pictures)


@needs_native
def test_ties_in_the_pool_go_to_the_first_and_a_relu_at_zero_is_off() -> None:
    """Equal pictures give equal windows: PyTorch in double precision sends the gradient to the first of equals."""
    module = Cnn(Sizes((1, 8, 8), 3))
    x, y = np.full((4, 1, 8, 8), 0.5, np.float32), np.array([0, 1, 2, 0])
    rule = Rule(0.5)
    assert max(measure(module, x, y, Walk(np.arange(4), (4,)), rule, (1, 8, 8)).native) < bound(100)
    for name, parameter in module.named_parameters():
        parameter.data.fill_(0.0 if name != "out.bias" else 0.1)  # all sums are 0
    shape, params = Shape(module.widths, (1, 8, 8), 2), flat(module).numpy().copy()
    native().kernel.train(shape, Rows(x, y), Walk(np.arange(4), (4,)), rule, params)
    assert not params[:-3].any()
    assert params[-3:].std() > 0.01


@needs_native
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("network", ["8 x 8 x 1", "mlp", "logistic regression", "sparse"])
def test_nan_and_infinity_are_not_hidden(network: str, value: float) -> None:
    shape, rng = NETWORKS[network], np.random.default_rng(0)
    module: Any = Cnn(Sizes(shape, 3)) if len(shape) == 3 else Mlp(Sizes(shape, 3), (8,), "torch")
    if network == "logistic regression":
        module = Mlp(Sizes(shape, 3), (), "torch")
    x = np.abs(rng.normal(size=(9, *shape))).astype(np.float32)
    x[4] = value
    rows: Any = Rows(x, np.arange(9) % 3)
    if network == "sparse":
        csr = sparse.csr_matrix(x)
        rows = Rows((csr.data, csr.indices, csr.indptr), rows.labels)
    kernel, shape_ = (
        native().kernel,
        Shape(module.widths, shape if len(shape) == 3 else None, getattr(module, "padding", 0)),
    )
    params = flat(module).numpy().copy()
    kernel.train(shape_, rows, Walk(np.arange(9), (9,)), Rule(0.1), params)
    assert np.isnan(params[-3:]).all()
    healthy, sick = (kernel.score(shape_, rows, np.array([row]), flat(module).numpy())[1] for row in (0, 4))
    assert np.isfinite(healthy)
    assert not np.isfinite(sick)


@needs_native
@pytest.mark.parametrize("model", ["cnn", "mlp", "linear"])
def test_a_test_is_pytorchs(model: str) -> None:
    data = digits()
    its_task, federation = task(model, data), federate(data, "iid", 2)
    way = Engine(("native",))
    (record,) = rounds(Method(ALGORITHMS.build("fedavg"), sgd(epochs=1)), federation, its_task, rounds=1, engine=way)
    score = its_task.evaluate(record.state.server.params, its_task.buffers, federation.test_batches())
    assert record.accuracy == score.accuracy
    assert record.loss == pytest.approx(score.loss, rel=bound(400))  # inputs of the widest layer
