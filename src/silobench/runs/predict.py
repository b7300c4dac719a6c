"""Answers of a trained model for new rows: of a run directory, or of a run in Python."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from numpy.typing import NDArray

from silobench.engines import inline
from silobench.errors import ConfigError
from silobench.loop.evaluation import models_to_test
from silobench.loop.loop import one_thread
from silobench.models.estimators import fit_estimator
from silobench.runs.stored_model import chosen_run, load_plugins, model_of_run
from silobench.runs.trained_model import TrainedModel, party_number, shared_weights, with_weights
from silobench.spec.contract import described
from silobench.tasks.objectives.regression import Regression
from silobench.tasks.task import Task, Weights
from silobench.training.setting import Setting
from silobench.training.state import RoundRecord, State

Source: TypeAlias = "str | Path | Task | Setting"


def predict(
    run: Source,
    rows: Any,
    *,
    state: State | RoundRecord | None = None,
    party: str | None = None,
    probabilities: bool = False,
    encoded: bool = False,
    only: str = "*",
    plugins: Sequence[str | Path] = (),
    model_file: str | Path | None = None,
) -> NDArray[Any]:
    """Return the answers of a trained model for new rows: names of classes, or numbers in the target's units.

    `run` is a run directory, a directory with one finished run (or one whose name matches `only`), or a task or setting
    of a run in Python with its last `state`. `rows` is an array, a data frame, or the path of a CSV, Parquet, .npy or
    .npz file; with `encoded`, an array has features of the dataset, such as `data.test.x`. `party` is the name of a
    party whose own model answers. With `probabilities`, the result has a column per class. `plugins` are the plugin
    files that a run was made with, and `model_file` is the file of its `module(...)`: their code is executed.
    """
    model = trained_model(run, state=state, party=party, only=only, plugins=plugins, model_file=model_file)
    outputs = model.outputs(rows, encoded)
    return model.probabilities(outputs) if probabilities else model.predictions(outputs)


def to_sklearn(
    run: Source,
    estimator: Any = None,
    *,
    state: State | RoundRecord | None = None,
    party: str | None = None,
    only: str = "*",
    plugins: Sequence[str | Path] = (),
    model_file: str | Path | None = None,
) -> Any:
    """Return a fitted estimator of scikit-learn with the coefficients of a trained linear model.

    `estimator` is copied; without one it is a LogisticRegression, or a LinearRegression for numbers. Its rows are the
    features of the dataset, one line per row. The other arguments are those of `predict`.
    """
    model = trained_model(run, state=state, party=party, only=only, plugins=plugins, model_file=model_file)
    if estimator is None:
        from sklearn import linear_model

        estimator = linear_model.LogisticRegression() if model.rows.classes else linear_model.LinearRegression()
    objective = model.objective
    units = (objective.mean, objective.scale) if isinstance(objective, Regression) else (0.0, 1.0)
    return fit_estimator(estimator, model.network.module, model.rows.classes, objective.name, *units)


def trained_model(
    run: Source,
    *,
    state: State | RoundRecord | None = None,
    party: str | None = None,
    only: str = "*",
    plugins: Sequence[str | Path] = (),
    model_file: str | Path | None = None,
) -> TrainedModel:
    """Return the trained network of a run; see `predict` for the arguments."""
    if isinstance(run, str | Path):
        if state is not None:
            raise ConfigError("a run directory has its own state: leave out state.")
        chosen = chosen_run(Path(run), only)
        load_plugins(chosen, plugins)
        return model_of_run(chosen, party, model_file)
    task = run.task if isinstance(run, Setting) else run
    if not isinstance(task, Task):
        raise ConfigError(f"predict needs the path of a run, an sb.Task or an sb.Setting, but got {described(run)}.")
    if plugins or model_file is not None:
        raise ConfigError("a task has its network already: leave out plugins and model_file.")
    if state is None:
        raise ConfigError("a task does not know what was learnt: give state=record.state of the last record.")
    if task.rows is None:
        raise ConfigError("this task was put together without a dataset: build it with sb.task(model, dataset).")
    last = state.state if isinstance(state, RoundRecord) else state
    weights = _weights(run, last, party) if isinstance(run, Setting) else shared_weights(last, party)
    return TrainedModel(with_weights(task.network, weights), task.objective, task.rows)


def _weights(setting: Setting, state: State, party: str | None) -> Weights:
    """Return the shared model of a run in Python, or a party's."""
    if not setting.has_party_models:
        return shared_weights(state, party)
    number = party_number(party, [each.name for each in setting.federation.parties])
    with one_thread():
        return models_to_test(setting, inline(), state)[number]
