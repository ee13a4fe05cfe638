"""Numbers that stand in one table have met the same captions, adversaries and truth."""

import copy
import dataclasses

import pytest

from tests.levels import slow
from tests.unit.asked import asked
from vse.errors import InputError
from vse.report import comparison_build
from vse.report.measured import RunNumbers, alike
from vse.stages.measuring.plan import BOXES, PARSES, TRAINING, plan_measure
from vse.stages.measuring.stage import measure_run

pytestmark = pytest.mark.seconds

CHANGES = {"data.num_val": 4, "data.num_test": 8, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 32}


def met(run, place, task, **keys):
    names, options = asked(task, **keys)
    return plan_measure([run], place, names, options).met(task)["test"]


def together(*runs):
    return len(alike(list(runs), lambda each: each)) == 1


@pytest.mark.parametrize(
    ("task", "one", "other"),
    [
        ("component_subsets", {"words": "shared"}, {"words": "published"}),
        ("saliency", {"images": 2}, {"images": 3}),
        *slow(
            [
                ("component_subsets", {}, {"attribute_with_objects": False}),
                ("alpha_curve", {"words": "shared"}, {"words": "disjoint"}),
                ("saliency", {"per_caption": 1}, {"per_caption": 2}),
            ]
        ),
    ],
)
def test_settings_that_are_not_in_names_keep_numbers_apart(place, univse, task, one, other):
    keys = [{f"{task}__{key}": value for key, value in each.items()} for each in (one, other)]
    assert not together(*(met(univse, place, task, **each) for each in keys))
    assert together(*(met(univse, place, task, **each) for each in keys[:1] * 2))


def test_kinds_of_words_that_are_in_names_share_a_table(place, univse):
    assert together(*(met(univse, place, "attacks", attacks__words=(words,)) for words in ("shared", "published")))
    for words in ("shared", "disjoint"):
        measure_run(univse, place, *asked("attacks", attacks__words=(words,)))
    kinds = RunNumbers(univse).met["attacks", "test"].keys()
    assert {"test/univse/shared", "test/univse/disjoint"} <= kinds


def of_parser(plan, parser):
    """A plan whose captions are parsed by a parser of this fingerprint."""
    (member,) = plan.members.each
    parses = copy.copy(member.material.parses)
    parses.fingerprint = parser
    member = dataclasses.replace(member, material=dataclasses.replace(member.material, parses=parses))
    return dataclasses.replace(plan, members=dataclasses.replace(plan.members, each=(member,)))


def test_truths_of_two_parsers_are_two(place, univse):
    plan = plan_measure([univse], place, *asked("retrieval", "visual_parsing"))
    one, other = of_parser(plan, "one"), of_parser(plan, "other")
    assert not together(*(each.met("visual_parsing")["test"] for each in (one, other)))
    assert together(*(each.met("retrieval")["test"] for each in (one, other)))
    differing = {key for key, digits in one.fingerprints.items() if other.fingerprints[key] != digits}
    assert differing == {PARSES}
    assert PARSES not in plan_measure([univse], place, *asked("retrieval")).fingerprints


def of_records(plan, **changes):
    """A plan on records of which these parts are others."""
    (member,) = plan.members.each
    material = dataclasses.replace(member.material, records=dataclasses.replace(member.material.records, **changes))
    member = dataclasses.replace(member, material=material)
    return dataclasses.replace(plan, members=dataclasses.replace(plan.members, each=(member,)))


@pytest.mark.parametrize("task", ["unified_retrieval", *slow(["neighbours", "saliency", "zero_shot"])])
def test_truths_of_two_annotations_are_two(place, univse, task):
    plan = plan_measure([univse], place, *asked("retrieval", task))
    other = of_records(plan, boxes={})
    assert not together(*(each.met(task)["test"] for each in (plan, other)))
    assert together(*(each.met("retrieval")["test"] for each in (plan, other)))
    assert {key for key, digits in plan.fingerprints.items() if other.fingerprints[key] != digits} == {BOXES}


@pytest.mark.parametrize("task", ["unified_retrieval", *slow(["image_to_word", "fill_in_blank"])])
def test_training_captions_that_decide_queries_keep_numbers_apart(place, univse, task):
    plan = plan_measure([univse], place, *asked("retrieval", task))
    captions, train = plan.members.records.captions, set(plan.members.records.split("train").captions)
    first = next(k for k, each in enumerate(captions) if each in train)
    other = of_records(plan, captions=(*captions[:first], *captions[first + 1 :]))
    assert not together(*(each.met(task)["test"] for each in (plan, other)))
    assert together(*(each.met("retrieval")["test"] for each in (plan, other)))
    assert {key for key, digits in plan.fingerprints.items() if other.fingerprints[key] != digits} == {TRAINING}


def test_runs_with_other_boxes_are_not_compared(place, univse, vsepp, monkeypatch):
    def planned(runs, *given):
        plan = plan_measure(runs, *given)
        return of_records(plan, boxes={}) if runs[0].name == vsepp.name else plan

    monkeypatch.setattr(comparison_build, "plan_measure", planned)
    runs = [comparison_build.compared_run(run, place) for run in (univse, vsepp)]
    line = rf"^runs=.*: {univse.name} and {vsepp.name} have other annotated boxes, which .* tasks=unified_retrieval$"
    with pytest.raises(InputError, match=line):
        comparison_build.measured_alike(runs, place, *asked("retrieval", "unified_retrieval"))


def test_runs_of_two_parsers_are_not_compared(place, univse, vsepp, monkeypatch):
    def planned(runs, *given):
        return of_parser(plan_measure(runs, *given), runs[0].name)

    monkeypatch.setattr(comparison_build, "plan_measure", planned)
    runs = [comparison_build.compared_run(run, place) for run in (univse, vsepp)]
    names = f"{univse.name} and {vsepp.name}"
    line = rf"^runs=.*: {names} have other parsers \(text\.parser\), and parses say what is right in tasks=visual_p"
    with pytest.raises(InputError, match=line):
        comparison_build.measured_alike(runs, place, *asked("visual_parsing"))
