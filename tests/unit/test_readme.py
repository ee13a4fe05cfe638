"""What the README says can be done, can be done."""

import os
import re
import shlex
import sys
import types
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from tests import photographs
from tests.synthetic import synthetic, with_word_vectors
from vse import presets, registry
from vse.config import flatten, override
from vse.data.karpathy import Karpathy
from vse.data.table import Table
from vse.features.torchvision_backbone import FAMILIES
from vse.objectives.ranking import Ranking
from vse.presets import catalogue
from vse.stages import pipeline
from vse.stages.measuring.options import MeasureOptions
from vse.stages.measuring.stage import measure_with_outcomes
from vse.stages.train import run_training
from vse.tracking.shipping import ship_all
from vse.training.config import OptimConfig
from vse.training.step import Stepper
from vse.workspace.layout import Workspace

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "evidence").rglob("README.md"))]
TEXTS = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXTS, re.DOTALL)


def commands() -> list[list[str]]:
    """Commands of shell blocks and of inline code that begins like one."""
    lines = [line for block in blocks("sh") for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`((?:python jobs/|make |ray submit )[^`]+)`", TEXTS)
    split = [shlex.split(part, comments=True) for line in lines for part in line.split(";")]
    return [words for words in split if words]


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = {words[1] for words in commands() if words[0] == "make"}
    assert asked
    assert asked <= targets


def test_jobs_and_files_exist():
    files = {word.rpartition("=")[2] for words in commands() for word in words if word.endswith((".py", ".yaml"))}
    named = {name for name in files if "X.py" not in name}
    assert "jobs/sweep_alpha.py" in named
    missing = [name for name in named if not (ROOT / name).is_file()]
    assert not missing


@pytest.mark.parametrize("words", [w for w in commands() if w[0] == "python" and "--preset" in w], ids=" ".join)
def test_presets_and_keys_are_valid(words):
    name = words[words.index("--preset") + 1]
    if name.isupper() or "|" in name:
        pytest.skip("a placeholder")
    changes = dict(word.split("=", 1) for word in words if "=" in word)
    config = presets.preset(name)
    ours = {
        key: value for key, value in changes.items() if key.split(".")[0] in {k.split(".")[0] for k in flatten(config)}
    }
    override(config, ours)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_pages_link_to_exists(page):
    """Files beside the page, and headings of the page they name."""
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        assert target.is_file() or (target / "README.md").is_file(), link
        if heading:
            lines = target.read_text(encoding="utf-8").splitlines()
            titles = {
                re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in lines if line[:1] == "#"
            }
            assert heading in titles, link


@pytest.mark.parametrize("given", [False, True], ids=["learned words", "given words"])
def test_the_example_family_trains(monkeypatch, given):
    """Given vectors (`text.word_vectors`) bring their own size, which is neither of the configured ones."""
    sources = blocks("python")
    assert sum(len(source.splitlines()) for source in sources) <= 60
    data = synthetic(0)
    context = with_word_vectors(data.context, 11) if given else data.context
    try:
        for name, source in zip(("vse.models.mean_words", "vse.presets.mean_words"), sources, strict=True):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
            exec(source, vars(sys.modules[name]))  # the text alone: what it uses it imports
        config = override(presets.preset("mean_words_scenes"), {"model.dim": 16})
        family = registry.component("family", "mean_words")(config.model, context)
        objective = Ranking(Ranking.Config(hinge="sum"))
        collate = data.collator(family, objective)
        stepper = Stepper(family, family, objective, OptimConfig(lr=1e-2), "float32")
        rows = torch.arange(len(data)).numpy()
        losses = [float(stepper.step(collate(rows, epoch), epoch)["sent"]) for epoch in range(30)]
        assert losses[-1] < 0.7 * losses[0]
        assert family.encode_captions(collate(rows, 0))["captions"].shape == (len(data), 16)
    finally:
        registry._COMPONENTS["family"].pop("mean_words", None)
        catalogue._PRESETS.pop("mean_words_scenes", None)


def test_the_example_data_are_read(tmp_path):
    (table,), (karpathy,) = blocks("csv"), blocks("json")
    (tmp_path / "captions.csv").write_text(table)
    records = Table(Table.Config(file="captions.csv", root=str(tmp_path))).describe()
    assert len(table.splitlines()) == 4
    assert [image.uri for image in records.images] == ["beach/001.jpg", "crossing.png"]
    assert [caption.image for caption in records.captions] == ["beach/001.jpg", "beach/001.jpg", "crossing.png"]
    (tmp_path / "dataset_mine.json").write_text(karpathy)
    records = Karpathy(Karpathy.Config(root=str(tmp_path))).describe()
    assert [(image.id, image.uri, image.split) for image in records.images] == [("42", "val2014/1.jpg", "train")]
    assert [(caption.id, caption.text) for caption in records.captions] == [("7", "A dog runs.")]


@pytest.mark.parametrize(("preset", "shape"), [("vsepp", (40, 8)), ("univse", (40, 3, 8))])
def test_rows_of_an_array_with_any_number_of_captions_are_trained_on(tmp_path, preset, shape):
    (first,) = re.findall(r"^\| feature arrays .*`--preset vsepp_flickr8k ([^`]*)`", README, re.MULTILINE)
    second, row = re.findall(
        r"^\| features of any .* line above with `([^`]*)` in .* as in `(feats\.npy#17)`", README, re.MULTILINE
    )[0]
    keys = dict(word.split("=") for word in f"{first} {second}".replace("DIR", str(tmp_path)).split())
    np.save(tmp_path / "feats.npy", np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    rows = [
        f"{row.replace('17', str(k))},{photographs.captions_of(k + j)[0]}" for k in range(40) for j in range(1 + k % 5)
    ]
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption", *rows]))
    config = override(presets.preset(f"{preset}_tiny"), {**keys, "train.epochs": 1})
    workspace = Workspace.open(str(tmp_path / "workspace"))
    assert run_training(config, workspace).metrics["val/rsum"] > 0
    records = pipeline.describe(config, workspace)
    assert len(records.captions) == len(rows) == 120
    assert set(records.split_names) == {"train", "val", "test"}


def test_the_families_of_backbones_are_listed():
    (listed,) = re.findall(r"^\*\*Backbones\*\* .*?: (.*?)\.", README, re.MULTILINE | re.DOTALL)
    assert tuple(re.findall(r"\b(?!and\b)\w+", listed)) == FAMILIES


def test_the_example_from_python_runs(tmp_path, monkeypatch):
    """On fewer images, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (40, 30), "red").save("ball.png")
    source, _ = blocks("py")
    assert '"vsepp_small"' in source
    names: dict[str, Any] = {}
    exec(source.replace("vsepp_small", "vsepp_tiny"), names)
    assert names["sentences"].shape == names["pictures"].shape == (1, names["embedder"].dim)
    assert names["scores"].shape == (1, 2)
    assert names["scores"][0, 0] == pytest.approx((names["pictures"] @ names["sentences"].T).item(), abs=1e-5)


def test_what_is_said_of_results_in_pandas_holds(tmp_path, monkeypatch):
    """The columns of outcomes and the snippet, on a run that was evaluated."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    workspace = Workspace.open("workspace")
    run = run_training(presets.preset("vsepp_tiny"), workspace).folder
    found = measure_with_outcomes([run], run.child("evaluation"), workspace, MeasureOptions(attacks=("shared",)))
    ship_all("workspace")
    section = README.split("### Results in pandas, metrics of your own")[1].split("\n## ")[0]
    kept = pq.read_table(f"{run.child('evaluation').local()}/{found.file}")
    assert set(kept.column_names) <= set(re.findall(r"`(\w+)`", section))
    assert {"i2t", "t2i", "attack_object"} <= set(kept["task"].to_pylist())
    _, source = blocks("py")
    assert source in section
    names: dict[str, Any] = {}
    try:
        exec(source.replace("RUN", run.name), names)
    finally:
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type]  # which takes it out of the environment again
    assert "MLFLOW_TRACKING_URI" not in os.environ
    assert names["trainings"]["tags.mlflow.runName"].tolist() == [run.name]
    part = names["material"].records.split("test")
    assert names["scores"].shape == (len(part.images), len(part.captions))
    ranks = 1 + (names["scores"] > names["right"]).sum(0)
    assert ranks.double().mean().item() == pytest.approx(found.metrics["test/t2i/meanr"], abs=0.05)
    assert names["reciprocal_rank"].item() == pytest.approx((1 / ranks).mean().item())


def test_every_published_system_stands_in_the_table():
    section = README.split("## Systems")[1].split("\n## ")[0]
    mentioned = set(re.findall(r"`([a-z0-9_]+)`", section))
    systems = {name.removesuffix("_coco") for name in presets.names() if name.endswith("_coco")}
    assert {name for name in systems if not name.endswith("_hglmm")} <= mentioned
    assert {f"{name}_coco" for name in mentioned & systems} <= set(presets.names())
