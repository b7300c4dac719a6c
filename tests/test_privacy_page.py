"""The table of docs/privacy.md states what is really sent: every choice runs with a spy, and the spy writes the row.

A choice runs twice with the same seed. What differs between the two runs is secret noise, or a mask.
"""

import math
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from silobench.data.dataset import Dataset
from silobench.engines import inline
from silobench.loop.exchanges import exchange
from silobench.method.chain import Sent
from silobench.method.secure.protocol import SumProtocol, Values
from silobench.method.transforms.secure_sum import _SecureSum
from silobench.method.types import Context, Layout, Update
from silobench.privacy.randomness import Randomness
from silobench.runs.experiment import bind
from silobench.runs.prepare import prepare
from silobench.training import party
from silobench.training.party import LocalRound
from silobench.training.state import Reply, RoundRecord
from silobench.vectors import Vector

PAGE = (Path(__file__).parent.parent / "docs" / "privacy.md").read_text(encoding="utf-8")
COLUMNS = ["choice", "the server", "other parties", "the network", "a reader of the model"]
FEDERATION = {
    "dataset": "digits", "model": "linear", "partition": "iid", "parties": 3, "algorithm": "fedavg",
    "solver": "sgd(lr=0.1, epochs=1, batch=64)", "rounds": 1,
}  # fmt: skip
# What transforms report, by name: of each party, and of all of them together. One that is missing fails the test.
CLEAR_REPORTS = {"update norm": "its norm before clipping", "clip rate": "whether it was clipped"}
SUMMED_REPORTS = {"update norm": "the mean norm before clipping", "clip rate": "the share of clipped updates"}


def lines_of_table() -> list[list[str]]:
    heading = re.escape(f"| {' | '.join(COLUMNS)} |")
    (table,) = re.findall(rf"^{heading}\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.M)
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()]
    return [[cell.strip().replace("\\|", "|") for cell in line] for line in lines]


LINES = lines_of_table()


@dataclass
class Seen:
    """What one run shows to a spy at the parties' doors and at the server's."""

    updates: dict[int, Vector] = field(default_factory=dict)  # as training returned them
    weights: dict[int, float] = field(default_factory=dict)
    sent: dict[int, Sent] = field(default_factory=dict)
    replies: dict[int, Reply] = field(default_factory=dict)
    decoded: Update | None = None  # the sum, where the server learns only the sum
    masked: list[Values] = field(default_factory=list)  # the sum under masks, as the server adds it up
    record: RoundRecord | None = None
    rows: tuple[int, ...] = ()
    before: Vector = field(default_factory=lambda: torch.zeros(0))
    blank: list[tuple[int, int]] = field(default_factory=list)  # pairs of parameters that rows change alike

    @property
    def change(self) -> Tensor:
        """What everybody knows who has the model before and after the round."""
        assert self.record is not None
        return self.record.state.server.params - self.before

    def arrived(self, party: int) -> Tensor | None:
        """Return a party's update as the server sees it; None if the server does not see it."""
        parts = self.sent[party].arrived.mean() if self.sent[party].arrived.weight else {}
        return parts.get("delta")


@contextmanager
def spied(seen: Seen) -> Iterator[None]:
    """Record what parties pass to the chain of transforms, what leaves it, their replies, and decoded sums."""
    send, train, decode, unmask = party.send, LocalRound._train, exchange.without_report, SumProtocol.unmask

    def watched_send(update: Any, *arguments: Any, **options: Any) -> Sent:
        context = arguments[2]
        seen.updates[context.party], seen.weights[context.party] = update.mean()["delta"], update.weight
        seen.sent[context.party] = send(update, *arguments, **options)
        return seen.sent[context.party]

    def watched_train(self: LocalRound, party: int, memory: Any) -> Reply:
        seen.replies[party] = train(self, party, memory)
        return seen.replies[party]

    def watched_decode(update: Update) -> Any:
        seen.decoded = update
        return decode(update)

    def watched_unmask(self: SumProtocol, total: Any, revealed: Any) -> Any:
        seen.masked = [each.copy() for each in total]
        return unmask(self, total, revealed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "without_report", watched_decode)
        patch.setattr(party, "send", watched_send)
        patch.setattr(LocalRound, "_train", watched_train)
        patch.setattr(SumProtocol, "unmask", watched_unmask)
        yield


def run(choices: dict[str, Any], out: Path) -> Seen:
    prepared, seen = prepare(bind({**FEDERATION, **choices})), Seen()
    with spied(seen):
        (seen.record,) = prepared.records(inline(), out, None)
    setting = prepared.setting
    seen.rows = tuple(each.samples for each in setting.federation.parties)
    seen.before = setting.task.initial
    seen.blank = _blank(setting.federation.dataset, setting.task.network.layout)
    return seen


def _blank(dataset: Dataset, layout: Layout) -> list[tuple[int, int]]:
    """Return pairs of weights of a linear model, of two pixels that have one and the same value in all images.

    Their gradients are equal, whatever the rows are: only noise tells them apart.
    """
    images = dataset.train.x.reshape(len(dataset.train.x), -1)
    first, second, *_ = np.flatnonzero((images == images[0, 0]).all(axis=0)).tolist()
    pixels, classes = images.shape[1], len(dataset.classes)
    assert layout.shapes[0] == (classes, pixels)
    return [(row * pixels + first, row * pixels + second) for row in range(classes)]


# --- what the spy says ---------------------------------------------------------------------------------


def is_same(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-4, atol=1e-6)


def noise(one: Seen, a: Tensor, b: Tensor) -> str:
    """Return " with noise" if two runs differ where rows make no difference.

    Secret samples of rows make two runs differ, too, but they do not hide anything by themselves.
    """
    first, second = ([float(each[i] - each[j]) for i, j in one.blank] for each in (a, b))
    # Entries are below 1, so rounding is below 1e-6. Noise has a deviation of over 1e-3.
    return " with noise" if max(abs(x - y) for x, y in zip(first, second, strict=True)) > 1e-5 else ""


def server_sees(one: Seen, two: Seen) -> str:
    """Return what arrives at the server: of each party, or of all of them together."""
    *first, last = filter(None, (update_seen(one, two), *_reports(one), _rows(one), _losses(one)))
    return f"{', '.join(first)} and {last}"


def update_seen(one: Seen, two: Seen) -> str:
    """Return what the server sees of updates."""
    trained, sent = one.updates[0], one.arrived(0)
    if sent is None:
        if not all(_looks_random(one.sent[party], two.sent[party]) for party in one.sent):
            return "messages that masks do not hide"
        return f"the sum of all updates{noise(one, one.change, two.change)}"
    ratio = float(sent.norm() / trained.norm())
    assert is_same(sent, ratio * trained), "a message that is neither the update nor a shorter one"
    what = "each update" if is_same(sent, trained) else "each clipped update"
    return f"{what}{noise(one, trained, two.updates[0])}"


def _looks_random(one: Sent, two: Sent) -> bool:
    """Whether two messages of the same content share no more bytes than random ones do.

    Of n random bytes, n / 256 agree by chance. With 9 expected, eight standard deviations more, which is 33, have a
    probability of 1e-9.
    """
    a, b = (b"".join(each.content for each in sent.message.sums.values()) for sent in (one, two))
    assert not one.message.total
    assert len(a) == len(b) > 2300
    equal = sum(x == y for x, y in zip(a, b, strict=True))
    return equal <= len(a) / 256 + 8 * (len(a) / 256) ** 0.5


def _reports(seen: Seen) -> list[str]:
    """Return what the server learns from reports of transforms, in the clear and in the sum."""
    clear = sorted({name for reply in seen.replies.values() for name in reply.reports}, reverse=True)
    parts = seen.decoded.sums if seen.decoded is not None else {}
    summed = sorted((name.removeprefix("report ") for name in parts if name.startswith("report ")), reverse=True)
    return [*(CLEAR_REPORTS[name] for name in clear), *(SUMMED_REPORTS[name] for name in summed)]


def _rows(seen: Seen) -> str:
    """Return what the server learns of the parties' numbers of rows; nothing where all of them count the same."""
    arrived = [seen.replies[party].update.weight for party in sorted(seen.replies)]
    if arrived == [float(rows) for rows in seen.rows]:
        return "its rows"
    if seen.decoded is None:
        assert set(arrived) == {1.0}
        return ""
    assert set(arrived) == {0.0}
    assert seen.decoded.weight in (sum(seen.rows), len(seen.rows))
    return "all rows" if seen.decoded.weight == sum(seen.rows) else ""


def _losses(seen: Seen) -> str:
    assert seen.record is not None
    hidden = {math.isnan(reply.loss) for reply in seen.replies.values()}
    assert len(hidden) == 1
    assert not math.isnan(seen.record.train_loss)
    return "the mean loss" if hidden == {True} else "its loss"


def others_see(one: Seen, two: Seen) -> str:
    """Return what a party gets by subtracting its own update from what all parties are sent."""
    sent = {party: one.arrived(party) for party in one.updates}
    updates = {party: one.updates[party] if each is None else each for party, each in sent.items()}
    total = sum(one.weights.values())
    rest = (one.change * total - one.weights[0] * updates[0]) / (total - one.weights[0])
    error = float((rest - updates[1]).norm() / updates[1].norm())
    what = "the update of the other" if error < 0.001 else "the mean update"
    return f"{what}{noise(one, one.change, two.change)}"


def network_sees(one: Seen) -> str:
    """Return what somebody sees who reads all links: the sum of what parties send is all that the server decodes."""
    if one.masked:
        messages = [list(each.message.sums.values()) for each in one.sent.values()]
        for place, total in enumerate(one.masked):
            contents = [np.frombuffer(message[place].content, total.dtype) for message in messages]
            assert np.array_equal(np.sum(contents, axis=0, dtype=total.dtype), total.reshape(-1))
    else:
        assert all(one.replies[party].update is sent.arrived for party, sent in one.sent.items())
    return "what the server sees"


def reader_sees(one: Seen, two: Seen) -> str:
    return f"the model{noise(one, one.change, two.change)}"


def seen_by_all(choices: dict[str, Any], folder: Path) -> list[str]:
    """Return what two runs of a choice show to the server, other parties, the network and a reader of the model."""
    one, two = run(choices, folder / "one"), run(choices, folder / "two")
    return [server_sees(one, two), others_see(one, two), network_sees(one), reader_sees(one, two)]


# --- the page -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", LINES, ids=lambda line: re.sub(r"\W+", "-", line[0])[:60])
def test_the_table_states_what_is_sent(line: list[str], tmp_path: Path) -> None:
    assert seen_by_all(choices_of(line), tmp_path) == line[1:]


def choices_of(line: list[str]) -> dict[str, Any]:
    return tomllib.loads("\n".join(re.findall(r"`([^`]+)`", line[0])))


# --- parts that leak on purpose: the spy must contradict the page ---------------------------------------


def without_masks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SumProtocol, "mask", lambda self, values, memory, party: [each.copy() for each in values])


def with_known_keys(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "urandom", lambda size: b"k" * size)


def with_the_update_in_the_clear(patch: pytest.MonkeyPatch) -> None:
    encode, decode = _SecureSum.encode, _SecureSum.decode

    def leaky(self: _SecureSum, update: Update, memory: Any, context: Context) -> Any:
        sent, *rest = encode(self, update, memory, context)
        return replace(sent, sums={**sent.sums, "clear": update.mean()["delta"]}), *rest

    def tidy(self: _SecureSum, update: Update, context: Context) -> Update:
        masked = {name: each for name, each in update.sums.items() if name != "clear"}
        size = sum(each.nbytes for each in masked.values())
        return decode(self, replace(update, sums=masked), replace(context, nbytes=size))

    patch.setattr(_SecureSum, "encode", leaky)
    patch.setattr(_SecureSum, "decode", tidy)


def with_a_report_in_the_clear(patch: pytest.MonkeyPatch) -> None:
    encode = _SecureSum.encode

    def leaky(self: _SecureSum, update: Update, memory: Any, context: Context) -> Any:
        sent, after, report = encode(self, update, memory, context)
        return sent, after, {**report, "update norm": float(update.mean()["delta"].norm())}

    patch.setattr(_SecureSum, "encode", leaky)


def without_normal_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Randomness, "normal", lambda self, size, deviation=1.0: torch.zeros(size))


def without_skellam_noise(patch: pytest.MonkeyPatch) -> None:
    module = sys.modules["silobench.method.transforms.skellam_noise"]  # the package has a function of this name
    patch.setattr(module, "skellam", lambda numbers, variance, size: np.zeros(size, dtype=np.int64))


SECURE = 'transforms = "secure_sum(splits=2, range=8)"'
GAUSSIAN = 'transforms = "clip(norm=0.01) | gaussian_noise(multiplier=1)"'
SKELLAM = 'transforms = "clip(norm=0.01) | skellam_noise(multiplier=1) | secure_sum(splits=2)"'
LEAKS = [
    (SECURE, without_masks, "messages that masks do not hide, all rows and the mean loss"),
    (SECURE, with_known_keys, "messages that masks do not hide, all rows and the mean loss"),
    (SECURE, with_the_update_in_the_clear, "messages that masks do not hide, all rows and the mean loss"),
    (
        SECURE,
        with_a_report_in_the_clear,
        "the sum of all updates, its norm before clipping, all rows and the mean loss",
    ),
    ('solver = "dp_sgd(lr=0.1, noise=4, batch=64)"', without_normal_noise, "each update, its rows and its loss"),
    (GAUSSIAN, without_normal_noise, None),
    (SKELLAM, without_skellam_noise, None),
]


@pytest.mark.parametrize(("choice", "leak", "server"), LEAKS, ids=lambda each: getattr(each, "__name__", None))
def test_the_spy_sees_a_leak(
    choice: str, leak: Any, server: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row of the page is refused if a part of the protection is left out."""
    (line,) = (line for line in LINES if line[0] == f"`{choice}`")
    leak(monkeypatch)
    seen = seen_by_all(choices_of(line), tmp_path)
    assert seen != line[1:]
    if server is not None:
        assert seen[0] == server
    else:
        assert [text.replace(" with noise", "") for text in line[1:]] == seen


def test_how_sure_an_observer_can_be() -> None:
    rows = re.findall(r"^\| ([\d.]+)(?: and more)? \| ([\d.]+)% \|", PAGE, re.M)
    assert len(rows) == 6
    for epsilon, percent in rows:
        assert 100 / (1 + math.exp(-float(epsilon))) == pytest.approx(float(percent), abs=0.05)
