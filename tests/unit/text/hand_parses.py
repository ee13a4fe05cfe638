"""Parses and components written by hand, in a line each."""

from vse.text.components import Attribute, Components, Object, Relation
from vse.text.parse import ParsedToken
from vse.text.parsed_caption import ParsedCaption

POS = {"N": "NOUN", "V": "VERB", "J": "ADJ", "I": "ADP", "D": "DET", "R": "ADV", "C": "CCONJ"}


def parse(text, spec):
    """A parse from one `word/lemma/tag/head/dep` for each token; the head is an index."""
    tokens, position = [], 0
    for item in spec.split():
        word, lemma, tag, head, dep = item.split("/")
        start = text.index(word, position)
        position = start + len(word)
        pos = "AUX" if lemma == "be" else "PUNCT" if tag == "." else POS[tag[0]]
        tokens.append(ParsedToken(word, start, position, lemma, tag, pos, int(head), dep))
    return tuple(tokens)


def caption(id, image, text, spec, objects=(), attributes=(), relations=()):
    """A parsed caption; components are given by token indices: i, (adjective, noun), (subject, (words,), object)."""
    tokens = parse(text, spec)
    lemma = [token.lemma for token in tokens]
    return ParsedCaption(
        id=id,
        image=image,
        text=text,
        parse=tokens,
        components=Components(
            objects=tuple(Object(lemma[i], i) for i in objects),
            attributes=tuple(Attribute(lemma[a], lemma[n], a, n) for a, n in attributes),
            relations=tuple(Relation(lemma[s], lemma[w[0]], lemma[o], s, w, o) for s, w, o in relations),
        ),
    )


def dog(id="dog", image="1"):
    """Two attributes and a relation of two words."""
    return caption(
        id,
        image,
        "A brown dog sitting on a wooden bench",
        "A/a/DT/2/det brown/brown/JJ/2/amod dog/dog/NN/2/root sitting/sit/VBG/2/acl on/on/IN/7/case a/a/DT/7/det "
        "wooden/wooden/JJ/7/amod bench/bench/NN/3/obl",
        objects=(2, 7),
        attributes=((1, 2), (6, 7)),
        relations=((2, (3,), 7),),
    )


def eats(id="eats", image="2"):
    """A finite verb and a bare noun, as in the supplement."""
    return caption(
        id,
        image,
        "A dog eats meat",
        "A/a/DT/1/det dog/dog/NN/2/nsubj eats/eat/VBZ/2/root meat/meat/NN/2/obj",
        objects=(1, 3),
        relations=((1, (2,), 3),),
    )


def sleeping(id="sleeping", image="3"):
    """One noun, nothing else."""
    return caption(
        id,
        image,
        "A dog is sleeping",
        "A/a/DT/1/det dog/dog/NN/3/nsubj is/be/VBZ/3/aux sleeping/sleep/VBG/3/root",
        objects=(1,),
    )


def apples(id="apples", image="4"):
    """Plurals, a compound and a preposition; no attribute."""
    return caption(
        id,
        image,
        "Apples under an airport sign",
        "Apples/apple/NNS/0/root under/under/IN/4/case an/a/DT/4/det airport/airport/NN/4/compound sign/sign/NN/0/nmod",
        objects=(0, 4),
        relations=((0, (1,), 4),),
    )


def plays(id="plays", image="5"):
    """Another finite verb, and an object with a definite article."""
    return caption(
        id,
        image,
        "The orange cat watches the sky near tables",
        "The/the/DT/2/det orange/orange/JJ/2/amod cat/cat/NN/3/nsubj watches/watch/VBZ/3/root the/the/DT/5/det "
        "sky/sky/NN/3/obj near/near/IN/7/case tables/table/NNS/3/obl",
        objects=(2, 5, 7),
        attributes=((1, 2),),
        relations=((2, (3,), 5), (2, (6,), 7)),
    )


ALL = (dog(), eats(), sleeping(), apples(), plays())
