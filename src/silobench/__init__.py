"""silobench: learn from data that cannot leave its silos. Everything public is here, flat and sorted.

Names load on first use, so that the command line answers before torch is imported.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from silobench._version import __version__

if TYPE_CHECKING:
    from silobench.algorithms import (
        ALGORITHMS,
        bsp,
        combined,
        dgc,
        fedavg,
        fedbn,
        feddyn,
        fednova,
        fedprox,
        fedrs,
        fedsgd,
        gaia,
        moon,
        scaffold,
        solo,
    )
    from silobench.controllers import oracle, skewscout
    from silobench.data import Dataset, Split, load
    from silobench.engines import Engine, auto, inline, native, pool, stacked
    from silobench.errors import SilobenchError
    from silobench.federation import Federation, federate
    from silobench.local import Setting
    from silobench.measures import (
        Course,
        Measure,
        accuracy_loss,
        measured,
        norm_divergence,
        replicas,
        update_delta,
        weight_divergence,
    )
    from silobench.methods import Method
    from silobench.network import link, mesh
    from silobench.partition import Partition, measure, partition
    from silobench.rounds import rounds
    from silobench.selection import by_size, round_robin, stratified, uniform
    from silobench.servers import adagrad, adam, momentum, step, yogi
    from silobench.solvers import sgd
    from silobench.task import Task, task
    from silobench.transforms import clip, top_k
    from silobench.types import (
        Algorithm,
        Batch,
        Controller,
        Dial,
        Layout,
        Local,
        Memory,
        Orders,
        Probe,
        Pull,
        RoundRecord,
        Server,
        Transform,
        Travel,
        Update,
        Vector,
    )

_HOMES = {
    "algorithms": (
        "ALGORITHMS",
        "bsp",
        "combined",
        "dgc",
        "fedavg",
        "fedbn",
        "feddyn",
        "fednova",
        "fedprox",
        "fedrs",
        "fedsgd",
        "gaia",
        "moon",
        "scaffold",
        "solo",
    ),
    "controllers": ("oracle", "skewscout"),
    "data": ("Dataset", "Split", "load"),
    "engines": ("Engine", "auto", "inline", "native", "pool", "stacked"),
    "errors": ("SilobenchError",),
    "federation": ("Federation", "federate"),
    "local": ("Setting",),
    "measures": (
        "Course",
        "Measure",
        "accuracy_loss",
        "measured",
        "norm_divergence",
        "replicas",
        "update_delta",
        "weight_divergence",
    ),
    "methods": ("Method",),
    "network": ("link", "mesh"),
    "partition": ("Partition", "measure", "partition"),
    "rounds": ("rounds",),
    "selection": ("by_size", "round_robin", "stratified", "uniform"),
    "servers": ("adagrad", "adam", "momentum", "step", "yogi"),
    "solvers": ("sgd",),
    "task": ("Task", "task"),
    "transforms": ("clip", "top_k"),
    "types": (
        "Algorithm",
        "Batch",
        "Controller",
        "Dial",
        "Layout",
        "Local",
        "Memory",
        "Orders",
        "Probe",
        "Pull",
        "RoundRecord",
        "Server",
        "Transform",
        "Travel",
        "Update",
        "Vector",
    ),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Batch",
    "Controller",
    "Course",
    "Dataset",
    "Dial",
    "Engine",
    "Federation",
    "Layout",
    "Local",
    "Measure",
    "Memory",
    "Method",
    "Orders",
    "Partition",
    "Probe",
    "Pull",
    "RoundRecord",
    "Server",
    "Setting",
    "SilobenchError",
    "Split",
    "Task",
    "Transform",
    "Travel",
    "Update",
    "Vector",
    "__version__",
    "accuracy_loss",
    "adagrad",
    "adam",
    "auto",
    "bsp",
    "by_size",
    "clip",
    "combined",
    "dgc",
    "fedavg",
    "fedbn",
    "feddyn",
    "federate",
    "fednova",
    "fedprox",
    "fedrs",
    "fedsgd",
    "gaia",
    "inline",
    "link",
    "load",
    "measure",
    "measured",
    "mesh",
    "momentum",
    "moon",
    "native",
    "norm_divergence",
    "oracle",
    "partition",
    "pool",
    "replicas",
    "round_robin",
    "rounds",
    "scaffold",
    "sgd",
    "skewscout",
    "solo",
    "stacked",
    "step",
    "stratified",
    "task",
    "top_k",
    "uniform",
    "update_delta",
    "weight_divergence",
    "yogi",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"silobench has no '{name}'")
    return getattr(importlib.import_module(f"silobench.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """``silobench.rounds`` is the function, also after someone has imported the module of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in _HOME):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
