"""Compression: laws of full size, of feedback and of expectations, under every algorithm and with several workers."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from chains import CHAINS, CONTEXT, LOSSY, around, arrived, chain, layout, sent
from laws import EVERY, SOLVER, bits, close, models, run
from precision import bound
from silobench.engines import pool
from silobench.method.algorithms import bsp
from silobench.method.codecs import CODECS, Codec, random_subset
from silobench.method.solvers import sgd
from silobench.method.transforms import top_k
from silobench.method.types import Context, Memory, Update
from silobench.training.setting import BUFFERS

MINIBATCH = sgd(lr=0.05, steps=1, batch=8, keep_momentum=True)

# --- full size is no compression ----------------------------------------------------------------------

FULL = [
    "quantize(bits=32)",
    "rand_k(fraction=1.0)",
    "rand_k(fraction=1.0, scale=false, feedback=true)",
    "low_rank(rank=99)",
    "low_rank(rank=99, warm_start=false, decay=0.5)",
    "error_feedback | quantize(bits=32)",
    "error_feedback(decay=0.3) | rand_k(fraction=1.0, scale=false) | quantize(bits=32)",
]


@pytest.mark.parametrize("algorithm", ["fedavg", "scaffold", "fednova"])
def test_full_density_rank_and_bits_are_no_compression(toy, algorithm: str) -> None:
    federated = toy((20, 9, 30), "mlp(6)")
    plain = run(algorithm, federated, SOLVER)
    for text in FULL:
        ours = run(algorithm, federated, SOLVER, *chain(text))
        assert torch.equal(models(plain), models(ours)), text
        assert [record.bytes_up for record in plain] == [record.bytes_up for record in ours]


def test_top_k_of_everything_is_no_compression(toy) -> None:
    """With whole weights of one row per party nothing is rounded; other weights are divided by and multiplied with."""
    plain, ours = (run(bsp(), toy(), MINIBATCH, *chain(each)) for each in ("", "top_k(fraction=1.0)"))
    assert torch.equal(models(plain), models(ours))
    for index in ("int32", "int64", "bitmap"):
        ours = run(bsp(), toy(), MINIBATCH, top_k(1.0, index=index))
        assert torch.equal(models(plain), models(ours))


# --- sent + kept = produced ---------------------------------------------------------------------------

FEEDBACK = [
    "rand_k(fraction=0.3, scale=false, feedback=true)",
    "error_feedback | rand_k(fraction=0.3, scale=false)",
    "error_feedback | top_k(fraction=0.3, feedback=false, index=int64)",
    "error_feedback | sign",
    "error_feedback | quantize(bits=2)",
    "error_feedback | quantize(bits=8)",
    "low_rank(rank=1)",
    "low_rank(rank=1) | quantize(bits=8)",
    "error_feedback | low_rank(rank=1, feedback=false)",
    "error_feedback | top_k(fraction=0.3, feedback=false) | quantize(bits=4)",
]


@pytest.mark.parametrize("text", FEEDBACK)
@pytest.mark.parametrize("weight", [1.0, 8.0, 7.0])
def test_sent_and_kept_make_up_what_was_produced(text: str, weight: float) -> None:
    """Round by round, and so over all rounds: nothing is lost, and nothing is sent twice."""
    generator = torch.Generator().manual_seed(3)
    shapes, exact = layout((6, 5), (7,)), "_k" in text and "quantize" not in text and weight != 7
    memories: Sequence[Memory] = [{} for _ in chain(text)]
    all_sent, all_deltas = torch.zeros(37), torch.zeros(37)
    for number in range(5):
        delta, control = torch.randn(37, generator=generator), torch.randn(37, generator=generator)
        before = memories[0].get("delta", torch.zeros(37)), memories[0].get("control", torch.zeros(37))
        update = Update.of(weight, delta=delta).with_sums(control=control)
        done = sent(update, text, memories, Context(0, number, 0, shapes, {}))
        memories = done.memories
        for got, whole, kept in (
            (done.arrived.mean()["delta"], delta + before[0], memories[0]["delta"]),
            (done.arrived.sums["control"], control + before[1], memories[0]["control"]),
        ):
            longest = float(max(got.abs().max(), whole.abs().max()))
            assert torch.allclose(got + kept, whole, rtol=0, atol=0 if exact else bound(4) * longest)
            assert kept.abs().max() > 0.01
        all_sent, all_deltas = all_sent + done.arrived.mean()["delta"], all_deltas + delta
    assert torch.allclose(all_sent + memories[0]["delta"], all_deltas, rtol=0, atol=bound(40) * 20)


@pytest.mark.parametrize("text", FEEDBACK)
def test_what_is_unsent_is_the_memory_of_delta(text: str) -> None:
    done = sent(Update.of(2.0, delta=torch.randn(37)), text, context=Context(0, 0, 0, layout((6, 5), (7,)), {}))
    first = chain(text)[0]
    unsent = first.unsent(done.memories[0])
    assert unsent is not None
    assert torch.equal(unsent, done.memories[0]["delta"])
    assert not any("delta" in memory for memory in done.memories[1:])


@pytest.mark.parametrize("inner", ["low_rank(rank=1, feedback=false)", "low_rank(rank=1, feedback=false) | quantize"])
@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_feedback_of_low_rank_is_error_feedback_before_it(toy, inner: str, decay: float) -> None:
    """Random numbers depend on the place in the chain: an idle transform takes the place of error_feedback."""
    around = f"error_feedback(decay={decay}) | {inner}"
    within = inner.replace("feedback=false", f"feedback=true, decay={decay}")
    first, second = (
        run("fedavg", toy((20, 9, 30), "mlp(6)"), SOLVER, *chain(text))
        for text in (around, f"clip(norm=1e9) | {within}")
    )
    assert torch.equal(models(first), models(second))


def test_feedback_is_not_applied_to_statistics(normed) -> None:
    for text in ("error_feedback | sign", "low_rank(rank=1)", "rand_k(scale=false, feedback=true)"):
        records = run("fedavg", normed(), SOLVER, *chain(text))
        memories = [memory["transform-0"] for memory in records[-1].state.memory.values()]
        assert {name for memory in memories for name in memory} - {"sketch of delta"} == {"delta"}


def test_top_k_sends_scalars_as_they_are() -> None:
    """Divided by the weight and multiplied with it, 1 would be 0.9999999999999999."""
    one = torch.tensor(1.0, dtype=torch.float64)
    assert one / 49 * 49 != one
    done = sent(Update({"delta": torch.arange(10.0), "reach": one}, 49.0, {"answers": one}), "top_k(fraction=0.2)")
    assert (done.arrived.total["reach"], done.arrived.sums["answers"]) == (one, one)
    assert done.memories[0].keys() == {"delta"}


# --- expectations -------------------------------------------------------------------------------------


VALUES = np.array([1.0, -0.98, 0.5, 0.13, -0.26, 0.03, -0.06, 0.33, -0.71, 0.0, 0.119], np.float32)
REPEATS = 3000
ALLOWED = 6.0  # standard errors: chance exceeds them in one of 10^8 tests


def deviations(several: Any, values: Any = VALUES) -> float:
    """Return how many standard errors the mean of what arrived is away from the values, at most over all of them."""
    spread = several.std(axis=0, dtype=np.float64) / math.sqrt(len(several))
    differences = np.abs(several.mean(axis=0, dtype=np.float64) - values)
    rounding = bound(4) * np.abs(values).max()
    return float(np.max(np.maximum(differences - rounding, 0) / np.maximum(spread, rounding)))


def in_buckets(codec: Codec, values: Any = VALUES) -> Any:
    """Return the values as they arrive in each of many buckets."""
    return arrived(np.tile(values, REPEATS), codec).reshape(REPEATS, -1)


def subsets(scale: bool, values: Codec | None = None) -> Any:
    """Return the values as they arrive from many random subsets."""
    codecs = (random_subset(0.3, scale, seed) for seed in range(REPEATS))
    return np.array([arrived(VALUES, around(each, values) if values else each) for each in codecs])


@pytest.mark.parametrize("width", [2, 4, 8, 16])
@pytest.mark.parametrize("sign", [1, -1])
def test_quantized_entries_have_the_right_expectation(width: int, sign: int) -> None:
    codec = CODECS.build(f"quantized(bits={width}, bucket=11)")
    assert deviations(in_buckets(codec, sign * VALUES), sign * VALUES) < ALLOWED


def test_random_subsets_have_the_right_expectation() -> None:
    assert deviations(subsets(scale=True)) < ALLOWED


def levels(rounded: Callable[[Any, Any], Any]) -> Any:
    """Return the values in seven levels, rounded in some way with random numbers in [0, 1)."""
    random = np.random.default_rng(0).random((REPEATS, VALUES.size))
    return rounded(np.tile(VALUES, (REPEATS, 1)) * 7, random) / 7


def test_a_biased_codec_does_not_pass() -> None:
    """The check lets the right rounding pass, and nothing else."""
    assert deviations(levels(lambda part, random: np.floor(part + random))) < ALLOWED
    for wrong in (
        levels(lambda part, random: np.round(part)),
        levels(lambda part, random: np.floor(part + 0.1 + 0.9 * random)),
        levels(lambda part, random: np.trunc(part + random)),
        levels(lambda part, random: -np.floor(part + random)),
        in_buckets(CODECS.build("signs")),
        subsets(scale=False),
    ):
        assert deviations(wrong) > 2 * ALLOWED


@pytest.mark.parametrize("text", ["quantize(bits=4)", "rand_k(fraction=0.3)"])
def test_transforms_draw_anew_in_every_round_and_party_and_for_every_part(text: str) -> None:
    delta = torch.randn(400, generator=torch.Generator().manual_seed(0))
    update = Update({"delta": delta}, 1.0, {"control": delta})

    def at(number: int, party: int, seed: int = 0) -> Update:
        return sent(update, text, context=Context(seed, number, party, CONTEXT.layout, {})).arrived

    first = at(0, 0)
    assert torch.equal(first.total["delta"], at(0, 0).total["delta"])
    assert not torch.equal(first.total["delta"], first.sums["control"])
    assert not torch.equal(first.total["delta"], at(1, 0).total["delta"])
    assert not torch.equal(first.total["delta"], at(0, 0, seed=1).total["delta"])
    places = first.total["delta"] != 0, at(0, 1).total["delta"] != 0, at(0, -1).total["delta"] != 0
    same = text.startswith("rand_k")  # all parties send the same places
    assert torch.equal(places[0], places[1]) == torch.equal(places[0], places[2]) == same


# --- every algorithm, engines and statistics ----------------------------------------------------------


@pytest.mark.parametrize("algorithm", EVERY)
def test_every_algorithm_runs_with_compression(toy, algorithm: str) -> None:
    federated = toy((20, 9, 30), "mlp(6)")
    plain = run(algorithm, federated, SOLVER, rounds=2)
    for text in ("rand_k(fraction=0.5)", "low_rank(rank=1) | quantize(bits=4)", "error_feedback | sign"):
        ours = run(algorithm, federated, SOLVER, *chain(text), rounds=2)
        assert models(ours).isfinite().all()
        if algorithm in ("solo", "combined"):  # nothing is sent
            assert torch.equal(models(plain), models(ours))
        else:
            assert not torch.equal(models(plain), models(ours))
            assert ours[0].bytes_up < plain[0].bytes_up


@pytest.mark.parametrize("algorithm", ["bsp", "gaia(threshold=0.1)", "dgc(warmup=1)"])
@pytest.mark.parametrize("text", ["quantize(bits=8)", "rand_k(fraction=0.5)", "sign"])
def test_values_of_algorithms_in_lockstep_are_packed(toy, algorithm: str, text: str) -> None:
    records = run(algorithm, toy((24, 24, 24)), MINIBATCH, *chain(text))
    assert models(records).isfinite().all()
    assert records[0].bytes_up < run(algorithm, toy((24, 24, 24)), MINIBATCH)[0].bytes_up


@pytest.mark.parametrize("text", LOSSY)
def test_workers_give_the_same_bits(toy, text: str) -> None:
    def all_bits(**options: Any) -> list[Any]:
        records = run("scaffold", toy((20, 9, 30), "mlp(6)"), SOLVER, *chain(text), **options)
        return [{**bits(record), "engine": None, "workers": None} for record in records]

    assert all_bits() == all_bits(engine=pool(workers=2))


@pytest.mark.parametrize("text", [*LOSSY, "sign", "quantize(bits=2)"])
def test_statistics_are_sent_whole(normed, text: str) -> None:
    """A variance that is rounded or scaled could become negative; the change of a statistic is sent as it is."""
    (plain,) = run("fedavg", normed(), SOLVER, rounds=1)
    records = run("fedavg", normed(), SOLVER, *chain(text))
    assert close(records[0].state.server.buffers, plain.state.server.buffers, rel=bound(100))
    variances = normed()[1].network.layout.slices["1.running_var"]
    start = normed()[1].network.layout.trainable
    every = torch.stack([record.state.server.buffers for record in records])
    assert (every[:, variances.start - start : variances.stop - start] >= 0).all()
    update = Update({BUFFERS: torch.ones(10), "delta": torch.ones(53)}, 1.0)
    assert sent(update, text).message.total[BUFFERS].nbytes == plain.state.server.buffers.nbytes == 40


def test_a_lossy_codec_is_not_taken_for_the_sum() -> None:
    for text in CHAINS:
        done = sent(Update.of(1.0, delta=torch.randn(20)), text).arrived
        assert not any(codec.lossless for codec in done.codecs.values())
        assert (done + done).codecs == {}
