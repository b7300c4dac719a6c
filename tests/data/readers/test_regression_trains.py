"""Every regression dataset of the catalogue trains: read from small files, cut among parties, scored in its unit."""

import math
from collections.abc import Callable

import pytest
from image_rows import files_of
from linked_files import billboard_files, film_rows, flight_files, game_files
from PIL import Image
from table_files import Make, fma_files, grouplens_files, million_files, song_rows, speed_rows

from silobench.data.dataset import Dataset
from silobench.data.readers import films, image_files, linked, movielens, songs, traffic
from silobench.federation import federate
from silobench.loop.rounds import rounds
from silobench.method.algorithms import fedavg
from silobench.method.method import Method
from silobench.method.solvers import sgd
from silobench.tasks.task import task


def _ratings(make: Make) -> Dataset:
    return movielens._read_movielens_100k(make("grouplens", grouplens_files()))


def _million(make: Make) -> Dataset:
    return movielens._read_movielens_1m(make("grouplens", million_files()))


def _years(make: Make) -> Dataset:
    return songs._read_year_prediction(make("files", {"YearPredictionMSD.txt": song_rows(40)}))


def _albums(make: Make) -> Dataset:
    return songs._read_fma(make("files", fma_files()))


def _speeds(make: Make) -> Dataset:
    return traffic._read_traffic(make("table", {"road.csv": speed_rows(40, 2)}), past=2, ahead=1)


def _faces(make: Make) -> Dataset:
    names = [f"{source}/{age}_0_{n}.png" for source in ("UTKFace", "APPA") for age in (7, 25, 101) for n in range(3)]
    root = make("files", {}).root
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        Image.new("L", (8, 8), 50).save(root / name)
    return image_files._read_age_faces(files_of(root, *names, pattern=True), size=8)


def _games(make: Make) -> Dataset:
    return linked._read_games(make("files", game_files()), "all")


def _billboard(make: Make) -> Dataset:
    return linked._read_billboard(make("files", billboard_files()))


def _flights(make: Make) -> Dataset:
    return linked._read_flights(make("files", flight_files()), "all")


def _films(make: Make) -> Dataset:
    return films._read_films(make("files", film_rows()))


DATASETS: dict[str, tuple[Callable[[Make], Dataset], str, str]] = {
    "movielens-100k": (_ratings, "by-group", "stars"),
    "movielens-1m": (_million, "by-group", "stars"),
    "year-prediction": (_years, "iid", "years"),
    "fma": (_albums, "shards(per_party=1)", "years"),
    "traffic": (_speeds, "by-group", "mph"),
    "age-faces": (_faces, "by-group", "years"),
    "games": (_games, "by-group", "points"),
    "billboard": (_billboard, "by-group", "years"),
    "flights": (_flights, "by-group(level=origin)", "minutes"),
    "films": (_films, "iid", "points"),
}


@pytest.mark.parametrize("name", DATASETS)
def test_it_trains(name: str, make: Make) -> None:
    read, partition, unit = DATASETS[name]
    data = read(make)
    model = "cnn" if len(data.shape) == 3 else "mlp"
    federation = federate(data, partition, None if partition.startswith("by-group") else 2)
    built = task(model, data)
    *_, record = rounds(Method(fedavg(), sgd(lr=0.01, epochs=2)), federation, built, rounds=3)
    assert built.objective.main.unit == unit
    assert data.target
    assert set(record.metrics) == {"mae", "mse", "rmse", "r2"}
    assert record.metrics["mae"] is not None
    assert math.isfinite(record.metrics["mae"])
    assert math.isfinite(record.train_loss)
