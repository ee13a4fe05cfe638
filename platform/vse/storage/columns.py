"""Rows of delimited text files, such as captions and pairs of captions that people write."""

import csv
from collections.abc import Callable, Iterable, Iterator

from vse.errors import InputError

_NAMES = {",": "comma", "\t": "tab", ";": "semicolon"}


def named(
    lines: Iterable[str], path: str, check: Callable[[list[str], str], None], *, delimiter: str, quoted: bool = True
) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, fields by column name) of every row after the header.

    Column names are lower case. `check` is called with them and the position of the header, and raises InputError for
    missing or repeated columns. It gets an empty list for an empty file.
    """
    every = rows(lines, path, delimiter=delimiter, quoted=quoted)
    number, fields = next(every, (0, []))
    header = [name.strip().lower() for name in fields]
    check(header, f"{path}: line {number}" if header else path)
    for number, fields in every:
        yield number, dict(zip(header, fields, strict=True))


def rows(
    lines: Iterable[str],
    path: str,
    *,
    delimiter: str,
    quoted: bool = True,
    first: int = 1,
    mend: Callable[[list[str]], list[str] | None] | None = None,
) -> Iterator[tuple[int, list[str]]]:
    """(line number, fields) of every row that is not blank. The first is the header; all rows have its length.

    Args:
        lines: of the file, opened with newline="", since quoted fields may hold line ends.
        path: the file, for messages.
        delimiter: between fields.
        quoted: whether quotation marks enclose fields; otherwise they are ordinary characters.
        first: number of the first line.
        mend: corrects the fields of a row of another length; None if it cannot.

    Raises:
        InputError: a row has another length, or its quotes are wrong. Guessing would drop parts of captions, and
            after an unclosed quotation mark the rest of the file.
    """
    quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True, skipinitialspace=True)
    width = 0
    while True:
        number = reader.line_num + first
        where = f"{path}: line {number}"
        try:
            fields = next(reader, None)
        except csv.Error as error:
            of_quotes = quoted and "field limit" not in str(error)
            hint = "; double the quotes inside a quoted field, and close it with one" if of_quotes else ""
            raise InputError(f"{where}: {error}{hint}") from None
        if fields is None:
            return
        if not "".join(fields).strip() and (len(fields) < 2 or width):
            continue  # spreadsheets write empty rows as separators alone
        width = width or len(fields)
        if len(fields) != width and mend is not None:
            fields = mend(fields) or fields
        if len(fields) != width:
            name = _NAMES.get(delimiter, delimiter)
            right = f"put a field that holds a {name} in double quotes" if quoted else f"no field may hold a {name}"
            raise InputError(f"{where}: {len(fields)} fields, but the header has {width}; {right}")
        yield number, fields
