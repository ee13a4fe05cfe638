"""A network that tells from the interaction matrix of a word and an image whether the word names an object of it.

VSE-C, section 4.3 and Figure 3: the matrix of all products of an entry of the word's vector and one of the image's is
the input of an MLP, and only the MLP is trained. The paper gives neither its width nor how it is trained. The released
code has one linear layer instead, with dropout of the matrix and stochastic gradient descent.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from vse.data import keyed
from vse.evaluation.probes.runner import arrays_of, as_tensor, digits_of, load_arrays, reproducible, step_rate
from vse.evaluation.work import Arrays, Work

REVISION = 1
FORMS = ("mlp", "linear")
IMAGES = 16  # in a step of an MLP, each with all of its candidates
PAIRS = 128  # of word and image in a step of the linear form (released code)
DROPOUT = 0.5  # of the interaction matrix, linear form (released code)
RATES = {"mlp": 1e-3, "linear": 1e-2}  # of Adam, ours; of stochastic gradient descent, released code
BLOCK = 128  # images that are scored at once


@dataclass(frozen=True, kw_only=True, slots=True)
class AlignmentSettings:
    """The form of the network, units of the hidden layer of an MLP, and passes over the training images."""

    form: str = "mlp"
    hidden: int = 64
    epochs: int = 15


class AlignmentNetwork(nn.Module):
    """Two logits (not an object, an object) for a word and an image, from the outer product of their vectors.

    Args:
        word_dim: Dimension of a word's vector.
        image_dim: Dimension of an image's vector.
        hidden: Units of the hidden layer; 0 for the linear form.
    """

    def __init__(self, word_dim: int, image_dim: int, hidden: int) -> None:
        super().__init__()
        self.sizes = (hidden or 2, word_dim, image_dim)
        self.interaction = nn.Linear(word_dim * image_dim, hidden or 2)
        self.output: nn.Module = nn.Linear(hidden, 2) if hidden else nn.Identity()

    def forward(
        self,
        words: Float[Tensor, "pairs word_dim"],
        images: Float[Tensor, "pairs image_dim"],
        keep: Float[Tensor, "pairs word_dim image_dim"] | None = None,
    ) -> Float[Tensor, "pairs 2"]:
        """Logits of pairs of a word and an image.

        Args:
            words: The word's vector of each pair.
            images: The image's vector of each pair.
            keep: Factors of the entries of the interaction matrix, for dropout; None for no dropout.
        """
        matrix = words[:, :, None] * images[:, None, :]
        return self._logits(self.interaction((matrix if keep is None else matrix * keep).flatten(1)))

    def blocks(
        self, words: Float[Tensor, "words word_dim"], images: Float[Tensor, "images image_dim"]
    ) -> Float[Tensor, "images words 2"]:
        """Logits of all words with all images, without their interaction matrices: a weight times an outer product is
        two products of a matrix and a vector, and the first is the same for all words."""
        hidden, word_dim, image_dim = self.sizes
        by_image = images @ self.interaction.weight.view(hidden * word_dim, image_dim).T
        summed = words @ by_image.view(len(images), hidden, word_dim).transpose(1, 2)
        return self._logits(summed + self.interaction.bias)

    def _logits(self, summed: Tensor) -> Tensor:
        return self.output(summed if isinstance(self.output, nn.Identity) else F.relu(summed))


@dataclass(frozen=True, eq=False)
class AlignmentProbe(Work):
    """Training data of the network.

    Args:
        images: (images, image_dim) of the training images.
        words: (words, word_dim) of the candidates.
        positive: (images, words): which words name an object of the image.
        negative: (images, words): which do not; a pair of neither kind is not trained on.
        settings: Of the network.
    """

    images: np.ndarray
    words: np.ndarray
    positive: np.ndarray
    negative: np.ndarray
    settings: AlignmentSettings

    @cached_property
    def digits(self) -> str:
        """Fingerprint of data and settings."""
        arrays = {name: getattr(self, name) for name in ("images", "words", "positive", "negative")}
        return digits_of(["alignment", REVISION, asdict(self.settings)], arrays)

    def network(self) -> AlignmentNetwork:
        """An untrained network of these sizes."""
        hidden = self.settings.hidden if self.settings.form == "mlp" else 0
        return AlignmentNetwork(self.words.shape[1], self.images.shape[1], hidden)

    def compute(self, number: int, device: torch.device) -> Arrays:
        """Train with the seed `number`. Cross-entropy, mean over the pairs of a step."""
        with reproducible(number, device):
            network = self.network().to(device)
            form, epochs = self.settings.form, self.settings.epochs
            optimizer: torch.optim.Optimizer = (
                torch.optim.SGD(network.parameters(), lr=RATES[form])
                if form == "linear"
                else torch.optim.Adam(network.parameters(), lr=RATES[form])
            )
            steps = self._pair_steps if form == "linear" else self._image_steps
            for epoch in range(epochs):
                step_rate(optimizer, epoch, epochs, RATES[form])
                for loss in steps(network, number, epoch, device):
                    optimizer.zero_grad(set_to_none=True)
                    loss.backward()
                    optimizer.step()
            return arrays_of(network)

    def _image_steps(
        self, network: AlignmentNetwork, seed: int, epoch: int, device: torch.device
    ) -> Iterator[Float[Tensor, ""]]:
        """Losses of steps over some images with all of their candidates."""
        words = as_tensor(self.words, device)
        order = keyed.permutation(seed, epoch, "alignment images", len(self.images))
        for rows in np.split(order, range(IMAGES, len(order), IMAGES)):
            positive, negative = (torch.from_numpy(each[rows]).to(device) for each in (self.positive, self.negative))
            if (positive | negative).any():
                logits = network.blocks(words, as_tensor(self.images[rows], device))
                yield alignment_loss(logits, positive, positive | negative)

    def _pair_steps(
        self, network: AlignmentNetwork, seed: int, epoch: int, device: torch.device
    ) -> Iterator[Float[Tensor, ""]]:
        """Losses of steps over pairs, with dropout of the interaction matrix."""
        generator = torch.Generator(device).manual_seed(int(keyed.keys(seed, epoch, "dropout", np.zeros(1))[0] >> 1))
        images, words = as_tensor(self.images, device), as_tensor(self.words, device)
        image, word = (torch.from_numpy(each) for each in np.nonzero(self.positive | self.negative))
        target = torch.from_numpy(self.positive)[image, word].long()
        order = torch.from_numpy(keyed.permutation(seed, epoch, "alignment pairs", len(image)))
        for rows in order.split(PAIRS):
            keep = torch.empty(len(rows), words.shape[1], images.shape[1], device=device)
            keep.bernoulli_(1 - DROPOUT, generator=generator).div_(1 - DROPOUT)
            logits = network(words[word[rows].to(device)], images[image[rows].to(device)], keep)
            yield F.cross_entropy(logits, target[rows].to(device))

    def scores(
        self, trained: Arrays, images: Float[np.ndarray, "images image_dim"], device: torch.device
    ) -> Iterator[Float[Tensor, "block words"]]:
        """Of a trained network: log-odds that each word names an object of each image, `BLOCK` images at a time.

        Args:
            trained: Weights, as `compute` returned them.
            images: Vectors of other images than the training images.
            device: Where to compute.
        """
        network = self.network()
        load_arrays(network, trained)
        network, words = network.to(device), as_tensor(self.words, device)
        for start in range(0, len(images), BLOCK):
            yield _log_odds(network, words, as_tensor(images[start : start + BLOCK], device))


@torch.inference_mode()
def _log_odds(network: AlignmentNetwork, words: Tensor, images: Tensor) -> Float[Tensor, "images words"]:
    return network.blocks(words, images).diff(dim=2).squeeze(2).cpu()


def alignment_loss(
    logits: Float[Tensor, "images words 2"],
    positive: Bool[Tensor, "images words"],
    labelled: Bool[Tensor, "images words"],
) -> Float[Tensor, ""]:
    """Cross-entropy of the two logits, mean over the labelled pairs.

    Args:
        logits: (not an object, an object) for every image and word.
        positive: Words that name an object of the image.
        labelled: Pairs that count; the others are neither objects nor known not to be.
    """
    return F.cross_entropy(logits[labelled], positive[labelled].long())
