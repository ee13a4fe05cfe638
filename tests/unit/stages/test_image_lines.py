"""A dry run looks at image files by their names, and refuses those that extraction would refuse."""

import PIL.Image
import pytest

from vse import registry
from vse.cluster.runtime import Config as RayConfig
from vse.config import override
from vse.errors import InputError
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.local_inputs import check_training, image_lines, records_to_train
from vse.workspace.layout import Workspace


def dry_run(config):
    return list(check_training(config, records_to_train(config), "nowhere", RayConfig()))


def pictures(folder, *names):
    for name in names:
        PIL.Image.new("RGB", (4, 4)).save(folder / name)


def test_a_dry_run_refuses_images_as_extraction_does(tmp_path):
    """Missing images and formats that cannot be read end it with the same message, before anything is written."""
    names = [f"{k}.png" for k in range(8)]
    rows = [f"{name},a dog,{'val' if name == '0.png' else 'train'}" for name in names]
    (tmp_path / "mine.csv").write_text("\n".join(["image,caption,split", *rows, "8.HEIC,a cat,train"]))
    config = override(preset("vsepp_tiny"), {"data": "table", "data.file": str(tmp_path / "mine.csv")})
    (tmp_path / "8.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    pictures(tmp_path, *names[1:])
    faults = (
        f"1 of 9 images is missing in {tmp_path}, for example '0.png': no file has this or a similar name",
        f"1 of 9 images cannot be read in {tmp_path}, for example '8.HEIC': HEIC file, which cannot be read here; "
        "convert it to JPEG",
    )
    with pytest.raises(InputError) as planned:
        dry_run(config)
    with pytest.raises(InputError) as done:
        pipeline.prepare(config, Workspace.open(str(tmp_path / "workspace")))
    told = "; ".join([*faults, "more than max_rejected=0.05 allows", "data.root, data.file say where images are"])
    assert str(planned.value).startswith(told)
    before, listed, after = str(done.value).partition("; each is listed in ")
    assert (before, bool(listed)) == (told, True)
    assert str(planned.value) == told + "".join(f"; {part}" for part in after.split("; ")[1:])
    request = list(
        image_lines(
            config, Workspace.open("nowhere"), registry.build("source", config.data).describe(), ("pooled",), 0.5
        )
    )
    assert request == list(faults)
    pictures(tmp_path, "0.png", "9.png")
    (tmp_path / "8.HEIC").write_bytes((tmp_path / "1.png").read_bytes())
    assert dry_run(config)[-1] == f"1 image file in {tmp_path} is not in the table"


@pytest.mark.parametrize(("name", "warnings"), [("univse_tiny", 1), ("vsepp_tiny", 0)])
def test_a_dry_run_warns_of_captions_that_are_not_english_if_they_are_parsed(tmp_path, name, warnings):
    rows = [f"{k}.png,Ein Hund läuft am Strand,{'val' if k else 'train'}" for k in range(2)]
    (tmp_path / "fotos.csv").write_text("\n".join(["image,caption,split", *rows]))
    pictures(tmp_path, "0.png", "1.png")
    lines = dry_run(override(preset(name), {"data": "table", "data.file": str(tmp_path / "fotos.csv")}))
    assert sum("the parser en_vse, the attacks and the lexicon are for English" in line for line in lines) == warnings
    assert not [line for line in dry_run(preset(name)) if "for English" in line]  # rendered scenes
