"""The candidate stage: slots of every caption of a split, once, in shards, in this process, several or a Ray cluster.

Finished shards of an interrupted run are kept: the next run makes only those of the remaining captions.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from vse.adversaries.attacks import CONTRAST_ATTACKS, contrast_classes
from vse.adversaries.vsec import table
from vse.adversaries.vsec.candidates import REVISION, Generator, Rules, by_image, contrast_identity
from vse.adversaries.vsec.slots import Slot
from vse.adversaries.vsec.table import Candidates
from vse.adversaries.vsec.words import Contrast, ContrastWords
from vse.cluster.runtime import Cluster
from vse.config import fingerprint
from vse.data.records import Records
from vse.display.progress import Progress
from vse.errors import StorageError
from vse.stages.shards import run_shards
from vse.storage.damage import remove_damaged
from vse.storage.files import entry_of
from vse.storage.folder import Folder
from vse.text.components import extract
from vse.text.lexicon.compact import knowledge
from vse.text.parse import Parse
from vse.text.parsed_caption import ParsedCaption
from vse.training.inputs import Parses
from vse.workspace.layout import Workspace, dataset_name

SHARD_CAPTIONS = 4096
WORTH_A_PROCESS = 8000  # captions: starting a process costs some seconds
WORTH_RAY = 40_000
ShardRow = tuple[str, str, str, Parse]  # caption id, image id, text, parse
Shard = list[ShardRow]


@dataclass(frozen=True, eq=False)
class Recipe:
    """All that makes slots of parsed captions, small enough to travel to every worker."""

    words: Contrast
    rules: Rules
    folder: Folder
    fingerprint: str


def contrast_words(records: Records, parses: Parses, rules: Rules) -> ContrastWords:
    """The words of the training captions, under the rules' lexicon.

    Args:
        records: data with a training split.
        parses: of its captions.
        rules: which lexicon is read, which nouns are concrete, and how frequent a word must be.
    """
    lexicon = knowledge(rules.lexicon, rules.concreteness, rules.concrete_share)
    train = records.split("train").captions
    return ContrastWords(((parses.parse(c.text), parses.components(c.text)) for c in train), rules, lexicon)


def contrast_candidates(
    records: Records,
    parses: Parses,
    split: str,
    rules: Rules,
    workspace: Workspace,
    *,
    words: str = "shared",
    num_workers: int | None = None,
    cluster: Cluster | None = None,
) -> Candidates:
    """Candidates of a split in one kind of words, in language/<dataset>/<fingerprint>; missing ones are made.

    Args:
        records: the data; words come from its training split.
        parses: of the captions of both splits.
        split: name of the split whose captions are changed.
        rules: how candidates are made.
        workspace: where they are kept.
        words: `shared`, `disjoint` or `all`.
        num_workers: processes; None: one for few captions, else as many as cores, at most four.
        cluster: gives a running Ray once one is needed; None: Ray is used only if it is running.

    Raises:
        InputError: there is no such split or lexicon, or the training captions have no frequent concrete noun.
        StorageError: shards are damaged right after they were written.
    """
    lexicon = knowledge(rules.lexicon, rules.concreteness, rules.concrete_share)
    words_of_rules = contrast_words(records, parses, rules)
    chosen = words_of_rules.of(words)
    part = records.split(split)
    key = [records.fingerprint, parses.fingerprint, split, chosen.fingerprint, lexicon.fingerprint]
    digits = fingerprint(["contrast", REVISION, rules, contrast_identity(rules), *key])
    folder = workspace.language(dataset_name(records), digits)
    kept = Candidates.find(folder)
    if kept is not None:
        return kept
    recipe = Recipe(chosen, rules, folder, digits)
    with folder.locked():
        if Candidates.find(folder) is None:
            remove_damaged(folder)
            _make(
                recipe,
                part.captions,
                parses,
                num_workers,
                cluster,
                words_of_rules.report() | {"split": split, "words": words},
            )
    return Candidates.open(folder)


def _make(
    recipe: Recipe,
    captions: Sequence[Any],
    parses: Parses,
    num_workers: int | None,
    cluster: Cluster | None,
    content: dict[str, Any],
) -> None:
    folder = recipe.folder.check_writable()
    done = {caption for shard in table.finished(folder, recipe.fingerprint).values() for caption in shard}
    images = {c.image for c in captions if c.id not in done}
    todo = [c for c in captions if c.image in images]
    if todo:
        groups = _shards(todo)
        shards = ([(c.id, c.image, c.text, parses.parse(c.text)) for c in group] for group in groups)
        with Progress("contrast", total=len(todo), unit="captions") as bar:
            for count in _run(shards, [len(group) for group in groups], recipe, num_workers, cluster):
                bar.advance(count)
    files, words = [table.WORDS], table.words_to_json(recipe.words)
    folder.write_bytes(table.WORDS, words)
    wanted = {c.id for c in captions}
    seen: set[str] = set()
    for name, ids in sorted(table.finished(folder, recipe.fingerprint).items()):
        if wanted.issuperset(ids) and seen.isdisjoint(ids):
            files.append(name)
            seen.update(ids)
    if seen != wanted:
        raise StorageError(f"{folder}: the candidates just written are damaged; run the same command again")
    counted = {"kind": "candidates", "fingerprint": recipe.fingerprint, "revision": REVISION, "captions": len(captions)}
    numbers, entries = _numbers(folder, files[1:], len(captions))
    entries[table.WORDS] = entry_of(words)
    folder.commit_manifest(files, {**counted, **content, "numbers": numbers, "files": entries})


def _shards(captions: Sequence[Any]) -> list[list[Any]]:
    """Captions in parts of about `SHARD_CAPTIONS`, an image's captions in one part."""
    shards: list[list[Any]] = [[]]
    for k, caption in enumerate(captions):
        if len(shards[-1]) >= SHARD_CAPTIONS and caption.image != captions[k - 1].image:
            shards.append([])
        shards[-1].append(caption)
    return shards


def _parsed(row: ShardRow) -> ParsedCaption:
    """Components are derived again in the worker, which costs no more than sending them."""
    caption, image, text, parse = row
    return ParsedCaption(id=caption, image=image, text=text, parse=parse, components=extract(parse))


_generators: dict[str, Generator] = {}


def make_shard(shard: Shard, recipe: Recipe) -> int:
    """Make and write one shard; returns its number of captions. The same captions give the same file."""
    if recipe.fingerprint not in _generators:
        rules = recipe.rules
        lexicon = knowledge(rules.lexicon, rules.concreteness, rules.concrete_share)
        _generators.clear()
        _generators[recipe.fingerprint] = Generator(recipe.words, lexicon, rules)
    generator = _generators[recipe.fingerprint]
    rows: list[tuple[str, str, Slot]] = []
    for group in by_image(_parsed(row) for row in shard):
        for caption, slots in zip(group, generator.of_image(group), strict=True):
            rows += [(caption.id, caption.text, slot) for slot in slots]
    ids = [row[0] for row in shard]
    name = table.shard_name(recipe.fingerprint, ids)
    table.write_shard(recipe.folder, name, ids, table.table_of(rows, recipe.words))
    return len(shard)


def _run(
    shards: Iterator[Shard], sizes: list[int], recipe: Recipe, num_workers: int | None, cluster: Cluster | None
) -> Iterator[int]:
    """Numbers of captions, shard by shard as they are written."""

    def missing(shards: Sequence[Shard]) -> list[Shard]:
        names = table.finished(recipe.folder, recipe.fingerprint)
        return [s for s in shards if table.shard_name(recipe.fingerprint, [row[0] for row in s]) not in names]

    return run_shards(
        partial(make_shard, recipe=recipe),
        shards,
        sizes,
        missing,
        num_workers=num_workers,
        cluster=cluster,
        worth_a_process=WORTH_A_PROCESS,
        worth_ray=WORTH_RAY,
    )


def _numbers(
    folder: Folder, files: Sequence[str], num_captions: int
) -> tuple[dict[str, dict[str, float]], dict[str, Any]]:
    """By paradigm and class: candidates a caption, and the shares of captions with one and with twenty of them. And the
    manifest entries of the files, for which a store would send them once more."""
    entries: dict[str, Any] = {}
    classes = contrast_classes()
    counts: dict[str, Counter[str]] = {name: Counter() for name in {*CONTRAST_ATTACKS, *classes}}
    for name in files:
        data = folder.read_bytes(name)
        entries[name], rows = entry_of(data), table.read_counts(data)
        for caption, paradigm, number in rows:
            for key in {paradigm, *(c for c, inside in classes.items() if paradigm in inside)}:
                counts[key][caption] += number
    numbers = {
        name: {
            "per_caption": count.total() / max(num_captions, 1),
            "captions_with_one": len(count) / max(num_captions, 1),
            "captions_with_twenty": sum(n >= 20 for n in count.values()) / max(num_captions, 1),
        }
        for name, count in sorted(counts.items())
    }
    return numbers, entries
