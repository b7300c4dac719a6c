"""Federations of columns: joint inputs, baselines, test rows, and the check of the padding mask."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from silobench.data import Dataset, Split
from silobench.errors import ConfigError, PartitionError
from silobench.tasks.objectives import OBJECTIVES
from silobench.vertical.federation import VerticalFederation, federate_columns
from silobench.vertical.mask import mask_check
from vertical_cases import SEED, table

PARTIAL = "columns(by=block, overlap=0.7)"


def with_presence(federation: VerticalFederation, train: object, test: object) -> VerticalFederation:
    """Return a federation of two parties, of which the second has these rows."""
    deal = federation.deal
    train, test = (
        np.array([np.ones(len(known)), known], dtype=bool) for known in (np.asarray(train), np.asarray(test))
    )
    changed = replace(deal, train=train, test=test)
    return replace(federation, deal=changed, padding=changed)


def test_the_joint_input_has_zeros_and_flags() -> None:
    dataset = table()
    federation = federate_columns(dataset, PARTIAL, 3, SEED)
    deal, x = federation.deal, federation.x.numpy()
    assert x.shape == (100, 10 + 3)
    assert np.array_equal(x[:, 10:], deal.train.T)
    for columns, present in zip(deal.columns, deal.train, strict=True):
        assert np.array_equal(x[np.ix_(present, columns)], dataset.train.x[np.ix_(present, columns)])
        assert not x[np.ix_(~present, columns)].any()
    assert present.sum() == 70
    assert np.array_equal(federation.test_x[:, 10:].numpy(), deal.test.T)


def test_bytes_are_scaled() -> None:
    x = np.arange(24, dtype=np.uint8).reshape(4, 6)
    split = Split(x, np.array([0, 1, 0, 1]))
    federation = federate_columns(Dataset("bytes", split, split, ("a", "b")), "columns(by=block)", None, SEED)
    assert torch.equal(federation.x[:, :6], torch.from_numpy(x).float().div_(255))


def test_baselines_have_one_party_and_the_same_test_rows() -> None:
    federation = federate_columns(table(), PARTIAL, 3, SEED, validation=0.2)
    combined, solo = federation.combined(), federation.solo(2)
    assert [each.names for each in (combined, solo)] == [("combined",), ("party-2",)]
    assert combined.x.shape == solo.x.shape == (100, 11)
    assert torch.equal(combined.x[:, :10], federation.x[:, :10])
    assert torch.equal(combined.rows, federation.rows)
    present = torch.from_numpy(federation.deal.train[2])
    assert torch.equal(solo.rows, federation.rows[present[federation.rows]])
    assert torch.equal(solo.validation, federation.validation[present[federation.validation]])
    for each in (combined, solo):
        assert each.test_sets is federation.test_sets
    aligned = np.flatnonzero(federation.deal.test.all(0))
    assert federation.test_sets["aligned"].tolist() == aligned.tolist()
    assert set(federation.test_sets) == {"aligned", "all", "party party-0", "party party-1", "party party-2"}


def test_validation_rows_are_held_out_of_the_training_rows() -> None:
    federation = federate_columns(table(), "columns(by=block, overlap=0.5, absent=drop)", None, SEED, validation=0.2)
    both = torch.cat([federation.rows, federation.validation]).sort().values
    assert both.tolist() == np.flatnonzero(federation.deal.train.all(0)).tolist()
    assert len(federation.validation) == 10


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_mask_check_finds_presence_that_states_the_label(task: str) -> None:
    dataset = table(task=task)
    objective, federation = OBJECTIVES.build("auto")(dataset), federate_columns(dataset, "columns(by=block)", 2, SEED)
    assert mask_check(federation, objective) == {}
    middle = dataset.train.y.mean()
    leaking = with_presence(federation, dataset.train.y > middle, dataset.test.y > middle)
    check = mask_check(leaking, objective)
    if task == "classification":
        assert check["score"] == 1.0
        assert check["constant"] == np.mean(dataset.test.y == np.bincount(dataset.train.y).argmax())
    else:  # two answers in place of one
        lower, upper = (dataset.train.y[side].mean() for side in (dataset.train.y <= middle, dataset.train.y > middle))
        errors = np.abs(dataset.test.y - np.where(dataset.test.y > middle, upper, lower))
        assert check["score"] == pytest.approx(errors.mean(), rel=1e-6)
        assert check["constant"] == pytest.approx(np.abs(dataset.test.y - dataset.train.y.mean()).mean(), rel=1e-6)
    assert check["patterns"] == 2
    rows = np.arange(100)
    even = with_presence(federation, rows % 3 > 0, np.arange(40) % 3 > 0)
    y = np.resize([1, 1, 1, 0, 0, 0], 100) if task == "classification" else np.resize([2.0, 2.0, 2.0], 100)
    independent = replace(dataset, train=replace(dataset.train, y=y.astype(dataset.train.y.dtype)))
    check = mask_check(replace(even, dataset=independent, rows=torch.arange(96)), objective)
    assert check["score"] == check["constant"]


def test_the_mask_check_knows_any_number_of_parties() -> None:
    """Only the last of 70 parties lacks rows, and it lacks those of one class."""
    rng = np.random.default_rng(0)
    y = np.resize([0, 1], 40)
    split = Split(rng.standard_normal((40, 70)).astype(np.float32), y)
    federation = federate_columns(Dataset("wide", split, split, ("a", "b")), "columns(by=block)", 70, SEED)
    known = np.ones((70, 40), dtype=bool)
    known[-1] = y == 1
    deal = replace(federation.deal, train=known, test=known)
    check = mask_check(replace(federation, deal=deal, padding=deal), OBJECTIVES.build("auto")(federation.dataset))
    assert (check["score"], check["patterns"]) == (1.0, 2)


def test_facts_count_columns_and_their_features() -> None:
    federation = federate_columns(table(), "columns(by=[[user, job, year], [*]])", None, SEED)
    parties = federation.facts()["parties"]
    assert [(each["columns"], each["features"]) for each in parties.values()] == [(3, 4), (6, 6)]


def test_wrong_federations() -> None:
    with pytest.raises(ConfigError, match="iid deals rows, but columns are needed here"):
        federate_columns(table(), "iid", 2)
    with pytest.raises(ConfigError, match="is a sum"):
        federate_columns(table(), "columns(by=block) + noise(0.1)", 2)
    with pytest.raises(ConfigError, match=r"validation = 0.1 and a split with validation rows were both given"):
        federate_columns(replace(table(), validation=np.arange(5)), "columns(by=block)", 2, validation=0.1)
    words = replace(table(), vocabulary=("", "?", "a"), columns=())
    with pytest.raises(PartitionError, match="has texts as rows"):
        federate_columns(words, "columns(by=block)", 2)
    federation = federate_columns(table(), "columns(by=block, overlap=0.5)", 2, SEED)
    empty = replace(federation, rows=torch.from_numpy(np.flatnonzero(~federation.deal.train[1])))
    with pytest.raises(PartitionError, match="party-1 has no training row, so it cannot train by itself"):
        empty.solo(1)
