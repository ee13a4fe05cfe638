"""Split names of data that others made: `dev`, `validation` and `Train` are plainly val and train."""

from vse.data.notices import notice
from vse.errors import InputError

SPLITS = ("train", "val", "test")
_MEANINGS = {name: name for name in SPLITS}
_MEANINGS |= {"training": "train", "testing": "test"}
_MEANINGS |= dict.fromkeys(("valid", "validate", "validation", "dev", "devel", "development"), "val")


class SplitNames:
    """What the split names of one file are taken for."""

    def __init__(self, path: str, *others: str) -> None:
        """path: the file, for messages. others: names other than train, val and test that its source knows itself."""
        self._path = path
        self._meanings = _MEANINGS | {name: name for name in others}
        self._known = (*SPLITS, *others)
        self._taken: dict[str, str] = {}

    def split(self, name: str, where: str) -> str:
        """train, val, test or one of the other names. Raises InputError for a name that is not plainly one of them."""
        meaning = self._meanings.get(name.strip().lower())
        if meaning is None:
            raise InputError(f"{where}: unknown split {name!r}; known are {', '.join(self._known)}")
        if name != meaning:
            self._taken[name] = meaning
        return meaning

    def log(self) -> None:
        """One line that says which names were taken for others; nothing if every name was as it should be."""
        if self._taken:
            names = ", ".join(f"{name!r} as {meaning}" for name, meaning in self._taken.items())
            notice(f"{self._path}: reading the splits {names}")
