"""A picture of ten skews: the same digits, split among ten parties.

python examples/partition_gallery.py docs/partitions.png
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import silobench as sb

SPECS = [
    "iid",
    "label-dirichlet(beta=0.5)",
    "label-dirichlet(beta=0.1)",
    "label-count(k=1)",
    "label-count(k=2)",
    "shards(per_party=2)",
    "label-percent(percent=60)",
    "target-emd(emd=1.08)",
    "quantity-dirichlet(beta=0.5)",
    "quantity-power-law(exponent=1.5)",
]

digits = sb.load("digits")
figure, grid = plt.subplots(2, 5, figsize=(12, 5.2), sharex=True, sharey=True, layout="constrained")
for axes, spec in zip(grid.flat, SPECS, strict=True):
    partition = sb.partition(digits, spec, parties=10, seed=0)
    skew = sb.measure(partition, digits)
    party, label = np.indices(np.shape(skew.counts))
    axes.scatter(label, party, s=1.6 * np.ravel(skew.counts), color="#1b6ca8", linewidths=0)
    axes.set_title(f"{spec}\nmean EMD {skew.emd_weighted:.2f}, Gini {skew.gini:.2f}", fontsize=9)
    axes.set_xticks(range(10))
    axes.set_yticks(range(10))
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=7)
    axes.grid(alpha=0.25, linewidth=0.5)
grid.flat[0].invert_yaxis()  # the axes are shared
figure.supxlabel("class (the area of a dot is the number of rows)", fontsize=9)
figure.supylabel("party", fontsize=9)
target = sys.argv[1] if len(sys.argv) > 1 else "partitions.png"
figure.savefig(target, dpi=110, metadata={"Software": None})
print(f"wrote {target}")
