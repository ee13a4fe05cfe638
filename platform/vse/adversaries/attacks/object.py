"""UniVSE's object attack (supplement B.2): a noun becomes an irrelevant one, or gets one appended."""

from vse.adversaries.registry import attack
from vse.adversaries.univse.editor import Change, Edit, Editor


@attack("object", paper_rank=1)
def change_object(editor: Editor) -> Change | None:
    """Replace a noun by an irrelevant one, or append one after it, equally likely."""
    item, entry = editor.choose(editor.components.objects), editor.choose(editor.nouns)
    if item is None or entry is None:
        return None
    if editor.way("replace", "append") == "replace":
        return editor.replace_noun(item.token, entry, "object")
    if not editor.may_append_noun(item.token) or editor.is_glued(item.token):
        return None
    end = editor.parse[item.token].end
    edit = Edit(end, end, f" and {editor.noun_phrase(entry)}")
    return Change((edit,), f"append {entry.word} to {item.word}", (entry.word,))
