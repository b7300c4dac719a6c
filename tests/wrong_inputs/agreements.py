"""Files of silos that do not fit what the silos agreed on, and agreements that were edited wrongly."""

from wrong_inputs.case import Case

COLUMNS = """\
version = 1
kind = "table"
test = 0.2
scale = "standard"
[label]
name = "y"
task = "classification"
classes = ["no", "yes"]
[[column]]
name = "age"
kind = "number"
[[column]]
name = "ward"
kind = "category"
categories = ["heart", "lung"]
"""
ROWS = "age,ward,y\n" + "".join(
    f"{20 + row % 37},{('heart', 'lung')[row % 2]},{'no' if row % 3 else 'yes'}\n" for row in range(60)
)


def silos(shown: str, expected: str, south: str | bytes | None = ROWS, columns: str | bytes = COLUMNS) -> Case:
    """Return a case of two silos, of which the second has other content."""
    files = {"north.csv": ROWS, "columns.toml": columns, **({} if south is None else {"south.csv": south})}
    spec = "silos(files=[north.csv, south.csv], columns=columns.toml)"
    return Case(shown, ("partition", spec, "by-group"), expected, files=files)


def edited(old: str, new: str, expected: str) -> Case:
    """Return a case of an agreement with one edit."""
    assert old in COLUMNS
    return silos(f"columns.toml with `{new}`", expected, columns=COLUMNS.replace(old, new, 1))


CASES: list[Case] = [
    silos("silos(...) with a file that does not exist", "there is no file south.csv", south=None),
    silos("silos(...) with an empty file", "south.csv", south=""),
    silos("silos(...) with a header and no rows", "south.csv", south="age,ward,y\n"),
    silos(
        "silos(...) with a file without an agreed column",
        "south.csv has no column ward, which the silos agreed on: add it, or rename a column.",
        south=ROWS.replace("ward", "room"),
    ),
    silos("silos(...) with a file without the label", "south.csv has no column y", south=ROWS.replace(",y\n", ",z\n")),
    silos(
        "silos(...) with texts in a column of numbers",
        "south.csv has 'old' in column 'age': the silos agreed on numbers or dates there, so correct them.",
        south=ROWS.replace("20,", "old,"),
    ),
    silos(
        "silos(...) with numbers in a column of categories",
        "south.csv has none of the 2 agreed categories in column 'ward': correct the cells, or agree on further",
        south=ROWS.replace("heart", "1").replace("lung", "2"),
    ),
    silos(
        "silos(...) with rows of a class that was not agreed on",
        "south.csv has 20 rows with a value of the label 'y' that is none of the 2 agreed classes: correct them, or",
        south=ROWS.replace("yes", "maybe"),
    ),
    silos(
        "silos(...) with a missing label",
        "south.csv has 1 row without a value of the label 'y': fill in or remove them.",
        south=ROWS + "33,lung,\n",
    ),
    silos(
        "silos(...) with very few rows",
        "training rows, but a silo needs at least 10, because sums over fewer rows would show single cells: add rows.",
        south="\n".join(ROWS.splitlines()[:12]) + "\n",
    ),
    silos("silos(...) with numbers too large to add", "too large to add up", south=ROWS.replace("\n20,", "\n1e300,")),
    Case(
        "silos(...) with two files of one name",
        ("partition", "silos(files=[north.csv, copy/north.csv], columns=columns.toml)", "by-group"),
        "silos has the files north.csv and copy/north.csv, which would both be the silo north: rename one.",
        files={"north.csv": ROWS, "copy/north.csv": ROWS, "columns.toml": COLUMNS},
    ),
    Case(
        "silos(...) with a folder for tables",
        ("partition", "silos(files=[north.csv, copy], columns=columns.toml)", "by-group"),
        "copy is a folder, but the silos agreed on tables: give the path of one.",
        files={"north.csv": ROWS, "copy/north.csv": ROWS, "columns.toml": COLUMNS},
    ),
    Case(
        "silos(...) without columns.toml",
        ("partition", "silos(files=[north.csv], columns=columns.toml)", "by-group"),
        "there is no file columns.toml: check the path.",
        files={"north.csv": ROWS},
    ),
    Case(
        "`by-group(order=size)`",
        ("partition", "digits", "by-group(order=size)"),
        "order must be 'names' or 'rows', but 'size' was given",
    ),
    silos("columns.toml in another encoding", "columns.toml cannot be read as text", columns=COLUMNS.encode("utf-16")),
    edited("version = 1", "version = 2", "columns.toml has 2 as 'version': it must be 1."),
    edited('"table"', '"sound"', "columns.toml has 'sound' as 'kind': it must be 'table' or 'images'."),
    edited("test = 0.2", "test = 2", "columns.toml has 2 as 'test': it must be less than 1."),
    edited('"standard"', '"group"', "columns.toml has 'group' as 'scale': it must be 'standard', 'stated' or 'none'."),
    edited('"standard"', '"stated"', "columns.toml has no mean and deviation of age in [scales], but scale = 'stated'"),
    edited('["no", "yes"]', '["no"]', "columns.toml has the classes ['no'] of the label 'y': list at least two, each"),
    edited("classification", "regression", "columns.toml has classes for the label 'y', which is a number: remove"),
    edited('name = "age"', 'name = "y"', "columns.toml has 'y' more than once, as a column or as the label: state"),
    edited('"number"', '"figure"', "columns.toml has no known kind in column 'age': write kind ="),
    edited('["heart", "lung"]', '"heart"', "has 'heart' as 'categories' in column 'ward': it must be a list."),
    edited("[[column]]", "[[columns]]", "columns.toml has an unknown key 'columns': remove it, or correct its name."),
    edited("[label]", "[label", "columns.toml is not TOML"),
]
