"""Number: forms of nouns and verbs, and the verbs that must change with the number of a noun.

Forms of the training captions come first, then those of the library `inflect` with the corrections of `grammar.toml`,
then rules for verbs. A word that nobody says would give an adversary away: a noun without a form in the other number
keeps its number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from vse.adversaries.pools import noun_phrase_start
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.slots import Fixed
from vse.adversaries.word_lists import Words, read_lists
from vse.text.inflector import inflector
from vse.text.syntax import Tree

_VERBS = {"is": "are", "was": "were", "has": "have", "does": "do", "goes": "go", "'s": "'re", "isn": "aren"}
_VERBS_BACK = {plural: singular for singular, plural in _VERBS.items()}

Forms = Mapping[str, tuple[str | None, str | None]]


@dataclass(frozen=True, kw_only=True)
class NumberLists:
    """Word lists of a TOML file, which describes each of them."""

    no_plural: Words
    no_singular: Words
    irregular: Mapping[str, str]


NUMBER = read_lists(NumberLists, __file__)
_SINGULARS = {plural: singular for singular, plural in NUMBER.irregular.items()}


@cache
def library_plural(noun: str) -> str | None:
    """The plural of a singular noun, itself if both are the same, None if it has none or is a plural ("clothes")."""
    if noun in NUMBER.irregular:
        return NUMBER.irregular[noun]
    if noun in NUMBER.no_plural | NUMBER.no_singular | LISTS.plural_only:
        return None
    plural = str(inflector().plural_noun(noun))
    return None if noun.endswith("s") and plural == f"{noun}s" else plural


@cache
def library_singular(noun: str) -> str | None:
    """The singular of a plural noun, None if it has none."""
    return _SINGULARS.get(noun) or str(inflector().singular_noun(noun) or "") or None


def other_number(form: str, lemma: str, forms: Forms, plural: bool) -> str | None:
    """The plural (or singular) of a noun as it is in a caption; None if there is no other form.

    Args:
        form: The noun as the caption has it, in any case.
        lemma: Its lemma.
        forms: Lemma -> (singular, plural) as training captions write them; they take precedence over the library.
        plural: True for the plural, False for the singular.
    """
    if plural and lemma == "person":
        return "people"
    form = form.lower()
    other = forms.get(lemma, (None, None))[plural]
    if other in (None, form):
        has_other = form.isalpha() and (plural or lemma not in NUMBER.no_singular | LISTS.plural_only)
        library = library_plural if plural else library_singular
        other = library(form) if has_other else None
    return other if other and other != form else None


def plural_verb(form: str, lemma: str) -> str | None:
    """The form of a verb with a plural subject, given that with a singular one; itself if they do not differ."""
    form = form.lower()
    if form in _VERBS:
        return _VERBS[form]
    return lemma if lemma and form.endswith("s") and lemma != form else None


def singular_verb(form: str) -> str | None:
    """The form of a verb with a singular subject, given that with a plural one."""
    form = form.lower()
    if form in _VERBS_BACK:
        return _VERBS_BACK[form]
    if not form.isalpha():
        return None
    if form.endswith("y") and form[-2:-1] not in "aeiou":
        return f"{form[:-1]}ies"
    return f"{form}es" if form.endswith(("s", "x", "z", "ch", "sh", "o")) else f"{form}s"


_PAST = {"was", "were"}
_RELATIVE = {"that", "which", "who"}


def agreeing_verbs(tree: Tree, noun: int) -> list[int]:
    """Tokens of the finite verbs whose form depends on the number of the noun at `noun`."""
    verbs: list[int] = []
    role, head = tree.role(noun), tree.head(noun)
    coordinated = bool(tree.conjuncts(noun)) or role == "conj"
    if role == "nsubj" and head is not None and not coordinated:
        clauses = [head, *(v for v in tree.below(head, "conj") if not tree.below(v, "nsubj", "expl"))]
        verbs += [verb for clause in clauses if (verb := _finite(tree, clause)) is not None]
    for clause in tree.children[noun]:
        if tree.label(clause) == "acl:relcl" and any(tree.is_relative(s) for s in tree.below(clause, "nsubj")):
            verb = _finite(tree, clause)
            verbs += [] if verb is None else [verb]
    return sorted(set(verbs))


def _finite(tree: Tree, clause: int) -> int | None:
    """The verb of a clause that shows number, if one does."""
    helpers = [i for i in tree.below(clause, "aux", "cop") if i < clause]
    index = helpers[0] if helpers else clause
    return index if _shows_number(tree, index) else None


def agree(tree: Tree, noun: int, plural: bool) -> list[Fixed] | None:
    """Edits of the verbs that must change with the number of a noun; None if they cannot be determined safely.

    Args:
        tree: The parsed caption.
        noun: Position of the noun.
        plural: True if the noun becomes plural, False if it becomes singular.

    Returns:
        (first, last, text) for each verb that agrees with the noun.
    """
    if tree.is_predicate(noun) and not tree.case(noun):
        return None  # "the animal is a dog"
    if tree.role(noun) == "nsubj" and (tree.case(noun) or _is_governed(tree, noun)):
        return None  # taken for a subject behind its preposition or verb: "a child in a jacket runs"
    head = tree.head(noun)
    clause = head is not None and tree.role(noun) == "nsubj" and not tree.below(head, "cop")
    if clause and tree.parse[tree.parse[noun].head].tag in ("NN", "NNS"):
        return None  # a verb taken for a noun: "a skateboarder balances"
    edits: list[Fixed] = []
    agreeing = agreeing_verbs(tree, noun)
    if any(_far(tree, clause, noun) for clause in tree.children[noun] if tree.label(clause) == "acl:relcl"):
        return None  # "a man holding a sign that says"
    if any(_stray(tree, index, noun) for index in range(noun + 1, len(tree.parse)) if index not in agreeing):
        return None
    if has_loose_clause(tree, noun):
        return None
    for index in agreeing:
        token = tree.parse[index]
        is_singular = token.tag == "VBZ" or token.text.lower() == "was"
        if is_singular != plural:
            return None  # verb and noun did not agree as parsed
        form = plural_verb(token.text, token.lemma) if plural else singular_verb(token.text)
        if form is None:
            return None
        edits.append((index, index + 1, form))
    return edits


def has_loose_clause(tree: Tree, noun: int) -> bool:
    """Whether "that is", "who walks" follow the noun and by the parse belong to no noun: they may be this one's."""
    pairs = range(noun + 2, len(tree.parse))
    clause_verbs = [k for k in pairs if tree.parse[k - 1].text.lower() in _RELATIVE and _shows_number(tree, k)]
    if not clause_verbs:
        return False
    owned = {verb for k, t in enumerate(tree.parse) if t.pos in ("NOUN", "PROPN") for verb in agreeing_verbs(tree, k)}
    return any(k not in owned for k in clause_verbs)


def _shows_number(tree: Tree, index: int) -> bool:
    token = tree.parse[index]
    return token.tag in ("VBZ", "VBP") or token.text.lower() in _PAST


def _is_governed(tree: Tree, noun: int) -> bool:
    """Whether a verb stands right before the noun phrase, which makes it its object."""
    start = noun_phrase_start(tree.parse, noun)
    return start > 0 and tree.parse[start - 1].pos == "VERB" and tree.parse[start - 1].lemma != "be"


def _far(tree: Tree, clause: int, noun: int) -> bool:
    """Whether another noun stands between a noun and the relative pronoun of its clause: it may belong to that one."""
    pronoun = next((i for i in tree.below(clause, "nsubj") if tree.is_relative(i)), None)
    return pronoun is not None and any(tree.parse[i].pos in ("NOUN", "PROPN") for i in range(noun + 1, pronoun))


def _stray(tree: Tree, index: int, noun: int) -> bool:
    """Whether a verb after the noun shows number and has no subject by the parse: it may be the noun."""
    if not _shows_number(tree, index):
        return False
    clause = index
    if tree.role(index) in ("aux", "cop"):
        clause = tree.parse[index].head
    subjects = [subject for subject in tree.below(clause, "nsubj", "expl") if not tree.case(subject)]
    return not subjects or (noun in subjects and len(subjects) > 1)
