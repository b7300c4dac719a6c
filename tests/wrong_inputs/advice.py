"""Advice about tables without parties, labels or bins, and profiles that do not fit together."""

import json

from wrong_inputs.case import Case, command

_ROWS = "".join(f"{row % 7},{'ab'[row % 2]},h{row % 3}\n" for row in range(60))
TABLE = {"t.csv": f"x,y,ward\n{_ROWS}"}
ONE_PARTY = {"t.csv": "x,y,ward\n" + "".join(f"{row % 7},{'ab'[row % 2]},h\n" for row in range(60))}
_SCHEMA = {
    "version": 1,
    "label": {"name": "y", "categories": ["a", "b"]},
    "features": [{"name": "x", "cuts": [2.0, 4.0], "has_missing": False}],
}
_OTHER = {**_SCHEMA, "features": []}
SCHEMA = {"schema.json": json.dumps(_SCHEMA)}


def _profile(party: str, schema: object = _SCHEMA, **more: object) -> str:
    features = [[[1, 1, 1], [1, 1, 1]]] if schema is _SCHEMA else []
    facts = {
        "format": "silobench profile 1",
        "party": party,
        "epsilon": None,
        "noise": {"labels": 0.0, "features": 0.0},
    }
    return json.dumps({**facts, "schema": schema, "labels": [3, 3], "features": features, **more})


ADVISE = "advise t.csv --label y --party ward"
CASES: list[Case] = [
    command("advise t.csv", "where are the rows of t.csv? Name the column of parties with --party", files=TABLE),
    command("advise t.csv --party ward", "which column is to be predicted? Name it with --label.", files=TABLE),
    command("advise t.csv --label z --party ward", "has no column 'z': choose from ward, x, y.", files=TABLE),
    command("advise t.csv --label y --party wards", "has no column 'wards': did you mean ward?", files=TABLE),
    command("advise t.csv --label y --party y", "'y' as the label and as group", files=TABLE),
    command("advise nowhere.csv --label y --party ward", "nowhere.csv"),
    command(ADVISE, "there is one party (h): a skew is a difference between parties", files=ONE_PARTY),
    command(f"{ADVISE} --partition iid", "--party and --partition both say where rows are", files=TABLE),
    command("advise digits", "where are the rows of digits? Give the spec of a partition"),
    command("advise digits --partition iid --label x", "--label names a column of a table, but digits is a dataset"),
    command("advise digits --partition iid --drop x", "--drop names a column of a table, but digits is a dataset"),
    command("advise digits --partition columns", "columns divides columns, but advice is about parties with rows"),
    command("advise digits --partition iid --private 1", "name their column with --party."),
    command(f"{ADVISE} --private 1", "--private needs bins that do not follow from the rows", files=TABLE),
    command(f"{ADVISE} --private 0 --schema schema.json", "epsilon is 0, but a number", files={**TABLE, **SCHEMA}),
    command(f"{ADVISE} --private -1 --schema schema.json", "epsilon is -1, but a number", files={**TABLE, **SCHEMA}),
    command(f"{ADVISE} --private nan --schema schema.json", "epsilon is nan, but a number", files={**TABLE, **SCHEMA}),
    command(f"{ADVISE} --schema none.json", "none.json cannot be read", files=TABLE),
    command(f"{ADVISE} --schema t.csv", "t.csv is not JSON, so it is not a schema", files=TABLE),
    command(
        "advise t.csv --label x --party ward --schema schema.json",
        "the schema has the label 'y', but --label says 'x'",
        files={**TABLE, **SCHEMA},
    ),
    command(f"{ADVISE} --tree tree.gif", "--tree tree.gif has no known format", files=TABLE),
    command(f"{ADVISE} --try --json", "--try prints tables of the runs, and --json prints facts", files=TABLE),
    command(f"{ADVISE} --evidence nowhere", "there is no directory nowhere", files=TABLE),
    command("advise mesure t.csv --label y", "`silobench advise` has no command 'mesure': did you mean measure?"),
    command("advise schema --label y=a", "the label 'y' has one class: state at least two."),
    command("advise schema --label y=a,b --feature age", "'age' states no bins: write COLUMN=LEAST:MOST"),
    command("advise schema --label y=a,b --feature age=9:1", "the range 9:1 of 'age' is empty"),
    command("advise schema --label y=a,b --feature b=0:inf", "the range 0:inf has a limit that is no finite number"),
    command("advise schema --label y=a,b", "schema.json exists already: name another file", files=SCHEMA),
    command("advise schema --label y=a,b --output .", ". is a directory: give the path of a file"),
    command(
        "advise profile t.csv --schema schema.json --exact --output .",
        ". is a directory: give the path of a file",
        files={**TABLE, **SCHEMA},
    ),
    command(f"{ADVISE} --participation 0", "--participation is 0, but some parties must take part", files=TABLE),
    command(
        "advise combine p.json q.json",
        "q.json is a damaged profile (a count is beyond 1e+12)",
        files={"p.json": _profile("p"), "q.json": _profile("q", labels=[2**62, 3])},
    ),
    command("advise profile t.csv --schema schema.json", "give --epsilon 1 for noise", files={**TABLE, **SCHEMA}),
    command(
        "advise profile t.csv --schema schema.json --exact --epsilon 1",
        "give --epsilon 1 for noise, or --exact",
        files={**TABLE, **SCHEMA},
    ),
    command(
        "advise profile t.csv --schema schema.json --exact",
        "have the label 'c' in 'y', which the schema does not have",
        files={"t.csv": "x,y\n1,a\n2,c\n", **SCHEMA},
    ),
    command(
        "advise profile t.csv --schema schema.json --exact",
        "t.csv has no column 'x'",
        files={"t.csv": "z,y\n1,a\n2,b\n", **SCHEMA},
    ),
    command("advise combine p.json", "there is one party (p)", files={"p.json": _profile("p")}),
    command(
        "advise combine p.json q.json",
        "the profiles of p and q have different schemas",
        files={"p.json": _profile("p"), "q.json": _profile("q", _OTHER)},
    ),
    command(
        "advise combine p.json q.json",
        "q.json is a damaged profile (counts of shape (1,), not (2,) whole numbers)",
        files={"p.json": _profile("p"), "q.json": _profile("q", labels=[6])},
    ),
    command(
        "advise combine p.json q.json",
        "q.json is a damaged profile (its noise is not that of its epsilon)",
        files={"p.json": _profile("p"), "q.json": _profile("q", epsilon=1.0)},
    ),
    command("advise combine p.json t.csv", "t.csv is not JSON", files={"p.json": _profile("p"), **TABLE}),
]
