"""Adversarial captions of UniVSE's type, kept as edits. Every model is attacked with the same captions."""

import hashlib
import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from vse.adversaries.attacks import ATTACKS
from vse.adversaries.pools import Pool, WordPools
from vse.adversaries.univse.careful import CarefulEditor, CarefulPool
from vse.adversaries.univse.editor import (
    Barred,
    Change,
    Edit,
    Editor,
    apply_edits,
    barred_as_printed,
    barred_attributes,
    barred_nouns,
    barred_relations,
)
from vse.adversaries.univse.printed import PrintedEditor
from vse.errors import InputError
from vse.text.parsed_caption import ParsedCaption
from vse.text.tokens import words as token_words

REVISION = 4  # part of fingerprints: raise it whenever the adversaries of every attack change
WORDS = ("shared", "disjoint")
PRINTED = "published"  # in place of words: the shared ones, put in as B.2 prints, whether or not the outcome is true
PER_CAPTION = 5  # adversaries of a caption under one attack (B.2)
TRIALS = 60  # draws for one adversary before it is given up

Truth = Callable[[str, str], bool | None]
"""(image id, text) -> whether the text is true of the image; None when that is not known."""


def unsure(image: str, text: str) -> None:
    """A judge without verdicts: attacks follow B.2 as with a source that judges, but no adversary is dropped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Adversary:
    """One adversary: edits of the caption `caption_id`, whose text hashes to `text_hash`.

    `words` says where the words that go in come from: `shared` with training negatives, or `disjoint` from them.
    """

    caption_id: str
    attack: str
    words: str
    number: int
    edits: tuple[Edit, ...]
    reason: str
    words_in: tuple[str, ...]
    text_hash: str

    @classmethod
    def of(cls, caption: ParsedCaption, attack: str, words: str, number: int, change: Change) -> "Adversary":
        """A change of a caption as one of its adversaries.

        Args:
            caption: the caption that the change was drawn for.
            attack: name of the attack that made the change.
            words: kind of the words that go in, as of the field `words`.
            number: which adversary of the caption under this attack it is, from 0.
            change: the edits, their reason and the new words.
        """
        return cls(
            caption_id=caption.id,
            attack=attack,
            words=words,
            number=number,
            edits=change.edits,
            reason=change.reason,
            words_in=change.words_in,
            text_hash=text_hash(caption.text),
        )

    def text(self, caption: str) -> str:
        """The adversarial text; raises InputError when `caption` is not the text that the edits were made for."""
        if text_hash(caption) != self.text_hash:
            raise InputError(f"adversary of caption {self.caption_id}: the caption has changed since it was made")
        return apply_edits(caption, self.edits)


def keyed_random(*key: object) -> random.Random:
    """Random numbers that depend only on the key, in any process and order."""
    text = "|".join(map(str, key)).encode("utf-8", "surrogatepass")
    return random.Random(int.from_bytes(hashlib.sha256(text).digest()[:8], "big"))


def text_hash(text: str) -> str:
    """Eight hexadecimal digits of SHA-256 of a caption."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def generate(
    captions: Iterable[ParsedCaption],
    pools: WordPools,
    *,
    seed: int,
    split: str,
    attacks: Collection[str] | None = None,
    words: str = "shared",
    per_caption: int = PER_CAPTION,
    is_true: Truth | None = None,
) -> Iterator[Adversary]:
    """Up to `per_caption` adversaries of each attack for every caption of a split, in the order of the captions.

    An adversary never reads like a caption of its image or like another adversary of the caption under the same attack.
    Draws depend on (seed, split, caption id, attack, words, number) only.

    Args:
        captions: captions with their parses. All captions of an image must be given together, since what any of them
            mentions is not irrelevant.
        pools: words that may go in.
        seed: seed of the draws.
        split: name of the split, part of the key of every draw.
        attacks: names of attacks; None for all.
        words: the pool that the words come from, `shared` or `disjoint`. With `published`, they are the shared ones and
            everything is as B.2 prints it (see `PrintedEditor`), whatever is true.
        per_caption: adversaries of a caption under one attack.
        is_true: drops an adversary that it says is true of the image; B.2 is then followed. Nothing is dropped with
            `unsure`. With None, attributes and relations of the image's other captions are avoided too, and only what
            `attack_care` lets pass is drawn.
    """
    rows = list(captions)
    by_image: dict[str, list[ParsedCaption]] = defaultdict(list)
    for caption in rows:
        by_image[caption.image].append(caption)
    mentioned = {image: _lemmas(group) for image, group in by_image.items()}
    texts = {image: {token_words(caption.text) for caption in group} for image, group in by_image.items()}
    printed = words == PRINTED
    pool, is_true = (pools.training, unsure) if printed else (pools.of(words), is_true)
    care = CarefulPool(pool) if is_true is None else None
    unfit = {image: care.barred_nouns(group) for image, group in by_image.items()} if care is not None else {}
    for caption in rows:
        near = mentioned[caption.image] if is_true is None else _lemmas([caption])
        related = {relation.word for relation in caption.components.relations}
        barred = Barred(
            nouns=barred_nouns(mentioned[caption.image]) | unfit.get(caption.image, frozenset()),
            attributes=barred_attributes(near),
            relations=barred_relations(near if is_true is None else related),
        )
        if printed:
            barred = barred_as_printed(mentioned[caption.image], near, related)
        for attack in ATTACKS if attacks is None else attacks:
            seen = set(texts[caption.image])
            for number in range(per_caption):
                rng = keyed_random(seed, split, caption.id, attack, words, number)
                editor = _editor(caption, care or pool, barred, rng, printed)
                change = _accepted(caption, partial(ATTACKS[attack].draw, editor), seen, is_true)
                if change is None:
                    break  # the words are used up; later numbers would only search the same places
                yield Adversary.of(caption, attack, words, number, change)


def _editor(
    caption: ParsedCaption, source: CarefulPool | Pool, barred: Barred, rng: random.Random, printed: bool
) -> Editor:
    parts = (caption.text, caption.parse, caption.components)
    if isinstance(source, CarefulPool):
        return CarefulEditor(*parts, source, barred, rng)
    return (PrintedEditor if printed else Editor)(*parts, source, barred, rng)


def _accepted(
    caption: ParsedCaption, draw: Callable[[], Change | None], seen: set[tuple[str, ...]], is_true: Truth | None
) -> Change | None:
    """The first of a number of draws that is new and not true; its words enter `seen`."""
    for _ in range(TRIALS):
        change = draw()
        if change is not None and is_new(change, caption, seen, is_true):
            return change
    return None


def is_new(change: Change, caption: ParsedCaption, seen: set[tuple[str, ...]], is_true: Truth | None) -> bool:
    """Whether a change makes a text that reads like none before and is not known to be true.

    Args:
        change: Of the caption.
        caption: What is changed.
        seen: The words of texts before; those of this one enter.
        is_true: Judges a text of an image, if anything can.
    """
    text = apply_edits(caption.text, change.edits)
    read = token_words(text)
    if read in seen:
        return False
    seen.add(read)
    return is_true is None or is_true(caption.image, text) is not True


def _lemmas(captions: Sequence[ParsedCaption]) -> frozenset[str]:
    """Every lemma and every word form of the captions, and the words of their components."""
    words: set[str] = set()
    for caption in captions:
        for token in caption.parse:
            words.update((token.lemma, token.text.lower()))
        parts = caption.components
        words.update(item.word for kind in (parts.objects, parts.attributes, parts.relations) for item in kind)
    return frozenset(words)


def to_json_lines(adversaries: Iterable[Adversary]) -> bytes:
    """One adversary a line."""
    lines = []
    for adversary in adversaries:
        row = asdict(adversary) | {"edits": [[e.start, e.end, e.replacement] for e in adversary.edits]}
        lines.append(json.dumps(row, sort_keys=True))
    return "".join(f"{line}\n" for line in lines).encode()


def from_json_lines(data: bytes, where: str = "adversaries") -> tuple[Adversary, ...]:
    """Parse the output of `to_json_lines`; raises InputError naming `where` and the line."""
    adversaries = []
    for number, line in enumerate(data.decode().splitlines(), 1):
        try:
            row: dict[str, Any] = json.loads(line)
            edits, words_in = tuple(Edit(*edit) for edit in row.pop("edits")), tuple(row.pop("words_in"))
            adversaries.append(Adversary(edits=edits, words_in=words_in, **row))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{where}, line {number}: not an adversary in this version's format ({error})") from None
    return tuple(adversaries)


def manifest(
    adversaries: Sequence[Adversary], num_captions: int, *, seed: int, split: str, pools: WordPools
) -> dict[str, Any]:
    """What a file of adversaries holds: numbers per attack and kind of words, and what they were made from.

    Args:
        adversaries: all adversaries of the file.
        num_captions: captions of the split, with adversaries or without.
        seed: seed of the draws.
        split: name of the split.
        pools: the words that the adversaries were drawn from; their fingerprint is kept.
    """
    counts = Counter((a.attack, a.words) for a in adversaries)
    attacked = {key: len({a.caption_id for a in adversaries if (a.attack, a.words) == key}) for key in counts}
    return {
        "revision": REVISION,
        "seed": seed,
        "split": split,
        "pools": pools.fingerprint,
        "captions": num_captions,
        "attacks": {
            f"{attack}/{words}": {"adversaries": count, "captions_attacked": attacked[attack, words]}
            for (attack, words), count in sorted(counts.items())
        },
    }
