"""The shipped sub-lexicon, from a WordNet 3.0 database."""

import json
from collections.abc import Iterable

from vse.text.lexicon.concreteness import PUBLISHED_SHARE, Concreteness, wordnet_scores
from vse.text.lexicon.wordnet import NOUN, read_sense_counts, read_wordnet

# Arguments of `is_a` in this project, kept whether captions use these words or not.
ANCHORS = (
    *("physical_entity", "abstraction", "person", "body_part", "group", "location", "event", "substance", "animal"),
    *("clothing", "footwear", "hairdressing", "jewelry", "eyeglasses", "headdress", "bag", "food", "artifact"),
    *("structure", "room", "vehicle", "container", "enclosure", "building", "furniture", "plant"),
)
_NOTICE = (
    "Derived from WordNet 3.0. WordNet 3.0 Copyright 2006 by Princeton University. All rights reserved. See NOTICE."
)


def derive(directory: str, words: Iterable[str], least_uses: int) -> bytes:
    """The content of a sub-lexicon's file. The same input gives the same bytes.

    Args:
        directory: of a WordNet 3.0 database.
        words: words whose nouns are kept.
        least_uses: tagged uses from which a concrete noun is kept in any case.
    """
    whole = read_wordnet(directory)
    concreteness = Concreteness.calibrated(wordnet_scores(directory), directory, PUBLISHED_SHARE)
    uses = read_sense_counts(directory)
    kept = {lemma for lemma in map(whole.lemma, words) if lemma is not None and lemma.isalpha()}
    kept |= {
        word
        for word, score in concreteness.scores.items()
        if score >= concreteness.threshold and sum(uses[word][NOUN].values()) >= least_uses
    }
    names, parents, exceptions = whole.part({*kept, *ANCHORS}, directory).tables()
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
