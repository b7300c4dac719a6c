"""Records of many runs in one file: the same bytes back, the same checks as in directories, no trust in the file."""

import json
import lzma
from pathlib import Path

import pytest

from silobench.analysis.cells import collect
from silobench.errors import ConfigError, RecordError
from silobench.runs import archive
from silobench.runs.archive import PUBLISHED_FOLDER, pack, published_files, read_archive, records_of, unpack
from silobench.runs.results import read_results
from silobench.runs.stored import facts_digest, read_runs
from stored import stored

EARLIER = Path(__file__).with_name("earlier") / "runs"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return an archive of two runs, made by hand."""
    for seed in (0, 1):
        stored([0.5, 0.6 + seed / 10], seed, out=tmp_path / "runs")
    pack(records_of(tmp_path / "runs"), tmp_path / "two.runs.xz", "Two runs")
    return tmp_path / "two.runs.xz"


def text_of(file: Path) -> bytes:
    return lzma.decompress(file.read_bytes())


def rewrite(file: Path, text: bytes) -> Path:
    file.write_bytes(lzma.compress(text))
    return file


def test_runs_come_back_byte_for_byte(tmp_path: Path) -> None:
    """Also those of every earlier version, some of which do not state a digest of their facts."""
    file, out = tmp_path / "a.runs.xz", tmp_path / "out"
    finished = [
        path for path in EARLIER.iterdir() if json.loads((path / "run.json").read_text())["status"] == "complete"
    ]
    assert pack(records_of(EARLIER), file) == len(finished) > 10
    assert unpack(file, out) == len(finished)
    for path in finished:
        copy = out / json.loads((path / "run.json").read_text())["id"]
        assert (copy / "rounds.jsonl").read_bytes() == (path / "rounds.jsonl").read_bytes()
        assert json.loads((copy / "run.json").read_text()) == json.loads((path / "run.json").read_text())
    from_file, from_folder = ({run.facts.id: (run.facts, run.rounds) for run in runs} for runs in (
        read_archive(file), read_runs(out)
    ))  # fmt: skip
    assert from_file == from_folder


def test_unpacked_runs_are_not_written_through_a_link(file: Path, tmp_path: Path) -> None:
    (record, _), out, elsewhere = records_of(file), tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (out / record.id).symlink_to(elsewhere)
    with pytest.raises(RecordError, match="is a link"):
        unpack(file, out)
    assert not list(elsewhere.iterdir())


def test_equal_runs_give_equal_bytes(file: Path, tmp_path: Path) -> None:
    unpack(file, tmp_path / "again")
    twice = [*reversed(records_of(tmp_path / "again")), *records_of(file)]
    assert pack(twice, tmp_path / "b.runs.xz", "Two   runs\n") == 2
    assert (tmp_path / "b.runs.xz").read_bytes() == file.read_bytes()


def test_a_file_is_read_in_the_place_of_a_directory(file: Path, tmp_path: Path) -> None:
    results = read_results(file)
    assert [run.path for run in results.runs] == [file / run.facts.id for run in results.runs]
    assert (results.problems, results.unfinished) == ([], 0)
    mean, other = (collect(read_results(root).runs)[0].score for root in (file, tmp_path / "runs"))
    assert mean == other


def test_the_header_is_read_alone(file: Path) -> None:
    header = archive.read_header(file)
    assert (header.name, header.title, header.runs) == ("two", "Two runs", 2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"0.5", b"0.9", "rounds.jsonl is damaged"),
        (b'"seed": 1', b'"seed": 2', "run.json was changed"),
        (b'"runs": 2', b'"runs": 3', "it has 2 of 3 runs"),
        (b'"version": 1', b'"version": 2', "update it"),
        (b"silobench records", b"other records", "no header of silobench"),
        (b'"status": "complete"', b'"status": "running"', "is not a finished run"),
        (b'{"silobench', b'["silobench', "no header of silobench"),
    ],
)
def test_a_changed_text_is_refused(file: Path, old: bytes, new: bytes, message: str) -> None:
    assert old in text_of(file)
    with pytest.raises(RecordError, match=message):
        read_archive(rewrite(file, text_of(file).replace(old, new)))


def test_a_run_that_is_there_twice_is_refused(file: Path) -> None:
    header, _, runs = text_of(file).partition(b"\n")
    with pytest.raises(RecordError, match="is there twice"):
        read_archive(rewrite(file, header + b"\n" + runs + runs))


def with_records(file: Path, records: object, status: str = "complete") -> Path:
    """Return an archive whose first run states another seal, in a description with the right digest."""
    header, first, rest = text_of(file).split(b"\n", 2)
    facts = {**json.loads(first), "records": records, "status": status}
    line = json.dumps({**facts, "facts_sha256": facts_digest(facts)}).encode()
    return rewrite(file, b"\n".join([header, line, rest]))


@pytest.mark.parametrize("size", [-5, "9", None, True, 1e3, 99999999999])
def test_lengths_are_not_trusted(file: Path, size: object) -> None:
    seal = json.loads(text_of(file).split(b"\n")[1])["records"]
    with pytest.raises(RecordError):
        read_archive(with_records(file, {**seal, "bytes": size}))


@pytest.mark.parametrize("records", [None, 3, "all", []])
def test_a_run_that_is_not_finished_may_state_anything_as_its_records(file: Path, records: object) -> None:
    with pytest.raises(RecordError, match="is not a finished run"):
        read_archive(with_records(file, records, "running"))


@pytest.mark.parametrize("cut", [0, 5, 40, -1])
def test_a_cut_file_is_refused(file: Path, cut: int) -> None:
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(RecordError, match="does not hold records of runs"):
        read_archive(file)


def test_a_file_with_more_at_its_end_is_refused(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"more")
    with pytest.raises(RecordError, match="something follows its end"):
        read_archive(file)


def test_a_small_file_does_not_fill_the_memory(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of zeros is a few hundred bytes of xz: what counts is the text, not the file."""
    monkeypatch.setattr(archive, "_SMALL", 100_000)
    with pytest.raises(RecordError, match="its text has more than 100000 bytes"):
        read_archive(rewrite(file, bytes(2**20)))
    size = rewrite(file, bytes(3 * 2**20)).stat().st_size
    monkeypatch.setattr(archive, "_SMALL", 10)
    with pytest.raises(RecordError, match=f"its text has more than {100 * size} bytes"):
        read_archive(file)
    monkeypatch.setattr(archive, "_MOST_UNPACKED", 20)
    with pytest.raises(RecordError, match="its text has more than 20 bytes"):
        read_archive(file)
    monkeypatch.setattr(archive, "_MOST_PACKED", 10)
    with pytest.raises(RecordError, match="it has more than 10 bytes"):
        read_archive(file)


@pytest.mark.parametrize("limit", ["_MOST_UNPACKED", "_MOST_PACKED"])
def test_nothing_is_packed_that_could_not_be_read(
    limit: str, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = records_of(file)
    monkeypatch.setattr(archive, limit, 100)
    with pytest.raises(RecordError, match="2 runs are too many for one file"):
        pack(records, tmp_path / "c.runs.xz")
    assert not (tmp_path / "c.runs.xz").exists()


def test_two_records_of_one_run_are_refused(file: Path, tmp_path: Path) -> None:
    stored([0.5, 0.65], 0, out=tmp_path / "other")
    with pytest.raises(RecordError, match="the same run with different rounds"):
        pack([*records_of(file), *records_of(tmp_path / "other")], tmp_path / "c.runs.xz")
    with pytest.raises(RecordError, match="has other rounds than the run in"):
        unpack(file, tmp_path / "other")
    assert len(list((tmp_path / "other").iterdir())) == 1  # nothing was written


def test_nothing_is_packed_under_another_name(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"written into a file NAME\.runs\.xz"):
        pack(records_of(file), tmp_path / "runs.zip")
    with pytest.raises(RecordError, match="none of these runs is finished"):
        pack([], tmp_path / "d.runs.xz")


def test_no_archive_loses_runs(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    stored([0.5, 0.65], 7, out=tmp_path / "other")
    other = records_of(tmp_path / "other")
    with pytest.raises(RecordError, match=r"two\.runs\.xz exists, and 2 of its 2 runs would be lost: give another"):
        pack(other, file)
    assert file.read_bytes() == before
    assert pack([*records_of(file), *other], file) == 3
    assert len(read_archive(file)) == 3
    file.write_bytes(b"notes of somebody")
    with pytest.raises(RecordError):
        pack(other, file)
    assert file.read_bytes() == b"notes of somebody"


def test_published_studies_are_chosen_by_name(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "PUBLISHED_FOLDER", tmp_path)
    assert published_files() == published_files("t*") == [file]
    assert len(archive.published_runs("two")) == 2
    assert archive.describe_published() == [{"signature": "two", "summary": "Two runs (2 runs)"}]
    with pytest.raises(ConfigError, match=r"no published study has the name 'too': did you mean two\?"):
        published_files("too")


@pytest.mark.parametrize("published", sorted(PUBLISHED_FOLDER.glob("*.runs.xz")), ids=lambda file: file.name)
def test_every_published_study_is_whole(published: Path) -> None:
    assert archive.read_header(published).runs == len(read_archive(published)) > 0
    assert archive.read_header(published).title
