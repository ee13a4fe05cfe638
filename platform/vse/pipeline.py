"""From a configuration to what training reads: each stage runs if its output is missing, and only then."""

import dataclasses
from typing import Any

import numpy as np

from vse import registry
from vse.data.records import Records
from vse.features.extraction import extract, features_fingerprint
from vse.features.store import FeatureStore
from vse.language.corpus import Language
from vse.language.parser import Parser
from vse.language.parsing import parse_captions
from vse.training.config import RunConfig
from vse.training.inputs import Material, family_inputs
from vse.workspace import Workspace, dataset_name


def describe(config: RunConfig, workspace: Workspace) -> Records:
    """Stage 1: the records of the configured source, kept in datasets/<name>."""
    source = registry.build("source", config.data)
    records = source.describe()
    folder = workspace.dataset(records)
    if folder.read_manifest() is None:
        records.save(folder)
    return records


def show(config: RunConfig, workspace: Workspace, records: Records, outputs: tuple[str, ...]) -> FeatureStore:
    """Stage 2: frozen features of every image, in features/<dataset>/<fingerprint>."""
    root, backbone = registry.build("source", config.data).image_root, config.features.backbone
    folder = workspace.features(dataset_name(records), features_fingerprint(records, backbone, outputs, root))
    return extract(records, backbone, outputs, folder, root=root)


def say(config: RunConfig, workspace: Workspace, records: Records) -> Language:
    """Stage 3: the parse of every caption, in language/<dataset>/<fingerprint>."""
    return parse_captions(records, parser_of(config), workspace)


def parser_of(config: RunConfig) -> Parser.Config:
    """The configured parser; there is one kind of it."""
    assert isinstance(config.text.parser, Parser.Config)
    return config.text.parser


@dataclasses.dataclass(frozen=True, eq=False)
class StoredFeatures:
    """Features of a store as training reads them: memory-mapped on this node."""

    store: FeatureStore
    cache: str

    def channels(self, output: str) -> int:
        """Size of the last dimension of an output."""
        return self.store.shape(output)[-1]

    def array(self, output: str, ids: tuple[str, ...]) -> np.ndarray:
        """(len(ids), ...) half floats."""
        return self.store.array(output, ids, self.cache)


def prepare(config: RunConfig, workspace: Workspace, *, parsed: bool = False) -> Material:
    """Run what is missing of stages 1 to 3 and open the results; images without features leave the records.

    Captions are parsed where the family reads components, or where the caller asks (`parsed`), as attacks do.
    """
    inputs = family_inputs(config)
    records = describe(config, workspace)
    store = show(config, workspace, records, (inputs.image,))
    parses = say(config, workspace, records) if inputs.components or parsed else None
    prints = {"records": records.fingerprint, "features": store.fingerprint}
    if inputs.components and parses is not None:  # a run's identity has only what the run reads
        prints["language"] = parses.fingerprint
    features = StoredFeatures(store, str(workspace.cache().local()))
    return Material(without(records, set(store.rejects)), features, parses, prints)


def without(records: Records, rejected: set[str]) -> Records:
    """The records less some images and their captions."""
    if not rejected:
        return records
    images = tuple(image for image in records.images if image.id not in rejected)
    captions = tuple(c for c in records.captions if c.image not in rejected)
    source: dict[str, Any] = {**records.source, "rejected": sorted(rejected)}
    return Records(records.name, images, captions, source)
