"""What is said of the word vectors of a training: that none are named, or how much of the vocabulary they know."""

import logging
from collections.abc import Iterator

from vse import registry
from vse.data.records import Records
from vse.storage import user_files as named_files
from vse.text.vocabulary import SPECIAL, Vocabulary
from vse.text.word_vectors import Coverage, WordVectors, coverage, word_vectors
from vse.training.config import RunConfig
from vse.training.inputs import training_vocabulary

log = logging.getLogger(__name__)

OWN_CAPTIONS = "captions"  # text.word_vectors: made of the training captions


def without_vectors(config: RunConfig) -> str:
    """That no word vectors are named although the family's paper starts from pre-trained ones; else empty.

    Scenes have a vocabulary of a hundred words or so, and nothing is said of them.
    """
    family = registry.component("family", registry.name_of("family", config.model))
    scenes = registry.name_of("source", config.data) == "scenes"
    if config.text.word_vectors or scenes or not family.vectors_of_paper:
        return ""
    paper = family.vectors_of_paper
    return f"text.word_vectors is not set: word vectors are learned from scratch; the paper starts from {paper}"


def tell_coverage(config: RunConfig, vectors: WordVectors, vocabulary: Vocabulary) -> None:
    """Log how much of the training vocabulary the vectors know: a warning if it is less than half."""
    known = _coverage(vectors, vocabulary)
    log.log(logging.WARNING if known.most_missing else logging.INFO, "%s", known.line(config.text.word_vectors))


def planned_coverage(config: RunConfig, records: Records) -> Iterator[str]:
    """What a dry run says of a file of word vectors, which it reads to the end unless it lies on S3.

    The vocabulary is of the captions alone: a training may add lemmas of parsed components. Raises InputError for a
    file that is no file of word vectors, or holds none of the words.
    """
    file = config.text.word_vectors
    if file in ("", OWN_CAPTIONS):
        return
    if named_files.is_remote(file):
        yield f"text.word_vectors={file}: not read by a dry run, which copies no files from S3"
        return
    vocabulary = training_vocabulary(config, records, None)
    yield _coverage(word_vectors(file, (*SPECIAL, *vocabulary.words)), vocabulary).line(file)


def _coverage(vectors: WordVectors, vocabulary: Vocabulary) -> Coverage:
    return coverage(vectors, dict(zip(vocabulary.words, vocabulary.counts, strict=True)))
