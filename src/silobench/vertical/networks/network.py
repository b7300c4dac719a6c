"""`SplitNetwork`: a bottom network per party, a cut that joins their activations, and a top network with the labels."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from silobench.models.devices import seed_torch
from silobench.rng import torch_seed
from silobench.spec import Registry
from silobench.spec.contract import Contract, Form, described


@dataclass(frozen=True)
class VerticalSizes:
    """Sizes for a split network to fit.

    `inputs` are the numbers of features by party, `outputs` is the number of classes or 1, and `label` is the party
    with the labels. `names` are the features of each party, and `features` those of the whole dataset; both are empty
    if features have no names. `values` are the sorted distinct values of a feature in the training rows, by party and
    place, for a network that looks them up.
    """

    inputs: tuple[int, ...]
    outputs: int
    label: int = 0
    names: tuple[tuple[str, ...], ...] = ()
    values: Callable[[int, int], Tensor] = lambda party, place: torch.zeros(0)
    features: tuple[str, ...] = ()


class Cut(nn.Module, ABC):
    """A way to join activations: `forward` gets those of each party, [batch, widths[party]], in order.

    It returns [batch, width].
    """

    width: int

    @abstractmethod
    def forward(self, activations: Sequence[Tensor]) -> Tensor:
        """Return the joint activations of a batch."""


class Head(nn.Module):
    """The part of a split network at the label holder: the cut, the top and the embeddings of absence."""

    def __init__(self, cut: Cut, top: nn.Module, absence: nn.ParameterDict):
        super().__init__()
        self.cut, self.top, self.absence = cut, top, absence

    def forward(self, activations: Sequence[Tensor], flags: Tensor) -> Tensor:
        """Return the outputs for rows; `flags` has 1 where a party has a row, [batch, parties]."""
        return self.top(self.cut(self.filled(activations, flags)))  # type: ignore[no-any-return]

    def filled(self, activations: Sequence[Tensor], flags: Tensor) -> list[Tensor]:
        """Return the activations, with the learnt embedding of absence for rows that a party does not have."""
        filled = list(activations)
        for party, embedding in self.absence.items():
            place = int(party)
            filled[place] = torch.where(flags[:, place, None] > 0, filled[place], embedding)
        return filled


class SplitNetwork(nn.Module):
    """A network of parties that hold columns. Its input is the joint input of a `VerticalFederation`.

    `columns` are the numbers of the features of each party, and `features` is the number of all features.
    """

    def __init__(self, bottoms: Sequence[nn.Module], head: Head, columns: Sequence[Tensor], features: int):
        super().__init__()
        self.bottoms, self.head = nn.ModuleList(bottoms), head
        self.columns, self.features = [_places(each) for each in columns], features

    def part(self, x: Tensor, party: int) -> Tensor:
        """Return the columns of a party in the joint input."""
        places = self.columns[party]
        return x[:, places] if isinstance(places, slice) else x.index_select(1, places)

    def flags(self, x: Tensor) -> Tensor:
        """Return which party has which row, [batch, parties]."""
        return x[:, self.features :]

    def activations(self, x: Tensor) -> list[Tensor]:
        """Return what each party computes from its columns."""
        return [bottom(self.part(x, party)) for party, bottom in enumerate(self.bottoms)]

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.activations(x), self.flags(x))  # type: ignore[no-any-return]


def _places(columns: Tensor) -> Tensor | slice:
    """Return consecutive columns as a slice, which needs no copy of them."""
    first, count = int(columns[0]), len(columns)
    is_block = torch.equal(columns, torch.arange(first, first + count))
    return slice(first, first + count) if is_block else columns


@dataclass(frozen=True)
class Halves:
    """The networks of a split model: a bottom per party with its width, the cut and the top."""

    bottoms: Sequence[nn.Module]
    widths: Sequence[int]
    cut: Cut
    top: nn.Module


Build: TypeAlias = Callable[[VerticalSizes], Halves]


@dataclass(frozen=True)
class VerticalModel:
    """A split architecture: `halves` returns the networks for given sizes, initialised by torch's generator."""

    halves: Build
    content: str = ""  # the text of a file that it is read from, which is part of a run's identity

    def build(
        self, sizes: VerticalSizes, columns: Sequence[Tensor], features: int, seed: int, embedded: Collection[int] = ()
    ) -> SplitNetwork:
        """Return the network; rows that a party in `embedded` does not have get a learnt embedding of absence."""
        with torch.random.fork_rng(devices=[]):
            seed_torch(torch_seed(seed, "init"))
            halves = self.halves(sizes)
        absence = {str(party): nn.Parameter(torch.zeros(halves.widths[party])) for party in sorted(embedded)}
        return SplitNetwork(halves.bottoms, Head(halves.cut, halves.top, nn.ParameterDict(absence)), columns, features)


def _are_halves(value: Any, arguments: Sequence[Any]) -> str | None:
    """Check the networks that a hook `halves` returns."""
    (sizes,) = arguments
    if not isinstance(value, Halves) or not isinstance(value.cut, Cut) or not isinstance(value.top, nn.Module):
        return f"{described(value)}, but an sb.Halves(bottoms, widths, cut, top) with an sb.Cut is expected"
    parties = len(sizes.inputs)
    if len(value.bottoms) != parties or len(value.widths) != parties:
        return (
            f"{len(value.bottoms)} bottom networks and {len(value.widths)} widths, but one of each is expected for "
            f"each of {parties} parties"
        )
    for party, (bottom, inputs, width) in enumerate(zip(value.bottoms, sizes.inputs, value.widths, strict=True)):
        with torch.no_grad():
            outputs = bottom.eval()(torch.zeros(2, inputs))  # statistics of batches must not change
        bottom.train()
        if outputs.shape != (2, width):
            shape = tuple(outputs.shape)
            return f"a bottom network of party {party} with outputs of shape {shape}, but the width is {width}"
    return None


VERTICAL_MODELS: Registry[VerticalModel] = Registry(
    "vertical model",
    Contract(VerticalModel, "an sb.VerticalModel(halves)", {"halves": Form("sizes", _are_halves)}),
)
