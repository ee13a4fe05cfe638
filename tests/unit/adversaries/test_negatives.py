"""Sampled negatives: what they may never be, how many there are, and that every allowed word is equally likely."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.synthetic import make_objective, synthetic
from vse.adversaries import negatives
from vse.adversaries.negatives import Mentions, NegativeCounts, NegativeSampler, Pools, one_spelling
from vse.adversaries.pools import build_pools
from vse.data.ragged import Ragged
from vse.data.sources.scenes import Scenes
from vse.errors import InputError
from vse.text.components import Components, extract
from vse.text.parser import Parser, shared_parser
from vse.text.vocabulary import build_vocabulary
from vse.training.examples import examples_of
from vse.training.inputs import pool_ids

COUNTS = NegativeCounts(
    nouns=6, attribute_words=4, attribute_nouns=3, relation_words=4, relation_subjects=2, relation_objects=3
)


def _mentioned(data, name, image):
    rows = getattr(data.examples.texts, name)
    captions = np.flatnonzero(data.examples.image == image)
    return {tuple(np.atleast_1d(item).tolist()) for c in captions for item in rows.row(c)}


@pytest.fixture(params=["in order", "by trial", "by trial with none to spare"])
def manner(request, monkeypatch):
    """Both manners of drawing, and that in which many rows fall back upon the other."""
    if request.param != "in order":
        monkeypatch.setattr(negatives, "LARGE", 0)
    if request.param.endswith("spare"):
        monkeypatch.setattr(negatives, "SPARE", 0)


@pytest.mark.usefixtures("manner")
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10_000),
    nouns=st.integers(1, 12),
    adjectives=st.integers(1, 5),
    relations=st.integers(1, 5),
    epoch=st.integers(0, 3),
)
def test_negatives_are_never_true_and_as_many_as_there_can_be(seed, nouns, adjectives, relations, epoch):
    data = synthetic(seed, images=6, nouns=nouns, adjectives=adjectives, relations=relations)
    rows = np.random.default_rng(seed).permutation(len(data))
    images, texts = data.examples.image[rows], data.examples.texts
    sampler = NegativeSampler(data.pools, data.examples.mentions(), COUNTS, seed)
    objects, pairs, triples = (getattr(texts, n).pad(rows)[0] for n in ("objects", "attributes", "relations"))
    nouns_drawn = sampler.objects(objects, rows, images, epoch)
    words, pair_nouns = sampler.attributes(pairs, rows, images, epoch)
    made = sampler.relations(triples, rows, images, epoch)
    assert nouns_drawn.shape == (*objects.shape, 6)
    assert words.shape == (*pairs.shape[:2], 4)
    assert pair_nouns.shape == (*pairs.shape[:2], 3)
    assert made.shape == (*triples.shape[:2], 9, 3)

    def check(drawn, pool, barred, num):
        """Distinct draws of the pool, none barred, zeros only behind them and only where the pool has no more."""
        allowed = set(pool.tolist()) - barred
        count = min(num, len(allowed))
        assert 0 not in drawn[:count]
        assert set(drawn[:count]) <= allowed
        assert len(set(drawn[:count])) == count
        assert not any(drawn[count:])

    for b, image in enumerate(images):
        known = _mentioned(data, "objects", image)
        for m, noun in enumerate(objects[b].tolist()):
            if not noun:
                assert not nouns_drawn[b, m].any()
                continue
            check(nouns_drawn[b, m].tolist(), data.pools.nouns, {n for (n,) in known} | {noun}, 6)
        known = _mentioned(data, "attributes", image)
        for m, (adjective, noun) in enumerate(pairs[b].tolist()):
            if not adjective:
                assert not words[b, m].any()
                assert not pair_nouns[b, m].any()
                continue
            check(words[b, m].tolist(), data.pools.attributes, {a for a, n in known if n == noun} | {adjective}, 4)
            check(pair_nouns[b, m].tolist(), data.pools.nouns, {n for a, n in known if a == adjective} | {noun}, 3)
        known = _mentioned(data, "relations", image)
        for m, triple in enumerate(triples[b].tolist()):
            if not triple[0]:
                assert not made[b, m].any()
                continue
            start = 0
            for slot, num, pool in ((1, 4, data.pools.relations), (0, 2, data.pools.nouns), (2, 3, data.pools.nouns)):
                part = made[b, m, start : start + num]
                for item in part[part.any(-1)].tolist():
                    assert [item[k] for k in range(3) if k != slot] == [triple[k] for k in range(3) if k != slot]
                others = [k for k in range(3) if k != slot]
                barred = {t[slot] for t in known if all(t[k] == triple[k] for k in others)} | {triple[slot]}
                check(part[:, slot].tolist(), pool, barred, num)
                start += num


def _one_image(nouns, count, mentioned):
    """A caption repeated under many sample numbers; its image mentions the given nouns."""
    mentions = Mentions(Ragged.of([mentioned]), Ragged.of([[]], 2), Ragged.of([[]], 3))
    pools = Pools(np.arange(4, 4 + nouns), np.arange(0), np.arange(0))
    return NegativeSampler(pools, mentions, NegativeCounts(nouns=count), seed=9)


@pytest.mark.usefixtures("manner")
@pytest.mark.parametrize("count", [1, 3])
def test_every_allowed_noun_is_equally_likely(count):
    sampler, num = _one_image(12, count, [4, 5]), 6000
    drawn = sampler.objects(np.full((num, 1), 4), np.arange(num), np.zeros(num, dtype=np.int64), epoch=0)
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == list(range(6, 16))
    expected = num * count / 10
    # Draws without replacement vary less than independent ones, so that the chi-square bound holds a fortiori.
    assert ((counts - expected) ** 2 / expected).sum() < 27.9  # 0.1 % point, 9 degrees of freedom
    first = np.unique(drawn[:, 0, 0], return_counts=True)[1]
    assert ((first - num / 10) ** 2 / (num / 10)).sum() < 27.9


@pytest.mark.usefixtures("manner")
def test_draws_of_two_positions_and_two_epochs_are_independent():
    sampler, num = _one_image(12, 1, [4]), 4000
    images = np.zeros(num, dtype=np.int64)
    drawn = sampler.objects(np.full((num, 2), 4), np.arange(num), images, epoch=0)[..., 0]
    later = sampler.objects(np.full((num, 2), 4), np.arange(num), images, epoch=1)[..., 0]
    for one, other in ((drawn[:, 0], drawn[:, 1]), (drawn[:, 0], later[:, 0]), (drawn[1:, 0], drawn[:-1, 0])):
        share = float((one == other).mean())
        assert abs(share - 1 / 11) < 4 * np.sqrt(1 / 11 / num)  # four standard errors


def test_what_is_drawn_from_a_large_pool_depends_on_the_sample_alone():
    """Not on what else is in the batch, nor on padding."""
    sampler = _one_image(negatives.LARGE + 1, 16, [4, 5, 6])
    num = 500
    words, images = np.full((num, 1), 4), np.zeros(num, dtype=np.int64)
    drawn = sampler.objects(words, np.arange(num), images, epoch=0)
    assert all(len(set(row.tolist()) - {4, 5, 6}) == 16 for row in drawn[:, 0])
    chosen = np.random.default_rng(0).permutation(num)[:50]
    wide = np.concatenate([words[chosen], np.zeros((50, 2), dtype=np.int64)], axis=1)
    np.testing.assert_array_equal(sampler.objects(wide, chosen, images[chosen], 0)[:, :1], drawn[chosen])


def test_an_empty_pool_or_batch_draws_nothing():
    sampler = _one_image(0, 3, [4])
    assert sampler.objects(np.array([[4]]), np.array([0]), np.array([0]), 0).tolist() == [[[0, 0, 0]]]
    none = np.zeros(0, dtype=np.int64)
    assert _one_image(3, 2, [4]).objects(np.zeros((0, 0), dtype=np.int64), none, none, 0).shape == (0, 0, 2)


@pytest.mark.seconds
def test_no_caption_of_the_image_says_a_negative_of_a_noun():
    """On rendered scenes, whose nouns have up to three adjectives, of which one is the attribute."""
    parser = shared_parser(Parser.Config())
    split = Scenes(Scenes.Config(num_train=60, num_val=1, num_test=1, num_shifted=0)).describe().split("train")
    parses = {c.text: parser.parse(c.text) for c in split.captions}
    found = {text: extract(parse) for text, parse in parses.items()}
    words = [word for parse in parses.values() for token in parse for word in (token.text.lower(), token.lemma)]
    vocabulary = build_vocabulary([" ".join(words)])

    class Source:
        def components(self, text: str) -> Components:
            return found[text]

    data = examples_of(split, {}, vocabulary, Source())
    ids = pool_ids(build_pools((parses[c.text], found[c.text]) for c in split.captions), vocabulary)
    rows = np.arange(len(data))
    pairs = data.texts.attributes.pad(rows)[0]
    adjectives, _ = NegativeSampler(ids, data.mentions(), NegativeCounts(), 0).attributes(pairs, rows, data.image, 0)
    name, drawn, several = {i: word for word, i in vocabulary.ids.items()}, 0, 0
    for image in range(data.num_images):
        said = set()
        for caption in np.flatnonzero(data.image == image):
            parse = parses[split.captions[caption].text]
            adjective = [t for t in parse if t.dep == "amod" and t.pos == "ADJ"]
            several += len(adjective) > len({t.head for t in adjective})
            said |= {(t.text.lower(), parse[t.head].lemma) for t in adjective}
        for caption in np.flatnonzero(data.image == image):
            for (_, noun), words in zip(pairs[caption], adjectives[caption], strict=True):
                negatives = {(name[int(word)], name[int(noun)]) for word in words if word}
                assert not negatives & said
                drawn += len(negatives)
    assert several > 50
    assert drawn > 2000


@pytest.mark.usefixtures("manner")
def test_no_spelling_of_a_mentioned_word_is_drawn():
    order = ("grey", "donut", "gray", "red", "doughnut", "cat", "eat", "racquet", "racket")
    ids = {word: k for k, word in enumerate(order, 4)}
    spelling = one_spelling(ids)
    assert [spelling[ids[w]] for w in ("grey", "gray", "donut", "doughnut", "racket")] == [4, 4, 5, 5, 11]
    assert spelling[:4].tolist() == [0, 1, 2, 3]
    every = np.array(sorted(ids.values()))
    pools = Pools(every, every, every)
    mentions = Mentions(
        Ragged.of([[ids["donut"]]]),
        Ragged.of([[(ids["gray"], ids["doughnut"]), (ids["red"], ids["donut"])]], 2),
        Ragged.of([[(ids["cat"], ids["eat"], ids["doughnut"])]], 3),
    )
    sampler, zero = NegativeSampler(pools, mentions, NegativeCounts(nouns=9), 1, spelling), np.zeros(1, dtype=np.int64)
    name = {number: word for word, number in ids.items()}

    def drawn(array):
        return {name[number] for number in np.unique(array) if number}

    words = {"grey", "red", "cat", "eat", "donut", "racquet"}  # one spelling of each: the commonest
    assert drawn(sampler.objects(np.array([[ids["doughnut"]]]), zero, zero, 0)) == words - {"donut"}
    adjectives, nouns = sampler.attributes(np.array([[[ids["grey"], ids["donut"]]]]), zero, zero, 0)
    assert drawn(adjectives) == words - {"grey", "red"}
    assert drawn(nouns) == words - {"donut"}
    triples = sampler.relations(np.array([[[ids["cat"], ids["eat"], ids["donut"]]]]), zero, zero, 0)[0, 0]
    assert "donut" not in {name[t[2]] for t in triples if t.any() and name[t[2]] != "donut"}
    assert not any({name[t[0]], name[t[1]]} == {"cat", "eat"} and t[2] == ids["doughnut"] for t in triples if t.any())


def test_without_spellings_draws_are_what_they_were():
    data = synthetic(3, images=6, nouns=9, adjectives=5, relations=4)
    rows = np.arange(len(data))
    objects = data.examples.texts.objects.pad(rows)[0]
    last = max(int(pool.max()) for pool in (data.pools.nouns, data.pools.attributes, data.pools.relations))
    plain, spelled = (
        NegativeSampler(data.pools, data.examples.mentions(), COUNTS, 5, spelling)
        for spelling in (None, np.arange(max(last, int(objects.max())) + 1))
    )
    expected = plain.objects(objects, rows, data.examples.image, 1)
    assert (spelled.objects(objects, rows, data.examples.image, 1) == expected).all()


def test_only_pools_that_a_loss_reads_must_have_words():
    pools, vocabulary = build_pools([]), build_vocabulary(["a dog"])
    for kind in ("nouns", "attributes", "relations"):
        with pytest.raises(InputError, match=f"^no {kind} occur often enough"):
            pool_ids(pools, vocabulary, frozenset({kind}))
    empty = pool_ids(pools, vocabulary, frozenset())
    assert not any(map(len, (empty.nouns, empty.attributes, empty.relations)))
    data = synthetic(seed=3)
    words, first = np.array([[data.pools.nouns[0]]]), np.zeros(1, int)
    assert not NegativeSampler(empty, data.examples.mentions(), COUNTS, 0).objects(words, first, first, 0).any()


@pytest.mark.parametrize(
    ("changes", "required"),
    [
        ({}, {"nouns", "attributes", "relations"}),
        ({"eta_a": 0.0}, {"nouns", "relations"}),
        ({"eta_r": 0.0, "eta_o": 0.0}, {"nouns", "attributes"}),
        ({"eta_a": 0.0, "eta_r": 0.0}, {"nouns"}),
        ({"eta_o": 0.0, "eta_a": 0.0, "eta_r": 0.0}, set()),
    ],
)
def test_univse_needs_the_pools_of_its_losses(changes, required):
    counts = make_objective("univse", "univse", **changes).negatives
    assert counts is not None
    assert counts.required == required
