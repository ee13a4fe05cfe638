"""From a configuration to what training reads: each stage runs if its output is missing, and only then.

A stage runs under a lock on its folder: of several processes that need it, one works and the others find it done.
"""

import dataclasses
import functools
import itertools
import logging
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

from vse import registry
from vse.cluster.runtime import Config as RayConfig
from vse.cluster.runtime import cluster_of, running_ray
from vse.data.records import Records
from vse.errors import InputError, by_reason
from vse.features.store import REJECTS, FeatureStore
from vse.features.stored import StoredFeatures
from vse.stages.checks import check, check_features, counted, left_out, trainable
from vse.stages.contrast import contrast_candidates
from vse.stages.extract import extract, features_fingerprint, of_other_code
from vse.stages.parse import language_fingerprint, parse_captions
from vse.stages.sentences import SentenceStore, fitted
from vse.storage.damage import remove_damaged
from vse.storage.folder import MANIFEST, Folder
from vse.text.caption_vectors import caption_vectors, caption_vectors_fingerprint
from vse.text.corpus import Language
from vse.text.parser import Parser
from vse.text.vocabulary import SPECIAL, build_vocabulary
from vse.text.word_vectors import WordVectors, file_digits, word_vectors
from vse.training.compatibility import adversaries_wanted, family_inputs
from vse.training.config import RunConfig
from vse.training.given_vectors import OWN_CAPTIONS, tell_coverage
from vse.training.inputs import Material, training_vocabulary
from vse.training.shared import shared
from vse.workspace.layout import Workspace, dataset_name

log = logging.getLogger(__name__)

Vectors = Callable[[Sequence[str]], WordVectors]


def describe(config: RunConfig, workspace: Workspace) -> Records:
    """Stage 1: the records of the configured source, kept in datasets/<name>. What was left out is told once.

    A job's driver asks the source; processes that were told which records it gave read these.
    """
    question = ["records", *_source(config)]
    name = workspace.found.answer(question)
    if name is not None:
        return _kept(workspace.described(name))
    records = registry.build("source", config.data).describe()
    folder = workspace.dataset(records)
    workspace.found.keep(question, folder.name)
    if folder.read_manifest() is None:
        with folder.locked():
            remove_damaged(folder)
            records.save(folder)
        if told := left_out(records):
            log.info("%s; each is listed in %s under source.rejects", told, folder.address(MANIFEST))
    return records


def _source(config: RunConfig) -> list[object]:
    return [registry.name_of("source", config.data), config.data]


@functools.lru_cache(maxsize=2)
def _kept(folder: Folder) -> Records:
    """Records by the name of their folder, which has their fingerprint: trials of one process share them."""
    return Records.load(folder)


def extract_features(
    config: RunConfig,
    workspace: Workspace,
    records: Records,
    outputs: tuple[str, ...],
    ray: RayConfig | None = None,
) -> FeatureStore:
    """Stage 2: frozen features of every image, in features/<dataset>/<fingerprint>.

    A store that has further outputs beside the wanted ones serves as well. ray: what to ask of Ray where this is work
    for it.
    """
    known = workspace.found.answer([*_features_question(config), *sorted(outputs)])
    if known is not None:
        store = FeatureStore.find(workspace.features(dataset_name(records), known))
        if store is not None:
            return store
    store = kept_features(config, workspace, records, outputs)
    if store is None:
        check_features(config, records, outputs, workspace)
        folder, cluster = _features(config, workspace, records, outputs), functools.partial(running_ray, ray)
        source, backbone = registry.build("source", config.data), config.features.backbone
        root, keys = source.image_root, source.image_keys
        store = extract(records, backbone, sorted(outputs), folder, root=root, keys=keys, cluster=cluster)
        if told := counted(store.rejects.values()):
            log.info("%s: of the images, %s; each is listed in %s", records.name, told, store.folder.address(REJECTS))
    elif line := of_other_code(store, config.features.backbone):
        log.warning("%s", line)
    for some in (outputs, *((name,) for name in outputs)):
        workspace.found.keep([*_features_question(config), *sorted(some)], store.folder.name)
    return store


def kept_features(
    config: RunConfig, workspace: Workspace, records: Records, outputs: tuple[str, ...]
) -> FeatureStore | None:
    """The committed store of these outputs, and perhaps of others; None where features are still to be made."""
    backbone = config.features.backbone
    others = sorted(set(registry.build("backbone", backbone).shapes()) - set(outputs))
    for more in itertools.chain.from_iterable(itertools.combinations(others, n) for n in range(len(others) + 1)):
        store = FeatureStore.find(_features(config, workspace, records, (*outputs, *more)))
        if store is not None:
            return store
    return None


def _features(config: RunConfig, workspace: Workspace, records: Records, outputs: Iterable[str]) -> Folder:
    root = registry.build("source", config.data).image_root
    digits = features_fingerprint(records, config.features.backbone, sorted(outputs), root)
    return workspace.features(dataset_name(records), digits)


def _features_question(config: RunConfig) -> list[object]:
    backbone = config.features.backbone
    return ["features", *_source(config), registry.name_of("backbone", backbone), backbone]


def parse_dataset(config: RunConfig, workspace: Workspace, records: Records, ray: RayConfig | None = None) -> Language:
    """Stage 3: the parse of every caption, in language/<dataset>/<fingerprint>; many are work for a cluster to join."""
    parser = parser_of(config)
    folder = workspace.language(dataset_name(records), language_fingerprint(parser))
    texts = [caption.text for caption in records.captions]
    found = Language.find(folder, texts)
    if found is not None:
        return found  # what is complete needs no lock to be read: on S3 that is a lease which one process holds
    return parse_captions(records, parser, workspace, cluster=cluster_of(ray or RayConfig()))


def parser_of(config: RunConfig) -> Parser.Config:
    """The configured parser; there is one kind of it."""
    assert isinstance(config.text.parser, Parser.Config)
    return config.text.parser


def stored_features(
    config: RunConfig, workspace: Workspace, records: Records, outputs: tuple[str, ...], ray: RayConfig | None = None
) -> StoredFeatures:
    """What `extract_features` gives, for training to read; made again if a damaged file shows."""
    make = functools.partial(extract_features, config, workspace, records, outputs, ray)
    return StoredFeatures(make(), str(workspace.cache().local()), make)


def prepare(
    config: RunConfig,
    workspace: Workspace,
    *,
    parsed: bool = False,
    outputs: tuple[str, ...] = (),
    ray: RayConfig | None = None,
    records: Records | None = None,
    splits: Sequence[str] = (),
) -> Material:
    """Run what is missing of stages 1 to 3 and open the results; images without features leave the records.

    Captions are parsed where the family reads components, or where the caller asks (`parsed`), as attacks do. `outputs`
    are features that other families will want of the same images: one pass makes them all. `ray`: which Ray stages use
    and what they ask of it, where there is much to do. `records`: of the configured source, if they were read before.
    `splits`: that are measured beside train and val, and must be there.
    """
    if not workspace.found.told:
        check(config, parsed=parsed)  # what is missing is told before hours of extraction
    inputs, contrast = family_inputs(config), adversaries_wanted(config) is not None
    records = trainable(records or describe(config, workspace), splits)
    features = stored_features(config, workspace, records, tuple({inputs.image, *outputs}), ray)
    parses = parse_dataset(config, workspace, records, ray) if inputs.components or parsed or contrast else None
    prints = {"records": records.fingerprint, "features": _identity(config, workspace, records, inputs.image)}
    if inputs.components and parses is not None:  # a run's identity has only what the run reads
        prints["language"] = parses.fingerprint
    records = _with_features(records, features.store)
    vectors = _word_vectors(config, workspace, records, prints)
    if vectors is not None and config.text.word_vectors != OWN_CAPTIONS and not workspace.found.told:
        # the rows that training reads, so that no other node needs the file
        vocabulary = training_vocabulary(config, records, parses if inputs.components else None)
        tell_coverage(config, vectors((*SPECIAL, *vocabulary.words)), vocabulary)
    sentences = None
    if inputs.sentence:
        sentences = _sentences(config, workspace, records, vectors)
        prints["sentences"] = sentences.fingerprint
    candidates = None
    if contrast:
        assert parses is not None
        rules, cluster = config.text.contrast, cluster_of(ray or RayConfig())
        candidates = contrast_candidates(records, parses, "train", rules, workspace, cluster=cluster)
        prints["candidates"] = candidates.fingerprint
    return Material(records, features, parses, prints, vectors, sentences, candidates, config.text.pools)


def prepare_transfer(
    other: RunConfig,
    workspace: Workspace,
    material: Material,
    *,
    parsed: bool = False,
    records: Records | None = None,
) -> Material:
    """Images and captions of other data to measure a trained run on.

    What was fitted on the captions of the run's own training images, vectors of words and of sentences, stays.

    Args:
        other: the run's configuration with the other data (`data`), and with the word lists of attacks on it.
        workspace: where the stages keep what they make.
        material: of the run's own data.
        parsed: whether captions are parsed though the family reads no components, as attacks do.
        records: of the other data, where the caller has read them.
    """
    inputs = family_inputs(other)
    records = records or describe(other, workspace)
    features = stored_features(other, workspace, records, (inputs.image,))
    parses = parse_dataset(other, workspace, records) if inputs.components or parsed else None
    prints = {"records": records.fingerprint, "features": _identity(other, workspace, records, inputs.image)}
    return dataclasses.replace(
        material,
        records=without(records, set(features.store.rejects)),
        features=features,
        parses=parses,
        fingerprints=prints,
        candidates=None,
        words=other.text.pools,
    )


def _word_vectors(config: RunConfig, workspace: Workspace, records: Records, prints: dict[str, str]) -> Vectors | None:
    """Where word vectors of a vocabulary come from; enters what decides them into `prints`."""
    path = config.text.word_vectors
    if not path:
        return None
    if path == OWN_CAPTIONS:
        texts = [caption.text for caption in records.split("train").captions]
        prints["word_vectors"] = caption_vectors_fingerprint(texts)
        return functools.partial(caption_vectors, texts)
    digits = workspace.found.ask(["word vectors", path], lambda: file_digits(path))
    prints["word_vectors"] = digits
    place = functools.partial(workspace.language, dataset_name(records))
    return functools.partial(word_vectors, path, place=place, contents=digits)


def _sentences(config: RunConfig, workspace: Workspace, records: Records, vectors: Vectors | None) -> SentenceStore:
    """Vectors of all captions, fitted on those of training images, in language/<dataset>/<fingerprint>.

    A file's vectors were learned elsewhere: words that only test captions have, or training captions rarely, keep
    theirs (jWAE 5.1 averages word2vec over all words of a sentence). Vectors of own captions exist for training words.
    """
    assert vectors is not None, "asked before"
    train = [caption.text for caption in records.split("train").captions]
    if config.text.word_vectors == OWN_CAPTIONS:
        known = build_vocabulary(train, config.text.min_count).words
    else:
        known = build_vocabulary(caption.text for caption in records.captions).words
    place = functools.partial(workspace.language, dataset_name(records))
    features = fitted(config.text.sentence, train, vectors(known), place)
    assert features is not None
    texts = [caption.text for caption in records.captions]
    return SentenceStore.make(features, texts, place, workspace.cache().local())


def _identity(config: RunConfig, workspace: Workspace, records: Records, output: str) -> str:
    """What a run's features are, whichever store holds them and whatever else is in it."""

    def look() -> str:
        root = registry.build("source", config.data).image_root
        return features_fingerprint(records, config.features.backbone, (output,), root)

    return workspace.found.ask(["identity", *_features_question(config), output], look)


def _with_features(records: Records, store: FeatureStore) -> Records:
    """The records less rejected images. Raises InputError where that leaves nothing to train or to validate on."""
    left = shared(records, gone, lambda: without(records, gone)) if (gone := frozenset(store.rejects)) else records
    for split in ("train", "val"):
        if split not in left.split_names:
            images = records.split(split).images
            reasons = by_reason(store.rejects[image.id] for image in images)
            raise InputError(
                f"{records.name}: every image of split {split!r} was rejected, {len(images)} of them ({reasons}); for "
                f"one, {images[0].id!r}: {store.rejects[images[0].id]}; each is listed in "
                f"{store.folder.address(REJECTS)}"
            )
    return left


def without(records: Records, rejected: Set[str]) -> Records:
    """The records less some images and their captions."""
    if not rejected:
        return records
    images = tuple(image for image in records.images if image.id not in rejected)
    captions = tuple(c for c in records.captions if c.image not in rejected)
    source: dict[str, Any] = {**records.source, "rejected": sorted(rejected)}
    return Records(records.name, images, captions, source)
