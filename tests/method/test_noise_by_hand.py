"""Clips and noise of parties, number by number: the grid, the shares of the noise, and what is stated about them."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from silobench.errors import ConfigError
from silobench.method.transforms import bind_chain
from silobench.method.types import Context, Layout, Transform, Update, placed
from silobench.privacy.accountant import epsilon, noise_for
from silobench.privacy.mechanism import Mechanism
from silobench.privacy.randomness import Randomness
from silobench.privacy.skellam import rho, skellam, tail


def chain(text: str) -> tuple[Transform, ...]:
    return tuple(term.build() for term in bind_chain(text))


def layout(size: int) -> Layout:
    return Layout(("w",), (torch.Size([size]),), size) if size else Layout((), (), 0)


def context_of(norm: float | None, parties: int, size: int = 3, **facts: Any) -> Context:
    every = tuple(range(parties))
    return Context(
        7, 5, 2, layout(size), {}, every, every, parties=parties, expected=float(parties), bound=norm, place=1, **facts
    )


# --- clips --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "rate"), [(4.99, 0.0), (5.0, 0.0), (5.01, 1.0)])
def test_an_update_as_long_as_the_norm_is_not_clipped(length: float, rate: float) -> None:
    (clip,) = chain("clip(norm=5)")
    update = Update.of(2.0, delta=torch.tensor([length, 0.0], dtype=torch.float64))
    sent, _, report = clip.encode(update, {}, context_of(None, 3))
    assert report == {"clip rate": rate, "update norm": pytest.approx(length)}
    assert sent.mean()["delta"].tolist() == pytest.approx([min(length, 5.0), 0.0])
    (adaptive,) = chain("clip(norm=5, adaptive=true)")
    sent, *_ = adaptive.encode(update, {}, context_of(None, 3))
    assert (sent.sums["within clip 1"].item() > 0) == (not rate)


@pytest.mark.parametrize(
    ("expected", "text", "ratio"), [(8, "", 1), (20, "", 1), (60, "", 3), (60, "count_noise=2, ", 2)]
)
def test_the_answer_of_an_adaptive_clip_by_hand(expected: int, text: str, ratio: float) -> None:
    """The deviation on the count is the ratio times the multiplier, by default a twentieth of the parties."""
    (clip,) = chain(f"clip(norm=5, {text}adaptive=true, quantile=0.25, speed=0.4)")
    context = replace(context_of(None, expected), server={"norm": torch.tensor(2.0, dtype=torch.float64)})
    size = 1 / math.sqrt(ratio**2 - 0.25)
    answers = []
    for length in (1.0, 3.0):
        update = Update.of(4.0, delta=torch.tensor([length], dtype=torch.float64)).with_sums(x=torch.ones(1))
        sent, _, report = clip.encode(update, {}, context)
        answers.append(sent.sums["within clip 1"])
        assert (report["clip norm"], answers[-1].dtype) == (2.0, torch.float64)
    assert [answer.tolist() for answer in answers] == [[pytest.approx(size)], [pytest.approx(-size)]]
    assert clip.bound(context) == pytest.approx(2 * math.sqrt(1 + size**2 / 4))
    total = replace(sent, sums={"within clip 1": (0.75 * expected - 0.25 * expected) * answers[0], "x": torch.ones(1)})
    assert clip.adapt
    rest, memory = clip.adapt(total, {}, context)  # three quarters are within the norm
    assert memory["norm"].item() == pytest.approx(2 * math.exp(-0.4 * (0.75 - 0.25)))
    assert rest.sums.keys() == {"x"}


def test_the_noise_on_the_count_is_that_of_a_twentieth_of_the_parties() -> None:
    """Of 50 parties it is 5/2, so two answers are 1 / sqrt(25/4 - 1/4) norms apart, and one is half of it."""
    (clip,) = chain("clip(norm=5, adaptive=true)")
    assert clip.bound(context_of(None, 50)) == pytest.approx(5 * math.sqrt(1 + 1 / 24))


def test_an_adaptive_clip_stays_where_nobody_answers() -> None:
    (clip,) = chain("clip(norm=5, adaptive=true)")
    update, memory = Update.of(4.0, delta=torch.ones(1)), {"norm": torch.tensor(3.0)}
    assert clip.adapt
    assert clip.adapt(update, memory, context_of(None, 4)) == (update, memory)
    sent, *_ = clip.encode(Update.of(1.0, count=torch.ones(2, dtype=torch.int64)), {}, context_of(None, 4))
    assert sent.sums["within clip 1"].dtype == torch.float32  # where no part has a type of its own


# --- the grid of Skellam noise ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("norm", "multiplier", "parties", "size", "exponent"),
    [
        (1.0, 1.0, 4, 3, 11),  # 1024 sqrt(3) is above 2^10
        (2.0, 1.0, 4, 4, 10),  # 1024 * 2 / 2
        (1.999, 1.0, 4, 4, 11),  # a little more
        (0.5, 1.0, 4, 16, 13),
        (1.0, 1.0, 4, 0, 10),
        (1.0, 2.0**12, 4, 4, 9),  # the deviation of one party is 2^20 steps: 2^20 * 2 / 2^12
        (1.0, 2.0**12, 0, 4, 8),
        (1.0, 3 * 2.0**10, 1, 4, 8),  # 2^20 / 3 / 2^10 is 341
        (4.0, 2.0**12, 64, 4, 9),
    ],
)
def test_the_grid_of_skellam_noise_by_hand(
    norm: float, multiplier: float, parties: int, size: int, exponent: int
) -> None:
    (noise,) = chain(f"skellam_noise(multiplier={multiplier})")
    context, step = context_of(norm, parties, size), 2.0**-exponent
    assert noise.exponent(context) == exponent
    variance = (multiplier * norm / step) ** 2  # of all parties together, in steps
    assert noise.bound(context) == pytest.approx(norm + step * tail(variance / max(1, parties)), rel=1e-12)
    for answers in range(1, parties + 1):
        release = noise.release(replace(context, replied=tuple(range(answers))))
        expected = rho(norm / step, variance * (answers - 1) / parties)
        assert release.rho == pytest.approx(expected, rel=1e-12)
        assert (release.unit, release.noise, release.reproducible) == ("party", multiplier, False)


def test_a_round_without_parties_has_no_noise() -> None:
    (noise,) = chain("skellam_noise(multiplier=3)")
    release = noise.release(replace(context_of(1.0, 4), cohort=(), replied=()))
    assert release is not None
    assert release.rho == math.inf


def test_noise_that_is_not_solved_yet_has_no_grid() -> None:
    (noise,) = chain("skellam_noise(epsilon=3)")
    assert noise.exponent(context_of(1.0, 4)) is None
    assert noise.bound(context_of(1.5, 4)) == 1.5
    (noise,) = chain("skellam_noise(multiplier=3)")
    assert noise.exponent(context_of(None, 4)) is None
    assert noise.bound(context_of(None, 4)) is None


# --- the messages -------------------------------------------------------------------------------------


def test_a_message_with_skellam_noise_by_hand() -> None:
    """Entries are rounded towards zero, then a fifth of the variance is added: (0.5 * 2 * 2^12)² / 5."""
    (noise,) = chain("skellam_noise(multiplier=0.5, reproducible=true)")
    context, entries = context_of(2.0, 5, 33), [0.60001, -0.30001, 0.10001, *[0.0] * 30]
    update = Update.of(3.0, delta=torch.tensor(entries, dtype=torch.float64))
    sent, memory = noise.encode(update, {"kept": torch.ones(1)}, context)
    numbers = skellam(Randomness.seeded(7, "noise of party", 5, 1, 2), (0.5 * 2 * 2**12) ** 2 / 5, 33).tolist()
    expected = [(int(entry * 2**12) + number) / 2**12 for entry, number in zip(entries, numbers, strict=True)]
    assert sent.total["delta"].tolist() == expected
    assert (sent.weight, list(memory)) == (1.0, ["kept"])
    decoded = noise.decode(sent, replace(context, expected=4.5))
    assert (decoded.weight, decoded.total["delta"].dtype) == (4.5, torch.float32)


def test_a_sum_with_gaussian_noise_by_hand() -> None:
    (noise,) = chain("gaussian_noise(multiplier=3, reproducible=true)")
    update = Update.of(3.0, delta=torch.tensor([0.5, -2.0])).with_sums(control=torch.ones(1, dtype=torch.float64))
    context = context_of(2.0, 5)
    decoded = noise.decode(update, replace(context, expected=4.5))
    numbers = Randomness.seeded(7, "noise on parties", 5, 1)
    noisy = [part + numbers.normal(part.numel(), 6.0) for part in (update.total["delta"], update.sums["control"])]
    for part, expected in zip((decoded.total["delta"], decoded.sums["control"]), noisy, strict=True):
        assert part.tolist() == pytest.approx(expected.tolist(), rel=1e-6)
    assert decoded.sums["control"].dtype == torch.float64
    assert (decoded.weight, dict(decoded.codecs)) == (4.5, {})


# --- noise for a target -------------------------------------------------------------------------------


@pytest.mark.parametrize(("cohort", "target"), [(2, 3.0), (5, 3.0), (5, 10_000.0)])
def test_skellam_noise_for_a_target_is_enough_and_not_much_more(cohort: int, target: float) -> None:
    """A party knows its own noise, so those of the others count: (n - 1)/n of the variance."""
    (noise,) = chain(f"skellam_noise(epsilon={target}, delta=1e-6, reproducible=true)")
    assert noise.calibrated
    solved = noise.calibrated(4, 1.0, "fixed", 10, cohort)
    release = solved.release(context_of(1.0, cohort))
    assert release is not None
    assert (release.delta, release.budget, release.reproducible) == (1e-6, target, True)

    def spent(multiplier: float) -> float:
        variance = (multiplier * 1024) ** 2 * (cohort - 1) / cohort
        return epsilon([(Mechanism("party", 1e-6, rho=rho(1024.0, variance)), 4)], 1e-6)

    assert spent(release.noise) <= target < spent(release.noise * 0.9998)
    with pytest.raises(ConfigError, match="1 party takes part in a round and knows its noise: let at least 2 take"):
        noise.calibrated(4, 1.0, "fixed", 10, 1)


def test_gaussian_noise_for_a_target_is_that_of_the_accountant() -> None:
    (noise,) = chain("gaussian_noise(epsilon=3, reproducible=true)")
    assert noise.calibrated
    release = noise.calibrated(6, 0.2, "poisson", 10, 2).release(context_of(1.0, 10))
    assert release is not None
    assert (release.noise, release.budget, release.reproducible) == (noise_for(3.0, 1e-5, 0.2, 6), 3.0, True)
    assert chain("gaussian_noise(multiplier=2, epsilon=3)")[0].calibrated is None


def test_bounds_follow_from_the_clip() -> None:
    transforms = chain("clip(norm=0.7) | gaussian_noise(multiplier=1) | error_feedback(decay=0.5)")
    contexts = placed(transforms, context_of(None, 4))
    assert [context.bound for context in contexts] == [None, 0.7, 0.7]
    assert transforms[2].bound(contexts[2]) is None
