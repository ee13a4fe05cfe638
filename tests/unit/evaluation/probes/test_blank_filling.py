"""The blank filler against plain recurrences, its loss and gradient against the formula, ranks against sorting."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.levels import slow_but
from vse.data.ragged import Ragged
from vse.evaluation.probes.blank_filling import (
    NEVER,
    BlankFiller,
    BlankProbe,
    FillingSettings,
    contexts_of,
    cosine_loss,
    joined_ranks,
)
from vse.evaluation.probes.blanks import Blanks

CPU = torch.device("cpu")


def blanks_and_images(seed: int = 0, captions: int = 30, vocabulary: int = 12) -> tuple[Blanks, np.ndarray, np.ndarray]:
    """Ragged captions of which up to two words are left out, word vectors and image vectors."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(0, vocabulary + 1, rng.integers(1, 7)).tolist() for _ in range(captions)]
    places = [(c, p) for c, row in enumerate(rows) for p, word in enumerate(row[:2]) if word < vocabulary]
    table = np.array(places)
    blanks = Blanks(Ragged.of(rows), table[:, 0], table[:, 1], np.arange(len(table)) % 2, vocabulary)
    words = rng.normal(size=(vocabulary, 5)).astype(np.float32)
    return blanks, words, rng.normal(size=(captions, 4)).astype(np.float32)


def probe_of(form: str = "mlp", seed: int = 0, epochs: int = 3, words: np.ndarray | None = None) -> BlankProbe:
    blanks, vectors, images = blanks_and_images(seed)
    settings = FillingSettings(form=form, dim=8, epochs=epochs)
    image = np.arange(len(images))[::-1].copy()
    table = vectors if words is None else words
    return BlankProbe(images, image, blanks.tokens, blanks.caption, blanks.position, table, settings)


def last_state(gru: nn.GRU, vectors: torch.Tensor) -> torch.Tensor:
    """The last state of a GRU by its equations, word by word."""
    weights = dict(gru.named_parameters())
    state = torch.zeros(gru.hidden_size)
    for vector in vectors:
        x = weights["weight_ih_l0"] @ vector + weights["bias_ih_l0"]
        h = weights["weight_hh_l0"] @ state + weights["bias_hh_l0"]
        (xr, xz, xn), (hr, hz, hn) = x.chunk(3), h.chunk(3)
        update = torch.sigmoid(xz + hz)
        state = (1 - update) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn) + update * state
    return state


@pytest.mark.parametrize("form", ["mlp", "linear"])
def test_predictions_by_hand(form: str) -> None:
    torch.manual_seed(0)
    blanks, words, images = blanks_and_images()
    network = BlankFiller(5, 4, FillingSettings(form=form, dim=8))
    table = torch.from_numpy(np.concatenate([words, np.zeros((1, 5), dtype=np.float32)]))
    rows = np.arange(len(blanks))
    given = network(table, contexts_of(blanks, rows, images[blanks.caption], CPU))
    whole = torch.cat([table, network.markers])
    for row in rows:
        caption, place = blanks.tokens.row(blanks.caption[row]), int(blanks.position[row])
        left = last_state(network.before.gru, whole[[blanks.unknown + 1, *caption[:place]]])
        right = last_state(network.after.gru, whole[[blanks.unknown + 2, *caption[place + 1 :][::-1]]])
        inputs = torch.cat([left, right, torch.from_numpy(images[blanks.caption[row]])])
        if form == "linear":
            wanted = network.output(inputs)
        else:
            assert isinstance(network.output, nn.Sequential)
            first, _, second = network.output
            wanted = second(first(inputs).clamp_min(0))
        assert torch.allclose(given[row], wanted, atol=1e-6)


def test_loss_and_gradient_by_hand() -> None:
    """d(1 - cos)/dp = -(t/|t| - cos p/|p|) / |p|, over the batch's size."""
    rng = np.random.default_rng(1)
    predicted, target = rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    tensor = torch.from_numpy(predicted).requires_grad_()
    loss = cosine_loss(tensor, torch.from_numpy(target))
    loss.backward()
    cosines, wanted = [], []
    for p, t in zip(predicted, target, strict=True):
        length, unit = np.sqrt(p @ p), t / np.sqrt(t @ t)
        cosines.append(p @ unit / length)
        wanted.append(-(unit - cosines[-1] * p / length) / length / 4)
    assert loss.item() == pytest.approx(1 - np.mean(cosines))
    assert tensor.grad is not None
    assert np.allclose(tensor.grad.numpy(), wanted)


def test_ranks_by_sorting_and_a_word_without_a_vector_is_last() -> None:
    _, words, images = blanks_and_images()
    words[3] = 0
    probe = probe_of(words=words)
    blanks, by_caption = blanks_and_images(7)[0], images
    trained = probe.compute(0, CPU)
    ranks, nearest = probe.ranks(trained, blanks, by_caption, CPU, nearest=3)
    network = probe.network()
    network.load_state_dict({name: torch.from_numpy(value) for name, value in trained.items()})
    table = probe.table(CPU)
    with torch.no_grad():
        predicted = network(table, contexts_of(blanks, np.arange(len(blanks)), by_caption[blanks.caption], CPU)).numpy()
    for row, vector in enumerate(predicted):
        cosines = {w: v @ vector / np.sqrt((v @ v) * (vector @ vector)) for w, v in enumerate(words) if v.any()}
        order = [*sorted(cosines, key=lambda w: -cosines[w]), 3]
        assert nearest[row].tolist() == order[:3]
        rank = order.index(int(blanks.answer[row])) + 1
        for k in (1, 10, 100):
            assert ranks.hits(k)[row].item() == (rank <= k and blanks.answer[row] != 3)
        assert ranks.expected()[row].item() == (rank if blanks.answer[row] != 3 else NEVER + 1)


@pytest.mark.seconds
@pytest.mark.parametrize("form", slow_but(["mlp", "linear"], "mlp"))
def test_it_depends_on_the_seed_alone_and_learns(form: str) -> None:
    """Images that say which word is left out: after training most answers are right."""
    words, answer = blanks_and_images()[1], np.arange(60) % 12
    tokens, place = Ragged.of([[word, 4] for word in answer.tolist()]), np.zeros(60, dtype=np.int64)
    images = np.eye(12, dtype=np.float32)[answer]

    def trained(epochs: int, seed: int = 0) -> tuple[BlankProbe, dict[str, np.ndarray]]:
        settings = FillingSettings(form=form, dim=16, epochs=epochs)
        probe = BlankProbe(images, np.arange(60), tokens, np.arange(60), place, words, settings)
        return probe, probe.compute(seed, CPU)

    probe, first = trained(300)
    torch.manual_seed(2)
    again, other = trained(300)[1], trained(300, seed=1)[1]
    assert all((first[name] == again[name]).all() for name in first)
    assert any((first[name] != other[name]).any() for name in first)
    blanks = Blanks(tokens, np.arange(60), place, place, 12)
    before, after = (probe.ranks(each, blanks, images, CPU)[0].hits(1).mean().item() for each in (trained(0)[1], first))
    assert before < 0.5
    assert after > 0.9


def test_a_caption_without_a_usable_blank_is_left_out() -> None:
    """Answers without a vector are no training examples; with none at all the network stays as it began."""
    nothing = np.zeros((12, 5), dtype=np.float32)
    begun, trained = probe_of(words=nothing, epochs=0).compute(0, CPU), probe_of(words=nothing).compute(0, CPU)
    assert all((begun[name] == trained[name]).all() for name in begun)


def test_digits_name_words_and_settings() -> None:
    probe = probe_of()
    assert probe.digits == probe_of().digits
    assert probe_of("linear").digits != probe.digits
    words = probe.words.copy()
    words[0, 0] += 1
    assert probe_of(words=words).digits != probe.digits


def test_no_blanks_have_no_ranks() -> None:
    assert len(joined_ranks([]).above) == 0
