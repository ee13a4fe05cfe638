"""Stage 5, measure: every task on a trained run, kept beside it as JSON."""

import contextlib
import difflib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from vse import pipeline
from vse.adversaries import Adversaries, attack_split, complete_images, contrast_split, plural_images
from vse.config import fingerprint, knob, to_dict
from vse.data.examples import encode_texts
from vse.data.records import Split
from vse.data.sources import true_pairs
from vse.ensemble import Member, Members
from vse.errors import Diverged, InputError
from vse.evaluation.attacks import AttackSet, evaluate_attacks, restrict
from vse.evaluation.caption_pairs import evaluate_pairs
from vse.evaluation.codes import Codes, encode_captions, encode_images
from vse.evaluation.ensemble import joined
from vse.evaluation.gaussianity import KeepsCodes, gaussian_numbers
from vse.evaluation.own_pool import evaluate_own_pool
from vse.evaluation.protocol import PUBLISHED, Fold, Protocol
from vse.evaluation.retrieval import evaluate_retrieval, slice_items
from vse.evaluation.true_pairs import evaluate_true_pairs
from vse.language.caption_pairs import CaptionPair, match_images, read_pairs
from vse.language.contrast import rules as contrast
from vse.language.contrast.evaluation_sets import PLURAL
from vse.language.contrast.words import KINDS
from vse.language.parsing import language_fingerprint, parse_texts_to
from vse.models.family import Encoded, Family
from vse.storage import Folder
from vse.trained import DEVICES, device_of, load_run
from vse.training.inputs import split_examples, training_inputs
from vse.training.run import build_family
from vse.workspace import Workspace, dataset_name

log = logging.getLogger(__name__)

REVISION = 3
PAIRS_REVISION = 2  # 2: a file name that several images share is none of theirs
WORDS = ("shared", "disjoint")
# ((attack or contrast, kind of words), the adversaries as each of the runs reads them)
Attackers = list[tuple[tuple[str, str], tuple[Adversaries, ...]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasureOptions:
    """What to measure."""

    splits: tuple[str, ...] = knob(("test",), "splits of the data set")
    attacks: tuple[str, ...] = knob(
        WORDS, "kinds of words that adversaries take, disjoint ones where some were held out; or nothing", choices=WORDS
    )
    protocol: str = knob("", "published way of measuring; empty: the whole split", choices=("", *PUBLISHED))
    folds: int = knob(1, "retrieval within so many equal parts of the split, averaged", low=1)
    alpha: float | None = knob(None, "weight of u_sent where the family has it; default as configured", low=0, high=1)
    components: tuple[str, ...] = knob((), "types that make u_comp at inference; default as configured")
    drop_components: float = knob(
        0.0, "share of parsed attributes and relations dropped at test (A.2, Table 1, Test Drop)", low=0, high=1
    )
    drop_seed: int = knob(0, "which of them: the same for all runs", low=0)
    true_pairs: bool = knob(False, "retrieval with all true pairs as positives too, where the source knows the truth")
    gaussian: bool = knob(
        False, "how far codes are from N(0, I) before and after training, of families that keep such codes"
    )
    contrast: tuple[str, ...] = knob((), "kinds of words of VSE-C's contrastive captions", choices=KINDS)
    pairs: tuple[str, ...] = knob((), "files of (image, caption, negative caption), as SugarCrepe's JSON")
    device: str = knob("cpu", "where it is computed; auto: on a GPU where there is one", choices=DEVICES)


@dataclass(frozen=True, slots=True)
class Size:
    """How much numbers are over: images and captions of a split as far as a protocol takes them, in all its folds."""

    images: int
    captions: int
    folds: int = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """Metrics by name, and by what stands before `/rsum` in these the size of what was measured."""

    metrics: dict[str, Any]
    sizes: dict[str, Size]


def measure_run(run: Folder, workspace: Workspace, options: MeasureOptions) -> dict[str, Any]:
    """Metrics of a run by name, computed once: `{split}/...` plain, `{split}/attack_...` and, of VSE-C's adversaries,
    `{split}/attack_contrast_...`, `/disjoint` behind the kind where adversaries take words that training negatives
    never had; and the unknown-word rates of what was read. Numbers of a published protocol have its name behind the
    split: `{split}/coco_5k/...`.

    What is there is returned as it is, if it was made of the same weights, data, adversaries and pairs. Raises
    InputError where the run has no checkpoint or the data set no such split, Diverged where scores are NaN.
    """
    return measure_ensemble([run], run.child("evaluation"), workspace, options)


def measure_ensemble(
    runs: Sequence[Folder], folder: Folder, workspace: Workspace, options: MeasureOptions
) -> dict[str, Any]:
    """As `measure_run`, of the mean of the similarities of several runs, each at its own α unless one is given."""
    return measure_with_sizes(runs, folder, workspace, options).metrics


def measure_with_sizes(
    runs: Sequence[Folder], folder: Folder, workspace: Workspace, options: MeasureOptions
) -> Measured:
    """As `measure_ensemble`, with the sizes of what was measured.

    folder: where the numbers are kept. Unknown-word rates are means over the vocabularies. Raises InputError, beside
    what `measure_run` raises, where the runs' splits or their adversaries are not the same.
    """
    changes = {"model.components": options.components} if options.components else {}
    if options.gaussian and len(runs) > 1:
        raise InputError("measure.gaussian: codes are of one run; name one in run")
    device = device_of(options.device, "measure.device")
    loaded = [load_run(run, changes) for run in runs]
    parsed, alpha = bool(options.attacks or options.contrast), options.alpha
    if alpha is not None and not any("alpha" in trained.family.inference_parameters for trained in loaded):
        names = ", ".join(run.name for run in runs)
        raise InputError(f"measure.alpha={alpha:g}: the family of {names} has no alpha; leave it out")
    members = Members(
        tuple(
            Member(
                run.name,
                trained,
                pipeline.prepare(trained.config, workspace, parsed=parsed),
                {"alpha": alpha} if alpha is not None and "alpha" in trained.family.inference_parameters else {},
                options.drop_components,
                options.drop_seed,
            )
            for run, trained in zip(runs, loaded, strict=True)
        )
    )
    parts = [_part(members, split) for split in dict.fromkeys(options.splits)]  # told before any is encoded
    sizes = dict(_size(part, options) for part in parts)
    attackers = {part.name: _attackers(members, workspace, part.name, options) for part in parts}
    pairs = tuple(pair for file in options.pairs for pair in read_pairs(file))
    asked = [PAIRS_REVISION, pairs] if pairs else pairs
    key = [replace(options, device=""), asked, REVISION]  # a GPU's numbers are the same but for the last bits
    key += [[each.trained.weights, dict(each.material.fingerprints)] for each in members.each]
    key += [[split, *kind, *(one.fingerprint for one in made)] for split, s in attackers.items() for kind, made in s]
    name = f"measures-{fingerprint(key)}.json"
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, InputError, KeyError, TypeError):
        content = folder.read_json(name)
        found = Measured(content["metrics"], sizes)
        with contextlib.suppress(OSError):
            folder.write_json(name, {**content, "asked": time.time()})
        return found
    for trained in loaded:
        trained.to(device)
    metrics: dict[str, float] = {}
    try:
        for part in parts:
            _add(metrics, _split(members, part, attackers[part.name], options))
        if options.pairs:
            _add(metrics, _pairs(members, workspace, pairs, ",".join(options.pairs)))
    except Diverged as error:
        raise Diverged(f"run={members.names}: {error}") from None
    log.info("measured on %s", torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU")
    content: dict[str, Any] = {"asked": time.time(), "revision": REVISION, "options": to_dict(options)}
    content["checkpoint"] = loaded[0].checkpoint.uri
    if pairs:
        content["pairs_revision"] = PAIRS_REVISION
    content["weights"] = [trained.weights for trained in loaded]
    if len(loaded) > 1:
        content["checkpoint"] = [trained.checkpoint.uri for trained in loaded]
    content["sizes"] = {split: asdict(size) for split, size in sizes.items()}
    folder.write_json(name, {**content, "metrics": metrics})
    return Measured(metrics, sizes)


def _part(members: Members, split: str) -> Split:
    """A split of the members' data. Raises InputError, naming a split to measure instead, where there is none."""
    try:
        return members.split(split)
    except InputError as error:
        there = [n for n in members.each[0].material.records.split_names if n != "train"]
        if split in there or split == "train" or not there:
            raise
        other = (difflib.get_close_matches(split, there) or there)[0]
        raise InputError(f"{error}; measure.splits={other} measures that one") from None


def _add(metrics: dict[str, float], more: Mapping[str, float]) -> None:
    assert metrics.keys().isdisjoint(more), f"measured twice: {sorted(metrics.keys() & more.keys())}"
    metrics.update(more)


def _attackers(members: Members, workspace: Workspace, split: str, options: MeasureOptions) -> Attackers:
    """The adversaries of a split, made where they are missing: UniVSE's, then VSE-C's."""
    found: Attackers = []
    for words in dict.fromkeys(options.attacks):
        if words == "disjoint" and not all(member.trained.config.text.pools.held_out for member in members.each):
            continue  # training negatives had them all
        made = members.attackers(
            lambda each, words=words: attack_split(each.trained.config, workspace, each.material, split, words)
        )
        found.append((("attack", words), made))
    for words in dict.fromkeys(options.contrast):
        made = members.attackers(
            lambda each, words=words: contrast_split(each.trained.config, workspace, each.material, split, words)
        )
        found.append((("contrast", words), made))
    return found


def _split(members: Members, part: Split, attackers: Attackers, options: MeasureOptions) -> dict[str, float]:
    """Every task on a split but pairs."""
    split, codes, protocol = part.name, members.encode(part.name), _protocol(part.name, options)
    owner, first = codes.owner.cpu().numpy(), members.each[0]
    metrics = evaluate_retrieval(members.model, codes.images, codes.captions, owner, protocol).metrics
    metrics[f"{split}/unknown_words"] = members.unknown_words(c.text for c in part.captions)
    if options.true_pairs:
        truth = true_pairs(first.trained.config.data, first.material.records, split, "measure.true_pairs")
        _add(metrics, evaluate_true_pairs(members.model, codes.images, codes.captions, truth, split))
    if options.gaussian:
        _add(metrics, _gaussian(first, split))
    for (kind, words), made in attackers:
        sets = members.encode_attacks(made)
        if kind == "contrast":
            _add(metrics, _behind(_contrast(members, part, codes, protocol, made[0], sets), words))
            continue
        attacked = evaluate_attacks(members.model, codes.images, codes.captions, owner, sets, protocol)
        found = attacked.metrics | {
            f"{split}/attack_{attack}/unknown_words": members.unknown_words(texts)
            for attack, texts in made[0].texts.items()
        }
        _add(metrics, _behind(found, words))
    return metrics


def _protocol(split: str, options: MeasureOptions) -> Protocol:
    """Raises InputError where a published protocol and folds of the user's own are asked for."""
    if not options.protocol:
        return Protocol(name=split, split=split, folds=options.folds)
    if options.folds > 1:
        raise InputError(f"measure.protocol={options.protocol} has its own folds; leave measure.folds alone")
    return replace(PUBLISHED[options.protocol], split=f"{split}/{options.protocol}")


def _size(part: Split, options: MeasureOptions) -> tuple[str, Size]:
    """The name of what is measured of a split, and its size. Raises InputError where the split is too small for it."""
    protocol = _protocol(part.name, options)
    folds = list(protocol.select(part.caption_to_image, len(part.images)))
    counts = (sum(len(getattr(fold, side)) for fold in folds) for side in ("images", "captions"))
    return protocol.split, Size(*counts, folds=len(folds))


def _behind(metrics: dict[str, float], words: str) -> dict[str, float]:
    """The kind of words behind the name of an attack, where it is not that of training."""
    if words == "shared":
        return metrics
    split = ((*key.rpartition("/"),) for key in metrics)
    return {f"{head}/{words}/{tail}": value for (head, _, tail), value in zip(split, metrics.values(), strict=True)}


def _contrast(
    members: Members,
    part: Split,
    codes: Codes,
    protocol: Protocol,
    adversaries: Adversaries,
    sets: Mapping[str, AttackSet],
) -> dict[str, float]:
    """VSE-C's evaluation (section 4.1): `attack_contrast_noun` among all adversaries, `own_pool_noun` among an image's
    own.

    The latter also on the images whose captions have all twenty of each class, and on the plural split.
    """
    owner, model, name = codes.owner.cpu().numpy(), members.model, protocol.split
    named = {f"contrast_{attack}": each for attack, each in sets.items()}
    attacked = evaluate_attacks(model, codes.images, codes.captions, owner, named, protocol)
    own = evaluate_own_pool(model, codes.images, codes.captions, owner, sets, protocol, together=contrast.CLASSES)
    found = dict(attacked.metrics)
    _add(found, own.metrics)
    for attack, texts in adversaries.texts.items():
        found[f"{name}/attack_contrast_{attack}/unknown_words"] = members.unknown_words(texts)
    parts = {"complete": complete_images(adversaries, part), "plural_split": plural_images(adversaries, part)}
    for label, rows in parts.items():
        found[f"{name}/{label}/images"] = float(len(rows))
        if not len(rows):
            continue
        fold = Fold(images=rows, captions=np.flatnonzero(np.isin(owner, rows)), owner=np.empty(0, dtype=np.int64))
        wanted = (PLURAL,) if label == "plural_split" else tuple(contrast.CLASSES)
        chosen = restrict({key: sets[key] for key in wanted if key in sets}, fold)
        some, texts = slice_items(codes.images, rows), slice_items(codes.captions, fold.captions)
        whole = Protocol(name=f"{name}, {label}", split=f"{name}/{label}")
        inside = np.searchsorted(rows, owner[fold.captions])
        _add(found, evaluate_own_pool(model, some, texts, inside, chosen, whole).metrics)
    return found


def _gaussian(member: Member, split: str) -> dict[str, float]:
    """`{split}/gaussian_images/...` and `..._captions/...`: how far un-normalised codes are from N(0, I), and how well
    discriminators tell them apart, one half where they cannot (`vse.evaluation.gaussianity`); the same of the
    configuration's initial weights with `before/` in front of the name, its discriminator being untrained too."""
    trained, material = member.trained, member.material
    if not isinstance(trained.family, KeepsCodes):
        raise InputError("measure.gaussian: this family has no codes beside its unit vectors; jWAE has")
    part = material.records.split(split)
    if len(part.images) < 4:
        raise InputError(f"measure.gaussian: split {split} has {len(part.images)} images; statistics need more")
    examples = split_examples(material, part, trained.family.inputs, trained.vocabulary)
    found: dict[str, float] = {}
    for when, family in (("", trained.family), ("before/", _initial(member))):
        for key, value in gaussian_numbers(family, examples).items():
            side, _, name = key.partition("/")
            found[f"{split}/gaussian_{side}/{when}{name}"] = value
    return found


def _initial(member: Member) -> Family:
    """The family as the run's training began, where its trained parameters are."""
    trained = member.trained
    family = build_family(trained.config, training_inputs(trained.config, member.material, trained.family.inputs))
    return family.to(next(trained.family.parameters()).device).eval()


def _pairs(members: Members, workspace: Workspace, pairs: Sequence[CaptionPair], files: str) -> dict[str, float]:
    """`pairs/<category>` in percent on images of the data set found by file name, and the share of pairs found."""
    records = members.each[0].material.records
    common = set.intersection(*({(i.id, i.uri) for i in m.material.records.images} for m in members.each))
    matched = match_images(pairs, [(i.id, i.uri) for i in records.images if (i.id, i.uri) in common])
    image, unclear = matched.ids, [pair.filename for pair in pairs if pair.filename in matched.ambiguous]
    kept = [pair for pair in pairs if pair.filename in image]
    told = (
        f"{len(unclear)} of {len(pairs)} pairs give a name that several images share, such as {unclear[0]!r}; write an "
        f"image's id, or its path as {records.name} has it"
        if unclear
        else ""
    )
    if not kept:
        none = f"pairs={files}: none of {len(pairs)} pairs is of an image of {records.name}"
        raise InputError(f"{none}; {told}" if told else none)
    if told:
        log.warning("pairs=%s: %s", files, told)
    if taken := {pair.category for pair in kept} & {"mean", "found"}:
        raise InputError(f"pairs={files}: category {min(taken)!r} is the name of another number; call it otherwise")
    ids = tuple(dict.fromkeys(image[pair.filename] for pair in kept))
    row = {found: k for k, found in enumerate(ids)}
    texts = [pair.caption for pair in kept] + [pair.negative for pair in kept]
    encoded = joined([_encode_pairs(member, workspace, texts) for member in members.each])
    images = joined(
        [
            encode_images(m.trained.family, m.material.features.array(m.trained.family.inputs.image, ids))
            for m in members.each
        ]
    )
    true, false = (slice_items(encoded, part) for part in (slice(0, len(kept)), slice(len(kept), None)))
    place = [row[image[pair.filename]] for pair in kept]
    found = evaluate_pairs(members.model, images, true, false, place, [pair.category for pair in kept])
    return {f"pairs/{name}": value for name, value in found.items()} | {"pairs/found": 100.0 * len(kept) / len(pairs)}


def _encode_pairs(member: Member, workspace: Workspace, texts: list[str]) -> Encoded:
    """Codes of captions that are no part of the data set, parsed where the family reads components."""
    trained, material = member.trained, member.material
    inputs, parses = trained.family.inputs, None
    if inputs.components:
        parser = pipeline.parser_of(trained.config)
        digits = fingerprint(["pairs", language_fingerprint(parser), texts])
        whole = parse_texts_to(texts, parser, workspace.language(dataset_name(material.records), digits))
        parses = member.read(whole)
    sentences = material.sentences if inputs.sentence else None
    return encode_captions(trained.family, encode_texts(texts, trained.vocabulary, parses, sentences))
