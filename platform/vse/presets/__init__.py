"""Complete run configurations by name. Adding a system is one file here and one import line."""

from vse.presets import cca, cse, jwae, order, relational, scan, two_branches, univse, vse_infinity, vsec, vsepp
from vse.presets.catalogue import from_data, names, on_photographs, on_scenes, preset, small

__all__ = [
    "cca",
    "cse",
    "from_data",
    "jwae",
    "names",
    "on_photographs",
    "on_scenes",
    "order",
    "preset",
    "relational",
    "scan",
    "small",
    "two_branches",
    "univse",
    "vse_infinity",
    "vsec",
    "vsepp",
]
