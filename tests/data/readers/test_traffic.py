"""Traffic speeds: the reader on small files, and on the real one where it is available."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_files import Make, real, refusal, sizes, speed_rows

from silobench.data import DATASETS
from silobench.data.dataset import Dataset, Split
from silobench.data.readers import traffic


def _raw(dataset: Dataset, split: Split) -> np.ndarray:
    """The features in the file's unit again, from the row with the known values 0, 1, 2..."""
    scale = (dataset.train.x[0, 1] - dataset.train.x[0, 0]) ** -1
    return np.round((split.x - dataset.train.x[0, 0]) * scale)


def test_traffic_rows_by_hand(make: Make) -> None:
    data = traffic._read_traffic(make("table", {"road.csv": speed_rows(20, 2)}), past=2, ahead=1)
    assert _raw(data, data.train)[:3].tolist() == [[0, 1], [1, 2], [2, 3]]
    assert data.train.y[:3].tolist() == [2, 3, 4]
    assert (len(data.train), len(data.test)) == (2 * 14, 2 * 2)  # of 16 and 4 steps
    assert data.test.y.tolist() == [18, 19, 1018, 1019]
    assert _raw(data, data.test).tolist() == [[16, 17], [17, 18], [1016, 1017], [1017, 1018]]
    assert data.test.groups["sensor"].tolist() == ["0", "0", "1", "1"]
    assert set(data.train.groups["network"].tolist()) == {"road"}
    assert data.columns == ("speed-1", "speed-0")
    assert (data.task, data.classes, data.train.x.dtype, data.train.y.dtype) == (
        "regression",
        (),
        np.float32,
        np.float32,
    )
    known = np.concatenate([np.arange(16), 1000 + np.arange(16)])
    np.testing.assert_allclose(data.train.x[0, 0], -known.mean() / known.std(), rtol=1e-5)


def test_all_steps_are_targets_by_hand(make: Make) -> None:
    files = make("table", {"road.csv": speed_rows(25, 2)})
    data = traffic._read_traffic(files, past=2, ahead=3, all_steps=True)
    assert (data.train.y.shape, data.train.y.dtype, data.target_size) == ((2 * 16, 3), np.float32, 3)
    assert _raw(data, data.train)[:2].tolist() == [[0, 1], [1, 2]]
    assert data.train.y[:2].tolist() == [[2, 3, 4], [3, 4, 5]]
    assert data.test.y.tolist() == [[22, 23, 24], [1022, 1023, 1024]]
    assert _raw(data, data.test).tolist() == [[20, 21], [1020, 1021]]
    last = traffic._read_traffic(files, past=2, ahead=3)
    for one, other in ((data.train, last.train), (data.test, last.test)):
        np.testing.assert_array_equal(one.y[:, -1], other.y)
        np.testing.assert_array_equal(one.x, other.x)
        assert one.groups["sensor"].tolist() == other.groups["sensor"].tolist()


def test_one_target_has_the_spec_that_it_always_had() -> None:
    assert str(DATASETS.bind("traffic").full) == "traffic(past=12, ahead=3)"
    assert str(DATASETS.bind("traffic(ahead=12, all_steps=true)").full) == "traffic(past=12, ahead=12, all_steps=True)"


def test_a_column_of_times_is_skipped(make: Make) -> None:
    plain, timed = (
        traffic._read_traffic(make("table", {"road.csv": speed_rows(30, 3, times=times)}), past=3, ahead=2)
        for times in (False, True)
    )
    assert plain.checksum == timed.checksum
    named = make("table", {"road.csv": speed_rows(30, 3, times=True).replace(",0,", "time,0,", 1)})
    assert traffic._read_traffic(named, past=3, ahead=2).checksum == plain.checksum


@given(steps=st.integers(10, 60), past=st.integers(1, 6), ahead=st.integers(1, 6))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_row_reaches_across_the_cut(make: Make, steps: int, past: int, ahead: int) -> None:
    files = make("table", {"road.csv": speed_rows(steps, 1)})
    cut = steps - steps // 5
    if steps // 5 < past + ahead:
        refusal(lambda: traffic._read_traffic(files, past, ahead), "road.csv", f"{steps} time steps", f"past={past}")
        return
    data = traffic._read_traffic(files, past, ahead)
    speeds = np.arange(cut)
    for split, first, end in ((data.train, 0, cut), (data.test, cut, steps)):
        times = np.round(split.x.astype(np.float64) * speeds.std() + speeds.mean())
        assert (times.min(), split.y.max()) == (first, end - 1)
        assert len(split) == end - first - past - ahead + 1
        np.testing.assert_array_equal(times[:, -1] + ahead, split.y)
        np.testing.assert_array_equal(times[:, 0] + past - 1, times[:, -1])


def test_two_networks_with_sensors_of_one_name_stay_apart(make: Make) -> None:
    files = make("table", {"a.csv": speed_rows(20, 1), "b.csv": speed_rows(40, 2, start=5)})
    data = traffic._read_traffic(files, past=2, ahead=1)
    assert sorted(set(data.train.groups["sensor"].tolist())) == ["a/0", "b/0", "b/1"]
    assert np.unique(data.train.groups["network"], return_counts=True)[1].tolist() == [14, 60]
    apart = make("table", {"a.csv": speed_rows(20, 1), "b.csv": speed_rows(40, 2).replace("0,1", "7,8", 1)})
    assert set(traffic._read_traffic(apart, past=2, ahead=1).test.groups["sensor"].tolist()) == {"0", "7", "8"}


def test_speeds_of_0_are_said(make: Make) -> None:
    assert "1 speeds are 0" in traffic._read_traffic(make("table", {"r.csv": speed_rows(20, 1)}), 2, 1).notes[1]
    assert len(traffic._read_traffic(make("table", {"r.csv": speed_rows(20, 1, start=1)}), 2, 1).notes) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has the header '' in line 1: a name for each sensor is needed"),
        ("1,1\n2,3\n", "has the header '1,1' in line 1"),
        ("1,2\n", "has no rows"),
        ("1,2\n3,4\n5\n", "has 1 cells in line 3: 2 are needed"),
        ("1,2\n3,4\n5,\n", "has '' in column 2 in line 3: a finite number is needed"),
        (",1,2\n09:00,3,4\n09:05,5,x\n", "has 'x' in column 3 in line 3"),
        (",1,2\n09:00,3,4\n09:05,5,6,7\n", "has 4 cells in line 3: 3 are needed"),
        ("1,2\n" + "3,4\n" * 10, "has 10 time steps, of which the last 2 are for testing: past=12 and ahead=3 need 15"),
    ],
)
def test_a_bad_table_of_speeds_is_refused(make: Make, text: str, told: str) -> None:
    refusal(lambda: traffic._read_traffic(make("table", {"road.csv": text}), past=12, ahead=3), "road.csv", told)


def test_the_real_traffic() -> None:
    data = traffic._read_traffic(real("table", "los_speed.csv"), past=12, ahead=3)
    assert sizes(data) == (207 * 1_599, 207 * 389, (12,))
    assert len(set(data.train.groups["sensor"].tolist())) == 207
