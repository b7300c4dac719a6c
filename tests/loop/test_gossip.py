"""Gossip: models that are mixed by an explicit matrix, what that costs, and what it cannot be combined with."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from commands import call, write
from laws import SOLVER, ByHand, bits, close, draw_cohort, models, run
from natives import needs_native
from precision import bound_of_steps
from silobench.engines import ENGINES
from silobench.errors import ConfigError
from silobench.loop.clocks import device
from silobench.loop.exchanges import gossip
from silobench.loop.exchanges.graphs import edges_of, metropolis
from silobench.loop.network import link
from silobench.loop.paces import buffered
from silobench.loop.rounds import rounds
from silobench.method.aggregates import median
from silobench.method.algorithms import ALGORITHMS
from silobench.method.availability import dropout
from silobench.method.method import Method
from silobench.method.servers import SERVERS
from silobench.method.transforms import top_k
from silobench.runs.experiment import bind
from silobench.training.state import RoundRecord

GRAPHS = ["ring", "torus", "complete", "small-world"]
SIZES = (20, 9, 30, 12, 16, 40)


def by_hand(graph: str, parties: int) -> set[tuple[int, int]]:
    """Return the edges of a graph, without a library."""
    if graph == "ring":
        edges = {(i, (i + 1) % parties) for i in range(parties)}
    elif graph == "complete":
        edges = {(i, j) for i in range(parties) for j in range(parties)}
    else:
        rows = max(side for side in range(1, parties + 1) if parties % side == 0 and side**2 <= parties)
        columns = parties // rows
        at = {(r, c): r * columns + c for r in range(rows) for c in range(columns)}
        edges = {(at[r, c], at[r, (c + 1) % columns]) for r, c in at} | {
            (at[r, c], at[(r + 1) % rows, c]) for r, c in at
        }
    return {(min(edge), max(edge)) for edge in edges if edge[0] != edge[1]}


def mixing(edges: Iterable[tuple[int, int]], parties: int) -> Any:
    """Return the matrix W of Metropolis weights, [parties, parties]."""
    near = np.zeros((parties, parties))
    for a, b in edges:
        near[a, b] = near[b, a] = 1
    degree = near.sum(1)
    matrix = near / (1 + np.maximum(degree[:, None], degree[None, :]))
    return matrix + np.diag(1 - matrix.sum(1))


def model_of(record: RoundRecord, party: int, initial: Tensor) -> Tensor:
    memory = record.state.memory.get(party, {})
    return memory["exchange"]["model"] if memory else initial


# --- graphs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("parties", [1, 2, 3, 4, 5, 6, 7, 9, 12])
@pytest.mark.parametrize("graph", ["ring", "torus", "complete"])
def test_graphs_by_hand(graph: str, parties: int) -> None:
    assert edges_of(graph, parties, 0) == by_hand(graph, parties)


@pytest.mark.parametrize("parties", [1, 2, 3, 4, 5, 8, 20])
@pytest.mark.parametrize("graph", GRAPHS)
def test_weights_are_doubly_stochastic_and_connect_all(graph: str, parties: int) -> None:
    edges = edges_of(graph, parties, 3)
    expected, weights = mixing(edges, parties), metropolis(edges)
    ours = np.zeros((parties, parties))
    for party, others in weights.items():
        for other, weight in others.items():
            ours[party, other] = weight
    ours += np.diag(1 - ours.sum(1))
    np.testing.assert_allclose(ours, expected, rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(ours.sum(0), 1, rtol=1e-14)
    assert (ours >= 0).all()
    assert (np.linalg.matrix_power(ours + np.eye(parties), parties) > 0).all()  # a path from each party to each


def test_a_small_world_has_four_neighbours_on_average_and_depends_on_the_seed() -> None:
    assert len(edges_of("small-world", 30, 0)) == 2 * 30
    assert edges_of("small-world", 30, 0) == edges_of("small-world", 30, 0)
    assert edges_of("small-world", 30, 0) != edges_of("small-world", 30, 1)
    ring_of_four = {tuple(sorted((i, (i + step) % 30))) for i in range(30) for step in (1, 2)}
    drawn_anew = len(edges_of("small-world", 30, 0) - ring_of_four)
    assert 0 < drawn_anew < 30


# --- x <- W x -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("participation", [1.0, 4], ids=["all", "four"])
@pytest.mark.parametrize("rate", [0.0, 0.4])
@pytest.mark.parametrize("graph", [*GRAPHS, "file"])
def test_models_are_mixed_by_the_matrix(
    in_double, toy, gradient, tmp_path: Path, graph: str, rate: float, participation: float | int
) -> None:
    """Absent parties keep their models, and their weight goes to the party itself."""
    hand, parties = ByHand(toy(SIZES), gradient, seed=5), len(SIZES)
    edges = {(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (1, 4)}
    if graph == "file":
        graph = str(write(tmp_path / "edges", "".join(f"{b} {a}\n\n" for a, b in edges)))
    elif graph == "small-world":
        edges = set(edges_of(graph, parties, 5))
    else:
        edges = by_hand(graph, parties)
    matrix, leaves = mixing(edges, parties), dropout(rate)
    records = run(
        "fedprox(mu=0.3)", (hand.federation, hand.task), hand.solver, seed=5, participation=participation,
        exchange=gossip(graph), availability=leaves,
    )  # fmt: skip
    x = [hand.start.clone() for _ in range(parties)]
    for now, record in enumerate(records):
        present = leaves(draw_cohort(parties, participation, 5, now), 5, now)
        ends = {p: hand.walk(p, now, x[p], lambda w, at=x[p]: 0.3 * (w - at))[0] for p in present}
        mask = np.array([float(p in present) for p in range(parties)])
        off = matrix * mask[:, None] * mask[None, :] * (1 - np.eye(parties))
        current = off + np.diag(1 - off.sum(1))
        before = [ends.get(p, x[p]) for p in range(parties)]
        x = list(torch.from_numpy(current) @ torch.stack(before))
        for party in range(parties):
            assert close(model_of(record, party, hand.start), x[party])
        assert close(record.state.server.params, sum(x) / parties)
        assert set(record.cohort) >= set(present)


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("participation", [1.0, 3])
def test_a_complete_graph_is_averaging(toy, participation: float | int) -> None:
    federated = toy((20,) * 5, "mlp(6)")
    if participation == 1.0:
        average = models(run("fedavg", federated))
        assert close(models(run("fedavg", federated, exchange=gossip("complete"))), average)
        assert not close(models(run("fedavg", federated, exchange=gossip("ring"))), average, rel=1e-3)
    else:  # with three of five, the others have weights too, and only the mean of all models agrees
        records = run("fedavg", federated, exchange=gossip("complete"), participation=3, rounds=1)
        moved = records[0].state.server.params - federated[1].initial
        (average,) = run("fedavg", federated, participation=3, rounds=1)
        assert close(moved, (average.state.server.params - federated[1].initial) * 3 / 5, rel=1e-9)


def test_absent_parties_keep_their_bits(toy) -> None:
    federated = toy(SIZES, "mlp(6)")
    records = run("fedavg", federated, exchange=gossip(), participation=4, availability=dropout(0.3), rounds=6)
    initial, kept = federated[1].initial, 0
    for before, after in pairwise(records):
        replied = after.cohort if after.replied is None else after.replied
        for party in range(6):
            stays = torch.equal(model_of(before, party, initial), model_of(after, party, initial))
            assert stays == (party not in replied)
            kept += stays
    assert 0 < kept < 30


def test_parties_are_tested_with_their_own_models_and_statistics(normed) -> None:
    federation, task = federated = normed()
    record = run("fedavg", federated, exchange=gossip())[-1]
    scores = []
    for party in range(5):
        memory = record.state.memory[party]
        weights = memory["exchange"]["model"], memory["network"]["buffers"]
        scores.append(task.evaluate(*weights, federation.test_batches()).accuracy)
    assert record.accuracy == pytest.approx(np.mean(scores))
    assert record.accuracy_std == pytest.approx(np.std(scores))
    assert len({bits(record.state.memory[party]["network"]["buffers"]) for party in range(5)}) == 5
    assert torch.equal(record.state.server.buffers, task.buffers)


# --- bytes and the clock ------------------------------------------------------------------------------


@pytest.mark.parametrize(("graph", "degrees"), [("ring", [2] * 6), ("complete", [5] * 6), ("torus", [3] * 6)])
def test_each_party_sends_its_model_to_each_neighbour(toy, graph: str, degrees: list[int]) -> None:
    size, network = 4 * 15, link("1Mbps", latency=0.25)
    records = run("fedavg", toy(SIZES), exchange=gossip(graph), network=network)
    assert {(r.bytes_up, r.bytes_down) for r in records} == {(size * sum(degrees), 0)}
    seconds = 0.25 + 8 * size * max(degrees) / 1e6
    assert [r.clock for r in records] == pytest.approx([seconds, 2 * seconds, 3 * seconds])


def test_models_cross_only_edges_between_parties_that_answer(toy) -> None:
    options: dict[str, Any] = {"participation": 4, "availability": dropout(0.3), "rounds": 8}
    records = run("fedavg", toy(SIZES), exchange=gossip("ring"), clock=device(100), **options)
    for record in records:
        replied = set(record.cohort if record.replied is None else record.replied)
        crossed = sum(((p + 1) % 6 in replied) + ((p - 1) % 6 in replied) for p in replied)
        assert record.bytes_up == 4 * 15 * crossed
    assert len({record.bytes_up for record in records}) > 2


# --- engines and resuming -----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["pool(workers=2)", "stacked", pytest.param("native", marks=needs_native)])
@pytest.mark.parametrize("spec", ["fedavg", "fedprox(mu=0.1)"])
def test_engines_agree(toy, engine: str, spec: str) -> None:
    options: dict[str, Any] = {"exchange": gossip(), "participation": 5, "availability": dropout(0.2)}
    solver = replace(SOLVER, keep_momentum=True)
    federated = toy(SIZES, "mlp(6)")
    inline, other = (run(spec, federated, solver, **options, engine=ENGINES.build(e)) for e in ("inline", engine))
    if engine.startswith("pool"):
        for ours, theirs in zip(other, inline, strict=True):
            assert bits(ours.state) == bits(theirs.state)
    for ours, theirs in zip(other, inline, strict=True):
        assert (ours.cohort, ours.replied, ours.bytes_up) == (theirs.cohort, theirs.replied, theirs.bytes_up)
        for party in range(6):
            mine, expected = (model_of(record, party, federated[1].initial) for record in (ours, theirs))
            assert close(mine, expected, bound_of_steps(3 * 10 * 3, 20))


@pytest.mark.parametrize("spec", ["fedavg", "fedrs(alpha=0.5)"])
def test_a_run_resumed_after_any_round_continues_bit_for_bit(toy, spec: str) -> None:
    options: dict[str, Any] = {"exchange": gossip("small-world"), "participation": 4, "availability": dropout(0.3)}
    solver = replace(SOLVER, keep_momentum=True)
    whole = run(spec, toy(SIZES, "mlp(6)"), solver, **options, rounds=4)
    for done, record in enumerate(whole):
        rest = run(spec, toy(SIZES, "mlp(6)"), solver, **options, rounds=4, state=record.state)
        assert [bits(r) for r in rest] == [bits(r) for r in whole[done + 1 :]]


# --- refusals -----------------------------------------------------------------------------------------


def refused(toy, spec: str = "fedavg", graph: str = "ring", options: Any = None, **parts: Any) -> str:
    """Return the message of a run that is refused."""
    with pytest.raises(ConfigError) as caught:
        list(
            rounds(
                Method(ALGORITHMS.build(spec), SOLVER, **parts), *toy(SIZES), exchange=gossip(graph), **options or {}
            )
        )
    message = str(caught.value)
    assert message.endswith((".", "?"))
    assert "\n" not in message
    return message


@pytest.mark.parametrize("spec", ["scaffold", "fednova", "feddyn", "moon"])
def test_algorithms_that_need_a_server_are_refused(toy, spec: str) -> None:
    assert "use fedavg, fedprox or fedrs, or exchange = star" in refused(toy, spec)


@pytest.mark.parametrize("spec", ["solo", "combined"])
def test_a_baseline_is_the_same_whatever_the_exchange(toy, spec: str) -> None:
    """Baselines stand beside the methods of a grid; they exchange nothing, so they are not refused."""
    first, second = (
        [bits(record) for record in rounds(Method(ALGORITHMS.build(spec), SOLVER), *toy(SIZES), rounds=2, **parts)]
        for parts in ({}, {"exchange": gossip("ring")})
    )
    assert first == second


def test_other_parts_that_need_a_server_are_refused(toy) -> None:
    assert "leave transforms empty and aggregate at mean" in refused(toy, transforms=(top_k(),))
    assert "leave transforms empty and aggregate at mean" in refused(toy, aggregate=median())
    for spec in ("step(lr=0.5)", "momentum", "adam"):
        assert "leave server at step(lr=1)" in refused(toy, server=SERVERS.build(spec))
    paced = {"pace": buffered(2), "clock": device()}
    assert "the exchange gossip has no server: leave pace at synchronous" in refused(toy, options=paced)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no graph"),
        ("0 1\n1 two\n", "is not a list of edges: write two party numbers per line, such as 0 1"),
        ("0 1\n1 6\n", "has the edge '1 6': write two party numbers per line, from 0 to 5"),
        ("0 1 2\n", "has the edge '0 1 2'"),
        ("0 1\n-1 2\n", "has the edge '-1 2'"),
        ("0 1\n1 2\n3 4\n4 5\n", "does not connect all 6 parties: add edges between its parts"),
        ("", "does not connect all 6 parties"),
        ("\xff\xfe", "is not a list of edges"),
    ],
)
def test_files_that_are_not_a_graph_of_the_parties_are_refused(
    toy, tmp_path: Path, content: str | None, message: str
) -> None:
    file = tmp_path / "graph.txt"
    if content is not None:
        file.write_bytes(content.encode("latin-1"))
    assert message in refused(toy, graph=str(file))


def test_a_misspelt_graph_is_refused_with_a_suggestion(toy) -> None:
    assert "did you mean torus?" in refused(toy, graph="tours")


def test_a_refusal_ends_the_command_before_the_first_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = write(tmp_path / "edges.txt", "0 1\n2 3\n")
    text = f'dataset = "digits"\nmodel = "linear"\nparties = 4\nrounds = 1\nexchange = "gossip(graph=\'{edges}\')"\n'
    result = call(capsys, "run", write(tmp_path / "e.toml", text), "--out", tmp_path / "runs")
    assert result.code == 2
    assert "does not connect all 4 parties" in result.err
    assert "Traceback" not in result.err


# --- names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["edges.txt", "edges"])
def test_the_content_of_a_file_is_part_of_the_id(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    cell = {"dataset": "digits", "parties": 4, "exchange": f"gossip(graph='{file}')"}
    ids = []
    for content in ("0 1\n1 2\n2 3\n", "0 1\n1 2\n2 3\n3 0\n", "0 1\n1 2\n2 3\n"):
        write(file, content)
        ids.append(bind(cell).id)
    assert ids[0] == ids[2] != ids[1]
    assert bind({**cell, "exchange": "gossip"}).id not in ids


def test_a_graph_is_read_anew_after_its_file_has_changed(toy, tmp_path: Path) -> None:
    file, ends = tmp_path / "edges.txt", []
    for content in ("0 1\n1 2\n", "0 1\n1 2\n0 2\n"):
        write(file, content)
        ends.append(models(run("fedavg", toy((20, 9, 30)), exchange=gossip(str(file)))))
    assert not torch.equal(*ends)
