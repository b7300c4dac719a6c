"""Gradient inversion: what the server sees by hand, reconstructions with and without protection, and pictures."""

import base64
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from commands import call
from laws import bits
from silobench.analysis.cells import collect
from silobench.data import load
from silobench.errors import ConfigError
from silobench.federation import Federation, federate
from silobench.loop.exchanges import gossip
from silobench.loop.loop import initial_state
from silobench.loop.rounds import rounds
from silobench.loop.schedule import Schedule
from silobench.measures import MEASURES, measured
from silobench.measures.inversion import FIRST_LAYER, MATCHING, _attacked, _Effort, _one_step, _seen, _with_rows
from silobench.measures.pictures import PNG, as_png
from silobench.measures.reconstruction import by_matching, closest, from_first_layer, psnr
from silobench.method.adversaries import sign_flip
from silobench.method.algorithms import ALGORITHMS
from silobench.method.control import Controller, Orders, Probe
from silobench.method.method import Method
from silobench.method.solvers import SOLVERS
from silobench.method.transforms import bind_chain
from silobench.method.types import Memory, Server
from silobench.models import Network
from silobench.models.pooling import relu_of_pool
from silobench.papers import other_measures
from silobench.report.charts.page import markup
from silobench.report.charts.values import Pictures
from silobench.report.inversion import inversion_sections
from silobench.runs.stored import read_runs
from silobench.tasks.task import Task, task
from silobench.training.setting import Setting

SGD, PRIVATE = "sgd(lr=0.1, epochs=1, weight_decay=0.01)", "dp_sgd(lr=0.1, noise=1)"
HIDDEN = "clip(norm=1) | secure_sum(splits=2)"


@pytest.fixture(scope="module")
def digits() -> Federation:
    return federate(load("digits"), "iid", parties=4, seed=0)


@pytest.fixture(scope="module")
def networks(digits) -> dict[str, Task]:
    return {model: task(model, digits.dataset) for model in ("linear", "mlp(16)", "cnn")}


def schedule(digits: Federation, network: Task, solver: str = SGD, chain: str = "", **options: Any) -> Schedule:
    transforms = tuple(bound.build() for bound in bind_chain(chain))
    method = Method(ALGORITHMS.build(options.pop("algorithm", "fedavg")), SOLVERS.build(solver), transforms)
    return Schedule(Setting(method, digits, network, 0), **{"rounds": 2} | options)


def findings(course: Schedule, measure: str = "inversion(victims=1)") -> dict[str, Any]:
    """Return what the measure finds in the first round."""
    setting = course.setting
    records = rounds(setting.method, setting.federation, setting.task, rounds=2, eval_every=2)
    record = next(iter(measured(records, {"inversion": MEASURES.build(measure)}, course)))
    return dict(record.measures["inversion"])


def seen(course: Schedule, parties: list[int], rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return what the server sees of one step of some parties, and the rows of all of them."""
    setting, start = course.setting, initial_state(course.setting)
    small = _with_rows(setting.federation, parties, rows, setting.seed)
    view = _seen(setting, small, start, _one_step(setting.solver, 0.1, rows, parties[0])) / -0.1
    return view, *small.batch(torch.cat([party.rows for party in small.parties]))


def gradient(network: Task, x: Tensor, y: Tensor) -> Tensor:
    network.network.params.copy_(network.initial)
    network.network.grad.zero_()
    F.cross_entropy(network.network.module(x), y).backward()
    return network.network.grad.clone()


# --- what the server sees -------------------------------------------------------------------------------


@pytest.mark.parametrize("chain", ["", "clip(norm=1000) | gaussian_noise(multiplier=5)"])
def test_the_server_sees_the_gradient_of_a_step_before_its_own_noise(digits, networks, chain: str) -> None:
    view, x, y = seen(schedule(digits, networks["mlp(16)"], chain=chain), [2], rows=3)
    assert len(x) == 3
    assert torch.allclose(view, gradient(networks["mlp(16)"], x, y), rtol=1e-3, atol=1e-5)


def test_under_a_secure_sum_the_server_sees_the_mean_gradient_of_all_parties(digits, networks) -> None:
    view, x, y = seen(schedule(digits, networks["linear"], chain="secure_sum(range=4)"), [2, 0, 1], rows=2)
    assert len(x) == 6
    assert torch.allclose(view, gradient(networks["linear"], x, y), atol=10 * 4 * 2.0**-16)  # 10 is 1 / lr


def test_the_noise_of_the_run_is_in_what_the_server_sees(digits, networks) -> None:
    course = schedule(digits, networks["linear"], solver="dp_sgd(lr=0.1, epsilon=2, clip=0.5, batch=64)")
    noise = course.setting.solver.noise_of(2)
    assert 0.3 < noise < 3
    view, x, y = seen(course, [2], rows=1)
    exact = gradient(networks["linear"], x, y)
    rest = view - exact * min(1, 0.5 / exact.norm())
    # 650 numbers: the deviation is off by 3% or so; 17% is 6 standard errors, once in 1e8 runs
    assert rest.std() == pytest.approx(0.5 * noise, rel=0.17)


# --- reconstruction -------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["linear", "mlp(16)"])
def test_one_image_follows_exactly_from_a_dense_layer(digits, networks, model: str) -> None:
    found = findings(schedule(digits, networks[model]), "inversion(victims=4)")
    assert (found["method"], found["images"], len(found["pictures"]["psnr"])) == (FIRST_LAYER, 1, 4)
    assert found["psnr"] > 60  # rounding of float32: some 1e-7 of a gradient whose smallest part is 1e-4 or so
    assert 5 < found["baseline_psnr"] < 20


@pytest.mark.parametrize("chain", ["", HIDDEN])
def test_noise_on_gradients_leaves_less_than_the_mean_image(digits, networks, chain: str) -> None:
    found = findings(schedule(digits, networks["linear"], PRIVATE, chain), "inversion(victims=1, steps=20)")
    assert found["psnr"] < found["baseline_psnr"]


def test_a_secure_sum_of_many_images_leaves_little_of_each(digits, networks) -> None:
    plain, hidden = (
        findings(schedule(digits, networks["linear"], chain=chain), "inversion(rows=8, victims=1, steps=60)")
        for chain in ("", HIDDEN)
    )
    assert (plain["images"], hidden["images"]) == (8, 32)
    assert (plain["method"], hidden["method"]) == (MATCHING, MATCHING)
    assert hidden["psnr"] < hidden["baseline_psnr"] + 3


@pytest.mark.parametrize(("model", "steps"), [("mlp(16)", 60), ("cnn", 120)])
def test_matching_the_gradient_beats_the_mean_image(digits, networks, model: str, steps: int) -> None:
    network, rows = networks[model], digits.parties[0].rows[:1]
    x, y = digits.batch(rows)
    low, high = -1.0, 1.0
    torch.manual_seed(0)
    image = by_matching(network, gradient(network, x, y), y, x.shape, (low, high), steps, 0.01)
    guess = torch.from_numpy(digits.dataset.train.x.mean(0, keepdims=True))
    assert psnr(x, image, high - low) > psnr(x, guess, high - low) + 2
    assert low <= image.min() <= image.max() <= high


def test_only_the_entries_that_were_sent_are_matched(digits, networks) -> None:
    network, (x, y) = networks["linear"], digits.batch(digits.parties[0].rows[:1])
    known = torch.zeros(network.network.layout.size, dtype=torch.bool)
    known[::2] = True
    nonsense = torch.where(known, gradient(network, x, y), 1e6)
    torch.manual_seed(0)
    some, every = (by_matching(network, nonsense, y, x.shape, (-1.0, 1.0), 60, 0.01, each) for each in (known, None))
    assert psnr(x, some, 2.0) > psnr(x, every, 2.0) + 3


def test_an_attack_on_compressed_messages_matches_what_was_sent(digits, networks) -> None:
    course = schedule(digits, networks["linear"], chain="top_k(fraction=0.5)")
    assert findings(course, "inversion(victims=1, steps=10)")["method"] == MATCHING


def test_a_network_without_a_dense_first_layer_has_no_exact_image(networks) -> None:
    network = networks["cnn"]
    assert from_first_layer(network, torch.ones(network.network.layout.size), (1, 1, 8, 8)) is None


def test_gradients_of_gradients_of_the_fused_pooling_equal_those_of_torch() -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(2, 3, 7, 6).round().requires_grad_(), torch.randn(2, 3, 3, 3)  # rounded: with ties
    results = []
    for pool in (relu_of_pool, lambda x: F.relu(F.max_pool2d(x, 2))):
        factor = weight.clone().requires_grad_()
        (first,) = torch.autograd.grad((pool(x) * factor).sum(), x, create_graph=True)
        results.append((first.detach(), *torch.autograd.grad(first.pow(3).sum(), factor)))
    assert all(map(torch.equal, *results))


# --- quality and pictures -------------------------------------------------------------------------------


def test_each_original_is_compared_with_another_reconstruction() -> None:
    originals = torch.tensor([[0.0], [1.0]]).reshape(2, 1, 1, 1)
    images = torch.tensor([[9.0], [0.9], [0.6]]).reshape(3, 1, 1, 1)
    assert closest(originals, images).flatten().tolist() == pytest.approx([0.6, 0.9])


def test_psnr_is_in_decibels_of_the_range() -> None:
    assert psnr(torch.zeros(5), torch.full((5,), 0.2), peak=2.0) == pytest.approx(20)
    assert psnr(torch.ones(5), torch.ones(5), peak=1.0) == 100


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 6, 4), (2, 5, 5)])
def test_a_picture_is_a_png_of_the_image(shape: tuple[int, ...]) -> None:
    image = torch.rand(shape) * 3 - 1
    address = as_png(image, -1.0, 2.0)
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(address.removeprefix(PNG)))))
    expected = ((image + 1) / 3 * 255).round().byte()
    assert np.array_equal(pixels, expected.permute(1, 2, 0).numpy() if shape[0] == 3 else expected[0].numpy())


def test_a_large_picture_is_thinned_out() -> None:
    address = as_png(torch.rand(3, 200, 150))
    assert Image.open(io.BytesIO(base64.b64decode(address.removeprefix(PNG)))).size == (38, 50)


# --- runs -----------------------------------------------------------------------------------------------


def test_the_measure_changes_no_bit_of_a_run_and_a_later_round_is_attacked_after_a_restart(digits, networks) -> None:
    course = schedule(digits, networks["mlp(16)"], rounds=3)
    measures = {"inversion": MEASURES.build("inversion(rows=2, round=2, victims=1, steps=5)")}
    method = course.setting.method

    def records(state: Any = None) -> Any:
        return rounds(method, digits, networks["mlp(16)"], rounds=3, state=state)

    plain, attacked = list(records()), list(measured(records(), measures, course))
    assert [bits(record.state.server) for record in plain] == [bits(record.state.server) for record in attacked]
    assert [record.round for record in attacked if record.measures] == [2]
    state = attacked[0].state
    assert next(iter(measured(records(state), measures, course, state))).measures == attacked[1].measures


def test_the_attacked_message_is_sent_with_the_knobs_of_its_round(digits, networks) -> None:
    """A controller sends all entries in the second round only: then one image follows exactly."""

    def steer(server: Server, memory: Memory, probe: Probe) -> Orders:
        return Orders({"fraction": 1.0 if server.round == 1 else 0.001})

    course = schedule(digits, networks["linear"], chain="top_k(fraction=0.001, feedback=false)")
    course = replace(course, controller=Controller(steer))
    setting = course.setting
    records = rounds(setting.method, digits, setting.task, rounds=2, controller=course.controller)
    measure = MEASURES.build("inversion(victims=1, round=2, steps=40)")
    *_, last = measured(records, {"inversion": measure}, course)
    assert last.knobs == {"fraction": 1.0}
    assert last.measures["inversion"]["psnr"] > last.measures["inversion"]["baseline_psnr"] + 5


def test_the_attacked_message_is_clipped_to_the_norm_of_its_round(digits, networks) -> None:
    """An adaptive clip starts far above all updates: noise for its first norm hides every image, later noise none."""
    chain = "clip(norm=1000, adaptive=true, speed=20) | skellam_noise(multiplier=0.001) | secure_sum(splits=2)"
    course = schedule(digits, networks["linear"], chain=chain)
    method = course.setting.method
    measure = {"inversion": MEASURES.build("inversion(victims=1, round=2, steps=100)")}
    *_, last = measured(rounds(method, digits, course.setting.task, rounds=2), measure, course)
    assert last.reports["clip norm"] < 0.1
    assert last.measures["inversion"]["psnr"] > last.measures["inversion"]["baseline_psnr"] + 1


def test_victims_are_honest(digits, networks) -> None:
    course = schedule(digits, networks["linear"], adversary=sign_flip(share=0.75))
    assert len(course.setting.malicious) == 3
    assert len(findings(course, "inversion(victims=4)")["pictures"]["psnr"]) == 1


@pytest.mark.parametrize(
    ("options", "measure", "message"),
    [
        ({"algorithm": "fedper"}, "inversion", "inversion attacks messages that are the change of a whole model"),
        ({"algorithm": "solo"}, "inversion", "inversion attacks what a server sees, but in this run no message goes"),
        ({"exchange": gossip()}, "inversion", "inversion attacks what a server sees, but in this run no message goes"),
        ({}, "inversion(round=3)", "inversion attacks round 3, but the run has 2: give an earlier round."),
        ({}, "inversion(rows=2000)", "inversion attacks 2000 rows of a party, but parties have at most"),
    ],
)
def test_what_cannot_be_attacked_is_refused(digits, networks, options: Any, measure: str, message: str) -> None:
    course, part = schedule(digits, networks["mlp(16)"], **options), MEASURES.build(measure)
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):  # noqa: PT012  # one of the two refuses
        part.check(course.setting, course.cohort)
        if reason := part.refuses(course):
            raise ConfigError(reason)


def test_rows_that_are_not_images_are_refused(toy) -> None:
    setting = Setting(Method(ALGORITHMS.build("fedavg")), *toy(), 0)
    with pytest.raises(ConfigError, match="inversion reconstructs images with classes, but toy has rows of shape"):
        MEASURES.build("inversion").check(setting, 3)


def test_a_network_that_cannot_take_such_a_step_is_refused(digits) -> None:
    layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU())
    network = Network(torch.nn.Sequential(layers, torch.nn.Linear(8, 10)))
    normed = Task(network, network.params.clone(), network.buffers.clone())
    setting = Setting(Method(ALGORITHMS.build("fedavg")), digits, normed, 0)
    MEASURES.build("inversion(rows=2)").check(setting, 4)
    with pytest.raises(ConfigError, match=r"inversion cannot match gradients of this network on 1 rows .* more rows"):
        MEASURES.build("inversion(rows=1)").check(setting, 4)
    assert torch.equal(network.buffers, normed.buffers)


MINE = """
dataset = "digits"
model = "linear"
parties = 3
rounds = 1
solver = "sgd(lr=0.1, epochs=1)"
transforms = ["", "top_k(fraction=0.5)"]
measure = "inversion(victims=2, steps=5)"
"""


def test_a_page_shows_originals_beside_reconstructions(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    assert call(capsys, "run", tmp_path / "mine.toml", "--out", tmp_path / "runs", "--engine", "inline").code == 0
    cells = collect(read_runs(tmp_path / "runs"))
    (table,) = [table for table in other_measures(cells) if "inversion" in table.title.lower()]
    texts = [[entry.text for entry in row] for row in table.rows]
    assert [row[-1] for row in texts] == [FIRST_LAYER, MATCHING]
    assert not any(PNG in text for row in texts for text in row)
    (section,) = inversion_sections(cells)
    (drawing,) = section.drawings
    drawn = markup(drawing.chart)
    assert drawn.count(f'src="{PNG}') == 2 * 3  # two originals once, and two reconstructions of each run
    assert drawn.count(">100.0 dB<") == 2
    assert "no transforms: 100.0 dB" in drawn


def test_runs_that_were_not_attacked_have_no_section() -> None:
    assert not inversion_sections([])


def test_a_picture_that_is_not_part_of_the_page_is_not_loaded() -> None:
    rows = [("original", ["https://example.org/a.png", as_png(torch.rand(1, 8, 8))], ["<b>", "2"])]
    drawn = markup(Pictures("pictures", rows))
    assert "example.org" not in drawn
    assert drawn.count("<img") == 1
    assert "<b>" not in drawn


def test_a_model_that_diverged_shows_grey(digits, networks) -> None:
    start = torch.full_like(networks["mlp(16)"].initial, float("nan"))
    course = schedule(digits, replace(networks["mlp(16)"], initial=start))
    attack = _attacked(course, initial_state(course.setting), 0, _Effort(1, 1, 1, 0.0))
    assert (attack.method, attack.matched.unique().tolist()) == (FIRST_LAYER, [0.0])  # pixels go from -1 to 1


def test_a_diverged_model_has_a_ratio(digits, networks) -> None:
    start = torch.full_like(networks["cnn"].initial, float("nan"))
    found = findings(schedule(digits, replace(networks["cnn"], initial=start)), "inversion(victims=1, steps=2)")
    assert 0.0 < found["psnr"] < 20.0
