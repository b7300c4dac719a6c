"""What silos agree on about their columns, and how the rows of one silo become features by it.

A silo sends a `Summary` before training: counts and sums. All silos then scale their rows by the joint summary.
"""

from silobench.data.agreed.columns import Columns, Label, Pictures
from silobench.data.agreed.description import describe, leaving
from silobench.data.agreed.rows import silo_dataset, summary_of
from silobench.data.agreed.sample import Sample, columns_of, sample_of
from silobench.data.agreed.summary import LEAST_ROWS, Moments, Summary, agreed_encoder, joined

__all__ = [
    "LEAST_ROWS", "Columns", "Label", "Moments", "Pictures", "Sample", "Summary", "agreed_encoder", "columns_of",
    "describe", "joined", "leaving", "sample_of", "silo_dataset", "summary_of",
]  # fmt: skip
