"""Training losses. Adding one is adding a module to this folder: all are imported."""

from vse.registry import import_modules

import_modules(__name__)
