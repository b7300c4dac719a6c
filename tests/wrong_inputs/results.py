"""Results that were damaged, edited or deleted, and commands that ask them for what they do not have."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from silobench.runs.stored import facts_digest
from wrong_inputs.case import Case, damaged


def run_of(runs: Path, algorithm: str) -> Path:
    """Return the directory of a run, by its algorithm."""
    files = sorted(runs.glob("*/run.json"))
    return next(file.parent for file in files if f'"algorithm": "{algorithm}' in file.read_text())


def intact(runs: Path) -> None:
    """Leave the results as they are."""


def edit(key: str, value: Any, algorithm: str = "fedavg") -> Callable[[Path], None]:
    """Change a fact of a run.json; `key` is its path, with slashes."""

    def change(runs: Path) -> None:
        file = run_of(runs, algorithm) / "run.json"
        facts = json.loads(file.read_text())
        *parents, last = key.split("/")
        table = facts
        for parent in parents:
            table = table[parent]
        table[last] = value
        file.write_text(json.dumps(facts, indent=1))

    return change


def edit_sealed(key: str, value: Any) -> Callable[[Path], None]:
    """Change a fact of a run.json, and state the digest of the changed one."""

    def change(runs: Path) -> None:
        edit(key, value)(runs)
        file = run_of(runs, "fedavg") / "run.json"
        facts = json.loads(file.read_text())
        file.write_text(json.dumps({**facts, "facts_sha256": facts_digest(facts)}, indent=1))

    return change


def remove(key: str) -> Callable[[Path], None]:
    """Remove a fact of a run.json."""

    def change(runs: Path) -> None:
        file = run_of(runs, "fedavg") / "run.json"
        facts = json.loads(file.read_text())
        del facts[key]
        file.write_text(json.dumps(facts, indent=1))

    return change


def write(name: str, content: bytes, algorithm: str = "fedavg") -> Callable[[Path], object]:
    """Write a file of a run anew."""
    return lambda runs: (run_of(runs, algorithm) / name).write_bytes(content)


def link(name: str, algorithm: str) -> Callable[[Path], None]:
    """Move a file of a run away, and put a link to it in its place."""

    def move(runs: Path) -> None:
        file = run_of(runs, algorithm) / name
        file.symlink_to(file.rename(runs / "elsewhere"))

    return move


def change(name: str, by: Callable[[bytes], bytes], algorithm: str = "fedavg") -> Callable[[Path], object]:
    """Change the bytes of a file of a run."""

    def rewrite(runs: Path) -> None:
        file = run_of(runs, algorithm) / name
        file.write_bytes(by(file.read_bytes()))

    return rewrite


def delete(name: str, algorithm: str = "fedavg") -> Callable[[Path], object]:
    """Delete a file of a run."""
    return lambda runs: (run_of(runs, algorithm) / name).unlink()


def delete_run(algorithm: str) -> Callable[[Path], object]:
    """Delete a run."""
    return lambda runs: shutil.rmtree(run_of(runs, algorithm))


def folder_for(name: str) -> Callable[[Path], None]:
    """Put a folder in the place of a file."""

    def replace(runs: Path) -> None:
        path = run_of(runs, "fedavg")
        (path / name).unlink()
        (path / name).mkdir()

    return replace


def loop(runs: Path) -> None:
    """Put a link to itself in the place of run.json."""
    file = run_of(runs, "fedavg") / "run.json"
    file.unlink()
    file.symlink_to(file.name)


def with_notes(runs: Path) -> None:
    """Put files of somebody beside the results."""
    (runs.parent / "notes.csv").write_text("row,prediction,truth\n1,a,b\n")
    (runs.parent / "notes.toml").write_text("rounds = 3\n")


def delete_all_descriptions(runs: Path) -> None:
    for file in runs.glob("*/run.json"):
        file.unlink()


def break_plans(runs: Path) -> None:
    for file in runs.glob(".plans/*.json"):
        file.write_bytes(b"{")


def strange_folders(runs: Path) -> None:
    """Add what is not a run to a results directory."""
    (runs / "notes").mkdir()
    (runs / "notes" / "readme.txt").write_text("hello")
    (runs / "here").symlink_to(runs)


STATE = "checkpoint/state.safetensors"
RESUME = "run tiny.toml --out runs --workers 1"
CASES: list[Case] = [
    # run.json
    damaged(
        "run.json with seed 7",
        edit("config/seed", 7),
        "run.json was changed (its configuration is not that of the run 0123456789abcdef)",
    ),
    damaged(
        "run.json with seed 7 in its label",
        edit("label/seed", 7),
        "run.json was changed (its label and its configuration have different values of seed)",
    ),
    damaged(
        "run.json with another algorithm",
        edit("config/algorithm", "fedprox(mu=1.0)"),
        "run.json was changed (its configuration is not that of the run 0123456789abcdef)",
    ),
    damaged(
        "run.json with another label",
        edit("label/algorithm", "ours"),
        "run.json was changed (it is not as silobench wrote it)",
    ),
    damaged(
        "run.json with another id",
        edit("id", "0" * 16),
        "run.json was changed (its configuration is not that of the run 0123456789abcdef)",
    ),
    damaged(
        "run.json with more rows",
        edit("dataset/train", 60_000),
        "run.json was changed (it is not as silobench wrote it)",
    ),
    damaged(
        "run.json with another version",
        edit("made_by/torch", "1.0"),
        "run.json was changed (it is not as silobench wrote it)",
    ),
    damaged(
        "run.json with rows as text, and a new digest",
        edit_sealed("dataset/train", "many"),
        "has no value of dataset that silobench could have written",
    ),
    damaged("run.json of another format", edit("format", 99), "run.json is not a run description of format 1"),
    damaged(
        "run.json with the status done",
        edit("status", "done"),
        "run.json was changed (it is not as silobench wrote it)",
    ),
    damaged(
        "run.json of an interrupted run marked complete",
        edit("status", "complete", "fedprox"),
        "run.json is damaged (it is not a whole run description)",
    ),
    damaged(
        "run.json of a finished run marked running",
        edit("status", "running"),
        "run.json was changed (it is not as silobench wrote it)",
    ),
    damaged(
        "run.json with seed 7",
        edit("config/seed", 7),
        "run.json was changed (its configuration is not that of the run 0123456789abcdef)",
        "report runs",
    ),
    damaged(
        "run.json with seed 7",
        edit("config/seed", 7),
        "run.json was changed (its configuration is not that of the run 0123456789abcdef)",
        "claims runs",
    ),
    damaged(
        "run.json with seed 7",
        edit("config/seed", 7),
        "run.json was changed (its configuration is not that of the run 0123456789abcdef)",
        "show runs --json",
    ),
    damaged(
        "run.json with seed 7",
        edit("config/seed", 7),
        "run.json was changed (its configuration is not that of the run 0123456789abcdef)",
        "show runs --format csv",
    ),
    damaged(
        "run.json with seed 7",
        edit("config/seed", 7, "fedprox"),
        "run.json was changed (its configuration is not that of the run 0123456789abcdef)",
        "compare runs fedavg scaffold",
    ),
    damaged(
        "run.json with seed 7",
        edit("config/seed", 7),
        "run.json was changed (its configuration is not that of the run 0123456789abcdef)",
        "compare runs fedavg scaffold",
    ),
    damaged(
        "run.json with seed 7",
        edit("config/seed", 7),
        "run.json was changed (its configuration is not that of the run 0123456789abcdef)",
        RESUME,
    ),
    damaged("run.json deleted", delete("run.json"), "has no run.json beside its recorded rounds"),
    damaged("run.json deleted", delete("run.json"), "has no run.json beside its recorded rounds", RESUME),
    damaged("run.json of all runs deleted", delete_all_descriptions, "has no run.json beside its recorded rounds"),
    damaged("run.json empty", write("run.json", b""), "run.json is damaged (it is not a whole run description)"),
    damaged(
        "run.json cut in the middle",
        change("run.json", lambda text: text[: len(text) // 2]),
        "run.json is damaged (it is not a whole run description)",
    ),
    damaged(
        "run.json that is a list",
        write("run.json", b"[1, 2]"),
        "run.json is damaged (it is not a whole run description)",
    ),
    damaged(
        "run.json that is a number", write("run.json", b"3"), "run.json is damaged (it is not a whole run description)"
    ),
    damaged(
        "run.json with binary content",
        write("run.json", b"\xff\x00\xfe"),
        "run.json is damaged (it is not a whole run description)",
    ),
    damaged(
        "run.json with lists nested 100,000 deep",
        write("run.json", b"[" * 100_000),
        "run.json is damaged (it is not a whole run description)",
    ),
    damaged(
        "run.json without its configuration",
        remove("config"),
        "run.json is damaged (it is not a whole run description)",
    ),
    damaged(
        "run.json without its records", remove("records"), "run.json is damaged (it is not a whole run description)"
    ),
    damaged(
        "run.json with an empty dataset", edit("dataset", {}), "run.json was changed (it is not as silobench wrote it)"
    ),
    damaged(
        "run.json with a list as its partition", edit("partition", [1]), "run.json is not a run description of format 1"
    ),
    damaged("a folder in the place of run.json", folder_for("run.json"), "run.json cannot be read (Is a directory)"),
    damaged("run.json that links to itself", loop, "has no run.json beside its recorded rounds"),
    # rounds.jsonl
    damaged(
        "rounds.jsonl empty",
        write("rounds.jsonl", b""),
        "rounds.jsonl is damaged (its first 2443 bytes do not match the record, it has 0)",
    ),
    damaged("rounds.jsonl deleted", delete("rounds.jsonl"), "rounds.jsonl cannot be read (No such file or directory)"),
    damaged(
        "rounds.jsonl cut in the middle",
        change("rounds.jsonl", lambda text: text[: len(text) // 2]),
        "rounds.jsonl is damaged (its first 2443 bytes do not match the record, it has 1221)",
    ),
    damaged(
        "rounds.jsonl with another accuracy",
        change("rounds.jsonl", lambda t: t.replace(b"0.9", b"0.8")),
        "rounds.jsonl is damaged (its first 2443 bytes do not match the record, it has 1221)",
    ),
    damaged("rounds.jsonl with a line more", change("rounds.jsonl", lambda text: text + b"{}\n"), "fedavg", code=0),
    damaged(
        "rounds.jsonl cut in the middle",
        change("rounds.jsonl", lambda t: t[: len(t) // 2]),
        "rounds.jsonl is damaged (its first 2443 bytes do not match the record, it has 1221)",
        RESUME,
    ),
    damaged(
        "rounds.jsonl of an unfinished run is a link",
        link("rounds.jsonl", "fedprox"),
        "rounds.jsonl is a link, and a run writes only into its own directory: delete the link",
        RESUME,
    ),
    damaged(
        "run.json with half a character",
        change("run.json", lambda content: content.replace(b'"name": "fcube"', b'"name": "\\ud800"')),
        "run.json is damaged (it is not a whole run description)",
    ),
    damaged(
        "rounds.jsonl of the interrupted run empty",
        write("rounds.jsonl", b"", "fedprox"),
        "rounds.jsonl is damaged (its first 2443 bytes do not match the record, it has 0)",
        RESUME,
    ),
    damaged(
        "a folder in the place of rounds.jsonl",
        folder_for("rounds.jsonl"),
        "rounds.jsonl cannot be read (Is a directory)",
    ),
    # checkpoints
    damaged(
        "the checkpoint of the interrupted run deleted",
        delete(STATE, "fedprox"),
        "checkpoint is missing beside recorded rounds",
        RESUME,
    ),
    damaged(
        "the checkpoint of the interrupted run cut",
        change(STATE, lambda t: t[:100], "fedprox"),
        "checkpoint/state.safetensors is damaged (it is not a whole checkpoint)",
        RESUME,
    ),
    damaged(
        "the checkpoint of the interrupted run cut",
        change(STATE, lambda t: t[:100], "fedprox"),
        "checkpoint/state.safetensors is damaged (it is not a whole checkpoint)",
    ),
    damaged(
        "one bit of a checkpoint changed",
        change(STATE, lambda t: t[:-1] + bytes([t[-1] ^ 1]), "fedprox"),
        "checkpoint/state.safetensors is damaged (it is not a whole checkpoint)",
        RESUME,
    ),
    damaged(
        "the checkpoint of the interrupted run empty",
        write(STATE, b"", "fedprox"),
        "checkpoint/state.safetensors is damaged (it is not a whole checkpoint)",
        RESUME,
    ),
    damaged(
        "the checkpoint of a finished run deleted",
        delete(STATE),
        "delete this directory and run the experiment again without --records-only.",
        "model runs --only *fedavg*",
    ),
    damaged(
        "an interrupted run",
        intact,
        "such as 'fcube / octants / scaffold / seed 0'.",
        "predict runs rows.csv --only *fedprox*",
    ),
    # the list of runs, and what else is in a results directory
    damaged(
        "the checkpoint of the interrupted run deleted",
        delete(STATE, "fedprox"),
        "checkpoint is missing beside recorded rounds",
    ),
    damaged("the list of planned runs damaged", break_plans, "fedavg", code=0),
    damaged("a run deleted", delete_run("scaffold"), "fedavg", code=0),
    damaged("other folders and a link to the directory itself", strange_folders, "fedavg", code=0),
    # questions that intact results cannot answer
    damaged(
        "intact results",
        intact,
        "there is no format 'html': choose from csv, latex, markdown, terminal.",
        "show runs --format html",
    ),
    damaged(
        "intact results",
        intact,
        "--format csv has one line per cell, or per party with --parties, and no details: leave out --details, "
        "--target and --time, or use --json.",
        "show runs --format csv --details",
    ),
    damaged(
        "intact results",
        intact,
        "--target must be a share from 0 to 1, such as 0.9, but 3.0 was given.",
        "show runs --target 3",
    ),
    damaged(
        "intact results",
        intact,
        "--target must be a share from 0 to 1, such as 0.9, but nan was given.",
        "show runs --target nan",
    ),
    damaged(
        "intact results",
        intact,
        "no finished run in this directory has algorithm fedavgg: did you mean fedavg?",
        "compare runs fedavg fedavgg",
    ),
    damaged(
        "intact results",
        intact,
        "both are fedavg: name two different algorithms to compare.",
        "compare runs fedavg fedavg",
    ),
    damaged(
        "intact results",
        intact,
        "choose from accuracy, balanced-accuracy, best, bytes, convergence, epsilon, overhead, own, rounds, "
        "seconds, throughput, throughput-core, uplink-ratio.",
        "compare runs fedavg scaffold --metric speed",
    ),
    damaged(
        "intact results",
        intact,
        "--rope must be a difference of 0 or more, too small to matter, but -1.0 was given.",
        "compare runs fedavg scaffold --rope -1",
    ),
    damaged(
        "intact results",
        intact,
        "--rope must be a difference of 0 or more, too small to matter, but nan was given.",
        "compare runs fedavg scaffold --rope nan",
    ),
    damaged("intact results", intact, "but 'much' was given.", "compare runs fedavg scaffold --rope much"),
    damaged(
        "intact results",
        intact,
        "--rope of seconds is a share of the mean of the two, such as 0.1 for a tenth, but 5 was given, which no "
        "difference exceeds: use a smaller one.",
        "compare runs fedavg scaffold --metric seconds --rope 5",
    ),
    damaged(
        "intact results",
        intact,
        "--rho must be a correlation of at least 0 and below 1, but 2.0 was given.",
        "compare runs fedavg scaffold --rho 2",
    ),
    damaged(
        "intact results", intact, "state it, such as --target 0.8.", "compare runs fedavg scaffold --metric rounds"
    ),
    damaged(
        "intact results",
        intact,
        "--only '*mnist*' matches none of 1 settings, such as 'fcube / octants'.",
        "compare runs fedavg scaffold --only *mnist*",
    ),
    damaged(
        "intact results",
        intact,
        "but one was given: these runs have 'fedavg' and 'scaffold'",
        "compare runs fedavg(",
    ),
    damaged(
        "intact results",
        intact,
        "'fedavg(' is not a spec: write name(argument=value, ...), with all brackets closed.",
        "compare runs fedavg( scaffold",
    ),
    damaged(
        "intact results",
        intact,
        "niid-3, niid-4, niid-5, niid-6, niid-7, niid-8, niid-9, oarf-1 and 54 more.",
        "claims runs --only nothing",
    ),
    damaged("intact results", intact, "choose another place.", "report runs --output nowhere/page.html"),
    damaged(
        "intact results",
        intact,
        "there is no format 'pickle': choose from onnx, safetensors, torch.",
        "model runs --format pickle --only *fedavg*",
    ),
    damaged(
        "intact results",
        intact,
        "they are fcube / octants / scaffold / seed 0; fcube / octants / fedavg / seed 0.",
        "model runs",
    ),
    damaged("intact results", intact, "such as 'fcube / octants / scaffold / seed 0'.", "model runs --only *mnist*"),
    damaged(
        "intact results",
        intact,
        "all parties share one model, so that of '3' is not another: leave out the party.",
        "model runs --only *fedavg* --party 3",
    ),
    damaged(
        "intact results",
        intact,
        "there is no file nowhere.csv: check the path.",
        "predict runs nowhere.csv --only *fedavg*",
    ),
    damaged(
        "intact results",
        intact,
        "so it cannot read tiny.toml: give rows of shape (3,), with features as sb.load(DATASET).test.x has them, as "
        "an array or a .npy file.",
        "predict runs tiny.toml --only *fedavg*",
    ),
    damaged(
        "intact results",
        intact,
        "--out tiny.toml is the file of the rows, which it would replace: give another name.",
        "predict runs tiny.toml --only *fedavg* --out ./tiny.toml",
    ),
    damaged(
        "a table of somebody in notes.csv",
        with_notes,
        "notes.csv exists and is not a CSV file of predictions: choose another name with --out, or delete it.",
        "predict runs rows.csv --only *fedavg* --out notes.csv",
    ),
    damaged(
        "a table of somebody in notes.csv",
        with_notes,
        "notes.csv exists and is not a JSON file of predictions: choose another name with --out, or delete it.",
        "predict runs rows.csv --only *fedavg* --json --out notes.csv",
    ),
    damaged(
        "an experiment of somebody in notes.toml",
        with_notes,
        "notes.toml exists and is not a model in the format torch: choose another name with --out, or delete it.",
        "model runs --only *fedavg* --out notes.toml",
    ),
    damaged("intact results", intact, "fedavg", "run tiny.toml --out runs --workers 1", code=0),
]
