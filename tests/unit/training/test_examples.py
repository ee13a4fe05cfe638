"""What the captions of an image mention, against a loop; arrays made from captions."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest

from tests.synthetic import synthetic
from vse.data.ragged import Ragged
from vse.data.records import Caption, Image, Records
from vse.text.components import Attribute, Components, Modifier, Object, Relation
from vse.text.vocabulary import END, START, UNKNOWN, build_vocabulary
from vse.training.examples import Examples, SentenceVectors, Texts, encode_texts, examples_of


def test_mentions_are_the_union_over_an_images_captions():
    data = synthetic(seed=3, images=12).examples
    mentions = data.mentions()
    for name in ("objects", "attributes", "relations"):
        rows, found = getattr(data.texts, name), getattr(mentions, name)
        assert len(found) == data.num_images
        for image in range(data.num_images):
            expected = {
                tuple(np.atleast_1d(item).tolist())
                for caption in np.flatnonzero(data.image == image)
                for item in rows.row(caption)
            }
            listed = [tuple(np.atleast_1d(item).tolist()) for item in found.row(image)]
            assert len(listed) == len(set(listed))
            assert set(listed) == expected


def test_a_split_without_any_relation_mentions_none():
    texts = Texts(Ragged.of([[1, 4, 2]] * 2), Ragged.of([[4], []]), Ragged.of([[], []], 2), Ragged.of([[], []], 3))
    mentions = Examples({}, texts, np.array([0, 2]), np.array([0, 1]), 3).mentions()
    assert mentions.objects.lengths.tolist() == [1, 0, 0]
    assert mentions.relations.pad(np.arange(3), at_least=1)[0].shape == (3, 1, 3)
    assert mentions.attributes.pad(np.arange(3))[0].shape == (3, 0, 2)


def test_an_image_mentions_what_its_captions_say_beside_their_components():
    texts = Texts(
        Ragged.of([[1, 4, 2]] * 3),
        Ragged.of([[4], [], [5]]),
        Ragged.of([[(6, 4)], [], []], 2),
        Ragged.of([[]] * 3, 3),
        nouns=Ragged.of([[7, 4], [8], []]),
        modifiers=Ragged.of([[(9, 4), (6, 4)], [(9, 4)], []], 2),
    )
    mentions = Examples({}, texts, np.array([0, 0, 1]), np.arange(3), 2).mentions()
    assert [mentions.objects.row(image).tolist() for image in (0, 1)] == [[4, 7, 8], [5]]
    assert [mentions.attributes.row(image).tolist() for image in (0, 1)] == [[[6, 4], [9, 4]], []]


class Parses:
    """Knows two captions."""

    def components(self, text: str) -> Components:
        if "gnu" in text:
            return _ZOO
        if "cat" not in text.lower():
            return Components((), (), ())
        cat = Object("cat", 1)
        attributes, relations = (Attribute("a", "cat", 0, 1),), (Relation("cat", "on", "dog", 1, (2,), 3),)
        return Components((cat, cat), attributes, relations, ("dog", "yak"), (Modifier("on", "cat"),))


_ZOO = Components(
    (Object("zebra", 1), Object("gnu", 4), Object("dog", 7)),
    (Attribute("striped", "dog", 6, 7), Attribute("a", "gnu", 3, 4), Attribute("a", "dog", 6, 7)),
    (
        Relation("zebra", "on", "dog", 1, (2,), 7),
        Relation("dog", "chases", "dog", 1, (2,), 7),
        Relation("dog", "on", "gnu", 1, (2,), 4),
        Relation("dog", "on", "cat", 7, (8,), 10),
    ),
)


def test_components_with_unknown_words_are_left_out():
    vocabulary = build_vocabulary(["a cat", "a dog on"])
    a, cat, dog, on = vocabulary.encode(["a", "cat", "dog", "on"])
    found = encode_texts(["a zebra and a gnu and a striped dog on a cat", "a cat"], vocabulary, Parses())
    assert found.objects.row(0).tolist() == [dog]
    assert found.attributes.row(0).tolist() == [[a, dog]]
    assert found.relations.row(0).tolist() == [[dog, on, cat]]
    # All of them may be unknown: then the caption has none.
    nothing = encode_texts(["a zebra and a gnu and a striped dog on a cat", "a cat"], build_vocabulary(["x"]), Parses())
    assert [rows.lengths.tolist() for rows in (nothing.objects, nothing.attributes, nothing.relations)] == [[0, 0]] * 3
    assert nothing.attributes.pad(np.arange(2))[0].shape == (2, 0, 2)
    assert UNKNOWN in nothing.tokens.row(0)


def test_words_of_components_are_encoded_in_lower_case_like_those_of_captions():
    class Stated:
        def components(self, text):
            return Components((Object(text, 0),), (Attribute("Red", text, 0, 1),), ())

    vocabulary = build_vocabulary(["a red cat"])
    plain, title = encode_texts(["cat"], vocabulary, Stated()), encode_texts(["Cat"], vocabulary, Stated())
    assert plain.objects.values.tolist() == title.objects.values.tolist() == vocabulary.encode(["cat"])
    assert plain.attributes.values.tolist() == title.attributes.values.tolist() == [vocabulary.encode(["red", "cat"])]


def test_examples_of_records():
    images = tuple(Image(f"i{k}", f"{k}.jpg", "train") for k in range(3))
    texts = [("i0", "A cat"), ("i0", "a   CAT"), ("i1", "a dog on"), ("i2", "  "), ("i2", "a zebra")]
    captions = tuple(Caption(f"c{k}", image, text) for k, (image, text) in enumerate(texts))
    split = Records("pets", images, captions).split("train")
    vocabulary = build_vocabulary(["a cat", "a dog on"])
    ids = vocabulary.ids
    found = examples_of(split, {"pooled": np.zeros((3, 2))}, vocabulary, Parses())
    assert len(found) == 5
    assert found.image.tolist() == [0, 0, 1, 2, 2]
    assert found.text_group.tolist() == [0, 0, 1, 2, 3]
    tokens = [found.texts.tokens.row(c).tolist() for c in range(5)]
    cat = [START, ids["a"], ids["cat"], END]
    assert tokens == [
        cat,
        cat,
        [START, ids["a"], ids["dog"], ids["on"], END],
        [START, UNKNOWN, END],
        [START, ids["a"], UNKNOWN, END],
    ]
    assert found.texts.objects.row(0).tolist() == [ids["cat"]]
    assert found.texts.attributes.row(1).tolist() == [[ids["a"], ids["cat"]]]
    assert found.texts.relations.row(0).tolist() == [[ids["cat"], ids["on"], ids["dog"]]]
    assert found.texts.objects.lengths.tolist() == [1, 1, 0, 0, 0]
    assert found.texts.nouns is not None
    assert found.texts.nouns.row(1).tolist() == [ids["dog"]]
    assert found.texts.modifiers is not None
    assert found.texts.modifiers.row(1).tolist() == [[ids["on"], ids["cat"]]]
    bare = examples_of(split, {"pooled": np.zeros((3, 2))}, vocabulary, None)
    assert not bare.texts.objects.lengths.any()


@pytest.mark.parametrize("kind", ["features", "sentences"])
def test_mapped_arrays_are_given_back(kind, tmp_path):
    array = np.lib.format.open_memmap(tmp_path / "map.npy", "w+", np.float16, (4096, 1024))
    array[:] = 1
    array.flush()
    del array
    data = synthetic(images=3)
    mapped = np.load(tmp_path / "map.npy", mmap_mode="r")
    texts, features = data.examples.texts, {"pooled": np.zeros((3, 2))}
    if kind == "features":
        features["map"] = mapped
    else:
        texts = dataclasses.replace(texts, sentence=SentenceVectors(mapped, np.arange(len(texts))))
    examples = dataclasses.replace(data.examples, features=features, texts=texts)
    before = _resident()
    assert float(mapped.sum(dtype=np.float64)) == mapped.size
    assert _resident() - before > 6_000_000
    examples.release()
    assert _resident() - before < 3_000_000
    assert mapped[17, 3] == 1


def _resident():
    """Bytes of this process in memory, mapped files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
