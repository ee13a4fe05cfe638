"""The encoders of a trained family as networks of tensors alone, as exporters read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn

from vse import registry
from vse.errors import InputError
from vse.evaluation.item_vectors import Mixes
from vse.inference.embedder import Embedder
from vse.models.family import Family

REGIONS = 36  # of an example image with ready-made regions, unless the family takes fewer


@dataclass(frozen=True, eq=False)
class Tower:
    """A network with the tensors it reads.

    Args:
        network: from its inputs to vectors (batch, dim).
        inputs: name and a batch of each input; its first dimension is the batch.
        varying: name of the second dimension, `time` or `regions`, of each input in which it varies too.
    """

    network: nn.Module
    inputs: dict[str, Tensor]
    varying: Mapping[str, str] = field(default_factory=dict[str, str])


class FeaturesNetwork(nn.Module):
    """Features of the backbone to vectors of images."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self.family = family

    def forward(self, features: Float[Tensor, "batch *shape"]) -> Float[Tensor, "batch dim"]:
        return self.family.encode_images({self.family.inputs.image: features})["images"]


class PixelsNetwork(nn.Module):
    """Squares of pictures to vectors of images. Features are rounded as the feature store rounds them."""

    def __init__(self, backbone: Any, family: Family) -> None:
        super().__init__()
        self.backbone, self.images = backbone, FeaturesNetwork(family)

    def forward(self, pixels: UInt8[Tensor, "batch size size 3"]) -> Float[Tensor, "batch dim"]:
        features = self.backbone.differentiable(pixels[:, None])[self.images.family.inputs.image]
        return self.images(features.half().float())


class WordsNetwork(nn.Module):
    """Padded ids of words, and how many each caption has, to vectors of captions."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self.family = family

    def forward(self, tokens: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"]) -> Float[Tensor, "batch dim"]:
        batch = {"tokens": tokens, "lengths": lengths}
        if not self.family.inputs.components:
            return self.family.encode_captions(batch)["captions"]
        for number, name in enumerate(("objects", "attributes", "relations")):
            batch[name] = tokens.new_zeros((tokens.shape[0], 1, *([number + 1] * (number > 0))))
        return self.family.encode_captions(batch)["sentences"]


class SentenceNetwork(nn.Module):
    """Untrained vectors of whole sentences to vectors of captions."""

    def __init__(self, family: Family) -> None:
        super().__init__()
        self.family = family

    def forward(self, sentence: Float[Tensor, "batch length"]) -> Float[Tensor, "batch dim"]:
        return self.family.encode_captions({"sentence": sentence})["captions"]


def image_tower(embedder: Embedder) -> Tower:
    """From features (batch, ...) as the backbone gives them, or from any number of ready-made regions."""
    trained, image = embedder.trained, embedder.trained.family.inputs.image
    backbone: Any = registry.build("backbone", trained.config.features.backbone)
    shape, varying = backbone.shapes().get(image), {}
    if shape is None:
        shape = (trained.checkpoint.read_json("context.json")["feature_dims"][image],)
        if image == "map":
            number = min(REGIONS, getattr(trained.config.model, "regions", REGIONS))
            shape, varying = (number, *shape), {"features": "regions"}
    features = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    return Tower(FeaturesNetwork(trained.family), {"features": features}, varying)


def pixel_tower(embedder: Embedder) -> Tower:
    """From the square of a picture that the backbone's transform cuts, in bytes from 0 to 255.

    Raises:
        InputError: the run has no backbone that reads pictures, or one whose features are means over several crops or
            of less than single precision.
    """
    embedder.check_pictures()
    config, family = embedder.trained.config, embedder.trained.family
    if config.features.precision != "float32":
        raise InputError(f"towers=pixels: features.precision={config.features.precision}; only float32 is exported")
    backbone = embedder.trained.backbone
    if backbone.transform.num_crops > 1:
        raise InputError(f"towers=pixels: features.backbone.transform={backbone.transform.name} has several crops")
    network = backbone.load((family.inputs.image,)).prepare(torch.device("cpu"))
    draw, size = torch.Generator().manual_seed(0), backbone.transform.size
    pixels = torch.randint(0, 256, (2, size, size, 3), generator=draw, dtype=torch.uint8)
    return Tower(PixelsNetwork(network, family), {"pixels": pixels})


def text_tower(embedder: Embedder) -> Tower:
    """From ids of words with their number in each caption, or from the untrained vector of a whole sentence.

    Raises:
        InputError: captions are read with components of a parser, or by states of a pretrained encoder.
    """
    family, trained = embedder.trained.family, embedder.trained
    if family.inputs.states:
        raise InputError(
            "towers=text: this run reads states of text.encoder, which is not exported; towers=features exports the "
            "encoder of images alone"
        )
    if family.inputs.sentence:
        length = trained.checkpoint.read_json("context.json")["sentence_dim"]
        draw = torch.Generator().manual_seed(0)
        return Tower(SentenceNetwork(family), {"sentence": torch.rand(2, length, generator=draw)})
    if family.inputs.components and not (isinstance(family, Mixes) and embedder.alpha == 1):
        name = registry.name_of("family", trained.config.model)
        raise InputError(
            f"towers=text: family {name} reads components of a parser, which is not a network; alpha=1 exports the "
            "vector of its sentence alone, towers=features the encoder of images alone"
        )
    inputs = {"tokens": torch.tensor([[1, 3, 3, 3, 2], [1, 3, 2, 0, 0]]), "lengths": torch.tensor([5, 3])}
    return Tower(WordsNetwork(family), inputs, {"tokens": "time"})
