"""Gradient inversion: images that a server reconstructs from what parties send."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from silobench.engines import inline
from silobench.errors import ConfigError
from silobench.federation import Federation, Party
from silobench.loop.downlink import downlink
from silobench.loop.exchanges import Meeting
from silobench.loop.loop import initial_state, one_thread
from silobench.loop.schedule import Schedule
from silobench.loop.turns import turn
from silobench.measures.measure import MEASURES, Findings, Measure, Observe
from silobench.measures.pictures import as_png
from silobench.method.method import Method
from silobench.method.solvers import Solver
from silobench.method.solvers.dp_sgd import DpSgd
from silobench.method.types import Algorithm, Count, Memory, Server, Transform, Vector, at
from silobench.rng import stream, torch_seed
from silobench.tasks.task import Task
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State
from silobench.training.stopwatch import Stopwatch

FIRST_LAYER, MATCHING = "first layer", "gradient matching"  # how an image was reconstructed
_BEST = 100.0  # dB: a larger PSNR is rounding
_LR = 0.1  # of Adam, times the range of a pixel
_DECAYS = (3 / 8, 5 / 8, 7 / 8)  # shares of the steps after which it is divided by 10
_SMOOTHNESS = 1e-2  # the weight of total variation
_MOST_PICTURES = 4


@MEASURES.register
def inversion(rows: Count = 1, steps: Count = 300, round: Count = 1, victims: Count = 3) -> Measure:
    """Reconstruct the images of one training step from what the server sees of it, in one round of the run.

    A victim takes one step on `rows` of its images, from the model before this round, with the run's solver (its
    clipping and noise) and transforms. The server sees its message, without the noise that the server itself adds;
    under a secure sum it sees only the sum over the parties of a round, all of which take such a step. The findings are
    means over `victims`: the peak signal-to-noise ratio in dB (20 is a clear image, 100 at most), that of the mean of
    all training images, which is the best guess without a message, and the mean squared error.

    From the gradient of a first dense layer with a bias, one image follows exactly. Otherwise images are changed in
    `steps` steps of Adam until their gradient has the direction of the one that the server sees and they are smooth:
    Inverting Gradients, Geiping et al., NeurIPS 2020. The attacker knows the labels, the sampled entries and the
    learning rate. Each original is compared with the reconstruction that is closest to it.
    """

    def begin(schedule: Schedule, state: State | None, memory: Memory) -> Observe:
        before = state or initial_state(schedule.setting)

        def observe(record: RoundRecord) -> tuple[Findings, Memory]:
            nonlocal before
            start, before = before, record.state
            return (_findings(schedule, start.server, rows, steps, victims) if record.round == round else {}), {}

        return observe

    return Measure(begin, lambda setting, cohort: _check(setting, rows), lambda schedule: _refusal(schedule, round))


def _check(setting: Setting, rows: int) -> None:
    dataset, algorithm = setting.federation.dataset, setting.method.algorithm
    if len(dataset.shape) != 3 or dataset.vocabulary or dataset.task != "classification":
        raise ConfigError(
            f"inversion reconstructs images with classes, but {dataset.name} has rows of shape {dataset.shape} for "
            f"{dataset.task}: choose a dataset of images, such as digits or cifar-10, or leave the measure out."
        )
    if algorithm.lockstep or algorithm.personal is not None:
        raise ConfigError(
            "inversion attacks messages that are the change of a whole model, but this algorithm sends parts of it: "
            "choose an algorithm that sends all, such as fedavg, or leave the measure out."
        )
    if not any(party.samples >= rows for party in setting.federation.parties):
        most = max(party.samples for party in setting.federation.parties)
        raise ConfigError(f"inversion attacks {rows} rows of a party, but parties have at most {most}: give fewer.")


def _refusal(schedule: Schedule, round: int) -> str | None:
    if not schedule.has_server:
        return (
            "inversion attacks what a server sees, but in this run no message goes to a server: use exchange = star "
            "and an algorithm that sends messages, or leave the measure out."
        )
    if round > schedule.rounds:
        return f"inversion attacks round {round}, but the run has {schedule.rounds}: give an earlier round."
    return None


# --- the attack of a run --------------------------------------------------------------------------------


def _findings(schedule: Schedule, server: Server, rows: int, steps: int, victims: int) -> Findings:
    """Attack some parties, and return the quality of all reconstructions."""
    setting = schedule.setting
    honest = [p.id for p in setting.federation.parties if p.samples >= rows and p.id not in setting.malicious]
    chosen = stream(setting.seed, "inversion victims").permutation(honest or range(len(setting.federation.parties)))
    low, high = _pixel_range(setting.federation)
    guess = _mean_image(setting.federation)
    attacks, peak = [_attacked(schedule, server, int(victim), rows, steps) for victim in chosen[:victims]], high - low
    originals = torch.cat([attack.originals for attack in attacks])
    images = torch.cat([attack.matched for attack in attacks])
    psnr = [_psnr(*pair, peak) for pair in zip(originals, images, strict=True)]
    shown = slice(0, _MOST_PICTURES)
    return {
        "psnr": fmean(psnr),
        "baseline_psnr": fmean(_psnr(original, guess, peak) for original in originals),
        "mse": float((originals - images).square().mean()),
        "images": attacks[0].images,
        "method": attacks[0].method,
        "pictures": {
            "original": [as_png(image, low, high) for image in originals[shown]],
            "reconstruction": [as_png(image, low, high) for image in images[shown]],
            "psnr": psnr[shown],
        },
    }


@dataclass(frozen=True)
class _Attack:
    originals: Tensor  # of the victim
    matched: Tensor  # the reconstruction that is closest to each of them
    images: int  # in what the server sees: of the victim, or of all parties under a secure sum
    method: str


def _attacked(schedule: Schedule, server: Server, victim: int, rows: int, steps: int) -> _Attack:
    """Attack one party."""
    setting = schedule.setting
    senders = [victim]
    if setting.method.hides:
        others = [party.id for party in setting.federation.parties if party.id != victim]
        drawn = stream(setting.seed, "inversion senders", party=victim).permutation(others)
        senders += [int(party) for party in drawn[: schedule.cohort - 1]]
    small = _with_rows(setting.federation, senders, rows, setting.seed)
    lr = at(setting.solver.lr, server) or 1.0
    seen = _seen(setting, small, server, _one_step(setting.solver, lr, rows, victim)) / -lr
    x, y = small.batch(torch.cat([party.rows for party in small.parties]))
    task = replace(setting.task, initial=server.params, buffers=server.buffers)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(setting.seed, "inversion", party=victim))
        known = seen != 0 if any(each.packs == "entries" for each in setting.method.transforms) else None
        images = None if len(x) > 1 or known is not None else _from_first_layer(task, seen, x.shape)
        method = MATCHING if images is None else FIRST_LAYER
        low, high = _pixel_range(setting.federation)
        if images is None:
            images = _by_matching(task, seen, y, x.shape, steps, (low, high), known)
    originals = x[: small.parties[0].samples].cpu()
    return _Attack(originals, _closest(originals, images.clamp(low, high)), len(x), method)


def _with_rows(federation: Federation, parties: Sequence[int], rows: int, seed: int) -> Federation:
    """Return a federation of some parties with few rows each, which are not augmented."""
    members = []
    for place, party in enumerate(federation.parties[party] for party in parties):
        drawn = stream(seed, "inversion rows", party=party.id).permutation(party.rows.numpy())[:rows]
        members.append(Party(place, torch.from_numpy(drawn), party.validation[:0], party.name))
    dataset = federation.dataset
    plain = dataset if dataset.augment == "none" else replace(dataset, augment="none")
    return replace(federation, dataset=plain, parties=tuple(members))


def _one_step(solver: Solver, lr: float, rows: int, party: int) -> Solver:
    """Return the solver for one step on all rows; weight decay, which the server knows, is left out."""
    if isinstance(solver, DpSgd):
        solver = replace(solver, noise=solver.noise_of(party), epsilon=None, noises=())
    return replace(solver, lr=lr, steps=1, batch=rows, weight_decay=0.0, keep_momentum=False)


def _seen(setting: Setting, federation: Federation, server: Server, solver: Solver) -> Vector:
    """Return the mean change of the model that the server decodes after a round of this federation."""
    transforms = tuple(map(_before_noise, setting.method.transforms))
    method = Method(Algorithm(), solver, transforms, buffers=setting.method.buffers)
    task = replace(setting.task, initial=server.params, buffers=server.buffers)
    schedule = Schedule(Setting(method, federation, task, setting.seed), rounds=1, engine=inline())
    state = initial_state(schedule.setting)
    sender = replace(state.server, round=server.round, knobs=server.knobs)
    state = replace(state, server=sender)
    with one_thread():
        sent = downlink(schedule, state, sender)
        turns = turn(schedule, state, sent)
        meeting = Meeting(
            schedule.setting, sender, state.memory, turns.replies, turns.cohort, turns.replied, Stopwatch(),
            sent.server, present=turns.present,
        )  # fmt: skip
        return schedule.exchange.combine(meeting).server.params - sender.params


def _before_noise(transform: Transform) -> Transform:
    """Return a transform without the noise that the server adds to a sum: the server knows the sum before it."""
    return replace(transform, decode=Transform.decode) if transform.decodes_nothing else transform


# --- reconstruction -------------------------------------------------------------------------------------


def _from_first_layer(task: Task, gradient: Vector, shape: Sequence[int]) -> Tensor | None:
    """Return the one image behind a gradient, if the first layer is dense and has a bias; else None.

    The gradient of the weights is the outer product of that of the bias and the image; this is the least-squares
    solution, which is exact where the gradient is.
    """
    layout = task.network.layout
    weight, bias = (*layout.names, "", "")[:2]
    views = layout.views(gradient)
    inputs = math.prod(shape[1:])
    if bias not in views or views[weight].dim() != 2 or views[bias].dim() != 1 or views[weight].shape[1] != inputs:
        return None
    slope = views[bias]
    if len(slope) != len(views[weight]) or not slope.any():
        return None
    return (slope @ views[weight] / slope.square().sum()).reshape(tuple(shape))


def _by_matching(
    task: Task,
    gradient: Vector,
    y: Tensor,
    shape: Sequence[int],
    steps: int,
    pixels: tuple[float, float],
    known: Tensor | None,
) -> Tensor:
    """Return images whose gradient has the direction of another one; `known` are its entries that were sent."""
    network, (low, high) = task.network, pixels
    network.params.copy_(task.initial)
    network.buffers.copy_(task.buffers)
    device = network.params.device
    target, y, scale = gradient.to(device), y.to(device), high - low
    images = (torch.rand(tuple(shape), device=device) * scale + low).requires_grad_()
    adam = torch.optim.Adam([images], lr=_LR * scale)
    decays = torch.optim.lr_scheduler.MultiStepLR(adam, [int(share * steps) for share in _DECAYS], 0.1)
    cost = _cost(task, target, y, known, scale)
    for _ in range(steps):
        adam.zero_grad()
        (images.grad,) = torch.autograd.grad(cost(images), images)
        images.grad.sign_()
        adam.step()
        decays.step()
        with torch.no_grad():
            images.clamp_(low, high)
    network.buffers.copy_(task.buffers)  # running statistics moved meanwhile
    return images.detach().cpu()


def _cost(task: Task, target: Vector, y: Tensor, known: Tensor | None, scale: float) -> Callable[[Tensor], Tensor]:
    """Return 1 - the cosine of the angle between two gradients, plus the roughness of the images."""
    params = [param for param in task.network.module.parameters() if param.requires_grad]
    target = target if known is None else target[known.to(target.device)]

    def cost(images: Tensor) -> Tensor:
        gradients = torch.autograd.grad(task.loss(images, y), params, create_graph=True)
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        flat = flat if known is None else flat[known.to(flat.device)]
        cosine = torch.nn.functional.cosine_similarity(flat, target, dim=0, eps=1e-20)
        rough = images.diff(dim=-1).abs().mean() + images.diff(dim=-2).abs().mean()
        return 1 - cosine + _SMOOTHNESS / scale * rough

    return cost


# --- quality --------------------------------------------------------------------------------------------


def _closest(originals: Tensor, images: Tensor) -> Tensor:
    """Return the reconstruction of each original: the pairing with the smallest squared error, each used once."""
    errors = torch.cdist(originals.flatten(1).double(), images.flatten(1).double()).square()
    return images[torch.from_numpy(linear_sum_assignment(errors.numpy())[1])]


def _psnr(original: Tensor, image: Tensor, peak: float) -> float:
    """Return the peak signal-to-noise ratio in dB."""
    error = float((original.double() - image.double()).square().mean()) / peak**2
    return min(_BEST, -10 * math.log10(error)) if error else _BEST


def _pixel_range(federation: Federation) -> tuple[float, float]:
    """Return the smallest and the largest value of a pixel, as networks get them."""
    x = federation.dataset.train.x
    return (0.0, 1.0) if x.dtype == np.uint8 else (float(x.min()), float(x.max()))


def _mean_image(federation: Federation) -> Tensor:
    x: NDArray[np.float64] = federation.dataset.train.x.mean(0, dtype=np.float64)
    return torch.from_numpy(x / 255 if federation.dataset.train.x.dtype == np.uint8 else x).float()
