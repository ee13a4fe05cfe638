"""Number of nouns and verbs: forms of the training captions first, then the library `inflect`, then rules for verbs."""

from collections.abc import Mapping
from functools import cache

from vse.text.inflector import inflector

_VERBS = {"is": "are", "was": "were", "has": "have", "does": "do", "goes": "go", "'s": "'re", "isn": "aren"}
_VERBS_BACK = {plural: singular for singular, plural in _VERBS.items()}

Forms = Mapping[str, tuple[str | None, str | None]]


@cache
def _library_plural(singular: str) -> str:
    return str(inflector().plural_noun(singular))


@cache
def _library_singular(plural: str) -> str:
    return str(inflector().singular_noun(plural) or "")


def plural_noun(form: str, lemma: str, forms: Forms) -> str | None:
    """The plural of a singular noun as it stands in a caption; None where there is no other form."""
    if lemma == "person":
        return "people"
    attested = forms.get(lemma, (None, None))[1]
    found = (
        attested if attested not in (None, form.lower()) else (_library_plural(form.lower()) if form.isalpha() else "")
    )
    return found if found and found != form.lower() else None


def singular_noun(form: str, lemma: str, forms: Forms) -> str | None:
    """The singular of a plural noun as it stands in a caption; None where there is no other form."""
    attested = forms.get(lemma, (None, None))[0]
    found = (
        attested
        if attested not in (None, form.lower())
        else (_library_singular(form.lower()) if form.isalpha() else "")
    )
    return found if found and found != form.lower() else None


def plural_verb(form: str, lemma: str) -> str | None:
    """The form of a verb with a plural subject, given that with a singular one; itself where they do not differ."""
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
