"""`RowFormat`: how rows enter a network, and what its answers are called."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scipy import sparse

from silobench.data.array_scaler import ArrayScaler
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
    encoder: Encoder | None = None  # from the columns of a table to features; None if the dataset is not a table
    nonzero: int = 0  # numbers per training row, on average, of sparse rows; 0 if it is not recorded
    scaler: ArrayScaler | None = None  # from arrays to features; None if they are the features
    words_checksum: str = ""  # of the vocabulary; empty if it is not recorded

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
            dataset.encoder,
            max(1, x.nnz // len(dataset.train)) if sparse.issparse(x) else 0,
            dataset.scaler,
            dataset.words_checksum,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the format as run.json states it, without classes and encoder, which are stored elsewhere."""
        return {
            "shape": list(self.shape),
            "dtype": self.dtype,
            **({"vocabulary": self.vocabulary} if self.vocabulary else {}),
            **({"words_checksum": self.words_checksum} if self.words_checksum else {}),
            **({"sparse": True, "nonzero": self.nonzero} if self.is_sparse else {}),
        }

    def encoder_json(self) -> dict[str, Any] | None:
        """Return the encoder or the scaler as encoder.json has it; None if rows are features."""
        encoder = self.encoder or self.scaler
        return encoder.as_json() if encoder else None

    @classmethod
    def from_json(
        cls, facts: Mapping[str, Any], classes: tuple[str, ...], encoder: Mapping[str, Any] | None = None
    ) -> "RowFormat":
        """Read a format from run.json; `encoder` is the content of encoder.json."""
        get, has_scaler = facts.get, encoder is not None and ArrayScaler.is_stored_in(encoder)
        return cls(
            tuple(int(side) for side in facts["shape"]),
            facts["dtype"],
            classes,
            get("vocabulary", 0),
            get("sparse", False),
            Encoder.from_json(encoder) if encoder is not None and not has_scaler else None,
            get("nonzero", 0),
            ArrayScaler.from_json(encoder) if encoder is not None and has_scaler else None,
            get("words_checksum", ""),
        )
