"""What the workers of a Ray cluster call. A worker remembers nothing but the last few shared values."""

import functools
import os
import platform
import warnings
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

from silobench.engines.cluster.parcels import Parcel, unparcelled
from silobench.engines.executor import InProcess, Job
from silobench.engines.kernel import cpu_type
from silobench.engines.shipping import packed, unpacked
from silobench.engines.workers import calculate_as_the_loop, packed_error
from silobench.errors import ConfigError

_CACHED = 4  # shared values that a worker remembers
_shared: OrderedDict[str, Any] = OrderedDict()  # by key, the latest last


@dataclass(frozen=True)
class Machine:
    """What the bits of a result depend on, besides the code of a job: versions, and the type of processor."""

    versions: tuple[tuple[str, str], ...]
    cpu: str


@dataclass(frozen=True)
class Order:
    """Jobs for a worker, packed: functions with their arguments, and the keys of what they share."""

    keys: tuple[str, ...]
    calls: NDArray[np.uint8]  # packed pairs of a function and its arguments
    versions: tuple[tuple[str, str], ...]  # of the machine that sent it
    variables: tuple[tuple[str, str], ...]  # of its environment


@functools.cache
def this_machine() -> Machine:
    """Return what results depend on in this process."""
    packages = {name: metadata.version(name) for name in ("silobench", "torch", "numpy", "scipy", "scikit-learn")}
    return Machine((("python", platform.python_version()), *packages.items()), cpu_type())


def ready(node: str) -> tuple[str, Machine]:
    """Import what jobs need, and return the name of a node with what results depend on there."""
    _prepare((), ())
    return node, this_machine()


def run_calls(order: Order, *parcels: Parcel) -> NDArray[np.uint8]:
    """Run some jobs, one after another; return their packed results, or the first error."""
    try:
        results = [job() for job in _jobs(order, parcels)]
        return as_bytes(packed(("result", results)))
    except Exception as error:
        return as_bytes(packed_error(error))


def run_generator(order: Order, *parcels: Parcel) -> Generator[NDArray[np.uint8]]:
    """Run one job that is a generator; yield each of its values, packed, and at the end its result or error."""
    try:
        for news in InProcess().news(list(_jobs(order, parcels))):
            yield as_bytes(packed(("result" if news.final else "news", news.value)))
    except Exception as error:
        yield as_bytes(packed_error(error))


def as_bytes(content: bytes) -> NDArray[np.uint8]:
    """Return bytes as an array, which Ray sends without a further copy."""
    return np.frombuffer(content, np.uint8)


def _jobs(order: Order, parcels: Sequence[Parcel]) -> Iterator[Job]:
    _prepare(order.versions, order.variables)
    shared = tuple(_remembered(key, parcel) for key, parcel in zip(order.keys, parcels, strict=True))
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = unpacked(order.calls.data)
    return (Job(function, shared, arguments) for function, arguments in calls)


def _remembered(key: str, parcel: Parcel) -> Any:
    """Return a shared value, unpacked once per process; the arrays of the parcel are those of the object store."""
    if key not in _shared:
        _shared[key] = unparcelled(parcel)
    _shared.move_to_end(key)
    while len(_shared) > _CACHED:
        _shared.popitem(last=False)
    return _shared[key]


def _prepare(versions: tuple[tuple[str, str], ...], variables: tuple[tuple[str, str], ...]) -> None:
    """Compute as the command does that sent the jobs; refuse another version than its own."""
    calculate_as_the_loop()
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # rows of the store; nobody writes there
    os.environ.update(variables)
    if refusal := differences(versions, this_machine().versions) if versions else "":
        raise ConfigError(f"the machine {platform.node()} of the Ray cluster {refusal}")


def differences(ours: tuple[tuple[str, str], ...], theirs: tuple[tuple[str, str], ...]) -> str:
    """Return how the versions of a machine differ from ours, as the end of a sentence; empty if they do not.

    >>> differences((("torch", "2.6"),), (("torch", "2.5"),))
    'has torch 2.5, but this command has torch 2.6: install the same versions on all machines.'
    """
    others = dict(theirs)
    wrong = [(name, version) for name, version in ours if others.get(name) != version]
    if not wrong:
        return ""
    has = " and ".join(f"{name} {others.get(name, 'in no version')}" for name, _ in wrong)
    needs = " and ".join(f"{name} {version}" for name, version in wrong)
    return f"has {has}, but this command has {needs}: install the same versions on all machines."
