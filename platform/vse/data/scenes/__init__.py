"""The data set that the project renders itself: compositions of things, captions true of them, and the truth."""

from vse.data.scenes.grammar import captions_of
from vse.data.scenes.interpret import interpret
from vse.data.scenes.layout import Address, Scene, scene_of
from vse.data.scenes.meaning import Meaning
from vse.data.scenes.render import CELL_LABELS, cell_labels, render
from vse.data.scenes.truth import ambiguity, holds, text_truth, true_pairs, truth_matrix

__all__ = [
    "CELL_LABELS",
    "Address",
    "Meaning",
    "Scene",
    "ambiguity",
    "captions_of",
    "cell_labels",
    "holds",
    "interpret",
    "render",
    "scene_of",
    "text_truth",
    "true_pairs",
    "truth_matrix",
]
