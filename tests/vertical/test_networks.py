"""Split networks: their sizes, what parties look up, and cuts by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from silobench.errors import ConfigError, HookError, SpecError
from silobench.vertical.networks import VERTICAL_MODELS, Halves, SplitNetwork, VerticalModel, VerticalSizes
from silobench.vertical.networks.categories import Fields, Lookup, categories_of
from silobench.vertical.networks.cuts import CUTS, Attention
from vertical_cases import problem

NAMES = (
    ("movielens.user", "movielens.film", "movielens.age", "movielens.job=a", "movielens.job=b"),
    ("omdb.year", "omdb.studio_id"),
)
FILMS = VerticalSizes(
    (5, 2), 1, 0, NAMES, lambda party, place: torch.arange(10.0 * (place + 1)), sum(NAMES, ())
)  # fmt: skip


def shapes(module: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(each.shape) for each in module.parameters()]


def test_the_networks_of_oarf() -> None:
    halves = VERTICAL_MODELS.build("oarf-mlp").halves(VerticalSizes((10, 5, 1), 1))
    assert [shapes(each)[::2] for each in halves.bottoms] == [[(20, 10), (5, 20)], [(10, 5), (2, 10)], [(2, 1), (1, 2)]]
    assert shapes(halves.top) == [(1, 5 + 2 + 1), (1,)]
    assert all(isinstance(list(each)[-1], nn.ReLU) for each in halves.bottoms)  # type: ignore[call-overload]
    halves = VERTICAL_MODELS.build("dlrm").halves(FILMS)
    # 10 users, 20 films and one more of each; linear layers of 16 for three features and for one; studios
    assert [shapes(each) for each in halves.bottoms] == [[(32, 16), (16, 3), (16,)], [(21, 16), (16, 1), (16,)]]
    assert halves.widths == [48, 32]
    assert shapes(halves.top)[::2] == [(256, 80), (128, 256), (64, 128), (1, 64)]
    halves = VERTICAL_MODELS.build("ncf(embedding=8)").halves(FILMS)
    assert [shapes(each) for each in halves.bottoms] == [[(32, 16), (8, 3), (8,)], [(8, 2), (8,)]]
    assert halves.widths == [32, 8]
    assert shapes(halves.top)[::2] == [(32, 40 - 8), (16, 32), (1, 8 + 16)]


def test_a_lookup_has_an_entry_per_value_and_one_for_all_others() -> None:
    lookup = Lookup([torch.tensor([-0.5, 0.25, 1.5]), torch.tensor([7.0])], 2)
    with torch.no_grad():
        lookup.table.weight.copy_(torch.arange(6.0).unsqueeze(1).expand(6, 2))
    x = torch.tensor([[-0.5, 7.0], [1.5, 8.0], [0.3, -9.0], [99.0, 7.0]])
    entries = lookup(x)[:, ::2].long().tolist()
    assert entries == [[1, 5], [3, 4], [0, 4], [0, 5]]


def test_a_one_hot_category_has_a_vector_per_feature() -> None:
    fields = Fields(FILMS, 0, [[0], [3, 4]], 4)
    x = torch.tensor([[3.0, 5.0, 1.0, 0.0, 1.0]])
    parts = fields(x).view(3, 4)
    assert fields.lookup is not None
    assert torch.equal(parts[0], fields.lookup.table.weight[4])
    assert torch.equal(parts[1], fields.layers[0].weight[:, 1])
    assert fields.linear is not None
    assert torch.equal(parts[2], fields.linear(torch.tensor([5.0, 1.0])))


def test_categories_by_name() -> None:
    assert categories_of(FILMS, None) == [[[0], [1]], [[1]]]
    assert categories_of(FILMS, ("job", "omdb.*")) == [[[3, 4]], [[0], [1]]]
    assert categories_of(VerticalSizes((3,), 2), None) == [[]]
    with pytest.raises(ConfigError, match=r"'jobs', which is not the name of a column: choose from movielens\.age"):
        categories_of(FILMS, ("jobs",))
    with pytest.raises(ConfigError, match="features of this dataset have no names"):
        categories_of(VerticalSizes((3,), 2), ("user",))
    alone = VerticalSizes((2,), 1, 0, NAMES[1:], FILMS.values, FILMS.features)
    assert categories_of(alone, ("user", "studio_id")) == [[[1]]]  # a party by itself does not have all of them
    with pytest.raises(ConfigError, match="ncf needs a party with the columns user and film"):
        VERTICAL_MODELS.build("ncf").halves(alone)
    for item in ("user", "movielens.user"):
        with pytest.raises(
            ConfigError, match=r"ncf has the column movielens\.user as the user and as the item: name two"
        ):
            VERTICAL_MODELS.build(f"ncf(item={item})").halves(FILMS)


@pytest.mark.parametrize(
    ("spec", "message"),
    [("mlp(hidden=[])", "mlp: hidden must be at least one width"), ("ncf(top=[])", "ncf: top must be at least one")],
)
def test_networks_without_layers(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        VERTICAL_MODELS.build(spec)


@pytest.mark.parametrize("spec", ["mlp(top=[])", "dlrm(top=[])", "dlrm(top=[], cut=sum)"])
def test_a_top_may_be_one_layer(spec: str) -> None:
    task = problem(model=spec)
    assert task.network()(task.federation.x[:5]).shape == (5, 2)


def test_ncf_by_hand() -> None:
    """The product enters the last layer only, and everything else the perceptron only."""
    network = problem(model="ncf(embedding=2, top=[4])").network()
    x = torch.cat([torch.from_numpy(np.zeros((1, 10), np.float32)), torch.ones(1, 2)], dim=1)
    first, second = network.activations(x)
    table = network.bottoms[0].embeddings.table.weight  # type: ignore[union-attr]
    user, item = table[0], table[len(table) - 6]  # zero is neither a user nor a film of the table
    assert torch.allclose(first[0, :6], torch.cat([user[:2] * item[:2], user[2:], item[2:]]))
    tower = torch.relu(network.head.top.tower[0](torch.cat([first[:, 2:], second], 1)))  # type: ignore[operator,index]
    answer = network.head.top.out(torch.cat([first[:, :2], tower], 1))  # type: ignore[operator,union-attr]
    assert torch.allclose(network(x), answer)


def test_cuts_by_hand() -> None:
    one, two = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[3.0, 1.0], [1.0, 1.0]])
    assert CUTS["concatenate"]([2, 2])([one, two]).tolist() == [[1, 0, 3, 1], [0, 2, 1, 1]]
    assert CUTS["sum"]([2, 2])([one, two]).tolist() == [[4, 1], [1, 3]]
    attention = Attention([2, 2])
    with torch.no_grad():
        attention.query.copy_(torch.tensor([2.0**0.5, 0.0]))
    weights = np.exp([[1, 3], [0, 1]]) / np.exp([[1, 3], [0, 1]]).sum(1, keepdims=True)
    by_hand = weights[:, :1] * one.numpy() + weights[:, 1:] * two.numpy()
    assert attention([one, two]).detach().numpy() == pytest.approx(by_hand, rel=8 * float(np.finfo(np.float32).eps))
    for cut in ("sum", "attention"):
        with pytest.raises(ConfigError, match=rf"cut={cut} needs activations of one width, but .* \[2, 3\]"):
            CUTS[cut]([2, 3])


def test_absent_rows_have_a_learnt_embedding() -> None:
    network = problem("columns(by=block, overlap=0.5, absent=embedding)", 2).network()
    assert list(network.head.absence) == ["1"]  # the other party has all rows
    absence = network.head.absence["1"]
    with torch.no_grad():
        absence.fill_(3.0)
    ones = torch.ones(2, 8)
    first, second = network.head.filled([ones, ones], torch.tensor([[1.0, 1.0], [1.0, 0.0]]))
    assert torch.equal(first, ones)
    assert torch.equal(second, torch.stack([torch.ones(8), absence]))


def test_consecutive_columns_are_a_view_and_others_a_copy() -> None:
    columns = [torch.tensor([1, 2]), torch.tensor([3, 0])]
    network = SplitNetwork([nn.Identity(), nn.Identity()], nn.Identity(), columns, 4)  # type: ignore[arg-type]
    x = torch.arange(12.0).view(2, 6)
    assert network.part(x, 0).tolist() == [[1, 2], [7, 8]]
    assert network.part(x, 0).data_ptr() == x[:, 1:].data_ptr()
    assert network.part(x, 1).tolist() == [[3, 0], [9, 6]]
    assert network.flags(x).tolist() == [[4, 5], [10, 11]]


def test_wrong_networks_of_a_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    def halves(sizes: VerticalSizes) -> Halves:
        bottoms = [nn.Linear(inputs, 3) for inputs in sizes.inputs]
        return Halves(bottoms, [4, 4], CUTS["sum"]([4, 4]), nn.Linear(4, sizes.outputs))

    monkeypatch.setattr(VERTICAL_MODELS, "factories", dict(VERTICAL_MODELS.factories))

    @VERTICAL_MODELS.register
    def too_wide() -> VerticalModel:
        return VerticalModel(halves)

    with pytest.raises(HookError, match=r"of party 0 with outputs of shape \(2, 3\), but the width is 4"):
        problem(model="too_wide").network()
