"""The configuration of one run: everything that determines its numbers, and the requirements between its parts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

import vse.features.backbones  # noqa: F401  (registers what `features.backbone` can be)
from vse import registry
from vse.adversaries.attacks import contrast_classes
from vse.adversaries.pools import PoolConfig
from vse.adversaries.vsec.candidates import NAMED, Rules
from vse.config import group, knob, override, part
from vse.errors import InputError
from vse.features.backbone import PRECISIONS
from vse.models.family import Family, Inputs
from vse.objectives.objective import ContrastDraws, Objective
from vse.registry import ComponentConfig
from vse.text.encoder import NoEncoder
from vse.text.sentence.kinds import NoSentence

HALF = ("bfloat16", "float16")  # precisions of autocast
SCHEDULES = ("constant", "step", "milestones", "halving", "cosine")


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureConfig:
    """The image backbone and the scaling of its features."""

    backbone: ComponentConfig = part("backbone", doc="frozen network, or ready-made arrays")
    precision: str = knob(
        "float32",
        "number type of the backbone's weights and activations; features are stored in half precision",
        choices=PRECISIONS,
        only="features.backbone!=arrays",
    )
    scale: str = knob(
        "standardize",
        "standardize: per channel with training statistics; l2: unit norm (VSE++ papers); root: signed root; none",
        choices=("standardize", "l2", "root", "none"),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class TextConfig:
    """Text processing: parser, vocabulary, word vectors."""

    parser: ComponentConfig = part("parser", doc="dependency parser")
    min_count: float = knob(1, "words seen less often are <unk>; below 1: a share of the captions", above=0)
    word_vectors: str = knob(
        "",
        "file of word vectors, a path or s3:// address; captions: made from the training captions alone; empty: "
        "learned from scratch",
    )
    encoder: ComponentConfig = part("encoder", default=NoEncoder.Config(), doc="pretrained text encoder, frozen")
    sentence: ComponentConfig = part(
        "sentence", default=NoSentence.Config(), doc="vectors of whole captions, for families that read them"
    )
    pools: PoolConfig = field(default_factory=PoolConfig)
    contrast: Rules = group(Rules(), NAMED, "how adversaries of VSE-C's kinds are made")
    drop_components: float = knob(
        0.0,
        "share of parsed attributes and relations dropped in training (A.2, Table 1, Train Drop)",
        low=0,
        high=1,
        only="model=univse",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimConfig:
    """Adam and its schedule; `step` multiplies lr by `factor` after every `every` epochs, `halving` is UniVSE's A.3.

    `milestones`: from the k-th of them on the rate is lr times the k-th of `factors`; the last serves any more.
    """

    lr: float = knob(2e-4, "learning rate of Adam", above=0)
    schedule: str = knob("step", "how the rate falls", choices=SCHEDULES)
    every: int = knob(
        15, "step: epochs between drops; halving: epochs before the first", low=1, only="schedule=step|halving"
    )
    factor: float = knob(0.1, "step: factor at each drop", above=0, high=1, only="schedule=step")
    milestones: tuple[int, ...] = knob(
        (), "milestones: epochs done before each change of the rate", low=1, only="schedule=milestones"
    )
    factors: tuple[float, ...] = knob(
        (0.1,), "milestones: share of lr from each of them on", above=0, only="schedule=milestones milestones!="
    )
    floor: float = knob(1e-5, "halving: smallest rate", low=0, only="schedule=halving")
    warmup: float = knob(0.0, "epochs of linear warm-up", low=0)
    weight_decay: float = knob(0.0, "decoupled weight decay (AdamW) on matrices", low=0)
    clip: float = knob(2.0, "global gradient norm; 0 switches clipping off", low=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """Training length, batch size, hardware and model selection."""

    epochs: int = knob(30, "passes over the training captions", low=1)
    batch_size: int = knob(128, "captions per step over all workers", low=2)
    workers: int = knob(1, "data-parallel workers", low=1)
    gpus_per_worker: float = knob(0.0, "GPUs per worker: 1, a part of one, or 0 for CPUs", low=0)
    threads: int = knob(1, "CPU threads per worker", low=1)
    precision: str = knob(
        "float32", "bfloat16, float16: autocast, on GPUs only", choices=("float32", "bfloat16", "float16", "float64")
    )
    select: str = knob("rsum", "kept epoch: best validation rsum, or the last", choices=("rsum", "last"))
    pairs: float = knob(1.0, "share of the training images whose captions are known to be theirs", above=0, high=1)
    unpaired: bool = knob(False, "also train on the remaining images and captions, unpaired", only="pairs<1")
    window: int = knob(
        0, "shuffle within windows of this many images, for features that exceed memory; 0: over all", low=0
    )
    patience: int = knob(0, "stop after this many epochs without improvement; 0: never", low=0, only="select=rsum")
    evaluate_every: int = knob(1, "epochs between validations", low=1)
    checkpoint_seconds: float = knob(300.0, "seconds between checkpoints within an epoch", above=0)
    finetune: bool = knob(False, "train the backbone too, on pixels; it starts from features.backbone")
    warm_start: str = knob(
        "",
        "run of this workspace, with the same model and text, whose weights initialise the model",
        only="finetune=true",
    )
    backbone_rate: float = knob(
        0.1, "learning rate of the backbone as a share of optim.lr", above=0, only="finetune=true"
    )
    freeze_statistics: bool = knob(
        True, "keep the backbone in evaluation mode: fixed batch statistics, no dropout", only="finetune=true"
    )
    crop_area: float = knob(
        0.08,
        "smallest share of a picture in a random crop; 1: the whole picture, as features.backbone shows it",
        above=0,
        high=1,
        only="finetune=true",
    )
    flip: bool = knob(
        True, "mirror half of the pictures; not for captions that tell left from right", only="finetune=true"
    )
    chunk: int = knob(
        0,
        "images that pass the backbone at a time, computed twice to save memory; 0: all of a step",
        low=0,
        only="finetune=true",
    )
    gradient_checkpointing: bool = knob(
        False,
        "recompute activations of the backbone's blocks in the backward pass, to save memory",
        only="finetune=true",
    )
    lora_rank: int = knob(
        0,
        "rank of low-rank adapters (LoRA) that are trained in place of the backbone's weights; 0: trains these",
        low=0,
        only="finetune=true",
    )
    lora_alpha: float = knob(
        16.0, "adapters are scaled by lora_alpha / lora_rank", above=0, only="finetune=true lora_rank>0"
    )
    decoders: int = knob(
        0, "Ray tasks per worker that decode images; 0: the worker's own threads", low=0, only="finetune=true"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig:
    """One complete run. `data` is a registered source, `model` a family, `objective` a loss."""

    data: ComponentConfig = part("source", doc="images and captions")
    features: FeatureConfig
    text: TextConfig
    model: ComponentConfig = part("family", doc="model family")
    objective: ComponentConfig = part("objective", doc="training loss")
    optim: OptimConfig = field(default_factory=OptimConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    seed: int = knob(0, "initial weights, order of the captions, sampled negatives", low=0, high=2**63 - 1)


def check_gpus(workers: int, gpus_per_worker: float, under: str = "train.") -> None:
    """Raises InputError for a share of GPUs that no worker can have.

    A worker computes on one GPU or a part of it, and NCCL takes no two ranks of one group on the same GPU.

    Args:
        workers: of one training.
        gpus_per_worker: 0: it trains on CPUs; a fraction: a part of a GPU, for a single worker.
        under: prefix of both keys, for the error.
    """
    setting = f"{under}gpus_per_worker={gpus_per_worker:g}"
    if gpus_per_worker > 1:
        instead = f"{under}workers={math.ceil(workers * gpus_per_worker)} {under}gpus_per_worker=1"
        raise InputError(f"{setting}: a worker computes on one GPU; use {instead}")
    if workers > 1 and 0 < gpus_per_worker < 1:
        several = f"{under}workers={workers}"
        raise InputError(f"{setting}: workers of one training cannot share a GPU; with {several} give each a whole one")


def identity(config: RunConfig) -> RunConfig:
    """What a run, or a sweep of such runs, is known by: settings that change no number are as in all others.

    How many workers share a step, how much of a GPU each has, how often it is saved, where images are decoded and which
    activations are computed twice do not enter; whether it computes on GPUs does, and so do threads, which change the
    order of sums.
    """
    usual = TrainConfig()
    same = {"train.workers": 1, "train.gpus_per_worker": 1.0 if config.train.gpus_per_worker else 0.0}
    same["train.checkpoint_seconds"] = usual.checkpoint_seconds
    if config.train.finetune:
        same |= {"train.gradient_checkpointing": usual.gradient_checkpointing, "train.decoders": usual.decoders}
    return override(config, same)


def family_inputs(config: RunConfig) -> Inputs:
    """What the configured family reads."""
    return registry.component("family", registry.name_of("family", config.model)).requires(config.model)


def trained_by_steps(config: RunConfig) -> bool:
    """Whether the configured family is trained by steps."""
    return registry.component("family", registry.name_of("family", config.model)).by_steps


def epochs_of(config: RunConfig) -> int:
    """Epochs of a run; one, which validates and saves, if its family is not trained by steps."""
    return config.train.epochs if trained_by_steps(config) else 1


def check_objective(config: RunConfig) -> None:
    """Raises InputError if the configured family and objective do not train together.

    Such a pair fails at its first step, or leaves parameters of the family without a gradient. Nor does a run without a
    GPU train in half precision, or one whose workers cannot have the GPUs they ask for, and one that keeps its last
    epoch has no patience to lose.
    """
    family_inputs(config)  # raises for settings of the family that exclude each other
    check_gpus(config.train.workers, config.train.gpus_per_worker)
    if config.train.precision in HALF and not config.train.gpus_per_worker:
        raise InputError(
            f"train.precision={config.train.precision}: on GPUs only; set train.gpus_per_worker, or use float32 or "
            "float64"
        )
    if config.train.patience and config.train.select == "last":
        raise InputError(
            f"train.patience={config.train.patience}: train.select=last keeps the last epoch, better or not; use "
            "train.select=rsum"
        )
    family, name = registry.name_of("family", config.model), registry.name_of("objective", config.objective)
    for other in registry.names("objective"):
        settings: Mapping[str, object] | None = registry.component("objective", other).sole.get(family)
        if other == name or settings is None:
            continue
        if all(getattr(config.model, key) == value for key, value in settings.items()):
            where = "".join(f" with model.{key}={value}" for key, value in settings.items())
            own = {f.name: f for f in fields(registry.component("objective", other).Config)}
            so = "match" in own and name in own["match"].metadata["choices"]
            instead = f"; add objective.match={name} to match that way" if so else ""
            raise InputError(f"objective={name}: family {family}{where} trains with objective={other} only{instead}")
    objective: Objective = registry.build("objective", config.objective)
    if objective.families is not None and family not in objective.families:
        families = " or ".join(sorted(objective.families))
        raise InputError(f"objective={name}: trains family {families}, not {family}; use objective=ranking")
    objective.check(config.model)
    if registry.component("family", family).pairwise and "scores" not in objective.gathers:
        raise InputError(f"objective={name}: compares codes, but family {family} scores pairs; use objective=ranking")
    if config.train.unpaired and not objective.semi_supervised:
        raise InputError(f"train.unpaired: objective={name} needs the image of every caption; use train.unpaired=false")
    if config.train.unpaired and config.train.window:
        raise InputError(
            f"train.window={config.train.window}: train.unpaired=true reads images from the whole split in every "
            "step; use train.window=0"
        )
    _check_own_negatives(config, name, objective)
    adversaries_wanted(config)


def regions_from_maps(config: RunConfig) -> bool:
    """Whether the features of regions are means of maps of whole photographs (`data.regions=pooled`)."""
    return getattr(config.data, "regions", "cropped") == "pooled"


def own_negatives(config: RunConfig) -> int:
    """Negatives that a batch holds of each caption; 0 for data without `data.own_negatives`."""
    return getattr(config.data, "own_negatives", 0)


def _check_own_negatives(config: RunConfig, name: str, objective: Objective) -> None:
    number = own_negatives(config)
    if number and not objective.own_negatives:
        able = ", ".join(n for n in registry.names("objective") if registry.component("objective", n).own_negatives)
        raise InputError(
            f"data.own_negatives={number}: objective={name} takes no negatives of each caption ({able} do); use "
            "data.own_negatives=0"
        )
    family = registry.component("family", registry.name_of("family", config.model))
    if number and family.pairwise and family.listed_scores is Family.listed_scores:
        raise InputError(f"data.own_negatives={number}: this family does not score lists; use data.own_negatives=0")
    if number and config.train.finetune:
        raise InputError(f"data.own_negatives={number}: goes with frozen features; use train.finetune=false")


def adversaries_wanted(config: RunConfig) -> ContrastDraws | None:
    """The adversaries that the configured objective trains against.

    Raises InputError if the family encodes none, or if `text.contrast` makes none of these kinds.
    """
    wanted = registry.build("objective", config.objective).adversaries
    if wanted is None:
        return None
    if not family_inputs(config).contrast:
        raise InputError("objective: compares adversaries of captions, but this family encodes none")
    paradigms = [paradigm for kind in wanted.kinds for paradigm in contrast_classes()[kind]]
    if not set(paradigms) & set(config.text.contrast.paradigms):
        raise InputError(
            f"text.contrast.paradigms={','.join(config.text.contrast.paradigms)}: makes no adversaries of "
            f"objective.kinds={','.join(wanted.kinds)}; add {' or '.join(paradigms)}"
        )
    return wanted
