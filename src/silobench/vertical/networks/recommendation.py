"""Split networks for recommendation: DLRM as in OARF, and neural collaborative filtering."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

import torch
from annotated_types import Ge
from torch import Tensor, nn

from silobench.errors import ConfigError
from silobench.vertical.networks.basic import SomeWidths, Widths, dense
from silobench.vertical.networks.categories import Fields, Lookup, categories_of, columns_of, matches
from silobench.vertical.networks.cuts import Concatenation, Sum
from silobench.vertical.networks.network import VERTICAL_MODELS, Halves, VerticalModel, VerticalSizes

Width: TypeAlias = Annotated[int, Ge(1)]


@VERTICAL_MODELS.register
def dlrm(
    embedding: Width = 16,
    top: Widths = (256, 128, 64),
    categories: tuple[str, ...] | None = None,
    cut: Literal["concatenate", "sum"] = "concatenate",
) -> VerticalModel:
    """OARF's DLRM: a vector of width `embedding` for each category, and one for the other features of each party.

    Parties send these vectors, without products of them, and the label holder has a perceptron with the layers `top`.
    `categories` are names of columns, as in ``dlrm(categories=[user, film, occupation])``. Every distinct training
    value of such a column has its own vector, and all others share one; a one-hot column has a vector per feature. By
    default, a category is a column with the name user, item, film, movie, game, product or id, or one that ends with
    _id. All other features are numbers, with one linear layer per party.

    With cut=sum, each party has its part of the first layer of the perceptron, and the label holder adds up what they
    send. The functions that the network can learn are the same, and encryption needs such a sum.
    """

    def halves(sizes: VerticalSizes) -> Halves:
        bottoms = [Fields(sizes, party, each, embedding) for party, each in enumerate(categories_of(sizes, categories))]
        widths = [bottom.width for bottom in bottoms]
        if cut == "concatenate":
            return Halves(bottoms, widths, Concatenation(widths), dense((sum(widths), *top, sizes.outputs)))
        layers = (*top, sizes.outputs)
        first = [nn.Linear(width, layers[0], bias=party == sizes.label) for party, width in enumerate(widths)]
        parts = [nn.Sequential(bottom, layer) for bottom, layer in zip(bottoms, first, strict=True)]
        sums = [layers[0]] * len(parts)
        return Halves(parts, sums, Sum(sums), nn.Sequential(nn.ReLU(), dense(layers)) if top else nn.Identity())

    return VerticalModel(halves)


class _Pair(nn.Module):
    """The bottom of the party that knows who rated what: [user * item, user, item, other features].

    The product and the pair have embeddings of their own, as in NeuMF.
    """

    def __init__(self, sizes: VerticalSizes, party: int, pair: Sequence[int], width: int):
        super().__init__()
        rest = [place for place in range(sizes.inputs[party]) if place not in pair]
        self.pair, self.rest = torch.tensor(pair), torch.tensor(rest, dtype=torch.int64)
        self.embeddings = Lookup([sizes.values(party, place) for place in pair], 2 * width)
        nn.init.normal_(self.embeddings.table.weight, std=0.01)  # as in NeuMF
        self.linear = nn.Sequential(nn.Linear(len(rest), width), nn.ReLU()) if rest else None
        self.embedding, self.width = width, width * (4 if rest else 3)

    def forward(self, x: Tensor) -> Tensor:
        user, item = self.embeddings(x.index_select(1, self.pair)).chunk(2, dim=1)
        k = self.embedding
        parts = [user[:, :k] * item[:, :k], user[:, k:], item[:, k:]]
        if self.linear is not None:
            parts.append(self.linear(x.index_select(1, self.rest)))
        return torch.cat(parts, dim=1)


class _NeuMF(nn.Module):
    """The top of NeuMF: a perceptron over all but the product, and one layer over its output and the product."""

    def __init__(self, start: int, product: int, width: int, hidden: Sequence[int], outputs: int):
        super().__init__()
        self.start, self.end = start, start + product  # the places of the product
        self.tower = dense((width - product, *hidden), ends_active=True)
        self.out = nn.Linear(product + hidden[-1], outputs)

    def forward(self, x: Tensor) -> Tensor:
        others = torch.cat([x[:, : self.start], x[:, self.end :]], dim=1)
        return self.out(torch.cat([x[:, self.start : self.end], self.tower(others)], dim=1))  # type: ignore[no-any-return]


@VERTICAL_MODELS.register
def ncf(embedding: Width = 16, top: SomeWidths = (32, 16), user: str = "user", item: str = "film") -> VerticalModel:
    """Neural collaborative filtering (He et al., WWW 2017): embeddings of users and items at the party with both.

    Its bottom network has the element-wise product of two embeddings, and two other embeddings for a perceptron with
    the layers `top` (NeuMF). Other features of a party are one more vector for this perceptron: a linear layer with
    ReLU. `user` and `item` are names of columns.
    """

    def halves(sizes: VerticalSizes) -> Halves:
        owner, pair = _pair(sizes, user, item)
        bottoms: list[nn.Module] = []
        widths = [embedding] * len(sizes.inputs)
        for party, inputs in enumerate(sizes.inputs):
            if party == owner:
                bottom = _Pair(sizes, party, pair, embedding)
                widths[party] = bottom.width
                bottoms.append(bottom)
            else:
                bottoms.append(dense((inputs, embedding), ends_active=True))
        head = _NeuMF(sum(widths[:owner]), embedding, sum(widths), top, sizes.outputs)
        return Halves(bottoms, widths, Concatenation(widths), head)

    return VerticalModel(halves)


def _pair(sizes: VerticalSizes, user: str, item: str) -> tuple[int, list[int]]:
    """Return the party that has both users and items, and the places of these features."""
    for party, features in enumerate(sizes.names):
        columns = columns_of(features)
        pair = [
            places[0] for name in (user, item) for column, places in columns.items()
            if len(places) == 1 and matches(column, name)
        ]  # fmt: skip
        if len(pair) == 2 and pair[0] == pair[1]:
            raise ConfigError(
                f"ncf has the column {features[pair[0]]} as the user and as the item: name two columns with user= and "
                "item=."
            )
        if len(pair) == 2:
            return party, pair
    raise ConfigError(
        f"ncf needs a party with the columns {user} and {item}, but none has both: name them with user= and item=, or "
        "use dlrm or mlp."
    )
