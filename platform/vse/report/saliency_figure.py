"""jobs/show_saliency.py: saliency and relevance maps of one picture, by several runs next to each other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL.Image

from vse import registry
from vse.cli.command import Request
from vse.config import fingerprint, knob
from vse.errors import InputError
from vse.evaluation.relevance_pictures import DrawnMap, draw_maps
from vse.evaluation.tasks.attacks import UNIVSE
from vse.evaluation.tasks.contrast import VSEC
from vse.evaluation.tasks.saliency import note_of
from vse.inference.embedder import Embedder
from vse.inference.image_search import place_of, query_image
from vse.inference.picture_maps import PictureSaliency, draw_pictures, picture_of
from vse.report.build import command_of
from vse.report.page_row import record_page
from vse.stages.measuring.options import MeasureOptions
from vse.stages.measuring.plan import plan_measure
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

TASKS = ("attacks", "contrast")  # whose adversaries are shown
SALIENCY, MAPS, NUMBERS = "saliency.png", "maps.png", "saliency.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class SaliencyFigureOptions:
    """Keys of this job."""

    runs: tuple[str, ...] = knob((), "names of folders below runs/, or paths that jobs printed, next to each other")
    image: str = knob("", "picture file, or id of an image of the first run's data set")
    caption: tuple[str, ...] = knob(
        (),
        "sentence to explain; further ones are compared with the first. Default for an image of the data set: its "
        "first caption with an adversary of each attack",
        repeated=True,
    )
    phrase: tuple[str, ...] = knob(
        (),
        "word, pair, triple or other text to draw relevance maps of, for runs with vectors of regions",
        repeated=True,
    )
    temperature: float = knob(0.1, "temperature of the softmax of relevance maps (UniVSE, Fig. 6)", above=0)


@dataclass(frozen=True, eq=False)
class _Subject:
    """The runs with their models, the picture, and id and split of its image if it is one of the data set."""

    models: dict[str, Embedder]
    picture: PIL.Image.Image
    image: str
    split: str


def build_saliency(request: Request) -> str:
    """Write the figures to `galleries/DIGITS`; returns the path of `summary.json`.

    Raises InputError for runs that are missing or cannot read pictures, for a picture that cannot be read, and if there
    is neither a caption nor a phrase.
    """
    options: SaliencyFigureOptions = request.options
    workspace = Workspace.open(request.workspace)
    subject = _subject(workspace, options)
    workspace.check_writable()
    captions = _captions(workspace, subject, options)
    weights = [model.trained.weights for model in subject.models.values()]
    folder = workspace.gallery(fingerprint([command_of(request), weights, captions]))
    outputs, headline = dict[str, str](), dict[str, Any]()
    maps = _maps(subject, options) if options.phrase else b""  # before anything is written: a phrase may be refused
    if captions:
        _write_saliency(folder, subject, captions)
        outputs |= {"page": folder.address(SALIENCY), "numbers": folder.address(NUMBERS)}
        headline["captions"] = len(captions)
    if options.phrase:
        folder.write_bytes(MAPS, maps)
        outputs["maps" if captions else "page"] = folder.address(MAPS)
        headline["phrases"] = len(options.phrase)
    files = [*((SALIENCY, NUMBERS) if captions else ()), *((MAPS,) if options.phrase else ())]
    shown = subject.models
    record_page(workspace, folder, "saliency", folder.name, command_of(request), files, page=files[0], runs=shown)
    return request.write_summary(folder, headline=headline, outputs=outputs)


def foresee_saliency(request: Request) -> Iterator[str]:
    """The body of a dry run; nothing is written. Raises InputError as `build_saliency` does."""
    workspace, options = Workspace.open(request.workspace), request.options
    subject = _subject(workspace, options)
    width, height = subject.picture.size
    what = f"image {subject.image} of the data set" if subject.image else options.image
    yield f"picture: {what}, {width} x {height} pixels"
    yield f"captions: {'; '.join(options.caption) or 'the first of the image, and an adversary of each attack'}"
    if options.phrase:
        yield f"phrases: {'; '.join(options.phrase)}"
    yield f"runs: {', '.join(subject.models)}"


def _subject(workspace: Workspace, options: SaliencyFigureOptions) -> _Subject:
    if not options.runs or not options.image:
        raise InputError("runs, image: name at least one run and a picture file, or an image of its data set")
    models = {workspace.existing("runs", name, "runs").name: Embedder.of_run(workspace, name) for name in options.runs}
    for model in models.values():
        model.check_pictures()
    config = next(iter(models.values())).trained.config
    source = registry.build("source", config.data)
    image = query_image(source.describe(), source.image_root, options.image)
    if image is None and not options.caption and not options.phrase:
        raise InputError(
            f"image={options.image}: is not an image of the data set of {options.runs[0]}; "
            'give caption="..." or phrase="..."'
        )
    picture = picture_of(options.image if image is None else place_of(image.uri, source.image_root))
    return _Subject(models, picture, *("", "") if image is None else (image.id, image.split))


def _captions(workspace: Workspace, subject: _Subject, options: SaliencyFigureOptions) -> dict[str, str]:
    """Sentences by what they are."""
    if options.caption:
        named = [f"caption {number}" for number in range(1, len(options.caption) + 1)]
        return dict(zip(named, options.caption, strict=True))
    return {} if options.phrase else _attacked(workspace, options.runs[0], subject)


def _attacked(workspace: Workspace, run: str, subject: _Subject) -> dict[str, str]:
    """The first caption of an image, and the first adversary of each attack on it, as in the tasks of `run`."""
    plan = plan_measure(
        [workspace.existing("runs", run, "runs")], workspace, TASKS, MeasureOptions(splits=(subject.split,))
    )
    captions = plan.parts[0].captions
    first = next((row for row, caption in enumerate(captions) if caption.image == subject.image), None)
    if first is None:
        raise InputError(f'image={subject.image}: has no caption; give caption="..."')
    labels = {captions[first].text: ["caption"]}
    for kind, title in ((VSEC, "VSE-C "), (UNIVSE, "")):
        for adversaries in plan.adversaries[subject.split].get((kind, "shared"), ())[:1]:
            for name, rows in adversaries.caption.items():
                for place in np.flatnonzero(rows == first)[:1].tolist():
                    labels.setdefault(adversaries.texts[name][place], []).append(f"{title}{name} attack")
    return {", ".join(names): text for text, names in labels.items()}


def _write_saliency(folder: Folder, subject: _Subject, captions: Mapping[str, str]) -> None:
    of_runs = [
        (name, model.saliency(subject.picture, list(captions.values()))) for name, model in subject.models.items()
    ]
    title = f"image {subject.image}" if subject.image else ""
    folder.write_bytes(SALIENCY, draw_pictures(of_runs, list(captions), note_of("pixels"), title))
    folder.write_json(NUMBERS, {name: _numbers(each, list(captions)) for name, each in of_runs})


def _numbers(saliency: PictureSaliency, labels: Sequence[str]) -> list[dict[str, Any]]:
    words = saliency.words or [None] * len(labels)
    return [
        {"label": label, "caption": caption, "score": score, "words": shares}
        for label, caption, score, shares in zip(
            labels, saliency.captions, saliency.scores.tolist(), words, strict=True
        )
    ]


def _maps(subject: _Subject, options: SaliencyFigureOptions) -> bytes:
    """Maps of all phrases, a line for each run."""
    drawn = []
    for name, model in subject.models.items():
        for phrase in options.phrase:
            each = model.relevance_map(subject.picture, phrase, options.temperature)
            title = phrase if len(subject.models) == 1 else f"{phrase}\n{name}"
            drawn.append(DrawnMap(each.picture, each.values, each.grid, title))
    note = f"softmax over the cells of a map, temperature {options.temperature:g}; x: maximum, orange: half of it"
    return draw_maps(drawn, note, columns=len(options.phrase) if len(subject.models) > 1 else 4)
