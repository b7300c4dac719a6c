"""Lookup of categories: embeddings of the values of features, and of one-hot columns."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from silobench.data.feature_names import column_of
from silobench.errors import ConfigError, suggest
from silobench.vertical.networks.network import VerticalSizes

ID_NAMES = ("user", "item", "film", "movie", "game", "product", "id")  # columns that are categories by their name


class Lookup(nn.Module):
    """Embeddings of the values of some features, side by side.

    `values` are the sorted distinct values of each feature in the training rows; every other value of a feature shares
    one more embedding. The tables of all features are one, so that a batch needs one search and one lookup.
    """

    known: Tensor
    offsets: Tensor

    def __init__(self, values: Sequence[Tensor], width: int):
        super().__init__()
        counts = [len(each) for each in values]
        known = torch.full((len(values), max(counts)), torch.inf)
        for row, each in zip(known, values, strict=True):
            row[: len(each)] = each
        self.register_buffer("known", known, persistent=False)
        starts = [sum(counts[:place]) + place for place in range(len(counts))]
        self.register_buffer("offsets", torch.tensor(starts).unsqueeze(1), persistent=False)
        self.table = nn.Embedding(sum(counts) + len(counts), width)
        with torch.no_grad():
            for start, count in zip(starts, counts, strict=True):
                bound = (count + 1) ** -0.5  # as in DLRM
                self.table.weight[start : start + count + 1].uniform_(-bound, bound)
        self.width = len(values) * width

    def forward(self, x: Tensor) -> Tensor:
        """Return the embeddings of features [batch, features] as [batch, features * width]."""
        columns = x.t().contiguous()
        places = torch.searchsorted(self.known, columns).clamp_(max=self.known.shape[1] - 1)
        is_known = self.known.gather(1, places) == columns
        entries = self.offsets + torch.where(is_known, places + 1, 0)
        return self.table(entries.t()).flatten(1)  # type: ignore[no-any-return]


class Fields(nn.Module):
    """The columns of a party as vectors of one width, side by side: its categories, and all its other features.

    A category that is one feature is looked up. One with several features is one-hot, and has a linear layer without
    bias, which is the same. The rest, if there is any, has one linear layer.
    """

    def __init__(self, sizes: VerticalSizes, party: int, categories: Sequence[Sequence[int]], width: int):
        super().__init__()
        single = [places[0] for places in categories if len(places) == 1]
        self.one_hot = [torch.tensor(places) for places in categories if len(places) > 1]
        chosen = {place for places in categories for place in places}
        rest = [place for place in range(sizes.inputs[party]) if place not in chosen]
        self.single, self.rest = torch.tensor(single, dtype=torch.int64), torch.tensor(rest, dtype=torch.int64)
        self.lookup = Lookup([sizes.values(party, place) for place in single], width) if single else None
        self.layers = nn.ModuleList(nn.Linear(len(places), width, bias=False) for places in self.one_hot)
        self.linear = nn.Linear(len(rest), width) if rest else None
        self.width = width * (len(categories) + bool(rest))

    def forward(self, x: Tensor) -> Tensor:
        parts = [] if self.lookup is None else [self.lookup(x.index_select(1, self.single))]
        parts += [layer(x.index_select(1, places)) for places, layer in zip(self.one_hot, self.layers, strict=True)]
        if self.linear is not None:
            parts.append(self.linear(x.index_select(1, self.rest)))
        return torch.cat(parts, dim=1)


def categories_of(sizes: VerticalSizes, names: Sequence[str] | None) -> list[list[list[int]]]:
    """Return the categories of each party, as the places of their features.

    `names` are columns, with or without their owner, and may have `*`. Without names, a category is a feature whose
    column has one of the names in `ID_NAMES`, or ends with _id.
    """
    if not sizes.names:
        if names:
            raise ConfigError(
                f"categories has '{names[0]}', but the features of this dataset have no names: leave it out."
            )
        return [[] for _ in sizes.inputs]
    known = list(dict.fromkeys(map(column_of, sizes.features)))
    for name in names or ():
        if not any(matches(column, name) for column in known):
            raise ConfigError(f"categories has '{name}', which is not the name of a column: {suggest(name, known)}")
    return [
        [
            places
            for column, places in columns_of(features).items()
            if (_is_id(column, places) if names is None else any(matches(column, name) for name in names))
        ]
        for features in sizes.names
    ]


def columns_of(features: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of the features of each column."""
    columns: dict[str, list[int]] = {}
    for place, feature in enumerate(features):
        columns.setdefault(column_of(feature), []).append(place)
    return columns


def matches(column: str, name: str) -> bool:
    """Whether a name, which may have `*`, is that of a column, with or without its owner.

    >>> [matches("movielens.user", name) for name in ("user", "movielens.user", "movielens.*", "film")]
    [True, True, True, False]
    """
    return fnmatchcase(column, name) or fnmatchcase(column.rpartition(".")[2], name)


def _is_id(column: str, places: Sequence[int]) -> bool:
    name = column.rpartition(".")[2].lower()
    return len(places) == 1 and (name in ID_NAMES or name.endswith("_id"))
