"""Parsing with visual cues on made-up codes against a loop over captions."""

import json
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from tests.unit.evaluation.contexts import MadeUpRuns, evaluated, split_of
from tests.unit.evaluation.models import Cosine, unit
from vse.data.records import Caption, Records, Split
from vse.errors import InputError
from vse.evaluation.protocol import Protocol
from vse.evaluation.task import Context, UnitValues, measured
from vse.evaluation.tasks import visual_parsing
from vse.evaluation.tasks.visual_parsing import VisualParsingTask
from vse.text.components import extract
from vse.text.parser import Parser, shared_parser

TEXTS = (
    "A girl in a red sweater eats a burger",
    "A white clock on the wall is above a wooden table",
    "A dog chases a black cat",
    "A bowl of soup",
    "Nobody is there",
    "A man rides a small horse next to a big dog",
)
SIZES = (2, 0, 3, 1)


class Runs(MadeUpRuns):
    """Each text has a random code."""

    judge = None

    def __init__(self, seed=0):
        image = np.repeat(np.arange(len(SIZES)), SIZES)
        split = split_of(image, len(SIZES))
        captions = tuple(Caption(c.id, c.image, t) for c, t in zip(split.captions, TEXTS, strict=True))
        codes = unit(torch.randn(len(SIZES), 4, generator=torch.Generator().manual_seed(seed)))
        super().__init__(Cosine(), {"v": codes}, {"u": torch.zeros(len(TEXTS), 4)}, split)
        self.split = Split("test", split.images, captions, image)

    def image(self, id_):
        return PIL.Image.new("RGB", (40, 30), "teal")

    def parsed(self, texts):
        return [(parse, extract(parse)) for parse in shared_parser(Parser.Config()).parse_all(texts)]

    def encode_phrases(self, texts, components):
        seeds = [sum(k * ord(letter) for k, letter in enumerate(text, 1)) for text in texts]
        return {"u": unit(torch.stack([torch.randn(4, generator=torch.Generator().manual_seed(s)) for s in seeds]))}


def by_hand(runs, kind):
    """(accuracy, chance) in percent over the content words of a kind."""
    gained, chance = [], []
    for (_, components), image in zip(runs.parsed(TEXTS), runs.split.caption_to_image, strict=True):
        nouns = [each.word for each in components.objects]
        code = runs.codes[0]["v"][image]

        def score(*words, code=code):
            return float(runs.encode_phrases([" ".join(words)], [None])["u"][0] @ code)

        if kind == "attribute":
            for each in components.attributes:
                gained.append(max(nouns, key=lambda noun, a=each.word: score(a, noun)) == each.noun)
                chance.append(1 / len(nouns))
        for each in components.relations if kind == "relation" else ():
            if each.word != "of":
                best = max(permutations(nouns, 2), key=lambda pair, w=each.word: score(pair[0], w, pair[1]))
                gained.append((best[0] == each.subject) / 2 + (best[1] == each.object) / 2)
                chance.append(1 / len(nouns))
    return 100 * np.mean(gained), 100 * np.mean(chance), len(gained)


@pytest.mark.parametrize("at_once", [1, 7, 4096])
@pytest.mark.parametrize("seed", [0, 1])
def test_accuracy_and_chance_by_hand(seed, at_once, monkeypatch):
    monkeypatch.setattr(visual_parsing, "CANDIDATES_AT_ONCE", at_once)
    runs: Any = Runs(seed)
    values = evaluated(VisualParsingTask(), Context(runs, runs.split, Protocol(name="all"), {}, whole=True)).values
    for kind in ("attribute", "relation"):
        accuracy, chance, number = by_hand(runs, kind)
        assert number > 3
        assert values[f"parsing_{kind}/accuracy"] == pytest.approx(accuracy)
        assert values[f"parsing_{kind}/random"] == pytest.approx(chance)
        assert values[f"parsing_{kind}/words"] == number


def test_what_the_source_knows_is_the_truth():
    runs: Any = Runs()
    runs.judge = lambda image, text: text in ("a black dog", "a cat chases a dog")
    words, rows = VisualParsingTask()._content_words(
        Context(runs, runs.split, Protocol(name="all"), {}), [(c.image, c.text) for c in runs.split.captions]
    )
    assert [(each.word, each.right) for each in words] == [
        ("black", {("black", "dog")}),
        ("chase", {("cat", "chase", "dog")}),
    ]
    assert rows.tolist() == [2, 2]


def test_captions_of_files_and_what_their_negatives_swap(tmp_path):
    runs: Any = Runs(1)
    ids = [image.id for image in runs.split.images]
    entries = [
        (ids[0], "A white dog and a black cat", "A black dog and a white cat"),
        (ids[2], "A man rides a horse", "A horse rides a man"),
        (ids[2], "A man rides a horse", "A man rides a bicycle"),
        ("elsewhere", "A dog", "A cat"),
    ]
    file = tmp_path / "swap.json"
    rows = [dict(zip(("filename", "caption", "negative_caption"), each, strict=True)) for each in entries]
    file.write_text(json.dumps(rows))
    task = VisualParsingTask(VisualParsingTask.Config(captions=(str(file),)))
    values, pictures, recorded = measured(task, Context(runs, runs.split, Protocol(name="all"), {}, whole=True))
    assert pictures["captions.png"].startswith(b"\x89PNG")

    def wins(image, true, false):
        code = runs.codes[0]["v"][image]
        one, other = (float(runs.encode_phrases([text], [None])["u"][0] @ code) for text in (true, false))
        return 100.0 * (one > other)

    attributes = wins(0, "white dog", "white cat"), wins(0, "black cat", "black dog")
    assert values["parsing_attribute/swap/accuracy"] == pytest.approx(np.mean(attributes))
    assert values["parsing_attribute/swap/swapped/accuracy"] == pytest.approx(np.mean(attributes))
    assert values["parsing_relation/swap/swapped/accuracy"] == wins(2, "man ride horse", "horse ride man")
    assert values["parsing_relation/swap/swapped/random"] == 50
    assert values["parsing_attribute/swap/swapped/words"] == 2
    assert values["parsing_relation/swap/words"] == values["parsing_relation/swap/swapped/words"] == 1
    units = [each for each in recorded if isinstance(each, UnitValues)]
    for each in units:
        assert values[each.metric] == pytest.approx(100 * each.hits.sum() / each.queries.sum())
    assert {each.metric for each in units} == {name for name in values if name.endswith("accuracy")}


@pytest.mark.parametrize("folds", [1, 2])
def test_a_name_that_images_of_several_folds_share_is_none_of_theirs(tmp_path, folds, caplog):
    """`0.png` may be of either folder, and of `c` only one fold has an image."""
    runs: Any = Runs(1)
    names = ("a/0.png", "a/1.png", "b/0.png", "c/3.png")
    images = tuple(replace(each, uri=name) for each, name in zip(runs.split.images, names, strict=True))
    runs.split, runs.records = replace(runs.split, images=images), Records("made up", images, ())
    file = tmp_path / "swap.tsv"
    rows = [(name, "A white dog and a black cat", "A black dog and a white cat") for name in ("0.png", "c/3.png")]
    file.write_text("\n".join("\t".join(row) for row in (("filename", "caption", "negative_caption"), *rows)))
    no_parse = {"objects": ["dog", "cat"], "attributes": [["red", "dog"]], "relations": []}
    gold = [{"image": name, "caption": "A red dog and a cat", **no_parse} for name in ("0.png", "3.png")]
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    config = VisualParsingTask.Config(captions=(str(file),), annotated=(str(tmp_path / "gold.json"),))
    context = Context(runs, runs.split, Protocol(name="all", folds=folds), {}, whole=True)
    values = evaluated(VisualParsingTask(config), context).values
    words = [values[f"parsing_attribute/{name}/words"] for name in ("swap", "swap/swapped", "gold/annotated")]
    assert words == [2, 2, 1]
    for key in (f"captions={file}", f"annotated={tmp_path}/gold.json"):
        counted = (
            f"measure.visual_parsing.{key}: 1 of 2 captions give a name that several images share, such as '0.png'; "
        )
        assert sum(text.startswith(counted) for text in caplog.messages) == 1
    gold[1]["image"] = "0.png"
    (tmp_path / "gold.json").write_text(json.dumps(gold))
    with pytest.raises(
        InputError, match=r"gold\.json: none of 2 captions is of an image of made up; 2 of 2 captions give"
    ):
        VisualParsingTask(config).check(runs.records)


def test_annotated_captions_have_the_truth_of_a_person(tmp_path):
    """Of several readings each is right, optional ones are no candidates, and excluded words are not asked."""
    runs: Any = Runs(2)
    ids = [image.id for image in runs.split.images]
    no_parse = {"objects": [], "attributes": [], "relations": []}
    entries = [
        {"image": ids[2], "caption": "A red cat, a dog and a big ball", "objects": ["cat", "dog", "ball"]}
        | {"attributes": [["big", "ball"], {"any": [["red", "cat"], ["red", "dog"]]}], "optional_objects": ["end"]}
        | {"relations": [{"any": [["cat", "near", "dog"], ["dog", "near", "cat"]]}, ["dog", "with", "ball"]]}
        | {"optional_attributes": [["big", "dog"]], "optional_relations": [["cat", "with", "ball"]]},
        {"image": ids[0], "caption": "A bowl of soup", **no_parse, "relations": [["bowl", "of", "soup"]]},
        {"image": "elsewhere", "caption": "A red dog", **no_parse, "attributes": [["red", "dog"]]},
    ]
    file = tmp_path / "gold.json"
    file.write_text(json.dumps(entries))
    task = VisualParsingTask(VisualParsingTask.Config(annotated=(str(file),)))
    context = Context(runs, runs.split, Protocol(name="all"), {}, whole=True)
    values = evaluated(task, context).values
    code = runs.codes[0]["v"][2]

    def best(*candidates):
        return max(candidates, key=lambda text: float(runs.encode_phrases([text], [None])["u"][0] @ code))

    right = best("big cat", "big ball") == "big ball", best("red cat", "red dog", "red ball") != "red ball"
    assert values["parsing_attribute/gold/annotated/accuracy"] == pytest.approx(100 * np.mean(right))
    assert values["parsing_attribute/gold/annotated/random"] == pytest.approx(100 * (1 / 2 + 2 / 3) / 2)
    pairs = list(permutations(("cat", "dog", "ball"), 2))
    near = best(*(f"{one} near {other}" for one, other in pairs)).split()[::2]
    held = best(*(f"{one} with {other}" for one, other in pairs if (one, other) != ("cat", "ball"))).split()[::2]
    credit = [
        max((near[0] == one) / 2 + (near[1] == other) / 2 for one, other in (("cat", "dog"), ("dog", "cat"))),
        (held[0] == "dog") / 2 + (held[1] == "ball") / 2,
    ]
    assert values["parsing_relation/gold/annotated/accuracy"] == pytest.approx(100 * np.mean(credit))
    assert [values[f"parsing_{kind}/gold/annotated/words"] for kind in ("attribute", "relation")] == [2, 2]
    assert {metric.name for metric in task.metrics} >= values.keys()


@pytest.mark.parametrize(
    ("key", "file", "content"),
    [
        ("captions", "other.tsv", "image\tcaption\tnegative\nelsewhere\ta dog\ta cat\n"),
        (
            "annotated",
            "other.json",
            '[{"image": "elsewhere", "caption": "a dog", "objects": ["dog"], "attributes": [], "relations": []}]',
        ),
    ],
)
def test_files_of_other_images_are_refused(tmp_path, key, file, content):
    (tmp_path / file).write_text(content)
    task = VisualParsingTask(VisualParsingTask.Config(**{key: (str(tmp_path / file),)}))
    with pytest.raises(InputError, match=rf"visual_parsing.{key}=.*: none of 1 captions is of an image of made"):
        task.check(Records("made up", Runs().split.images, ()))
