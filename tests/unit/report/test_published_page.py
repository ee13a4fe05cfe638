"""Papers' numbers beside measured runs, and as the committed Markdown."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.report.keys import keyed
from tests.unit.report.pages import table_element
from vse.config import override, to_dict
from vse.presets import preset
from vse.report.published import read_published
from vse.report.published_page import ReportedRun, published_tables, to_markdown, unrecognised

ROOT = Path(__file__).resolve().parents[3]


def run(name: str, metrics: dict[str, float], **changes: Any) -> ReportedRun:
    config = override(preset(name), {key.replace("__", "."): value for key, value in changes.items()})
    return ReportedRun(name=f"{name}-s0", config=to_dict(config), metrics=keyed(metrics))


def tables(runs: list[ReportedRun]) -> list[tuple[str, list[str], list[list[str]]]]:
    """(caption, column titles, rows of label, note and cells) of each table as pages show it."""
    elements = [table_element(table) for table in published_tables(runs)[0]]
    shown = []
    for table in elements:
        rows = []
        for row in table.findall("tbody/tr"):
            label, *cells = list(row)
            assert label.text is not None
            rows.append([label.text, str(label.findtext("span")), *("".join(cell.itertext()) for cell in cells)])
        titles = ["".join(cell.itertext()) for cell in table.findall("thead/tr")[1]]
        shown.append((str(table.findtext("caption")), titles, rows))
    return shown


PLAIN = {"i2t/r1": 57.3, "i2t/r5": 85.0, "i2t/medr": 1.0, "t2i/r1": 42.0, "rsum": 444.0}


def under(protocol: str, metrics: dict[str, float]) -> dict[str, float]:
    return {f"test/{protocol}/{key}": value for key, value in metrics.items()}


def test_a_preset_beside_its_published_lines() -> None:
    ((caption, titles, rows),) = tables([run("vsepp_coco", under("coco_1k_folds", PLAIN))])
    assert caption == "COCO 1K, five folds: plain retrieval, in percent"
    assert titles == ["rsum", "R@1", "R@5", "R@1"]  # what the run has, ranks left out
    assert rows[0] == ["vsepp_coco-s0", "measured here", "444.0", "57.3", "85.0", "42.0"]
    assert [(row[0], *row[2:]) for row in rows if row[1].startswith("the setting of vsepp_coco-s0 · ")] == [
        ("VSE++", "–", "55.7", "–", "–"),
        ("VSE++", "445.1", "57.7", "86.0", "42.8"),
        ("VSE++", "446.7", "58.3", "86.1", "43.6"),
        ("VSE++ (Resnet+GRU)", "–", "64.6", "90.0", "52.0"),
    ]
    assert all(row[1].startswith("the setting of") for row in rows[1:5])  # they come first
    (cited,) = (row for row in rows if row[0] == "DVSA")
    assert cited[1] == "UniVSE, Table 1 · image encoder not said, frozen · Karpathy and Fei-Fei, CVPR 2015, not built"
    (gxn,) = (row for row in rows if row[0].startswith("GXN"))
    assert gxn[1] == "jWAE, Table 3 · ResNet · GRU · Gu et al., CVPR 2018, not built"
    assert "Relational VSE (basic)" not in [row[0] for row in rows]  # its images are in no five folds


@pytest.mark.parametrize(
    ("name", "changes", "matched"),
    [
        ("vse_coco", {}, {"VSE"}),
        ("mse_coco", {}, {"MSE (VGG+w2v)"}),
        ("mmd_mse_coco", {}, {"MMD-MSE (VGG+w2v)"}),
        ("jwae_mse_hglmm_coco", {}, {"jWAE-MSE (VGG+HGLMM)"}),
        ("jwae_mh_gru_coco", {}, {"jWAE-MH (ResNet+GRU)"}),
        ("vsec_noun_coco", {}, {"VSE-C (+n.)"}),
        ("univse_coco", {"text__drop_components": 0.3}, {"UniVSE (Train Drop)"}),
        ("univse_coco", {"model__pooling": "max"}, {"UniVSE (Max)"}),
        ("univse_coco", {"seed": 3, "train__workers": 2, "text__word_vectors": "glove.txt"}, None),
        ("vsepp_coco", {"objective__margin": 0.3}, set()),
        ("vse0_coco", {}, set()),
    ],
)
def test_lines_of_a_setting(name: str, changes: dict[str, Any], matched: set[str] | None) -> None:
    metrics = under("coco_1k_first", {"i2t/r1": 50.0, "i2t/r5": 80.0, "rsum": 400.0})
    runs = [run(name, metrics, **changes)]
    assert "made by this project" in published_tables(runs)[1]
    ((_, _, rows),) = tables(runs)
    assert not [row[0] for row in rows if row[0].startswith("Relational")]  # theirs are validation images
    told = [row[1] for row in rows if row[0] == "UniVSE (Max)"]  # pooling of regions, aggregation of components
    assert sorted(note.rpartition(" · ")[2] for note in told) == ["model.aggregation=max", "model.pooling=max"]
    found = {row[0]: row[1] for row in rows if row[1].startswith("the setting of")}
    assert set(found) == ({"UniVSE"} if matched is None else matched)
    if matched is None:  # what is printed six times is one line
        printed = "UniVSE, Table 1 and 5 more · ResNet-152, frozen · GloVe, GRU"
        assert found["UniVSE"] == f"the setting of {name}-s0 · {printed}"


def test_the_thesis_is_compared_on_the_split_that_its_presets_have() -> None:
    """COCO 2017 publishes captions of train and val only: that is what a run of theirs can be measured on."""
    data: Any = preset("relational_pool_coco").data
    assert data.test == ""
    numbers = {"i2t/r1": 50.0, "i2t/r5": 80.0}
    on_val = {f"measured/val/coco_1k_first/{key}": value for key, value in numbers.items()}
    ((caption, _, rows),) = tables([run("relational_pool_coco", on_val)])
    assert caption == "COCO 1K, first 1,000: plain retrieval, in percent"
    (own,) = (row for row in rows if row[1].startswith("the setting of"))
    assert own[0] == "Relational VSE (pooling)"
    assert {row[0] for row in rows[1:]} >= {"Relational VSE (basic)", "Relational VSE (CA)"}
    assert all("1,000 validation images of COCO 2017" in row[1] for row in rows[1:])


def test_attacks_have_tables_of_their_own() -> None:
    attacked = {"attack_object/r1": 40.0, "attack_object/rsum3": 200.0, "attack_object/pair_accuracy": 90.0}
    own = {"own_pool_noun/r1": 48.0, "own_pool_noun/meanr": 5.0}
    both = {**attacked, **own}
    univse, pools = tables([run("vsec_coco", under("coco_1k_first", both))])
    assert (univse[1], pools[1]) == (["R@1", "rsum3"], ["R@1"])
    assert univse[2][1] == [
        "VSE-C",
        "the setting of vsec_coco-s0 · UniVSE, Table 2 · image encoder not said · Shi et al., COLING 2018",
        "41.1",
        "202.7",
    ]
    assert [row[2] for row in pools[2]] == ["48.0", "49.4", "37.6", "45.7", "49.2", "51.0", "48.0"]


def test_attacks_as_printed_stand_for_those_by_our_rules_and_say_so() -> None:
    ours = {"i2t/r1": 60.0, "attack_object/r1": 40.0, "attack_object/disjoint/r1": 30.0}
    both = {**ours, "attack_object/published/r1": 50.0}
    first = run("univse_coco", under("coco_1k_first", both))
    second = run("vsepp_coco", under("coco_1k_first", ours))
    plain, attacked = tables([first, second])
    assert [row[1:] for row in plain[2][:2]] == [["measured here", "60.0"]] * 2
    assert attacked[1] == ["R@1"]
    assert [row[1:] for row in attacked[2][:2]] == [
        ["measured here, adversaries as printed", "50.0"],
        ["measured here", "40.0"],
    ]


def test_each_run_beside_lines_of_its_data() -> None:
    runs = [
        run("jwae_mh_coco", under("coco_5k", {"rsum": 200.0})),
        run("jwae_mh_flickr30k", under("flickr_1k", {"i2t/r1": 30.0})),
        run("jwae_mh_scenes", {"test/i2t/r1": 70.0}),
    ]
    large, flickr = tables(runs)
    assert [row[0] for row in large[2]] == ["jwae_mh_coco-s0", "VSE-C", "CSE", "VSE++", "UniVSE"]
    assert [row[:1] + row[2:] for row in flickr[2][:2]] == [
        ["jwae_mh_flickr30k-s0", "30.0"],
        ["jWAE-MH (VGG+w2v)", "35.4"],
    ]
    assert len(flickr[2]) == 1 + 19


def test_where_nothing_can_be_compared() -> None:
    scenes = run("vsepp_scenes", {"test/rsum": 400.0})
    assert published_tables([scenes]) == published_tables([]) == ([], "")
    none, unmeasured = published_tables([scenes, run("vsepp_coco", {"test/rsum": 300.0})])
    assert none == []
    assert (
        "numbers of COCO; to see them here, measure with measure.protocol (coco_1k_folds, coco_1k_first, coco_5k)"
        in (unmeasured)
    )


@pytest.mark.parametrize(
    ("data", "benchmark"),
    [
        ({"name": "karpathy", "file": "dataset_coco.json", "root": "/data"}, "COCO"),
        ({"name": "karpathy", "file": "", "root": "/data/flickr30k"}, "Flickr30k"),
        ({"name": "precomp", "root": "/data/f30k_precomp"}, "Flickr30k"),
        ({"name": "precomp", "root": "/data/coco_precomp"}, "COCO"),
        ({"name": "coco", "root": "/data/2017"}, "COCO"),
        ({"name": "coco", "root": "/coco", "train": "a/captions_train2017.json"}, "COCO"),
        ({"name": "coco", "root": "/coco", "train": "stair_captions_v1.2_train.json"}, ""),
        ({"name": "karpathy", "file": "", "root": "s3://b/MS-COCO_2014?region=x"}, "COCO"),
        ({"name": "karpathy", "file": "", "root": "/data/coco_german"}, ""),
        ({"name": "karpathy", "file": "", "root": "/data/cocoa"}, ""),
        ({"name": "karpathy", "file": "dataset_flickr8k.json", "root": "/coco"}, ""),
        ({"name": "precomp", "root": "/data/coco_f30k"}, ""),
        ({"name": "karpathy", "file": "", "root": "/coco/flickr8k_800"}, ""),
        ({"name": "scenes"}, ""),
        ({}, ""),
    ],
)
def test_benchmarks_by_name(data: dict[str, str], benchmark: str) -> None:
    assert ReportedRun(name="a", config={"data": data}, metrics={}).benchmark == benchmark


def test_a_data_set_has_the_name_that_the_workspace_keeps_it_by() -> None:
    config = {"data": {"name": "karpathy", "file": "", "root": "/photographs"}}  # of its only dataset_*.json
    assert ReportedRun(name="a", config=config, metrics={}, data="flickr30k").benchmark == "Flickr30k"
    config = {"data": {"name": "karpathy", "file": "", "root": "/coco"}}
    assert ReportedRun(name="a", config=config, metrics={}, data="coco_german").benchmark == ""


@pytest.mark.seconds
def test_runs_measured_as_papers_do_on_data_of_another_name_are_told() -> None:
    other = {"data.root": "/photographs", "data.file": "mine.json"}
    named = {key.replace(".", "__"): value for key, value in other.items()}
    found = [run("vsepp_coco", under("coco_5k", PLAIN), **named), run("vsepp_scenes", {"test/rsum": 1.0})]
    (line,) = unrecognised([*found, run("vsepp_coco", under("coco_5k", PLAIN))])
    assert line.startswith("vsepp_coco-s0: measured by coco_5k, but no published numbers are shown")
    assert "its data set 'mine' is not called coco or flickr30k" in line


def test_the_committed_markdown_is_what_the_file_holds() -> None:
    lines = read_published()
    text = to_markdown(lines)
    assert (ROOT / "evidence" / "published.md").read_text(encoding="utf-8") == text
    cells = [cell.strip() for row in text.splitlines() if row.startswith("|") for cell in row.split("|")]
    printed = [number.printed for line in lines for number in line.numbers.values()]
    assert sorted(cell for cell in cells if re.fullmatch(r"\d+(\.\d+)?", cell)) == sorted(printed)
    notes = {number.note for line in lines for number in line.numbers.values() if number.note}
    assert all(f": {note}." in text for note in notes)
