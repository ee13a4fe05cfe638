"""jobs/show_gallery.py: queries of runs with their best candidates, failures first, as one self-contained page."""

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from vse.cli.command import Request
from vse.config import fingerprint, flatten, knob
from vse.data.keyed import permutation
from vse.data.records import Split
from vse.errors import InputError
from vse.evaluation.attacks import AnySet
from vse.evaluation.galleries import (
    KINDS,
    best_candidates,
    caption_blocks,
    image_blocks,
    unmatched,
    worst_queries,
)
from vse.evaluation.metrics import Ranks
from vse.evaluation.retrieval import Blocks, Encoded, num_items, slice_items, spans
from vse.evaluation.task import Context
from vse.evaluation.tasks.attacks import in_words
from vse.evaluation.tasks.contrast import VSEC
from vse.report.build import command_of
from vse.report.page import provenance, render
from vse.report.page_row import record_page
from vse.stages.measuring.checks import foresee_measure
from vse.stages.measuring.context import context_of
from vse.stages.measuring.members import Members
from vse.stages.measuring.options import MeasureOptions, protocol_of
from vse.stages.measuring.plan import MeasurePlan, plan_measure
from vse.text.components import Components
from vse.workspace.layout import Workspace

PAGE = "gallery.html"
TASKS = ("attacks", "contrast")  # whose adversaries are shown
TO_IMAGE, TO_CAPTION = "sentence to images", "image to sentences"


@dataclass(frozen=True, kw_only=True, slots=True)
class GalleryOptions:
    """Keys of this job."""

    runs: tuple[str, ...] = knob((), "names of folders below runs/, or paths that jobs printed, next to each other")
    query: tuple[str, ...] = knob((), "ids of images or captions to show")
    draw: int = knob(4, "queries drawn at random in each direction", low=0)
    draw_seed: int = knob(0, "seed of the random queries", low=0)
    failures: int = knob(10, "queries with the worst ranks, of each kind of candidates", low=0)
    top: int = knob(5, "candidates shown for each query; the papers show 5 or 20", low=1)
    tasks: tuple[str, ...] = knob(
        TASKS, "tasks whose adversaries are candidates: attacks (UniVSE's), contrast (VSE-C's)", choices=TASKS
    )
    measure: MeasureOptions = field(default_factory=partial(MeasureOptions, device="auto"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A candidate: its place, score and mark (`true`, `adversary`, empty), and what differs from what is right."""

    place: int
    score: float
    mark: str
    name: str
    says: str
    image: int = -1
    text: str = ""
    differs: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """What one run answers: the rank of the best right answer, and the best candidates."""

    rank: str
    answers: tuple[Answer, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Shown:
    """A query: its candidates, the image and, if a caption is the query, its text; one column for each run."""

    pool: str
    image: int
    caption: str
    own: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of words in which wrong answers that beat the right one differ, in any run."""
        kinds = set[str]()
        for column in self.columns:
            for answer in column.answers:
                if answer.mark == "true":
                    break
                kinds |= answer.differs.keys()
        return tuple(kind for kind in KINDS if kind in kinds)


class RunAnswers:
    """One run's ranks and best candidates among images, captions, and captions with adversaries.

    Args:
        context: Of the split, in one fold.
        components: Of a text of the split or of its adversaries.
    """

    def __init__(self, context: Context, components: Callable[[str], Components]) -> None:
        self.context, self.components = context, components
        (self.fold,), (counter,) = context.folds, context.counters
        self.images, self.captions = context.encoded(self.fold)
        result = counter.result()
        self.ranks: dict[str, Ranks] = {TO_IMAGE: result.t2i, TO_CAPTION: result.i2t}
        self.sets: dict[str, tuple[AnySet, Sequence[str]]] = {}
        for (kind, words), adversaries in context.known.items():
            (attacked,) = context.attacked(kind, words)
            for name, each in attacked.items():
                pool = f"{'VSE-C ' if kind == VSEC else ''}{name} attack{in_words(words)}"
                self.ranks[pool] = each.i2t
                self.sets[pool] = adversaries.sets[name], adversaries.texts.get(name, ())
        self._expected = {
            pool: dict(zip(ranks.queries.tolist(), ranks.expected().tolist(), strict=True))
            for pool, ranks in self.ranks.items()
        }

    def text(self, caption: int) -> str:
        """The text of a caption of the fold."""
        return self.context.split.captions[self.fold.captions[caption]].text

    def own(self, image: int) -> list[str]:
        """The captions of an image of the fold."""
        return [self.text(row) for row in np.flatnonzero(self.fold.caption_to_image == image).tolist()]

    def columns(self, pool: str, queries: Sequence[int], number: int) -> list[Column]:
        """Ranks and best candidates of some queries of a pool, as this run scores them.

        Args:
            pool: A key of `ranks`. `TO_IMAGE` ranks images for a caption. All others rank captions for an image; a pool
                that is named after an attack also has its adversaries.
            queries: Positions in the fold: of captions under `TO_IMAGE`, otherwise of images.
            number: How many of the best candidates are returned for each query.

        Returns:
            A column for each query, in their order.
        """
        if not queries:
            return []
        rows = np.array(queries)
        if pool == TO_IMAGE:
            blocks = image_blocks(self.context.model, self.images, slice_items(self.captions, rows))
        else:
            blocks = caption_blocks(self.context.model, slice_items(self.images, rows), self._candidates(pool))
        scores, positions = (each.tolist() for each in best_candidates(blocks, number))
        answer = self._image if pool == TO_IMAGE else partial(self._caption, pool)
        return [
            Column(
                rank=f"{self._expected[pool][query]:,.1f}".removesuffix(".0"),
                answers=tuple(
                    answer(query, place, score, position)
                    for place, (score, position) in enumerate(zip(scores[k], positions[k], strict=True), 1)
                ),
            )
            for k, query in enumerate(queries)
        ]

    def _candidates(self, pool: str) -> Iterator[tuple[np.ndarray, Encoded]]:
        """Captions, then the adversaries of an attack, whose positions continue those of captions."""
        number = num_items(self.captions)
        for rows in spans(number, Blocks().captions):
            yield np.arange(rows.start, rows.stop), slice_items(self.captions, rows)
        if pool in self.sets:
            for rows, encoded in self.sets[pool][0].blocks(Blocks().captions):
                yield rows + number, encoded

    def _image(self, query: int, place: int, score: float, image: int) -> Answer:
        true = int(self.fold.caption_to_image[query]) == image
        others = map(self.components, self.own(image))
        return Answer(
            place=place,
            score=score,
            mark="true" if true else "",
            name=self.own(image)[0] if self.own(image) else "",
            says="right" if true else "",
            image=int(self.fold.images[image]),
            differs={} if true else unmatched(self.components(self.text(query)), others),
        )

    def _caption(self, pool: str, query: int, place: int, score: float, position: int) -> Answer:
        adversary = position - num_items(self.captions)
        text = self.text(position) if adversary < 0 else self.sets[pool][1][adversary]
        if adversary < 0:
            image = int(self.fold.caption_to_image[position])
            mark = "true" if image == query else ""
            says = "right" if mark else f"caption of image {self.context.split.images[self.fold.images[image]].id}"
        else:
            caption = int(np.searchsorted(self.fold.captions, self.sets[pool][0].caption[adversary]))
            own = int(self.fold.caption_to_image[caption]) == query
            mark, says = (
                "adversary" if own else "",
                f"{pool} of {'' if own else 'another image: '}“{self.text(caption)}”",
            )
        return Answer(
            place=place,
            score=score,
            mark=mark,
            name="",
            says=says,
            text=text,
            differs={} if mark == "true" else unmatched(self.components(text), map(self.components, self.own(query))),
        )


def build_gallery(request: Request) -> str:
    """Write the page to `galleries/DIGITS`; returns the path of `summary.json`.

    Raises InputError for runs that are missing or differ in their data, a query that the split has not, and several
    folds or splits.
    """
    options: GalleryOptions = request.options
    workspace = Workspace.open(request.workspace)
    plan = plan_measure(_checked(workspace, options), workspace, ("retrieval", *options.tasks), options.measure)
    workspace.check_writable()
    (part,) = plan.parts
    chosen_captions, chosen_images = _chosen(plan, part, options.query)  # before anything is encoded
    answers = [_answers(plan, number, part) for number in range(len(plan.members.each))]
    first, names = answers[0], [member.name for member in plan.members.each]
    worst = {pool: [k for k, _ in worst_queries(ranks, options.failures)] for pool, ranks in first.ranks.items()}
    failures = [each for pool, queries in worst.items() for each in _shown(answers, pool, queries, options.top)]
    chosen = {pool: chosen_captions if pool == TO_IMAGE else chosen_images for pool in first.ranks}
    drawn = _drawn(first, options)
    lists = [
        [each for pool, queries in selected.items() for each in _shown(answers, pool, queries, options.top)]
        for selected in (chosen, drawn)
    ]
    pictures = _thumbnails(plan.members, part, [*failures, *lists[0], *lists[1]])
    page = render(
        "gallery.html",
        title=f"Gallery {', '.join(names)}",
        heading="What the runs retrieve",
        lead="Queries with their best candidates, as evaluation scores them.",
        protocol={"runs": ", ".join(names), "split": part.name, "images": f"{num_items(first.images):,}"}
        | {"captions": f"{num_items(first.captions):,}", "candidates shown": str(options.top)},
        names=names,
        ids={row: part.images[row].id for row in pictures},
        thumbnails=pictures,
        pools=[pool for pool, queries in worst.items() if queries],
        kinds=KINDS,
        failures=failures,
        sought=options.failures > 0,
        chosen=lists[0],
        drawn=lists[1],
        provenance=provenance(
            [command_of(request)], {each.name: flatten(each.config) for each in plan.members.each}, plan.fingerprints
        ),
    )
    folder = workspace.gallery(fingerprint([command_of(request), plan.fingerprints, *_weights(plan)]))
    folder.write_text(PAGE, page)
    record_page(workspace, folder, "gallery", folder.name, command_of(request), [PAGE], page=PAGE, runs=names)
    return request.write_summary(
        folder,
        headline={"failures": len(failures), "images": len(pictures), "bytes": len(page.encode())},
        outputs={"page": folder.address(PAGE)},
    )


def foresee_gallery(request: Request) -> Iterator[str]:
    """The body of a dry run."""
    workspace, options = Workspace.open(request.workspace), request.options
    runs, tasks = _checked(workspace, options), ("retrieval", *options.tasks)
    yield from list(foresee_measure(runs, workspace, tasks, options.measure))[:-1]
    yield f"page: {options.failures} failures of each kind of candidates, {options.draw} queries drawn each way"


def _checked(workspace: Workspace, options: GalleryOptions) -> list[Any]:
    if len(options.measure.splits) != 1:
        raise InputError("measure.splits: a gallery shows one split")
    if protocol_of(*options.measure.splits, options.measure).folds > 1:
        key = "folds" if options.measure.folds > 1 else "protocol"
        given = f"measure.{key}={getattr(options.measure, key)}"
        raise InputError(f"{given}: a gallery shows one fold; name a protocol of one fold")
    if not options.tasks:
        raise InputError(f"tasks: name one or more of {', '.join(TASKS)}")
    return [workspace.existing("runs", name, "runs") for name in options.runs or ("",)]


def _weights(plan: MeasurePlan) -> list[str]:
    return [member.trained.weights for member in plan.members.each]


def _answers(plan: MeasurePlan, number: int, part: Split) -> RunAnswers:
    """One run of the plan on its own."""
    member = plan.members.each[number]
    member.trained.to(plan.device)
    adversaries = {kind: (each[number],) for kind, each in plan.adversaries[part.name].items()}
    alone = replace(plan, members=Members((member,), plan.members.workspace), adversaries={part.name: adversaries})
    context = context_of(alone, part, plan.tasks, alone.members)
    captions = {caption.text for caption in part.captions}
    sources = {text: each.parses for (each,) in adversaries.values() for texts in each.texts.values() for text in texts}
    material = member.material.parses
    assert material is not None, "adversaries need parses"
    return RunAnswers(context, lambda text: (material if text in captions else sources[text]).components(text))


def _shown(answers: Sequence[RunAnswers], pool: str, queries: Sequence[int], number: int) -> list[Shown]:
    first, of_runs = answers[0], [each.columns(pool, queries, number) for each in answers]
    rows = []
    for query, columns in zip(queries, zip(*of_runs, strict=True), strict=False):
        image = int(first.fold.caption_to_image[query]) if pool == TO_IMAGE else query
        caption = first.text(query) if pool == TO_IMAGE else ""
        own = () if caption else tuple(first.own(image))
        rows.append(
            Shown(pool=pool, image=int(first.fold.images[image]), caption=caption, own=own, columns=tuple(columns))
        )
    return rows


def _chosen(plan: MeasurePlan, part: Split, ids: Sequence[str]) -> tuple[list[int], list[int]]:
    """Positions in the fold of the captions and of the images with some ids.

    Raises InputError for an id of neither.
    """
    (fold,) = plan.protocols[part.name].select(part.caption_to_image, len(part.images))
    captions = {part.captions[row].id: k for k, row in enumerate(fold.captions)}
    images = {part.images[fold.images[k]].id: k for k in np.unique(fold.caption_to_image).tolist()}
    if unknown := [each for each in ids if each not in captions and each not in images]:
        raise InputError(
            f"query={unknown[0]}: no caption of split {part.name}, nor an image with captions; ids are such as "
            f"{next(iter(captions))} and {next(iter(images))}"
        )
    of_captions, of_images = ([rows[id_] for id_ in dict.fromkeys(ids) if id_ in rows] for rows in (captions, images))
    return of_captions, of_images


def _drawn(answers: RunAnswers, options: GalleryOptions) -> dict[str, list[int]]:
    """Queries drawn without replacement, each way; those of images meet captions without adversaries."""
    drawn = {}
    for pool in (TO_IMAGE, TO_CAPTION):
        queries = answers.ranks[pool].queries.cpu().numpy()
        order = permutation(options.draw_seed, 0, f"gallery {pool}", len(queries))
        drawn[pool] = queries[order[: options.draw]].tolist()
    return drawn


def _thumbnails(members: Members, part: Split, shown: Sequence[Shown]) -> dict[int, str]:
    """Data URIs of JPEG pictures by row of the split, smaller the more there are; empty if one cannot be read."""
    rows = {each.image for each in shown}
    rows |= {a.image for each in shown for column in each.columns for a in column.answers if a.image >= 0}
    side = 144 if len(rows) <= 150 else 112 if len(rows) <= 300 else 80
    return {row: _thumbnail(members, part.images[row].id, side) for row in sorted(rows)}


def _thumbnail(members: Members, image: str, side: int) -> str:
    try:
        picture = members.image(image)
    except InputError:
        return ""
    picture.thumbnail((side, side))
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=75)
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}"
