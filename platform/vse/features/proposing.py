"""Region proposals of a picture, by methods of OpenCV's contrib modules (the extra `proposals`).

Selective search (Uijlings et al., IJCV 2013) needs nothing else. Edge Boxes (Zitnick and Dollár, ECCV 2014) reads a map
of edges: of structured forests, whose model OpenCV does not ship (`model.yml.gz` in its repository opencv_extra, folder
`testdata/cv/ximgproc`), or of the gradient of the smoothed picture, which needs no model and is ours.
"""

import ctypes
import functools
import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from PIL import Image

from vse.config import knob
from vse.data.regions import cleaned
from vse.errors import InputError, install
from vse.storage import user_files

METHODS = ("selective_search", "edge_boxes")
REVISION = 1  # raise it when the same picture and keys give other boxes


@dataclass(frozen=True, kw_only=True, slots=True)
class ProposalConfig:
    """How regions of a picture are proposed."""

    method: str = knob("selective_search", "method of OpenCV's contrib modules", choices=METHODS)
    number: int = knob(500, "proposals of a picture: the best ranked ones", low=1)
    quality: bool = knob(False, "selective search: the slower variant with more colour spaces and thresholds")
    edges: str = knob(
        "gradient",
        "Edge Boxes: edges of structured forests (needs a model) or of the gradient",
        choices=("structured", "gradient"),
    )
    model: str = knob("", "Edge Boxes: model of structured forests, such as model.yml.gz of opencv_extra")
    side: int = knob(0, "longest side in pixels to which a picture is scaled first; 0: as it is", low=0)

    def check(self) -> "ProposalConfig":
        """The configuration. Raises InputError if OpenCV or the model is missing."""
        _opencv()
        structured = self.method == "edge_boxes" and self.edges == "structured"
        if structured and not self.model:
            raise InputError(
                "proposals.model: Edge Boxes on structured forests needs their model, which OpenCV does not ship; name "
                "a file model.yml.gz of opencv_extra (testdata/cv/ximgproc), or use proposals.edges=gradient or "
                "proposals.method=selective_search"
            )
        if structured and not user_files.is_file(self.model):
            raise InputError(f"proposals.model={self.model}: no such file; expected the model of structured forests")
        if self.model and not structured:
            raise InputError("proposals.model: goes with proposals.method=edge_boxes proposals.edges=structured")
        return self


def propose(picture: Image.Image, config: ProposalConfig) -> Float[np.ndarray, "proposals 4"]:
    """At most `config.number` regions as left, top, right and bottom in fractions of the picture, the best ones first.

    Args:
        picture: RGB.
        config: Method and number.
    """
    if config.side and max(picture.size) != config.side:
        share = config.side / max(picture.size)
        picture = picture.resize((max(1, round(picture.width * share)), max(1, round(picture.height * share))))
    pixels = np.ascontiguousarray(np.asarray(picture)[..., ::-1])  # OpenCV reads blue, green, red
    if min(pixels.shape[:2]) < 8:
        return np.array([[0.0, 0.0, 1.0, 1.0]])  # nothing to segment
    boxes = _selective_search(pixels, config) if config.method == "selective_search" else _edge_boxes(pixels, config)
    size = np.array([picture.width, picture.height, picture.width, picture.height], dtype=np.float64)
    corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    return cleaned(corners / size)[: config.number]


def _opencv() -> Any:
    try:
        module = importlib.import_module("cv2")
    except ImportError:
        module = None
    if module is None or not hasattr(module, "ximgproc"):
        raise InputError(
            f"proposals: needs OpenCV with its contrib modules; {install('proposals')}, or "
            "name a file of boxes that another tool made with data.proposals"
        )
    return module


def _selective_search(pixels: np.ndarray, config: ProposalConfig) -> np.ndarray:
    """Boxes (boxes, 4) as left, top, width, height. OpenCV ranks them by draws of the C library: seeded here."""
    cv2 = _opencv()
    cv2.setNumThreads(1)  # pictures are shared among processes
    search = cv2.ximgproc.segmentation.createSelectiveSearchSegmentation()
    search.setBaseImage(pixels)
    search.switchToSelectiveSearchQuality() if config.quality else search.switchToSelectiveSearchFast()
    ctypes.CDLL(None).srand(0)
    return np.asarray(search.process(), dtype=np.float64).reshape(-1, 4)


def _edge_boxes(pixels: np.ndarray, config: ProposalConfig) -> np.ndarray:
    """Boxes (boxes, 4) as left, top, width, height."""
    edges = _structured(pixels, config.model) if config.edges == "structured" else _gradient(pixels)
    finder = _opencv().ximgproc.createEdgeBoxes()
    finder.setMaxBoxes(2 * config.number)  # some are equal once they are cut to the picture
    boxes, _ = finder.getBoundingBoxes(*edges)
    return np.asarray(boxes, dtype=np.float64).reshape(-1, 4)


def _structured(pixels: np.ndarray, model: str) -> tuple[np.ndarray, np.ndarray]:
    """(thin edges, their normals) of structured forests (Dollár and Zitnick, ICCV 2013)."""
    detector = _detector(str(user_files.local(model)), model)
    edges = detector.detectEdges(pixels[..., ::-1].astype(np.float32) / 255)
    normals = detector.computeOrientation(edges)
    return detector.edgesNms(edges, normals), normals


@functools.lru_cache(maxsize=1)
def _detector(path: str, address: str) -> Any:
    cv2 = _opencv()
    try:
        return cv2.ximgproc.createStructuredEdgeDetection(path)
    except cv2.error as error:
        raise InputError(f"proposals.model={address}: is not a model of structured forests ({error.err})") from None


def _gradient(pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(thin edges in [0, 1], their normals in [0, π)): the largest gradient of the colours of the smoothed picture."""
    cv2 = _opencv()
    smooth = cv2.GaussianBlur(pixels.astype(np.float32) / 255, (0, 0), 1.0)
    across, down = cv2.Sobel(smooth, cv2.CV_32F, 1, 0), cv2.Sobel(smooth, cv2.CV_32F, 0, 1)
    strengths = np.hypot(across, down)
    strongest = strengths.argmax(axis=2)[..., None]
    strength, x, y = (np.take_along_axis(each, strongest, axis=2)[..., 0] for each in (strengths, across, down))
    normals = np.mod(np.arctan2(y, x), np.pi).astype(np.float32)
    rows, columns = np.indices(strength.shape, dtype=np.float32)
    step_x, step_y = np.cos(normals), np.sin(normals)
    beside = [cv2.remap(strength, columns + sign * step_x, rows + sign * step_y, cv2.INTER_LINEAR) for sign in (-1, 1)]
    thin = np.where(strength >= np.maximum(*beside), strength, 0)
    return (thin / max(float(thin.max()), 1e-6)).astype(np.float32), normals
