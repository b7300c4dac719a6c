"""Which test rows belong to which party: each to one, by group where there are groups, else class by class."""

import numpy as np
import pytest

import silobench as sb
from silobench.data.dataset import Dataset, Split
from silobench.data.readers.embedded import octant_pairs
from silobench.partitions.skew import apportion


def numbered(parties: int, test: int = 60, task: str = "classification", seed: int = 0) -> Dataset:
    """Return a dataset with groups a, b, ... and a test group "z" that no training row has."""
    draw = np.random.default_rng(seed)
    letters = np.array(list("abcdefgh")[:parties])

    def split(rows: int, groups: np.ndarray) -> Split:
        x = draw.normal(size=(rows, 3)).astype(np.float32)
        y = draw.normal(size=rows).astype(np.float32) if task == "regression" else draw.integers(3, size=rows)
        return Split(x, y, {"hospital": groups})

    train = split(200, np.concatenate([letters, draw.choice(letters, 200 - parties)]))
    tested, classes = split(test, draw.choice([*letters, "z"], test)), ("k", "l", "m") if task != "regression" else ()
    return Dataset("made", train, tested, classes, "none", task=task)  # type: ignore[arg-type]


def own_rows(federation: sb.Federation) -> list[list[int]]:
    return [federation.own_test_rows(party).tolist() for party in range(len(federation.partition))]


@pytest.mark.parametrize(
    "spec",
    ["iid", "label-dirichlet(beta=0.1)", "label-count(k=2)", "quantity-dirichlet(beta=0.5)", "noise(sigma=0.1)",
     "shards + share(beta=0.1)"],
)  # fmt: skip
def test_every_row_belongs_to_one_party_in_proportion_to_training_rows_of_its_class(spec: str) -> None:
    federation = sb.federate(sb.load("digits"), spec, parties=10, seed=3)
    rows = own_rows(federation)
    assert sorted(row for each in rows for row in each) == list(range(len(federation.dataset.test)))
    train, test = federation.dataset.train.y, federation.dataset.test.y
    private = [np.setdiff1d(each, federation.partition.shared) for each in federation.partition.rows]
    held = np.array([np.bincount(train[each], minlength=10) for each in private])
    dealt = np.array([np.bincount(test[each], minlength=10) for each in rows])
    for label in range(10):
        assert dealt[:, label].tolist() == apportion(int((test == label).sum()), held[:, label]).tolist()


def test_largest_remainder_by_hand() -> None:
    """7 test rows of one class to parties with 5, 3 and 2 training rows: 3.5, 2.1 and 1.4."""
    assert apportion(7, np.array([5, 3, 2])).tolist() == [4, 2, 1]


def test_rows_are_drawn_from_the_seed_and_do_not_depend_on_the_order_of_questions() -> None:
    data = sb.load("digits")
    one, again = (sb.federate(data, "iid", 4, seed=1) for _ in range(2))
    assert [again.own_test_rows(party).tolist() for party in (3, 2, 1, 0)][::-1] == own_rows(one)
    assert own_rows(sb.federate(data, "iid", 4, seed=2)) != own_rows(one)


def test_pooled_rows_still_belong_to_the_parties_of_the_partition() -> None:
    federation = sb.federate(sb.load("digits"), "label-count(k=2)", 10, seed=0)
    assert own_rows(federation.pooled()) == own_rows(federation)


@pytest.mark.parametrize("parties", [5, 2])
def test_groups_decide_exactly_and_an_unknown_group_belongs_to_nobody(parties: int) -> None:
    data = numbered(5)
    federation = sb.federate(data, "by-group", parties, seed=0)
    groups, trained = data.test.groups["hospital"], data.train.groups["hospital"]
    for party, rows in enumerate(own_rows(federation)):
        hospitals = set(trained[federation.partition.rows[party]])
        assert rows == [row for row, group in enumerate(groups) if group in hospitals]
    assert "z" in groups
    assert sum(map(len, own_rows(federation))) == int((groups != "z").sum())


def test_groups_that_are_too_small_belong_to_nobody() -> None:
    data = numbered(5)
    sizes = np.unique(data.train.groups["hospital"], return_counts=True)
    least = int(np.sort(sizes[1])[1])  # leaves out the smallest group
    federation = sb.federate(data, f"by-group(min_size={least})", seed=0)
    smallest = sizes[0][int(sizes[1].argmin())]
    assert smallest not in federation.partition.names
    dealt = [row for rows in own_rows(federation) for row in rows]
    assert dealt
    assert smallest not in data.test.groups["hospital"][dealt]


def test_without_groups_among_the_test_rows_classes_decide() -> None:
    data = numbered(4)
    bare = Dataset("bare", data.train, Split(data.test.x, data.test.y), data.classes, "none")
    rows = own_rows(sb.federate(bare, "by-group", seed=0))
    assert sorted(row for each in rows for row in each) == list(range(len(bare.test)))


def test_octants() -> None:
    data = sb.load("fcube")
    federation = sb.federate(data, "octants", 4, seed=0)
    pairs = octant_pairs(data.test.x)
    assert own_rows(federation) == [np.flatnonzero(pairs == party).tolist() for party in range(4)]


def test_bins_of_a_numeric_target() -> None:
    data = numbered(4, task="regression")
    federation = sb.federate(data, "label-dirichlet(beta=0.3, min_size=1)", 4, seed=0)
    rows, bins = own_rows(federation), data.bins.codes(data.test.y)
    assert sorted(row for each in rows for row in each) == list(range(len(data.test)))
    held = np.array([np.bincount(data.codes[each], minlength=len(data.bins)) for each in federation.partition.rows])
    for code in np.unique(bins).tolist():
        dealt = [int((bins[each] == code).sum()) for each in rows]
        assert dealt == apportion(int((bins == code).sum()), held[:, code]).tolist()


def test_a_class_without_training_rows_belongs_to_nobody() -> None:
    x, y = np.zeros((8, 2), np.float32), np.array([0, 0, 0, 0, 1, 1, 1, 1])
    data = Dataset("made", Split(x, y), Split(x[:4], np.array([0, 1, 2, 2])), ("a", "b", "c"), "none")
    rows = own_rows(sb.federate(data, "iid", 2, seed=0))
    assert sorted(row for each in rows for row in each) == [0, 1]
