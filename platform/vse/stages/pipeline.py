"""From a configuration to what training reads: each stage runs if its output is missing, and only then.

A stage runs under a lock on its folder: of several processes that need it, one works and the others find it done.
"""

import dataclasses
import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import fields

from vse import registry
from vse.cluster.runtime import Config as RayConfig
from vse.cluster.runtime import cluster_of
from vse.config import fingerprint
from vse.data.records import Records
from vse.data.regions import split_uri
from vse.data.source import source_of
from vse.errors import InputError, by_reason
from vse.features.arrays import ReadyMade
from vse.features.store import REJECTS, FeatureStore
from vse.stages.contrast import contrast_candidates
from vse.stages.describe import describe, trainable, without
from vse.stages.extract import features_identity, stored_features
from vse.stages.parse import check_parser, parse_dataset
from vse.stages.sentences import SentenceStore, fitted
from vse.stages.tuning import check_tuning, start_fingerprint
from vse.storage import user_files as named_files
from vse.storage.user_files import refuse_placeholder
from vse.text.caption_vectors import caption_vectors, caption_vectors_fingerprint
from vse.text.encoder import TextEncoder
from vse.text.lexicon.compact import knowledge
from vse.text.sentence.kinds import OF_ENCODER, TextSource
from vse.text.vocabulary import SPECIAL, build_vocabulary
from vse.text.word_vector_files import check_head, split_path
from vse.text.word_vectors import WordVectors, file_digits, word_vectors
from vse.training.config import RunConfig, adversaries_wanted, family_inputs
from vse.training.inputs import OWN_CAPTIONS, Material, shared, tell_coverage, training_vocabulary
from vse.workspace.layout import Workspace, dataset_name

log = logging.getLogger(__name__)

Vectors = Callable[[Sequence[str]], WordVectors]


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
    """Run the missing stages 1 to 3 and open the results. Images without features are left out of the records.

    Args:
        config: Of the run.
        workspace: Where stages keep what they make.
        parsed: Whether captions are parsed for attacks, even if the family reads no components.
        outputs: Features of the same images that other families need; one pass makes them all.
        ray: Settings of Ray, for stages with much work.
        records: Of the configured source, if they were read before.
        splits: Splits, other than train and val, that the data set must have.
    """
    if not workspace.external.given:
        check(config, parsed=parsed)  # reports missing inputs before hours of extraction
    inputs, contrast = family_inputs(config), adversaries_wanted(config) is not None
    records = trainable(records or describe(config, workspace), splits)
    features = stored_features(config, workspace, records, tuple({inputs.image, *outputs}), ray)
    parses = parse_dataset(config, workspace, records, ray) if inputs.components or parsed or contrast else None
    prints = {"records": records.fingerprint, "features": features_identity(config, workspace, records, inputs.image)}
    prints |= start_fingerprint(config, workspace) | _left_out(features.store)
    if inputs.components and parses is not None:  # a run's identity has only what the run reads
        prints["language"] = parses.fingerprint
    records = _with_features(records, features.store)
    vectors = _word_vectors(config, workspace, records, prints)
    if vectors is not None and config.text.word_vectors != OWN_CAPTIONS and not workspace.external.given:
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
    return Material(
        records,
        features,
        parses,
        prints,
        vectors,
        sentences,
        candidates,
        config.text.pools,
        backbone_weights=features.store.backbone_weights,
    )


def check(config: RunConfig, *, parsed: bool = False, contrast: bool = False) -> None:
    """Check a configuration before any data are read.

    Args:
        config: of the run.
        parsed: whether captions are parsed though the family reads no components, as attacks do.
        contrast: whether VSE-C's adversaries are made though the objective does not train against them.

    Raises:
        InputError: the family reads what is not configured, or the parser, the lexicon, or a file of word vectors,
            weights or concreteness is missing or of another kind.
    """
    inputs = family_inputs(config)
    check_tuning(config)
    if inputs.sentence:
        _refuse_without_sentences(config, inputs.states)
    _check_encoder(config, inputs.sentence)
    if not inputs.sentence and (kind := registry.name_of("sentence", config.text.sentence)) != "none":
        family = registry.name_of("family", config.model)
        raise InputError(f"text.sentence={kind}: family {family} reads no vectors of captions; leave it out")
    _check_towers(config)
    trained_against = adversaries_wanted(config) is not None
    if config.text.word_vectors not in ("", OWN_CAPTIONS):
        split_path(config.text.word_vectors)
        if not named_files.is_remote(config.text.word_vectors):
            check_head(config.text.word_vectors)
    weights = getattr(config.features.backbone, "weights", "")
    refuse_placeholder(weights, f"features.backbone.weights={weights}")
    ready = isinstance(registry.build("backbone", config.features.backbone), ReadyMade)
    if not source_of(config.data).has_images and not ready:
        name = registry.name_of("source", config.data)
        raise InputError(f"data={name}: provides features and no images; add features.backbone=arrays")
    if inputs.components or parsed or contrast or trained_against:
        check_parser(config)
    if contrast or trained_against:
        rules = config.text.contrast
        knowledge(rules.lexicon, rules.concreteness, rules.concrete_share)


def _check_encoder(config: RunConfig, sentence: bool) -> None:
    """Raises InputError if nothing reads the text encoder, or if it is missing."""
    if registry.name_of("encoder", config.text.encoder) == "none":
        return
    if not sentence or registry.name_of("sentence", config.text.sentence) not in OF_ENCODER:
        family = registry.name_of("family", config.model)
        states = next((field for field in fields(config.model) if field.name == "text"), None)
        reads = f"family {family} reads words"
        if states is not None and "states" in states.metadata["choices"]:
            reads += "; add model.text=states text.sentence=states"
        instead = "add text.sentence=encoder" if sentence else reads
        raise InputError(f"text.encoder: nothing reads its vectors; {instead}, or leave it out")
    if config.text.word_vectors:
        raise InputError(
            f"text.word_vectors={config.text.word_vectors}: has no effect with text.encoder, which reads the captions "
            "instead; leave one of them out"
        )
    registry.build("encoder", config.text.encoder).check()


def _check_towers(config: RunConfig) -> None:
    """Raises InputError if a family without training does not get both sides from one dual encoder, unscaled."""
    family = registry.name_of("family", config.model)
    if not registry.component("family", family).of_one_encoder:
        return
    if config.features.scale != "none":
        raise InputError(
            f"features.scale={config.features.scale}: family {family} compares the unscaled vectors of the encoder; "
            "use features.scale=none"
        )
    backbone, text = (
        registry.name_of("backbone", config.features.backbone),
        registry.name_of("encoder", config.text.encoder),
    )
    image, caption = config.features.backbone, config.text.encoder
    if registry.name_of("sentence", config.text.sentence) != "encoder":
        raise InputError(f"text.sentence: family {family} reads the text tower's vectors; use text.sentence=encoder")
    if backbone == "arrays":
        return
    if backbone != text:
        raise InputError(
            f"features.backbone={backbone}: family {family} needs both towers of one dual encoder; use "
            f"open_clip or transformers for both features.backbone and text.encoder, which is {text}"
        )
    pairs = [("arch", "arch"), ("weights", "weights")] if backbone == "open_clip" else [("arch", "model")]
    for image_key, caption_key in pairs:
        if (one := getattr(image, image_key)) != (other := getattr(caption, caption_key)):
            raise InputError(
                f"text.encoder.{caption_key}={other}: family {family} needs both towers of one dual encoder, and "
                f"features.backbone.{image_key}={one}"
            )
    if backbone == "transformers" and getattr(caption, "pooling", "") != "projected":
        raise InputError(f"text.encoder.pooling: family {family} compares projected vectors; use projected")


def _refuse_without_sentences(config: RunConfig, states: bool) -> None:
    kind = registry.name_of("sentence", config.text.sentence)
    if states != (kind == "states"):
        wanted = "states of words; use text.sentence=states" if states else "one vector of a caption; use encoder"
        if states or kind == "states":
            raise InputError(f"text.sentence={kind}: this family reads {wanted}")
    if kind == "none":
        raise InputError("text.sentence=none: this family reads vectors of captions; use mean, gmm, hglmm or encoder")
    if kind in OF_ENCODER:
        encoder = registry.name_of("encoder", config.text.encoder)
        if encoder == "none":
            raise InputError(
                f"text.sentence={kind}: needs a text encoder; add text.encoder=transformers text.encoder.model=FOLDER"
            )
        if states and not registry.component("encoder", encoder).by_word:
            raise InputError(f"text.encoder={encoder}: gives no word states; use text.encoder=transformers")
        if states and adversaries_wanted(config) is not None and config.text.min_count != 1:
            raise InputError(
                f"text.min_count={config.text.min_count:g}: adversaries go through text.encoder word by word, so "
                "every word must be in the vocabulary; use text.min_count=1"
            )
        return
    if not config.text.word_vectors:
        raise InputError("text.word_vectors: vectors of captions are made of word vectors; name a file, or `captions`")


def prepare_transfer(
    other: RunConfig,
    workspace: Workspace,
    material: Material,
    *,
    parsed: bool = False,
    records: Records | None = None,
) -> Material:
    """Images and captions of other data to measure a trained run on.

    Vectors of words and sentences stay as fitted on the run's own training captions.

    Args:
        other: the run's configuration with the other data (`data`).
        workspace: where the stages keep what they make.
        material: of the run's own data.
        parsed: whether captions are parsed though the family reads no components, as attacks do.
        records: of the other data, if the caller has read them.
    """
    inputs = family_inputs(other)
    records = records or describe(other, workspace)
    features = stored_features(other, workspace, records, (inputs.image,))
    parses = parse_dataset(other, workspace, records) if inputs.components or parsed else None
    prints = {"records": records.fingerprint, "features": features_identity(other, workspace, records, inputs.image)}
    prints |= _left_out(features.store)
    return dataclasses.replace(
        material,
        records=without(records, set(features.store.rejects)),
        features=features,
        parses=parses,
        fingerprints=prints,
        candidates=None,
    )


def _word_vectors(config: RunConfig, workspace: Workspace, records: Records, prints: dict[str, str]) -> Vectors | None:
    """The word vectors of a vocabulary as a function; adds their fingerprint to `prints`."""
    path = config.text.word_vectors
    if not path:
        return None
    if path == OWN_CAPTIONS:
        texts = [caption.text for caption in records.split("train").captions]
        prints["word_vectors"] = caption_vectors_fingerprint(texts)
        return functools.partial(caption_vectors, texts)
    digits = workspace.external.ask(["word vectors", path], lambda: file_digits(path))
    prints["word_vectors"] = digits
    place = functools.partial(workspace.language, dataset_name(records))
    return functools.partial(word_vectors, path, place=place, contents=digits)


def _sentences(config: RunConfig, workspace: Workspace, records: Records, vectors: Vectors | None) -> SentenceStore:
    """Vectors of all captions, fitted on those of training images, in language/<dataset>/<fingerprint>.

    With vectors from a file, words that are rare or absent in training captions keep theirs (jWAE 5.1 averages word2vec
    over all words of a sentence). Vectors learned from captions exist for training words only.
    """
    train = [caption.text for caption in records.split("train").captions]
    place = functools.partial(workspace.language, dataset_name(records))
    features = fitted(config.text.sentence, train, _text_source(config, workspace, records, train, vectors), place)
    assert features is not None
    texts = [caption.text for caption in records.captions]
    return SentenceStore.make(features, texts, place, workspace.cache().local())


def _text_source(
    config: RunConfig, workspace: Workspace, records: Records, train: Sequence[str], vectors: Vectors | None
) -> TextSource:
    """What the configured sentence features are made of: the encoder, or vectors of the words."""
    if registry.name_of("sentence", config.text.sentence) in OF_ENCODER:
        encoder: TextEncoder = registry.build("encoder", config.text.encoder)
        contents = workspace.external.ask(["text encoder", config.text.encoder], lambda: encoder.fingerprint)
        return registry.build("encoder", config.text.encoder, contents=contents)
    assert vectors is not None, "asked before"
    if config.text.word_vectors == OWN_CAPTIONS:
        vocabulary = build_vocabulary(train, config.text.min_count).words
    else:
        vocabulary = build_vocabulary(caption.text for caption in records.captions).words
    return vectors(vocabulary)


def _left_out(store: FeatureStore) -> dict[str, str]:
    """Which images have no features, as part of the identity of runs: files that are missing may be added later."""
    return {"rejected": fingerprint(sorted(store.rejects))} if store.rejects else {}


def _with_features(records: Records, store: FeatureStore) -> Records:
    """The records without rejected images. Raises InputError if no training or no validation images are left."""
    left = shared(records, gone, lambda: without(records, gone)) if (gone := frozenset(store.rejects)) else records
    for split in ("train", "val"):
        if split not in left.split_names:
            images = records.split(split).images
            why = [store.rejects.get(image.id) or store.rejects[split_uri(image.id)[0]] for image in images]
            reasons = by_reason(why)
            raise InputError(
                f"{records.name}: all {len(images)} images of split {split!r} were rejected ({reasons}); the first is "
                f"{images[0].id!r}: {why[0]}; {store.folder.address(REJECTS)} lists all of them"
            )
    return left
