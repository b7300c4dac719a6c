"""The message about a knob that a method lacks names the parts that have it."""

from itertools import pairwise

import pytest
import torch

from silobench.errors import ConfigError
from silobench.method.controllers.dials import OWNERS, chosen_dial
from silobench.method.transforms import TRANSFORMS
from silobench.method.types import Context, Dial, Layout, Update


def test_every_knob_of_a_transform_has_its_owner() -> None:
    needed = {"gaussian-noise": "(multiplier=1)", "skellam-noise": "(multiplier=1)"}
    knobs = {name: TRANSFORMS.build(name + needed.get(name, "")).dials for name in TRANSFORMS.factories}
    pairs = [(dial.name, name.replace("-", "_")) for name, dials in knobs.items() for dial in dials]
    assert {"bits", "rank", "fraction"} <= {knob for knob, _ in pairs}
    for knob, name in pairs:
        assert name in OWNERS[knob].split()


def test_an_unknown_knob_is_compared_with_those_of_the_method() -> None:
    dials = TRANSFORMS.build("quantize").dials
    with pytest.raises(ConfigError, match="no knob 'bit': did you mean bits"):
        chosen_dial("skewscout", dials, "bit", ())
    with pytest.raises(ConfigError, match=r"no knob 'rank': use the transform low_rank, which has it\."):
        chosen_dial("skewscout", dials, "rank", ())


@pytest.mark.parametrize(("grid", "wrong"), [((5, 12), "5"), ((8, 12), "12"), ((2.5, 4), "2.5"), ((1, 2), "1")])
def test_a_number_of_bits_without_a_codec_is_refused_before_a_run(grid: tuple[float, ...], wrong: str) -> None:
    dials = TRANSFORMS.build("quantize").dials
    with pytest.raises(ConfigError, match=f"^oracle: {wrong} is not a setting of bits: choose from 32, 16, 8, 4, 2.$"):
        chosen_dial("oracle", dials, "bits", grid)
    assert chosen_dial("oracle", dials, "bits", (2, 16, 24)).grid == (24, 16, 2)  # 24 bits are all of them
    mine = Dial("bits", (3, 2, 1))  # of a plugin
    assert chosen_dial("oracle", [mine], "bits", grid).grid == tuple(sorted(grid, reverse=True))


@pytest.mark.parametrize(("name", "most", "least"), [("low-rank", 32, 1), ("quantize", 32, 2)])
def test_each_setting_of_ranks_and_bits_is_half_of_the_one_before(name: str, most: int, least: int) -> None:
    (dial,) = TRANSFORMS.build(name).dials
    assert (dial.grid[0], dial.grid[-1]) == (most, least)
    assert all(before == 2 * after for before, after in pairwise(dial.grid))


@pytest.mark.parametrize("bits", [17, 24, 32])
def test_a_controller_may_ask_for_entries_as_they_are(bits: int) -> None:
    """As skewscout does with a grid of its own: more than 16 bits are all of them."""
    update = Update.of(1.0, delta=torch.tensor([1.0, 0.3, -0.7]))
    sent, *_ = TRANSFORMS.build("quantize").encode(update, {}, Context(0, 0, 0, Layout((), (), 0), {"bits": bits}))
    assert sent is update


@pytest.mark.parametrize("name", ["rand-k", "top-k"])
def test_fractions_are_one_two_and_five_of_each_power_of_ten(name: str) -> None:
    """From one half to one thousandth."""
    (dial,) = TRANSFORMS.build(name).dials
    assert dial.grid == tuple(float(f"{digit}e-{power}") for power in (1, 2, 3) for digit in (5, 2, 1))
