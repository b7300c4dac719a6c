"""Dataset specs and data files that are wrong, and some that look wrong and are not."""

import io
import re
import zipfile
from typing import Any

import numpy as np

from wrong_inputs.case import Case

CITIES = ("Bern", "Oslo", "Rome")
ROWS = "age,city,y\n" + "".join(f"{20 + i % 37},{CITIES[i % 3]},{'yes' if i % 4 else 'no'}\n" for i in range(60))
X, Y = np.arange(40.0).reshape(20, 2), np.array([0, 1] * 10)
BANK = "id,age,default\n" + "".join(f"{i},{20 + i % 37},{'no' if i % 4 else 'yes'}\n" for i in range(60))
SHOP = "id,spent\n" + "".join(f"{i},{i * 3 % 50}\n" for i in range(79, 19, -1))
SONGS = "title,length,year\n" + "".join(f"Song {i} ({1960 + i}),{100 + i},{1960 + i}\n" for i in range(60))


def _archive(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _array(values: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def _zip(name: str = "x.txt", content: str | bytes = "hello") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(name, content)
    return file.getvalue()


def _length(count: int) -> bytes:
    return count.to_bytes(4, "little")


FILES: dict[str, str | bytes] = {
    # tables
    "rows.csv": ROWS,
    "empty.csv": "",
    "blank.csv": "\n\n\n",
    "header.csv": "age,y\n",
    "one_row.csv": "age,y\n1,2\n",
    "nan.csv": ROWS.replace("20,", "nan,"),
    "large.csv": ROWS.replace("20,", "1e300,"),
    "inf.csv": ROWS.replace("20,", "inf,"),
    "huge.csv": ROWS.replace("20,", "1e400,"),
    "ragged.csv": ROWS + "1,2\n",
    "long.csv": ROWS + "1,2,3,4\n",
    "twice.csv": ROWS.replace("age,city,y", "age,age,y"),
    "nonames.csv": ROWS.replace("age,city,y", ",,y"),
    "noname.csv": ROWS.replace("age,city,y", "age,,y"),
    "one_class.csv": ROWS.replace("no", "yes"),
    "missing_label.csv": ROWS.replace(",yes\n", ",\n", 1),
    "missing_group.csv": ROWS.replace("Rome", "?"),
    "label_only.csv": "y\n" + "a\nb\n" * 10,
    "latin.csv": ROWS.replace("Bern", "Zürich").encode("latin-1"),
    "utf16.csv": ROWS.encode("utf-16"),
    "bom.csv": b"\xef\xbb\xbf" + ROWS.encode(),
    "crlf.csv": ROWS.replace("\n", "\r\n"),
    "nul.csv": ROWS.replace("Bern", "Be\0rn"),
    "binary.csv": bytes(range(256)) * 20,
    "quotes.csv": "a,b,y\n" + '1,"2,x\n' * 60,
    "open_quote.csv": ROWS + '33,"Bern,yes\n',
    "semicolon.csv": ROWS.replace(",", ";"),
    "tab.csv": ROWS.replace(",", "\t"),
    "decimal.csv": "a;b;y\n" + "".join(f"{i},5;{i};{i % 2}\n" for i in range(40)),
    "labels.csv": "x,y\n" + "".join(f"{i},{i / 7}\n" for i in range(40)),
    "space.csv": ROWS.replace("city", "home town"),
    "wide.csv": "y," + ",".join(f"c{i}" for i in range(50)) + "\n" + "".join(f"{c}{',1' * 50}\n" for c in "ab" * 10),
    "html.csv": "<html><body>404</body></html>\n",
    "unicode.csv": ROWS.replace("age", "возраст").replace("yes", "да").replace("no", "нет"),
    # tables of several parties
    "bank.csv": BANK,
    "shop.csv": SHOP,
    "shop_twice.csv": SHOP + "20,1\n20,2\n21,3\n",
    "shop_text.csv": re.sub(r"\n(\d+),", r"\nc\1,", SHOP),
    "shop_far.csv": re.sub(r"\n(\d+),", r"\n9\1,", SHOP),
    "shop_label.csv": SHOP.replace("spent", "default"),
    "shop_none.csv": "id,spent\n",
    "shop_keys.csv": "id\n1\n2\n",
    "shop_empty.csv": "id,spent\n" + "".join(f",{i}\n" for i in range(9)),
    "songs.csv": SONGS,
    "radio.csv": SONGS.replace("year", "plays").replace("length", "stations"),
    # arrays
    "good.npz": _archive(x=X, y=Y),
    "nan.npz": _archive(x=np.where(X == 4, np.nan, X), y=Y),
    "no_y.npz": _archive(x=X),
    "no_x.npz": _archive(y=Y),
    "none.npz": _archive(),
    "short.npz": _archive(x=X, y=Y[:5]),
    "labels.npz": _archive(x=X, y=np.array([0.5, 1.5] * 10)),
    "negative.npz": _archive(x=X, y=np.array([-1, 1] * 10)),
    "text.npz": _archive(x=X, y=np.array(["a", "b"] * 10)),
    "one_class.npz": _archive(x=X, y=Y * 0),
    "scalar.npz": _archive(x=np.array(3.0), y=np.array(1)),
    "empty.npz": _archive(x=np.zeros((0, 2)), y=np.zeros(0, int)),
    "objects.npz": _archive(x=X, y=np.array([{}, []] * 10, dtype=object)),
    "textx.npz": _archive(x=X.astype(str), y=Y),
    "complex.npz": _archive(x=X + 1j, y=Y),
    "dates.npz": _archive(x=X.astype("datetime64[s]"), y=Y),
    "deep.npz": _archive(x=X, y=np.zeros((20, 2, 2))),
    "half.npz": _archive(x_train=X, y_train=Y),
    "shapes.npz": _archive(x_train=X, y_train=Y, x_test=X[:, :1], y_test=Y),
    "hello.npz": "hello",
    "cut.npz": _archive(x=X, y=Y)[:200],
    "array.npy": _array(X),
    "zip.npz": _zip(),
    "complex_y.npz": _archive(x=X, y=Y * 1j),
    "header.npz": _zip("x.npy", _array(X).replace(b"(20, 2)", b"(99, 2)")),
    "bomb.npz": _zip("x.npy", bytes(77_777)).replace(_length(77_777), _length(250_000_000)),
    # LIBSVM
    "good.svm": "".join(f"{i % 2} 1:{i} 2:{i * 2}\n" for i in range(30)),
    "words.svm": "a b c\n",
    "empty.svm": "",
    "half.svm": "".join(f"{i % 2 + 0.5} 1:{i}\n" for i in range(30)),
    "zero.svm": "1 0:1\n0 1:2\n",
    "order.svm": "1 2:1 1:1\n0 1:2\n" * 10,
    "nan.svm": "1 1:nan\n0 1:2\n" * 10,
    "one.svm": "1 1:2\n" * 20,
    "many.svm": "1,2 1:3\n" * 20,
    "negindex.svm": "1 -1:3\n0 1:1\n" * 10,
    "far.svm": "1 2000000000:3\n0 1:1\n" * 10,
    # a folder without pictures
    "folder/readme.txt": "hello",
}


def dataset(spec: str, expected: str, code: int = 2) -> Case:
    """Return a case of a dataset spec, with the files that it names."""
    named = {name: content for name, content in FILES.items() if re.search(rf"\b{name.split('/')[0]}\b", spec)}
    links = {"loop.csv": "loop.csv"} if "loop.csv" in spec else {}
    return Case(f"`{spec}`", ("partition", spec, "iid", "--parties", "2"), expected, code, named, links)


CASES = [
    dataset("csv(path=nowhere.csv, label=y)", "there is no file nowhere.csv: check the path."),
    dataset("csv(path=., label=y)", ". is a folder, not a file: give the path of a file."),
    dataset(
        "csv(path=, label=y)", "label=y)' is not a spec: write name(argument=value, ...), with all brackets closed."
    ),
    dataset("csv(path='', label=y)", "the path is empty: give the path of a file."),
    dataset("csv(label=y)", "csv: missing a required argument: 'path'"),
    dataset("csv(path=rows.csv)", "csv: missing a required argument: 'label'"),
    dataset("csv(path=large.csv, label=y)", "in age that are too large to add up: correct them, or drop the column."),
    dataset("csv", "csv: missing a required argument: 'path'"),
    dataset("csv()", "csv: missing a required argument: 'path'"),
    dataset("csv(rows.csv, y)", "partitioned by iid into 2 parties", code=0),
    dataset("csv(path=rows.csv, label=Y2)", "rows.csv has no column 'Y2': did you mean y?"),
    dataset("csv(path=rows.csv, label=city2)", "rows.csv has no column 'city2': did you mean city?"),
    dataset("csv(path=rows.csv, label='')", "rows.csv has no column '': choose from age, city, y."),
    dataset("csv(path=rows.csv, label=3)", "csv: label must be text, but 3 was given."),
    dataset("csv(path=rows.csv, label=true)", "csv: label must be text, but true was given."),
    dataset("csv(path=rows.csv, label=[y])", "csv: label must be text, but ['y'] was given."),
    dataset("csv(path=rows.csv, label=y, group=town)", "rows.csv has no column 'town': choose from age, city, y."),
    dataset("csv(path=rows.csv, label=y, group=y)", "a column has one role, so leave it out of group."),
    dataset("csv(path=rows.csv, label=y, drop=y)", "a column has one role, so leave it out of drop."),
    dataset(
        "csv(path=rows.csv, label=y, group=city, drop=city)",
        "a column has one role, and a group is not a feature, so leave it out of drop.",
    ),
    dataset(
        "csv(path=rows.csv, label=y, drop=a, b)",
        "drop=a, b)' is not a spec: 'b' has no name; write drop=[a, b] if it is a list.",
    ),
    dataset(
        "csv(path=rows.csv, label=y, drop=age, city)",
        "city)' is not a spec: 'city' has no name; write drop=[age, city] if it is a list.",
    ),
    dataset(
        "csv(path=rows.csv, label=y, drop=age, drop=city)",
        "'csv(path=rows.csv, label=y, drop=age, drop=city)' gives drop twice: give it once.",
    ),
    dataset("csv(path=rows.csv, label=y, drop='age,city')", "only age, city, y: add a column, or drop fewer of them."),
    dataset("csv(path=rows.csv, label=y, drop=[age, city])", "only age, city, y: add a column, or drop fewer of them."),
    dataset("csv(path=rows.csv, label=y, drop=[age, age])", "partitioned by iid into 2 parties", code=0),
    dataset(
        "csv(path=rows.csv, label=y, drop=[nothing])", "rows.csv has no column 'nothing': choose from age, city, y."
    ),
    dataset("csv(path=rows.csv, label=y, test=0)", "csv: test must be greater than 0, but 0 was given."),
    dataset("csv(path=rows.csv, label=y, test=1)", "csv: test must be less than 1, but 1 was given."),
    dataset("csv(path=rows.csv, label=y, test=2)", "csv: test must be less than 1, but 2 was given."),
    dataset("csv(path=rows.csv, label=y, test=much)", "csv: test must be a number, but 'much' was given."),
    dataset("csv(path=rows.csv, label=y, test=0.001)", "both are needed, so give more rows."),
    dataset("csv(path=rows.csv, label=y, test=true)", "csv: test must be a number, but true was given."),
    dataset(
        "csv(path=rows.csv, label=y, scale=fast)",
        "csv: scale must be 'standard', 'group', 'private' or 'none', but 'fast' was given.",
    ),
    dataset(
        "csv(path=rows.csv, label=y, scale=group)",
        "scale=group of rows.csv needs a group column: name it with group=COLUMN.",
    ),
    dataset(
        "csv(path=rows.csv, label=y, task=guess)",
        "csv: task must be 'auto', 'classification' or 'regression', but 'guess' was given.",
    ),
    dataset(
        "csv(path=rows.csv, label=y, task=regression)",
        "task=regression needs finite numbers, so correct it, or leave task out.",
    ),
    dataset(
        "csv(path=rows.csv, label=y, sep=';')", "but a comma separates its header: write sep=comma, or leave sep out."
    ),
    dataset(
        "csv(path=rows.csv, label=y, decimal=',', thousands=',')",
        "decimal and thousands of rows.csv are both ',': they need different marks, so leave one of them out.",
    ),
    dataset(
        "csv(path=rows.csv, label=y, thousands=x)", "csv: thousands must be '', '.', ',' or ' ', but 'x' was given."
    ),
    dataset(
        "csv(path=rows.csv, label=y, separator=ab)",
        "csv has no argument 'separator'",
    ),
    dataset("csv(path=rows.csv, label=y, encoding=klingon)", "klingon): check the path and the encoding."),
    dataset(
        "csv(path=rows.csv, label=y, colour=red)",
        "csv has no argument 'colour'",
    ),
    dataset(
        "csv(path=rows.csv, label=y))",
        "label=y))' is not a spec: write name(argument=value, ...), with all brackets closed.",
    ),
    dataset(
        "csv(path=rows.csv, label=y",
        "label=y' is not a spec: write name(argument=value, ...), with all brackets closed.",
    ),
    dataset("csv(path=rows.csv; label=y)", "label=y)' has two words side by side: quote text that contains spaces."),
    dataset(
        "csv[path=rows.csv, label=y]",
        "label=y]' is not a spec: write name(argument=value, ...), with all brackets closed.",
    ),
    dataset('csv(path="rows.csv, label=y)', "'csv(path=\"rows.csv, label=y)' has an open quotation mark: close it."),
    dataset("csv(path=rows.csv label=y)", "quote text that contains spaces."),
    dataset(
        "csv(path=rows.csv, label=home town)",
        "label=home town)' has two words side by side: quote text that contains spaces.",
    ),
    dataset("csv(path=space.csv, label=y, group='home town')", "partitioned by iid into 2 parties", code=0),
    dataset("cvs(path=rows.csv, label=y)", "there is no dataset 'cvs': did you mean csv?"),
    dataset("rows.csv", "parquet(path=rows.csv, label=COLUMN), npz(path=rows.csv) or libsvm(path=rows.csv)."),
    dataset("./rows.csv", "label=COLUMN), npz(path=./rows.csv) or libsvm(path=./rows.csv)."),
    dataset(
        "csv(path=empty.csv, label=y)", "empty.csv has 0 lines: a header and at least one row are needed, so add them."
    ),
    dataset(
        "csv(path=blank.csv, label=y)", "blank.csv has 0 lines: a header and at least one row are needed, so add them."
    ),
    dataset(
        "csv(path=header.csv, label=y)",
        "header.csv has 1 line: a header and at least one row are needed, so add them.",
    ),
    dataset("csv(path=one_row.csv, label=y)", "at least two classes are needed, so add rows."),
    dataset(
        "csv(path=nan.csv, label=y)", "line 2: numbers must be finite; leave the cell empty if the value is missing."
    ),
    dataset(
        "csv(path=inf.csv, label=y)", "line 2: numbers must be finite; leave the cell empty if the value is missing."
    ),
    dataset(
        "csv(path=huge.csv, label=y)", "line 2: numbers must be finite; leave the cell empty if the value is missing."
    ),
    dataset(
        "csv(path=ragged.csv, label=y)", "ragged.csv has 2 cells in line 62 but 3 in the header: correct that line."
    ),
    dataset("csv(path=long.csv, label=y)", "long.csv has 4 cells in line 62 but 3 in the header: correct that line."),
    dataset(
        "csv(path=twice.csv, label=y)", "twice.csv has two columns of the same name in its header (age): rename one."
    ),
    dataset("csv(path=noname.csv, label=y)", "partitioned by iid into 2 parties", code=0),
    dataset(
        "csv(path=one_class.csv, label=y)", "has only the label 'yes': at least two classes are needed, so add rows."
    ),
    dataset(
        "csv(path=missing_label.csv, label=y)",
        "has 1 row without a value in the label column 'y', in line 3: fill in or remove them.",
    ),
    dataset(
        "csv(path=missing_group.csv, label=y, group=city)",
        "rows without a value in the group column 'city', the first in line 4: fill in or remove them.",
    ),
    dataset(
        "csv(path=nonames.csv, label=y)",
        "has empty names in its header (of the columns 1 and 2): name these columns.",
    ),
    dataset("csv(path=label_only.csv, label=y)", "only y: add a column, or drop fewer of them."),
    dataset("csv(path=latin.csv, label=y)", "write encoding=latin-1 (or cp1252), or save it as UTF-8."),
    dataset("csv(path=utf16.csv, label=y)", "because it is UTF-16: write encoding=utf-16."),
    dataset("csv(path=bom.csv, label=y)", "partitioned by iid into 2 parties", code=0),
    dataset("csv(path=crlf.csv, label=y)", "partitioned by iid into 2 parties", code=0),
    dataset(
        "csv(path=nul.csv, label=y)", "nul.csv has a NUL byte in line 2, so it is not a text table: save it as CSV."
    ),
    dataset(
        "csv(path=binary.csv, label=y)",
        "binary.csv has a NUL byte in line 1, so it is not a text table: save it as CSV.",
    ),
    dataset(
        "csv(path=quotes.csv, label=y)",
        "close it, or write it twice inside a quoted cell.",
    ),
    dataset("csv(path=open_quote.csv, label=y)", "close it, or write it twice inside a quoted cell."),
    dataset("csv(path=semicolon.csv, label=y)", "partitioned by iid into 2 parties", code=0),
    dataset("csv(path=tab.csv, label=y)", "partitioned by iid into 2 parties", code=0),
    dataset("csv(path=decimal.csv, label=y)", "partitioned by iid into 2 parties", code=0),
    dataset(
        "csv(path=labels.csv, label=y, task=classification)",
        "class labels are needed, not measurements, so choose another label column.",
    ),
    dataset("csv(path=wide.csv, label=y)", "partitioned by iid into 2 parties", code=0),
    dataset(
        "csv(path=html.csv, label=y)", "html.csv has 1 line: a header and at least one row are needed, so add them."
    ),
    dataset("csv(path=unicode.csv, label=y)", "partitioned by iid into 2 parties", code=0),
    dataset(
        "csv(path=good.npz, label=y)", "good.npz has a NUL byte in line 1, so it is not a text table: save it as CSV."
    ),
    dataset("csv(path=loop.csv, label=y)", "so it cannot be followed: give a file's path."),
    dataset(
        "csv(path=/dev/null, label=y)", "/dev/null has 0 lines: a header and at least one row are needed, so add them."
    ),
    dataset("linked(files=[bank.csv, shop.csv], label=default, key=id)", "partitioned by iid into 2 parties", code=0),
    dataset("linked(files=[bank.csv], label=default, key=id)", "one per party is needed, so write files=["),
    dataset("linked(files=[bank.csv, ./bank.csv], label=default, key=id)", "every party needs a file of its own"),
    dataset("linked(files=[bank.csv, no.csv], label=default, key=id)", "there is no file no.csv: check the path."),
    dataset("linked(files=[], label=default, key=id)", "linked has no file: one per party is needed"),
    dataset("linked(files=[bank.csv, shop.csv], label=default, key='')", "an empty name as key: name a column"),
    dataset(
        "linked(files=[bank.csv, shop_empty.csv], label=default, key=id)", "shop_empty.csv has no keys: all 9 cells"
    ),
    dataset("linked(files=[bank.csv, shop.csv], label=default, key=id, drop=id)", "a key is not a feature, so leave"),
    dataset("linked(files=[bank.csv, shop.csv], label=default)", "write key=COLUMN, or match=order."),
    dataset("linked(files=[bank.csv, shop.csv], label=default, key=idd)", "different names for it): did you mean id?"),
    dataset("linked(files=[bank.csv, shop.csv], label=default, key=[id, nr])", "shop.csv has no column 'nr' for the"),
    dataset("linked(files=[bank.csv, shop.csv], label=default, key=[id, id, id])", "give one for all files, or one"),
    dataset("linked(files=[bank.csv, shop_twice.csv], label=default, key=id)", "such as '20' in 3 rows: every row"),
    dataset("linked(files=[bank.csv, shop_text.csv], label=default, key=id)", "keys need the same type, so correct"),
    dataset("linked(files=[bank.csv, shop_far.csv], label=default, key=id)", "shared keys are needed, so check"),
    dataset("linked(files=[bank.csv, shop_none.csv], label=default, key=id)", "a header and at least one row"),
    dataset("linked(files=[bank.csv, shop_keys.csv], label=default, key=id)", "shop_keys.csv has no columns for"),
    dataset("linked(files=[bank.csv, shop_label.csv], label=default, key=id)", "but it must be at one party: remove"),
    dataset("linked(files=[bank.csv, shop.csv], label=defualt, key=id)", "needs the label; did you mean default?"),
    dataset("linked(files=[bank.csv, shop.csv], label=id, key=id)", "as the label and as a key, so every party"),
    dataset("linked(files=[songs.csv, radio.csv], label=year, key=title)", "100% of the keys in 'title' contain"),
    dataset(
        "linked(files=[songs.csv, radio.csv], label=year, key=title, match=normalised, year=[year, key])",
        "as the label and as a year that rows are matched by",
    ),
    dataset(
        "linked(files=[bank.csv, shop.csv], label=default, key=id, match=order)",
        "match=order needs the same order, so sort the files, or use match=exact.",
    ),
    dataset(
        "linked(files=[bank.csv, shop_twice.csv], label=default, match=order)",
        "bank has 60 rows and shop_twice 63: match=order needs the same rows",
    ),
    dataset(
        "linked(files=[bank.csv, shop.csv], label=default, key=id, year=age)",
        "linked has a year with match=exact: write match=normalised or fuzzy, or leave year out.",
    ),
    dataset(
        "linked(files=[bank.csv, shop.csv], label=default, key=id, match=similar)",
        "linked: match must be 'exact', 'normalised', 'fuzzy', 'psi', 'psi-normalised' or 'order', but 'similar'",
    ),
    dataset(
        "linked(files=[bank.csv, shop.csv], label=default, key=id, match=fuzzy, threshold=2)",
        "linked: threshold must be less than or equal to 1",
    ),
    dataset("npz(path=good.npz)", "partitioned by iid into 2 parties", code=0),
    dataset("npz(path=nowhere.npz)", "there is no file nowhere.npz: check the path."),
    dataset("npz(path=.)", ". is a folder, not a file: give the path of a file."),
    dataset("npz", "'path'; write npz(path, test=0.2, scale='none', task=auto)."),
    dataset("npz(path=good.npz, label=y)", "npz has no argument 'label': choose from path, scale, task, test."),
    dataset("npz(path=rows.csv)", "because it is not a zip archive: save it with numpy.savez."),
    dataset("npz(path=nan.npz)", "clean or fill them, because training on them gives NaN."),
    dataset("npz(path=no_y.npz)", "save x and y, or x_train, y_train, x_test and y_test."),
    dataset("npz(path=no_x.npz)", "save x and y, or x_train, y_train, x_test and y_test."),
    dataset("npz(path=none.npz)", "none.npz has no arrays: save x and y, or x_train, y_train, x_test and y_test."),
    dataset("npz(path=short.npz)", "short.npz has 20 rows in x but 5 labels: save equally many."),
    dataset("npz(path=labels.npz)", "task=classification) or npz(path=labels.npz, task=regression)."),
    dataset("npz(path=negative.npz)", "partitioned by iid into 2 parties", code=0),
    dataset("npz(path=text.npz)", "partitioned by iid into 2 parties", code=0),
    dataset("npz(path=one_class.npz)", "at least two classes are needed, so add rows."),
    dataset("npz(path=scalar.npz)", "scalar.npz has labels of shape [()]: save one label per row."),
    dataset("npz(path=empty.npz)", "empty.npz has no rows: at least one is needed, so add them."),
    dataset("npz(path=objects.npz)", "convert it to numbers or texts, and save it again."),
    dataset("npz(path=textx.npz)", "2): rows of numbers are needed, so save them as [n, ...]."),
    dataset("npz(path=complex.npz)", "2): rows of numbers are needed, so save them as [n, ...]."),
    dataset("npz(path=dates.npz)", "2): rows of numbers are needed, so save them as [n, ...]."),
    dataset("npz(path=deep.npz)", "deep.npz has labels of shape [(20, 2, 2)]: save one label per row."),
    dataset(
        "npz(path=half.npz)", "y_train but not x_test, y_test: save x and y, or x_train, y_train, x_test and y_test."
    ),
    dataset("npz(path=shapes.npz)", "both must have the same shape."),
    dataset("npz(path=hello.npz)", "because it is not a zip archive: save it with numpy.savez."),
    dataset("npz(path=cut.npz)", "save it with numpy.savez."),
    dataset("npz(path=array.npy)", "because it is one array (npy): save x and y with numpy.savez."),
    dataset("npz(path=zip.npz)", "zip.npz has no arrays: save x and y, or"),
    dataset("npz(path=complex_y.npz)", "numbers or texts are needed; convert them."),
    dataset("npz(path=header.npz)", "float64 of shape (99, 2), which needs more: save it again."),
    dataset("npz(path=bomb.npz)", "like a decompression bomb; save it without compression, with numpy.savez."),
    dataset("npz(path=good.npz, scale=group)", "npz: scale must be 'none' or 'standard', but 'group' was given."),
    dataset("libsvm(path=good.svm)", "partitioned by iid into 2 parties", code=0),
    dataset("libsvm(path=nowhere.svm)", "there is no file nowhere.svm: check the path."),
    dataset("libsvm(path=.)", ". is a folder, not a file: give the path of a file."),
    dataset("libsvm(path=words.svm)", "b'a'): write lines as label index:value."),
    dataset("libsvm(path=empty.svm)", "empty.svm has no rows: at least one is needed, so add them."),
    dataset("libsvm(path=far.svm)", "may have at most 16,777,216 columns: number its columns from 1 without gaps."),
    dataset("libsvm(path=half.svm)", "task=classification) or libsvm(path=half.svm, task=regression)."),
    dataset("libsvm(path=zero.svm)", "both are needed, so give more rows."),
    dataset("libsvm(path=order.svm)", "write lines as label index:value."),
    dataset("libsvm(path=nan.svm)", "clean or fill them, because training on them gives NaN."),
    dataset(
        "libsvm(path=one.svm)", "dataset one.svm has only the label 1: at least two classes are needed, so add rows."
    ),
    dataset("libsvm(path=many.svm)", "b'1,2'): write lines as label index:value."),
    dataset("libsvm(path=negindex.svm)", "write lines as label index:value."),
    dataset("libsvm(path=good.svm, test_path=nowhere.svm)", "there is no file nowhere.svm: check the path."),
    dataset("parquet(path=nowhere.parquet, label=y)", "there is no file nowhere.parquet: check the path."),
    dataset("parquet(path=rows.csv, label=y)", "save it with pandas.DataFrame.to_parquet."),
    dataset("parquet(path=empty.csv, label=y)", "save it with pandas.DataFrame.to_parquet."),
    dataset("parquet(path=rows.csv)", "parquet: missing a required argument: 'label'"),
    dataset("images(path=nowhere)", "there is no folder nowhere: give the folder with the pictures."),
    dataset("images(path=rows.csv)", "there is no folder rows.csv: give the folder with the pictures."),
    dataset("images(path=folder)", ".jpg, .jpeg, .bmp, .gif, .webp, .tif, .tiff, .ppm, .pgm are needed."),
    dataset("identities(path=nowhere)", "there is no folder nowhere: give the folder with the pictures."),
    dataset("digits(size=3)", "digits has no argument 'size': it takes no arguments."),
    dataset("fcube(seed=-1)", "fcube: seed must be greater than or equal to 0, but -1 was given."),
    dataset("fcube(seed=true)", "fcube: seed must be a whole number, but true was given."),
    dataset("synthetic(parties=0)", "synthetic: parties must be greater than or equal to 1, but 0 was given."),
    dataset("synthetic-faces(size=0)", "synthetic-faces: size must be greater than or equal to 8, but 0 was given."),
    dataset("kws(words=[nothing])", "run `silobench data fetch kws`."),
    dataset("mnist", "run `silobench data fetch mnist`."),
]
