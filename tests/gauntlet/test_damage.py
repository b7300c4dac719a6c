"""The short form of the gauntlet of damaged files: a few of each kind; `python -m gauntlet` tries all of them."""

from pathlib import Path
from random import Random

import pytest

from gauntlet.caches import damaged_data
from gauntlet.damage import Damage, Intact, every_damage, try_damage
from gauntlet.harms import HARMS
from gauntlet.outcome import Options
from gauntlet.readers import READERS
from gauntlet.results import make_results


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Intact:
    return Intact(make_results(tmp_path_factory.mktemp("gauntlet") / "damage", ("table",)))


def chosen(damages: list[Damage]) -> list[Damage]:
    """Return one damage of each kind to each file of an interrupted run, in turn."""
    files = list(dict.fromkeys(damage.file for damage in damages))
    harms = list(HARMS)
    pairs = {(file, harms[(place + 3 * step) % len(harms)]) for place, file in enumerate(files) for step in range(2)}
    return [damage for damage in damages if (damage.file, damage.harm) in pairs]


def test_a_damaged_file_is_named_and_nothing_else_is_lost(intact: Intact) -> None:
    random, readers = Random(1), list(READERS)
    outcomes = []
    for damage in chosen([each for each in every_damage(intact.results, 1) if each.run.is_interrupted]):
        readers = [*readers[1:], readers[0]]
        outcomes.append(try_damage(intact, damage, ("show", readers[0]), random))
    assert [outcome for outcome in outcomes if outcome.result == "lost"] == []
    assert {outcome.result for outcome in outcomes} == {"survived", "refused"}


def test_a_change_that_nobody_noticed_counts_as_lost(intact: Intact, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gauntlet itself: with readers that do not verify, the same damage is lost."""
    run = next(run for run in intact.results.runs if not run.is_interrupted)

    def other_score(file: Path, random: Random) -> str:
        content = file.read_bytes()
        file.write_bytes(content.replace(b'"accuracy": 0.', b'"accuracy": 1.'))
        return ""

    monkeypatch.setattr("gauntlet.damage.HARMS", {"another score": other_score})
    damage = Damage(run, "rounds.jsonl", "another score")
    assert try_damage(intact, damage, ["show"], Random(0)).result == "refused"
    monkeypatch.setattr("silobench.runs.stored.verified", lambda content, *_: content)
    assert try_damage(intact, damage, ["show"], Random(0)).result == "lost"


def test_a_damaged_data_directory_is_read_again_or_refused(tmp_path: Path) -> None:
    outcomes = list(damaged_data(Options(tmp_path, only="[cof]* / data directory: *[sn].[cj]s[vo]*")))
    assert len(outcomes) > 10
    assert [outcome for outcome in outcomes if outcome.result == "lost"] == []
