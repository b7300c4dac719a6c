"""Pictures of people for verification: the user's own folders, and a generated dataset.

Training rows are pictures of some people. Test rows are pairs of pictures of other people, half of them of one person.
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
from silobench.data.readers.checks import file_path, unreadable
from silobench.data.readers.image_arrays import Pixels
from silobench.data.readers.image_files import Colour, Size, list_pictures, match_pattern, read_pictures, scaling_note
from silobench.data.readers.user_tables import TestShare, as_names
from silobench.errors import DataError, suggest

PairCount: TypeAlias = Annotated[int, Ge(2)]
Seed: TypeAlias = Annotated[int, Ge(0)]
_Rows: TypeAlias = NDArray[np.int64]

_DEFAULTS = {"model": "face-cnn"}


# --- any folder of people ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _People:
    """The pictures of a folder, sorted, and the person on each."""

    root: Path
    names: list[str]
    persons: NDArray[np.str_]  # [n]
    groups: dict[str, NDArray[np.str_]]

    @classmethod
    def of(cls, root: Path, pattern: str, levels: Sequence[str]) -> "_People":
        names, columns = match_pattern(root, list_pictures(root), pattern, ("identity", *levels))
        return cls(root, names, np.array(columns["identity"]), {level: np.array(columns[level]) for level in levels})

    def read(self, rows: _Rows, size: int, colour: Colour) -> Pixels:
        return read_pictures([self.root / self.names[row] for row in rows], size, colour)


@dataclass(frozen=True)
class _Pairs:
    """Pairs of rows ``[n, 2]``, and whether both rows of a pair show the same person."""

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
    """Pictures of people, one folder per person: train on some people, test on pairs of pictures of other people.

    `test` is the share of people to hold out, or another folder whose people are all for testing. `pairs` is the number
    of test pairs, drawn by `seed`, half of them of one person; or it is a file of pairs in the format of LFW:
    ``name n1 n2`` or ``name1 n1 name2 n2``, where n is the number at the end of a picture's name. Without another
    folder, the people in that file are held out. `pattern` and `group` work as for `images`.
    """
    trained = _People.of(file_path(path), pattern, as_names(group))
    tested = trained if isinstance(test, float) else _People.of(file_path(test), pattern, ())
    test_pairs, held = _choose_pairs(trained, tested, test, pairs, seed)
    train = np.flatnonzero(~np.isin(trained.persons, held))
    y, classes = encode_labels(f"{path} without the test identities", trained.persons[train])
    groups = {level: ids[train] for level, ids in trained.groups.items()}
    return Dataset(
        trained.root.resolve().name,
        Split(trained.read(train, size, colour), y, groups),
        _pairs_split(tested, test_pairs, size, colour),
        classes,
        "the user's own",
        (scaling_note(size), *_notes(trained, tested, held, test_pairs, pairs)),
        _DEFAULTS,
        "verification",
    )


def _choose_pairs(
    trained: _People, tested: _People, test: float | str, pairs: int | str, seed: int
) -> tuple[_Pairs, NDArray[np.str_]]:
    """Return the test pairs, and the people who are left out of training."""
    rng = np.random.default_rng([seed, 2007])
    everyone = np.unique(tested.persons)
    if isinstance(pairs, str):
        listed = _locate_pairs(Path(pairs), tested)
        return listed, np.unique(tested.persons[listed.rows]) if tested is trained else everyone
    held = everyone
    if isinstance(test, float):
        held = rng.permutation(everyone)[: max(1, round(test * len(everyone)))]
    rows = np.flatnonzero(np.isin(tested.persons, held))
    drawn = draw_pairs(tested.persons[rows], pairs, rng, str(tested.root))
    return _Pairs(rows[drawn.rows], drawn.same), held


def _pairs_split(people: _People, pairs: _Pairs, size: int, colour: Colour) -> Split:
    """Read the pictures of all pairs, each picture once."""
    used, positions = np.unique(pairs.rows, return_inverse=True)
    return Split(people.read(used, size, colour)[positions.reshape(pairs.rows.shape)], pairs.same)


def _notes(
    trained: _People, tested: _People, held: NDArray[np.str_], pairs: _Pairs, requested: int | str
) -> Iterator[str]:
    yield f"tested on {len(pairs.same)} pairs of {len(np.unique(tested.persons[pairs.rows]))} people"
    if isinstance(requested, int) and len(pairs.same) < requested // 2 * 2:
        yield f"{requested} pairs were requested, but there are not enough pictures"
    common = np.intersect1d(held, trained.persons)
    if tested is not trained and len(common):
        yield f"{len(common)} people of {trained.root} are also in {tested.root} and were left out of training"


# --- pairs: drawn, or read from a file ---------------------------------------------------------------


def draw_pairs(
    persons: NDArray[np.generic], count: int, rng: np.random.Generator, where: str = "the dataset"
) -> _Pairs:
    """Draw distinct pairs of rows, alternately of one person and of two persons; `persons` has the person of each row.

    There are equally many pairs of both kinds: `count` in total, or fewer if there are not enough rows. Every person is
    equally likely, whatever the number of rows. `where` names the data in errors.
    """
    rows_of = [np.flatnonzero(persons == person) for person in np.unique(persons)]
    several = sum(len(rows) > 1 for rows in rows_of)
    if several < 2:
        raise DataError(
            f"{where}: only {several} of the {len(rows_of)} test identities has two pictures, but at least 2 are "
            "needed to make pairs; hold out more people (test) or add pictures."
        )
    sizes = np.array([len(rows) for rows in rows_of])
    different = (sizes.sum() ** 2 - (sizes**2).sum()) // 2
    half = int(
        min(count // 2, (sizes * (sizes - 1) // 2).sum(), max(1, different // 2))
    )  # at most half of all, because rejection sampling is slow near the end
    same, different_persons = _pairs_of_one_person(rows_of, half, rng), _pairs_of_two_persons(rows_of, half, rng)
    return _Pairs(np.stack([same, different_persons], 1).reshape(-1, 2), np.tile([True, False], half))


def _pairs_of_one_person(rows_of: Sequence[_Rows], count: int, rng: np.random.Generator) -> _Rows:
    """Draw one pair of every person, then a second pair of every person who has one, and so on."""
    pairs_of = []
    for person in rng.permutation(len(rows_of)):
        rows = rng.permutation(rows_of[person])
        first, second = np.triu_indices(len(rows), 1)
        chosen = rng.permutation(len(first))[:count]
        pairs_of.append(list(zip(rows[first[chosen]], rows[second[chosen]], strict=True)))
    pairs = [pair for turn in zip_longest(*pairs_of) for pair in turn if pair is not None]
    return np.array(pairs[:count], dtype=np.int64)


def _pairs_of_two_persons(rows_of: Sequence[_Rows], count: int, rng: np.random.Generator) -> _Rows:
    pairs: dict[tuple[int, int], None] = {}  # a set that keeps the order of drawing
    while len(pairs) < count:
        first, second = (int(rng.choice(rows_of[person])) for person in rng.choice(len(rows_of), 2, replace=False))
        pairs[min(first, second), max(first, second)] = None
    return np.array([*pairs], dtype=np.int64)


def _locate_pairs(path: Path, people: _People) -> _Pairs:
    """Read a file of pairs and find the pictures that it names."""
    numbered: dict[tuple[str, int], list[int]] = {}
    for row, (person, name) in enumerate(zip(people.persons.tolist(), people.names, strict=True)):
        number = re.search(r"(\d+)$", PurePosixPath(name).stem)
        if number:
            numbered.setdefault((person, int(number[1])), []).append(row)
    everyone = set(people.persons.tolist())

    def row_of(line: int, person: str, number: int) -> int:
        if person not in everyone:
            raise DataError(
                f"{path} names '{person}' in line {line}, but {people.root} has no picture of that person: "
                f"{suggest(person, everyone)}"
            )
        rows = numbered.get((person, number), [])
        if len(rows) != 1:
            raise DataError(
                f"{path} names picture {number} of '{person}' in line {line}, but {people.root} has {len(rows)} "
                f"pictures with that number: exactly one, such as {person}_{number:04}.jpg, is needed."
            )
        return rows[0]

    listed = read_pairs(path)
    rows = [[row_of(pair.line, *pair.first), row_of(pair.line, *pair.second)] for pair in listed]
    return _Pairs(np.array(rows, dtype=np.int64), np.array([pair.same for pair in listed]))


@dataclass(frozen=True)
class Pair:
    """Two pictures, each given by a person and a number, and their line in the file."""

    line: int
    first: tuple[str, int]
    second: tuple[str, int]

    @property
    def same(self) -> bool:
        return self.first[0] == self.second[0]


def read_pairs(path: Path) -> list[Pair]:
    """Read a file of pairs in the format of LFW's pairs.txt; its first line may be the number of pairs."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError as error:
        raise DataError(f"there is no file of pairs {path}: check the path, or give a number of pairs.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error, "a file of pairs", "give a text file") from error
    first = lines[0].split() if lines else []
    header = bool(first) and len(first) <= 2 and all(word.isdecimal() for word in first)
    pairs = [_pair(path, n, line) for n, line in enumerate(lines, 1) if line.strip() and not (header and n == 1)]
    expected = 2 * math.prod(map(int, first)) if header else len(pairs)
    if len(pairs) != expected:
        raise DataError(
            f"{path} has {len(pairs)} pairs, but its first line announces {expected} (half of each kind): fetch it "
            "again, or remove that line."
        )
    if len({pair.same for pair in pairs}) < 2:
        raise DataError(
            f"{path} has {len(pairs)} pairs, but not of both kinds: add pairs of one person and pairs of two persons."
        )
    return pairs


def _pair(path: Path, number: int, line: str) -> Pair:
    """Parse a line: ``name n1 n2`` or ``name1 n1 name2 n2``, separated by tabs if names contain spaces."""
    match [cell.strip() for cell in line.split("\t" if "\t" in line else None)]:
        case [person, one, two] if one.isdecimal() and two.isdecimal() and int(one) != int(two):
            return Pair(number, (person, int(one)), (person, int(two)))
        case [person, one, other, two] if one.isdecimal() and two.isdecimal() and person != other:
            return Pair(number, (person, int(one)), (other, int(two)))
    raise DataError(
        f"{path} has '{line.strip()[:60]}' in line {number}: two pictures of one person (name n1 n2) or of two persons "
        "(name1 n1 name2 n2) are needed, so correct it."
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
    """Generated people: grey pictures of six soft spots, whose positions, widths and brightness depend on the person.

    Each picture is shifted by up to a tenth of its side, has its own lighting, and is noisy. The lighting varies more
    than the people do, so comparing pixels is not enough, but the spots can be learnt from other people. `test` is the
    share of people held out; the test rows are pairs of their pictures, half of them of one person.
    """
    rng = np.random.default_rng([seed, 1998])
    held = max(2, round(test * identities))
    if identities - held < 2:
        raise DataError(
            f"synthetic-faces with {identities} people has {identities - held} for training and {held} for testing: "
            "at least 2 are needed, so give more identities or a smaller test."
        )
    persons = np.repeat(np.arange(identities), pictures)
    x = _render(_spots(identities, rng), persons, size, rng)
    train = persons < identities - held
    test_pairs = draw_pairs(persons[~train], pairs, rng)
    return Dataset(
        "synthetic-faces",
        Split(x[train], persons[train]),
        Split(x[~train][test_pairs.rows], test_pairs.same),
        tuple(f"person {number}" for number in range(identities - held)),
        "generated, no rights reserved",
        (f"tested on {len(test_pairs.same)} pairs of {held} people who are not in the training rows",),
        _DEFAULTS,
        "verification",
    )


def _spots(people: int, rng: np.random.Generator) -> Mapping[str, NDArray[np.float64]]:
    """Draw the position (0 to 1), width and brightness of every spot ``[people, spots]``."""
    angle = 2 * np.pi * np.arange(_SPOTS) / _SPOTS
    shape = (people, _SPOTS)
    return {
        "x": 0.5 + 0.25 * np.cos(angle) + rng.normal(0, 0.05, shape),
        "y": 0.5 + 0.25 * np.sin(angle) + rng.normal(0, 0.05, shape),
        "width": 0.09 * np.exp(rng.normal(0, 0.35, shape)),
        "light": rng.normal(0, 0.5, shape),
    }


def _render(spots: Mapping[str, NDArray[np.float64]], persons: _Rows, size: int, rng: np.random.Generator) -> Pixels:
    """Draw a picture ``[1, size, size]`` of every person in `persons`."""
    count = len(persons)
    shift = rng.uniform(-0.1, 0.1, (2, count, 1, 1))
    slope = rng.normal(0, 0.5, (2, count, 1, 1))  # of the lighting, from one side of a picture to the other
    gain, base = rng.uniform(0.6, 1.4, (count, 1, 1)), rng.normal(0.5, 0.1, (count, 1, 1))
    side = (np.arange(size) + 0.5) / size
    x, y = side[None, None, :], side[None, :, None]
    face = np.zeros((count, size, size))
    for spot in range(_SPOTS):
        params = {key: value[persons, spot][:, None, None] for key, value in spots.items()}
        distance = (x - params["x"] - shift[0]) ** 2 + (y - params["y"] - shift[1]) ** 2  # squared
        face += params["light"] * np.exp(-distance / (2 * params["width"] ** 2))
    lit = base + 0.6 * gain * face + slope[0] * (x - 0.5) + slope[1] * (y - 0.5)
    pixels: Pixels = np.rint(255 * (lit + rng.normal(0, 0.05, face.shape)).clip(0, 1)).astype(np.uint8)
    return pixels[:, None]
