"""One layer of an LSTM over sequences of several lengths, with a backward pass written by hand.

It computes what `torch.nn.LSTM` computes, several times as fast on one thread of a CPU:

- Sequences are sorted by length, the longest first, and packed: step t is a slab of the `counts[t]` sequences that are
  longer than t. So padding costs nothing, and all steps are lines of one matrix.
- The product with the inputs is one product for all steps, and so are the gradients of all weights.
- tanh(x) = 1 - 2 σ(-2x), so one call of the sigmoid, which is many times as fast as torch's tanh, computes all gates.
- What the backward pass needs besides the gradients of later steps is computed for all steps together.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_GATES = 4  # input, forget, cell and output, as torch.nn.LSTM orders them
_CELL = 2  # the gate with tanh


def lstm_layer(x: Tensor, counts: Sequence[int], weight_ih: Tensor, weight_hh: Tensor, bias: Tensor) -> Tensor:
    """Return the hidden states of packed sequences, [lines, hidden]; they start at 0.

    `x` has one line per step and sequence, [lines, inputs]: first `counts[0]` lines of step 0, then `counts[1]` of step
    1, and so on; `counts` never grows. `bias` is the sum of the two biases of torch's layer.
    """
    states: Tensor = _Layer.apply(x, tuple(counts), weight_ih, weight_hh, bias)  # type: ignore[no-untyped-call]
    return states


class _Layer(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, counts: tuple[int, ...], weight_ih: Tensor, weight_hh: Tensor, bias: Tensor
    ) -> Tensor:
        scale = _cell_scale(weight_hh)
        gates = torch.addmm(bias * scale, x, (weight_ih * scale[:, None]).t())
        cells, squashed, states = (x.new_empty(len(x), weight_hh.shape[1]) for _ in range(3))
        _run(gates, cells, squashed, states, counts, (weight_hh * scale[:, None]).t())
        if any(ctx.needs_input_grad):
            ctx.counts = counts
            ctx.save_for_backward(x, weight_ih, weight_hh, gates, cells, squashed, states)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        x, weight_ih, weight_hh, gates, cells, squashed, states = ctx.saved_tensors
        before = _before(ctx.counts, x.device)
        forget = gates.unflatten(1, (_GATES, -1))[:, 1].contiguous()
        factors, cell_factors = _factors(gates, cells, squashed, before, ctx.counts[0])
        _run_back(grad.clone(), factors, cell_factors, forget, ctx.counts, weight_hh)
        by_inputs = factors @ weight_ih if ctx.needs_input_grad[0] else None
        later = factors[ctx.counts[0] :]
        return by_inputs, None, factors.t() @ x, later.t() @ states[before], factors.sum(0)


def _cell_scale(weight_hh: Tensor) -> Tensor:
    """Return a factor per line of the weights: -2 for the gate with tanh, because tanh(x) = 1 - 2 σ(-2x)."""
    scale = weight_hh.new_ones(_GATES, weight_hh.shape[1])
    scale[_CELL] = -2.0
    return scale.flatten()


def _run(
    gates: Tensor, cells: Tensor, squashed: Tensor, states: Tensor, counts: tuple[int, ...], weight: Tensor
) -> None:
    """Fill in all steps: `gates` has the inputs' part before and σ after, `squashed` gets σ(-2 cell)."""
    slabs = zip(*(tensor.split(counts) for tensor in (gates, cells, squashed, states)), strict=True)
    cell, state = cells.new_zeros(counts[0], cells.shape[1]), None
    for count, (gate, new_cell, squash, new_state) in zip(counts, slabs, strict=True):
        if state is not None:
            gate.addmm_(state[:count], weight)
        gate.sigmoid_()
        enter, forget, reverse, leave = gate.chunk(_GATES, 1)
        torch.addcmul(enter, enter, reverse, value=-2, out=new_cell)  # the cell's gate is 1 - 2 reverse
        new_cell.addcmul_(forget, cell[:count])
        torch.mul(new_cell, -2, out=squash).sigmoid_()
        torch.addcmul(leave, leave, squash, value=-2, out=new_state)
        cell, state = new_cell, new_state


def _before(counts: tuple[int, ...], device: torch.device) -> Tensor:
    """Return the line of the step before, for each line after the first step."""
    starts = accumulate(counts, initial=0)
    steps = [torch.arange(start, start + count) for start, count in zip(starts, counts[1:], strict=False)]
    return torch.cat([*steps, torch.zeros(0, dtype=torch.int64)]).to(device)


def _factors(gates: Tensor, cells: Tensor, squashed: Tensor, before: Tensor, first: int) -> tuple[Tensor, Tensor]:
    """Return the derivative of the cell by the first three gates' inputs, and of the state by the fourth's and the cell.

    They belong to inputs as `torch.nn.LSTM` has them, before the scale of the cell's gate.
    """
    factors = torch.addcmul(gates, gates, gates, value=-1)  # σ' = σ - σ²
    enter, forget, reverse, leave = gates.chunk(_GATES, 1)
    by_enter, by_forget, by_cell, by_leave = factors.chunk(_GATES, 1)
    by_enter.mul_(1 - 2 * reverse)
    by_forget[first:].mul_(cells[before])
    by_forget[:first].zero_()
    by_cell.mul_(enter).mul_(4)  # 1 - tanh² = 4 σ'
    by_leave.mul_(1 - 2 * squashed)
    return factors, torch.addcmul(squashed, squashed, squashed, value=-1).mul_(leave).mul_(4)


def _run_back(
    grad: Tensor, factors: Tensor, cell_factors: Tensor, forget: Tensor, counts: tuple[int, ...], weight: Tensor
) -> None:
    """Turn `factors` into the gradients by the gates' inputs; `grad` is that by the states, and is overwritten."""
    by_cell = grad.new_zeros(counts[0], grad.shape[1])
    slabs = [tensor.split(counts) for tensor in (grad, factors, cell_factors, forget)]
    later = None
    for count, by_state, factor, cell_factor, kept in zip(counts[::-1], *(slab[::-1] for slab in slabs), strict=True):
        if later is not None:
            by_state[: len(later)].addmm_(later, weight)
        active = by_cell[:count]
        active.addcmul_(by_state, cell_factor)
        three = factor.unflatten(1, (_GATES, -1))
        three[:, :3].mul_(active[:, None])
        three[:, 3].mul_(by_state)
        active.mul_(kept)
        later = factor
