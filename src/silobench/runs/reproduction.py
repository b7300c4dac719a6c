"""How to do a stored run again: its choices as an experiment file, and the command. Nothing here needs torch."""

import shlex
from dataclasses import replace
from typing import Any

from silobench.runs.label import PLUGIN, Label
from silobench.runs.stored import StoredRun
from silobench.spec import Spec
from silobench.spec.toml import toml_text

_JOINTS = {"partition": " + ", "transforms": " | ", "broadcast": " | "}
_LISTS = ("measure", "metric")  # keys of which a run can have several
_PLAIN = (
    "parties", "participation", "buffers", "rounds", "eval_every", "eval_on", "validation", "split", "seed", "device",
)  # fmt: skip


def experiment_text(run: StoredRun) -> str:
    """Return an experiment file of one run: `silobench run` plans the run of the same id from it."""
    return toml_text(experiment_choices(run.label))


def experiment_choices(label: Label) -> dict[str, Any]:
    """Return the keys and values of an experiment file from the label of a run."""
    chosen: dict[str, Any] = {}
    for key in label:
        if key in _LISTS:
            chosen[key] = [str(_plain(term)) for term in getattr(label, key)]
        elif key in _JOINTS:
            chosen[key] = _JOINTS[key].join(str(_plain(term)) for term in getattr(label, key))
        elif key in _PLAIN:
            chosen[key] = label[key]
        else:
            chosen[key] = _spec_text(label, key)
    return {key: value for key, value in chosen.items() if value is not None and value != []}


def _spec_text(label: Label, key: str) -> str:
    """Return a spec as it is written in a file, without the plugin that a label names beside it."""
    text = str(label[key])
    return text if f"{PLUGIN}=" not in text else str(_plain(getattr(label, key)))


def _plain(spec: Spec) -> Spec:
    return replace(spec, kwargs=tuple(pair for pair in spec.kwargs if pair[0] != PLUGIN))


def command(run: StoredRun, file: str) -> str:
    """Return the command that does a run again from its experiment file, with the plugins that it used."""
    plugins = [part for plugin in plugins_of(run) for part in ("--plugin", plugin.partition(" ")[0])]
    return shlex.join(["silobench", "run", file, "--out", "runs/again", *plugins])


def plugins_of(run: StoredRun) -> list[str]:
    """Return the plugin files of a run, each with its digest."""
    return list(run.config.get("plugins", ()))
