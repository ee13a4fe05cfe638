"""The tokeniser of the guide for exported networks reads captions as the platform does, except where it says so."""

import ast
from types import SimpleNamespace
from typing import Any

import pytest

from tests.documents import ROOT, sources
from vse.inference import onnx_export
from vse.text.tokens import as_caption, words
from vse.text.vocabulary import Vocabulary

GUIDE = ROOT / "docs" / "guides" / "take-a-model-out.md"
OTHERWISE = ("&amp;", "https:", "@user", "#", "\U0001f436", "\u0939", "\u72d7")  # as the guide says


def functions() -> dict[str, Any]:
    """The functions of the guide's example and what they need."""
    (source,) = (text for text in sources(GUIDE, "python") if "tokens.json" in text)
    kept = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.Import) or _named(node)]
    kept = [node for node in kept if not (isinstance(node, ast.Import) and node.names[0].name == "onnxruntime")]
    names: dict[str, Any] = {}
    exec(compile(ast.Module(kept, []), str(GUIDE), "exec"), names)
    return names


@pytest.fixture(scope="module")
def guide() -> dict[str, Any]:
    return functions()


def _named(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "WORD"


@pytest.mark.parametrize(
    "caption",
    [
        *(text for text in onnx_export.EXAMPLES if not any(each in text for each in OTHERWISE)),
        "ISN'T it the dog\u2019s ball? They'll've said: we don''t",
        "at 10:30, 3.5 x 1,000 = 3,500.",
        "t-shirt \u00a9 2\u00bd x\u00b2 __init__ o'clock 'tis",
        "\u00c9t\u00e9 e\u0301te\u0301 \u0130stanbul \u041c\u043e\u0441\u043a\u0432\u0430",
        " two\n lines ",
    ],
)
def test_the_guide_reads_words_as_the_platform_does(guide: dict[str, Any], caption: str) -> None:
    assert guide["words_of"](caption) == list(words(as_caption(caption)))


@pytest.mark.parametrize("caption", [text for text in onnx_export.EXAMPLES if any(each in text for each in OTHERWISE)])
def test_the_guide_names_what_it_reads_otherwise(guide: dict[str, Any], caption: str) -> None:
    assert guide["words_of"](caption) != list(words(as_caption(caption)))


def test_examples_have_the_ids_of_the_platform(guide: dict[str, Any]) -> None:
    known = dict.fromkeys(word for text in onnx_export.EXAMPLES for word in words(as_caption(text)))
    vocabulary = Vocabulary(tuple(known), (1,) * len(known))
    embedder: Any = SimpleNamespace(trained=SimpleNamespace(vocabulary=vocabulary))
    written = onnx_export._tokens(embedder)
    ids = {example["text"]: example["ids"] for example in written["examples"]}
    assert ids[""] == [1, 3, 2]  # as training encodes a caption without words
    assert vocabulary.decode(ids["@user: #two_dogs"]) == ["<start>", ":", "two", "dogs", "<end>"]
    for text, expected in ids.items():
        if not any(each in text for each in OTHERWISE):
            assert guide["ids_of"](text, written) == expected
