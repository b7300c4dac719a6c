"""The CNN: one process per core, all parameters in one flat vector, and max-pooling by vectorised maxima.

torch's pooling takes two fifths of a step on a CPU. Here the four values of a window are four tensors, and their
maximum is a few vectorised operations. The first convolution gives these four tensors directly: with stride 2, its 5 x
5 kernel is placed in the four corners of a 6 x 6 one, which turns 6 channels into 24 and fills the lanes of the CPU.
Values and gradients equal torch's, also where two values of a window are equal.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from contenders.gate import Gate
from contenders.networks import build, tensors
from contenders.tuned import team
from workloads import LR, MOMENTUM, Material

_if_positive = torch.ops.aten.threshold_backward  # (gradient, x, 0): the gradient where x > 0, else 0


class ReluOfMax(torch.autograd.Function):
    """relu(max(a, b, c, d)) of the four values of a window; the first of equal values gets the gradient."""

    @staticmethod
    def forward(ctx, z: Tensor, windows) -> Tensor:
        a, b, c, d = windows(z)
        top, low = torch.maximum(a, b), torch.maximum(c, d)
        out = torch.maximum(top, low).clamp_min_(0)
        ctx.windows, ctx.shape = windows, z.shape
        ctx.save_for_backward(out, b - a, d - c, low.sub_(top))
        return out

    @staticmethod
    def backward(ctx, grad: Tensor):
        out, right_of_top, right_of_low, lower = ctx.saved_tensors
        whole = torch.empty(ctx.shape)
        a, b, c, d = ctx.windows(whole)
        grad = _if_positive(grad, out, 0)
        low = _if_positive(grad, lower, 0)
        top = grad.sub_(low)
        right = _if_positive(top, right_of_top, 0)
        b.copy_(right)
        torch.sub(top, right, out=a)
        right = _if_positive(low, right_of_low, 0)
        d.copy_(right)
        torch.sub(low, right, out=c)
        return whole, None


def channels(z: Tensor) -> tuple[Tensor, ...]:
    return z.chunk(4, 1)


def neighbours(z: Tensor) -> tuple[Tensor, ...]:
    return z[..., ::2, ::2], z[..., ::2, 1::2], z[..., 1::2, ::2], z[..., 1::2, 1::2]


class FourKernels(torch.autograd.Function):
    """A kernel [o, i, 5, 5] in the four corners of [4o, i, 6, 6]; the gradient is the sum of the four."""

    @staticmethod
    def forward(ctx, kernel: Tensor, places: Tensor) -> Tensor:
        outputs, inputs = kernel.shape[:2]
        ctx.shape = kernel.shape
        ctx.save_for_backward(places)
        flat = torch.zeros(4 * outputs * inputs * 36)
        return flat.index_copy_(0, places, kernel.flatten().repeat(4)).view(4 * outputs, inputs, 6, 6)

    @staticmethod
    def backward(ctx, grad: Tensor):
        (places,) = ctx.saved_tensors
        return grad.flatten().index_select(0, places).view(4, *ctx.shape).sum(0), None


def corners(outputs: int, inputs: int) -> Tensor:
    """Return the places of the four copies of a kernel in the flat large one."""
    large = torch.arange(4 * outputs * inputs * 36).view(4, outputs, inputs, 6, 6)
    copies = [large[2 * i + j, :, :, i : i + 5, j : j + 5] for i in (0, 1) for j in (0, 1)]
    return torch.stack(copies).flatten()


class Fast(nn.Module):
    """The plain network's layers with the operations above."""

    def __init__(self, plain: nn.Sequential) -> None:
        super().__init__()
        self.conv1, self.conv2, *rest = (layer for layer in plain if isinstance(layer, nn.Conv2d | nn.Linear))
        self.full = nn.ModuleList(rest)
        self.places = corners(*self.conv1.weight.shape[:2])

    def forward(self, x: Tensor) -> Tensor:
        kernel = FourKernels.apply(self.conv1.weight, self.places)
        x = ReluOfMax.apply(F.conv2d(x, kernel, self.conv1.bias.repeat(4), stride=2), channels)
        x = ReluOfMax.apply(self.conv2(x), neighbours).flatten(1)
        *hidden, last = self.full
        for layer in hidden:
            x = F.relu(layer(x))
        return last(x)


def flatten(module: nn.Module) -> tuple[Tensor, Tensor]:
    """Make a module's parameters and gradients views of two vectors; return the vectors."""
    tensors = list(module.parameters())
    params = torch.cat([tensor.detach().flatten() for tensor in tensors])
    grad = torch.zeros_like(params)
    sizes = [tensor.numel() for tensor in tensors]
    for tensor, value, slope in zip(tensors, params.split(sizes), grad.split(sizes), strict=True):
        tensor.data, tensor.grad = value.view(tensor.shape), slope.view(tensor.shape)
    return params, grad


class Worker:
    def __init__(self, material: Material, parties: list[tuple[Tensor, Tensor]], test: tuple[Tensor, Tensor]) -> None:
        self.workload, self.parties, self.test = material.workload, parties, test
        self.network = Fast(build(material))
        self.params, self.grad = flatten(self.network)
        self.velocity = torch.zeros_like(self.params)

    @torch.enable_grad()
    def train(self, model: Tensor, cohort: list[int], total: int, out: Tensor) -> None:
        out.zero_()
        for party in cohort:
            self.params.copy_(model)
            self.velocity.zero_()
            x, y = self.parties[party]
            for _ in range(self.workload.epochs):
                order = torch.randperm(len(y))
                shuffled = zip(x[order].split(self.workload.batch), y[order].split(self.workload.batch), strict=True)
                for inputs, labels in shuffled:
                    self.grad.zero_()
                    F.cross_entropy(self.network(inputs), labels).backward()
                    self.velocity.mul_(MOMENTUM).add_(self.grad)
                    self.params.add_(self.velocity, alpha=-LR)
            out.add_(self.params, alpha=len(y) / total)

    def hits(self, model: Tensor) -> int:
        self.params.copy_(model)
        batches = zip(*(part.split(250) for part in self.test), strict=True)
        return sum(int((self.network(x).argmax(1) == y).sum()) for x, y in batches)


def run(material: Material, gate: Gate) -> None:
    parties = [tensors(material.party(number)) for number in range(material.workload.parties)]
    test = tensors(material.test)

    def make(rank: int, size: int) -> Worker:
        return Worker(material, parties, tuple(team.share(part, rank, size) for part in test))

    team.run(material, gate, torch.from_numpy(material.initial), make)
