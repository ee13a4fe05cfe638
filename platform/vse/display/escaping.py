"""Control characters of data (captions, names of files and columns) are shown on the terminal instead of obeyed.

A file name may hold an escape sequence that sets the title, clears the screen, fakes a link or reverses the text.
"""

import contextlib
import io
import re
import sys
from collections.abc import Generator, Iterable
from typing import Any

# C0 and C1 controls, marks and overrides of text direction, separators of lines, invisible operators, the byte order
# mark, and surrogates, as which Python reads bytes of file names that are not UTF-8. Joiners stay: scripts need them.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_BREAKING = re.compile(f"{_CONTROL.pattern}|[\t\n]")


def visible(text: str) -> str:
    """`text` with control characters as Python writes them (`\\x1b`); line ends and tabs stay."""
    return _CONTROL.sub(_escaped, text)


def one_line(text: str) -> str:
    """The same for text that belongs on one line: line ends and tabs are shown too."""
    return _BREAKING.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


class EscapingStream:
    """A text stream that shows control characters. `raw` is the stream below, for what draws by them on purpose."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        self.raw.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


def raw(stream: Any) -> Any:
    """The stream to which bars and tables with colours may be written; everything from data in them is escaped by the
    caller."""
    return stream.raw if isinstance(stream, EscapingStream) else stream


@contextlib.contextmanager
def escaped_output() -> Generator[None]:
    """While the body runs, stdout and stderr show control characters, and what their encoding lacks, as in an ASCII
    locale, as escapes."""
    before = sys.stdout, sys.stderr
    for stream in before:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = map(EscapingStream, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
