"""UniVSE's relation attack (supplement B.2): a part of a triple becomes another one, or a fake relation is formed."""

from vse.adversaries.pools import noun_phrase_start
from vse.adversaries.registry import attack
from vse.adversaries.univse.editor import Change, Edit, Editor


@attack("relation", paper_rank=3)
def change_relation(editor: Editor) -> Change | None:
    """Replace subject, relation or object of a triple, equally likely; without triples form a fake relation."""
    triple = editor.choose(editor.components.relations)
    if triple is None:
        return _fake(editor)
    part = editor.way("subject", "relation", "object")
    if part == "relation":
        replacement = editor.choose(editor.relations)
        return None if replacement is None else editor.replace_relation(triple, replacement)
    entry = editor.choose(editor.nouns)
    if entry is None:
        return None
    return editor.replace_noun(triple.subject_token if part == "subject" else triple.object_token, entry, part)


def _fake(editor: Editor) -> Change | None:
    item, noun = editor.choose(editor.components.objects), editor.choose(editor.nouns)
    entry = editor.choose(editor.relations)
    if item is None or noun is None or entry is None:
        return None
    phrase = editor.relation_phrase(entry)
    if phrase is None:
        return None
    words_in = (entry.word, noun.word)
    if editor.way("subject", "object") == "subject":
        if editor.is_glued(item.token):
            return None
        end = editor.parse[item.token].end
        edit = Edit(end, end, f" {phrase} {editor.noun_phrase(noun)}")
        return Change((edit,), f"{item.word} as subject of {entry.word} {noun.word}", words_in)
    start = noun_phrase_start(editor.parse, item.token)
    edits = editor.before(start, f"{editor.noun_phrase(noun)} {phrase}")
    return Change(edits, f"{item.word} as object of {noun.word} {entry.word}", words_in)
