"""BSP, FedSGD, Gaia, FedAvg with iter_local, DGC and top_k: identities, and slow versions by hand, party by party."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from natives import needs_native
from precision import bound, bound_of_steps
from silobench.engines import ENGINES
from silobench.errors import ConfigError
from silobench.loop.network import link, mesh
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS, bsp, dgc, fedavg, fedsgd, gaia
from silobench.method.control import Controller, Orders
from silobench.method.controllers import fixed
from silobench.method.method import Method
from silobench.method.solvers import Problem, Solver, sgd
from silobench.method.transforms import top_k
from silobench.method.types import SPARSE, Algorithm, Context, Layout, Memory, Transform, Update
from silobench.runs.experiment import bind
from silobench.training.state import RoundRecord
from silobench.vectors import largest

LR = 0.05
SOLVER = sgd(lr=LR, momentum=0.9, weight_decay=0.01, steps=1, batch=8, keep_momentum=True)
NO_MOMENTUM = replace(SOLVER, momentum=0.0, keep_momentum=False)
EQUAL = (24, 24, 24)
ROUNDING = bound_of_steps(36, 20, torch.float64)  # of twelve rounds of three parties in double precision


def run(algorithm: Algorithm, federated: Any, solver: Solver = SOLVER, *transforms: Transform, **options: Any):
    method = Method(algorithm, solver, transforms)
    return list(rounds(method, *federated, **{"rounds": 12, "seed": 3} | options))


def models(records: list[RoundRecord]) -> Tensor:
    return torch.stack([record.state.server.params for record in records])


def close(ours: Tensor, theirs: Tensor, rel: float = ROUNDING, scale: Tensor | None = None) -> bool:
    """Whether two vectors are the same up to rounding of what has the length of `scale`, by default of theirs."""
    return bool((ours - theirs).norm() <= rel * (theirs if scale is None else scale).norm())


def memory_of(record: RoundRecord, party: int) -> Memory:
    return record.state.memory[party]["algorithm"]


class ByHand:
    """The gradients of parties' minibatches, one at a time, by autograd at any point."""

    def __init__(self, federated: Any, solver: Solver, seed: int = 3):
        self.federation, self.task = federated
        self.solver, self.seed = solver, seed
        self.parties = range(len(self.federation.parties))

    def gradient(self, params: Tensor, party: int, now: int) -> Tensor:
        problem = Problem(self.task, self.federation, self.federation.parties[party], self.seed)
        (rows,) = self.solver.batches(problem, now)
        self.task.network.params.copy_(params)
        problem.backward(rows)
        return self.task.network.grad.clone() + self.solver.weight_decay * params


# --- identities ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [SOLVER, NO_MOMENTUM], ids=["momentum", "plain"])
@pytest.mark.parametrize("model", ["linear", "mlp(6)"])
def test_gaia_that_sends_everything_is_bsp(toy, model: str, solver: Solver) -> None:
    federated = toy((20, 9, 30), model)
    assert torch.equal(models(run(gaia(threshold=0.0), federated, solver)), models(run(bsp(), federated, solver)))
    assert not torch.equal(models(run(gaia(threshold=0.1), federated, solver)), models(run(bsp(), federated, solver)))


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("solver", [SOLVER, NO_MOMENTUM], ids=["momentum", "plain"])
def test_fedavg_after_every_step_is_bsp(toy, solver: Solver) -> None:
    federated = toy((20, 9, 30), "mlp(6)")
    ours = models(run(fedavg(iter_local=1), federated, solver))
    assert close(ours, models(run(bsp(combine="mean"), federated, solver)))
    third = replace(solver, lr=LR / 3, weight_decay=0.0)  # added, three parties step three times as far
    summed = models(run(bsp(), federated, third))
    averaged = models(run(fedavg(iter_local=1), federated, replace(solver, weight_decay=0.0)))
    assert close(averaged, summed)


@pytest.mark.usefixtures("in_double")
def test_fedsgd_is_bsp_that_averages_parties_of_one_size(toy) -> None:
    federated = toy(EQUAL, "mlp(6)")
    ours, average = run(fedsgd(), federated), run(bsp(combine="mean"), federated)
    assert close(models(ours), models(average))
    weighted = toy((40, 9, 9), "mlp(6)")
    assert not close(models(run(fedsgd(), weighted)), models(run(bsp(combine="mean"), weighted)), rel=1e-3)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize(("masking", "solver"), [(True, NO_MOMENTUM), (False, SOLVER), (False, NO_MOMENTUM)])
def test_dgc_at_full_density_is_bsp(toy, masking: bool, solver: Solver) -> None:
    federated = toy((20, 9, 30), "mlp(6)")
    ours = run(dgc(sparsity=(0.0,), clip=None, masking=masking), federated, solver)
    assert close(models(ours), models(run(bsp(), federated, solver)))


@pytest.mark.usefixtures("in_double")
def test_what_dgc_sends_forgets_its_momentum(toy) -> None:
    federated = toy((20, 9, 30), "mlp(6)")
    dense = dgc(sparsity=(0.0,), clip=None)
    plain = models(run(bsp(), federated, NO_MOMENTUM))
    assert close(models(run(dense, federated, SOLVER)), plain)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("solver", [SOLVER, NO_MOMENTUM], ids=["momentum", "plain"])
def test_averaging_after_four_minibatches_is_a_round_of_four_steps(toy, solver: Solver) -> None:
    federated = toy(EQUAL, "mlp(6)")
    by_minibatch = models(run(fedavg(iter_local=4), federated, solver))[3::4]
    by_round = models(run(fedavg(), federated, replace(solver, steps=4), rounds=3))
    assert close(by_minibatch, by_round)


def test_top_k_of_everything_is_bsp(toy) -> None:
    federated = toy((20, 9, 30), "mlp(6)")
    assert torch.equal(models(run(bsp(), federated, SOLVER, top_k(fraction=1.0))), models(run(bsp(), federated)))


@pytest.mark.parametrize("spec", ["bsp", "gaia", "fedavg(iter_local=3)", "dgc(warmup=1)", "fedsgd"])
@pytest.mark.parametrize("engine", ["stacked", pytest.param("native", marks=needs_native), "pool(workers=2)"])
def test_every_engine_gives_the_same(toy, spec: str, engine: str) -> None:
    federated = toy((20, 9, 30), "mlp(6)")
    inline = models(run(ALGORITHMS.build(spec), federated))
    other = models(run(ALGORITHMS.build(spec), federated, engine=ENGINES.build(engine)))
    if engine.startswith("pool"):
        assert torch.equal(other, inline)
    else:
        assert close(other, inline, bound_of_steps(36, 20))


# --- Gaia, against peers that talk to each other ------------------------------------------------------


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("threshold", [0.02, 0.3])
def test_gaia_is_peers_that_send_what_is_significant(toy, threshold: float) -> None:
    """Algorithm 1, with K models, K momenta and K residuals, and messages from each to each."""
    federated, solver = (
        toy((20, 9, 30), "mlp(6)"),
        replace(SOLVER, lr=lambda server: LR if server.round < 6 else LR / 10),
    )
    hand, start = ByHand(federated, solver), federated[1].initial
    w = [start.clone() for _ in hand.parties]
    velocity = [torch.zeros_like(start) for _ in hand.parties]
    v = [torch.zeros_like(start) for _ in hand.parties]
    sent_bytes = []
    for now in range(12):
        lr = LR if now < 6 else LR / 10
        shared = []
        for k in hand.parties:
            velocity[k] = 0.9 * velocity[k] + hand.gradient(w[k], k, now)
            u = -lr * velocity[k]
            w[k] = w[k] + u
            v[k] = v[k] + u
            sent = torch.zeros_like(v[k])
            for j in range(len(sent)):
                if abs(v[k][j]) > threshold * lr / LR * abs(w[k][j]):
                    sent[j], v[k][j] = v[k][j].item(), 0.0
            shared.append(sent)
        for k in hand.parties:
            for i in hand.parties:
                if i != k:
                    w[k] = w[k] + shared[i]
        sent_bytes.append(sum(int((some != 0).sum()) for some in shared))
    records = run(gaia(threshold=threshold), federated, solver)
    last = records[-1].state
    for k in hand.parties:
        replica = last.server.params + memory_of(records[-1], k)["residual"]
        assert close(replica, w[k])
        assert close(memory_of(records[-1], k)["residual"], v[k], scale=w[k])
    assert 0 < sum(sent_bytes) < 12 * 3 * len(start)  # some, and not all


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("spec", ["gaia(threshold=0.1)", "dgc(warmup=1, sparsity=[0.5, 0.9])"])
def test_sent_and_unsent_parts_add_up_to_the_update(toy, spec: str) -> None:
    """Without momentum, the sum of all steps of all parties is what was shared and what is left."""
    federated = toy((20, 9, 30), "mlp(6)")
    key = "residual" if spec.startswith("gaia") else "v"
    hand = ByHand(federated, NO_MOMENTUM)
    produced, before = torch.zeros_like(federated[1].initial), federated[1].initial
    kept_before = [torch.zeros_like(before) for _ in hand.parties]
    algorithm = ALGORITHMS.build(spec.replace("])", "], clip=none)"))
    for record in run(algorithm, federated, NO_MOMENTUM):
        for k in hand.parties:
            at = before + kept_before[k] if key == "residual" else before
            produced -= LR * hand.gradient(at, k, record.round - 1)
        before = record.state.server.params
        kept_before = [memory_of(record, k)[key] for k in hand.parties]
        assert close(before - federated[1].initial + sum(kept_before), produced)


# --- DGC, against explicit u and v --------------------------------------------------------------------


@pytest.mark.usefixtures("in_double")
def test_dgc_is_its_pseudocode(toy) -> None:
    """Algorithm 3, entry by entry: clip, momentum correction, the largest of each layer, masking of u and v."""
    federated, clip = toy(EQUAL, "mlp(6)"), 0.8
    hand, task = ByHand(federated, SOLVER), federated[1]
    layout, w = task.network.layout, task.initial.clone()
    u = [torch.zeros_like(w) for _ in hand.parties]
    v = [torch.zeros_like(w) for _ in hand.parties]
    clipped = 0
    for now in range(12):
        sparsity = (0.5, 0.75, 0.9)[min(now // 3, 2)]  # 24 rows in batches of 8: an epoch is 3 minibatches
        total = torch.zeros_like(w)
        for k in hand.parties:
            g = -LR * hand.gradient(w, k, now)
            most = LR * clip / 3**0.5
            if g.norm() > most:
                g, clipped = g * most / g.norm(), clipped + 1
            u[k] = 0.9 * u[k] + g
            v[k] = v[k] + u[k]
            for place in layout.slices.values():
                size = place.stop - place.start
                order = sorted(range(place.start, place.stop), key=lambda j, k=k: -abs(float(v[k][j])))
                for j in order[: max(1, round((1 - sparsity) * size))]:
                    total[j] += v[k][j]
                    u[k][j] = v[k][j] = 0.0
        w = w + total
    records = run(dgc(warmup=1, sparsity=(0.5, 0.75, 0.9), clip=clip), federated)
    assert 0 < clipped < 36
    assert close(records[-1].state.server.params, w)
    for k in hand.parties:
        assert close(memory_of(records[-1], k)["u"], u[k], scale=w)
        assert close(memory_of(records[-1], k)["v"], v[k], scale=w)


def test_dgc_keeps_each_sparsity_for_the_epochs_of_its_warm_up(toy) -> None:
    federated = toy(EQUAL, "linear", features=200)  # 603 parameters
    records = run(dgc(warmup=2, sparsity=(0.5, 0.9, 0.99)), federated, rounds=18)
    by_stage = [records[stage * 6].bytes_up for stage in range(3)]
    assert [record.bytes_up for record in records[:6]] == [by_stage[0]] * 6
    assert by_stage == sorted(by_stage, reverse=True)
    assert by_stage[2] < 3 * 8 * 10  # 6 weights and a bias, each with its place, of each of three parties


def test_a_knob_overrides_the_argument(toy) -> None:
    federated = toy(EQUAL, "mlp(6)")
    turned = Controller(lambda server, memory, probe: Orders({"threshold": 0.3}))
    ours = models(run(gaia(threshold=0.01), federated, controller=turned))
    assert torch.equal(ours, models(run(gaia(threshold=0.3), federated, controller=fixed())))
    waits = Controller(lambda server, memory, probe: Orders({"iter_local": 4}))
    assert torch.equal(
        models(run(fedavg(iter_local=1), federated, controller=waits)), models(run(fedavg(iter_local=4), federated))
    )


# --- FedAvg by minibatch ------------------------------------------------------------------------------


def test_parties_send_nothing_between_averages_and_are_tested_with_their_models(toy) -> None:
    records = run(fedavg(iter_local=4), toy(EQUAL, "mlp(6)"))
    assert [record.bytes_up > 0 for record in records] == [False, False, False, True] * 3
    assert [record.bytes_down > 0 for record in records] == [False, False, False, True] * 3
    assert [record.clock > 0 for record in records[:4]] == [False, False, False, True]
    assert records[0].accuracy_std is not None
    assert records[3].accuracy_std == 0.0  # all have the mean
    assert records[1].accuracy_std > 0.0


# --- top_k --------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.floats(0.01, 1.0), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_top_k_sends_the_largest_and_keeps_the_rest(size: int, fraction: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    deltas = [torch.randn(size, generator=generator) for _ in range(4)]
    context = Context(0, 0, 0, Layout(("w",), (torch.Size([size]),), size), {})
    transform, memory, sent = top_k(fraction=fraction), {}, torch.zeros(size)
    for count, delta in enumerate(deltas, 1):
        update, memory = transform.encode(Update.of(7.0, delta=delta), memory, context)
        got = update.mean()["delta"]
        assert int((got != 0).sum()) == max(1, round(fraction * size))
        kept = memory["delta"]
        assert got[got != 0].abs().min() >= kept.abs().max() * (1 - bound(2))  # times its weight, and divided by it
        sent += got
        longest = sum(delta.abs().max() for delta in deltas[:count])
        torch.testing.assert_close(sent + kept, sum(deltas[:count]), rtol=0, atol=float(bound(4 * count) * longest))
    torch.testing.assert_close(transform.unsent(memory), memory["delta"])


def test_top_k_without_feedback_forgets() -> None:
    context = Context(0, 0, 0, Layout(("w",), (torch.Size([4]),), 4), {})
    update, memory = top_k(fraction=0.25, feedback=False).encode(
        Update.of(2.0, delta=torch.tensor([1.0, -4.0, 2.0, 0.5])), {}, context
    )
    assert update.mean()["delta"].tolist() == [0.0, -4.0, 0.0, 0.0]
    assert memory == {}


# --- bytes --------------------------------------------------------------------------------------------


@given(arrays(np.float32, st.integers(1, 300), elements=st.sampled_from([0.0, 0.0, 0.0, 0.0, 1.5, -2.0])))
@settings(max_examples=60, deadline=None)
def test_zeros_are_not_sent(values: Any) -> None:
    vector = torch.from_numpy(values)
    message = Update({"delta": vector}, 1.0).coded(SPARSE).pack()
    assert torch.equal(message.unpack().total["delta"], vector)
    some = int((vector != 0).sum())
    assert message.nbytes == min(vector.nbytes, 8 * some, 4 * some + -(-len(vector) // 8))


def test_largest_takes_at_least_one_and_at_most_all() -> None:
    vector = torch.tensor([0.0, -2.0, 1.0])
    assert largest(vector, 0.0).tolist() == [False, True, False]
    assert largest(vector, 1.0).tolist() == [True, True, True]


def test_a_star_and_a_mesh_count_what_each_sends(toy) -> None:
    federated = toy(EQUAL, "mlp(6)")
    size = federated[1].initial.nbytes
    star, all_to_all = (run(bsp(), federated, network=of)[0] for of in (link(), mesh("8Mbps", latency=0.5)))
    assert (star.bytes_up, star.bytes_down) == (3 * size, 3 * size)
    assert (all_to_all.bytes_up, all_to_all.bytes_down) == (3 * 2 * size, 0)
    assert all_to_all.clock == pytest.approx(0.5 + 8 * 2 * size / 8e6)
    assert torch.equal(star.state.server.params, all_to_all.state.server.params)


def test_gaias_bytes_are_those_of_its_packed_messages(toy) -> None:
    federated = toy(EQUAL, "linear", features=300)
    record = run(gaia(threshold=5.0), federated, rounds=1)[0]
    kept = [memory_of(record, k)["residual"] for k in range(3)]
    places = [sum(int((some == 0).sum()) for some in kept)]
    assert 0 < record.bytes_up < 3 * federated[1].initial.nbytes
    # Zero where sent; a weight whose gradient is 0 is not sent either, but has no residual.
    assert record.bytes_up <= 8 * places[0]
    union = Update({"delta": record.state.server.params - federated[1].initial}, 1.0).coded(SPARSE)
    assert record.bytes_down == 3 * union.nbytes


# --- what is refused ----------------------------------------------------------------------------------


def test_more_than_one_step_is_refused() -> None:
    with pytest.raises(ConfigError, match="exchanges after every minibatch"):
        Method(bsp(), sgd(epochs=1))


def test_parties_cannot_be_left_out(toy) -> None:
    with pytest.raises(ConfigError, match=r"2 of 3 parties.*leave participation at 1"):
        run(gaia(), toy(EQUAL), participation=2)


def test_an_experiment_fills_in_one_step_and_keep_momentum() -> None:
    cell = {"dataset": "digits", "parties": 5, "algorithm": "bsp", "solver": "sgd(lr=0.1, batch=20)"}
    solver = bind(cell).config["solver"]
    assert "steps=1" in solver
    assert "keep_momentum=True" in solver
    for wrong in ("sgd(epochs=2)", "sgd(steps=3)"):
        with pytest.raises(ConfigError, match="exchanges after every minibatch, but the solver has"):
            bind({**cell, "solver": wrong})
    assert bind({**cell, "solver": "sgd(steps=1, keep_momentum=False)"}).config["solver"].count("keep_momentum=False")


def test_an_argument_that_came_later_leaves_the_name_of_old_runs() -> None:
    cell = {"dataset": "digits", "parties": 5, "algorithm": "fedavg"}
    assert bind(cell).config["algorithm"] == "fedavg"
    assert bind({**cell, "algorithm": "fedavg(iter_local=5)"}).config["algorithm"] == "fedavg(iter_local=5)"
