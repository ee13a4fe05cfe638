"""A trained run, opened from its checkpoint alone, and the codes it gives to what is measured."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from vse.models.family import Context, Encoded, Family
from vse.presets import from_data
from vse.stages.attack import Adversaries
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
    """A family in eval mode with the configuration and the vocabulary it was trained with. What it encodes is where its
    parameters are: on the CPU until `to`."""

    config: RunConfig
    family: Family
    vocabulary: Vocabulary
    checkpoint: Folder

    @property
    def weights(self) -> str:
        """SHA-256 of the weights: what is kept of a run belongs to them, since a run trained again may keep the same
        epoch."""
        return weights_of(self.checkpoint)

    def to(self, device: torch.device) -> "Trained":
        """Its parameters moved, as torch moves modules, and arithmetic settled for there; itself."""
        use_reproducible_arithmetic(device)
        self.family.to(device)
        return self


def read_config(folder: Folder) -> RunConfig:
    """The configuration that a run or a checkpoint keeps; any preset serves as the frame, the file names everything."""
    return from_data(folder.read_json("config.json"), f"{folder}/config.json")


def load_run(run: Folder, changes: dict[str, Any] | None = None) -> Trained:
    """The best checkpoint of a run directory. Raises InputError if there is none, naming the files that are damaged
    if that is why."""
    checkpoints = Checkpoints(run.child("checkpoints"))
    best = checkpoints.best()
    if best is None:
        if damaged := checkpoints.damaged():
            again = f"python jobs/train.py --preset {run.address('config.json')} makes it again"
            raise InputError(f"{checkpoints.folder}: {listed(damaged)}; {again}")
        raise InputError(f"{run}: holds no finished checkpoint; train it with jobs/train.py")
    return load_checkpoint(best, changes)


def load_checkpoint(checkpoint: Folder, changes: dict[str, Any] | None = None) -> Trained:
    """A checkpoint as a model; `changes` are settings that touch inference only, such as `model.components`.

    Raises InputError for a damaged checkpoint, or for changes under which its weights do not fit.
    """
    if checkpoint.read_manifest() is None:
        raise InputError(f"{checkpoint}: not a complete checkpoint")
    config, changes = read_config(checkpoint), changes or {}
    # changes have other names where a user sets them: what the run's family lacks is told, not the key here
    if "model" not in changes and (lacking := sorted(changes.keys() - flatten(config).keys())):
        family = registry.name_of("family", config.model)
        raise InputError(f"{lacking[0].rpartition('.')[2]}: family {family} of {checkpoint} has none to set")
    config = override(config, changes)
    vocabulary = Vocabulary.from_json(checkpoint.read_bytes("vocabulary.json"), f"{checkpoint}/vocabulary.json")
    sizes = checkpoint.read_json("context.json")
    image = family_inputs(config).image
    if image not in sizes["feature_dims"]:
        raise InputError(f"{checkpoint}: trained on {', '.join(sizes['feature_dims'])} features, asked to read {image}")
    dim = sizes["word_vector_dim"]
    vectors = None if dim is None else torch.zeros(len(vocabulary), dim)
    context = Context(len(vocabulary), sizes["feature_dims"], vectors, sizes["sentence_dim"])
    family = initial_family(config, context)
    if config.train.precision == "float64":
        family = family.double()
    load_weights(checkpoint, family)
    return Trained(config, family.eval(), vocabulary, checkpoint)


DEVICES = ("auto", "cpu", "cuda")


def device_of(asked: str, key: str = "device") -> torch.device:
    """Where to compute: `cpu`, `cuda`, or for `auto` a GPU if torch finds one here. Raises InputError, naming the key,
    where a GPU is asked for and there is none."""
    there = torch.cuda.is_available()
    if asked == "cuda" and not there:
        raise InputError(f"{key}=cuda: torch finds no GPU on {platform.node()}")
    return torch.device("cuda" if there and asked != "cpu" else "cpu")


def encode_split(trained: Trained, material: Material, split: str | Split) -> Codes:
    """Codes of every image and caption of a split or of a part of it."""
    part = material.records.split(split) if isinstance(split, str) else split
    return encode_examples(trained.family, split_examples(material, part, trained.family.inputs, trained.vocabulary))


def unencoded_adversaries(trained: Trained, adversaries: Adversaries, material: Material) -> dict[str, UnencodedSet]:
    """The adversaries of each attack that has any, encoded by the trained family when they are met."""
    encode = _encoder(trained, adversaries, material)

    def of(texts: tuple[str, ...], caption: np.ndarray) -> UnencodedSet:
        lengths = np.array([max(len(words(text)), 1) for text in texts])
        return UnencodedSet(caption=caption, lengths=lengths, encode=lambda rows: encode([texts[k] for k in rows]))

    return {attack: of(texts, adversaries.caption[attack]) for attack, texts in adversaries.texts.items() if texts}


def encode_adversaries(trained: Trained, adversaries: Adversaries, material: Material) -> dict[str, AttackSet]:
    """Codes of the adversaries of each attack, beside the captions they attack: of all of them at once."""
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
