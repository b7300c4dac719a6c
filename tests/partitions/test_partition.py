"""Partitions: every row in exactly one party, the skew that was asked for, and measures that tell the truth."""

import importlib
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import wasserstein_distance

from silobench.data import Dataset, Split, digits, fcube, synthetic
from silobench.errors import PartitionError, SilobenchError, SpecError
from silobench.federation import federate
from silobench.partitions import PARTITIONS, Partition, measure, partition
from silobench.partitions.measures import emd, emd_weighted, feature_shift, gini, jensen_shannon, wasserstein
from silobench.partitions.skew import apportion
from silobench.rng import stream

DIGITS = digits()
SPECS = [
    "iid",
    "label-count(k=1)",
    "label-count(k=2)",
    "label-dirichlet(beta=0.5)",
    "label-dirichlet(beta=0.05, balance=False, min_size=1)",
    "label-dirichlet(beta=0.3, min_size=0)",
    "label-pair",
    "label-pair(major=0.5)",
    "label-percent(percent=40)",
    "label-percent(percent=100)",
    "shards",
    "shards(per_party=1)",
    "target-emd(emd=0.5)",
    "target-emd(emd=1)",
    "like(reference={reference})",
    "quantity-dirichlet(beta=0.5)",
    "quantity-dirichlet(beta=0.1, min_size=1)",
    "quantity-dirichlet(beta=0.5, min_size=1, stratified=true)",
    "quantity-power-law",
    "quantity-power-law(alpha=0.4)",
    "quantity-power-law(exponent=2, min_size=0)",
    "noise(sigma=0.1)",
    "octants",
    "by-group",
    "by-group(level=region)",
    "label-count(k=2) + noise(sigma=0.1)",
    "label-dirichlet(beta=0.5) + quantity-dirichlet(beta=1, min_size=1)",
    "label-count(k=2) + quantity-power-law + noise(sigma=0.1, as=std, test=noisy)",
    "label-dirichlet(beta=0.5, min_size=1) + quantity-power-law",
    "label-count(k=2) + quantity-dirichlet(beta=0.5, min_size=1, stratified=true)",
    "noise(sigma=0.1) + quantity-dirichlet(beta=0.5, min_size=1)",
    "label-dirichlet(beta=0.5) + share(beta=0)",
    "share(beta=0)",
]

EARLIER = json.loads(Path(__file__).with_name("fingerprints.json").read_text("utf-8"))  # by spec


def toy(labels: Any, seed: int = 0) -> Dataset:
    """Any labels, with points in 3 dimensions and two levels of groups."""
    y = np.asarray(labels, dtype=np.int64)
    rng = np.random.default_rng(seed)
    groups = {
        "site": rng.integers(0, 8, len(y)),
        "region": np.array(["n", "s", "w", "e", "é"])[rng.integers(0, 5, len(y))],
    }
    split = Split(rng.uniform(-1, 1, (len(y), 3)).astype(np.float32), y, groups)
    return Dataset("toy", split, split, tuple(map(str, range(int(y.max()) + 1))), "none")


def sizes(cut: Partition) -> list[int]:
    return [len(rows) for rows in cut.rows]


def table(cut: Partition, dataset: Dataset) -> np.ndarray:
    return np.array(measure(cut, dataset).counts)


def refusal(call: Callable[[], Any], *fragments: str, kind: type[SilobenchError] = PartitionError) -> None:
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert [part for part in fragments if part not in message] == []


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("like") / "counts.csv"
    rng = np.random.default_rng(0)
    path.write_text("\n".join(",".join(map(str, rng.integers(0, 50, 6))) for _ in range(40)))
    return str(path)


BALANCED = toy(np.arange(400) % 4)

# --- laws of all partitions --------------------------------------------------------------------------


@st.composite
def labels(draw: st.DrawFn) -> list[int]:
    """1 to 6 classes in any sizes, some of them tiny or empty."""
    counts = draw(st.lists(st.integers(0, 4) | st.integers(0, 60), min_size=1, max_size=6).filter(any))
    return draw(st.randoms(use_true_random=False)).sample(
        y := [k for k, n in enumerate(counts) for _ in range(n)], len(y)
    )


@pytest.mark.parametrize("spec", SPECS)
@settings(max_examples=15, deadline=None)
@given(y=labels(), parties=st.integers(1, 12), seed=st.integers(0, 2**32))
def test_every_row_is_in_exactly_one_party_or_the_cut_is_refused(
    spec: str, reference: str, y: list[int], parties: int, seed: int
) -> None:
    try:
        cut = partition(toy(y), spec.format(reference=reference), parties, seed)
    except PartitionError:
        return
    assert len(cut) == parties
    np.testing.assert_array_equal(np.sort(np.concatenate(cut.rows)), np.arange(len(y)))
    assert all(len(rows) > 0 and (np.diff(rows) > 0).all() for rows in cut.rows)
    assert len(cut.noise) in (0, parties)


@pytest.mark.parametrize("spec", SPECS)
def test_ordinary_data_are_cut_the_same_for_the_same_seed_only(spec: str, reference: str) -> None:
    spec = spec.format(reference=reference)
    first, again, *others = (partition(BALANCED, spec, 4, seed) for seed in (0, 0, 1, 2))
    assert sum(sizes(first)) == 400
    assert first.fingerprint == again.fingerprint
    different = {cut.fingerprint for cut in others} - {first.fingerprint}
    nothing_to_draw = spec in ("octants", "label-count(k=1)", "label-percent(percent=100)")
    assert len(different) == (0 if nothing_to_draw else 2)


def test_every_registered_partition_is_tested() -> None:
    assert {spec.split("(")[0].split(" ")[0] for spec in SPECS} == set(PARTITIONS.factories) - {"columns"}


@pytest.mark.parametrize("spec", EARLIER)
def test_rows_are_dealt_as_in_earlier_versions(spec: str, reference: str) -> None:
    """The same seed must bring back the parties of a stored run: a fingerprint only changes under another spec."""
    dataset = toy(np.random.default_rng(1).integers(0, 4, 600))
    assert partition(dataset, spec.format(reference=reference), 4, 3).fingerprint == EARLIER[spec]


@pytest.mark.parametrize(
    ("spec", "same"),
    [
        ("Dir(0.5)", "label-dirichlet(beta=0.5)"),
        ("#C=2", "label_count(k=2)"),
        ("q~Dir(0.5)", "quantity-dirichlet(beta=0.5)"),
        ("Gau(0.1)", "noise(sigma=0.1)"),
        ("Dir(0.5)+Gau(0.1)", "label-dirichlet(0.5) + noise(0.1)"),
        ("label-percent(0)", "iid"),
    ],
)
def test_the_fingerprint_is_of_the_rows_and_not_of_the_words(spec: str, same: str) -> None:
    assert partition(BALANCED, spec, 4, 3).fingerprint == partition(BALANCED, same, 4, 3).fingerprint


def test_the_fingerprint_depends_on_rows_noise_and_test_noise() -> None:
    a, b = np.arange(3), np.arange(3, 5)
    cuts = [Partition((a, b)), Partition((b, a)), Partition((a, b), (0.1, 0.2)), Partition((a, b), (0.1, 0.2), True)]
    assert len({cut.fingerprint for cut in cuts}) == 4
    assert Partition((a[::-1].copy(), b)).fingerprint == cuts[0].fingerprint


@pytest.mark.parametrize("parties", [0, -1, 401])
def test_parties_must_be_between_one_and_the_rows(parties: int) -> None:
    refusal(lambda: partition(BALANCED, "iid", parties), "1 to 400")


@pytest.mark.parametrize(("spec", "parties"), [("iid", 10), ("by-group(level=region)", 5), ("octants", 4)])
def test_without_a_number_of_parties_the_data_decide(spec: str, parties: int) -> None:
    assert len(partition(BALANCED, spec)) == len(partition(BALANCED, f"{spec} + noise(0.1)")) == parties


# --- label skew --------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_label_count_gives_every_party_k_classes_split_equally(data: st.DataObject) -> None:
    classes = data.draw(st.integers(1, 6))
    k = data.draw(st.integers(1, classes))
    parties = data.draw(st.integers(-(-classes // k), 12))
    counts = data.draw(st.lists(st.integers(12, 40), min_size=classes, max_size=classes))
    dataset = toy(np.repeat(np.arange(classes), counts))
    held = table(partition(dataset, f"#C={k}", parties, data.draw(st.integers(0, 99))), dataset)
    assert (held.sum(0) == counts).all()
    assert ((held > 0).sum(1) == k).all()
    assert all(held[party, party % classes] > 0 for party in range(parties))
    assert all(np.ptp(column[column > 0]) <= 1 for column in held.T)


@pytest.mark.parametrize(
    ("spec", "parties", "fragment"),
    [
        ("label-count(k=5)", 10, "take k <= 4"),
        ("label-count(k=1)", 3, "rows would be lost"),
        ("label-count(k=4)", 101, "has only 100 rows"),
    ],
)
def test_label_counts_the_data_cannot_give_are_refused(spec: str, parties: int, fragment: str) -> None:
    refusal(lambda: partition(BALANCED, spec, parties), fragment)


@pytest.mark.parametrize("balance", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_label_dirichlet_honours_min_size(balance: bool, seed: int) -> None:
    spec = f"label-dirichlet(beta=0.2, balance={balance}, min_size=40)"
    assert min(sizes(partition(DIGITS, spec, 10, seed))) >= 40


@pytest.mark.parametrize("seed", range(4))
def test_balance_makes_the_sizes_of_label_dirichlet_more_equal(seed: int) -> None:
    even, free = (partition(DIGITS, f"label-dirichlet(0.5, balance={b})", 10, seed) for b in (True, False))
    assert gini(np.array(sizes(even))) < gini(np.array(sizes(free)))


@pytest.mark.parametrize("spec", ["Dir(0.5, min_size=41)", "q~Dir(0.5, min_size=41)", "Dir(1e-9)", "q~Dir(1e-9)"])
def test_an_impossible_min_size_fails_fast(spec: str) -> None:
    start = time.process_time()
    refusal(lambda: partition(toy(np.arange(400) % 4), spec, 10), "min_size")
    assert time.process_time() - start < 5


@pytest.mark.parametrize("beta", ["1e3", "1e6", "1e300", "1e308"])
@pytest.mark.parametrize("balance", [True, False])
def test_label_dirichlet_of_a_large_beta_is_nearly_iid(beta: str, balance: bool) -> None:
    skew = measure(partition(DIGITS, f"label-dirichlet({beta}, balance={balance})", 10), DIGITS)
    assert skew.emd_weighted < 0.15
    assert skew.gini < 0.05


@pytest.mark.parametrize("beta", ["1e6", "1e308"])
def test_quantity_dirichlet_of_a_large_beta_is_nearly_equal(beta: str) -> None:
    assert np.ptp(sizes(partition(DIGITS, f"q~Dir({beta})", 10))) <= 5


def test_label_dirichlet_is_more_skewed_for_a_smaller_beta() -> None:
    skews = [measure(partition(DIGITS, f"Dir({b})", 10), DIGITS).emd_weighted for b in (0.1, 0.5, 5.0, 100.0)]
    assert skews == sorted(skews, reverse=True)


def test_label_percent_of_100_gives_every_class_to_one_party() -> None:
    held = table(partition(DIGITS, "label-percent(100)", 5), DIGITS)
    np.testing.assert_array_equal(held > 0, [[k % 5 == party for k in range(10)] for party in range(5)])


def test_label_percent_deals_that_share_by_label() -> None:
    held = table(partition(DIGITS, "label-percent(40)", 10), DIGITS)
    own = np.trace(held) / held.sum()
    assert own == pytest.approx(0.4 + 0.6 / 10, abs=0.03)


def test_label_pair_gives_most_of_a_class_and_the_rest_of_the_next() -> None:
    dataset = toy(np.repeat(np.arange(10), 50))
    held = table(partition(dataset, "label-pair", 10), dataset)
    np.testing.assert_array_equal(held, 40 * np.eye(10) + 10 * np.roll(np.eye(10), 1, axis=1))
    assert measure(partition(dataset, "label-pair", 10), dataset).emd == pytest.approx([2 * (1 - 2 / 10)] * 10)


def test_parties_with_the_same_major_class_share_it() -> None:
    dataset = toy(np.repeat(np.arange(10), 100))
    for parties in (20, 50):
        held = table(partition(dataset, "label-pair(major=0.7)", parties), dataset)
        assert (held.sum(1) == 1000 // parties).all()
        own = held[np.arange(parties), np.arange(parties) % 10]
        assert (own * parties == 700).all()
    uneven = table(partition(dataset, "label-pair", 13), dataset)
    assert ((uneven > 0).sum(1) == 2).all()
    assert (uneven[[0, 10], 0] == [44, 45]).all() or (uneven[[0, 10], 0] == [45, 44]).all()  # of .8 : .8 : .2


def test_label_pair_of_a_whole_class_is_one_class_a_party() -> None:
    cuts = [partition(DIGITS, spec, 10).fingerprint for spec in ("label-pair(major=1)", "#C=1")]
    assert cuts[0] == cuts[1]


def test_label_pair_refuses_to_lose_a_class() -> None:
    refusal(lambda: partition(DIGITS, "label-pair", 5), "label-pair(major=0.8) over 5 parties", "at least 10 parties")
    refusal(lambda: partition(toy([0, 2, 2]), "label-pair", 3), "party 1 without rows")
    refusal(lambda: partition(DIGITS, "label-pair(major=0.3)", 10), "major", kind=SpecError)


def test_shards_deal_runs_of_the_sorted_labels() -> None:
    dataset = toy(np.arange(400) % 10)
    cut = partition(dataset, "shards(per_party=2)", 20)
    held = table(cut, dataset)
    assert sizes(cut) == [20] * 20
    assert ((held > 0).sum(1) <= 2).all()
    np.testing.assert_array_equal(table(partition(dataset, "shards(per_party=1)", 10), dataset).max(1), [40] * 10)


@pytest.mark.parametrize("per_party", [500, 10**12])
def test_more_shards_than_rows_are_refused_at_once(per_party: int) -> None:
    refusal(lambda: partition(toy([0, 1] * 10), f"shards(per_party={per_party})", 20), "shards")


@pytest.mark.parametrize("target", [0, 0.36, 0.72, 1.08, 1.44, 1.62, 1.764, 1.8])
@pytest.mark.parametrize("seed", range(3))
def test_target_emd_hits_its_target(target: float, seed: int) -> None:
    held = table(partition(DIGITS, f"target-emd({target})", 10, seed), DIGITS)
    assert emd_weighted(held) == pytest.approx(target, abs=0.02)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("target", [0.2, 0.55, 0.9, 1.25])
def test_target_emd_is_found_by_halving(target: float, seed: int) -> None:
    """One row of 5,000 moves the distance by 0.0004, so that the search can end where it means to: within 0.005."""
    dataset = toy(np.arange(5000) % 10)
    assert abs(emd_weighted(table(partition(dataset, f"target-emd({target})", 10, seed), dataset)) - target) < 0.005


def test_the_largest_emd_is_one_class_per_party() -> None:
    """A target that is 0.003 below the largest one means it too."""
    dataset = toy(np.arange(400) % 10)
    held = table(partition(dataset, "target-emd(1.797)", 10), dataset)
    assert (held > 0).sum(1).tolist() == [1] * 10
    assert emd_weighted(held) == pytest.approx(1.8)


def test_dirichlet_parties_have_ten_rows_unless_stated() -> None:
    """NIID-Bench draws again until every party has ten."""
    refusal(
        lambda: partition(toy(np.arange(39) % 3), "label-dirichlet(0.5)", 4), "at least 10 rows in each of 4 parties"
    )
    assert sum(sizes(partition(toy(np.arange(39) % 3), "label-dirichlet(100, min_size=9)", 4))) == 39


def test_target_emd_draws_another_distribution_for_another_seed() -> None:
    held = [table(partition(DIGITS, "target-emd(1.08)", 10, seed), DIGITS).tolist() for seed in range(3)]
    assert held[0] != held[1] != held[2]


@pytest.mark.parametrize(("target", "parties"), [(2, 10), (1.9, 10), (1.8, 3), (0.5, 1)])
def test_an_emd_that_cannot_be_is_refused(target: float, parties: int) -> None:
    refusal(lambda: partition(DIGITS, f"target-emd({target})", parties), "cannot be reached")


# --- like --------------------------------------------------------------------------------------------

TWO = toy([0] * 40 + [1] * 40)


@pytest.mark.parametrize(
    "text",
    [
        "1,1\n2,1\n1,2\n",
        "\ufeff1,1\r\n2,1\r\n\r\n1,2\r\n",
        "cat,dog\n1,1\n2,1\n1,2\n",
        "party,cat,dog\n0,1,1\n1,2,1\n2,1,2\n",
        "party,cat,dog\nnorth,1,1\nsouth,2,1\nwest,1,2\n",
        ",cat,dog\nnorth,1,1\nsouth,2,1\nwest,1,2\n",
        "party,0,1\n0,1,1\n1,2,1\n2,1,2\n",
        "party,0,1\nnorth,1,1\nsouth,2,1\nwest,1,2\n",
        "hospital,cat,dog\nnorth,1,1\nsouth,2,1\nwest,1,2\n",
    ],
)
def test_like_deals_each_class_in_the_proportions_of_the_reference(tmp_path: Path, text: str) -> None:
    path = tmp_path / "counts.csv"
    path.write_bytes(text.encode())
    held = table(partition(TWO, f"like(reference='{path}')", 3), TWO)
    assert sorted(map(tuple, held.tolist())) == [(10, 10), (10, 20), (20, 10)]


@pytest.mark.parametrize(
    "text",
    [
        *("", "\n", "a,b\n", "1,2\n3\n", "1,nan\n1,2\n", "1,-1\n2,2\n", "1,x\n2,2\n", "1,2\n", "1\n2\n", "1,0\n1,0\n"),
        pytest.param("x" * 200_000 + ",1\n", id="a cell of 200,000 letters"),
    ],
)
def test_a_reference_that_is_no_table_of_counts_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "counts.csv"
    path.write_text(text)
    refusal(lambda: partition(TWO, f"like(reference='{path}')", 2))


def test_parties_without_counts_are_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("party\na\nb\n")
    with pytest.raises(PartitionError, match="must contain counts >= 0, one line per party, all equally long"):
        partition(TWO, f"like(reference='{path}')", 2)


def test_like_takes_the_groups_of_a_dataset_and_its_most_frequent_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Class 2 of the reference is rare, so its classes 0 and 1 stand for ours; west has none of class 1."""
    kinds = {"north": [0, 1, 1, 2], "south": [0, 1, 1, 1], "west": [0, 0, 0]}
    y = np.array([label for labels in kinds.values() for label in labels])
    region = np.repeat(list(kinds), [4, 4, 3])
    x = np.zeros((len(y), 1), dtype=np.float32)
    both = Split(x, y, {"region": region, "half": np.repeat(["a", "b"], [8, 3])})
    reference = Dataset("r", both, both, ("p", "q", "r"), "none")
    known = {"somewhere": reference, "digits": DIGITS}
    monkeypatch.setattr(importlib.import_module("silobench.partitions.label"), "load", known.__getitem__)
    held = table(partition(TWO, "like(reference=somewhere)", 3), TWO)
    assert sorted(map(tuple, held.tolist())) == [(8, 16), (8, 24), (24, 0)]  # 40 rows as 1:1:3 and as 2:3:0
    halves = table(partition(TWO, "like(reference=somewhere, level=half)", 2), TWO)
    assert sorted(map(tuple, halves.tolist())) == [(16, 40), (24, 0)]
    refusal(lambda: partition(TWO, "like(reference=somewhere, level=haf)", 2), "half")
    refusal(lambda: partition(TWO, "like(reference=digits)", 2), "groups")


def test_like_prefers_lines_that_leave_no_class_without_a_holder(tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    path.write_text("".join(f"{int(i > 0)},{int(i == 0)}\n" for i in range(6)))
    for seed in range(8):
        held = table(partition(TWO, f"like(reference='{path}')", 2, seed), TWO)
        assert sorted(map(tuple, held.tolist())) == [(0, 40), (40, 0)]


def numeric(y: Any) -> Dataset:
    y = np.asarray(y, dtype=np.float32)
    split = Split(np.ones((len(y), 2), dtype=np.float32), y, {"town": np.repeat(["a", "b"], len(y) // 2)})
    return Dataset("n", split, split, (), "none", task="regression")


def test_numbers_as_labels_are_cut_by_their_quantile_bins() -> None:
    dataset = numeric(np.linspace(0, 1, 400))
    for spec in (
        "iid", "quantity-dirichlet(beta=5)", "noise(0.1)", "by-group", "#C=5", "#C=5 + quantity-dirichlet(beta=5)",
        "Dir(0.5)", "label-percent(50)", "shards(2)", "target-emd(0.5)", "#C=5 + share(beta=0.1)",
    ):  # fmt: skip
        skew = measure(partition(dataset, spec, 2), dataset)
        assert sum(skew.sizes) == 400 + (36 if "share" in spec else 0)
        assert len(skew.counts[0]) == 10
    bins_of_party = (np.array(measure(partition(dataset, "#C=5", 2), dataset).counts) > 0).sum(1)
    assert bins_of_party.tolist() == [5, 5]
    assert measure(partition(dataset, "by-group", 2), dataset).emd == [1, 1]


@pytest.mark.parametrize("spec", ["iid", "Dir(0.3)", "shards(1)", "quantity-dirichlet(beta=0.5)"])
@pytest.mark.parametrize("digits", [0, 1, 6])
def test_the_distance_of_numeric_targets_is_that_of_scipy(spec: str, digits: int) -> None:
    y = np.random.default_rng(1).gamma(2.0, 3.0, 500).round(digits) + 1900
    dataset = numeric(y)
    cut = partition(dataset, spec, 7, seed=2)
    whole = dataset.train.y.astype(np.float64)
    distances = [wasserstein_distance(whole[rows], whole) for rows in cut.rows]
    expected = np.average(distances, weights=[len(rows) for rows in cut.rows]) / whole.std()
    assert measure(cut, dataset).wasserstein == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_distances_of_numeric_targets_by_hand() -> None:
    halves = Partition((np.array([0, 1]), np.array([2, 3])))
    assert wasserstein(halves, np.array([0.0, 0.0, 3.0, 3.0])) == 1.0  # 1.5 of deviation 1.5, in both parties
    assert wasserstein(halves, np.array([5.0, 7.0, 5.0, 7.0])) == 0.0
    assert wasserstein(halves, np.full(4, 1e9)) == 0.0
    assert measure(partition(TWO, "iid", 2), TWO).wasserstein is None
    assert "wasserstein" not in measure(partition(TWO, "iid", 2), TWO).as_json()


def test_word_numbers_get_no_noise_and_shift_by_how_often_words_occur() -> None:
    words = np.array([[2, 2, 0], [2, 3, 0], [3, 3, 3], [4, 0, 0]], dtype=np.int32)
    split = Split(words, np.array([0, 1, 0, 1]))
    dataset = Dataset("w", split, split, ("a", "b"), "none", vocabulary=("<pad>", "<unk>", "x", "y", "z"))
    refusal(lambda: partition(dataset, "noise(0.1)", 2), "words")
    bags = np.array([[0, 0, 2, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 3, 0], [0, 0, 0, 0, 1]], dtype=np.float32)
    cut = Partition((np.array([0, 1]), np.array([2, 3])))
    expected = feature_shift(cut, Split(bags, split.y))
    assert expected > 0
    assert measure(cut, dataset).feature_shift == pytest.approx(expected)


def test_a_missing_reference_is_refused(tmp_path: Path) -> None:
    refusal(lambda: partition(TWO, f"like(reference='{tmp_path / 'nowhere'}')", 2), "nowhere")
    refusal(lambda: partition(TWO, f"like(reference='{tmp_path}')", 2), str(tmp_path))


# --- quantity skew -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_quantity_dirichlet_changes_sizes_and_not_labels(seed: int) -> None:
    skew = measure(partition(DIGITS, "q~Dir(0.5, min_size=20)", 5, seed), DIGITS)
    assert sum(skew.sizes) == 1438
    assert min(skew.sizes) >= 20
    assert skew.gini > 0.1
    assert skew.emd_weighted < 0.3


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [(0, [100, 100, 100, 100]), (1, [192, 96, 64, 48]), (2, [281, 70, 31, 18])],
)
def test_power_law_sizes_are_the_shares_computed_by_hand(exponent: float, expected: list[int]) -> None:
    cut = partition(BALANCED, f"quantity-power-law({exponent})", 4)
    assert sorted(sizes(cut), reverse=True) == expected


@settings(max_examples=40, deadline=None)
@given(y=labels(), parties=st.integers(1, 6), beta=st.sampled_from([0.2, 1.0, 1e6]), seed=st.integers(0, 99))
def test_stratified_shares_are_equal_in_every_class(y: list[int], parties: int, beta: float, seed: int) -> None:
    """The largest remainder method is off by less than a row, so two shares of a class bound the party's share."""
    try:
        cut = partition(toy(y), f"q~Dir({beta}, min_size=0, stratified=true)", parties, seed)
    except PartitionError:
        return
    counts, total = table(cut, toy(y)).astype(float), np.bincount(y)
    held = total > 0
    low, high = (counts[:, held] - 1) / total[held], (counts[:, held] + 1) / total[held]
    assert (low.max(1) < high.min(1) + 1e-12).all()  # one share per party fits all classes


@pytest.mark.parametrize("seed", range(3))
def test_stratified_parties_have_the_labels_of_all(seed: int) -> None:
    spec = "q~Dir(0.5, min_size=20, stratified={})"
    loose, strict = (measure(partition(DIGITS, spec.format(flag), 5, seed), DIGITS) for flag in ("false", "true"))
    assert strict.gini > 0.1
    smallest = min(strict.sizes)
    assert strict.emd_weighted < loose.emd_weighted
    assert max(strict.emd) <= 10 * 2 / smallest  # ten classes, each off by less than a row, before and after scaling


def test_new_arguments_leave_earlier_specs_as_they_were() -> None:
    plain, off, on = (
        PARTITIONS.bind(spec) for spec in ("q~Dir(0.5)", "q~Dir(0.5, stratified=false)", "q~Dir(0.5, stratified=true)")
    )
    assert str(plain.full) == str(off.full) == "quantity-dirichlet(beta=0.5, min_size=10)"
    assert str(on.short) == "quantity-dirichlet(beta=0.5, stratified=True)"
    assert str(PARTITIONS.bind("quantity-power-law").full) == "quantity-power-law(exponent=1.0, min_size=1)"


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [(1, [100, 100, 100, 100]), (0.5, [144, 101, 83, 72]), (2, [40, 80, 120, 160])],
)
def test_oarf_power_law_sizes_are_the_shares_computed_by_hand_in_order(alpha: float, expected: list[int]) -> None:
    assert sizes(partition(BALANCED, f"quantity-power-law(alpha={alpha})", 4)) == expected


def test_a_power_law_has_one_parameter() -> None:
    refusal(lambda: partition(BALANCED, "quantity-power-law(2, alpha=0.5)", 4), "give one", kind=SpecError)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1000), st.lists(st.floats(0, 1e6), min_size=1, max_size=8).filter(lambda s: sum(s) > 1e-6))
def test_apportioned_numbers_add_up_and_are_off_by_less_than_one(total: int, shares: list[float]) -> None:
    counts = apportion(total, np.array(shares))
    assert counts.sum() == total
    assert np.abs(counts - total * np.array(shares) / sum(shares)).max() < 1 + 1e-9


def test_a_class_without_rows_needs_no_holder() -> None:
    dataset = toy([0] * 30 + [2] * 30)
    assert sum(sizes(partition(dataset, "iid + quantity-power-law", 3))) == 60


# --- feature skew ------------------------------------------------------------------------------------


def test_noise_variance_grows_in_equal_steps() -> None:
    cut = partition(DIGITS, "noise(0.4)", 4)
    np.testing.assert_allclose(cut.noise, [math.sqrt(0.4 * i / 4) for i in (1, 2, 3, 4)])
    assert not cut.noisy_test
    assert np.ptp(sizes(cut)) <= 1


def test_noise_as_std_grows_from_none() -> None:
    cut = partition(DIGITS, "noise(0.4, as=std, test=noisy)", 5)
    np.testing.assert_allclose(cut.noise, [0.4 * i / 4 for i in range(5)])
    assert cut.noisy_test
    assert partition(DIGITS, "noise(0.4, as=std)", 1).noise == (0.0,)


@pytest.mark.parametrize("spec", ["noise(0.4)", "noise(0.4, as=std)", "Dir(0.5) + noise(0.4)"])
def test_features_carry_the_noise_of_their_party(spec: str) -> None:
    federation = federate(DIGITS, spec, 4, seed=1)
    added = federation.x.numpy() - DIGITS.train.x
    for rows, deviation in zip(federation.partition.rows, federation.partition.noise, strict=True):
        assert added[rows].std() == pytest.approx(deviation, rel=0.05, abs=1e-7)
        assert abs(added[rows].mean()) <= 0.05 * deviation
    assert len(np.unique(added[federation.partition.rows[3]][:, 0, 0, 0])) > 100


def test_noise_is_fixed_for_a_seed_and_clean_data_stay_clean() -> None:
    before = DIGITS.train.x.copy()
    one, two, other = (federate(DIGITS, "noise(0.4)", 4, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.x, two.x)
    np.testing.assert_array_equal(one.batch(one.parties[2].rows)[0], one.x[one.parties[2].rows])
    assert not np.array_equal(one.x, other.x)
    np.testing.assert_array_equal(DIGITS.train.x, before)


def test_the_test_set_is_clean_unless_test_is_noisy() -> None:
    clean = np.concatenate([x.numpy() for x, _ in federate(DIGITS, "noise(0.4)", 4).test_batches()])
    np.testing.assert_array_equal(clean, DIGITS.test.x)
    federation = federate(DIGITS, "noise(0.4, test=noisy)", 4)
    batches = list(federation.test_batches())
    added = np.concatenate([x.numpy() for x, _ in batches]).reshape(4, *DIGITS.test.x.shape) - DIGITS.test.x
    np.testing.assert_array_equal(np.concatenate([y for _, y in batches]), np.tile(DIGITS.test.y, 4))
    np.testing.assert_allclose(added.std((1, 2, 3, 4)), federation.partition.noise, rtol=0.05)
    assert np.abs(np.corrcoef(added.reshape(4, -1)) - np.eye(4)).max() < 0.05
    trained = (federation.x.numpy() - DIGITS.train.x)[federation.partition.rows[3]][:300]
    assert abs(np.corrcoef(trained.ravel(), added[3][:300].ravel())[0, 1]) < 0.05  # other noise than in training


def test_noise_on_bytes_is_on_their_0_to_1_scale() -> None:
    pixels = Split((DIGITS.train.x * 255).round().astype(np.uint8), DIGITS.train.y)
    federation = federate(Dataset("bytes", pixels, pixels, DIGITS.classes, "none"), "noise(0.4)", 2)
    added = federation.x.numpy() - pixels.x.astype(np.float32) / 255
    assert added[federation.partition.rows[1]].std() == pytest.approx(math.sqrt(0.4), rel=0.05)


def test_noise_on_sparse_rows_is_refused() -> None:
    split = Split(sparse.csr_matrix(np.eye(4, dtype=np.float32)), np.array([0, 1, 0, 1]))
    refusal(lambda: partition(Dataset("sparse", split, split, ("0", "1"), "none"), "noise(0.1)", 2), "sparse")


def test_octants_give_each_party_two_opposite_octants() -> None:
    cube = fcube()
    cut = partition(cube, "octants")
    assert sizes(cut) == [1000] * 4
    octant = (cube.train.x > 0) @ np.array([4, 2, 1])
    assert {tuple(np.unique(octant[rows])) for rows in cut.rows} == {(0, 7), (1, 6), (2, 5), (3, 4)}
    np.testing.assert_array_equal(table(cut, cube), np.full((4, 2), 500))


@pytest.mark.parametrize(("dataset", "parties"), [(BALANCED, 5), (DIGITS, 4)])
def test_octants_need_points_in_space_and_four_parties(dataset: Dataset, parties: int) -> None:
    refusal(lambda: partition(dataset, "octants", parties), "fcube")


# --- groups ------------------------------------------------------------------------------------------


def test_as_many_parties_as_groups_are_the_groups_and_bear_their_names() -> None:
    cut = partition(BALANCED, "by-group(level=region)", 5)
    assert cut.names == tuple(sorted(["n", "s", "w", "e", "é"]))
    for name, rows in zip(cut.names, cut.rows, strict=True):
        np.testing.assert_array_equal(rows, np.flatnonzero(BALANCED.train.groups["region"] == name))


@pytest.mark.parametrize("parties", [1, 2, 3, 5, 7])
def test_groups_stay_whole_and_are_dealt_equally(parties: int) -> None:
    cut = partition(BALANCED, "by-group", parties)  # the first level, with 8 sites
    held = [set(BALANCED.train.groups["site"][rows].tolist()) for rows in cut.rows]
    assert sum(map(len, held)) == len(set.union(*held)) == 8
    assert max(map(len, held)) - min(map(len, held)) <= 1
    assert cut.names == ()


def test_synthetic_parties_are_its_groups() -> None:
    dataset = synthetic(parties=6)
    assert sizes(partition(dataset, "by-group")) == np.bincount(dataset.train.groups["party"]).tolist()


@pytest.mark.parametrize(
    ("dataset", "spec", "parties", "fragment"),
    [
        (DIGITS, "by-group", None, "has none"),
        (DIGITS, "by-group", 3, "has none"),
        (BALANCED, "by-group", 9, "at most 8 parties"),
        (BALANCED, "by-group(level=regoin)", None, "did you mean region?"),
    ],
)
def test_groups_that_are_not_there_are_refused(dataset: Dataset, spec: str, parties: int | None, fragment: str) -> None:
    refusal(lambda: partition(dataset, spec, parties), fragment)


def test_small_groups_are_left_out_with_a_note() -> None:
    found, counts = np.unique(BALANCED.train.groups["region"], return_counts=True)
    least = int(np.sort(counts)[2])
    large = [name for name, count in zip(found.tolist(), counts, strict=True) if count >= least]
    cut = partition(BALANCED, f"by-group(level=region, min_size={least})")
    assert cut.names == tuple(large)
    for name, rows in zip(cut.names, cut.rows, strict=True):
        np.testing.assert_array_equal(rows, np.flatnonzero(BALANCED.train.groups["region"] == name))
    (note,) = cut.notes
    small = sorted(set(found.tolist()) - set(large))
    assert note == (
        f"{400 - sum(sizes(cut))} of 400 training rows are unused: groups with fewer than {least} were left out "
        f"({', '.join(small)})"
    )
    two = partition(BALANCED, f"by-group(level=region, min_size={least})", 2)
    assert sorted(np.concatenate(two.rows)) == sorted(np.concatenate(cut.rows))
    assert two.notes == cut.notes
    noisy = partition(BALANCED, f"by-group(level=region, min_size={least}) + noise(sigma=0.1)")
    assert noisy.notes == cut.notes


def test_where_all_groups_are_large_enough_nothing_changes() -> None:
    for parties in (3, 8):
        cuts = [partition(BALANCED, spec, parties) for spec in ("by-group", "by-group(min_size=2)")]
        assert cuts[0].fingerprint == cuts[1].fingerprint
        assert cuts[0].notes == cuts[1].notes == ()
    assert str(PARTITIONS.bind("by-group").full) == "by-group(level='')"


def test_too_large_a_size_of_groups_is_refused() -> None:
    refusal(lambda: partition(BALANCED, "by-group(min_size=401)"), "leaves out every group", "take a smaller min_size")
    refusal(lambda: partition(BALANCED, "by-group(level=region, min_size=84)", 5), "groups of at least 84 rows for 5")


# --- sums --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["iid", "Dir(0.5)", "#C=2", "by-group", "octants", "q~Dir(0.5)"])
def test_noise_after_a_skew_leaves_its_rows_and_names(first: str) -> None:
    alone, both = partition(BALANCED, first, 4, 5), partition(BALANCED, f"{first} + Gau(0.1)", 4, 5)
    assert [a.tolist() for a in alone.rows] == [b.tolist() for b in both.rows]
    assert (alone.names, alone.noise) == (both.names, ())
    np.testing.assert_allclose(both.noise, np.sqrt(0.1 * np.arange(1, 5) / 4))


@pytest.mark.parametrize("second", ["q~Dir(0.5, min_size=1)", "quantity-power-law"])
def test_quantity_after_label_skew_gives_no_party_a_class_it_did_not_hold(second: str) -> None:
    alone, both = (table(partition(DIGITS, s, 10, 5), DIGITS) for s in ("#C=2", f"#C=2 + {second}"))
    assert (alone[both > 0] > 0).all()
    np.testing.assert_array_equal(alone.sum(0), both.sum(0))
    assert gini(both.sum(1)) > gini(alone.sum(1)) + 0.1


@pytest.mark.parametrize("spec", ["noise(0.1) + iid", "iid + #C=2", "q~Dir(0.5) + Dir(0.5)", "iid + by-group"])
def test_only_noise_and_quantity_can_stand_after_a_plus(spec: str) -> None:
    refusal(lambda: partition(BALANCED, spec, 4), "put the label or group skew first")


@pytest.mark.parametrize("spec", ["iid | noise(0.1)", "iid +", "+ iid", "iid + nois(0.1)", "", "iid iid"])
def test_a_sum_that_cannot_be_read_is_a_spec_error(spec: str) -> None:
    refusal(lambda: partition(BALANCED, spec, 4), kind=SpecError)


# --- measures ----------------------------------------------------------------------------------------

TABLES = st.integers(1, 5).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 30), min_size=k, max_size=k).filter(any), min_size=1, max_size=6)
)


@settings(max_examples=60, deadline=None)
@given(TABLES)
def test_measures_agree_with_slow_sums_by_hand(rows: list[list[int]]) -> None:
    counts, total = np.array(rows), sum(map(sum, rows))
    whole = [sum(column) / total for column in zip(*rows, strict=True)]
    own = [[n / sum(row) for n in row] for row in rows]
    distances = [sum(abs(p - q) for p, q in zip(party, whole, strict=True)) for party in own]
    weights = [sum(row) / total for row in rows]
    divergence = [sum(p * math.log2(p / q) for p, q in zip(party, whole, strict=True) if p) for party in own]
    held = [sum(row) for row in rows]
    expected = sum(abs(a - b) for a in held for b in held) / (2 * len(held) * sum(held))
    np.testing.assert_allclose(emd(counts), distances, atol=1e-12)
    assert emd_weighted(counts) == pytest.approx(sum(w * d for w, d in zip(weights, distances, strict=True)))
    assert jensen_shannon(counts) == pytest.approx(
        sum(w * d for w, d in zip(weights, divergence, strict=True)), abs=1e-9
    )
    assert gini(counts.sum(1)) == pytest.approx(expected)


def test_extreme_skews_have_the_published_numbers() -> None:
    one_class_each = np.eye(10, dtype=np.int64) * 50
    np.testing.assert_allclose(emd(one_class_each), 1.8)
    assert jensen_shannon(one_class_each) == pytest.approx(math.log2(10))
    assert gini(one_class_each.sum(1)) == 0
    alike = np.full((4, 3), 7)
    assert (emd_weighted(alike), jensen_shannon(alike), gini(alike.sum(1))) == (0, 0, 0)
    assert gini(np.array([0, 0, 0, 9])) == 0.75


def test_counts_and_sizes_are_those_of_the_rows() -> None:
    cut = partition(DIGITS, "Dir(0.3)", 7)
    skew = measure(cut, DIGITS)
    slow = [[sum(DIGITS.train.y[row] == label for row in rows) for label in range(10)] for rows in cut.rows]
    assert skew.counts == slow
    assert skew.sizes == sizes(cut) == [sum(row) for row in slow]
    np.testing.assert_allclose(skew.emd, emd(np.array(slow)))
    assert set(skew.as_json()) >= {"sizes", "counts", "emd", "emd_weighted"}
    whole = np.mean(np.eye(10)[DIGITS.train.y], axis=0)
    sets = [[k for k in range(10) if bits >> k & 1] for bits in range(2**10)]
    best = [max(sum(row[k] / sum(row) - whole[k] for k in event) for event in sets) for row in slow]  # by definition
    assert skew.total_variation == skew.as_json()["total_variation"]
    assert skew.total_variation == pytest.approx(np.average(best, weights=skew.sizes))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_feature_shift_is_the_spread_of_means_in_standard_deviations(form: Callable[[Any], Any]) -> None:
    x = np.array(
        [[0, 1, 5], [2, 1, 5], [0, 4, 5], [2, 4, 5]], dtype=np.float32
    )  # columns: no shift, all shift, constant
    split = Split(form(x), np.array([0, 1, 0, 1]))
    cut = Partition((np.array([0, 1]), np.array([2, 3])))
    assert feature_shift(cut, split) == pytest.approx(math.sqrt((0 + 1) / 2))
    noisy = Partition(cut.rows, noise=(0.5, 1.0))
    assert feature_shift(noisy, split) == pytest.approx(math.sqrt(1 / 2) + 0.75 / np.mean([1, 1.5]))


@pytest.mark.parametrize("unit", [1e-5, 1.0, 1e5])
def test_feature_shift_of_one_feature_by_hand(unit: float) -> None:
    """The variance of all rows is 5, that of the two means is 4."""
    split = Split(unit * np.array([[1.0], [3.0], [5.0], [7.0]]), np.array([0, 1, 0, 1]))
    cut = Partition((np.array([0, 1]), np.array([2, 3])))
    assert feature_shift(cut, split) == pytest.approx(math.sqrt(4 / 5))


def test_feature_shift_does_not_depend_on_the_unit_of_the_pixels() -> None:
    cut = partition(DIGITS, "#C=2 + noise(0.1)", 10)
    unit = (DIGITS.train.x + 1) / 2
    pixels = Split((unit * 255).round().astype(np.uint8), DIGITS.train.y)
    assert feature_shift(cut, pixels) == pytest.approx(feature_shift(cut, Split(unit, DIGITS.train.y)), rel=0.01)


def test_a_random_split_has_next_to_no_skew() -> None:
    skew = measure(partition(DIGITS, "iid", 10), DIGITS)
    assert skew.feature_shift == pytest.approx(math.sqrt(10 / 1438), rel=0.2)
    assert skew.jensen_shannon < 0.05
    assert skew.gini < 0.01


def test_dirichlet_with_balance_against_a_slow_version_by_hand() -> None:
    """A full party gets nothing of the next class; the rest is cut by cumulative shares."""
    labels, parties = DIGITS.train.y, 7
    cut = partition(DIGITS, "label-dirichlet(beta=0.3, min_size=0)", parties, seed=5)
    rng = stream(5, "partition")
    for label in range(10):
        rng.permutation(np.flatnonzero(labels == label))  # the shuffles are drawn first
    held = [0] * parties
    for label in range(10):
        size = int((labels == label).sum())
        shares = [
            p if held[party] < len(labels) / parties else 0.0
            for party, p in enumerate(rng.dirichlet(np.full(parties, 0.3)))
        ]
        begin, total = 0, 0.0
        for party in range(parties):
            total += shares[party] / sum(shares)
            end = size if party == parties - 1 else int(total * size)
            assert int((labels[cut.rows[party]] == label).sum()) == end - begin
            held[party] += end - begin
            begin = end


@pytest.mark.parametrize("spec", ["by-group + q~Dir(0.5)", "octants + quantity-power-law"])
def test_quantity_does_not_move_rows_between_real_silos(spec: str) -> None:
    with pytest.raises(PartitionError, match="between real silos"):
        partition(fcube(), spec)


def test_quantity_after_a_label_skew_changes_sizes_and_keeps_who_holds_what() -> None:
    before, after = (measure(partition(DIGITS, spec, 10), DIGITS) for spec in ("Dir(0.1)", "Dir(0.1) + q~Dir(0.5)"))
    assert after.gini > before.gini + 0.1
    assert (np.array(after.counts) > 0)[np.array(before.counts) == 0].sum() == 0
    assert after.emd_weighted > 0.6 * before.emd_weighted


def test_two_noises_add_up_in_their_variances() -> None:
    one, two, both = (partition(DIGITS, s, 5).noise for s in ("Gau(0.1)", "Gau(0.3)", "Gau(0.1) + Gau(0.3)"))
    assert both == pytest.approx([math.hypot(a, b) for a, b in zip(one, two, strict=True)])
