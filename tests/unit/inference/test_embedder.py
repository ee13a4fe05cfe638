"""Raw pictures and raw sentences give the codes that the run's own stages give."""

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.levels import slow_but
from vse.config import override
from vse.data.images import open_image
from vse.errors import InputError
from vse.evaluation.retrieval import retrieve
from vse.features.backbones import SmallBackbone
from vse.features.transforms import Transform
from vse.inference import embedder as embedder_module
from vse.inference.embedder import Embedder
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.train import Result, run_training
from vse.stages.trained import encode_split, load_run
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

SHORT = {"train.epochs": 1, "model.dim": 32, "data.num_train": 40, "data.num_val": 6, "data.num_test": 5}
SHORT |= {"data.num_shifted": 0}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("embedder") / "workspace"))


def train(place: Workspace, name: str, seed: int = 0, **changes: Any) -> Result:
    """A tiny run; the same one for the same arguments."""
    given = {key.replace("__", "."): value for key, value in changes.items()}
    return run_training(override(preset(name), {**SHORT, "seed": seed, **given}), place)


def png(picture: Image.Image) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()


@pytest.mark.seconds
@pytest.mark.parametrize("name", slow_but(["vsepp_tiny", "univse_tiny"], "univse_tiny"))
def test_scores_of_raw_inputs_are_those_of_the_stages(place: Workspace, name: str, tmp_path: Path) -> None:
    """Rendered pictures as PNG files, one as its bytes, against features from the store; sentences against parses
    from the store; the product of vectors against the family's own score."""
    result = train(place, name)
    alone = tmp_path / "alone"
    shutil.copytree(result.checkpoint.local(), alone)
    embedder = Embedder.open(Folder.open(alone))
    trained = load_run(result.folder)
    material = pipeline.prepare(trained.config, place)
    part = material.records.split("val")
    pictures: list[Any] = []
    for number, image in enumerate(part.images):
        file = tmp_path / f"{number}.png"
        file.write_bytes(png(open_image(image.uri)))
        pictures.append(file.read_bytes() if number == 1 else file if number % 2 else str(file))
    images, sentences = embedder.encode_images(pictures), embedder.encode_captions([c.text for c in part.captions])
    assert images.shape == (len(part.images), embedder.dim)
    assert images.dtype == sentences.dtype == np.float32
    codes = encode_split(trained, material, "val")
    np.testing.assert_allclose(images, codes.images["images"].numpy(), atol=1e-3)  # half-precision features
    scores = trained.family.scores(codes.images, codes.captions).detach().numpy()
    np.testing.assert_allclose(images @ sentences.T, scores, atol=2e-3)
    assert retrieve(trained.family, codes.images, codes.captions, codes.caption_to_image).metrics()


@pytest.mark.seconds
def test_the_chosen_weight_enters_the_sentence(place: Workspace) -> None:
    result = train(place, "univse_tiny")
    texts = ["a red ball is left of two dogs"]
    at = {a: Embedder(load_run(result.folder, {"model.alpha": a})).encode_captions(texts)[0] for a in (0.0, 0.5, 1.0)}
    half = at[0.0] + at[1.0]
    np.testing.assert_allclose(at[0.5], half / np.linalg.norm(half), atol=1e-6)


@pytest.mark.seconds
def test_a_sentence_is_read_in_the_spelling_of_the_captions(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    encode = embedder_module.encode_texts

    def spy(texts: list[str], *rest: Any) -> Any:
        read.extend(texts)
        return encode(texts, *rest)

    monkeypatch.setattr(embedder_module, "encode_texts", spy)
    one, other = Embedder(load_run(train(place, "univse_tiny").folder)).encode_captions(["a cafe\u0301", "a caf\u00e9"])
    assert read == ["a caf\u00e9", "a caf\u00e9"]
    assert np.array_equal(one, other)


def test_order_and_number_of_inputs_change_nothing(place: Workspace) -> None:
    embedder = Embedder(load_run(train(place, "univse_tiny").folder))
    texts = ["a dog", "", "a dog", "two white cats on a table near a dog"]
    together = embedder.encode_captions(texts)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(embedder.encode_captions([text])[0], vector, atol=1e-6)
    assert embedder.encode_captions([]).shape == embedder.encode_images([]).shape == (0, embedder.dim)
    assert np.isfinite(together).all()


@pytest.mark.seconds
def test_items_may_be_in_a_series_an_array_or_a_generator(place: Workspace) -> None:
    embedder, texts = Embedder(load_run(train(place, "vsepp_tiny").folder)), ["a dog", "two cats"]
    pictures = [png(Image.new("RGB", (8, 8), colour)) for colour in ("red", "blue")]
    vectors, codes = embedder.encode_captions(texts), embedder.encode_images(pictures)
    for given in (pd.Series(texts, index=[5, 7]), np.array(texts), (text for text in texts)):
        np.testing.assert_array_equal(embedder.encode_captions(given), vectors)
    for images in (pd.Series(pictures), np.array(pictures, object), (picture for picture in pictures)):
        np.testing.assert_array_equal(embedder.encode_images(images), codes)
    scores = embedder.scores(iter(pictures), iter(texts))
    np.testing.assert_array_equal(scores, embedder.scores(pictures, texts))
    assert embedder.encode_captions(pd.Series([], dtype=object)).shape == (0, embedder.dim)


@pytest.mark.seconds
def test_what_cannot_be_embedded_is_one_line(place: Workspace, tmp_path: Path) -> None:
    embedder = Embedder(load_run(train(place, "vsepp_tiny").folder))
    good = png(Image.new("RGB", (8, 8)))
    with pytest.raises(InputError, match="image 1: not an image of a known format"):
        embedder.encode_images([good, b"no picture"])
    with pytest.raises(InputError, match=r"^image 1: has no pixels$"):
        embedder.encode_images([good, Image.new("RGB", (0, 10))])
    with pytest.raises(InputError, match=r"image 1, .*missing\.png: file is missing"):
        embedder.encode_images([good, tmp_path / "missing.png"])
    picture = r"^pictures: expected a list of pictures, got one str; write \['a\.png'\]$"
    with pytest.raises(InputError, match=picture):
        embedder.encode_images("a.png")
    with pytest.raises(InputError, match=picture):
        embedder.scores("a.png", ["a dog"])
    sentence = r"^texts: expected a list of sentences, got one str; write \['a dog'\]$"
    with pytest.raises(InputError, match=sentence):
        embedder.encode_captions("a dog")
    with pytest.raises(InputError, match=sentence):
        embedder.scores([good], "a dog")
    pairs = Embedder(load_run(train(place, "vsepp_tiny", model="scan", model__dim=32).folder))
    with pytest.raises(InputError, match="scan scores pairs; an image or a caption alone has no vector"):
        pairs.encode_captions(["a dog"])


@pytest.mark.seconds
def test_a_picture_that_cannot_be_resized_is_one_line(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = Embedder(load_run(train(place, "vsepp_tiny").folder))
    good, strip = png(Image.new("RGB", (8, 8))), png(Image.new("RGB", (1, 60_000)))
    assert len(embedder.encode_images([good, strip])) == 2  # the small backbone scales, whatever the form
    crop = Transform(name="crop", size=112, resize=128)
    monkeypatch.setattr(SmallBackbone, "transform", property(lambda self: crop, lambda self, made: None), raising=False)
    with pytest.raises(InputError, match=r"^image 1: 1 x 60000 pixels are too narrow"):
        embedder.encode_images([good, strip])
    monkeypatch.setattr(Transform, "__call__", lambda *given: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(InputError, match=r"^image 0: needs more memory than there is$"):
        embedder.encode_images([good])
