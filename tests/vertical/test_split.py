"""Split learning: it equals the same network trained in one place, bit for bit; and its costs are counted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import Tensor, nn

from silobench.data import Dataset, Split, load
from silobench.errors import ConfigError
from silobench.loop.clocks import device
from silobench.loop.loop import one_thread
from silobench.loop.network import link
from silobench.method.types import Server
from silobench.models import Network
from silobench.runs.checkpoint import pack, unpack
from silobench.runs.stored import checkpoint_file
from silobench.tasks.objectives import OBJECTIVES
from silobench.training.state import State
from silobench.training.stopwatch import Stopwatch
from silobench.vertical.federation import federate_columns
from silobench.vertical.methods import VERTICAL_ALGORITHMS, VerticalProblem
from silobench.vertical.methods.split_trainer import SplitTrainer
from vertical_cases import ROUNDS, SEED, last, problem, records, table

MODELS = [
    "linear",
    "mlp(hidden=8, top=4)",
    "mlp(hidden=8, top=4, cut=sum)",
    "mlp(hidden=8, top=4, cut=attention)",
    "oarf-mlp",
    "dlrm(embedding=4, top=[8, 4], categories=[user, film, job])",
    "ncf(embedding=4)",
]
IN_TURN = "columns(by=[[user, film, year], [age, job, votes], [length, cost, income]], overlap=0.7, absent="
Optimizer = Callable[[nn.Module], torch.optim.Optimizer]


def sgd(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, weight_decay=0.001)


def in_one_place(task: VerticalProblem, optimizer_of: Optimizer = sgd) -> Tensor:
    """Train the same network with PyTorch's own autograd and optimizer, in one graph and one step per batch."""
    network, federation = task.network(), task.federation
    optimizer = optimizer_of(network)
    with one_thread():
        for round in range(ROUNDS):
            rows, sizes = task.solver.visits(federation.visitor, task.seed, round)
            for batch in rows.split(sizes):
                optimizer.zero_grad()
                task.objective.loss(network(federation.x[batch]), federation.y[batch]).backward()
                optimizer.step()
    return torch.cat([each.detach().flatten() for each in network.parameters()])


# --- one place -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("parties", [2, 3, 5])
@pytest.mark.parametrize("model", MODELS)
def test_it_equals_training_in_one_place(parties: int, model: str) -> None:
    task = problem(parties=parties, model=model)
    assert torch.equal(last(task).state.server.params, in_one_place(task))


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("absent", ["zeros", "drop", "embedding"])
def test_rows_that_parties_lack(task: str, absent: str) -> None:
    whole = problem(f"{IN_TURN}{absent})", model="dlrm(embedding=4, top=8)", dataset=table(task=task))
    record = last(whole)
    assert torch.equal(record.state.server.params, in_one_place(whole))
    every, some = whole.federation.deal.train.all(0).sum(), whole.federation.deal.train.any(0).sum()
    assert every < some
    assert record.rows == (every if absent == "drop" else some)


def test_random_columns_and_labels_at_another_party() -> None:
    task = problem("columns(by=random, label=party-2, overlap=0.8, absent=embedding, hybrid=true)", 3)
    assert task.federation.label == 2
    assert torch.equal(last(task).state.server.params, in_one_place(task))


@pytest.mark.parametrize("model", ["mlp(hidden=8, top=4)", "dlrm(embedding=4, top=8)"])
def test_adam_equals_one_step_over_the_whole_network(model: str) -> None:
    task = problem(parties=3, model=model, solver="adam(lr=0.01, batch=32, epochs=1)")
    network, federation = Network(task.network()), task.federation
    state = task.solver.initial(network.params)
    with one_thread():
        for round in range(ROUNDS):
            rows, sizes = task.solver.visits(federation.visitor, task.seed, round)
            for batch in rows.split(sizes):
                network.grad.zero_()
                task.objective.loss(network.module(federation.x[batch]), federation.y[batch]).backward()
                task.solver.step(network.params, network.grad, state, 0.01)
    assert torch.equal(last(task).state.server.params, network.params)


def test_each_party_has_its_own_solver() -> None:
    rates = (0.1, 0.02)

    def groups(network: nn.Module) -> torch.optim.Optimizer:
        first, second, head = (list(each.parameters()) for each in (*network.bottoms, network.head))  # type: ignore[misc]
        return torch.optim.SGD(
            [{"params": [*first, *head], "lr": rates[0]}, {"params": second, "lr": rates[1], "momentum": 0.9}]
        )

    task = problem()
    texts = [f"'sgd(lr={rate}, momentum={m}, weight_decay=0)'" for rate, m in zip(rates, (0, 0.9), strict=True)]
    method = f"split(solvers=[{', '.join(texts)}])"
    assert torch.equal(last(task, method).state.server.params, in_one_place(task, groups))


def test_a_learning_rate_that_follows_the_validation_loss_is_that_of_every_party() -> None:
    rate = 0.003
    follows = problem(parties=3, solver="sgd(lr=plateau(0.1), batch=32, epochs=1)", validation=0.2)
    fixed = problem(parties=3, solver=f"sgd(lr={rate}, batch=32, epochs=1)", validation=0.2)
    split, params = VERTICAL_ALGORITHMS.build("split"), []
    for task, knobs in ((follows, {"plateau": rate}), (fixed, {})):
        trainer = split.trainer(task)
        params.append(trainer.round(trainer.initial(), knobs).params)
    assert torch.equal(*params)
    assert last(follows).knobs == {"plateau": 0.1}


def test_a_state_that_was_stored_continues_with_the_same_bits(tmp_path: Path) -> None:
    task = problem(f"{IN_TURN}embedding)", transforms="quantize(bits=4)", solver="adam(lr=0.01, batch=32, epochs=1)")
    first, *_, second = records(task)
    file = checkpoint_file(tmp_path)
    file.parent.mkdir()
    file.write_bytes(pack(first.state, {"bytes": 0, "sha256": ""}))
    stored = unpack(tmp_path)
    assert stored is not None
    again = last(task, state=stored)
    assert again.round == second.round == ROUNDS
    assert torch.equal(again.state.server.params, second.state.server.params)
    assert again.state.memory.keys() == second.state.memory.keys() == {0, 1, 2}
    assert (again.clock, again.loss, again.bytes_up) == (second.clock, second.loss, second.bytes_up)


def test_a_step_by_hand() -> None:
    """Two parties with two columns each, one batch, a linear regression: gradient and step in numpy."""
    x, y = np.array([[1, 2, 0, -1], [0, 1, 3, 1]], np.float32), np.array([2.0, -1.0], np.float32)
    dataset = Dataset("hand", Split(x, y), Split(x, y), (), task="regression")
    task = problem(
        model="linear",
        dataset=dataset,
        solver="sgd(lr=0.5, momentum=0, weight_decay=0, batch=full, epochs=1)",
        rounds=1,
    )
    trainer = VERTICAL_ALGORITHMS.build("split").trainer(task)
    start = np.array([0.1, -0.2, 0.3, 0.4, 0.05])  # two weights of each party, and the intercept
    server = Server(torch.tensor(start, dtype=torch.float32), {}, {}, 0, 2, {})
    after = trainer.round(State(server), {}).params.numpy()
    scaled = (y - y.mean()) / y.std()
    errors = x @ start[:4] + start[4] - scaled
    gradient = np.append(2 * errors @ x / len(y), 2 * errors.mean())
    # Every number is a sum of at most 16 rounded products, each at most as large as with magnitudes in place of signs.
    sizes = np.abs(x) @ np.abs(start[:4]) + start[4] + np.abs(scaled)
    most = float(np.max(sizes @ np.abs(x)) + 1)
    assert after == pytest.approx(start - 0.5 * gradient, abs=16 * float(np.finfo(np.float32).eps) * most)


# --- costs -----------------------------------------------------------------------------------------------


def test_bytes_messages_and_the_virtual_clock() -> None:
    """Activations and gradients of 100 rows, 8 numbers of 4 bytes each, from and to two parties, in 4 batches."""
    task = problem(parties=3, link=link("1Mbps", latency=0.01), rounds=1)
    record = last(task)
    one_way = 100 * 8 * 4
    assert record.bytes_up == record.bytes_down == record.dense_up == record.dense_down == 2 * one_way
    assert {name: phase["messages"] for name, phase in record.phases.items()} == {"activations": 8, "gradients": 8}
    assert record.phases["activations"]["up"] == record.phases["gradients"]["down"] == 2 * one_way
    # In each of 4 batches, messages of the two parties cross side by side, up and then down.
    assert record.clock == pytest.approx(2 * (4 * 0.01 + 8 * one_way / 1e6), rel=1e-12)
    slow = replace(task, clock=device(speed=[1000, 50, 1000]))
    assert last(slow).clock == pytest.approx(record.clock + 100 / 50, rel=1e-12)
    assert last(slow).time["parties"]["train"] == pytest.approx((100 / 1000 + 100 / 50 + 100 / 1000) / 3, abs=1e-8)


def test_computing_is_that_of_the_slowest_party() -> None:
    """What a clock states is in the record; what is measured is at most the sum over parties, and at least its mean."""
    task = problem(parties=3, rounds=1)
    stated, measured = last(replace(task, clock=device(speed=[1000, 50, 1000]))), last(task)
    assert stated.computing == pytest.approx(100 / 50)
    assert measured.computing is None
    assert measured.seconds["train"] / 3 < measured.seconds["slowest"] < measured.seconds["train"]
    trees = last(replace(task, clock=device(speed=50.0)), "boosted-trees(min_leaf=5)")
    assert trees.computing == pytest.approx(trees.clock, abs=0.1)
    assert last(task, "boosted-trees").computing is None


def test_parties_do_not_wait_while_the_model_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of 900 seconds is work of all three parties, beside a training of less than a minute."""
    monkeypatch.setattr(Stopwatch, "lap", lambda watch, phase: watch.laps.setdefault(phase, 900.0))
    time = last(problem(parties=3, rounds=1)).time
    assert time["parties"]["test"] == 300
    assert time["parties"]["idle"] < 60
    assert 900 < time["core"] < 960


def test_a_party_by_itself_has_its_own_speed() -> None:
    task = problem(parties=3, rounds=1, clock=device(speed=[1000, 50, 10]))
    clocks = [last(task, f"solo(party=party-{party})").clock for party in range(3)]
    assert clocks == pytest.approx([100 / 1000, 100 / 50, 100 / 10])
    assert last(task, "combined").clock == pytest.approx(100 / 1000)


def test_transforms_are_counted_as_packed() -> None:
    plain = last(problem(parties=3))
    as_they_are = last(problem(parties=3, transforms="quantize(bits=32)", broadcast="quantize(bits=32)"))
    assert torch.equal(as_they_are.state.server.params, plain.state.server.params)
    rough = last(problem(parties=3, transforms="quantize(bits=8)", broadcast="quantize(bits=2)"))
    numbers = [8 * rows for rows in (32, 32, 32, 4)]  # of a message: 8 bits each, and a scale per 512 of them
    assert rough.bytes_up == 2 * sum(count + 4 * -(-count // 512) for count in numbers)
    assert rough.bytes_down == 2 * sum(count // 4 + 4 * -(-count // 512) for count in numbers)
    assert rough.dense_up == rough.dense_down == plain.bytes_up
    assert not torch.equal(rough.state.server.params, plain.state.server.params)


def test_rows_that_a_party_lacks_are_not_sent_where_absence_is_learnt() -> None:
    task = problem("columns(by=block, overlap=0.6, absent=embedding)")
    assert last(task).bytes_up == last(task).bytes_down == 60 * 8 * 4
    has_row = torch.from_numpy(task.federation.deal.train[1])
    for present in (True, False):
        rows = (has_row == present).nonzero().squeeze(1)
        trainer = VERTICAL_ALGORITHMS.build("split").trainer(
            replace(task, federation=replace(task.federation, rows=rows))
        )
        assert isinstance(trainer, SplitTrainer)
        sent = trainer.round(trainer.initial(), {}).phases[0].up
        assert sent == {1: 60 * 8 * 4 if present else 0}
        absence = trainer.network.head.absence["1"]
        assert torch.equal(absence, torch.zeros_like(absence)) == present


# --- baselines, and models that are solved otherwise -----------------------------------------------------


def test_combined_is_one_party_with_all_columns() -> None:
    task = problem(f"{IN_TURN}zeros)")
    record = last(task, "combined")
    assert record.bytes_up == record.bytes_down == 0
    federation = task.federation
    one = replace(task, federation=federation.combined())
    assert len(one.network().bottoms) == 1
    assert torch.equal(record.state.server.params, in_one_place(one))
    features = federation.x[:, : federation.features]
    assert torch.equal(one.federation.x[:, : federation.features], features)  # with zeros where a party lacks a row


@pytest.mark.parametrize("party", [0, 2])
def test_a_party_by_itself_ignores_the_columns_of_others(party: int) -> None:
    partition, dataset = f"{IN_TURN}zeros)", table()
    method = f"solo(party=party-{party})"
    first = problem(partition, dataset=dataset)
    others = np.setdiff1d(np.arange(10), first.federation.deal.columns[party])
    changed = dataset.train.x.copy()
    changed[:, others] = 7 - changed[:, others]
    second = problem(partition, dataset=replace(dataset, train=replace(dataset.train, x=changed)))
    records = [last(task, method) for task in (first, second)]
    assert torch.equal(records[0].state.server.params, records[1].state.server.params)
    assert records[0].rows == first.federation.deal.train[party].sum()
    assert not torch.equal(last(first).state.server.params, last(second).state.server.params)


def test_vertical_logistic_regression_is_that_of_scikit_learn() -> None:
    dataset, decay = load("breast-cancer"), 0.05
    federation = federate_columns(dataset, "columns(by=block)", 3, SEED)
    solver = f"sgd(lr=0.1, momentum=0.9, weight_decay={decay}, batch=full, epochs=500)"
    task = replace(problem(model="linear", solver=solver, rounds=1), federation=federation)
    task = replace(task, objective=OBJECTIVES.build("auto")(dataset))
    params = last(task).state.server.params.double().numpy()
    x, y = dataset.train.x.astype(np.float64), dataset.train.y
    rows, width = x.shape
    x = np.hstack([x, np.ones((rows, 1))])  # the intercept decays too
    # Rows of weights by class and party: the two classes of the softmax are one regression of their difference.
    weights = np.hstack(
        [*(each.reshape(2, -1) for each in np.split(params[: 2 * width], 3)), params[2 * width :, None]]
    )
    ours = weights[1] - weights[0]
    # Half of the decay of both classes, decay * ||ours||^2 / 4, against ||w||^2 / 2C for the sum of the losses.
    exact = LogisticRegression(C=2 / (decay * rows), fit_intercept=False, tol=1e-10, max_iter=10_000).fit(x, y).coef_[0]

    def gradient(w: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        return float(np.linalg.norm(x.T @ (1 / (1 + np.exp(-x @ w)) - y) / rows + decay / 2 * w))

    # The loss is strongly convex, so the gradients bound the distance.
    bound = (gradient(ours) + gradient(exact)) / (decay / 2)
    assert np.linalg.norm(ours - exact) <= bound
    assert bound < 1e-3 * np.linalg.norm(exact)


def test_vertical_linear_regression_is_least_squares() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((80, 5)).astype(np.float32)
    y = (x @ np.array([1, -2, 0.5, 3, 0], np.float32) + 4 + rng.standard_normal(80)).astype(np.float32)
    dataset = Dataset("numbers", Split(x, y), Split(x, y), (), task="regression")
    task = problem(
        model="linear",
        dataset=dataset,
        rounds=1,
        solver="sgd(lr=0.05, momentum=0.9, weight_decay=0, batch=full, epochs=400)",
    )
    params = last(task).state.server.params.double().numpy()
    mean, scale = float(y.mean()), float(y.astype(np.float64).std())
    exact = LinearRegression().fit(x, (y - mean) / scale)
    both = np.append(exact.coef_, exact.intercept_)
    ones = np.hstack([x, np.ones((80, 1))]).astype(np.float64)
    slopes = ones.T @ (ones @ params - (y - mean) / scale) / 80
    least = np.linalg.eigvalsh(ones.T @ ones / 80)[0]
    bound = float(np.linalg.norm(slopes)) / least + 1e-6  # a millionth for scikit-learn's solution in float32
    assert np.linalg.norm(params - both) <= bound
    assert bound < 1e-4


# --- wrong choices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "choices", "message"),
    [
        ("solo(party=party-7)", {}, "solo has no party 'party-7'"),
        ("split(solvers=['sgd'])", {}, r"each of 2 parties \(party-0, party-1\), but solvers has 1"),
        ("split(solvers=['sgd', 'sgd(lr=plateau(1))'])", {}, "cannot follow the validation loss"),
        ("split(solvers=['sgd', 'dp-sgd(noise=1)'])", {}, "the solver dp-sgd needs the gradients of single rows"),
        ("split", {"solver": "dp-sgd(noise=1)"}, "the solver dp-sgd needs the gradients of single rows"),
        (
            "split",
            {"transforms": "top_k(fraction=0.1)"},
            "transforms has the transform top-k, which sends later what it leaves",
        ),
        (
            "split",
            {"broadcast": "secure_sum"},
            "broadcast has the transform secure-sum, which is for sums of parties' updates",
        ),
        ("split", {"transforms": "quantize | quantize"}, "let it come last, and once"),
        ("combined", {"model": "ncf(item=plane)"}, "ncf needs a party with the columns user and plane"),
        ("split", {"model": "ncf(user=people)"}, "ncf needs a party with the columns people and film"),
        ("split", {"model": "dlrm(categories=[users])"}, "categories has 'users', which is not the name of a column"),
    ],
)
def test_wrong_choices(method: str, choices: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        records(problem(**choices), method)  # before the first round  # type: ignore[arg-type]
