"""UniVSE's relation attack (supplement B.2): a part of a triple becomes another one, or a fake relation is formed."""

from vse.adversaries.pools import ADNOMINAL, noun_phrase_start, relation_slot, relation_span
from vse.adversaries.registry import attack
from vse.adversaries.univse.editor import Change, Edit, Editor, noun_phrase
from vse.text.components import Relation


@attack("relation", paper_rank=3)
def change_relation(editor: Editor) -> Change | None:
    """Replace subject, relation or object of a triple, equally likely; without triples form a fake relation."""
    triple = editor.choose(editor.components.relations)
    if triple is None:
        return _fake(editor)
    part = editor.way("subject", "relation", "object")
    if part == "relation":
        return _replace(editor, triple)
    entry = editor.choose(editor.nouns)
    if entry is None:
        return None
    return editor.replace_noun(triple.subject_token if part == "subject" else triple.object_token, entry, part)


def _replace(editor: Editor, triple: Relation) -> Change | None:
    span = relation_span(editor.parse, triple)
    entry = editor.choose(editor.relations)
    if entry is None or span is None:
        return None
    phrase = entry.forms.get(relation_slot(editor.parse, triple))
    if phrase is None:
        return None
    return Change((editor.over(*span, phrase),), f"relation {triple.word} becomes {entry.word}", (entry.word,))


def _fake(editor: Editor) -> Change | None:
    item, noun = editor.choose(editor.components.objects), editor.choose(editor.nouns)
    entry = editor.choose(editor.relations)
    if item is None or noun is None or entry is None or ADNOMINAL not in entry.forms:
        return None
    words_in = (entry.word, noun.word)
    if editor.way("subject", "object") == "subject":
        if editor.is_glued(item.token):
            return None
        end = editor.parse[item.token].end
        edit = Edit(end, end, f" {entry.forms[ADNOMINAL]} {noun_phrase(noun)}")
        return Change((edit,), f"{item.word} as subject of {entry.word} {noun.word}", words_in)
    start = noun_phrase_start(editor.parse, item.token)
    edits = editor.before(start, f"{noun_phrase(noun)} {entry.forms[ADNOMINAL]}")
    return Change(edits, f"{item.word} as object of {noun.word} {entry.word}", words_in)
