"""A trained run as a served model: packed once into a folder of plain files, loaded by MLflow's python_function.

MLflow calls `_load_pyfunc(path)` of this module, so nothing is pickled and nothing of the workspace is needed.
"""

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vse import registry
from vse.config import fingerprint, flatten, to_dict
from vse.errors import InputError
from vse.evaluation.item_vectors import alpha_of
from vse.inference.embedder import (
    ARCHITECTURE,
    LOCAL,
    PARSER,
    SENTENCE,
    WEIGHTS,
    Embedder,
    sentence_features,
)
from vse.stages.parse import parser_of
from vse.stages.trained import Trained, load_run
from vse.storage import user_files as named_files
from vse.storage.files import local_path
from vse.storage.folder import Folder
from vse.text.sentence.features import SentenceFeatures
from vse.training.config import RunConfig, family_inputs
from vse.training.run_journal import RESULT, finished, run_journal
from vse.workspace.journal import Journal
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)

REVISION = 1  # raise it when the same checkpoint would be packed into other files
FILES = ("model.safetensors", "vocabulary.json", "context.json")
ALIAS = "selected"
CARD = "README.md"
COLUMNS = ("image", "path", "sentence")  # of a request; each row fills one of them


def model_name(config: RunConfig) -> str:
    """Name of the registered model for runs of this family and source: `<family>-<source>`."""
    return f"{registry.name_of('family', config.model)}-{registry.name_of('source', config.data)}"


@dataclass(frozen=True, slots=True)
class ModelOffer:
    """A model that the shipper will register under `name`, written into `journal` and identified by its digest."""

    journal: Journal
    name: str
    alias: str
    digest: str

    @property
    def address(self) -> str:
        """The model's address in MLflow."""
        return f"models:/{self.name}@{self.alias}"


def offer_model(
    workspace: Workspace,
    run: str,
    *,
    changes: Mapping[str, Any] | None = None,
    name: str = "",
    alias: str = ALIAS,
    card: str = "",
) -> ModelOffer:
    """Ask the shipper to register the kept checkpoint of a run as a model version, and to set its alias.

    Offering the same checkpoint with the same changes again makes no further version.

    Args:
        workspace: of the run.
        run: name of the run.
        changes: settings that affect inference only, such as a selected α.
        name: of the registered model; by default `model_name`.
        alias: of the version.
        card: text of README.md in the packed folder; a changed text makes another version.

    Raises:
        InputError: for a run that is not trained to its end, for a family without vectors of single images, and for
            names that MLflow does not accept.
    """
    _check_names(name or "model", alias)
    folder = workspace.run(run)
    trained = load_run(folder, dict(changes or {}))
    if finished(folder) is None:
        raise InputError(f"run={run}: is not trained to its end; run the command that started it again")
    sentences = sentence_features(trained, workspace)
    embedder = Embedder(trained, sentences)  # the next lines raise before anything is written
    embedder.encode_captions(["a dog"])
    embedder.check_one_vector()
    packed = pack(trained, folder, sentences, card)
    offer = ModelOffer(run_journal(workspace, run), name or model_name(trained.config), alias, packed.folder.name)
    offer.journal.model(
        offer.name,
        alias=alias,
        path=f"{packed.parent}/{offer.digest}",
        digest=offer.digest,
        tags={**packed.tags, "run": run},
    )
    return offer


def offer_best(
    workspace: Workspace,
    runs: Iterable[str],
    *,
    changes: Mapping[str, Any] | None = None,
    name: str = "",
    card: Callable[[Folder], str] = lambda run: "",
) -> str | None:
    """Offer the run that is best on validation (`val/rsum` at its kept epoch).

    Args:
        workspace: of the runs.
        runs: names of finished runs, at least one.
        changes: settings that affect inference only, such as a selected α.
        name: of the registered model; by default `model_name`.
        card: gives the text of the model card for the folder of a run.

    Returns:
        The name of the run. None, with a line in the log, if its family cannot be served, because that should not fail
        a finished sweep.
    """
    best = max(runs, key=lambda run: workspace.run(run).read_json(RESULT)["metrics"].get("val/rsum", -math.inf))
    try:
        offer_model(workspace, best, changes=changes, name=name, card=card(workspace.run(best)))
    except InputError as error:
        log.info("%s is not registered as a model: %s", best, error)
        return None
    return best


def _check_names(name: str, alias: str) -> None:
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise InputError(f"registry.name={name}: use letters, digits, '.', '-' and '_'")
    if not re.fullmatch(r"[A-Za-z][\w-]*", alias, re.ASCII) or re.fullmatch(r"latest|v\d+", alias, re.IGNORECASE):
        raise InputError(f"registry.alias={alias}: use letters, digits, '-' and '_', but not latest or v1, v2, ...")


class PackedModel:
    """A folder of plain files that embeds raw pictures and sentences anywhere, with `tags` for the registry."""

    parent = "served"

    def __init__(self, folder: Folder, tags: Mapping[str, Any]) -> None:
        self.folder, self.tags = folder, dict(tags)


def pack(trained: Trained, run: Folder, sentences: SentenceFeatures | None = None, card: str = "") -> PackedModel:
    """Pack a checkpoint with its external files into `<run>/served/<digits>`, once.

    External files are backbone weights, a parser or a backbone that is a folder, and fitted sentence features, with the
    text encoder of these. Published weights, models of a hub and installed spaCy pipelines are stored by name.

    Args:
        trained: the run with its kept checkpoint.
        run: folder of the run, where the packed model goes.
        sentences: fitted features of a family that reads vectors of whole sentences; None for any other family.
        card: text of README.md; another text is packed into another folder.

    Raises:
        InputError: the weights of the backbone were replaced after the training.
    """
    source, config = trained.checkpoint, trained.config
    if _external_files(config):
        trained.check_backbone()
    manifest = source.read_manifest(checksums=False)
    assert manifest is not None, "an opened checkpoint has a manifest"
    weights, fitted = manifest["files"]["model.safetensors"], "" if sentences is None else sentences.fingerprint
    digits = fingerprint([weights, config, fitted, REVISION, *([card] if card else [])])
    target = run.child(PackedModel.parent, digits)
    with target.locked():
        if target.read_manifest() is None:
            _fill(target, trained, sentences, card)
    settings = {
        key: alpha_of(trained.family) if key == "model.alpha" else value
        for key, value in flatten(config).items()
        if key.removeprefix("model.") in trained.family.inference_parameters
    }
    return PackedModel(target, {"epoch": source.name, "family": registry.name_of("family", config.model), **settings})


def _external_files(config: RunConfig) -> dict[str, Path]:
    """External files of the configuration: name in the packed model -> file or folder of this machine."""
    paths = {}
    weights = getattr(config.features.backbone, "weights", "")
    if named_files.is_file(weights):
        file = named_files.local(weights)
        paths[WEIGHTS + file.suffix] = file
    arch = getattr(config.features.backbone, "arch", "")
    of_hub = registry.name_of("backbone", config.features.backbone) != "transformers" and not arch.startswith(LOCAL)
    if not of_hub and (folder := local_path(arch.removeprefix(LOCAL))).is_dir():
        paths[ARCHITECTURE] = folder
    pipeline = local_path(parser_of(config).pipeline)
    if family_inputs(config).components and pipeline.is_dir():
        paths[PARSER] = pipeline
    return paths


def _fill(target: Folder, trained: Trained, sentences: SentenceFeatures | None, card: str) -> None:
    names = [*FILES, "config.json"]
    if card:
        target.write_text(CARD, card)
        names.append(CARD)
    for name in FILES:
        target.write_bytes(name, trained.checkpoint.read_bytes(name))
    target.write_json("config.json", to_dict(trained.config))
    for name, path in _external_files(trained.config).items():
        for file in [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file()):
            steps = (name, *file.relative_to(path).parts)
            folder = target.child(*steps[:-1]) if len(steps) > 1 else target
            folder.write_bytes(steps[-1], file.read_bytes())
            names.append("/".join(steps))
    if sentences is not None:
        sentences.save(target.child(SENTENCE))
        names += [f"{SENTENCE}/{name}" for name in target.child(SENTENCE).names()]
    target.commit_manifest(names)


class Model:
    """The object that MLflow calls: a table of requests in, a table of vectors out."""

    def __init__(self, folder: Folder) -> None:
        self.embedder = Embedder.open(folder)

    def predict(self, requests: Any, params: Mapping[str, Any] | None = None) -> Any:
        """The vectors of pictures and sentences.

        Args:
            requests: DataFrame in which each row fills one of `image` (bytes of a file), `path` (of a file, or s3://)
                and `sentence`; the others are absent or empty.
            params: unused; MLflow passes it.

        Returns:
            A DataFrame with the column `embedding`, a list of floats per row, in the order of the requests and with
            their index.

        Raises:
            InputError: naming the first row that fills none or several or has a broken picture, or if no column is one
                of these.
        """
        _check_columns(requests)
        rows = [_request(row, number) for number, row in enumerate(requests.to_dict("records"))]
        embeddings: list[Any] = [None] * len(rows)
        pictures = {k: value for k, (kind, value) in enumerate(rows) if kind != "sentence"}
        sentences = {k: value for k, (kind, value) in enumerate(rows) if kind == "sentence"}
        for k, vector in zip(pictures, self._images(pictures), strict=True):
            embeddings[k] = vector.tolist()
        for k, vector in zip(sentences, self.embedder.encode_captions(list(sentences.values())), strict=True):
            embeddings[k] = vector.tolist()
        return type(requests)({"embedding": embeddings}, index=requests.index)

    def _images(self, pictures: Mapping[int, bytes | str]) -> Iterator[np.ndarray]:
        """Vectors of pictures by row. Raises InputError naming the first row whose picture cannot be read."""
        rejects = dict[int, str]()
        batches = list(self.embedder.features(list(pictures.values()), rejects=rejects)) if pictures else []
        if rejects:
            number = min(rejects)
            row, picture = list(pictures.items())[number]
            where = f"row {row}" if isinstance(picture, bytes) else f"row {row}, {picture}"
            raise InputError(f"{where}: {rejects[number]}")
        for features in batches:
            yield from self.embedder.vectors_of_images(features)


def _check_columns(requests: Any) -> None:
    """Raises InputError for a table without any of our columns.

    MLflow drops unknown columns, so a misspelled column would arrive as an empty table and get an empty answer.
    """
    expected = f"expected a table with columns among {', '.join(COLUMNS)}, of which each row fills one"
    if not hasattr(requests, "columns"):
        raise InputError(f"a request that is a {type(requests).__name__}: {expected}")
    names = [str(name) for name in requests.columns]
    if not set(names) & set(COLUMNS):
        raise InputError(f"a request with {'columns ' + ', '.join(names) if names else 'no known column'}: {expected}")


def _request(row: Mapping[str, Any], number: int) -> tuple[str, Any]:
    filled = [(kind, row[kind]) for kind in COLUMNS if isinstance(row.get(kind), bytes | str) and row[kind]]
    if len(filled) != 1:
        raise InputError(f"row {number}: fill exactly one of {', '.join(COLUMNS)}, got {len(filled)}")
    kind, value = filled[0]
    if (kind == "image") != isinstance(value, bytes):
        raise InputError(f"row {number}: {kind} must be {'the bytes of a file' if kind == 'image' else 'text'}")
    return kind, value


def _load_pyfunc(path: str) -> Model:
    return Model(Folder.open(path))
