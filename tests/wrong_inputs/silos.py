"""Keys, agreements and addresses with which organisations cannot start."""

from wrong_inputs.case import Case, command
from wrong_inputs.consortia import COLUMNS, public_key

_ROWS = "".join(f"{row % 7},{'ab'[row % 2]}\n" for row in range(60))
TABLE = {"t.csv": f"x,y\n{_ROWS}"}
_NOT_A_KEY = "ecdsa-sha2-nistp384 AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBA=="
_INIT = {
    "e.toml": "rounds = 1\n", "c.toml": COLUMNS, "a.pub": f"{public_key(3)}\n", "b.pub": f"{public_key(4)}\n",
    "wrong.pub": f"{_NOT_A_KEY}\n", "key": "-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n",
    "empty.toml": "", "bad.toml": "rounds = [", "long.toml": "rounds = 10000000000000000000000\n",
}  # fmt: skip
INIT = "silo init e.toml --columns c.toml --silo a=a.pub"
TWO = f"{INIT} --silo b=b.pub --host x.org"

CASES: list[Case] = [
    command("silo columns nowhere.csv --label y", "nowhere.csv"),
    command("silo columns t.csv --label z", "z", files=TABLE),
    command("silo key north --data nowhere.csv", "nowhere.csv"),
    command("silo key north/pole --data t.csv", "a silo cannot be called 'north/pole': use letters",
            files=TABLE),
    command("silo key north --data t.csv", "exists already, and a private key is never overwritten",
            files={**TABLE, "silo/key": "mine"}),
    command(INIT.replace("a=a.pub", "a.pub") + " --host x.org", "--silo a.pub cannot be read: write NAME=FILE.pub",
            files=_INIT),
    command(INIT.replace("a.pub", "d.pub") + " --host x.org", "ask a for its public key", files=_INIT),
    command(INIT.replace("a.pub", "wrong.pub") + " --host x.org",
            "wrong.pub is not a public key for silos: one line that starts with ecdsa-sha2-nistp384 is needed",
            files=_INIT),
    command(INIT.replace("a.pub", "key") + " --host x.org",
            "key is a private key, which must stay with its owner: one line", files=_INIT),
    command(f"{INIT} --host x.org", "--silo names a only, but a consortium has at least two: give another.",
            files=_INIT),
    command(f"{INIT} --silo b=a.pub --host x.org", "--silo b=a.pub has the same key as a: each silo needs a key",
            files=_INIT),
    command(f"{INIT} --silo b/c=b.pub --host x.org", "a silo cannot be called 'b/c'; use letters", files=_INIT),
    command(f"{TWO} --quorum 3", "--quorum 3 is more than the 2 silos: lower it.", files=_INIT),
    command(f"{TWO} --name ../x", "--name '../x' cannot be the name of a consortium: use letters", files=_INIT),
    command(f"{TWO} --engine ray", "the engine ray sends rows to other machines, but a silo trains in its own process",
            files=_INIT),
    command(TWO.replace("e.toml", "empty.toml"), "empty.toml states nothing: write at least the model", files=_INIT),
    command(TWO.replace("e.toml", "bad.toml"), "bad.toml cannot be read as TOML", files=_INIT),
    command(TWO.replace("e.toml", "long.toml"), "but silos agree on at most 1000000: lower it.", files=_INIT),
    command(TWO.replace("c.toml", "bad.toml"), "bad.toml is not TOML", files=_INIT),
    *(command(f"{TWO} --{wait}-seconds {value}",
              f"--{wait}-seconds must be a number of at least 0.1 and at most 2592000.0, but '")
      for wait, value in (("round", "nan"), ("join", "inf"), ("grace", "1e400"), ("round", "0"))),
    command(INIT, "write `silobench silo init FILE.toml --columns COLUMNS --silo NAME=FILE.pub --host HOST`."),
    command("silo start s.toml", "write `silobench silo start SILO.toml --superlink HOST:PORT`."),
    command("silo start s.toml --superlink localhost:999999", "give HOST:PORT, with a port from 1 to 65535."),
    command("silo start s.toml --superlink localhost", "--superlink localhost is not the address of a server"),
    command("silo columns t.csv --label y", "columns.toml exists already: name another file with --out, or replace",
            files={**TABLE, "columns.toml": ""}),
    command("silo init e.toml --columns nowhere.toml --silo a=a.pub --host x.org", "nowhere.toml cannot be read",
            files=_INIT),
    command("silo sign nowhere", "nowhere is not a folder of `silobench silo init`: give the one that it wrote."),
    command("silo renew nowhere --host x.org", "nowhere is not a folder of `silobench silo init`"),
    command("silo check nowhere.toml", "nowhere.toml cannot be read (No such file or directory): check the path."),
    command("silo check s.toml", "s.toml has no key name: add it.", files={"s.toml": ""}),
    command("silo serve trial --port 70000", "--port"),
]  # fmt: skip
