"""Draw the pictures of the documentation: one of every partition, and diagrams of a round and of a grid of runs.

    python examples/documentation_pictures.py [FOLDER]

Dots are counted from real partitions: the area of a dot is the number of rows of a class at a party. Grey and blue are
readable on white and on black, and the ground is transparent, so one file serves both themes.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import silobench as sb

INK, DOT, WARM = "#7d8590", "#3d8bd4", "#d9822b"
PARTIES, CELL = 10, 22
DIGITS = {
    "iid": "iid",
    "label-dirichlet": "label-dirichlet(beta=0.5)",
    "label-count": "label-count(k=2)",
    "shards": "shards(per_party=2)",
    "target-emd": "target-emd(emd=1.08)",
    "label-percent": "label-percent(percent=60)",
    "label-pair": "label-pair(major=0.8)",
    "quantity-dirichlet": "quantity-dirichlet(beta=0.5)",
    "quantity-power-law": "quantity-power-law(exponent=1.5)",
    "share": "shards(per_party=1) + share(beta=0.2)",
}


def svg(width: int, height: int, title: str, body: Sequence[str]) -> str:
    """Return a drawing with a text alternative."""
    style = f'font-family="system-ui, sans-serif" font-size="11" fill="{INK}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" {style}>'
    return "\n".join([head, f"<title>{title}</title>", *body, "</svg>\n"])


def text(x: float, y: float, words: str, anchor: str = "middle", **more: str) -> str:
    options = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{options}>{words}</text>'


def dots(counts: np.ndarray, title: str, columns: Sequence[str], what: str, colour: str = DOT) -> str:
    """Draw parties as lines and classes as columns; the area of a dot is the number of rows."""
    left, top, largest = 34, 8, float(counts.max())
    height = top + CELL * len(counts) + 32
    body = []
    for party, line in enumerate(counts):
        y = top + CELL * (party + 0.5)
        body.append(text(left - 8, y + 4, str(party), "end"))
        for place, count in enumerate(line):
            if count > 0:
                radius = 0.46 * CELL * (float(count) / largest) ** 0.5
                body.append(
                    f'<circle cx="{left + CELL * (place + 0.5):g}" cy="{y:g}" r="{radius:.1f}" fill="{colour}"/>'
                )
    below = top + CELL * len(counts) + 12
    body += [text(left + CELL * (place + 0.5), below, name) for place, name in enumerate(columns)]
    body.append(text(left + CELL * len(columns) / 2, below + 15, what))
    return svg(left + CELL * len(columns) + 8, height, title, body)


def partitions() -> dict[str, str]:
    """Return a picture of each way to cut rows, by the name of its file."""
    digits, pictures = sb.load("digits"), {}
    for name, spec in DIGITS.items():
        skew = sb.measure(sb.partition(digits, spec, parties=PARTIES, seed=0), digits)
        title = f"{spec}: rows of ten digits at ten parties"
        pictures[name] = dots(np.array(skew.counts), title, list("0123456789"), "party (line) by class (column)")
    return {**pictures, **special()}


def special() -> dict[str, str]:
    """Return pictures of the cuts that are not about labels: features, silos and columns."""
    fcube = sb.load("fcube")
    cut = sb.partition(fcube, "octants", parties=4, seed=0)
    octant = (fcube.train.x > 0) @ np.array([1, 2, 4])
    counts = np.array([np.bincount(octant[rows], minlength=8) for rows in cut.rows])
    pictures = {
        "octants": dots(
            counts, "octants: the corners of the cube at four parties", list("12345678"), "party by corner of the cube"
        )
    }
    noise = np.tile(np.arange(1, PARTIES + 1)[:, None] / PARTIES, (1, 10))
    pictures["noise"] = dots(
        noise,
        "noise(sigma=0.1): equal parts, and noise that grows from party to party",
        list("0123456789"),
        "dot: variance of the noise, by party",
        WARM,
    )
    cancer = sb.load("breast-cancer")
    owners = sb.federate_columns(cancer, "columns(by=block)", parties=4)
    width = cancer.train.x.shape[1]
    columns = np.zeros((len(owners.names), width))
    for party, places in enumerate(owners.deal.columns):
        columns[party, list(places)] = 1
    names = [str(place + 1) if place % 5 == 4 else "" for place in range(width)]
    pictures["columns"] = dots(
        columns,
        "columns(by=block): every party has other columns of the same rows",
        names,
        "party by column of the table",
    )
    return pictures


def box(x: float, y: float, width: float, height: float, words: str, note: str = "", colour: str = INK) -> list[str]:
    middle = y + height / 2 + (4 if not note else -3)
    parts = [
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="none" stroke="{colour}"/>',
        text(x + width / 2, middle, words, font_weight="600"),
    ]
    return [*parts, text(x + width / 2, y + height / 2 + 12, note, font_size="10")] if note else parts


def arrow(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    line = f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" stroke-width="1.6"'
    return f'{line} marker-end="url(#{"a" if colour == DOT else "b"})"/>'


def heads() -> str:
    shape = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    marks = [
        f'<marker id="{name}" {shape}><path d="M0 0L8 4L0 8z" fill="{colour}"/></marker>'
        for name, colour in (("a", DOT), ("b", WARM))
    ]
    return f"<defs>{''.join(marks)}</defs>"


def a_round() -> str:
    """Draw one round of a federation: five parties, three of which are in the cohort."""
    digits = sb.load("digits")
    federation = sb.federate(digits, "quantity-dirichlet(beta=2)", parties=5, seed=0)
    cohort, body = {0, 2, 3}, [heads(), *box(230, 10, 140, 44, "server", "one model, no rows")]
    for party in federation.parties:
        x, chosen = 10 + 120 * party.id, party.id in cohort
        body += box(x, 150, 100, 44, f"party {party.id}", f"{party.samples} rows", DOT if chosen else INK)
        if chosen:
            body += [
                arrow(290 + 12 * (party.id - 2), 58, x + 42, 145, DOT),
                arrow(x + 62, 145, 314 + 12 * (party.id - 2), 60, WARM),
            ]
    body += [
        text(14, 24, "1  the model goes to the cohort", "start", fill=DOT),
        text(14, 42, "2  each party trains on its own rows", "start"),
        text(586, 24, "3  parties send updates", "end", fill=WARM),
        text(586, 42, "4  the server combines them", "end"),
        text(300, 216, "a federation of five parties; three are in the cohort of this round"),
    ]
    return svg(600, 226, "One round: the server sends the model to a cohort, parties train, updates come back", body)


def a_grid() -> str:
    """Draw the runs of an experiment: a cell is a setting, its trials differ in the seed."""
    partitions_, algorithms = ("iid", "label-count(k=2)"), ("fedavg", "scaffold")
    body, filled = [], f'fill="{DOT}" fill-opacity="0.25"'
    for column, algorithm in enumerate(algorithms):
        body.append(text(230 + 180 * column, 18, algorithm, font_weight="600"))
        for line, partition in enumerate(partitions_):
            x, y = 150 + 180 * column, 30 + 74 * line
            body += box(x, y, 160, 60, "", colour=DOT)[:1]
            if not column:
                body.append(text(138, y + 34, partition, "end", font_weight="600"))
            for seed in range(3):
                body += [
                    f'<rect x="{x + 10 + 48 * seed}" y="{y + 14}" width="44" height="32" rx="4" {filled}/>',
                    text(x + 32 + 48 * seed, y + 34, f"seed {seed}", font_size="10"),
                ]
    body.append(text(320, 196, "4 cells (outlined) of 3 trials each: 12 runs (filled)"))
    return svg(510, 206, "A grid of two partitions and two algorithms: four cells of three trials", body)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in {**partitions(), "round": a_round(), "grid": a_grid()}.items():
        (folder / f"{name}.svg").write_text(drawing, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures"))
