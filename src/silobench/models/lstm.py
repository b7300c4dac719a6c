"""An LSTM over word vectors that are not trained, which OARF (Hu et al., TIST 2022) uses for sentiment."""

import re
from dataclasses import replace
from typing import Annotated, Any, TypeAlias

import torch
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from torch import Tensor, nn

from silobench.data.word_vectors import coverage, vectors_names, word_vectors
from silobench.errors import ConfigError
from silobench.models.layers import dropout
from silobench.models.lstm_layer import Lines, lstm_layer
from silobench.models.model import Model, Sizes
from silobench.models.network import Classifier
from silobench.models.registry import MODELS
from silobench.rng import torch_seed
from silobench.spec.ranges import BelowOne, Count

_RANDOM = re.compile(r"random-([1-9]\d{0,3})d")
_PADDING = 0  # the word number of padding, at the end of a row
_COVERED = 0.9  # the share of words with a vector below which a note says so
_TEST_ROWS = 128  # that a test computes at a time
_FULL, _SMALL = 0.75, 128  # with more words in a batch, and states of at most this size, torch's layers are faster


def _need_name(value: Any) -> str:
    if isinstance(value, str):
        return value
    names = ", ".join(vectors_names())
    raise PydanticCustomError("vectors", f"{names}, or random-50d for random vectors")


VectorsName: TypeAlias = Annotated[str, BeforeValidator(_need_name)]


@MODELS.register
def lstm(
    hidden: Count = 64,
    layers: Count = 2,
    dropout: BelowOne = 0.5,
    vectors: VectorsName = "glove-50d",
    last_dropout: BelowOne = 0.3,
) -> Model:
    """OARF's network for texts: frozen word vectors - LSTM - the state after the last word - dropout - classes.

    `vectors` names word vectors of the catalogue, or is random-50d for random ones of 50 numbers (or another count).
    They are a constant of the network: not trained, not sent and not stored. `dropout` is between the layers and
    `last_dropout` before the linear layer. There are 723,602 parameters with a hidden size of 200, two layers, vectors
    of 300 numbers and two classes.

    Departures from OARF's public code: the initial states are 0 instead of random, and the answer is read after the
    last word instead of after the padding, which is skipped. A row without words is one step of padding.
    """
    return Model(
        lambda sizes: _Lstm(sizes, hidden, layers, dropout, vectors, last_dropout),
        reads_words=True,
        needs_words=not _RANDOM.fullmatch(vectors),
    )


def vectors_of(name: str, sizes: Sizes) -> Tensor:
    """Return the vector of each word of a vocabulary, [words, numbers]."""
    if match := _RANDOM.fullmatch(name):
        # The same numbers in every run, as those of a file are.
        generator = torch.Generator().manual_seed(torch_seed(0, "word vectors"))
        return torch.randn(sizes.vocabulary, int(match[1]), generator=generator)
    if not sizes.words:
        raise ConfigError(
            f"the model lstm needs the words of the dataset to look up their vectors in {name}, but the sizes have "
            "none: give sb.Sizes(..., words=dataset.vocabulary), or use vectors=random-50d."
        )
    return torch.from_numpy(word_vectors(name, sizes.words))


def _notes(name: str, sizes: Sizes) -> tuple[str, ...]:
    """Return a note if many words of a vocabulary have no vector of their own."""
    if _RANDOM.fullmatch(name) or not sizes.words:
        return ()
    known, count = coverage(name, sizes.words)
    if known >= _COVERED * count:
        return ()
    return (f"{known:,} of {count:,} words of the vocabulary have a vector of {name}; the others get the mean vector",)


class _Lstm(Classifier):
    vectors: Tensor

    def __init__(self, sizes: Sizes, hidden: int, layers: int, dropout: float, vectors: str, last_dropout: float):
        super().__init__()
        if len(sizes.shape) != 1:
            raise ConfigError(f"lstm needs rows of words in one line, but rows have shape {sizes.shape}: use bag.")
        self.notes = _notes(vectors, sizes)
        self.register_buffer("vectors", vectors_of(vectors, sizes), persistent=False)
        self.dropout, self.last_dropout = dropout, last_dropout
        self.lstm = nn.LSTM(self.vectors.shape[1], hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, sizes.classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the state of the last layer after the last word of each row."""
        lengths = row_lengths(x)
        if not self.training:
            return self._tested(x, lengths)
        words, longest = int(lengths.sum()), int(lengths.max())
        is_full = words > _FULL * len(x) * longest and self.lstm.hidden_size <= _SMALL
        return self._whole(x[:, :longest], lengths) if is_full else self._packed(x[:, :longest], lengths)

    def last(self, features: Tensor) -> Tensor:
        return super().last(dropout(features, self.last_dropout, self.training))

    def _packed(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Return the states by a layer of our own, which skips padding and computes the product of a word once."""
        order = lengths.argsort(descending=True, stable=True)
        is_word = torch.arange(x.shape[1], device=x.device)[:, None] < lengths[order]
        counts = is_word.sum(1)
        words, inputs = x[order].t()[is_word].unique(return_inverse=True)
        states, lines = self.vectors[words], Lines(tuple(counts.tolist()), inputs, order)
        for layer in range(self.lstm.num_layers):
            if layer:
                states, lines = dropout(states, self.dropout, True), replace(lines, inputs=None)
            states = lstm_layer(states, lines, *self._weights(layer))
        starts = counts.cumsum(0) - counts
        return states[starts[lengths - 1] + order.argsort()]

    def _whole(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Return the states by torch's layers, which are faster for small states where rows have little padding."""
        states, zeros = self.vectors[x.t()], self.vectors.new_zeros(1, len(x), self.lstm.hidden_size)
        for layer in range(self.lstm.num_layers):
            if layer:
                states = dropout(states, self.dropout, True)
            states = torch.lstm(states, (zeros, zeros), self._weights(layer), True, 1, 0.0, True, False, False)[0]
        return states[lengths - 1, torch.arange(len(x), device=x.device)]

    def _tested(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Return the states by torch's layers, which are faster without a gradient, for rows of similar lengths."""
        if torch.compiler.is_exporting():  # to a graph without conditions
            last = (lengths - 1)[:, None, None].expand(-1, 1, self.lstm.hidden_size)
            return self.lstm(self.vectors[x])[0].gather(1, last)[:, 0]  # type: ignore[no-any-return]
        order = lengths.argsort(descending=True, stable=True)
        parts = []
        for rows in order.split(_TEST_ROWS):
            states, _ = self.lstm(self.vectors[x[rows, : int(lengths[rows[0]])]])
            parts.append(states[torch.arange(len(rows)), lengths[rows] - 1])
        return torch.cat(parts)[order.argsort()]

    def _weights(self, layer: int) -> list[Tensor]:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [getattr(self.lstm, f"{name}_l{layer}") for name in names]


def row_lengths(x: Tensor) -> Tensor:
    """Return the number of words of each row up to its last one; at least 1.

    >>> row_lengths(torch.tensor([[5, 0, 7, 0], [0, 0, 0, 0]]))
    tensor([3, 1])
    """
    places = torch.arange(1, x.shape[1] + 1, device=x.device)
    return (places * (x != _PADDING)).amax(1).clamp_min(1)
