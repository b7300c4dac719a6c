"""The trained network of a run directory."""

import functools
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from glob import escape
from pathlib import Path
from typing import Any, cast

from silobench.data import Dataset, load
from silobench.engines import auto
from silobench.errors import ConfigError, DataError, RecordError
from silobench.loop.evaluation import models_to_test
from silobench.loop.exchanges import EXCHANGES
from silobench.loop.loop import one_thread
from silobench.method.algorithms import ALGORITHMS
from silobench.method.method import Buffers, Method
from silobench.method.solvers import SOLVERS
from silobench.models import MODELS, Network, Sizes
from silobench.models.module_file import code_file, file_and_name, read_text
from silobench.models.modules import averageable
from silobench.runs.archive import is_archive
from silobench.runs.checkpoint import load_state
from silobench.runs.experiment import load_plugin, registered_plugins
from silobench.runs.horizontal import prepare
from silobench.runs.keys import keys_of
from silobench.runs.label import distinguishing
from silobench.runs.plan import Cell, Plan, bind, text_digest
from silobench.runs.results import read_results
from silobench.runs.stored import StoredRun, checkpoint_file, encoder_file, read_bytes, read_facts, read_run, sha256
from silobench.runs.trained_model import TrainedModel, party_number, shared_weights, with_weights
from silobench.runs.vertical import prepare as prepare_vertical
from silobench.spec.registry import origin_of
from silobench.tasks.objectives import OBJECTIVES, Objective, plain
from silobench.tasks.objectives.hinge import Hinge
from silobench.tasks.objectives.regression import Regression
from silobench.tasks.row_format import RowFormat
from silobench.tasks.task import Task, Weights
from silobench.training.party_models import StoredModels
from silobench.training.state import State
from silobench.vertical.served import ServedNetwork
from silobench.vertical.trees.ensemble import TreeModule

_LOG = logging.getLogger("silobench")
_SHOWN = 3  # names that a message lists
_SOFTMAX = ("cross-entropy", "binary", "verification")  # objectives whose answers need no data of the run


def chosen_run(path: Path, only: str = "*") -> StoredRun:
    """Return the finished run at a path, or the one finished run below it whose name matches a glob."""
    if (path / "run.json").is_file():
        run = read_run(path)
        if not run.complete:
            raise RecordError(f"{path} is not finished: run the same experiment again to finish it first.")
        return run
    results = read_results(path)
    runs = [run for run in results.runs if run.complete]
    if not runs and results.problems:
        raise RecordError(results.problems[0])
    if not runs:
        raise RecordError(f"no run in {path} is finished: run the experiment to its end first.")
    if results.problems:
        total = len(results.runs) + len(results.problems)
        _LOG.warning("%d of %d runs cannot be read: %s", len(results.problems), total, results.problems[0])
    names = _names(runs)
    matching = [place for place, name in enumerate(names) if fnmatch(name, only)]
    if len(matching) == 1:
        return runs[matching[0]]
    if not matching:
        raise ConfigError(f"--only '{only}' matches none of {len(runs)} finished runs, such as '{names[0]}'.")
    shown = "; ".join(names[place] for place in matching[:_SHOWN])
    more = f"; and {len(matching) - _SHOWN} more" if len(matching) > _SHOWN else ""
    raise ConfigError(
        f"{path} has {len(matching)} finished runs{'' if only == '*' else f' that match {only!r}'}: choose one with "
        f"--only and a part of its name, such as --only '*{_unique_end(names[matching[0]], names)}', or give its "
        f"directory; they are {shown}{more}."
    )


def _names(runs: Sequence[StoredRun]) -> list[str]:
    """Return the names of runs as `silobench run` shows them."""
    always = ("dataset", "partition", "algorithm")
    others = distinguishing([run.label for run in runs], but=(*always, "seed"))
    return [" / ".join((*(run.label.text(key) for key in (*always, *others)), f"seed {run.seed}")) for run in runs]


def _unique_end(name: str, names: Sequence[str]) -> str:
    """Return the end of a name that no other one has, for a glob: from its algorithm on, or more of it."""
    ends = (name.split(" / ", parts)[-1] for parts in (2, 1, 0))
    return escape(next((end for end in ends if sum(other.endswith(end) for other in names) == 1), name))


# --- its network -------------------------------------------------------------------------------------


def model_of_run(run: StoredRun, party: str | None, model_file: str | Path | None) -> TrainedModel:
    """Return the trained network of a finished run, or that of one party."""
    if is_archive(run.path.parent):
        raise RecordError(
            f"{run.path.parent} has records of runs without their models: run the experiment again, and give its "
            "directory."
        )
    if not checkpoint_file(run.path).is_file():
        raise RecordError(
            f"{run.path} has no model (checkpoint/state.safetensors is missing, as after --records-only): delete this "
            "directory and run the experiment again without --records-only."
        )
    if keys_of(run.config.text("partition")).is_vertical:
        return _of_vertical_run(run, party)
    rows, objective = _row_format(run), _objective(run)
    outputs = len(run.dataset.classes) if objective.has_classes else 1
    outputs = read_facts(run.path).get("objective", {}).get("outputs", outputs)  # of an objective that needs others
    spec = _model_spec(run, model_file)
    model = MODELS.build(spec)
    words = _words_of(run, rows) if model.needs_words and rows.vocabulary else ()
    sizes = Sizes(rows.shape, outputs, rows.vocabulary, words)
    if model.content:
        _need_same_content(run, model.content, f"the file of {spec} is not the one")
    module = model.build(sizes, run.seed)
    if not type(module).__module__.startswith("silobench."):
        averageable(module, model.name)
    network = Network(module)
    state = load_state(run.path)
    if (len(network.params), len(network.buffers)) != (len(state.server.params), len(state.server.buffers)):
        raise RecordError(
            f"the model {run.config['model']} has {len(network.params)} numbers, but that of {run.path} has "
            f"{len(state.server.params)}: use the code that the run was made with."
        )
    task = Task(network, network.params.clone(), network.buffers.clone(), objective)
    weights = _weights_of_run(run, task, state, party, spec)
    return TrainedModel(with_weights(network, weights), objective, rows, spec, sizes, run.seed, run)


def _of_vertical_run(run: StoredRun, party: str | None) -> TrainedModel:
    """Return the model of parties that hold columns, for rows that all of them have; it needs the data of the run."""
    state, prepared = load_state(run.path), prepare_vertical(_plan_of(run))
    shared_weights(state, party)
    module = prepared.on_whole_rows(state)
    objective, rows, spec = prepared.problem.objective, _row_format(run), str(run.config["model"])
    return TrainedModel(Network(module), objective, rows, spec, run=run, unwritable=_unwritable(module.module))


def _unwritable(module: object) -> str:
    """Return why a model of parties that hold columns cannot be written to a file; empty if ONNX may express it."""
    if isinstance(module, TreeModule):
        return "it has trees, not a network"
    if isinstance(module, ServedNetwork):
        return "its activations go through a defence or transforms before they reach the label holder"
    return ""


def _plan_of(run: StoredRun, **choices: str) -> Plan:
    """Return the plan of a run, with some other choices; refuse data that has changed."""
    unused = ("measure", "metric")  # no model depends on them, and a configuration states them as one text
    stated = {key: value for key, value in run.config.items() if key in Cell.model_fields and key not in unused}
    _dataset_of(run)
    return bind({**stated, **choices}, {key: run.config[key] for key in ("plugins",) if key in run.config})


def load_plugins(run: StoredRun, files: Sequence[str | Path]) -> None:
    """Load plugins; refuse a run unless all plugins that it was made with are loaded, as they were then."""
    loaded = {load_plugin(Path(file)) for file in files} | registered_plugins()
    for plugin in run.config.get("plugins", ()):
        if plugin not in loaded:
            raise ConfigError(
                f"{run.path} was made with the plugin {plugin.split()[0]}, which is not loaded or has changed since: "
                "give it as it was then with --plugin FILE, or with plugins=[FILE] in Python."
            )


def _model_spec(run: StoredRun, file: str | Path | None) -> str:
    """Return the spec of a run's model, with the user's path of the file that it is in.

    A run directory may come from somebody else, so the file that it names is not executed: the user names the file, and
    it must have the content that the run was made with.
    """
    spec = run.config.model
    if not code_file(str(run.config["model"])):
        if file is not None:
            raise ConfigError(f"the model {spec} of {run.path} is not in a file: leave out --model-file (model_file).")
        return str(run.config["model"])
    path, name = file_and_name(str(dict(spec.kwargs)["path"]))
    if file is None:
        raise ConfigError(
            f"the model of {run.path} is Python code in the file {path}: if you trust this code, give the file with "
            f"--model-file {path}, or with model_file= in Python."
        )
    _need_same_content(run, read_text(Path(file)), f"{file} is not the model file")
    if Path(file).resolve() == Path(path).resolve():
        return str(run.config["model"])
    arguments = {**dict(spec.kwargs), "path": f"{file}:{name}" if name else str(file)}
    return str(replace(spec, kwargs=tuple(arguments.items())))


def _need_same_content(run: StoredRun, content: str, problem: str) -> None:
    if text_digest(content) not in run.config.get("references", ()):
        raise ConfigError(f"{problem} that {run.path} was made with: give it as it was then.")


def _row_format(run: StoredRun) -> RowFormat:
    """Return the format of a run's rows from its directory, or else from its dataset."""
    facts = read_facts(run.path)
    encoder = _stored_encoder(run.path, facts.get("encoder_sha256"))
    is_complete = encoder is not None or not _needs_encoder(run, facts)
    if "shape" in facts["dataset"] and is_complete:
        return RowFormat.from_json(facts["dataset"], run.dataset.classes, encoder)
    return RowFormat.of(_dataset_of(run))


def _needs_encoder(run: StoredRun, facts: Mapping[str, Any]) -> bool:
    """Whether rows of a run's dataset are encoded or scaled; earlier runs did not store how arrays were scaled."""
    dataset = run.config.dataset
    return "encoder_sha256" in facts or (dataset.name == "npz" and dict(dataset.kwargs).get("scale") == "standard")


def _stored_encoder(path: Path, digest: str | None) -> dict[str, Any] | None:
    """Read encoder.json; None if a run has none. A file that was changed is refused."""
    file = encoder_file(path)
    if not file.is_file():
        return None
    content = read_bytes(file)
    if sha256(content) != digest:
        raise RecordError(f"{file} was changed: delete it, and the training data will be read again.")
    facts: dict[str, Any] = json.loads(content)
    return facts


def _objective(run: StoredRun) -> Objective:
    """Return an objective that can answer, from what a run records; other objectives are fitted to the data again."""
    origin = origin_of(OBJECTIVES.factories.get(run.config.objective.name))
    if origin is not None and origin.is_plugin:  # it may have a name, and not the answers, of one of silobench's
        return OBJECTIVES.build(run.config.text("objective"))(_dataset_of(run))
    facts = run.facts.objective
    if facts.name == Regression.name and facts.target is not None and facts.target.std is not None:
        return Regression(facts.main, facts.metrics, mean=facts.target.mean or 0.0, scale=facts.target.std)
    if facts.name == Hinge.name:
        return Hinge(facts.main, facts.metrics)
    if facts.name.removeprefix("weighted ") in _SOFTMAX:
        return plain()
    return OBJECTIVES.build(run.config.text("objective"))(_dataset_of(run))


def _dataset_of(run: StoredRun) -> Dataset:
    """Load the data of a run; refuse data that has changed."""
    dataset = _load(str(run.config["dataset"]))
    if dataset.checksum != run.dataset.checksum:
        raise DataError(f"{run.config['dataset']} has changed since {run.path} was made: restore it as it was then.")
    return dataset


def _words_of(run: StoredRun, rows: RowFormat) -> tuple[str, ...]:
    """Return the words of a run's data; refuse other words, with which the network would read other vectors."""
    dataset = _dataset_of(run)
    if rows.words_checksum not in ("", dataset.words_checksum):  # earlier runs did not record it
        raise DataError(
            f"the words of {run.config['dataset']} have changed since {run.path} was made: restore it as it was then."
        )
    return dataset.vocabulary


_load = functools.lru_cache(maxsize=1)(load)


# --- its weights -------------------------------------------------------------------------------------


def _weights_of_run(run: StoredRun, task: Task, state: State, party: str | None, model: str) -> Weights:
    """Return the shared model of a run, or a party's. Data are read only for a model that depends on rows."""
    config = run.config
    algorithm, solver = ALGORITHMS.build(str(config["algorithm"])), SOLVERS.build(str(config["solver"]))
    mixes = EXCHANGES.build(config.text("exchange")).mixes and not algorithm.silent
    models = StoredModels(Method(algorithm, solver, buffers=cast(Buffers, config.buffers)), task, mixes)
    if not models.has_party_models:
        return shared_weights(state, party)
    number = 0 if algorithm.pooled else party_number(party, run.partition.parties)
    if algorithm.adaptation is not None or number not in state.memory:
        return _weights_from_rows(run, state, number, model)
    return models.model_at(state.server, state.memory[number])


def _weights_from_rows(run: StoredRun, state: State, number: int, model: str) -> Weights:
    """Return a party's model that the checkpoint lacks: it is trained for each test, or is the initial one."""
    prepared = prepare(_plan_of(run, model=model))
    engine = prepared.settled(auto(workers=1), run.facts.environment.get("engine"))
    setting = prepared.ready(engine, run.path.parent).setting
    with one_thread():
        return models_to_test(setting, engine, state)[number]
