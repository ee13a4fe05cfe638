"""Exported vectors, read without this package: their products are the scores by which evaluation ranks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.levels import slow_but
from tests.synthetic import make_family, synthetic
from tests.unit.inference.test_embedder import train
from vse import registry
from vse.data.images import open_image
from vse.errors import InputError
from vse.evaluation.codes import encode_examples
from vse.evaluation.item_vectors import item_vectors, scores_by_product
from vse.inference import index_export
from vse.inference.index_export import IndexOptions, check_export, export_index
from vse.stages import pipeline
from vse.stages.trained import encode_split, load_run
from vse.workspace.layout import Workspace

faiss = pytest.importorskip("faiss")

DATA = synthetic(seed=3, images=5)
PRODUCTS = {
    *("cca", "clip", "cse", "embedding_network", "jwae", "relational", "univse", "vse_infinity", "vsec", "vsepp"),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("index") / "workspace"))


@pytest.fixture(scope="module")
def runs(place: Workspace) -> dict[str, str]:
    return {"vsepp": train(place, "vsepp_tiny").run, "univse": train(place, "univse_tiny").run}


def vectors_in(folder: Path, name: str) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Rows without their vectors, and the vectors."""
    table = pq.read_table(folder / f"{name}.parquet")
    vectors = np.array(table.column("vector").to_pylist(), np.float32)
    return table.drop_columns(["vector"]).to_pylist(), vectors


@pytest.mark.seconds
@pytest.mark.parametrize("name", slow_but(["vsepp", "univse"], "univse"))
def test_products_of_exported_vectors_are_the_scores_of_the_run(
    place: Workspace, runs: dict[str, str], name: str
) -> None:
    exported = export_index(place, IndexOptions(run=runs[name], split="train"))
    folder = exported.folder.local()
    (images, image_vectors), (captions, caption_vectors) = (vectors_in(folder, side) for side in ("images", "captions"))
    trained = load_run(place.run(runs[name]))
    material = pipeline.prepare(trained.config, place)
    part, codes = material.records.split("train"), encode_split(trained, material, "train")
    expected = trained.family.scores(codes.images, codes.captions).detach().numpy()
    np.testing.assert_allclose(image_vectors @ caption_vectors.T, expected, atol=1e-5)
    assert images == [{"id": image.id, "uri": image.uri} for image in part.images]
    assert captions == [{"id": c.id, "image": c.image, "text": c.text} for c in part.captions]
    flat, ivf = (faiss.read_index(str(folder / f"images-{kind}.faiss")) for kind in ("flat", "ivf"))
    best = flat.search(caption_vectors, 3)[1]
    np.testing.assert_allclose(np.take_along_axis(expected.T, best, 1), -np.sort(-expected.T, axis=1)[:, :3], atol=1e-5)
    assert ivf.ntotal == flat.ntotal == len(images)
    numbers = exported.numbers
    assert {"images/recall@1", "images/recall@10", "captions/recall@1", "captions/recall@10"} <= numbers.keys()
    assert (ivf.nlist, ivf.nprobe) == (numbers["images/lists"], numbers["images/probes"])
    facts = json.loads(pq.read_schema(folder / "images.parquet").metadata[b"vse"])
    assert facts["run"] == runs[name]
    assert facts["score"] == "inner product"


@pytest.mark.seconds
def test_a_folder_of_pictures(place: Workspace, runs: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for k in range(6):
        name = f"{k}.png" if k else "0\udce9.png"  # a byte that is no UTF-8
        open_image(f"scene:seed=7,split=test,index={k},drawing=plain,size=112").save(tmp_path / "deep" / name)
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    options = IndexOptions(run=runs["vsepp"], images=str(tmp_path), lists=2, probes=2)
    exported = export_index(place, options)
    rows, vectors = vectors_in(exported.folder.local(), "images")
    assert rows == [{"id": f"deep/{k}.png" if k else r"deep/0\udce9.png"} for k in range(6)]
    assert list(exported.rejects) == ["broken.jpg"]
    assert exported.numbers["images/recall@10"] == pytest.approx(1)
    assert "each picture among the others" in exported.lines[0]
    assert vectors.shape[0] == 6
    assert not (exported.folder.local() / "captions.parquet").exists()
    assert list(check_export(place, options)) == [f"export vectors of 7 pictures in {tmp_path}"]


@pytest.mark.seconds
def test_alpha_is_that_of_the_exported_captions(place: Workspace, runs: dict[str, str]) -> None:
    at = {}
    for alpha in (0.0, 0.5, 1.0):
        exported = export_index(place, IndexOptions(run=runs["univse"], alpha=alpha, index=()))
        at[alpha] = vectors_in(exported.folder.local(), "captions")[1]
        assert {path.suffix for path in exported.folder.local().iterdir()} == {".parquet"}
    half = at[0.0] + at[1.0]
    np.testing.assert_allclose(at[0.5], half / np.linalg.norm(half, axis=1, keepdims=True), atol=1e-6)


@pytest.mark.parametrize("name", registry.names("family"))
def test_families_of_products_are_those_that_are_exported(name: str) -> None:
    family = make_family(name, DATA.context).eval()
    by_product = scores_by_product(family)
    assert by_product or name not in PRODUCTS
    if by_product:
        codes = encode_examples(family, DATA.examples)
        images, captions = (
            item_vectors(family, codes.images, "images"),
            item_vectors(family, codes.captions, "captions"),
        )
        expected = family.scores(codes.images, codes.captions).detach()
        np.testing.assert_allclose(images @ captions.T, expected, atol=1e-6)


@pytest.mark.seconds
def test_what_cannot_be_exported_is_one_line(
    place: Workspace, runs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = train(place, "vsepp_tiny", model="scan", model__dim=32).run
    with pytest.raises(InputError, match="the score of family scan is not the inner product of one vector of an image"):
        export_index(place, IndexOptions(run=scan))
    order = train(place, "vsepp_tiny", model="order").run
    with pytest.raises(InputError, match="the score of family order is not the inner product"):
        list(check_export(place, IndexOptions(run=order)))
    for do in (export_index, lambda *given: list(check_export(*given))):
        before = sorted((place.root.local() / "exports").glob("*"))
        with pytest.raises(InputError, match=r"lists=9: images has 5 vectors; at most one list for each"):
            do(place, IndexOptions(run=runs["vsepp"], lists=9, probes=1))
        assert sorted((place.root.local() / "exports").glob("*")) == before
    with pytest.raises(InputError, match="no split"):
        export_index(place, IndexOptions(run=runs["vsepp"], split="absent"))

    def absent() -> Any:
        raise InputError("index: needs the package faiss")

    monkeypatch.setattr(index_export, "faiss_package", absent)
    with pytest.raises(InputError, match="needs the package faiss"):
        export_index(place, IndexOptions(run=runs["vsepp"]))
    assert export_index(place, IndexOptions(run=runs["vsepp"], index=())).numbers["images/vectors"] == 5
