"""How often ``silobench advise`` names the right skew: random tables of every regime, exact and private.

    python benchmarks/advice.py [--draws 20] [--seed 1000] [--rows 1000] [--epsilon 1]

A draw is a table of 6 to 10 parties, 2 to 10 classes, 4 to 6 numeric features in [0, 1] and 1 or 2 categorical ones.
Features depend on the class. The strengths are those of NIID-Bench: label-dirichlet(beta=0.5) or label-count(k),
noise(sigma=0.1) on features in [0, 1], q ~ Dir(0.5). Feature skew is noise, a shift of some features, or a rotation of
pairs of features; a mixed skew is a sum of two or three. Rows of an iid table go to random parties, whose expected
sizes differ by up to a quarter. Thresholds were chosen on seeds below 1000.
"""

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from silobench.advice.components import components, regime
from silobench.advice.profile import combine
from silobench.advice.schema import CategoryBins, NumberBins, Schema
from silobench.advice.sources import table_rows
from silobench.data.dataset import Split
from silobench.partitions import bind_sum
from silobench.partitions.mixed import add
from silobench.privacy.randomness import Randomness

REGIMES = ("none", "label", "feature", "quantity", "mixed")
MIXTURES = (("label", "feature"), ("quantity", "feature"), ("label", "quantity"), ("label", "feature", "quantity"))
Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Draw:
    """A table with a known skew."""

    table: pd.DataFrame
    regime: str
    skews: tuple[str, ...]
    classes: int
    parties: int


def draw(regime_: str, rng: np.random.Generator, rows_per_party: int) -> Draw:
    """Return a random table of a regime."""
    parties, classes = int(rng.integers(6, 11)), int(rng.integers(2, 11))
    skews = {"none": (), "mixed": MIXTURES[rng.integers(len(MIXTURES))]}.get(regime_, (regime_,))
    surplus = 2 if "label" in skews else 1  # so that parties can draw the classes that they like
    labels, numbers, categories = _rows(rng, surplus * parties * rows_per_party, classes)
    party_of_row = _parties(rng, labels, parties, skews)
    held = party_of_row >= 0
    labels, numbers, party_of_row = labels[held], numbers[held], party_of_row[held]
    categories = [values[held] for values in categories]
    if "feature" in skews:
        numbers = _moved(rng, numbers, party_of_row, parties)
    table = pd.DataFrame({f"x{place}": values for place, values in enumerate(numbers.T)})
    for place, values in enumerate(categories):
        table[f"c{place}"] = [f"v{value}" for value in values]
    table["outcome"] = [f"class-{label}" for label in labels]
    table["hospital"] = [f"h{party}" for party in party_of_row]
    return Draw(table.iloc[rng.permutation(len(table))], regime_, tuple(skews), classes, parties)


def _rows(rng: np.random.Generator, rows: int, classes: int) -> tuple[NDArray[np.int64], Rows, list[NDArray[np.int64]]]:
    """Return labels, numbers in [0, 1] that depend on the class, and categories that depend on it too."""
    labels = rng.choice(classes, rows, p=rng.dirichlet(np.full(classes, 5.0)))
    width = int(rng.integers(4, 7))
    means = rng.uniform(0.35, 0.65, (classes, width))
    spread = rng.uniform(0.12, 0.22, width)
    mixing = np.eye(width) + rng.uniform(-0.3, 0.3, (width, width))  # features depend on each other
    numbers = means[labels] + (rng.standard_normal((rows, width)) @ mixing) * spread
    categories = []
    for _ in range(int(rng.integers(1, 3))):
        shares = rng.dirichlet(np.full(int(rng.integers(2, 6)), 3.0), classes)
        edges = shares.cumsum(1)[labels]
        categories.append((rng.random((rows, 1)) > edges[:, :-1]).sum(1))
    return labels, np.clip(numbers, 0, 1), categories


def _parties(
    rng: np.random.Generator, labels: NDArray[np.int64], parties: int, skews: tuple[str, ...]
) -> NDArray[np.int64]:
    """Return the party of each row, -1 for a row that is left out."""
    if "label" in skews:
        return _by_label(rng, labels, parties, has_sizes="quantity" in skews)
    if "quantity" in skews:
        return _cut(rng, labels, parties, "quantity-dirichlet(beta=0.5)")
    sizes = rng.uniform(0.75, 1.25, parties)
    return rng.choice(parties, len(labels), p=sizes / sizes.sum())


def _by_label(rng: np.random.Generator, labels: NDArray[np.int64], parties: int, has_sizes: bool) -> NDArray[np.int64]:
    """Return the party of each row under a label skew: NIID-Bench's two kinds, or class shares drawn by party."""
    classes = int(labels.max()) + 1
    kind = rng.choice(["dirichlet", "party"] if has_sizes else ["dirichlet", "text", "count", "party"])
    if kind == "party":
        sizes = rng.dirichlet(np.full(parties, 0.5)) if has_sizes else np.full(parties, 1 / parties)
        return _by_party(rng, labels, np.maximum(10, sizes * len(labels) / 2).astype(int))
    spec = {
        "dirichlet": "label-dirichlet(beta=0.5)",
        "text": "label-dirichlet(beta=0.5, balance=false)",
        "count": f"label-count(k={_held_classes(rng, parties, classes)})",
    }[kind]
    owner = np.full(len(labels), -1)
    half = len(labels) // 2
    spec = f"{spec} + quantity-dirichlet(beta=0.5)" if has_sizes else spec
    owner[:half] = _cut(rng, labels[:half], parties, spec)
    return owner


def _held_classes(rng: np.random.Generator, parties: int, classes: int) -> int:
    least = 1 if parties >= classes else 2  # or rows would be lost
    return int(rng.integers(least, max(least + 1, min(4, classes))))


def _by_party(rng: np.random.Generator, labels: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the party of each row: each party draws its class shares from Dir(0.5), and its rows by them."""
    owner = np.full(len(labels), -1)
    piles = [rng.permutation(np.flatnonzero(labels == label)).tolist() for label in range(int(labels.max()) + 1)]
    for party, size in enumerate(sizes):
        for label, wanted in enumerate(rng.multinomial(size, rng.dirichlet(np.full(len(piles), 0.5)))):
            owner[[piles[label].pop() for _ in range(min(wanted, len(piles[label])))]] = party
    return owner


def _cut(rng: np.random.Generator, labels: NDArray[np.int64], parties: int, spec: str) -> NDArray[np.int64]:
    """Return the party of each row by a partition of silobench."""
    skew = reduce(add, [term.build() for term in bind_sum(spec)])
    owner = np.full(len(labels), -1)
    for party, rows in enumerate(skew.cut(Split(np.zeros((len(labels), 1), np.float32), labels), parties, rng).rows):
        owner[rows] = party
    return owner


def _moved(rng: np.random.Generator, numbers: Rows, party_of_row: NDArray[np.int64], parties: int) -> Rows:
    """Return features that differ between parties: by noise, by a shift, or by a rotation of pairs."""
    kind, width = rng.choice(["noise", "shift", "rotation"]), numbers.shape[1]
    moved = numbers.copy()
    if kind == "noise":
        deviation = np.sqrt(0.1 * rng.permutation(np.arange(1, parties + 1)) / parties)
        moved += deviation[party_of_row, None] * rng.standard_normal(numbers.shape)
    elif kind == "shift":
        chosen = rng.random(width) < 0.5
        chosen[rng.integers(width)] = True
        moved += rng.normal(0, 0.1, (parties, width))[party_of_row] * chosen
    else:
        angles = rng.uniform(-np.pi / 6, np.pi / 6, parties)[party_of_row]
        first, second = moved[:, 0].copy(), moved[:, 1].copy()
        moved[:, 0] = np.cos(angles) * first - np.sin(angles) * second
        moved[:, 1] = np.sin(angles) * first + np.cos(angles) * second
    return moved


# --- answers -----------------------------------------------------------------------------------------


def exact_answer(path: Path) -> str:
    """Return the regime that exact profiles show."""
    rows = table_rows(path, "outcome", "hospital")
    return regime(components(combine(rows.profiles())))


def private_answer(path: Path, table: pd.DataFrame, epsilon: float, key: int) -> str:
    """Return the regime that private profiles show. Bins are public: four in [0, 1], and all categories."""
    rows = table_rows(path, "outcome", "hospital", schema=public_schema(table))
    randomness = Randomness.seeded(key, "benchmark")
    return regime(components(combine([profile.privatised(epsilon, randomness) for profile in rows.profiles()])))


def public_schema(table: pd.DataFrame) -> Schema:
    """Return the bins that a coordinator would state, without looking at rows: ranges, categories and classes."""
    numbers = [NumberBins(name, (0.25, 0.5, 0.75)) for name in table if name.startswith("x")]
    texts = [CategoryBins(name, tuple(sorted(table[name].unique()))) for name in table if name.startswith("c")]
    return Schema(CategoryBins("outcome", tuple(sorted(table["outcome"].unique()))), (*numbers, *texts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=20, help="tables of each regime")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000, help="rows per party, on average")
    parser.add_argument("--epsilon", type=float, default=1.0)
    options = parser.parse_args()
    answers: dict[str, Counter[tuple[str, str]]] = {"exact": Counter(), "private": Counter()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.csv")
        for place, name in enumerate(REGIMES):
            for number in range(options.draws):
                key = options.seed + place * options.draws + number
                one = draw(name, np.random.default_rng(key), options.rows)
                one.table.to_csv(path, index=False)
                shown = {
                    "exact": exact_answer(path),
                    "private": private_answer(path, one.table, options.epsilon, key),
                }
                for kind, answer in shown.items():
                    answers[kind][name, answer] += 1
                    if answer != name:
                        skews = " + ".join(one.skews) or "iid"
                        print(
                            f"{kind}: {skews}, {one.parties} parties, {one.classes} classes: {answer}", file=sys.stderr
                        )
    for kind, counts in answers.items():
        right = sum(count for (truth, answer), count in counts.items() if truth == answer)
        print(f"{kind}: {right} of {sum(counts.values())} right")
        for truth in REGIMES:
            row = ", ".join(f"{answer} {counts[truth, answer]}" for answer in REGIMES if counts[truth, answer])
            print(f"  {truth:9}{row}")


if __name__ == "__main__":
    main()
