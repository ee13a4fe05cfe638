"""Text with fields between commas, tabs, semicolons or bars: which of them, whether a header names them, and quotes."""

import io
import re
from collections.abc import Sequence
from typing import NoReturn

from vse.data.picture_files import ENDINGS
from vse.data.tables.columns import CAPTION_KEY, IMAGE_KEY, Chooser, Listing
from vse.errors import InputError
from vse.storage.columns import rows

_NAMES = {",": "comma-separated", "\t": "tab-separated", "|": "|-separated", ";": ";-separated"}
_LITERAL = "\t|"  # whose writers often leave quotation marks as they are
_FIRST = re.compile(rf".*(?:{'|'.join(map(re.escape, ENDINGS))})(?:#\d+)?", re.IGNORECASE)
_NUMBER = re.compile(r"(number|index|id)$")  # a column that counts captions
_NUMBERED = re.compile(r"\s*(\d+)\s+(\S.*)", re.DOTALL)

Row = tuple[int, list[str]]


def delimited(text: str, path: str, chooser: Chooser) -> Listing:
    """The rows of a text whose header, or whose first row, shows by what its fields are separated.

    Lines before it that are blank, begin with # or say `sep=` are no rows. Raises InputError.
    """
    start, lines, separators = _beginning(text)
    if not lines:
        raise InputError(f"{path}: is empty; expected a header with the columns image and caption")
    heads = {each: _header(lines, each) for each in separators}
    for separator, head in heads.items():
        if chooser.recognises(head):
            form, (_, *body) = _read(lines, path, start, separator, head)
            header = tuple(head)
            break
    else:
        found = [each for each, head in heads.items() if len(head) == 2 and _FIRST.fullmatch(head[0])]
        if chooser.image or chooser.caption or not found:
            _refuse(max(heads.values(), key=len), f"{path}: line {start}", chooser)
        form, body = _read(lines, path, start, found[0], [])
        form, header = f"{form} without a header", ("image", "caption")
    return Listing(header, [(f"line {number}", dict(zip(header, cells, strict=True))) for number, cells in body], form)


def _refuse(header: list[str], where: str, chooser: Chooser) -> NoReturn:
    if chooser.image or chooser.caption:
        chooser.choose(header, where)
    raise InputError(
        f"{where}: expected JSON, or a header with the columns image and caption between commas, tabs, semicolons "
        f"or |; found {', '.join(header)[:200]}; name columns of other names with {IMAGE_KEY} and {CAPTION_KEY}"
    )


def _beginning(text: str) -> tuple[int, list[str], Sequence[str]]:
    """(number of the first line of the table, lines from it on, separators that are possible)."""
    lines, separators = list(io.StringIO(text, newline="")), list(_NAMES)
    for number, line in enumerate(lines):
        said = re.fullmatch(r'"?sep=(.)"?', line.rstrip("\r\n"), re.IGNORECASE)
        if said:
            separators = [said[1]]
        elif line.strip() and not line.startswith("#"):
            return number + 1, lines[number:], separators
    return 1, [], separators


def _header(lines: list[str], separator: str) -> list[str]:
    try:
        _, fields = next(rows(lines, "", delimiter=separator, quoted='"' in lines[0]))
    except InputError:  # quotation marks that are no quotes
        fields = lines[0].split(separator)
    return [name.strip() for name in fields]


def _read(lines: list[str], path: str, start: int, separator: str, head: list[str]) -> tuple[str, list[Row]]:
    """(form, rows). Quotation marks quote fields; between tabs or bars, they are letters in a file that is not whole
    otherwise."""

    def read(how: str = "") -> tuple[str, list[Row]]:
        mended: list[list[str]] = []

        def mend(fields: list[str]) -> list[str] | None:
            """A row that lacks the separator between the number of a caption and the caption: `a.jpg| 4   A dog runs .`
            is the one damaged row of Flickr30k's results.csv."""
            match = _NUMBERED.fullmatch(fields[-1])
            if not match or len(fields) != len(head) - 1 or not _NUMBER.search(head[-2].lower()):
                return None
            mended.append(fields)
            return [*fields[:-1], *match.groups()]

        found = list(rows(lines, path, delimiter=separator, quoted=not how, first=start, mend=mend))
        lacking = f", {len(mended)} of them without a separator after {head[-2]!r}" if mended else ""
        return f"{_NAMES.get(separator, f'{separator}-separated')}{how}{lacking}", found

    if separator not in _LITERAL:
        return read()
    try:
        whole: tuple[str, list[Row]] | InputError = read()
        if not any(_swallows(cells, separator) for _, cells in whole[1]):
            return whole
    except InputError as error:
        whole = error
    try:
        return read(" with literal quotation marks")
    except InputError:
        if isinstance(whole, InputError):
            raise whole from None
        return whole


def _swallows(cells: list[str], separator: str) -> bool:
    """Whether a field holds what looks like the end of one row and the beginning of another."""
    return any(separator in cell and "\n" in cell for cell in cells)
