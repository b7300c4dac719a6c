"""Traffic: speeds at the sensors of road networks, as METR-LA has them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Split
from silobench.data.readers.delimited import Sides, bad_line, first_lines, is_number, moments, numbers, rescale, shown
from silobench.data.store.cache import stored
from silobench.data.store.store import Files
from silobench.errors import DataError
from silobench.spec.ranges import Count


def traffic(past: Count = 12, ahead: Count = 3) -> Dataset:
    """Speeds at road sensors (METR-LA and tables like it): the last `past` of a sensor, and the one `ahead` steps on.

    A row for every sensor and time; sensor and network (the file) are groups. The last fifth of the time steps is for
    testing, and no row reaches across that cut. Features are scaled, the speed to predict is as in the file.
    """
    return stored("traffic", _read_traffic, past=past, ahead=ahead)


@dataclass(frozen=True)
class _Network:
    path: Path
    sensors: Sequence[str]
    speeds: NDArray[np.float32]  # [steps, sensors]

    @property
    def sides(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The speeds to train on, and the last fifth."""
        cut = len(self.speeds) - len(self.speeds) // 5
        return self.speeds[:cut], self.speeds[cut:]


def _read_traffic(files: Files, past: int, ahead: int) -> Dataset:
    networks = [_read_network(files[name]) for name in files.names]
    every = [sensor for network in networks for sensor in network.sensors]
    if len(set(every)) < len(every):  # two sensors of one name would become one party
        networks = [replace(n, sensors=[f"{n.path.stem}/{sensor}" for sensor in n.sensors]) for n in networks]
    parts = [_windows(network, past, ahead) for network in networks]
    train, test = (_joined([sides[side] for sides in parts]) for side in (0, 1))
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
            *([f"{zeros} speeds are 0, as METR-LA writes a missing one, and were kept"] if zeros else []),
        ),
        task="regression",
        columns=tuple(f"speed-{steps}" for steps in range(past - 1, -1, -1)),
    )


def _read_network(path: Path) -> _Network:
    """The names of a table's sensors and their speeds, without a first column of times."""
    header, *first = (line.split(",") for line in first_lines(path, 2))
    timed = not header[0].strip() or (bool(first) and not is_number(first[0][0]))
    sensors = [name.strip() for name in header[int(timed) :]]
    if not sensors or len(set(sensors)) < len(sensors) or "" in sensors:
        raise bad_line(path, 1, f"the header '{shown(','.join(header))}'", "a name for each sensor is needed")
    return _Network(path, sensors, numbers(path, len(sensors), skip=1, labelled=timed))


def _windows(network: _Network, past: int, ahead: int) -> Sides:
    """A row for every run of `past` steps with a step `ahead` after it, sensor by sensor: those of each side alone."""
    steps = len(network.sides[1])
    if steps < past + ahead:  # the other side is longer
        raise DataError(
            f"{network.path} has {len(network.speeds)} time steps, of which the last {steps} are for testing: "
            f"past={past} and ahead={ahead} need {past + ahead} there; give a longer file, or smaller numbers."
        )
    train, test = (_windows_of(speeds, network, past, ahead) for speeds in network.sides)
    return train, test


def _windows_of(speeds: NDArray[np.float32], network: _Network, past: int, ahead: int) -> Split:
    runs = sliding_window_view(speeds[:-ahead], past, axis=0)  # [runs, sensors, past], and nothing copied yet
    ids = np.repeat(np.array(network.sensors), len(runs))
    return Split(
        runs.transpose(1, 0, 2).reshape(-1, past),
        speeds[past + ahead - 1 :].T.reshape(-1),
        {"sensor": ids, "network": np.full(len(ids), network.path.stem)},
    )


def _joined(splits: Sequence[Split]) -> Split:
    groups = {level: np.concatenate([s.groups[level] for s in splits]) for level in splits[0].groups}
    return Split(np.concatenate([s.x for s in splits]), np.concatenate([s.y for s in splits]), groups)
