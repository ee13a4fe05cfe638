"""Stage 5, measure: every task on a trained run, kept beside it as JSON."""

import contextlib
import difflib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from vse import pipeline
from vse.adversaries import Adversaries, attack_split, complete_images, contrast_split, plural_images
from vse.caption_pairs import REVISION as PAIRS_REVISION
from vse.caption_pairs import measure_pairs
from vse.config import fingerprint, knob, to_dict
from vse.data.records import Split
from vse.data.sources import true_pairs
from vse.ensemble import Member, Members
from vse.errors import Diverged, InputError
from vse.evaluation.attacks import AttackResult, AttackSet, evaluate_attacks, restrict
from vse.evaluation.codes import Codes
from vse.evaluation.outcomes import Outcomes, Recorder, pack, unpack
from vse.evaluation.own_pool import evaluate_own_pool
from vse.evaluation.protocol import PUBLISHED, Fold, Protocol
from vse.evaluation.retrieval import evaluate_retrieval, slice_items
from vse.evaluation.true_pairs import evaluate_true_pairs
from vse.gaussian_codes import measure_gaussian
from vse.language.caption_pairs import CaptionPair, read_pairs
from vse.language.contrast import rules as contrast
from vse.language.contrast.evaluation_sets import PLURAL
from vse.language.contrast.words import KINDS
from vse.storage import Folder
from vse.trained import DEVICES, device_of, load_run
from vse.workspace import Workspace

log = logging.getLogger(__name__)

REVISION = 3
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
    """Metrics by name, and by what stands before `/rsum` in these the size of what was measured; where they were asked
    for, outcomes likewise, and the file that keeps them."""

    metrics: dict[str, Any]
    sizes: dict[str, Size]
    outcomes: Mapping[str, Outcomes] = field(default_factory=dict)
    file: str = ""


@dataclass(frozen=True, eq=False)
class Plan:
    """A measurement before anything is encoded: runs, splits, adversaries, and pairs of captions."""

    members: Members
    parts: tuple[Split, ...]
    attackers: Mapping[str, Attackers]
    pairs: tuple[CaptionPair, ...]
    options: MeasureOptions
    sizes: dict[str, Size]
    device: torch.device

    @cached_property
    def digits(self) -> str:
        """Fingerprint of all that decides the numbers, in the names of the files that keep them."""
        asked = [PAIRS_REVISION, self.pairs] if self.pairs else self.pairs
        # a GPU's numbers are the same but for the last bits
        key = [replace(self.options, device=""), asked, REVISION]
        key += [[each.trained.weights, dict(each.material.fingerprints)] for each in self.members.each]
        for split, sets in self.attackers.items():
            key += [[split, *kind, *(one.fingerprint for one in made)] for kind, made in sets]
        return fingerprint(key)

    @property
    def file(self) -> str:
        """The name of the table of outcomes, beside the numbers."""
        return f"outcomes-{self.digits}.parquet"

    @cached_property
    def prints(self) -> dict[str, str]:
        """What runs must have in common for their outcomes to be compared: fingerprints of the images and captions of
        every split, and of the texts that attack it by kind."""
        found = {}
        for part in self.parts:
            rows = [[i.id, i.uri] for i in part.images], [[c.id, c.image, c.text] for c in part.captions]
            found[part.name] = fingerprint(rows)
            for kind, (first, *_) in self.attackers[part.name]:
                owner = {name: of.tolist() for name, of in first.owner.items()}
                found["/".join((part.name, *kind))] = fingerprint([first.texts, owner])
        return found


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
    """As `measure_run`, of the mean of the similarities of several runs, each at its own α unless one is given.

    folder: where the numbers are kept. Unknown-word rates are means over the vocabularies. Raises InputError, beside
    what `measure_run` raises, where the runs' splits or their adversaries are not the same.
    """
    plan = plan_measure(runs, workspace, options)
    return (kept_measures(plan, folder) or carry_out(plan, folder, workspace)).metrics


def measure_with_outcomes(
    runs: Sequence[Folder], folder: Folder, workspace: Workspace, options: MeasureOptions
) -> Measured:
    """As `measure_ensemble`, with sizes and the outcomes of every query, which are kept beside the numbers. What was
    kept without outcomes is measured again."""
    plan = plan_measure(runs, workspace, options)
    return kept_measures(plan, folder, True) or carry_out(plan, folder, workspace, True)


def plan_measure(runs: Sequence[Folder], workspace: Workspace, options: MeasureOptions) -> Plan:
    """What measuring runs will take, with earlier stages and adversaries made where they are missing.

    Raises InputError as `measure_ensemble` does.
    """
    changes = {"model.components": options.components} if options.components else {}
    if options.gaussian and len(runs) > 1:
        raise InputError("measure.gaussian: codes are of one run; name one in run")
    device = device_of(options.device, "measure.device")
    loaded = [load_run(run, changes) for run in runs]
    parsed, alpha = bool(options.attacks or options.contrast), options.alpha
    if alpha is not None and not any("alpha" in trained.family.knobs for trained in loaded):
        names = ", ".join(run.name for run in runs)
        raise InputError(f"measure.alpha={alpha:g}: the family of {names} has no alpha; leave it out")
    members = Members(
        tuple(
            Member(
                run.name,
                trained,
                pipeline.prepare(trained.config, workspace, parsed=parsed),
                {"alpha": alpha} if alpha is not None and "alpha" in trained.family.knobs else {},
                options.drop_components,
                options.drop_seed,
            )
            for run, trained in zip(runs, loaded, strict=True)
        )
    )
    parts = tuple(_part(members, split) for split in dict.fromkeys(options.splits))  # told before any is encoded
    sizes = dict(_size(part, options) for part in parts)
    attackers = {part.name: _attackers(members, workspace, part.name, options) for part in parts}
    pairs = tuple(pair for file in options.pairs for pair in read_pairs(file))
    return Plan(members, parts, attackers, pairs, options, sizes, device)


def kept_measures(plan: Plan, folder: Folder, outcomes: bool = False) -> Measured | None:
    """What was measured before; None where that is not there, is damaged or lacks the outcomes that are asked for."""
    name, file, found = f"measures-{plan.digits}.json", "", dict[str, Outcomes]()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, InputError, KeyError, TypeError):
        content = folder.read_json(name)
        metrics = content["metrics"]
        if outcomes:
            file = plan.file
            found, prints = unpack(folder.read_bytes(file))
            if prints != plan.prints:
                return None
        with contextlib.suppress(OSError):
            folder.write_json(name, {**content, "asked": time.time()})
        return Measured(metrics, plan.sizes, found, file)
    return None


def carry_out(plan: Plan, folder: Folder, workspace: Workspace, outcomes: bool = False) -> Measured:
    """Measure and keep the numbers, and the outcomes if asked. Raises Diverged where scores are NaN."""
    members, options = plan.members, plan.options
    loaded = [member.trained for member in members.each]
    for trained in loaded:
        trained.to(plan.device)
    metrics, rows = dict[str, float](), list[pa.Table]()
    try:
        for part in plan.parts:
            recorder = Recorder(part, _protocol(part.name, options))
            _add(metrics, _split(members, part, plan.attackers[part.name], options, recorder))
            rows += recorder.rows() if outcomes else []
        if options.pairs:
            _add(metrics, measure_pairs(members, workspace, plan.pairs, ",".join(options.pairs)))
    except Diverged as error:
        raise Diverged(f"run={members.names}: {error}") from None
    log.info("measured on %s", torch.cuda.get_device_name(plan.device) if plan.device.type == "cuda" else "the CPU")
    content: dict[str, Any] = {"asked": time.time(), "revision": REVISION, "options": to_dict(options)}
    content["checkpoint"] = loaded[0].checkpoint.uri
    if plan.pairs:
        content["pairs_revision"] = PAIRS_REVISION
    content["weights"] = [trained.weights for trained in loaded]
    if len(loaded) > 1:
        content["checkpoint"] = [trained.checkpoint.uri for trained in loaded]
    content["sizes"] = {split: asdict(size) for split, size in plan.sizes.items()}
    found, file = dict[str, Outcomes](), plan.file if outcomes else ""
    if outcomes:
        packed = pack(rows, plan.prints)
        folder.write_bytes(file, packed)
        found, _ = unpack(packed)
    folder.write_json(f"measures-{plan.digits}.json", {**content, "metrics": metrics})
    return Measured(metrics, plan.sizes, found, file)


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


def _split(
    members: Members, part: Split, attackers: Attackers, options: MeasureOptions, recorder: Recorder
) -> dict[str, float]:
    """Every task on a split but pairs."""
    split, codes, protocol = part.name, members.encode(part.name), _protocol(part.name, options)
    owner, first = codes.owner.cpu().numpy(), members.each[0]
    plain = evaluate_retrieval(members.model, codes.images, codes.captions, owner, protocol)
    metrics = plain.metrics
    recorder.retrieval(plain.folds)
    metrics[f"{split}/unknown_words"] = members.unknown_words(c.text for c in part.captions)
    if options.true_pairs:
        truth = true_pairs(first.trained.config.data, first.material.records, split, "measure.true_pairs")
        _add(metrics, evaluate_true_pairs(members.model, codes.images, codes.captions, truth, split))
    if options.gaussian:
        _add(metrics, measure_gaussian(first, split))
    for (kind, words), made in attackers:
        sets = members.encode_attacks(made)
        if kind == "contrast":
            attacked, more = _contrast(members, part, codes, protocol, made[0], sets)
            recorder.attacks(attacked.folds, words)
            _add(metrics, _behind(more, words))
            continue
        attacked = evaluate_attacks(members.model, codes.images, codes.captions, owner, sets, protocol)
        recorder.attacks(attacked.folds, words)
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
) -> tuple[AttackResult, dict[str, float]]:
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
    return attacked, found
