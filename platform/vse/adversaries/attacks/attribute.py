"""UniVSE's attribute attack (supplement B.2): an attribute becomes another one, or a noun without any gets one."""

from vse.adversaries.pools import AttributeEntry, compound_start, hyphenated_start
from vse.adversaries.registry import attack
from vse.adversaries.univse.careful import KIND_OF, CarefulEditor
from vse.adversaries.univse.editor import Change, Editor, with_similar
from vse.adversaries.word_lists import SHARED
from vse.text.components import Attribute


@attack("attribute", paper_rank=2)
def change_attribute(editor: Editor) -> Change | None:
    """Replace the attribute of a pair; in a caption without pairs insert one before a noun."""
    if isinstance(editor, CarefulEditor):
        return _contradict(editor)
    entry = editor.choose(editor.attributes)
    if entry is None:
        return None
    pair = editor.choose(editor.components.attributes)
    if pair is not None:
        return _replace(editor, pair, entry)
    item = editor.choose(editor.components.objects)
    return None if item is None else _insert(editor, item.token, item.word, entry)


def _contradict(editor: CarefulEditor) -> Change | None:
    """Replace an adjective by one that contradicts it; in a caption without any insert one that suits no such noun."""
    pair = editor.choose([a for a in editor.components.attributes if editor.parse[a.token].pos == "ADJ"])
    if pair is not None:
        entry = editor.choose(_against(editor, pair))
        return None if entry is None else _replace(editor, pair, entry)
    item = editor.choose(editor.components.objects)
    if item is None or editor.components.attributes:
        return None
    entry = editor.choose(_strange_to(editor, item.word))
    return None if entry is None else _insert(editor, item.token, item.word, entry)


def _against(editor: CarefulEditor, pair: Attribute) -> list[AttributeEntry]:
    kind = KIND_OF.get(pair.word)
    if kind is None:
        others = [i for i in editor.tree.below(pair.noun_token, "amod") if i != pair.token]
        return [] if others else _strange_to(editor, pair.noun)  # not "a purple red jacket"
    close = with_similar([pair.word], SHARED.close_attributes)
    return [entry for entry in editor.attributes if KIND_OF[entry.word] == kind and entry.word not in close]


def _strange_to(editor: CarefulEditor, noun: str) -> list[AttributeEntry]:
    never = SHARED.never_of_living if editor.careful.is_living(noun) else SHARED.hardly_of_things
    return [entry for entry in editor.attributes if entry.word in never]


def _replace(editor: Editor, pair: Attribute, entry: AttributeEntry) -> Change | None:
    token, start = editor.parse[pair.token], hyphenated_start(editor.parse, pair.token)
    if editor.is_glued(pair.token):
        return None
    edits = (*editor.article_before(start, entry.form), editor.over(start, pair.token + 1, entry.form))
    return Change(edits, f"attribute {token.text.lower()} of {pair.noun} becomes {entry.word}", (entry.word,))


def _insert(editor: Editor, index: int, noun: str, entry: AttributeEntry) -> Change:
    start = compound_start(editor.parse, index)
    edits = (*editor.article_before(start, entry.form), *editor.before(start, entry.form))
    return Change(edits, f"{noun} becomes {entry.word}", (entry.word,))
