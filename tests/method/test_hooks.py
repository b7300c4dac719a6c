"""Hooks of algorithms, called by themselves on vectors of a few numbers; their arguments, knobs and passes."""

from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hooks import sent, server_at, trained, vector
from silobench.method.algorithms import ALGORITHMS, dgc, fedavg, feddyn, gaia, scaffold
from silobench.method.types import Algorithm, Layout, Update

# --- arguments ----------------------------------------------------------------------------------------

DEFAULTS = [
    "apfl(alpha=0.5, adaptive=True)",
    "bsp(combine=sum)",
    "combined",
    "dgc(warmup=4.0, sparsity=[0.75, 0.9375, 0.984375, 0.996, 0.999], clip=5.0, masking=True)",
    "ditto(lam=0.1, epochs=None)",
    "fedavg",
    "fedbn",
    "feddyn(alpha=0.01)",
    "fednova",
    "fedper(layers=1)",
    "fedprox(mu=0.01)",
    "fedrep(layers=1, head_epochs=10)",
    "fedrs(alpha=0.5)",
    "fedsgd",
    "finetune(algorithm=fedavg(), epochs=1)",
    "gaia(threshold=0.1)",
    "moon(mu=1.0, temperature=0.5)",
    "perfedavg(alpha=0.01, variant=FO, delta=0.001)",
    "pfedme(lam=15.0, inner_steps=5, inner_lr=0.01, beta=1.0)",
    "scaffold(option=2, init=zeros, momentum=outside)",
    "solo",
]


@pytest.mark.parametrize("full", DEFAULTS, ids=lambda full: full.split("(")[0])
def test_a_default_is_that_of_earlier_runs(full: str) -> None:
    """The name of a run states its arguments, so that another default would make another run of the same plan."""
    name = full.split("(")[0]
    short = "finetune(fedavg)" if name == "finetune" else name
    assert str(ALGORITHMS.bind(short).full) == full
    assert isinstance(ALGORITHMS.build(short), Algorithm)


def test_every_algorithm_has_its_defaults_here() -> None:
    assert [full.split("(")[0] for full in DEFAULTS] == sorted(ALGORITHMS.factories)


@pytest.mark.parametrize(
    ("spec", "knobs"),
    [
        ("gaia", {"threshold": (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)}),
        ("fedavg(iter_local=20)", {"iter_local": (5, 10, 20, 50, 200, 500, 1000)}),
        ("dgc", {"warmup": (8, 4, 3, 2, 1), "sparsity": (0.75, 0.9375, 0.984375, 0.996, 0.999)}),
        ("fedavg", {}),
    ],
)
def test_knobs_have_the_settings_of_the_paper(spec: str, knobs: dict[str, tuple[float, ...]]) -> None:
    """Those of Hsieh et al. (2020), from the most traffic to the least; only FedAvg's waits for rounds."""
    dials = ALGORITHMS.build(spec).dials
    assert {dial.name: dial.grid for dial in dials} == knobs
    assert [dial.name for dial in dials if dial.waits] == [name for name in knobs if name == "iter_local"]


@pytest.mark.parametrize(
    ("spec", "passes"),
    [
        ("apfl", 6), ("ditto", 6), ("ditto(epochs=5)", 8), ("fedrep", 13), ("fedrep(head_epochs=2)", 5),
        ("perfedavg", 6), ("perfedavg(variant=HF)", 12), ("pfedme", 15), ("pfedme(inner_steps=2)", 6),
    ],
)  # fmt: skip
def test_the_passes_of_a_round_with_three_epochs(spec: str, passes: float) -> None:
    effort = ALGORITHMS.build(spec).effort
    assert effort is not None
    assert effort(3) == passes


FLAGS = ("lockstep", "weighs_rows", "applies_momentum", "mostly_zeros", "silent", "pooled", "local_model_before")


@pytest.mark.parametrize(
    ("spec", "flags"),
    [
        ("fedavg", "weighs_rows"),
        ("fedavg(iter_local=5)", "lockstep local_model_before"),
        ("fedsgd", "lockstep weighs_rows"),
        ("bsp", "lockstep"),
        ("gaia", "lockstep mostly_zeros"),
        ("dgc", "lockstep applies_momentum mostly_zeros"),
        ("feddyn", ""),
        ("scaffold", "weighs_rows"),
        ("solo", "weighs_rows silent"),
        ("combined", "weighs_rows silent pooled"),
    ],
)
def test_what_the_round_loop_knows_of_an_algorithm(spec: str, flags: str) -> None:
    algorithm = ALGORITHMS.build(spec)
    assert {flag for flag in FLAGS if getattr(algorithm, flag)} == set(flags.split())


# --- one message --------------------------------------------------------------------------------------


def test_gaia_sends_what_exceeds_the_share_of_its_weight() -> None:
    """Of four weights with a residual and a change of 1/4 each: the limit is exclusive, and a weight of 0 has none."""
    start, delta, residual = vector(0.75, 1.75, 3.75, -0.25), vector(*[0.25] * 4), vector(*[0.25] * 4)
    message = gaia(threshold=0.25).message
    update, memory = message(trained(start, delta), server_at(start), {"residual": residual})
    assert sent(update) == [0.5, 0.0, 0.0, 0.5]  # of ends of 1, 2, 4 and 0; 0.25 * 2 is no less than 0.5
    assert memory["residual"].tolist() == [0.0, 0.5, 0.5, 0.0]
    assert update.weight == 1


@pytest.mark.parametrize(("first", "knobs", "expected"), [(0.5, {}, 2), (1.0, {}, 3), (0.5, {"threshold": 0.1}, 4)])
def test_gaias_threshold_follows_the_learning_rate_and_the_controller(first: float, knobs: Any, expected: int) -> None:
    start, residual = vector(0.75, 1.25, 2.75, 3.75), vector(*[0.25] * 4)
    local = trained(start, vector(*[0.25] * 4), first_lr=first)
    update, _ = gaia(threshold=0.25).message(local, server_at(start, knobs=knobs), {"residual": residual})
    assert sum(number != 0 for number in sent(update)) == expected


def stage_sizes(algorithm: Algorithm, rounds: Sequence[int], **knobs: float) -> list[int]:
    """Return how many of 64 entries DGC sends in some rounds, where 4 rounds are an epoch."""
    start, delta = torch.zeros(64, dtype=torch.float64), torch.arange(1.0, 65.0, dtype=torch.float64)
    memory, found = algorithm.memory(start), []
    for round in rounds:
        update, _ = algorithm.message(trained(start, delta), server_at(start, round, knobs=knobs), memory)
        found.append(int((update.total["delta"] != 0).sum()))
    return found


def test_dgcs_sparsity_by_round() -> None:
    """A stage of an epoch and a half has 6 rounds, and the last stage stays."""
    staged = dgc(warmup=1.5, sparsity=(0.25, 0.5, 0.75))
    assert stage_sizes(staged, [0, 5, 6, 11, 12, 17, 18, 60]) == [48, 48, 32, 32, 16, 16, 16, 16]
    fifths = dgc(warmup=0.2, sparsity=(0.0, 0.25, 0.5, 0.75, 0.875, 0.9375))
    assert stage_sizes(fifths, [0, 1, 2, 3, 4]) == [64, 48, 32, 16, 4]  # the sixth stage begins with the second epoch
    assert stage_sizes(dgc(warmup=0.0, sparsity=(0.25, 0.5, 0.75)), [0, 1, 60]) == [16, 16, 16]
    assert stage_sizes(dgc(sparsity=()), [0, 60]) == [64, 64]
    assert stage_sizes(staged, [0, 3, 4, 8], warmup=1.0) == [48, 48, 32, 16]
    assert stage_sizes(staged, [0, 60], sparsity=0.875) == [8, 8]


def test_dgc_takes_the_largest_of_each_tensor_and_leaves_buffers_out() -> None:
    layout = Layout(("a", "b", "statistics"), (torch.Size([4]), torch.Size([2]), torch.Size([3])), trainable=6)
    local = trained(vector(*[0.0] * 6), vector(8.0, 6.0, -7.0, 5.0, 2.0, -3.0), layout=layout)
    algorithm = dgc(warmup=0.0, sparsity=(0.5,), clip=None)
    update, memory = algorithm.message(local, server_at(local.start), algorithm.memory(local.start))
    assert sent(update) == [8.0, 0.0, -7.0, 0.0, 0.0, -3.0]
    assert memory["v"].tolist() == [0.0, 6.0, 0.0, 5.0, 2.0, 0.0]
    assert algorithm.local_model is not None
    assert algorithm.local_model(server_at(vector(*[10.0] * 6)), memory).tolist() == [10, 16, 10, 15, 12, 10]


@pytest.mark.parametrize(("masking", "kept"), [(True, [0.0, 4.0]), (False, [5.0, 4.0])])
def test_dgc_accumulates_momentum_and_updates(masking: bool, kept: list[float]) -> None:
    """u is half of (2, 4) and the change (4, 2), and v is (3, 1) and u; of two entries the larger is sent."""
    algorithm = dgc(warmup=0.0, sparsity=(0.5,), clip=None, masking=masking)
    local, memory = trained(vector(0.0, 0.0), vector(4.0, 2.0)), {"u": vector(2.0, 4.0), "v": vector(3.0, 1.0)}
    update, after = algorithm.message(local, server_at(local.start), memory)
    assert sent(update) == [8.0, 0.0]
    assert after["u"].tolist() == kept
    assert after["v"].tolist() == [0.0, 5.0]
    assert update.weight == 1


@pytest.mark.parametrize(
    ("clip", "parties", "expected"),
    [(None, 4, [3.0, 4.0]), (4.0, 4, [0.6, 0.8]), (4.0, 1, [1.2, 1.6]), (20.0, 4, [3.0, 4.0]), (25.0, 4, [3.0, 4.0])],
)
def test_dgc_clips_to_its_share_of_the_length(clip: float | None, parties: int, expected: list[float]) -> None:
    """A gradient of length 5, of a party of some, at a rate of 0.5; a shorter one is not lengthened."""
    local = trained(vector(0.0, 0.0), vector(3.0, 4.0))
    algorithm = dgc(sparsity=(), clip=clip)
    update, _ = algorithm.message(local, server_at(local.start, parties=parties), algorithm.memory(local.start))
    assert sent(update) == pytest.approx(expected)


def test_fedavg_by_minibatch_waits_and_then_sends_how_far_it_has_come() -> None:
    algorithm, server, memory = fedavg(iter_local=3), server_at(vector(1.0)), {}
    assert algorithm.local_model is not None
    ends, waits, weights = [2.0, 4.0, 8.0, 9.0], [], []
    for end in ends:
        start = algorithm.start(server, memory)
        update, memory = algorithm.message(trained(start, vector(end) - start), server, memory)
        assert float(algorithm.local_model(server, memory)) == end
        waits.append(sent(update) if update.total else None)
        weights.append(update.weight)
    assert waits == [None, None, [7.0], None]
    assert weights == [1, 1, 1, 1]  # whatever a party sends, and however many rows it has
    assert float(algorithm.start(server, {"apart": vector(8.0)})) == 1.0  # at the mean, whatever it was before
    sooner = server_at(vector(1.0), knobs={"iter_local": 2})  # a controller lowers what the party has passed already
    waiting = {"model": vector(4.0), "waited": torch.tensor(4)}
    assert sent(algorithm.message(trained(vector(4.0), vector(5.0)), sooner, waiting)[0]) == [8.0]


# --- SCAFFOLD and FedDyn ------------------------------------------------------------------------------


def test_scaffold_starts_at_zeros_or_at_a_network_of_random_signs() -> None:
    params = torch.arange(1.0, 65.0)
    assert not scaffold().memory(params)["control"].any()
    for initial in (scaffold(init="random").memory, scaffold(init="random").extras):
        control = initial(params)["control"]
        assert torch.equal(control.abs(), params)
        assert 20 <= int((control > 0).sum()) <= 44  # of 64 signs
        first = "+-+++-+-+-+++++-"  # those of earlier runs
        assert "".join("+" if sign > 0 else "-" for sign in control[:16]) == first


@pytest.mark.parametrize(
    ("spec", "lr", "expected"),
    [
        ("scaffold", 0.5, 2.0 - 5.0 + 6.0 / (4 * 0.5)),
        ("scaffold(momentum=inside)", 0.5, 2.0 - 5.0 + 6.0 / (3 * 0.5)),
        ("scaffold", 0.0, 2.0),  # nothing was learnt
        ("scaffold(option=1)", 0.5, 10 * 7.0 * 3 / 4),
        ("scaffold(option=1, momentum=inside)", 0.5, 10 * 7.0),
        ("scaffold(option=1, momentum=inside)", 0.0, 10 * 7.0),
    ],
)
def test_the_next_control_variate(spec: str, lr: float, expected: float) -> None:
    """Of a party at 7 with c_i = 2 and c = 5, which falls by 6 in 4 steps with a reach of 3; its gradient is 10 x."""
    algorithm, start = ALGORITHMS.build(spec), vector(7.0)
    server = server_at(start, extras={"control": vector(5.0)}, parties=8)
    local = trained(start, vector(-6.0), steps=4, reach=3.0, lr=lr)
    update, memory = algorithm.message(local, server, {"control": vector(2.0)})
    assert float(memory["control"]) == pytest.approx(expected)
    assert float(update.sums["control"]) == pytest.approx(expected - 2.0)
    assert (update.weight, float(update.mean()["delta"])) == (7, -6.0)
    direction, extras = algorithm.absorb(server, update)
    assert float(direction) == -6.0
    assert float(extras["control"]) == pytest.approx(5.0 + (expected - 2.0) / 8)
    pull = algorithm.pull(server, {"control": vector(2.0)})
    place = pull.linear if "inside" in spec else pull.drift
    assert place is not None
    assert float(place) == 3.0


def test_which_solvers_scaffold_refuses() -> None:
    """Option 1 needs the gradient, and everything but option 1 inside momentum needs steps along gradients."""
    options: Any = product((1, 2), ("outside", "inside"), (True, False), (True, False))
    for option, momentum, linear, hides in options:
        solver = SimpleNamespace(is_linear=linear, hides_gradient=hides, kind="another")
        reason = scaffold(option=option, momentum=momentum).refuses(SimpleNamespace(solver=solver))
        if option == 1 and hides:
            assert reason
            assert "keeps secret" in reason
        elif linear or (option, momentum) == (1, "inside"):
            assert reason is None
        else:
            assert reason
            assert "scaffold takes a step for a multiple of a gradient" in reason


def test_feddyns_round_of_one_number() -> None:
    """Two of eight parties move by 3 and 5 with alpha = 1/2: g falls by half of that, and h by half of 8 / 8."""
    algorithm, server = feddyn(alpha=0.5), server_at(vector(1.0), parties=8, extras={"tilt": vector(1.75)})
    updates = []
    for delta, expected in ((3.0, 2.5), (5.0, 1.5)):
        update, memory = algorithm.message(trained(vector(1.0), vector(delta)), server, {"gradient": vector(4.0)})
        assert float(memory["gradient"]) == expected
        updates.append(update)
    whole = Update({"delta": updates[0].total["delta"] + updates[1].total["delta"]}, 2.0)
    direction, extras = algorithm.absorb(server, whole)
    assert float(extras["tilt"]) == 1.25
    assert float(direction) == 4.0 - 1.25 / 0.5
    pull = algorithm.pull(server, {"gradient": vector(4.0)})
    assert (pull.strength, float(pull.linear), float(pull.anchor)) == (0.5, -4.0, 1.0)
