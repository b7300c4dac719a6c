"""`RowFormat`: how rows enter a network, and what its answers are called."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scipy import sparse

from silobench.data.dataset import Dataset
from silobench.data.encoder import Encoder


@dataclass(frozen=True)
class RowFormat:
    """The form of a dataset's rows: what is needed to give other rows to a network that was trained on them."""

    shape: tuple[int, ...]
    dtype: str = "float32"  # of the stored features; uint8 means 0 to 255
    classes: tuple[str, ...] = ()  # empty for numbers
    vocabulary: int = 0  # words, for rows of word numbers
    is_sparse: bool = False
    nonzero: int = 0  # numbers per training row, on average, of sparse rows; 0 if it is not recorded
    encoder: Encoder | None = None  # from the columns of a table to features; None if the dataset is not a table

    @classmethod
    def of(cls, dataset: Dataset) -> "RowFormat":
        """Return the format of a dataset's rows."""
        x = dataset.train.x
        return cls(
            dataset.shape,
            str(x.dtype),
            dataset.classes,
            len(dataset.vocabulary),
            sparse.issparse(x),
            max(1, x.nnz // len(dataset.train)) if sparse.issparse(x) else 0,
            dataset.encoder,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the format as run.json states it, without classes and encoder, which are stored elsewhere."""
        return {
            "shape": list(self.shape),
            "dtype": self.dtype,
            **({"vocabulary": self.vocabulary} if self.vocabulary else {}),
            **({"sparse": True, "nonzero": self.nonzero} if self.is_sparse else {}),
        }

    @classmethod
    def from_json(
        cls, facts: Mapping[str, Any], classes: tuple[str, ...], encoder: Encoder | None = None
    ) -> "RowFormat":
        """Read a format from run.json."""
        get = facts.get
        shape = tuple(int(side) for side in facts["shape"])
        is_sparse, nonzero = get("sparse", False), get("nonzero", 0)
        return cls(shape, facts["dtype"], classes, get("vocabulary", 0), is_sparse, nonzero, encoder)
