"""Every subset of components in one pass, against families that were configured with that subset."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, synthetic
from tests.unit.evaluation.contexts import split_of
from tests.unit.evaluation.models import Cosine
from vse.evaluation.attacks import UnencodedSet
from vse.evaluation.codes import Codes, encode_examples
from vse.evaluation.ensemble import Ensemble, joined
from vse.evaluation.outcomes import pack, rows_of, unpack
from vse.evaluation.protocol import Protocol
from vse.evaluation.retrieval import num_items
from vse.evaluation.task import AdversarialTexts, Context, Queries, Subject, measured
from vse.evaluation.tasks import component_subsets
from vse.evaluation.tasks.attacks import UNIVSE
from vse.evaluation.tasks.component_subsets import SUBSETS, ComponentSubsetsTask, head
from vse.training.batches import text_batch

DATA, OTHERS = synthetic(seed=5, images=11, share_copied=0), synthetic(seed=8, images=14, share_bare=0.4)
FAMILY = make_family("univse", DATA.context, aggregation="gru", alpha=0.4).eval()
ATTACKS = {"object": (1, 19), "attribute": (7, 23), "relation": (3, 11)}
"""Rows of OTHERS that attack: as many as differ."""


def configured(*subset, **settings):
    """The family as if it had been configured with a subset."""
    given: dict[str, Any] = {"aggregation": "gru", "alpha": 0.4, **settings}
    given |= {"components": subset} if subset else {}
    family = make_family("univse", DATA.context, **given).eval()
    family.load_state_dict(FAMILY.state_dict())
    return family


class Runs:
    """Families on made-up captions; counts how often texts are encoded."""

    def __init__(self, *families):
        self.families: Any = families
        self.model = Ensemble(families, [{}] * len(families))
        self.encodings = 0

    def encode(self, part):
        self.encodings += 1
        codes = [encode_examples(family, DATA.examples) for family in self.families]
        images, captions = (joined([getattr(one, side) for one in codes]) for side in ("images", "captions"))
        return Codes(images, captions, codes[0].caption_to_image)

    def adversaries(self, rows):
        texts = OTHERS.examples.texts

        def encode(chosen):
            self.encodings += 1
            batch = text_batch(texts, rows[chosen], components=True)
            with torch.inference_mode():
                return joined([family.encode_captions(batch) for family in self.families])

        caption = np.arange(len(rows)) * 3 % len(DATA)
        return UnencodedSet(caption=np.sort(caption), lengths=texts.tokens.lengths[rows], encode=encode)


def context_of(*families, folds=1, attacks=tuple(ATTACKS)):
    runs: Any = Runs(*families)
    num_images = int(DATA.examples.image.max()) + 1
    protocol = Protocol(name="test", num_images=num_images - num_images % folds, folds=folds)
    sets = {name: runs.adversaries(np.arange(*ATTACKS[name])) for name in attacks}
    texts = AdversarialTexts(dict.fromkeys(sets, ("text",)), sets)
    split = split_of(DATA.examples.image, num_images)
    return Context(runs, split, protocol, {(UNIVSE, "shared"): texts}, whole=True)


def by_hand(family, attack, k):
    """R@k of images among captions and the adversaries of an attack, and the share of pairs, score by score."""
    runs = Runs(family)
    codes = runs.encode(None)
    attacking = runs.adversaries(np.arange(*ATTACKS[attack]))
    false = attacking.encode_all()
    image = DATA.examples.image
    hits, pairs = [], []
    true = runs.model.score_parts(codes.images, codes.captions)["mean"]
    wrong = runs.model.score_parts(codes.images, false)["mean"]
    for i in range(num_items(codes.images)):
        best = true[i, torch.from_numpy(image == i)].max()
        better = sum(bool(score > best) for c, score in enumerate(true[i]) if image[c] != i)
        hits.append(better + sum(bool(score > best) for score in wrong[i]) < k)
    for a, caption in enumerate(attacking.caption.tolist()):
        pairs.append(bool(true[image[caption], caption] > wrong[image[caption], a]))
    return 100 * np.mean(hits), 100 * np.mean(pairs)


@pytest.fixture(scope="module")
def values():
    return measured(ComponentSubsetsTask(), context_of(FAMILY))[0]


@pytest.mark.seconds
@pytest.mark.parametrize("subset", SUBSETS)
def test_each_subset_is_what_a_family_configured_with_it_scores(values, subset):
    family = configured(*subset) if subset else configured(alpha=1.0)
    for attack in ATTACKS:
        printed = subset == ("attribute",) and attack == "attribute"
        for k in (1, 5, 10):
            recall, pairs = by_hand(configured("object", "attribute") if printed else family, attack, k)
            assert values[f"{head(subset)}/attack_{attack}/r{k}"] == pytest.approx(recall)
        assert values[f"{head(subset)}/attack_{attack}/pair_accuracy"] == pytest.approx(pairs)
    sums = [values[f"{head(subset)}/attack_{attack}/r{k}"] for attack in ATTACKS for k in (1, 5, 10)]
    assert values[f"{head(subset)}/total"] == pytest.approx(sum(sums))


@pytest.mark.seconds
def test_objects_join_attributes_under_their_attack_alone():
    task = ComponentSubsetsTask(ComponentSubsetsTask.Config(attribute_with_objects=False))
    values, with_objects = (measured(each, context_of(FAMILY))[0] for each in (task, ComponentSubsetsTask()))
    recall, pairs = by_hand(configured("attribute"), "attribute", 5)
    assert values["components_attribute/attack_attribute/r5"] == pytest.approx(recall)
    assert values["components_attribute/attack_attribute/pair_accuracy"] == pytest.approx(pairs)
    differing = {name for name, value in values.items() if with_objects[name] != value}
    assert differing
    changed = ("components_attribute/attack_attribute/", "components_attribute/total")
    assert all(name.startswith(changed) for name in differing)


def test_captions_are_encoded_once_and_the_family_is_left_as_it_was():
    context: Any = context_of(FAMILY)
    measured(ComponentSubsetsTask(), context)
    assert context.runs.encodings == 1 + len(ATTACKS)
    assert FAMILY.encode_captions(text_batch(DATA.examples.texts, np.arange(3), True)).keys() == {"sentences", "bags"}


@pytest.mark.seconds
def test_an_ensemble_is_the_mean_of_the_subsets_of_its_members():
    other = make_family("univse", DATA.context, seed=3).eval()
    values = measured(ComponentSubsetsTask(), context_of(FAMILY, FAMILY))[0]
    assert values == pytest.approx(measured(ComponentSubsetsTask(), context_of(FAMILY))[0])
    both = measured(ComponentSubsetsTask(), context_of(FAMILY, other))[0]
    assert both != pytest.approx(values)


@pytest.mark.seconds
def test_outcomes_make_the_numbers_again_in_folds():
    context, task = context_of(FAMILY, folds=2), ComponentSubsetsTask()
    values, _, queries = measured(task, context)
    outcomes = unpack(pack(rows_of(queries, context.split, "test"), {}))[0]["test"]
    for name in values:
        ((units, hits, asked),) = outcomes.terms(task.metric(name))
        assert len(units) == 10
        assert 100 * (hits.sum(0) / asked.sum(0)).sum() == pytest.approx(values[name])
    by_name: dict[str, list[float]] = {}
    for each in queries:
        assert isinstance(each, Queries)
        for name, value in each.ranks.metrics().items():
            by_name.setdefault(f"{each.name}/{name}", []).append(value)
    recorded = {name: np.mean(each) for name, each in by_name.items() if name in values}
    assert len(recorded) == len(SUBSETS) * 15
    assert {name: values[name] for name in recorded} == pytest.approx(recorded)


def test_no_total_without_one_of_the_attacks():
    values = measured(ComponentSubsetsTask(), context_of(FAMILY, attacks=("object", "relation")))[0]
    assert "components_all/attack_relation/rsum3" in values
    assert not [name for name in values if name.endswith("total") or "attack_attribute" in name]


def test_what_it_needs():
    both, one = (cast(Subject, SimpleNamespace(families=each)) for each in ((FAMILY, Cosine()), (FAMILY,)))
    assert "aggregate components" in ComponentSubsetsTask().missing(both)
    assert component_subsets.COMPONENTS.of(one)
