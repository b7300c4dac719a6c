"""Raw columns of a table, before they become features: texts, numbers or dates.

A CSV file has texts only. Parquet files, DataFrames and arrays have typed columns. `RawColumn` is the common form.
"""

import datetime
import decimal
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from silobench.errors import DataError, listed

MISSING = {"", "?", "na", "n/a", "null", "none"}
Decimal: TypeAlias = Literal["auto", ".", ","]
Thousands: TypeAlias = Literal["", ".", ",", " "]
_SHOWN = 3  # wrong cells of a column that a message shows
_NARROW_SPACES = str.maketrans("\u00a0\u202f", "  ")  # that do not break a line


@dataclass(frozen=True)
class Factor:
    """Texts of a column as codes: distinct stripped texts in sorted order; "" stands for every missing cell."""

    texts: list[str]
    codes: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def missing(self) -> int:
        """The number of missing cells."""
        return int((self.codes == 0).sum()) if self.texts and not self.texts[0] else 0

    def missing_rows(self, column: str, place: Callable[[int], str]) -> str:
        """Return how many rows have no value, and where the first of them is; empty if all have one.

        `column` names it in the sentence, and `place` says where a row is in the file.
        """
        count = self.missing
        if not count:
            return ""
        rows, where = ("1 row", "in") if count == 1 else (f"{count} rows", "the first in")
        return f"{rows} without a value in {column}, {where} {place(int(self.rows_of(0)[0]))}"

    def rows_of(self, code: int) -> NDArray[np.int64]:
        """Return the row numbers that have a text."""
        return np.flatnonzero(self.codes == code)


@dataclass(frozen=True)
class BadCells:
    """Cells that are not finite numbers: row numbers and texts of the first few."""

    cells: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class RawColumn:
    """A raw column of a table.

    `values` are texts in an Arrow array or as a `Factor`, float64 numbers with NaN for missing ones, or datetime64[s]
    with NaT for missing ones. A column `is_category` if its type says so, even if its categories are numbers, and
    `is_bool` if its numbers 0 and 1 were false and true.
    """

    kind: Literal["text", "factor", "number", "date"]
    values: Any
    is_category: bool = False
    is_bool: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def factor(self) -> Factor:
        """The texts of the column as codes; numbers and dates are written as texts."""
        if self.kind == "factor":
            codes_and_texts: Factor = self.values
            return codes_and_texts
        texts = self.values if self.kind == "text" else _as_texts(self.values)
        encoded = texts.dictionary_encode().unify_dictionaries()
        if not encoded.num_chunks:
            return Factor([], np.zeros(0, np.int32))
        codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks])
        stripped = [text.strip() for text in encoded.chunk(0).dictionary.to_pylist()]
        cleaned = ["" if text.lower() in MISSING else text for text in stripped]
        distinct = sorted(set(cleaned))
        code_of = {text: code for code, text in enumerate(distinct)}
        return Factor(distinct, np.array([code_of[text] for text in cleaned], np.int32)[codes])

    def numbers(self, decimal: str = ".", thousands: str = "") -> NDArray[np.float64] | BadCells | None:
        """Return numbers with NaN for missing cells; None if some cell is not a number, `BadCells` if not finite."""
        if self.kind == "number" and not self.is_category:
            values: NDArray[np.float64] = self.values
            bad = np.flatnonzero(np.isinf(values))[:_SHOWN]
            return BadCells(tuple((int(row), str(values[row])) for row in bad)) if len(bad) else values
        if self.kind == "date" or self.is_category:
            return None
        quick = _cast(self.values, decimal) if self.kind == "text" and not thousands else None
        return _parse(self.factor, decimal, thousands) if quick is None else quick


# --- numbers -----------------------------------------------------------------------------------------


def _cast(texts: Any, decimal: str) -> NDArray[np.float64] | None:
    """Return texts as numbers if Arrow can read all of them as finite numbers or as missing cells, else None.

    Arrow and Python's float() round correctly, so the numbers are the same. Arrow refuses some spellings that float()
    reads, such as 1_000 and spaces around a number, and those are left to float().
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if decimal == ",":
        if pc.any(pc.match_substring(texts, ".")).as_py():
            return None
        texts = pc.replace_substring(texts, ",", ".")
    missing = 0
    try:
        cast = pc.cast(texts, pa.float64())
    except pa.ArrowInvalid:
        is_missing = pc.is_in(texts, value_set=pa.array(_spellings(), texts.type))
        missing = pc.sum(is_missing).as_py() or 0
        if not missing or missing == len(texts):
            return None
        try:
            cast = pc.cast(pc.if_else(is_missing, pa.scalar(None, texts.type), texts), pa.float64())
        except pa.ArrowInvalid:
            return None
    numbers: NDArray[np.float64] = cast.to_numpy()
    return numbers if int(np.isfinite(numbers).sum()) + missing == len(numbers) else None


def _spellings() -> list[str]:
    return sorted({form for text in MISSING for form in (text, text.upper(), text.capitalize(), text.title())})


def _parse(factor: Factor, decimal: str, thousands: str) -> NDArray[np.float64] | BadCells | None:
    """Return the texts of a factor as numbers, as Python's float() reads them."""
    try:
        values = np.array([np.nan if not text else parse_number(text, decimal, thousands) for text in factor.texts])
    except ValueError:
        return None
    bad = [code for code, text in enumerate(factor.texts) if text and not np.isfinite(values[code])]
    if bad:
        first = sorted((int(factor.rows_of(code)[0]), factor.texts[code]) for code in bad)
        return BadCells(tuple(first[:_SHOWN]))
    return values[factor.codes]


def parse_number(text: str, decimal: str = ".", thousands: str = "") -> float:
    """Return a number that is written with these marks; raise `ValueError` for other texts.

    >>> parse_number("3,7", ","), parse_number("1.910,51", ",", ".")
    (3.7, 1910.51)
    """
    return float(plain_number(text, decimal, thousands))


def plain_number(text: str, decimal: str = ".", thousands: str = "") -> str:
    """Return a number as Python writes it: without marks for thousands, which must separate groups of three digits."""
    if thousands:
        text = text.translate(_NARROW_SPACES)
        whole, mark, rest = text.partition(decimal)
        if thousands in text:
            groups = rf"[+-]?[1-9]\d{{0,2}}({re.escape(thousands)}\d{{3}})+"
            if not re.fullmatch(groups, whole):
                raise ValueError(text)
            text = whole.replace(thousands, "") + mark + rest
    if decimal == ",":
        if "." in text:
            raise ValueError(text)
        text = text.replace(",", ".")
    return text


# --- other forms -------------------------------------------------------------------------------------


def text_column(texts: Sequence[str], is_category: bool = False) -> RawColumn:
    """Return texts as a column."""
    import pyarrow as pa

    try:
        array = pa.array(texts, pa.large_string())
    except UnicodeEncodeError as error:
        raise _half_character(error) from error
    return RawColumn("text", pa.chunked_array([array]), is_category)


def _half_character(error: UnicodeEncodeError) -> DataError:
    return DataError(f"a text has {error.object[error.start]!a}, which is no character: correct the text.")


def raw_column(name: str, values: Any) -> RawColumn:
    """Return a column of any form: a raw column, an Arrow or NumPy array, a list, a pandas Series, a tensor."""
    if isinstance(values, RawColumn):
        return values
    module = type(values).__module__.split(".")[0]
    if module == "pandas":
        return _series_column(name, values)
    if module == "pyarrow":
        return arrow_column(name, values)
    if module == "torch":
        values = values.detach().cpu().numpy()
    array = np.asarray(values) if not isinstance(values, list | tuple) else _listed(values)
    if array.ndim != 1:
        raise DataError(f"column '{name}' has the shape {array.shape}: a column needs one value per row; split it.")
    return _array_column(name, array)


def raw_columns(source: str, columns: Mapping[str, Any], drop: Collection[str] = ()) -> dict[str, RawColumn]:
    """Return columns of any form; one error names all columns of a type that cannot become features.

    A column to `drop` may have any type and becomes empty.
    """
    result, refused = {}, {}
    for name, values in columns.items():
        try:
            result[name] = RawColumn("number", np.zeros(0)) if name in drop else raw_column(name, values)
        except DataError as error:
            refused[name] = error
    if len(refused) == 1:
        raise next(iter(refused.values()))
    if refused:
        raise DataError(
            f"{source} has columns of types that cannot become features ({listed(list(refused))}): convert them to "
            "numbers, texts or dates, or drop them."
        )
    return result


def _listed(values: Sequence[Any]) -> NDArray[Any]:
    """Return a list as an array; mixed types stay objects, because NumPy would make texts of all."""
    if all(isinstance(value, str) for value in values) or all(type(value) in (int, float, bool) for value in values):
        return np.asarray(values)
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _array_column(name: str, array: NDArray[Any]) -> RawColumn:
    if array.dtype.kind in "fiub":
        return RawColumn("number", array.astype(np.float64), is_bool=array.dtype.kind == "b")
    if array.dtype.kind == "M":
        return RawColumn("date", array.astype("datetime64[s]"))
    if array.dtype.kind == "m":
        return RawColumn("number", _days(array))
    if array.dtype.kind in "UT":
        return text_column(array.tolist())
    if array.dtype.kind == "O":
        return _object_column(name, array)
    raise _unusable(name, array.dtype)


def _unusable(name: str, kind: Any) -> DataError:
    return DataError(
        f"column '{name}' has the type {kind}, which cannot become features: convert it to numbers, texts or dates, or "
        "drop it."
    )


def _days(spans: NDArray[Any]) -> NDArray[np.float64]:
    """Return time spans in days, NaN for missing ones."""
    return np.where(np.isnat(spans), np.nan, spans / np.timedelta64(1, "D"))


def _object_column(name: str, array: NDArray[Any]) -> RawColumn:
    """Return Python objects as numbers or dates if all of them are, else as texts."""
    absent = np.array([is_absent(value) for value in array], bool)
    known = array[~absent]
    if all(_is_number(value) for value in known):
        numbers = np.full(len(array), np.nan)
        try:
            numbers[~absent] = [float(value) for value in known]
        except OverflowError as error:
            raise DataError(f"column '{name}' has a number that is too large: numbers must be below 1e308.") from error
        return RawColumn("number", numbers, is_bool=all(isinstance(value, bool | np.bool_) for value in known))
    if all(isinstance(value, datetime.date | np.datetime64) for value in known):
        dates = np.full(len(array), np.datetime64("NaT"), "datetime64[s]")
        dates[~absent] = [_naive(value) for value in known]
        return RawColumn("date", dates)
    strange = [value for value in known if not isinstance(value, str | bool | int | float | np.generic | datetime.date)]
    if strange:
        raise DataError(
            f"column '{name}' has a {type(strange[0]).__name__} in a cell: numbers, texts or dates are needed, so "
            "convert the column or drop it."
        )
    return text_column(["" if is_missing else str(value) for value, is_missing in zip(array, absent, strict=True)])


def is_absent(value: Any) -> bool:
    """Whether a Python object stands for a missing cell: None, NaN, NaT or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(isinstance(value, float | np.floating | np.datetime64) and value != value)


def _is_number(value: Any) -> bool:
    is_span = isinstance(value, np.timedelta64)  # a number of ticks, for NumPy
    return isinstance(value, bool | int | float | np.number | np.bool_ | decimal.Decimal) and not is_span


def _naive(value: Any) -> np.datetime64:
    """Return a date or time as UTC without a time zone."""
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(value, "s")


def _series_column(name: str, series: Any) -> RawColumn:
    """Return a pandas Series as a column."""
    if type(series.dtype).__name__ == "SparseDtype":
        series = series.sparse.to_dense()
    if series.dtype == object:
        return _array_column(name, series.to_numpy())
    import pyarrow as pa

    try:
        return arrow_column(name, pa.Array.from_pandas(series))
    except UnicodeEncodeError as error:
        raise _half_character(error) from error
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, OverflowError) as error:
        raise _unusable(name, series.dtype) from error


def arrow_column(name: str, values: Any) -> RawColumn:
    """Return an Arrow array as a column; null is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    if not isinstance(values, pa.ChunkedArray):
        values = pa.chunked_array([values])
    kind = values.type
    if types.is_dictionary(kind):
        try:
            return RawColumn("text", _filled(pc.cast(pc.cast(values, kind.value_type), pa.large_string())), True)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:  # categories of bytes, or of lists
            raise _unusable(name, kind) from error
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return RawColumn("text", _filled(pc.cast(values, pa.large_string())))
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind):
        return RawColumn("number", _floats(values), is_bool=types.is_boolean(kind))
    if types.is_timestamp(kind) or types.is_date(kind):
        seconds = pc.cast(values, pa.timestamp("s", getattr(kind, "tz", None)), safe=False)
        return RawColumn("date", seconds.to_numpy().astype("datetime64[s]"))
    if types.is_duration(kind):
        return RawColumn("number", _days(values.to_numpy()))
    if types.is_null(kind):
        return RawColumn("number", np.full(len(values), np.nan))
    raise _unusable(name, kind)


def _filled(texts: Any) -> Any:
    return texts.fill_null("") if texts.null_count else texts


def _floats(values: Any) -> NDArray[np.float64]:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types

    if types.is_boolean(values.type):
        values = pc.cast(values, pa.uint8())
    return np.asarray(pc.cast(values, pa.float64(), safe=False).to_numpy(), np.float64)


def _as_texts(values: NDArray[Any], is_bool: bool = False) -> Any:
    """Return numbers or dates as an Arrow array of texts: 3.0 is "3" (1.0 of `is_bool` "True"), a missing value ""."""
    if is_bool:
        texts = ["" if value != value else str(bool(value)) for value in values.tolist()]
    elif values.dtype.kind == "M":
        texts = ["" if np.isnat(value) else str(value).removesuffix("T00:00:00") for value in values]
    else:
        texts = ["" if value != value else repr(value) if value % 1 else str(int(value)) for value in values.tolist()]
    return text_column(texts).values


def concatenate(first: RawColumn, second: RawColumn) -> RawColumn:
    """Return the rows of two columns as one; columns of different kinds become texts."""
    import pyarrow as pa

    if first.kind == second.kind != "text":
        is_bool = first.is_bool and second.is_bool
        return RawColumn(first.kind, np.concatenate([first.values, second.values]), is_bool=is_bool)
    texts = [c.values if c.kind == "text" else _as_texts(c.values, c.is_bool) for c in (first, second)]
    chunks = [chunk.cast(pa.large_string()) for part in texts for chunk in part.chunks]
    return RawColumn("text", pa.chunked_array(chunks, pa.large_string()), first.is_category or second.is_category)


def release_memory() -> None:
    """Give memory of freed Arrow arrays back to the system."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()
