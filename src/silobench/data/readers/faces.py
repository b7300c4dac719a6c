"""Pictures of people for verification: any folder of them, and a set that is generated.

Training rows are pictures of some people; test rows are pairs of pictures of others, half of them of the same person.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from silobench.data.dataset import Dataset, Split, encode_labels
from silobench.data.readers.image_files import Colour, Size, by_pattern, fitted, list_pictures, read_pictures
from silobench.data.readers.images import Pixels
from silobench.data.readers.user_files import TestShare, as_names
from silobench.errors import DataError, suggest

PairCount: TypeAlias = Annotated[int, Ge(2)]
Seed: TypeAlias = Annotated[int, Ge(0)]
_Rows: TypeAlias = NDArray[np.int64]

_DEFAULTS = {"model": "face-cnn"}


# --- any folder of people ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _People:
    """The pictures of a folder, sorted, and who is on each."""

    root: Path
    names: list[str]
    who: NDArray[np.str_]
    groups: dict[str, NDArray[np.str_]]

    @classmethod
    def of(cls, root: Path, pattern: str, levels: Sequence[str]) -> "_People":
        names, columns = by_pattern(root, list_pictures(root), pattern, ("identity", *levels))
        return cls(root, names, np.array(columns["identity"]), {level: np.array(columns[level]) for level in levels})

    def read(self, rows: _Rows, size: int, colour: Colour) -> Pixels:
        return read_pictures([self.root / self.names[row] for row in rows], size, colour)


@dataclass(frozen=True)
class _Drawn:
    """Pairs of rows, ``[n, 2]``, and which are of the same person."""

    rows: _Rows
    same: NDArray[np.bool_]


def identities(
    path: str,
    test: TestShare | str = 0.2,
    pairs: PairCount | str = 6000,
    group: str | tuple[str, ...] = (),
    pattern: str = "{identity}/*",
    size: Size = 32,
    colour: Colour = "rgb",
    seed: Seed = 0,
) -> Dataset:
    """Pictures of people, a folder each: learn from some of them, be tested on pairs of pictures of others.

    `test` is the share of people to hold out, or another folder, all of whose people are for tests. `pairs` is how many
    pairs to draw of these by the `seed`, half of them of the same person; or it is a file of pairs in the form of LFW:
    ``name n1 n2`` or ``name1 n1 name2 n2``, where n is the number at the end of a picture's name. The people of such a
    file are those to hold out, unless there is another folder. `pattern` and `group` are as for images.
    """
    known = _People.of(Path(path), pattern, as_names(group))
    others = known if isinstance(test, float) else _People.of(Path(test), pattern, ())
    drawn, held = _tested(known, others, test, pairs, seed)
    train = np.flatnonzero(~np.isin(known.who, held))
    y, classes = encode_labels(f"{path} without the people for tests", known.who[train])
    groups = {level: ids[train] for level, ids in known.groups.items()}
    return Dataset(
        known.root.resolve().name,
        Split(known.read(train, size, colour), y, groups),
        _pairs_split(others, drawn, size, colour),
        classes,
        "the user's own",
        (fitted(size), *_notes(known, others, held, drawn, pairs)),
        _DEFAULTS,
        "verification",
    )


def _tested(
    known: _People, others: _People, test: float | str, pairs: int | str, seed: int
) -> tuple[_Drawn, NDArray[np.str_]]:
    """The pairs, and the people who are not to be trained on."""
    rng = np.random.default_rng([seed, 2007])
    everyone = np.unique(others.who)
    if isinstance(pairs, str):
        drawn = _found(Path(pairs), others)
        return drawn, np.unique(others.who[drawn.rows]) if others is known else everyone
    held = everyone
    if isinstance(test, float):
        held = rng.permutation(everyone)[: max(1, round(test * len(everyone)))]
    rows = np.flatnonzero(np.isin(others.who, held))
    drawn = draw_pairs(others.who[rows], pairs, rng, f"{others.root}, of whose {len(everyone)} people {len(held)} are")
    return _Drawn(rows[drawn.rows], drawn.same), held


def _pairs_split(people: _People, drawn: _Drawn, size: int, colour: Colour) -> Split:
    """Every picture is read once, in however many pairs it is."""
    used, places = np.unique(drawn.rows, return_inverse=True)
    return Split(people.read(used, size, colour)[places.reshape(drawn.rows.shape)], drawn.same)


def _notes(known: _People, others: _People, held: NDArray[np.str_], drawn: _Drawn, asked: int | str) -> Iterator[str]:
    yield f"tested on {len(drawn.same)} pairs of {len(np.unique(others.who[drawn.rows]))} people"
    if isinstance(asked, int) and len(drawn.same) < asked // 2 * 2:
        yield f"{asked} pairs were asked for, and their pictures give no more"
    twice = np.intersect1d(held, known.who)
    if others is not known and len(twice):
        yield f"{len(twice)} people of {known.root} are in {others.root} too, and left out of training"


# --- pairs: drawn, or of a file ----------------------------------------------------------------------


def draw_pairs(who: NDArray[np.generic], count: int, rng: np.random.Generator, where: str = "this") -> _Drawn:
    """Pairs of rows, in turn of the same person and of different ones, none twice; `who` is on each row.

    The same number of both kinds: `count` in all, or what the rows give. Persons are drawn alike, however many rows
    each has.
    """
    rows_of = [np.flatnonzero(who == person) for person in np.unique(who)]
    several = sum(len(rows) > 1 for rows in rows_of)
    if several < 2:
        raise DataError(
            f"{where} for tests, has {several} of them with two pictures: at least 2 are needed to make pairs, so hold "
            "out more (test) or add pictures."
        )
    sizes = np.array([len(rows) for rows in rows_of])
    different = (sizes.sum() ** 2 - (sizes**2).sum()) // 2
    half = int(min(count // 2, (sizes * (sizes - 1) // 2).sum(), max(1, different // 2)))  # of few, drawing takes long
    of_one, of_two = _of_one_person(rows_of, half, rng), _of_two_persons(rows_of, half, rng)
    return _Drawn(np.stack([of_one, of_two], 1).reshape(-1, 2), np.tile([True, False], half))


def _of_one_person(rows_of: Sequence[_Rows], count: int, rng: np.random.Generator) -> _Rows:
    """A pair of everyone, a second pair of everyone who has one, and so on."""
    piles = []
    for place in rng.permutation(len(rows_of)):
        rows = rng.permutation(rows_of[place])
        first, second = np.triu_indices(len(rows), 1)
        some = rng.permutation(len(first))[:count]
        piles.append(list(zip(rows[first[some]], rows[second[some]], strict=True)))
    dealt = [pair for turn in zip_longest(*piles) for pair in turn if pair is not None]
    return np.array(dealt[:count], dtype=np.int64)


def _of_two_persons(rows_of: Sequence[_Rows], count: int, rng: np.random.Generator) -> _Rows:
    found: dict[tuple[int, int], None] = {}  # in the order in which they were drawn
    while len(found) < count:
        first, second = (int(rng.choice(rows_of[person])) for person in rng.choice(len(rows_of), 2, replace=False))
        found[min(first, second), max(first, second)] = None
    return np.array([*found], dtype=np.int64)


def _found(path: Path, people: _People) -> _Drawn:
    """The pairs of a file as rows of a folder's pictures."""
    numbered: dict[tuple[str, int], list[int]] = {}
    for row, (who, name) in enumerate(zip(people.who.tolist(), people.names, strict=True)):
        number = re.search(r"(\d+)$", PurePosixPath(name).stem)
        if number:
            numbered.setdefault((who, int(number[1])), []).append(row)
    everyone = set(people.who.tolist())

    def row_of(line: int, who: str, number: int) -> int:
        if who not in everyone:
            raise DataError(
                f"{path} names '{who}' in line {line}, of whom {people.root} has no picture: {suggest(who, everyone)}"
            )
        rows = numbered.get((who, number), [])
        if len(rows) != 1:
            raise DataError(
                f"{path} names picture {number} of '{who}' in line {line}, and {people.root} has {len(rows)} such: "
                f"one whose name ends in that number, as {who}_{number:04}.jpg, is needed."
            )
        return rows[0]

    listed = read_pairs(path)
    rows = [[row_of(pair.line, *pair.first), row_of(pair.line, *pair.second)] for pair in listed]
    return _Drawn(np.array(rows, dtype=np.int64), np.array([pair.same for pair in listed]))


@dataclass(frozen=True)
class Pair:
    """Two pictures, each a person and a number, and the line of the file that says so."""

    line: int
    first: tuple[str, int]
    second: tuple[str, int]

    @property
    def same(self) -> bool:
        return self.first[0] == self.second[0]


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of a file in the form of LFW's pairs.txt, whose first line may say how many there are."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise DataError(f"there is no file of pairs {path}: check the path, or give a number of pairs.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as a file of pairs ({error}): give it as text.") from error
    told = lines[0].split() if lines else []
    header = bool(told) and len(told) <= 2 and all(word.isdecimal() for word in told)
    found = [_pair(path, at, line) for at, line in enumerate(lines, 1) if line.strip() and not (header and at == 1)]
    promised = 2 * math.prod(map(int, told)) if header else len(found)
    if len(found) != promised:
        raise DataError(
            f"{path} has {len(found)} pairs, and its first line promises {promised} (of each kind one half): "
            "fetch it again, or leave that line out."
        )
    if len({pair.same for pair in found}) < 2:
        raise DataError(
            f"{path} has {len(found)} pairs, all of one kind or none: pairs of the same person and of two are needed."
        )
    return found


def _pair(path: Path, at: int, line: str) -> Pair:
    """A line is ``name n1 n2`` or ``name1 n1 name2 n2``, between tabs where names have spaces."""
    match [cell.strip() for cell in line.split("\t" if "\t" in line else None)]:
        case [who, one, two] if one.isdecimal() and two.isdecimal() and int(one) != int(two):
            return Pair(at, (who, int(one)), (who, int(two)))
        case [who, one, whom, two] if one.isdecimal() and two.isdecimal() and who != whom:
            return Pair(at, (who, int(one)), (whom, int(two)))
    raise DataError(
        f"{path} has '{line.strip()[:60]}' in line {at}: two pictures of one person (name n1 n2) or of two "
        "(name1 n1 name2 n2) are needed."
    )


# --- generated ---------------------------------------------------------------------------------------

_SPOTS = 6


def synthetic_faces(
    identities: Annotated[int, Ge(4)] = 100,
    pictures: Annotated[int, Ge(2)] = 20,
    size: Annotated[int, Ge(8)] = 32,
    test: TestShare = 0.2,
    pairs: PairCount = 1000,
    seed: Seed = 0,
) -> Dataset:
    """Generated people: six soft spots whose places, widths and brightness are a person's own, as pictures in grey.

    Each picture is moved by up to a tenth of its side, lit from a side of its own and noisy. Light differs more than
    people do, so that pixels alone do not tell who is who; what spots are can be learnt from other people. A share of
    the people is held out for the `test`: pairs of their pictures, half of them of the same person.
    """
    rng = np.random.default_rng([seed, 1998])
    held = max(2, round(test * identities))
    if identities - held < 2:
        raise DataError(
            f"synthetic-faces of {identities} people with {held} for tests leaves {identities - held} to train on: at "
            "least 2 are needed, so take more identities or a smaller test."
        )
    who = np.repeat(np.arange(identities), pictures)
    x = _photographed(_spots(identities, rng), who, size, rng)
    known = who < identities - held
    drawn = draw_pairs(who[~known], pairs, rng)
    return Dataset(
        "synthetic-faces",
        Split(x[known], who[known]),
        Split(x[~known][drawn.rows], drawn.same),
        tuple(f"person {number}" for number in range(identities - held)),
        "generated, no rights reserved",
        (f"tested on {len(drawn.same)} pairs of {held} people who are not trained on",),
        _DEFAULTS,
        "verification",
    )


def _spots(people: int, rng: np.random.Generator) -> Mapping[str, NDArray[np.float64]]:
    """Of each person and spot: where it is in the picture's square from 0 to 1, how wide, and how bright."""
    angle = 2 * np.pi * np.arange(_SPOTS) / _SPOTS
    shape = (people, _SPOTS)
    return {
        "x": 0.5 + 0.25 * np.cos(angle) + rng.normal(0, 0.05, shape),
        "y": 0.5 + 0.25 * np.sin(angle) + rng.normal(0, 0.05, shape),
        "width": 0.09 * np.exp(rng.normal(0, 0.35, shape)),
        "light": rng.normal(0, 0.5, shape),
    }


def _photographed(spots: Mapping[str, NDArray[np.float64]], who: _Rows, size: int, rng: np.random.Generator) -> Pixels:
    """A picture ``[1, size, size]`` of everyone in `who`."""
    count = len(who)
    moved = rng.uniform(-0.1, 0.1, (2, count, 1, 1))
    slope = rng.normal(0, 0.5, (2, count, 1, 1))  # of the light, from one side of a picture to the other
    gain, ground = rng.uniform(0.6, 1.4, (count, 1, 1)), rng.normal(0.5, 0.1, (count, 1, 1))
    side = (np.arange(size) + 0.5) / size
    x, y = side[None, None, :], side[None, :, None]
    face = np.zeros((count, size, size))
    for spot in range(_SPOTS):
        at = {key: value[who, spot][:, None, None] for key, value in spots.items()}
        away = (x - at["x"] - moved[0]) ** 2 + (y - at["y"] - moved[1]) ** 2
        face += at["light"] * np.exp(-away / (2 * at["width"] ** 2))
    lit = ground + 0.6 * gain * face + slope[0] * (x - 0.5) + slope[1] * (y - 0.5)
    seen: Pixels = np.rint(255 * (lit + rng.normal(0, 0.05, face.shape)).clip(0, 1)).astype(np.uint8)
    return seen[:, None]
