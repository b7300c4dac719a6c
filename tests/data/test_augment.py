"""Augmentation: one gather, compared with padding, cropping and flipping image by image."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from silobench.data import Dataset, Split
from silobench.data.augment import crop_and_flip
from silobench.federation import federate
from silobench.method.solvers import Problem, sgd
from silobench.method.types import Pull, Server
from silobench.tasks.task import task


def windows(image: Tensor, pad: int) -> list[Tensor]:
    """Every window of an image padded by reflection, and its mirror image."""
    height, width = image.shape[1:]
    padded = F.pad(image[None], (pad, pad, pad, pad), mode="reflect")[0]
    shifts = [(y, x) for y in range(2 * pad + 1) for x in range(2 * pad + 1)]
    seen = [padded[:, y : y + height, x : x + width] for y, x in shifts]
    return [*seen, *(view.flip(2) for view in seen)]


@pytest.mark.parametrize(("shape", "pad"), [((3, 32, 32), 4), ((1, 6, 9), 2), ((2, 5, 5), 0)])
def test_every_image_is_one_of_the_windows_of_its_padded_self(shape: tuple[int, ...], pad: int) -> None:
    torch.manual_seed(0)
    images = torch.rand(20, *shape)
    for image, seen in zip(images, crop_and_flip(images, pad), strict=True):
        assert any(torch.equal(seen, view) for view in windows(image, pad))


def test_all_windows_occur_about_equally_often() -> None:
    torch.manual_seed(1)
    image = torch.arange(25.0).reshape(1, 5, 5)
    views = windows(image, 1)
    seen = crop_and_flip(image.expand(9000, 1, 5, 5), 1)
    counts = [int((seen == view).flatten(1).all(1).sum()) for view in views]
    assert sum(counts) == 9000
    assert min(counts) > 400  # 500 each are expected, with a standard deviation of 22
    assert max(counts) < 600


def test_bytes_stay_bytes_and_the_generator_decides() -> None:
    images = torch.randint(0, 256, (8, 3, 8, 8), dtype=torch.uint8)
    draws = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        draws.append(crop_and_flip(images))
    assert draws[0].dtype == torch.uint8
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def pictures(augment: str) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (60, 1, 8, 8)).astype(np.uint8)
    y = np.arange(60) % 3
    return Dataset("p", Split(x, y), Split(x[:9], y[:9]), ("a", "b", "c"), "none", augment=augment)  # type: ignore[arg-type]


def test_only_training_batches_are_augmented() -> None:
    plain, moved = (federate(pictures(augment), "iid", parties=2) for augment in ("none", "crop-flip"))
    rows = torch.arange(20)
    torch.manual_seed(0)
    assert torch.equal(plain.batch(rows)[0], moved.batch(rows)[0])
    assert torch.equal(plain.batch(rows, augmented=True)[0], plain.batch(rows)[0])
    assert not torch.equal(moved.batch(rows, augmented=True)[0], moved.batch(rows)[0])
    assert torch.equal(moved.batch(rows, augmented=True)[1], plain.batch(rows)[1])
    tests = [torch.cat([x for x, _ in federation.test_batches()]) for federation in (plain, moved)]
    assert torch.equal(*tests)


def test_the_solver_trains_on_augmented_batches_but_a_full_gradient_is_of_the_rows_themselves() -> None:
    ends, gradients = [], []
    for augment in ("none", "crop-flip"):
        federation = federate(pictures(augment), "iid", parties=2)
        problem = Problem(task("linear", federation.dataset), federation, federation.parties[0], 0)
        start = problem.task.initial
        server = Server(start, {}, {}, 0, 2, {}, problem.task.buffers)
        torch.manual_seed(3)
        local, _ = sgd(epochs=1).train(problem, start, server, None, Pull(), {})
        ends.append(local.end)
        gradients.append(problem.gradient(start))
    assert not torch.equal(*ends)
    assert torch.equal(*gradients)
