"""Every figure goes into a page's text width with legible text, none of it over another or outside."""

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any

import pytest

from tests.levels import slow_but
from tests.unit.report.comparisons import made_up as a_comparison
from tests.unit.report.responses import drawn, full_grid, many_keys, one_at_a_time, wide_ranges
from tests.unit.report.results import made_up
from tests.unit.report.test_pairs_figure import findings as of_pairs
from tests.unit.report.test_study_figure import row
from vse.report.alpha_figure import alpha_figure
from vse.report.comparison_page import comparison_figure
from vse.report.importance import importance
from vse.report.response_figures import importance_figure, interaction_figure, response_figure
from vse.report.study_figures import pairs_figure, study_figure
from vse.report.style import COLUMN, STYLE, TEXT, WIDTH, legend_columns
from vse.studies.families import FAMILIES_SCENES
from vse.studies.registered import SEMI_SUPERVISED_SCENES


def _study() -> Mapping[str, Any]:
    levels = {name: 100.0 + 8 * place for place, name in enumerate(FAMILIES_SCENES.arms)}
    rows = [row(name, level, split) for split in ("test", "shifted", "drawing") for name, level in levels.items()]
    return study_figure({"table": {"shared": rows}})


def _importance() -> Mapping[str, Any]:
    found = importance(drawn(60))
    assert found is not None
    return importance_figure(found)


FIGURES: dict[str, Callable[[], Any]] = {
    "alpha_figure": lambda: alpha_figure(made_up()),
    "study_figures": _study,
    "study_figures, pairs": lambda: pairs_figure(
        of_pairs(list(SEMI_SUPERVISED_SCENES.arms)), SEMI_SUPERVISED_SCENES.arms
    ),
    "comparison_page": lambda: comparison_figure(a_comparison(4, attacks=True), "test"),
    "response_figures": lambda: response_figure(one_at_a_time()),
    "response_figures, a grid": lambda: response_figure(full_grid()),
    "response_figures, drawn": lambda: response_figure(drawn()),
    "response_figures, many keys": lambda: response_figure(many_keys()),
    "response_figures, wide ranges": lambda: response_figure(wide_ranges()),
    "response_figures, two keys": lambda: interaction_figure(drawn()),
    "response_figures, importance": _importance,
}


@pytest.mark.seconds
@pytest.mark.parametrize(
    "name",
    slow_but(
        FIGURES, "alpha_figure", "study_figures", "comparison_page", "response_figures", "response_figures, two keys"
    ),
)
def test_text_is_legible_where_it_stands(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib
    from matplotlib.text import Text

    figures: list[Any] = []
    module = name.partition(",")[0]
    monkeypatch.setattr(f"vse.report.{module}.rendered", lambda figure: figures.append(figure))
    FIGURES[name]()
    figure = figures[0]
    with matplotlib.rc_context(STYLE):
        figure.canvas.draw()
    assert figure.get_size_inches()[0] in (WIDTH, COLUMN, COLUMN + 0.8)
    hidden = _hidden(figure)
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and t not in hidden]
    assert len(texts) > 5
    assert min(text.get_fontsize() for text in texts) >= TEXT
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts]
    page = figure.bbox
    for text, box in boxes:
        assert page.x0 <= box.x0 < box.x1 <= page.x1, text
        assert page.y0 <= box.y0 < box.y1 <= page.y1, text
    over = [(one, other) for (one, a), (other, b) in combinations(boxes, 2) if _overlap(a, b)]
    assert over == []


def _hidden(figure: Any) -> set[Any]:
    """Labels of ticks outside an axis's limits, which are kept and not drawn, and all of panels that are not shown."""
    from matplotlib.text import Text

    found: set[Any] = set()
    for axes in figure.axes:
        if not axes.get_visible():
            found |= set(axes.findobj(Text))
        for axis, limits in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not min(limits) <= tick.get_loc() <= max(limits):
                    found |= {tick.label1, tick.label2}
    return found


def _overlap(one: Any, other: Any) -> bool:
    slack = 0.5  # pixels: boxes are a little larger than their letters
    return (
        min(one.x1, other.x1) - max(one.x0, other.x0) > slack and min(one.y1, other.y1) - max(one.y0, other.y0) > slack
    )


def test_a_legend_has_as_many_columns_as_fit() -> None:
    assert legend_columns(["a", "b"]) == 2
    assert legend_columns(["x" * 200, "b"]) == 1
    assert legend_columns(["x" * 40] * 5) == 2
