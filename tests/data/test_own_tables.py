"""The user's own CSV and Parquet files: how they are read, and everything that is wrong with them in one sentence."""

import datetime
import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet_files
import pytest

from silobench.data import DATASETS, Dataset, csv, libsvm, load, npz, parquet
from silobench.data.objects import from_pandas
from silobench.data.table.dates import AmbiguousDatesError, date_features, parse_dates
from silobench.data.table.files import read_csv
from silobench.data.table.words import hashed_words, place_and_sign
from silobench.errors import DataError, SilobenchError

WORDS = ["chest", "pain", "fever", "cough", "weak", "tired", "dizzy", "stable", "acute", "old"]


def hospital(rows: int = 1500, decimal: str = ".") -> list[list[str]]:
    """A table like a real one: an identifier, numbers, a category, times, silos, free text and a label."""
    r = random.Random(0)
    table = [["patient id", "age", "pressure", "sex", "admitted", "site", "notes", "outcome"]]
    for i in range(rows):
        when = f"2023-{r.randint(1, 12):02}-{r.randint(1, 28):02} {r.randint(0, 23):02}:{r.randint(0, 59):02}"
        numbers = [str(r.randint(18, 95)), f"{r.gauss(130, 20):.1f}".replace(".", decimal)]
        notes = " ".join(r.choices(WORDS, k=8))
        site = f"site{r.randint(1, 11)}"
        table.append(
            [f"P{i}", *numbers, r.choice(["f", "m", ""]), when, site, notes, r.choice(["alive"] * 5 + ["died"])]
        )
    return table


Read = Callable[..., Dataset]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def read_table(table: list[list[str]], sep: str = ",", encoding: str = "utf-8", **options: Any) -> Dataset:
        path = tmp_path / "t.csv"
        path.write_bytes("\n".join(sep.join(row) for row in table).encode(encoding))
        return csv(str(path), **{"label": "outcome", "group": "site", "drop": "patient id", "text": "notes", **options})

    return read_table


def refused(call: Callable[[], Any], *fragments: str) -> str:
    with pytest.raises(SilobenchError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith((".", "?"))
    assert [part for part in fragments if part not in message] == []
    return message


# --- forms of text -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("sep", "name"), [(";", "semicolon"), ("\t", "tab"), ("|", "bar")])
def test_the_header_shows_the_separator(read: Read, sep: str, name: str) -> None:
    comma, other = read(hospital()), read(hospital(), sep)
    assert comma.checksum == other.checksum
    assert f"columns are separated by a {name}, as the header shows" in other.notes
    assert not any("separated" in note for note in comma.notes)


@pytest.mark.parametrize("sep", [";", "semicolon"])
def test_a_stated_separator_is_used_without_a_note(tmp_path: Path, sep: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b,c;y\n" + "".join(f"{i};{i * i};{i % 2}\n" for i in range(30)))
    dataset = DATASETS.build(f"csv(path={path}, label=y, sep='{sep}')")
    assert dataset.columns == ("a", "b,c")
    assert len(dataset.notes) == 1
    refused(lambda: csv(str(path), label="y", sep="xx"), "sep='xx'", "one character")


def test_an_encoding_is_stated_or_the_error_names_it(read: Read) -> None:
    table = [[cell.replace("fever", "fièvre") for cell in row] for row in hospital()]
    assert len(read(table).train) == 1200
    refused(lambda: read(table, encoding="latin-1"), "byte 0xe8 in line", "encoding=latin-1")
    refused(lambda: read(table, encoding="utf-16"), "UTF-16", "encoding=utf-16")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
def test_other_encodings_give_the_same_dataset(tmp_path: Path, encoding: str) -> None:
    text = "n,wörd,y\n" + "".join(f"{i},{'äé'[i % 2]},{i % 2}\n" for i in range(40))
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    (tmp_path / "b.csv").write_text(text, encoding=encoding)
    one, other = csv(str(tmp_path / "a.csv"), label="y"), csv(str(tmp_path / "b.csv"), label="y", encoding=encoding)
    assert one.checksum == other.checksum
    assert one.columns == other.columns
    assert other.encoder is not None
    assert (other.encoder.read(tmp_path / "b.csv") == one.encoder.read(tmp_path / "a.csv")).all()  # type: ignore[union-attr]
    refused(lambda: csv(str(tmp_path / "a.csv"), label="y", encoding="nonsense"), "unknown encoding")


def test_a_decimal_comma_is_read_as_a_number(read: Read) -> None:
    point, comma = read(hospital()), read(hospital(decimal=","), ";")
    assert point.checksum == comma.checksum == read(hospital(decimal=","), ";", decimal=",").checksum
    assert any("'pressure' has a decimal comma" in note for note in comma.notes)
    as_text = read(hospital(decimal=","), ";", decimal=".")
    assert len(as_text.columns) > 300


def test_a_quoted_decimal_comma_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n,y\n" + "".join(f'"{i},5",{i % 2}\n' for i in range(60)))
    dataset = csv(str(path), label="y")
    assert len(dataset.columns) == 60
    assert dataset.notes == (
        "column 'n' has numbers such as 10,5, which became 60 one-hot columns: decimal=',' reads 10.5",
    )
    assert csv(str(path), label="y", decimal=",").columns == ("n",)
    path.write_text("n,y\n" + "".join(f'"{i},5",{i % 2}\n' for i in range(1200)))
    refused(lambda: csv(str(path), label="y"), "numbers such as 1000,5 in column 'n'", "decimal=',' reads 1000.5")
    path.write_text("n;y\n" + "".join(f"{1 + i % 9},{i:03};{i % 2}\n" for i in range(60)))
    refused(lambda: csv(str(path), label="y"), "such as 1,000", "decimal=',' reads 1 and thousands=',' reads 1000")


def test_a_numeric_label_may_have_a_decimal_comma(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n;y\n" + "".join(f"{i};{i},25\n" for i in range(60)))
    dataset = csv(str(path), label="y")
    assert dataset.task == "regression"
    assert sorted([*dataset.train.y, *dataset.test.y])[:3] == [0.25, 1.25, 2.25]


# --- dates and texts ---------------------------------------------------------------------------------


def test_dates_become_days_month_and_weekday(read: Read) -> None:
    dataset = read(hospital(), scale="none")
    places = [dataset.columns.index(f"admitted ({part})") for part in ("days", "month", "weekday")]
    table = hospital()
    encoder = dataset.encoder
    assert encoder is not None
    x = encoder.encode({name: [row[i] for row in table[1:]] for i, name in enumerate(table[0])})[:, places]
    times = [datetime.datetime.fromisoformat(row[4]) for row in table[1:]]
    first = min(t for t, days in zip(times, x[:, 0], strict=True) if days >= 0)
    assert x[:, 1].tolist() == [t.month for t in times]
    assert x[:, 2].tolist() == [t.weekday() for t in times]
    np.testing.assert_allclose(x[:, 0], [(t - first).total_seconds() / 86400 for t in times], atol=1e-4)
    assert "column 'admitted' has dates and became days, month and weekday" in dataset.notes


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("2024-04-03", "auto"), ("2024/4/3", "auto"), ("2024.04.03", "auto"), ("03.04.2024", "auto"),
        ("03/04/2024", "day-first"), ("04/03/2024", "month-first"), ("3 Apr 2024", "auto"), ("3-April-2024", "auto"),
        ("Apr 3, 2024", "auto"), ("2024-04-03T00:00:00Z", "auto"), ("2024-04-03 02:30:00.5+02:30", "auto"),
    ],
)  # fmt: skip
def test_forms_of_dates(text: str, order: Any) -> None:
    dates = parse_dates([text, ""], order)
    assert dates is not None
    assert (str(dates[0]), str(dates[1])) == ("2024-04-03T00:00:00", "NaT")


def test_what_is_not_a_date() -> None:
    for texts in (["2024-13-01"], ["2024-02-30"], ["12"], ["2024-04-03", "x"], ["13/01/2024", "01/13/2024"]):
        assert parse_dates(texts) is None
    with pytest.raises(AmbiguousDatesError):
        parse_dates(["03/04/2024"])
    assert str(parse_dates(["03/04/2024", "25/04/2024"])[0]) == "2024-04-03T00:00:00"  # type: ignore[index]
    days, _, weekday = date_features(
        np.array(["2024-04-03T12:00", "NaT"], "datetime64[s]"), np.datetime64("2024-04-01")
    )
    assert (days[0], weekday[0], np.isnan(days[1])) == (2.5, 2.0, True)


def test_few_dates_stay_one_hot_unless_they_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n,day,y\n" + "".join(f"{i},2024-01-{1 + i % 28:02},{i % 2}\n" for i in range(300)))
    few = csv(str(path), label="y")
    assert len(few.columns) == 29
    assert "column 'day' looks like dates: dates=day reads days, month and weekday from it" in few.notes
    assert csv(str(path), label="y", dates="day").columns == ("n", "day (days)", "day (month)", "day (weekday)")
    assert len(csv(str(path), label="y", dates=None).columns) == 29
    refused(lambda: csv(str(path), label="y", dates="n"), "'0' in the column of dates 'n'")


def test_words_are_hashed_by_hand(read: Read) -> None:
    dataset = read(hospital(), text_features=16)
    table = hospital()
    columns = {name: [row[i] for row in table[1:]] for i, name in enumerate(table[0])}
    assert dataset.encoder is not None
    x = dataset.encoder.encode(columns)[:, [dataset.columns.index(f"notes#{i}") for i in range(16)]]
    expected = np.zeros(16)
    for word in columns["notes"][0].split():
        place, sign = place_and_sign(word, 16)
        expected[place] += sign
    np.testing.assert_allclose(x[0], expected / np.linalg.norm(expected), atol=1e-6)
    number = int.from_bytes(hashlib.blake2b(b"fever", digest_size=8).digest(), "little")
    assert place_and_sign("fever", 64) == (number // 2 % 64, 1 if number % 2 else -1)
    assert not hashed_words("", 8).any()


def test_a_table_with_only_a_text_is_a_bag_of_words(tmp_path: Path) -> None:
    import silobench as sb

    path = tmp_path / "t.csv"
    path.write_text("words,y\n" + "".join(f"a {'good' if i % 2 else 'bad'} film {i},{i % 2}\n" for i in range(80)))
    dataset = load(f"csv(path={path}, label=y, text=words)")
    assert dataset.shape == (200,)
    assert dataset.vocabulary[:4] == ("<pad>", "<unk>", "a", "film")
    assert dataset.defaults == {"model": "bag"}
    federation = sb.federate(dataset, "iid", parties=2)
    run = sb.rounds(sb.Method(sb.fedavg(), sb.sgd(lr=0.5)), federation, sb.task("bag", dataset), rounds=8)
    assert [record.accuracy for record in run][-1] == 1


# --- many values, and everything that is wrong -------------------------------------------------------


def test_all_columns_that_are_wrong_are_named_at_once(read: Read) -> None:
    table = hospital()
    table[0].append("empty")
    for row in table[1:]:
        row.append("")
    table[7][1] = "inf"
    message = refused(lambda: read(table, drop="sex", text=()), "'inf' in column 'age', line 8")
    assert message.count("1500 different texts") == 2
    assert "drop=[sex, 'patient id', empty]" in message
    assert "text=notes" in message


def test_many_values(read: Read) -> None:
    hashed = read(hospital(), many="hash", drop=())
    assert sum(name.startswith("patient id#") for name in hashed.columns) == 32
    x = hashed.train.x[:, [name.startswith("patient id#") for name in hashed.columns]]
    assert (np.abs(x).sum(1) == 1).all()
    left_out = read(hospital(), many="drop", drop=())
    assert "column 'patient id' with 1500 different texts was left out (many=drop)" in left_out.notes
    assert len(read(hospital(1200), many="onehot", drop=()).columns) > 1200


def test_several_names_in_one_text(read: Read) -> None:
    one, other = read(hospital(), drop=("patient id", "sex")), read(hospital(), drop="patient id, sex")
    assert one.checksum == other.checksum


@pytest.mark.parametrize("role", ["group", "drop", "text", "dates"])
def test_the_label_has_no_other_role(read: Read, role: str) -> None:
    refused(lambda: read(hospital(), **{role: "outcome"}), f"'outcome' as the label and as {role}")


def test_all_unknown_columns_are_named(read: Read) -> None:
    refused(
        lambda: read(hospital(), drop=("a", "b"), group="c"), "no column 'c', 'a' and 'b'", "choose from patient id"
    )


def test_wrong_lines_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    lines = [f"{i},{i % 2}" for i in range(40)]
    lines[3], lines[5], lines[7], lines[9] = "1", "1,2,3", "x", "y"
    path.write_text("n,y\n" + "\n".join(lines))
    refused(
        lambda: csv(str(path), label="y"),
        "has 1 cells in line 5, 3 cells in line 7, 1 cells in line 9 and 1 more but 2 in the header: correct those",
    )


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ('n,t,y\n1,"2,x\n3,4,y\n', "not closed where its cell ends (line 2)"),
        ("n,t,y\n" + '1,"2,x\nn,t,y\n' * 4, "not closed where its cell ends (line 2 and line 6)"),
        ('n,t,y\n1,"a"b,x\n', "not closed where its cell ends (line 2)"),
        ("n,t,y\n1,2,3\n1,\0,3\n", "NUL byte in line 3"),
    ],
)
def test_damaged_text_is_refused(tmp_path: Path, text: str, fragment: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    refused(lambda: csv(str(path), label="y"), fragment)


def test_quotation_marks_inside_a_cell_are_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("t,y\n" + "".join(f'{i % 3}" pipe,{i % 2}\n' for i in range(40)))
    assert csv(str(path), label="y").columns == ('t=0" pipe', 't=1" pipe', 't=2" pipe')


def test_a_cell_longer_than_a_block_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n,t,y\n" + "".join(f"{i},{'x' * 5_000_000 if i == 3 else 'a'},{i % 2}\n" for i in range(30)))
    assert len(csv(str(path), label="y").columns) == 3


def test_labels_that_are_a_few_fractions_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.ones((40, 2)), y=np.array([0.5, 1.5] * 20))
    spec = f"npz(path={tmp_path / 'a.npz'}, task="
    refused(lambda: npz(str(tmp_path / "a.npz")), "0.5 and 1.5", f"{spec}classification) or {spec}regression)")
    assert load(f"{spec}classification)").classes == ("0.5", "1.5")
    (tmp_path / "a.svm").write_text("0.5 1:1\n1.5 1:2\n" * 20)
    refused(lambda: libsvm(str(tmp_path / "a.svm")), "0.5 and 1.5")
    (tmp_path / "a.csv").write_text("n,y\n" + "1,0.5\n2,1.5\n" * 20)
    assert any("predicts it as a number" in note for note in csv(str(tmp_path / "a.csv"), label="y").notes)


def test_archives_that_are_not_npz(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(3))
    (tmp_path / "b.npz").write_text("hello")
    np.savez(tmp_path / "c.npz", x=np.array([{}], dtype=object), y=np.ones(1))
    for name, fragment in (("a.npy", "one array (npy)"), ("b.npz", "not a zip archive"), ("c.npz", "Python objects")):
        assert "allow_pickle" not in refused(lambda name=name: npz(str(tmp_path / name)), name, fragment)


def test_a_header_that_is_longer_than_a_cell_may_be_for_python_is_read(tmp_path: Path) -> None:
    names = [f"gene-{number:05}" for number in range(14_000)]  # 154,000 characters without a semicolon, a tab or a bar
    rows = [",".join(["ab"[row % 2], *[str(row)] * len(names)]) for row in range(10)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(["y", *names]), *rows]))
    assert read_csv(tmp_path / "wide.csv", ["y"], only=["y", "gene-13999"]).columns.keys() == {"y", "gene-13999"}


def test_a_very_long_cell_is_not_repeated_in_a_message(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("y,x\n" + "a,1\nb,2\n" * 20 + f"a,{'9' * 200_000}\n")
    assert len(refused(lambda: csv(str(tmp_path / "t.csv"), "y"), "999...999", "line 42")) < 500


# --- Parquet -----------------------------------------------------------------------------------------


def test_parquet_and_csv_give_the_same_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame(hospital()[1:], columns=hospital()[0]).astype({"age": float, "pressure": float})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    options = {"label": "outcome", "group": "site", "drop": "patient id", "text": "notes"}
    one, other = csv(str(tmp_path / "t.csv"), **options), parquet(str(tmp_path / "t.parquet"), **options)
    assert one.checksum == other.checksum
    assert one.columns == other.columns


def test_types_of_parquet(tmp_path: Path) -> None:
    rows = 60
    frame = pd.DataFrame(
        {
            "whole": pd.array([None if i % 7 == 0 else i for i in range(rows)], dtype="Int32"),
            "flag": [i % 3 == 0 for i in range(rows)],
            "day": [datetime.date(2024, 1, 1) + datetime.timedelta(i) for i in range(rows)],
            "kind": pd.Categorical([i % 3 for i in range(rows)]),
            "lists": [[1, 2]] * rows,
            "y": [i % 2 for i in range(rows)],
            "site": [i % 11 for i in range(rows)],
        },
        index=range(10, 10 + rows),
    )
    frame.to_parquet(tmp_path / "t.parquet")
    path = str(tmp_path / "t.parquet")
    dataset = parquet(path, label="y", group="site", drop="lists")
    assert dataset.columns == (
        "whole",
        "flag",
        "day (days)",
        "day (month)",
        "day (weekday)",
        "kind=0",
        "kind=1",
        "kind=2",
    )
    assert (dataset.classes, dataset.train.groups["site"].dtype) == (("0", "1"), np.int64)
    refused(lambda: parquet(path, label="y"), "column 'lists' has the type list")
    assert load(f"parquet(path={path}, label=y, drop=lists)").name == "t"


def test_texts_of_parquet_must_be_utf8(tmp_path: Path) -> None:
    path, ends = tmp_path / "t.parquet", np.arange(41, dtype=np.int32).tobytes()
    texts = pa.Array.from_buffers(pa.string(), 40, [None, pa.py_buffer(ends), pa.py_buffer(b"\xff" * 40)])
    rows = {"a": np.arange(40.0), "b": texts, "y": np.arange(40) % 2}
    parquet_files.write_table(pa.table(rows), path)
    refused(lambda: parquet(str(path), label="y"), "cannot be read as Parquet", "UTF8")
    assert parquet(str(path), label="y", drop="b").columns == ("a",)
    categories = pd.Categorical([b"\xff", b"b"] * 20)
    pd.DataFrame({**rows, "b": categories}).to_parquet(path)
    refused(lambda: parquet(str(path), label="y"), "column 'b' has the type dictionary", "cannot become features")


def test_files_that_are_not_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("hello")
    refused(lambda: parquet(str(tmp_path / "t.parquet"), label="y"), "cannot be read as Parquet")
    refused(lambda: parquet(str(tmp_path / "none.parquet"), label="y"), "there is no file")
    refused(lambda: load("stays.parquet"), "parquet(path=stays.parquet, label=COLUMN)")
    pd.DataFrame({"a": [], "y": []}).to_parquet(tmp_path / "e.parquet")
    refused(lambda: parquet(str(tmp_path / "e.parquet"), label="y"), "no rows")


def test_new_arguments_do_not_change_earlier_names() -> None:
    assert str(DATASETS.bind("csv(path=a.csv, label=y)").full) == (
        "csv(path=a.csv, label=y, group=[], drop=[], test=0.2, scale=standard)"
    )
    with pytest.raises(DataError):
        load("csv(path=a.csv, label=y)")


# --- paths, roles and identifiers --------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", ["csv(path={}, label=y)", "parquet(path={}, label=y)", "libsvm(path={})", "npz(path={})"]
)
def test_a_path_that_is_not_a_file_is_explained_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("plain").touch()
    for path, problem in (
        (".", ". is a folder, not a file"),
        ("loop", "loop is a link that leads back to itself, so it cannot be followed"),
        ("plain/table", f"there is no file {tmp_path.resolve()}/plain/table"),
    ):
        with pytest.raises(DataError, match=problem) as error:
            DATASETS.build(form.format(path))
        assert "Errno" not in str(error.value)


@pytest.mark.parametrize(
    "form",
    [
        "csv(path='', label=y)", "parquet(path='', label=y)", "libsvm(path='')", "npz(path='')", "images(path='')",
        "identities(path='')",
    ],
)  # fmt: skip
def test_an_empty_path_is_refused(form: str) -> None:
    with pytest.raises(DataError, match="the path is empty: give the path of a file"):
        DATASETS.build(form)


def test_one_line_is_not_lines(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n")
    refused(lambda: csv(str(tmp_path / "t.csv"), label="y"), "has 1 line: a header and at least one row")


def test_a_group_that_is_dropped_is_refused(read: Read) -> None:
    frame = pd.DataFrame({"n": range(40), "city": ["a", "b"] * 20, "y": [0, 0, 1, 1] * 10})
    for call in (
        lambda: read(hospital(), group="site", drop="site"),
        lambda: from_pandas(frame, label="y", group="city", drop=["city"]),
    ):
        refused(call, "as group and as drop: a column has one role")


def test_a_column_of_identifiers_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,n,y\n" + "".join(f"p{i},{i},{i % 2}\n" for i in range(200)))
    dataset = csv(str(path), label="y")
    assert len(dataset.columns) == 201
    assert (
        "column 'id' looks like an identifier: all values differ, so they say nothing about other rows, but they "
        "became 200 features; drop=id leaves it out" in dataset.notes
    )
    path.write_text("id,n,y\n" + "".join(f"p{i // 2},{i},{i % 2}\n" for i in range(200)))
    assert (
        "column 'id' is text ('p0') and became 100 one-hot columns; drop=id leaves it out"
        in csv(str(path), label="y").notes
    )
