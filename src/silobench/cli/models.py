"""The commands that use trained models: predict, model."""

import csv
import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from silobench.cli.busy import waiting
from silobench.cli.options import DataDir, Json, Plugins
from silobench.cli.output import print
from silobench.errors import ConfigError, RecordError, suggest
from silobench.safety.replacing import head_of, need_own
from silobench.safety.texts import cells

if TYPE_CHECKING:
    from silobench.runs.trained_model import TrainedModel

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a run, or of runs of which one is chosen.")]
Party = Annotated[
    str | None, typer.Option("--party", help="Name of a party, where every party has its own model (fedbn, solo).")
]
Only = Annotated[
    str, typer.Option(help="Choose the run whose name ('dataset / partition / algorithm / seed 0') matches this glob.")
]
ModelFile = Annotated[
    Path | None, typer.Option(help="The Python file of a model module(path=...); its code is executed.")
]
FORMATS = {"torch": ".pt", "safetensors": ".safetensors", "onnx": ".onnx"}
_HEAD = 1 << 20  # bytes of a file of predictions that have its header


def predict(
    run: Run,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rows as a CSV, Parquet or .npy file.")],
    party: Party = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add the probability of each class to each line.")
    ] = False,
    encoded: Annotated[
        bool,
        typer.Option("--encoded", help="The array of a .npy file has the features of the dataset, scaled already."),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "--output", help="CSV file to write; printed by default.")
    ] = None,
    only: Only = "*",
    json_: Json = False,
    plugin: Plugins = None,
    model_file: ModelFile = None,
    data_dir: DataDir = None,
) -> None:
    """Predict the rows of a file with the model of a finished run: one line per row."""
    if out is not None and out.exists() and file.exists() and out.samefile(file):
        raise ConfigError(f"--out {out} is the file of the rows, which it would replace: give another name.")
    if out is not None:
        need_own(out, _is_json if json_ else _is_csv, f"a {'JSON' if json_ else 'CSV'} file of predictions")
    with waiting(f"predicting {file}"):
        model = _model(run, party, only, plugin or (), model_file)
        outputs = model.outputs(file, encoded)
        answers = model.predictions(outputs).tolist()
        shares = model.probabilities(outputs).tolist() if probabilities else None
    if json_:
        facts = {"run": str(model.run.path if model.run else run), "predictions": answers}
        content = json.dumps(facts | ({"classes": model.rows.classes, "probabilities": shares} if shares else {}))
    else:
        content = _as_csv(answers, model.rows.classes, shares)
    if out is None:
        print(content.rstrip("\n"))
    else:
        _write(out, content)
        print(f"predictions of {len(answers)} rows: {out}")


def _as_csv(answers: Sequence[Any], classes: Sequence[str], shares: Sequence[Sequence[float]] | None) -> str:
    """Return predictions as a CSV with the number of the row, counted from 1."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    numbers = len(answers[0]) if answers and isinstance(answers[0], list) else 0  # of a target that has several
    names = [f"prediction {place + 1}" for place in range(numbers)] if numbers else ["prediction"]
    writer.writerow(["row", *names, *(f"p({name})" for name in (classes if shares else ()))])
    for row, answer in enumerate(answers):
        texts = cells(answer if numbers else [answer])  # names of classes are those of whoever wrote the data
        writer.writerow([row + 1, *texts, *(f"{share:.6f}" for share in (shares[row] if shares else ()))])
    return text.getvalue()


def _is_csv(path: Path) -> bool:
    """Whether a file begins as `_as_csv` does, whatever the classes are."""
    text = head_of(path, _HEAD).decode(errors="replace")
    try:
        header = next(csv.reader(io.StringIO(text)), [])
    except csv.Error:
        return False
    names = [name for name in header[1:] if not (name.startswith("p(") and name.endswith(")"))]
    several = [f"prediction {place + 1}" for place in range(len(names))]
    return header[:1] == ["row"] and bool(names) and names in (["prediction"], several)


def _is_json(path: Path) -> bool:
    """Whether a file begins as the JSON of predictions does."""
    return re.match(rb'\{"run": "(?:[^"\\]|\\.)*", "predictions": \[', head_of(path, _HEAD)) is not None


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise RecordError(f"{path} cannot be written ({error.strerror}): choose another --out.") from error


def model(
    run: Run,
    form: Annotated[str, typer.Option("--format", help="torch, safetensors or onnx.")] = "torch",
    out: Annotated[
        Path | None, typer.Option("--out", "--output", help="File to write; model.pt or so by default.")
    ] = None,
    party: Party = None,
    only: Only = "*",
    plugin: Plugins = None,
    model_file: ModelFile = None,
    data_dir: DataDir = None,
) -> None:
    """Write the trained network of a finished run to a file, and print how to use it."""
    if form not in FORMATS:
        raise ConfigError(f"there is no format '{form}': {suggest(form, FORMATS)}")
    path = out or Path(f"model{FORMATS[form]}")
    with waiting(f"writing {path}"):
        from silobench.runs.model_files import write_model  # which takes seconds

        lines = write_model(_model(run, party, only, plugin or (), model_file), form, path)
    print(f"model: {path}", file=sys.stderr)
    print("\n".join(lines))


def _model(run: Path, party: str | None, only: str, plugins: Sequence[Path], model_file: Path | None) -> "TrainedModel":
    from silobench.runs.predict import trained_model

    return trained_model(run, party=party, only=only, plugins=plugins, model_file=model_file)
