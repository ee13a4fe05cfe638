"""A trained run, opened from its checkpoint alone, and its codes of images, captions and adversaries."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from vse import registry
from vse.config import flatten, override
from vse.data.records import Split
from vse.determinism import use_reproducible_arithmetic
from vse.errors import InputError
from vse.evaluation.attacks import AttackSet, UnencodedSet
from vse.evaluation.codes import Codes, encode_captions, encode_examples
from vse.features.tuned_backbone import TunedBackbone
from vse.models.family import Context, Encoded, Family
from vse.presets import from_data
from vse.stages.attack import Adversaries
from vse.stages.tuning import as_measured
from vse.storage.damage import listed
from vse.storage.folder import Folder
from vse.text.tokens import words
from vse.text.vocabulary import Vocabulary
from vse.training.checkpoint import Checkpoints, load_weights, weights_of
from vse.training.config import RunConfig, family_inputs
from vse.training.examples import encode_texts
from vse.training.inputs import Material, initial_family, split_examples


@dataclass(frozen=True, eq=False)
class Trained:
    """A family in eval mode with the vocabulary of its training. Its codes are on its own device.

    config: of the training; if it trained the backbone too, the tuned backbone is in it as a frozen one.
    backbone_weights: which made the features of the training; empty if unknown, or if they are in the checkpoint.
    """

    config: RunConfig
    family: Family
    vocabulary: Vocabulary
    checkpoint: Folder
    backbone_weights: str = ""

    @cached_property
    def backbone(self) -> Any:
        """The backbone that made the features of the training. Raises InputError if it has other weights since."""
        return self._checked_backbone()

    def check_backbone(self) -> None:
        """Raises InputError if the backbone has other weights than in training."""
        if self.backbone_weights:
            self._checked_backbone()

    def _checked_backbone(self) -> Any:
        config = self.config.features.backbone
        backbone: Any = registry.build("backbone", config)
        if self.backbone_weights and backbone.identity()["weights"] != self.backbone_weights:
            where = getattr(config, "weights", "") or getattr(config, "arch", "")
            raise InputError(
                f"features.backbone: {where}: was replaced after {self.checkpoint} was trained; put back the file "
                f"{self.backbone_weights[:8]}, or train again"
            )
        return backbone

    @property
    def weights(self) -> str:
        """SHA-256 of the weights, which identifies stored measures: a run trained again may keep the same epoch."""
        return weights_of(self.checkpoint)

    def to(self, device: torch.device) -> "Trained":
        """Move the parameters to a device, set its arithmetic (`determinism`), and return this object."""
        use_reproducible_arithmetic(device)
        self.family.to(device)
        return self


def read_config(folder: Folder) -> RunConfig:
    """The configuration of a run or a checkpoint."""
    return from_data(folder.read_json("config.json"), f"{folder}/config.json")


def load_run(run: Folder, changes: dict[str, Any] | None = None) -> Trained:
    """The best checkpoint of a run directory. Raises InputError if there is none, naming damaged files."""
    checkpoints = Checkpoints(run.child("checkpoints"))
    best = checkpoints.best()
    if best is None:
        if damaged := checkpoints.damaged():
            again = f"python jobs/train.py --preset {run.address('config.json')} makes it again"
            raise InputError(f"{checkpoints.folder}: {listed(damaged)}; {again}")
        raise InputError(f"{run}: holds no finished checkpoint; train it with jobs/train.py")
    return load_checkpoint(best, changes)


_TRAINING_ONLY = frozenset({"data", "objective", "optim", "seed", "train"})


def load_checkpoint(checkpoint: Folder, changes: dict[str, Any] | None = None) -> Trained:
    """A checkpoint as a model; `changes` are settings that affect only inference, such as `model.components`.

    A `model.alpha` among them takes the place of a learned one.

    Raises InputError for a damaged checkpoint, for changes under which its weights do not fit, and for settings that
    only training reads.
    """
    if checkpoint.read_manifest() is None:
        raise InputError(f"{checkpoint}: not a complete checkpoint")
    config, changes = read_config(checkpoint), changes or {}
    if without := sorted(key for key in changes if key.split(".")[0] in _TRAINING_ONLY or key == "text.min_count"):
        raise InputError(f"{without[0]}: only training reads it; name keys of model, features or text")
    # users set changes by other keys, so the message names the setting that the family lacks
    if "model" not in changes and (lacking := sorted(changes.keys() - flatten(config).keys())):
        family = registry.name_of("family", config.model)
        raise InputError(f"{lacking[0].rpartition('.')[2]}: family {family} of {checkpoint} has no such setting")
    config = override(config, changes)
    if "model.alpha" in changes and getattr(config.model, "learn_alpha", False):
        config = override(config, {"model.learn_alpha": False})  # the given weight takes the place of the learned one
    vocabulary = Vocabulary.from_json(checkpoint.read_bytes("vocabulary.json"), f"{checkpoint}/vocabulary.json")
    sizes = checkpoint.read_json("context.json")
    image = family_inputs(config).image
    if image not in sizes["feature_dims"]:
        raise InputError(f"{checkpoint}: trained on {', '.join(sizes['feature_dims'])} features, model reads {image}")
    dim = sizes["word_vector_dim"]
    vectors = None if dim is None else torch.zeros(len(vocabulary), dim)
    context = Context(len(vocabulary), sizes["feature_dims"], vectors, sizes["sentence_dim"])
    family = initial_family(config, context)
    if config.train.precision == "float64":
        family = family.double()
    load_weights(checkpoint, family, optional=("alpha_logit",))
    config = as_measured(config, checkpoint)
    made_by = "" if isinstance(config.features.backbone, TunedBackbone.Config) else sizes.get("backbone_weights", "")
    return Trained(config, family.eval(), vocabulary, checkpoint, made_by)


DEVICES = ("auto", "cpu", "cuda")


def device_of(name: str, key: str = "device") -> torch.device:
    """The device `cpu`, `cuda`, or for `auto` a GPU if there is one. Raises InputError if `cuda` lacks a GPU."""
    there = torch.cuda.is_available()
    if name == "cuda" and not there:
        raise InputError(f"{key}=cuda: torch finds no GPU on {platform.node()}")
    return torch.device("cuda" if there and name != "cpu" else "cpu")


def encode_split(trained: Trained, material: Material, split: str | Split) -> Codes:
    """Codes of every image and caption of a split or of a part of it.

    Args:
        trained: the family that encodes.
        material: features, parses and sentence vectors of the split.
        split: its name, or the images and captions themselves.
    """
    part = material.records.split(split) if isinstance(split, str) else split
    return encode_examples(trained.family, split_examples(material, part, trained.family.inputs, trained.vocabulary))


def unencoded_adversaries(trained: Trained, adversaries: Adversaries, material: Material) -> dict[str, UnencodedSet]:
    """The adversaries of each attack that has any, encoded by the trained family when they are scored.

    Args:
        trained: the family that encodes them, block by block.
        adversaries: of a split, with their parses.
        material: for a family that reads sentence vectors, it makes those of the adversaries.
    """
    encode = _encoder(trained, adversaries, material)

    def of(texts: tuple[str, ...], caption: np.ndarray) -> UnencodedSet:
        lengths = np.array([max(len(words(text)), 1) for text in texts])
        return UnencodedSet(caption=caption, lengths=lengths, encode=lambda rows: encode([texts[k] for k in rows]))

    return {attack: of(texts, adversaries.caption[attack]) for attack, texts in adversaries.texts.items() if texts}


def encode_adversaries(trained: Trained, adversaries: Adversaries, material: Material) -> dict[str, AttackSet]:
    """Codes of the adversaries of each attack that has any, all at once, with the captions that they attack.

    Args:
        trained: the family that encodes them. The codes stay on its device.
        adversaries: of a split, with their parses.
        material: for a family that reads sentence vectors, it makes those of the adversaries.
    """
    encode = _encoder(trained, adversaries, material)
    return {
        attack: AttackSet(encoded=encode(texts), caption=adversaries.caption[attack])
        for attack, texts in adversaries.texts.items()
        if texts
    }


def _encoder(trained: Trained, adversaries: Adversaries, material: Material) -> Callable[[Sequence[str]], Encoded]:
    """Codes of some adversaries' texts."""
    inputs = trained.family.inputs
    parses = adversaries.parses if inputs.components else None
    sentences = material.sentences if inputs.sentence else None
    return lambda texts: encode_captions(trained.family, encode_texts(texts, trained.vocabulary, parses, sentences))
