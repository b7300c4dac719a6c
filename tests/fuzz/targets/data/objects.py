"""Objects in memory: data frames, arrays, torch and Hugging Face datasets with strange types and shapes."""

import datetime
import decimal
from collections.abc import Callable
from random import Random
from typing import Any

import datasets
import numpy as np
import pandas as pd
import torch
from scipy import sparse

from silobench.data.objects import from_arrays, from_huggingface, from_pandas, from_torch

_CELLS: tuple[Any, ...] = (
    1, 0, -3, 2.5, float("nan"), float("inf"), 1e300, 10**400, True, None, "a", "b", "", "é", "\ud800", "2024-04-03",
    b"x",    (1, 2), [1], {"a": 1}, pd.NaT, pd.NA, np.float32(2), np.datetime64("NaT"), np.datetime64("9999-12-31"),
    datetime.date(2024, 4, 3), datetime.datetime(1, 1, 1, tzinfo=datetime.UTC), decimal.Decimal("NaN"), 1j,
    decimal.Decimal("1e999"), np.timedelta64(1, "D"), pd.Timestamp.max, object, torch.ones(2), np.ones(2),
)  # fmt: skip
_TYPES = (
    "int64", "float64", "float32", "bool", "uint8", "object", "str", "category", "datetime64[ns]", "timedelta64[s]",
    "Int64", "boolean", "complex128", "float16", "Float64", "datetime64[ns, Europe/Berlin]", "Sparse[float64]",
    "period[D]",
)  # fmt: skip
_NAMES: tuple[Any, ...] = (
    "y",
    "x2",
    3,
    None,
    ("a", "b"),
    "",
    "x3",
    "x4",
    "x5",
    2.5,
    float("nan"),
    "\ud800",
    datetime.date(2024, 1, 1),
)


datasets.disable_progress_bars()


def number(rng: Random) -> bytes:
    """Return a number from which an object is made."""
    return rng.randbytes(8)


def read_object(content: bytes) -> None:
    """Make an object by the content, and read it as a dataset."""
    rng = Random(content)
    rng.choice((_frame, _frame, _arrays, _torch, _hugging))(rng)


def _values(rng: Random, rows: int) -> list[Any]:
    few = [rng.choice(_CELLS) for _ in range(rng.choice((1, 2, 2, 3)))]
    plain = rng.choice(((0, 1, 2), (0.5, 1.5), ("a", "b")))
    odd = rng.choice((0.0, 0.0, 0.0, 0.1, 1.0))
    return [rng.choice(few) if rng.random() < odd else rng.choice(plain) for _ in range(rows)]


def _series(rng: Random, rows: int) -> Any:
    series = pd.Series(_values(rng, rows), dtype=object)
    try:
        return series.astype(rng.choice(_TYPES)) if rng.random() < 0.5 else series.infer_objects()
    except Exception:  # pandas refuses the type
        return series


def _frame(rng: Random) -> None:
    rows = rng.choice((0, 1, 30, 30, 30, 30, 30, 30))
    labels = pd.Series([rng.choice("ab") for _ in range(rows)]) if rng.random() < 0.8 else _series(rng, rows)
    columns = [("y", labels), ("x1", _series(rng, rows))]
    columns += [(rng.choice(_NAMES), _series(rng, rows)) for _ in range(rng.choice((0, 0, 1, 3)))]
    frame = pd.concat([series for _, series in columns], axis=1)
    frame.columns = pd.Index([name for name, _ in columns], dtype=object)
    if rng.random() < 0.1:
        frame.index = pd.Index([rng.choice(_CELLS[:12]) for _ in range(rows)])
    options: dict[str, Any] = rng.choice((
        {}, {}, {"group": "x1"}, {"drop": ["x1"]}, {"test": frame}, {"text": "x1"}, {"dates": "x1"}, {"many": "hash"},
        {"task": "regression"}, {"scale": None}, {"scale": "private", "epsilon": 9.0}, {"test": 2}, {"dates": None},
    ))  # fmt: skip
    from_pandas(frame, rng.choice(("y",) * 12 + ("x1", 3, None)), **options)


def _array(rng: Random, rows: int) -> Any:
    shape = rng.choice(((rows, 2),) * 6 + ((rows,), (rows, 0), (rows, 1, 4, 4), ()))
    values = np.array([rng.choice((0.0, 1.0, 2.5)) for _ in range(int(np.prod(shape)))]).reshape(shape)
    kinds: list[Callable[[], Any]] = [
        lambda: values, lambda: values.astype(np.uint8), lambda: values.astype("U4"), lambda: values.astype(object),
        lambda: values.tolist(), lambda: torch.tensor(values), lambda: torch.tensor(values).to(torch.bfloat16),
        lambda: torch.tensor(values).to_sparse(), lambda: values * np.nan, lambda: values.astype(complex),
        lambda: values.astype("M8[s]"), lambda: sparse.csr_matrix(values), lambda: sparse.coo_array(values),
        lambda: _values(rng, rows), lambda: None, lambda: "text", lambda: pd.DataFrame(values), lambda: values.T,
        lambda: np.ma.masked_array(values, values > 1), lambda: torch.tensor(values, requires_grad=True), lambda: 7,
        lambda: [[1, 2], [3]], lambda: torch.tensor(values).to(torch.float8_e4m3fn),
    ]  # fmt: skip
    try:
        return rng.choice(kinds)() if rng.random() < 0.4 else values
    except (ValueError, TypeError, RuntimeError):  # the library refuses the shape
        return values


def _arrays(rng: Random) -> None:
    rows = rng.choice((0, 1, 30, 30, 30, 30, 30, 30))
    labels = np.arange(rows) % 2 if rng.random() < 0.7 else rng.choice((_array(rng, rows), _values(rng, rows)))
    groups = rng.choice((None, None, np.arange(rows) % 3, _values(rng, rows), _array(rng, rows)))
    test = (_array(rng, rows), labels) if rng.random() < 0.2 else (None, None)
    options: dict[str, Any] = rng.choice(
        ({}, {}, {"scale": "standard"}, {"task": "regression"}, {"test": rng.choice((0.0, 1, "x", True))})
    )
    from_arrays(_array(rng, rows), labels, groups, *test, **options)


def _torch(rng: Random) -> None:
    rows = rng.choice((0, 1, 30, 30, 30, 30, 30))
    pairs = [
        (
            _array(rng, 3) if rng.random() < 0.01 else torch.ones(3) * row,
            rng.choice(_CELLS) if rng.random() < 0.005 else row % 2,
        )
        for row in range(rows)
    ]
    from_torch(
        rng.choice(
            (
                pairs,
                pairs,
                pairs,
                pairs,
                pairs,
                iter(pairs),
                None,
                [1, 2],
                torch.utils.data.TensorDataset(torch.ones(rows, 2)),
            )
        )
    )


def _hugging(rng: Random) -> None:
    rows = rng.choice((0, 1, 30, 30, 30, 30, 30))
    values = rng.choice((
        [1.5] * rows, [[1, 2]] * rows, [{"a": 1}] * rows, [None] * rows, ["a"] * rows, [[1], [2, 3]] * (rows // 2),
        [datetime.date(2024, 4, 3)] * rows, [b"x"] * rows, [True] * rows, [float("inf")] * rows,
        [[[1, 2], [3, 4]]] * rows,
    ))  # fmt: skip
    content: dict[str, Any] = {"y": [row % 2 for row in range(len(values))], "x": values}
    data = datasets.Dataset.from_dict(content)
    if rng.random() < 0.3:
        data = data.cast_column("y", datasets.ClassLabel(names=rng.choice((["no", "yes"], ["a", "b", "c"]))))
    whole = rng.choice(
        (data, data, datasets.DatasetDict({"train": data, "test": data}), {"train": data}, data, data, {}, None, [1])
    )
    from_huggingface(whole, rng.choice(("y",) * 8 + ("x", "z")), test=rng.choice((None,) * 6 + (0.5, "train", 7, data)))
