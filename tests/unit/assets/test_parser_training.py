import gzip

import pytest

from tests.unit.assets.test_treebank import TEXT
from vse.assets.parser_training import TrainingConfig, train
from vse.config import override
from vse.errors import InputError
from vse.text.parser import Parser

TINY = override(
    TrainingConfig(), {"num_epochs": 2, "width": 16, "depth": 1, "rows": 200, "num_captions": 60, "hidden": 8}
)


@pytest.fixture
def treebank(tmp_path):
    for split in ("train", "dev", "test"):
        (tmp_path / f"xx-{split}.conllu.gz").write_bytes(gzip.compress(f"{TEXT}\n".encode() * 30))
    return tmp_path


@pytest.mark.slow
def test_a_trained_pipeline_loads_parses_and_is_the_same_twice(treebank, tmp_path):
    lines: list[str] = []
    reports = [train(treebank, tmp_path / name, TINY, say=lines.append) for name in ("one", "two")]
    assert len(lines) == 4
    assert {k: v for k, v in reports[0].items() if k != "seconds"} == {
        k: v for k, v in reports[1].items() if k != "seconds"
    }
    one, two = (Parser(Parser.Config(pipeline=str(tmp_path / name))) for name in ("one", "two"))
    assert one.fingerprint == two.fingerprint
    assert one._nlp.meta["license"] == "CC BY-SA 4.0"
    assert one._nlp.meta["training"]["seed"] == 1
    parse = one.parse("Dogs don't run near unheard-of words.")
    assert len(parse) == 10
    assert {t.tag for t in parse} <= set(one._nlp.pipe_labels["tagger"])
    assert parse == two.parse("Dogs don't run near unheard-of words.")


def test_a_missing_treebank_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"has no \*-train\.conllu"):
        train(tmp_path, tmp_path / "out", TINY)
