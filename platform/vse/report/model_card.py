"""The model card of a run, in the format of the Hugging Face hub: data, encoders, measured numbers, limits."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from vse import registry
from vse.config import flatten, knob
from vse.display.markdown import escaped, table
from vse.errors import InputError, StorageError, first_line
from vse.evaluation.item_vectors import alpha_of
from vse.evaluation.metrics import WAYS
from vse.inference.served_model import CARD
from vse.report.measured import RunNumbers, grouped
from vse.report.terminal import size_text
from vse.stages.trained import load_run, read_config
from vse.storage.folder import Folder
from vse.storage.hub import push_folder
from vse.training.checkpoint import Checkpoints
from vse.training.config import RunConfig, family_inputs

NOT_STATED = "not stated; read the terms of the data set before you pass the model on"


@dataclass(frozen=True, kw_only=True, slots=True)
class CardOptions:
    """Content of the model card, and the repository to upload to."""

    license: str = knob("", "licence under which you pass the model on, as the hub abbreviates it: cc-by-4.0")
    data_license: str = knob("", "licence of the data set, in words")
    push_to_hub: str = knob("", "repository of the Hugging Face hub, OWNER/NAME, that the files are uploaded to")

    def check(self) -> None:
        """Raises InputError for a repository that is not OWNER/NAME."""
        owner, slash, name = self.push_to_hub.partition("/")
        if self.push_to_hub and not (owner and slash and name and "/" not in name):
            raise InputError(f"card.push_to_hub={self.push_to_hub}: expected OWNER/NAME")


def model_card(run: Folder, options: CardOptions, alpha: float | None = None) -> str:
    """The text of README.md for a trained run. It depends on the run, its measurements and the arguments alone.

    Args:
        run: folder of the run.
        options: content of the card.
        alpha: the model's weight of u_sent, if it is not as configured or learned.

    Raises:
        InputError: the family has no such weight.
    """
    config = read_config(run)
    family, own = registry.name_of("family", config.model), None
    if hasattr(config.model, "alpha"):
        own = alpha_of(load_run(run).family)
    elif alpha is not None:
        raise InputError(f"alpha: family {family} of {run} has no such setting")
    alpha = own if alpha is None else alpha
    front: dict[str, Any] = {"library_name": "vse-platform", "pipeline_tag": "feature-extraction"}
    front["tags"] = ["visual-semantic-embedding", "image-text-retrieval", family]
    if options.license:
        front["license"] = options.license
    parts = [
        f"---\n{yaml.safe_dump(front, sort_keys=False)}---",
        f"# {run.name}",
        f"A model of the family `{family}` that embeds images and captions in one space, trained with seed "
        f"{config.seed}.",
        "## Data and encoders",
        table(["", ""], [[name, value] for name, value in _facts(run, config, options, alpha)]),
        "## Numbers",
        *_numbers(run, alpha, own),
        "## Limits",
        "\n".join(f"- {line}" for line in _limits(run, config)),
    ]
    return "\n\n".join(parts) + "\n"


def write_card(folder: Folder, run: Folder, options: CardOptions, alpha: float | None = None) -> None:
    """Write the card of a run next to exported files, and upload the folder to the hub if a repository is named.

    Args:
        folder: folder of the exported files.
        run: folder of the run.
        options: content of the card, and the repository.
        alpha: as for `model_card`.

    Raises:
        InputError: the folder is not on a disk, the family has no alpha, or the hub refuses the repository.
        StorageError: the hub cannot be reached.
    """
    folder.write_text(CARD, model_card(run, options, alpha))
    publish(folder, options)


def publish(folder: Folder, options: CardOptions) -> None:
    """Upload a folder with its card if `card.push_to_hub` is set. Raises as `write_card`."""
    if not options.push_to_hub:
        return
    if not folder.is_local:
        raise InputError(f"card.push_to_hub: needs a workspace on a local disk; copy {folder} to one first")
    try:
        push_folder(folder.local(), options.push_to_hub, "card.push_to_hub")
    except OSError as error:
        raise StorageError(f"card.push_to_hub={options.push_to_hub}: not uploaded ({first_line(error)})") from None


def _facts(run: Folder, config: RunConfig, options: CardOptions, alpha: float | None) -> Iterator[tuple[str, str]]:
    """Names and values of the data and parts that the model was made from."""
    settings = flatten(config)
    data = settings.get("data.hub") or _name_alone(settings.get("data.file") or settings.get("data.root"))
    yield "data set", ", ".join(filter(None, (registry.name_of("source", config.data), data)))
    yield "licence of the data", options.data_license or NOT_STATED
    backbone = registry.name_of("backbone", config.features.backbone)
    arch, weights = (settings.get(f"features.backbone.{key}") for key in ("arch", "weights"))
    yield "image features", ", ".join(str(each) for each in (backbone, arch, _name_alone(weights)) if each)
    yield "precision of the backbone", config.features.precision
    encoder = (settings.get(f"text.encoder{key}") for key in ("", ".model", ".arch", ".weights"))
    parts = {
        "text encoder": ", ".join(_name_alone(each) for each in encoder if each),
        "word vectors": _name_alone(settings.get("text.word_vectors")),
        "sentence vectors": _name_alone(settings.get("text.sentence")),
    }
    yield from ((name, part) for name, part in parts.items() if part not in ("", "none"))
    if alpha is not None:
        yield "α, the weight of the sentence embedding", f"{alpha:g}"
    best = Checkpoints(run.child("checkpoints")).best()
    if best is not None:
        yield "checkpoint", best.name


def _name_alone(value: Any) -> str:
    """A name, or the last part of a path: local folders are not published."""
    return str(value or "").rstrip("/").rpartition("/")[2]


def _numbers(run: Folder, alpha: float | None, own: float | None) -> Iterator[str]:
    """A table for each task and split that was measured, with intervals and the number of candidates.

    Of a model with another α than its `own`: what was measured at this α, or else what was measured at its own.
    """
    numbers = RunNumbers(run, None if alpha == own else alpha)
    if alpha not in (own, None) and not numbers.metrics:
        yield f"Measured at α = {own:g}; this model uses α = {alpha:g}."
        numbers = RunNumbers(run)
    values, intervals, sizes = numbers.metrics, numbers.intervals, numbers.sizes
    if not values:
        yield "None were measured."
        return
    ways = {sign: way for way, sign in WAYS.items()}
    for title, keys in grouped(values).items():
        label = keys[0].label
        size = f" ({size_text(sizes[label])})" if label in sizes else " (at the kept epoch)"
        rows = []
        for key in keys:
            between = (
                "" if key not in intervals else "{:.{d}f} to {:.{d}f}".format(*intervals[key], d=key.metric.decimals)
            )
            name = f"{ways.get(key.metric.group, key.metric.group)} {key.metric.heading}".strip()
            rows.append([name, f"{values[key]:.{key.metric.decimals}f}", between])
        yield f"### {escaped(title)}{size}"
        yield table(["metric", "value", "95 % interval"], rows)
    if intervals:
        bootstraps = "Intervals are bootstraps over the images of the split."
        yield f"{bootstraps} Another training would differ by more than they say."


def _limits(run: Folder, config: RunConfig) -> Iterator[str]:
    yield "The numbers are of one training and of images like those it was trained on."
    yield "Ranks depend on the number of candidates. They cannot be compared with those among more or fewer images."
    best = Checkpoints(run.child("checkpoints")).best()
    if best is not None and not family_inputs(config).sentence:  # which reads no ids of words
        number = len(best.read_json("vocabulary.json")["words"])
        yield f"Its vocabulary has {number:,} words of the training captions; it reads other words as unknown."
    yield "Captions describe what their writers chose to mention. The model repeats their habits and omissions."
    yield "How it does on photographs of different groups of people was not measured."
