"""The artefact test of a data set: how well text alone tells adversaries from real captions.

The language model and the vocabulary are of captions of training images; the adversaries are of other splits, or from a
file. No caption is written.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product

import numpy as np

from vse.adversaries.attacks import ATTACKS
from vse.adversaries.univse.generate import WORDS
from vse.adversaries.vsec.candidates import PARADIGMS, PUBLISHED, Rules
from vse.config import knob
from vse.data.records import Records
from vse.errors import InputError
from vse.stages.attack import attack_split, contrast_split, first_of_each
from vse.stages.describe import describe
from vse.stages.parse import parse_dataset
from vse.storage.user_files import is_file, read
from vse.studies.artefact_measures import Row, Sample, measure
from vse.studies.ngram_model import NgramModel
from vse.text.vocabulary import build_vocabulary
from vse.text.word_vector_training import read_captions
from vse.training.config import RunConfig
from vse.training.inputs import Material
from vse.workspace.layout import Workspace

# Name -> rules of VSE-C's paradigms; none for UniVSE's attacks. The published 200 occurrences are a share here, so that
# they mean something for other data than COCO too.
_SOURCES: dict[str, Rules | None] = {
    "univse": None,
    "contrast": Rules(),
    "published": replace(PUBLISHED, minimum=None),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ArtefactTestOptions:
    """Keys of the artefact test."""

    splits: tuple[str, ...] = knob(("val", "test"), "splits whose adversaries are judged; never the training split")
    words: str = knob("shared", "words of the adversaries: as training negatives, or disjoint", choices=WORDS)
    attacks: tuple[str, ...] = knob(
        ("univse",), "UniVSE's attacks, VSE-C's paradigms by our rules, or as published", choices=tuple(_SOURCES)
    )
    per_class: int = knob(5, "adversaries of each paradigm and caption", low=1)
    outside: tuple[str, ...] = knob(
        (),
        "files of further captions for the language model; they must not describe the judged images",
        reads="file",
    )
    pairs: str = knob(
        "", "file of pairs to test instead: JSON lines with image, caption, adversary and paradigm", reads="file"
    )
    folds: int = knob(5, "folds of the classifier, by image", low=2)
    ngrams: int = knob(3, "longest word n-gram that the classifier reads", low=1)
    order: int = knob(3, "longest n-gram of the language model", low=1)
    samples_seed: int = knob(0, "seed of folds and intervals", low=0)


class _NoImages:
    """Features of attacks, which read captions only: any access is an error of the program."""

    def channels(self, output: str) -> int:
        raise AssertionError(f"no features, {output} neither")

    def array(self, output: str, ids: tuple[str, ...]) -> np.ndarray:
        raise AssertionError(f"no features, {output} neither")


def measure_artefacts(
    config: RunConfig, workspace: Workspace, options: ArtefactTestOptions
) -> tuple[Records, list[Row]]:
    """Test how well text alone tells the adversaries of a data set, or of a file, from real captions.

    Parses and attacks are made if they are missing.

    Args:
        config: The data set, whose training captions fit the language model, with parser and rules of adversaries.
        workspace: Where stages keep their results.
        options: Which adversaries are tested, and how.

    Returns:
        The records, and a row for every paradigm and filter.

    Raises:
        InputError: `options.splits` has the training split, or there are no adversaries.
    """
    if "train" in options.splits:
        raise InputError("splits: the language model was trained on the training captions; use other splits")
    records = describe(config, workspace)
    training = [caption.text for caption in records.split("train").captions]
    if options.pairs:
        samples = list(read_pairs(options.pairs))
    else:
        parts = [records.split(name).name for name in options.splits]
        material = Material(records, _NoImages(), parse_dataset(config, workspace, records), {})
        each = product(parts, options.attacks)
        samples = [s for name, kind in each for s in _attacks(config, workspace, material, name, kind, options)]
    if not samples:
        raise InputError("there are no adversaries to judge")
    further = (text for path in options.outside for text in read_captions(path))
    vocabulary = build_vocabulary(training, config.text.min_count)
    rows = measure(
        samples,
        NgramModel.fit(chain(training, further), options.order),
        frozenset(vocabulary.words),
        folds=options.folds,
        ngrams=options.ngrams,
        seed=options.samples_seed,
    )
    return records, rows


def _attacks(
    config: RunConfig, workspace: Workspace, material: Material, split: str, kind: str, options: ArtefactTestOptions
) -> Iterator[Sample]:
    captions = material.records.split(split).captions
    rules = _SOURCES[kind]
    if rules is None:
        adversaries, attacks = attack_split(config, workspace, material, split, options.words), tuple(ATTACKS)
    else:
        adversaries, attacks = contrast_split(config, workspace, material, split, options.words, rules), PARADIGMS
    adversaries = first_of_each(adversaries, attacks, options.per_class)
    for attack in attacks:
        for text, row in zip(adversaries.texts[attack], adversaries.caption[attack], strict=True):
            caption = captions[int(row)]
            yield Sample(image=caption.image, caption=caption.text, adversary=text, paradigm=f"{kind} {attack}")


def read_pairs(path: str) -> Iterator[Sample]:
    """Pairs of a file of JSON lines; raises InputError naming file and line for anything else."""
    if not is_file(path):
        raise InputError(f"pairs={path}: no such file")
    try:
        text = read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text ({error}); expected JSON lines") from None
    yield from _parsed(text.split("\n"), path)


def _parsed(lines: Iterable[str], path: str) -> Iterator[Sample]:
    names = Sample.__dataclass_fields__
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            sample = Sample(**{name: row[name] for name in names})
            if not all(isinstance(getattr(sample, name), str) for name in names):
                raise TypeError("all four are texts")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(f"{path}: line {number}: expected a pair with {', '.join(names)} ({error})") from None
        yield sample


def numbers(rows: Sequence[Row]) -> dict[str, float]:
    """All rows' numbers by name, for a journal or a summary."""
    return {name: value for row in rows for name, value in row.numbers().items()}
