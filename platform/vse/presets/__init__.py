"""Complete run configurations by name. Adding one is adding a module to this folder: all are imported."""

from vse.presets.catalogue import from_data, names, on_photographs, on_scenes, preset, small
from vse.registry import import_modules

__all__ = ["from_data", "names", "on_photographs", "on_scenes", "preset", "small"]

import_modules(__name__)
