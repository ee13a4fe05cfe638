"""Pages stand alone, show what they must and escape what they are given."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import pytest

from tests.levels import slow_but
from tests.unit.report.comparisons import made_up as a_comparison
from tests.unit.report.keys import keyed
from tests.unit.report.pages import PROVENANCE, SVG, Outline
from tests.unit.report.responses import full_grid, one_at_a_time
from tests.unit.report.results import made_up
from vse.errors import InputError
from vse.report.alpha_figure import alpha_figure
from vse.report.alpha_page import alpha_page
from vse.report.comparison_page import comparison_figure
from vse.report.page import render, signed
from vse.report.published_page import ReportedRun
from vse.report.response_figures import interaction_figure, response_figure
from vse.report.runs_page import _facts, read_reported, runs_page
from vse.report.style import VARIABLES, inline
from vse.report.tables import alpha_table
from vse.workspace.layout import Workspace


@pytest.mark.parametrize("complete", [True, False])
def test_a_sweep_on_one_page(complete: bool) -> None:
    results = made_up(reference=complete, learned=complete)
    outline = Outline(alpha_page(results, alpha_table(results), SVG, PROVENANCE))
    assert outline.open == []
    assert outline.links == []  # nothing is fetched
    for words in (
        results.rule,
        "It chose α = 0.7",
        "python jobs/sweep_alpha.py --preset univse_scenes",
        "0.002",
        "2.14",
    ):
        assert words in outline.text
    assert "a <small> one" in outline.text
    assert ("VSE++" in outline.text) == complete


def test_without_attacks_a_sweep_has_no_page_of_them() -> None:
    results = made_up(reference=False, learned=False)
    plain = [{name: v for name, v in point.items() if "attack_" not in name} for point in results.points]
    whole = Outline(alpha_page(results, alpha_table(results), SVG, PROVENANCE)).text
    without = replace(results, points=plain)
    text = Outline(alpha_page(without, alpha_table(without), SVG, PROVENANCE)).text
    for words in ("Right: image to sentence", "Image to sentence under attack", "under attack also", "pairs: share of"):
        assert words in whole
        assert words not in text
    assert "Among true captions; no attack was measured at every α." in text
    assert "Plain retrieval" in text
    assert "–" not in text.partition("Reproduce")[0].partition("Numbers")[2]  # no cell without a number


def test_headline_numbers_are_those_of_the_table() -> None:
    results = made_up()
    table = alpha_table(results)
    text = Outline(alpha_page(results, table, SVG, PROVENANCE)).text
    assert table.rows[2].values[0] is not None
    assert f"{table.rows[2].values[0].mean:.1f} test rsum, plain" in text


def test_names_are_escaped() -> None:
    results = replace(made_up(), name="<script>alert(1)</script>")
    assert "<script>" not in alpha_page(results, alpha_table(results), SVG, PROVENANCE)


def reported(name: str, metrics: dict[str, float], records: str = "0123", **more: Any) -> ReportedRun:
    facts = {"data set": "scenes", **more.pop("facts", {})}
    more = {"config": {}, "sizes": {}, "data": "", **more}
    return ReportedRun(name=name, metrics=keyed(metrics), records=records, facts=facts, **more)


def test_runs_on_one_page() -> None:
    outline = Outline(runs_page([reported("a", {"test/x": 1.0}), reported("b", {"test/x": 2.0})], PROVENANCE))
    assert outline.open == []
    assert "1.0" in outline.text
    assert "2.0" in outline.text


def test_a_page_of_runs_has_facts_and_notes_and_a_table_that_scrolls() -> None:
    runs = [reported("a", {"test/rsum": 1.0}, facts={"family": "<univse>"}), reported("b", {})]
    page = runs_page(runs, PROVENANCE, notes=["not evaluated: b", "one <more>"])
    outline = Outline(page)
    assert outline.open == []
    assert "not evaluated: b one <more>" in outline.text
    assert outline.text.index("family") < outline.text.index("<univse>") < outline.text.index("retrieval: test")
    style = page.partition("</style>")[0]
    assert re.search(r"\.scroll \{[^}]*overflow: auto", style)
    assert re.search(r'<div class="panel scroll" tabindex="0">\s*<table>', page)


def test_metrics_stand_in_the_order_in_which_they_are_read() -> None:
    names = ["test/i2t/r10", "test/i2t/r5", "test/attack_object/r1", "test/rsum", "test/unknown_words", "val/rsum"]
    runs = [reported("a<b", dict.fromkeys(names, 1.0), facts={"seed": "0"}), reported("b", {}, facts={"seed": "1"})]
    page = runs_page(runs, PROVENANCE)
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", page.partition("<table>")[2].partition("</table>")[0], re.DOTALL)
    lines = [[Outline(cell).text.strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)] for row in rows]
    assert lines == [
        ["metric", "a<b", "b"],
        ["data set", "scenes", "scenes"],
        ["seed", "0", "1"],
        ["retrieval: test", ""],
        *([name, "1.0", "–"] for name in ("rsum", "image → sentence, R@5", "image → sentence, R@10")),
        ["unknown words", "1.0", "–"],
        ["retrieval: val", ""],
        ["rsum", "1.0", "–"],
        ["attacks: test", ""],
        ["object attack, R@1", "1.0", "–"],
    ]


def test_a_run_that_waits_for_its_workers_has_no_numbers(tmp_path: Path) -> None:
    workspace = Workspace.open(str(tmp_path))
    workspace.run("waits").write_text("preset.json", "{}")
    with pytest.raises(InputError, match=r"^runs=waits: has no numbers yet; finish it with jobs/train.py$"):
        read_reported(workspace, "waits")


def test_runs_on_other_data_have_a_table_of_their_own() -> None:
    runs = [reported("a", {"test/x": 1.0}), reported("b", {"test/x": 2.0}, "4567"), reported("c", {"x": 3.0})]
    heads = re.findall(r"<th class=\"model\">metric</th>(.*?)</tr>", runs_page(runs, PROVENANCE))
    assert heads == ["<th>a</th><th>c</th>", "<th>b</th>"]
    assert "one table for each data set" in Outline(runs_page(runs, PROVENANCE)).text


def test_a_table_says_which_fold_of_the_data_its_runs_are_of() -> None:
    def on(fold: int, held_out: str) -> dict[str, Any]:
        data = {"name": "karpathy", "file": "a/b.json", "folds": 8, "fold": fold, "held_out": held_out}
        return {"facts": _facts({"data": data, "seed": 0}, {}, None), "config": {"data": data}}

    numbers = {"test/x": 1.0}
    runs = [reported("a", numbers, "1", **on(0, "test")), reported("b", numbers, "2", **on(7, "test"))]
    page = runs_page([*runs, reported("c", numbers, "3", **on(2, "val"))], PROVENANCE)
    assert re.findall(r"<caption>(.*?): one column a run", page) == [
        "karpathy, b.json, test fold 0 (of 0–7)",
        "karpathy, b.json, test fold 7 (of 0–7)",
        "karpathy, b.json, validation fold 2 (of 0–7)",
    ]
    text = Outline(page).text
    assert "one table for each data set and fold" in text
    assert "validation fold 2 (of 0–7)" in text.partition("karpathy, b.json, validation fold")[2]  # a row of its own
    assert "data karpathy, b.json, test fold 0 (of 0–7) candidates" in Outline(runs_page(runs[:1], PROVENANCE)).text


@pytest.mark.seconds
def test_numbers_of_other_data_or_adversaries_stand_in_tables_of_their_own() -> None:
    def met(data, **words):
        return {("attacks", "test"): {"test": data, **words}}

    numbers = {"test/attack_object/r1": 1.0}
    runs = [
        reported("a", numbers, met=met("1", shared="2", disjoint="3")),
        reported("b", numbers, met=met("1", shared="2")),
        reported("c", numbers, met=met("1", shared="9")),
        reported("d", numbers, met=met("7", shared="2")),
    ]
    page = Outline(runs_page(runs, PROVENANCE)).text
    for names in ("a, b", "c", "d"):
        assert f"data or adversaries that other runs did not meet: {names})" in page
    assert "did not meet" not in Outline(runs_page(runs[:2], PROVENANCE)).text


@pytest.mark.seconds
def test_the_page_reaches_for_nothing_outside_the_file() -> None:
    """MLflow shows it in a frame of its own, perhaps without a network."""
    results = made_up()
    page = alpha_page(results, alpha_table(results), alpha_figure(results)["svg"], PROVENANCE)
    assert "http" not in page
    assert re.findall(r"""(?:src|href)=["'](?!data:|#)[^"']*|url\(\s*["']?(?!data:|#)|@import|<script""", page) == []


FIGURES: dict[str, Callable[[], Any]] = {
    "alpha": lambda: alpha_figure(made_up()),
    "comparison": lambda: comparison_figure(a_comparison(4, attacks=True), "test"),
    "response": lambda: response_figure(one_at_a_time()),
    "grid": lambda: response_figure(full_grid()),
}


@pytest.mark.seconds
@pytest.mark.parametrize("name", slow_but(FIGURES, "alpha", "response"))
def test_every_colour_of_a_figure_is_one_of_the_page(name: str) -> None:
    drawing = inline(FIGURES[name]()["svg"], name)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b", re.sub(rf"(href=\"|url\()#{name}-\w+", "", drawing)) == []
    assert set(re.findall(r"var\((--\w+)\)", drawing)) <= set(VARIABLES.values())
    ids = re.findall(r'\bid="([^"]+)"', drawing)
    assert all(each.startswith(f"{name}-") for each in ids)
    assert set(re.findall(r'(?:href="|url\()#([\w.-]+)', drawing)) <= set(ids)


@pytest.mark.seconds
def test_points_of_interactions_keep_the_colours_of_their_values() -> None:
    figure = interaction_figure(full_grid())
    assert figure is not None
    assert re.search(r"fill: #[0-9a-f]{6}", inline(figure["svg"], "interaction"))


def _luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    """WCAG 2.2: from 1 to 21; text needs 4.5 and lines need 3."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _style() -> str:
    return resources.files("vse.report").joinpath("templates/page.css").read_text(encoding="utf-8")


def test_long_words_of_captions_and_ids_wrap() -> None:
    """A bare 1fr is as wide as its longest word: such a caption widened the page, its picture and its tiles."""
    columns = re.findall(r"grid-template-columns: ([^;]+);", _style())
    assert len(columns) > 4
    for each in columns:
        assert "1fr" not in re.sub(r"minmax\([^()]*, 1fr\)", "", each), each
        assert not re.search(r"\bauto$", each), f"{each}: a long id would get all the width or none"
    for name in ("words", "name"):
        rules = re.findall(rf"^\.{name} \{{(.*)\}}$", _style(), re.MULTILINE)
        assert any("overflow-wrap: anywhere" in rule for rule in rules), name


def test_text_and_lines_are_legible_in_light_and_dark() -> None:
    style = _style()
    light, dark = (
        dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", part)) for part in style.split("prefers-color-scheme: dark", 1)
    )
    assert light.keys() == dark.keys() >= set(VARIABLES.values())
    for colours in (light, dark):
        for ground in ("--panel", "--ground"):
            assert _contrast(colours["--ink"], colours[ground]) >= 7
            assert min(_contrast(colours[name], colours[ground]) for name in ("--soft", "--accent", "--true")) >= 4.5
    assert min(_contrast(dark[f"--c{k}"], dark["--panel"]) for k in range(1, 7)) >= 4.5
    assert {colour: light[name] for colour, name in VARIABLES.items() if name != "--soft"} == {
        colour: colour for colour, name in VARIABLES.items() if name != "--soft"
    }


@pytest.mark.seconds
def test_labels_of_figures_cannot_leave_them() -> None:
    results = replace(made_up(), label="<script>alert(1)</script>")
    assert "<script>" not in inline(alpha_figure(results)["svg"], "alpha")


def test_templates_refuse_what_is_not_there() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'title' is undefined"):
        render("base.html")


def test_signs() -> None:
    assert [signed(value) for value in (1.25, -0.5, 0.04, -0.04)] == ["+1.2", "−0.5", "0.0", "0.0"]
    assert [signed(value, 2) for value in (0.031, -0.004, -0.05)] == ["+0.03", "0.00", "−0.05"]


def test_the_package_ships_every_template() -> None:
    """Globs of package-data cover all that pages read, or an installed package would have no pages."""
    root = Path(__file__).resolve().parents[3]
    package = root / "platform" / "vse"
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    globs = project["tool"]["setuptools"]["package-data"]["vse"]
    shipped = {path for glob in globs for path in package.glob(glob)}
    templates = set((package / "report" / "templates").iterdir())
    assert {path.name for path in templates} >= {"base.html", "macros.html", "page.css"}
    assert templates <= shipped
