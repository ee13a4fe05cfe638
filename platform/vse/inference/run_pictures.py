"""What trained runs see in pictures, for the public interface."""

import os
from collections.abc import Sequence
from typing import Any, Protocol

import PIL.Image

from vse.data import images
from vse.errors import InputError
from vse.inference.embedder import Embedder
from vse.inference.picture_maps import Picture, PictureSaliency, RelevanceMap
from vse.workspace.layout import Workspace

Place = str | os.PathLike[str] | Workspace
"""A workspace, or its path or address."""


class TrainedRun(Protocol):
    """A run by its name in a workspace, such as `vse.Run`."""

    @property
    def name(self) -> str: ...
    @property
    def workspace(self) -> Workspace: ...


def open_image(uri: str | os.PathLike[str], root: str = "") -> PIL.Image.Image:
    """The image at a path or address, RGB, turned upright as its EXIF data says, with transparent parts white.

    Args:
        uri: a `scene:` address, a file:// or s3:// address, or a path, as in the data of a run.
        root: the folder or s3:// address that a path is relative to.

    Raises:
        InputError: the path leaves its root, or the file is missing, empty, truncated, too large or not an image.
        StorageError: the disk or file server failed.
    """
    try:
        return images.open_image(os.fspath(uri), root)
    except images.UnreadableImage as error:
        raise InputError(f"image {uri}: {error.reason}") from None


def relevance_map(
    run: str | TrainedRun | Embedder, image: Picture, phrase: str, workspace: Place = "workspace", **options: Any
) -> RelevanceMap:
    """Which cells of an image a phrase is about, by a run with vectors of regions (UniVSE, eq. 2 and Fig. 6).

    Args:
        run: a run, its name in `workspace`, or a model from `load`, which is faster for many maps.
        image: a path or an address, the bytes of a file, or an image of Pillow.
        phrase: a word, a pair, a triple or any other text.
        workspace: workspace of a run that is given by name.
        **options: `temperature` (0.1) and `attention` (False), as of `Embedder.relevance_map`.

    Returns:
        `values` (rows, columns), the `window` that they cover, `upsampled()`, `grounded()` and `draw()`.

    Raises:
        InputError: as of `Embedder.relevance_map`, or there is no such run.
    """
    return _embedder(run, workspace).relevance_map(image, phrase, **options)


def saliency(
    run: str | TrainedRun | Embedder,
    image: Picture,
    captions: str | Sequence[str],
    workspace: Place = "workspace",
) -> PictureSaliency:
    """On which pixels and words the score of an image and a caption depends (VSE-C, section 4.2 and Fig. 2).

    Args:
        run: a run, its name in `workspace`, or a model from `load`.
        image: a path or an address, the bytes of a file, or an image of Pillow.
        captions: a sentence, or several, such as a caption and what is changed in it.
        workspace: workspace of a run that is given by name.

    Returns:
        `scores`, `pixels` (captions, rows, columns), `words` with their shares, and `draw()`.

    Raises:
        InputError: as of `Embedder.saliency`, or there is no such run.
    """
    return _embedder(run, workspace).saliency(image, captions)


def _embedder(run: str | TrainedRun | Embedder, workspace: Place) -> Embedder:
    if isinstance(run, Embedder):
        return run
    if not isinstance(run, str):
        return Embedder.of_run(run.workspace, run.name)
    return Embedder.of_run(workspace if isinstance(workspace, Workspace) else Workspace.open(os.fspath(workspace)), run)
