"""What happens on the wire: clipping, the order of a chain, and memory that stays with its party."""

from dataclasses import replace

import pytest
import torch

from chains import layout
from silobench.loop.rounds import rounds
from silobench.method.algorithms import ALGORITHMS, fedavg, scaffold, solo
from silobench.method.chain import send
from silobench.method.method import Method
from silobench.method.solvers import reach, sgd
from silobench.method.transforms import TRANSFORMS, bind_chain, clip, low_rank
from silobench.method.types import Context, Layout, Memory, Transform, Update

CONTEXT = Context(0, 0, 0, Layout((), (), 0), {})
SOLVER = sgd(lr=0.1, epochs=1, batch=8)


def norm(update: Update) -> float:
    return torch.cat([part.flatten() for part in update.vectors().values()]).norm().item()


def clipped(bound: float, update: Update) -> Update:
    sent, memory, _ = clip(bound).encode(update, {}, CONTEXT)
    assert (memory, sent.weight) == ({}, update.weight)
    return sent


@pytest.mark.parametrize("bound", [13.0, 13.1, 1e6])
def test_clip_does_not_change_short_updates(bound: float) -> None:
    update = Update.of(7.0, delta=torch.tensor([3.0, 4.0])).with_sums(control=torch.tensor([12.0]))
    sent = clipped(bound, update)
    assert sent.total["delta"].tolist() == update.total["delta"].tolist()
    assert sent.sums["control"].tolist() == [12.0]


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("bound", [12.9, 1.0, 1e-3])
@pytest.mark.parametrize("weight", [1.0, 7.0])
def test_clip_scales_all_vectors_of_a_long_update_by_one_factor(bound: float, weight: float) -> None:
    update = Update.of(weight, delta=torch.tensor([3.0, 4.0]), reach=torch.tensor(50.0))
    sent = clipped(bound, update.with_sums(control=torch.tensor([12.0])))
    assert norm(sent) == pytest.approx(bound, rel=1e-12)
    scale = bound / 13
    torch.testing.assert_close(sent.mean()["delta"], torch.tensor([3.0, 4.0]) * scale)
    torch.testing.assert_close(sent.sums["control"], torch.tensor([12.0]) * scale)
    assert sent.mean()["reach"].item() == 50  # a scalar is no direction


def test_clip_passes_zero_updates() -> None:
    assert not clipped(1.0, Update.of(2.0, delta=torch.zeros(3))).total["delta"].any()


@pytest.mark.usefixtures("in_double")
@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold", "fednova"])
def test_clip_bounds_what_the_server_moves(name: str, toy) -> None:
    federation, task = toy()
    (record,) = rounds(Method(ALGORITHMS.build(name), SOLVER, (clip(0.01),)), federation, task, rounds=1)
    moved = (record.state.server.params - task.initial).norm().item()
    # FedNova clips the direction per unit of reach, and the server scales it back by the mean reach
    longest = 0.01 * (reach(3, 0.9) if name == "fednova" else 1)
    assert 0.1 * longest < moved <= longest * (1 + 1e-12)


def test_clip_has_nothing_to_do_where_nothing_is_sent(toy) -> None:
    models = [
        next(rounds(Method(solo(), SOLVER, chain), *toy(), rounds=1)).state.memory[0]["algorithm"]["model"]
        for chain in ((), (clip(0.01),))
    ]
    assert torch.equal(*models)


def test_a_chain_is_read_in_order() -> None:
    assert [str(term.full) for term in bind_chain("clip(norm=2.0) | clip")] == ["clip(norm=2.0)", "clip(norm=1.0)"]
    assert bind_chain(" ") == []
    assert "clip" in TRANSFORMS.factories


def mapped(function) -> Transform:
    """A transform that maps every part on its way, without memory."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        return update.map(function), memory

    return Transform(encode)


def tracing(name: str, log: list[tuple[str, str, int, int]]) -> Transform:
    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        log.append(("encode", name, context.round, context.party))
        return update, memory

    def decode(update: Update, context: Context) -> Update:
        log.append(("decode", name, context.round, context.party))
        return update

    return Transform(encode, decode)


def test_a_chain_encodes_in_order_at_each_party_and_decodes_the_sum_in_reverse(toy) -> None:
    federation, task = toy((20, 20))
    log: list[tuple[str, str, int, int]] = []
    list(rounds(Method(fedavg(), SOLVER, (tracing("a", log), tracing("b", log))), federation, task, rounds=2))
    assert log == [
        entry
        for now in range(2)
        for entry in [
            *[("encode", name, now, party) for party in range(2) for name in "ab"],
            *[("decode", name, now, -1) for name in "ba"],
        ]
    ]


def test_a_chain_that_is_undone_changes_nothing(toy) -> None:
    def halves(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        return update.map(lambda part: part / 2), memory

    def doubles(update: Update, context: Context) -> Update:
        return update.map(lambda part: part * 2)

    def mirrors(update: Update, *rest) -> Update:
        return update.map(lambda part: part.flip(-1))

    chain = Transform(halves, doubles), Transform(lambda u, m, c: (mirrors(u), m), mirrors)
    with_chain, without = (
        [r.state.server.params for r in rounds(Method(scaffold(), SOLVER, transforms), *toy(), rounds=3)]
        for transforms in (chain, ())
    )
    assert all(torch.equal(a, b) for a, b in zip(with_chain, without, strict=True))


def test_bytes_are_those_of_what_is_sent(toy) -> None:
    def sent(*chain: Transform) -> int:
        (record,) = rounds(Method(fedavg(), SOLVER, chain), *toy(), rounds=1)
        return record.bytes_up

    assert sent() == 3 * 15 * 4
    assert sent(mapped(torch.Tensor.half)) == 3 * 15 * 2
    assert sent(mapped(torch.Tensor.half), mapped(torch.Tensor.double)) == 3 * 15 * 8


def feedback() -> Transform:
    """Sends half of what there is and keeps the other half for the next time."""

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        whole = {name: part + memory.get(name, 0) for name, part in update.total.items()}
        kept = {name: part / 2 for name, part in whole.items()}
        return replace(update, total=kept), kept

    return Transform(encode)


def spying(log: list[tuple[int, torch.Tensor]]) -> Transform:
    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        log.append((context.party, update.total["delta"]))
        return update, memory

    return Transform(encode)


def test_memory_stays_with_its_party_and_its_place_in_the_chain(toy) -> None:
    federation, task = toy((20, 12, 30))
    given: list[tuple[int, torch.Tensor]] = []
    taken: list[tuple[int, torch.Tensor]] = []
    chain = spying(given), feedback(), feedback(), spying(taken)
    *_, last = rounds(Method(fedavg(), SOLVER, chain), federation, task, rounds=5, participation=2)

    kept = {party: [torch.zeros(15), torch.zeros(15)] for party in range(3)}
    for (party, message), (sender, sent) in zip(given, taken, strict=True):
        assert party == sender
        for place in range(2):
            message = kept[party][place] = (message + kept[party][place]) / 2
        assert torch.equal(sent, message)
    assert len(given) == 10
    assert {party for party, _ in given} == set(last.state.memory) == {0, 1, 2}
    for party, memory in last.state.memory.items():
        assert set(memory) == {"transform-1", "transform-2"}  # those with nothing to keep keep nothing
        assert all(torch.equal(memory[f"transform-{1 + i}"]["delta"], kept[party][i]) for i in range(2))


def test_a_transform_that_forgets_has_forgotten(toy) -> None:
    seen: list[list[str]] = []

    def encode(update: Update, memory: Memory, context: Context) -> tuple[Update, Memory]:
        seen.append(sorted(memory))
        return update, {"x": torch.ones(1)} if context.round == 0 else {}

    list(rounds(Method(fedavg(), SOLVER, (Transform(encode),)), *toy((20,)), rounds=3))
    assert seen == [[], ["x"], []]


def test_low_rank_starts_anew_where_its_last_factors_do_not_fit() -> None:
    """After a controller has changed the rank, or after a round that diverged: as a party without memory does."""
    update = Update.of(1.0, delta=torch.randn(600, generator=torch.Generator().manual_seed(1)))

    def arrived(rank: float, factors: torch.Tensor | None) -> torch.Tensor:
        memory = {} if factors is None else {"sketch of delta": factors}
        context = Context(0, 3, 0, layout((30, 20)), {"rank": rank})
        return send(update, (low_rank(feedback=False),), [memory], context).arrived.total["delta"]

    factors = torch.arange(40.0).sin()  # of rank 2: 20 columns each
    with_nan, with_inf = (factors.index_fill(0, torch.tensor(7), bad) for bad in (float("nan"), float("inf")))
    assert not torch.equal(arrived(2, factors), arrived(2, None))
    for rank, bad in ((1, factors), (3, factors), (2, with_nan), (2, with_inf), (1, with_nan)):
        assert torch.equal(arrived(rank, bad), arrived(rank, None))
