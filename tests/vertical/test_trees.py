"""Boosted trees over columns: the same trees as scikit-learn on the joined table, and messages that show no column."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import vertical_cases
from silobench.errors import ConfigError, SpecError
from silobench.loop.clocks import measured
from silobench.loop.network import link
from silobench.method.transforms import bind_chain
from silobench.privacy.encryption.paillier import PaillierSecret
from silobench.tasks.objectives import OBJECTIVES
from silobench.vertical.methods import VERTICAL_ALGORITHMS
from silobench.vertical.trees import label_holder
from silobench.vertical.trees.binning import SAMPLE, codes, sampled, thresholds
from silobench.vertical.trees.boosting import Boosting
from silobench.vertical.trees.cipher import HistogramCipher
from silobench.vertical.trees.ensemble import Trees
from silobench.vertical.trees.losses import loss_of
from silobench.vertical.trees.messages import Gradients, Histogram, Message, NodeRows, Sides, SplitOrder
from silobench.vertical.trees.paillier import PaillierHistograms
from silobench.vertical.trees.splits import TreeSettings
from silobench.vertical.trees.traffic import TreeTraffic
from vertical_cases import problem, records

COLUMNS = (np.arange(3), np.arange(3, 5), np.arange(5, 8))
# Gradients are float32, and a margin is a sum of a few leaf values of at most about 1: rounding stays far below this.
CLOSE = 1e-6


def table(rows: int = 500, classes: int | None = 2) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Return a table with few distinct values per column, and labels that depend on several columns."""
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(0, size, rows) for size in (2, 3, 9, 17, 30, 5, 12, 40)], axis=1).astype(np.float32)
    score = x[:, 2] - x[:, 5] * x[:, 0] + 0.2 * x[:, 7] * (x[:, 1] == 1) + rng.normal(size=rows)
    if classes is None:
        return x, score.astype(np.float64)
    return x, np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score).astype(np.int64)


def everywhere(x: NDArray[Any]) -> NDArray[np.bool_]:
    return np.ones((len(COLUMNS), len(x)), dtype=np.bool_)


def some_absent(x: NDArray[Any]) -> NDArray[np.bool_]:
    presence = everywhere(x)
    rng = np.random.default_rng(1)
    presence[1:] = rng.random((2, len(x))) < 0.7
    return presence


def trained(x: NDArray[Any], y: NDArray[Any], classes: int | None, rounds: int = 8, **options: Any) -> Boosting:
    options = {"columns": COLUMNS, "presence": everywhere(x), **options}
    boosting = Boosting(x, y, loss=loss_of(classes), **options)
    for _ in range(rounds):
        boosting.round()
    return boosting


def margins_of(boosting: Boosting, x: NDArray[Any], presence: NDArray[np.bool_]) -> NDArray[np.float64]:
    margins = np.tile(boosting.trees.baseline, (len(x), 1))
    boosting.trees.add_to(margins, x, presence.T)
    return margins


def with_gaps(x: NDArray[Any], presence: NDArray[np.bool_]) -> NDArray[np.float64]:
    joined = x.astype(np.float64)
    for numbers, present in zip(COLUMNS, presence, strict=True):
        joined[np.ix_(~present, numbers)] = np.nan
    return joined


@pytest.mark.parametrize(
    ("classes", "has_gaps", "settings"),
    [
        (2, False, TreeSettings()),
        (2, True, TreeSettings(leaves=9, lr=0.3, min_leaf=5, l2=2.0)),
        (3, False, TreeSettings(depth=3, bins=8)),
        (None, False, TreeSettings()),
        (None, True, TreeSettings()),
    ],
)
def test_trees_are_those_of_scikit_learn(classes: int | None, has_gaps: bool, settings: TreeSettings) -> None:
    x, y = table(classes=classes)
    presence = some_absent(x) if has_gaps else everywhere(x)
    boosting = trained(x, y, classes, presence=presence, settings=settings)
    kind = HistGradientBoostingRegressor if classes is None else HistGradientBoostingClassifier
    reference = kind(
        max_iter=8,
        early_stopping=False,
        max_leaf_nodes=settings.leaves,
        learning_rate=settings.lr,
        max_bins=settings.bins,
        min_samples_leaf=settings.min_leaf,
        l2_regularization=settings.l2,
        max_depth=settings.depth,
    ).fit(with_gaps(x, presence), y)
    new, _ = table(700)
    new_presence = some_absent(new)  # rows that a party had in training may be absent now
    for rows, there in ((x, presence), (new, new_presence)):
        joined = with_gaps(rows, there)
        expected = reference.predict(joined) if classes is None else reference.decision_function(joined)
        margins = margins_of(boosting, rows, there)
        assert np.abs(margins - expected.reshape(margins.shape)).max() <= CLOSE
    assert np.array_equal(margins_of(boosting, x, presence), boosting.holder.margins)


def test_a_table_of_indicators_leaves_out_common_bins() -> None:
    x, y = table(600)
    indicators = np.concatenate([x[:, [column]] == np.arange(1, 9) for column in range(4)], axis=1).astype(np.float32)
    constant = np.zeros((600, 1), dtype=np.float32)
    wide = np.concatenate([constant, indicators], axis=1)
    parts = (np.arange(9), np.arange(9, 33))
    boosting = trained(wide, y, 2, columns=parts, presence=np.ones((2, 600), dtype=np.bool_))
    assert all((party.layout().omitted >= 0).all() for party in boosting.parties)
    assert boosting.parties[0].layout().bins[0] == 1
    reference = HistGradientBoostingClassifier(max_iter=8, early_stopping=False).fit(wide, y)
    assert np.abs(boosting.holder.margins[:, 0] - reference.decision_function(wide)).max() <= CLOSE


def test_quantiles_by_hand() -> None:
    column = np.random.default_rng(0).normal(size=1000).round(2)
    ordered = sorted(column.tolist())
    limits = []
    for number in range(1, 20):
        place, is_between = divmod(1000 * number, 20)
        limits.append(ordered[place] if is_between else (ordered[place - 1] + ordered[place]) / 2)
    bins = thresholds(column, 20)
    assert bins.tolist() == pytest.approx(sorted(set(limits)), abs=1e-12)
    assert all(
        (code == 0 or bins[code - 1] < value) and (code == len(bins) or value <= bins[code])
        for value, code in zip(column, codes(column, bins), strict=True)
    )
    assert thresholds(np.array([3.0, 1.0, 1.0, 7.0]), 255).tolist() == [2.0, 5.0]


def test_thresholds_of_a_long_table_are_those_of_a_fixed_sample() -> None:
    column = np.arange(SAMPLE + 5, dtype=np.float64)[:, None]
    rows = sampled(column)
    assert len(rows) == SAMPLE < len(column)
    assert np.array_equal(rows, sampled(column))
    # The share of rows below the middle has a standard deviation of 0.5 / sqrt(SAMPLE).
    assert abs((rows < SAMPLE / 2).mean() - 0.5) < 6 * 0.5 / SAMPLE**0.5
    assert np.array_equal(sampled(column[:SAMPLE]), column[:SAMPLE])


def gain(g: NDArray[Any], h: NDArray[Any], left: NDArray[np.bool_]) -> float:
    """Return the drop of the loss of a root by a split: half the squared gradient over the curvature, twice."""
    return float(sum(g[side].sum() ** 2 / h[side].sum() for side in (left, ~left)))


def test_the_first_split_is_the_best_of_all_by_hand() -> None:
    x, y = table(120)
    presence = some_absent(x)
    settings = TreeSettings(leaves=2, min_leaf=15)
    boosting = trained(x, y, 2, 1, presence=presence, settings=settings)
    p = y.mean()
    g, h = p - y, np.full(len(y), p * (1 - p))
    options: dict[tuple[int, float, bool], float] = {}
    for party, numbers in enumerate(COLUMNS):
        for column in numbers:
            values = np.unique(x[presence[party], column]).astype(float)
            for limit in [*((low + high) / 2 for low, high in pairwise(values)), np.inf]:
                for absent_left in (False, True):
                    left = np.where(presence[party], x[:, column] <= limit, absent_left)
                    if 15 <= left.sum() <= len(y) - 15:
                        options[int(column), limit, absent_left] = gain(g, h, left)
    trees = boosting.trees
    chosen = (int(trees.feature[0]), float(trees.threshold[0]), bool(trees.absent_left[0]))
    assert options[chosen] == pytest.approx(max(options.values()), rel=1e-6)
    owner = presence[trees.party[0]]
    left = np.where(owner, x[:, chosen[0]] <= chosen[1], chosen[2])
    for child, side in ((trees.left[0], left), (trees.right[0], ~left)):
        assert trees.value[child] == pytest.approx(-0.1 * g[side].sum() / h[side].sum(), rel=1e-6)


def test_histograms_by_subtraction_equal_direct_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = table()
    presence = some_absent(x)
    compared = []
    consider = label_holder._Growth._consider

    def check(growth: Any, nodes: Any, histograms: Any) -> None:
        for place, node in enumerate(nodes):
            direct = np.zeros(histograms[:, place].shape)
            for party, member in enumerate(boosting.parties):
                for number in range(len(COLUMNS[party])):
                    feature = sum(len(part) for part in COLUMNS[:party]) + number
                    start = growth._finder._starts[feature]
                    for row in node.rows[presence[party][node.rows]]:
                        bin_ = member._codes[presence[party][:row].sum(), number]
                        direct[:, start + bin_] += growth._planes[:, row]
            # An entry is the difference of at most as many sums of 500 values below 1 as the tree is deep.
            compared.append(np.abs(direct - histograms[:, place]).max() <= 10 * 500 * 500 * np.finfo(float).eps)
        consider(growth, nodes, histograms)

    boosting = trained(x, y, 2, 0, presence=presence, settings=TreeSettings(leaves=6))
    monkeypatch.setattr(label_holder._Growth, "_consider", check)
    boosting.round()
    assert len(compared) > 6
    assert all(compared)


def transcript(x: NDArray[Any], y: NDArray[Any], **options: Any) -> tuple[list[tuple[int, Message]], Boosting]:
    """Return all messages between parties in order, with the party that sends or receives them."""
    messages: list[tuple[int, Message]] = []
    boosting = trained(x, y, 2, 0, **options)
    answer = boosting.call

    def call(party: int, message: Message) -> Message | None:
        reply = answer(party, message)
        messages.extend((party, part) for part in (message, reply) if part is not None and party != 0)
        return reply

    boosting.call = call  # type: ignore[method-assign]
    for _ in range(3):
        boosting.round()
    return messages, boosting


def test_messages_show_neither_values_nor_thresholds() -> None:
    x, y = table()
    stretched = x.copy()
    stretched[:, 3:] = np.exp(x[:, 3:] / 7) * 1000 + 3  # other values in the same order
    messages, boosting = transcript(x, y)
    others, _ = transcript(stretched, y)
    assert len(messages) == len(others)
    for (party, message), (other_party, other) in zip(messages, others, strict=True):
        assert (party, type(message)) == (other_party, type(other))
        for name, value in vars(message).items():  # the label holder's view does not depend on values and thresholds
            assert np.array_equal(value, vars(other)[name])
    downwards = {Gradients: {"pairs"}, SplitOrder: {"node", "feature", "bin"}}
    downwards[NodeRows] = {"node", "left", "right", "child", "bits"}
    upwards = {Histogram: {"sums", "counts"}, Sides: {"split", "bits"}}
    for _, message in messages:
        assert set(vars(message)) == {**downwards, **upwards}[type(message)]
        if isinstance(message, Gradients):
            assert message.pairs.dtype == np.float32
    # A party is asked to split its columns and no others: their number is the number of its splits in the trees.
    for party in (1, 2):
        orders = sum(isinstance(message, SplitOrder) for to, message in messages if to == party)
        assert orders == (boosting.trees.party == party).sum() == len(boosting.parties[party].features)
    received = [message for _, message in messages if isinstance(message, NodeRows)]
    assert any(message.bits is None for message in received)
    assert any(message.bits is not None for message in received)


def test_bytes_by_hand() -> None:
    x, y = table(100)
    boosting = trained(x, y, 2, 1, settings=TreeSettings(leaves=3))
    traffic = TreeTraffic([*boosting.setup, *boosting.exchanges], 0, 3, link("1Mbps", latency=0.5), measured(), 0)
    phases, sizes = {phase.name: phase for phase in traffic.phases}, [len(np.unique(x[:, c])) for c in COLUMNS[1]]
    assert phases["layout"].up[1] == 2 * 2 * len(sizes)
    assert phases["gradients"].down == {1: 100 * 2 * 4, 2: 100 * 2 * 4}
    assert phases["histograms"].up[1] == sum(sizes) * (8 + 8 + 4) * 2  # root and one child
    assert phases["histograms"].messages == 2 * 2
    owners = boosting.trees.party[boosting.trees.party >= 0].tolist()
    bits = -(-100 // 8)
    assert phases["rows"].down == {party: 4 * 4 + (0 if owners[0] == party else bits) for party in (1, 2)}
    orders = {party: 3 * 4 * owners.count(party) for party in (1, 2) if party in owners}
    assert phases["splits"].down == orders
    steps = 1 + 2 + 2 + 2 * sum(owner != 0 for owner in owners)  # layouts, gradients, rows, and splits of others
    size = sum(sum(phase.up.values()) + sum(phase.down.values()) for phase in phases.values())
    assert 0.5 * steps < traffic.clock < 0.5 * steps + 8 * size / 1e6
    assert traffic.dense == [sum(sum(getattr(p, way).values()) for p in phases.values()) for way in ("up", "down")]
    squares = trained(*table(100, None), None, 1, settings=TreeSettings(leaves=2))
    assert squares.exchanges[1].down.nbytes == 100 * 4  # all second derivatives are 1


class Fixed(HistogramCipher):
    """Pairs as one integer each, in fixed point, shifted by a key for each pair: a stand-in for a real cipher."""

    unit = 2**40

    def __init__(self) -> None:
        self.rows = self.sums = 0

    def encrypt_pairs(self, g: NDArray[np.float32], h: NDArray[np.float32] | None) -> NDArray[Any]:
        assert h is not None
        self.rows += len(g)
        pairs = zip(g.tolist(), h.tolist(), strict=True)
        return np.array([(round(a * self.unit) << 80) + round(b * self.unit) for a, b in pairs], dtype=object)

    def sum_by_bin(self, pairs: NDArray[Any], bins: NDArray[Any], n_bins: int) -> NDArray[Any]:
        self.sums += 1
        sums = np.zeros(n_bins + 1, dtype=object)
        for pair, slots in zip(pairs, bins, strict=True):
            sums[slots] += pair
        return sums[:n_bins]

    def decrypt_pairs(self, sums: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        h = [value & ((1 << 80) - 1) for value in sums]
        g = [(value - low) >> 80 for value, low in zip(sums, h, strict=True)]
        return np.array(g, dtype=np.float64) / self.unit, np.array(h, dtype=np.float64) / self.unit


def test_parties_add_up_what_they_cannot_read() -> None:
    x, y = table(300)
    cipher = Fixed()
    messages, boosting = transcript(x, y, cipher=cipher)
    clear = trained(x, y, 2, 3)
    assert np.abs(boosting.holder.margins - clear.holder.margins).max() <= CLOSE
    arrays = [part for _, message in messages for part in vars(message).values() if isinstance(part, np.ndarray)]
    assert not any(array.dtype.kind == "f" for array in arrays)
    assert cipher.rows == 3 * 300  # each row is encrypted once per tree, for both parties
    asked = sum(isinstance(message, Histogram) for _, message in messages)
    assert cipher.sums == asked <= 2 * (clear.trees.party >= 0).sum() + 2 * 3  # one child per split, and the root


def test_paillier_gives_the_same_trees_whatever_the_key() -> None:
    x, y = table(60)
    settings = TreeSettings(leaves=4, min_leaf=10)
    for classes, labels in ((2, y), (None, 1000.0 * y)):
        clear = trained(x, labels, classes, 2, settings=settings)
        states = []
        for _ in range(2):
            hidden = trained(x, labels, classes, 2, settings=settings, cipher=PaillierHistograms(60 * 3, bits=256))
            error = np.abs(hidden.holder.margins - clear.holder.margins).max()
            assert error <= CLOSE * max(1.0, np.abs(clear.holder.margins).max())
            states.append({name: tensor.tolist() for name, tensor in hidden.state().items()})
        assert states[0] == states[1]
    shared = hidden.parties[1]._cipher
    assert not hasattr(shared, "decrypt_pairs")
    assert not any(isinstance(value, PaillierSecret) for value in vars(shared).values())


def test_the_time_of_encryption_belongs_to_the_messages() -> None:
    x, y = table(60)
    hidden = trained(x, y, 2, 1, settings=TreeSettings(leaves=4), cipher=PaillierHistograms(60 * 3, bits=256))
    cipher = hidden.cipher_seconds
    assert list(cipher) == ["gradients", "histograms"]
    traffic = TreeTraffic(hidden.exchanges, 0, len(hidden.parties), link(), measured(), 0)
    before = {phase.name: phase.seconds for phase in traffic.phases}
    spent = traffic.work(100.0, cipher, hidden.visits)
    after = {phase.name: phase.seconds for phase in traffic.phases}
    for phase, seconds in cipher.items():
        assert seconds > 0
        assert after[phase] - before[phase] == pytest.approx(seconds)
    assert spent["encode"] == pytest.approx(sum(cipher.values()))
    assert 100 * 0.9 < traffic.slowest <= spent["train"] < 100


@pytest.mark.parametrize("classes", [2, 3])
def test_training_resumes_bit_for_bit(classes: int) -> None:
    x, y = table(classes=classes)
    presence = some_absent(x)
    whole = trained(x, y, classes, 6, presence=presence)
    first = trained(x, y, classes, 3, presence=presence)
    state = {name: tensor.clone() for name, tensor in first.state().items()}
    second = trained(x, y, classes, 0, presence=presence)
    second.restore(state)
    for _ in range(3):
        second.round()
    assert {name: tensor.tolist() for name, tensor in second.state().items()} == {
        name: tensor.tolist() for name, tensor in whole.state().items()
    }
    assert [party.features for party in second.parties] == [party.features for party in whole.parties]


@pytest.mark.parametrize("classes", [2, 3, None])
def test_a_module_returns_the_outputs_of_an_objective(classes: int | None) -> None:
    x, y = table(classes=classes)
    presence = some_absent(x)
    boosting = trained(x, y, classes, 3, presence=presence)
    trees = Trees.from_tensors(boosting.trees.as_tensors())
    module = trees.module(columns=8, mean=2.0, scale=4.0, has_classes=classes is not None)
    outputs = module(torch.from_numpy(np.concatenate([x, presence.T], axis=1, dtype=np.float32)))
    margins = torch.from_numpy(boosting.holder.margins)
    assert outputs.dtype == torch.float32
    if classes is None:
        assert torch.allclose(outputs.double(), (margins - 2.0) / 4.0, atol=1e-5)
    elif classes == 2:
        assert torch.allclose(outputs.double().softmax(1)[:, [1]], margins.sigmoid(), atol=1e-6)
    else:
        assert torch.equal(outputs, margins.float())


@pytest.mark.parametrize("method", ["boosted-trees(leaves=5)", "joined-trees(leaves=5)"])
def test_records_and_resuming(method: str) -> None:
    task = problem("columns(by=block)", 3)
    first, second, third = records(task, method)
    resumed = list(records(task, method, unpacked_state(second.state)))
    assert [each.round for each in resumed] == [3]
    assert (resumed[0].loss, resumed[0].metrics, resumed[0].train_loss) == (third.loss, third.metrics, third.train_loss)
    assert resumed[0].final == third.final
    assert (resumed[0].bytes_up, resumed[0].bytes_down) == (third.bytes_up, third.bytes_down)
    assert first.train_loss > second.train_loss > third.train_loss
    assert (third.bytes_up > 0) == method.startswith("boosted")
    if method.startswith("boosted"):
        assert set(first.phases) == {"layout", "gradients", "histograms", "splits", "rows"}
        assert set(third.phases) == set(first.phases) - {"layout"}
        assert third.time["parties"]["train"] > 0


def unpacked_state(state: Any) -> Any:
    """Return a state as a checkpoint gives it back: other objects with the same bits."""
    extra = {owner: {name: value.clone() for name, value in part.items()} for owner, part in state.extra.items()}
    return replace(state, extra=extra)


def test_both_methods_agree_where_a_party_lacks_rows() -> None:
    task = problem("columns(by=block)", 3)
    deal = task.federation.deal
    train, test = deal.train.copy(), deal.test.copy()
    train[1, ::3] = test[1, ::4] = False
    task = replace(task, federation=replace(task.federation, deal=replace(deal, train=train, test=test)))
    (*_, ours), (*_, theirs) = records(task, "boosted-trees"), records(task, "joined-trees")
    assert ours.loss == pytest.approx(theirs.loss, abs=CLOSE)
    assert ours.final["by_rows"] == theirs.final["by_rows"]


def test_what_trees_refuse() -> None:
    task = problem("columns(by=block)", 3)
    method = VERTICAL_ALGORITHMS.build("boosted-trees")
    assert "signs show the labels" in method.notes(task)[0]
    numeric = problem("columns(by=block)", 3, dataset=vertical_cases.table(task="regression"))
    assert "they show the labels up to a constant" in method.notes(numeric)[0]
    assert not VERTICAL_ALGORITHMS.build("boosted-trees(encryption=paillier)").notes(task)
    hinge = replace(task, objective=OBJECTIVES.build("hinge")(task.federation.dataset))
    with pytest.raises(ConfigError, match="boosted trees cannot train for the objective hinge"):
        method.check(hinge)
    with pytest.raises(ConfigError, match="transforms are for activations"):
        method.check(replace(task, transforms=(bind_chain("quantize(bits=8)")[0].build(),)))
    rows = task.federation.rows[task.federation.y[task.federation.rows] == 1]
    one = replace(task, federation=replace(task.federation, rows=rows))
    with pytest.raises(ConfigError, match="do not have all 2 classes"):
        VERTICAL_ALGORITHMS.build("joined-trees").check(one)
    for spec in ("boosted-trees(leaves=1)", "boosted-trees(bins=256)", "joined-trees(min_leaf=0)"):
        with pytest.raises(SpecError):
            VERTICAL_ALGORITHMS.build(spec)
