"""Split learning: each party trains a bottom network, and the label holder a top network over their activations.

For every batch, parties without labels send the activations of their bottom networks and get the gradients of the loss
back. Without transforms and defences, the result is that of the same network trained in one place, bit for bit: the
same operations are done in the same order, only by different owners.
"""

from dataclasses import dataclass, field

from silobench.errors import ConfigError
from silobench.method.chain import chain_problem
from silobench.method.solvers import SOLVERS, Solver
from silobench.method.types import Transform
from silobench.privacy.encryption.scheme import package
from silobench.spec.registry import part_name
from silobench.vertical.crossing import Crossing
from silobench.vertical.defences import Defence
from silobench.vertical.encrypted import PACKAGES, SCHEMES, EncryptedCrossing, Encryption
from silobench.vertical.federation import VerticalFederation
from silobench.vertical.methods.method import VERTICAL_ALGORITHMS, VerticalMethod, VerticalProblem
from silobench.vertical.methods.split_trainer import SplitTrainer
from silobench.vertical.networks import SplitNetwork
from silobench.vertical.networks.cuts import Sum


@dataclass(frozen=True)
class Split(VerticalMethod):
    """Split learning; see `split`."""

    defence: Defence = field(default_factory=Defence)
    solvers: tuple[str, ...] = ()
    encryption: Encryption = "none"

    def check(self, problem: VerticalProblem) -> None:
        chains = {"transforms": problem.transforms, "broadcast": problem.broadcast}
        classes = len(problem.federation.dataset.classes)
        for reason in (self.defence.refuses(classes), *map(chain_problem, chains.values())):
            if reason:
                raise ConfigError(reason)
        _need_steps(problem.solver)
        self.solvers_of(problem)
        network = problem.network()  # a model that does not fit the columns is refused here
        if self.encryption != "none":
            package(PACKAGES[self.encryption])
            _need_sum(problem, network)
        for key, chain in chains.items():
            for transform in chain:
                _need_memoryless(key, transform)

    def solvers_of(self, problem: VerticalProblem) -> tuple[Solver, ...]:
        """Return the solver of each party; that of the label holder also moves the top network."""
        parties = len(problem.federation.deal)
        if not self.solvers:
            return (problem.solver,) * parties
        if len(self.solvers) != parties:
            raise ConfigError(
                f"split needs a solver for each of {parties} parties ({', '.join(problem.federation.names)}), but "
                f"solvers has {len(self.solvers)}: give one for each, in this order."
            )
        return tuple(map(_party_solver, self.solvers))

    def notes(self, problem: VerticalProblem) -> tuple[str, ...]:
        federation = problem.federation
        if self.encryption == "none" or not federation.others:
            return ()
        hides = f"{self.encryption} hides activations in their sum over the parties without labels"
        if len(federation.others) == 1:
            other = federation.names[federation.others[0]]
            return (f"{hides}, but {other} is the only one: the label holder sees what it sends, and encryption only "
                    "costs time",)  # fmt: skip
        single = _rows_of_one_party(federation)
        if not single:
            return ()
        return (
            f"{hides}, but {single} of {len(federation.rows)} training rows are at only one of them: for such a row, "
            "the label holder sees the activation of this party plus a constant (absent=drop leaves out such rows)",
        )

    def trainer(self, problem: VerticalProblem) -> SplitTrainer:
        crossing = Crossing(problem.transforms, problem.broadcast, self.defence)
        if self.encryption != "none" and problem.federation.others:
            scheme, names = SCHEMES[self.encryption], problem.federation.names
            crossing = EncryptedCrossing((), problem.broadcast, self.defence, scheme, names)
        return SplitTrainer(problem, problem.network(), self.solvers_of(problem), crossing)


def _rows_of_one_party(federation: VerticalFederation) -> int:
    """Return the number of training rows that exactly one of the parties without labels has."""
    known = federation.deal.train[list(federation.others)][:, federation.rows.numpy()]
    return int((known.sum(0) == 1).sum())


def _need_sum(problem: VerticalProblem, network: SplitNetwork) -> None:
    """Refuse choices under which activations cannot be added up under encryption."""
    if problem.transforms:
        raise ConfigError(
            "encryption adds up activations as they are, so transforms cannot come before it: leave one of them out."
        )
    if not isinstance(network.head.cut, Sum):
        raise ConfigError(
            "encryption lets the label holder see only the sum of activations, which needs a model with cut=sum: write "
            'model = "mlp(cut=sum)", or use linear.'
        )
    if problem.federation.deal.absent == "embedding":
        raise ConfigError(
            "encryption adds up the activations of the same rows, but with absent=embedding parties send only the rows "
            "that they have: use absent=zeros or absent=drop."
        )


def _party_solver(text: str) -> Solver:
    """Return a party's own solver."""
    solver = SOLVERS.build(text)
    _need_steps(solver)
    if getattr(solver.lr, "needs_validation", False):
        raise ConfigError(
            f"solvers has {text}, but parties without labels cannot follow the validation loss: use plateau in the "
            "solver of the experiment, and leave out solvers."
        )
    return solver


def _need_steps(solver: Solver) -> None:
    """Refuse a solver that does more than steps along the gradient of a batch."""
    if type(solver).gradients is not Solver.gradients or type(solver).release is not Solver.release:
        raise ConfigError(
            f"{part_name(solver, 'solver')} needs the gradients of single rows of a whole network, which no party has "
            "here: use sgd or adam."
        )


def _need_memoryless(key: str, transform: Transform) -> None:
    """Refuse a transform that needs the same entries in every message, or a sum over parties."""
    name = part_name(transform, "transform")
    if transform.keeps_rest or transform.settle is not None:
        raise ConfigError(
            f"{key} has {name}, which sends later what it leaves out now, but every batch has other rows: write "
            f"feedback=false in it, or leave it out."
        )
    if (
        transform.needs_decoding
        or transform.hides
        or transform.equal_weights
        or transform.adapt is not None
        or transform.reveal is not None
    ):
        raise ConfigError(
            f"{key} has {name}, which is for sums of parties' updates, but activations and gradients of single rows "
            "cross the cut: use quantize, top_k, rand_k, sign, low_rank or clip."
        )


@VERTICAL_ALGORITHMS.register(specs=("defence",))
def split(
    defence: Defence | None = None, solvers: tuple[str, ...] = (), encryption: Encryption = "none"
) -> VerticalMethod:
    """Split learning: every party trains a bottom network on its columns, and the label holder the top network.

    `defence` changes what crosses the cut, as in ``split(defence=marvell(power=4))``. `solvers` has a solver for each
    party as text in quotation marks, as in ``split(solvers=['adam(lr=0.001)', 'sgd(lr=0.1)'])``; otherwise all have the
    solver of the experiment, which also says how rows are visited. Solvers keep their state between rounds.

    With `encryption`, activations are added up under encryption, and the label holder sees only the sum over the other
    parties: by ckks, by paillier with 31 numbers per ciphertext, or by paillier-unpacked with one. The model needs
    cut=sum. Activations are rounded to multiples of 2^-20, or of a larger power of two if more than four parties add
    them up. Of a row that only one of these parties has, the sum shows its activations. Gradients go back in the clear.
    """
    return Split(defence or Defence(), solvers, encryption)
