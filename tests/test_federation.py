"""Federations: parties are views of one array, and every row is seen once."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from silobench.data import Dataset, Split, digits, synthetic
from silobench.federation import as_input, federate

DIGITS = digits()


def test_parties_hold_the_rows_of_the_partition() -> None:
    federation = federate(DIGITS, "Dir(0.5)", 5, seed=3)
    for number, (party, rows) in enumerate(zip(federation.parties, federation.partition.rows, strict=True)):
        assert (party.id, party.name, party.samples) == (number, str(number), len(rows))
        np.testing.assert_array_equal(party.rows, rows)
        assert party.rows.dtype == torch.int64
        assert len(party.validation) == 0
        x, y = federation.batch(party.rows)
        np.testing.assert_array_equal(x, DIGITS.train.x[rows])
        np.testing.assert_array_equal(y, DIGITS.train.y[rows])


def test_a_federation_is_shown_in_one_line() -> None:
    text = "<Federation of digits: 10 parties with 143 to 144 training rows, seed 3>"
    assert repr(federate(DIGITS, "iid", 10, seed=3)) == text


def test_rows_are_in_memory_once() -> None:
    federation = federate(DIGITS, "iid", 5)
    assert federation.x.data_ptr() == DIGITS.train.x.ctypes.data
    assert federation.x is federation.x


def test_parties_of_groups_bear_their_names() -> None:
    dataset = synthetic(parties=4)
    assert [p.name for p in federate(dataset, "by-group").parties] == ["0", "1", "2", "3"]
    split = Split(np.zeros((4, 1), np.float32), np.array([0, 1, 0, 1]), {"site": np.array(["b", "a", "b", "c"])})
    hospitals = Dataset("hospitals", split, split, ("0", "1"), "none")
    assert [p.name for p in federate(hospitals, "by-group").parties] == ["a", "b", "c"]


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_validation_rows_are_a_share_of_each_party_set_aside(share: float) -> None:
    federation = federate(DIGITS, "q~Dir(0.5)", 6, seed=2, validation=share)
    for party, rows in zip(federation.parties, federation.partition.rows, strict=True):
        assert len(party.validation) == round(share * len(rows))
        assert party.samples == len(rows) - len(party.validation)
        both = torch.cat([party.rows, party.validation]).sort().values
        np.testing.assert_array_equal(both, rows)  # together they are the party, and none is in both
        assert bool((party.rows.diff() > 0).all())


def test_validation_rows_are_random_and_fixed_by_the_seed() -> None:
    one, two, other = (federate(DIGITS, "iid", 3, seed, 0.3) for seed in (0, 0, 1))
    aside = [f.parties[0].validation for f in (one, two, other)]
    np.testing.assert_array_equal(aside[0], aside[1])
    assert not np.array_equal(aside[0], aside[2])
    first = one.partition.rows[0][: len(aside[0])]
    assert not np.array_equal(aside[0], first)


def test_a_party_always_keeps_a_row_to_train_on() -> None:
    split = Split(np.zeros((4, 1), np.float32), np.array([0, 1, 0, 1]))
    federation = federate(Dataset("tiny", split, split, ("0", "1"), "none"), "iid", 4, validation=0.9)
    assert [(p.samples, len(p.validation)) for p in federation.parties] == [(1, 0)] * 4


@pytest.mark.parametrize("spec", ["Dir(0.5)", "noise(0.1)"])
def test_pooled_is_one_party_with_the_same_rows_noise_and_all(spec: str) -> None:
    federation = federate(DIGITS, spec, 5, seed=1, validation=0.2)
    pooled = federation.pooled()
    (party,) = pooled.parties
    for kind in ("rows", "validation"):
        expected = torch.cat([getattr(p, kind) for p in federation.parties])
        np.testing.assert_array_equal(np.sort(getattr(party, kind)), np.sort(expected))
    np.testing.assert_array_equal(pooled.x, federation.x)
    assert pooled.partition.fingerprint == federation.partition.fingerprint


def test_bytes_become_0_to_1() -> None:
    x = torch.tensor([[0, 51], [255, 102], [7, 7]], dtype=torch.uint8)
    taken = as_input(x, torch.tensor([1, 0]))
    assert taken.dtype == torch.float32
    torch.testing.assert_close(taken, torch.tensor([[1.0, 0.4], [0.0, 0.2]]))
    floats = torch.tensor([[300.0], [2.0]])
    torch.testing.assert_close(as_input(floats, torch.tensor([0])), floats[:1])


def _sparse(rows: int, columns: int) -> Any:
    return sparse.random(rows, columns, 0.2, format="csr", dtype=np.float32, random_state=0)


def test_csr_rows_become_a_sparse_tensor_of_the_same_values() -> None:
    x, rows = _sparse(30, 7), torch.tensor([29, 3, 3, 0])
    taken = as_input(x, rows)
    assert taken.layout == torch.sparse_csr
    assert taken.dtype == torch.float32
    np.testing.assert_array_equal(taken.to_dense(), x.toarray()[rows.numpy()])
    weight = torch.ones(7, 2)
    torch.testing.assert_close(taken @ weight, taken.to_dense() @ weight)


def test_a_sparse_federation_stays_sparse() -> None:
    split = Split(_sparse(40, 6), np.arange(40) % 2)
    federation = federate(Dataset("sparse", split, split, ("0", "1"), "none"), "iid", 4)
    assert sparse.issparse(federation.x)
    x, y = federation.batch(federation.parties[1].rows)
    np.testing.assert_array_equal(x.to_dense(), split.x.toarray()[federation.partition.rows[1]])
    np.testing.assert_array_equal(y, split.y[federation.partition.rows[1]])
    (batch,) = federation.test_batches()
    np.testing.assert_array_equal(batch[0].to_dense(), split.x.toarray())


@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 2500])
def test_test_batches_cover_the_test_set_once(size: int) -> None:
    train = Split(np.zeros((4, 1), np.float32), np.array([0, 1, 0, 1]))
    test = Split(np.arange(size, dtype=np.float32)[:, None], np.arange(size) % 2)
    federation = federate(Dataset("large", train, test, ("0", "1"), "none"), "iid", 2)
    for _ in range(2):  # as often as one asks
        batches = list(federation.test_batches())
        np.testing.assert_array_equal(torch.cat([x for x, _ in batches]), test.x)
        np.testing.assert_array_equal(torch.cat([y for _, y in batches]), test.y)
        assert all(len(x) == len(y) > 0 for x, y in batches)


def test_test_bytes_become_0_to_1() -> None:
    split = Split(np.full((3, 1, 2, 2), 255, np.uint8), np.array([0, 1, 0]))
    ((x, _),) = federate(Dataset("bytes", split, split, ("0", "1"), "none"), "iid", 2).test_batches()
    torch.testing.assert_close(x, torch.ones(3, 1, 2, 2))


def test_noise_is_the_same_for_any_validation_share() -> None:
    one, two = (federate(DIGITS, "noise(0.4)", 4, seed=1, validation=share) for share in (0.0, 0.3))
    np.testing.assert_array_equal(one.x, two.x)


@pytest.mark.parametrize(("dense", "numbers", "rows"), [(False, 2, 8000), (True, 300, 1747)])
def test_batches_of_tests_are_as_large_as_their_rows_are_small(dense: bool, numbers: int, rows: int) -> None:
    x = sparse.csr_matrix((np.ones(40_000, np.float32), (np.arange(40_000) // 2, np.arange(40_000) % 300)))
    split = Split(x.toarray() if dense else x, np.arange(20_000) % 2)
    federation = federate(Dataset("wide", split, split, ("a", "b"), "none"), "iid", 2)
    assert federation.numbers_per_row == numbers
    assert {len(part.rows) for part in federation.test_parts()} == {rows, 20_000 % rows}
    assert torch.equal(torch.cat([part.rows for part in federation.test_parts()]), torch.arange(20_000))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_rows_of_tests_are_the_same_taken_as_a_piece_or_one_by_one(share: float) -> None:
    federation = federate(DIGITS, "iid", 2)
    for part in federation.test_parts(share):
        x, y = federation.part(part)
        assert torch.equal(x, torch.from_numpy(DIGITS.test.x[part.rows.numpy()]))
        assert torch.equal(y, torch.from_numpy(DIGITS.test.y[part.rows.numpy()]))
