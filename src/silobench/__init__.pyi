# The public names of silobench, and the only list of them: `__init__.py` loads each on first use.

from .data import Dataset, Split, load
from .engines import Engine, auto, inline, native, pool, stacked
from .errors import SilobenchError
from .federation import Federation, federate
from .loop.network import link, mesh
from .loop.rounds import rounds
from .measures import (
    Course,
    Measure,
    accuracy_loss,
    measured,
    norm_divergence,
    replicas,
    update_delta,
    weight_divergence,
)
from .method.algorithms import (
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
from .method.control import Controller, Orders, Probe, Travel
from .method.controllers import oracle, skewscout
from .method.method import Method
from .method.selection import by_size, round_robin, stratified, uniform
from .method.servers import adagrad, adam, momentum, step, yogi
from .method.solvers import sgd
from .method.transforms import clip, top_k
from .method.types import (
    Algorithm,
    Batch,
    Dial,
    Layout,
    Local,
    Memory,
    Pull,
    Server,
    Transform,
    Update,
    Vector,
)
from .partitions import Partition, measure, partition
from .tasks.task import Task, task
from .training.setting import Setting
from .training.state import RoundRecord

__version__: str

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
