"""Secrets of runs: every one that is drawn is noted, and looked for in all that is written and printed."""

import base64
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import call, write
from consortia import NAMES, rehearsal
from silobench.runs.archive import pack, records_of

LEAST = 16  # bytes: shorter values are found by chance, and nonces, which are public, have 12
HORIZONTAL = {
    "pairwise": 'transforms = "secure_sum(protocol=pairwise, range=100)"\n',
    "splits": 'transforms = "secure_sum(splits=2, range=100)"\n',
    "private": 'selection = "poisson"\nparticipation = 0.5\n',
}
TINY = 'dataset = "fcube"\npartition = "octants"\nrounds = 2\n'
SOLVERS = {"private": 'solver = "dp_sgd(lr=0.1, noise=2, epochs=1, batch=64)"\n'}


class Drawn:
    """Every secret that was drawn, as bytes."""

    def __init__(self) -> None:
        self.values: set[bytes] = set()

    def note(self, value: Any) -> None:
        if isinstance(value, bytes) and len(value) >= LEAST:
            self.values.add(value)
        elif isinstance(value, int) and value.bit_length() >= 8 * LEAST:
            self.values.add(value.to_bytes(-(-value.bit_length() // 8)))

    def forms(self) -> Iterator[bytes]:
        """Yield each secret in the ways in which a file may have it."""
        for value in self.values:
            yield from (value, value[::-1], value.hex().encode(), value.hex().upper().encode())
            yield from (base64.b64encode(value)[:-4], base64.urlsafe_b64encode(value)[:-4])
            yield str(int.from_bytes(value)).encode()
            yield str(list(value)).encode()
            yield str(list(value)).replace(" ", "").encode()

    def in_files(self, folder: Path) -> list[Path]:
        """Return the files with a secret."""
        forms = list(self.forms())
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert files
        return [path for path in files if self._has(path.read_bytes(), forms)]

    def in_text(self, text: str) -> bool:
        return self._has(text.encode(), list(self.forms()))

    @staticmethod
    def _has(content: bytes, forms: list[bytes]) -> bool:
        return any(form in content for form in forms)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    """Note what the generators of secrets return, and the primes and scalars that are made of it."""
    noted = Drawn()

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*arguments: Any) -> Any:
            value = function(*arguments)
            noted.note(value)
            return value

        return draw

    urandom = os.urandom
    monkeypatch.setattr(secrets, "token_hex", lambda count: urandom(count).hex())  # names of runs, which are public
    monkeypatch.setattr(os, "urandom", noting(urandom))
    for name in ("token_bytes", "randbits", "randbelow"):
        monkeypatch.setattr(secrets, name, noting(getattr(secrets, name)))
    return noted


def printed(capsys: pytest.CaptureFixture[str], folder: Path, toml: str) -> str:
    """Run an experiment, read it in every way, and return all that was printed."""
    file, runs = write(folder / "e.toml", toml), folder / "runs"
    made = call(capsys, "--debug", "run", file, "--out", runs, "--engine", "inline", "--workers", "1")
    assert made.code == 0, made.err
    replies = [made]
    for command in (["show", runs, "--json"], ["show", runs, "--details"], ["report", runs], ["export", runs]):
        replies.append(call(capsys, *command))
        assert replies[-1].code == 0, replies[-1].err
    pack(records_of(runs), folder / "all.runs.xz")
    return "".join(reply.out + reply.err for reply in replies)


@pytest.mark.parametrize("name", HORIZONTAL)
def test_a_run_writes_none(name: str, drawn: Drawn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, tmp_path, TINY + HORIZONTAL[name] + SOLVERS.get(name, 'solver = "sgd(epochs=1)"\n'))
    assert len(drawn.values) >= 3
    assert drawn.in_files(tmp_path) == []
    assert not drawn.in_text(text)


@pytest.mark.parametrize("scheme", ["paillier", "ckks"])
def test_a_key_holder_writes_no_key(
    scheme: str, drawn: Drawn, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip({"paillier": "gmpy2", "ckks": "tenseal"}[scheme])
    from silobench.privacy.encryption import ckks, paillier

    def note_primes(secret: Any, scheme: Any, p: int, q: int) -> None:
        make_paillier(secret, scheme, p, q)
        for prime in (p, q):
            drawn.note(int(prime))

    def note_context(secret: Any, scheme: Any, context: Any) -> None:
        make_ckks(secret, scheme, context)
        others = {f"save_{name}": False for name in ("public_key", "galois_keys", "relin_keys")}
        whole = context.serialize(save_secret_key=True, **others)
        drawn.note(whole[len(whole) // 2 :][:64])  # the parameters come before the key

    make_paillier, make_ckks = paillier.PaillierSecret.__init__, ckks.CkksSecret.__init__
    monkeypatch.setattr(paillier.PaillierSecret, "__init__", note_primes)
    monkeypatch.setattr(ckks.CkksSecret, "__init__", note_context)
    toml = (
        'dataset = "breast-cancer"\npartition = "columns(by=block)"\nparties = 2\nmodel = "linear"\n'
        f'algorithm = "split(encryption={scheme})"\nrounds = 1\nsolver = "sgd(lr=0.1, batch=512, epochs=1)"\n'
    )
    text = printed(capsys, tmp_path, toml)
    assert drawn.values
    assert drawn.in_files(tmp_path) == []
    assert not drawn.in_text(text)


def test_owners_of_rows_write_no_scalar(drawn: Drawn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Private set intersection: the scalar of an owner would show the keys of the others."""
    rows = range(60)
    write(tmp_path / "a.csv", "id,x,y\n" + "".join(f"k{row},{row % 7},{['no', 'yes'][row % 2]}\n" for row in rows))
    write(tmp_path / "b.csv", "id,z\n" + "".join(f"k{row},{row % 5}\n" for row in rows[:-5]))
    files = f"{tmp_path / 'a.csv'}, {tmp_path / 'b.csv'}"
    toml = (
        f'dataset = "linked(files=[{files}], label=y, key=id, match=psi)"\npartition = "columns(by=owner)"\n'
        'model = "linear"\nalgorithm = "split"\nrounds = 1\n'
    )
    text = printed(capsys, tmp_path, toml)
    assert drawn.values
    assert drawn.in_files(tmp_path) == []
    assert not drawn.in_text(text)


def test_only_a_silo_has_its_secrets(drawn: Drawn, tmp_path: Path) -> None:
    """The server's files and all letters have no key, mask or seed of a silo; the silo's private folder has them."""
    three = rehearsal(tmp_path, transforms="secure_sum(protocol=pairwise, range=100)")
    three.run()
    private = [(tmp_path / name / "key").read_bytes() for name in NAMES]
    assert len(drawn.values) >= 3 * len(NAMES)
    assert drawn.in_files(tmp_path / "runs") == []
    forms = list(drawn.forms())
    contents = [content for _, letter, answer in three.letters for content in (letter, answer or b"")]
    assert len(contents) > 10
    assert not [content for content in contents if Drawn._has(content, forms)]
    for path in (tmp_path / "runs").rglob("*"):
        assert path.is_dir() or not any(key[40:80] in path.read_bytes() for key in private)


def test_a_secret_that_is_written_is_found(drawn: Drawn, tmp_path: Path) -> None:
    for place, form in enumerate((bytes, bytes.hex, base64.b64encode, lambda value: str(int.from_bytes(value)))):
        value = form(os.urandom(32))
        content = value if isinstance(value, bytes) else str(value).encode()
        (tmp_path / str(place)).write_bytes(b"before " + content + b" after")
    assert len(drawn.in_files(tmp_path)) == 4
