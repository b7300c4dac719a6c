"""The examples of docs/extending.md: each is a short plugin that runs, and does what the page says."""

import ast
import math
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.metrics import mean_pinball_loss
from torch import Tensor

import silobench as sb
from commands import call, run_code, write
from laws import Toy, bits, close, models, run
from precision import bound
from silobench.runs.experiment import REGISTRIES
from silobench.runs.stored import read_runs

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
MOST_LINES = 40
LONG = {
    "quantile",
    "sign",
    "gaussian",
    "random_ring",
    "geometric_median",
    "deadline",
    "rmsprop",
    "left_behind",
    "strongest",
}


def _blocks() -> dict[str, str]:
    """Return the examples of the page by the name of their first registered function."""
    codes = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    return {re.findall(r"\.register\ndef (\w+)\(", code)[0]: code for code in codes}


EXAMPLES = _blocks()
MINE = """
dataset = "{dataset}"
model = "linear"
parties = 5
solver = "sgd(lr=0.1, epochs=1)"
rounds = 3
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """(name of an example) -> its names, after it was registered."""
    return lambda name: runpy.run_path(str(write(tmp_path / f"{name}.py", EXAMPLES[name])))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with a numeric target: y depends on x, with uneven noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    y = 1950 + 4 * x[:, 0] - 2 * x[:, 1] + rng.exponential(5.0, size=400)
    rows = [f"{a:.6f},{b:.6f},{c:.6f}" for (a, b), c in zip(x, y, strict=True)]
    return write(tmp_path / "numbers.csv", "\n".join(["a,b,y", *rows]) + "\n")


# --- every example and every command ------------------------------------------------------------------


def test_every_seam_has_an_example() -> None:
    kinds = {re.findall(r"@sb\.(\w+)\.register", code)[0] for code in EXAMPLES.values()}
    assert kinds == {kind.upper().replace("-", "_") for kind in REGISTRIES} - {
        "ENGINES",
        "EXECUTORS",
        "NETWORKS",
        "STARTS",
    }
    assert "@sb.NETWORKS.register" in EXAMPLES["ladder"]
    assert max(len(code.splitlines()) for name, code in EXAMPLES.items() if name not in LONG) <= 20


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_clean_and_uses_public_names_only(name: str) -> None:
    code = EXAMPLES[name]
    assert len(code.splitlines()) <= MOST_LINES
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("silobench.") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            assert not node.module.startswith("silobench")
    pytest.importorskip("ruff")
    for arguments in (["check", "-"], ["format", "--check", "-"]):
        checked = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments], input=code, capture_output=True, text=True, cwd=ROOT
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_workers_give_the_bits_of_one_process(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What a plugin defines is sent to worker processes, and back in replies: codecs, reports and memories."""
    for name in ("sign", "gaussian", "rmsprop", "geometric_median"):
        write(tmp_path / f"{name}.py", EXAMPLES[name])
    experiment = write(tmp_path / "mine.toml", MINE.format(dataset="digits"))
    choices = ["transforms=gaussian(sigma=0.001) | signs", "solver=rmsprop(epochs=1)", "aggregate=geometric-median"]
    plugins = [part for name in ("sign", "gaussian", "rmsprop", "geometric_median") for part in ("--plugin", name)]
    options = [str(tmp_path / f"{part}.py") if part in EXAMPLES else part for part in plugins]
    options += [part for choice in choices for part in ("--set", choice)]
    records = []
    for engine in ("inline", "pool(workers=2)"):
        out = tmp_path / engine[:4]
        result = call(capsys, "run", experiment, *options, "--engine", engine, "--out", out)
        assert result.code == 0, result.err
        (stored,) = read_runs(out)
        records.append([(row.accuracy, row.loss, row.bytes_up) for row in stored.rounds])
    assert records[0] == records[1]


# --- objective ----------------------------------------------------------------------------------------


def test_the_metric_of_quantile_is_scikit_learns(plugin: Callable[[str], Any], table: Path) -> None:
    plugin("quantile")
    data = sb.load(f"csv(path={table}, label=y, unit=years)")
    federation = sb.federate(data, "iid", parties=4)
    below = {}
    for share in (0.1, 0.9):
        task = sb.task("linear", data, objective=f"quantile(share={share})")
        solver = sb.sgd(lr=0.05, momentum=0.9, weight_decay=0, epochs=5)
        *_, last = sb.rounds(sb.Method(sb.fedavg(), solver), federation, task, rounds=10)
        weights = last.state.server.params.double().numpy()
        answers = (data.test.x @ weights[:-1] + weights[-1]) * data.train.y.std() + data.train.y.mean()
        expected = mean_pinball_loss(data.test.y, answers, alpha=share)
        # A difference of answers and targets of 1950: their rounding is a few thousandths of a year at most.
        assert last.metrics["pinball"] == pytest.approx(expected, abs=1950 * bound(data.train.x.shape[1] + 5))
        below[share] = float((data.test.y <= answers).mean())
    assert last.accuracy is None
    # 80 test rows: the share has a deviation of 0.034.
    assert below[0.1] == pytest.approx(0.1, abs=0.15)
    assert below[0.9] == pytest.approx(0.9, abs=0.15)


def test_quantile_refuses_classes(plugin: Callable[[str], Any]) -> None:
    plugin("quantile")
    with pytest.raises(sb.ConfigError, match=r'quantile needs numbers as labels.*objective = "cross-entropy"'):
        sb.task("linear", sb.load("digits"), objective="quantile")


# --- codec --------------------------------------------------------------------------------------------

_READER = """
import runpy, sys
from pathlib import Path
import numpy as np
import silobench as sb
plugin, *files = sys.argv[1:]
unpack = runpy.run_path(plugin)["unpack"]
for file in map(Path, files):
    form = sb.Form((int(file.stem.split("-")[1]),), np.dtype(np.float32))
    np.save(file.with_suffix(".npy"), unpack(file.read_bytes(), form))
"""


def test_the_bytes_of_sign_are_those_of_files_that_another_process_reads(
    plugin: Callable[[str], Any], toy: Toy, tmp_path: Path
) -> None:
    pack, signs = (plugin("sign")[name] for name in ("pack", "signs"))
    sent, summed = list[Tensor](), list[Tensor]()

    def encode(update: sb.Update, memory: sb.Memory, context: sb.Context) -> tuple[sb.Update, sb.Memory]:
        sent.append(update.total["delta"].clone())
        return update, memory

    def decode(update: sb.Update, context: sb.Context) -> sb.Update:
        summed.append(update.total["delta"].clone())
        return update

    (record,) = run("fedavg", toy((20, 9, 31)), sb.sgd(epochs=1), sb.Transform(encode, decode), signs(), rounds=1)
    files = [tmp_path / f"{party}-{len(part)}.bin" for party, part in enumerate(sent)]
    for file, part in zip(files, sent, strict=True):
        file.write_bytes(pack(part.numpy()))
        assert file.stat().st_size == 4 + math.ceil(len(part) / 8)
    assert record.bytes_up == sum(file.stat().st_size for file in files)
    run_code(_READER, tmp_path / "sign.py", *files)
    arrays = [torch.from_numpy(np.load(file.with_suffix(".npy"))) for file in files]
    assert torch.equal(reduce(add, arrays), summed[0]), "the server adds up what another process reads"
    for array, part in zip(arrays, sent, strict=True):
        assert torch.equal(array > 0, part >= 0)
        assert close(array.abs(), part.abs().mean().expand(len(part)), bound(len(part)))


def test_sign_packs_the_values_that_top_k_sends(plugin: Callable[[str], Any], toy: Toy) -> None:
    signs = plugin("sign")["signs"]
    federated = toy((20, 20), features=100)
    size = federated[1].initial.numel()
    count = max(1, round(0.1 * size))
    (record,) = run("fedavg", federated, sb.sgd(epochs=1), sb.top_k(fraction=0.1), signs(), rounds=1)
    positions = min(math.ceil(size / 8), 4 * count)
    assert record.bytes_up == 2 * (4 + positions + 4 + math.ceil(count / 8))  # their number, where, magnitude, signs


# --- transform ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_double")
def test_the_noise_is_that_of_the_streams_and_its_norm_is_reported(plugin: Callable[[str], Any], toy: Toy) -> None:
    gaussian, federated, sigma = plugin("gaussian")["gaussian"], toy((20, 9, 31), features=200), 0.01
    layout, size = federated[1].network.layout, federated[1].initial.numel()
    (clean,), (noisy,) = (
        run("fedavg", federated, sb.sgd(epochs=1), *chain, rounds=1, seed=5) for chain in ((), (gaussian(sigma),))
    )
    contexts = [sb.Context(5, 0, party, layout, {}, (0, 1, 2)) for party in range(3)]
    noises = [torch.from_numpy(each.stream("noise").normal(0.0, sigma * 3**0.5, size)) for each in contexts]
    mean = sum(samples * noise for samples, noise in zip((20, 9, 31), noises, strict=True)) / 60
    assert close(noisy.state.server.params - clean.state.server.params, mean, 1e-9)
    norms = [float(noise.norm()) for noise in noises]
    assert noisy.reports == {"noise norm": pytest.approx(sum(norms) / 3, rel=1e-9)}
    expected = sigma * (3 * size) ** 0.5  # the mean of three norms has a deviation of 1 / √(6 · size) of it
    assert noisy.reports["noise norm"] == pytest.approx(expected, rel=6 / (6 * size) ** 0.5)
    assert not clean.reports


@pytest.mark.usefixtures("in_double")
def test_noise_does_not_depend_on_weights_where_parts_are_summed(plugin: Callable[[str], Any]) -> None:
    gaussian = plugin("gaussian")["gaussian"](1.0)
    context = sb.Context(0, 0, 0, sb.Layout((), (), 0), {}, (0,))
    update = sb.Update.of(1000.0, delta=torch.zeros(4000)).with_sums(control=torch.zeros(4000))
    noisy, _, _ = gaussian.encode(update, {}, context)
    assert float(noisy.mean()["delta"].std()) == pytest.approx(1.0, abs=0.1)
    assert float(noisy.sums["control"].std()) == pytest.approx(1.0, abs=0.1)


# --- exchange -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_double")
def test_a_random_ring_mixes_each_model_with_one_other(plugin: Callable[[str], Any], toy: Toy) -> None:
    random_ring, federated = plugin("random_ring")["random_ring"], toy((20, 9, 31, 12, 8))
    trained = run("solo", federated, sb.sgd(epochs=1), rounds=1)[0].state.memory
    (record,) = run("fedavg", federated, sb.sgd(epochs=1), rounds=1, exchange=random_ring())
    before = dict[int, int]()
    for party in range(5):
        model = record.state.memory[party]["exchange"]["model"]
        other_half = 2 * model - trained[party]["algorithm"]["model"]
        (before[party],) = (p for p in range(5) if close(other_half, trained[p]["algorithm"]["model"], 1e-9))
    place, visited = 0, set[int]()
    while place not in visited:
        visited.add(place)
        place = before[place]
    assert visited == set(range(5)), "one ring through all parties"
    size = federated[1].initial.nbytes
    assert (record.bytes_up, record.bytes_down) == (5 * size, 0)
    assert record.clock == pytest.approx(8 * size / 100e6)


def test_a_random_ring_resumes_and_refuses_what_it_cannot_mix(plugin: Callable[[str], Any], toy: Toy) -> None:
    random_ring, federated = plugin("random_ring")["random_ring"], toy((20, 9, 31))
    whole = run("fedavg", federated, rounds=4, exchange=random_ring(), availability=sb.dropout(0.3))
    rest = run(
        "fedavg", federated, rounds=4, exchange=random_ring(), availability=sb.dropout(0.3), state=whole[1].state
    )
    assert [bits(record) for record in whole[2:]] == [bits(record) for record in rest]
    with pytest.raises(sb.ConfigError, match="the exchange random-ring mixes"):
        run("scaffold", federated, exchange=random_ring())
    with pytest.raises(sb.ConfigError, match="the exchange random-ring mixes"):
        run("fedavg", federated, sb.sgd(), sb.clip(), exchange=random_ring())


# --- aggregate ----------------------------------------------------------------------------------------


def test_the_geometric_median_minimises_the_sum_of_distances(plugin: Callable[[str], Any]) -> None:
    aggregate = plugin("geometric_median")["geometric_median"](steps=2000)
    rng = np.random.default_rng(1)
    points, weights = rng.normal(size=(7, 3)), rng.uniform(1, 3, size=7)
    points[0] += 1e4  # a wrong message

    def distances(x: Any) -> float:
        return float(weights @ np.linalg.norm(points - x, axis=1))

    best = minimize(distances, np.median(points, axis=0), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    updates = [
        sb.Update.of(float(weight), delta=torch.from_numpy(point)).with_sums(control=torch.from_numpy(point))
        for point, weight in zip(points, weights, strict=True)
    ]
    median = aggregate.combine(updates)
    assert median.weight == pytest.approx(weights.sum())
    np.testing.assert_allclose(median.mean()["delta"].numpy(), best.x, atol=1e-2)
    assert distances(median.mean()["delta"].numpy()) == pytest.approx(best.fun, rel=1e-9)
    assert np.linalg.norm(reduce(add, updates).mean()["delta"].numpy()) > 1e3, "the mean follows the wrong message"


def test_the_geometric_median_of_equal_messages_is_the_message(plugin: Callable[[str], Any]) -> None:
    aggregate = plugin("geometric_median")["geometric_median"]()
    point = torch.tensor([1.0, -2.0], dtype=torch.float64)
    median = aggregate.combine([sb.Update.of(2.0, delta=point).with_sums(control=point) for _ in range(3)])
    assert close(median.mean()["delta"], point)
    assert close(median.sums["control"], 3 * point)


# --- pace ---------------------------------------------------------------------------------------------


def test_a_long_deadline_is_the_synchronous_pace(plugin: Callable[[str], Any], toy: Toy) -> None:
    deadline, federated = plugin("deadline")["deadline"], toy((20, 9, 31))
    clock = sb.device(speed=100, spread=1)
    waiting, patient = (
        run("fedavg", federated, rounds=4, clock=clock, pace=pace) for pace in (None, deadline(seconds=1e9))
    )
    assert torch.equal(models(waiting), models(patient))
    assert [record.clock for record in waiting] == pytest.approx([record.clock for record in patient])


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.5])
def test_late_messages_are_as_stale_as_a_simulation_says(
    plugin: Callable[[str], Any], toy: Toy, seconds: float
) -> None:
    sizes, clock = (20, 9, 31, 12, 8), sb.device(speed=100, spread=1)
    deadline, federated = plugin("deadline")["deadline"], toy(sizes)
    records = run("fedavg", federated, rounds=8, seed=2, clock=clock, pace=deadline(seconds, factor=0.5))
    transfer = 2 * 8 * federated[1].initial.nbytes / 100e6
    assert clock.speed is not None
    trips = [transfer + 2 * rows / clock.speed(2, party) for party, rows in enumerate(sizes)]  # two epochs
    flights, now = dict[int, tuple[float, int]](), 0.0
    for number, record in enumerate(records):
        flights |= {party: (now + trips[party], number) for party in range(5) if party not in flights}
        first = min(arrival for arrival, _ in flights.values())
        taken = [party for party in range(5) if flights[party][0] <= first + seconds]
        arrived = [flights.pop(party) for party in taken]
        now = max(arrival for arrival, _ in arrived)
        answered = record.replied if record.replied is not None else record.cohort
        assert list(answered) == taken
        assert record.clock == pytest.approx(now)
        staleness = sum(number - version for _, version in arrived) / len(arrived)
        assert record.reports["staleness"] == pytest.approx(staleness)
    assert any(record.reports["staleness"] > 0 for record in records), "some messages were late"


def test_a_deadline_needs_a_clock(plugin: Callable[[str], Any], toy: Toy) -> None:
    with pytest.raises(sb.ConfigError, match="set clock"):
        run("fedavg", toy((20, 9)), pace=plugin("deadline")["deadline"]())


# --- solver -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("keep", [False, True])
def test_rmsprop_is_torchs(plugin: Callable[[str], Any], toy: Toy, gradient: Any, keep: bool) -> None:
    rmsprop = plugin("rmsprop")["rmsprop"]
    solver = rmsprop(lr=0.02, decay=0.9, weight_decay=0.1, epochs=5, batch=64, keep_square=keep)
    federation, task = toy((20,))
    records = run("fedavg", (federation, task), solver, rounds=2)
    x, y = federation.batch(federation.parties[0].rows, False)
    weights = task.initial.double().clone().requires_grad_()
    options: dict[str, Any] = {"lr": 0.02, "alpha": 0.9, "eps": 1e-8, "weight_decay": 0.1}
    optimizer = torch.optim.RMSprop([weights], **options)
    for record in records:
        optimizer = optimizer if keep else torch.optim.RMSprop([weights], **options)
        for _ in range(5):
            weights.grad = gradient(weights.detach(), x, y)
            optimizer.step()
        assert close(record.state.server.params, weights.detach(), 1e-9)


def test_fednova_refuses_rmsprop(plugin: Callable[[str], Any]) -> None:
    with pytest.raises(sb.ConfigError, match="rmsprop"):
        sb.Method(sb.fednova(), plugin("rmsprop")["rmsprop"]())


# --- measure ------------------------------------------------------------------------------------------


def _with_measure(measure: sb.Measure, state: sb.State | None = None) -> list[sb.RoundRecord]:
    data = sb.load("digits")
    federation = sb.federate(data, "label-count(k=3)", parties=6, validation=0.2)
    setting = sb.Setting(sb.Method(sb.fedavg(), sb.sgd(lr=0.1, epochs=1)), federation, sb.task("linear", data), 0)
    measure.check(setting, 6)
    options: dict[str, Any] = {"rounds": 4, "eval_every": 2}
    records = sb.rounds(setting.method, federation, setting.task, state=state, **options)
    return list(sb.measured(records, {"left": measure}, sb.Course(setting, **options), state))


def test_parties_left_behind_are_counted(plugin: Callable[[str], Any]) -> None:
    left_behind = plugin("left_behind")["left_behind"]
    records = _with_measure(left_behind(target=0.7))
    assert ["left" in record.measures for record in records] == [False, True, False, True]
    shares = [record.measures["left"] for record in records if record.measures]
    scores = [np.array(record.party_accuracy) for record in records if record.party_accuracy]
    assert [finding["share"] for finding in shares] == [float((each < 0.7).mean()) for each in scores]
    assert any(0 < finding["share"] < 1 for finding in shares), "the target divides the parties"
    assert shares[-1]["lowest"] == min(finding["share"] for finding in shares)
    resumed = _with_measure(left_behind(target=0.7), records[1].state)
    assert [record.measures for record in resumed] == [record.measures for record in records[2:]]


def test_left_behind_needs_validation_rows(plugin: Callable[[str], Any], toy: Toy) -> None:
    federation, task = toy()
    with pytest.raises(sb.ConfigError, match="set validation"):
        plugin("left_behind")["left_behind"]().check(sb.Setting(sb.Method(sb.fedavg()), federation, task, 0), 3)


def test_free_riders_give_nothing(toy, plugin) -> None:
    free_rider, sent = plugin("free_rider")["free_rider"], list[tuple[int, float]]()

    def encode(update: sb.Update, memory: sb.Memory, context: sb.Context) -> tuple[sb.Update, sb.Memory]:
        sent.append((context.party, float(update.total["delta"].norm())))
        return update, memory

    run("fedavg", toy((20,) * 4), sb.sgd(), sb.Transform(encode), adversary=free_rider(share=0.5), rounds=1)
    assert {party for party, length in sent if not length} == set(free_rider(share=0.5).parties(4, 0))
