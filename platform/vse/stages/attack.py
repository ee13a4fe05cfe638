"""The attack stage: adversarial captions of a split, generated once, kept as edits, and parsed like any text.

Every model meets the same file, and no model sees the generator's structure: an adversary is a string that goes through
the tokeniser and the parser.
"""

import dataclasses
import itertools
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from vse.adversaries.attacks import ATTACKS, CONTRAST_ATTACKS, identity
from vse.adversaries.univse import generate as generator
from vse.adversaries.univse.generate import Adversary, Truth
from vse.adversaries.vsec.candidates import REVISION, Generator, Rules, by_image, contrast_identity
from vse.adversaries.vsec.evaluation_sets import evaluation_set, report, set_paradigms
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.words import Contrast, ContrastWords
from vse.adversaries.word_lists import SHARED
from vse.config import fingerprint
from vse.data.records import Split
from vse.data.source import source_of
from vse.errors import InputError
from vse.stages.parse import language_fingerprint, parse_texts_to, parser_of
from vse.storage.damage import remove_damaged
from vse.storage.folder import Folder
from vse.storage.node_cache import read_committed
from vse.text.corpus import Language
from vse.text.lexicon.compact import Knowledge, knowledge
from vse.text.parsed_caption import ParsedCaption
from vse.text.vocabulary import build_vocabulary
from vse.training.config import RunConfig
from vse.training.inputs import Material, Parses
from vse.workspace.layout import Workspace, dataset_name

log = logging.getLogger(__name__)

SEED = 2019  # of the adversaries, fixed: runs of any seed meet the same ones
FILE = "adversaries.jsonl"


@dataclasses.dataclass(frozen=True, eq=False)
class Adversaries:
    """Adversaries of a split in one kind of words: by attack, their texts and the captions (rows) they attack. Of
    attacks that found nothing, `texts` need not have an entry; `caption` has."""

    split: str
    words: str
    fingerprint: str
    texts: dict[str, tuple[str, ...]]
    caption: dict[str, np.ndarray]
    parses: Parses


def attack_split(
    config: RunConfig, workspace: Workspace, material: Material, split: str, words: str, images: int | None = None
) -> Adversaries:
    """The adversaries of a split by UniVSE's attacks; generated and parsed if they are missing.

    Args:
        config: of the run; its parser reads the adversaries, and its data source may know which are true.
        workspace: where adversaries are kept, in language/<dataset>/<fingerprint>.
        material: records with their parses, and the rules of the word pools.
        split: name of the split.
        words: `shared` or `disjoint` with the words of training negatives, or `published`: shared words put in as
            supplement B.2 prints it, at random, some of them true. B.2 makes five of every caption; with `published`, a
            warning counts captions with fewer.
        images: how many images of the split, from its first, are attacked, kept apart from others; None: all. An image
            has the same adversaries either way.

    Raises:
        InputError: words are disjoint, but training negatives may use all words.
    """
    if words == "disjoint" and not material.words.held_out:
        raise InputError("disjoint attacks: pools.held_out=false leaves no words that training negatives never use")
    assert material.parses is not None, "attacks need the parses of the captions"
    pools = material.pools
    key: list[Any] = [material.records.fingerprint, material.parses.fingerprint, pools.fingerprint, split, words, SEED]
    key.append(identity(ATTACKS.values(), SHARED, LISTS))
    part, which = _part(material, split, images)
    key += which
    digits = fingerprint(["attacks", generator.REVISION, *key])
    folder = workspace.language(dataset_name(material.records), digits)

    def make() -> None:
        captions, judge = _parsed(material, part), _judge(config, material)
        adversaries = tuple(generator.generate(captions, pools, seed=SEED, split=split, words=words, is_true=judge))
        folder.write_bytes(FILE, generator.to_json_lines(adversaries))
        content = generator.manifest(adversaries, len(part.captions), seed=SEED, split=split, pools=pools)
        folder.commit_manifest([FILE], {"kind": "attacks", "words": words, **content})

    adversaries = Adversaries(split, words, digits, *_kept(config, folder, part, words, tuple(ATTACKS), make))
    if words == generator.PRINTED:
        _warn_of_fewer(adversaries, len(part.captions))
    return adversaries


def _warn_of_fewer(adversaries: Adversaries, captions: int) -> None:
    """Warn of captions with fewer adversaries than the supplement makes of each."""
    for attack, caption in adversaries.caption.items():
        fewer = np.count_nonzero(np.bincount(caption, minlength=captions) < generator.PER_CAPTION)
        if fewer:
            log.warning(
                "split %s, published %s attack: %d of %d captions have fewer than %d adversaries, since they have no "
                "word of that kind, or the pool has no other word for it",
                adversaries.split,
                attack,
                fewer,
                captions,
                generator.PER_CAPTION,
            )


def without_any(adversaries: Adversaries) -> list[str]:
    """Attacks that find nothing to change in a split."""
    return [attack for attack, caption in adversaries.caption.items() if not len(caption)]


def nonempty_attacks(adversaries: Adversaries) -> Adversaries:
    """The adversaries without attacks that found nothing, which have no metrics."""
    return dataclasses.replace(
        adversaries, texts={attack: texts for attack, texts in adversaries.texts.items() if texts}
    )


def some_adversaries(adversaries: Adversaries) -> None:
    """Warn of attacks that find nothing to change in a split: robustness is then the sum over the others.

    Raises InputError if no attack finds anything, before a training starts that would be selected by robustness.
    """
    without = without_any(adversaries)
    if len(without) == len(adversaries.caption):
        raise InputError(
            f"split {adversaries.split}: its captions have no {', '.join(without)} that could be replaced, so "
            "robustness cannot be measured; see text.pools, or choose by rsum alone"
        )
    if without:
        log.warning(
            "split %s has no %s adversaries; robustness is computed from the other attacks",
            adversaries.split,
            " and no ".join(without),
        )


def contrast_split(
    config: RunConfig,
    workspace: Workspace,
    material: Material,
    split: str,
    words: str,
    rules: Rules | None = None,
    seed: int = SEED,
    images: int | None = None,
) -> Adversaries:
    """VSE-C's evaluation set of a split, made if it is missing: noun, numeral, relation, shuffle, preposition, plural.

    The manifest says how many captions have all twenty of each class.

    Args:
        config: of the run, as for `attack_split`. Words that are put in are of its training vocabulary.
        workspace: where the set is kept.
        material: records with their parses, and the captions whose words are counted.
        split: name of the split.
        words: `shared` or `disjoint` with the words of training adversaries, or `all`.
        rules: None: `text.contrast` of the run with every paradigm, so that a lexicon or rules of the user's own hold
            here too. Models that are compared must agree in them, whether or not they were trained on such captions.
        seed: of the draws.
        images: as for `attack_split`.

    Raises:
        InputError: words are disjoint but none is held out, or no noun is frequent enough.
    """
    assert material.parses is not None, "attacks need the parses of the captions"
    rules = rules or dataclasses.replace(config.text.contrast, paradigms=tuple(CONTRAST_ATTACKS))
    records, parses = material.records, material.parses
    counted, of_counted = material.counted
    vocabulary = build_vocabulary([c.text for c in counted], config.text.min_count)

    @cache
    def lexicon() -> Knowledge:
        return knowledge(rules.lexicon, rules.concreteness, rules.concrete_share)

    @cache
    def chosen() -> Contrast:
        pairs = ((of_counted.parse(c.text), of_counted.components(c.text)) for c in counted)
        return ContrastWords(pairs, rules, lexicon()).of(words)

    # asked of the driver: a node that reads the set need not have the files of the lexicon
    of_words = material.words_records or records
    source = [rules, words, of_counted.fingerprint, of_words.fingerprint, material.words_split]
    prints = [
        workspace.external.ask(["contrast words", *source], lambda: chosen().fingerprint),
        workspace.external.ask(["lexicon", *source], lambda: fingerprint(lexicon().fingerprint)),
    ]
    key = [records.fingerprint, parses.fingerprint, *prints, split, seed, vocabulary.fingerprint]
    part, which = _part(material, split, images)
    key += which
    digits = fingerprint(["contrast set", REVISION, rules, contrast_identity(rules), *key])
    folder = workspace.language(dataset_name(records), digits)

    def make() -> None:
        captions = _parsed(material, part)
        made = tuple(
            evaluation_set(
                by_image(captions),
                Generator(chosen(), lexicon(), rules),
                seed=seed,
                split=split,
                is_true=_judge(config, material),
                known=vocabulary,
            )
        )
        folder.write_bytes(FILE, generator.to_json_lines(made))
        content = {"kind": "contrast set", "words": words, "seed": seed, "split": split, **report(made, captions)}
        folder.commit_manifest([FILE], content)

    return Adversaries(split, words, digits, *_kept(config, folder, part, words, tuple(set_paradigms()), make))


def _part(material: Material, split: str, images: int | None) -> tuple[Split, list[Any]]:
    """The images of a split that are attacked, and what tells them from all of it."""
    whole = material.records.split(split)
    part = whole.first(images)
    return part, [] if part is whole else [["first", len(part.images)]]


def _kept(
    config: RunConfig, folder: Folder, part: Split, words: str, attacks: tuple[str, ...], make: Callable[[], None]
) -> tuple[dict[str, tuple[str, ...]], dict[str, np.ndarray], Language]:
    """(texts, caption, parses) of the adversaries in a folder. What is complete is read without its lock, which on S3
    one process of all nodes holds; what is missing is made under it."""
    kept = _read(folder, part, attacks)
    if kept is not None:
        texts, caption = kept
        parses = Language.find(folder.child("parses"), itertools.chain.from_iterable(texts.values()))
        if parses is not None and parses.fingerprint == language_fingerprint(parser_of(config)):
            return texts, caption, parses
    with folder.locked():
        kept = _read(folder, part, attacks)
        if kept is None:
            remove_damaged(folder)
            make()
            kept = _read(folder, part, attacks)
        assert kept is not None, "just made"
        texts, caption = kept
        every = [text for each in texts.values() for text in each]
        label = f"parse adversaries ({part.name}, {words} words)"
        return texts, caption, parse_texts_to(every, parser_of(config), folder.child("parses"), label=label)


def _read(
    folder: Folder, part: Split, attacks: tuple[str, ...]
) -> tuple[dict[str, tuple[str, ...]], dict[str, np.ndarray]] | None:
    manifest = folder.manifest_alone()
    try:
        data = None if manifest is None else read_committed(folder, manifest, FILE)
    except (FileNotFoundError, InputError):  # damaged: made again
        return None
    return None if data is None else _by_attack(generator.from_json_lines(data, f"{folder}/{FILE}"), part, attacks)


def of_captions(adversaries: Adversaries, captions: np.ndarray) -> Adversaries:
    """The adversaries of some captions (rows of the split, ascending); rows stay those of the split.

    An attack without adversaries of these captions has no entry in `texts`.
    """
    inside = {name: np.isin(rows, captions) for name, rows in adversaries.caption.items()}
    if all(each.all() for each in inside.values()):
        return adversaries
    texts = {name: tuple(itertools.compress(texts, inside[name])) for name, texts in adversaries.texts.items()}
    caption = {name: adversaries.caption[name][each] for name, each in inside.items()}
    return nonempty_attacks(dataclasses.replace(adversaries, texts=texts, caption=caption))


def first_of_each(adversaries: Adversaries, attacks: tuple[str, ...], number: int) -> Adversaries:
    """The first adversaries of every caption under some of the attacks; other attacks are left out.

    Args:
        adversaries: of a split.
        attacks: names of the attacks.
        number: how many adversaries of each attack a caption keeps.
    """
    texts, caption = {}, {}
    for name in attacks:
        own = adversaries.caption[name]
        order = np.argsort(own, kind="stable")
        ranked = own[order]
        place = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
        kept = np.sort(order[place < number])
        texts[name], caption[name] = tuple(adversaries.texts[name][k] for k in kept), own[kept]
    return dataclasses.replace(adversaries, texts=texts, caption=caption)


def _parsed(material: Material, part: Split) -> list[ParsedCaption]:
    p = material.parses
    assert p is not None
    return [
        ParsedCaption(id=c.id, image=c.image, text=c.text, parse=p.parse(c.text), components=p.components(c.text))
        for c in part.captions
    ]


def _judge(config: RunConfig, material: Material) -> Truth | None:
    """The source's judge of whether a text is true of an image; None if it has none."""
    source = source_of(config.data)
    return source.truth(material.records) if source.knows_truth else None


def _by_attack(
    adversaries: tuple[Adversary, ...], part: Split, attacks: tuple[str, ...]
) -> tuple[dict[str, tuple[str, ...]], dict[str, np.ndarray]]:
    row = {caption.id: (k, caption.text) for k, caption in enumerate(part.captions)}
    texts: dict[str, tuple[str, ...]] = {}
    caption: dict[str, np.ndarray] = {}
    for attack in attacks:
        chosen = [a for a in adversaries if a.attack == attack]
        texts[attack] = tuple(a.text(row[a.caption_id][1]) for a in chosen)
        caption[attack] = np.array([row[a.caption_id][0] for a in chosen], dtype=np.int64)
    return texts, caption
