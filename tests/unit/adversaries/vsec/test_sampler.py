"""Batches of contrastive captions in vocabulary ids, against the strings that the edits make."""

import dataclasses

import numpy as np
import pytest

from tests.unit.adversaries.vsec.made import TEXTS, Parses, records, text_of
from vse.adversaries.vsec.candidates import PARADIGMS, Rules
from vse.adversaries.vsec.sampler import ContrastSampler
from vse.adversaries.vsec.table import slot_of
from vse.data.records import Caption
from vse.errors import InputError
from vse.stages.contrast import contrast_candidates
from vse.text.tokens import tokenize, words
from vse.text.vocabulary import END, START, UNKNOWN, build_vocabulary
from vse.workspace.layout import Workspace

CAPTIONS = (*TEXTS[:60], "", "!", "A man holds a dog.", *TEXTS[-30:], *TEXTS[:60], *TEXTS[-30:])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    place = Workspace.open(str(tmp_path_factory.mktemp("contrast")))
    return contrast_candidates(
        records(CAPTIONS), Parses(), "train", Rules(minimum=5), place, words="all", num_workers=1
    )


@pytest.fixture(scope="module")
def captions():
    return records(CAPTIONS).split("train").captions


@pytest.fixture(scope="module")
def vocabulary(captions):
    return build_vocabulary([*(c.text for c in captions), "men dogs cats horses five seven nine"])


@pytest.fixture(scope="module")
def sampler(made, captions, vocabulary):
    return ContrastSampler(made, captions, vocabulary, seed=3, paradigms=PARADIGMS)


def strings(made, sampler, captions, drawn, rows):
    """Texts of a draw, row by row, made from the edits."""
    table = made.table.to_pylist()
    found = []
    for b, row in enumerate(rows):
        texts = []
        for k in np.flatnonzero(drawn.mask[b]):
            entry = table[sampler.described(drawn.slot[b, k])]
            assert entry["caption"] == captions[row].id
            text = captions[row].text
            texts.append(text_of(slot_of(entry), int(drawn.choice[b, k]), made.words.phrases, text, tokenize(text)))
        found.append(texts)
    return found


def encoded(vocabulary, text):
    return [START, *vocabulary.encode(words(text)), END]


@pytest.mark.seconds
def test_ids_are_those_of_the_strings(made, sampler, captions, vocabulary):
    rows = np.arange(len(captions))
    drawn = sampler.draw(rows, 0)
    assert drawn.tokens.shape[:2] == drawn.mask.shape == (len(rows), 8)
    for b, texts in enumerate(strings(made, sampler, captions, drawn, rows)):
        assert len(set(texts)) == len(texts)
        for k, text in zip(np.flatnonzero(drawn.mask[b]), texts, strict=True):
            ids = drawn.tokens[b, k, : drawn.lengths[b, k]].tolist()
            assert ids == encoded(vocabulary, text) != encoded(vocabulary, captions[b].text)
            assert UNKNOWN not in ids
            assert (drawn.tokens[b, k, drawn.lengths[b, k] :] == 0).all()
    assert (drawn.lengths[~drawn.mask] == 0).all()
    assert (drawn.mask.sum(1) == np.minimum(sampler.sizes(), 8)).all()
    assert not drawn.mask[[c.text in ("", "!") for c in captions]].any()


def test_draws_belong_to_the_caption_and_the_epoch(made, sampler, captions, vocabulary):
    rows = np.arange(len(captions))
    whole = sampler.draw(rows, 1)
    for part in (rows[5:9], rows[::-1], rows[[40, 3]]):
        some = sampler.draw(part, 1)
        assert (some.slot == whole.slot[part]).all()
        assert (some.choice == whole.choice[part]).all()
    assert (sampler.draw(rows, 2).choice != whole.choice).any()
    other = ContrastSampler(made, captions, vocabulary, seed=4, paradigms=PARADIGMS).draw(rows, 1)
    assert (other.choice != whole.choice).any()


def test_in_the_long_run_every_candidate_is_drawn(made, captions, vocabulary):
    sampler = ContrastSampler(made, captions, vocabulary, seed=0, balance="candidate", paradigms=PARADIGMS)
    row = int(np.argsort(sampler.sizes())[len(captions) // 2])
    seen = set()
    for epoch in range(100):
        drawn = sampler.draw(np.array([row]), epoch)
        seen |= set(zip(drawn.slot[drawn.mask].tolist(), drawn.choice[drawn.mask].tolist(), strict=True))
    assert len(seen) == sampler.sizes()[row]


def test_paradigms_share_the_draws(made, captions, vocabulary):
    names = made.table.column("paradigm").to_pylist()

    def share(paradigms=PARADIGMS, **options):
        sampler = ContrastSampler(made, captions, vocabulary, seed=0, paradigms=paradigms, **options)
        drawn = sampler.draw(np.arange(len(captions)), 0)
        kinds = [names[sampler.described(s)] for s in drawn.slot[drawn.mask]]
        return {kind: kinds.count(kind) / len(kinds) for kind in set(kinds)}

    assert share()["noun"] < share(balance="candidate")["noun"]
    assert share(paradigms=("numeral", "shuffle")).keys() <= {"numeral", "shuffle"}


def test_words_outside_the_vocabulary_are_left_out(made, captions):
    small = build_vocabulary([c.text for c in captions], min_count=20)
    sampler = ContrastSampler(made, captions, small, seed=0, paradigms=PARADIGMS)
    assert 0 < sampler.unknown["left_out"] < sampler.unknown["alternatives"]
    assert sampler.unknown["alternatives"] - sampler.unknown["left_out"] == sampler.sizes().sum()
    drawn = sampler.draw(np.arange(len(captions)), 0)
    for b, texts in enumerate(strings(made, sampler, captions, drawn, np.arange(len(captions)))):
        before = encoded(small, captions[b].text).count(UNKNOWN)
        assert all(encoded(small, text).count(UNKNOWN) <= before for text in texts)


def test_other_texts_are_refused(made, captions, vocabulary):
    changed = [dataclasses.replace(captions[0], text="another text"), *captions[1:]]
    with pytest.raises(InputError, match=f"contrastive captions of {captions[0].id}: the caption has changed"):
        ContrastSampler(made, changed, vocabulary, seed=0, paradigms=PARADIGMS)
    with pytest.raises(InputError, match="balance=fair"):
        ContrastSampler(made, captions, vocabulary, seed=0, balance="fair", paradigms=PARADIGMS)


def test_captions_without_candidates(made, vocabulary):
    sampler = ContrastSampler(made, [Caption("new", "i", "never seen")], vocabulary, seed=0, paradigms=PARADIGMS)
    drawn = sampler.draw(np.array([0, 0]), 0)
    assert not drawn.mask.any()
    assert drawn.tokens.shape == (2, 8, 0)
    assert sampler.draw(np.array([], dtype=np.int64), 0).mask.shape == (0, 8)
