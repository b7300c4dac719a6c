"""Traffic speeds at road sensors, in the format of METR-LA."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Split, concatenate
from silobench.data.readers.checks import bad_line, is_number, shorten
from silobench.data.readers.delimited import Sides, first_lines, moments, numbers, rescale
from silobench.data.store.cache import stored
from silobench.data.store.directory import Files
from silobench.errors import DataError
from silobench.spec.ranges import Count


def traffic(past: Count = 12, ahead: Count = 3, all_steps: bool = False) -> Dataset:
    """Speeds at road sensors (METR-LA): predict a sensor's speed `ahead` steps later from its last `past` speeds.

    With `all_steps` the target is the next `ahead` speeds, not only the last of them: OARF's task is `past=12`,
    `ahead=12`, `all_steps=true`. There is one row per sensor and time step; the groups are the sensor and the network
    (the file). The last fifth of the time steps is for testing, and no row has steps of both sides. Features are
    scaled; the target is not.
    """
    return stored("traffic", _read_traffic, past=past, ahead=ahead, all_steps=all_steps)


@dataclass(frozen=True)
class _Network:
    """The speeds of one file."""

    path: Path
    sensors: Sequence[str]
    speeds: NDArray[np.float32]  # [steps, sensors]

    @property
    def sides(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Speeds for training, and the last fifth for testing."""
        cut = len(self.speeds) - len(self.speeds) // 5
        return self.speeds[:cut], self.speeds[cut:]


def _read_traffic(files: Files, past: int, ahead: int, all_steps: bool = False) -> Dataset:
    networks = [_read_network(files[name]) for name in files.names]
    names = [sensor for network in networks for sensor in network.sensors]
    if len(set(names)) < len(names):  # two sensors with the same name would become one party
        networks = [replace(n, sensors=[f"{n.path.stem}/{sensor}" for sensor in n.sensors]) for n in networks]
    parts = [_windows(network, past, ahead, all_steps) for network in networks]
    train, test = (concatenate([sides[side] for sides in parts]) for side in (0, 1))
    known = np.concatenate([network.sides[0].ravel() for network in networks])
    mean, deviation = moments(known[:, None])
    for split in (train, test):
        rescale(split.x, mean, deviation)
    zeros = sum(int((network.speeds == 0).sum()) for network in networks)
    return Dataset(
        "traffic",
        train,
        test,
        (),
        files.entry.licence,
        notes=(
            f"past speeds scaled by the mean {mean[0]:.4g} and the deviation {deviation[0]:.4g} of the training steps",
            *([f"{zeros} speeds are 0, which is how METR-LA marks a missing speed; they were kept"] if zeros else []),
        ),
        task="regression",
        columns=tuple(f"speed-{steps}" for steps in range(past - 1, -1, -1)),
        target="speed",
        unit="mph",
    )


def _read_network(path: Path) -> _Network:
    """Read the sensor names and speeds of a table; a first column of times is dropped."""
    header, *first = (line.split(",") for line in first_lines(path, 2))
    timed = not header[0].strip() or (bool(first) and not is_number(first[0][0]))
    sensors = [name.strip() for name in header[int(timed) :]]
    if not sensors or len(set(sensors)) < len(sensors) or "" in sensors:
        raise bad_line(path, 1, f"the header '{shorten(','.join(header))}'", "a name for each sensor is needed")
    return _Network(path, sensors, numbers(path, len(sensors), skip=1, labelled=timed))


def _windows(network: _Network, past: int, ahead: int, all_steps: bool) -> Sides:
    """Build the training and test rows of a network: `past` steps each, and the speeds up to `ahead` steps later."""
    steps = len(network.sides[1])
    if steps < past + ahead:  # the training side is longer
        raise DataError(
            f"{network.path} has {len(network.speeds)} time steps, of which the last {steps} are for testing: "
            f"past={past} and ahead={ahead} need {past + ahead} test steps; give a longer file, or smaller values."
        )
    train, test = (_window_rows(speeds, network, past, ahead, all_steps) for speeds in network.sides)
    return train, test


def _window_rows(speeds: NDArray[np.float32], network: _Network, past: int, ahead: int, all_steps: bool) -> Split:
    runs = sliding_window_view(speeds[:-ahead], past, axis=0)  # a view [runs, sensors, past]
    ids = np.repeat(np.array(network.sensors), len(runs))
    return Split(
        runs.transpose(1, 0, 2).reshape(-1, past),
        _next_speeds(speeds[past:], ahead) if all_steps else speeds[past + ahead - 1 :].T.reshape(-1),
        {"sensor": ids, "network": np.full(len(ids), network.path.stem)},
    )


def _next_speeds(speeds: NDArray[np.float32], ahead: int) -> NDArray[np.float32]:
    """Return the next `ahead` speeds of every row, [rows, ahead], with the rows of a sensor together."""
    return sliding_window_view(speeds, ahead, axis=0).transpose(1, 0, 2).reshape(-1, ahead)
