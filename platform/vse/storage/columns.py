"""Rows of delimited text files, such as captions and pairs of captions that people write."""

import csv
from collections.abc import Callable, Iterable, Iterator

from vse.errors import InputError

_NAMES = {",": "comma", "\t": "tab", ";": "semicolon"}
_LITERAL = "\t|"  # whose writers often leave quotation marks as they are

Row = tuple[int, list[str]]


def named(
    lines: Iterable[str], path: str, check: Callable[[list[str], str], None], *, delimiter: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows after the header, with fields by column name, quoted as `quoted_or_literal` finds them.

    Args:
        lines: of the file, with the header first.
        path: of the file, for errors.
        check: called with the column names, in lower case, and the position of the header. It raises InputError for
            missing or repeated columns, and gets an empty list for an empty file.
        delimiter: between fields.

    Yields:
        (line number, fields by column name).
    """
    if delimiter in _LITERAL:
        kept = list(lines)
        every = iter(
            quoted_or_literal(lambda quoted: rows(kept, path, delimiter=delimiter, quoted=quoted), delimiter)[1]
        )
    else:
        every = rows(lines, path, delimiter=delimiter)
    number, fields = next(every, (0, []))
    header = [name.strip().lower() for name in fields]
    check(header, f"{path}: line {number}" if header else path)
    for number, fields in every:
        yield number, dict(zip(header, fields, strict=True))


def quoted_or_literal(read: Callable[[bool], Iterable[Row]], delimiter: str) -> tuple[bool, list[Row]]:
    """(whether quotation marks enclose fields, the rows of a file). Between tabs or bars they are ordinary characters
    if the file cannot be read otherwise.

    Args:
        read: reads the file, with quotation marks that enclose fields or with ordinary ones.
        delimiter: between fields.

    Raises:
        InputError: as `read` does.
    """
    if delimiter not in _LITERAL:
        return True, list(read(True))
    whole, refusal = list[Row](), None
    try:
        whole = list(read(True))
        if not any(_swallows(cells, delimiter) for _, cells in whole):
            return True, whole
    except InputError as error:
        refusal = error
    try:
        return False, list(read(False))
    except InputError:
        if refusal is not None:
            raise refusal from None
        return True, whole


def _swallows(cells: list[str], delimiter: str) -> bool:
    """Whether a field seems to hold the end of one row and the beginning of the next."""
    return any(delimiter in cell and "\n" in cell for cell in cells)


def rows(
    lines: Iterable[str],
    path: str,
    *,
    delimiter: str,
    quoted: bool = True,
    first: int = 1,
    mend: Callable[[list[str]], list[str] | None] | None = None,
) -> Iterator[Row]:
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
