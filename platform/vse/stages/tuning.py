"""Fine-tuning within a run: its checks of the configuration, initial weights, pixels and validation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from vse import registry
from vse.config import override
from vse.data.records import Split
from vse.errors import InputError
from vse.features.arrays import ReadyMade
from vse.features.augmentation import Augmentation
from vse.features.gradient_checkpointing import blocks_of, checkpoint_blocks
from vse.features.shards import half
from vse.features.tuned_backbone import FILE, fill, tuned
from vse.models.family import Family
from vse.presets import from_data
from vse.storage.folder import Folder
from vse.storage.parallel_reads import prefetched
from vse.storage.weights import read_weights
from vse.text.vocabulary import Vocabulary
from vse.training.adapters import add_adapters, check_adapted
from vse.training.batches import blocks
from vse.training.checkpoint import Checkpoints, load_weights, weights_of
from vse.training.collectives import add_up, together, world
from vse.training.config import RunConfig, TrainConfig, regions_from_maps, trained_by_steps
from vse.training.examples import Examples
from vse.training.inputs import Material
from vse.training.loop import PERMANENT_ERRORS
from vse.training.pixels import Pictures, PixelBatches, Squares
from vse.training.tuning import Tuner, has_batch_norm
from vse.workspace.layout import Workspace

AT_ONCE = 32  # images that pass the backbone together in validation


def check_tuning(config: RunConfig) -> None:
    """Raises InputError if the backbone of a configuration cannot be trained."""
    train, name = config.train, registry.name_of("backbone", config.features.backbone)
    if not train.finetune:
        return
    if not trained_by_steps(config):
        family = registry.name_of("family", config.model)
        raise InputError(f"train.finetune=true: family {family} is not trained by steps; choose another model")
    backbone = registry.build("backbone", config.features.backbone)
    if isinstance(backbone, ReadyMade):
        raise InputError(f"train.finetune=true: features.backbone={name} has no network; choose one that reads images")
    if getattr(config.data, "geometry", False):
        raise InputError("train.finetune=true: data.geometry=true appends numbers to features; use data.geometry=false")
    if regions_from_maps(config):
        raise InputError("train.finetune=true: trains on squares of pixels of each region; use data.regions=cropped")
    if backbone.transform.num_crops > 1:
        raise InputError(
            "train.finetune=true: trains on one square of a picture; use features.backbone.transform=crop or scale"
        )
    if config.features.precision != "float32":
        raise InputError(
            f"features.precision={config.features.precision}: weights are trained in single precision; use "
            "features.precision=float32, and train.precision for the training"
        )
    if train.window:
        raise InputError(
            f"train.window={train.window}: has no effect with train.finetune=true, which reads no features"
        )
    if not train.freeze_statistics and train.workers > 1:
        raise InputError(
            f"train.freeze_statistics=false: statistics of a whole batch need one worker; use train.workers=1, not "
            f"{train.workers}"
        )


def start_of(config: RunConfig, workspace: Workspace) -> Folder | None:
    """The checkpoint from which a fine-tuned run starts; None for one that starts from new weights.

    Raises InputError if there is no such run, it is not finished, or it was trained on other features.
    """
    name = config.train.warm_start
    if not (config.train.finetune and name):
        return None
    run = workspace.existing("runs", name, "train.warm_start")
    checkpoint = Checkpoints(run.child("checkpoints")).best()
    if checkpoint is None:
        raise InputError(f"train.warm_start={name}: has no finished checkpoint; train it to its end first")
    before = from_data(checkpoint.read_json("config.json"), f"{checkpoint}/config.json")
    if before.features != config.features:
        other = registry.name_of("backbone", before.features.backbone)
        raise InputError(
            f"train.warm_start={name}: was trained with other features (features.backbone={other}, features.scale="
            f"{before.features.scale}); use the same features keys"
        )
    return checkpoint


def start_fingerprint(config: RunConfig, workspace: Workspace) -> dict[str, str]:
    """The part of a run's identity for its warm start; empty without one."""
    checkpoint = start_of(config, workspace)
    return {} if checkpoint is None else {"warm_start": weights_of(checkpoint)[:16]}


def as_measured(config: RunConfig, checkpoint: Folder) -> RunConfig:
    """The configuration under which a checkpoint is measured and served.

    A fine-tuned run becomes a run on the features of a frozen backbone, with the weights in its checkpoint. Its
    features are extracted and stored like any others, under an identity with the hash of these weights.
    """
    if not config.train.finetune:
        return config
    backbone = tuned(config.features.backbone, checkpoint.address(FILE))
    return override(config, {"features.backbone": backbone, "train.finetune": False})


@dataclass(frozen=True, eq=False)
class Tuning:
    """A backbone in training, the pixels of training batches, and the pictures of the validation split."""

    tuner: Tuner
    pixels: PixelBatches
    val: Pictures
    threads: int
    decode: Callable[[Sequence[int]], Squares]  # plain squares of rows of `val`

    def validation(self, val: Examples) -> Examples:
        """The validation split with features of the backbone as it is now. Workers call it together."""
        name, (rank, workers) = self.tuner.output, world()
        own = np.array_split(np.arange(len(self.val.images)), workers)[rank]
        features = together(lambda: self._features(own, val.features[name].shape), *PERMANENT_ERRORS)
        if workers > 1:
            summed = torch.from_numpy(features).to(next(self.tuner.network.parameters()).device, torch.float32)
            add_up([summed])
            features = half(summed.cpu().numpy())
        return replace(val, features={**val.features, name: features})

    def _features(self, rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Features of these rows in half precision, as a store keeps them; zeros in all others."""
        features = np.zeros(shape, np.float16)
        parts = [rows[block].tolist() for block in blocks(len(rows), AT_ONCE)]
        for part, squares in zip(parts, prefetched(self.decode, parts, threads=self.threads), strict=True):
            features[part] = half(self.tuner.features(torch.from_numpy(squares)).float().cpu().numpy())
        return features


def tuning_of(
    config: RunConfig, material: Material, workspace: Workspace, family: Family, vocabulary: Vocabulary
) -> Tuning | None:
    """What a fine-tuned run trains besides its family, whose first weights are set too; None for any other run.

    Args:
        config: of the run.
        material: its data, without images that cannot be read.
        workspace: with the run of the warm start.
        family: with its initial weights, on the device of training.
        vocabulary: of the training captions.
    """
    if not config.train.finetune:
        return None
    train, output, start = config.train, family.inputs.image, start_of(config, workspace)
    backbone: Any = registry.build("backbone", config.features.backbone)
    network = backbone.load((output,))
    if start is not None:
        if Vocabulary.from_json(start.read_bytes("vocabulary.json"), f"{start}/vocabulary.json") != vocabulary:
            raise InputError(
                f"train.warm_start={train.warm_start}: its vocabulary differs; use its data and text settings"
            )
        load_weights(start, family)
        if start.exists(FILE):
            fill(network, read_weights(start.address(FILE)), start.address(FILE))
    check_network(config, network)
    if train.gradient_checkpointing:
        checkpoint_blocks(network)  # before adapters, which make modules of the linear layers in a block
    if train.lora_rank:
        add_adapters(network, train.lora_rank, train.lora_alpha, config.seed)
    network.prepare(next(family.parameters()).device, "float64" if train.precision == "float64" else "float32")
    tuner = Tuner(network, output, train.backbone_rate, train.freeze_statistics, train.chunk)
    augmentation = Augmentation(crop_area=train.crop_area, flip=train.flip)

    def pictures(split: Split) -> Pictures:
        root = registry.build("source", config.data).image_root
        return Pictures(split.images, root, backbone.transform, augmentation, config.seed)

    shown, val = pictures(material.records.split("train")), pictures(material.records.split("val"))
    if not train.decoders:
        return Tuning(tuner, PixelBatches(shown, train.threads), val, train.threads, val.plain)
    from vse.stages.decode_ray import RayDecoder  # Ray reads its settings when it is imported

    decoders = (RayDecoder(each, train.decoders) for each in (shown, val))
    return Tuning(tuner, PixelBatches(shown, decode=next(decoders)), val, 1, next(decoders))


def check_network(config: RunConfig, network: nn.Module) -> None:
    """Raises InputError if settings of fine-tuning do not go with the network of the backbone."""
    train, name = config.train, registry.name_of("backbone", config.features.backbone)
    if not train.finetune:
        return
    if not train.freeze_statistics and has_batch_norm(network):
        _check_statistics(train)
    if train.lora_rank:
        check_adapted(network, train.lora_rank)
    if train.gradient_checkpointing and not any(blocks_of(network)):
        raise InputError(
            f"train.gradient_checkpointing=true: features.backbone={name} has no blocks that could be recomputed; use "
            "train.chunk"
        )


def _check_statistics(train: TrainConfig) -> None:
    """Raises InputError if a setting does not go with statistics of each step's images."""
    reason = "; use train.freeze_statistics=true"
    if train.chunk:
        raise InputError(f"train.chunk={train.chunk}: batch statistics are those of a whole batch{reason}")
    if train.gradient_checkpointing:
        raise InputError(f"train.gradient_checkpointing=true: would count each batch's statistics twice{reason}")
    if train.lora_rank:
        raise InputError(
            f"train.lora_rank={train.lora_rank}: trains adapters only, and batch statistics would change too{reason}"
        )
