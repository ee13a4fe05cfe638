"""A trained run as a model to serve: packed once into a folder of plain files, loaded by MLflow's python_function.

MLflow calls `_load_pyfunc(path)` of this module, so nothing is pickled and nothing of the workspace is needed.
"""

import logging
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vse import registry
from vse.config import fingerprint, flatten, to_dict
from vse.errors import InputError
from vse.inference.embedder import PARSER, SENTENCE, WEIGHTS, Embedder, sentence_features
from vse.stages.parse import parser_of
from vse.stages.trained import Trained, load_run
from vse.storage import user_files as named_files
from vse.storage.files import local_path
from vse.storage.folder import Folder
from vse.text.sentence.features import SentenceFeatures
from vse.training.config import RunConfig, family_inputs
from vse.training.run_journal import RESULT, run_journal
from vse.workspace.journal import Journal
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)

REVISION = 1  # raise it when the same checkpoint would be packed into other files
FILES = ("model.safetensors", "vocabulary.json", "context.json")
ALIAS = "selected"
COLUMNS = ("image", "path", "sentence")  # of what the model is asked; a row fills one of them


def model_name(config: RunConfig) -> str:
    """Name of the registered model whose versions are runs like this one: `<family>-<source>`."""
    return f"{registry.name_of('family', config.model)}-{registry.name_of('source', config.data)}"


@dataclass(frozen=True, slots=True)
class Offer:
    """What the shipper is asked to register: written into `journal`, under `name`, found again by its digest."""

    journal: Journal
    name: str
    alias: str
    digest: str

    @property
    def address(self) -> str:
        """How MLflow calls it."""
        return f"models:/{self.name}@{self.alias}"


def offer_model(
    workspace: Workspace, run: str, *, changes: Mapping[str, Any] | None = None, name: str = "", alias: str = ALIAS
) -> Offer:
    """Have the shipper register the kept checkpoint of a run, and give its version the alias.

    changes: settings that touch inference only, such as the α that was chosen; name: by default `model_name`. The same
    checkpoint with the same changes stays one version, however often it is offered. Raises InputError for a run that
    has no checkpoint or whose family gives an image alone no vector, and for names that MLflow does not take.
    """
    _check_names(name or "model", alias)
    folder = workspace.run(run)
    trained = load_run(folder, dict(changes or {}))
    sentences = sentence_features(trained, workspace)
    Embedder(trained, sentences).encode_captions(["a dog"])  # refuses what has no vectors before anything is written
    packed = pack(trained, folder, sentences)
    offer = Offer(run_journal(workspace, run), name or model_name(trained.config), alias, packed.folder.name)
    offer.journal.model(
        offer.name,
        alias=alias,
        path=f"{packed.parent}/{offer.digest}",
        digest=offer.digest,
        tags={**packed.tags, "run": run},
    )
    return offer


def offer_best(
    workspace: Workspace, runs: Iterable[str], *, changes: Mapping[str, Any] | None = None, name: str = ""
) -> str | None:
    """Offer the one of these runs that is best on validation (`val/rsum` at its kept epoch); returns its name.

    None, and a line in the log, where its family cannot be served: the end of a sweep is no place to fail at that.
    """
    best = max(runs, key=lambda run: workspace.run(run).read_json(RESULT)["metrics"].get("val/rsum", -math.inf))
    try:
        offer_model(workspace, best, changes=changes, name=name)
    except InputError as error:
        log.info("%s is not registered as a model: %s", best, error)
        return None
    return best


def _check_names(name: str, alias: str) -> None:
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise InputError(f"registry.name={name}: use letters, digits, '.', '-' and '_'")
    if not re.fullmatch(r"[A-Za-z][\w-]*", alias, re.ASCII) or re.fullmatch(r"latest|v\d+", alias, re.IGNORECASE):
        raise InputError(f"registry.alias={alias}: use letters, digits, '-' and '_', but not latest or v1, v2, ...")


class Packed:
    """A folder of plain files that embeds raw pictures and sentences anywhere; `tags` say what is in it."""

    parent = "served"

    def __init__(self, folder: Folder, tags: Mapping[str, Any]) -> None:
        self.folder, self.tags = folder, dict(tags)


def pack(trained: Trained, run: Folder, sentences: SentenceFeatures | None = None) -> Packed:
    """Weights, vocabulary and configuration, and what they need from outside the checkpoint: a file of backbone
    weights, a parser that is a folder, fitted sentence features. In `<run>/served/<digits>`, made once.

    Published weights of torchvision and installed spaCy pipelines go by name.
    """
    source, config = trained.checkpoint, trained.config
    manifest = source.read_manifest(checksums=False)
    assert manifest is not None, "an opened checkpoint has a manifest"
    weights, fitted = manifest["files"]["model.safetensors"], "" if sentences is None else sentences.fingerprint
    digits = fingerprint([weights, config, fitted, REVISION])
    target = run.child(Packed.parent, digits)
    with target.locked():
        if target.read_manifest() is None:
            _fill(target, trained, sentences)
    settings = {
        key: value
        for key, value in flatten(config).items()
        if key.removeprefix("model.") in trained.family.inference_parameters
    }
    return Packed(target, {"epoch": source.name, "family": registry.name_of("family", config.model), **settings})


def _outside(config: RunConfig) -> dict[str, Path]:
    """Where the configuration points to on this machine: name in the pack -> file or folder."""
    found = {}
    weights = getattr(config.features.backbone, "weights", "")
    if named_files.is_file(weights):
        file = named_files.local(weights)
        found[WEIGHTS + file.suffix] = file
    pipeline = local_path(parser_of(config).pipeline)
    if family_inputs(config).components and pipeline.is_dir():
        found[PARSER] = pipeline
    return found


def _fill(target: Folder, trained: Trained, sentences: SentenceFeatures | None) -> None:
    names = [*FILES, "config.json"]
    for name in FILES:
        target.write_bytes(name, trained.checkpoint.read_bytes(name))
    target.write_json("config.json", to_dict(trained.config))
    for name, place in _outside(trained.config).items():
        for file in [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file()):
            steps = (name, *file.relative_to(place).parts)
            folder = target.child(*steps[:-1]) if len(steps) > 1 else target
            folder.write_bytes(steps[-1], file.read_bytes())
            names.append("/".join(steps))
    if sentences is not None:
        sentences.save(target.child(SENTENCE))
        names += [f"{SENTENCE}/{name}" for name in target.child(SENTENCE).names()]
    target.commit_manifest(names)


class Model:
    """What MLflow calls: a table of requests in, a table of vectors out."""

    def __init__(self, folder: Folder) -> None:
        self.embedder = Embedder.open(folder)

    def predict(self, requests: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Requests (DataFrame): each row fills one of `image` (bytes of a file), `path` (of a file, or s3://) and
        `sentence`; the others are absent or empty. Returns (DataFrame) the column `embedding`, a list of floats a
        row, in their order. Raises InputError naming the first row that has none or several of them, and for what is
        no table with one of these columns.
        """
        _check_columns(requests)
        rows = [_request(row, number) for number, row in enumerate(requests.to_dict("records"))]
        found: list[Any] = [None] * len(rows)
        for kinds, embed in (
            (("image", "path"), self.embedder.encode_images),
            (("sentence",), self.embedder.encode_captions),
        ):
            chosen = [k for k, (kind, _) in enumerate(rows) if kind in kinds]
            for k, vector in zip(chosen, embed([rows[k][1] for k in chosen]) if chosen else (), strict=True):
                found[k] = vector.tolist()
        return type(requests)({"embedding": found})


def _check_columns(requests: Any) -> None:
    """MLflow drops columns that the signature does not know, and with the last of them every row: a misspelled column
    would arrive as an empty table and get an empty answer."""
    expected = f"expected a table with columns among {', '.join(COLUMNS)}, of which each row fills one"
    if not hasattr(requests, "columns"):
        raise InputError(f"a request that is a {type(requests).__name__}: {expected}")
    given = [str(name) for name in requests.columns]
    if not set(given) & set(COLUMNS):
        raise InputError(f"a request with {'columns ' + ', '.join(given) if given else 'no known column'}: {expected}")


def _request(row: Mapping[str, Any], number: int) -> tuple[str, Any]:
    given = [(kind, row[kind]) for kind in COLUMNS if isinstance(row.get(kind), bytes | str) and row[kind]]
    if len(given) != 1:
        raise InputError(f"row {number}: fill exactly one of {', '.join(COLUMNS)}, got {len(given)}")
    kind, value = given[0]
    if (kind == "image") != isinstance(value, bytes):
        raise InputError(f"row {number}: {kind} must be {'the bytes of a file' if kind == 'image' else 'text'}")
    return kind, value


def _load_pyfunc(path: str) -> Model:
    return Model(Folder.open(path))
