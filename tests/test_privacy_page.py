"""The table of docs/privacy.md states what is really sent: every choice runs with a spy, and the spy writes the row.

A choice runs twice with the same seed. What differs between the two runs is secret noise, or a mask.
"""

import math
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from commands import call, write
from silobench.engines import inline
from silobench.loop.exchanges import exchange
from silobench.method.chain import Sent
from silobench.runs.experiment import bind
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_runs
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


def lines_of_table() -> list[list[str]]:
    heading = re.escape(f"| {' | '.join(COLUMNS)} |")
    (table,) = re.findall(rf"^{heading}\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.M)
    lines = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table.splitlines()]
    return [[cell.strip().replace("\\|", "|") for cell in line] for line in lines]


LINES = lines_of_table()


@dataclass
class Seen:
    """What one run shows to a spy at the parties' doors."""

    updates: dict[int, Vector] = field(default_factory=dict)  # as training returned them
    weights: dict[int, float] = field(default_factory=dict)
    sent: dict[int, Sent] = field(default_factory=dict)
    replies: dict[int, Reply] = field(default_factory=dict)
    decoded: float | None = None  # the weight of the sum, where the server learns only the sum
    record: RoundRecord | None = None
    rows: tuple[int, ...] = ()
    before: Vector = field(default_factory=lambda: torch.zeros(0))

    @property
    def change(self) -> Tensor:
        """What everybody knows who has the model before and after the round."""
        assert self.record is not None
        return self.record.state.server.params - self.before

    def arrived(self, party: int) -> Tensor | None:
        """Return a party's update as the server sees it; None if it cannot tell it from random bytes."""
        parts = self.sent[party].arrived.mean() if self.sent[party].arrived.weight else {}
        return parts.get("delta")


@contextmanager
def spied(seen: Seen) -> Iterator[None]:
    """Record what parties pass to the chain of transforms, what leaves it, and their replies."""
    send, train, decode = party.send, LocalRound._train, exchange.without_report

    def watched_send(update: Any, *arguments: Any, **options: Any) -> Sent:
        context = arguments[2]
        seen.updates[context.party], seen.weights[context.party] = update.mean()["delta"], update.weight
        seen.sent[context.party] = send(update, *arguments, **options)
        return seen.sent[context.party]

    def watched_train(self: LocalRound, party: int, memory: Any) -> Reply:
        seen.replies[party] = train(self, party, memory)
        return seen.replies[party]

    def watched_decode(update: Any) -> Any:
        seen.decoded = update.weight
        return decode(update)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exchange, "without_report", watched_decode)
        patch.setattr(party, "send", watched_send)
        patch.setattr(LocalRound, "_train", watched_train)
        yield


def run(choices: dict[str, Any], out: Path) -> Seen:
    prepared, seen = prepare(bind({**FEDERATION, **choices})), Seen()
    with spied(seen):
        (seen.record,) = prepared.records(inline(), out, None)
    seen.rows = tuple(each.samples for each in prepared.setting.federation.parties)
    seen.before = prepared.setting.task.initial
    return seen


# --- what the spy says ---------------------------------------------------------------------------------


def noisy(is_noisy: bool) -> str:
    return " with noise" if is_noisy else ""


def is_same(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-4, atol=1e-6)


def server_sees(one: Seen, two: Seen) -> str:
    """Return what arrives at the server: of each party, or of all of them together."""
    *first, last = filter(None, (update_seen(one, two), _rows(one), _losses(one)))
    return f"{', '.join(first)} and {last}"


def update_seen(one: Seen, two: Seen) -> str:
    """Return what the server sees of updates."""
    trained, sent = one.updates[0], one.arrived(0)
    if sent is None:
        assert all(_looks_random(one.sent[party], two.sent[party]) for party in one.sent)
        return f"the sum of all updates{noisy(not is_same(one.change, two.change))}"
    ratio = float(sent.norm() / trained.norm())
    assert is_same(sent, ratio * trained), "a message that is neither the update nor a shorter one"
    what = "each update" if is_same(sent, trained) else "each clipped update"
    return f"{what}{noisy(not is_same(trained, two.updates[0]))}"


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


def _rows(seen: Seen) -> str:
    """Return what the server learns of the parties' numbers of rows; nothing where all of them count the same."""
    arrived = [seen.replies[party].update.weight for party in sorted(seen.replies)]
    if arrived == [float(rows) for rows in seen.rows]:
        return "its rows"
    if seen.decoded is None:
        assert set(arrived) == {1.0}
        return ""
    assert set(arrived) == {0.0}
    assert seen.decoded in (sum(seen.rows), len(seen.rows))
    return "all rows" if seen.decoded == sum(seen.rows) else ""


def _losses(seen: Seen) -> str:
    assert seen.record is not None
    hidden = {seen.replies[party].loss != seen.replies[party].loss for party in seen.replies}
    assert len(hidden) == 1
    assert seen.record.train_loss == seen.record.train_loss
    return "the mean loss" if hidden == {True} else "its loss"


def others_see(one: Seen, two: Seen) -> str:
    """Return what a party gets by subtracting its own update from what all parties are sent."""
    is_noisy = not is_same(one.change, two.change)
    sent = {party: one.arrived(party) for party in one.updates}
    updates = {party: one.updates[party] if each is None else each for party, each in sent.items()}
    total = sum(one.weights.values())
    rest = (one.change * total - one.weights[0] * updates[0]) / (total - one.weights[0])
    error = float((rest - updates[1]).norm() / updates[1].norm())
    is_alone = len(updates) == 2
    assert (error < 0.001) == is_alone or is_noisy
    return f"{'the update of the other' if is_alone else 'the mean update'}{noisy(is_noisy)}"


def network_sees(one: Seen, two: Seen) -> str:
    """Return what somebody sees who reads all lines: messages of parties, and models of the server."""
    if one.arrived(0) is None:
        return f"the mean update{noisy(not is_same(one.change, two.change))}"
    return update_seen(one, two)


def reader_sees(one: Seen, two: Seen) -> str:
    return f"the model{noisy(not is_same(one.change, two.change))}"


# --- the page -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", LINES, ids=lambda line: re.sub(r"\W+", "-", line[0])[:60])
def test_the_table_states_what_is_sent(line: list[str], tmp_path: Path) -> None:
    choices = tomllib.loads("\n".join(re.findall(r"`([^`]+)`", line[0])))
    one, two = run(choices, tmp_path / "one"), run(choices, tmp_path / "two")
    assert [server_sees(one, two), others_see(one, two), network_sees(one, two), reader_sees(one, two)] == line[1:]


def test_the_spy_sees_a_leak(tmp_path: Path) -> None:
    """Masks that are drawn once and used twice do not look random, and neither does an update in the clear."""
    one = run({"transforms": "secure_sum(splits=2, range=8)"}, tmp_path / "one")
    assert not _looks_random(one.sent[0], one.sent[0])


def test_the_example_runs_and_shows_its_epsilon(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    experiment = write(tmp_path / "private.toml", example)
    result = call(capsys, "run", experiment, "--workers", "1", "--out", tmp_path / "runs")
    assert result.code == 0, result.err
    (shown,) = read_runs(tmp_path / "runs")
    assert shown.rounds[-1].privacy["example"]["epsilon"] == pytest.approx(2, rel=1e-3)
    assert "Privacy" in result.out


def test_how_sure_an_observer_can_be() -> None:
    rows = re.findall(r"^\| ([\d.]+)(?: and more)? \| ([\d.]+)% \|", PAGE, re.M)
    assert len(rows) == 6
    for epsilon, percent in rows:
        assert 100 / (1 + math.exp(-float(epsilon))) == pytest.approx(float(percent), abs=0.05)
