"""Keys, agreements and addresses with which organisations cannot start."""

from wrong_inputs.case import Case, command

_ROWS = "".join(f"{row % 7},{'ab'[row % 2]}\n" for row in range(60))
TABLE = {"t.csv": f"x,y\n{_ROWS}"}
_KEY = "ecdsa-sha2-nistp384 AAAAE2VjZHNhLXNoYTItbmlzdHAzODQAAAAIbmlzdHAzODQAAABhBA=="
_INIT = {"e.toml": "rounds = 1\n", "c.toml": "label = 1\n", "a.pub": f"{_KEY}\n"}
INIT = "silo init e.toml --columns c.toml --silo a=a.pub"

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
    command(INIT.replace("a.pub", "b.pub") + " --host x.org", "ask a for its public key", files=_INIT),
    command(f"{INIT} --host x.org", "one line that starts with ecdsa-sha2-nistp384 is needed", files=_INIT),
    command("silo init e.toml --columns nowhere.toml --silo a=a.pub --host x.org", "nowhere.toml cannot be read",
            files=_INIT),
    command("silo sign nowhere", "nowhere is not a folder of `silobench silo init`: give the one that it wrote."),
    command("silo renew nowhere --host x.org", "nowhere is not a folder of `silobench silo init`"),
    command("silo check nowhere.toml", "nowhere.toml cannot be read (No such file or directory): check the path."),
    command("silo check s.toml", "s.toml has no key name: add it.", files={"s.toml": ""}),
    command("silo serve trial --port 70000", "--port"),
]  # fmt: skip
