"""Captions parsed a second on one core, and how right the components are."""

import time
from pathlib import Path

import pytest

from tests.parser_accuracy import score
from vse.data.annotated_captions import read_annotated
from vse.text.components import extract
from vse.text.parser import Parser, shared_parser

DATA = Path(__file__).parents[1] / "data"

pytestmark = pytest.mark.benchmark


def test_rate_and_accuracy_of_the_shipped_parser():
    parser = shared_parser(Parser.Config())
    gold = {name: read_annotated(f"{DATA}/parser_gold_{name}.json") for name in ("dev", "test")}
    texts = [row.caption for rows in gold.values() for row in rows] * 8
    parser.parse_all(texts[:200])  # warm
    start = time.process_time()
    parses = parser.parse_all(texts)
    parsing = time.process_time() - start
    start = time.process_time()
    found = [extract(parse) for parse in parses]
    extracting = time.process_time() - start
    print(f"\ncaptions/s of CPU time: parse {len(texts) / parsing:.0f}, extract {len(texts) / extracting:.0f}")
    for offset, (name, rows) in zip((0, 150), gold.items(), strict=True):
        for kind, accuracy in score(rows, found[offset : offset + 150]).items():
            print(f"{name:4} {kind:10} P {accuracy.precision:.3f} R {accuracy.recall:.3f} F1 {accuracy.f1:.3f}")
    assert len(texts) / parsing > 640
