"""The shipped sub-lexicon: the noun relations and concreteness of some thousands of visual words of WordNet 3.0.

It holds every sense of its words and all their hypernyms, so that it answers as the whole database does.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vse.errors import InputError
from vse.text.lexicon.concreteness import PUBLISHED_SHARE, Concreteness, read_scores, wordnet_scores
from vse.text.lexicon.lexicon import Lexicon
from vse.text.lexicon.wordnet import NOUN, read_sense_counts, read_wordnet

SHIPPED = "shipped"
FILE = Path(__file__).parent / "nouns.json"
# Arguments of `is_a` in this project, kept whether captions use these words or not.
_ANCHORS = (
    *("physical_entity", "abstraction", "person", "body_part", "group", "location", "event", "substance", "animal"),
    *("clothing", "footwear", "hairdressing", "jewelry", "eyeglasses", "headdress", "bag", "food", "artifact"),
    *("structure", "room", "vehicle", "container", "enclosure", "building", "furniture", "plant"),
)
_NOTICE = (
    "Derived from WordNet 3.0. WordNet 3.0 Copyright 2006 by Princeton University. All rights reserved. See NOTICE."
)


@dataclass(frozen=True)
class Knowledge:
    """A lexicon with concreteness."""

    lexicon: Lexicon
    concreteness: Concreteness

    @property
    def fingerprint(self) -> list[Any]:
        """Plain data that names both."""
        return [self.lexicon.fingerprint, self.concreteness.source, self.concreteness.threshold]


def derive(directory: str, words: Iterable[str], least_uses: int, share: float = PUBLISHED_SHARE) -> bytes:
    """The file of a sub-lexicon: nouns among `words`, and those whose concrete senses have `least_uses` tagged uses.

    The threshold of concreteness is that of the whole database. The same input gives the same bytes.
    """
    whole = read_wordnet(directory)
    concreteness = Concreteness.calibrated(wordnet_scores(directory), directory, share)
    uses = read_sense_counts(directory)
    kept = {lemma for lemma in map(whole.lemma, words) if lemma is not None and lemma.isalpha()}
    kept |= {
        word
        for word, score in concreteness.scores.items()
        if score >= concreteness.threshold and sum(uses[word][NOUN].values()) >= least_uses
    }
    names, parents, exceptions = whole.part({*kept, *_ANCHORS}, directory).tables()
    order = {synset: k for k, synset in enumerate(parents)}
    content = {
        "notice": _NOTICE,
        "threshold": concreteness.threshold,
        "words": {word: [order[s] for s in names[word]] for word in sorted(names)},
        "hypernyms": [[order[above] for above in parents[synset]] for synset in parents],
        "plurals": exceptions,
        "concreteness": {w: concreteness.scores[w] for w in sorted(names) if w in concreteness.scores},
    }
    lines = (
        f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'), sort_keys=True)}"
        for key, value in content.items()
    )
    return ("{" + ",\n".join(lines) + "}\n").encode()


def read_compact(path: Path = FILE) -> Knowledge:
    """A sub-lexicon as `derive` writes it. Raises InputError naming the file."""
    try:
        data = json.loads(path.read_bytes())
        lexicon = Lexicon(data["words"], dict(enumerate(data["hypernyms"])), data["plurals"], path.name)
        concreteness = Concreteness(data["concreteness"], data["threshold"], path.name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a sub-lexicon as this version writes it ({error})") from None
    return Knowledge(lexicon, concreteness)


@cache
def knowledge(lexicon: str = SHIPPED, concreteness: str = "", share: float = PUBLISHED_SHARE) -> Knowledge:
    """What is known of nouns: `shipped`, or from a WordNet directory; scores from a file word<TAB>score if named.

    `share` sets the threshold of concreteness of a database or a file; the shipped one has its own. Raises InputError
    for a directory or a file that is not there or not what it should be.
    """
    shipped = read_compact() if lexicon == SHIPPED else None
    nouns = shipped.lexicon if shipped is not None else read_wordnet(lexicon)
    if concreteness:
        return Knowledge(nouns, Concreteness.calibrated(read_scores(concreteness), concreteness, share))
    if shipped is not None:
        return shipped
    return Knowledge(nouns, Concreteness.calibrated(wordnet_scores(lexicon), lexicon, share))
