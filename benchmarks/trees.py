"""Compare boosted trees over columns with scikit-learn's HistGradientBoosting on the joined table.

python benchmarks/trees.py                           # adult and credit-default, by owners of columns
python benchmarks/trees.py --rounds 20 --json        # one object per dataset

Both train the same trees on one core. Times are core-seconds per tree, without bins: the median of several repeats, in
which the two take turns. The time of boosted-trees is that of all parties together. AUC is that of the test rows.
"""

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from silobench.data import load
from silobench.vertical.federation import VerticalFederation, federate_columns
from silobench.vertical.trees.boosting import Boosting
from silobench.vertical.trees.losses import loss_of

DATASETS = ("adult", "credit-default")
AUC_AGREES = 0.005


def ours(federation: VerticalFederation, rounds: int) -> tuple[float, np.ndarray, dict[str, Any]]:
    """Return seconds per tree, margins of test rows, and bytes per tree."""
    features, deal, y = federation.features, federation.deal, federation.y.numpy()
    boosting = Boosting(federation.x[:, :features].numpy(), y, deal.columns, deal.train, loss_of(2), deal.label)
    size, since = 0, time.process_time()
    for _ in range(rounds):
        boosting.round()
        size += sum(
            message.nbytes
            for exchange in boosting.exchanges
            for message in (exchange.down, exchange.up)
            if message is not None and exchange.party != deal.label
        )
    seconds = (time.process_time() - since) / rounds
    module = boosting.trees.module(features)
    return seconds, module(federation.test_x)[:, 1].numpy(), {"bytes_per_tree": size // rounds}


def theirs(federation: VerticalFederation, rounds: int) -> tuple[float, np.ndarray]:
    """Return seconds per tree after the first, and margins of test rows."""
    features, seconds = federation.features, []
    for count in (1, rounds + 1, rounds):
        model = HistGradientBoostingClassifier(max_iter=count, early_stopping=False)
        since = time.process_time()
        model.fit(federation.x[:, :features].numpy(), federation.y.numpy())
        seconds.append(time.process_time() - since)
    margins = model.decision_function(federation.test_x[:, :features].numpy())
    return (seconds[1] - seconds[0]) / rounds, margins


def compared(name: str, rounds: int, repeats: int) -> dict[str, Any]:
    """Return the comparison on one dataset."""
    federation = federate_columns(load(name), "columns(by=owner)")
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(repeats):
        seconds, margins, size = ours(federation, rounds)
        times["ours"].append(seconds)
        seconds, reference = theirs(federation, rounds)
        times["theirs"].append(seconds)
    labels = federation.test_y.numpy()
    return {
        "dataset": name,
        "parties": len(federation.deal),
        "rows": len(federation.y),
        "columns": federation.features,
        "trees": rounds,
        "seconds_per_tree": statistics.median(times["ours"]),
        "reference_seconds_per_tree": statistics.median(times["theirs"]),
        "ratio": statistics.median(a / b for a, b in zip(times["ours"], times["theirs"], strict=True)),
        "auc": float(roc_auc_score(labels, margins)),
        "reference_auc": float(roc_auc_score(labels, reference)),
        "largest_margin_difference": float(np.abs(margins - reference).max()),
        **size,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=DATASETS, help="with two classes, and owners of columns")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print one JSON object per dataset")
    options = parser.parse_args()
    torch.set_num_threads(1)
    titles = ("dataset", "parties", "ms/tree", "reference", "ratio", "AUC", "reference", "kB/tree")
    if not options.json:
        print("{:16}{:>8}{:>10}{:>10}{:>8}{:>9}{:>10}{:>9}".format(*titles))
    agrees = True
    with threadpool_limits(1):
        for name in options.datasets:
            case = compared(name, options.rounds, options.repeats)
            agrees &= abs(case["auc"] - case["reference_auc"]) <= AUC_AGREES
            if options.json:
                print(json.dumps(case))
                continue
            mine, other = (1000 * case[key] for key in ("seconds_per_tree", "reference_seconds_per_tree"))
            print(
                f"{name:16}{case['parties']:8}{mine:10.2f}{other:10.2f}{case['ratio']:8.2f}{case['auc']:9.4f}"
                f"{case['reference_auc']:10.4f}{case['bytes_per_tree'] / 1000:9.1f}"
            )
    if not agrees:
        raise SystemExit(f"an AUC differs by more than {AUC_AGREES}")


if __name__ == "__main__":
    main()
