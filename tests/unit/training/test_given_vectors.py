"""Who lacks the word vectors of its paper is told so, and who has some is told how many words they know."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from vse import presets, registry
from vse.cluster.runtime import Config as RayConfig
from vse.config import override
from vse.errors import InputError
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.local_inputs import check_training, planned_coverage, records_to_train
from vse.text.tokens import words
from vse.training.inputs import without_vectors
from vse.workspace.layout import Workspace

VECTORS = {"univse": "GloVe", "vsec": "GloVe", "relational": "fastText"}


@pytest.mark.parametrize("name", [n for n in presets.names() if n.endswith(("_coco", "_flickr30k", "_scenes"))])
def test_who_lacks_the_vectors_of_its_paper_is_told_so(name: str) -> None:
    config = preset(name)
    told, expected = without_vectors(config), VECTORS.get(registry.name_of("family", config.model))
    if expected is None or name.endswith("_scenes"):
        assert told == ""
    else:
        assert told.startswith(
            "text.word_vectors is not set: word vectors are learned from scratch; the paper starts from "
        )
        assert expected in told
        assert "\n" not in told
    assert without_vectors(override(config, {"text.word_vectors": "glove.txt"})) == ""


def test_a_dry_run_says_that_vectors_are_missing(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("image,caption,split\na.jpg,A dog,train\nb.jpg,A cat,val\n")
    for name in ("a.jpg", "b.jpg"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    table = {"data": "table", "data.file": str(tmp_path / "mine.csv")}
    config = override(preset("vsec_scenes"), table)
    assert without_vectors(config) in list(check_training(config, records_to_train(config), "nowhere", RayConfig()))
    assert without_vectors(config).startswith("text.word_vectors is not set")


@pytest.mark.parametrize("some", ["all", "few"])
def test_what_the_vectors_know_is_told_by_a_dry_run_and_a_training(
    some: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scenes = {"data.num_train": 8, "data.num_val": 4, "data.num_test": 4, "data.num_shifted": 2}
    file, place = tmp_path / "glove.txt", Workspace.open(str(tmp_path / "workspace"))
    config: Any = override(preset("vsepp_tiny"), {**scenes, "text.word_vectors": str(file)})
    records = registry.build("source", config.data).describe()
    known = sorted({word for caption in records.captions for word in words(caption.text)})
    file.write_text("".join(f"{word} 1 2\n" for word in (known if some == "all" else known[:2])))
    planned = list(check_training(config, records_to_train(config), "nowhere", RayConfig()))
    with caplog.at_level("INFO", logger="vse"):
        pipeline.prepare(config, place)
    (record,) = [record for record in caplog.records if "text.word_vectors=" in record.getMessage()]
    assert record.getMessage() in planned
    assert record.levelname == ("INFO" if some == "all" else "WARNING")
    begin = f"text.word_vectors={file}: has "
    assert record.getMessage().startswith(begin if some == "all" else f"warning: {begin}")
    file.write_text("nothing 1 2\n")
    with pytest.raises(InputError, match=r"glove\.txt: holds no vector of any word of the vocabulary"):
        list(check_training(config, records_to_train(config), "nowhere", RayConfig()))


def test_a_dry_run_copies_no_file_from_s3() -> None:
    config: Any = override(preset("vsepp_tiny"), {"text.word_vectors": "s3://bucket/glove.txt"})
    (line,) = planned_coverage(config, registry.build("source", config.data).describe())
    assert line == "text.word_vectors=s3://bucket/glove.txt: not read by a dry run, which copies no files from S3"
