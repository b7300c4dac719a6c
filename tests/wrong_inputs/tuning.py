"""Studies and exports that cannot be made."""

from wrong_inputs.case import Case, damaged
from wrong_inputs.lines import TINY, one
from wrong_inputs.results import intact

TWO = {"two.toml": 'dataset = "fcube"\nrounds = 1\nalgorithm = ["fedavg", "fedprox"]\n'}
TABLE = {"table.toml": 'dataset = "fcube"\nrounds = 1\ntune = "solver.lr"\n'}
STUDY = {**TINY, "study/study.json": '{"format": 1'}

CASES: list[Case] = [
    # search spaces
    one("tune", "tiny.toml", "--space", "solver.lr", expected="--space takes key=value", files=TINY),
    one("tune", "tiny.toml", "--space", "solver.lr=0.1", expected="a range is needed", files=TINY),
    one("tune", "tiny.toml", "--space", "solver.lr=log(1.0, 0.1)", expected="first bound must be below", files=TINY),
    one("tune", "tiny.toml", "--space", "rounds=range(1, 99999)", expected="at most 10,000 values", files=TINY),
    one("tune", "tiny.toml", "--space", "solver.lr=[]", expected="is an empty list", files=TINY),
    one("tune", "tiny.toml", "--space", "solver.rate=[1]", expected="has no argument for 'solver.rate'", files=TINY),
    one("tune", "tiny.toml", "--space", "algoritm=['fedavg']", expected="did you mean algorithm?", files=TINY),
    one("tune", "tiny.toml", "--space", "seed=[1, 2]", expected="seed cannot be tuned", files=TINY),
    one("tune", "table.toml", expected="tune must be a table of ranges", files=TABLE),
    one("tune", "tiny.toml", "--sampler", "grid", expected="the sampler grid needs a list of values", files=TINY),
    one("tune", "tiny.toml", "--sampler", "bayes", expected="choose from tpe, random, grid", files=TINY),
    # experiments and studies
    one("tune", "two.toml", expected="several values of algorithm: choose one with --set algorithm=...", files=TWO),
    one("tune", "nowhere.toml", expected="there is no experiment file nowhere.toml"),
    one("tune", "tiny.toml", "--validation", "0.2", expected="--validation takes two whole numbers", files=TINY),
    one("tune", "tiny.toml", "--trials", "0", expected="--trials"),
    one("tune", "tiny.toml", "--out", "study", expected="study.json is damaged", files=STUDY),
    one("run", "tiny.toml", "--out", "study", "--workers", "1", expected="study holds a study", files=STUDY),
    one("run", "tiny.toml", "--out", "study", "--dry-run", expected="study holds a study", files=STUDY),
    damaged(
        "intact results",
        intact,
        "runs holds runs, and a study needs a folder of its own: choose another --out.",
        "tune tiny.toml --set algorithm=fedavg --out runs",
    ),
    # exports
    damaged("a format that does not exist", intact, "choose from csv, mlflow, parquet", "export runs --format excel"),
    damaged(
        "a file in place of a folder", intact, "is a file, but a folder is needed", "export runs --output tiny.toml"
    ),
    one("export", "nowhere", expected="there is no directory nowhere"),
]
