"""A packed run embeds without its workspace, and asks for nothing but what a table of requests can say."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from safetensors.torch import save_file

from tests.tiny_towers import transformers_folder
from tests.unit.inference.test_embedder import png, train
from vse.errors import InputError
from vse.features.small_backbone import convolutions
from vse.inference.embedder import Embedder
from vse.inference.served_model import Model, _load_pyfunc, offer_best, offer_model
from vse.stages.trained import load_run
from vse.storage.folder import Folder
from vse.tracking.models import REQUIREMENTS, requirements
from vse.workspace.journal import read
from vse.workspace.layout import Workspace

TEXTS = ["a red ball is left of two dogs", "a dog"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("served") / "workspace"))


def packed(place: Workspace, run: str, target: Path, **changes: float) -> Folder:
    """The pack of an offered run, moved out of its workspace."""
    journal = offer_model(place, run, changes={f"model.{key}": value for key, value in changes.items()}).journal
    ((name, alias), model) = next(iter(read(journal.path).models.items()))
    assert (name.split("-")[1], alias) == ("scenes", "selected")
    shutil.copytree(journal.path.parent / model["path"], target)
    assert Folder.open(target).read_manifest() is not None
    return Folder.open(target)


@pytest.mark.seconds
def test_requests_become_vectors_in_their_order(place: Workspace, tmp_path: Path) -> None:
    result = train(place, "univse_tiny")
    model = _load_pyfunc(str(packed(place, result.run, tmp_path / "pack", alpha=0.25).local()))
    image = png(Image.linear_gradient("L").convert("RGB"))
    (tmp_path / "a.png").write_bytes(image)
    table = pd.DataFrame(
        {
            "image": [b"", image, b""],
            "path": [None, float("nan"), str(tmp_path / "a.png")],
            "sentence": [TEXTS[0], "", None],
        }
    )
    found = np.array(model.predict(table)["embedding"].tolist())
    expected = Embedder(load_run(result.folder, {"model.alpha": 0.25}))
    np.testing.assert_allclose(found[0], expected.encode_captions(TEXTS[:1])[0], atol=1e-6)
    np.testing.assert_allclose(found[1:], expected.encode_images([image] * 2), atol=1e-6)
    sentences = model.predict(pd.DataFrame({"sentence": TEXTS}))
    np.testing.assert_allclose(sentences["embedding"].tolist(), expected.encode_captions(TEXTS), atol=1e-6)


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"sentence": ""}, "row 1: fill exactly one of image, path, sentence, got 0"),
        ({"sentence": "a dog", "path": "a.png"}, "got 2"),
        ({"image": "a.png"}, "row 1: image must be the bytes of a file"),
        ({"sentence": b"a dog"}, "row 1: sentence must be text"),
        ({"image": b"no picture"}, "row 1: not an image of a known format"),
        ({"path": "nowhere.png"}, "row 1, nowhere.png: file is missing"),
    ],
)
def test_a_wrong_request_names_its_row(place: Workspace, tmp_path: Path, row: dict[str, object], message: str) -> None:
    model = _load_pyfunc(str(train(place, "vsepp_tiny").checkpoint.local()))
    with pytest.raises(InputError, match=message):
        model.predict(pd.DataFrame([{"sentence": "a cat"}, row]))


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        (pd.DataFrame({"sentences": TEXTS}), "a request with columns sentences: expected a table with columns among "),
        (pd.DataFrame(TEXTS), "a request with columns 0: "),
        (pd.DataFrame(), "no known column: expected a table with columns among image, path, sentence, of which each"),
        (TEXTS, "a request that is a list: expected a table"),
        ("a dog", "a request that is a str: expected a table"),
    ],
    ids=["misspelled", "unnamed", "what MLflow leaves", "list", "text"],
)
def test_a_request_without_a_known_column_is_refused(requests: Any, message: str) -> None:
    model = Model.__new__(Model)  # refused before anything is embedded
    with pytest.raises(InputError, match=message):
        model.predict(requests)


@pytest.mark.seconds
def test_as_many_vectors_as_requests(place: Workspace) -> None:
    model = _load_pyfunc(str(train(place, "vsepp_tiny").checkpoint.local()))
    for count in (0, 1, 3):
        table = pd.DataFrame({"sentence": pd.Series(["a dog"] * count, dtype=object), "note": ["x"] * count})
        table.index = pd.Index(range(7, 7 + 2 * count, 2))  # as after a filter, so that vectors join their requests
        answer = model.predict(table)
        assert list(answer.index) == list(table.index)
        assert len(answer) == count


@pytest.mark.seconds
def test_what_lies_outside_the_checkpoint_comes_along(place: Workspace, tmp_path: Path) -> None:
    """Backbone weights in a file, a parser in a folder: both are gone when the pack is opened."""
    from vse.text.parser import _HERE, SHIPPED

    weights, parser = tmp_path / "own.safetensors", tmp_path / "own_parser"
    save_file(dict(convolutions(normalised=False).state_dict()), weights)
    shutil.copytree(_HERE / SHIPPED, parser)
    result = train(place, "univse_tiny", features__backbone__weights=str(weights), text__parser__pipeline=str(parser))
    picture = png(Image.linear_gradient("L").convert("RGB"))
    before = Embedder(load_run(result.folder))
    images, sentences = before.encode_images([picture]), before.encode_captions(TEXTS)
    pack = packed(place, result.run, tmp_path / "pack")
    weights.unlink()
    shutil.rmtree(parser)
    after = Embedder.open(pack)
    np.testing.assert_array_equal(after.encode_images([picture]), images)
    np.testing.assert_array_equal(after.encode_captions(TEXTS), sentences)


@pytest.mark.seconds
def test_a_run_that_is_still_training_is_not_offered(place: Workspace) -> None:
    result = train(place, "vsepp_tiny", seed=3)
    result.folder.delete("result.json")
    with pytest.raises(InputError, match=rf"^run={result.run}: is not trained to its end; run the command that star"):
        offer_model(place, result.run)


@pytest.mark.seconds
def test_a_backbone_in_a_folder_comes_along(place: Workspace, tmp_path: Path) -> None:
    """With the package that reads it among what a registry installs."""
    transformers_folder(tmp_path / "vit", "vit")
    chosen: dict[str, Any] = {"features__backbone": "transformers", "features__backbone__arch": str(tmp_path / "vit")}
    result = train(place, "vsepp_tiny", **chosen)
    picture = png(Image.linear_gradient("L").convert("RGB"))
    images = Embedder(load_run(result.folder)).encode_images([picture])
    pack = packed(place, result.run, tmp_path / "pack")
    shutil.rmtree(tmp_path / "vit")
    np.testing.assert_array_equal(Embedder.open(pack).encode_images([picture]), images)
    assert {each.partition("==")[0] for each in requirements(pack.local())} == {*REQUIREMENTS, "transformers"}


def test_sentence_features_come_along(place: Workspace, tmp_path: Path) -> None:
    """A family over means of word vectors: its fitted features lie in the workspace, the pack has them."""
    result = train(place, "vsepp_tiny", model="cca", model__dim=8, text__word_vectors="captions", text__sentence="mean")
    with pytest.raises(InputError, match="pack it first"):
        Embedder(load_run(result.folder)).encode_captions(TEXTS)
    vectors = Embedder.open(packed(place, result.run, tmp_path / "pack")).encode_captions(TEXTS)
    assert vectors.shape == (2, 8)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3


@pytest.mark.seconds
def test_offering_again_is_the_same_model_and_other_changes_another(place: Workspace) -> None:
    run = train(place, "univse_tiny", seed=1).run
    digests = []
    for alpha in (0.5, 0.5, 0.75):
        journal = offer_model(place, run, changes={"model.alpha": alpha}).journal
        digests.append(read(journal.path).models["univse-scenes", "selected"]["digest"])
    assert digests[0] == digests[1] != digests[2]
    assert len(place.run(run).child("served").names()) == 2
    assert read(journal.path).models["univse-scenes", "selected"]["tags"]["model.alpha"] == "0.75"
    assert read(journal.path).status == "finished"


@pytest.mark.seconds
def test_the_best_run_on_validation_is_offered(place: Workspace) -> None:
    runs = [train(place, "vsepp_tiny", train__epochs=epochs) for epochs in (1, 3)]
    best = max(runs, key=lambda result: result.metrics["val/rsum"])
    assert offer_best(place, [result.run for result in runs], name="of-two") == best.run
    assert ("of-two", "selected") in read(best.folder.local("journal.jsonl")).models


@pytest.mark.seconds
def test_what_cannot_be_served_is_said(place: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    run = train(place, "vsepp_tiny", model="scan", model__dim=32).run
    with pytest.raises(InputError, match="scan scores pairs"):
        offer_model(place, run)
    assert not place.run(run).exists("served")
    with caplog.at_level("INFO", logger="vse"):
        assert offer_best(place, [run]) is None
    assert "scan scores pairs" in caplog.text
    ordered = train(place, "vsepp_tiny", model="order", model__dim=32).run  # has vectors, but no product of two scores
    with pytest.raises(InputError, match="the score of family order is not the inner product of one vector"):
        offer_model(place, ordered)
    with pytest.raises(InputError, match=r"registry\.name=a/b"):
        offer_model(place, run, name="a/b")
    for alias in ("v1", "latest", "of 2026"):
        with pytest.raises(InputError, match=rf"registry\.alias={alias}"):
            offer_model(place, run, alias=alias)
