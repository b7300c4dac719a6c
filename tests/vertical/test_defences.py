"""Defences at the cut: what they do to activations and gradients, and how much less those reveal."""

import itertools

import numpy as np
import pytest
import torch

from silobench.errors import SpecError
from silobench.vertical.defences import DEFENCES, max_norm
from silobench.vertical.defences.marvell import Gradients, Variances, least_divergence
from silobench.vertical.leaks.label_leakage import attack

CLASSES = {
    "unequal variances": (Gradients(u=0.5, v=0.05, gap=1.0, dimensions=4, share=0.3), 0.8),
    "rare class is wider": (Gradients(u=0.02, v=0.3, gap=0.5, dimensions=3, share=0.1), 2.0),
    "one dimension": (Gradients(u=0.1, v=0.4, gap=1.0, dimensions=1, share=0.5), 1.0),
    "equal variances": (Gradients(u=0.2, v=0.2, gap=1.0, dimensions=5, share=0.25), 4.0),
    "little power": (Gradients(u=1.0, v=0.01, gap=0.1, dimensions=8, share=0.2), 0.05),
}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def two_classes(rows: int = 400, width: int = 6, share: float = 0.2) -> tuple[torch.Tensor, torch.Tensor]:
    """Return gradients like those of a logistic loss: opposite directions, and longer ones of the rarer class."""
    draw = rng(1)
    y = torch.from_numpy((np.arange(rows) < share * rows).astype(np.int64))
    direction = draw.standard_normal(width)
    length = np.where(y == 1, -2.0, 0.5)[:, None] * draw.uniform(0.8, 1.2, (rows, 1))
    return torch.from_numpy(length * direction + 0.05 * draw.standard_normal((rows, width))).float(), y


def areas(gradients: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    return attack(gradients.double().numpy(), (y == 1).numpy(), 5, rng(7))


# --- marvell ------------------------------------------------------------------------------------------


def test_the_divergence_is_that_of_two_normal_distributions() -> None:
    """Against both KL divergences with full covariance matrices."""
    classes = CLASSES["unequal variances"][0]
    noise, d = Variances(0.3, 0.2, 0.1, 0.05), classes.dimensions
    means = np.zeros(d), np.sqrt(classes.gap) * np.eye(d)[0]
    covariances = (
        classes.u * np.eye(d) + np.diag([noise.along_0] + [noise.across_0] * (d - 1)),
        classes.v * np.eye(d) + np.diag([noise.along_1] + [noise.across_1] * (d - 1)),
    )

    def kl(a: int, b: int) -> float:
        inverse, gap = np.linalg.inv(covariances[b]), means[b] - means[a]
        logs = np.linalg.slogdet(covariances[b])[1] - np.linalg.slogdet(covariances[a])[1]
        return float(np.trace(inverse @ covariances[a]) - d + gap @ inverse @ gap + logs) / 2

    assert classes.divergence(noise) == pytest.approx(kl(0, 1) + kl(1, 0), rel=1e-12)


@pytest.mark.parametrize("name", CLASSES)
def test_no_noise_of_a_grid_is_better(name: str) -> None:
    classes, power = CLASSES[name]
    best = least_divergence(classes, power)
    assert classes.power(best) == pytest.approx(power, rel=1e-9)
    others, d = np.linspace(0, 1, 21), classes.dimensions
    weights = np.array([1 - classes.share, (1 - classes.share) * (d - 1), classes.share, classes.share * (d - 1)])
    shares = np.array([each for each in itertools.product(others, repeat=4) if sum(each) <= 1 + 1e-9])
    grid = shares * power / np.where(weights > 0, weights, 1) * (weights > 0)
    noisy = Variances(*grid.T)  # type: ignore[arg-type]
    least = float(np.min(classes.divergence(noisy)))
    assert classes.divergence(best) <= least * (1 + 1e-9)
    assert classes.divergence(best) > 0.8 * least  # the grid comes near
    assert classes.divergence(best) < classes.divergence(Variances(0, 0, 0, 0))


def test_the_noise_of_marvell_has_mean_zero_and_the_stated_power() -> None:
    gradients, y = two_classes()
    marvell, draw, repeats = DEFENCES.build("marvell(power=3)"), rng(), 300
    noise = torch.stack([marvell.gradients(gradients, y, draw) - gradients for _ in range(repeats)]).double()
    gap = float((gradients[y == 1].double().mean(0) - gradients[y == 0].double().mean(0)).square().sum())
    squares = noise.square().sum(2).mean(1)  # one per batch
    error = float(squares.std() / repeats**0.5)
    assert abs(float(squares.mean()) - 3 * gap) < 5 * error
    assert error < 0.02 * 3 * gap  # so the line above can fail
    for label in (0, 1):
        sums = noise[:, y == label].mean(1)  # [repeats, width]
        assert bool((sums.mean(0).abs() < 5 * sums.std(0) / repeats**0.5).all())


def test_the_noise_of_marvell_is_strongest_along_the_difference() -> None:
    gradients, y = two_classes()
    marvell, draw = DEFENCES.build("marvell"), rng()
    noise = torch.cat([marvell.gradients(gradients, y, draw) - gradients for _ in range(20)]).double()
    difference = gradients[y == 1].mean(0).double() - gradients[y == 0].mean(0).double()
    along = (noise @ (difference / difference.norm())).square().mean()
    across = (noise.square().sum(1).mean() - along) / (noise.shape[1] - 1)
    assert along > 10 * across


def test_marvell_hides_labels_better_than_isotropic_noise_of_the_same_power() -> None:
    gradients, y = two_classes()
    gap = float((gradients[y == 1].mean(0) - gradients[y == 0].mean(0)).square().sum())
    before = areas(gradients, y)
    after = areas(DEFENCES.build("marvell(power=4)").gradients(gradients, y, rng()), y)
    deviation = (4 * gap / gradients.shape[1]) ** 0.5
    isotropic = areas(gradients + deviation * torch.from_numpy(rng().standard_normal(gradients.shape)), y)
    assert before["norm"] > 0.99
    assert before["direction"] > 0.99
    for name in ("norm", "direction", "directions"):
        assert after[name] < before[name] - 0.1
    assert after["directions"] < isotropic["directions"]


def test_marvell_needs_two_classes() -> None:
    marvell = DEFENCES.build("marvell")
    assert marvell.refuses(2) is None
    assert "7 classes" in str(marvell.refuses(7))
    assert "numeric target" in str(marvell.refuses(0))
    assert DEFENCES.build("noise").refuses(0) is None


@pytest.mark.parametrize("label", [0, 1])
def test_marvell_leaves_a_batch_of_one_class(label: int) -> None:
    gradients = two_classes()[0]
    y = torch.full((len(gradients),), label)
    assert torch.equal(DEFENCES.build("marvell").gradients(gradients, y, rng()), gradients)


def test_marvell_takes_a_class_of_one_row() -> None:
    gradients, y = two_classes(rows=10, share=0.1)
    noisy = DEFENCES.build("marvell").gradients(gradients, y, rng())
    assert bool(torch.isfinite(noisy).all())
    assert not torch.equal(noisy, gradients)


# --- max-norm, noise ----------------------------------------------------------------------------------


@pytest.mark.parametrize("longest", [1.0, 1e20, 1e-18])
def test_max_norm_stretches_gradients_of_any_length(longest: float) -> None:
    """The ratio of squared norms is beyond float32 where a row is all but sure of its class."""
    values = torch.tensor([[longest, 0.0], [1e-20 * longest, 0.0], [longest / 2, longest / 2]])
    sent = max_norm().gradients(values, torch.tensor([0, 1, 0]), np.random.default_rng(0))
    number = np.random.default_rng(0).standard_normal((3, 1))[1, 0]
    assert torch.isfinite(sent).all()
    if longest > 1e-3:  # below it, the shortest gradient is 0 in float32 when it is squared
        assert float(sent[1, 0]) == pytest.approx(number * longest, rel=1e-6)


def test_max_norm_makes_squared_norms_equal_on_average() -> None:
    gradients, y = two_classes(rows=50)
    gradients[3] = 0
    defence, draw, repeats = DEFENCES.build("max-norm"), rng(), 2000
    noisy = torch.stack([defence.gradients(gradients, y, draw) for _ in range(repeats)]).double()
    squares = noisy.square().sum(2)
    longest = float(gradients.double().square().sum(1).max())
    rows = torch.arange(50) != 3
    errors = squares.std(0) / repeats**0.5 + 1e-6 * longest
    assert bool(((squares.mean(0) - longest).abs() < 5 * errors)[rows].all())
    assert bool(((noisy.mean(0) - gradients).abs() < 5 * noisy.std(0) / repeats**0.5 + 1e-6 * longest).all())
    assert areas(gradients, y)["norm"] > areas(defence.gradients(gradients, y, rng()), y)["norm"] + 0.1


@pytest.mark.parametrize(("at", "has_activations", "has_gradients"), [
    ("activations", True, False), ("gradients", False, True), ("both", True, True),
])  # fmt: skip
def test_noise_is_relative_to_the_batch(at: str, has_activations: bool, has_gradients: bool) -> None:
    defence = DEFENCES.build(f"noise(deviation=0.5, at={at})")
    assert (defence.activations is not None, defence.gradients is not None) == (has_activations, has_gradients)
    values = 30 + 3 * torch.from_numpy(rng(2).standard_normal((500, 40))).float()
    if defence.activations:
        noise = (defence.activations(values, rng()) - values).double()
    else:
        noise = (defence.gradients(values, torch.zeros(500), rng()) - values).double()
    count = noise.numel()
    assert float(noise.std()) == pytest.approx(1.5, rel=5 / (2 * count) ** 0.5 + 0.05)  # 0.05: the batch's deviation
    assert abs(float(noise.mean())) < 5 * 1.5 / count**0.5


def test_the_gradient_of_activations_with_noise_is_that_without() -> None:
    h = torch.ones(8, 3, requires_grad=True)
    (2 * DEFENCES.build("noise").activations(h, rng())).sum().backward()
    assert torch.equal(h.grad, torch.full((8, 3), 2.0))


def test_noise_of_the_same_generator_is_the_same() -> None:
    gradients, y = two_classes()
    for text in ("marvell", "max-norm", "noise(at=gradients)"):
        defence = DEFENCES.build(text)
        assert torch.equal(defence.gradients(gradients, y, rng(3)), defence.gradients(gradients, y, rng(3)))
        assert defence.gradients(gradients, y, rng(3)).dtype == torch.float32


def test_a_wrong_place_of_noise_is_refused() -> None:
    with pytest.raises(SpecError, match="activations"):
        DEFENCES.build("noise(at=labels)")


# --- nopeek -------------------------------------------------------------------------------------------


def test_nopeek_has_the_gradient_of_finite_differences() -> None:
    draw = rng()
    x = torch.from_numpy(draw.standard_normal((7, 3)))
    h = torch.from_numpy(draw.standard_normal((7, 2))).requires_grad_()
    penalty = DEFENCES.build("nopeek(weight=0.7)").penalty
    assert torch.autograd.gradcheck(lambda values: penalty(x, values), (h,))


def test_nopeek_is_the_weight_for_a_copy_and_falls_under_descent() -> None:
    x = torch.from_numpy(rng().standard_normal((60, 3))).float()
    penalty = DEFENCES.build("nopeek(weight=0.25)").penalty
    assert float(penalty(x, 3 * x + 1)) == pytest.approx(0.25, rel=1e-5)
    weight = torch.eye(3, 2, requires_grad=True)
    adam = torch.optim.Adam([weight], lr=0.05)
    noise = torch.from_numpy(rng(5).standard_normal((60, 2))).float()  # what else the activations depend on
    before = float(penalty(x, x @ weight + noise).detach())
    for _ in range(30):
        adam.zero_grad()
        penalty(x, x @ weight + noise).backward()
        adam.step()
    assert float(penalty(x, x @ weight + noise).detach()) < 0.8 * before


def test_nopeek_takes_constant_and_repeated_activations() -> None:
    x = torch.from_numpy(rng().standard_normal((6, 3))).float()
    penalty = DEFENCES.build("nopeek").penalty
    for values in (torch.ones(6, 2), torch.tensor([[0.0], [0.0], [1.0], [1.0], [1.0], [2.0]])):
        h = values.clone().requires_grad_()
        penalty(x, h).backward()
        assert bool(torch.isfinite(h.grad).all())
    assert float(penalty(x, torch.ones(6, 2))) == 0
    assert float(penalty(x[:1], x[:1])) == 0  # a batch of one row
