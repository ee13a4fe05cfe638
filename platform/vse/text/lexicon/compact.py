"""The shipped sub-lexicon: the noun relations and concreteness of some thousands of visual words of WordNet 3.0.

It holds every sense of its words and all their hypernyms, so that it answers as the whole database does.
"""

import json
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from vse.config import fingerprint
from vse.errors import InputError
from vse.text.lexicon.concreteness import PUBLISHED_SHARE, Concreteness, read_scores, wordnet_scores
from vse.text.lexicon.lexicon import Lexicon
from vse.text.lexicon.wordnet import read_wordnet

SHIPPED = "shipped"
FILE = Path(__file__).parent / "nouns.json"


@dataclass(frozen=True)
class Knowledge:
    """A lexicon with concreteness."""

    lexicon: Lexicon
    concreteness: Concreteness

    @cached_property
    def fingerprint(self) -> list[Any]:
        """Plain data that identifies both. The scores that are shipped change with the code alone."""
        scores = [] if self.concreteness.source == FILE.name else [fingerprint(dict(self.concreteness.scores))]
        return [self.lexicon.fingerprint, self.concreteness.source, self.concreteness.threshold, *scores]


def read_compact(path: Path = FILE) -> Knowledge:
    """A sub-lexicon as `vse.assets.lexicon` writes it. Raises InputError naming the file."""
    try:
        data = json.loads(path.read_bytes())
        lexicon = Lexicon(data["words"], dict(enumerate(data["hypernyms"])), data["plurals"], path.name)
        concreteness = Concreteness(data["concreteness"], data["threshold"], path.name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a sub-lexicon in this version's format ({error})") from None
    return Knowledge(lexicon, concreteness)


@cache
def knowledge(lexicon: str = SHIPPED, concreteness: str = "", share: float = PUBLISHED_SHARE) -> Knowledge:
    """What is known of nouns: a lexicon, and how concrete they are.

    Args:
        lexicon: `shipped`, or a WordNet directory.
        concreteness: file of scores, word<TAB>score; empty: scores computed from the lexicon.
        share: share of the words of a database or a file that count as concrete, the most concrete ones. The shipped
            scores have a threshold of their own.

    Raises:
        InputError: a directory or a file is not there or not what it should be.
    """
    shipped = read_compact() if lexicon == SHIPPED else None
    nouns = shipped.lexicon if shipped is not None else read_wordnet(lexicon)
    if concreteness:
        return Knowledge(nouns, Concreteness.calibrated(read_scores(concreteness), concreteness, share))
    if shipped is not None:
        return shipped
    return Knowledge(nouns, Concreteness.calibrated(wordnet_scores(lexicon), lexicon, share))
