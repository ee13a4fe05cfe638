"""Exported networks in onnxruntime against torch, over every family whose score is a product of two vectors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.synthetic import make_family, synthetic
from tests.unit.inference.test_embedder import png, train
from tests.unit.inference.test_onnx_guide import functions
from vse import registry
from vse.config import override
from vse.data.images import open_image
from vse.errors import InputError
from vse.evaluation.item_vectors import scores_by_product
from vse.inference.embedder import Embedder
from vse.inference.onnx_export import TOLERANCE, OnnxOptions, check_onnx, difference, export_onnx, onnx_bytes
from vse.inference.towers import FeaturesNetwork, SentenceNetwork, Tower, WordsNetwork
from vse.presets import preset
from vse.stages.train import run_training
from vse.stages.trained import load_run
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

DATA = synthetic(seed=3, images=5)
WORDS = {"tokens": torch.tensor([[1, 3, 3, 3, 2], [1, 3, 2, 0, 0]]), "lengths": torch.tensor([5, 3])}
FAMILIES = [name for name in registry.names("family") if scores_by_product(make_family(name, DATA.context))]
VARIANTS: list[tuple[str, dict[str, Any]]] = [("vsepp", {"image": "map"}), ("relational", {"pooling": "max"})]


def towers(family: Any) -> dict[str, Tower]:
    shape = DATA.examples.features[family.inputs.image].shape[1:]
    varying = {"features": "regions"} if family.inputs.image == "map" else {}
    images = Tower(FeaturesNetwork(family), {"features": torch.rand(2, *shape)}, varying)
    if family.inputs.sentence:
        return {"features": images, "text": Tower(SentenceNetwork(family), {"sentence": torch.rand(2, 5)})}
    return {"features": images, "text": Tower(WordsNetwork(family), WORDS, {"tokens": "time"})}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "changes"), [(name, {}) for name in FAMILIES] + VARIANTS)
def test_onnxruntime_computes_the_vectors_of_torch(name: str, changes: dict[str, Any]) -> None:
    """On batches of one row and of several, with captions of one word and of more, and several numbers of regions."""
    for side, tower in towers(make_family(name, DATA.context, double=False, **changes).eval()).items():
        assert difference(tower, onnx_bytes(tower, side)) < TOLERANCE


def test_a_difference_is_found() -> None:
    family = make_family("cca", DATA.context, double=False).eval()
    tower = towers(family)["text"]
    data = onnx_bytes(tower, "text")
    assert difference(tower, data) < TOLERANCE
    with torch.no_grad():
        family.caption_map.add_(torch.randn(family.caption_map.shape))
    assert difference(tower, data) > 100 * TOLERANCE


def test_a_layer_without_a_form_is_one_line() -> None:
    class Asks(nn.Module):
        def forward(self, features: torch.Tensor) -> torch.Tensor:
            return features if bool((features > 0).all()) else -features

    with pytest.raises(InputError, match=r"^towers=pixels: cannot be exported") as told:
        onnx_bytes(Tower(Asks(), {"features": torch.rand(2, 3)}), "pixels")
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.slow
def test_a_run_is_used_with_onnxruntime_alone(tmp_path: Path) -> None:
    """As the guide does: pixels and sentences to the vectors of the embedder."""
    place = Workspace.open(str(tmp_path / "workspace"))
    run = train(place, "vsepp_tiny").run
    options = OnnxOptions(run=run, towers=("features", "pixels", "text"))
    assert next(check_onnx(place, options)) == f"export features.onnx, pixels.onnx, text.onnx of {run}"
    exported = export_onnx(place, options)
    assert max(exported.differences.values()) < TOLERANCE
    folder = exported.folder.local()
    about, known = (json.loads((folder / name).read_text()) for name in ("towers.json", "tokens.json"))
    embedder = Embedder.of_run(place, run)
    texts = ["A red ball.", "two dogs aren't red", "an unheard word", "", "\U0001f436"]
    rows = [functions()["ids_of"](text, known) for text in texts[:-1]]
    rows.append(next(example["ids"] for example in known["examples"] if not example["text"]))
    for example in known["examples"]:
        assert example["ids"][0] == 1
    lengths = np.array([len(row) for row in rows])
    tokens = np.array([row + [0] * (lengths.max() - len(row)) for row in rows])
    given = session(folder / "text.onnx").run(None, {"tokens": tokens, "lengths": lengths})[0]
    np.testing.assert_allclose(given, embedder.encode_captions(texts), atol=1e-5)
    picture = open_image("scene:seed=7,split=test,index=1,drawing=plain,size=112")
    side = about["pixels"]["transform"]["size"]
    assert about["pixels"]["inputs"] == {"pixels": ["batch", side, side, 3]}
    (features,) = embedder.features([png(picture)])
    from_features = session(folder / "features.onnx").run(None, {"features": features.astype(np.float32)})[0]
    np.testing.assert_allclose(from_features, embedder.encode_images([png(picture)]), atol=1e-5)
    if picture.size == (side, side):
        pixels = np.asarray(picture, np.uint8)[None]
        from_pixels = session(folder / "pixels.onnx").run(None, {"pixels": pixels})[0]
        np.testing.assert_allclose(from_pixels, embedder.encode_images([png(picture)]), atol=1e-3)


@pytest.mark.slow
def test_ready_made_regions_may_be_of_any_number(tmp_path: Path) -> None:
    for stem, rows in (("train", 12), ("dev", 4), ("test", 4)):
        regions = np.random.default_rng(rows).standard_normal((rows, 5, 8)).astype(np.float32)
        np.save(tmp_path / f"{stem}_ims.npy", regions)
        (tmp_path / f"{stem}_caps.txt").write_text("".join(f"a dog {k}\n" for k in range(rows)))
    changes: dict[str, Any] = {"data": "precomp", "data.root": str(tmp_path), "features.backbone": "arrays"}
    config = override(preset("vse_infinity_small"), {**changes, "train.epochs": 1, "model.dim": 16})
    place = Workspace.open(str(tmp_path / "workspace"))
    run = run_training(config, place)
    folder = export_onnx(place, OnnxOptions(run=run.run, towers=("features",))).folder.local()
    about = json.loads((folder / "towers.json").read_text())
    assert about["features"]["inputs"] == {"features": ["batch", "regions", 8]}
    family, network = load_run(run.folder).family, session(folder / "features.onnx")
    for regions in (2, 5, 50):
        features = torch.randn(3, regions, 8)
        with torch.no_grad():
            expected = family.encode_images({"map": features})["images"]
        (vectors,) = network.run(None, {"features": features.numpy()})
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


def session(file: Path) -> Any:
    return ort.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])


@pytest.mark.slow
def test_what_cannot_be_exported_is_one_line(tmp_path: Path) -> None:
    place = Workspace.open(str(tmp_path / "workspace"))
    univse = train(place, "univse_tiny").run
    with pytest.raises(InputError, match=r"^towers=text: family univse reads components of a parser, .* alpha=1"):
        list(check_onnx(place, OnnxOptions(run=univse)))
    assert list(check_onnx(place, OnnxOptions(run=univse, alpha=1.0)))
    assert list(check_onnx(place, OnnxOptions(run=univse, towers=("features",))))
    with pytest.raises(InputError, match=r"^towers: name at least one of features, pixels, text"):
        list(check_onnx(place, OnnxOptions(run=univse, towers=())))
    scan = train(place, "vsepp_tiny", model="scan", model__dim=32).run
    with pytest.raises(InputError, match=r"the score of family scan is not the inner product"):
        list(check_onnx(place, OnnxOptions(run=scan)))
    half = train(place, "vsepp_tiny", features__precision="bfloat16").run
    with pytest.raises(InputError, match=r"towers=pixels: features\.precision=bfloat16; only float32"):
        list(check_onnx(place, OnnxOptions(run=half, towers=("pixels",))))
