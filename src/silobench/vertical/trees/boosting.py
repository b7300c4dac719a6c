"""Boosted trees over columns: a label holder and parties that exchange messages, round by round."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from silobench.vertical.trees.binning import Bools, Ints
from silobench.vertical.trees.cipher import HistogramCipher
from silobench.vertical.trees.ensemble import Trees
from silobench.vertical.trees.label_holder import TreeLabelHolder
from silobench.vertical.trees.losses import TreeLoss
from silobench.vertical.trees.messages import Message
from silobench.vertical.trees.party import TreeParty
from silobench.vertical.trees.splits import TreeSettings


@dataclass
class Traffic:
    """Messages and bytes between the label holder and one party, and the seconds that the party worked."""

    messages: dict[str, int] = field(default_factory=dict)  # by phase
    down: dict[str, int] = field(default_factory=dict)  # bytes to the party, by phase
    up: dict[str, int] = field(default_factory=dict)  # bytes from the party, by phase
    seconds: float = 0.0

    def count(self, message: Message, direction: dict[str, int]) -> None:
        """Count a message, and add its bytes to a direction."""
        phase = message.phase
        self.messages[phase] = self.messages.get(phase, 0) + 1
        direction[phase] = direction.get(phase, 0) + message.nbytes


class Boosting:
    """Training of boosted trees over columns.

    x: the joint table [rows, columns]; columns: the columns of each party; presence: [parties, rows], whether a party
    has a row; label: the party with the labels, whose messages to itself are not counted. `cipher` is the label
    holder's; parties use it only to add up.
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
        self.columns = columns
        self.parties = [
            TreeParty(x[np.ix_(presence[party], numbers)], settings.bins, None if party == label else cipher)
            for party, numbers in enumerate(columns)
        ]
        layouts = [party.layout() for party in self.parties]
        self.traffic = [Traffic() for _ in self.parties]
        for party, layout in enumerate(layouts):
            if party != label:
                self.traffic[party].count(layout, self.traffic[party].up)
        self.holder = TreeLabelHolder(y, loss, presence, layouts, label, settings, cipher)
        self.trees = Trees.empty(self.holder.baseline)

    def call(self, party: int, message: Message) -> Message | None:
        """Send a message to a party and return its answer; count both, and the time in between."""
        began = time.perf_counter()
        reply = self.parties[party].answer(message)
        traffic = self.traffic[party]
        traffic.seconds += time.perf_counter() - began
        if party != self.holder.label:
            traffic.count(message, traffic.down)
            if reply is not None:
                traffic.count(reply, traffic.up)
        return reply

    def round(self) -> None:
        """Grow one tree per output."""
        for nodes in self.holder.grow_round(self.call):
            self.trees = self.trees.extended(nodes, self.parties, self.columns)

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
