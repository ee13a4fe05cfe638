"""Positive and negative objects by VSE-C's rules, on captions written by hand."""

import numpy as np

from vse.evaluation.probes.image_objects import frequent_objects, image_objects, related_words
from vse.text.components import Components, Object
from vse.text.lexicon.compact import knowledge
from vse.text.parse import Parse, ParsedToken


def said(*heads: str, others: tuple[str, ...] = ()) -> Components:
    """A caption with these heads of noun phrases, and other nouns."""
    return Components(tuple(Object(word, k) for k, word in enumerate(heads)), (), (), others)


WORDS = ("dog", "animal", "puppy", "table", "racket", "tennis", "vehicle", "car")


def test_positive_objects_are_the_heads_of_any_caption() -> None:
    objects = image_objects([[said("dog", "table"), said("car")], [said()]], WORDS, np.eye(len(WORDS), dtype=bool))
    assert [WORDS[k] for k in np.flatnonzero(objects.positive[0])] == ["dog", "table", "car"]
    assert not objects.positive[1].any()
    assert objects.negative[1].all()
    assert objects.queries.tolist() == [True, False]  # an image without an object asks nothing


def test_negative_objects_are_no_direct_relatives_and_are_not_mentioned() -> None:
    lexicon = knowledge().lexicon
    related = related_words(WORDS, lexicon)
    assert (related == related.T).all()
    assert related.diagonal().all()
    objects = image_objects([[said("dog", "racket", others=("tennis",))]], WORDS, related)
    negative = {WORDS[k] for k in np.flatnonzero(objects.negative[0])}
    assert "puppy" not in negative  # a kind of dog
    assert "tennis" not in negative  # the first noun of a compound
    assert not negative & {"dog", "racket"}
    assert {"table", "vehicle", "car"} <= negative
    assert not (objects.positive & objects.negative).any()
    assert (objects.labelled == (objects.positive | objects.negative)).all()


def test_relation_is_of_one_step_or_a_shared_sense() -> None:
    lexicon = knowledge().lexicon
    words = ("car", "automobile", "vehicle", "motor vehicle")
    related = related_words(words, lexicon)
    for i, one in enumerate(words):
        for j, other in enumerate(words):
            senses, others = set(lexicon.synsets(one)), set(lexicon.synsets(other))
            above = {h for s in senses for h in lexicon.hypernyms(s, transitive=False)}
            below = {h for s in others for h in lexicon.hypernyms(s, transitive=False)}
            assert related[i, j] == bool(i == j or senses & others or above & others or below & senses)


def parsed(*forms: str) -> tuple[Parse, Components]:
    """A caption whose heads have these forms, each with its lemma behind a slash."""
    pairs = [form.partition("/")[::2] for form in forms]
    parse = tuple(ParsedToken(form, 0, 0, lemma or form, "", "NOUN", 0, "") for form, lemma in pairs)
    return parse, Components(tuple(Object(token.lemma, k) for k, token in enumerate(parse)), (), ())


def test_objects_are_frequent_heads_in_order() -> None:
    captions = [parsed("dog", "table")] * 6 + [parsed("dog", "idea")] * 5 + [parsed("car", "unheard")] * 4
    assert list(frequent_objects(captions, 0.0, None)) == ["dog", "table", "idea"]  # five times at least
    assert list(frequent_objects(captions, 6 / 15, None)) == ["dog", "table"]
    assert list(frequent_objects(captions, 0.0, knowledge())) == ["dog", "table"]  # an idea is not concrete
    assert frequent_objects([], 0.5, None) == {}


def test_an_object_has_its_commonest_form() -> None:
    captions = [parsed("Children/child", "dogs/dog")] * 3 + [parsed("child", "dog")] * 3 + [parsed("children/child")]
    assert frequent_objects(captions, 0.0, None) == {"child": "children", "dog": "dog"}
