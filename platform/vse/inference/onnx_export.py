"""Both encoders of a run as ONNX networks, checked in onnxruntime, with what another program must know to use them."""

import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vse import registry
from vse.config import fingerprint, knob, to_dict
from vse.errors import InputError
from vse.inference.embedder import Embedder
from vse.inference.towers import Tower, image_tower, pixel_tower, text_tower
from vse.storage.folder import Folder
from vse.storage.hub import optional_package
from vse.text.tokens import as_caption, words
from vse.text.vocabulary import END, PAD, START, UNKNOWN
from vse.workspace.layout import Workspace

REVISION = 2  # raise it if the same request would write other files
TOWERS = ("features", "pixels", "text")
TOLERANCE = 1e-4  # between onnxruntime and torch
BATCHES = (1, 2, 5)  # rows of the batches on which both are compared
EXAMPLES = (  # of everything that tokenisers read in different ways
    "A dog runs.",
    "two children aren't playing",
    "the man\u2019s 5th of 1,000 dogs ran 3.5 miles",
    "a dog_park and a cafe\u0301",
    "black &amp; white, see https://example.org/a.jpg",
    "@user: #two_dogs",
    "a \U0001f436 runs",
    "\u0939\u093f\u0928\u094d\u0926\u0940",
    "\u72d7\u5728\u8dd1",
    "",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OnnxOptions:
    """Keys of the job."""

    run: str = knob("", "name of a folder below runs/, or a path that a job printed")
    towers: tuple[str, ...] = knob(
        ("features", "text"),
        "what is exported: images from features of the backbone, images from pixels, captions",
        choices=TOWERS,
    )
    alpha: float | None = knob(None, "weight of u_sent if the family has it; default: as configured", low=0, high=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportedTowers:
    """The folder of the networks, and the largest difference from torch by tower."""

    folder: Folder
    differences: Mapping[str, float]
    fingerprints: Mapping[str, str]


def export_onnx(workspace: Workspace, options: OnnxOptions) -> ExportedTowers:
    """Write the networks to exports/onnx-<digits>.

    Raises:
        InputError: the family has no vectors that products compare, or a tower cannot be exported.
        RuntimeError: onnxruntime computes other vectors than torch.
    """
    embedder = _embedder(workspace, options)
    prints = {"weights": embedder.trained.weights}
    folder = workspace.export(f"onnx-{fingerprint([REVISION, _file_options(options), prints])}")
    about, differences = dict[str, Any](_facts(embedder, options)), dict[str, float]()
    for name, tower in _towers(embedder, options).items():
        data = onnx_bytes(tower, name)
        differences[name] = difference(tower, data)
        if not differences[name] <= TOLERANCE:
            raise RuntimeError(f"{name}.onnx: onnxruntime differs from torch by {differences[name]:.2g}")
        folder.write_bytes(f"{name}.onnx", data)
        shapes = {key: ["batch", *value.shape[1:]] for key, value in tower.inputs.items()}
        for key, dimension in tower.varying.items():
            shapes[key][1] = dimension
        types = {key: str(value.dtype).removeprefix("torch.") for key, value in tower.inputs.items()}
        about[name] = {"inputs": shapes, "types": types, "output": "vectors"}
    if "pixels" in options.towers:
        backbone = embedder.trained.backbone
        about["pixels"]["transform"] = asdict(backbone.transform)
    folder.write_json("towers.json", about)
    if "text" in options.towers and not embedder.trained.family.inputs.sentence:
        folder.write_text("tokens.json", json.dumps(_tokens(embedder), ensure_ascii=False, indent=0) + "\n")
    return ExportedTowers(folder=folder, differences=differences, fingerprints=prints)


def check_onnx(workspace: Workspace, options: OnnxOptions) -> Iterator[str]:
    """The lines of a dry run; nothing is written. Raises InputError as `export_onnx` does before it exports."""
    embedder = _embedder(workspace, options)
    names = ", ".join(f"{name}.onnx" for name in _towers(embedder, options))
    yield f"export {names} of {options.run}"
    yield "not checked: whether each layer has a form in ONNX"


def onnx_bytes(tower: Tower, name: str) -> bytes:
    """The network as an ONNX model with any number of rows, and of words or ready-made regions.

    Raises:
        InputError: a layer has no form in ONNX.
    """
    batch = torch.export.Dim("batch")
    second = {"time": torch.export.Dim("time", min=3), "regions": torch.export.Dim("regions", min=2)}
    shapes = {
        key: {0: batch, 1: second[tower.varying[key]]} if key in tower.varying else {0: batch} for key in tower.inputs
    }
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # of torch's own exporter, about its own internals
            program = torch.onnx.export(
                tower.network.eval(),
                kwargs=tower.inputs,
                dynamic_shapes=shapes,
                output_names=["vectors"],
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        cause = error.__cause__ or error
        reason = next((line for line in str(cause).splitlines() if line.strip()), type(cause).__name__)
        raise InputError(f"towers={name}: cannot be exported ({reason.strip()}); leave it out of towers") from None
    finally:
        logger.setLevel(level)
    assert program is not None, "dynamo=True returns a program"
    return program.model_proto.SerializeToString()


@torch.no_grad()
def difference(tower: Tower, data: bytes) -> float:
    """The largest difference between onnxruntime and torch on batches of several sizes, with captions of any length and
    any number of ready-made regions."""
    ort = optional_package("onnxruntime", "towers", "onnx")
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    draw = torch.Generator().manual_seed(1)
    worst = 0.0
    for rows in BATCHES:
        inputs = {key: _drawn(value, rows, draw) for key, value in tower.inputs.items()}
        for key, dimension in tower.varying.items():
            if dimension == "time":
                inputs[key], inputs["lengths"] = _ragged(tower, rows, draw)
            else:
                inputs[key] = inputs[key][:, : max(2, inputs[key].shape[1] // rows)]
        (actual,) = session.run(None, {key: value.numpy() for key, value in inputs.items()})
        expected = tower.network(**inputs).numpy()
        assert actual.shape == expected.shape, (actual.shape, expected.shape)
        worst = max(worst, float(np.abs(actual - expected).max()))
    return worst


def _drawn(example: Tensor, rows: int, draw: torch.Generator) -> Tensor:
    shape = (rows, *example.shape[1:])
    if example.dtype == torch.uint8:
        return torch.randint(0, 256, shape, generator=draw, dtype=torch.uint8)
    return torch.rand(shape, generator=draw) if example.is_floating_point() else torch.ones(shape, dtype=example.dtype)


def _ragged(tower: Tower, rows: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Captions of one word and more, with their markers, padded."""
    size = next(each.num_embeddings for each in tower.network.modules() if isinstance(each, torch.nn.Embedding))
    lengths = torch.arange(rows) * 3 + 3
    tokens = torch.randint(UNKNOWN, size, (rows, int(lengths.max())), generator=draw)
    tokens[:, 0] = START
    for row, length in enumerate(lengths.tolist()):
        tokens[row, length - 1] = END
        tokens[row, length:] = PAD
    return tokens, lengths


def _embedder(workspace: Workspace, options: OnnxOptions) -> Embedder:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        optional_package(package, "towers", "onnx")
    changes = {} if options.alpha is None else {"model.alpha": options.alpha}
    embedder = Embedder.of_run(workspace, options.run, changes)
    embedder.check_one_vector()
    if not options.towers:
        raise InputError(f"towers: name at least one of {', '.join(TOWERS)}")
    embedder.trained.to(torch.device("cpu")).family.float()
    return embedder


def _towers(embedder: Embedder, options: OnnxOptions) -> dict[str, Tower]:
    make = {
        "features": lambda: image_tower(embedder),
        "pixels": lambda: pixel_tower(embedder),
        "text": lambda: text_tower(embedder),
    }
    return {name: make[name]() for name in TOWERS if name in options.towers}


def _facts(embedder: Embedder, options: OnnxOptions) -> dict[str, Any]:
    trained = embedder.trained
    facts = {"run": options.run, "family": registry.name_of("family", trained.config.model)}
    facts |= {"weights": trained.weights, "features": trained.family.inputs.image, "score": "inner product"}
    return facts if embedder.alpha is None else {**facts, "alpha": embedder.alpha}


def _tokens(embedder: Embedder) -> dict[str, Any]:
    """Ids of words and markers, and sentences with their ids, with which another tokeniser can be compared."""
    vocabulary = embedder.trained.vocabulary
    rows = [vocabulary.encode(words(as_caption(text))) or [UNKNOWN] for text in EXAMPLES]
    examples = [{"text": text, "ids": [START, *row, END]} for text, row in zip(EXAMPLES, rows, strict=True)]
    markers = {"padding": PAD, "start": START, "end": END, "unknown": UNKNOWN}
    return {"markers": markers, "ids": vocabulary.ids, "examples": examples}


def _file_options(options: OnnxOptions) -> dict[str, Any]:
    """The options that change the files; a job may have others."""
    return {name: value for name, value in to_dict(options).items() if name in OnnxOptions.__dataclass_fields__}
