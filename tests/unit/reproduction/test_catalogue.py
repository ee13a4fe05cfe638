"""Every printed table is declared; each of its rows has a training, or a reason why it has none."""

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.shared import SHARED
from vse import presets, registry
from vse.adversaries.pools import PoolConfig
from vse.adversaries.vsec.candidates import PUBLISHED as RULES
from vse.cli.command import Request
from vse.errors import InputError
from vse.evaluation import tasks
from vse.evaluation.tasks.attacks import UNIVSE
from vse.evaluation.tasks.contrast import VSEC
from vse.report.published import PAPERS
from vse.reproduction.arrangement import Block, about_scale, blocks_of, check_set, preset_at
from vse.reproduction.catalogue import TABLES, TOTAL, PaperTable, metric_of, tables_of
from vse.reproduction.options import SCALES, ReproduceOptions, TableData
from vse.reproduction.plan import ReproductionPlan, about, make_plan
from vse.reproduction.results import notes_of
from vse.stages.measuring.options import AdversaryWords, Selection, SharedOptions
from vse.training.config import RunConfig

OF_REGIONS = {
    "data.of.file": "JSON file of phrases and boxes",
    "data.of.captions": "Karpathy file with the sentences of the photographs",
    "data.proposals": "file of regions from jobs/propose_regions.py",
    "text.encoder.model": "folder or name of a text encoder",
}
EVERY = [table for paper in PAPERS for table in tables_of(paper, ())]


def options_at(scale: str, **more: Any) -> ReproduceOptions:
    """Options with folders and files for everything."""
    data = TableData(root="/data/first", other="/data/second")
    files = tuple(f"{key}=given" for key in OF_REGIONS)
    return replace(ReproduceOptions(scale=scale, data=data, glove="glove.npz", set=files), **more)


def arranged(scale: str) -> list[Block]:
    return [block for table in EVERY for block in blocks_of(table, options_at(scale))]


def test_every_table_of_results_is_declared() -> None:
    assert TABLES.keys() == {(key, number) for key, paper in PAPERS.items() for number in paper.tables}


@pytest.mark.parametrize("table", EVERY, ids=lambda table: table.name)
def test_its_metrics_are_measured_by_its_tasks(table: PaperTable) -> None:
    own = {metric.name for name in table.tasks for metric in tasks.task(name)().metrics}
    for row in table.rows:
        for name in row.numbers:
            metric = metric_of(name)
            assert {metric.name} <= own or (name == TOTAL and set(metric.terms) <= own), name
    assert set(table.derived) <= {row.system for row in table.rows}
    assert set(table.lacks) <= set(SCALES)


@pytest.mark.parametrize("scale", SCALES)
def test_every_printed_number_is_in_a_row(scale: str) -> None:
    for table in EVERY:
        blocks = blocks_of(table, options_at(scale))
        printed = Counter((row.system, metric, n.printed) for row in table.rows for metric, n in row.numbers.items())
        there = Counter((r.label, m, n.printed) for b in blocks for r in b.rows for m, n in r.printed.items())
        assert printed.keys() == there.keys(), table.name
        assert all(set(row.printed) <= set(block.metrics) for block in blocks for row in block.rows)


@pytest.mark.parametrize("scale", SCALES)
def test_a_row_without_a_training_says_why(scale: str) -> None:
    measured: dict[str, set[str]] = {}
    for block in arranged(scale):
        for row in block.rows:
            states = [row.config is not None, bool(row.reason), row.derived is not None]
            assert sum(states) == 1, (block.table.name, row.label)
            if row.config is not None:
                assert row.measurement is not None
                one = row.measurement
                if one.digits not in measured:
                    measured[one.digits] = {m.name for name in one.tasks for m in one.options.task(name).metrics}
                own = measured[one.digits]
                for name in row.printed:
                    metric = metric_of(name, block.words, row.head)
                    assert {metric.name} <= own or set(metric.terms) <= own, name
                assert row.arm


@pytest.mark.parametrize("scale", SCALES)
def test_what_is_built_is_trained_at_every_scale(scale: str) -> None:
    reasons = {row.reason for block in arranged(scale) for row in block.rows}
    assert reasons == {"", "cited, not built here"}


@pytest.mark.parametrize("missing", OF_REGIONS)
def test_regions_of_photographs_need_all_of_their_files(missing: str) -> None:
    given = tuple(f"{key}=given" for key in OF_REGIONS if key != missing)
    with pytest.raises(InputError) as error:
        blocks_of(tables_of("jwae", ["7"])[0], options_at("flickr8k", set=given))
    assert str(error.value) == f"{missing}: no {OF_REGIONS[missing]} is given; set={missing}=FILE names it"


@pytest.mark.parametrize(("scale", "missing"), [("flickr8k", "data.of.file"), ("published", "data.proposals")])
def test_other_tables_need_no_files_of_regions(scale: str, missing: str) -> None:
    message = f"{missing}: no {OF_REGIONS[missing]} is given; set={missing}=FILE names it"

    def plan(table: str) -> ReproductionPlan:
        options = options_at(scale, paper="jwae", table=table, set=())
        request = Request(
            job="reproduce",
            workspace="",
            preset=None,
            config=None,
            options=options,
            changed=frozenset(),
            tracking=None,
        )
        return make_plan(request)

    lines = list(about(plan("4,7")))
    assert f"jWAE, Table 7: Embedding Network, Similarity Network, CITE, jWAE-MSE, jWAE-MSE+CITE: {message}" in lines
    with pytest.raises(InputError) as error:
        plan("7")
    assert str(error.value) == f"paper=jwae: no row can be trained at scale={scale}: {message}"


@pytest.mark.parametrize("scale", SCALES)
def test_rows_of_a_block_are_measured_alike(scale: str) -> None:
    """They may differ in what changes the model at inference, but not in data, protocol or adversaries."""
    of_the_model = {"alpha", "components", "drop_components"}
    for block in arranged(scale):
        measurements = [row.measurement for row in block.rows if row.measurement is not None]
        kept = [
            {k.partition(".")[2] or k: v for k, v in one.keys.items() if k not in of_the_model} for one in measurements
        ]
        if block.table.subsets:  # one task takes several kinds of words, the other one kind
            assert {each.pop("words") for each in kept} == {(block.words,), block.words}
        else:
            assert len({one.tasks for one in measurements}) <= 1
        assert all(each == kept[0] for each in kept), block.table.name


def test_the_large_block_has_all_images_of_small_data() -> None:
    small, large = blocks_of(tables_of("univse", ["1"])[0], options_at("scenes"))
    keys = [next(row.measurement for row in block.rows if row.measurement).keys for block in (small, large)]
    assert [each.get("folds") for each in keys] == [5, None]


def test_other_data_stand_for_flickr30k() -> None:
    (table,) = tables_of("jwae", ["5"])
    (block,) = blocks_of(table, options_at("scenes"))
    row = next(row for row in block.rows if row.label == "MSE (VGG+w2v)")
    assert row.config is not None
    assert row.measurement is not None
    data: Any = row.config.data
    assert (data.drawing, row.arm) == ("second", "mse_scenes data.drawing=second")
    assert row.measurement.keys["on"] == ("drawing=plain", "wording=plain")
    (photographs,) = blocks_of(table, options_at("flickr8k", data=TableData(root="/data/first")))
    assert {row.reason for row in photographs.rows} == {
        "the second photographs: no folder is given; data.other=DIR names it"
    }


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("table", EVERY, ids=lambda table: table.name)
def test_an_arm_is_one_training(table: PaperTable, scale: str) -> None:
    configs: dict[str, RunConfig] = {}
    for row in (row for block in blocks_of(table, options_at(scale)) for row in block.rows):
        if row.config is not None:
            assert configs.setdefault(row.arm, row.config) == row.config


def test_one_training_serves_rows_that_differ_in_measuring() -> None:
    (block,) = blocks_of(tables_of("univse", ["2"])[0], options_at("scenes"))
    assert Counter(row.arm for row in block.rows) == {"vsepp_scenes": 1, "vsec_scenes": 1, "univse_scenes": 5}
    assert len({row.measurement.digits for row in block.rows if row.measurement}) == 2
    heads = ["", "", *(f"components_{each}" for each in ("all", "none", "object", "attribute", "relation"))]
    assert [row.head for row in block.rows] == heads
    assert metric_of(TOTAL, head="components_attribute").name == "components_attribute/total"


def test_adversaries_are_as_printed_on_published_data() -> None:
    (block,) = blocks_of(tables_of("univse", ["2"])[0], options_at("published"))
    assert block.words == "published"
    assert metric_of("attack_object/r1", block.words).name == "attack_object/published/r1"
    assert metric_of(TOTAL, block.words).terms[0] == "attack_object/published/r1"
    with pytest.raises(KeyError):
        metric_of("attack_object/r3")


def attacked(scale: str) -> list[tuple[PaperTable, SharedOptions, set[tuple[str, str]]]]:
    """Every measurement with adversaries: its table, its keys, and the kinds of adversaries."""
    measured = []
    for table, one in ((block.table, row.measurement) for block in arranged(scale) for row in block.rows):
        if one is not None:
            kinds = {kind for name in one.tasks for kind in one.options.task(name).adversaries}
            measured += [(table, one.options, kinds)] if kinds else []
    return measured


def test_tables_with_adversaries_have_the_papers_protocol_at_its_scale() -> None:
    measured = attacked("published")
    assert {(table.paper, table.number) for table, *_ in measured} == {
        *(("vse_c", number) for number in "234"),
        ("univse", "2"),
        *(("univse_supplement", number) for number in "1234"),
    }
    for table, options, kinds in measured:
        words, selection = options.adversaries, options.selection
        if table.paper == "vse_c":  # section 4.1
            assert (options.protocol, selection) == ("coco_5k", Selection(images=1000, least=20, words="shared"))
            assert words.contrast == RULES
            assert not words.contrast.held_out  # so that shared words are all words
            assert kinds == {(VSEC, "shared")}
        else:  # A.1 and B.2
            assert words.pools == PoolConfig(minimum=101, attributes="published", held_out=False)
            assert words.pools == presets.preset("univse_coco").text.pools
            assert kinds == {(UNIVSE, "published")}
        (note,) = table.notes("published")
        assert note.startswith("Measured by the paper's protocol: ")


@pytest.mark.parametrize("scale", ["scenes", "flickr8k"])
def test_small_data_are_attacked_by_our_rules(scale: str) -> None:
    for table, options, kinds in attacked(scale):
        assert (options.protocol, options.adversaries, options.selection) == ("", AdversaryWords(), Selection())
        assert {words for _, words in kinds} == {"shared"}
        (note,) = table.notes(scale)
        assert re.fullmatch(r"The paper measures .*\. Here .*\.", note)


def test_keys_of_a_protocol_can_be_changed() -> None:
    options = options_at("published", set=("measure.selection.images=10", "measure.adversaries.contrast.leak=false"))
    (block,) = blocks_of(tables_of("vse_c", ["3"])[0], options)
    assert block.rows[0].measurement is not None
    measured = block.rows[0].measurement.options
    assert (measured.selection.images, measured.adversaries.contrast) == (10, replace(RULES, leak=False))
    assert "measure.adversaries.contrast=published" in block.rows[0].measurement.arguments


def test_presets_at_scales() -> None:
    assert preset_at("univse_obj_coco", "scenes") == "univse_obj_scenes"
    assert preset_at("jwae_mse_flickr30k", "flickr8k") == "jwae_mse_flickr8k"
    assert preset_at("cite_localisation_flickr30k", "scenes") == "cite_localisation_small"
    assert preset_at("cite_localisation_flickr30k", "flickr8k") == "cite_localisation_photographs"
    assert preset_at("cite_localisation_flickr30k", "published") == "cite_localisation_flickr30k"
    assert preset_at("absent_coco", "flickr8k") == ""


def test_photographs_have_the_name_of_their_folder() -> None:
    """The second photographs have their own file, if any."""
    options = options_at(
        "flickr8k", data=TableData(root="/data/coco_276/", other="/data/other", file="dataset_coco.json")
    )
    assert about_scale(options).startswith("photographs of coco_276 in place of COCO and Flickr30k")
    (univse,) = blocks_of(tables_of("univse", ["3"])[0], options)
    assert univse.about.endswith("; here photographs of coco_276")
    assert univse.rows[0].config is not None
    data: Any = univse.rows[0].config.data
    assert data.file == "dataset_coco.json"
    (transferred,) = blocks_of(tables_of("jwae", ["5"])[0], options)
    row = next(row for row in transferred.rows if row.config and row.measurement)
    assert row.config is not None
    assert row.measurement is not None
    other: Any = row.config.data
    assert (other.root, other.file) == ("/data/other", "")
    assert row.measurement.keys["on"] == ("path=/data/coco_276/dataset_coco.json",)
    assert transferred.about.endswith("; here photographs of coco_276, trained on the second photographs")
    assert "Flickr8k" not in " ".join(note for table in EVERY for note in notes_of(table, "flickr8k", []))


def test_labels_of_boxes_are_missed_only_if_they_were_not_measured() -> None:
    """UniVSE, Table 3: obj(det) needs boxes of categories."""
    (table,) = tables_of("univse", ["3"])
    cells = [{"unified_obj_det/map": {"ours": ours}} for ours in (None, [50.0, 40.0, 60.0])]
    for cell, notes in zip(cells, (1, 0), strict=True):
        written = notes_of(table, "flickr8k", [{"rows": [{"cells": cell}]}])
        assert sum("obj(det) and the sum need boxes" in note for note in written) == notes


@pytest.mark.seconds
@pytest.mark.skipif(SHARED is None, reason="needs ../shared/data")
def test_photographs_of_coco_have_labels_of_boxes() -> None:
    assert SHARED is not None
    data = TableData(root=str(SHARED / "data" / "coco_276"), file="dataset_coco.json")
    (block,) = blocks_of(tables_of("univse", ["3"])[0], options_at("flickr8k", data=data))
    assert block.rows[0].config is not None
    records = registry.build("source", block.rows[0].config.data).describe()
    assert any(not box.caption for boxes in records.boxes.values() for box in boxes)


def test_settings_of_every_training() -> None:
    options = options_at("scenes", set=("train.epochs=3", "objective.warmup=1", "measure.folds=2"))
    rows = [row for block in blocks_of(tables_of("univse", ["1"])[0], options) for row in block.rows if row.config]
    assert {row.config.train.epochs for row in rows if row.config} == {3}
    assert all(row.measurement.keys["folds"] == "2" for row in rows if row.measurement)
    check_set(options, [row.config for row in rows if row.config])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("train.epoch=3", "set=train.epoch: no training of the table has this key; did you mean train.epochs?"),
        ("seed=3", "set=seed: trainings take their seeds from seeds=N"),
        ("epochs", "set=epochs: expected KEY=VALUE, as set=train.epochs=4"),
    ],
)
def test_a_wrong_setting_is_refused(given: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        check_set(options_at("scenes", set=(given,)), [presets.preset("vsepp_scenes")])
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("paper", "table", "message"),
    [
        ("unvise", "", "paper=unvise: unknown; did you mean univse?"),
        ("x", "", "paper=x: unknown; expected one of vse_c, univse, univse_supplement, relational, jwae"),
        ("vse_c", "5", "table=5: VSE-C has tables 2, 3, 4, 6, 7 of results"),
        ("relational", "3", "table=3: Relational VSE has tables 3.1 of results"),
    ],
)
def test_an_unknown_table_is_refused(paper: str, table: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        tables_of(paper, [table] if table else [])
    assert str(error.value).startswith(message)
