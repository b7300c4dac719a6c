"""The laws of the algorithms and of the round loop: identities, fixed points, and slow versions by hand."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from scipy.optimize import root
from torch import Tensor

from laws import EVERY, SCAFFOLDS, SOLVER, ByHand, bits, close, compare, draw_cohort, feedback, models, run
from precision import bound
from silobench.data import load
from silobench.federation import federate
from silobench.loop.network import link
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS, fedavg, feddyn, fednova, fedprox, scaffold
from silobench.method.method import Method
from silobench.method.solvers import SOLVERS, Problem, sgd
from silobench.method.types import Algorithm, Context, Local, Memory, Server, Transform, Update
from silobench.tasks.task import task
from silobench.training.state import State

# --- identities ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["linear", "mlp(6)"])
def test_fedprox_without_a_pull_is_fedavg(toy, model: str) -> None:
    federated = toy((20, 9, 30), model)
    assert torch.equal(models(run(fedprox(mu=0.0), federated)), models(run(fedavg(), federated)))
    assert not torch.equal(models(run(fedprox(mu=0.1), federated)), models(run(fedavg(), federated)))


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fednova_is_fedavg_at_equal_steps(toy, momentum: float) -> None:
    federated = toy((20, 9, 30), "mlp(6)")
    solver = sgd(lr=0.1, momentum=momentum, steps=4, batch=8)
    nova, average = (models(run(name, federated, solver)) for name in ("fednova", "fedavg"))
    assert close(nova, average)


def test_fednova_is_not_fedavg_at_unequal_steps(toy) -> None:
    federated = toy((20, 9, 30))
    assert not close(models(run("fednova", federated)), models(run("fedavg", federated)), rel=1e-2)


@pytest.mark.parametrize("spec", SCAFFOLDS)
def test_scaffold_begins_as_fedavg(toy, spec: str) -> None:
    federated = toy((20, 9, 30), "mlp(6)")
    ours, average = models(run(spec, federated)), models(run("fedavg", federated))
    assert torch.equal(ours[0], average[0])
    assert not close(ours[1], average[1], rel=1e-2)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("option", [1, 2])
def test_the_place_of_scaffolds_correction_does_not_matter_without_momentum(toy, option: int) -> None:
    federated, solver = toy((20, 9, 30)), sgd(lr=0.1, momentum=0.0, epochs=2, batch=8)
    inside, outside = (
        models(run(scaffold(option=option, momentum=m), federated, solver)) for m in ("inside", "outside")
    )
    assert close(inside, outside)


@pytest.mark.usefixtures("in_double")
def test_one_full_step_of_fedavg_is_one_step_on_the_pooled_rows(toy, gradient) -> None:
    federation, task = toy((20, 9, 30))
    (record,) = run(
        "fedavg", (federation, task), sgd(lr=0.3, momentum=0.0, weight_decay=0.1, steps=1, batch="full"), rounds=1
    )
    start = task.initial.double()
    step = start - 0.3 * (gradient(start, *federation.batch(torch.arange(59))) + 0.1 * start)
    assert close(record.state.server.params, step)


# --- by hand ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.0, 0.5])
def test_fedprox_by_hand(hand: ByHand, participation: float | int, mu: float) -> None:
    def slow() -> Iterator[Tensor]:
        shared = hand.start
        for now in range(3):
            cohort = draw_cohort(5, participation, 5, now)
            ends = [hand.walk(p, now, shared, lambda x, w=shared: mu * (x - w))[0] for p in cohort]
            shared = sum(share * end for share, end in zip(hand.shares(cohort), ends, strict=True))
            yield shared

    compare(hand, fedprox(mu=mu), slow(), participation)


def test_fednova_by_hand(hand: ByHand, participation: float | int) -> None:
    def slow() -> Iterator[Tensor]:
        shared = hand.start
        for now in range(3):
            cohort = draw_cohort(5, participation, 5, now)
            shares, effective, direction = hand.shares(cohort), 0.0, torch.zeros_like(shared)
            for share, party in zip(shares, cohort, strict=True):
                end, weights = hand.walk(party, now, shared)
                effective += share * sum(weights)
                direction += share * (end - shared) / sum(weights)
            shared = shared + effective * direction
            yield shared

    compare(hand, fednova(), slow(), participation)


@pytest.mark.parametrize("alpha", [0.1, 2.0])
def test_feddyn_by_hand(hand: ByHand, participation: float | int, alpha: float) -> None:
    def slow() -> Iterator[Tensor]:
        shared = hand.start
        tilt, gradients = torch.zeros_like(shared), [torch.zeros_like(shared) for _ in range(5)]
        for now in range(3):
            cohort, ends = draw_cohort(5, participation, 5, now), []
            for party in cohort:
                own, start = gradients[party], shared
                end, _ = hand.walk(party, now, start, lambda x, g=own, w=start: alpha * (x - w) - g)
                gradients[party] = own - alpha * (end - start)
                ends.append(end)
            tilt = tilt - alpha * sum(end - shared for end in ends) / 5
            shared = sum(ends) / len(ends) - tilt / alpha
            yield shared

    compare(hand, feddyn(alpha=alpha), slow(), participation)


@pytest.mark.usefixtures("in_double")
def test_feddyn_stays_at_the_optimum_of_the_mean_loss_once_parties_know_their_gradients(toy, gradient) -> None:
    """What FedAvg does not: its parties leave a point at which their own losses still fall."""
    federation, its_task = federated = toy((20, 30, 25))
    solver = sgd(lr=0.2, momentum=0.0, weight_decay=0.1, epochs=1, steps=None, batch="full")

    def slope(party: int, where: Tensor) -> Tensor:
        return gradient(where, *federation.batch(federation.parties[party].rows)) + 0.1 * where

    def mean_slope(where: Any) -> Any:
        return (sum(slope(party, torch.from_numpy(where)) for party in range(3)) / 3).numpy()

    optimum = torch.from_numpy(root(mean_slope, its_task.initial.numpy(), tol=1e-14).x)
    memory = {party: {"algorithm": {"gradient": slope(party, optimum)}} for party in range(3)}
    server = Server(optimum, {"tilt": torch.zeros(15)}, {}, 0, 3, {})
    moved = {}
    for algorithm in (feddyn(alpha=0.5), fedavg()):
        state = State(server, memory if algorithm.broadcast is not None else {})
        last = run(algorithm, federated, solver, rounds=5, state=state)[-1].state.server.params
        moved[algorithm.broadcast] = (last - optimum).norm() / optimum.norm()
    assert moved[()] < 1e-8 < 1e-2 < moved[None]  # roots are found to some 1e-10 of their length


@pytest.mark.parametrize("option", [1, 2])
@pytest.mark.parametrize("place", ["outside", "inside"])
def test_scaffold_by_hand(hand: ByHand, participation: float | int, option: int, place: str) -> None:
    def slow() -> Iterator[Tensor]:
        shared = hand.start
        control = torch.zeros_like(shared)
        controls = [torch.zeros_like(shared) for _ in range(5)]
        for now in range(3):
            cohort = draw_cohort(5, participation, 5, now)
            moved, change = torch.zeros_like(shared), torch.zeros_like(shared)
            for share, party in zip(hand.shares(cohort), cohort, strict=True):
                correction = control - controls[party]
                if place == "outside":
                    end, weights = hand.walk(party, now, shared, drift=correction)
                    length = len(weights)
                else:
                    end, weights = hand.walk(party, now, shared, pull=lambda x, c=correction: c)
                    length = sum(weights)
                if option == 1:
                    renewed = hand.full_gradient(party, shared) * sum(weights) / length
                else:
                    renewed = controls[party] - control + (shared - end) / (length * hand.lr)
                moved += share * (end - shared)
                change += renewed - controls[party]
                controls[party] = renewed
            shared, control = shared + moved, control + change / 5
            yield shared

    compare(hand, scaffold(option=option, momentum=place), slow(), participation)


def sgd_by_torch(federated, rows_of_rounds: list[list[Tensor]]) -> Tensor:
    """torch.optim.SGD with the settings of SOLVER on a fresh linear layer, its momentum reset in every round."""
    federation, task = federated
    layer, seen = torch.nn.Linear(4, 3), []
    torch.nn.utils.vector_to_parameters(task.initial.clone(), layer.parameters())
    for batches in rows_of_rounds:
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
        for rows in batches:
            x, y = federation.batch(rows)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layer(x), y).backward()
            optimizer.step()
        seen.append(torch.nn.utils.parameters_to_vector(layer.parameters()).detach().clone())
    return torch.stack(seen)


def rows_of_party(federated, party: int, count: int = 3) -> list[list[Tensor]]:
    federation, task = federated
    problem = Problem(task, federation, federation.parties[party], 0)
    return [list(SOLVER.batches(problem, now)) for now in range(count)]


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("spec", ["fedavg", "fednova"])
def test_one_party_is_centralised_sgd(toy, spec: str) -> None:
    federated = toy((30,))
    assert close(models(run(spec, federated)), sgd_by_torch(federated, rows_of_party(federated, 0)))


@pytest.mark.usefixtures("in_double")
def test_combined_is_centralised_sgd_on_all_rows_and_sends_nothing(toy) -> None:
    federation, task = toy((20, 9, 30))
    records = run("combined", (federation, task))
    pooled = federation.pooled()
    assert pooled.parties[0].rows.sort().values.tolist() == list(range(59))
    assert close(models(records), sgd_by_torch((federation, task), rows_of_party((pooled, task), 0)))
    assert [(r.cohort, r.bytes_up, r.bytes_down, r.clock) for r in records] == [((0,), 0, 0, 0.0)] * 3


@pytest.mark.usefixtures("in_double")
def test_solo_trains_every_party_by_itself_and_sends_nothing(toy) -> None:
    federation, task = federated = toy((20, 9, 30))
    records = run("solo", federated)
    scores = [[] for _ in records]
    for party in range(3):
        own = sgd_by_torch(federated, rows_of_party(federated, party))
        for record, model, found in zip(records, own, scores, strict=True):
            replica = record.state.memory[party]["algorithm"]["model"]
            assert close(replica, model)
            found.append(task.evaluate(replica, task.buffers, federation.test_batches()).accuracy)
    assert [r.accuracy for r in records] == pytest.approx([sum(found) / 3 for found in scores])
    assert records[-1].accuracy_std == pytest.approx(torch.tensor(scores[-1]).std(correction=0).item())
    assert all(torch.equal(r.state.server.params, task.initial) for r in records)
    assert {(r.bytes_up, r.bytes_down, r.clock) for r in records} == {(0, 0, 0.0)}


def test_a_solo_party_that_was_never_drawn_counts_with_its_first_model(toy) -> None:
    federation, task = toy((20, 9, 30))
    (record,) = run("solo", (federation, task), rounds=1, participation=1)
    (drawn,) = record.cohort
    trained = record.state.memory[drawn]["algorithm"]["model"]
    trained, fresh = (
        task.evaluate(model, task.buffers, federation.test_batches()).accuracy for model in (trained, task.initial)
    )
    assert set(record.state.memory) == {drawn}
    assert record.accuracy == pytest.approx((trained + 2 * fresh) / 3)


@pytest.mark.usefixtures("in_double")
def test_parties_weigh_by_samples(toy) -> None:
    federation, task = federated = toy((20, 9, 30))
    (record,) = run("fedavg", federated, rounds=1)
    ends = [sgd_by_torch(federated, rows_of_party(federated, party, 1))[0] for party in range(3)]
    mean = sum(size / 59 * end for size, end in zip((20, 9, 30), ends, strict=True))
    assert close(record.state.server.params, mean)
    losses = [
        run("fedavg", (replace(federation, parties=(p,)), task), rounds=1)[0].train_loss for p in federation.parties
    ]
    assert record.train_loss == pytest.approx((20 * losses[0] + 9 * losses[1] + 30 * losses[2]) / 59)


# --- fixed points -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unrest(toy, gradient):
    """(algorithm, solver settings) -> norm of the pooled full gradient where many rounds end; lower is more at rest."""
    federation, task = toy((20, 20, 20))
    everything = federation.batch(torch.arange(60))
    found: dict[str, float] = {}

    def measure(algorithm: Algorithm | str, count: int, **settings: Any) -> float:
        key = f"{algorithm} {count} {settings}"
        if key not in found:
            solver = sgd(weight_decay=0.1, batch="full", **settings)
            last = run(algorithm, (federation, task), solver, rounds=count, eval_every=count)[-1]
            end = last.state.server.params.double()
            found[key] = (gradient(end, *everything) + 0.1 * end).norm().item()
        return found[key]

    return measure


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        *[(spec, {"lr": 0.2, "momentum": 0.0}) for spec in SCAFFOLDS if "outside" in spec],
        *[(spec, {"lr": 0.04, "momentum": 0.9}) for spec in SCAFFOLDS if "inside" in spec],
        ("scaffold(option=2, momentum=outside)", {"lr": 0.02, "momentum": 0.9, "keep_momentum": True}),
    ],
)
def test_scaffold_rests_where_the_pooled_gradient_vanishes_and_fedavg_does_not(unrest, spec, settings) -> None:
    average, ours = (unrest(name, 50, steps=10, **settings) for name in ("fedavg", spec))
    assert average > 0.05
    assert ours < average / 1000


@pytest.mark.parametrize("spec", [spec for spec in SCAFFOLDS if "outside" in spec])
def test_scaffold_outside_a_momentum_that_restarts_rests_much_nearer_than_fedavg(unrest, spec: str) -> None:
    """Not exactly: while a velocity builds up anew its steps are shorter than the correction, and leave the point."""
    average, ours = (unrest(name, 15, lr=0.003, momentum=0.9, steps=60) for name in ("fedavg", spec))
    assert average > 0.05
    assert ours < average / 5


# FedDyn's server moves on by what it has in memory.
@pytest.mark.parametrize("spec", [spec for spec in EVERY if spec not in ("solo", "combined", "feddyn(alpha=0.1)")])
def test_a_rate_that_has_fallen_to_zero_leaves_the_model_where_it_is(toy, spec: str) -> None:
    solver = SOLVERS.build("sgd(lr=polynomial(0.1, over=2), epochs=1)")
    _, second, third, fourth = models(run(spec, toy((20, 9, 30)), solver, rounds=4))
    assert second.isfinite().all()
    assert torch.equal(second, third)
    assert torch.equal(third, fourth)


# --- participation ------------------------------------------------------------------------------------


def test_the_loop_trains_the_drawn_cohort(toy) -> None:
    records = run("scaffold", toy((20, 9, 30, 12)), seed=3, participation=0.5, rounds=4)
    assert [record.cohort for record in records] == [draw_cohort(4, 0.5, 3, now) for now in range(4)]
    steps = [3 * 2, 2 * 2, 4 * 2, 2 * 2]
    assert [record.steps for record in records] == [sum(steps[p] for p in record.cohort) for record in records]
    assert set(records[0].state.memory) == set(records[0].cohort)


# --- bytes and the clock ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "up", "down"),
    [
        ("fedavg", 4 * 15, 4 * 15),
        ("fedprox(mu=0.1)", 4 * 15, 4 * 15),
        ("fednova", 4 * 15 + 4, 4 * 15),
        *[(spec, 2 * 4 * 15, 2 * 4 * 15) for spec in SCAFFOLDS],
    ],
)
@pytest.mark.parametrize(("participation", "cohort"), [(1.0, 4), (0.5, 2)])
def test_bytes_and_seconds_by_hand(toy, spec: str, up: int, down: int, participation: float, cohort: int) -> None:
    network = link("1Mbps", latency=0.25)
    records = run(spec, toy((20, 9, 30, 12)), participation=participation, network=network)
    assert {(r.bytes_up, r.bytes_down) for r in records} == {(up * cohort, down * cohort)}
    # Every party has its own link: the cohort's size does not matter.
    seconds = (0.25 + 8 * down / 1e6) + (0.25 + 8 * up / 1e6)
    assert [r.clock for r in records] == pytest.approx([seconds, 2 * seconds, 3 * seconds])


def test_extras_outside_the_broadcast_are_neither_sent_nor_counted(toy) -> None:
    seen: list[Mapping[str, Tensor]] = []

    def message(local: Local, server: Server, memory: Memory) -> tuple[Update, Memory]:
        seen.append({**server.extras, **server.optimizer})
        return Update.of(local.samples, delta=local.delta), memory

    def absorb(server: Server, update: Update) -> tuple[Tensor, Mapping[str, Tensor]]:
        return update.mean()["delta"], {name: extra + 1 for name, extra in server.extras.items()}

    def extras(params: Tensor) -> Mapping[str, Tensor]:
        return {"public": torch.zeros(5), "secret": torch.zeros(7)}

    algorithm = Algorithm(extras=extras, message=message, absorb=absorb, broadcast=("public",))
    records = run(algorithm, toy(), rounds=2)
    assert [set(extras) for extras in seen] == [{"public"}] * 6
    assert [record.bytes_down for record in records] == [3 * 4 * (15 + 5)] * 2
    assert records[-1].state.server.extras["secret"].tolist() == [2.0] * 7  # yet the server has it
    assert run(replace(algorithm, broadcast=None), toy(), rounds=1)[0].bytes_down == 3 * 4 * (15 + 5 + 7)
    assert run(replace(algorithm, broadcast=()), toy(), rounds=1)[0].bytes_down == 3 * 4 * 15


# --- the same bits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", EVERY)
@pytest.mark.parametrize("keep_momentum", [False, True])
def test_a_run_resumed_after_any_round_continues_bit_for_bit(toy, spec: str, keep_momentum: bool) -> None:
    solver = sgd(lr=0.1, steps=3, batch=8, keep_momentum=keep_momentum)
    options = {"rounds": 4, "participation": 2, "seed": 1, "eval_every": 2}
    whole = run(spec, toy((20, 9, 30), "mlp(6)"), solver, feedback(), **options)
    assert len(whole) == 4
    for done, record in enumerate(whole):
        resumed = run(spec, toy((20, 9, 30), "mlp(6)"), solver, feedback(), **options, state=record.state)
        assert [bits(r) for r in resumed] == [bits(r) for r in whole[done + 1 :]]


def test_resuming_needs_every_memory(toy) -> None:
    """The comparison above can fail: without the parties' memory a run does go on otherwise."""
    options = {"rounds": 2, "seed": 1}
    for spec, solver, chain in [
        ("scaffold", SOLVER, ()),
        ("fedavg", replace(SOLVER, keep_momentum=True), ()),
        ("fedavg", SOLVER, (feedback(),)),
    ]:
        first, second = run(spec, toy(), solver, *chain, **options)
        (resumed,) = run(spec, toy(), solver, *chain, **options, state=replace(first.state, memory={}))
        assert not torch.equal(resumed.state.server.params, second.state.server.params)


@pytest.mark.parametrize("spec", EVERY)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(toy, spec: str) -> None:
    federated = toy((20, 9, 30), "mlp(6)")  # one shared task: a run leaves nothing behind in it
    first, again, other = (run(spec, federated, participation=2, seed=seed) for seed in (0, 0, 1))
    assert [bits(r) for r in first] == [bits(r) for r in again]
    assert bits(first[-1].state) != bits(other[-1].state)


def test_runs_taken_in_turns_do_not_disturb_each_other(toy) -> None:
    federated = toy((20, 9, 30))
    methods = [Method(ALGORITHMS.build(spec), SOLVER) for spec in ("scaffold", "fedavg")]
    turns = list(zip(*(rounds(method, *federated, rounds=3) for method in methods), strict=True))
    for method, records in zip(methods, zip(*turns, strict=True), strict=True):
        assert [bits(r) for r in records] == [bits(r) for r in rounds(method, *federated, rounds=3)]


def test_a_run_does_not_touch_the_global_generators(toy) -> None:
    federated, before = toy(), torch.get_rng_state()
    run("scaffold(init=random)", federated)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_number_of_threads_does_not_matter_and_is_restored(toy) -> None:
    inside: list[int] = []

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        inside.append(torch.get_num_threads())
        return update, memory

    found: dict[int, list[Any]] = {1: [], 2: [], 3: []}
    threads = torch.get_num_threads()
    try:
        for count in found:
            torch.set_num_threads(count)
            federated = toy((1500,), "mlp(64)", features=200)
            method = Method(fedavg(), sgd(lr=0.1, steps=2, batch="full"), (Transform(encode),))
            for record in rounds(method, *federated, rounds=2):
                assert torch.get_num_threads() == count
                found[count].append(bits(record.state))
    finally:
        torch.set_num_threads(threads)
    assert found[1] == found[2] == found[3]
    assert set(inside) == {1}


# --- evaluation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("every", "when"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4, 5]), (3, [3, 5]), (9, [5])])
def test_evaluation_is_every_so_many_rounds_and_at_the_end(toy, every: int, when: list[int]) -> None:
    records = run("fedavg", toy(), rounds=5, eval_every=every)
    assert [record.round for record in records] == [1, 2, 3, 4, 5]
    for scores in ("accuracy", "loss"):
        assert [r.round for r in records if getattr(r, scores) is not None] == when
    # Looking does not change what is seen.
    assert torch.equal(models(records), models(run("fedavg", toy(), rounds=5)))


def test_accuracy_and_loss_are_those_of_the_shared_model_on_the_test_rows(toy) -> None:
    federation, task = toy()
    (record,) = run("fedavg", (federation, task), rounds=1)
    weight, bias = record.state.server.params[:12].view(3, 4), record.state.server.params[12:]
    logits, y = (
        torch.from_numpy(federation.dataset.test.x) @ weight.T + bias,
        torch.from_numpy(federation.dataset.test.y),
    )
    assert record.accuracy == pytest.approx((logits.argmax(1) == y).float().mean().item())
    expected = torch.nn.functional.cross_entropy(logits, y).item()
    assert record.loss == pytest.approx(expected, rel=bound(4 + 30 + 20))  # inputs, rows and a softmax
    found = [(logits.argmax(1) == y)[y == label].tolist() for label in range(3)]
    assert record.class_accuracy == tuple(sum(right) / len(right) if right else None for right in found)
    assert None in record.class_accuracy
    assert (record.accuracy_std, record.validation, record.party_accuracy) == (None, None, None)


@pytest.mark.parametrize("spec", ["fedavg", "solo"])
def test_party_accuracies_are_those_of_their_models_on_validation_rows(spec: str) -> None:
    dataset = load("digits")
    federation, its_task = federate(dataset, "label-count(k=2)", 5, 0, validation=0.2), task("linear", dataset)
    record = run(spec, (federation, its_task), rounds=2)[-1]
    scores = []
    for party in federation.parties:
        own = record.state.memory[party.id]["algorithm"]["model"] if spec == "solo" else record.state.server.params
        x, y = federation.batch(party.validation)
        weight, bias = own[:640].view(10, 64), own[640:]
        scores.append((x.flatten(1) @ weight.T + bias).argmax(1) == y)
    assert record.party_accuracy == pytest.approx([score.float().mean().item() for score in scores])
    assert record.validation == pytest.approx(torch.cat(scores).float().mean().item())
