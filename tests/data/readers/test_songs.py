"""The years of songs: both readers on small files."""

import numpy as np
import pytest
from table_files import Contents, Make, changed, fma_files, refusal, song_rows, whole

from silobench.data.readers import songs


def test_year_prediction_trains_on_the_first_rows(make: Make) -> None:
    data = songs._read_year_prediction(make("files", {"YearPredictionMSD.txt": song_rows(20)}))
    assert (len(data.train), len(data.test), data.shape) == (18, 2, (90,))
    assert data.train.y.tolist() == list(range(1922, 1940))
    assert data.test.y.tolist() == [1940, 1941]
    assert (data.task, data.classes, data.train.y.dtype, data.train.x.dtype) == (
        "regression",
        (),
        np.float32,
        np.float32,
    )
    steps = np.arange(1, 21)  # what every third column goes up by
    np.testing.assert_allclose(whole(data).x[:, 1], (steps - 9.5) / steps[:18].std(), rtol=1e-5)
    assert not data.train.x[:, 0].any()  # a constant
    assert (data.columns[0], data.columns[11], data.columns[12]) == ("timbre-mean-1", "timbre-mean-12", _covariance(1))
    assert data.columns[-1] == _covariance(78)


def _covariance(number: int) -> str:
    return f"timbre-covariance-{number}"


def test_the_published_split_of_year_prediction(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(songs, "_YEAR_ROWS", 20)
    monkeypatch.setattr(songs, "_YEAR_TRAIN", 15)
    data = songs._read_year_prediction(make("files", {"YearPredictionMSD.txt": song_rows(20)}))
    assert (len(data.train), len(data.test)) == (15, 5)


def test_a_bad_year_prediction_is_refused(make: Make) -> None:
    for text, told in (
        (song_rows(3) + "1990,1\n", "has 2 cells in line 4: 91 are needed"),
        (song_rows(1), "has 1 row: at least 2 are needed"),
        ("", "has no rows"),
    ):
        files = make("files", {"YearPredictionMSD.txt": text})
        refusal(lambda files=files: songs._read_year_prediction(files), "YearPredictionMSD.txt", told)


def test_fma_joins_features_and_years_by_the_track(make: Make) -> None:
    data = songs._read_fma(make("files", fma_files()))
    tracks = [i for i in range(2, 62, 2) if i % 6 and i != 8]
    assert (len(data.train), len(data.test)) == (len(tracks) - 1, 1)
    assert data.columns == ("mfcc-mean-01", "mfcc-max-02")
    assert (data.task, data.classes) == ("regression", ())
    assert data.notes[0] == "11 of 30 tracks left out, because their album has no release date"
    rows = whole(data)
    assert sorted(rows.y.tolist()) == [1950 + i for i in tracks]
    number = rows.y - 1950
    known = number[: len(data.train)]
    np.testing.assert_allclose(rows.x[:, 0], (number - known.mean()) / known.std(), atol=1e-5)
    np.testing.assert_allclose(rows.x[:, 1], -rows.x[:, 0], atol=1e-5)


def test_an_album_may_have_a_long_story(make: Make) -> None:
    contents = changed(fma_files(), "tracks.csv", "a, b", "x" * 200_000)
    assert len(songs._read_fma(make("files", contents)).test) == 1


@pytest.mark.parametrize(
    ("name", "old", "new", "told"),
    [
        ("features.csv", "track_id", "id", "has 'feature,mfcc,mfcc' in line 1: a header of several lines"),
        ("features.csv", "number,01,02", "number,01", "in line 1: a header of several lines with equally many cells"),
        ("features.csv", "4,4.5", "4,", "has '' in column 2 in line 6: a finite number is needed"),
        ("tracks.csv", "date_released", "released", "has an unknown header in line 1"),
        ("tracks.csv", "track_id", "id", "has an unknown header in line 1"),
        ("tracks.csv", "2008-01-05", "May 2008", "has the date 'May 2008 00:00:00' in the row that ends in line 7"),
        (
            "tracks.csv",
            "Song\n",
            "Song,x\n",
            "has 5 cells ('60,a, b\\nand \"c\",,Song,x') in the row that ends in line 5",
        ),
    ],
)
def test_a_bad_fma_is_refused(make: Make, name: str, old: str, new: str, told: str) -> None:
    refusal(lambda: songs._read_fma(make("files", changed(fma_files(), name, old, new))), name, told)


def test_fma_without_enough_dates_is_refused(make: Make) -> None:
    contents: Contents = {**fma_files(), "tracks.csv": ",album\n,date_released\ntrack_id,\n2,1990-01-01\n"}
    refusal(lambda: songs._read_fma(make("files", contents)), "has 1 rows: at least 12 are needed")
