"""The final test of a run: only after its last round, on every engine, with results by party that a hand can repeat."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as oracle

import silobench as sb
from commands import write
from silobench.data.dataset import Dataset, Split
from silobench.engines import Engine
from silobench.engines.kernel import why_not
from silobench.loop.final import MOST_CLASSES
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.plan import bind
from silobench.runs.prepare import prepare
from silobench.runs.stored import read_json, read_run
from silobench.tasks.score import Score

ENGINES = [sb.inline(), sb.stacked(), sb.pool(workers=2), *([] if why_not() else [sb.native()])]


def run(
    dataset: Dataset | None = None, partition: str = "label-count(k=3)", algorithm: str = "fedavg", parties: int = 4,
    engine: Engine | None = None, model: str = "linear", rounds: int = 2, objective: str = "auto", **more: Any,
) -> tuple[list[sb.RoundRecord], sb.Federation, sb.Task]:  # fmt: skip
    data = dataset or sb.load("digits")
    federation, task = sb.federate(data, partition, parties, seed=0), sb.task(model, data, objective=objective)
    method = sb.Method(sb.ALGORITHMS.build(algorithm), sb.sgd(lr=0.1, epochs=1))
    records = list(sb.rounds(method, federation, task, rounds=rounds, engine=engine or sb.inline(), **more))
    return records, federation, task


def outputs(task: sb.Task, record: sb.RoundRecord, x: torch.Tensor) -> torch.Tensor:
    """Return the outputs of the shared model."""
    task.network.params.copy_(record.state.server.params)
    task.network.module.eval()
    with torch.no_grad():
        return task.network.module(x)  # type: ignore[no-any-return]


def test_only_the_last_round_has_one() -> None:
    records, _, _ = run(rounds=3, eval_every=2)
    assert [bool(record.final) for record in records] == [False, False, True]
    assert ["final" in record.as_json() for record in records] == [False, False, True]


def test_a_schedule_that_ends_a_run_early_has_one(tmp_path: Path) -> None:
    (planned,) = plan(
        {"dataset": "digits", "model": "linear", "rounds": 60, "parties": 2, "validation": 0.2, "eval_every": 3,
         "solver": "sgd(lr=plateau(0.5, patience=1, drops=1))"}
    )  # fmt: skip
    for _ in execute(prepare(planned), tmp_path, "inline"):
        pass
    _, rows = read_json(tmp_path / planned.id)
    assert len(rows) < 60
    assert [place for place, row in enumerate(rows) if "final" in row] == [len(rows) - 1]


@pytest.mark.parametrize("algorithm", ["fedavg", "combined"])
def test_confusions_calibration_and_parties_by_hand(algorithm: str) -> None:
    records, federation, task = run(algorithm=algorithm)
    final, test = records[-1].final, federation.dataset.test
    scores = outputs(task, records[-1], torch.from_numpy(test.x).float().reshape(len(test), *federation.dataset.shape))
    answers, y = scores.argmax(1).numpy(), test.y
    assert final["confusion"] == oracle.confusion_matrix(y, answers).tolist()
    probabilities = scores.double().softmax(1).numpy()
    confident = probabilities.max(1)
    bins = np.minimum(14, np.ceil(15 * confident).astype(int) - 1)
    gaps = [
        abs((answers == y)[bins == place].mean() - confident[bins == place].mean()) * (bins == place).mean()
        for place in np.unique(bins)
    ]
    assert final["calibration"]["error"] == pytest.approx(sum(gaps), abs=1e-9)
    expected = np.square(probabilities - np.eye(10)[y]).sum(1).mean()
    assert final["calibration"]["brier"] == pytest.approx(expected, abs=1e-9)
    for party in range(4):
        rows = federation.own_test_rows(party).numpy()
        result = final["parties"][str(party)]
        assert result == {"rows": len(rows), "own": pytest.approx((answers == y)[rows].mean())}
    assert sum(result["rows"] for result in final["parties"].values()) == len(test)


@pytest.mark.parametrize("engine", ENGINES, ids=str)
def test_every_engine_has_the_same_final_test_and_its_own_records(engine: Engine) -> None:
    """Engines round differently, which may change the answer for a few of 359 rows."""
    records, _, _ = run(engine=engine)
    plain, _, _ = run()
    assert records[-1].engine == str(engine)
    assert records[-1].final.keys() == plain[-1].final.keys()
    table, expected = (np.array(one[-1].final["confusion"]) for one in (records, plain))
    assert table.sum() == expected.sum() == 359
    assert np.abs(table - expected).sum() <= 4
    assert records[-1].final["calibration"]["error"] == pytest.approx(plain[-1].final["calibration"]["error"], abs=0.01)
    assert np.trace(table) / 359 == pytest.approx(records[-1].accuracy, abs=2 / 359)


def test_own_models_are_tested_on_their_parties_rows_and_on_all() -> None:
    records, federation, task = run(algorithm="solo")
    final, test = records[-1].final, federation.dataset.test
    x, y = torch.from_numpy(test.x).float(), torch.from_numpy(test.y)
    tables = []
    for party in range(4):
        memory = records[-1].state.memory[party]
        params = (
            memory["algorithm"]["model"] if "model" in memory["algorithm"] else next(iter(memory["algorithm"].values()))
        )
        task.network.params.copy_(params)
        with torch.no_grad():
            right = (task.network.module(x).argmax(1) == y).double()
        rows = federation.own_test_rows(party)
        result = final["parties"][str(party)]
        assert (result["own"], result["all"]) == pytest.approx((right[rows].mean().item(), right.mean().item()))
        assert result["own"] > result["all"] + 0.4  # it has seen three of ten classes
        tables.append(right.sum().item())
    assert np.trace(np.array(final["confusion"])) == sum(tables)
    assert np.array(final["confusion"]).sum() == 4 * len(test)


def test_own_test_rows_carry_the_noise_of_their_party() -> None:
    records, federation, task = run(partition="noise(sigma=4, test=noisy)", rounds=4)
    final = records[-1].final
    assert np.array(final["confusion"]).sum() == 4 * len(federation.dataset.test)
    for part in federation.test_parts():
        if not int(part.rows[0]):
            x, y = federation.part(replace(part, rows=torch.arange(len(federation.dataset.test))))
            right = (outputs(task, records[-1], x).argmax(1) == y).double()
            rows = federation.own_test_rows(part.copy)  # type: ignore[arg-type]
            assert final["parties"][str(part.copy)]["own"] == pytest.approx(right[rows].mean().item())
    shares = [result["own"] for result in final["parties"].values()]
    assert shares[0] > shares[-1]  # the last party has the most noise


def people(uneven: bool = True) -> Dataset:
    draw = np.random.default_rng(3)
    y = (draw.random(600) < (0.15 if uneven else 0.5)).astype(np.int64)
    x = (draw.normal(size=(600, 3)) + 0.7 * y[:, None]).astype(np.float32)
    groups = {"hospital": draw.choice(["Bergen", "Cork", "Delft"], 600)}
    whole = Split(x, y, groups)
    return Dataset("people", whole.take(np.arange(400)), whole.take(np.arange(400, 600)), ("alive", "died"), "none")


def test_uneven_classes_also_report_metrics_for_them() -> None:
    data = people()
    records, _, task = run(data, "by-group", parties=3)
    final, test = records[-1].final, data.test
    scores = outputs(task, records[-1], torch.from_numpy(test.x))
    margin = (scores[:, 1] - scores[:, 0]).double().numpy()
    answers = scores.argmax(1).numpy()
    assert final["metrics"] == pytest.approx(
        {
            "balanced-accuracy": oracle.balanced_accuracy_score(test.y, answers),
            "auc": oracle.roc_auc_score(test.y, margin),
            "average-precision": oracle.average_precision_score(test.y, margin),
            "f1": oracle.f1_score(test.y, answers, zero_division=0),
        }
    )
    assert list(final["parties"]) == ["Bergen", "Cork", "Delft"]
    assert records[-1].metrics == {}  # accuracy stays the only one of each round
    binary, _, _ = run(data, "by-group", parties=3, objective="binary")
    common = {name: binary[-1].metrics[name] for name in final["metrics"]}
    assert final["metrics"] == pytest.approx(common)


def test_even_classes_report_none() -> None:
    assert "metrics" not in run(people(uneven=False), "by-group", parties=3)[0][-1].final


def test_several_uneven_classes_report_macro_metrics() -> None:
    draw = np.random.default_rng(0)
    y = draw.choice(4, 300, p=[0.55, 0.15, 0.15, 0.15])
    split = Split((draw.normal(size=(300, 2)) + y[:, None]).astype(np.float32), y)
    data = Dataset("four", split, split, tuple("abcd"), "none")
    records, _, task = run(data, "iid", parties=2)
    scores = outputs(task, records[-1], torch.from_numpy(split.x)).double().softmax(1).numpy()
    assert records[-1].final["metrics"] == pytest.approx(
        {
            "balanced-accuracy": oracle.balanced_accuracy_score(y, scores.argmax(1)),
            "macro-f1": oracle.f1_score(y, scores.argmax(1), average="macro"),
            "auc": oracle.roc_auc_score(y, scores, multi_class="ovr"),
        }
    )


def test_numbers_have_results_by_party_and_no_confusions() -> None:
    draw = np.random.default_rng(0)
    y = draw.normal(40, 12, 200).astype(np.float32)
    whole = Split((y[:, None] / 40 + draw.normal(0, 0.1, (200, 1))).astype(np.float32), y)
    data = Dataset("ages", whole.take(np.arange(150)), whole.take(np.arange(150, 200)), (), "none", task="regression")
    records, federation, task = run(data, "label-dirichlet(beta=0.5, min_size=2)", parties=3)
    final = records[-1].final
    assert final.keys() == {"parties", "cross"}
    guess = task.objective.predictions(outputs(task, records[-1], torch.from_numpy(data.test.x)))
    for party in range(3):
        rows = federation.own_test_rows(party).numpy()
        expected = pytest.approx(np.abs(guess - data.test.y)[rows].mean()) if len(rows) else None
        assert final["parties"][str(party)] == {"rows": len(rows), "own": expected}


def test_pairs_have_no_final_test() -> None:
    draw = np.random.default_rng(0)
    x, y = draw.random((40, 1, 32, 32)).astype(np.float32), np.arange(40) % 4
    pairs = Split(draw.random((20, 2, 1, 32, 32)).astype(np.float32), np.arange(20) % 2 == 0)
    data = Dataset("faces", Split(x, y), pairs, tuple("abcd"), "none", task="verification")
    records, federation, _ = run(data, "iid", parties=2, model="face-cnn(dim=4, width=4)", rounds=1)
    assert records[-1].final == {}
    assert federation.own_test_rows(0).tolist() == []


def test_many_classes_have_no_confusion_matrix() -> None:
    classes = MOST_CLASSES + 1
    y = np.arange(3 * classes) % classes
    split = Split(np.random.default_rng(0).normal(size=(len(y), 4)).astype(np.float32), y)
    data = Dataset("many", split, split, tuple(map(str, range(classes))), "none")
    final = run(data, "iid", parties=2, rounds=1)[0][-1].final
    assert final.keys() == {"calibration", "parties", "cross"}


def test_a_diverged_run_has_a_final_test_that_json_can_store() -> None:
    records, _, _ = run(people(), "by-group", parties=3, rounds=1)
    data = people()
    task = sb.task("linear", data)
    method = sb.Method(sb.fedavg(), sb.sgd(lr=1e30, epochs=3))
    (record,) = sb.rounds(method, sb.federate(data, "by-group", 3), task, rounds=1, engine=sb.inline())
    row = json.loads(json.dumps(record.as_json(), allow_nan=False))
    assert row["loss"] is None
    assert row["final"].keys() == records[-1].final.keys()
    assert set(row["final"]["metrics"].values()) == {None}


# --- stored runs --------------------------------------------------------------------------------------


def table(path: Path) -> str:
    draw = np.random.default_rng(1)
    rows = zip(draw.normal(60, 15, 300), draw.choice(["Bergen", "Cork"], 300), draw.random(300) < 0.15, strict=True)
    lines = "".join(f"{age:.1f},{city},{'died' if died else 'alive'}\n" for age, city, died in rows)
    return f"csv(path={write(path / 'patients.csv', 'age,city,outcome' + chr(10) + lines)}, label=outcome, group=city)"


def finished(choices: dict[str, Any], out: Path) -> Any:
    (planned,) = plan(choices)
    runnable = prepare(planned)
    for _ in execute(runnable, out, "auto"):
        pass
    return runnable, read_run(out / planned.id)


def test_a_stored_run_has_it_typed(tmp_path: Path) -> None:
    choices = {"dataset": table(tmp_path), "partition": "by-group", "model": "linear", "rounds": 2}
    runnable, stored = finished({**choices, "metric": ["specificity", "top-accuracy(k=1)", "auc"]}, tmp_path / "runs")
    objective = stored.facts.objective
    assert list(stored.final.parties) == ["Bergen", "Cork"]
    assert [metric.name for metric in objective.extra] == [
        "balanced-accuracy", "auc", "average-precision", "f1", "specificity", "top-accuracy(k=1)",
    ]  # fmt: skip
    assert objective.constant_answer == "alive"
    share = (runnable.dataset.test.y == 0).mean()
    assert objective.main.constant == pytest.approx(share)
    assert stored.rounds[-1].score("top-accuracy(k=1)") == pytest.approx(stored.rounds[-1].accuracy)
    assert stored.rounds[-1].score("auc") == stored.final.metrics["auc"]
    assert stored.rounds[0].score("auc") is None
    assert stored.final.calibration is not None
    assert sum(stored.final.calibration.rows) == sum(map(sum, stored.final.confusion)) == len(runnable.dataset.test)
    (note,) = [note for note in runnable.notes if "one class" in note]
    assert "always answering 'alive' has an accuracy of" in note
    assert note.endswith("also reports balanced accuracy, AUC, average precision and F1")


def test_the_key_metric_changes_neither_bits_nor_ids_of_runs_without_it(tmp_path: Path) -> None:
    choices = {"dataset": "digits", "model": "linear", "rounds": 2, "parties": 3}
    plain, extended = bind(choices), bind({**choices, "metric": ["log-loss"]})
    assert "metric" not in plain.config
    assert bind({**choices, "metric": []}).id == plain.id != extended.id
    assert (extended.config["metric"], bind({**choices, "metric": "log-loss"}).id) == ("log-loss", extended.id)
    (_, one), (_, other) = (finished(each, tmp_path) for each in (choices, {**choices, "metric": ["log-loss"]}))
    assert one.facts.model_sha256 == other.facts.model_sha256
    assert [row.loss for row in one.rounds] == [row.loss for row in other.rounds]


def test_positive_names_the_class_of_metrics(tmp_path: Path) -> None:
    choices = {"dataset": table(tmp_path), "partition": "by-group", "model": "linear", "rounds": 1}
    runs = [
        finished(
            {**choices, "objective": f"binary(positive={name})", "metric": ["specificity", "sensitivity"]}, tmp_path
        )[1]
        for name in ("alive", "died")
    ]
    first, second = (run.final.metrics for run in runs)
    assert (first["specificity"], first["sensitivity"]) == (second["sensitivity"], second["specificity"])


def test_scores_of_outputs_join_in_order() -> None:
    parts: Sequence[Score] = [Score(answers={"outputs": (np.full(2, place),)}) for place in range(3)]
    assert sum(parts, Score()).joined("outputs").tolist() == [0, 0, 1, 1, 2, 2]


def test_one_model_of_all_rows_is_tested_for_every_party() -> None:
    """Its normalisation statistics may be local: there is still one model."""
    data = sb.load("digits")
    federation, task = sb.federate(data, "label-count(k=3)", 4, seed=0), sb.task("cnn(norm=batch)", data)
    method = sb.Method(sb.combined(), sb.sgd(lr=0.1, epochs=1), buffers="local")
    *_, record = sb.rounds(method, federation, task, rounds=1)
    results = record.final["parties"].values()
    assert len(results) == 4
    assert all(each["own"] is not None and "all" not in each for each in results)
