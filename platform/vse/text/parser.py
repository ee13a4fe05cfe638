"""The caption parser: tokens of the one tokeniser through a spaCy pipeline, as plain data.

The shipped pipeline `en_vse` (CC BY-SA 4.0) was trained by `vse.assets.parser_training` on UD English EWT; any
installed spaCy pipeline with tagger and dependency parser serves as well.
"""

import hashlib
import json
import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vse.config import fingerprint, knob
from vse.errors import InputError, first_line
from vse.registry import ComponentConfig, register
from vse.storage.files import local_path
from vse.storage.user_files import refuse_placeholder
from vse.text.lemmas import LEMMAS_FILE, LemmaTable
from vse.text.parse import Parse, ParsedToken
from vse.text.repairs import repaired
from vse.text.tokens import Token, tokenize

if TYPE_CHECKING:  # spaCy takes a second to import, of every job's and every worker's start; most of them parse nothing
    from spacy.language import Language
    from spacy.tokens import Doc

SHIPPED = "en_vse"
_HERE = Path(__file__).parent
_UNUSED = (
    "tokenizer",
    "ner",
    "senter",
    "entity_linker",
    "textcat",
)  # tokens are given; the others say nothing of syntax
_REVISION = 3  # of how pipelines are fed and read here


@register("parser", "spacy")
class Parser:
    """Parses captions one by one or in batches; the result does not depend on the batch."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        pipeline: str = knob(SHIPPED, "the shipped en_vse, an installed spaCy pipeline (en_core_web_sm), or a folder")

    def __init__(self, config: Config) -> None:
        """Load the pipeline. Raises InputError if there is none of that name, or if it lacks a tagger or a parser."""
        self.config = config
        self._nlp, self._folder = _load(config.pipeline)
        table = self._folder / LEMMAS_FILE
        self._lemmas = LemmaTable.from_json(table.read_text(encoding="utf-8")) if table.is_file() else None

    @cached_property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits of the pipeline's name, version and every byte of its files."""
        return _fingerprint(self._nlp.meta, self._folder)

    def parse(self, text: str) -> Parse:
        """The parse of one caption; empty if the text has no visible token."""
        return self.parse_all([text])[0]

    def parse_all(self, texts: Sequence[str], batch_size: int = 128) -> list[Parse]:
        """One parse per text, in order."""
        from spacy.tokens import Doc

        tokens = [tokenize(text) for text in texts]
        docs = (Doc(self._nlp.vocab, words=_words(pieces)) for pieces in tokens if pieces)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pipelines of others warn about versions and missing tables
            parsed = self._nlp.pipe(docs, batch_size=batch_size)
            return [self._plain(pieces, next(parsed)) if pieces else () for pieces in tokens]

    def _plain(self, pieces: tuple[Token, ...], doc: "Doc") -> Parse:
        lemmas = self._lemmas
        parse = tuple(
            ParsedToken(
                text=piece.text,
                start=piece.start,
                end=piece.end,
                lemma=lemmas.lemma(piece.text, token.pos_, token.tag_)
                if lemmas is not None
                else (token.lemma_ or piece.text).lower(),
                tag=token.tag_,
                pos=token.pos_,
                head=token.head.i,
                dep=token.dep_,
            )
            for piece, token in zip(pieces, doc, strict=True)
        )
        return parse if lemmas is None else repaired(parse, lemmas.lemma)


def _words(pieces: tuple[Token, ...]) -> list[str]:
    """Token texts, in lower case if most begin with a capital: such a caption is in title case, not full of names."""
    words = [piece.text for piece in pieces]
    letters = [word for word in words if word[0].isalpha()]
    if len(letters) >= 4 and sum(word[0].isupper() for word in letters) > 0.6 * len(letters):
        return [word.lower() for word in words]
    return words


def _load(name: str) -> tuple["Language", Path]:
    import spacy

    folder = _HERE / SHIPPED if name == SHIPPED else local_path(name)
    logger = logging.getLogger("spacy")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            is_folder = (folder / "meta.json").is_file()
            if not is_folder and not spacy.util.is_package(name):
                raise InputError(
                    f"text.parser.pipeline={name}: neither {SHIPPED}, nor an installed spaCy pipeline, nor a folder of "
                    "one"
                )
            for file in sorted(folder.rglob("*")) if is_folder else ():
                if file.is_symlink() or (file.is_file() and file.stat().st_size):  # an empty one may be meant
                    refuse_placeholder(str(file), f"parser.pipeline={name}: {file.relative_to(folder)}")
            nlp = spacy.load(folder if is_folder else name, exclude=list(_UNUSED))
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"text.parser.pipeline={name}: cannot be loaded ({first_line(error)})") from error
    finally:
        logger.setLevel(level)
    if "parser" not in nlp.pipe_names or not {"tagger", "morphologizer"} & set(nlp.pipe_names):
        raise InputError(
            f"text.parser.pipeline={name}: has no tagger and parser; its parts are {', '.join(nlp.pipe_names)}"
        )
    return nlp, Path(nlp.path) if nlp.path is not None else folder


def _fingerprint(meta: Mapping[str, Any], folder: Path) -> str:
    return fingerprint(
        {
            "pipeline": f"{meta['lang']}_{meta['name']}",
            "version": meta["version"],
            "files": _digest(folder),
            "spacy": version("spacy"),
            "revision": _REVISION,
        }
    )


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix not in (".pyc", ".py")):
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@cache
def shared_parser(config: Parser.Config) -> Parser:
    """The parser of this process for `config`, loaded once."""
    return Parser(config)


def parser_fingerprint(config: Parser.Config) -> str:
    """`Parser.fingerprint`. For the shipped pipeline it is computed from the files, without loading spaCy, which a job
    does not need if the parses exist already."""
    if config.pipeline == SHIPPED:
        return _shipped_fingerprint()
    return shared_parser(config).fingerprint


@cache
def _shipped_fingerprint() -> str:
    return _fingerprint(json.loads((_HERE / SHIPPED / "meta.json").read_text(encoding="utf-8")), _HERE / SHIPPED)
