"""Presets of the family `mean_of_words`."""

from dataclasses import replace

from vse.presets.catalogue import register_preset
from vse.presets.vsepp import vsepp_scenes
from vse.training.config import RunConfig
from vse_mean_words.family import MeanOfWords


@register_preset("mean_of_words_small")
def mean_of_words_scenes() -> RunConfig:
    """The setting of VSE++ on scenes, with another family."""
    return replace(vsepp_scenes(), model=MeanOfWords.Config())
