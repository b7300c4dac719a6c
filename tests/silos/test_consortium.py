"""The agreement: it is pinned by digests and signed, and whatever was changed afterwards is refused."""

import re
from pathlib import Path

import pytest

from consortia import EXPERIMENT, NAMES, rehearsal, toml
from silobench.errors import ConfigError, SilobenchError
from silobench.silos import keys
from silobench.silos.agreement import Agreement
from silobench.silos.consortium import Consortium, sign, write_consortium
from silobench.silos.silo import Silo
from silobench.silos.silo_file import SiloFile, accept


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return rehearsal(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def app(whole, tmp_path: Path) -> Path:
    """A copy of the consortium's folder, to change."""
    folder = tmp_path / "app"
    folder.mkdir()
    for file in (whole.folder / "app").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def test_a_signed_folder_is_read(whole, app: Path) -> None:
    consortium = Consortium.read_signed(app)
    assert consortium.names == NAMES
    assert consortium.digest == whole.consortium.digest
    assert len(consortium.digest) == 64


@pytest.mark.parametrize("name", ["experiment.toml", "columns.toml"])
def test_a_changed_file_is_refused(app: Path, name: str) -> None:
    (app / name).write_text((app / name).read_text() + "\n# harmless\n")
    with pytest.raises(ConfigError, match="has another SHA-256"):
        Consortium.read(app)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("quorum = 2", "quorum = 1"),
        ('name = "west"', 'name = "east"'),
        ("round = 2.0", "round = 3.0"),
        ('"inline"', '"auto"'),
    ],
)
def test_a_change_of_the_agreement_breaks_the_signature(app: Path, old: str, new: str) -> None:
    file = app / "consortium.toml"
    file.write_text(file.read_text().replace(old, new))
    assert Consortium.read(app).digest != ""
    with pytest.raises(ConfigError, match="not the lead's signature"):
        Consortium.read_signed(app)


def test_comments_do_not_change_the_digest(whole, app: Path) -> None:
    file = app / "consortium.toml"
    file.write_text("# a comment\n" + file.read_text())
    assert Consortium.read_signed(app).digest == whole.consortium.digest


def test_only_the_lead_signs(whole, app: Path) -> None:
    with pytest.raises(ConfigError, match="not the lead's key"):
        sign(app, whole.folder / "north" / "key")


def test_a_missing_signature_is_refused(app: Path) -> None:
    (app / "consortium.sig").unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        Consortium.read_signed(app)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("quorum = 2", "quorum = 4", "quorum 4 for 3 silos"),
        ("quorum = 2", "quorum = 0", "greater than or equal to 1"),
        ("quorum = 2", "", "has no key quorum"),
        ("quorum = 2", "quorum = 2\ncolour = 3", "has the key colour, which is not known"),
        ('name = "west"', 'name = "south"', "different names and keys"),
        ('name = "west"', 'name = "../west"', "use letters"),
        ("format = 1", "format = 2", "format = 2"),
        ("ecdsa-sha2-nistp384", "ssh-ed25519", "is not a public key for silos"),
        ("quorum = 2", "quorum =", "cannot be read as TOML"),
    ],
)
def test_a_wrong_agreement_is_refused_in_a_sentence(app: Path, old: str, new: str, reason: str) -> None:
    file = app / "consortium.toml"
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(ConfigError, match=re.escape(reason)):
        Consortium.read(app)


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"dataset": "digits"}, "has the key dataset"),
        ({"partition": "iid"}, "has the key partition"),
        ({"seed": [1, 2]}, "has 2 runs"),
        ({"algorithm": "solo"}, "has no server to ask"),
        ({"algorithm": "combined"}, "has no server to ask"),
        ({"model": "module(path=NET)"}, "a file with code"),
        ({"algorithm": "bsp"}, "every minibatch"),
        ({"algorithm": "fedrep", "model": "mlp(8)"}, "a model of its own"),
        ({"exchange": "gossip"}, "a model of its own"),
        ({"network": "mesh(10Mbps)"}, "messages go through the server"),
        ({"transforms": "secure_sum(splits=2, range=9)"}, "protocol=pairwise"),
        ({"transforms": "secure_sum(protocol=pairwise, range=9)", "participation": 2}, "leave participation out"),
        ({"pace": "buffered(2)"}, "pace"),
        ({"controller": "skewscout"}, "controller"),
        ({"adversary": "sign-flip"}, "adversary"),
        ({"measure": "norms"}, "measure"),
        ({"validation": 0.1}, "validation"),
        ({"objective": "binary(main=auc)"}, "answers to single rows"),
        ({"broadcast": "top_k"}, "broadcast"),
        ({"rounds": 0}, "rounds"),
        ({"nonsense": 1}, "no key 'nonsense'"),
    ],
)
def test_what_silos_cannot_do_is_refused_before_anybody_starts(whole, tmp_path: Path, choices, reason) -> None:
    old = whole.consortium
    silos = {silo.name: silo.key for silo in old.silos}
    net = tmp_path / "net.py"
    net.write_text("from torch import nn\n\ndef net(inputs, outputs):\n    return nn.Linear(inputs, outputs)\n")
    experiment = toml({**EXPERIMENT, **choices}).replace("NET", f"{net}:net")
    consortium = write_consortium(tmp_path / "app", "three", old.lead, silos, experiment, old.columns)
    with pytest.raises(SilobenchError, match=re.escape(reason)) as caught:
        Agreement.of(consortium)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_a_silo_opens_only_what_its_people_accepted(whole, tmp_path: Path) -> None:
    file = whole.silo_file("north")
    text = file.read_text()
    try:
        accept(file, "0" * 64)
        with pytest.raises(ConfigError, match="accepted another one"):
            Silo.open(file)
        accept(file, "")
        with pytest.raises(ConfigError, match="did not accept it yet"):
            Silo.open(file)
        accept(file, whole.consortium.digest)
        whole.open("north")
        assert whole.silos["north"].file.name == "north"
    finally:
        file.write_text(text)


@pytest.mark.parametrize("stated", ["accepted = 'f00'", 'accepted=""', '  accepted = ""  # not yet', ""])
def test_an_acceptance_may_be_written_in_any_form_of_toml(tmp_path: Path, stated: str) -> None:
    file = tmp_path / "silo.toml"
    file.write_text(f'name = "a"\ndata = "a.csv"\nconsortium = "c"\nkey = "key"\n{stated}\n\n[limits]\nmax_runs = 2\n')
    accept(file, "ab12")
    assert (SiloFile.read(file).accepted, SiloFile.read(file).limits.max_runs) == ("ab12", 2)


@pytest.mark.parametrize("stated", ['accepted = """f00"""', "accepted = '''f00'''", '"accepted" = ""'])
def test_an_acceptance_that_cannot_be_replaced_leaves_the_file_whole(tmp_path: Path, stated: str) -> None:
    file = tmp_path / "silo.toml"
    text = f'name = "a"\ndata = "a.csv"\nconsortium = "c"\nkey = "key"\n{stated}\n'
    file.write_text(text)
    with pytest.raises(ConfigError, match='write accepted = "" in its place'):
        accept(file, "ab12")
    assert file.read_text() == text


def test_a_silo_needs_its_own_key_and_name(whole) -> None:
    file = whole.silo_file("north")
    text = file.read_text()
    try:
        file.write_text(text.replace(str(whole.folder / "north" / "key"), str(whole.folder / "west" / "key")))
        with pytest.raises(ConfigError, match="is not the key"):
            Silo.open(file)
        file.write_text(text.replace('name = "north"', 'name = "east"'))
        with pytest.raises(ConfigError, match="has no silo 'east'"):
            Silo.open(file)
        file.write_text(text.replace("max_runs = 1", "max_runs = 0"))
        with pytest.raises(ConfigError, match="max_runs"):
            SiloFile.read(file)
    finally:
        file.write_text(text)


def test_keys_are_private_and_never_overwritten(tmp_path: Path) -> None:
    line = keys.new_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "key.pub").read_text().strip() == line
    assert keys.public_line(tmp_path / "key") == line
    assert keys.fingerprint(line).startswith("SHA256:")
    with pytest.raises(ConfigError, match="never overwritten"):
        keys.new_key(tmp_path / "key")


def test_a_signature_is_for_one_purpose_and_one_content(tmp_path: Path) -> None:
    line, other = keys.new_key(tmp_path / "a"), keys.new_key(tmp_path / "b")
    signature = keys.signed(tmp_path / "a", "join", b"content")
    assert keys.is_signed(line, "join", b"content", signature)
    assert not keys.is_signed(line, "card", b"content", signature)
    assert not keys.is_signed(line, "join", b"content.", signature)
    assert not keys.is_signed(other, "join", b"content", signature)
    assert not keys.is_signed(line, "join", b"content", b"")
