"""A party's columns from the activations that it sends: a small decoder, trained by the label holder."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from silobench.loop.loop import one_thread
from silobench.models.devices import seed_torch
from silobench.spec.ranges import Count, CountOrZero
from silobench.vertical.leaks.measure import VERTICAL_MEASURES, Facts, LeakMeasure, largest
from silobench.vertical.leaks.view import CutView

_HIDDEN = 64
_LR = 0.01
_DECAY = 1e-4
_LOOK = 10  # steps between two looks at the rows that choose when to stop
_CHOOSING = 0.2  # the share of these rows among the attacker's
_FEWEST = 10  # rows of each half that differ from the most common value of a column, so that it can be scored


@VERTICAL_MEASURES.register
def reconstruction(rows: Count = 2000, every: CountOrZero = 0, steps: Count = 300, columns: Count = 100) -> LeakMeasure:
    """How well the label holder reconstructs the columns of a party from its activations, by R² on other rows.

    The attacker knows the party's columns for half of the rows. There it trains a decoder, a network with two hidden
    layers of 64 units, by up to `steps` steps of Adam; a fifth of its rows choose the step. The other half is attacked.
    `r2` is the mean over columns, and may be below 0. `null` is that of a decoder for shuffled activations. `binary`
    compares columns of two values: rows guessed right, against the more frequent value. At most `columns` columns are
    used, drawn at random; those with fewer than 10 rows off their most common value in either half are left out.
    """

    def measure(view: CutView, rng: np.random.Generator) -> Facts:
        view = view.sample(rows, rng)
        parties = {
            party: _facts(view.inputs[party], view.activations[party], steps, columns, rng)
            for party in view.activations
        }
        return {"rows": len(view), "parties": parties, "largest": largest(parties, "r2")}

    return LeakMeasure(measure, every, rows)


def _facts(x: Tensor, h: Tensor, steps: int, columns: int, rng: np.random.Generator) -> Facts:
    x, h = x.detach().float(), h.detach().float()
    order = torch.from_numpy(rng.permutation(len(x)))
    known, attacked = order[: len(order) // 2], order[len(order) // 2 :]
    chosen = _columns(x, known, attacked, columns, rng)
    seed, left_out = int(rng.integers(2**62)), x.shape[1] - len(chosen)
    shuffled = h[torch.from_numpy(rng.permutation(len(h)))]
    if not len(chosen) or not bool(torch.isfinite(h).all()):
        return {"r2": None, "null": None, "columns": {}, "left_out": left_out, "binary": None}
    halves = Halves(x[known][:, chosen], x[attacked][:, chosen])
    guess = decode(h[known], halves.known, h[attacked], steps, seed)
    null = decode(shuffled[known], halves.known, shuffled[attacked], steps, seed)
    scores = r_squared(guess, halves.attacked)
    return {
        "r2": float(scores.mean()),
        "null": float(r_squared(null, halves.attacked).mean()),
        "columns": {str(int(column)): round(float(score), 4) for column, score in zip(chosen, scores, strict=True)},
        "left_out": left_out,
        "binary": _binary(halves, guess, null),
    }


@dataclass(frozen=True)
class Halves:
    """The columns of a party for the rows that the attacker knows, and for those that it attacks."""

    known: Tensor
    attacked: Tensor


def _columns(x: Tensor, known: Tensor, attacked: Tensor, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the columns to reconstruct: those that vary in both halves, at most `most` of them."""

    def varies(rows: Tensor) -> NDArray[np.bool_]:
        part = x[rows]
        common = part.mode(0).values if len(part) else x.new_zeros(x.shape[1])
        return np.asarray(((part != common).sum(0) >= _FEWEST).numpy(), np.bool_)

    candidates = np.flatnonzero(varies(known) & varies(attacked))
    if len(candidates) > most:
        candidates = np.sort(rng.choice(candidates, most, replace=False))
    return candidates


def decode(h: Tensor, x: Tensor, attacked: Tensor, steps: int, seed: int) -> Tensor:
    """Train a decoder from activations `h` to columns `x`, and return its guess for other activations.

    Both are standardised. A fifth of the rows choose the step to stop at; the first is a guess of the mean.
    """
    (centre, scale), (mean, spread) = _standard(h), _standard(x)
    inputs, targets = (h - centre) / scale, (x - mean) / spread
    choosing = max(1, int(_CHOOSING * len(h)))
    with one_thread(), torch.random.fork_rng(devices=[]), torch.enable_grad():
        seed_torch(seed)
        decoder = _decoder(h.shape[1], x.shape[1])
        best = _fit(decoder, inputs[choosing:], targets[choosing:], inputs[:choosing], targets[:choosing], steps)
        decoder.load_state_dict(best)
        with torch.no_grad():
            guess: Tensor = decoder((attacked - centre) / scale) * spread + mean
    return guess


def _standard(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the standard deviation of each column; 1 for a constant column."""
    spread = values.std(0, correction=0)
    return values.mean(0), torch.where(spread > 0, spread, torch.ones_like(spread))


def _decoder(width: int, columns: int) -> nn.Sequential:
    last = nn.Linear(_HIDDEN, columns)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(nn.Linear(width, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, _HIDDEN), nn.ReLU(), last)


def _fit(
    decoder: nn.Sequential, h: Tensor, x: Tensor, h_choosing: Tensor, x_choosing: Tensor, steps: int
) -> dict[str, Tensor]:
    """Train a decoder on all rows at once, and return its weights when the error on the choosing rows was smallest."""
    adam = torch.optim.AdamW(decoder.parameters(), lr=_LR, weight_decay=_DECAY)
    smallest, best = float("inf"), {name: value.clone() for name, value in decoder.state_dict().items()}
    for step in range(steps + 1):
        if step % _LOOK == 0 or step == steps:
            with torch.no_grad():
                error = float(nn.functional.mse_loss(decoder(h_choosing), x_choosing))
            if error < smallest:
                smallest, best = error, {name: value.clone() for name, value in decoder.state_dict().items()}
        adam.zero_grad()
        nn.functional.mse_loss(decoder(h), x).backward()
        adam.step()
    return best


def r_squared(guess: Tensor, x: Tensor) -> Tensor:
    """Return R² of each column.

    >>> r_squared(torch.tensor([[0.0], [1.0], [1.0]]), torch.tensor([[0.0], [1.0], [2.0]]))
    tensor([0.5000], dtype=torch.float64)
    """
    guess, x = guess.double(), x.double()
    return 1 - (guess - x).square().sum(0) / (x - x.mean(0)).square().sum(0)


def _binary(halves: Halves, guess: Tensor, null: Tensor) -> Facts | None:
    """Return the share of right guesses in columns of two values, and that of the more frequent value; None if none."""
    both = torch.cat([halves.known, halves.attacked])
    low, high = both.min(0).values, both.max(0).values
    is_binary = ((both == low) | (both == high)).all(0)
    if not bool(is_binary.any()):
        return None
    middle = (low + high) / 2
    truth = halves.attacked > middle
    frequent = ((halves.known > middle).double().mean(0) > 0.5).expand_as(truth)

    def right(answers: Tensor) -> float:
        return float((answers == truth)[:, is_binary].double().mean())

    shares = {"accuracy": right(guess > middle), "null": right(null > middle), "majority": right(frequent)}
    return {"columns": int(is_binary.sum()), **shares}
