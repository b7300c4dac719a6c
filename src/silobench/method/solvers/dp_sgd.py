"""Differentially private SGD: clipped gradients of single rows, and noise."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Gt, Lt
from torch import Tensor, nn

from silobench.errors import ConfigError, SpecError
from silobench.method.solvers.per_example import clipped_sum_of, mixes_rows, scales
from silobench.method.solvers.problem import Problem
from silobench.method.solvers.sgd import Sgd
from silobench.method.solvers.solver import SOLVERS, Correct, check_passes
from silobench.method.types import BelowOne, Count, Local, Memory, NonNegative, Positive, Pull, Server, Vector
from silobench.privacy.canaries import Canaries
from silobench.privacy.mechanism import Mechanism
from silobench.privacy.randomness import Randomness

CANARIES = "canaries"  # in the memory of the solver: an observer's evidence of each
_DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class DpSgd(Sgd):
    """SGD on clipped gradients of single rows with noise; see `dp_sgd`.

    `sampled`, `clipped_sum` and `add_noise` are the three parts that the guarantee rests on.
    """

    clip: float
    noise: float | None
    epsilon: float | None
    delta: float | None
    sampling: Literal["poisson", "shuffled"]
    reproducible: bool
    noises: tuple[float, ...] = ()  # by party, where they follow from epsilon

    kind: ClassVar[str] = "dp_sgd"
    hides_gradient: ClassVar[bool] = True

    def step(self, params: Vector, grad: Vector, state: dict[str, Vector], lr: float) -> None:
        super().step(params, grad, state, lr)  # overridden, because engines recognise SGD by its `step`

    def train(
        self,
        problem: Problem,
        start: Vector,
        server: Server,
        correct: Correct | None,
        pull: Pull,
        memory: Memory,
        frozen: Tensor | None = None,
    ) -> tuple[Local, Memory]:
        if problem.canaries is None:
            return super().train(problem, start, server, correct, pull, memory, frozen)
        before = {name: value for name, value in memory.items() if name != CANARIES}
        canaries = problem.canaries.watched(memory.get(CANARIES))
        local, after = super().train(replace(problem, canaries=canaries), start, server, correct, pull, before, frozen)
        return local, {**after, CANARIES: canaries.evidence}

    def gradients(self, problem: Problem, round: int) -> Iterator[Tensor]:
        party, network = problem.party, problem.task.network
        random, noise, loss = self._random(problem, round), self.noise_of(party.id), torch.zeros(())
        size = self.batch or party.samples
        for rows in self.sampled(problem, round, random):
            if not noise and math.isinf(self.clip) and self.sampling == "shuffled":
                yield problem.backward(rows, augmented=True)  # plain SGD, bit for bit
                continue
            if len(rows):
                mean = self.clipped_sum(problem, rows)
                loss = mean if math.isfinite(mean) else loss  # as after an empty batch
            else:
                network.grad.zero_()
            if problem.canaries is None:
                self.add_noise(network.grad, noise, random)
            else:
                self._add_noise_watched(problem.canaries, party.samples, network.grad, noise, random)
            network.grad.div_(min(size, party.samples))
            yield loss

    def sampled(self, problem: Problem, round: int, random: Randomness) -> Iterator[Tensor]:
        """Yield the rows of each step."""
        if self.sampling == "shuffled":
            yield from self.batches(problem, round)
            return
        rows, samples = problem.rows, problem.party.samples
        for _ in range(self.count(samples)):
            yield rows[torch.from_numpy(random.sample(self.rate(samples), len(rows)))]

    def clipped_sum(self, problem: Problem, rows: Tensor) -> Tensor:
        """Write the sum of the clipped gradients of single rows to ``network.grad``, and return the mean loss."""
        network, loss, canaries = problem.task.network, problem.task.loss_of, problem.canaries
        if canaries is not None:
            rows, drawn = canaries.split(rows)
            mean_loss = self.clipped_sum(replace(problem, canaries=None), rows)
            canaries.add(network.grad, drawn, float(scales(torch.tensor(canaries.length), self.clip)))
            return mean_loss
        if not len(rows):
            network.grad.zero_()
            return torch.zeros(())
        way = clipped_sum_of(network, loss, lambda count: _batch(problem, _first_rows(problem, count)))
        return way(network, loss, *_batch(problem, rows, augmented=True), self.clip)

    def add_noise(self, total: Vector, noise: float, random: Randomness) -> None:
        """Add normal numbers of deviation noise · clip to a sum of clipped gradients."""
        if noise:
            total.add_(random.normal(total.numel()).to(total.device), alpha=noise * self.clip)

    def _add_noise_watched(
        self, canaries: Canaries, samples: int, total: Vector, noise: float, random: Randomness
    ) -> None:
        exact = total.clone()
        self.add_noise(total, noise, random)
        # Who knows the seed of reproducible noise subtracts it.
        canaries.watch(exact if self.reproducible else total, self.clip, noise, self.rate(samples))

    def _random(self, problem: Problem, round: int) -> Randomness:
        if self.reproducible:
            return Randomness.seeded(problem.seed, problem.purpose("dp noise"), round, problem.party.id)
        return Randomness.secret()

    def rate(self, samples: int) -> float:
        """Return the probability that a row is in a batch."""
        return min(1.0, (self.batch or samples) / samples)

    def noise_of(self, party: int) -> float:
        """Return the noise of a party."""
        if self.noise is not None:
            return self.noise
        if party < len(self.noises):
            return self.noises[party]
        raise ConfigError(
            f"dp_sgd(epsilon={self.epsilon}) has no noise for party {party}: call calibrated(rounds, samples) with the "
            "rows of all parties, or give noise."
        )

    def delta_of(self, samples: int) -> float:
        """Return the delta of the guarantee for a party with these rows."""
        return min(_DELTA, 1 / samples) if self.delta is None else self.delta

    def release(self, party: int, samples: int) -> tuple[Mechanism, int]:
        mechanism = Mechanism(
            "example",
            self.delta_of(samples),
            self.noise_of(party),
            self.rate(samples),
            self.sampling,
            reproducible=self.reproducible,
            budget=self.epsilon,
        )
        return mechanism, self.count(samples)

    def calibrated(self, rounds: int, samples: Sequence[int]) -> "DpSgd":
        if self.noise is not None or self.epsilon is None:
            return self
        from silobench.privacy.accountant import noise_for  # its libraries take long to import

        noises = [
            noise_for(self.epsilon, self.delta_of(rows), self.rate(rows), rounds * self.count(rows), self.sampling)
            for rows in samples
        ]
        return replace(self, noises=tuple(noises))

    def gradient_of(self, problem: Problem) -> Callable[[Vector], Vector]:
        def refuse(params: Vector) -> Vector:
            raise ConfigError(
                "the algorithm asks for the exact gradient over all rows, which dp_sgd does not release: use an "
                "algorithm that needs none, such as fedavg or scaffold(option=2)."
            )

        return refuse

    def refuses(self, method: Any) -> str | None:
        if method.algorithm.trainings is not None:
            return (
                "dp_sgd counts one training per round, but the algorithm has other ones (as ditto, fedrep and apfl "
                "have): use an algorithm with one training, such as fedavg."
            )
        if method.algorithm.adaptation is not None:
            return (
                "dp_sgd counts the training of the rounds, but the algorithm trains again on the same rows before each "
                "test (as finetune does): use the algorithm without that, such as fedavg."
            )
        if method.algorithm.loss is not None:
            return (
                "dp_sgd needs a loss that is a mean over single rows, but the algorithm has a loss of its own, which "
                "may depend on all rows (as in fedrs): use an algorithm without, such as fedavg."
            )
        return None

    def refuses_network(self, module: nn.Module) -> str | None:
        if not mixes_rows(module):
            return None
        return (
            "dp_sgd clips the gradient of each row, but the network has BatchNorm, which mixes the rows of a batch: "
            "use norm=group, norm=layer or a network without normalisation."
        )


def _first_rows(problem: Problem, count: int) -> Tensor:
    return torch.arange(min(count, len(problem.federation.y)))


def _batch(problem: Problem, rows: Tensor, augmented: bool = False) -> tuple[Tensor, Tensor]:
    """Return features and labels of some rows where the network is."""
    device = problem.task.network.grad.device
    x, y = problem.federation.batch(rows, augmented)
    return (x.to_dense() if x.is_sparse_csr else x).to(device), y.to(device)


@SOLVERS.register
def dp_sgd(
    lr: Positive | Callable[[Server], float] = 0.1,
    clip: Annotated[float, Gt(0)] | Literal["inf"] = 1.0,
    noise: NonNegative | None = None,
    epsilon: Positive | None = None,
    delta: Annotated[float, Gt(0), Lt(1)] | None = None,
    momentum: BelowOne = 0.0,
    weight_decay: NonNegative = 0.0,
    epochs: Count = 1,
    steps: Count | None = None,
    batch: Count | Literal["full"] = 64,
    sampling: Literal["poisson", "shuffled"] = "poisson",
    keep_momentum: bool = False,
    reproducible: bool = False,
) -> DpSgd:
    """Differentially private SGD, which protects each training row of a party.

    Deep Learning with Differential Privacy, Abadi et al., CCS 2016. A step draws every row of the party with
    probability q = batch / rows, clips the gradient of each drawn row to the norm `clip`, and moves along

        g = (Σ_rows clip(∇loss_row) + noise · clip · N(0, I)) / batch

    The divisor is the expected size of a batch, so an empty batch is a step of noise only. A row whose loss or gradient
    is not finite counts as zero. Weight decay, momentum and what an algorithm adds to the gradient come after the
    noise, and cost no privacy.

    Give `noise`, and the run reports epsilon; or give `epsilon`, and the noise of each party follows from it and from
    the number of rounds. With both, the run ends before it exceeds epsilon. `delta` is min(1e-5, 1 / rows) by default.
    `sampling=shuffled` takes the minibatches of sgd; no epsilon holds for them. Noise and samples come from the
    operating system's generator, so two runs differ. With `reproducible` they follow from the seed, and protect nobody
    from someone who knows it. The other arguments are those of sgd.
    """
    check_passes("dp_sgd", epochs, steps, default=1)
    if noise is None and epsilon is None:
        raise SpecError("dp_sgd: neither noise nor epsilon was given: give one of them, as in dp_sgd(noise=1.1).")
    clip = float(clip)
    if math.isinf(clip) and noise != 0:
        raise SpecError("dp_sgd: clip=inf was given, but noise needs a finite clip: give clip=1.0, or noise=0.")
    return DpSgd(
        *(lr, momentum, weight_decay, epochs, steps, None if batch == "full" else batch),
        keep_momentum and momentum > 0,
        clip=clip,
        noise=noise,
        epsilon=epsilon,
        delta=delta,
        sampling=sampling,
        reproducible=reproducible,
    )
