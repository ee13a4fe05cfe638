"""A small data set of pictures and captions as people have them: a folder, or the same on S3."""

import json
import shutil
from pathlib import Path

import numpy as np
from PIL import Image as Picture

from vse.features.small_backbone import SHIPPED
from vse.storage.folder import Folder

SPLITS = ["train"] * 8 + ["val"] * 4 + ["test"] * 4
COLOURS, THINGS = ("red", "blue", "green", "white"), ("dog", "cat", "ball", "cup", "chair")
VECTORS, WEIGHTS = "vectors.txt", "weights.safetensors"


def captions_of(number: int) -> list[str]:
    """Two different ones."""
    thing, colour = THINGS[number % len(THINGS)], COLOURS[number % len(COLOURS)]
    return [f"a {colour} {thing} on the grass", f"the {thing} number {number} is {colour}"]


def write(folder: Path) -> Path:
    """Pictures in `images`, the captions twice (dataset_tiny.json of Karpathy's form, captions.csv), a file of word
    vectors and one of weights; returns the folder."""
    (folder / "images").mkdir(parents=True)
    draw, entries, rows = np.random.default_rng(0), [], ["image,caption,split"]
    for k, split in enumerate(SPLITS):
        pixels = draw.integers(0, 256, (40, 50, 3), dtype=np.uint8)
        Picture.fromarray(pixels).save(folder / "images" / f"{k}.png")
        entries.append({"filename": f"{k}.png", "split": split, "sentences": [{"raw": c} for c in captions_of(k)]})
        rows += [f"images/{k}.png,{caption},{split}" for caption in captions_of(k)]
    (folder / "dataset_tiny.json").write_text(json.dumps({"images": entries}))
    (folder / "captions.csv").write_text("\n".join(rows))
    words = sorted({word for k in range(len(SPLITS)) for caption in captions_of(k) for word in caption.split()})
    lines = (f"{word} {' '.join(f'{x:.3f}' for x in draw.normal(size=6))}" for word in words)
    (folder / VECTORS).write_text("\n".join(lines) + "\n")
    shutil.copy(SHIPPED, folder / WEIGHTS)
    return folder


def upload(folder: Path, place: Folder) -> Folder:
    """Every file of a local folder under the same name."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        *steps, name = file.relative_to(folder).parts
        place.child(*steps).write_bytes(name, file.read_bytes())
    return place
