import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parser_accuracy import score
from tests.shared import SHARED
from vse import registry
from vse.config import override
from vse.data.annotated_captions import read_annotated
from vse.errors import InputError
from vse.text.components import extract
from vse.text.parser import SHIPPED, Parser, parser_fingerprint, shared_parser
from vse.text.tokens import tokenize

DATA = Path(__file__).parents[2] / "data"
HERE = Path(sys.modules[Parser.__module__].__file__ or "").parent / SHIPPED


@pytest.fixture(scope="module")
def parser():
    return shared_parser(Parser.Config())


@pytest.fixture(scope="module")
def captions():
    return [row.caption for row in read_annotated(f"{DATA}/parser_gold_dev.json")]


def test_the_papers_example(parser):
    found = extract(parser.parse("A white clock on the wall is above a wooden table."))
    assert [o.word for o in found.objects] == ["clock", "wall", "table"]
    assert [(a.word, a.noun) for a in found.attributes] == [("white", "clock"), ("wooden", "table")]
    assert {(r.subject, r.word, r.object) for r in found.relations} == {
        ("clock", "on", "wall"),
        ("clock", "above", "table"),
    }


def test_tokens_and_offsets_are_those_of_the_one_tokeniser(parser, captions):
    for text, parse in zip(captions, parser.parse_all(captions), strict=True):
        assert [(t.text, t.start, t.end) for t in parse] == [(t.text, t.start, t.end) for t in tokenize(text)]
        assert all(0 <= t.head < len(parse) for t in parse)
        assert all(t.lemma == t.lemma.lower() and t.tag and t.pos and t.dep for t in parse)
        assert any(t.head == i for i, t in enumerate(parse))


@pytest.mark.seconds
def test_a_parse_does_not_depend_on_its_batch(parser, captions):
    whole = parser.parse_all(captions)
    assert parser.parse_all(captions, batch_size=1) == whole
    assert parser.parse_all(captions[::-1], batch_size=7)[::-1] == whole
    assert [parser.parse(text) for text in captions[:20]] == whole[:20]


@pytest.mark.parametrize(
    "text",
    [
        *("", "   ", "\n\t\x00\x07", ".", "?!...", "a", "7", "\ud800", "_ _ _", "<b>dog</b>", "''\"\"``", "ROOT dep"),
        *("\U0001f436\U0001f3fd\u200d\U0001f9b1", "رجل يركب حصانا في الشارع", "כלב על ספה", "一只狗在沙发上"),
        *("e\u0301te\u0301 a\u0300 la plage", "dog\x00cat", "don't can't won't it's"),
        *("\u202edog on mat\u202c", "A" * 5000, "dog " * 3000),
    ],
)  # fmt: skip
def test_any_text_is_parsed(parser, text):
    parse = parser.parse(text)
    assert len(parse) == len(tokenize(text))
    extract(parse)


def test_the_apostrophe_of_a_keyboard_and_that_of_print_parse_alike(parser):
    typed = "The man's dog isn't on the boys' sofa, it's under it"
    printed = typed.replace("'", "\u2019")
    parse = parser.parse(printed)
    assert parse == parser.parse(typed)
    assert [printed[t.start : t.end].replace("\u2019", "'") for t in parse] == [t.text for t in parse]
    assert extract(parse) == extract(parser.parse(typed))


def test_a_caption_of_500_words(parser):
    parse = parser.parse(" and ".join(["a red dog on a mat"] * 84))
    assert len(parse) > 500
    assert len([o for o in extract(parse).objects if o.word == "dog"]) > 75


def test_capitals_are_a_way_of_typing(parser):
    low, high = (extract(parser.parse(t)) for t in ("a woman is riding a horse", "A WOMAN IS RIDING A HORSE"))
    assert low == high
    assert parser.parse("A WOMAN IS RIDING A HORSE")[1].text == "WOMAN"


def test_the_fingerprint_names_every_byte_of_the_pipeline(parser, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(HERE, copy)
    same = Parser(Parser.Config(pipeline=str(copy)))
    assert same.fingerprint == parser.fingerprint
    table = json.loads((copy / "lemmas.json").read_text())
    table["exceptions"]["n"]["dogs"] = "cat"
    (copy / "lemmas.json").write_text(json.dumps(table))
    other = Parser(Parser.Config(pipeline=str(copy)))
    assert other.fingerprint != parser.fingerprint
    assert other.parse("two dogs")[1].lemma == "cat"


@pytest.mark.parametrize("pipeline", [SHIPPED, str(HERE)])
def test_a_fingerprint_is_the_same_with_and_without_loading(parser, pipeline):
    assert parser_fingerprint(Parser.Config(pipeline=pipeline)) == parser.fingerprint


@pytest.mark.process
@pytest.mark.slow
def test_a_process_that_parses_nothing_loads_no_spacy():
    """Nor do those of a trained model family whose captions are parsed: it is a second of each of their starts."""
    code = (
        "import sys, vse.stages.train\n"
        "from vse.text.parser import Parser\n"
        "from vse.stages.parse import language_fingerprint\n"
        "language_fingerprint(Parser.Config())\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('spacy', 'thinc')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_wrong_pipelines_are_input_errors(tmp_path):
    with pytest.raises(InputError, match=r"parser\.pipeline=en_core_web_nowhere: neither"):
        Parser(Parser.Config(pipeline="en_core_web_nowhere"))
    (tmp_path / "meta.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be loaded"):
        Parser(Parser.Config(pipeline=str(tmp_path)))
    spacy = pytest.importorskip("spacy")
    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(InputError, match="has no tagger and parser"):
        Parser(Parser.Config(pipeline=str(tmp_path / "blank")))


def test_it_is_a_registered_component():
    assert registry.component("parser", "spacy") is Parser
    assert override(Parser.Config(), {"pipeline": "x"}).pipeline == "x"


@pytest.mark.process
@pytest.mark.slow
def test_loading_is_quick_and_silent(tmp_path):
    code = (
        "import time; from vse.text.parser import Parser; start = time.perf_counter(); p = Parser(Parser.Config());"
        "p.parse('A dog.'); assert time.perf_counter() - start < 10, time.perf_counter() - start"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_size_on_disk():
    assert sum(path.stat().st_size for path in HERE.rglob("*") if path.is_file()) < 9e6


def test_components_of_annotated_captions_stay_accurate(parser):
    """Development captions; the shipped figures are well above these floors."""
    gold = read_annotated(f"{DATA}/parser_gold_dev.json")
    accuracy = score(gold, [extract(p) for p in parser.parse_all([row.caption for row in gold])])
    assert accuracy["objects"].f1 > 0.96
    assert accuracy["attributes"].f1 > 0.90
    assert accuracy["relations"].f1 > 0.82


@pytest.mark.skipif(SHARED is None, reason="the treebank is not on this machine")
def test_treebank_accuracy_of_the_shipped_pipeline():
    assert SHARED is not None
    from vse.assets.parser_training import evaluate
    from vse.assets.treebank import read_conllu

    sentences = read_conllu(SHARED / "data" / "treebank" / "en_ewt-ud-test.conllu.gz")[:500]
    scores = evaluate(shared_parser(Parser.Config())._nlp, sentences)
    assert scores["tag"] > 0.92
    assert scores["uas"] > 0.82
    assert scores["las"] > 0.77
