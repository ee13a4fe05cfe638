"""A Karpathy data set of odd pictures and odd captions, each named after what is odd about it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SIZE = (96, 80)


def picture(seed: int = 0, size: tuple[int, int] = SIZE) -> Image.Image:
    """Coarse coloured noise, so that no two pictures have the same features."""
    cells = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(cells).resize(size, Image.Resampling.BILINEAR)


def _sixteen_bit(path: Path) -> None:
    grey = np.asarray(picture(3).convert("L"))
    Image.fromarray(grey.astype(np.uint16) * 257).save(path)


def _with_alpha(path: Path) -> None:
    layer = picture(4).convert("RGBA")
    layer.putalpha(Image.new("L", SIZE, 120))
    layer.save(path)


def _rotated(path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(6).save(path, exif=exif)


def _truncated(path: Path) -> None:
    picture(9).save(path)
    path.write_bytes(path.read_bytes()[:600])


def _bomb(path: Path) -> None:
    Image.new("1", (20_000, 20_000)).save(path)  # fifty kilobytes that unfold to 400 million pixels


Maker = Callable[[Path], Any]
HANDLED: dict[str, Maker] = {
    "greyscale.jpg": lambda path: picture(1).convert("L").save(path),
    "cmyk.jpg": lambda path: picture(2).convert("CMYK").save(path),
    "sixteen bit.png": _sixteen_bit,
    "alpha.png": _with_alpha,
    "palette.gif": lambda path: picture(5).quantize(16).save(path),
    "rotated.jpg": _rotated,
    "one pixel.png": lambda path: picture(7, (1, 1)).save(path),
    "wide 20000x10.png": lambda path: picture(8, (20_000, 10)).save(path),
    "größe 寫真 #1 100%.png": lambda path: picture(10).save(path),
}
REJECTED: dict[str, tuple[Maker, str]] = {
    "missing.jpg": (lambda path: None, "file is missing"),
    "truncated.jpg": (_truncated, "cannot be decoded"),
    "zero bytes.jpg": (lambda path: path.touch(), "file is empty"),
    "text.jpg": (lambda path: path.write_text("no picture"), "not an image of a known format"),
    "bomb.png": (_bomb, "pixels"),
    "folder.jpg": (lambda path: path.mkdir(), "is not a file"),
    "../outside.png": (lambda path: picture(11).save(path), "leaves its root"),
    "link.png": (lambda path: path.symlink_to("../outside.png"), "through a symbolic link"),
    "loop.png": (lambda path: path.symlink_to(path.name), "cannot be read"),
}
ABSOLUTE = "/etc/hostname"
CAPTIONS = {
    "long": " ".join(["a small red ball lies on a wooden table near the big blue box"] * 39)[:-1] + "x",
    "unknown": "qwrtz zzyzx flurbing snorkwobble",
    "emoji": "a dog 🐕 🏖️ 👩‍👩‍👧",
    "right to left": "כלב חום רץ על החוף ليل طويل",
    "control": "a brown\x00dog\x07 runs\x1b[31m on the\u2028beach\x7f",
    "markup": "<b>a cat</b> & 'a \"dog\"' \\n %s {0} ${HOME}",
    "combining": "e\u0301 cafe\u0301 " + "a" * 3000,
}
EMPTY = {"empty": "", "spaces": " \t\n", "invisible": "\u200b\x00", "signs": "... - ???", "pictographs": "🐕 🏖️"}
HALF = {"half a character": "a dog \ud83d"}


def plain_captions(number: int) -> list[str]:
    """Captions that a parser finds objects, attributes and relations in."""
    colours, things = ("red", "blue", "green", "brown", "white"), ("ball", "box", "dog", "cat", "table", "chair")
    places = ("on", "under", "near", "behind")
    pick = np.random.default_rng(number).permutation
    first, second = pick(len(things))[:2]
    return [
        f"a {colours[number % 5]} {things[first]} is {places[number % 4]} a {colours[(number + 2) % 5]} "
        f"{things[second]}",
        f"the {things[first]} is {colours[number % 5]}",
        f"a {things[second]} and a {things[first]}",
    ]


def write_plain(root: Path, splits: dict[str, int]) -> list[dict[str, Any]]:
    """Ordinary images with three captions each below `root`/images, and their entries."""
    entries, number = [], 0
    (root / "images").mkdir(parents=True)
    for split, count in splits.items():
        for _ in range(count):
            name = f"plain {number}.png"
            picture(1000 + number, (64, 64)).save(root / "images" / name)
            entries.append(entry(name, split, plain_captions(number)))
            number += 1
    return entries


def entry(name: str, split: str, captions: list[str], prefix: str = "") -> dict[str, Any]:
    """One image of a Karpathy file."""
    said = [{"raw": text, "sentid": f"{prefix or name} {k}"} for k, text in enumerate(captions)]
    return {"filename": name, "split": split, "sentences": said}


def write_entries(root: Path, entries: list[dict[str, Any]], name: str = "dataset_odd.json") -> Path:
    """The JSON file of a data set."""
    (root / name).write_text(json.dumps({"images": entries}))
    return root


def write_odd(root: Path) -> Path:
    """Everything odd in the training split, and some of it in the others, among ordinary images."""
    entries = write_plain(root, {"train": 24, "val": 6, "test": 6})
    number = 100
    for name, make in {**HANDLED, **{name: make for name, (make, _) in REJECTED.items()}}.items():
        make(root / "images" / name)
        entries.append(entry(name, "train", plain_captions(number)))
        number += 1
    entries.append(entry(ABSOLUTE, "train", plain_captions(number)))
    for split in ("train", "val", "test"):
        for what, text in {**CAPTIONS, **EMPTY, **HALF}.items():
            name = f"{split} {what}.png"
            picture(number, (64, 64)).save(root / "images" / name)
            several = [] if what in EMPTY or what in HALF else plain_captions(number)[:1]
            entries.append(entry(name, split, [text, *several]))
            number += 1
    for what, captions in (("none", []), ("one", plain_captions(7)[:1]), ("seven", [*plain_captions(8), *_FOUR])):
        picture(number, (64, 64)).save(root / "images" / f"captions {what}.png")
        entries.append(entry(f"captions {what}.png", "train", captions))
        number += 1
    return write_entries(root, entries)


_FOUR = ["a dog sits", "a white chair", "the box is behind the table", "a green ball near a cat"]


def write_arrays(folder: Path, **change: Any) -> Path:
    """Ready-made features of 8 training, 4 validation and 4 test images with a caption each, 16 numbers an image.

    `change` replaces the array of a file by its stem: train, dev or test.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number, (stem, rows) in enumerate((("train", 8), ("dev", 4), ("test", 4))):
        values = np.random.default_rng(number).standard_normal((rows, 16)).astype(np.float32)
        np.save(folder / f"{stem}_ims.npy", change.get(stem, values))
        captions = [plain_captions(100 * number + k)[0] for k in range(rows)]
        (folder / f"{stem}_caps.txt").write_text("\n".join(captions) + "\n")
    return folder
