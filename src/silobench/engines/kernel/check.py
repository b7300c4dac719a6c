"""Self-test of a compiled step on this machine: ``python -m silobench.engines.kernel.check LIBRARY``.

A NumPy version in double precision, written for clarity, takes the same steps. The test runs in its own process, so a
library that crashes does no harm.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.engines.kernel.binding import Floats, Kernel, Rows, Rule, Shape, Walk, parameters

Doubles: TypeAlias = NDArray[np.float64]

_TOLERANCE = 2e-5  # relative to how far the parameters moved
_SHAPES = (
    Shape((400, 120, 84, 10), (3, 32, 32)),
    Shape((256, 120, 84, 7), (1, 28, 28)),
    Shape((64, 120, 84, 10), (1, 8, 8), padding=2),
    Shape((32, 120, 84, 3), (2, 17, 22)),
    Shape((23, 32, 16, 8, 2)),
    Shape((50, 10)),
)


def failure(kernel: Kernel) -> str | None:
    """Return what is wrong with a kernel, or None if it is right."""
    for number, shape in enumerate(_SHAPES):
        kinds = ("bytes", "floats") if shape.pictures else ("floats", "sparse")
        for kind in kinds:
            error = _error(kernel, shape, kind, number)
            if not error < _TOLERANCE:
                return f"{shape} on {kind} has a relative error of {error:.1e}, above {_TOLERANCE:.0e}"
    if not _keeps_nan(kernel):
        return "NaN in a row does not reach the parameters"
    return None


def _error(kernel: Kernel, shape: Shape, kind: str, seed: int) -> float:
    """Return the largest relative error of a training and a test; infinite if their hits differ."""
    rng = np.random.default_rng(seed)
    rows, dense = _some_rows(shape, kind, rng)
    size = parameters(shape)
    start, anchor, linear, drift, velocity = (rng.normal(0, scale, size) for scale in (0.1, 0.1, 0.01, 0.01, 0.01))
    rule: dict[str, Any] = {"lr": 0.1, "momentum": 0.5, "decay": 0.01, "strength": 0.1}
    walk = Walk(rng.integers(0, len(rows.labels), 24).astype(np.int64), (17, 1, 6))
    params, momentum = start.astype(np.float32), velocity.astype(np.float32)
    pulls = {"anchor": anchor, "linear": linear, "drift": drift}
    loss = kernel.train(shape, rows, walk, Rule(**rule, **_single(pulls)), params, momentum)
    end, momentum_end, loss_end = _by_hand(shape, dense, rows.labels, walk, {**rule, **pulls}, start, velocity)
    hits, total = kernel.score(shape, rows, np.arange(len(rows.labels)), params)
    logits, _ = _forward(shape, _parts(shape, end), dense)
    right = np.bincount(rows.labels[logits.argmax(1) == rows.labels], minlength=shape.widths[-1])
    losses = -_log_softmax(logits)
    total_end = losses[np.arange(len(losses)), rows.labels].sum()
    errors = (
        np.linalg.norm(params - end) / np.linalg.norm(end - start),
        np.linalg.norm(momentum - momentum_end) / np.linalg.norm(momentum_end - velocity),
        abs(loss - loss_end) / loss_end,
        abs(total - total_end) / total_end,
    )
    return max(errors) if np.array_equal(hits, right) else float("inf")


def _keeps_nan(kernel: Kernel) -> bool:
    for shape in _SHAPES:
        rng = np.random.default_rng(0)
        rows, _ = _some_rows(shape, "floats", rng)
        values = rows.x if isinstance(rows.x, np.ndarray) else rows.x[0]
        values.reshape(len(rows.labels), -1)[3] = np.nan
        params = rng.normal(0, 0.1, parameters(shape)).astype(np.float32)
        kernel.train(shape, rows, Walk(np.arange(8), (8,)), Rule(0.1), params)
        if not np.isnan(params[-shape.widths[-1] :]).all():
            return False
    return True


def _single(vectors: dict[str, Doubles]) -> dict[str, Any]:
    return {name: vector.astype(np.float32) for name, vector in vectors.items()}


def _some_rows(shape: Shape, kind: str, rng: np.random.Generator) -> tuple[Rows, Doubles]:
    """Return random rows, and their values as a dense array."""
    count, labels = 20, rng.integers(0, shape.widths[-1], 20)
    size = (count, *(shape.pictures or shape.widths[:1]))
    if kind == "bytes":
        pixels = rng.integers(0, 256, size).astype(np.uint8)
        return Rows(pixels, labels), pixels / 255
    dense: Floats = rng.normal(size=size).astype(np.float32)
    if kind == "floats":
        return Rows(dense, labels), dense.astype(np.float64)
    dense *= rng.random(size) < 0.2
    filled = dense != 0
    begins = np.concatenate([[0], filled.sum(1).cumsum()]).astype(np.int32)
    return Rows((dense[filled], np.nonzero(filled)[1].astype(np.int32), begins), labels), dense.astype(np.float64)


# --- the reference in NumPy ---------------------------------------------------------------------------


def _by_hand(
    shape: Shape, x: Doubles, y: NDArray[np.int64], walk: Walk, rule: dict[str, Any], start: Doubles, velocity: Doubles
) -> tuple[Doubles, Doubles, float]:
    w, v, loss, begin = start.copy(), velocity.copy(), 0.0, 0
    for size in walk.sizes:
        rows = walk.order[begin : begin + size]
        begin += size
        gradient, of_step = _gradient(shape, w, x[rows], y[rows])
        pull = rule["strength"] * (w - rule["anchor"]) + rule["linear"]
        v = rule["momentum"] * v + gradient + rule["decay"] * w + pull
        w = w - rule["lr"] * (v + rule["drift"])
        loss += of_step / len(walk.sizes)
    return w, v, loss


def _parts(shape: Shape, flat: Doubles) -> list[tuple[Doubles, Doubles]]:
    """Return weights and bias of every layer."""
    sizes: list[tuple[int, ...]] = [] if shape.pictures is None else [(6, shape.pictures[0], 5, 5), (16, 6, 5, 5)]
    sizes += [(out, into) for into, out in zip(shape.widths, shape.widths[1:], strict=False)]
    layers, begin = [], 0
    for size in sizes:
        end = begin + int(np.prod(size))
        layers.append((flat[begin:end].reshape(size), flat[end : end + size[0]]))
        begin = end + size[0]
    return layers


def _forward(shape: Shape, parts: list[tuple[Doubles, Doubles]], x: Doubles) -> tuple[Doubles, list[Any]]:
    """Return the logits and, for every layer, what its backward pass needs."""
    inputs: list[Any] = []
    for weights, bias in parts:
        if weights.ndim == 4:
            x = np.pad(x, ((0, 0), (0, 0), *[(shape.padding, shape.padding)] * 2))
            inputs.append((x, *_convolved(x, weights, bias)))
            x = np.maximum(inputs[-1][1], 0)
        else:
            x = x.reshape(len(x), -1)
            inputs.append(x)
            x = x @ weights.T + bias
            x = x if weights is parts[-1][0] else np.maximum(x, 0)
    return x, inputs


def _taps() -> Iterator[tuple[int, int]]:
    return ((ky, kx) for ky in range(5) for kx in range(5))


def _convolved(x: Doubles, weights: Doubles, bias: Doubles) -> tuple[Doubles, NDArray[np.int64]]:
    """Return the pooled convolution, and which of each window's four values was the largest."""
    height, width = x.shape[2] - 4, x.shape[3] - 4
    out = sum(
        np.einsum("nchw,oc->nohw", x[:, :, i : i + height, j : j + width], weights[:, :, i, j]) for i, j in _taps()
    )
    out = (out + bias[:, None, None])[:, :, : height // 2 * 2, : width // 2 * 2]
    windows = np.stack([out[:, :, i::2, j::2] for i in (0, 1) for j in (0, 1)])
    return windows.max(0), windows.argmax(0)


def _log_softmax(logits: Doubles) -> Doubles:
    shifted = logits - logits.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))


def _gradient(shape: Shape, flat: Doubles, x: Doubles, y: NDArray[np.int64]) -> tuple[Doubles, float]:
    """Return the gradient of the mean cross-entropy, and the mean cross-entropy."""
    parts = _parts(shape, flat)
    logits, inputs = _forward(shape, parts, x)
    logs = _log_softmax(logits)
    error = np.exp(logs)
    error[np.arange(len(y)), y] -= 1
    error /= len(y)
    gradients: list[Doubles] = []
    for (weights, _), of_layer in zip(reversed(parts), reversed(inputs), strict=True):
        if weights.ndim == 4:
            gradient, bias, error = _convolution_back(shape, weights, of_layer, error)
        else:
            gradient, bias, error = error.T @ of_layer, error.sum(0), (error @ weights) * _on(of_layer, inputs)
        gradients = [gradient.ravel(), bias, *gradients]
    return np.concatenate(gradients), float(-logs[np.arange(len(y)), y].mean())


def _on(values: Doubles, inputs: list[Any]) -> Doubles:
    """Return 1 where a dense layer's input passed a ReLU, else 0; the ReLU of a convolution is applied at its pool."""
    dense = [of_layer for of_layer in inputs if not isinstance(of_layer, tuple)]
    return np.ones_like(values) if values is dense[0] else (values > 0).astype(np.float64)


def _convolution_back(shape: Shape, weights: Doubles, inputs: Any, error: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    x, top, which = inputs
    error = error.reshape(top.shape)
    height, width = x.shape[2] - 4, x.shape[3] - 4
    whole = np.zeros((len(x), len(weights), height, width))
    for place, (i, j) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
        target = whole[:, :, i : height // 2 * 2 : 2, j : width // 2 * 2 : 2]
        target[...] = error * ((which == place) & (top > 0))
    gradient, back = np.zeros_like(weights), np.zeros_like(x)
    for i, j in _taps():
        part = (slice(None), slice(None), slice(i, i + height), slice(j, j + width))
        gradient[:, :, i, j] = np.einsum("nohw,nchw->oc", whole, x[part])
        back[part] += np.einsum("nohw,oc->nchw", whole, weights[:, :, i, j])
    inner = (slice(shape.padding, side - shape.padding) for side in x.shape[2:])
    return gradient, whole.sum((0, 2, 3)), back[:, :, *inner]


if __name__ == "__main__":
    sys.exit(failure(Kernel(Path(sys.argv[1]))))
