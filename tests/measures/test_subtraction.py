"""The measure subtraction: a party of two knows the other's update, whatever hides it from the server."""

from typing import Any

import pytest

from silobench.engines import inline
from silobench.errors import ConfigError
from silobench.runs.experiment import bind
from silobench.runs.prepare import prepare
from silobench.training.party import LocalRound
from silobench.training.state import RoundRecord

CHOICES = {
    "dataset": "breast-cancer", "model": "mlp(4)", "partition": "quantity-power-law", "algorithm": "fedavg",
    "solver": "sgd(lr=0.1, momentum=0.9, epochs=1, batch=32, keep_momentum=true)", "rounds": 2,
    "measure": "subtraction",
}  # fmt: skip


def records(tmp_path: Any, **choices: Any) -> list[RoundRecord]:
    return list(prepare(bind({**CHOICES, **choices})).records(inline(), tmp_path, None))


@pytest.mark.parametrize("chain", ["", "secure_sum(splits=2, range=16)"])
def test_one_of_two_parties_knows_the_others_update(chain: str, tmp_path: Any) -> None:
    first, last = records(tmp_path, parties=2, transforms=chain)
    assert not first.measures
    assert last.measures["subtraction"]["error"] < 2**-14  # a sum of integers is rounded to 2^-16 of the range at most
    assert last.measures["subtraction"]["parties"] == 2


def test_where_all_parties_count_the_same_one_of_two_knows_the_others_update(tmp_path: Any) -> None:
    """Noise on parties weighs updates alike, whatever their rows; here there is next to none of it."""
    noise = "clip(norm=1000) | gaussian_noise(multiplier=1e-12, reproducible=true)"
    _, last = records(tmp_path, parties=2, transforms=noise)
    assert last.measures["subtraction"]["error"] < 2**-14


@pytest.mark.parametrize("algorithm", ["fedper", "fedrep(head_epochs=1)"])
def test_what_stays_with_parties_is_no_part_of_an_update(algorithm: str, tmp_path: Any) -> None:
    _, last = records(tmp_path, parties=2, algorithm=algorithm)
    assert last.measures["subtraction"]["error"] < 2**-14  # a sum of two in single precision, with 2^-24 for each step


def test_one_of_three_knows_the_mean_of_two(tmp_path: Any) -> None:
    """By hand: the guess of the first party is the weighted mean of the other two."""
    (record,) = records(tmp_path, parties=3, rounds=1)
    setting = prepare(bind({**CHOICES, "parties": 3, "rounds": 1})).setting
    local = LocalRound(setting, setting.initial_server(), (0, 1, 2))
    updates = {party: local(party, {}).update for party in range(3)}
    errors = []
    for attacker in range(3):
        others = [updates[party] for party in range(3) if party != attacker]
        mean = sum(each.total["delta"] for each in others) / sum(each.weight for each in others)
        errors += [float((mean - each.mean()["delta"]).norm() / each.mean()["delta"].norm()) for each in others]
    assert record.measures["subtraction"]["error"] == pytest.approx(min(errors), rel=1e-3)
    assert min(errors) > 0.01


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        ({"server": "adam"}, "reads the mean of all"), ({"algorithm": "scaffold"}, "reads the mean of all"),
        ({"server": "step(lr=0.5)"}, "reads the mean of all"), ({"server": "momentum"}, "reads the mean of all"),
        ({"exchange": "gossip"}, "reads the mean of all"), ({"aggregate": "median"}, "reads the mean of all"),
        ({"broadcast": "quantize"}, "reads the mean of all"),
        ({"solver": "dp_sgd(noise=1)"}, "private noise does not come twice"),
    ],
    ids=str,
)  # fmt: skip
def test_where_the_change_of_the_model_is_not_the_mean_it_is_refused(other: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        prepare(bind({**CHOICES, "parties": 3, **other}))
