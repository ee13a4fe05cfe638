"""What the generators of adversaries read of a caption."""

from dataclasses import dataclass

from vse.language.components import Components
from vse.language.parse import Parse


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedCaption:
    """A caption with what the parser made of it."""

    id: str
    image: str
    text: str
    parse: Parse
    components: Components
