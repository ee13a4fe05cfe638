"""Captions of data that a run was not trained on, without their images."""

from vse import registry
from vse.config import override
from vse.data.source import recognise
from vse.errors import InputError
from vse.storage.user_files import file_name, is_file
from vse.text.tokens import as_caption, bare_words
from vse.text.word_vector_training import read_captions

_DATA_SETS = (".json",)


def read_foreign(path: str) -> tuple[str, ...]:
    """The captions of a file of captions, or of all splits of a data set named by its JSON file.

    Args:
        path: Text with one caption a line, a table with a column `caption`, JSON lines, or JSON of a data set; the
            first three may be gzipped.

    Raises:
        InputError: The file is missing, damaged, or of no known format.
    """
    if is_file(path) and file_name(path).suffix.lower() in _DATA_SETS:
        name, keys = recognise(path)
        try:
            config = override(registry.component("source", name).Config(), keys)
            return tuple(caption.text for caption in registry.build("source", config).describe().captions)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    captions = (as_caption(text) for text in read_captions(path))
    return tuple(text for text in captions if bare_words(text))
