"""An attack that is registered, and listed nowhere else, is made, measured, tabulated and drawn like the others."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.asked import asked
from tests.unit.report.results import made_up
from tests.unit.report.test_study_figure import LEVELS, findings, texts
from vse.adversaries.attacks import ATTACKS, CONTRAST_ATTACKS, contrast_classes, of_paper
from vse.adversaries.registry import Attack, ContrastAttack, attack, contrast_attack
from vse.adversaries.univse.editor import Change, Edit, Editor
from vse.adversaries.vsec.reading import Reading
from vse.adversaries.vsec.slots import NOTHING, Slot
from vse.config import override
from vse.evaluation.alpha import choose_alpha
from vse.evaluation.per_image import counts_of, terms_of
from vse.presets import preset
from vse.report.alpha_figure import alpha_figure
from vse.report.alpha_page import alpha_page
from vse.report.page import Provenance
from vse.report.study_figures import study_figure
from vse.report.tables import alpha_table
from vse.stages import pipeline
from vse.stages.attack import attack_split, contrast_split
from vse.stages.measuring.stage import measure_run
from vse.studies.runner import perform
from vse.studies.tables import unpack
from vse.studies.trainings import Training
from vse.workspace.layout import Workspace

NAME = "when"  # no attack of the project or of its guides
OTHERS = tuple(ATTACKS)
TIMES = ("night", "dawn", "noon")
CONFIG = override(preset("univse_tiny"), {"data.num_val": 4, "data.num_test": 8, "data.num_shifted": 3})


def at_some_time(editor: Editor) -> Change | None:
    """Says when it is, which no caption of scenes does."""
    time, end = editor.rng.choice(TIMES), len(editor.text.rstrip(" ."))
    return Change((Edit(end, end, f" at {time}"),), f"at {time}", (time,))


def echoed(reading: Reading) -> Iterator[Slot]:
    """Names the last noun in place of the first: only words of the training captions may come in."""
    nouns = [k for k, token in enumerate(reading.caption.parse) if token.pos == "NOUN" and reading.is_free(k, k + 1)]
    if len(nouns) > 1 and reading.lower[nouns[0]] != reading.lower[nouns[-1]]:
        fixed = ((nouns[0], nouns[0] + 1, reading.lower[nouns[-1]]),)
        yield Slot(paradigm="echo", first=0, last=0, phrases=NOTHING, allowed=1, fixed=fixed, reason="echoed{}")


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTACKS, NAME, Attack(name=NAME, draw=at_some_time))


@pytest.mark.seconds
def test_it_is_made_beside_the_others(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adversaries that were kept before lack it: others are made, the same of every other attack."""
    material = pipeline.prepare(CONFIG, workspace)
    before = attack_split(CONFIG, workspace, material, "test", "shared")
    monkeypatch.setitem(ATTACKS, NAME, Attack(name=NAME, draw=at_some_time))
    made = attack_split(CONFIG, workspace, material, "test", "shared")
    assert made.fingerprint != before.fingerprint
    assert list(made.texts) == [*OTHERS, NAME]
    assert {name: made.texts[name] for name in OTHERS} == before.texts
    captions = material.records.split("test").captions
    assert (np.bincount(made.caption[NAME], minlength=len(captions)) == len(TIMES)).all()  # of five asked for
    for text, row in zip(made.texts[NAME], made.caption[NAME], strict=True):
        plain = captions[row].text.rstrip(" .")
        assert any(text.startswith(f"{plain} at {time}") for time in TIMES)


@pytest.mark.seconds
@pytest.mark.usefixtures("added")
def test_it_is_measured_and_counts_in_sums(workspace: Workspace) -> None:
    config = override(CONFIG, {"train.epochs": 1, "model.dim": 32})
    _, tables = perform(Training("planted", config, (0.5, 1.0), ("test",)), workspace.root.uri)
    table = unpack(tables, "test", "shared", "0.5")
    assert terms_of("attacks/rsum3") == tuple(f"attack_{attack}/r{k}" for attack in (*OTHERS, NAME) for k in (1, 5, 10))
    hits, queries = counts_of(table, "attacks/rsum3")
    assert hits.shape == queries.shape == (8, 3 * len(ATTACKS))
    (run,) = workspace.root.child("runs").names()
    found = measure_run(workspace.run(run), workspace, *asked(alpha=0.5))
    for k, column in ((1, -3), (5, -2), (10, -1)):
        share = 100 * hits[:, column].sum() / queries[:, column].sum()
        assert found[f"test/attack_{NAME}/r{k}"] == pytest.approx(share)
    wins, pairs = counts_of(table, f"attack_{NAME}/pair_accuracy")
    assert found[f"test/attack_{NAME}/pair_accuracy"] == pytest.approx(100 * wins.sum() / pairs.sum())


@pytest.mark.usefixtures("added")
def test_alpha_is_chosen_with_it() -> None:
    curve = {
        alpha: {"val/rsum": 300.0, **{f"val/attack_{name}/rsum3": 100.0 for name in of_paper()}} for alpha in (0.5, 1.0)
    }
    for alpha, more in ((0.5, 80.0), (1.0, 20.0)):
        curve[alpha][f"val/attack_{NAME}/rsum3"] = more
    assert choose_alpha([curve]) == 0.5


@pytest.mark.seconds
@pytest.mark.usefixtures("added")
def test_pages_and_figures_show_it() -> None:
    results = made_up()
    table, drawn = alpha_table(results), alpha_figure(results)
    assert f"{NAME} attack" in texts(drawn["svg"])
    page = alpha_page(results, table, drawn["svg"], Provenance(commands=(), configuration={}, versions={}))
    assert f"mean of {len(ATTACKS)}" in page
    assert page.count(f'">{NAME} attack</th>') == 1
    measured = findings()
    for row in measured["table"]["shared"]:
        if row["split"] == "test":
            row |= {f"attack_{name}/r1": [LEVELS[row["arm"]] / 20] * 3 for name in ATTACKS if name not in of_paper()}
    svg = study_figure(measured)["svg"]
    assert [text for text in texts(svg) if text in ATTACKS] == list(ATTACKS)


@pytest.mark.seconds
@pytest.mark.usefixtures("added")
def test_more_attacks_than_hues_are_told_apart_as_far_as_these_go(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        monkeypatch.setitem(ATTACKS, f"{NAME} {number}", Attack(name=f"{NAME} {number}", draw=at_some_time))
    measured = findings()
    for row in measured["table"]["shared"]:
        row |= {f"attack_{name}/r1": [1.0, 0.0, 2.0] for name in ATTACKS}
    assert [text for text in texts(study_figure(measured)["svg"]) if text in ATTACKS] == list(ATTACKS)


def test_decorators_register_behind_the_attacks_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry in (ATTACKS, CONTRAST_ATTACKS):  # both are as before when the test ends
        monkeypatch.setitem(registry, NAME, None)
        del registry[NAME]
    papers, classes = of_paper(), contrast_classes()
    attack(NAME, revision=2)(at_some_time)
    contrast_attack(NAME)(lambda _: iter(()))
    assert list(ATTACKS) == [*papers, *sorted({*OTHERS, NAME} - {*papers})]
    assert of_paper() == papers
    assert contrast_classes() == {**classes, NAME: (NAME,)}
    assert contrast_classes(of_paper=True) == classes
    with pytest.raises(AssertionError, match=f"attack '{NAME}' is taken"):
        attack(NAME)(at_some_time)


@pytest.mark.slow
def test_a_contrast_attack_is_made_and_has_a_class_of_its_own(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    material = pipeline.prepare(CONFIG, workspace, parsed=True)
    before = contrast_split(CONFIG, workspace, material, "test", "shared")
    added = ContrastAttack(name="echo", slots=echoed, of_class="echo")
    monkeypatch.setitem(CONTRAST_ATTACKS, "echo", added)
    made = contrast_split(CONFIG, workspace, material, "test", "shared")
    assert made.fingerprint != before.fingerprint
    assert made.texts["echo"]
    assert {name: texts for name, texts in made.texts.items() if name != "echo"} == before.texts
