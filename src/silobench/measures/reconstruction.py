"""Images from gradients: exactly from a first dense layer, or by matching the gradient; and how close they are."""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from silobench.method.types import Vector
from silobench.tasks.task import Task

_BEST = 100.0  # dB: a larger PSNR is rounding
_LR = 0.1  # of Adam, times the range of a pixel
_DECAYS = (3 / 8, 5 / 8, 7 / 8)  # shares of the steps after which it is divided by 10


def from_first_layer(task: Task, gradient: Vector, shape: Sequence[int]) -> Tensor | None:
    """Return the one image behind a gradient, of shape [1, ...]; None unless the first layer is dense, with a bias.

    The gradient of the weights is the outer product of that of the bias and the image. This is the least-squares
    solution, which is exact where the gradient is.
    """
    layout = task.network.layout
    views = layout.views(gradient)
    weight, bias = ([*(views[name] for name in layout.names if name in views), None, None])[:2]
    if weight is None or bias is None or (weight.dim(), bias.dim()) != (2, 1):
        return None
    if weight.shape != (len(bias), math.prod(shape[1:])) or not bias.any():
        return None
    return (bias @ weight / bias.square().sum()).reshape(tuple(shape))


def by_matching(
    task: Task,
    gradient: Vector,
    y: Tensor,
    shape: Sequence[int],
    pixels: tuple[float, float],
    steps: int,
    smoothness: float,
    known: Tensor | None = None,
) -> Tensor:
    """Return images of labels `y` whose gradient at the task's initial model has the direction of another gradient.

    `pixels` are the smallest and the largest value of a pixel, and `known` the entries of the gradient that were sent.
    """
    network, (low, high) = task.network, pixels
    network.params.copy_(task.initial)
    network.buffers.copy_(task.buffers)
    device, scale = network.params.device, high - low
    images = (torch.rand(tuple(shape), device=device) * scale + low).requires_grad_()
    adam = torch.optim.Adam([images], lr=_LR * scale)
    decays = torch.optim.lr_scheduler.MultiStepLR(adam, [int(share * steps) for share in _DECAYS], 0.1)
    cost = _cost(task, gradient.to(device), y.to(device), smoothness / scale, known)
    for _ in range(steps):
        (images.grad,) = torch.autograd.grad(cost(images), images)
        images.grad.sign_()
        adam.step()
        decays.step()
        with torch.no_grad():
            images.clamp_(low, high)
    network.buffers.copy_(task.buffers)  # running statistics moved meanwhile
    return images.detach().cpu()


def _cost(
    task: Task, gradient: Vector, y: Tensor, smoothness: float, known: Tensor | None
) -> Callable[[Tensor], Tensor]:
    """Return 1 - the cosine of the angle between two gradients, plus the roughness of the images."""
    params = [param for param in task.network.module.parameters() if param.requires_grad]
    places = slice(None) if known is None else known.to(gradient.device)
    target = gradient[places]

    def cost(images: Tensor) -> Tensor:
        parts = torch.autograd.grad(task.loss(images, y), params, create_graph=True)
        flat = torch.cat([part.flatten() for part in parts])[places]
        rough = images.diff(dim=-1).abs().mean() + images.diff(dim=-2).abs().mean()
        return 1 - F.cosine_similarity(flat, target, dim=0, eps=1e-20) + smoothness * rough

    return cost


def closest(originals: Tensor, images: Tensor) -> Tensor:
    """Return the reconstruction of each original: the pairing with the smallest squared error, each image used once."""
    from scipy.optimize import linear_sum_assignment  # which every command would wait for

    errors = torch.cdist(originals.flatten(1).double(), images.flatten(1).double()).square()
    return images[torch.from_numpy(linear_sum_assignment(errors.numpy())[1])]


def psnr(original: Tensor, image: Tensor, peak: float) -> float:
    """Return the peak signal-to-noise ratio in dB, at most 100; `peak` is the range of a pixel.

    >>> psnr(torch.zeros(4), torch.full((4,), 0.1), peak=1.0)
    20.0
    """
    error = float((original.double() - image.double()).square().mean()) / peak**2
    return round(min(_BEST, -10 * math.log10(error)), 6) if error else _BEST
