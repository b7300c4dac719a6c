"""Boosted trees over columns: a label holder and parties that exchange messages, round by round."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from silobench.vertical.trees.binning import Bools, Ints
from silobench.vertical.trees.cipher import HistogramCipher
from silobench.vertical.trees.ensemble import Trees
from silobench.vertical.trees.label_holder import TreeLabelHolder
from silobench.vertical.trees.losses import TreeLoss
from silobench.vertical.trees.messages import Key, Message
from silobench.vertical.trees.party import TreeParty
from silobench.vertical.trees.splits import TreeSettings


class Exchange(NamedTuple):
    """A message to a party and its answer. Exchanges of one step go side by side."""

    step: int
    party: int
    down: Message | None
    up: Message | None
    seconds: float  # of the party


class Boosting:
    """Training of boosted trees over columns.

    x: the joint table [rows, columns]; columns: the columns of each party; presence: [parties, rows], whether a party
    has a row; label: the party with the labels; cipher: the label holder's, None to send gradients in the clear.
    """

    def __init__(
        self,
        x: NDArray[Any],
        y: NDArray[Any],
        columns: Sequence[Ints],
        presence: Bools,
        loss: TreeLoss,
        label: int = 0,
        settings: TreeSettings | None = None,
        cipher: HistogramCipher | None = None,
    ) -> None:
        settings = settings or TreeSettings()
        self.columns, self._cipher = columns, cipher
        shared = cipher.for_parties() if cipher else None
        self.parties = [
            TreeParty(x[np.ix_(presence[party], numbers)], settings.bins, None if party == label else shared)
            for party, numbers in enumerate(columns)
        ]
        layouts = [party.layout() for party in self.parties]
        key = Key(cipher.key_bytes) if cipher and cipher.key_bytes else None
        self.setup = [
            Exchange(-1, party, key, layout, 0.0) for party, layout in enumerate(layouts) if party != label
        ]  # before the first round
        self.exchanges: list[Exchange] = []  # of the latest round
        self._subject: tuple[type, int] | None = None
        self.holder = TreeLabelHolder(y, loss, presence, layouts, label, settings, cipher)
        self.trees = Trees.empty(self.holder.baseline)

    def call(self, party: int, message: Message) -> Message | None:
        """Send a message to a party, return its answer, and note both with the time in between."""
        began = time.perf_counter()
        reply = self.parties[party].answer(message)
        seconds = time.perf_counter() - began
        subject = (type(message), getattr(message, "node", -1))
        step = self.exchanges[-1].step if self.exchanges else 0
        if subject != self._subject:
            self._subject, step = subject, step + 1
        self.exchanges.append(Exchange(step, party, message, reply, seconds))
        return reply

    def round(self) -> None:
        """Grow one tree per output."""
        self.exchanges, self._subject = [], None
        for nodes in self.holder.grow_round(self.call):
            self.trees = self.trees.extended(nodes, self.parties, self.columns)

    @property
    def visits(self) -> list[int]:
        """Rows that each party added up so far."""
        return [party.visits for party in self.parties]

    @property
    def cipher_seconds(self) -> dict[str, float]:
        """Seconds that the label holder took so far to encrypt and decrypt, by the phase of the messages."""
        return self._cipher.seconds if self._cipher else {}

    def state(self) -> dict[str, Tensor]:
        """Return all that training needs to continue bit for bit."""
        return {**self.trees.as_tensors(), "margins": torch.from_numpy(self.holder.margins.copy())}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from the state of an earlier training on the same data."""
        self.trees = Trees.from_tensors(state)
        self.holder.margins = state["margins"].numpy().copy()
        for party, member in enumerate(self.parties):
            is_split = self.trees.party == party
            order = np.argsort(self.trees.split[is_split])
            places = {int(column): place for place, column in enumerate(self.columns[party])}
            member.features = [places[int(column)] for column in self.trees.feature[is_split][order]]
            member.thresholds = self.trees.threshold[is_split][order].tolist()
