"""The alignment probe against its formula: logits, loss and gradient, and what it learns."""

import numpy as np
import pytest
import torch

from tests.levels import slow
from vse.evaluation.probes.alignment import AlignmentNetwork, AlignmentProbe, AlignmentSettings, alignment_loss

CPU = torch.device("cpu")


def network_of(hidden: int, word_dim: int = 3, image_dim: int = 4) -> AlignmentNetwork:
    torch.manual_seed(1)
    return AlignmentNetwork(word_dim, image_dim, hidden).double()


def by_hand(network: AlignmentNetwork, word: np.ndarray, image: np.ndarray) -> np.ndarray:
    """Logits of one pair, entry by entry of the interaction matrix."""
    weight = network.interaction.weight.detach().numpy()
    bias = network.interaction.bias.detach().numpy()
    summed = bias.copy()
    for k in range(len(bias)):
        for i, w in enumerate(word):
            for j, v in enumerate(image):
                summed[k] += weight[k, i * len(image) + j] * w * v
    if isinstance(network.output, torch.nn.Identity):
        return summed
    last = network.output
    assert isinstance(last, torch.nn.Linear)
    return last.weight.detach().numpy() @ np.maximum(summed, 0) + last.bias.detach().numpy()


@pytest.mark.parametrize("hidden", [0, 5])
def test_logits_of_pairs_and_of_blocks_by_hand(hidden: int) -> None:
    network, rng = network_of(hidden), np.random.default_rng(0)
    words, images = rng.normal(size=(6, 3)), rng.normal(size=(2, 4))
    wanted = np.array([[by_hand(network, word, image) for word in words] for image in images])
    blocks = network.blocks(torch.from_numpy(words), torch.from_numpy(images)).detach().numpy()
    pairs = network(torch.from_numpy(np.tile(words, (2, 1))), torch.from_numpy(np.repeat(images, 6, axis=0)))
    assert np.allclose(blocks, wanted)
    assert np.allclose(pairs.detach().numpy().reshape(2, 6, 2), wanted)


@pytest.mark.parametrize("hidden", [0, 5])
def test_dropout_multiplies_entries_of_the_interaction_matrix(hidden: int) -> None:
    network, rng = network_of(hidden), np.random.default_rng(3)
    word, image, keep = rng.normal(size=(1, 3)), rng.normal(size=(1, 4)), np.zeros((1, 3, 4))
    keep[0, 1, 2] = 2.0  # one entry is left, doubled
    given = network(*map(torch.from_numpy, (word, image, keep)))[0].detach().numpy()
    alone = np.zeros_like(word[0]), np.zeros_like(image[0])
    alone[0][1], alone[1][2] = 2 * word[0, 1], image[0, 2]
    assert np.allclose(given, by_hand(network, *alone))


def test_loss_and_gradient_by_hand() -> None:
    """Cross-entropy: its gradient to the logits of a labelled pair is (softmax - target) / pairs."""
    rng = np.random.default_rng(2)
    logits = torch.from_numpy(rng.normal(size=(3, 4, 2))).requires_grad_()
    positive = torch.from_numpy(rng.random((3, 4)) < 0.3)
    labelled = positive | torch.from_numpy(rng.random((3, 4)) < 0.5)
    loss = alignment_loss(logits, positive, labelled)
    loss.backward()
    total, wanted, number = 0.0, np.zeros((3, 4, 2)), int(labelled.sum())
    for i, j in np.argwhere(labelled.numpy()):
        odds = np.exp(logits[i, j].detach().numpy())
        share, target = odds / odds.sum(), int(positive[i, j])
        total -= np.log(share[target]) / number
        wanted[i, j] = (share - np.eye(2)[target]) / number
    assert loss.item() == pytest.approx(total)
    assert logits.grad is not None
    assert np.allclose(logits.grad.numpy(), wanted)


def probe_of(form: str, images: int = 40, epochs: int = 6) -> AlignmentProbe:
    """Images whose vector says which of seven words name an object of them; some pairs are of neither kind."""
    rng = np.random.default_rng(5)
    words, vectors = rng.normal(size=(7, 5)).astype(np.float32), rng.normal(size=(images, 6)).astype(np.float32)
    truth = vectors @ rng.normal(size=(6, 5)) @ words.T > 1
    neither = rng.random(truth.shape) < 0.1
    settings = AlignmentSettings(form=form, hidden=16, epochs=epochs)
    return AlignmentProbe(vectors, words, truth & ~neither, ~truth & ~neither, settings)


@pytest.mark.seconds
@pytest.mark.parametrize(("form", "epochs"), [("mlp", 60), *slow([("linear", 300)])])
def test_it_learns_and_depends_on_the_seed_alone(form: str, epochs: int) -> None:
    probe = probe_of(form, epochs=epochs)
    torch.manual_seed(3)
    first = probe.compute(0, CPU)
    torch.manual_seed(4)
    torch.set_num_threads(2)
    again, other = probe.compute(0, CPU), probe.compute(1, CPU)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    assert all((first[name] == again[name]).all() for name in first)
    assert any((first[name] != other[name]).any() for name in first)
    scores = torch.cat(list(probe.scores(first, probe.images, CPU))).numpy()
    labelled = probe.positive | probe.negative
    assert ((scores > 0) == probe.positive)[labelled].mean() > 0.85


def test_only_the_network_is_trained() -> None:
    probe = probe_of("mlp")
    words, images = probe.words.copy(), probe.images.copy()
    assert set(probe.compute(0, CPU)) == set(probe.network().state_dict())
    assert (probe.words == words).all()
    assert (probe.images == images).all()


def test_pairs_of_neither_kind_change_nothing() -> None:
    """Whether a pair without a label would be one or the other decides no weight."""
    probe = probe_of("mlp")
    row, word = np.argwhere(~(probe.positive | probe.negative))[0]
    with_label = probe.positive.copy()
    with_label[row, word] = True
    labelled = AlignmentProbe(probe.images, probe.words, with_label, probe.negative, probe.settings)
    assert labelled.digits != probe.digits
    one, other = probe.compute(0, CPU), labelled.compute(0, CPU)
    assert any((one[name] != other[name]).any() for name in one)


@pytest.mark.parametrize("change", ["images", "words", "positive", "settings"])
def test_digits_name_data_and_settings(change: str) -> None:
    probe = probe_of("mlp")
    values = {name: getattr(probe, name) for name in ("images", "words", "positive", "negative", "settings")}
    if change == "settings":
        values[change] = AlignmentSettings(form="mlp", hidden=17, epochs=6)
    else:
        values[change] = values[change].copy()
        values[change][0, 0] = not values[change][0, 0] if change == "positive" else values[change][0, 0] + 1
    assert AlignmentProbe(**values).digits != probe.digits == probe_of("mlp").digits


def test_no_images_have_no_scores() -> None:
    probe = probe_of("mlp", epochs=1)
    assert list(probe.scores(probe.compute(0, CPU), probe.images[:0], CPU)) == []
