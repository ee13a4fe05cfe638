"""Concreteness of words learned from their vectors: `python jobs/learn_concreteness.py vectors=FILE captions=FILE`."""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vse.cli.command import Request, main
from vse.config import knob
from vse.errors import InputError
from vse.storage.files import local_path, sha256_of_file
from vse.text.lexicon.compact import knowledge
from vse.text.lexicon.concreteness import (
    ABSTRACT_SEEDS,
    CONCRETE_SEEDS,
    PUBLISHED_SHARE,
    Concreteness,
    agreement,
    learned_scores,
    read_scores,
    save_scores,
    wordnet_scores,
)
from vse.text.tokens import words
from vse.text.word_vector_files import read_rows
from vse.text.word_vector_training import read_captions
from vse.workspace.layout import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcretenessOptions:
    """Keys of this job."""

    vectors: str = knob("", "file of word vectors: GloVe, word2vec or fastText, text or binary, packed or not")
    captions: tuple[str, ...] = knob(
        (), "files whose words are scored: text, one per line, or a table with a column caption", reads="file"
    )
    min_count: int = knob(2, "how often a word of the captions must occur", low=1)
    wordnet: str = knob(
        "", "directory of a WordNet 3.0 database: its single words are scored and compared too", reads="folder"
    )
    against: tuple[str, ...] = knob(
        (), "files word<TAB>score to compare with, besides the shipped lexicon", reads="file"
    )
    share: float = knob(PUBLISHED_SHARE, "share of a source's words that count as concrete", above=0, high=1)
    out: str = knob("", "file to write; empty: concreteness/learned.txt in the workspace", writes="file")


def run(request: Request) -> str:
    """Score and write, and print the agreement with other sources on shared words."""
    options = request.options
    wordnet = wordnet_scores(options.wordnet) if options.wordnet else {}
    wanted = _wanted(options, wordnet)
    others = {"shipped": knowledge().concreteness}
    if wordnet:
        others["wordnet"] = Concreteness.calibrated(wordnet, options.wordnet, options.share)
    for path in options.against:
        others[Path(path).name] = Concreteness.calibrated(read_scores(path), path, options.share)
    rows = read_rows(options.vectors, {word: k for k, word in enumerate(wanted)})
    vectors = {word: rows.vectors[k] for k, word in enumerate(wanted) if rows.found[k]}
    folder = Workspace.open(request.workspace).check_writable().root.child("concreteness")
    path = local_path(options.out) if options.out else folder.local("learned.txt")
    save_scores(path, learned_scores(vectors))
    learned = Concreteness.calibrated(read_scores(str(path)), str(path), options.share)
    headline = {
        "words": len(learned.scores),
        "without_vector": len(wanted) - len(vectors),
        "concrete_seeds": sum(seed in vectors for seed in CONCRETE_SEEDS),
        "abstract_seeds": sum(seed in vectors for seed in ABSTRACT_SEEDS),
        "threshold": learned.threshold,
        "share_concrete": learned.share,
    }
    for name, other in others.items():
        measures = agreement(learned, other) | _at_quantile(learned, other, options.share)
        headline |= {f"{name}/{key}": value for key, value in measures.items()}
    summary = request.write_summary(
        folder,
        fingerprints={"concreteness": sha256_of_file(path)[:8]},
        headline=headline,
        outputs={"concreteness": path},
    )
    width = max(map(len, headline))
    for name, value in headline.items():
        print(f"{name:{width}} {value:10.4g}")
    return summary


def _at_quantile(one: Concreteness, other: Concreteness, share: float) -> dict[str, float]:
    """Agreement on the top `share` of shared words, since thresholds depend on which words a source lists."""
    shared = set(one.scores) & set(other.scores)
    if not shared:
        return {}
    first, second = (
        Concreteness.calibrated({word: each.scores[word] for word in shared}, each.source, share)
        for each in (one, other)
    )
    measures = agreement(first, second)
    return {f"{key}_at_quantile": measures[key] for key in ("same", "kappa")}


def plan(request: Request) -> Iterable[str]:
    """Say what would be scored."""
    options = request.options
    yield f"{len(_wanted(options, wordnet_scores(options.wordnet) if options.wordnet else {}))} words to look up"


def _wanted(options: ConcretenessOptions, wordnet: Iterable[str]) -> list[str]:
    """The seeds and every word to score, in alphabetical order. Raises InputError if nothing is named."""
    if not options.vectors:
        raise InputError("vectors: name a file of word vectors")
    if not options.captions and not options.wordnet:
        raise InputError("captions, wordnet: name at least one of them; their words are scored")
    counts = Counter(word for path in options.captions for caption in read_captions(path) for word in words(caption))
    frequent = (word for word, count in counts.items() if count >= options.min_count and word.isalpha())
    return sorted({*frequent, *wordnet, *CONCRETE_SEEDS, *ABSTRACT_SEEDS})


if __name__ == "__main__":
    sys.exit(
        main(
            "learn_concreteness",
            run,
            description="Learn concreteness from word vectors and seed words, for `text.contrast.concreteness`.",
            options=ConcretenessOptions(),
            plan=plan,
        )
    )
