"""A report as a folder of pages and as one file: what is written, replaced, deleted and left alone."""

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from markup import Element, read, table_texts
from silobench.errors import RecordError
from silobench.papers import FINDINGS, collect_cells, paper_pages
from silobench.report.contents import Contents
from silobench.report.pages.partitions import partitions_page
from silobench.report.site import WRITTEN, write_site
from silobench.runs.results import Results
from silobench.runs.stored import StoredRun, read_runs
from stored import cells, columns_of, regression, stored


def study(*more: StoredRun) -> list[StoredRun]:
    """Return runs of two algorithms under two skews, with three trials each."""
    return [
        stored([0.1, 0.5, score + 0.01 * seed], seed, algorithm=algorithm, partition=partition)
        for algorithm, score in (("fedavg", 0.8), ("scaffold", 0.7))
        for partition in ("iid", "label-count(k=1)")
        for seed in range(3)
    ] + list(more)


def unfinished(**choices: object) -> StoredRun:
    run = stored([0.2, 0.3], 9, **choices)  # type: ignore[arg-type]
    return replace(run, facts=replace(run.facts, status="running", id="0123456789abcdef"))


def with_ids(runs: Sequence[StoredRun]) -> list[StoredRun]:
    """Return runs with ids that are names of files, as stored ones have."""
    return [replace(run, facts=replace(run.facts, id=f"{place:016x}")) for place, run in enumerate(runs)]


def write(runs: Sequence[StoredRun], path: Path, **more: object) -> Path:
    found = collect_cells(runs)
    results = Results(list(runs), [])
    return write_site(results, path, "My study", cells=found, findings=FINDINGS, more=paper_pages(found), **more)  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "report"
    write([*with_ids(study()), unfinished(algorithm="fednova")], folder)
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, Element]:
    return {str(file.relative_to(site)): read(file.read_text()) for file in site.rglob("*.html")}


# --- every page ---------------------------------------------------------------------------------------


def test_every_page_is_well_formed_and_has_landmarks_in_order(pages: dict[str, Element]) -> None:
    assert len(pages) == 7 + 13  # overview, curves, partitions, cost, statistics, claims, runs; and a page per run
    for name, root in pages.items():
        assert len(list(root.each("h1"))) == 1, name
        levels = [int(one.tag[1]) for one in root.everything() if re.fullmatch("h[1-6]", one.tag)]
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), (name, levels)
        assert [len(list(root.each(tag))) for tag in ("main", "nav", "footer")] == [1, 1, 1], name
        assert root.of_class("skip")[0].attributes["href"] == "#content"
        current = [one for one in root.each("a") if one.attributes.get("aria-current") == "page"]
        assert len(current) == 1, name


def test_every_link_leads_to_a_file_of_the_site(site: Path, pages: dict[str, Element]) -> None:
    for name, root in pages.items():
        links = [one.attributes["href"] for tag in ("a", "link") for one in root.each(tag)]
        links += [one.attributes["src"] for one in root.each("script") if "src" in one.attributes]
        for link in links:
            if not link.startswith(("#", "data:")):
                assert (site / name).parent.joinpath(link).is_file(), (name, link)


def test_pages_forbid_the_network_and_have_no_code_in_attributes(pages: dict[str, Element]) -> None:
    for root in pages.values():
        (policy,) = [one for one in root.each("meta") if "http-equiv" in one.attributes]
        assert "default-src 'none'" in policy.attributes["content"]
        assert "connect-src 'none'" in policy.attributes["content"]
        for one in root.everything():
            assert not any(name.startswith("on") for name in one.attributes), one.attributes
            assert not any("://" in value for key, value in one.attributes.items() if key in ("src", "href"))


def test_no_empty_columns_and_captions_everywhere(pages: dict[str, Element]) -> None:
    for name, root in pages.items():
        for table in root.each("table"):
            assert next(table.each("caption"), None) is not None
            rows = table_texts(table)
            for column in rows[0]:
                assert any(row[column] for row in rows) or next(table.each("tfoot"), None), (name, column)


# --- what pages say -----------------------------------------------------------------------------------


def test_the_overview_begins_with_the_answer_and_ends_with_provenance(pages: dict[str, Element]) -> None:
    (article,) = pages["index.html"].each("article")
    first = [one for one in article.everything() if one.tag in ("p", "h2")]
    assert "tie" in first[0].text or "is best" in first[0].text
    warnings = [one.text for one in article.of_class("warning")]
    assert warnings == ["1 run is not finished and not in these numbers."]
    assert [one.text for one in article.each("h2")][-1] == "Provenance"
    rows = table_texts(next(article.each("table")))
    assert rows[0]["fedavg"].startswith("70.0 ± 1.0") or rows[0]["fedavg"].startswith("81.0 ± 1.0")


def test_pages_name_the_command_of_an_option(tmp_path: Path) -> None:
    """A reader of a page is not at a command line: an option never stands there without its command."""
    final = {"parties": {str(party): {"rows": 10, "own": 0.5 + party / 100, "all": 0.5} for party in range(40)}}
    runs = [stored([0.5], 0, [{"final": final}], algorithm=name) for name in ("ditto", "fedavg")]
    folder = write(with_ids(runs), tmp_path / "report").parent
    texts = [
        re.sub(r"<script.*?</script>|<style.*?</style>|<code.*?</code>|`[^`<]*`", "", file.read_text(), flags=re.DOTALL)
        for file in folder.glob("*.html")
    ]
    assert [option for text in texts for option in re.findall(r"(?<![-\w!])--[a-z][^<]*", text)] == []
    overview = (folder / "index.html").read_text()
    assert "three trials or more give a spread (`trials = 3` in the experiment, or" in overview
    assert "`silobench show DIR --parties` lists the parties." in overview


def test_an_unfinished_run_is_listed_with_its_curve(pages: dict[str, Element]) -> None:
    rows = {row["run"]: row for row in table_texts(next(pages["runs.html"].each("table")))}
    assert rows["0123456789abcdef"]["state"] == "2 of 2 rounds"
    assert "Not finished" in [one.text for one in pages["curves.html"].each("h2")]
    assert "not finished: 2 of 2 rounds" in pages["runs/0123456789abcdef.html"].text


def test_the_page_of_a_run_has_its_configuration_and_command(site: Path, pages: dict[str, Element]) -> None:
    root, toml = pages["runs/0000000000000000.html"], (site / "runs/0000000000000000.toml").read_text()
    command, shown = (one.text for one in root.each("pre"))
    (heading,) = root.each("h1")
    assert next(root.each("title")).text.startswith(f"{heading.text} · ")
    assert command == "silobench run 0000000000000000.toml --out runs/again"
    assert shown.split() == toml.split()
    assert 'algorithm = "fedavg"' in toml
    (rounds,) = root.each("table")
    assert [row["round"] for row in table_texts(rounds)] == ["1", "2", "3"]


def test_pages_without_content_do_not_exist(site: Path, tmp_path: Path) -> None:
    for name in ("privacy.html", "vertical.html", "decentralised.html", "measures.html"):
        assert not (site / name).exists(), name
    write(with_ids([stored([0.5, 0.6], seed, exchange="gossip(graph=ring)") for seed in range(2)]), tmp_path / "a")
    assert (tmp_path / "a/decentralised.html").exists()
    write(
        with_ids([stored([0.5, 0.6], 0, vertical=columns_of("bank", "shop"), partition="columns", parties=2)]),
        tmp_path / "b",
    )
    assert (tmp_path / "b/vertical.html").exists()


def test_a_class_that_is_markup_is_shown_as_text(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    facts = {"name": evil, "classes": [evil, "b"], "notes": [evil]}
    runs = with_ids(
        [stored([0.5, 0.6], seed, dataset_facts=facts, algorithm=name) for seed in range(2) for name in ("a", "b")]
    )
    write(runs, tmp_path / "report")
    write(runs, tmp_path / "one.html")
    for file in tmp_path.rglob("*.html"):
        assert evil not in file.read_text(), file
        root = read(file.read_text())
        assert not any(one.text.startswith("alert") for one in root.each("script"))
    assert evil in read((tmp_path / "report/index.html").read_text()).text


def test_errors_are_shown_in_their_unit(tmp_path: Path) -> None:
    runs = [
        regression([20.0, error + 0.1 * seed], seed, algorithm=name)
        for seed in range(3)
        for name, error in (("fedavg", 8.0), ("scaffold", 5.0))
    ]
    write(with_ids(runs), tmp_path / "report")
    root = read((tmp_path / "report/index.html").read_text())
    assert "MAE" in [one.text for one in root.each("h2")]
    assert "years" in root.of_class("answer")[0].text


# --- one file -----------------------------------------------------------------------------------------


def test_one_file_has_everything_inside(tmp_path: Path) -> None:
    first = write(with_ids(study()), tmp_path / "report.html")
    assert contents(tmp_path).keys() == {"report.html"}
    root = read(first.read_text())
    names = {one.attributes.get("id", "") for one in root.everything()}
    for link in root.each("a"):
        assert link.attributes["href"].startswith("#")
        assert link.attributes["href"][1:] in names, link.attributes
    assert all(link.attributes["href"].startswith("data:") for link in root.each("link"))
    assert all("src" not in one.attributes for one in root.each("script"))
    (policy,) = [one.attributes["content"] for one in root.each("meta") if "http-equiv" in one.attributes]
    inline = [one for one in root.each("script") if "type" not in one.attributes], list(root.each("style"))
    parts = re.search("script-src ([^;]*);.*style-src ([^;]*)", policy)
    assert parts is not None
    assert [part.count("'sha256-") for part in parts.groups()] == [len(set(map(str, one))) for one in inline]
    levels = [int(one.tag[1]) for one in root.everything() if re.fullmatch("h[1-6]", one.tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


# --- files --------------------------------------------------------------------------------------------


def test_the_same_runs_give_the_same_bytes(site: Path, tmp_path: Path) -> None:
    write([*with_ids(study()), unfinished(algorithm="fednova")], tmp_path / "again")
    assert contents(tmp_path / "again") == contents(site)


def test_a_report_that_is_written_again_has_no_stale_pages(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    write([*with_ids(study()), unfinished(algorithm="fednova")], folder)
    assert (folder / "runs/0123456789abcdef.toml").exists()
    write(with_ids(study()), folder)
    write(with_ids(study()), tmp_path / "fresh")
    assert contents(folder) == contents(tmp_path / "fresh")


def test_foreign_files_stay(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    write([*with_ids(study()), unfinished()], folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "runs/own.html").write_text("mine")
    write(with_ids(study()), folder)
    assert (folder / "notes.txt").read_text() == (folder / "runs/own.html").read_text() == "mine"


def test_a_foreign_file_in_the_way_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text("my home page")
    with pytest.raises(RecordError, match="was not written by `silobench report`"):
        write(with_ids(study()), folder)
    assert contents(folder) == {"index.html": b"my home page"}


def test_a_report_that_another_command_writes_meanwhile_is_no_foreign_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one writes its pages after this one has read the list of them."""
    from silobench.report import site as writer

    folder, real, others = tmp_path / "report", writer._written, 0

    def written(place: Path) -> set[str]:
        nonlocal others
        names, others = real(place), others + 1
        if others == 1:
            write(with_ids(study()[:6]), place)
        return names

    monkeypatch.setattr(writer, "_written", written)
    write(with_ids(study()), folder)
    monkeypatch.undo()
    write(with_ids(study()), tmp_path / "alone")
    assert contents(folder) == contents(tmp_path / "alone")


def test_a_report_waits_for_another_command_but_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from silobench.report import site as writer

    folder = tmp_path / "report"
    monkeypatch.setattr(writer, "_PATIENCE", 0.1)
    with writer._locked(folder), pytest.raises(RecordError, match=r"being written by another process.* with --out\."):
        write(with_ids(study()), folder)
    write(with_ids(study()), folder)
    (folder / ".written-by-silobench.lock").unlink()
    (folder / ".written-by-silobench.lock").symlink_to(tmp_path / "letter")
    with pytest.raises(RecordError, match=r"\.lock is a link"):
        write(with_ids(study()), folder)
    assert not (tmp_path / "letter").exists()


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), NotImplementedError("no flock")])
def test_a_report_needs_no_lock_where_there_can_be_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The folder is read-only, the lock is that of another person, or the file system has no locks."""
    folder = tmp_path / "report"
    write(with_ids(study()[:6]), folder)

    def acquire(lock: FileLock, timeout: float) -> None:
        raise error

    monkeypatch.setattr(FileLock, "acquire", acquire)
    write(with_ids(study()), folder)
    write(with_ids(study()), tmp_path / "alone")
    (folder / ".written-by-silobench.lock").unlink()
    assert contents(folder) == contents(tmp_path / "alone")


def test_one_file_replaces_a_page_of_silobench_and_no_other_file(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    first = write(with_ids(study()), page).read_bytes()
    assert write(with_ids(study()[:6]), page).read_bytes() != first
    for foreign in (b"\n", b"<p>silobench 1.0</p>", b"\xff\x00", b'<meta name="generator" content="sphinx 9">'):
        page.write_bytes(foreign)
        with pytest.raises(RecordError, match=r"report.html exists and is not a page of silobench: choose another"):
            write(with_ids(study()), page)
        assert contents(tmp_path) == {"report.html": foreign}


def test_a_list_of_files_that_leads_elsewhere_deletes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    write(with_ids(study()), folder)
    (tmp_path / "precious.txt").write_text("mine")
    (folder / WRITTEN).write_text(
        json.dumps({"files": ["../precious.txt", str(tmp_path / "precious.txt"), "index.html"]})
    )
    with pytest.raises(RecordError):  # its own pages now look foreign
        write(with_ids(study()), folder)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_a_list_of_files_that_names_folders_deletes_none_of_them(tmp_path: Path) -> None:
    folder = tmp_path / "report"
    write(with_ids(study()), folder)
    before, listing = contents(folder), json.loads((folder / WRITTEN).read_text())
    (folder / "photos").mkdir()
    (folder / WRITTEN).write_text(json.dumps({"files": [*listing["files"], "photos", "runs", ".", "index.html/below"]}))
    write(with_ids(study()), folder)
    assert (folder / "photos").is_dir()
    assert contents(folder) == before


def test_a_report_that_was_cut_off_can_be_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from silobench.report import site as writer

    real, left = writer.replace_atomically, 3

    def stop(path: Path, content: bytes, **options: bool) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        real(path, content, **options)

    monkeypatch.setattr(writer, "replace_atomically", stop)
    with pytest.raises(KeyboardInterrupt):
        write(with_ids(study()), tmp_path / "report")
    monkeypatch.undo()
    write(with_ids(study()), tmp_path / "report")
    assert not list(tmp_path.rglob("*.new"))


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "nowhere/page.html", tmp_path / "file/below"):
        with pytest.raises(RecordError, match="choose another place"):
            write(with_ids(study()), place)


def test_runs_are_read_as_before_beside_their_report(tmp_path: Path) -> None:
    for seed in range(2):
        stored([0.5, 0.6], seed, out=tmp_path)
    before = [run.path for run in read_runs(tmp_path)]
    write(read_runs(tmp_path), tmp_path / "report")
    assert [run.path for run in read_runs(tmp_path)] == before


def test_only_unfinished_runs_have_a_report_and_no_runs_have_none(tmp_path: Path) -> None:
    first = write([unfinished()], tmp_path / "report")
    assert "not finished" in read(first.read_text()).text
    with pytest.raises(RecordError, match="there is no run to report"):
        write([], tmp_path / "other")


def test_cells_alone_are_enough(tmp_path: Path) -> None:
    found = cells(with_ids(study()))
    assert write_site(found, tmp_path / "report").name == "index.html"


def test_a_live_page_may_ask_its_server(tmp_path: Path) -> None:
    root = read(write(with_ids(study()), tmp_path / "report", live=True).read_text())
    (policy,) = [one for one in root.each("meta") if "http-equiv" in one.attributes]
    assert "connect-src 'self'" in policy.attributes["content"]
    assert "data-live" in next(root.each("html")).attributes


@pytest.mark.parametrize(("place", "limit"), [("one.html", "MOST_ALONE"), ("folder", "MOST_PAGES")])
def test_a_report_says_how_many_runs_have_pages(
    place: str, limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("silobench.report.site", "silobench.report.pages.runs"):
        monkeypatch.setattr(f"{module}.{limit}", 2)
    first = write(with_ids(study()), tmp_path / place)
    text = (first if first.name == place else first.with_name("runs.html")).read_text()
    assert "Each of the first 2 runs has a page" in text


def test_partitions_are_in_the_order_of_their_first_runs() -> None:
    names = ("iid", "octants", "iid", "shards", "octants")
    runs = [stored([0.5], partition=name, algorithm=f"fedprox(mu={place})") for place, name in enumerate(names)]
    found = cells(*([run] for run in runs))
    contents = Contents("t", found, runs)
    partitions = [section.table.rows for section in partitions_page(contents).sections if section.table.rows]
    assert [row[0].text for row in partitions[0]] == ["iid", "octants", "shards"]


def test_heatmaps_of_other_numbers_of_parties_have_other_names() -> None:
    """Here the network tells settings apart already, but not partitions."""
    choices = ({"parties": 2, "model": "cnn"}, {"parties": 4, "model": "linear"})
    found = cells(*([stored([0.5], partition=name, **each)] for name in ("iid", "octants") for each in choices))
    drawings = partitions_page(Contents("t", found, [])).sections[0].drawings
    assert [drawing.name for drawing in drawings] == [
        "iid · 2 parties", "iid · 4 parties", "octants · 2 parties", "octants · 4 parties",
    ]  # fmt: skip
