"""Runs of somebody who means harm: every text that a record may have tries to become code."""

from pathlib import Path

from stored import stored

MARKUP = "</script></style></title><img src=x onerror=alert(1)><svg onload=alert(2)>"
ATTRIBUTE = '"\' autofocus onfocus=alert(3) x="{{ 7 * 7 }}${alert(4)}'
ADDRESS = "javascript:alert(5)"
TURNED = "\u202egnp.exe\x1b]0;title\x07\x00"
FORMULA = '=HYPERLINK("http://example.org")'
TEXTS = (MARKUP, ATTRIBUTE, ADDRESS, TURNED, FORMULA)
FOLDER = "javascript:alert(6)"  # a folder in which runs are


def write_hostile(out: Path) -> Path:
    """Write runs whose names, notes, units, versions and titles are texts that a careless page would execute."""
    for algorithm, gain in (("fedavg", 0.0), ("scaffold", 0.05)):
        for seed in range(3):
            _run(out / FOLDER, algorithm, seed, 0.5 + gain + 0.001 * seed)
    return out


def _run(out: Path, algorithm: str, seed: int, score: float) -> None:
    own = {name: {"rows": 50, "own": score - 0.01 * place, "all": None} for place, name in enumerate(TEXTS)}
    size = len(TEXTS)
    confusion = [[40 if row == column else 2 for column in range(size)] for row in range(size)]
    last = {"final": {"confusion": confusion, "parties": own}, "class_accuracy": [score] * size}
    metric = {
        "name": "accuracy", "title": MARKUP, "higher_is_better": True, "unit": ATTRIBUTE, "factor": 100.0, "digits": 1,
        "constant": 0.1,
    }  # fmt: skip
    stored(
        [score / 2, score], seed, [{}, last], out=out, dataset="odd", algorithm=algorithm, parties=size,
        counts=[[10 + row + column for column in range(size)] for row in range(size)],
        dataset_facts={"name": MARKUP, "classes": list(TEXTS), "licence": ADDRESS, "notes": list(TEXTS)},
        partition_facts={"parties": list(TEXTS), "notes": list(TEXTS)},
        objective={"name": MARKUP, "spec": ATTRIBUTE, "reason": TURNED, "main": "accuracy", "metrics": [metric]},
    )  # fmt: skip
