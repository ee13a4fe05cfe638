"""Write tests/data/components_golden.json again, after a change of the rules that raised `components.REVISION`:
`python -m tests.unit.text.write_golden`. The parses in it stay; only components are derived anew."""

import json
from pathlib import Path

from vse.text.components import REVISION, extract
from vse.text.parse import ParsedToken

GOLDEN = Path(__file__).parents[2] / "data" / "components_golden.json"


def as_lists(parse):
    """Components of a parse as plain lists."""
    found = extract(tuple(ParsedToken(*token) for token in parse))
    return {
        "objects": [[o.word, o.token] for o in found.objects],
        "attributes": [[a.word, a.noun, a.token, a.noun_token] for a in found.attributes],
        "relations": [
            [r.subject, r.word, r.object, r.subject_token, [*r.tokens], r.object_token] for r in found.relations
        ],
        "nouns": [*found.nouns],
        "modifiers": [[m.word, m.noun] for m in found.modifiers],
    }


def main():
    rows = [{**row, **as_lists(row["parse"])} for row in json.loads(GOLDEN.read_text())["captions"]]
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    GOLDEN.write_text(f'{{"revision": {REVISION}, "captions": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
