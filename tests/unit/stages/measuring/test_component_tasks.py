"""Unified retrieval and parsing with visual cues on trained runs of scenes."""

import pytest

from tests.levels import slow_but
from tests.unit.asked import asked
from vse.evaluation.tasks.unified_retrieval import TITLES
from vse.stages.measuring.stage import measure_run

pytestmark = pytest.mark.seconds

CHANGES = {"data.num_test": 12, "data.num_val": 8, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 32}
BOTH = ("unified_retrieval", "visual_parsing")
KEYS = {"unified_retrieval__frequent": 1, "unified_retrieval__least_nouns": 2, "unified_retrieval__least": 1}


@pytest.mark.parametrize("family", slow_but(["univse", "vsepp"], "univse"))
def test_every_kind_has_numbers(place, family, request):
    found = measure_run(request.getfixturevalue(family), place, *asked(*BOTH, **KEYS))
    for kind in TITLES:
        assert 0 < found[f"test/unified_{kind}/random"] <= 100
        assert 0 < found[f"test/unified_{kind}/map"] <= 100
        assert found[f"test/unified_{kind}/queries"] >= 1
        chosen = f"test/unified_{kind}/phi" in found
        assert chosen == (family == "univse" and kind in ("obj", "attr", "obj_det"))
    for kind in ("attribute", "relation"):
        assert 0 <= found[f"test/parsing_{kind}/accuracy"] <= 100
        assert 0 < found[f"test/parsing_{kind}/random"] < 100


@pytest.mark.slow
def test_what_is_dropped_of_parses_leaves_the_queries(place, univse):
    plain, dropped = (measure_run(univse, place, *asked(*BOTH, drop_components=share, **KEYS)) for share in (0.0, 1.0))
    for name in ("unified_attr/queries", "unified_attr/map", "parsing_relation/words", "parsing_relation/accuracy"):
        assert plain[f"test/{name}"] == dropped[f"test/{name}"]
