"""Reading of tables from CSV text and Parquet files, as raw columns.

Arrow reads the cells. Python's own reader parses the header, and explains what is wrong with a file that Arrow refuses.
"""

import csv
import io
import itertools
import logging
import mmap
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from silobench.data.readers.checks import check_opens, few_lines, need_distinct_names, shorten, unreadable
from silobench.data.table.cells import RawColumn, raw_columns
from silobench.errors import DataError, listed

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
PARQUET = (".parquet", ".pq")
_LOG = logging.getLogger("silobench")
_LARGE = 64 << 20  # bytes: reading more takes a second or longer, so a line announces it
_BLOCK = 4 << 20  # bytes that Arrow parses at a time; a row must fit
_SHOWN = 3  # wrong lines that a message shows
_INDEX = re.compile(r"__index_level_\d+__")  # a saved index of a DataFrame


@dataclass(frozen=True)
class Table:
    """A table that was read: raw columns by name, notes about the reading, and where a row is in the file."""

    columns: dict[str, RawColumn]
    notes: tuple[str, ...] = ()
    sep: str = ","
    place: Callable[[int], str] = "row {} (counted from 0)".format


def read_columns(
    path: Path, wanted: Sequence[str], *, sep: str = "auto", encoding: str = "auto"
) -> Mapping[str, RawColumn]:
    """Return the wanted columns of a CSV or Parquet file; those that are absent are left out."""
    if path.suffix.lower() in PARQUET:
        return read_parquet(path, wanted).columns
    return read_csv(path, wanted, sep=sep, encoding=encoding, only=wanted).columns


# --- Parquet -----------------------------------------------------------------------------------------


def read_parquet(path: Path, only: Sequence[str] = (), drop: Sequence[str] = ()) -> Table:
    """Read a Parquet file; `only` names the columns to read, default all, and `drop` those that may have any type."""
    import pyarrow as pa
    from pyarrow import parquet

    check_opens(path)
    try:
        file = parquet.ParquetFile(path)
        names = [name for name in file.schema_arrow.names if not only or name in only]
        need_distinct_names(path, names)
        table = file.read(names)
        for name in names:
            if name not in drop:  # Arrow reads texts that are not UTF-8, and categories without all their values
                table[name].validate(full=True)
        categories = _categories(file.schema_arrow)
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise unreadable(path, error, "Parquet", "save it with pandas.DataFrame.to_parquet") from error
    if not table.num_rows:
        raise DataError(f"{path} has no rows: at least one is needed, so add them.")
    columns = {
        "" if _INDEX.fullmatch(name) else name: _coded(table[name]) if name in categories else table[name]
        for name in names
    }
    return Table(raw_columns(str(path), columns, drop))


def _coded(column: Any) -> Any:
    """Return a column of categories as a dictionary; as it is if its type has none, whatever the metadata say."""
    import pyarrow as pa

    try:
        return column.dictionary_encode()
    except pa.ArrowNotImplementedError:
        return column


def _categories(schema: Any) -> set[str]:
    """Return the columns that pandas saved as categories; none if its metadata are damaged."""
    try:
        columns = (schema.pandas_metadata or {"columns": []})["columns"]
        return {column["name"] for column in columns if column["pandas_type"] == "categorical"}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return set()


# --- CSV ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Text:
    """The text of a file as UTF-8 bytes: the file itself, or a converted copy."""

    path: Path
    data: Any  # bytes or a memory map

    @contextmanager
    def rows(self, sep: str) -> Iterator[Any]:
        """Open the rows as Python's reader gives them; the reader counts lines as `line_num`."""
        source: IO[bytes] = self.path.open("rb") if isinstance(self.data, mmap.mmap) else io.BytesIO(self.data)
        usual = csv.field_size_limit(max(csv.field_size_limit(), len(self.data)))  # a wide header may be one cell
        try:
            with io.TextIOWrapper(source, encoding="utf-8-sig", newline="") as stream:
                yield csv.reader(stream, delimiter=sep)
        finally:
            csv.field_size_limit(usual)

    def release(self) -> None:
        """Give the memory of the file's pages back; they are read again if an error needs them."""
        if isinstance(self.data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            self.data.madvise(mmap.MADV_DONTNEED)

    def line(self, position: int) -> int:
        """Return the number of the line that contains a byte, counted from 1."""
        return len(re.findall(rb"\r\n|\r|\n", self.data[:position])) + 1


def read_csv(
    path: Path, wanted: Sequence[str], *, sep: str = "auto", encoding: str = "auto", only: Sequence[str] = ()
) -> Table:
    """Read a CSV file with a header as columns of texts.

    The separator is the one that splits the header into the `wanted` columns; a comma wins. `only` names the columns
    to read, default all.
    """
    text = _open(path, encoding)
    if len(text.data) > _LARGE:
        _LOG.info("reading %s (%d MB)", path, len(text.data) >> 20)
    mark = _separator(text, wanted) if sep == "auto" else sep
    header = _header(text, mark)
    _check_separator(path, header, wanted, mark)
    has_breaks = _check_quotes(text, mark)
    names = [name for name in header if not only or name in only]
    columns = _parse(text, mark, header, names, has_breaks)
    text.release()
    return Table(columns, _note_on(mark, sep), mark, lambda row: f"line {_line_of_row(text, mark, row)}")


def _note_on(mark: str, sep: str) -> tuple[str, ...]:
    if mark == "," or sep != "auto":
        return ()
    return (f"columns are separated by a {SEPARATORS[mark]}, as the header shows",)


def _open(path: Path, encoding: str) -> _Text:
    """Return the text of a file; refuse a file that is not text."""
    try:
        with path.open("rb") as file:
            data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
        if encoding != "auto":
            data = data[:].decode(encoding).lstrip("\ufeff").encode()
    except (OSError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        raise unreadable(path, error, "text", "check the path and the encoding") from error
    text = _Text(path, data)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{path} cannot be read as text in UTF-8, because it is UTF-16: write encoding=utf-16.")
    if (place := data.find(b"\0")) >= 0:
        raise DataError(f"{path} has a NUL byte in line {text.line(place)}, so it is not a text table: save it as CSV.")
    return text


def not_utf8(path: Path, data: Any) -> DataError:
    """Return the error for a file that is not UTF-8, with the first bad line."""
    for number, line in enumerate(re.split(rb"\r\n|\r|\n", data[:]), 1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return DataError(
                f"{path} cannot be read as text in UTF-8, because of the byte 0x{line[error.start]:02x} in line "
                f"{number}: write encoding=latin-1 (or cp1252), or save it as UTF-8."
            )
    return DataError(f"{path} cannot be read as text in UTF-8: write encoding=latin-1, or save it as UTF-8.")


def _separator(text: _Text, wanted: Sequence[str]) -> str:
    """Return the separator that finds the most wanted columns; if none finds any, the one with the most columns."""

    def score(mark: str) -> tuple[int, int]:
        names = _first_row(text, mark)
        return sum(name in names for name in wanted), len(names) if not set(wanted) & set(names) else 0

    return max(SEPARATORS, key=score)


def _first_row(text: _Text, mark: str) -> list[str]:
    try:
        with text.rows(mark) as rows:
            return [name.strip() for name in next((row for row in rows if row), [])]
    except UnicodeDecodeError:
        raise not_utf8(text.path, text.data) from None
    except csv.Error as error:
        raise DataError(f"{text.path} cannot be read as CSV ({error} in the header): correct it.") from error


def _header(text: _Text, mark: str) -> list[str]:
    header = _first_row(text, mark)
    need_distinct_names(text.path, header)
    return header


def _check_separator(path: Path, header: list[str], wanted: Sequence[str], mark: str) -> None:
    """Refuse a header that is one column without the wanted names, because another separator is in it."""
    others = [name for other, name in SEPARATORS.items() if other != mark and other in header[0]] if header else []
    if len(header) == 1 and others and not set(wanted) <= set(header):
        shown = SEPARATORS.get(mark, f"'{mark}'")
        raise DataError(
            f"{path} has only one column if it is separated by {_with_article(shown)} ('{shorten(header[0])}'), but "
            f"{_with_article(others[0])} separates its header: write sep={others[0]}, or leave sep out."
        )


def _with_article(shown: str) -> str:
    return shown if shown.startswith("'") else f"a {shown}"


def _check_quotes(text: _Text, mark: str) -> bool:
    """Refuse cells with an open quotation mark, which would swallow the lines after them.

    Return whether some quoted cell has a line break. A quotation mark opens a cell only at its start; there, every
    match of the pattern begins outside of other quoted cells, because matches do not overlap.
    """
    if text.data.find(b'"') < 0:
        return False
    edge = re.escape(mark.encode())
    start = rb"(?:(?<=[\r\n" + edge + rb'])|\A(?:\xef\xbb\xbf)?)"'
    cell = re.compile(start + rb'(?:[^"]++|"")*+(?P<end>"(?:[ \t]*(?=[\r\n' + edge + rb"]|\Z))?)?+")
    has_breaks, bad = False, []
    for match in cell.finditer(text.data):
        after = match.end()
        closed = match["end"] is not None
        if not closed or (after < len(text.data) and text.data[after : after + 1] not in (b"\r", b"\n", mark.encode())):
            bad.append(match.start())
        elif b"\n" in match[0] or b"\r" in match[0]:
            has_breaks = True
    if bad:
        places = listed([f"line {text.line(place)}" for place in bad[:_SHOWN]] + [""] * len(bad[_SHOWN:]), _SHOWN)
        raise DataError(
            f"{text.path} has a quotation mark that is not closed where its cell ends ({places}): close it, or write "
            "it twice inside a quoted cell."
        )
    return has_breaks


def _parse(text: _Text, mark: str, header: list[str], names: list[str], has_breaks: bool) -> dict[str, RawColumn]:
    """Return columns of texts; explain a file that Arrow refuses."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    wanted = set(names)
    places = {name: f"f{place}" for place, name in enumerate(header) if name in wanted}
    options = (
        arrow_csv.ParseOptions(delimiter=mark, newlines_in_values=has_breaks),
        arrow_csv.ConvertOptions(
            column_types={place: pa.string() for place in places.values()},
            include_columns=list(places.values()),
            strings_can_be_null=False,
        ),
    )
    problem: Exception | None = None
    for block in (_BLOCK, len(text.data) + 1):  # the second is for a row that is longer than a block
        size = min(block, (1 << 31) - 1)
        reading = arrow_csv.ReadOptions(autogenerate_column_names=True, block_size=size)
        try:
            table = arrow_csv.read_csv(pa.py_buffer(text.data), reading, *options)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            problem = error
            continue
        if table.num_rows > 1:
            return {name: RawColumn("text", table[place].slice(1)) for name, place in places.items()}
        break
    raise _explain(text, mark, len(header), problem)


def _explain(text: _Text, mark: str, width: int, problem: Exception | None) -> DataError:
    """Return the error for a file that cannot be parsed: wrong lines, or too few of them."""
    bad, count = [], 0
    try:
        with text.rows(mark) as reader:
            for start, row in _numbered(reader):
                count += 1
                if len(row) != width:
                    bad.append(f"{len(row)} cells in line {start}")
    except UnicodeDecodeError:
        return not_utf8(text.path, text.data)
    except csv.Error as error:
        return DataError(f"{text.path} cannot be read as CSV ({error} in line {reader.line_num}): correct that line.")
    if count < 2:
        return few_lines(text.path, count)
    if bad:
        those = "that line" if len(bad) == 1 else "those lines"
        return DataError(f"{text.path} has {listed(bad, _SHOWN)} but {width} in the header: correct {those}.")
    return DataError(f"{text.path} cannot be read as CSV ({shorten(str(problem))}): save it again.")


def _line_of_row(text: _Text, mark: str, row: int) -> int:
    """Return the line where a row starts; row 0 is the first after the header."""
    with text.rows(mark) as reader:
        return next(itertools.islice(_numbered(reader), row + 1, None))[0]


def _numbered(reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield the line where each row starts and the row; empty rows are left out."""
    start = 1
    for row in reader:
        if row:
            yield start, row
        start = reader.line_num + 1
