"""AlexNet and GoogLeNet: their sizes, what they compute, and that they learn from real pictures."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from silobench.data import load
from silobench.errors import AbsentError, ConfigError, SpecError
from silobench.models import MODELS, Classifier, Network, Sizes

NORMS = ["none", "batch", "group", "layer", "batch-renorm", "batch-stats"]
SMALL = ["alexnet(width=0.5", "googlenet(width=0.25", "googlenet(width=0.1, stem=small"]


def build(spec: str, shape: tuple[int, ...] = (3, 32, 32), classes: int = 10) -> Classifier:
    module = MODELS.build(spec).build(Sizes(shape, classes), 0)
    assert isinstance(module, Classifier)
    return module


def weights(before: int, after: int, side: int) -> int:
    return (before * side * side + 1) * after


def inception(before: int, one: int, less3: int, three: int, less5: int, five: int, pooled: int) -> int:
    ways = weights(before, one, 1) + weights(before, pooled, 1)
    ways += weights(before, less3, 1) + weights(less3, three, 3)
    return ways + weights(before, less5, 1) + weights(less5, five, 5)


BLOCKS = sum(
    [
        inception(192, 64, 96, 128, 16, 32, 32),
        inception(256, 128, 128, 192, 32, 96, 64),
        inception(480, 192, 96, 208, 16, 48, 64),
        inception(512, 160, 112, 224, 24, 64, 64),
        inception(512, 128, 128, 256, 24, 64, 64),
        inception(512, 112, 144, 288, 32, 64, 64),
        inception(528, 256, 160, 320, 32, 128, 128),
        inception(832, 256, 160, 320, 32, 128, 128),
        inception(832, 384, 192, 384, 48, 128, 128),
    ]
)
STEM = weights(3, 64, 7) + weights(64, 64, 1) + weights(64, 192, 3)
ALEX = weights(3, 24, 7) + weights(24, 64, 5) + weights(64, 96, 3) + weights(96, 96, 3) + weights(96, 64, 3)


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ("alexnet", 765_738),
        ("alexnet", ALEX + weights(64 * 16, 512, 1) + 5130),
        ("alexnet(norm=group)", 765_738 + 24 + 64 + 96 + 96 + 64),  # two a channel, and no bias
        ("googlenet", 5_983_802),
        ("googlenet", STEM + BLOCKS + 10_250),
        ("googlenet(stem=small)", weights(3, 192, 3) + BLOCKS + 10_250),
    ],
)
def test_they_have_their_numbers_of_parameters(spec: str, count: int) -> None:
    assert Network(build(spec)).layout.trainable == count


@pytest.mark.parametrize("spec", SMALL)
@pytest.mark.parametrize(
    ("norm", "shape"),
    [*((norm, (1, 8, 8)) for norm in NORMS), *((norm, (2, 9, 17)) for norm in NORMS[:2]), ("batch", (3, 32, 32))],
)
def test_any_image_from_eight_pixels_and_batches_of_one(spec: str, norm: str, shape: tuple[int, int, int]) -> None:
    """Normalisations do not depend on the size of images. One value per channel, as the smallest give, is special."""
    module = build(f"{spec}, norm={norm})", shape, classes=7)
    for rows in (1, 3):
        answer = module(torch.rand(rows, *shape))
        answer.square().sum().backward()
        assert answer.shape == (rows, 7)
        assert answer.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())
    assert bool(Network(module).layout.norms) == (norm != "none")


@pytest.mark.usefixtures("in_double")
def test_alexnet_is_its_layers_one_after_the_other() -> None:
    module, x = build("alexnet").eval(), torch.randn(3, 3, 32, 32)
    seen = x
    for place, side in enumerate((7, 5, 3, 3, 3)):
        layer = module.get_submodule(f"convolutions.{place}.0")
        seen = F.conv2d(seen, layer.get_parameter("weight"), layer.get_parameter("bias"), padding=side // 2).relu()
        seen = seen if place in (2, 3) else F.max_pool2d(F.pad(seen, (0, 1, 0, 1)), 3, 2)
    seen = module.get_submodule("fc1")(seen.flatten(1)).relu()
    torch.testing.assert_close(module.features(x), seen)
    torch.testing.assert_close(module(x), module.get_submodule("out")(seen))
    assert not torch.equal(module.train()(x), module(x))  # half is dropped
    plain = build("alexnet(dropout=false)")
    assert torch.equal(plain(x), module.eval()(x))


@pytest.mark.usefixtures("in_double")
def test_an_inception_block_is_four_ways_side_by_side() -> None:
    module = build("googlenet")
    block, x = module.get_submodule("blocks.0"), torch.randn(2, 192, 5, 5)

    def through(name: str, x: torch.Tensor) -> torch.Tensor:
        layer = block.get_submodule(name)
        assert isinstance(layer, nn.Conv2d)
        return F.conv2d(x, layer.weight, layer.bias, padding=layer.kernel_size[0] // 2).relu()

    ways = [
        through("one.0", x),
        through("three.1.0", through("three.0.0", x)),
        through("five.1.0", through("five.0.0", x)),
        through("pooled.1.0", F.max_pool2d(x, 3, 1, padding=1)),
    ]
    assert [way.shape[1] for way in ways] == [64, 128, 32, 32]
    torch.testing.assert_close(block(x), torch.cat(ways, 1))


@pytest.mark.parametrize(("stem", "sides"), [("original", [4, 2, 1]), ("small", [32, 16, 8])])
def test_what_its_blocks_see(stem: str, sides: list[int]) -> None:
    module = build(f"googlenet(stem={stem}, width=0.05)")
    x, seen = module.get_submodule("stem")(torch.rand(1, 3, 32, 32)), []
    for layer in module.get_submodule("blocks").children():
        x = layer(x)
        seen.append(x.shape[-1])
    assert sorted(set(seen), reverse=True) == sides
    assert [seen.count(side) for side in sides] == [2, 6, 3]  # with the pool before


@pytest.mark.parametrize(
    ("spec", "shape", "message"),
    [
        ("alexnet", (20,), "alexnet needs images .* at least 8 x 8"),
        ("googlenet", (3, 7, 32), "googlenet needs images .* at least 8 x 8"),
        ("googlenet(stem=large)", (3, 32, 32), "stem"),
        ("alexnet(width=0)", (3, 32, 32), "width"),
        ("alexnet(norm=group, group_size=5)", (3, 32, 32), "24 channels cannot be divided into groups of 5"),
    ],
)
def test_what_cannot_be_built_is_refused(spec: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises((ConfigError, SpecError), match=message):
        build(spec, shape)


def pictures() -> tuple[torch.Tensor, torch.Tensor]:
    """Sixteen of CIFAR-10, or digits in three colours where it is not here."""
    try:
        train = load("cifar-10(augment=false)").train
    except AbsentError:
        train = load("digits").train
    x = torch.from_numpy(train.x[:16].copy()).float()
    x = (x - x.mean()) / x.std()
    return F.interpolate(x, (32, 32)).expand(-1, 3, -1, -1), torch.from_numpy(train.y[:16].copy())


@pytest.mark.parametrize("spec", [f"{spec}, norm={norm})" for spec in SMALL[:2] for norm in ("none", "batch")])
def test_each_learns(spec: str) -> None:
    torch.manual_seed(0)
    (x, y), module = pictures(), build(spec)
    optimizer = torch.optim.Adam(module.parameters())
    losses = []
    for _ in range(25):
        loss = F.cross_entropy(module(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0], losses
