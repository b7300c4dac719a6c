"""The rows of the matrix: a small run for every part of every registry, so that a new part is covered by itself."""

import importlib.util
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from determinism.examples import COLUMNS, ELSEWHERE, EXAMPLES, KEYS, ROWS, TOGETHER, VERTICAL
from silobench.runs.execute import execute
from silobench.runs.experiment import REGISTRIES, plan
from silobench.runs.prepare import prepare

Choices: TypeAlias = dict[str, Any]


def parts() -> Iterator[tuple[str, str]]:
    """Yield every part that an experiment can name: its registry and its name."""
    for registry, known in REGISTRIES.items():
        if registry not in ELSEWHERE:
            yield from ((registry, name) for name in sorted(known.factories) if is_built_in(known.factories[name]))


def is_built_in(factory: Any) -> bool:
    """Whether a factory is one of silobench, and not of a plugin or a test."""
    return str(inspect.unwrap(factory).__module__).startswith("silobench.")


def choices_of(registry: str, name: str) -> Choices:
    """Return the experiment of one part. A part with arguments that have no defaults needs a text in `EXAMPLES`."""
    examples = EXAMPLES.get(registry, {})
    example, (key, form) = examples.get(name, {}), KEYS[registry]
    text = example if isinstance(example, str) else name
    others = {} if isinstance(example, str) else example
    common = examples.get("", {})
    assert isinstance(common, dict)
    return {**(COLUMNS if registry in VERTICAL else ROWS), **common, key: form.format(text), **others}


def kinds(files: Path) -> dict[str, list[Choices]]:
    """Return the experiments of each row. `files` is a folder for the tables and models that some of them read."""
    origin = write_files(files)
    rows: dict[str, list[Choices]] = {}
    for registry, name in parts():
        rows.setdefault(registry, []).append(choices_of(registry, name))
    rows["together"] = list(TOGETHER)
    if importlib.util.find_spec("tenseal") is not None:
        methods = (
            "split(encryption=ckks)",
            "split(encryption=paillier)",
            "boosted-trees(encryption=paillier, leaves=4)",
        )
        rows["encryption"] = [{**COLUMNS, "model": "linear", "rounds": 1, "algorithm": method} for method in methods]
    return {row: [_placed(choices, files, origin) for choices in cells] for row, cells in rows.items()}


def write_files(folder: Path) -> Path:
    """Write tables, a network and a finished run; return the directory of the run, from which another one starts."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(300, 4))
    age = 40 + 8 * x[:, 0] - 5 * x[:, 1] * x[:, 2] + draw.normal(size=300)
    lines = [",".join(f"{value:.4f}" for value in (*row, years)) for row, years in zip(x, age, strict=True)]
    (folder / "people.csv").write_text("\n".join(["a,b,c,d,age", *lines, ""]))
    (folder / "counts.csv").write_text("party,class,count\nnorth,0,20\nnorth,1,60\nsouth,0,70\nsouth,1,30\n")
    ratings = [f"{u},{f},{3 + u % 2 + f % 3},{f * 7 % 5},{u * 3 % 4}" for u in range(20) for f in range(12)]
    (folder / "ratings.csv").write_text("\n".join(["user,film,rating,year,age", *ratings, ""]))
    (folder / "net.py").write_text(
        "from torch import nn\n\n\ndef net(sizes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(30, 6), nn.Tanh(), nn.Linear(6, sizes.classes))\n"
    )
    (origin,) = plan({**ROWS, "rounds": 1, "seed": 7})
    for _ in execute(prepare(origin), folder / "origin", "inline"):
        pass
    return folder / "origin" / origin.id


def _placed(choices: Choices, files: Path, origin: Path) -> Choices:
    texts = {key: value for key, value in choices.items() if isinstance(value, str)}
    placed = {key: text.replace("FILES", str(files)).replace("ORIGIN", str(origin)) for key, text in texts.items()}
    return {**choices, **placed}
