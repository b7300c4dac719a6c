"""The rules of layers for book-keeping: norms and scaled sums of the gradients of single rows.

A rule belongs to a kind of node of autograd's graph. It says what to read from a node, and calculates from that and
from the gradient by the layer's output. A new kind of layer is a function that yields its parts, and a line in `RULES`.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from silobench.models.lstm_layer import Lines, Tape, by_gates, run

_NUMBERS = 1 << 25  # of gradients of single rows in memory at a time, for one layer
_TRAFFIC = 8  # a number that is written and read takes as long as this many operations
_LONG, _PIECE = 1 << 16, 1 << 10  # a long line of numbers, and the pieces that it is cut into
_SMALL = 1 << 12  # inputs of a small dense layer
_SUM = 0  # mode of a bag of words


class UnsupportedError(Exception):
    """A network uses a parameter in a way that book-keeping does not know."""


@dataclass(frozen=True)
class Part:
    """Some parameters: the norm of the gradient of each row, and a function that adds the scaled sum."""

    norms: Tensor
    add: Callable[[Tensor], object]


@dataclass(eq=False)
class Use:
    """One use of a layer: a node of the graph, what it has saved, and the parameters that are trained."""

    rule: "Rule"
    node: Any
    params: tuple[Tensor | None, ...]  # None for one that is not trained
    saved: Any
    grad: Tensor | None = None  # by the output

    @property
    def by_output(self) -> Tensor:
        assert self.grad is not None
        return self.grad


Uses: TypeAlias = Sequence[Use]


@dataclass(frozen=True)
class Rule:
    """How to treat a kind of node."""

    saved: Callable[[Any], Any]  # (node) -> what the parts need of it
    parts: Callable[[Uses, int], Iterator[Part]]  # (all uses of a layer, rows) -> its parts
    places: tuple[int, ...]  # of the parameters among the inputs of the node
    is_transposed: bool = False  # whether the node reads the transpose of the first one


def parts_of(layers: Sequence[Uses], rows: int) -> Iterator[Part]:
    """Yield the parts of a network. Small dense layers are one part: calls of torch take longer than the arithmetic."""
    small = [layer[0] for layer in layers if _is_small(layer, rows)]
    if len(small) > 1:
        yield _small_dense(small)
        layers = [layer for layer in layers if layer[0] not in small]
    for layer in layers:
        yield from layer[0].rule.parts(layer, rows)


def row_norms(values: Tensor) -> Tensor:
    """Return the norm of each line of a matrix.

    Torch adds up in single precision: of a million numbers, a thousandth would be missing. So long lines are cut.
    """
    count = values.shape[1]
    if count <= _LONG:
        return torch.linalg.vector_norm(values, dim=1)  # type: ignore[no-any-return]  # torch has no types here
    cut = count - count % _PIECE
    pieces = torch.linalg.vector_norm(values[:, :cut].reshape(len(values), -1, _PIECE), dim=2)
    rest = torch.linalg.vector_norm(values[:, cut:], dim=1, keepdim=True)
    return torch.linalg.vector_norm(torch.cat([pieces, rest], 1), dim=1)  # type: ignore[no-any-return]


def _need_rows(values: Tensor, rows: int) -> None:
    if len(values) != rows:
        raise UnsupportedError


# --- parts, from what describes the gradient of each row ----------------------------------------------


def _target(param: Tensor | None) -> Tensor:
    assert param is not None
    assert param.grad is not None  # a view of the gradient of the whole network
    return param.grad


def _each(param: Tensor, grads: Tensor) -> Part:
    """Return the part for gradients of single rows, [rows, ...]."""
    grads = grads.flatten(1)
    return Part(row_norms(grads), lambda factors: _target(param).view(-1).addmv_(grads.t(), factors))


def _products(weight: Tensor, x: Tensor, grad: Tensor, groups: int = 1) -> Part:
    """Return the part for gradients that are sums of products: ``grad @ x`` for each row and group.

    `x` has the shape [rows · groups, places, d], and `grad` the shape [rows · groups, k, places].
    """
    rows, places, inputs, outputs = len(x) // groups, x.shape[1], x.shape[2], grad.shape[1]
    size, both = inputs * outputs, inputs + outputs
    if _TRAFFIC * size <= places**2 * both and rows * groups * size <= _NUMBERS:
        return _each(weight, torch.bmm(grad, x).view(rows, -1))
    # Few places: products of two places are fewer numbers. Double precision, because their sum may cancel.
    x64, grad64 = x.double(), grad.double()
    pairs = torch.bmm(x64, x64.transpose(1, 2)).mul_(torch.bmm(grad64.transpose(1, 2), grad64))
    norms = pairs.view(rows, -1).sum(1).clamp_(min=0).sqrt_().to(x.dtype)

    def add(factors: Tensor) -> None:
        scaled = grad.unflatten(0, (rows, groups)) * factors[:, None, None, None]
        left = scaled.permute(1, 2, 0, 3).reshape(groups, outputs, rows * places)
        right = x.unflatten(0, (rows, groups)).transpose(0, 1).reshape(groups, rows * places, inputs)
        _target(weight).view(groups, outputs, inputs).baddbmm_(left, right)

    return Part(norms, add)


# --- layers -------------------------------------------------------------------------------------------


def _dense(uses: Uses, rows: int) -> Iterator[Part]:
    """Yield the parts of a dense layer: a matrix, and maybe a bias."""
    weight, bias = uses[0].params if len(uses[0].params) == 2 else (*uses[0].params, None)
    if weight is not None and len(uses) == 1 and len(uses[0].saved) == rows:
        yield _dense_of_rows(weight, bias, uses[0].saved, uses[0].by_output)
        return
    # Several places of a row: one after another in the lines of a matrix, or in several uses of the layer.
    grad = _joined([_by_row(use.by_output, rows) for use in uses], 1)
    if weight is not None:
        x = _joined([_by_row(use.saved, rows) for use in uses], 1)
        yield _products(weight, x, grad.transpose(1, 2))
    if bias is not None:
        yield _each(bias, grad.sum(1))


def _dense_of_rows(weight: Tensor, bias: Tensor | None, x: Tensor, grad: Tensor) -> Part:
    length = row_norms(x)
    if bias is not None:
        length = torch.hypot(length, length.new_ones(()))  # as if there were one more input, 1

    def add(factors: Tensor) -> None:
        _target(weight).addmm_((grad * factors[:, None]).t(), x)
        if bias is not None:
            _target(bias).addmv_(grad.t(), factors)

    return Part(length.mul_(row_norms(grad).add_(math.sqrt(_flushed(grad)))), add)


def _flushed(grad: Tensor) -> float:
    """Return what the sum of squares of a row may lack, because squares of tiny numbers are 0; inputs may be large."""
    return grad.shape[1] * torch.finfo(grad.dtype).tiny


def _is_small(layer: Uses, rows: int) -> bool:
    """Whether a layer is dense and small, used once, with a bias, and has one input per row."""
    use = layer[0]
    if use.rule is not _AFFINE or len(layer) > 1 or any(each is None for each in use.params):
        return False
    return len(use.saved) == rows and use.saved.shape[1] <= _SMALL


def _small_dense(uses: Uses) -> Part:
    """Return the part of several small dense layers."""
    grads = torch.cat([use.by_output for use in uses], 1)
    x = torch.cat([use.saved for use in uses], 1)
    sizes = tuple(use.by_output.shape[1] for use in uses)
    columns = _blocks(tuple(use.saved.shape[1] for use in uses), x.dtype, x.device)
    squares = (x.square_() @ columns).add_(1)  # [rows, layers]; a bias is an input of 1
    squares.mul_((grads.square() @ _blocks(sizes, x.dtype, x.device)).add_(_flushed(grads)))

    def add(factors: Tensor) -> None:
        scaled, sums = (grads * factors[:, None]).split(sizes, 1), torch.mv(grads.t(), factors).split(sizes)
        for use, lines, total in zip(uses, scaled, sums, strict=True):
            weight, bias = use.params
            _target(weight).addmm_(lines.t(), use.saved)
            _target(bias).add_(total)

    return Part(squares.sum(1).sqrt_(), add)


@lru_cache(maxsize=64)
def _blocks(sizes: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a matrix that adds up the columns of each block: [columns, blocks]."""
    blocks = [torch.ones(size, 1, dtype=dtype, device=device) for size in sizes]
    return torch.block_diag(*blocks)  # type: ignore[no-any-return]  # torch has no types here


def _by_row(values: Tensor, rows: int) -> Tensor:
    """Return a matrix with several lines for each row as [rows, lines, d]."""
    if len(values) % rows:
        raise UnsupportedError
    return values.reshape(rows, -1, values.shape[-1])


def _addition(uses: Uses, rows: int) -> Iterator[Part]:
    """Yield the part of a bias that is added to the last dimension."""
    (bias,) = uses[0].params
    assert bias is not None
    sums = []
    for use in uses:
        _need_rows(use.by_output, rows)
        if use.by_output.dim() < 2 or bias.shape != use.by_output.shape[-1:] or use.saved != 1:
            raise UnsupportedError
        sums.append(_by_row(use.by_output, rows).sum(1))
    yield _each(bias, _added(sums))


def _joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), axis)


def _added(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(list(parts)).sum(0)


@dataclass(frozen=True)
class _Images:
    """The input of a convolution."""

    x: Tensor
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int

    @classmethod
    def saved(cls, node: Any) -> "_Images":
        if node._saved_transposed or node._saved_input.dim() != 4:
            raise UnsupportedError
        options = node._saved_stride, node._saved_padding, node._saved_dilation, node._saved_groups
        return cls(node._saved_input, tuple(node._saved_weight.shape[2:]), *options)

    def windows(self) -> Tensor:
        """Return the windows that the kernel sees, [rows, inputs, places]: as F.unfold, but twice as fast on a CPU."""
        (down, right), x = self.padding, self.x
        x = F.pad(x, (right, right, down, down)) if down or right else x
        for axis, size, stride, dilation in zip((2, 3), self.kernel, self.stride, self.dilation, strict=True):
            x = x.unfold(axis, dilation * (size - 1) + 1, stride)[..., ::dilation]
        return x.permute(0, 1, 4, 5, 2, 3).reshape(len(x), -1, x.shape[2] * x.shape[3])


def _convolution(uses: Uses, rows: int) -> Iterator[Part]:
    weight, bias = uses[0].params
    _need_rows(uses[0].by_output, rows)
    grad = _joined([use.by_output.flatten(2) for use in uses], 2)
    if weight is not None:
        windows, groups = _joined([use.saved.windows() for use in uses], 2), uses[0].saved.groups
        x, by_group = (each.unflatten(1, (groups, -1)).flatten(0, 1) for each in (windows, grad))
        yield _products(weight, x.transpose(1, 2), by_group, groups)
    if bias is not None:
        yield _each(bias, grad.sum(2))


def _group_norm(uses: Uses, rows: int) -> Iterator[Part]:
    weight, bias = uses[0].params
    _need_rows(uses[0].by_output, rows)
    grads = [use.by_output.reshape(rows, use.by_output.shape[1], -1) for use in uses]
    if weight is not None:
        sums = []
        for (x, mean, deviation), grad in zip((use.saved for use in uses), grads, strict=True):
            normal = (x.reshape(*mean.shape, -1) - mean[..., None]) * deviation[..., None]
            sums.append((normal.view_as(grad) * grad).sum(2))
        yield _each(weight, _added(sums))
    if bias is not None:
        yield _each(bias, _added([grad.sum(2) for grad in grads]))


def _layer_norm(uses: Uses, rows: int) -> Iterator[Part]:
    weight, bias = uses[0].params
    _need_rows(uses[0].by_output, rows)
    shape = next(each for each in (weight, bias) if each is not None).shape
    if weight is not None:
        normal = [(x - mean) * deviation for x, mean, deviation in (use.saved for use in uses)]
        grads = [each * use.by_output for each, use in zip(normal, uses, strict=True)]
        yield _each(weight, _added([each.reshape(rows, -1, *shape).sum(1) for each in grads]))
    if bias is not None:
        yield _each(bias, _added([use.by_output.reshape(rows, -1, *shape).sum(1) for use in uses]))


def _embedding_saved(node: Any) -> tuple[Tensor, int]:
    if node._saved_scale_grad_by_freq or node._saved_sparse:
        raise UnsupportedError
    return node._saved_indices, node._saved_padding_idx


def _embedding(uses: Uses, rows: int) -> Iterator[Part]:
    (weight,) = uses[0].params
    assert weight is not None
    for use in uses:
        _need_rows(use.saved[0], rows)
    words = _joined([use.saved[0].reshape(rows, -1) for use in uses], 1)
    grad = _joined([use.by_output.reshape(rows, -1, weight.shape[1]) for use in uses], 1)
    yield _words(weight, words, grad, uses[0].saved[1])


def _bag_saved(node: Any) -> tuple[Tensor, int, Tensor]:
    is_plain = node._saved_mode == _SUM and node._saved_per_sample_weights is None
    if not is_plain or node._saved_scale_grad_by_freq or node._saved_sparse:
        raise UnsupportedError
    return node._saved_indices, node._saved_padding_idx, node._saved_offsets


def _bag(uses: Uses, rows: int) -> Iterator[Part]:
    """Yield the part of the vectors of words that are added up: each word of a row has the same gradient."""
    (weight,), (words, padding, offsets) = uses[0].params, uses[0].saved
    if len(uses) > 1 or weight is None:
        raise UnsupportedError
    _need_rows(offsets, rows)
    lengths = torch.diff(offsets, append=offsets.new_tensor([len(words)]))
    if int(lengths.min()) != int(lengths.max()):
        raise UnsupportedError
    words = words.view(rows, -1)
    yield _words(weight, words, uses[0].by_output[:, None].expand(-1, words.shape[1], -1), padding)


def _words(weight: Tensor, words: Tensor, grad: Tensor, padding: int) -> Part:
    """Return the part for vectors of words, [rows, places]; `grad` is by the vector at each place."""
    rows = torch.arange(len(words), device=words.device)[:, None]
    keys, places = (rows * len(weight) + words).flatten().unique(return_inverse=True)
    sums = grad.new_zeros(len(keys), weight.shape[1]).index_add_(0, places, grad.flatten(0, 1))
    row, word = keys // len(weight), keys % len(weight)
    if padding >= 0:
        sums[word == padding] = 0
    norms = grad.new_zeros(len(words)).index_add_(0, row, row_norms(sums).square_()).sqrt_()
    return Part(norms, lambda factors: _target(weight).index_add_(0, word, sums * factors[row, None]))


def _normal_saved(node: Any) -> tuple[Tensor, Tensor, Tensor]:
    return node._saved_input, node._saved_result1, node._saved_result2  # mean and 1 / deviation


@dataclass(frozen=True)
class _Sequences:
    """The run of an LSTM layer."""

    x: Tensor
    lines: Lines
    weight_hh: Tensor
    tape: Tape

    @classmethod
    def saved(cls, node: Any) -> "_Sequences":
        x, _, weight_hh, *tape = node.saved_tensors
        return cls(x, node.lines, weight_hh, Tape(*tape))

    @classmethod
    def saved_by_torch(cls, node: Any) -> "_Sequences":
        """Return the run of torch's layer, which is repeated by ours: torch does not keep the gates."""
        zeros = not (node._saved_hx_.any() or node._saved_cx_.any())
        if not zeros or node._saved_reverse or not node._saved_has_biases or node._saved_batch_sizes:
            raise UnsupportedError
        x, weights = node._saved_input, [getattr(node, f"_saved_weight{number}") for number in range(4)]
        lines, x = Lines((x.shape[1],) * x.shape[0]), x.flatten(0, 1)
        with torch.no_grad():
            return cls(x, lines, weights[1].detach(), run(x, lines, *weights))


def _lstm(uses: Uses, rows: int) -> Iterator[Part]:
    """Yield the parts of an LSTM layer: dense layers of the inputs and of the states before."""
    sequences: _Sequences = uses[0].saved
    lines, grad = sequences.lines, uses[0].by_output.reshape(len(sequences.tape.states), -1)
    if len(uses) > 1 or lines.counts[0] != rows:
        raise UnsupportedError
    grad, before = by_gates(grad, sequences.tape, lines, sequences.weight_hh)
    states = grad.new_zeros(len(grad), sequences.weight_hh.shape[1])
    states[rows:] = sequences.tape.states.index_select(0, before)
    x, states, grad = (_unpacked(each, lines) for each in (lines.read(sequences.x), states, grad))
    by_place, total = grad.transpose(1, 2), grad.sum(1)
    for param, inputs in zip(uses[0].params, (x, states, None, None), strict=True):
        if param is not None:
            yield _each(param, total) if inputs is None else _products(param, inputs, by_place)


def _unpacked(values: Tensor, lines: Lines) -> Tensor:
    """Return the lines of packed sequences as [rows, steps, numbers]; what is beyond the end of a row is 0."""
    sequence = torch.cat([torch.arange(count, device=values.device) for count in lines.counts])
    step = torch.arange(len(lines.counts), device=values.device).repeat_interleave(
        torch.tensor(lines.counts, device=values.device)
    )
    row = sequence if lines.rows is None else lines.rows[sequence]
    whole = values.new_zeros(lines.counts[0], len(lines.counts), values.shape[1])
    whole[row, step] = values
    return whole


_AFFINE = Rule(lambda node: node._saved_mat1, _dense, (2, 0), is_transposed=True)
RULES = {
    "AddmmBackward0": _AFFINE,
    "MmBackward0": Rule(lambda node: node._saved_self, _dense, (1,), is_transposed=True),
    "AddBackward0": Rule(lambda node: node._saved_alpha, _addition, (1,)),
    "ConvolutionBackward0": Rule(_Images.saved, _convolution, (1, 2)),
    "NativeGroupNormBackward0": Rule(_normal_saved, _group_norm, (1, 2)),
    "NativeLayerNormBackward0": Rule(_normal_saved, _layer_norm, (1, 2)),
    "EmbeddingBackward0": Rule(_embedding_saved, _embedding, (0,)),
    "EmbeddingBagBackward0": Rule(_bag_saved, _bag, (0,)),
    "LstmLayerBackward": Rule(_Sequences.saved, _lstm, (1, 2, 3, 4)),
    "MkldnnRnnLayerBackward0": Rule(_Sequences.saved_by_torch, _lstm, (1, 2, 3, 4)),
}
