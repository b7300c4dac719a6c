"""The sum of clipped gradients of single rows, from one backward pass and some book-keeping.

The gradient of a layer's weights for one row follows from the layer's input and the gradient by its output, so one
backward pass down to the outputs of all layers is enough. Norms come first; then one product, with each row scaled,
gives the sum of the clipped gradients. Differentially Private Optimization on Large Model at Small Cost, Bu et al.,
ICML 2023.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.overrides import TorchFunctionMode

_NUMBERS = 1 << 25  # of gradients of single rows in memory at a time, for one layer
_TRAFFIC = 8  # a number that is written and read takes as long as this many operations

Loss: TypeAlias = Callable[[nn.Module, Tensor, Tensor], Tensor]  # (module, x, y) -> mean loss over rows


class UnsupportedError(Exception):
    """A network uses a parameter in a way that book-keeping does not know."""


def book_keeping(
    module: nn.Module, loss: Loss, x: Tensor, y: Tensor, scales: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Write the scaled sum of the gradients of single rows to the gradients of a module.

    `scales` returns the factor of each row from the norms of the gradients. Return these norms, and the mean loss.
    """
    recorder = _Recorder([each for each in module.parameters() if each.requires_grad], len(x))
    with recorder:
        mean = loss(module, x, y)
    recorder.need_all()
    edges = [call.edge for call in recorder.calls]
    grads = torch.autograd.grad(mean, edges, allow_unused=True, materialize_grads=False)
    with torch.no_grad():
        parts = [part for uses in _layers(recorder.calls, grads) for part in uses[0][0].rule(uses)]
        norms = torch.stack([part.squares for part in parts]).sum(0).sqrt_().mul_(len(x))  # the loss is a mean
        factors = scales(norms).mul_(len(x))
        for part in parts:
            part.write(factors)
    return norms, mean.detach()


@dataclass(frozen=True)
class _Part:
    """Some parameters: the squared norm of the gradient of each row, and a function that writes their scaled sum."""

    squares: Tensor
    write: Callable[[Tensor], None]


@dataclass(frozen=True)
class _Call:
    """One use of a layer in a forward pass."""

    rule: Callable[["_Uses"], Iterator[_Part]]
    weight: nn.Parameter | None  # None if it is not trained
    bias: nn.Parameter | None
    input: Tensor
    options: tuple[Any, ...]
    edge: GradientEdge  # of the output; later operations in place do not change it


_Uses: TypeAlias = Sequence[tuple[_Call, Tensor]]  # the calls of one layer, each with the gradient by its output


class _Recorder(TorchFunctionMode):
    """Records the inputs and outputs of layers while a network runs.

    It sees every function of torch, so it does not matter how a network is written, and a parameter cannot be used in
    an unknown way without notice.
    """

    def __init__(self, params: Sequence[nn.Parameter], rows: int):
        super().__init__()
        self.calls: list[_Call] = []
        self._unseen = {id(each) for each in params}
        self._params, self._rows = frozenset(self._unseen), rows

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        output = function(*args, **kwargs)
        reader = _READERS.get(function)
        if reader is not None:
            self._record(*reader(*args, **kwargs), output)
        elif isinstance(output, Tensor | tuple | list) and self._has_param((*args, *kwargs.values())):
            raise UnsupportedError
        return output

    def _record(self, rule: Any, weight: Any, bias: Any, x: Tensor, options: tuple[Any, ...], output: Tensor) -> None:
        weight, bias = (each if id(each) in self._params else None for each in (weight, bias))
        if weight is None and bias is None:
            return
        if self._has_param(options) or len(x) != self._rows or len(output) != self._rows:
            raise UnsupportedError
        self._unseen -= {id(weight), id(bias)}
        self.calls.append(_Call(rule, weight, bias, x.detach(), options, get_gradient_edge(output)))

    def _has_param(self, values: Sequence[Any]) -> bool:
        return any(
            self._has_param(value) if isinstance(value, tuple | list) else id(value) in self._params for value in values
        )

    def need_all(self) -> None:
        """Raise `UnsupportedError` if a parameter was not seen: code that is not torch's may use it."""
        if self._unseen:
            raise UnsupportedError


def _layers(calls: Sequence[_Call], grads: Sequence[Tensor | None]) -> Iterator[_Uses]:
    """Yield the calls of each layer; a layer that does not affect the loss has none."""
    layers: dict[tuple[int, int], list[tuple[_Call, Tensor]]] = {}
    for call, grad in zip(calls, grads, strict=True):
        layers.setdefault((id(call.weight), id(call.bias)), []).append((call, grad))
    params = [id(each) for uses in layers.values() for each in (uses[0][0].weight, uses[0][0].bias) if each is not None]
    if len(set(params)) < len(params):
        raise UnsupportedError  # two layers share only the weight or the bias
    for uses in layers.values():
        if len({(call.rule, call.options) for call, _ in uses}) > 1:
            raise UnsupportedError
        if present := [(call, grad) for call, grad in uses if grad is not None]:
            yield present
        else:
            for each in (uses[0][0].weight, uses[0][0].bias):
                if each is not None and each.grad is not None:
                    each.grad.zero_()


# --- parts, from whatever describes the gradient of each row ------------------------------------------


def _flat(param: nn.Parameter) -> Tensor:
    assert param.grad is not None  # a view of the gradient of the whole network
    return param.grad.view(-1)


def _each(param: nn.Parameter, grads: Tensor) -> _Part:
    """Return the part for gradients of single rows, [rows, ...]."""
    grads = grads.flatten(1)
    return _Part(_squares(grads), lambda factors: torch.mv(grads.t(), factors, out=_flat(param)))


def _squares(values: Tensor) -> Tensor:
    return torch.linalg.vector_norm(values, dim=1).square_()


def _outer(weight: nn.Parameter | None, bias: nn.Parameter | None, x: Tensor, grad: Tensor) -> _Part:
    """Return the part for gradients that are products of an input, [rows, d], and a gradient by the output."""
    squares = _squares(x) if weight is not None else x.new_zeros(len(x))
    squares = (squares + 1 if bias is not None else squares) * _squares(grad)

    def write(factors: Tensor) -> None:
        if weight is not None:
            torch.mm((grad * factors[:, None]).t(), x, out=weight.grad)
        if bias is not None:
            torch.mv(grad.t(), factors, out=bias.grad)

    return _Part(squares, write)


def _products(weight: nn.Parameter, x: Tensor, grad: Tensor, groups: int = 1) -> _Part:
    """Return the part for gradients that are sums of products: ``grad @ x`` for each row and group.

    `x` has the shape [rows · groups, places, d], and `grad` the shape [rows · groups, k, places].
    """
    rows, places, inputs, outputs = len(x) // groups, x.shape[1], x.shape[2], grad.shape[1]
    size, both = inputs * outputs, inputs + outputs
    if _TRAFFIC * size <= places**2 * both and rows * groups * size <= _NUMBERS:
        return _each(weight, torch.bmm(grad, x).view(rows, -1))
    # Few places: products of places are fewer numbers. Double precision, because their sum may cancel.
    x64, grad64 = x.double(), grad.double()
    pairs = torch.bmm(x64, x64.transpose(1, 2)).mul_(torch.bmm(grad64.transpose(1, 2), grad64))
    squares = pairs.view(rows, -1).sum(1).clamp_(min=0).to(x.dtype)

    def write(factors: Tensor) -> None:
        scaled = grad.unflatten(0, (rows, groups)) * factors[:, None, None, None]
        left = scaled.permute(1, 2, 0, 3).reshape(groups, outputs, rows * places)
        right = x.unflatten(0, (rows, groups)).transpose(0, 1).reshape(groups, rows * places, inputs)
        torch.bmm(left, right, out=_flat(weight).view(groups, outputs, inputs))

    return _Part(squares, write)


# --- layers: a reader of the arguments of a function, and the rule for all its calls -------------------


def _read_linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Any, ...]:
    return _linear, weight, bias, input, ()


def _linear(uses: _Uses) -> Iterator[_Part]:
    call, grad = uses[0]
    if len(uses) == 1 and call.input.dim() == 2:
        yield _outer(call.weight, call.bias, call.input, grad)
        return
    x = torch.cat([_places(each.input) for each, _ in uses], 1)
    grad = torch.cat([_places(each) for _, each in uses], 1)
    if call.weight is not None:
        yield _products(call.weight, x, grad.transpose(1, 2))
    if call.bias is not None:
        yield _each(call.bias, grad.sum(1))


def _places(values: Tensor) -> Tensor:
    """Return values [rows, ..., d] as [rows, places, d]."""
    return values.reshape(len(values), -1, values.shape[-1])


def _read_conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> tuple[Any, ...]:
    if isinstance(padding, str) or input.dim() != 4:
        raise UnsupportedError
    pairs = (((each, each) if isinstance(each, int) else tuple(each)) for each in (stride, padding, dilation))
    return _conv2d, weight, bias, input, (tuple(weight.shape[2:]), *pairs, groups)


def _conv2d(uses: _Uses) -> Iterator[_Part]:
    call = uses[0][0]
    kernel, stride, padding, dilation, groups = call.options
    grad = torch.cat([each.flatten(2) for _, each in uses], 2) if len(uses) > 1 else uses[0][1].flatten(2)
    if call.weight is not None:
        windows = [F.unfold(each.input, kernel, dilation, padding, stride) for each, _ in uses]
        x = torch.cat(windows, 2) if len(uses) > 1 else windows[0]
        x, by_group = (each.unflatten(1, (groups, -1)).flatten(0, 1) for each in (x, grad))
        yield _products(call.weight, x.transpose(1, 2), by_group, groups)
    if call.bias is not None:
        yield _each(call.bias, grad.sum(2))


def _read_group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> tuple[Any, ...]:
    return _group_norm, weight, bias, input, (num_groups, eps)


def _group_norm(uses: _Uses) -> Iterator[_Part]:
    call = uses[0][0]
    groups, eps = call.options
    sizes = [each.flatten(2) if each.dim() > 2 else each.unsqueeze(2) for _, each in uses]
    if call.weight is not None:
        normal = [F.group_norm(each.input, groups, eps=eps) for each, _ in uses]
        yield _each(call.weight, sum((n.view_as(g) * g).sum(2) for n, g in zip(normal, sizes, strict=True)))
    if call.bias is not None:
        yield _each(call.bias, sum(each.sum(2) for each in sizes))


def _read_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Any, ...]:
    return _layer_norm, weight, bias, input, (tuple(normalized_shape), eps)


def _layer_norm(uses: _Uses) -> Iterator[_Part]:
    call = uses[0][0]
    shape, eps = call.options

    def summed(values: Tensor) -> Tensor:
        return values.reshape(len(values), -1, *shape).sum(1)

    if call.weight is not None:
        yield _each(call.weight, sum(summed(F.layer_norm(each.input, shape, eps=eps) * grad) for each, grad in uses))
    if call.bias is not None:
        yield _each(call.bias, sum(summed(grad) for _, grad in uses))


def _read_embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> tuple[Any, ...]:
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise UnsupportedError
    return _embedding, weight, None, input, (padding_idx,)


def _embedding(uses: _Uses) -> Iterator[_Part]:
    words = torch.cat([call.input.reshape(len(call.input), -1) for call, _ in uses], 1)
    grad = torch.cat([_places(grad) for _, grad in uses], 1)
    yield _words(uses[0][0], words, grad.flatten(0, 1))


def _read_embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, ...]:
    plain = input.dim() == 2 and max_norm is None and per_sample_weights is None
    if not plain or mode != "sum" or scale_grad_by_freq or sparse:
        raise UnsupportedError
    return _embedding_bag, weight, None, input, (padding_idx,)


def _embedding_bag(uses: _Uses) -> Iterator[_Part]:
    words = torch.cat([call.input for call, _ in uses], 1)
    grad = torch.cat([grad[:, None].expand(-1, call.input.shape[1], -1) for call, grad in uses], 1)
    yield _words(uses[0][0], words, grad.flatten(0, 1))


def _words(call: _Call, words: Tensor, grad: Tensor) -> _Part:
    """Return the part for vectors of words; `grad` is by the vector of each word, [rows · places, d]."""
    weight, (padding,) = call.weight, call.options
    assert weight is not None
    rows = torch.arange(len(words), device=words.device)[:, None]
    keys, places = (rows * len(weight) + words).flatten().unique(return_inverse=True)
    sums = grad.new_zeros(len(keys), grad.shape[1]).index_add_(0, places, grad)
    row, word = keys // len(weight), keys % len(weight)
    if padding is not None:
        sums[word == padding % len(weight)] = 0
    squares = grad.new_zeros(len(words)).index_add_(0, row, _squares(sums))

    def write(factors: Tensor) -> None:
        assert weight.grad is not None
        weight.grad.zero_().index_add_(0, word, sums * factors[row, None])

    return _Part(squares, write)


_READERS: dict[Any, Callable[..., tuple[Any, ...]]] = {
    F.linear: _read_linear,
    F.conv2d: _read_conv2d,
    F.group_norm: _read_group_norm,
    F.layer_norm: _read_layer_norm,
    F.embedding: _read_embedding,
    F.embedding_bag: _read_embedding_bag,
}
