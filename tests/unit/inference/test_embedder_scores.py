"""Scores of raw inputs are those by which evaluation ranks, whatever the family, block by block or all at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from tests.levels import slow_but
from tests.unit.asked import asked
from tests.unit.inference.test_embedder import png, train
from vse.data.images import open_image
from vse.errors import InputError
from vse.evaluation.metrics import RetrievalCounter
from vse.evaluation.retrieval import count_retrieval
from vse.inference import embedder as embedder_module
from vse.inference.embedder import Embedder
from vse.stages import pipeline
from vse.stages.measuring.members import Member, Members
from vse.stages.measuring.stage import measure_run
from vse.stages.train import Result
from vse.stages.trained import encode_split, load_run
from vse.workspace.layout import Workspace

TEXTS = ["a red ball is left of two dogs", "a zebra", "", "two white cats on a table near a dog"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("scores") / "workspace"))


FAMILIES: dict[str, Callable[[Workspace], Result]] = {
    "vsepp": lambda place: train(place, "vsepp_tiny"),
    "order": lambda place: train(place, "vsepp_tiny", model="order", model__dim=32),
    "univse": lambda place: train(place, "univse_tiny"),
    "univse, learned alpha": lambda place: train(place, "univse_tiny", model__learn_alpha=True),
    "scan": lambda place: train(place, "vsepp_tiny", model="scan", model__dim=32),
    "scan, both directions": lambda place: train(
        place, "vsepp_tiny", model="scan", model__dim=32, model__direction="both"
    ),
    "jwae+scan": lambda place: train(place, "jwae_mh_scan_t2i_small", model__hidden_dim=32),
    "sentence vectors": lambda place: train(
        place, "vsepp_tiny", model="cca", model__dim=8, text__word_vectors="captions", text__sentence="mean"
    ),
}


def scores_of_evaluation(place: Workspace, result: Result, split: str) -> np.ndarray:
    """Every block that evaluation counts ranks in, put together."""
    trained = load_run(result.folder)
    members = Members(
        (Member(result.run, trained, pipeline.prepare(trained.config, place), trained.config, {}),), place
    )
    codes = members.encode(members.split(split))
    found = torch.full((len(next(iter(codes.images.values()))), len(codes.caption_to_image)), torch.nan)
    add = RetrievalCounter.add

    def spy(self: RetrievalCounter, scores: torch.Tensor, rows: slice, cols: slice) -> None:
        found[rows, cols] = scores
        add(self, scores, rows, cols)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RetrievalCounter, "add", spy)
        count_retrieval(members.model, codes.images, codes.captions, codes.caption_to_image.numpy())
    assert not found.isnan().any()
    return found.numpy()


@pytest.mark.seconds
@pytest.mark.parametrize("family", slow_but(FAMILIES, "univse", "scan", "sentence vectors"))
def test_scores_are_those_of_evaluation(place: Workspace, family: str) -> None:
    result = FAMILIES[family](place)
    embedder, trained = Embedder.of_run(place, result.run), load_run(result.folder)
    material = pipeline.prepare(trained.config, place)
    part = material.records.split("test")
    assert len(set(np.bincount(part.caption_to_image))) > 1  # ragged
    texts = [caption.text for caption in part.captions]
    features = material.features.array(trained.family.inputs.image, tuple(image.id for image in part.images))
    scores = embedder.scores_of([features], embedder.read(texts))
    assert scores.shape == (len(part.images), len(texts))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, scores_of_evaluation(place, result, "test"), rtol=1e-5, atol=1e-6)
    pairs = encode_split(trained, material, "test")  # each image with each caption alone
    for row, column in ((0, 0), (1, len(texts) - 1), (len(part.images) - 1, 3)):
        one, other = (
            {key: value[k : k + 1] for key, value in side.items()}
            for k, side in ((row, pairs.images), (column, pairs.captions))
        )
        with torch.inference_mode():
            np.testing.assert_allclose(scores[row, column], trained.family.scores(one, other).item(), atol=1e-5)
    known = embedder.scores_of([features[:2], features[2:]], embedder.read(texts, material.parses))
    np.testing.assert_allclose(known, scores, rtol=1e-5, atol=1e-6)
    raw = embedder.scores([image.uri for image in part.images], texts)
    np.testing.assert_allclose(raw, scores, atol=5e-3 * np.abs(scores).max())  # rounded features


@pytest.mark.seconds
def test_ranks_by_scores_are_the_recalls_of_evaluation(place: Workspace) -> None:
    result = FAMILIES["scan"](place)
    part = pipeline.prepare(load_run(result.folder).config, place).records.split("test")
    scores = Embedder.of_run(place, result.run).scores(
        [image.uri for image in part.images], [caption.text for caption in part.captions]
    )
    hits = scores.argmax(0) == part.caption_to_image
    metrics = measure_run(result.folder, place, *asked("retrieval", splits=("test",)))
    assert metrics["test/t2i/r1"] == pytest.approx(100 * hits.mean())


@pytest.mark.seconds
def test_files_bytes_and_addresses_give_the_same(place: Workspace, tmp_path: Path) -> None:
    embedder = Embedder.of_run(place, FAMILIES["univse"](place).run)
    uri = "scene:seed=3,split=test,index=0,drawing=plain,size=112"
    (tmp_path / "a.png").write_bytes(png(open_image(uri)))
    scores = embedder.scores([uri, tmp_path / "a.png", str(tmp_path / "a.png"), png(open_image(uri))], TEXTS)
    np.testing.assert_allclose(scores, scores[:1].repeat(4, 0), atol=1e-6)
    np.testing.assert_allclose(embedder.scores([open_image(uri)], TEXTS), scores[:1], atol=1e-6)
    by_uri, by_image = (embedder.encode_images([each]) for each in (uri, open_image(uri)))
    np.testing.assert_array_equal(by_uri, by_image)
    np.testing.assert_allclose(embedder.scores([uri], TEXTS[::-1])[:, ::-1], scores[:1], atol=1e-6)
    (rooted,) = embedder.features(["a.png"], root=str(tmp_path))
    np.testing.assert_allclose(embedder.scores_of([rooted], embedder.read(TEXTS)), scores[:1], atol=1e-6)


@pytest.mark.seconds
@pytest.mark.parametrize("family", ["vsepp", "univse", "scan"])
def test_no_pictures_and_no_sentences(place: Workspace, family: str) -> None:
    embedder = Embedder.of_run(place, FAMILIES[family](place).run)
    picture = png(Image.new("RGB", (8, 8)))
    assert embedder.scores([], TEXTS).shape == (0, 4)
    assert embedder.scores([picture] * 3, []).shape == (3, 0)
    assert embedder.scores([], []).shape == (0, 0)


def test_many_pictures_are_scored_a_few_at_a_time(place: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = Embedder.of_run(place, FAMILIES["scan"](place).run)
    uris = [f"scene:seed=3,split=test,index={k},drawing=plain,size=112" for k in range(7)]
    together, seen, encode = embedder.scores(uris, TEXTS), list[int](), embedder_module.encode_images
    monkeypatch.setattr(embedder_module, "IMAGES_AT_ONCE", 3)
    monkeypatch.setattr(embedder._forward, "batch", 5)

    def spy(family: Any, features: np.ndarray) -> Any:
        seen.append(len(features))
        return encode(family, features)

    monkeypatch.setattr(embedder_module, "encode_images", spy)
    np.testing.assert_allclose(embedder.scores(uris, TEXTS), together, atol=1e-5)
    assert seen == [3, 2, 2]


@pytest.mark.seconds
def test_a_weight_of_the_sentence_can_be_asked_for(place: Workspace) -> None:
    run = FAMILIES["univse"](place).run
    uris = [f"scene:seed=3,split=test,index={k},drawing=plain,size=112" for k in range(3)]
    embedder = Embedder.of_run(place, run)
    config: Any = load_run(place.run(run)).config.model
    assert embedder.alpha == pytest.approx(config.alpha)
    for alpha in (0.0, 0.3, 1.0):
        other = Embedder.of_run(place, run, {"model.alpha": alpha})
        np.testing.assert_allclose(embedder.scores(uris, TEXTS, alpha), other.scores(uris, TEXTS), atol=1e-6)
        vectors = other.encode_images(uris) @ other.encode_captions(TEXTS).T
        np.testing.assert_allclose(embedder.scores(uris, TEXTS, alpha), vectors, atol=1e-5)
    with pytest.raises(InputError, match=r"^alpha=1\.5: must be between 0 and 1$"):
        embedder.scores(uris, TEXTS, 1.5)
    plain = Embedder.of_run(place, FAMILIES["vsepp"](place).run)
    assert plain.alpha is None
    with pytest.raises(InputError, match=r"^alpha=0\.5: family vsepp of .* has none; leave it out$"):
        plain.scores(uris, TEXTS, 0.5)


def test_pictures_that_cannot_be_read_are_left_out_where_that_is_asked_for(place: Workspace, tmp_path: Path) -> None:
    embedder = Embedder.of_run(place, FAMILIES["vsepp"](place).run)
    good = png(Image.linear_gradient("L").convert("RGB"))
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside.png").write_bytes(good)
    (tmp_path / "inside" / "link.png").symlink_to(tmp_path / "outside.png")
    pictures = [good, b"no picture", "absent.png", "link.png", good]
    rejects: dict[int, str] = {}
    batches = list(embedder.features(pictures, str(tmp_path / "inside"), rejects))
    assert [len(batch) for batch in batches] == [2]
    assert sorted(rejects) == [1, 2, 3]
    assert rejects[1] == "not an image of a known format"
    assert rejects[2] == "file is missing"
    assert "leaves its root" in rejects[3]
    assert list(embedder.features([b"", b"x"], rejects={})) == []
    with pytest.raises(InputError, match=r"^image 1: not an image of a known format$"):
        embedder.scores(pictures, TEXTS)


def test_words_that_say_nothing_to_a_run(place: Workspace) -> None:
    for family in ("univse", "sentence vectors"):
        embedder = Embedder.of_run(place, FAMILIES[family](place).run)
        assert embedder.unknown_words("A Zebra is  a zebra in Xanadu") == ("zebra", "xanadu")
        assert embedder.unknown_words("") == ()


def test_a_run_opens_by_its_name_with_all_that_it_needs(place: Workspace) -> None:
    run = FAMILIES["sentence vectors"](place).run
    assert Embedder.of_run(place, run).encode_captions(TEXTS).shape == (4, 8)
    with pytest.raises(InputError, match=r"^run=absent: no such run; there are "):
        Embedder.of_run(place, "absent")
    with pytest.raises(InputError, match=r"^run: name one of "):
        Embedder.of_run(place, "")
