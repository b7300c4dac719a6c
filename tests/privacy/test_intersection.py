"""Private set intersection: it is exact, and its messages show numbers of keys, but no key."""

import hashlib
import math
import random
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silobench.errors import DataError
from silobench.privacy import intersection
from silobench.privacy.intersection import PRIME, MaskedKeys, MaskedTwice, Side, hash_to_curve, intersect

GAMES = 300
# A guess by chance is right in GAMES / 2 games, with a deviation of sqrt(GAMES) / 2: six deviations are 2e-9.
MOST_BY_CHANCE = GAMES / 2 + 6 * math.sqrt(GAMES) / 2


def is_square(number: int) -> bool:
    """Euler's criterion, which is slow and simple."""
    return pow(number, (PRIME - 1) // 2, PRIME) == 1


def is_on_curve(point: bytes) -> bool:
    u = int.from_bytes(point, "little")
    return is_square((u**3 + 486662 * u**2 + u) % PRIME)


def points(message: MaskedKeys | MaskedTwice) -> list[bytes]:
    return [message.points[start : start + 32] for start in range(0, len(message.points), 32)]


# --- the result ---------------------------------------------------------------------------------------

KEYS = st.lists(
    st.one_of(
        st.none(),
        st.sampled_from(["", "a", "A", "é", "e\u0301", "ﬁ", "fi", "\ud800", "a\0", "\u200b", "Ω", "\u2126"]),
        st.text(max_size=3),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=60)
@given(KEYS, KEYS)
def test_both_sides_learn_exactly_the_shared_keys(first: list[str | None], second: list[str | None]) -> None:
    normal = [[unicodedata.normalize("NFC", key) for key in keys if key] for keys in (first, second)]
    result = intersect(first, second)
    assert result.shared == tuple(sorted(set(normal[0]) & set(normal[1])))
    for side, keys in enumerate((first, second)):
        assert result.empty[side] == len(keys) - len(normal[side])
        assert result.duplicates[side] == len(normal[side]) - len(set(normal[side]))
        assert len(points(result.messages[side])) == len(points(result.answers[side])) == len(set(normal[side]))


def test_worker_processes_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intersection, "_POOL_POINTS", 0)
    monkeypatch.setattr(intersection, "_CHUNK", 7)
    monkeypatch.setattr(intersection, "cores", lambda: 2)
    counts: list[int] = []
    result = intersect([f"a{i}" for i in range(30)], [f"a{i}" for i in range(20, 60)], counts.append)
    assert set(result.shared) == {f"a{i}" for i in range(20, 30)}
    assert sum(counts) == 2 * (30 + 40)
    assert result.bytes == 32 * 2 * (30 + 40)


def test_points_are_reported_in_parts() -> None:
    counts: list[int] = []
    first, second = [f"a{i}" for i in range(1001)], ["a7", "b"]
    assert intersect(first, second, counts.append).shared == ("a7",)
    assert counts == [1000, 1, 2, 1000, 1, 2]  # both messages, then the answer to each
    assert sum(counts) == intersection.points_of(first, second) == 2 * (1001 + 2)


def test_processes_are_for_many_points_on_several_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_plain(points: int, cores: int) -> bool:
        monkeypatch.setattr(intersection, "cores", lambda: cores)
        with intersection._workers(points) as run:  # no process starts without work
            return run is map

    assert not is_plain(20_000, 2)
    assert is_plain(19_999, 2)
    assert is_plain(20_000, 1)
    monkeypatch.setattr(intersection.multiprocessing.current_process(), "_config", {"daemon": True})
    assert is_plain(20_000, 2)


def test_scripts_need_no_guard(tmp_path: Path) -> None:
    """Worker processes do not run the user's script again."""
    script = tmp_path / "script.py"
    script.write_text(
        "from silobench.privacy import intersection\n"
        "intersection._POOL_POINTS, intersection._CHUNK, intersection.cores = 0, 2, lambda: 2\n"
        "print(intersection.intersect(list('abcdefgh'), list('ghijklmn')).shared)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("('g', 'h')\n", "")


def test_openmined_has_the_same_intersection() -> None:
    psi = pytest.importorskip("private_set_intersection.python")
    first = [f"key {i}é" for i in range(120)]
    second = [f"key {i}é" for i in range(90, 250, 3)]
    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    setup = server.CreateSetupMessage(0.0, len(first), second, psi.DataStructure.RAW)
    places = client.GetIntersection(setup, server.ProcessRequest(client.CreateRequest(first)))
    assert sorted(first[place] for place in places) == list(intersect(first, second).shared)


# --- points -------------------------------------------------------------------------------------------


def test_keys_are_hashed_onto_the_curve() -> None:
    hashes = [hash_to_curve(f"key {i}") for i in range(100)]
    assert all(map(is_on_curve, hashes))
    assert len(set(hashes)) == 100
    assert hash_to_curve("é") == hash_to_curve("e\u0301") != hash_to_curve("e")


def test_a_key_has_the_point_of_earlier_versions() -> None:
    """The first three hashes of this key are no points of the curve."""
    domain = b"silobench private set intersection 1\0"
    tries = [hashlib.sha512(domain + bytes([count, 0, 0, 0]) + b"key 14").digest() for count in range(4)]
    tried = [(int.from_bytes(digest, "little") % PRIME).to_bytes(32, "little") for digest in tries]
    assert [is_on_curve(point) for point in tried] == [False, False, False, True]
    assert hash_to_curve("key 14") == tried[3]
    assert tried[3].hex()[:16] == "7dae3857514fa6c6"


def test_the_symbol_agrees_with_eulers_criterion() -> None:
    rng = random.Random(0)
    numbers = [*range(1, 50), PRIME - 1, *(rng.randrange(1, PRIME) for _ in range(200))]
    assert [intersection._jacobi(number) for number in numbers] == [1 if is_square(n) else -1 for n in numbers]
    assert intersection._jacobi(0) == 0


def _first_off_curve() -> bytes:
    return next(u.to_bytes(32, "little") for u in range(2, 50) if not is_on_curve(u.to_bytes(32, "little")))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (bytes(32), "1 invalid points among 1"),
        (b"".join(u.to_bytes(32, "little") for u in sorted(intersection._SMALL_ORDER)), "4 invalid points among 4"),
        (_first_off_curve(), "1 invalid points among 1"),
        ((PRIME + 9).to_bytes(32, "little"), "1 invalid points among 1"),  # 9, written in another way
        (hash_to_curve("a") * 2, "1 different points"),
        (b"short", "5 bytes"),
    ],
)
def test_invalid_points_are_refused(content: bytes, expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        Side(["a"]).answer(MaskedKeys(content))


def test_messages_come_in_order() -> None:
    side, other = Side(["a", "b"]), Side(["b"])
    with pytest.raises(DataError, match="needs the other side's message first"):
        side.shared(MaskedTwice(b""))
    side.answer(other.message())
    with pytest.raises(DataError, match="second message"):  # a scalar is for one intersection
        side.answer(other.message())
    with pytest.raises(DataError, match="64 are needed, for 2 keys"):
        side.shared(MaskedTwice(bytes(32)))


# --- what messages show -------------------------------------------------------------------------------


def test_scalars_and_orders_are_new_each_time() -> None:
    keys = [f"key {i}" for i in range(40)]
    runs = [intersect(keys, keys) for _ in range(2)]
    sent = [set(points(part)) for run in runs for part in (*run.messages, run.answers[0])]
    assert len(set.union(*sent)) == sum(map(len, sent))  # all points differ, though all keys are the same
    assert all(
        set(points(run.answers[0])) == set(points(run.answers[1])) for run in runs
    )  # but a reader can count these
    orders = [Side(keys).keys for _ in range(3)]
    assert len({tuple(order) for order in [keys, *orders]}) == 4


def shared_places(result: intersection.Intersection) -> list[tuple[int, int]]:
    """Return the places of shared keys in the first messages of both sides, from the answers only."""
    first, second = map(points, result.answers)
    return [(place, second.index(point)) for place, point in enumerate(first) if point in second]


def test_a_reader_of_the_messages_learns_how_many_keys_are_shared() -> None:
    """Answers have equal points for shared keys. No point shows which key it is, though the reader knows all keys."""
    first, second = [f"k{i}" for i in range(60)], [f"k{i}" for i in range(40, 100)]
    results = [intersect(first, second) for _ in range(4)]
    assert [len(shared_places(result)) for result in results] == [len(result.shared) for result in results] == [20] * 4
    assert len({tuple(sorted(shared_places(result))) for result in results}) == 4  # places in orders that are secret
    hashes = {hash_to_curve(key) for key in (*first, *second)}
    for result in results:
        assert not hashes & {point for part in (*result.messages, *result.answers) for point in points(part)}


def test_the_manual_states_what_messages_show() -> None:
    page = (Path(__file__).parents[2] / "docs" / "vertical.md").read_text(encoding="utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| who reads the messages |")]
    _, _, learns, hidden, _ = row.split("|")
    assert "how many are shared" in learns
    assert "shared" not in hidden
    assert "number of shared keys" in " ".join((intersection.__doc__ or "").split())


def first_hash(key: str) -> bytes:
    """The first hash of a key, whether it is on the curve or on the twist: where try-and-increment starts."""
    digest = hashlib.sha512(intersection._DOMAIN + bytes(4) + key.encode()).digest()
    return (int.from_bytes(digest, "little") % PRIME).to_bytes(32, "little")


@dataclass
class View:
    """What an attacker has after an intersection in which it follows the protocol with the one key `m`."""

    attacker: Side
    sent: list[bytes]  # points of the victim's message
    twice: list[bytes]  # the attacker's answer to it
    shared: bytes  # the point of `m` in the victim's answer

    @property
    def place(self) -> int:
        """The place of the shared key in the victim's message."""
        return self.twice.index(self.shared)


def by_comparing(view: View, guesses: list[str]) -> int | None:
    """Compare hashes of the guesses, with and without the attacker's scalar, with all points."""
    for place, guess in enumerate(guesses):
        for hashed in (hash_to_curve(guess), first_hash(guess)):
            if {hashed, intersection._multiples(view.attacker._scalar, [hashed])} & {*view.sent, *view.twice}:
                return place
    return None


def by_the_twist(view: View, guesses: list[str]) -> int | None:
    """Compare the side of the curve of the first hash of each guess with that of the point that is not shared."""
    bit = is_on_curve(view.sent[1 - view.place])
    fits = [place for place, guess in enumerate(guesses) if is_on_curve(first_hash(guess)) == bit]
    return fits[0] if len(fits) == 1 else None


def by_the_order(view: View, guesses: list[str]) -> int | None:
    """Take the smaller guess if the other point comes before that of the shared key."""
    return 1 - view.place


def wins(attack: Callable[[View, list[str]], int | None]) -> int:
    """Return the games that an attack wins, of `GAMES`.

    The victim holds the key `m`, which is shared, and one of two guesses: `a...` or `z...`. Its keys are sorted. The
    attack returns the place of the guess that it takes for the victim's, or None to toss a coin.
    """
    rng, count = random.Random(5), 0
    for game in range(GAMES):
        guesses, secret = [f"a{game}", f"z{game}"], rng.randrange(2)
        victim, attacker = Side(sorted(["m", guesses[secret]])), Side(["m"])
        message = victim.message()
        twice = attacker.answer(message)
        shared = victim.answer(attacker.message())
        assert attacker.shared(shared) == ["m"]
        choice = attack(View(attacker, points(message), points(twice), shared.points), guesses)
        count += (rng.randrange(2) if choice is None else choice) == secret
    return count


@pytest.mark.parametrize("attack", [by_comparing, by_the_twist, by_the_order])
def test_messages_show_nothing_about_other_keys(attack: Callable[[View, list[str]], int | None]) -> None:
    assert GAMES - MOST_BY_CHANCE < wins(attack) < MOST_BY_CHANCE


def test_without_try_and_increment_the_twist_shows_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """In half of the games the guesses are on different sides of the curve, so three quarters are won."""
    monkeypatch.setattr(intersection, "hash_to_curve", first_hash)
    monkeypatch.setattr(intersection, "_is_on_curve", lambda u: True)
    assert wins(by_the_twist) > MOST_BY_CHANCE


def test_without_shuffling_the_order_shows_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Side, "_shuffle", staticmethod(lambda keys: None))
    assert wins(by_the_order) == GAMES


def test_without_a_scalar_hashed_guesses_show_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intersection.secrets, "token_bytes", lambda size: bytes(size))
    assert wins(by_comparing) == GAMES  # both sides have the same scalar
