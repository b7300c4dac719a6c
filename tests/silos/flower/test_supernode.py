"""The carrier of letters at a silo: it takes the newest letter of a run, and none of an app of somebody else."""

import io
import zipfile
from types import SimpleNamespace
from typing import Any

import pytest

from silobench.silos.flower import supernode
from silobench.silos.flower.app_files import APP_FILES
from silobench.silos.flower.supernode import Carrier

OURS, FOREIGN = 7, 8  # runs


def archive(files: dict[str, str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return content.getvalue()


class Waiting(Carrier):
    """A carrier to which messages wait, and which notes those that it would take to the desk."""

    def __init__(self, *messages: tuple[int, float]):
        queue = [SimpleNamespace(run_id=run, created_at=at, message_id=f"{run} {at}") for run, at in messages]
        waiting = [(SimpleNamespace(metadata=each), None) for each in queue]
        apps = {"ours": archive(APP_FILES), "foreign": archive({**APP_FILES, "evil.py": ""})}
        self.carried, self.confirmed = list[str](), list[str]()
        functions = {
            "receive": lambda: waiting.pop(0) if waiting else None,
            "get_run": lambda run: SimpleNamespace(fab_hash="ours" if run == OURS else "foreign"),
            "get_fab": lambda number, run: SimpleNamespace(content=apps[number]),
            "confirm_message_received": lambda run, number: self.confirmed.append(number),
        }
        super().__init__(1, functions, print, "")

    def _carry(self, message: Any, tree: Any) -> None:
        self.carried.append(message.metadata.message_id)


@pytest.fixture(autouse=True)
def _one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supernode, "_LOOKS", 1)
    monkeypatch.setattr(supernode, "_PAUSE", 0.0)


def test_a_slow_silo_answers_the_newest_letter_only() -> None:
    silo = Waiting((OURS, 1.0), (OURS, 3.0), (OURS, 2.0))
    silo.answer_all()
    assert silo.carried == ["7 3.0"]
    assert sorted(silo.confirmed) == ["7 1.0", "7 2.0"]  # so that the server does not keep them


def test_letters_of_another_app_are_not_carried(capsys: pytest.CaptureFixture[str]) -> None:
    silo = Waiting((FOREIGN, 1.0), (OURS, 2.0), (FOREIGN, 3.0))
    silo.answer_all()
    assert silo.carried == ["7 2.0"]
    assert "evil.py" in capsys.readouterr().err
