"""Every task on a run of every family: it measures what it declares, or the table says what is lacking."""

import math
import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.levels import slow_but
from tests.tiny_towers import clip_changes
from tests.unit.asked import contrast, every_task
from vse import registry
from vse.adversaries.univse.generate import WORDS
from vse.adversaries.vsec.words import KINDS
from vse.config import override
from vse.evaluation import tasks
from vse.evaluation.task import Context
from vse.evaluation.tasks.attacks import PRINTED
from vse.evaluation.work import Arrays, Job
from vse.presets import catalogue, preset
from vse.report.terminal import lines
from vse.stages import pipeline
from vse.stages.measuring import stage
from vse.stages.measuring.plan import plan_measure
from vse.stages.measuring.stage import MeasureWork, measure
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.training.config import RunConfig, family_inputs
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.process  # a training for each family

FAMILIES = registry.names("family")
CHANGES = {"data.num_train": 60, "data.num_val": 4, "data.num_test": 6, "data.num_shifted": 4, "train.epochs": 1}
# What so few images, one of jWAE's two families or scenes lack: images with twenty adversaries of each class, queries
# that are true of enough images, a discriminator, boxes of phrases. Word vectors have no gain over themselves.
NOT_ALWAYS = {
    "own_pools": re.compile("^complete/"),
    "unified_retrieval": re.compile("^unified_((obj|attr|rel|obj_det)/|sum$)"),
    "gaussian_codes": re.compile("/own_accuracy$"),
    "grounding": re.compile("^grounding_phrase/"),
    "component_neighbours": re.compile("^component_neighbours_(attr|rel_(subject|object))/"),
    "image_to_word": re.compile("^image_to_word/own/map_gain"),
    "fill_in_blank": re.compile("^fill_in_blank/own/.*_gain"),
}
# Captions of the families of phrase localisation are phrases, which name one object: nothing can be swapped, related or
# counted otherwise.
NOT_OF_PHRASES = {
    "attacks": re.compile("^attack_relation/"),
    "contrast": re.compile("^attack_contrast_(numeral|plural|preposition|relation|shuffle)/"),
    "own_pools": re.compile("^own_pool_(numeral|plural|preposition|relation|shuffle)/"),
    "plural_split": re.compile("^plural_split/own_pool_"),
    "visual_parsing": re.compile("^parsing_relation/"),
}
NOT_OF_SENTENCES = {"saliency": re.compile("^saliency_(?!pixels/)")}  # families that read no word vectors
SMALL = {"fill_in_blank__epochs": 1, "fill_in_blank__dim": 8, "attacks__words": (*WORDS, PRINTED), **contrast(*KINDS)}


def may_be_absent(task: str, metric: str, config: RunConfig) -> bool:
    """Whether a metric may have no value in this small setting."""
    if task == "neighbours":  # images are compared by one truth only: scenes by their graphs, regions by their captions
        truth = "components" if of_phrases(config) else "graph"
        return f"/{truth}/" not in metric and "caption/components" not in metric
    reasons = [NOT_ALWAYS]
    reasons += [NOT_OF_PHRASES] if of_phrases(config) else []
    reasons += [NOT_OF_SENTENCES] if family_inputs(config).sentence else []
    return any(task in each and each[task].search(metric) for each in reasons)


def of_phrases(config: RunConfig) -> bool:
    """Whether a configuration is of phrases and regions; its scenes are then below `data.of`."""
    return registry.name_of("source", config.data) == "phrase_regions"


def smallest(family: str, folder: Path) -> RunConfig:
    """The shortest name of a preset of the family on scenes, shrunk. Presets of `clip` download a model: a small one is
    written to the folder."""
    if family == "clip":
        return override(preset("vsepp_small"), {**CHANGES, **clip_changes(folder)})
    named = [name for name in catalogue.names() if name.endswith("_small")]
    own = [name for name in named if registry.name_of("family", preset(name).model) == family]
    config = preset(min(own, key=len))
    below = "data.of." if of_phrases(config) else "data."
    return override(config, {key.replace("data.", below): value for key, value in CHANGES.items()})


def test_every_family_has_a_small_preset(tmp_path: Path) -> None:
    for family in FAMILIES:
        assert smallest(family, tmp_path)


@pytest.mark.parametrize("family", slow_but(FAMILIES, "univse"))  # for which nearly every task has numbers
def test_every_task_measures_what_it_declares_or_says_what_it_needs(
    place: Workspace, tmp_path: Path, family: str
) -> None:
    config = smallest(family, tmp_path / "towers")
    run = run_training(config, place).folder
    options = every_task(pipeline.prepare(config, place).records.split("test"), tmp_path, **SMALL)
    measured = measure([run], run.child("evaluation"), place, *options)
    assert list(measured.tasks) == list(tasks.names())
    lacking = {name: each.missing for name, each in measured.tasks.items() if each.missing}
    shown = [*lines({}, {}, lacking)]
    absent = dict[str, list[str]]()
    for name, each in measured.tasks.items():
        if each.missing:
            assert not each.values
            assert f"{name}: n/a: needs {each.missing}" in shown
            continue
        declared = {metric.name for metric in each.task.metrics}
        (values,) = each.values.values()
        assert values
        assert values.keys() <= declared
        absent |= {name: [each for each in sorted(declared - values.keys()) if not may_be_absent(name, each, config)]}
        assert all(math.isfinite(value) for value in values.values())
    assert {name: each for name, each in absent.items() if each} == {}


@pytest.mark.slow
def test_another_node_measures_the_same(place: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets what the files of the tasks hold, not the files."""
    config = smallest("univse", tmp_path)
    run = run_training(config, place).folder
    names, options = every_task(pipeline.prepare(config, place).records.split("test"), tmp_path, **SMALL)
    here = measure([run], Folder.open(tmp_path / "here"), place, names, options)
    gone = list[str]()

    def elsewhere(jobs: list[Job], *_: object, **__: object) -> list[Arrays]:
        copies: list[Job] = pickle.loads(pickle.dumps(jobs))
        for file in tmp_path.glob("*.json"):
            file.rename(file.with_suffix(".moved"))
        for work, number in copies:
            assert isinstance(work, MeasureWork)
            gone.extend(work.request.tasks)
            work.compute(number, torch.device("cpu"))
        for file in tmp_path.glob("*.moved"):
            file.rename(file.with_suffix(".json"))
        return []

    monkeypatch.setattr(stage, "computed_on_cluster", elsewhere)
    there = measure([run], Folder.open(tmp_path / "there"), place, names, options)
    assert set(names) - set(gone) - here.tasks.keys() - {"image_to_word", "fill_in_blank"} == set()
    assert there.metrics == here.metrics
    assert {name: each.pictures for name, each in there.tasks.items()} == {
        name: each.pictures for name, each in here.tasks.items()
    }


@pytest.mark.slow
def test_tasks_that_read_shared_scores_say_so(
    place: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large split has these counted in shards."""
    config = smallest("univse", tmp_path)
    run = run_training(config, place).folder
    names, options = every_task(pipeline.prepare(config, place).records.split("test"), tmp_path, **SMALL)
    plan = plan_measure([run], place, names, options)
    lone = {name: task for name, task in plan.tasks.items() if not task.sharded and not task.trains_probes}
    for shared in ("counters", "attacked", "own_scores"):
        monkeypatch.setattr(Context, shared, property(lambda _: pytest.fail("reads what is counted in shards")))
    measured = stage.carry_out(replace(plan, tasks=lone, missing={}), Folder.open(tmp_path / "here"))
    assert measured.tasks.keys() == lone.keys()
