"""What follows from a consortium: the plan of its run, and a run without rows that the server and all silos build.

Both ends build it from the same facts, so that noise, weights and random numbers are the same everywhere.
"""

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from silobench.data.agreed import Columns, Moments, Summary, agreed_encoder
from silobench.data.agreed.rows import notes_of
from silobench.data.dataset import Dataset, Split
from silobench.errors import ConfigError, listed
from silobench.federation import Federation, Party
from silobench.loop.schedule import Schedule
from silobench.method.secure import Pairwise
from silobench.method.selection import Cohort, is_secret, no_cohort
from silobench.method.transforms import bind_chain
from silobench.method.transforms.secure_sum import protocol_of
from silobench.method.types import Server
from silobench.partitions import Partition
from silobench.runs.grid import expand
from silobench.runs.horizontal import HorizontalRun, of_federation
from silobench.runs.plan import Binder, DataFacts, Plan
from silobench.silos.consortium import Consortium
from silobench.silos.letters import LetterError
from silobench.silos.refusals import check_cell, check_engine, check_model, check_schedule
from silobench.training.setting import Setting

_NOT_STATED = ("dataset", "partition")
_PARTITION = "by-group(order=rows)"


@dataclass(frozen=True)
class Roster:
    """The silos of a run, and the facts about their rows that everybody knows."""

    names: tuple[str, ...]  # in the order of the parties
    rows: tuple[int, ...]  # training rows: exact, or as `like` rounds them
    tests: tuple[int, ...]  # test rows
    summary: Summary  # of all of them together


def like(rows: int) -> int:
    """Return a number of rows that lies between the same powers of two: all that a secure sum needs to know.

    >>> [like(rows) for rows in (1, 4, 5, 7, 8, 1000)]
    [1, 4, 5, 5, 8, 513]
    """
    below = 1 << rows.bit_length() - 1
    return below if rows == below else below + 1


@dataclass(frozen=True)
class Agreement:
    """A consortium, with the columns and the plan that its files state."""

    consortium: Consortium
    columns: Columns
    plan: Plan

    @classmethod
    def of(cls, consortium: Consortium) -> "Agreement":
        """Read the texts of a consortium, and refuse an experiment that real silos cannot run."""
        columns = Columns.of_text(consortium.columns, str(consortium.folder / "columns.toml"))
        agreement = cls(consortium, columns, _plan(consortium, columns))
        check_cell(agreement.plan.cell)
        schedule = agreement.run(example_roster(consortium, columns)).schedule
        check_schedule(schedule)
        check_engine(consortium.engine, schedule.setting)
        return agreement

    @cached_property
    def secure_place(self) -> int | None:
        """The place of the secure sum in the chain of transforms; None without one."""
        chain = [term.build() for term in bind_chain(self.plan.cell.transforms)]
        return next((place for place, transform in enumerate(chain) if transform.hides), None)

    @property
    def hides(self) -> bool:
        """Whether the server learns only sums of messages."""
        return self.secure_place is not None

    @property
    def protocol(self) -> Pairwise:
        """The protocol of the secure sum."""
        chain = [term.build() for term in bind_chain(self.plan.cell.transforms)]
        protocol = protocol_of(chain[-1])
        assert isinstance(protocol, Pairwise)  # checked before
        return protocol

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a row of features."""
        return _shape(self.columns)

    def run(self, roster: Roster) -> HorizontalRun:
        """Return the run without rows: its dataset has the right form, and its parties have numbers of rows only."""
        dataset = _dataset(self.columns, roster.summary)
        return of_federation(self.plan, _federation(dataset, roster, self.plan.cell.seed))

    def is_loss_secret(self, setting: Setting) -> bool:
        """Whether the training loss stays at a silo: a secure sum has it, or noise protects rows, but not the loss."""
        return self.hides or setting.solver.release(0, setting.federation.parties[0].samples) is not None

    def setting_at(self, run: HorizontalRun, party: int, dataset: Dataset) -> Setting:
        """Return the setting of a run at one silo: its party has the rows of this dataset."""
        setting = run.setting
        return replace(setting, federation=_own_federation(setting.federation, party, dataset), keeps_messages=True)


def _plan(consortium: Consortium, columns: Columns) -> Plan:
    choices = _choices(consortium)
    shape = _shape(columns)

    whose = "".join(f"{silo.name} {silo.key}\n" for silo in consortium.silos)
    checksum = hashlib.sha256(f"{whose}{consortium.columns}".encode()).hexdigest()  # instead of that of the rows

    def data(text: str) -> DataFacts:
        return DataFacts(checksum, shape, {"partition": _PARTITION})

    dataset = f"silos(files=[{', '.join(consortium.names)}], columns=columns.toml)"
    plan = Binder(data=data).bind({**choices, "dataset": dataset})
    return replace(plan, created=datetime.now(UTC).isoformat(timespec="microseconds"))


def _choices(consortium: Consortium) -> Mapping[str, Any]:
    """Return the choices of experiment.toml, which has one run."""
    try:
        stated = tomllib.loads(consortium.experiment)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"experiment.toml cannot be read as TOML ({error}): fix it.") from error
    cells = expand(stated)
    if len(cells) != 1:
        raise ConfigError(
            f"experiment.toml has {len(cells)} runs, but silos agree on one: leave out lists, trials and grids."
        )
    unwanted = [key for key in _NOT_STATED if key in cells[0]]
    if unwanted:
        raise ConfigError(
            f"experiment.toml has the key {listed(unwanted)}, but the rows are those of the silos: leave it out."
        )
    if "model" in cells[0]:
        check_model(str(cells[0]["model"]))
    return cells[0]


def _shape(columns: Columns) -> tuple[int, ...]:
    if columns.pictures:
        return (3 if columns.pictures.colour == "rgb" else 1, columns.pictures.size, columns.pictures.size)
    return (sum(len(part.features) for part in columns.parts),)


def _dataset(columns: Columns, summary: Summary) -> Dataset:
    """Return a dataset of the agreed form, whose few rows stand for those that the server does not have.

    There is a row of zeros for each class; a numeric target has the mean and the deviation of all silos' rows.
    """
    labels: Sequence[Any] = range(len(columns.label.classes))
    if summary.target is not None:
        deviation = (summary.target.squares / max(1, summary.target.known)) ** 0.5
        labels = (summary.target.mean - deviation, summary.target.mean + deviation)
    kind = np.float32 if summary.target else np.int64
    x = np.zeros((len(labels), *_shape(columns)), np.uint8 if columns.pictures else np.float32)
    rows = Split(x, np.array(labels, kind))
    return Dataset(
        "silos",
        rows,
        rows,
        columns.label.classes,
        notes=notes_of(columns),
        task=columns.label.task,
        columns=tuple(feature for part in columns.parts for feature in part.features),
        target=columns.label.name,
        unit=columns.label.unit,
        encoder=agreed_encoder(columns, summary) if columns.parts else None,
    )


def _federation(dataset: Dataset, roster: Roster, seed: int) -> Federation:
    """Return parties with as many rows as the silos; the numbers of the rows refer to nothing."""
    ends = np.cumsum([0, *roster.rows])
    rows = [torch.arange(begin, end) for begin, end in pairwise(ends.tolist())]
    parties = tuple(
        Party(party, each, each[:0], name) for party, (each, name) in enumerate(zip(rows, roster.names, strict=True))
    )
    return Federation(dataset, Partition(tuple(each.numpy() for each in rows), names=roster.names), seed, parties)


@dataclass(frozen=True)
class SiloFederation(Federation):
    """The federation at a silo: one party has the rows of its dataset, the others have numbers of rows only."""

    party: int = 0

    @cached_property
    def class_counts(self) -> Tensor:
        """The rows of each class of this silo's party; zeros for the others, whose classes are not known here."""
        counts = torch.zeros(len(self.parties), len(self.dataset.label_names), dtype=torch.int64)
        counts[self.party] = torch.bincount(torch.from_numpy(self.dataset.codes), minlength=counts.shape[1])
        return counts


def _own_federation(agreed: Federation, party: int, dataset: Dataset) -> SiloFederation:
    rows = torch.arange(len(dataset.train))
    parties = tuple(replace(each, rows=rows) if each.id == party else each for each in agreed.parties)
    return SiloFederation(dataset, agreed.partition, agreed.seed, parties, agreed.device, None, party)


def need_agreed_cohort(cohort: Cohort, schedule: Schedule, party: int, round: int) -> None:
    """Refuse another cohort than a round of the experiment has: noise that parties share becomes less in a larger one.

    A silo does not know a secret draw; then it must be in the cohort itself. In a secure sum all silos are.
    """
    setting = schedule.setting
    parties = tuple(range(len(setting.federation.parties)))
    is_agreed = no_cohort(cohort, parties, "") is None and party in cohort
    if setting.method.hides:
        is_agreed = cohort == parties
    elif not is_secret(schedule.selection):
        is_agreed &= cohort == schedule.selection(setting.federation, schedule.cohort, setting.seed, round)
    if not is_agreed:
        raise LetterError(f"the letter has another cohort than round {round + 1} of the experiment")


def need_agreed_knobs(server: Server, setting: Setting) -> None:
    """Refuse knobs besides those of the agreed learning rate: they could change how much is clipped or sent."""
    of_lr = getattr(setting.solver.lr, "knobs", None)
    if not server.knobs.keys() <= (of_lr({}).keys() if of_lr else set()):
        raise LetterError("the letter turns a knob that the experiment does not have")


def example_roster(consortium: Consortium, columns: Columns) -> Roster:
    """Return a roster of small silos, to check an experiment before any of them joined."""
    count, rows = len(consortium.names), 1024
    features = {name: Moments(rows, 0.0, float(rows)) for name in columns.summed_features}
    target = None if columns.label.classes else Moments(rows, 0.0, float(rows))
    summary = Summary(rows * count, features, target)
    return Roster(consortium.names, (rows,) * count, (rows,) * count, summary)
