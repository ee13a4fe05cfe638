"""What the generators of adversaries read of a caption."""

from dataclasses import dataclass

from vse.text.components import Components
from vse.text.parse import Parse


@dataclass(frozen=True, kw_only=True, slots=True)
class ParsedCaption:
    """A caption with its parse and components."""

    id: str
    image: str
    text: str
    parse: Parse
    components: Components
