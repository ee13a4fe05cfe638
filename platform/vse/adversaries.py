"""The attack stage: adversarial captions of a split, generated once, kept as edits, and parsed like any text.

Every model meets the same file, and no model sees the generator's structure: an adversary is a string that goes through
the tokeniser and the parser.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from vse import registry
from vse.config import fingerprint
from vse.data.records import Split
from vse.language import attacks as generator
from vse.language.attacks import Adversary, ParsedCaption
from vse.language.corpus import Language
from vse.language.parsing import parse_texts_to
from vse.language.pools import WordPools
from vse.pipeline import parser_of
from vse.training.config import RunConfig
from vse.training.inputs import Material, word_pools
from vse.workspace import Workspace, dataset_name

SEED = 2019  # of the adversaries, fixed: runs of any seed meet the same ones
FILE = "adversaries.jsonl"


@dataclasses.dataclass(frozen=True, eq=False)
class Adversaries:
    """Adversaries of a split in one kind of words: by attack, their texts and the captions (rows) they attack."""

    split: str
    words: str
    fingerprint: str
    texts: dict[str, tuple[str, ...]]
    owner: dict[str, np.ndarray]
    parses: Language


def attack_split(config: RunConfig, workspace: Workspace, material: Material, split: str, words: str) -> Adversaries:
    """The adversaries of a split, `shared` or `disjoint` in words with training negatives; made if they are missing."""
    assert material.parses is not None, "attacks need the parses of the captions"
    pools = word_pools(material.records.split("train"), material.parses)
    key = [material.records.fingerprint, material.parses.fingerprint, pools.fingerprint, split, words, SEED]
    digits = fingerprint(["attacks", generator.REVISION, *key])
    folder = workspace.language(dataset_name(material.records), digits)
    part = material.records.split(split)
    with folder.locked():
        if folder.read_manifest() is None:
            made = tuple(_generate(config, material, part, pools, words))
            folder.write_bytes(FILE, generator.to_json_lines(made))
            content = generator.manifest(made, len(part.captions), seed=SEED, split=split, pools=pools)
            folder.commit_manifest([FILE], {"kind": "attacks", "words": words, **content})
        found = generator.from_json_lines(folder.read_bytes(FILE), f"{folder}/{FILE}")
        texts, owner = _by_attack(found, part)
        every = [text for each in texts.values() for text in each]
        parses = parse_texts_to(every, parser_of(config), folder.child("parses"))
    return Adversaries(split, words, digits, texts, owner, parses)


def _generate(config: RunConfig, material: Material, part: Split, pools: WordPools, words: str) -> list[Adversary]:
    assert material.parses is not None
    captions = [
        ParsedCaption(id=c.id, image=c.image, text=c.text, parse=p.parse(c.text), components=p.components(c.text))
        for p in (material.parses,)
        for c in part.captions
    ]
    made = generator.generate(
        captions, pools, seed=SEED, split=part.name, words=words, is_true=_judge(config, material)
    )
    return list(made)


def _judge(config: RunConfig, material: Material) -> Callable[[str, str], bool | None] | None:
    """What the source knows of the truth of any text, if it is one that knows."""
    source = registry.component("source", registry.name_of("source", config.data))
    return source.truth(material.records) if hasattr(source, "truth") else None


def _by_attack(found: tuple[Adversary, ...], part: Split) -> tuple[dict[str, tuple[str, ...]], dict[str, np.ndarray]]:
    row = {caption.id: (k, caption.text) for k, caption in enumerate(part.captions)}
    texts: dict[str, tuple[str, ...]] = {}
    owner: dict[str, np.ndarray] = {}
    for attack in generator.ATTACKS:
        chosen = [a for a in found if a.attack == attack]
        texts[attack] = tuple(a.text(row[a.caption_id][1]) for a in chosen)
        owner[attack] = np.array([row[a.caption_id][0] for a in chosen], dtype=np.int64)
    return texts, owner
