"""Trained runs that are measured as one: each reads captions and images in its own way, all of them the same ones."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import PIL.Image
import torch
from torch import Tensor

from vse import registry
from vse.config import fingerprint
from vse.data.images import UnreadableImage, open_image
from vse.data.places import AddressError
from vse.data.records import Records, Split
from vse.data.source import SceneGraphs, Truth, source_of, true_pairs
from vse.errors import InputError
from vse.evaluation.attacks import UnencodedSet, unknown_word_rate
from vse.evaluation.codes import Codes, Encode, encode_captions, encode_images
from vse.evaluation.component_queries import EncodesComponents
from vse.evaluation.dropped_parses import DroppedParses
from vse.evaluation.ensemble import Ensemble, joined, of_model
from vse.evaluation.item_vectors import Side, item_vectors
from vse.evaluation.jacobians import occurrence_texts
from vse.evaluation.saliency import Saliency, SaliencyReader
from vse.evaluation.task import AdversarialTexts, SaliencyQuery
from vse.evaluation.work import Arrays, Job
from vse.features.forward import Forward
from vse.features.region_features import NUMBERS
from vse.models.family import Encoded, Family
from vse.stages.attack import Adversaries
from vse.stages.measuring.word_sources import vectors_of
from vse.stages.measuring.work import computed
from vse.stages.parse import language_fingerprint, parse_texts_to, parser_of
from vse.stages.train import build_family
from vse.stages.trained import Trained, encode_split, read_config, unencoded_adversaries
from vse.storage.folder import Folder
from vse.text.components import Components
from vse.text.parse import Parse
from vse.text.word_vectors import WordVectors
from vse.training.config import RunConfig
from vse.training.examples import ComponentSource, Examples, encode_texts
from vse.training.inputs import Material, Parses, split_examples, training_inputs
from vse.workspace.layout import Workspace, dataset_name


@dataclass(frozen=True, eq=False)
class StatedComponents:
    """Components of texts that are stated instead of parsed."""

    by_text: Mapping[str, Components]

    def components(self, text: str) -> Components:
        """Those of a text."""
        return self.by_text[text]


@dataclass(frozen=True, eq=False)
class Member:
    """A trained run with what earlier stages made for it; `settings` of its family that are not as configured.

    config: of the run, with the data that it is measured on.
    drop, drop_seed: share of parsed attributes and relations that it is not told of, and which (`DroppedParses`).
    """

    name: str
    trained: Trained
    material: Material
    config: RunConfig
    settings: Mapping[str, Any]
    drop: float = 0.0
    drop_seed: int = 0

    def read(self, parses: Parses) -> Parses:
        """Parses as the run reads them at test: without a share `drop` of their attributes and relations."""
        return DroppedParses(parses, self.drop, self.drop_seed) if self.drop else parses

    def encode(self, part: Split) -> Codes:
        """Every image and caption of a split or of a part of it."""
        return encode_split(self.trained, replace(self.material, parses=self._of_captions), part)

    def encode_texts(self, texts: list[str], workspace: Workspace) -> Encoded:
        """Captions that are no part of the data set, parsed if the family reads components."""
        reads = self.trained.family.inputs.components
        return self._encode(texts, self.read(self.parse(texts, workspace)) if reads else None)

    def encode_captions(self, texts: list[str]) -> Encoded:
        """Captions of the data set."""
        return self._encode(texts, self._of_captions)

    def encode_phrases(self, texts: list[str], components: list[Components]) -> Encoded:
        """Short texts as captions, or by the family's encoder of components if it has one."""
        family = self.trained.family
        stated = StatedComponents(dict(zip(texts, components, strict=True)))
        return self._encode(texts, stated, family.encode_components if isinstance(family, EncodesComponents) else None)

    def _encode(
        self, texts: Sequence[str], components: ComponentSource | None, encode: Encode | None = None
    ) -> Encoded:
        """Texts with their components, if the family reads any, by its encoder of captions or another one of it."""
        trained, inputs = self.trained, self.trained.family.inputs
        sentences = self.material.sentences if inputs.sentence else None
        read = encode_texts(texts, trained.vocabulary, components if inputs.components else None, sentences)
        return encode_captions(trained.family, read, encode)

    @property
    def _of_captions(self) -> Parses | None:
        """Parses of the data set's captions, as the run reads them at test."""
        return None if self.material.parses is None else self.read(self.material.parses)

    def parses_of(self, texts: Sequence[str], workspace: Workspace) -> list[Parses]:
        """What holds the parse of each text: for a caption of the data set its parses, others are parsed."""
        captions = self.material.parses
        assert captions is not None, "the task must declare that it reads parses"
        own_texts = {caption.text for caption in self.material.records.captions}
        further = [text for text in texts if text not in own_texts]
        others = self.parse(further, workspace) if further else captions
        return [captions if text in own_texts else others for text in texts]

    def parsed(self, texts: Sequence[str], workspace: Workspace) -> list[tuple[Parse, Components]]:
        """Parses and components of texts: those of the data set's captions, others parsed."""
        sources = self.parses_of(texts, workspace)
        return [(each.parse(text), each.components(text)) for each, text in zip(sources, texts, strict=True)]

    def parse(self, texts: list[str], workspace: Workspace) -> Parses:
        """Parses of captions that are no part of the data set."""
        parser = parser_of(self.trained.config)
        digits = fingerprint(["pairs", language_fingerprint(parser), texts])
        folder = workspace.language(dataset_name(self.material.records), digits)
        return parse_texts_to(texts, parser, folder)

    def attacks(self, adversaries: Adversaries) -> dict[str, UnencodedSet]:
        """Every adversary, by attack, encoded when its block is scored."""
        return unencoded_adversaries(
            self.trained, replace(adversaries, parses=self.read(adversaries.parses)), self.material
        )


@dataclass(frozen=True, eq=False)
class Members:
    """One run or more, as tasks see them (`evaluation.task.Runs`). `scored` is called with the pairs of each block.

    workspace: where parses of further texts are kept. folder: where trained probes are; None to keep none.
    """

    each: tuple[Member, ...]
    workspace: Workspace
    scored: Callable[[int], object] | None = None
    folder: Folder | None = None

    @property
    def model(self) -> Ensemble:
        """The mean of the members' scores; of one member, its scores."""
        families, settings = zip(*((member.trained.family, member.settings) for member in self.each), strict=True)
        return Ensemble(families, settings, self.scored)

    @property
    def names(self) -> str:
        """As the user named them."""
        return ",".join(member.name for member in self.each)

    def split(self, name: str) -> Split:
        """A split of the data that the members share. Raises InputError if they differ in an image or a caption."""
        first, *others = (member.material.records.split(name) for member in self.each)
        for member, other in zip(self.each[1:], others, strict=True):
            if reason := difference(first, other):
                raise InputError(
                    f"run={self.names}: split {name} differs between {self.each[0].name} and {member.name}: "
                    f"{reason}; an ensemble needs runs on the same data"
                )
        return first

    @property
    def families(self) -> tuple[Family, ...]:
        """Each member's."""
        return tuple(member.trained.family for member in self.each)

    @property
    def records(self) -> Records:
        """Images and captions of the data that are measured on, as the first member has them."""
        return self.each[0].material.records

    def data_set(self) -> Split:
        """All images that the members share, of every split, with their captions as the first member has them."""
        others = [{(i.id, i.uri) for i in member.material.records.images} for member in self.each[1:]]
        images = tuple(i for i in self.records.images if all((i.id, i.uri) in other for other in others))
        position = {image.id: place for place, image in enumerate(images)}
        captions = tuple(caption for caption in self.records.captions if caption.image in position)
        return Split("", images, captions, np.array([position[caption.image] for caption in captions], dtype=np.int64))

    def encode(self, part: Split) -> Codes:
        """Every image and caption of a split or of a part of it, as each member encodes them."""
        codes = [member.encode(part) for member in self.each]
        return Codes(
            joined([one.images for one in codes]), joined([one.captions for one in codes]), codes[0].caption_to_image
        )

    def encode_images(self, ids: tuple[str, ...]) -> Encoded:
        """Images of the data set by their ids, as each member encodes them."""
        read = ((member.trained.family, member.material.features) for member in self.each)
        return joined([encode_images(family, features.array(family.inputs.image, ids)) for family, features in read])

    def encode_texts(self, texts: list[str]) -> Encoded:
        """Captions that are no part of the data set, as each member encodes them."""
        return joined([member.encode_texts(texts, self.workspace) for member in self.each])

    def encode_captions(self, texts: list[str]) -> Encoded:
        """Captions of the data set, as each member encodes them."""
        return joined([member.encode_captions(texts) for member in self.each])

    def image(self, id_: str) -> PIL.Image.Image:
        """The picture of an image of the data set, RGB. Raises InputError if it cannot be read."""
        uri = self._uris[id_]
        try:
            return open_image(uri, self._image_root)
        except (UnreadableImage, AddressError) as error:
            raise InputError(f"image {id_!r} ({uri}): {error}") from None

    @cached_property
    def _uris(self) -> dict[str, str]:
        return {image.id: image.uri for image in self.records.images}

    @cached_property
    def _image_root(self) -> str:
        return registry.build("source", self.each[0].config.data).image_root

    def encode_phrases(self, texts: list[str], components: list[Components]) -> Encoded:
        """Short texts, as each member encodes them."""
        return joined([member.encode_phrases(texts, components) for member in self.each])

    def vectors(self, codes: Mapping[str, Tensor], side: Side) -> Tensor:
        """One vector (items, dim) for each image or caption; products are the mean of the members' cosines."""
        each = [
            item_vectors(member.trained.family, of_model(codes, k), side, member.settings)
            for k, member in enumerate(self.each)
        ]
        return torch.cat(each, dim=1) / len(each) ** 0.5

    def encode_regions(self, ids: Sequence[str]) -> Encoded:
        """Regions of images of the data set, as the first member encodes them."""
        family, features = self.each[0].trained.family, self.each[0].material.features
        return encode_images(family, features.array(family.inputs.image, tuple(ids)), family.encode_regions)

    def encode_queries(self, texts: Sequence[str], components: Mapping[str, Components]) -> Encoded:
        """Texts to look for in regions, as the first member encodes them."""
        member, every = self.each[0], dict(components)
        family = member.trained.family
        others = [text for text in texts if text not in components]
        if family.inputs.components and others:
            parsed = member.parse(others, self.workspace)
            every |= {text: parsed.components(text) for text in others}
        return member._encode(texts, StatedComponents(every), family.encode_queries)

    def saliencies(self, queries: Sequence[SaliencyQuery], level: str) -> Iterator[list[Saliency]]:
        """Saliency of every text of each query, by the first member."""
        member = self.each[0]
        family, material = member.trained.family, member.material
        reader, backbone = SaliencyReader(family, member.settings), self._backbone
        texts = list(dict.fromkeys(text for query in queries for text in query.texts))
        parses = self._components(texts) if family.inputs.components else None
        sentences = material.sentences if family.inputs.sentence else None
        through = hasattr(backbone, "transform") and level == "pixels"
        needs_pixels = through and any(query.of_image for query in queries)
        forward = Forward(backbone.config, (family.inputs.image,)) if needs_pixels else None
        for query in queries:
            read = occurrence_texts(query.texts, member.trained.vocabulary, parses, sentences)
            features = material.features.array(family.inputs.image, (query.image,))[0]
            try:
                if forward is not None and query.of_image:
                    place = features[-NUMBERS:] if getattr(member.config.data, "geometry", False) else None
                    picture = self.image(query.image)
                    yield reader.of_picture(picture, read, forward, backbone.transform, query.of_image, place)
                else:
                    yield reader.of_features(features, read, query.of_image if not through else ())
            except ValueError as error:
                raise InputError(f"saliency of {member.name}: {error}") from None

    def _components(self, texts: Sequence[str]) -> StatedComponents:
        """Components as the first member reads them at test."""
        member = self.each[0]
        sources = zip(texts, member.parses_of(texts, self.workspace), strict=True)
        return StatedComponents({text: member.read(parses).components(text) for text, parses in sources})

    def window(self, id_: str) -> tuple[float, float, float, float]:
        """The part of an image that the first member's backbone sees."""
        transform = self._backbone.transform
        return transform.window(1, 1) if transform.name == "scale" else transform.window(*self.image(id_).size)

    @cached_property
    def _backbone(self) -> Any:
        return registry.build("backbone", self.each[0].config.features.backbone)

    def parsed(self, texts: Sequence[str]) -> list[tuple[Parse, Components]]:
        """Parses and components of texts, by the first member's parser."""
        return self.each[0].parsed(texts, self.workspace)

    @property
    def judge(self) -> Truth | None:
        """Whether a text is true of an image, if the source knows."""
        source = source_of(self.each[0].config.data)
        return source.truth(self.records) if source.knows_truth else None

    @property
    def scene_graphs(self) -> SceneGraphs | None:
        """What is in an image, if the source knows."""
        source = source_of(self.each[0].config.data)
        return source.scene_graphs(self.records) if source.knows_truth else None

    def examples(self, part: Split) -> Examples:
        """The arrays that the first member reads of a split."""
        trained = self.each[0].trained
        return split_examples(self.each[0].material, part, trained.family.inputs, trained.vocabulary)

    def word_vectors(self, source: str, words: Sequence[str]) -> WordVectors:
        """Vectors of words from the first member, another run or a file."""
        return vectors_of(source, words, self.each[0].trained, self.workspace)

    def probes(self, jobs: Sequence[Job]) -> list[Arrays]:
        """Trained probes in the order of the jobs, on a cluster if this process belongs to one."""
        device = next(self.each[0].trained.family.parameters(), torch.zeros(0)).device
        return computed(jobs, device, self.folder, "train probes")

    def initial_family(self) -> Family | None:
        """The first member's family as its training began, where its trained parameters are; None if its backbone was
        trained too: the features at hand are those of the tuned one."""
        trained, material = self.each[0].trained, self.each[0].material
        if read_config(trained.checkpoint).train.finetune:
            return None
        family = build_family(trained.config, training_inputs(trained.config, material, trained.family.inputs))
        return family.to(next(trained.family.parameters()).device).eval()

    def truth(self, split: str) -> np.ndarray:
        """(images, captions) of a split, bool: which captions are true of which images."""
        return true_pairs(self.each[0].config.data, self.records, split, "tasks=true_pairs")

    def attackers(
        self, make: Callable[[Member, Material], Adversaries], sources: Sequence[Material]
    ) -> tuple[Adversaries, ...]:
        """The adversaries that `make` returns for each member and its source: the same texts, as each reads them.

        Raises InputError if members are attacked by different texts, because they were trained on other captions or
        read captions with another parser.
        """
        first, *others = map(make, self.each, sources)
        for member, other in zip(self.each[1:], others, strict=True):
            if other.texts != first.texts or any((first.caption[k] != other.caption[k]).any() for k in other.caption):
                raise InputError(
                    f"run={self.names}: {self.each[0].name} and {member.name} are attacked by different captions "
                    "(their text.parser or training captions differ); leave tasks with adversaries out"
                )
        return (first, *others)

    def attacks(self, adversaries: Sequence[Adversaries]) -> AdversarialTexts:
        """Every adversary, encoded by each member when its block is scored; `adversaries` are those of `attackers`."""
        sets = [member.attacks(each) for member, each in zip(self.each, adversaries, strict=True)]

        def together(attack: str) -> UnencodedSet:
            def encode(rows: np.ndarray) -> Encoded:
                return joined([one[attack].encode(rows) for one in sets])

            return replace(sets[0][attack], encode=encode)

        return AdversarialTexts(adversaries[0].texts, {attack: together(attack) for attack in sets[0]})

    def unknown_words(self, texts: Iterable[str]) -> float:
        """Share of tokens, in percent, that a vocabulary does not hold; the mean over the members' vocabularies."""
        listed = list(texts)
        rates = [unknown_word_rate(listed, member.trained.vocabulary.ids.keys()) for member in self.each]
        return sum(rates) / len(rates)


def difference(one: Split, other: Split) -> str:
    """The first difference of two splits in words; empty if images, captions and their order are the same."""
    for what, first, second in (("image", one.images, other.images), ("caption", one.captions, other.captions)):
        if len(first) != len(second):
            return f"{len(first)} and {len(second)} {what}s"
        for number, (a, b) in enumerate(zip(first, second, strict=True), 1):
            if a != b:
                return f"{what} {number} is {_named(a)} and {_named(b)}"
    return ""


def _named(item: Any) -> str:
    text = getattr(item, "text", None)
    return f"{item.id!r} ({text if text is not None else item.uri})"
