"""What cannot be done between real silos, because it needs everybody's rows or memories at the server."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from silobench.engines import ENGINES
from silobench.errors import ConfigError
from silobench.loop.exchanges import STAR
from silobench.loop.schedule import Schedule
from silobench.method.secure import Pairwise
from silobench.method.selection import reads
from silobench.method.transforms.secure_sum import protocol_of
from silobench.models.module_file import code_file
from silobench.runs.plan import Cell
from silobench.training.setting import Setting

_FIXED = {  # keys that must have their default
    "parties": "the parties are the silos of consortium.toml",
    "split": "every silo holds out its own test rows",
    "validation": "silos hold out no validation rows",
    "eval_on": "silos test on all of their test rows",
    "start": "a model in a file of the lead is not a part of the agreement",
    "availability": "real silos are there or not",
    "pace": "the server waits for the answers of a round",
    "clock": "real silos take the time that they take",
    "controller": "it would look at models and rows of single silos",
    "adversary": "it plays silos that want to do harm",
    "broadcast": "silos are sent the whole model",
    "measure": "measures look at rows and messages of single silos",
    "metric": "further metrics need the answers to single rows, which stay at silos",
    "device": "a silo computes on its processor",
}
_MOST_ROUNDS = 1_000_000  # a silo makes keys for every round before the first


def check_cell(cell: Cell) -> None:
    """Refuse a key of the experiment that has no meaning between real silos."""
    for key, why in _FIXED.items():
        default = Cell.model_fields[key].default
        if getattr(cell, key) != default:
            raise ConfigError(f"experiment.toml has {key} = {getattr(cell, key)!r}, but {why}: leave {key} out.")
    if cell.rounds > _MOST_ROUNDS:
        raise ConfigError(
            f"experiment.toml has rounds = {cell.rounds}, but silos agree on at most {_MOST_ROUNDS}: lower it."
        )


def check_model(model: str) -> None:
    """Refuse a model that is a file of code, before anything is built: a silo executes no file that a lead names."""
    if code_file(model):
        raise ConfigError(
            f"experiment.toml has model = {model!r}, but a file with code is not a part of what silos agree on: "
            "choose a model of `silobench list models`."
        )


def check_engine(engine: str, setting: Setting) -> None:
    """Refuse an engine that cannot train the party of a silo within its process."""
    spec = ENGINES.bind(engine).full
    if spec.name == "ray" or dict(spec.kwargs).get("executor", "pool") not in ("pool", "here"):
        raise ConfigError(
            f"the engine {engine} sends rows to other machines, but a silo trains in its own process: use auto, or "
            "another engine of `silobench list engines`."
        )
    if spec.name != "auto":  # which suits everything
        replace(ENGINES.build(engine), workers=0).settled(setting)


def check_schedule(schedule: Schedule) -> None:
    """Refuse a method whose server needs more than the messages of silos."""
    for reason in _reasons(schedule):
        raise ConfigError(f"between real silos, {reason}.")


def _reasons(schedule: Schedule) -> Iterator[str]:
    setting, algorithm = schedule.setting, schedule.setting.method.algorithm
    if algorithm.silent:
        yield "a baseline without messages has no server to ask: choose another algorithm, such as fedavg"
    if algorithm.lockstep:
        yield "an algorithm that exchanges after every minibatch sends too many messages: choose one such as fedavg"
    if setting.has_party_models:
        yield (
            "every silo would have a model of its own (personal layers, or buffers = local with BatchNorm), which the "
            "server cannot test: choose an algorithm with one model, or norm=group"
        )
    if schedule.exchange is not STAR:
        yield "messages go through the server: leave exchange and a mesh network out"
    if reads(schedule.selection) == "labels":
        yield "the server does not know the classes of silos: use selection = uniform"
    yield from _hiding(setting, schedule)
    yield from _scoring(setting)


def _hiding(setting: Setting, schedule: Schedule) -> Iterator[str]:
    for transform in setting.method.transforms:
        if not transform.hides:
            continue
        if not isinstance(protocol_of(transform), Pairwise):
            yield "a secure sum has pairwise masks, because silos may leave: write secure_sum(protocol=pairwise)"
        if schedule.cohort < len(setting.federation.parties):
            yield "all silos take part in every round of a secure sum: leave participation out"


def _scoring(setting: Setting) -> Iterator[str]:
    """Refuse an objective whose score has values of single rows."""
    objective, dataset = setting.task.objective, setting.federation.dataset
    y = torch.from_numpy(dataset.test.y)
    score = objective.score(torch.zeros(len(y), objective.outputs(dataset)), y)
    if score.answers or score.pairs:
        yield (
            f"the objective {objective.name} with the main metric {objective.main.title} needs the answers to single "
            "rows, which stay at silos: choose another main metric"
        )
