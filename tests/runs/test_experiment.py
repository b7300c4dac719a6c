"""The keys of an experiment: what names a run, and what is said before its first round."""

from pathlib import Path

import pytest

from commands import call, write
from silobench.errors import SilobenchError
from silobench.runs.experiment import bind, expand, plan
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_runs

RESNET = """
dataset = "digits"
model = "resnet(depth=20)"
partition = "shards(per_party=1)"
parties = 2
solver = "sgd(steps=1, batch=8)"
rounds = 1
eval_on = 20
"""


def test_runs_of_older_versions_keep_their_names() -> None:
    """A key that came later does not name a run anew while it has its default, whether that is written or not."""
    assert bind({"dataset": "digits"}).id == "88a3c29831cdf965"
    half = {"dataset": "fcube", "algorithm": "scaffold", "participation": 0.5}
    assert bind(half).id == bind({**half, "selection": "uniform()", "buffers": "average"}).id == "40092b5b1cc07ba4"
    assert not {"selection", "buffers"} & {*bind(half).config, *bind(half).label}
    assert "parties" in bind(half).config  # whose default is None


def test_other_choices_do_name_it() -> None:
    changed = [bind({"dataset": "fcube", **choice}) for choice in ({}, {"selection": "by_size"}, {"buffers": "local"})]
    assert len({made.id for made in changed}) == 3
    assert changed[1].config["selection"] == changed[1].label["selection"] == "by-size"
    assert changed[2].config["buffers"] == changed[2].label["buffers"] == "local"


def test_runs_that_differ_in_them_are_told_apart() -> None:
    plans = plan({"dataset": "fcube", "selection": ["uniform", "round_robin"], "buffers": ["average", "keep"]})
    assert sorted(made.name for made in plans) == [
        f"fcube / iid / fedavg / {buffers} / {selection} / seed 0"
        for buffers in ("average", "keep")
        for selection in ("round-robin", "uniform")
    ]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("buffers", "lokal", "buffers must be 'average', 'local' or 'keep'"),
        ("selection", "unifrom", "did you mean uniform"),
    ],
)
def test_a_wrong_one_is_refused(key: str, value: str, said: str) -> None:
    with pytest.raises(SilobenchError, match=said):
        bind({"dataset": "fcube", key: value})


@pytest.mark.parametrize(
    ("choice", "warned"),
    [
        ({}, True),
        ({"partition": "iid"}, False),
        ({"model": "resnet(depth=20, norm=group)"}, False),
        ({"buffers": "local"}, False),
        ({"algorithm": "fedbn"}, False),
        ({"algorithm": "combined"}, False),
        ({"model": "mlp"}, False),
    ],
)
def test_batch_statistics_under_label_skew_are_warned_of(choice: dict[str, str], warned: bool) -> None:
    choices = {"dataset": "digits", "model": "resnet(depth=20)", "partition": "#C=1", **choice}
    ready = prepare(bind(choices))
    assert bool(ready.warnings) == warned
    assert ready.notes == (*ready.dataset.notes, *ready.warnings)
    assert ("warnings" in ready.facts()) == warned
    if warned:
        assert "weighted EMD 1.80" in ready.warnings[0]
        assert "buffers=local" in ready.warnings[0]


def test_rows_that_nobody_holds_are_told_before_the_first_round_and_kept() -> None:
    cell = {"dataset": "synthetic(parties=6)", "model": "linear"}
    whole = prepare(bind({**cell, "partition": "by-group"}))
    sizes = sorted(party.samples for party in whole.setting.federation.parties)
    assert sizes[0] < sizes[-1]
    ready = prepare(bind({**cell, "partition": f"by-group(min_size={sizes[0] + 1})"}))
    (note,) = set(ready.notes) - set(whole.notes)
    assert note.startswith(f"{sizes.count(sizes[0]) * sizes[0]} of {sum(sizes)} training rows are unused")
    assert ready.facts()["partition"]["notes"] == [note]
    assert "notes" not in whole.facts()["partition"]


def test_the_command_says_so_once_and_the_record_keeps_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "e.toml", RESNET)
    result = call(capsys, "run", file, "--trials", "2", "--workers", "1", "--out", tmp_path / "runs")
    assert result.code == 0, result.err
    assert result.err.count("averages BatchNorm statistics") == 1
    assert all("EMD" in run.facts.warnings[0] for run in read_runs(tmp_path / "runs"))


def test_every_new_choice_runs_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "e.toml", RESNET.replace("parties = 2", "parties = 4\nparticipation = 2"))
    for setting in (
        'algorithm=["fedbn", "moon", "fedrs"]',
        "buffers=local",
        "buffers=keep",
        "selection=stratified",
        "server=yogi(lr=0.1)",
    ):
        result = call(capsys, "run", file, "--set", setting, "--workers", "1", "--out", tmp_path / "runs")
        assert result.code == 0, result.err
    assert call(capsys, "show", tmp_path / "runs").code == 0


def test_the_centralised_run_that_comes_first_has_no_choices_for_several_parties() -> None:
    choices = {
        "exchange": "gossip",
        "aggregate": "median",
        "availability": "dropout(rate=0.5)",
        "pace": "fedasync",
        "clock": "device",
    }
    plain = bind({"dataset": "digits", "start": "centralised(rounds=2)"}).origin
    for name, choice in choices.items():
        origin = bind({"dataset": "digits", "start": "centralised(rounds=2)", name: choice}).origin
        assert plain is not None
        assert origin is not None
        assert origin.id == plain.id


def test_equal_values_of_a_list_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        expand({"dataset": "fcube", "seed": [3, 4, 3]})
        expand({"dataset": "fcube", "participation": [1, 1.0]})  # one party, and all parties
    assert caplog.messages == ["seed has 3 more than once: equal runs are done once"]


def test_a_long_list_is_read_without_comparing_its_values() -> None:
    class Name(str):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return super().__eq__(other)

        __hash__ = str.__hash__

    names = [Name(f"csv(path={number}.csv, label=y)") for number in range(1000)]
    assert len(expand({"dataset": names})) == len(names)
    assert Name.compared <= 2 * len(names)
