"""The parse stage: every distinct text once, in shards, in this process, several processes or a Ray cluster.

Finished shards of an interrupted run are kept: the next run parses only the remaining texts.
"""

import functools
import logging
from collections.abc import Iterator, Sequence

from vse.cluster.runtime import Cluster, cluster_of
from vse.cluster.runtime import Config as RayConfig
from vse.config import fingerprint
from vse.data.records import Records
from vse.display.progress import Progress
from vse.errors import StorageError
from vse.stages.shards import run_shards
from vse.storage.damage import remove_damaged
from vse.storage.folder import Folder
from vse.text.components import REVISION
from vse.text.corpus import SHARD_TEXTS, Language, finished, write_shard
from vse.text.english import are_english
from vse.text.parse import Parse
from vse.text.parser import SHIPPED, Parser, parser_fingerprint, shared_parser
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace, dataset_name

log = logging.getLogger(__name__)

# Starting a process costs about as much as parsing this many captions, a pool of Ray actors some ten times that.
WORTH_A_PROCESS = 4000
WORTH_RAY = 20_000
PARSING = "parse captions"  # how progress names it


def parse_dataset(config: RunConfig, workspace: Workspace, records: Records, ray: RayConfig | None = None) -> Language:
    """Stage 3: the parse of every caption, in language/<dataset>/<fingerprint>; missing ones are made.

    Args:
        config: of the run; its parser is used.
        workspace: where parses are kept.
        records: all captions of these are parsed, in every split.
        ray: how to connect to a cluster, on which many captions are parsed; None: the default settings.
    """
    parser = parser_of(config)
    folder = workspace.language(dataset_name(records), language_fingerprint(parser))
    texts = [caption.text for caption in records.captions]
    language = Language.find(folder, texts)
    if language is not None:
        return language  # reading complete parses needs no lock, which on S3 is a lease of one process
    return parse_captions(records, parser, workspace, cluster=cluster_of(ray or RayConfig()))


def parser_of(config: RunConfig) -> Parser.Config:
    """The configuration of the parser."""
    assert isinstance(config.text.parser, Parser.Config)
    return config.text.parser


def check_parser(config: RunConfig) -> None:
    """Raises InputError if the configured parser is missing, or cannot parse."""
    parser = parser_of(config)
    if parser.pipeline != SHIPPED:
        shared_parser(parser)


def not_english(records: Records, config: Parser.Config) -> str:
    """A warning if captions that are hardly English are parsed by the bundled parser; else empty."""
    if config.pipeline != SHIPPED or are_english([caption.text for caption in records.captions]):
        return ""
    return (
        f"data set {records.name!r}: fewer than a fifth of the captions contain English function words, but the parser "
        f"{SHIPPED}, the attacks and the lexicon are for English; train a preset that parses no captions, such as "
        "vsepp_flickr8k, and evaluate it with tasks=retrieval, or set text.parser.pipeline to a spaCy pipeline of the "
        "language with Universal Dependencies labels (the attacks and the lexicon stay English)"
    )


def language_fingerprint(config: Parser.Config) -> str:
    """Eight digits that identify the parser and the rules for components."""
    return fingerprint({"parser": parser_fingerprint(config), "components": REVISION})


def parse_captions(
    records: Records,
    config: Parser.Config,
    workspace: Workspace,
    *,
    num_workers: int | None = None,
    cluster: Cluster | None = None,
) -> Language:
    """Parses of all captions, in language/<dataset>/<fingerprint>; missing ones are made under its lock.

    Args:
        records: the captions.
        config: the parser.
        workspace: where parses are kept.
        num_workers: processes; None: one for few captions, else as many as cores, at most four.
        cluster: returns a running Ray when it is needed; None: Ray is used only if it is running.

    Raises:
        InputError: the parser's pipeline is missing.
        StorageError: shards are damaged right after they were written.
    """
    folder = workspace.language(dataset_name(records), language_fingerprint(config))
    texts = [caption.text for caption in records.captions]
    if line := not_english(records, config):
        log.warning("warning: %s", line)
    with folder.locked():
        return _parsed(texts, config, folder, PARSING, num_workers, cluster)


def parse_texts_to(texts: Sequence[str], config: Parser.Config, folder: Folder, *, label: str = PARSING) -> Language:
    """Parses of texts that are no captions of a data set, such as adversaries, in a folder; missing ones are made.

    Args:
        texts: each distinct text is parsed once.
        config: the parser.
        folder: holds the shards and their manifest.
        label: of the progress line.
    """
    return _parsed(texts, config, folder, label, None, None)


def parse_texts(texts: Sequence[str], config: Parser.Config) -> list[Parse]:
    """One parse per text, in order, not stored; each distinct text is parsed once."""
    distinct = list(dict.fromkeys(texts))
    by_text = dict(zip(distinct, shared_parser(config).parse_all(distinct), strict=True))
    return [by_text[text] for text in texts]


def _parsed(
    texts: Sequence[str],
    config: Parser.Config,
    folder: Folder,
    label: str,
    num_workers: int | None,
    cluster: Cluster | None,
) -> Language:
    digits = language_fingerprint(config)
    wanted = list(dict.fromkeys(texts))
    language = Language.find(folder, wanted)
    if language is not None and language.fingerprint == digits:
        return language
    folder.check_writable()
    remove_damaged(folder)
    done = finished(folder, digits)
    seen = {text for shard in done.values() for text in shard}
    todo = [text for text in wanted if text not in seen]
    if todo:
        shards = [todo[start : start + SHARD_TEXTS] for start in range(0, len(todo), SHARD_TEXTS)]
        with Progress(label, total=len(todo), unit="captions") as bar:
            for count in _run(shards, config, folder, num_workers, cluster):
                bar.advance(count)
    done = finished(folder, digits)
    every = set(wanted)
    if not every.issubset(text for shard in done.values() for text in shard):
        raise StorageError(f"{folder}: the parses just written are damaged; run the same command again")
    folder.commit_manifest(
        [name for name, shard in done.items() if every.intersection(shard)],
        {
            "kind": "language",
            "fingerprint": digits,
            "parser": {"pipeline": config.pipeline, "fingerprint": parser_fingerprint(config)},
            "components_revision": REVISION,
            "num_texts": len(wanted),
        },
    )
    return Language.open(folder)


def parse_shard(texts: Sequence[str], config: Parser.Config, folder: Folder) -> int:
    """Parse and write one shard, in whichever process does the work. The same texts give the same file.

    Args:
        texts: of the shard.
        config: the parser; its pipeline is loaded once in each process.
        folder: gets the file.

    Returns:
        The number of texts.
    """
    write_shard(folder, language_fingerprint(config), texts, shared_parser(config).parse_all(texts))
    return len(texts)


def _run(
    shards: list[list[str]], config: Parser.Config, folder: Folder, num_workers: int | None, cluster: Cluster | None
) -> Iterator[int]:
    """Numbers of texts, shard by shard as they are written."""

    def missing(shards: Sequence[list[str]]) -> list[list[str]]:
        seen = {text for texts in finished(folder, language_fingerprint(config)).values() for text in texts}
        return [shard for shard in shards if shard[0] not in seen]

    return run_shards(
        functools.partial(parse_shard, config=config, folder=folder),
        shards,
        [len(shard) for shard in shards],
        missing,
        num_workers=num_workers,
        cluster=cluster,
        worth_a_process=WORTH_A_PROCESS,
        worth_ray=WORTH_RAY,
    )
