"""Noise that hides a party, and clips that follow the updates."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from silobench.errors import ConfigError
from silobench.loop.clocks import device
from silobench.loop.exchanges import mesh
from silobench.loop.paces import buffered
from silobench.loop.rounds import rounds
from silobench.method.aggregates import median
from silobench.method.algorithms import ALGORITHMS, fedavg, fednova, scaffold
from silobench.method.availability import dropout
from silobench.method.method import Method
from silobench.method.selection import poisson
from silobench.method.solvers import sgd
from silobench.method.transforms import bind_chain
from silobench.method.types import Context, Layout, Transform, Update, placed
from silobench.privacy.accountant import epsilon
from silobench.privacy.mechanism import Mechanism
from silobench.training.blank import blank_message
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord

SOLVER = sgd(lr=0.1, epochs=1, batch=8)
STILL = sgd(lr=1e-30, epochs=1, batch=8)  # parties learn nothing, so the model moves by the noise alone
LAYOUT = Layout(("w",), (torch.Size([3]),), 3)


def chain(text: str) -> tuple[Transform, ...]:
    return tuple(term.build() for term in bind_chain(text))


def contexts(transforms: Sequence[Transform], parties: int, **facts) -> list[Context]:
    every = tuple(range(parties))
    context = Context(0, 0, -1, LAYOUT, {}, every, every, parties=parties, expected=float(parties))
    return placed(transforms, replace(context, **facts))


def run(text: str, federation, task, *, algorithm=None, solver=SOLVER, **choices) -> list[RoundRecord]:
    method = Method(algorithm or fedavg(), solver, chain(text))
    return list(rounds(method, federation, task, **{"rounds": 3, **choices}))


def moved(records: Sequence[RoundRecord], task) -> torch.Tensor:
    return records[-1].state.server.params - task.initial


# --- Gaussian noise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("clip", ["clip(norm=0.3)", "clip(norm=0.3, adaptive=true)"])
def test_no_noise_changes_no_bit(clip: str, toy) -> None:
    plain, silent = (run(text, *toy((20, 9, 30))) for text in (clip, f"{clip} | gaussian_noise(multiplier=0)"))
    assert torch.equal(plain[-1].state.server.params, silent[-1].state.server.params)
    assert silent[-1].privacy["party"]["epsilon"] == math.inf


def test_the_model_moves_by_the_stated_noise(toy) -> None:
    federation, task = toy((20, 20, 20, 20), features=3000)
    records = run("clip(norm=0.5) | gaussian_noise(multiplier=2)", federation, task, solver=STILL, rounds=1)
    noise = moved(records, task) * len(federation.parties) / (2 * 0.5)
    count = noise.numel()
    # Secret noise: each of the three limits is missed with a probability below 1e-9 (6.1 standard deviations).
    assert abs(noise.mean()) < 6.2 / math.sqrt(count)
    assert abs(noise.var() - 1) < 6.2 * math.sqrt(2 / count)
    assert abs((noise[1:] * noise[:-1]).mean()) < 6.2 / math.sqrt(count)
    again = run("clip(norm=0.5) | gaussian_noise(multiplier=2)", federation, task, solver=STILL, rounds=1)
    assert not torch.equal(moved(records, task), moved(again, task))


def test_reproducible_noise_follows_from_the_seed_and_the_round(toy) -> None:
    text = "clip(norm=0.5) | gaussian_noise(multiplier=9, reproducible=true)"
    one, other, third = (run(text, *toy(), seed=seed, solver=STILL) for seed in (0, 0, 1))
    task = toy()[1]
    assert torch.equal(moved(one, task), moved(other, task))
    assert not torch.equal(moved(one, task), moved(third, task))
    steps = [after.state.server.params - before.state.server.params for before, after in itertools.pairwise(one)]
    assert not torch.allclose(*steps)
    assert not one[-1].privacy["party"]["holds"]


def test_every_party_counts_the_same_and_the_divisor_is_the_expected_number() -> None:
    transforms = chain("clip(norm=1) | gaussian_noise(multiplier=1e-9)")
    clip, noise = contexts(transforms, 3)
    lengths, total = (0.5, 1.0, 40.0), None
    for weight, length in zip((1.0, 10.0, 500.0), lengths, strict=True):
        update = Update.of(weight, delta=torch.tensor([length, 0.0, 0.0]))
        clipped, *_ = transforms[0].encode(update, {}, clip)
        sent, *_ = transforms[1].encode(clipped, {}, noise)
        assert sent.weight == 1
        total = sent if total is None else total + sent
    decoded = transforms[1].decode(total, replace(noise, expected=5.0))
    assert decoded.mean()["delta"].tolist() == pytest.approx([2.5 / 5, 0, 0], abs=1e-7)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_diverged_message_counts_as_zero(bad: float) -> None:
    transforms = chain("clip(norm=1) | gaussian_noise(multiplier=1)")
    _, context = contexts(transforms, 2)
    sent, *_ = transforms[1].encode(Update.of(7.0, delta=torch.tensor([1.0, bad])), {}, context)
    assert sent.total["delta"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "text", ["clip(norm=1)", "clip(norm=1, adaptive=true)", "clip(2) | top_k(0.5, feedback=false)"]
)
@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), st.sampled_from([1.0, 13.0]))
def test_no_message_is_longer_than_the_noise_assumes(text: str, entries: list[float], weight: float) -> None:
    transforms = chain(f"{text} | gaussian_noise(multiplier=1)")
    update = Update.of(weight, delta=torch.tensor(entries)).with_sums(control=torch.tensor([3.0]))
    for transform, context in zip(transforms, contexts(transforms, 4), strict=True):
        update, *_ = transform.encode(update, {}, context)
        bound = context.bound
    length = math.sqrt(sum(float(part.double().square().sum()) for part in update.vectors().values()))
    assert length <= bound * (1 + 1e-6)


def test_all_parts_of_a_message_get_noise(toy) -> None:
    federation, task = toy((20, 20, 20))
    records = run(
        "clip(norm=1) | gaussian_noise(multiplier=1)", federation, task, algorithm=scaffold(), solver=STILL, rounds=1
    )
    control = records[-1].state.server.extras["control"]
    assert control.std() == pytest.approx(1 / 3, rel=1.0)  # 15 entries: a deviation, not zero
    assert not torch.equal(control, moved(records, task))


def test_statistics_get_noise_and_variances_stay_positive(normed) -> None:
    federation, task = normed()
    records = run("clip(norm=1) | gaussian_noise(multiplier=50)", federation, task, rounds=2)
    before, after = (record.state.server.buffers for record in records)
    assert (before != after).sum() >= 5  # at least the means; a variance may be 0 twice
    places = task.network.layout.slices
    start = task.network.layout.trainable
    variances = [after[at.start - start : at.stop - start] for name, at in places.items() if "running_var" in name]
    assert all((each >= 0).all() and len(each) for each in variances)
    assert all(math.isfinite(record.loss) for record in records)


def test_rounds_without_parties_get_noise_too(in_double: None, toy) -> None:
    """The noise is secret. In single precision, or with a norm that falls quickly, it may be too small for a weight."""
    federation, task = toy((20, 20, 20, 20, 20))
    text = "clip(norm=1, adaptive=true, speed=0.01) | gaussian_noise(multiplier=9)"
    records = run(text, federation, task, selection=poisson(True), participation=1, rounds=12)
    empty = [place for place, record in enumerate(records) if not record.cohort and place]
    assert empty
    for place in empty:
        before, after = records[place - 1].state, records[place].state
        assert (after.server.params != before.server.params).all()
        assert after.extra["transform-0"]["norm"] != before.extra["transform-0"]["norm"]
    assert [record.privacy["party"]["steps"] for record in records] == [[number] for number in range(1, 13)]
    plain = run("", federation, task, selection=poisson(True), participation=1, rounds=12)
    assert all(torch.equal(plain[at].state.server.params, plain[at - 1].state.server.params) for at in empty)


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS.factories) - {"finetune"}))
def test_blank_messages_have_the_parts_of_real_ones(name: str, toy) -> None:
    algorithm = ALGORITHMS.build(name)
    federation, task = toy((20, 20), model="mlp")
    solver = sgd(lr=0.1, steps=1, batch=8, keep_momentum=algorithm.lockstep)
    setting, messages = Setting(Method(algorithm, solver), federation, task, 0), list[Update]()
    spy = replace(algorithm, message=lambda *values: _noted(messages, algorithm.message(*values)))
    next(rounds(Method(spy, solver), federation, task, rounds=1))
    blank, _ = blank_message(setting, setting.initial_server())
    shapes = [{n: tuple(p.shape) for n, p in {**each.total, **each.sums}.items()} for each in (messages[0], blank)]
    if setting.personal is None:
        assert shapes[0] == shapes[1]
    assert all(not part.any() for part in blank.vectors().values())


def _noted(messages: list[Update], result):
    messages.append(result[0])
    return result


# --- targets and budgets ------------------------------------------------------------------------------


def test_noise_is_solved_for_the_rounds_of_a_run(toy) -> None:
    federation, task = toy((20,) * 10)
    text = "clip(norm=1) | gaussian_noise(epsilon=3)"
    (last,) = run(text, federation, task, selection=poisson(), participation=0.2, rounds=6)[-1:]
    spent = last.privacy["party"]
    assert 2.95 < spent["epsilon"] <= 3
    assert (spent["rate"], spent["delta"]) == ([0.2], 1e-5)


def test_a_run_ends_before_it_exceeds_its_budget(toy) -> None:
    records = run("clip(norm=1) | gaussian_noise(multiplier=4, epsilon=2)", *toy(), rounds=20)
    epsilons = [record.privacy["party"]["epsilon"] for record in records]
    assert 1 < len(records) < 20
    assert epsilons[-1] <= 2
    assert records[-1].converged or "ended" in records[-1].privacy


# --- adaptive clips -----------------------------------------------------------------------------------


def test_the_norm_follows_the_formula_of_the_paper() -> None:
    (clip,) = chain("clip(norm=2, adaptive=true, quantile=0.3, speed=0.5)")
    (context,) = contexts([clip], 4)
    total, lengths = None, (0.5, 1.9, 2.1, 9.0)
    for length in lengths:
        sent, _, report = clip.encode(Update.of(3.0, delta=torch.tensor([length, 0.0])), {}, context)
        assert (report["clip norm"], report["clip rate"]) == (2, float(length > 2))
        total = sent if total is None else total + sent
    rest, memory = clip.adapt(total, {}, context)
    assert memory["norm"].item() == pytest.approx(2 * math.exp(-0.5 * (2 / 4 - 0.3)), rel=1e-6)
    assert list(rest.sums) == []
    assert rest.total.keys() == total.total.keys()


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.9])
def test_the_norm_finds_the_quantile(quantile: float) -> None:
    (clip,) = chain(f"clip(norm=3, adaptive=true, quantile={quantile})")
    lengths = np.exp(np.random.default_rng(1).normal(size=20)).tolist()
    memory = {}
    for _ in range(60):
        (context,) = contexts([clip], 20)
        context = replace(context, server=memory)
        messages = [clip.encode(Update.of(1.0, delta=torch.tensor([each])), {}, context)[0] for each in lengths]
        total = messages[0]
        for message in messages[1:]:
            total = total + message
        _, memory = clip.adapt(total, memory, context)
    share = np.mean(np.array(lengths) <= memory["norm"].item())
    assert share == pytest.approx(quantile, abs=0.051)


@pytest.mark.parametrize("ratio", [0.6, 1.0, 5.0])
def test_noise_is_split_between_update_and_count_as_in_the_paper(ratio: float) -> None:
    multiplier, norm = 1.3, 0.7
    transforms = chain(f"clip(norm={norm}, adaptive=true, count_noise={ratio}) | gaussian_noise({multiplier})")
    clip, noise = contexts(transforms, 50)
    sent, *_ = transforms[0].encode(Update.of(1.0, delta=torch.tensor([0.1])), {}, clip)
    (answer,) = sent.sums.values()
    deviation = multiplier * noise.bound
    of_update = deviation / norm  # in norms, as the paper's z_delta
    of_count = deviation / (2 * answer.item())  # an answer of the paper is 1/2 or -1/2
    assert of_count == pytest.approx(ratio * multiplier, rel=1e-6)
    assert of_update == pytest.approx((multiplier**-2 - (2 * of_count) ** -2) ** -0.5, rel=1e-6)


def test_a_run_with_an_adaptive_clip_continues_bit_for_bit(toy) -> None:
    text = "clip(norm=0.1, adaptive=true) | gaussian_noise(multiplier=9, reproducible=true)"
    federation, task = toy((20, 9, 30))
    method = Method(fedavg(), SOLVER, chain(text))
    whole = list(rounds(method, federation, task, rounds=5))
    rest = list(rounds(method, federation, task, rounds=5, state=whole[1].state))
    assert torch.equal(whole[-1].state.server.params, rest[-1].state.server.params)
    assert whole[-1].state.extra["transform-0"] == rest[-1].state.extra["transform-0"]
    assert whole[-1].privacy == rest[-1].privacy
    norms = [record.reports["clip norm"] for record in whole]
    assert len(set(norms)) == 5
    assert whole[0].bytes_down + 3 * 8 == whole[1].bytes_down  # from the second round on parties are sent the norm


# --- Skellam noise under a secure sum -----------------------------------------------------------------


def test_skellam_noise_lies_on_a_grid_and_rounding_shortens() -> None:
    transforms = chain("clip(norm=1) | skellam_noise(multiplier=1e-6) | secure_sum(2)")
    _, context, after = contexts(transforms, 3, party=0)
    update = Update.of(5.0, delta=torch.tensor([0.6, -0.3, 0.1]))
    sent, *_ = transforms[1].encode(update, {}, context)
    steps = sent.total["delta"] * 2.0**after.exponent
    assert sent.total["delta"].dtype == torch.float64
    assert torch.equal(steps, steps.round())
    assert (sent.total["delta"].abs() <= update.mean()["delta"].abs() + 1e-4).all()
    assert after.weight_bound == 1


def test_the_sum_has_the_noise_of_all_parties(toy) -> None:
    federation, task = toy((20, 20, 20, 20), features=1000)
    text = "clip(norm=0.5) | skellam_noise(multiplier=2) | secure_sum(splits=2)"
    (record,) = run(text, federation, task, solver=STILL, rounds=1)
    noise = moved([record], task) * 4 / (2 * 0.5)
    # Secret noise: both limits are missed with a probability below 1e-9 (6.1 standard deviations).
    assert abs(noise.mean()) < 6.2 / math.sqrt(noise.numel())
    assert abs(noise.var() - 1) < 6.2 * math.sqrt(2 / noise.numel())
    gaussian = run("clip(norm=0.5) | gaussian_noise(multiplier=2)", federation, task, solver=STILL, rounds=1)
    spent, known = (each.privacy["party"]["epsilon"] for each in (record, gaussian[0]))
    # Three of the four know nothing of each other's noise; Gaussian noise has fractional orders too.
    same = epsilon([(Mechanism("party", 1e-5, rho=4 / 3 / 8), 1)], 1e-5)
    assert known < same == pytest.approx(spent, rel=1e-3)


def test_the_ledger_counts_the_noise_of_the_parties_that_answered(toy) -> None:
    federation, task = toy((20,) * 6)
    text = "clip(norm=1) | skellam_noise(multiplier=3) | secure_sum(protocol=pairwise, threshold=4)"
    records = run(text, federation, task, availability=dropout(0.15), rounds=4, seed=1)
    assert any(record.replied for record in records)
    rhos = [0.5 / 9 * 6 / (len(record.replied or record.cohort) - 1) for record in records]
    (ledger,) = (record.state.extra["privacy"] for record in records[-1:])
    assert float((ledger["rho"] * ledger["count"]).sum()) == pytest.approx(sum(rhos), rel=1e-4)


def test_skellam_noise_is_solved_for_the_rounds_of_a_run(toy) -> None:
    text = "clip(norm=1) | skellam_noise(epsilon=3) | secure_sum(splits=2)"
    for options in ({}, {"participation": 2}):
        records = run(text, *toy((20,) * 4), rounds=4, **options)
        assert len(records) == 4
        assert 2.95 < records[-1].privacy["party"]["epsilon"] <= 3
    with pytest.raises(ConfigError, match="1 party takes part in a round and knows its noise"):
        run(text, *toy((20,) * 4), rounds=4, participation=1)


def test_a_party_does_not_protect_itself_by_its_own_noise() -> None:
    transforms = chain("clip(norm=1) | skellam_noise(multiplier=3) | secure_sum(2)")
    for answers in (1, 2, 5):
        context = replace(contexts(transforms, 5)[1], replied=tuple(range(answers)))
        rho = transforms[1].release(context).rho
        assert rho == (math.inf if answers == 1 else pytest.approx(5 / (answers - 1) / 18, rel=1e-4))


@pytest.mark.parametrize(
    "noise", ["gaussian_noise(1)", "skellam_noise(1) | secure_sum(2)", "gaussian_noise(1) | secure_sum(2)"]
)
def test_a_run_with_messages_that_are_not_finite_continues(noise: str, toy) -> None:
    (record,) = run(f"clip(norm=1) | {noise}", *toy((20, 20, 20)), solver=sgd(lr=1e38, epochs=3, batch=8), rounds=1)
    assert record.state.server.params.isfinite().all()
    assert "secure" not in noise or math.isfinite(record.train_loss)


def test_an_adaptive_clip_works_under_a_secure_sum(toy) -> None:
    text = "clip(norm=0.1, adaptive=true) | skellam_noise(multiplier=0.01) | secure_sum(splits=2)"
    hidden = run(text, *toy((20, 9, 30)), rounds=5)
    plain = run("clip(norm=0.1, adaptive=true)", *toy((20, 9, 30)), rounds=5)
    norms = [[record.reports["clip norm"] for record in records] for records in (hidden, plain)]
    assert norms[0] == pytest.approx(norms[1], rel=0.05)


# --- refusals -----------------------------------------------------------------------------------------

REFUSED = {
    "gaussian_noise(multiplier=1)": "no clip comes before it",
    "clip(norm=1) | top_k(0.5) | gaussian_noise(1)": "no clip comes before it, or a transform between",
    "clip(norm=1) | gaussian_noise(1) | quantize(bits=8)": "quantize makes messages longer than",
    "clip(norm=1) | rand_k(0.5) | gaussian_noise(1)": "rand-k makes messages longer than",
    "clip(norm=1) | skellam_noise(1)": "write secure_sum just after it",
    "skellam_noise(1) | secure_sum(2)": "no clip comes before it",
}


@pytest.mark.parametrize("text", REFUSED)
def test_noise_that_would_not_protect_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=REFUSED[text]):
        Method(fedavg(), SOLVER, chain(text))


def test_noise_needs_a_sum_a_server_and_vectors(toy) -> None:
    noise = "clip(norm=1) | gaussian_noise(multiplier=1)"
    with pytest.raises(ConfigError, match="aggregate = mean"):
        Method(fedavg(), SOLVER, chain(noise), aggregate=median())
    with pytest.raises(ConfigError, match="aggregate = mean"):
        Method(fedavg(), SOLVER, chain("clip(adaptive=true)"), aggregate=median())
    with pytest.raises(ConfigError, match="sends 'reach', which is not a vector"):
        run(noise, *toy(), algorithm=fednova())
    with pytest.raises(ConfigError, match="no server"):
        run(noise, *toy(), exchange=mesh())
    with pytest.raises(ConfigError, match="they come one by one"):
        run(noise, *toy(), pace=buffered(2), clock=device())
    with pytest.raises(ConfigError, match="use it in transforms"):
        run("", *toy(), broadcast=chain("clip(adaptive=true)"))


@pytest.mark.parametrize("text", ["gaussian_noise", "skellam_noise"])
def test_noise_needs_a_size(text: str) -> None:
    with pytest.raises(ConfigError, match="needs the size of its noise"):
        chain(text)


def test_arguments_of_an_adaptive_clip_need_it() -> None:
    with pytest.raises(ConfigError, match="need adaptive=true"):
        chain("clip(quantile=0.9)")
    assert str(bind_chain("clip")[0].full) == "clip(norm=1.0)"  # as before these arguments existed
