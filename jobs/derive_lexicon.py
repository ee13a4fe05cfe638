"""The shipped sub-lexicon from a WordNet database: `python jobs/derive_lexicon.py captions=FILE,FILE`."""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from vse.assets.lexicon import derive
from vse.cli.command import Request, main
from vse.config import knob
from vse.errors import InputError
from vse.storage.files import local_path
from vse.text.lexicon.compact import read_compact
from vse.text.lexicon.wordnet import DEBIAN, read_wordnet
from vse.text.tokens import words
from vse.text.word_vector_training import read_captions
from vse.workspace.layout import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class LexiconOptions:
    """Keys of this job."""

    wordnet: str = knob(DEBIAN, "directory of a WordNet 3.0 database", reads="folder")
    captions: tuple[str, ...] = knob(
        (), "files whose words are kept: text, one per line, or a table with captions", reads="file"
    )
    min_count: int = knob(8, "how often a word of the captions must occur", low=1)
    least_uses: int = knob(2, "tagged uses from which a concrete noun of WordNet is kept in any case", low=1)
    out: str = knob("", "file to write; empty: lexicon/nouns.json in the workspace", writes="file")


def run(request: Request) -> str:
    """Derive and write the lexicon, and print its coverage of the captions' nouns."""
    options = request.options
    counts: Counter[str] = Counter()
    for path in options.captions:
        for caption in read_captions(path):
            counts.update(words(caption))
    frequent = [word for word, count in counts.items() if count >= options.min_count and len(word) > 1]
    data = derive(options.wordnet, frequent, options.least_uses)
    folder = Workspace.open(request.workspace).check_writable().root.child("lexicon")
    path = local_path(options.out) if options.out else folder.local("nouns.json")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise InputError(f"out={path}: cannot be written ({error.strerror})") from None
    derived, whole = read_compact(path), read_wordnet(options.wordnet)
    nouns = {word: count for word, count in counts.items() if word in whole}
    covered = sum(count for word, count in nouns.items() if word in derived.lexicon)
    headline = {
        "words": len(derived.lexicon),
        "bytes": len(data),
        "threshold": derived.concreteness.threshold,
        "share_concrete": derived.concreteness.share,
        "coverage_of_caption_nouns": covered / max(sum(nouns.values()), 1),
    }
    summary = request.write_summary(
        folder,
        fingerprints={"lexicon": derived.lexicon.fingerprint},
        headline=headline,
        outputs={"lexicon": path},
    )
    for name, value in headline.items():
        print(f"{name:26} {value:10.4g}")
    return summary


def plan(request: Request) -> Iterable[str]:
    """Say what would be read."""
    yield f"WordNet database {request.options.wordnet}: {len(read_wordnet(request.options.wordnet))} nouns"
    yield f"captions: {', '.join(request.options.captions) or 'none'}"


if __name__ == "__main__":
    sys.exit(
        main(
            "derive_lexicon",
            run,
            description="Derive noun relations and concreteness of visual words from a WordNet 3.0 database.",
            options=LexiconOptions(),
            plan=plan,
        )
    )
