"""The tables of each paper, one file a paper: all are imported."""

from vse.registry import import_modules

import_modules(__name__)
