"""What the lead reads about who is there, and what a silo reads at the end."""

import logging
from pathlib import Path

import pytest

from consortia import NAMES, Rehearsal, rehearsal
from silobench.silos.flower import presence as module
from silobench.silos.flower.presence import Presence
from silobench.silos.flower.server_app import line_of
from silobench.silos.flower.starting import announcing_the_end
from silobench.silos.letters import Letter
from silobench.silos.post import InMemoryPost
from silobench.silos.server import FOLDER, plan_of, run_consortium


def seen_by(three: Rehearsal, there: dict[str, str]) -> Presence:
    """Return the presence of silos at addresses, which are numbers as those of Flower."""
    session = three.folder / "runs" / plan_of(three.consortium).id / FOLDER
    answers = {address: announcing_the_end(three.silos[name].answer) for address, name in there.items()}
    return Presence(InMemoryPost(answers), NAMES, three.consortium.quorum, session)


def test_the_lead_reads_names_and_a_silo_reads_that_the_run_is_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    three = rehearsal(tmp_path, rounds=1)
    presence = seen_by(three, {"101": "north", "303": "west"})
    (record,) = run_consortium(three.consortium, presence, tmp_path / "runs")
    lines = [entry.getMessage() for entry in caplog.records]
    here = [line for line in lines if "silos here" in line or "waiting for silos" in line]
    assert here == ["waiting for silos: 0 of 3", "waiting for silos: 2 of 3 (north, west)"]
    assert presence.named("no answer of node 303, nor of node 404") == "no answer of west, nor of node 404"
    assert line_of(record, ("north", "west"), 3).startswith("round 1: 2 of 3 silos answered (north and west), ")
    assert lines.count("the run is over; Ctrl-C ends this process.") == 2


def test_a_false_name_is_not_shown_and_a_long_wait_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "silobench.silos.flower")
    monkeypatch.setattr(module, "_REMINDER", 0.0)
    false = Letter("join", silo="north").content
    presence = Presence(InMemoryPost({"7": lambda content: false}), ("north", "south"), 2, tmp_path)
    presence.silos()
    list(presence.ask({"7": Letter("join").content}, 1.0, lambda there: True))
    assert caplog.messages == ["waiting for silos: 0 of 2", "waiting for silos: 0 of 2, for 0 s"]
