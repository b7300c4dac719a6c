"""Folders of a consortium that were changed, damaged, or do not belong to a silo."""

import hashlib

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from wrong_inputs.case import Case

_EXPERIMENT = "rounds = 1\n"
COLUMNS = (
    'version = 1\nkind = "table"\n[label]\nname = "y"\ntask = "classification"\nclasses = ["a", "b"]\n'
    '[[column]]\nkind = "number"\nname = "x"\n'
)
_SILO = 'name = "north"\ndata = "t.csv"\nconsortium = "app"\nkey = "key"\n'


def public_key(number: int) -> str:
    """Return a public key that is the same in every run of this table."""
    public = ec.derive_private_key(number, ec.SECP384R1()).public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


_CONSORTIUM = f"""format = 1
name = "two"
lead = "{public_key(2)}"
quorum = 2
[files]
"experiment.toml" = "{_sha256(_EXPERIMENT)}"
"columns.toml" = "{_sha256(COLUMNS)}"
[[silos]]
name = "north"
key = "{public_key(3)}"
[[silos]]
name = "south"
key = "{public_key(4)}"
"""


def _case(shown: str, expected: str, **files: str) -> Case:
    """Return `silo check` in a folder with some wrong files; an empty text is for one that is missing."""
    names = {"silo": "silo.toml", "consortium": "app/consortium.toml", "signature": "app/consortium.sig"}
    names |= {"experiment": "app/experiment.toml", "columns": "app/columns.toml"}
    right = {"silo": _SILO, "consortium": _CONSORTIUM, "signature": "00\n", "experiment": _EXPERIMENT}
    contents = {**right, "columns": COLUMNS, **files}
    stated = {names[key]: content for key, content in contents.items() if content}
    return Case(f"{shown}; `silobench silo check silo.toml`", ("silo", "check", "silo.toml"), expected, files=stated)


CASES: list[Case] = [
    _case("a folder without consortium.toml", "app/consortium.toml cannot be read", consortium=""),
    _case("a consortium.toml that is not TOML", "cannot be read as TOML", consortium="quorum ="),
    _case("a consortium without a quorum", "has no key quorum: add it.",
          consortium=_CONSORTIUM.replace("quorum = 2\n", "")),
    _case("a quorum of 3 for 2 silos", "has the quorum 3 for 2 silos: lower it.",
          consortium=_CONSORTIUM.replace("quorum = 2", "quorum = 3")),
    _case("two silos with one key", "needs silos with different names and keys",
          consortium=_CONSORTIUM.replace(public_key(4), public_key(3))),
    _case("a key of another kind", "one line that starts with ecdsa-sha2-nistp384 is needed",
          consortium=_CONSORTIUM.replace(public_key(4), "ssh-ed25519 AAAA")),
    _case("an experiment.toml that was changed", "which has another SHA-256: ask the lead", experiment="rounds = 2\n"),
    _case("a columns.toml that was changed", "which has another SHA-256: ask the lead", columns=f"{COLUMNS}\n"),
    _case("a folder that nobody signed", "app/consortium.sig cannot be read", signature=""),
    _case("a signature of something else", "is not the lead's signature of this folder"),
    _case("a silo.toml with an unknown key", "has the key colour, which is not known: remove it.",
          silo=f'{_SILO}colour = "red"\n'),
    _case("a consortium of one silo", "has 1 of [[silos]], but a consortium has at least two: add one.",
          consortium=_CONSORTIUM.rpartition("[[silos]]")[0]),
    _case("a consortium without a name", "has the name '': use letters",
          consortium=_CONSORTIUM.replace('"two"', '""')),
    _case("a wait that never ends", "has seconds.join = inf, but a finite number is needed: change it.",
          consortium=_CONSORTIUM.replace("[files]", "[seconds]\njoin = inf\n[files]")),
    _case("a silo.toml with a text as a number",
          "has limits.max_runs = 'one', but a whole number of at least 1 is needed: change it.",
          silo=f'{_SILO}[limits]\nmax_runs = "one"\n'),
    _case("a silo.toml with a number as a text", "has name = 3, but a text in quotation marks is needed: change it.",
          silo=_SILO.replace('"north"', "3")),
    _case("a silo.toml with a limit of 0 rounds", "limits.max_rounds = 0",
          silo=f"{_SILO}[limits]\nmax_rounds = 0\n"),
]  # fmt: skip
