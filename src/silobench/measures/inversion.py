"""Gradient inversion: images that a server reconstructs from what parties send."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray
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
from silobench.measures.reconstruction import by_matching, closest, from_first_layer, psnr
from silobench.method.method import Method
from silobench.method.solvers import Solver
from silobench.method.solvers.dp_sgd import DpSgd
from silobench.method.types import Algorithm, Count, Memory, NonNegative, Transform, Vector, at
from silobench.models.devices import seed_torch
from silobench.rng import stream, torch_seed
from silobench.training.party import transform_key
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State
from silobench.training.stopwatch import Stopwatch

FIRST_LAYER, MATCHING = "first layer", "gradient matching"  # how an image was reconstructed
_MOST_PICTURES = 4


@MEASURES.register
def inversion(
    rows: Count = 1, steps: Count = 300, round: Count = 1, victims: Count = 3, smoothness: NonNegative = 0.01
) -> Measure:
    """Reconstruct the images of one training step from what the server sees of it, in one round of the run.

    A victim takes one step on `rows` of its images, from the model before this round, with the run's solver (its
    clipping and noise) and transforms. The server sees its message, without the noise that the server itself adds;
    under a secure sum it sees only the sum over the parties of a round, all of which take such a step. The findings are
    means over `victims`: the peak signal-to-noise ratio in dB (20 is a clear image, 100 at most), that of the mean of
    all training images, which is the best guess without a message, and the mean squared error.

    From the gradient of a first dense layer with a bias, one image follows exactly. Otherwise images are changed in
    `steps` steps of Adam until their gradient has the direction of the one that the server sees, and they are smooth
    (`smoothness` is the weight of their total variation): Inverting Gradients, Geiping et al., NeurIPS 2020. The
    attacker knows the labels, which entries were sent, and the learning rate. Each original is compared with the
    reconstruction that is closest to it.
    """

    effort = _Effort(rows, steps, victims, smoothness)

    def begin(schedule: Schedule, state: State | None, memory: Memory) -> Observe:
        before = state or initial_state(schedule.setting)

        def observe(record: RoundRecord) -> tuple[Findings, Memory]:
            nonlocal before
            start, before = before, record.state
            start = replace(start, server=replace(start.server, knobs=record.knobs))
            return (_findings(schedule, start, effort) if record.round == round else {}), {}

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
    _try_step(setting, rows)


def _try_step(setting: Setting, rows: int) -> None:
    """Refuse a network that cannot take a step on so few rows, or whose gradient has no gradient."""
    party = max(setting.federation.parties, key=lambda party: party.samples)
    x, y = setting.federation.batch(party.rows[:rows])
    with torch.random.fork_rng(devices=[]):
        try:
            by_matching(setting.task, torch.ones_like(setting.task.initial), y, x.shape, (0.0, 1.0), 1, 0.0)
        except (RuntimeError, ValueError) as error:  # torch raises one of them
            raise ConfigError(
                f"inversion cannot match gradients of this network on {rows} rows of a party "
                f"({str(error).splitlines()[0].rstrip('.')}): give more rows, choose a model without BatchNorm, or "
                "leave the measure out."
            ) from error


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


@dataclass(frozen=True)
class _Effort:
    """The arguments of the measure."""

    rows: int
    steps: int
    victims: int
    smoothness: float


@dataclass(frozen=True)
class _Attack:
    """The attack on one party."""

    originals: Tensor
    matched: Tensor  # the reconstruction that is closest to each of them
    images: int  # in what the server sees: of the victim, or of all parties under a secure sum
    method: str


def _findings(schedule: Schedule, start: State, effort: _Effort) -> Findings:
    """Attack some parties in the round after `start`, and return the quality of all reconstructions."""
    federation, malicious = schedule.setting.federation, schedule.setting.malicious
    large = [party.id for party in federation.parties if party.samples >= effort.rows]
    honest = [party for party in large if party not in malicious] or large
    victims = stream(schedule.setting.seed, "inversion victims").permutation(honest)[: effort.victims]
    attacks = [_attacked(schedule, start, int(victim), effort) for victim in victims]
    (low, high), guess = _pixel_range(federation), _mean_image(federation)
    originals = torch.cat([attack.originals for attack in attacks])
    images = torch.cat([attack.matched for attack in attacks])
    ratios = [psnr(*pair, high - low) for pair in zip(originals, images, strict=True)]
    return {
        "psnr": fmean(ratios),
        "baseline_psnr": fmean(psnr(original, guess, high - low) for original in originals),
        "mse": float((originals - images).square().mean()),
        "images": attacks[0].images,
        "method": attacks[0].method,
        "pictures": {
            "original": [as_png(image, low, high) for image in originals[:_MOST_PICTURES]],
            "reconstruction": [as_png(image, low, high) for image in images[:_MOST_PICTURES]],
            "psnr": ratios[:_MOST_PICTURES],
        },
    }


def _attacked(schedule: Schedule, start: State, victim: int, effort: _Effort) -> _Attack:
    """Attack one party in the round after `start`."""
    setting, server, pixels = schedule.setting, start.server, _pixel_range(schedule.setting.federation)
    small = _with_rows(setting.federation, _senders(schedule, victim), effort.rows, setting.seed)
    lr = at(setting.solver.lr, server) or 1.0
    gradient = _seen(setting, small, start, _one_step(setting.solver, lr, effort.rows, victim)) / -lr
    x, y = small.batch(torch.cat([party.rows for party in small.parties]))
    task = replace(setting.task, initial=server.params, buffers=server.buffers)
    known = gradient != 0 if any(each.packs == "entries" for each in setting.method.transforms) else None
    images = from_first_layer(task, gradient, x.shape) if len(x) == 1 and known is None else None
    method = MATCHING if images is None else FIRST_LAYER
    if images is None:
        with one_thread(task), torch.random.fork_rng(devices=[]):
            seed_torch(torch_seed(setting.seed, "inversion", party=victim))
            images = by_matching(task, gradient, y, x.shape, pixels, effort.steps, effort.smoothness, known)
    originals = x[: small.parties[0].samples].cpu()
    shown = images.nan_to_num(nan=sum(pixels) / 2).clamp(*pixels)  # a model that diverged sends no numbers: grey
    return _Attack(originals, closest(originals, shown), len(x), method)


def _senders(schedule: Schedule, victim: int) -> list[int]:
    """Return the parties behind what the server sees: the victim, and others of a round under a secure sum."""
    setting = schedule.setting
    if not setting.method.hides:
        return [victim]
    others = [party.id for party in setting.federation.parties if party.id != victim]
    drawn = stream(setting.seed, "inversion senders", party=victim).permutation(others)
    return [victim, *drawn[: schedule.cohort - 1].tolist()]


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


def _seen(setting: Setting, federation: Federation, start: State, solver: Solver) -> Vector:
    """Return the mean change of the model that the server decodes after a round of this federation.

    Server and parties begin it with what `start` has of the model and of the transforms at the server.
    """
    server, transforms = start.server, tuple(map(_before_noise, setting.method.transforms))
    method = Method(Algorithm(), solver, transforms, buffers=setting.method.buffers)
    task = replace(setting.task, initial=server.params, buffers=server.buffers)
    schedule = Schedule(Setting(method, federation, task, setting.seed), rounds=1, engine=inline())
    state = initial_state(schedule.setting)
    sender = replace(state.server, round=server.round, knobs=server.knobs)
    keys = map(transform_key, range(len(transforms)))
    state = replace(state, server=sender, extra={key: start.extra[key] for key in keys if key in start.extra})
    with one_thread(task):
        sent = downlink(schedule, state, sender)
        turns = turn(schedule, state, sent)
        meeting = Meeting(
            schedule.setting, sender, state.memory, turns.replies, turns.cohort, turns.replied, Stopwatch(),
            sent.server, state.extra, turns.present,
        )  # fmt: skip
        return schedule.exchange.combine(meeting).server.params - sender.params


def _before_noise(transform: Transform) -> Transform:
    """Return a transform without the noise that the server adds to a sum: the server knows the sum before it."""
    return replace(transform, decode=Transform.decode) if transform.decodes_nothing else transform


# --- images ---------------------------------------------------------------------------------------------


def _pixel_range(federation: Federation) -> tuple[float, float]:
    """Return the smallest and the largest value of a pixel, as networks get them."""
    x = federation.dataset.train.x
    return (0.0, 1.0) if x.dtype == np.uint8 else (float(x.min()), float(x.max()))


def _mean_image(federation: Federation) -> Tensor:
    x: NDArray[np.float64] = federation.dataset.train.x.mean(0, dtype=np.float64)
    return torch.from_numpy(x / 255 if federation.dataset.train.x.dtype == np.uint8 else x).float()
