"""Rows of a file whose fields stand between separators: captions and pairs of captions that people write."""

import csv
from collections.abc import Callable, Iterable, Iterator

from vse.errors import InputError

_NAMES = {",": "comma", "\t": "tab", ";": "semicolon"}


def named(
    lines: Iterable[str], path: str, check: Callable[[list[str], str], None], *, delimiter: str, quoted: bool = True
) -> Iterator[tuple[int, dict[str, str]]]:
    """(line where it begins, fields by column) of every row after the header, as `rows` reads them.

    Columns are named in lower case. `check` gets them and where they stand, to raise InputError of what is missing or
    there twice; it gets none of an empty file.
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
    """(line where it begins, fields) of every row that is not blank; the first is the header, no other is shorter or
    longer.

    Args:
        lines: with their own ends (open with newline=""): some stand inside quoted fields.
        path: the file, for messages.
        delimiter: what separates fields.
        quoted: otherwise a quotation mark is a character like others.
        first: number of the first line.
        mend: the fields of a row that is too short or too long as they should be, None if it cannot tell.

    Raises:
        InputError: naming file and line. To guess what a row meant would drop parts of captions, and after an unclosed
            quotation mark all that follows.
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
            hint = "; a quoted field doubles the quotes within it, and ends in one" if of_quotes else ""
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
