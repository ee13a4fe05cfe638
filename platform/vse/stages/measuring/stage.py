"""Stage 5, measure: every task on a trained run, kept beside it as JSON."""

import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import torch

from vse.adversaries.caption_pairs import CaptionPair
from vse.config import fingerprint, to_dict
from vse.data.records import Records, Split
from vse.display.progress import Progress
from vse.errors import Diverged, InputError
from vse.evaluation.outcomes import Outcomes, Recorder, pack, unpack
from vse.stages import pipeline
from vse.stages.attack import Adversaries, attack_split, contrast_split, of_some, without_any
from vse.stages.measuring.caption_pairs import PAIRS_REVISION, measure_pairs
from vse.stages.measuring.checks import attacked_by, check_measure, size_in
from vse.stages.measuring.members import Member, Members
from vse.stages.measuring.options import MeasureOptions, Size, protocol_of
from vse.stages.measuring.other_data import words_of
from vse.stages.measuring.split import Attackers, add, measure_split
from vse.stages.trained import device_of
from vse.storage.files import entry_of
from vse.storage.folder import Folder
from vse.training.config import RunConfig
from vse.training.inputs import Material
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)

REVISION = 5  # 5: a fresh judge of codes has seen no caption of the images that it is tested on


@dataclass(frozen=True, slots=True)
class Measured:
    """Metrics by name, and by what stands before `/rsum` in these the size of what was measured; where they were asked
    for, outcomes likewise, and the file that keeps them. The digits are in the names of its files (`Plan.digits`)."""

    metrics: dict[str, Any]
    sizes: dict[str, Size]
    digits: str
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

    def warn_of_unattacked(self) -> None:
        """A line for every split and kind of words in which attacks find nothing to change, and have no numbers."""
        for split, sets in self.attackers.items():
            for (kind, words), (first, *_) in sets:
                if names := [_told_attack(kind, attack) for attack in without_any(first)]:
                    none = f"no {' and no '.join(names)} adversaries ({words} words)"
                    log.warning("split %s has %s: there are no numbers of them", split, none)

    @cached_property
    def prints(self) -> dict[str, str]:
        """What runs must have in common for their outcomes to be compared: fingerprints of the images and captions of
        every split, and of the texts that attack it by kind."""
        found = {}
        for part in self.parts:
            rows = [[i.id, i.uri] for i in part.images], [[c.id, c.image, c.text] for c in part.captions]
            found[part.name] = fingerprint(rows)
            for kind, (first, *_) in self.attackers[part.name]:
                captions = {name: of.tolist() for name, of in first.caption.items()}
                found["/".join((part.name, *kind))] = fingerprint([first.texts, captions])
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

    With `options.on` splits are those of other data, attacked with words of their own captions; what was fitted on a
    run's training data, its vocabulary included, stays.

    folder: where the numbers are kept. Unknown-word rates are means over the vocabularies. Raises InputError, beside
    what `measure_run` raises, where the runs' splits or their adversaries are not the same.
    """
    plan = plan_measure(runs, workspace, options)
    return (kept_measures(plan, folder) or carry_out(plan, folder, workspace)).metrics


def measure_with_outcomes(
    runs: Sequence[Folder], folder: Folder, workspace: Workspace, options: MeasureOptions
) -> Measured:
    """As `measure_ensemble`, with sizes and the outcomes of every query, which are kept beside the numbers. What was
    kept without outcomes is measured again. Warns of attacks that find nothing."""
    plan = plan_measure(runs, workspace, options)
    plan.warn_of_unattacked()
    return kept_measures(plan, folder, True) or carry_out(plan, folder, workspace, True)


def plan_measure(runs: Sequence[Folder], workspace: Workspace, options: MeasureOptions) -> Plan:
    """What measuring runs will take, with earlier stages and adversaries made where they are missing.

    Raises InputError as `measure_ensemble` does.
    """
    asked = check_measure(runs, workspace, options, lambda config: pipeline.describe(config, workspace))
    for line in attacked_by(asked, options):
        log.info("%s", line)
    alpha, parsed = options.alpha, bool(options.attacks or options.contrast)
    members = Members(
        tuple(
            Member(
                run.name,
                trained,
                _material(trained.config, config, workspace, parsed, records),
                config,
                {"alpha": alpha} if alpha is not None and "alpha" in trained.family.inference_parameters else {},
                options.drop_components,
                options.drop_seed,
            )
            for run, trained, config, records in zip(runs, asked.loaded, asked.configs, asked.records, strict=True)
        )
    )
    parts = tuple(members.split(split) for split in dict.fromkeys(options.splits))  # told before any is encoded
    first = members.each[0]
    sizes = dict(size_in(first.config, first.material.records, part.name, options) for part in parts)
    attackers = {part.name: _attackers(members, workspace, part.name, options) for part in parts}
    device = device_of(options.device, "measure.device")
    return Plan(members, parts, attackers, asked.pairs, options, sizes, device)


def kept_measures(plan: Plan, folder: Folder, outcomes: bool = False) -> Measured | None:
    """What was measured before; None where that is not there, is damaged or lacks the outcomes that are asked for."""
    name, file, found = f"measures-{plan.digits}.json", "", dict[str, Outcomes]()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, InputError, KeyError, TypeError):
        content = folder.read_json(name)
        metrics = content["metrics"]
        if outcomes:
            file = plan.file
            packed = folder.read_bytes(file)
            if entry_of(packed) != content["outcomes"]:  # damaged on its disk
                return None
            found, prints = unpack(packed)
            if prints != plan.prints:
                return None
        with contextlib.suppress(OSError):
            folder.write_checked(name, {**content, "asked": time.time()})
        return Measured(metrics, plan.sizes, plan.digits, found, file)
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
            recorder, attackers = Recorder(part, protocol_of(part.name, options)), plan.attackers[part.name]
            with Progress(f"scores of {part.name}", unit="pairs") as bar:
                counted = replace(members, scored=bar.advance)
                add(metrics, measure_split(counted, part, attackers, options, recorder))
            rows += recorder.rows() if outcomes else []
        if options.pairs:
            add(metrics, measure_pairs(members, workspace, plan.pairs, options.pairs))
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
        content["outcomes"] = entry_of(packed)
    folder.write_checked(f"measures-{plan.digits}.json", {**content, "metrics": metrics})
    return Measured(metrics, plan.sizes, plan.digits, found, file)


def _material(own: RunConfig, config: RunConfig, workspace: Workspace, parsed: bool, records: Records) -> Material:
    """What earlier stages make of the run's data, or of the other data of `config` that it is measured on: `records`
    are of these."""
    if config is own:
        return pipeline.prepare(own, workspace, parsed=parsed, records=records)
    material = pipeline.prepare(own, workspace)
    return pipeline.prepare_transfer(config, workspace, material, parsed=parsed, records=records)


def _attackers(members: Members, workspace: Workspace, split: str, options: MeasureOptions) -> Attackers:
    """The adversaries of the images that the protocol takes, made where they are missing: UniVSE's, then VSE-C's."""
    images = protocol_of(split, options).num_images
    found = list[tuple[tuple[str, str], tuple[Adversaries, ...]]]()
    texts = [member.config.text for member in members.each]
    for kind, asked, make, held_out in (
        ("attack", options.attacks, attack_split, all(text.pools.held_out for text in texts)),
        ("contrast", options.contrast, contrast_split, all(text.contrast.held_out for text in texts)),
    ):
        for words in dict.fromkeys(asked):
            if words == "disjoint" and not held_out:
                continue  # training negatives had them all
            made = members.attackers(
                lambda each, make=make, words=words: make(
                    each.config, workspace, _with_words(each.material, split, options), split, words, images=images
                )
            )
            found.append(((kind, words), tuple(map(of_some, made))))
    return found


def _with_words(material: Material, split: str, options: MeasureOptions) -> Material:
    return replace(material, words_split=words_of(material.records, split, options))


def _told_attack(kind: str, attack: str) -> str:
    """An attack as the names of its numbers have it behind `attack_`."""
    return f"contrast_{attack}" if kind == "contrast" else attack
