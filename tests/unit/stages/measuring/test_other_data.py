"""Runs measured on data they never saw, in the words that they know."""

import csv
import json
import re
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

from tests import photographs
from tests.levels import slow_but
from tests.unit.asked import CONTRAST, asked, contrast
from vse.config import from_dict, override, to_dict
from vse.errors import InputError
from vse.evaluation.protocol import PUBLISHED
from vse.presets import preset
from vse.report.measured import RunNumbers, keyed
from vse.stages import pipeline
from vse.stages.measuring import checks
from vse.stages.measuring.checks import foresee_measure
from vse.stages.measuring.options import MeasureOptions
from vse.stages.measuring.plan import plan_measure
from vse.stages.measuring.stage import measure, measure_run
from vse.stages.train import run_training
from vse.text.tokens import words

pytestmark = pytest.mark.seconds

CHANGES = {"data.num_val": 4, "data.num_test": 6, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 32}


@pytest.fixture(scope="module")
def runs(univse, vsepp):
    return {"univse": univse, "vsepp": vsepp}


@pytest.mark.parametrize("family", slow_but(["univse", "vsepp"], "univse"))
def test_a_run_is_measured_on_other_data(place, runs, family):
    """Which are read with the run's own words; its own data are other data too."""
    run = runs[family]
    own = measure_run(run, place, ["retrieval"])
    assert measure_run(run, place, *asked("retrieval", on=("drawing=plain",))) == own
    drawn = measure_run(run, place, *asked("retrieval", on=("drawing=second",)))
    assert drawn.keys() == own.keys()
    assert drawn["test/i2t/meanr"] != own["test/i2t/meanr"]
    fewer = measure_run(run, place, *asked("retrieval", on=("num_test=3", "seed=5"), splits=("test", "val")))
    assert fewer["test/i2t/meanr"] != own["test/i2t/meanr"]
    assert fewer.keys() == own.keys() | {key.replace("test/", "val/") for key in own}


def write_release(folder, draw):
    """Arrays in the form of VSE++'s and SCAN's releases of COCO: test images and, beside them, more."""
    for stem, images in (("train", 12), ("dev", 6), ("test", 4), ("testall", 8)):
        np.save(folder / f"{stem}_ims.npy", draw.standard_normal((images, 8)).astype(np.float32))
        (folder / f"{stem}_caps.txt").write_text("".join(f"a dog {k}\n" for k in range(2 * images)))


def test_a_protocol_for_which_a_release_has_further_images(tmp_path, place, monkeypatch):
    monkeypatch.setitem(PUBLISHED, "coco_5k", replace(PUBLISHED["coco_5k"], num_images=8))
    write_release(tmp_path, np.random.default_rng(0))
    source = {"data": "precomp", "data.root": str(tmp_path), "features.backbone": "arrays", "train.epochs": 1}
    config = override(preset("vsepp_tiny"), source)
    run, options = run_training(config, place).folder, asked("retrieval", protocol="coco_5k")
    told = "protocol COCO 5K: needs 8 images, split test/coco_5k has 4; "
    advice = "train with data.test=testall, or measure with measure.on.test=testall"
    with pytest.raises(InputError, match=f"^{re.escape(told + advice)}$"):
        measure_run(run, place, *options)
    found = measure_run(run, place, *asked("retrieval", protocol="coco_5k", on=("test=testall",)))
    trained = run_training(override(config, {"data.test": "testall"}), place).folder
    assert found == measure_run(trained, place, *options)
    assert found == measure_run(
        run, place, *asked("retrieval", protocol="coco_5k", on=(f"path={tmp_path}", "test=testall"))
    )
    with pytest.raises(InputError, match=f"^{re.escape(f'{told}measure with measure.on.test=testall')}$"):
        measure_run(run, place, *asked("retrieval", protocol="coco_5k", on=(f"path={tmp_path}",)))
    (tmp_path / "testall_ims.npy").unlink()
    with pytest.raises(InputError, match=f"^{re.escape(told.removesuffix('; '))}$"):
        measure_run(run, place, *options)


@pytest.mark.parametrize(
    ("on", "said"),
    [
        (("path=/nowhere",), "measure.on: /nowhere: no such file or folder"),
        (
            ("source=flickr30k",),
            "measure.on.source=flickr30k: unknown; did you mean flickr30k_entities?",
        ),
        (("drwaing=plain",), "measure.on.drwaing: no such key; did you mean measure.on.drawing?"),
        (("drawing=third",), "measure.on.drawing=third: expected one of plain, second"),
        (("source=karpathy", "root=/nowhere"), "measure.on.root=/nowhere: no such folder"),
        (("source=precomp", "root=/nowhere"), "measure.on: holds features and no images"),
        (("path=/", "source=scenes"), "measure.on: /: scenes are rendered, not read; leave the path out"),
    ],
)
def test_other_data_that_cannot_be_measured(place, runs, monkeypatch, on, said):
    monkeypatch.setattr("vse.stages.pipeline.prepare", lambda *a, **k: pytest.fail("made features first"))
    with pytest.raises(InputError, match=f"^{re.escape(said)}"):
        measure_run(runs["vsepp"], place, *asked(on=on))


def write_table(folder, rows):
    """Captions of rows of an array: (caption, split), eight of each."""
    lines = ["image,caption,split"]
    for number, (caption, split) in enumerate(each for each in rows for _ in range(8)):
        lines.append(f"more.npy#{number},{caption},{split}")
    (folder / "more.csv").write_text("\n".join(lines) + "\n")
    np.save(folder / "more.npy", np.random.default_rng(1).standard_normal((len(lines) - 1, 8)).astype(np.float32))


def words_put_in(run, place, options):
    """All words of adversaries that are in no caption of the split, with the metrics."""
    plan = plan_measure([run], place, *options)
    (part,) = plan.parts
    own = {word for caption in part.captions for word in words(caption.text)}
    sets = [one for made in plan.adversaries[part.name].values() for one in made]
    assert {one.words for one in sets} == {"shared"}
    texts = [text for one in sets for each in one.texts.values() for text in each]
    assert texts
    found = {word for text in texts for word in words(text)}
    return found, own, measure_run(run, place, *options)


def test_other_data_are_attacked_with_words_of_their_own(tmp_path, place):
    """Of their training split if there is one, else of the measured split; never of the run's captions."""
    write_release(tmp_path, np.random.default_rng(0))
    source = {"data": "precomp", "data.root": str(tmp_path), "features.backbone": "arrays", "train.epochs": 1}
    run = run_training(override(preset("vsepp_tiny"), source), place).folder
    table = tmp_path / "table"
    table.mkdir()
    tests = [("A zebra stands near a lake.", "test"), ("A horse sleeps in a barn.", "test")]
    write_table(table, [*tests, ("A giraffe walks under a bridge.", "train")])
    options = asked(
        "retrieval",
        "attacks",
        *CONTRAST,
        on=(f"path={table}/more.csv",),
        attacks__words=("shared", "disjoint"),
        **contrast("shared"),
    )
    put_in, own, found = words_put_in(run, place, options)
    assert put_in - own
    assert put_in - own <= {"giraffe", "walks", "under", "a", "bridge", "and"}
    assert found["test/attack_object/unknown_words"] > 50
    assert "test/attack_object/pair_accuracy" in found
    assert not any("disjoint" in key for key in found)
    write_table(table, tests)
    put_in, own, _ = words_put_in(run, place, (["retrieval", "attacks"], options[1]))
    assert put_in <= own | {"an", "and"}


def test_numbers_on_other_data_are_none_of_the_run(place, runs):
    run, options = runs["vsepp"], asked(on=("drawing=second",), attacks__words=("shared",))
    before, found = RunNumbers(run).metrics, measure([run], run.child("evaluation"), place, *options)
    assert any("attack_object" in key for key in found.metrics)
    assert RunNumbers(run).metrics == before
    assert all(key.label == "on-second/test" for key in keyed(found, to_dict(options[1])))


def test_keys_of_other_data_lie_below_its_path():
    options = override(MeasureOptions(), {"on.limit": "3", "on": "a,b/c", "on.root": "x=y"})
    assert options.on == ("limit=3", "path=a,b/c", "root=x=y")
    assert override(options, {"on.limit": "4"}).on == ("limit=4", "path=a,b/c", "root=x=y")
    assert from_dict(MeasureOptions(), to_dict(options)) == options
    assert to_dict(MeasureOptions())["on"] == []


def test_training_images_are_recognised_by_their_files(tmp_path, place, caplog, monkeypatch):
    """Also if other data name them by absolute paths below a folder that is named in another way."""
    photographs.write(tmp_path / "tiny")
    keys = {"root": str(tmp_path / "tiny"), "file": "captions.csv"}
    changes = {f"data.{key}": value for key, value in keys.items()} | {"train.epochs": 1}
    small = {"features.backbone": "small", "model.dim": 16}
    run = run_training(override(preset("vsepp_tiny"), {"data": "table", **changes, **small}), place).folder
    rows = list(csv.DictReader((tmp_path / "tiny/captions.csv").read_text().splitlines()))
    with (tmp_path / "tiny/absolute.csv").open("w") as out:
        writer = csv.DictWriter(out, ["image", "caption"], extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**row, "image": str(tmp_path / "tiny" / row["image"])} for row in rows)
    monkeypatch.chdir(tmp_path)
    names, options = asked("retrieval", on=("path=tiny/absolute.csv", "val=0.1", "test=0.8"))
    caplog.clear()
    list(foresee_measure([run], place, names, options))
    assert [text for text in caplog.messages if " are training images of the run; " in text]
    (tmp_path / "tiny").rename(tmp_path / "moved")
    caplog.clear()
    names, options = asked("retrieval", on=(f"root={tmp_path}/moved",))
    assert list(foresee_measure([run], place, names, options))
    assert not [text for text in caplog.messages if " are training images " in text]


def folded(tmp_path):
    """A small run on the second of four folds of a few photographs, which are written."""
    photographs.write(tmp_path / "tiny")
    keys = {"root": str(tmp_path / "tiny"), "file": "captions.csv", "folds": 4, "held_out": "test", "fold": 1}
    changes = {f"data.{key}": value for key, value in keys.items()} | {"train.epochs": 1}
    small = {"features.backbone": "small", "model.dim": 16}
    return override(preset("vsepp_tiny"), {"data": "table", **changes, **small})


def test_images_that_a_run_was_trained_on_are_counted(tmp_path, place, caplog):
    """Those of another fold of the same photographs."""
    run = run_training(folded(tmp_path), place).folder
    for fold, line in (("1", []), ("0", ["measure.on: 4 of 4 images of split test are training images of the run; "])):
        on = (f"path={tmp_path}/tiny/captions.csv", "folds=4", "held_out=test", f"fold={fold}")
        names, options = asked("retrieval", on=on)
        caplog.clear()
        list(foresee_measure([run], place, names, options))
        found = [text for text in caplog.messages if text.startswith("measure.on")]
        assert [text.startswith(start) for text, start in zip(found, line, strict=True)] == [True] * len(line)


def test_pairs_of_other_data_on_training_images_are_counted(tmp_path, place, caplog, monkeypatch):
    """Pairs of all splits count, whichever splits are measured. Training images are looked for once."""
    looked_for = Mock(side_effect=checks.seen_in_training)
    monkeypatch.setattr(checks, "seen_in_training", looked_for)
    config = folded(tmp_path)
    run, records = run_training(config, place).folder, pipeline.describe(config, place)
    images = [*records.split("train").images[:3], records.split("test").images[0]]
    rows = [{"filename": each.uri, "caption": "a dog", "negative_caption": "a cat"} for each in images]
    (tmp_path / "pairs.json").write_text(json.dumps(rows))
    on = (f"path={tmp_path}/tiny/captions.csv", "folds=4", "held_out=test", "fold=1")
    names, options = asked("caption_pairs", on=on, caption_pairs__files=(str(tmp_path / "pairs.json"),))
    caplog.clear()
    (found,) = (value for name, value in measure_run(run, place, names, options).items() if "training_images" in name)
    assert found == 75.0
    looked_for.assert_called_once()
    assert "3 of 4 measured pairs have an image that the run was trained on" in caplog.text
