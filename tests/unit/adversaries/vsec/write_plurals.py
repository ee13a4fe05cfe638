"""Write tests/data/plurals.tsv again, after a change of the word lists: plurals of their nouns by two other sources.

    pip install lemminflect==0.2.3
    python -m tests.unit.adversaries.vsec.write_plurals WORDNET

WORDNET is the directory with `noun.exc` of WordNet 3.0 (Debian's wordnet-base). The last column holds plurals that
neither source has and a person has judged to be right; it is kept.
"""

import importlib
import sys
from collections import defaultdict
from pathlib import Path

from tests.unit.adversaries.vsec.test_plurals import HEAD, TABLE, listed_nouns, read_table


def main(wordnet: str) -> None:
    inflect = importlib.import_module("lemminflect").getInflection  # at development time only
    exceptions = defaultdict(list)
    for line in (Path(wordnet) / "noun.exc").read_text().splitlines():
        plural, *singulars = line.split()
        for singular in singulars:
            exceptions[singular].append(plural)
    judged = {noun: row[2] for noun, row in read_table().items()} if TABLE.exists() else {}
    lines = [HEAD]
    for noun in sorted(listed_nouns()):
        by_rule = [form for form in inflect(noun, tag="NNS") if form != noun]
        columns = (noun, *map(" ".join, (exceptions[noun], by_rule, sorted(judged.get(noun, ())))))
        lines.append("\t".join(columns))
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
