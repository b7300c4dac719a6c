"""Pictures of people: folders, LFW's files of pairs, the generated set; and nobody is both trained and tested on."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from silobench.data import Dataset, load
from silobench.data.readers.faces import Pair, draw_pairs, identities, read_pairs, synthetic_faces
from silobench.errors import DataError, SpecError

Album = Callable[..., Path]


@pytest.fixture
def album(tmp_path: Path) -> Album:
    """(name, pictures of each person) -> a folder of these; a picture's only colour tells who and which it is."""

    def make(name: str, **people: int) -> Path:
        for who, count in people.items():
            folder = tmp_path / name / who
            folder.mkdir(parents=True)
            for number in range(1, count + 1):
                grey = shade(who, number)
                Image.new("L", (12, 10), grey).save(folder / f"{who}_{number:04}.png")
        return tmp_path / name

    return make


def shade(who: str, number: int) -> int:
    return 20 * (ord(who[0].lower()) - ord("a")) + number


def shades(data: Dataset) -> list[tuple[int, int]]:
    return [(int(first.max()), int(second.max())) for first, second in data.test.x]


# --- folders -----------------------------------------------------------------------------------------


def test_some_people_are_held_out_and_the_rest_are_the_classes(album: Album) -> None:
    root = album("people", ann=4, bob=3, cid=5, dan=4, eve=2, fay=4)
    for seed in range(5):
        data = identities(str(root), test=0.5, size=8, colour="grey", seed=seed)
        assert (data.task, data.shape, len(data.classes)) == ("verification", (1, 8, 8), 3)
        assert data.test.x.shape[1:] == (2, 1, 8, 8)
        assert data.test.y.dtype == np.bool_
        assert data.test.y.mean() == 0.5
        trained, tested = set(data.train.x.max((1, 2, 3)).tolist()), {one for pair in shades(data) for one in pair}
        assert {one // 20 for one in trained}.isdisjoint({one // 20 for one in tested})
        assert {chr(ord("a") + one // 20) for one in trained} == {name[0] for name in data.classes}
        for (first, second), same in zip(shades(data), data.test.y, strict=True):
            assert (first // 20 == second // 20) == same
            assert first != second
    assert "6000 pairs were requested" in " ".join(data.notes)


def test_the_seed_chooses_people_and_pairs(album: Album) -> None:
    root = album("people", **dict.fromkeys("abcdefgh", 4))
    specs = [f"identities(path='{root}', test=0.4, pairs=20, size=8, seed={seed})" for seed in (0, 0, 1)]
    first, again, other = (load(spec).checksum for spec in specs)
    assert first == again != other


def test_groups_come_from_the_pattern(album: Album) -> None:
    album("all/north", ann=3, bob=3)
    root = album("all/south", cid=3, dan=3, eve=3, fay=3).parent
    data = identities(str(root), test=0.34, pattern="{place}/{identity}/*", group="place", size=8)
    assert set(data.train.groups["place"]) <= {"north", "south"}
    assert len(data.classes) == 4


def test_another_folder_is_for_tests_and_who_is_in_both_is_not_trained_on(album: Album) -> None:
    root, others = album("known", ann=3, bob=3, cid=3), album("others", bob=3, dan=3)
    data = identities(str(root), test=str(others), pairs=6, size=8, colour="grey")
    assert data.classes == ("ann", "cid")
    assert {one // 20 for pair in shades(data) for one in pair} == {1, 3}
    assert "1 people of" in data.notes[-1]
    assert "left out of training" in data.notes[-1]


@pytest.mark.parametrize(
    ("people", "options", "said"),
    [
        ({"ann": 3, "bob": 3, "cid": 3}, {"test": 0.3}, "only 1 of the 1 test identities has two pictures"),
        ({"ann": 1, "bob": 1, "cid": 1, "dan": 3}, {"test": 0.5}, "at least 2 are needed to make pairs"),
        ({"ann": 3, "bob": 3, "cid": 3}, {"test": 0.7}, "without the test identities has only the label"),
        ({"ann": 3, "bob": 3}, {"test": 0.99}, "has no labels"),
        ({"ann": 3}, {"test": "nowhere"}, "there is no folder nowhere"),
        ({"ann": 3}, {"pattern": "{who}/*"}, "has no field 'identity'"),
        ({"ann": 3}, {"pairs": "nowhere.txt"}, "there is no file of pairs nowhere.txt"),
    ],
)
def test_what_gives_no_pairs_is_refused(
    album: Album, people: dict[str, int], options: dict[str, str], said: str
) -> None:
    with pytest.raises(DataError, match=said):
        identities(str(album("people", **people)), **options)  # type: ignore[arg-type]


def test_arguments_are_checked(tmp_path: Path) -> None:
    for argument in ("test=1.0", "test=0.0", "pairs=1", "size=2", "seed=-1"):
        with pytest.raises(SpecError):
            load(f"identities(path='{tmp_path}', {argument})")


# --- drawing -----------------------------------------------------------------------------------------


def test_pairs_are_drawn_once_and_evenly_over_people() -> None:
    who = np.repeat(np.arange(8), [2, 3, 4, 5, 6, 7, 30, 60])
    drawn = draw_pairs(who, 80, np.random.default_rng(0))
    assert drawn.same.tolist() == [True, False] * 40
    assert len({tuple(sorted(pair)) for pair in drawn.rows.tolist()}) == 80
    np.testing.assert_array_equal(who[drawn.rows[:, 0]] == who[drawn.rows[:, 1]], drawn.same)
    of_one = Counter(who[drawn.rows[drawn.same, 0]].tolist())
    assert of_one == {0: 1, 1: 3, 2: 6, 3: 6, 4: 6, 5: 6, 6: 6, 7: 6}


@pytest.mark.parametrize("sizes", [[2, 2], [2, 1, 2], [1000, 2, 2], [2] * 40])
def test_as_many_pairs_as_there_are(sizes: list[int]) -> None:
    drawn = draw_pairs(np.repeat(np.arange(len(sizes)), sizes), 2000, np.random.default_rng(0))
    assert 2 <= len(drawn.same) <= 2000
    assert drawn.same.mean() == 0.5


# --- a file of pairs ---------------------------------------------------------------------------------


def pairs_file(folder: Path, *lines: str) -> Path:
    path = folder / "pairs.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_lfws_form_is_read(tmp_path: Path) -> None:
    path = pairs_file(tmp_path, "1\t1", "Ann Lee\t1\t4", "Ann Lee\t2\tBob_Ray\t10")
    assert read_pairs(path) == [Pair(2, ("Ann Lee", 1), ("Ann Lee", 4)), Pair(3, ("Ann Lee", 2), ("Bob_Ray", 10))]
    assert [pair.same for pair in read_pairs(path)] == [True, False]
    for first in ("1", "", None):
        lines = ["A 1 2", "A 1 B 0002"]
        assert len(read_pairs(pairs_file(tmp_path, *([] if first is None else [first]), *lines))) == 2


def test_people_of_a_file_are_held_out_in_its_order(album: Album, tmp_path: Path) -> None:
    root = album("people", ann=3, bob=3, cid=3, dan=3, eve=1)
    path = pairs_file(tmp_path, "bob 1 3", "bob 2 dan 2", "dan 3 1", "eve 1 bob 1")
    data = identities(str(root), pairs=str(path), size=8, colour="grey")
    assert data.classes == ("ann", "cid")
    assert data.test.y.tolist() == [True, False, True, False]
    assert shades(data) == [(21, 23), (22, 62), (63, 61), (81, 21)]
    assert "tested on 4 pairs of 3 people" in data.notes


def test_a_file_of_pairs_of_another_folder(album: Album, tmp_path: Path) -> None:
    root, lfw = album("casia", ann=3, bob=2), album("lfw", cid=2, dan=2, eve=1)
    path = pairs_file(tmp_path, "2", "cid 1 2", "dan 1 2", "cid 1 dan 1", "dan 2 eve 1")
    data = load(f"identities(path='{root}', test='{lfw}', pairs='{path}', size=8, colour=grey)")
    assert (data.classes, len(data.train), len(data.test)) == (("ann", "bob"), 5, 4)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["ann 1 2", "ann 1 bob"], "has 'ann 1 bob' in line 2: two pictures of one person"),
        (["ann 1 x"], "in line 1"),
        (["ann 1 1", "ann 1 bob 1"], "has 'ann 1 1' in line 1"),
        (["ann 1 ann 2"], "has 'ann 1 ann 2' in line 1"),
        (["2 300", "ann 1 2", "ann 1 bob 1"], "has 2 pairs, but its first line announces 1200"),
        (["ann 1 2", "ann 2 3"], "but not of both kinds"),
        ([""], "has 0 pairs, but not of both kinds"),
        (["ann 1 2", "ann 1 zoe 1"], "names 'zoe' in line 2, but .* has no picture"),
        (["ann 1 9", "ann 1 bob 1"], "names picture 9 of 'ann' in line 1, but .* has 0 pictures with that number"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_line(
    album: Album, tmp_path: Path, lines: list[str], said: str
) -> None:
    root, path = album("people", ann=3, bob=3, cid=3, dan=3), pairs_file(tmp_path, *lines)
    with pytest.raises(DataError, match=said):
        identities(str(root), pairs=str(path), size=8)


def test_a_number_that_two_pictures_have_is_refused(album: Album, tmp_path: Path) -> None:
    root = album("people", ann=3, bob=3, cid=3, dan=3)
    Image.new("L", (9, 9)).save(root / "ann" / "1.png")
    with pytest.raises(DataError, match="has 2 pictures with that number"):
        identities(str(root), pairs=str(pairs_file(tmp_path, "ann 1 2", "ann 1 bob 1")), size=8)


def test_a_file_that_is_no_text_is_refused(album: Album, tmp_path: Path) -> None:
    path = tmp_path / "pairs.bin"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="cannot be read as a file of pairs"):
        identities(str(album("people", ann=3, bob=3)), pairs=str(path))


# --- the generated set -------------------------------------------------------------------------------


def test_the_generated_set_is_what_it_was_asked_to_be() -> None:
    data = synthetic_faces(identities=10, pictures=6, size=12, test=0.3, pairs=50)
    assert (data.train.x.shape, data.test.x.shape) == ((42, 1, 12, 12), (50, 2, 1, 12, 12))
    assert data.train.x.dtype == np.uint8
    assert np.bincount(data.train.y).tolist() == [6] * 7
    assert len(data.classes) == 7
    assert data.test.y.mean() == 0.5
    assert len(synthetic_faces(identities=10, pictures=2, test=0.3, pairs=50).test) == 6  # a pair of each, and as many


def test_no_test_picture_is_a_training_picture_and_no_pair_is_twice_the_same() -> None:
    data = load("synthetic-faces(identities=12, pictures=8, size=16, pairs=60)")
    trained = {picture.tobytes() for picture in data.train.x}
    assert len(trained) == len(data.train)
    assert trained.isdisjoint({picture.tobytes() for pair in data.test.x for picture in pair})
    assert not any((first == second).all() for first, second in data.test.x)


def test_it_is_the_same_for_the_same_seed() -> None:
    first, again, other = (synthetic_faces(identities=8, pictures=4, size=8, seed=seed) for seed in (0, 0, 1))
    assert first.checksum == again.checksum != other.checksum


def test_too_few_people_are_refused() -> None:
    with pytest.raises(DataError, match="has 1 for training and 3 for testing: at least 2 are needed"):
        synthetic_faces(identities=4, test=0.8)
