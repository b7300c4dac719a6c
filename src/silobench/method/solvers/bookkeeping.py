"""The sum of clipped gradients of single rows, from one backward pass and some book-keeping.

The gradient of a layer's weights for one row follows from the layer's input and the gradient by its output, so one
backward pass down to the outputs of all layers is enough. Norms come first; then one product, with each row scaled,
gives the sum of the clipped gradients. Differentially Private Optimization on Large Model at Small Cost, Bu et al.,
ICML 2023.

Layers are read from the graph that autograd records, so it does not matter how a network is written, and no use of a
parameter is missed: one of an unknown kind raises `UnsupportedError`. The kinds of layers are in `layer_rules`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from silobench.method.solvers.layer_rules import RULES, UnsupportedError, Use, Uses, parts_of

_PARAMETER = "torch::autograd::AccumulateGrad"  # name of the node of a parameter
_TRANSPOSED = "TBackward0"


def add_clipped(loss: Tensor, rows: int, clip: float, keep_graph: bool = False) -> None:
    """Add the sum of the clipped gradients of single rows to the gradients of the parameters.

    `loss` is the mean of the losses of `rows` rows, each of which depends on its own row only.
    """
    uses = _uses_in(loss)
    grads = torch.autograd.grad(loss, [GradientEdge(use.node, 0) for use in uses], retain_graph=keep_graph)
    with torch.no_grad():
        parts = list(parts_of(_layers(uses, grads), rows))
        norms = parts[0].norms
        if len(parts) > 1:
            norms = torch.linalg.vector_norm(torch.stack([part.norms for part in parts]), dim=0)
        # The loss is a mean of n rows, so these are the gradients of single rows / n: n · min(1, clip / (n · norm))
        factors = norms.reciprocal_().mul_(clip).clamp_(max=rows)
        for part in parts:
            part.add(factors)


def _uses_in(loss: Tensor) -> list[Use]:
    """Return all uses of parameters in the graph of a loss."""
    uses, seen, waiting = [], set(), [loss.grad_fn]
    while waiting:
        node: Any = waiting.pop()
        name, inputs = node.name(), list(node.next_functions)
        if name == _PARAMETER:
            raise UnsupportedError
        if (rule := RULES.get(name)) is not None:
            params = tuple(
                [_taken(inputs, place, rule.is_transposed and not number) for number, place in enumerate(rule.places)]
            )
            if any(each is not None for each in params):
                uses.append(Use(rule, node, params, rule.saved(node)))
        for each, output in inputs:
            if output and each.name() in RULES:
                raise UnsupportedError  # rules are for the first output of a node
            if each is not None and each not in seen:
                seen.add(each)
                waiting.append(each)
    return uses


def _taken(inputs: list[tuple[Any, int]], place: int, is_transposed: bool) -> Tensor | None:
    """Return the parameter at a place and remove it from the inputs of a node; None if another tensor is there."""
    node = inputs[place][0]
    if node is None:
        return None
    if is_transposed:
        if node.name() != _TRANSPOSED:
            return None
        node = node.next_functions[0][0]
    if node.name() != _PARAMETER:
        return None
    inputs[place] = None, 0
    return node.variable  # type: ignore[no-any-return]  # torch has no types here


def _layers(uses: Uses, grads: Sequence[Tensor]) -> list[list[Use]]:
    """Return the uses of each layer."""
    layers: dict[tuple[int, ...], list[Use]] = {}
    for use, grad in zip(uses, grads, strict=True):
        use.grad = grad
        layers.setdefault(tuple(map(id, use.params)), []).append(use)
    params = [each for key in layers for each in key if each != id(None)]
    mixed = len(layers) < len(uses) and any(len({id(use.rule) for use in layer}) > 1 for layer in layers.values())
    if mixed or len(set(params)) < len(params):
        raise UnsupportedError  # two different layers share a parameter
    return list(layers.values())
