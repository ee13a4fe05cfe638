"""Stages run if their output is missing and only then; folds share them; what was rejected leaves the records."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from vse.cluster.runtime import Config as RayConfig
from vse.config import override
from vse.data.records import Caption, Image, Records
from vse.errors import InputError
from vse.features.store import FeatureStore
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.describe import describe, without
from vse.stages.extract import ExtractionConfig, extract, features_fingerprint
from vse.stages.local_inputs import check_training, records_to_train
from vse.text.tokens import words
from vse.workspace.layout import Workspace, dataset_name

SMALL = {"data.num_train": 8, "data.num_val": 4, "data.num_test": 4, "data.num_shifted": 2}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Workspace.open(str(tmp_path_factory.mktemp("pipeline")))


def tiny(name="univse_tiny", **changes):
    return override(preset(name), SMALL | {key.replace("__", "."): value for key, value in changes.items()})


def dry_run(config):
    return list(check_training(config, records_to_train(config), "nowhere", RayConfig()))


def files(workspace: Workspace) -> dict[str, tuple[int, int]]:
    """Every file of a workspace but its cache, with inode and time: a file written again has others."""
    found = {}
    for folder, _, names in os.walk(workspace.root.local()):
        for name in names:
            path = Path(folder, name)
            if "cache" not in path.relative_to(workspace.root.local()).parts:
                found[str(path)] = (path.stat().st_ino, path.stat().st_mtime_ns)
    return found


@pytest.fixture(scope="module")
def first(place):
    return pipeline.prepare(tiny(), place)


def test_stages_run_once(place, first, monkeypatch):
    before = files(place)
    assert {Path(path).relative_to(place.root.local()).parts[0] for path in before} == {
        "datasets",
        "features",
        "language",
    }
    monkeypatch.setattr("vse.stages.extract._run", lambda *a: pytest.fail("extracted again"))
    monkeypatch.setattr("vse.stages.parse._run", lambda *a: pytest.fail("parsed again"))
    again = pipeline.prepare(tiny(), place)
    assert files(place) == before
    assert again.fingerprints == first.fingerprints
    assert again.records.images == first.records.images
    assert set(first.fingerprints) == {"records", "features", "language"}


def test_what_was_kept_is_what_the_source_says(place, first):
    folder = place.dataset(first.records)
    loaded = Records.load(folder)
    assert (loaded.images, loaded.captions) == (first.records.images, first.records.captions)
    for caption in first.records.captions:
        assert "".join(t.text for t in first.parses.parse(caption.text)) == caption.text.replace(" ", "")
    ids = tuple(image.id for image in first.records.images)
    assert len(first.features.array("map", ids)) == len(ids)
    assert first.features.channels("map") == first.features.array("map", ids[:1]).shape[-1]


def test_whoever_takes_features_of_an_edited_backbone_is_told(place, first, monkeypatch, caplog):
    monkeypatch.setattr("vse.stages.extract.code_of", lambda backbone: "0ther000")
    with caplog.at_level("WARNING", logger="vse"):
        pipeline.prepare(tiny(), place)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("warning: features were made with other code of vse/features/small_backbone.py; to make")


def test_settings_of_learning_make_no_stage_run(place, first, monkeypatch):
    monkeypatch.setattr("vse.stages.extract._run", lambda *a: pytest.fail("extracted again"))
    monkeypatch.setattr("vse.stages.parse._run", lambda *a: pytest.fail("parsed again"))
    changed = pipeline.prepare(tiny(seed=3, optim__lr=0.5, model__dim=8, objective__eta_c=0.1), place)
    assert changed.fingerprints == first.fingerprints


def test_folds_share_features_and_parses(place, first, monkeypatch):
    monkeypatch.setattr("vse.stages.extract._run", lambda *a: pytest.fail("extracted again"))
    monkeypatch.setattr("vse.stages.parse._run", lambda *a: pytest.fail("parsed again"))
    folds = [pipeline.prepare(tiny(data__folds=3, data__fold=k), place) for k in range(3)]
    for key in ("features", "language"):
        assert {f.fingerprints[key] for f in folds} == {first.fingerprints[key]}
    assert len({f.fingerprints["records"] for f in folds} | {first.fingerprints["records"]}) == 4
    held_out = [image.id for f in folds for image in f.records.split("val").images]
    assert sorted(held_out) == sorted(i.id for s in ("train", "val") for i in first.records.split(s).images)


class _AskedError(Exception):
    """Instead of a Ray."""


@pytest.mark.seconds
def test_stages_use_the_ray_that_the_job_asks_for(tmp_path, monkeypatch):
    """Options such as ray.address and ray.gpus reach extraction and, where there is a cluster to join, parsing."""
    asked = []

    def running_ray(config):
        asked.append(config)
        raise _AskedError

    for module in ("stages.extract", "cluster.runtime"):
        monkeypatch.setattr(f"vse.{module}.running_ray", running_ray)
    monkeypatch.setattr("vse.stages.extract._run", lambda work, todo, cluster: cluster())
    far, place = RayConfig(address="10.0.0.4:6379", ship_code=True), Workspace.open(str(tmp_path))
    with pytest.raises(_AskedError):
        pipeline.prepare(tiny(), place, ray=far)
    monkeypatch.undo()
    pipeline.prepare(tiny("vsepp_tiny"), place)
    monkeypatch.setattr("vse.cluster.runtime.running_ray", running_ray)
    monkeypatch.setattr("vse.stages.parse.WORTH_RAY", 1)
    with pytest.raises(_AskedError):
        pipeline.prepare(tiny(), place, ray=far)
    assert asked == [far, far]
    pipeline.prepare(tiny(), place, ray=RayConfig(address="local"))  # no Ray is started to parse
    assert len(asked) == 2


def test_other_images_are_extracted(place, first):
    other = pipeline.prepare(tiny(data__seed=5), place)
    assert all(other.fingerprints[key] != first.fingerprints[key] for key in ("records", "features"))


def test_a_family_without_components_needs_no_parser(tmp_path, monkeypatch):
    monkeypatch.setattr("vse.stages.parse.parse_captions", lambda *a: pytest.fail("parsed"))
    place = Workspace.open(str(tmp_path))
    material = pipeline.prepare(tiny("vsepp_tiny"), place)
    assert material.parses is None
    assert set(material.fingerprints) == {"records", "features"}
    assert not (tmp_path / "language").exists()


def test_parses_that_only_attacks_read_are_no_part_of_a_run(place):
    plain, parsed = (pipeline.prepare(tiny("vsepp_tiny"), place, parsed=flag) for flag in (False, True))
    assert parsed.parses is not None
    assert plain.fingerprints == parsed.fingerprints


def test_sentence_vectors_of_the_captions_themselves(place, tmp_path):
    """No file needed: word vectors of the training captions, and their mean as a caption's vector."""
    config = tiny(text__word_vectors="captions", text__sentence="mean")
    records = describe(config, place)
    prints: dict[str, str] = {}
    vectors = pipeline._word_vectors(config, place, records, prints)
    assert prints["word_vectors"]
    assert vectors is not None
    sentences = pipeline._sentences(config, place, records, vectors)
    texts = [c.text for c in records.split("test").captions][:5]
    found = sentences.vectors(texts).of(np.arange(5)).numpy()
    assert found.shape == (5, sentences.dim)
    rows = vectors(tuple(dict.fromkeys(w for text in texts for w in words(text))))
    for text, row in zip(texts, found, strict=True):
        known = [rows.vectors[rows.row[w]] for w in words(text) if w in rows.row]
        np.testing.assert_allclose(row, np.mean(known, axis=0), atol=2e-3)  # kept in half precision


def test_a_file_knows_words_that_only_test_captions_have_and_the_fit_does_not_ask_it(place, tmp_path):
    """Two files that differ in a word of the test captions alone: the same mixture, other vectors of that caption."""
    records = describe(tiny(), place)
    train = [c.text for c in records.split("train").captions]
    unseen = next(c.id for c in records.captions if c.image == records.split("test").images[0].id)
    captions = (dataclasses.replace(c, text="a red zeppelin") if c.id == unseen else c for c in records.captions)
    records = dataclasses.replace(records, captions=tuple(captions))
    known = sorted({word for text in train for word in words(text)})
    draw, fitted, codes = np.random.default_rng(0), [], []
    rows = {word: draw.normal(size=4) for word in known}
    for number in (1.0, 2.0):
        lines = [f"{w} {' '.join(f'{x:.4f}' for x in v)}" for w, v in {**rows, "zeppelin": [number] * 4}.items()]
        (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
        changes = {"text__sentence": "gmm", "text__sentence.num_components": 2, "text__sentence.dims": 3}
        config = tiny(text__word_vectors=str(tmp_path / "vectors.txt"), text__min_count=4, **changes)
        sentences = pipeline._sentences(config, place, records, pipeline._word_vectors(config, place, records, {}))
        fitted.append(sentences.features)
        codes.append(sentences.vectors(["a red zeppelin", "a red ball"]).of(np.arange(2)).numpy())
    assert set(words("a red zeppelin")) <= set(fitted[0].words)
    np.testing.assert_array_equal(fitted[0].mixture.location, fitted[1].mixture.location)
    np.testing.assert_array_equal(fitted[0].pca.components, fitted[1].pca.components)
    np.testing.assert_array_equal(codes[0][1], codes[1][1])
    assert np.abs(codes[0][0] - codes[1][0]).max() > 0.01


def test_word_vectors_are_part_of_a_run_by_content(place, first, tmp_path):
    prints = []
    for text in ("red 1 2\n", "red 1 3\n"):
        (tmp_path / "vectors.txt").write_text(text)
        prints.append(
            dict(pipeline.prepare(tiny(text__word_vectors=str(tmp_path / "vectors.txt")), place).fingerprints)
        )
    assert prints[0]["word_vectors"] != prints[1]["word_vectors"]
    assert {k: v for k, v in prints[0].items() if k != "word_vectors"} == dict(first.fingerprints)
    with pytest.raises(InputError, match="absent: no such file of word vectors"):
        pipeline.prepare(tiny(text__word_vectors="absent"), place)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"text__word_vectors": "absent.vec"}, "absent.vec: no such file of word vectors"),
        ({"features__backbone__weights": "absent.pt"}, "features.backbone.weights=absent.pt: no such file"),
        (
            {"data__num_val": 0},
            "scenes: no split 'val'; it has train, test, shifted; .* or let data.folds=5 take a",
        ),
        ({"data__num_train": 0}, "scenes: no split 'train'; it has val, test, shifted; training needs train and val"),
    ],
)
def test_what_is_missing_is_told_before_features_and_by_a_dry_run_alike(tmp_path, monkeypatch, changes, message):
    monkeypatch.setattr("vse.stages.extract.extract", lambda *a, **k: pytest.fail("extracted first"))
    config, told = tiny(**changes), set()
    for ask in (
        lambda: pipeline.prepare(config, Workspace.open(str(tmp_path))),
        lambda: dry_run(config),
    ):
        with pytest.raises(InputError, match=message) as caught:
            ask()
        told.add(str(caught.value))
    assert len(told) == 1


def test_vectors_of_sentences_are_missed_before_features_and_by_a_dry_run_alike(tmp_path, monkeypatch):
    monkeypatch.setattr("vse.stages.extract.extract", lambda *a, **k: pytest.fail("extracted first"))
    config = tiny("cca_scenes", text__word_vectors="")
    for ask in (
        lambda: pipeline.prepare(config, Workspace.open(str(tmp_path))),
        lambda: dry_run(config),
    ):
        with pytest.raises(InputError, match=r"^text\.word_vectors: vectors of captions are made of word vectors"):
            ask()


def test_a_dry_run_says_what_it_saw_and_what_not():
    told = dry_run(tiny("vsepp_tiny"))
    assert told[0].startswith("data set scenes: train 8 images with ")
    assert told[-1].startswith("not checked: contents of image files")


def pictures(folder, *names):
    for name in names:
        PIL.Image.new("RGB", (4, 4)).save(folder / name)


def test_a_dry_run_says_that_validation_captions_are_unfamiliar(tmp_path):
    pictures(tmp_path, "a.jpg", "b.jpg")
    (tmp_path / "mine.csv").write_text("image,caption,split\na.jpg,A dog runs,train\nb.jpg,Ein Hund,val\n")
    table = {"data": "table", "data.file": str(tmp_path / "mine.csv")}
    (line,) = [line for line in dry_run(override(preset("vsepp_tiny"), table)) if "Hund" in line.title()]
    assert line.startswith("mine: 2 of 2 words of the validation captions (100 %) are not in the vocabulary")


def test_what_a_source_left_out_is_told_once(tmp_path, caplog):
    rows = ["a.jpg,A dog,train", "a.jpg,,train", "b.jpg, ,train", "c.jpg,A cat,val"]
    pictures(tmp_path, "a.jpg", "b.jpg", "c.jpg")
    (tmp_path / "mine.csv").write_text("\n".join(["image,caption,split", *rows]))
    config = override(preset("vsepp_tiny"), {"data": "table", "data.file": str(tmp_path / "mine.csv")})
    place = Workspace.open(str(tmp_path / "workspace"))
    with caplog.at_level("INFO", logger="vse"):
        records = describe(config, place)
        assert describe(config, place).images == records.images
        describe(override(config, {"data": "scenes", **SMALL}), place)
    _, line = [record.getMessage() for record in caplog.records]  # the first says how the table was read
    told, _, place_told = line.partition("; each is listed in ")
    reasons = "2 x caption without a word, 1 x image without a caption"
    assert told == f"data set 'mine': left out 3 images or captions ({reasons})"
    listed = json.loads(Path(place_told.removesuffix(" under source.rejects")).read_text())["source"]["rejects"]
    assert [name for name, _ in listed] == ["a.jpg#1", "b.jpg#0", "b.jpg"]
    assert told in dry_run(config)


def ready_made(folder, broken, **changes):
    """Arrays of 40 training and 4 validation images, one caption each; `broken` rows of the two are not finite."""
    folder.mkdir(exist_ok=True)
    for stem, rows in (("train", 40), ("dev", 4)):
        values = np.random.default_rng(rows).standard_normal((rows, 8)).astype(np.float32)
        values[broken.get(stem, []), 0] = np.nan
        np.save(folder / f"{stem}_ims.npy", values)
        (folder / f"{stem}_caps.txt").write_text("".join(f"a dog {k}\n" for k in range(rows)))
    source = {"data": "precomp", "data.root": str(folder), "features.backbone": "arrays"}
    return override(preset("vsepp_tiny"), source | changes)


def test_rows_without_numbers_are_told_once_as_unreadable_images_are(tmp_path, caplog):
    config, place = ready_made(tmp_path / "mine", {"train": [3, 7]}), Workspace.open(str(tmp_path / "workspace"))
    with caplog.at_level("INFO", logger="vse"):
        for _ in range(2):
            assert len(pipeline.prepare(config, place).records.images) == 42
    *arrays, line = [record.getMessage() for record in caplog.records]
    assert [array.partition(": ")[2] for array in arrays] == [f"{n} images of (channels) = (8)" for n in (40, 4)]
    told, _, listed = line.partition("; each is listed in ")
    assert told == "data set 'mine': left out 2 of 44 images (2 x pooled: not finite in half precision)"
    assert Path(listed).is_file()
    with pytest.raises(
        InputError, match=r"^of the first 40 of 44 images 4 cannot be read, more than max_rejected=0\.05 allows"
    ):
        pipeline.prepare(ready_made(tmp_path / "other", {"train": [3, 7, 8, 9]}), place)


def test_a_split_whose_images_were_all_rejected_is_told_so(tmp_path):
    config, place = ready_made(tmp_path / "mine", {"dev": [0, 1, 2, 3]}), Workspace.open(str(tmp_path / "workspace"))
    records = describe(config, place)
    digits = features_fingerprint(records, config.features.backbone, ["pooled"], str(tmp_path / "mine"))
    options, folder = ExtractionConfig(max_rejected=0.5), place.features(dataset_name(records), digits)
    store = extract(records, config.features.backbone, ["pooled"], folder, root=str(tmp_path / "mine"), options=options)
    told = r"^mine: all 4 images of split 'val' were rejected \(4 x pooled: .*\); the first is 'val_000000': pooled"
    with pytest.raises(InputError, match=told):
        pipeline.prepare(config, place)
    with pytest.raises(InputError, match=r"no split 'val'; it has train, after 4 images were rejected"):
        without(records, set(store.rejects)).split("val")


def test_a_split_whose_captions_were_all_left_out_is_told_so(tmp_path):
    rows = ["a.jpg,A dog,train", "b.jpg,,val"]
    (tmp_path / "mine.csv").write_text("\n".join(["image,caption,split", *rows]))
    config = override(preset("vsepp_tiny"), {"data": "table", "data.file": str(tmp_path / "mine.csv")})
    told = (
        r"no split 'val'; .*; data\.folds=5 would need at least 5 images of train and val, and there are only 1; "
        r"it left out 2 images or captions \(1 x caption without a word, 1 x image without a caption\)$"
    )
    with pytest.raises(InputError, match=told):
        dry_run(config)


def test_rejected_images_leave_with_their_captions(place, first, monkeypatch):
    chosen = {first.records.images[k].id: "cannot be decoded" for k in (0, 9)}
    monkeypatch.setattr(FeatureStore, "rejects", chosen)
    material = pipeline.prepare(tiny(), place)
    assert {i.id for i in first.records.images} - {i.id for i in material.records.images} == set(chosen)
    assert {c.image for c in material.records.captions} == {i.id for i in material.records.images}
    assert material.records.source["rejected"] == sorted(chosen)
    assert material.records.fingerprint != first.records.fingerprint
    split = material.records.split("train")
    assert [split.images[k].id for k in split.caption_to_image] == [c.image for c in split.captions]


def test_nothing_rejected_changes_nothing():
    records = Records("one", (Image("a", "scene:", "train"),), (Caption("c", "a", "A cat."),), {"x": 1})
    assert without(records, set()) is records
    left = without(records, {"a"})
    assert (left.images, left.captions) == ((), ())


def test_features_come_in_the_order_asked_for(first):
    ids = tuple(image.id for image in first.records.split("val").images)
    forward, backward = first.features.array("map", ids), first.features.array("map", ids[::-1])
    np.testing.assert_array_equal(forward[::-1], backward)
    assert forward.dtype == np.float16
    assert dataclasses.is_dataclass(first.features)


def test_features_that_a_family_does_not_read_are_refused_before_they_are_copied(tmp_path):
    config, place = ready_made(tmp_path / "mine", {}), Workspace.open(str(tmp_path / "workspace"))
    maps = override(config, {"model.image": "map"})
    for ask in (lambda: dry_run(maps), lambda: pipeline.prepare(maps, place)):
        with pytest.raises(InputError, match=r"train_ims\.npy: has one vector per image \(pooled\), rows of 8, but"):
            ask()
    assert not place.root.child("features").exists()
    with pytest.raises(InputError, match=r"^data=precomp: provides features and .* add features\.backbone=arrays$"):
        dry_run(override(config, {"features.backbone": "small"}))
