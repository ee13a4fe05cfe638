from random import Random

from vse.assets.caption_grammar import captions
from vse.text.caption_words import ing, participle, plural, third
from vse.text.components import extract
from vse.text.parse import ParsedToken


def as_parse(sentence):
    columns = zip(
        sentence.words, sentence.lemmas, sentence.tags, sentence.pos, sentence.heads, sentence.deps, strict=True
    )
    return tuple(ParsedToken(w, 0, len(w), m, t, p, h, d) for w, m, t, p, h, d in columns)


def crossing(heads):
    arcs = [(min(i, h), max(i, h)) for i, h in enumerate(heads) if i != h]
    return any(a < c < b < d for a, b in arcs for c, d in arcs)


def test_every_caption_is_a_projective_tree_with_one_root():
    for sentence in captions(Random(3), 300):
        roots = [i for i, head in enumerate(sentence.heads) if i == head]
        assert len(roots) == 1
        assert sentence.deps[roots[0]] == "ROOT"
        assert sentence.deps.count("ROOT") == 1
        assert not crossing(sentence.heads)
        for i in range(len(sentence.words)):  # every token reaches the root
            seen = set()
            while sentence.heads[i] != i:
                assert i not in seen
                seen.add(i)
                i = sentence.heads[i]
        assert len(sentence.words) <= 24


def test_captions_are_a_function_of_the_random_stream():
    assert captions(Random(5), 20) == captions(Random(5), 20)
    assert captions(Random(5), 20) != captions(Random(6), 20)


def test_the_rules_for_components_find_things_in_its_trees():
    found = [extract(as_parse(sentence)) for sentence in captions(Random(1), 200)]
    assert sum(bool(c.objects) for c in found) > 195
    assert sum(len(c.relations) for c in found) > 200


def test_inflection():
    assert [plural(w) for w in ("dog", "bus", "lady", "boy", "bench", "tomato")] == [
        "dogs", "buses", "ladies", "boys", "benches", "tomatoes"
    ]  # fmt: skip
    assert [ing(w) for w in ("ride", "sit", "lie", "ski", "see", "walk")] == [
        "riding", "sitting", "lying", "skiing", "seeing", "walking"
    ]  # fmt: skip
    assert [participle(w) for w in ("cover", "wrap", "tie", "carry", "throw")] == [
        "covered", "wrapped", "tied", "carried", "thrown"
    ]  # fmt: skip
    assert [third(w) for w in ("have", "watch", "fly", "play")] == ["has", "watches", "flies", "plays"]
