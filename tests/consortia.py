"""A consortium of three small silos on this machine, with a post within the process."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from silobench.data.agreed import columns_of
from silobench.runs.execute import execute
from silobench.runs.experiment import plan
from silobench.runs.prepare import prepare
from silobench.silos import keys
from silobench.silos.consortium import Consortium, Waits, sign, write_consortium
from silobench.silos.post import Answer, InMemoryPost
from silobench.silos.server import run_consortium
from silobench.silos.silo import Silo
from silobench.silos.silo_file import accept, write_silo_file
from silobench.training.state import RoundRecord

NAMES = ("north", "south", "west")
SIZES = (60, 45, 90)
MARK = 7.389056098930651  # a cell of the first silo's table, which no letter may have
EXPERIMENT: dict[str, Any] = {"model": "linear", "solver": "sgd(lr=0.1, batch=16)", "rounds": 3}


def write_tables(folder: Path, sizes: Sequence[int] = SIZES) -> list[Path]:
    """Write a table for each silo: three numbers, a category and a label that depends on them."""
    files = []
    for place, (name, rows) in enumerate(zip(NAMES, sizes, strict=False)):
        draw = np.random.default_rng(place)
        x = draw.normal(place / 2, 1, (rows, 3))
        colour = draw.choice(["red", "green"], rows)
        label = np.where(x @ [1.0, -1.0, 0.5] + (colour == "red") > place / 4, "yes", "no")
        label[:2], colour[:2] = ["yes", "no"], ["red", "green"]
        if place == 0:
            x[5, 1] = MARK
        lines = ["age,dose,weight,colour,answer"]
        lines += [f"{a!r},{b!r},{c!r},{colour[i]},{label[i]}" for i, (a, b, c) in enumerate(x.tolist())]
        files.append(folder / f"{name}.csv")
        files[-1].write_text("\n".join(lines) + "\n")
    return files


def write_pictures(folder: Path) -> None:
    """Write a folder of small pictures for each silo: light ones and dark ones."""
    for place, name in enumerate(NAMES):
        draw = np.random.default_rng(place)
        for label, light in (("dark", 60), ("light", 180)):
            (folder / name / name / label).mkdir(parents=True)
            for number in range(16):
                pixels = draw.integers(light, light + 60, (32, 32), np.uint8)
                Image.fromarray(pixels).save(folder / name / name / label / f"{number}.png")


def _rows_of(folder: Path, name: str) -> Path:
    """Return where the rows of a silo are: a table, or a folder of pictures."""
    table = folder / name / f"{name}.csv"
    return table if table.exists() else folder / name / name


def toml(choices: Mapping[str, Any]) -> str:
    """Return choices as the text of an experiment."""
    return "".join(f"{key} = {value!r}\n".replace("'", '"') for key, value in choices.items())


@dataclass
class Rehearsal:
    """Three silos in folders, their consortium, and the letters that crossed."""

    folder: Path
    consortium: Consortium
    silos: dict[str, Silo] = field(default_factory=dict)
    letters: list[tuple[str, bytes, bytes | None]] = field(default_factory=list)  # silo, letter, answer
    hook: Callable[[str, bytes, Answer], bytes | None] | None = None

    def silo_file(self, name: str) -> Path:
        return self.folder / name / "silo.toml"

    def open(self, *names: str) -> None:
        """Start silos, or start them again: what they had in memory is gone."""
        self.close(*names)
        self.silos |= {name: Silo.open(self.silo_file(name)) for name in names}

    def close(self, *names: str) -> None:
        """Stop silos that were started."""
        for name in names:
            if name in self.silos:
                self.silos[name].close()

    @property
    def post(self) -> InMemoryPost:
        return InMemoryPost({name: self._answer(name) for name in self.silos}, self._deliver)

    def _answer(self, name: str) -> Answer:
        return lambda content: self.silos[name].answer(content)

    def _deliver(self, name: str, letter: bytes, answer: Answer) -> bytes | None:
        content = self.hook(name, letter, answer) if self.hook else answer(letter)
        self.letters.append((name, letter, content))
        return content

    def run(self, out: str = "runs") -> list[RoundRecord]:
        """Run the consortium to its end."""
        return list(run_consortium(self.consortium, self.post, self.folder / out))

    def again(self, **choices: Any) -> "Rehearsal":
        """Return the same silos with another consortium, for an experiment with other choices."""
        old, app = self.consortium, self.folder / "-".join(["app", *map(str, choices.values())])
        lines = {silo.name: silo.key for silo in old.silos}
        experiment = toml({**self.choices, **choices})
        write_consortium(app, old.name, old.lead, lines, experiment, old.columns, old.quorum, old.engine, old.waits)
        other = replace(self, letters=[])  # it has the same silos
        other.open_with(sign(app, self.folder / "lead"))
        return other

    def open_with(self, consortium: Consortium) -> None:
        """Start all silos with a consortium, which they accept."""
        self.consortium = consortium
        for name in NAMES:
            file = self.silo_file(name)
            file.write_text(
                re.sub("^consortium = .*$", f'consortium = "{consortium.folder}"', file.read_text(), flags=re.M)
            )
            accept(file, consortium.digest)
        self.open(*NAMES)

    @property
    def inline(self) -> list[RoundRecord]:
        """The same experiment with all rows in one place, by the engine inline."""
        files = ", ".join(str(_rows_of(self.folder, name)) for name in NAMES)
        columns = self.folder / "app" / "columns.toml"
        choices = {"dataset": f"silos(files=[{files}], columns={columns})", **self.choices}
        (only,) = plan(choices)
        return list(execute(prepare(only), self.folder / "inline", "inline"))

    choices: dict[str, Any] = field(default_factory=dict)


def rehearsal(folder: Path, engine: str = "inline", limits: str = "", **choices: Any) -> Rehearsal:
    """Return three silos that have accepted a consortium with this experiment."""
    columns_choices = choices.pop("columns", {"label": "answer"})
    quorum, waits = choices.pop("quorum", 2), choices.pop("waits", Waits(join=2.0, round=2.0, grace=0.0))
    stated = {**EXPERIMENT, **choices}
    lines = {}
    for name in NAMES:
        (folder / name).mkdir(parents=True)
        lines[name] = keys.new_key(folder / name / "key")
    if "size" in columns_choices:
        write_pictures(folder)
    else:
        for file in write_tables(folder):
            file.rename(folder / file.stem / file.name)
    lead = keys.new_key(folder / "lead")
    columns = columns_of(str(_rows_of(folder, "north")), **columns_choices)
    app = folder / "app"
    write_consortium(app, "three", lead, lines, toml(stated), columns.text(), quorum, engine, waits)
    consortium = sign(app, folder / "lead")
    for name in NAMES:
        path = folder / name / "silo.toml"
        write_silo_file(path, name, _rows_of(folder, name).name, app, folder / name / "key")
        if limits:
            path.write_text(path.read_text().replace("max_runs = 1", limits))
        accept(path, consortium.digest)
    three = Rehearsal(folder, consortium, choices=stated)
    three.open(*NAMES)
    return three
