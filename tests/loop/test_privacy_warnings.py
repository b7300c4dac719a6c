"""Set-ups whose privacy is weaker than it looks are stated: in the run's directory, and before its first round."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import call, write
from silobench.loop.privacy_warnings import privacy_warnings
from silobench.loop.schedule import Schedule
from silobench.method.algorithms import fedavg
from silobench.method.method import Method
from silobench.method.solvers import dp_sgd, sgd
from silobench.method.transforms import clip, gaussian_noise
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.training.setting import checked_setting

TINY = {
    "dataset": '"digits"',
    "parties": "5",
    "model": '"linear"',
    "solver": '"sgd(epochs=1, batch=512)"',
    "rounds": "1",
    "eval_on": "10",
}
NOISE = 'transforms = "clip(norm=1) | gaussian_noise(multiplier=9)"'
ROWS = 'solver = "dp_sgd(noise=2, batch=32, steps=2)"'
DRAWN = "some parties are drawn for each round, but epsilon counts all of them, because"
LOSSES = "training losses and what clip reports are sent in the clear"

PAIR = "a secure sum may have the messages of two parties only"
INDEPENDENT = 'selection = "poisson"\nparticipation = 0.6\ntransforms = "clip(norm=1)'

# choices -> the beginning of every warning that they must lead to; all other warnings must not appear
CASES = {
    "": (),
    'transforms = "clip(norm=1)"': (),
    'transforms = "clip(norm=1) | secure_sum(splits=2)"': (),
    NOISE: (LOSSES,),
    ROWS: (LOSSES,),
    'transforms = "clip(norm=1) | skellam_noise(multiplier=9) | secure_sum(splits=2)"': (
        "the mean training loss of a round and what clip reports have no noise",
    ),
    f'algorithm = "solo"\n{ROWS}': (),
    'transforms = "clip(norm=1) | gaussian_noise(multiplier=0)"': ("no noise hides a party", LOSSES),
    'solver = "dp_sgd(noise=0, batch=32, steps=2)"': ("no noise hides a row", LOSSES),
    'transforms = "clip(norm=1) | gaussian_noise(multiplier=0.3)"': ("epsilon of a party comes to 2", LOSSES),
    'solver = "dp_sgd(noise=0.2, batch=32, steps=2)"': ("epsilon of a row comes to", LOSSES),
    'transforms = "clip(norm=1) | gaussian_noise(multiplier=9, reproducible=true)"': (
        "the noise follows from the seed",
        LOSSES,
    ),
    'solver = "dp_sgd(noise=2, batch=32, steps=2, reproducible=true)"': ("the noise follows from the seed", LOSSES),
    'solver = "dp_sgd(noise=2, batch=32, steps=2, sampling=shuffled)"': ("batches are shuffled", LOSSES),
    'transforms = "clip(norm=1) | gaussian_noise(multiplier=9, delta=0.3)"': ("delta is 0.3 with 5 parties", LOSSES),
    'solver = "dp_sgd(noise=2, batch=32, steps=2, delta=0.01)"': ("delta is 0.01 with 287 rows", LOSSES),
    f"{NOISE}\nparticipation = 0.4": (f"{DRAWN} the draw follows from the seed", LOSSES),
    f'{NOISE}\nparticipation = 0.4\nselection = "poisson"': ("epsilon assumes that nobody knows which", LOSSES),
    f'{NOISE}\nparticipation = 0.4\nselection = "poisson(reproducible=true)"': (f"{DRAWN} the draw", LOSSES),
    f'{NOISE}\nselection = "poisson"': (LOSSES,),
    f'{NOISE}\nparticipation = 0.4\nselection = "by_size"': (
        "the selection draws parties by their exact numbers of rows, which",
        f"{DRAWN} the draw follows from the seed",
        LOSSES,
    ),
    f'{NOISE[:-1]} | secure_sum(splits=2)"\nparticipation = 0.6\nselection = "poisson"': (
        f"{DRAWN} the parties of a secure sum know",
        PAIR,
        "the mean training loss of a round",
    ),
    'transforms = "clip(norm=1) | secure_sum(splits=2)"\nparticipation = 0.6\nselection = "stratified"': (
        "the selection draws parties by their exact numbers of rows of each class",
    ),
    f'{ROWS}\nparticipation = 0.6\nselection = "stratified"': (
        "the selection draws parties by their exact numbers of rows of each class",
        LOSSES,
    ),
    f'{ROWS}\nstart = "centralised(rounds=1)"': (
        "the run starts from the model of another run",
        "2 private runs of this experiment use the same rows",
        LOSSES,
    ),
    f'{NOISE}\nstart = "centralised(rounds=1)"': ("the run starts from the model of another run", LOSSES),
    f'{ROWS}\nstart = "random()"': (LOSSES,),
    f'{ROWS}\ntransforms = "top_k"\ncontroller = "skewscout(period=1)"': ("the controller sends models", LOSSES),
    'solver = "dp_sgd(lr=plateau(start=0.1), noise=2, batch=32, steps=2)"\nvalidation = 0.2': (
        "the learning rate follows the exact loss on the validation rows",
        LOSSES,
    ),
    f"{ROWS}\nparticipation = 0.4": (LOSSES,),
    'parties = 2\ntransforms = "clip(norm=1) | secure_sum(splits=2)"': ("two parties share a secure sum",),
    'parties = 3\ntransforms = "clip(norm=1) | secure_sum(protocol=pairwise, threshold=2)"': (PAIR,),
    'parties = 3\ntransforms = "clip(norm=1) | secure_sum(protocol=pairwise)"': (),
    f'{INDEPENDENT} | secure_sum(splits=2, too_few=skip)"': (PAIR,),
    f'{INDEPENDENT} | secure_sum(protocol=pairwise, too_few=skip)"': (PAIR,),
    f'{INDEPENDENT} | secure_sum(protocol=pairwise, threshold=3, too_few=skip)"': (),
    f'{INDEPENDENT} | secure_sum(splits=3, too_few=skip)"': (),
    f'parties = 100\n{INDEPENDENT} | secure_sum(splits=2, too_few=skip)"': (),
    f"{ROWS}\nvalidation = 0.2": ("scores on the validation rows of parties are recorded", LOSSES),
    f'{ROWS}\npartition = "iid + share(beta=0.1)"': ("the partition sends some rows to all parties", LOSSES),
    f"{NOISE}\nseed = [0, 1]": ("2 private runs of this experiment use the same rows", LOSSES),
    f"{ROWS}\nseed = [0, 1]": ("2 private runs of this experiment use the same rows", LOSSES),
    "seed = [0, 1]": (),
}


def choices_of(text: str) -> dict[str, Any]:
    given = dict(line.split(" = ", 1) for line in text.splitlines())
    return tomllib.loads("\n".join(f"{key} = {value}" for key, value in (TINY | given).items()))


@pytest.mark.parametrize("text", CASES)
def test_each_warning_appears_where_it_applies_and_only_there(text: str) -> None:
    warnings = prepare(plan(choices_of(text))[-1]).warnings
    expected = CASES[text]
    assert len(warnings) == len(expected), warnings
    assert all(any(warning.startswith(start) for warning in warnings) for start in expected), warnings


def test_warnings_are_recorded_and_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = "\n".join(f"{key} = {value}" for key, value in TINY.items())
    result = call(capsys, "run", write(tmp_path / "e.toml", f"{text}\n{NOISE}"), "--workers", "1", "--out", tmp_path)
    (path,) = tmp_path.glob("*/run.json")
    (warning,) = json.loads(path.read_text())["warnings"]
    assert warning.startswith(LOSSES)
    assert warning in result.err


def test_exact_statistics_of_a_table_are_not_covered(tmp_path: Path) -> None:
    rows = "\n".join(f"{value},{'yes' if value % 3 else 'no'}" for value in range(60))
    (tmp_path / "ages.csv").write_text(f"age,ill\n{rows}\n")
    for scale, count in (("standard", 1), ("none", 1), ("private, epsilon=500", 0)):
        table = f"\"csv(path='{tmp_path / 'ages.csv'}', label=ill, scale={scale})\""
        warnings = prepare(plan(choices_of(f"{ROWS}\ndataset = {table}"))[0]).warnings
        assert (
            len([each for each in warnings if each.startswith("numbers of the table are scaled or filled by exact")])
            == count
        )
        assert not prepare(plan(choices_of(f"dataset = {table}"))[0]).warnings


def test_augmentation_hides_attacks_from_measurement(silos) -> None:
    rng = np.random.default_rng(0)
    images = rng.random((12, 3, 8, 8), dtype=np.float32)
    for augment, solver, count in (
        ("crop-flip", dp_sgd(noise=2, batch=4), 1),
        ("none", dp_sgd(noise=2, batch=4), 0),
        ("crop-flip", sgd(), 0),
    ):
        federation, task = silos(images, rng.integers(0, 3, 12), (6, 6), augment=augment)
        schedule = Schedule(checked_setting(Method(fedavg(), solver), federation, task, 0), rounds=1)
        warnings = privacy_warnings(schedule)
        assert len([each for each in warnings if each.startswith("images are cropped")]) == count


@pytest.mark.parametrize(("noise", "buffers", "count"), [(9, "average", 1), (9, "local", 0), (0, "average", 0)])
def test_statistics_with_noise_may_lose_their_variances(noise: float, buffers, count: int, normed) -> None:
    method = Method(fedavg(), sgd(), (clip(norm=1), gaussian_noise(noise)), buffers=buffers)
    warnings = privacy_warnings(Schedule(checked_setting(method, *normed(), 0), rounds=1))
    assert len([each for each in warnings if each.startswith("BatchNorm statistics get the same noise")]) == count


def test_secure_sum_is_advised_only_where_there_is_a_server() -> None:
    for exchange, is_advised in (("star", True), ("gossip", False), ("mesh", False)):
        warnings = prepare(plan(choices_of(f'{ROWS}\nexchange = "{exchange}"'))[0]).warnings
        (losses,) = (each for each in warnings if each.startswith(LOSSES))
        assert ("secure_sum" in losses) is is_advised
