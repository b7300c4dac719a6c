"""One layer of an LSTM over sequences of several lengths, with a backward pass written by hand.

It computes what `torch.nn.LSTM` computes, faster on one thread of a CPU:

- Sequences are sorted by length, the longest first, and packed: step t has the `counts[t]` sequences that are longer
  than t. So padding costs nothing, and all steps are lines of one matrix.
- The product with the inputs is one product for all steps, and so are the gradients of all weights. Lines with the same
  input, such as the same word, share theirs.
- tanh(x) = 1 - 2 sigmoid(-2x), so one call of the sigmoid computes all gates; it is many times as fast as torch's tanh.
- What the backward pass needs besides the gradients of later steps is computed for all steps together.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

_GATES = 4  # input, forget, cell and output, as torch.nn.LSTM orders them
_CELL = 2  # the gate with tanh


@dataclass(frozen=True)
class Lines:
    """The steps of packed sequences, one line each: first those of step 0, then those of step 1, and so on."""

    counts: tuple[int, ...]  # the sequences of each step; they never grow
    inputs: Tensor | None = None  # [lines], the number of the input that a line reads; None if each has its own
    rows: Tensor | None = None  # [sequences], the number of the row that a sequence is from; None if they are in order

    def before(self, device: torch.device) -> Tensor:
        """Return the line of the step before, for each line after the first step."""
        counts = torch.tensor(self.counts)
        return (torch.arange(self.counts[0], sum(self.counts)) - counts[:-1].repeat_interleave(counts[1:])).to(device)

    def read(self, inputs: Tensor) -> Tensor:
        """Return the input of each line."""
        return inputs if self.inputs is None else inputs.index_select(0, self.inputs)

    def add_up(self, values: Tensor, inputs: int) -> Tensor:
        """Return the sum of the lines' values for each input: what the gradient of `read` does."""
        if self.inputs is None:
            return values
        order, counts = self.inputs.argsort(stable=True), torch.bincount(self.inputs, minlength=inputs)
        return F.embedding_bag(order, values, counts.cumsum(0) - counts, mode="sum")


def lstm_layer(x: Tensor, lines: Lines, weight_ih: Tensor, weight_hh: Tensor, *biases: Tensor) -> Tensor:
    """Return the hidden states of packed sequences, [lines, hidden], after each of their steps; they start at 0.

    `x` are the inputs, and `biases` are added up: torch's layer has two.
    """
    states: Tensor = LstmLayer.apply(x, lines, weight_ih, weight_hh, *biases)  # type: ignore[no-untyped-call]
    return states


def run(x: Tensor, lines: Lines, weight_ih: Tensor, weight_hh: Tensor, *biases: Tensor) -> "Tape":
    """Run a layer without recording a gradient; its states are those of the tape."""
    scale = weight_hh.new_ones(_GATES, weight_hh.shape[1])
    scale[_CELL] = -2.0
    scale = scale.flatten()
    bias = biases[0] + biases[1] if len(biases) > 1 else biases[0]
    gates = lines.read(torch.addmm(bias * scale, x, (weight_ih * scale[:, None]).t()))
    tape = Tape(gates, *(gates.new_empty(len(gates), weight_hh.shape[1]) for _ in range(3)))
    tape.fill_in(lines.counts, (weight_hh * scale[:, None]).t())
    return tape


def by_gates(grad: Tensor, tape: "Tape", lines: Lines, weight_hh: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient by the gates' inputs in each line, [lines, 4 hidden], from that by the states.

    Return also the line of the step before, for each line after the first step.
    """
    before = lines.before(grad.device)
    factors, cell_factors = tape.factors(before)
    _run_back(grad.clone(), factors, cell_factors, tape.forget, lines.counts, weight_hh)
    return factors, before


class LstmLayer(Function):
    """The layer as a node of autograd's graph."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, lines: Lines, weight_ih: Tensor, weight_hh: Tensor, *biases: Tensor) -> Tensor:
        tape = run(x, lines, weight_ih, weight_hh, *biases)
        if any(ctx.needs_input_grad):
            ctx.lines, ctx.biases = lines, len(biases)
            ctx.save_for_backward(x, weight_ih, weight_hh, tape.gates, tape.cells, tape.squashed, tape.states)
        return tape.states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight_ih, weight_hh, *saved = ctx.saved_tensors
        lines, tape = ctx.lines, Tape(*saved)
        factors, before = by_gates(grad, tape, lines, weight_hh)
        by_input, later = lines.add_up(factors, len(x)), factors[lines.counts[0] :]
        by_x = by_input @ weight_ih if ctx.needs_input_grad[0] else None
        by_weights = by_input.t() @ x, later.t() @ tape.states.index_select(0, before)
        return by_x, None, *by_weights, *[by_input.sum(0)] * ctx.biases


@dataclass(frozen=True)
class Tape:
    """What the forward pass computes for each line, and the backward pass needs."""

    gates: Tensor  # sigmoids of the gates' inputs; the gate with tanh is 1 - 2 times that
    cells: Tensor
    squashed: Tensor  # sigmoid(-2 cell)
    states: Tensor

    @property
    def forget(self) -> Tensor:
        return self.gates.chunk(_GATES, 1)[1]

    def fill_in(self, counts: tuple[int, ...], weight: Tensor) -> None:
        """Compute all steps; before, `gates` has the part of the inputs."""
        # Views of all steps at once: one by one, they would take as long as the arithmetic.
        parts = (self.gates, *self.gates.chunk(_GATES, 1), self.cells, self.squashed, self.states)
        steps = zip(counts, *(part.split(counts) for part in parts), strict=True)
        cell, state = self.cells.new_zeros(counts[0], self.cells.shape[1]), None
        for count, gate, enter, forget, reverse, leave, new_cell, squash, new_state in steps:
            if state is not None:
                cell, state = (cell, state) if count == len(cell) else (cell[:count], state[:count])
                gate.addmm_(state, weight)
            gate.sigmoid_()
            torch.addcmul(enter, enter, reverse, value=-2, out=new_cell)
            new_cell.addcmul_(forget, cell)
            torch.mul(new_cell, -2, out=squash).sigmoid_()
            torch.addcmul(leave, leave, squash, value=-2, out=new_state)
            cell, state = new_cell, new_state

    def factors(self, before: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives by the gates' inputs: of the cell by three of them, and of the state by the last.

        The second result is the derivative of the state by the cell. The inputs of the gates are those of
        `torch.nn.LSTM`, without the factor -2.
        """
        gates, squashed, first = self.gates, self.squashed, len(self.gates) - len(before)
        factors = torch.addcmul(gates, gates, gates, value=-1)  # the sigmoid s has the derivative s - s²
        enter, _, reverse, leave = gates.chunk(_GATES, 1)
        by_enter, by_forget, by_cell, by_leave = factors.chunk(_GATES, 1)
        by_enter.mul_(1 - 2 * reverse)
        by_forget[first:].mul_(self.cells.index_select(0, before))
        by_forget[:first].zero_()
        by_cell.mul_(enter).mul_(4)  # 1 - tanh² = 4 (s - s²)
        by_leave.mul_(1 - 2 * squashed)
        return factors, torch.addcmul(squashed, squashed, squashed, value=-1).mul_(leave).mul_(4)


def _run_back(
    grad: Tensor, factors: Tensor, cell_factors: Tensor, forget: Tensor, counts: tuple[int, ...], weight: Tensor
) -> None:
    """Turn `factors` into the gradients by the gates' inputs; `grad` is that by the states, and is overwritten."""
    by_gate = factors.unflatten(1, (_GATES, -1))
    parts = (grad, factors, by_gate[:, :3], by_gate[:, 3], cell_factors, forget)
    steps = zip(counts[::-1], *(part.split(counts)[::-1] for part in parts), strict=True)
    by_cell = grad.new_zeros(counts[0], grad.shape[1])
    active, cell, wide, later = 0, by_cell, by_cell, None
    for count, by_state, factor, three, leave, cell_factor, kept in steps:
        if later is not None:
            (by_state if count == active else by_state[:active]).addmm_(later, weight)
        if count != active:
            active, cell, wide = count, by_cell[:count], by_cell[:count, None]
        cell.addcmul_(by_state, cell_factor)
        three.mul_(wide)
        leave.mul_(by_state)
        cell.mul_(kept)
        later = factor
