"""Replies add up, and personal entries are cut out of a message and put back by the name of its part."""

from functools import reduce
from operator import add

import torch

from laws import Toy
from silobench.method.method import Method
from silobench.method.types import Algorithm, Update
from silobench.training.setting import Setting
from silobench.training.state import Reply, Tally

PERSONAL = Algorithm(personal=lambda layout: [name for name in layout.names if name.endswith("bias")])


def reply(party: int, weight: float, loss: float, sent: int, model_parts: frozenset[str] = frozenset()) -> Reply:
    update = Update.of(weight, delta=torch.full((2,), float(party)))
    seconds, reports = {"train": 1.0, "encode": 0.5}, {"norm": (float(party), 1)} if party else {}
    return Reply(update, {party: {}}, {party: sent}, loss, party + 1, seconds, 1.0 + party, reports, model_parts)


def test_a_tally_of_replies_is_their_sum() -> None:
    replies = [reply(0, 1.0, 4.0, 10), reply(1, 2.0, 1.0, 30, frozenset({"delta"})), reply(2, 1.0, 2.0, 20)]
    tally = Tally()
    update = reduce(add, tally.updates(replies))
    whole, summed = tally.reply(update), reduce(add, replies)
    for each in (whole, summed):
        assert (each.sizes, each.steps, each.loss, each.slowest) == ({0: 10, 1: 30, 2: 20}, 6, 2.0, 3.0)
        assert each.reports == {"norm": (3.0, 2)}
        assert (each.memory, each.seconds) == ({0: {}, 1: {}, 2: {}}, {"train": 3.0, "encode": 1.5})
        assert each.model_parts == {"delta"}
        assert each.update.weight == 4.0
        assert each.update.total["delta"].tolist() == [4.0, 4.0]  # 0 * 1 + 1 * 2 + 2 * 1


def test_personal_entries_come_back_as_zeros_in_the_parts_that_lost_them(toy: Toy) -> None:
    federation, task = toy()
    setting = Setting(Method(PERSONAL), federation, task, seed=0)
    assert setting.personal is not None
    size, shared = len(task.initial), setting.shared.trainable
    assert 0 < shared < size
    update = Update.of(1.0, delta=torch.arange(1.0, size + 1)).with_sums(control=torch.ones(size))
    sent, names = setting.without_personal(update)
    assert names == {"delta", "control"}
    assert len(sent.total["delta"]) == len(sent.sums["control"]) == shared
    back = setting.with_personal(sent, names)
    assert back.total["delta"].tolist() == torch.where(setting.personal, 0.0, update.total["delta"]).tolist()
    assert back.sums["control"].tolist() == (~setting.personal).float().tolist()


def test_a_part_that_is_as_long_as_the_shared_model_by_accident_stays_as_it_is(toy: Toy) -> None:
    federation, task = toy()
    setting = Setting(Method(PERSONAL), federation, task, seed=0)
    other = torch.arange(float(setting.shared.trainable))
    sent, names = setting.without_personal(Update.of(1.0, delta=task.initial, other=other))
    assert names == {"delta"}
    back = setting.with_personal(sent, names)
    assert back.total["other"].equal(other)
    assert len(back.total["delta"]) == len(task.initial)
