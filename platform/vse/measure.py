"""Stage 5, measure: every task on a trained run, kept beside it as JSON."""

import contextlib
import typing
from dataclasses import dataclass, replace
from typing import Any, runtime_checkable

import numpy as np
from torch import Tensor

from vse import pipeline
from vse.adversaries import attack_split, complete_images, contrast_split, plural_images
from vse.config import fingerprint, knob, to_dict
from vse.data.examples import encode_texts
from vse.data.sources import true_pairs
from vse.errors import InputError
from vse.evaluation.attacks import evaluate_attacks, restrict, unknown_word_rate
from vse.evaluation.caption_pairs import evaluate_pairs
from vse.evaluation.codes import Codes, encode_captions, encode_images
from vse.evaluation.gaussianity import fresh_accuracy, gaussianity
from vse.evaluation.own_pool import evaluate_own_pool
from vse.evaluation.protocol import PUBLISHED, Fold, Protocol
from vse.evaluation.retrieval import evaluate_retrieval, slice_items
from vse.evaluation.true_pairs import evaluate_true_pairs
from vse.language.caption_pairs import match_images, read_pairs
from vse.language.contrast import rules as contrast
from vse.language.contrast.evaluation_sets import PLURAL
from vse.language.contrast.words import KINDS
from vse.language.parsing import language_fingerprint, parse_texts_to
from vse.models.family import Batch, Encoded
from vse.storage import Folder
from vse.trained import Trained, encode_adversaries, encode_split, load_run
from vse.training.inputs import Material, split_examples
from vse.workspace import Workspace, dataset_name

REVISION = 1
WORDS = ("shared", "disjoint")


@runtime_checkable
class KeepsCodes(typing.Protocol):
    """Families whose unit vectors have codes behind them; the first of each pair has shape (batch, dim)."""

    def image_codes(self, batch: Batch) -> tuple[Tensor, Encoded]: ...

    def caption_codes(self, batch: Batch) -> tuple[Tensor, Encoded]: ...


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
    true_pairs: bool = knob(False, "retrieval with all true pairs as positives too, where the source knows the truth")
    gaussian: bool = knob(False, "how far codes are from N(0, I), of families that keep such codes")
    contrast: tuple[str, ...] = knob((), "kinds of words of VSE-C's contrastive captions", choices=KINDS)
    pairs: tuple[str, ...] = knob((), "files of (image, caption, negative caption), as SugarCrepe's JSON")


def measure_run(run: Folder, workspace: Workspace, options: MeasureOptions) -> dict[str, Any]:
    """Metrics of a run by name, computed once: `{split}/...` plain and `{split}/attack_...`, `/disjoint` behind the
    kind where adversaries take words that training negatives never had; and the unknown-word rates of what was read.
    Numbers of a published protocol have its name behind the split: `{split}/coco_5k/...`.

    What is there is returned as it is. Raises InputError where the run has no checkpoint or the data set no such split.
    """
    changes = {"model.components": options.components} if options.components else {}
    trained = load_run(run, changes)
    name = f"measures-{fingerprint([options, trained.checkpoint.name, REVISION])}.json"
    folder = run.child("evaluation")
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, InputError, KeyError, TypeError):
        return folder.read_json(name)["metrics"]
    knobs = {"alpha": options.alpha} if options.alpha is not None and "alpha" in trained.family.knobs else {}
    material = pipeline.prepare(trained.config, workspace, parsed=bool(options.attacks or options.contrast))
    metrics: dict[str, float] = {}
    for split in options.splits:
        codes = encode_split(trained, material, split)
        protocol = _protocol(split, options)
        owner = codes.owner.cpu().numpy()
        result = evaluate_retrieval(trained.family, codes.images, codes.captions, owner, protocol, knobs=knobs)
        metrics |= result.metrics
        texts = [c.text for c in material.records.split(split).captions]
        metrics[f"{split}/unknown_words"] = unknown_word_rate(texts, trained.vocabulary.words)
        if options.true_pairs:
            truth = true_pairs(trained.config.data, material.records, split, "measure.true_pairs")
            metrics |= evaluate_true_pairs(trained.family, codes.images, codes.captions, truth, split, knobs)
        if options.gaussian:
            metrics |= _gaussian(trained, material, split)
        for words in options.attacks:
            if words == "disjoint" and not trained.config.text.pools.held_out:
                continue  # training negatives had them all
            adversaries = attack_split(trained.config, workspace, material, split, words)
            sets = encode_adversaries(trained, adversaries, material)
            attacked = evaluate_attacks(
                trained.family, codes.images, codes.captions, owner, sets, protocol, knobs=knobs
            )
            behind = "" if words == "shared" else f"/{words}"
            metrics |= _behind(attacked.metrics, words)
            for attack, found in adversaries.texts.items():
                rate = unknown_word_rate(found, trained.vocabulary.words)
                metrics[f"{split}/attack_{attack}{behind}/unknown_words"] = rate
        for words in options.contrast:
            metrics |= _behind(_contrast(trained, workspace, material, split, codes, protocol, words, knobs), words)
    if options.pairs:
        metrics |= _pairs(trained, workspace, material, options.pairs, knobs)
    content = {"revision": REVISION, "checkpoint": trained.checkpoint.uri, "options": to_dict(options)}
    folder.write_json(name, {**content, "metrics": metrics})
    return metrics


def _protocol(split: str, options: MeasureOptions) -> Protocol:
    """Raises InputError where a published protocol and folds of the user's own are asked for."""
    if not options.protocol:
        return Protocol(name=split, split=split, folds=options.folds)
    if options.folds > 1:
        raise InputError(f"measure.protocol={options.protocol} has its own folds; leave measure.folds alone")
    return replace(PUBLISHED[options.protocol], split=f"{split}/{options.protocol}")


def _behind(metrics: dict[str, float], words: str) -> dict[str, float]:
    """The kind of words behind the name of an attack, where it is not that of training."""
    if words == "shared":
        return metrics
    split = ((*key.rpartition("/"),) for key in metrics)
    return {f"{head}/{words}/{tail}": value for (head, _, tail), value in zip(split, metrics.values(), strict=True)}


def _contrast(
    trained: Trained,
    workspace: Workspace,
    material: Material,
    split: str,
    codes: Codes,
    protocol: Protocol,
    words: str,
    knobs: dict[str, Any],
) -> dict[str, float]:
    """VSE-C's evaluation (section 4.1): `attack_noun` among all adversaries, `own_pool_noun` among an image's own.

    The latter also on the images whose captions have all twenty of each class, and on the plural split.
    """
    part = material.records.split(split)
    adversaries = contrast_split(trained.config, workspace, material, split, words)
    sets, owner = encode_adversaries(trained, adversaries, material), codes.owner.cpu().numpy()
    family, name = trained.family, protocol.split
    attacked = evaluate_attacks(family, codes.images, codes.captions, owner, sets, protocol, knobs=knobs)
    own = evaluate_own_pool(
        family, codes.images, codes.captions, owner, sets, protocol, together=contrast.CLASSES, knobs=knobs
    )
    found = attacked.metrics | own.metrics
    for attack, texts in adversaries.texts.items():
        found[f"{name}/attack_{attack}/unknown_words"] = unknown_word_rate(texts, trained.vocabulary.words)
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
        found |= evaluate_own_pool(family, some, texts, inside, chosen, whole, knobs=knobs).metrics
    return found


def _gaussian(trained: Trained, material: Material, split: str) -> dict[str, float]:
    """`{split}/gaussian_images/...` and `..._captions/...`: moments and distances to N(0, I) of un-normalised codes.

    `fresh_accuracy` is of a discriminator trained on half of them, one half where nothing tells them from the prior.
    """
    family, part = trained.family, material.records.split(split)
    if not isinstance(family, KeepsCodes):
        raise InputError("measure.gaussian: this family has no codes beside its unit vectors; jWAE has")
    examples = split_examples(material, part, family.inputs, trained.vocabulary)
    features = examples.features[family.inputs.image]
    images = encode_images(family, features, lambda batch: {"codes": family.image_codes(batch)[0]})
    captions = encode_captions(family, examples.texts, lambda batch: {"codes": family.caption_codes(batch)[0]})
    found: dict[str, float] = {}
    for side, each in (("images", images["codes"]), ("captions", captions["codes"])):
        numbers = gaussianity(each).numbers() | {"fresh_accuracy": fresh_accuracy(each)}
        found |= {f"{split}/gaussian_{side}/{name}": value for name, value in numbers.items()}
    return found


def _pairs(
    trained: Trained, workspace: Workspace, material: Material, files: tuple[str, ...], knobs: dict[str, Any]
) -> dict[str, float]:
    """`pairs/<category>` in percent on images of the data set found by file name, and the share of pairs found."""
    pairs = [pair for file in files for pair in read_pairs(file)]
    image = match_images(pairs, [(i.id, i.uri) for i in material.records.images])
    kept = [pair for pair in pairs if pair.filename in image]
    if not kept:
        raise InputError(
            f"pairs={','.join(files)}: none of {len(pairs)} pairs is of an image of {material.records.name}"
        )
    ids = tuple(dict.fromkeys(image[pair.filename] for pair in kept))
    row = {found: k for k, found in enumerate(ids)}
    inputs, texts = trained.family.inputs, [pair.caption for pair in kept] + [pair.negative for pair in kept]
    parses = None
    if inputs.components:
        parser = pipeline.parser_of(trained.config)
        digits = fingerprint(["pairs", language_fingerprint(parser), texts])
        parses = parse_texts_to(texts, parser, workspace.language(dataset_name(material.records), digits))
    sentences = material.sentences if inputs.sentence else None
    encoded = encode_captions(trained.family, encode_texts(texts, trained.vocabulary, parses, sentences))
    images = encode_images(trained.family, material.features.array(inputs.image, ids))
    true, false = (slice_items(encoded, part) for part in (slice(0, len(kept)), slice(len(kept), None)))
    place = [row[image[pair.filename]] for pair in kept]
    found = evaluate_pairs(trained.family, images, true, false, place, [pair.category for pair in kept], knobs=knobs)
    return {f"pairs/{name}": value for name, value in found.items()} | {"pairs/found": 100.0 * len(kept) / len(pairs)}
