"""Privacy in tables, files, the page and comparisons of stored runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from commands import call
from silobench.analysis.compare import checked_question, compare
from silobench.analysis.costs import convergence
from silobench.analysis.export import scores_csv
from silobench.analysis.measured import measure_tables
from silobench.analysis.privacy import epsilon_curve, privacy_json, privacy_sentence, privacy_table
from silobench.errors import ConfigError
from silobench.report.site import write_site
from silobench.runs.stored import StoredRun
from stored import cells, page, stored, texts


def facts(epsilon: float | None, **more: Any) -> dict[str, Any]:
    return {
        "epsilon": epsilon, "delta": 1e-5, "parties": [epsilon, None], "noise": [1.1, None], "rate": [0.1, None],
        "steps": [10, None], "accountant": "rdp", "holds": "reason" not in more, **more,
    }  # fmt: skip


def private(epsilons: list[float | None], seed: int = 0, unit: str = "example", **more: Any) -> StoredRun:
    """Return a run with these epsilons by round; `more` is of its last one, or a choice of its experiment."""
    choices = {
        key: more.pop(key) for key in ("rounds", "algorithm", "transforms", "exchange", "measures") if key in more
    }
    measures, begin = choices.pop("measures", {}), [{"privacy": {unit: facts(each)}} for each in epsilons[:-1]]
    last: dict[str, Any] = {"privacy": {unit: facts(epsilons[-1], **more)}, "measures": measures}
    if choices.get("rounds", 0) > len(epsilons):
        last["privacy"]["ended"] = "round 3 would bring epsilon to 9, but its budget is 5"
    return stored([0.5] * len(epsilons), seed, [*begin, last], solver="dp_sgd(noise=1.1)", **choices)


def test_parties_without_a_server_are_not_protected_from_one() -> None:
    for choice in ({"exchange": "gossip(graph=ring)"}, {"exchange": "mesh"}, {"network": "mesh"}):
        run = stored([0.5], records=[{"privacy": {"example": facts(2.0)}}], **choice)
        (row,) = texts(privacy_table(cells([run])))
        assert row["from"] == "other parties, readers of the model"


def test_a_trial_without_protection_is_not_hidden_by_another() -> None:
    (cell,) = cells([private([1.0, 2.0]), private([None, 1.5], 1)])
    assert epsilon_curve(cell, "example") == [(2, 2.0)]


def test_a_tiny_epsilon_is_not_shown_as_perfect_privacy() -> None:
    shown = [texts(privacy_table(cells([private([epsilon])])))[0]["epsilon"] for epsilon in (1e-6, 0.0)]
    assert shown == ["1e-06", "< 1e-6"]


def test_the_table_says_who_is_protected_from_whom() -> None:
    plain = stored([0.5, 0.6])
    attacks = {
        "membership": {"auc": 0.53, "low": 0.51, "high": 0.55},
        "canaries": {"epsilon": 1.234, "verdict": "the claim is not refuted"},
        "inversion": {"psnr": 7.25, "baseline_psnr": 7.0},
    }
    runs = [
        [private([1.0, 2.0011], measures=attacks), private([1.0, 1.9], 1, measures=attacks)],
        [private([1.0, 3.0], unit="party", algorithm="scaffold", transforms="clip(norm=1) | gaussian_noise")],
        [private([1.0, 3.0], unit="party", algorithm="fedprox", accountant="zcdp", transforms="secure-sum(splits=2)")],
    ]
    rows = texts(privacy_table(cells([plain], *runs)))
    assert [row["algorithm"] for row in rows] == ["fedavg", "scaffold", "fedprox", "fedprox"]
    first = rows[0]
    assert (first["protected"], first["epsilon"], first["delta"]) == ("each row", "2.01", "1e-05")  # rounded up
    assert (first["noise"], first["accountant"], first["guarantee"]) == ("1.1", "RDP", "yes")
    assert first["membership AUC"] == "0.530 (0.510 to 0.550)"
    assert (first["audited epsilon"], first["inversion PSNR, dB"]) == ("≥ 1.23", "7.25 (7)")
    everybody, trusting = "server, other parties, readers of the model", "other parties, readers of the model"
    assert [row["from"] for row in rows] == [everybody, trusting, everybody, "server"]
    assert [row["protected"] for row in rows[1:]] == ["each party", "each party", "single updates"]
    assert privacy_table(cells([plain])).rows == []


def test_nobody_is_protected_from_whom_does_not_exist_or_has_the_rows() -> None:
    runs = [[private([2.0], algorithm="combined")], [private([2.0], exchange="gossip")]]
    pooled, gossip = texts(privacy_table(cells(*runs)))
    assert pooled["from"] == "readers of the model"
    assert gossip["from"] == "other parties, readers of the model"


def test_a_secure_sum_hides_single_updates_with_and_without_noise() -> None:
    attacked = {"measures": {"membership": {"auc": 0.6, "low": 0.5, "high": 0.7}}}
    chain = "clip(norm=1.0) | secure-sum(splits=2)"
    hiding, plain = stored([0.5], records=[attacked], transforms=chain), stored([0.5], records=[attacked])
    table = privacy_table(cells([hiding], [private([2.0], transforms=chain, **attacked)], [plain]))
    lines = [(row["protected"], row["from"], row["epsilon"]) for row in texts(table)]
    hidden, everybody = ("single updates", "server", "-"), "server, other parties, readers of the model"
    assert lines == [hidden, ("each row", everybody, "2"), hidden, ("nobody", "-", "-")]
    assert "the server learns only their sum" in table.note
    assert "learns only their sum" not in privacy_table(cells([private([2.0])])).note


def test_the_sentence_has_the_largest_epsilon_its_delta_and_runs_without_protection() -> None:
    rows, party = [private([1.0, 2.0011]), private([1.0, 1.9], 1)], [private([3.0], unit="party", algorithm="scaffold")]
    plain, endless = [stored([0.5], algorithm="moon")], [private([None], algorithm="fednova", reason="no noise")]
    assert privacy_sentence(cells(plain)) == ""
    assert privacy_sentence(cells(rows)) == "The largest epsilon is 2.01 for each row (delta 1e-05)."
    both = "The largest epsilon is 2.01 for each row (delta 1e-05) and 3 for each party (delta 1e-05)"
    assert privacy_sentence(cells(rows, party)) == f"{both}."
    assert privacy_sentence(cells(rows, party, plain, endless)) == f"{both}; 2 of 5 runs have no differential privacy."
    none = "The epsilon of every run is infinite or not stated, so no run has differential privacy."
    assert privacy_sentence(cells(plain, endless)) == none
    weak = [private([4.0], algorithm="bsp", reason="batches are not drawn at random")]
    assert privacy_sentence(cells(rows, weak)) == (
        "The largest epsilon is 4 for each row (delta 1e-05); in 1 of the runs it is not a guarantee."
    )


def test_the_sentence_has_the_delta_of_its_epsilon() -> None:
    runs = [private([2.0]), private([3.0], 1, delta=1e-6)]
    assert privacy_sentence(cells(runs)) == "The largest epsilon is 3 for each row (delta 1e-06)."


def test_the_overview_states_epsilon_and_leads_to_the_page_of_privacy(tmp_path: Path) -> None:
    text = "The largest epsilon is 2 for each row (delta 1e-05)."
    found = cells([private([1.0, 2.0])])
    assert (
        f'<p>{text} More is on the page <a href="privacy.html">Privacy</a>'
        in write_site(found, tmp_path / "site").read_text()
    )
    assert (tmp_path / "site" / "privacy.html").is_file()
    alone = page(found, tmp_path / "one.html")
    assert f'<p>{text} More is on the page <a href="#privacy">Privacy</a>' in alone
    assert '<article id="privacy">' in alone
    assert "epsilon" not in write_site(cells([stored([0.5])]), tmp_path / "plain").read_text()


def test_what_is_no_guarantee_is_marked() -> None:
    refuted = {"canaries": {"epsilon": 4.0, "verdict": "the claim is refuted"}}
    (none,) = texts(privacy_table(cells([private([None], reason="no noise is added")])))
    assert (none["epsilon"], none["guarantee"]) == ("∞", "no: no noise is added")
    (wrong,) = texts(privacy_table(cells([private([2.0], measures=refuted)])))
    assert wrong["audited epsilon"] == "≥ 4: refutes the stated one"
    attacked = stored([0.5], records=[{"measures": {"membership": {"auc": 0.9, "low": 0.8, "high": 1.0}}}])
    (row,) = texts(privacy_table(cells([attacked])))
    assert (row["protected"], row["membership AUC"]) == ("nobody", "0.900 (0.800 to 1.000)")


def test_a_budget_ends_a_run_without_convergence() -> None:
    run = private([1.0, 4.5], rounds=20)
    assert convergence(run) is None
    (row,) = texts(privacy_table(cells([run])))
    assert row["ended"] == "after round 2 of 20"


def test_files_have_the_largest_epsilon_of_the_trials() -> None:
    results = cells(
        [private([1.0, 2.0], epsilon_pld=1.5), private([1.5, 1.75], 1, epsilon_pld=1.25)], [stored([0.5] * 2)]
    )
    header, protected, plain = (line.split(",") for line in scores_csv(results).splitlines())
    place = header.index("epsilon")
    assert (protected[place], plain[place], protected[header.index("delta")]) == ("2", "", "1e-05")
    whole = privacy_json(results[0])
    assert whole is not None
    assert (whole["example"]["epsilon"], whole["example"]["epsilon_pld"], whole["example"]["holds"]) == (2.0, 1.5, True)
    assert whole["example"]["rounds"] == [[1, 1.5], [2, 2.0]]
    assert whole["trials"]["1"]["example"]["epsilon"] == 1.75
    assert privacy_json(results[1]) is None
    assert epsilon_curve(results[0], "party") == []


def test_the_commands_show_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    choices = {"records": [{"privacy": {"example": facts(1.25)}}], "solver": "dp_sgd(noise=1.1)", "out": tmp_path}
    stored([0.5], **choices)
    assert "server, other parties, readers of the model" in call(capsys, "show", tmp_path).out
    assert "1.25" in call(capsys, "show", tmp_path, "--format", "markdown").out
    (cell,) = json.loads(call(capsys, "show", tmp_path, "--json").out)["cells"]
    assert cell["privacy"]["example"]["epsilon"] == 1.25


def test_the_page_has_epsilon_over_rounds(tmp_path: Path) -> None:
    text = page(cells([private([1.0, 2.0])]), tmp_path / "page.html")
    assert "epsilon of each row" in text
    assert "<h2>Privacy</h2>" in text
    assert "<h2>Privacy</h2>" not in page(cells([stored([0.5])]), tmp_path / "page.html")


def test_epsilons_are_compared() -> None:
    better = [private([1.0], seed) for seed in (0, 1, 2)]
    worse = [private([2.0], seed, algorithm="scaffold") for seed in (0, 1, 2)]
    results = cells(better, worse)
    result = compare(results, "fedavg", "scaffold", checked_question("epsilon", cells=results))
    assert result.verdict == "fedavg is better"
    with pytest.raises(ConfigError, match="these runs state no epsilon"):
        checked_question("epsilon", cells=cells([stored([0.5])]))


def test_labels_leave_out_arguments_without_a_value() -> None:
    solvers = ("dp_sgd(noise=2.0, epsilon=none)", "dp_sgd(noise=none, epsilon=3.0)")
    runs = [stored([0.5], records=[{"privacy": {"example": facts(2.0)}}], solver=solver) for solver in solvers]
    assert [row["solver"] for row in texts(privacy_table(cells(*[[run] for run in runs])))] == [
        "noise=2.0",
        "epsilon=3.0",
    ]


def test_a_wide_table_of_the_page_is_set_smaller(tmp_path: Path) -> None:
    success = {"auc": 0.53, "low": 0.51, "high": 0.55, "tpr": 0.02}
    attacks = {"membership": {**success, "rows": 100, "difference": success}, "inversion": {"psnr": 7.25}}
    html = page(cells([private([1.0, 2.0], measures=attacks, epsilon_pld=1.5)]), tmp_path / "report.html")
    assert '<table class="wide">' in html
    assert "<table>" in html
    assert "<h3>Membership inference</h3>" in html


def test_a_table_of_a_measure_tells_transforms_apart() -> None:
    record = {"measures": {"subtraction": {"error": 0.5}}}
    runs = [
        [stored([0.5], records=[record], transforms=f"secure-sum(splits={splits})", measure="subtraction")]
        for splits in (2, 3)
    ]
    (table,) = measure_tables(cells(*runs))
    assert [row["transforms"] for row in texts(table)] == ["secure-sum(splits=2)", "secure-sum(splits=3)"]
