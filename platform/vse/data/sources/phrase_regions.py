"""Phrases and regions of photographs as a data set of their own, for phrase localisation (jWAE, section 5.2).

Every region is an image of the records and every phrase a caption, so that any backbone extracts their features and any
family over one vector of an image and one of a caption trains on the pairs.
"""

import contextlib
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vse import registry
from vse.config import knob, part
from vse.data import keyed
from vse.data.phrases import Phrase, background, jittered, phrases_of, positives
from vse.data.proposal_files import read_proposals
from vse.data.records import Box, Caption, Image, Records
from vse.data.regions import cleaned, iou, region_uri
from vse.data.source import Source, has_word
from vse.data.sources.scenes import Scenes
from vse.errors import InputError
from vse.registry import ComponentConfig, register
from vse.storage import user_files
from vse.text.tokens import as_caption, revision_of

_MOST_WITHOUT = 0.05  # share of a split's photographs that may lack proposals, as files that cannot be read


@register("source", "phrase_regions")
class PhraseRegions(Source):
    """Pairs of phrases and regions, made of a source with annotated boxes and of region proposals.

    Images are the regions, at addresses such as `1.jpg#xywh=percent:10,20,30,40`, and the photographs themselves, which
    keep the phrases' boxes. A split in `complete` has all proposals, and each phrase is the caption of the proposal
    that overlaps it most. In other splits, a phrase is the caption of each of its positive regions, and some regions
    of the background have no caption.
    """

    title = "a data set with boxes"
    image_keys = ("data.of.root", "data.of.images")

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        of: ComponentConfig = part("source", default=Scenes.Config(), doc="photographs with annotated boxes")
        proposals: str = knob(
            "", "file of proposals, from jobs/propose_regions.py or any tool; empty: jittered copies of annotated boxes"
        )
        number: int = knob(200, "proposals of a photograph: the first ones in the file", low=1)
        positive: float = knob(0.7, "smallest overlap of a positive region with the phrase's box", above=0, high=1)
        negative: float = knob(0.3, "regions with at least this overlap are not negatives", above=0, high=1)
        most: int = knob(10, "positive regions of a phrase in training; 0: all (ours)", low=0)
        truth: bool = knob(True, "the phrase's own box is a positive region too (ours)")
        own_negatives: int = knob(
            0,
            "negatives of a phrase, drawn in each epoch from the regions of its photograph that overlap its box by "
            "less than `negative`, in addition to the other pairs of a batch",
            low=0,
        )
        background: int = knob(10, "training regions of a photograph in addition to positive ones (ours)", low=0)
        complete: tuple[str, ...] = knob(("test",), "splits whose regions are all proposals")
        regions: str = knob(
            "cropped",
            "features of a region: of its pixels, scaled to the square of the network, or the mean of the photograph's "
            "map over it, weighted by the overlap of cells (ours)",
            choices=("cropped", "pooled"),
        )
        geometry: bool = knob(False, "append left, top, right, bottom and area to the features, as CITE does")
        seed: int = knob(0, "seed of jittered boxes and of the choice of the background", low=0)

    config: Config

    @property
    def image_root(self) -> str:
        """The folder of the photographs."""
        with _keys_of_photographs():
            return registry.build("source", self.config.of).image_root

    def read(self) -> Records:
        """Raises InputError if the source has no boxes, or many photographs no proposals."""
        config = self.config
        name = registry.name_of("source", config.of)
        if name == "phrase_regions" or not registry.component("source", name).has_images:
            raise InputError(f"data.of={name}: expected a source of photographs")
        if config.negative > config.positive:
            raise InputError(f"data.negative={config.negative:g}: must be at most data.positive={config.positive:g}")
        with _keys_of_photographs():
            whole: Records = registry.build("source", config.of).describe()
        phrases = {image: _kept(boxes) for image, boxes in whole.boxes.items()}
        phrases = {image: each for image, each in phrases.items() if each}
        if not phrases:
            raise InputError(f"data.of={name}: has no annotated boxes; phrase localisation needs phrases with boxes")
        if unknown := [split for split in config.complete if split not in whole.split_names]:
            raise InputError(f"data.complete={unknown[0]}: no such split; there are {', '.join(whole.split_names)}")
        proposals = read_proposals(config.proposals) if config.proposals else self._jittered(whole, phrases)
        images, captions, boxes = list[Image](), list[Caption](), dict[str, tuple[Box, ...]]()
        rejects, without = list(whole.source.get("rejects", [])), dict[str, list[str]]()
        for image in whole.images:
            if image.id not in phrases:
                rejects.append([image.id, "photograph without a box"])
            elif len(boxes_here := proposals.get(image.id, np.empty((0, 4)))):
                _add(self._regions(image, phrases[image.id], boxes_here[: config.number]), images, captions, boxes)
            else:
                without.setdefault(image.split, []).append(image.id)
                rejects.append([image.id, "photograph without proposals"])
        for split, names in without.items():
            number = sum(image.split == split and image.id in phrases for image in whole.images)
            if len(names) > _MOST_WITHOUT * number:
                raise InputError(
                    f"data.proposals={config.proposals}: has no boxes of {len(names)} of {number} photographs of split "
                    f"{split}, for one {names[0]!r}; expected those of this data set, by the ids of its images"
                )
        revision = revision_of(caption.text for caption in captions)
        source = {
            "source": "phrase_regions",
            "of": whole.fingerprint,
            "proposals": user_files.digest(config.proposals) if config.proposals else f"jittered {config.seed}",
            "negative": config.negative,
            "complete": list(config.complete),
            "geometry": config.geometry,
            **({"tokens": revision} if revision > 1 else {}),
            "rejects": rejects,
        }
        return Records(f"regions_{whole.name}", tuple(images), tuple(captions), source, boxes, sizes=whole.sizes)

    def describe(self) -> Records:
        """The records; folds and limits are those of the photographs, `data.of.folds` and `data.of.limit`."""
        return self.read()

    def _jittered(self, whole: Records, phrases: Mapping[str, Sequence[Phrase]]) -> dict[str, np.ndarray]:
        number, seed = self.config.number, self.config.seed
        own = {
            image: cleaned(
                np.stack([*(phrase.box for phrase in each), *(box for phrase in each for box in phrase.boxes)])
            )
            for image, each in phrases.items()
        }
        return {image: jittered(boxes, number, seed, image) for image, boxes in own.items() if len(boxes)}

    def _regions(
        self, image: Image, phrases: Sequence[Phrase], proposals: np.ndarray
    ) -> Iterator[tuple[Image, list[Caption], tuple[Box, ...]]]:
        """The photograph with the boxes of its phrases, then each region with its captions."""
        config = self.config
        if image.split in config.complete:
            best = iou(np.stack([phrase.box for phrase in phrases]), proposals).argmax(axis=1)
            regions, paired = proposals, [proposals[row : row + 1] for row in best]
        else:
            own = [cleaned(phrase.box[None]) if config.truth else np.empty((0, 4)) for phrase in phrases]
            near = [positives(phrase, proposals, config.positive, config.most) for phrase in phrases]
            paired = [cleaned(np.concatenate(both)) for both in zip(own, near, strict=True)]
            others = background(phrases, proposals, config.negative)
            chosen = keyed.permutation(config.seed, 0, f"background {image.id}", len(others))[: config.background]
            regions = cleaned(np.concatenate([*paired, others[np.sort(chosen)]]))
        captions, boxes = dict[str, list[Caption]](), list[Box]()
        for number, (phrase, sides_of_phrase) in enumerate(zip(phrases, paired, strict=True)):
            ids = [f"{image.id}#phrase{number}" + (f".{k}" if k else "") for k in range(len(sides_of_phrase))]
            for id_, sides in zip(ids, sides_of_phrase, strict=True):
                region = region_uri(image.id, sides)
                captions.setdefault(region, []).append(Caption(id_, region, phrase.text))
            boxes += [Box(phrase.text, *map(float, sides), caption=ids[0]) for sides in phrase.boxes if ids]
        yield image, [], tuple(boxes)
        for sides in regions:
            region = Image(region_uri(image.id, sides), region_uri(image.uri, sides), image.split)
            yield region, captions.get(region.id, []), ()


@contextlib.contextmanager
def _keys_of_photographs() -> Generator[None]:
    """The keys that a source names in its errors, as they are here: `data.of.root` for `data.root`."""
    try:
        yield
    except InputError as error:
        raise InputError(re.sub(r"\bdata\.(?=\w+[:=,])", "data.of.", str(error))) from None


def _kept(boxes: Sequence[Box]) -> list[Phrase]:
    """Phrases as captions are kept: with a word, and spelled as `as_caption` does."""
    phrases = (Phrase(as_caption(phrase.text), phrase.boxes, phrase.caption) for phrase in phrases_of(boxes))
    return [phrase for phrase in phrases if has_word(phrase.text)]


def _add(
    regions: Iterator[tuple[Image, list[Caption], tuple[Box, ...]]],
    images: list[Image],
    captions: list[Caption],
    boxes: dict[str, tuple[Box, ...]],
) -> None:
    for image, new_captions, annotated in regions:
        images.append(image)
        captions += new_captions
        if annotated:
            boxes[image.id] = annotated
