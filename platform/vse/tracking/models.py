"""Packed models in MLflow's registry: one version per digest, an alias, a signature and an input example.

A version is a python_function model with `vse.inference.served_model` as its loader and the package's code next to it:
nothing is pickled, and it loads where this project is not installed.
"""

import io
import json
import tempfile
import warnings
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from vse.errors import InputError, first_line

DIGEST_TAG = "vse.digest"
_OFFERED_TAG = "vse.offered."  # followed by an alias: time of the offer that the alias follows
_LOADER = "vse.inference.served_model"
_PACKAGE = Path(__file__).parents[1]
# Packages that a served model imports, in the versions that are installed here
REQUIREMENTS = ("jaxtyping", "mlflow", "numpy", "pandas", "pillow", "pyarrow", "safetensors", "spacy", "torch")
REQUIREMENTS += ("torchvision",)
_OF_ENCODERS = {"timm": "timm", "open_clip": "open_clip_torch", "transformers": "transformers"}
_SENTENCE = "A white clock on the wall is above a wooden table."


def register(
    client: Any, run_id: str, packed: Path, *, name: str, alias: str, digest: str, tags: Mapping[str, str], offered: int
) -> int | None:
    """Register a packed model unless its digest is registered, and give the alias to its version.

    Args:
        client: an MlflowClient.
        run_id: MLflow's id of the run.
        packed: folder of the packed model.
        name: of the registered model.
        alias: for the version.
        digest: identifies the packed model.
        tags: of a new version.
        offered: time of the offer, in milliseconds since 1970.

    Returns:
        The number of the version; None if the alias stays with a later offer.

    Raises:
        InputError: if MLflow does not accept the name or alias.
    """
    from mlflow.exceptions import MlflowException

    try:
        version = _find(client, name, digest)
        if version is None:
            version = _create(client, run_id, packed, name, digest, tags)
        return version if _move_alias(client, name, alias, version, offered) else None
    except MlflowException as error:
        if error.error_code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST"):
            raise InputError(first_line(error)) from error
        raise


def _move_alias(client: Any, name: str, alias: str, version: int, offered: int) -> bool:
    """Give the alias to a version, unless it has followed this offer or a later one; returns whether it has the alias.

    Journals arrive in any order, and repeatedly if the shipping state was lost. The time is stored with the alias, not
    with the version. A user may therefore move the alias by hand, and only new offers move it again.
    """
    model = client.get_registered_model(name)
    last, holder = model.tags.get(_OFFERED_TAG + alias, ""), model.aliases.get(alias)
    if holder is not None and last.isdecimal() and offered <= int(last):
        return str(holder) == str(version)
    client.set_registered_model_alias(name, alias, str(version))
    client.set_registered_model_tag(
        name, _OFFERED_TAG + alias, str(offered)
    )  # after a crash in between, both are repeated
    return True


def _find(client: Any, name: str, digest: str) -> int | None:
    quoted = name.replace("'", "")
    versions = client.search_model_versions(f"name = '{quoted}' and tags.`{DIGEST_TAG}` = '{digest}'")
    return min((int(version.version) for version in versions if version.status == "READY"), default=None)


def _create(client: Any, run_id: str, packed: Path, name: str, digest: str, tags: Mapping[str, str]) -> int:
    from mlflow.exceptions import MlflowException

    folder = f"model-{digest}"
    with tempfile.TemporaryDirectory() as scratch:
        save(packed, Path(scratch, folder))
        client.log_artifacts(run_id, str(Path(scratch, folder)), folder)
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    source = f"{client.get_run(run_id).info.artifact_uri}/{folder}"
    return int(client.create_model_version(name, source, run_id, tags={**tags, DIGEST_TAG: digest}).version)


def save(packed: Path, target: Path) -> None:
    """Write a packed model as an MLflow model into the folder `target`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow warns about its own type hints, and pandas about MLflow
        import mlflow.pyfunc

        mlflow.pyfunc.save_model(
            str(target),
            loader_module=_LOADER,
            data_path=str(packed),
            code_paths=[str(_PACKAGE)],
            signature=_signature(),
            input_example=_example(),
            pip_requirements=requirements(packed),
        )


def requirements(packed: Path) -> list[str]:
    """The packages that a packed model imports, in the versions that are installed here."""
    config = json.loads((packed / "config.json").read_text(encoding="utf-8"))
    named = (config["features"]["backbone"]["name"], config["text"]["encoder"]["name"])
    names = [*REQUIREMENTS, *sorted({_OF_ENCODERS[name] for name in named if name in _OF_ENCODERS})]
    return [f"{name}=={metadata.version(name).partition('+')[0]}" for name in names]


def _signature() -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import Array

    columns = {"image": DataType.binary, "path": DataType.string, "sentence": DataType.string}
    return ModelSignature(
        inputs=Schema([ColSpec(kind, name, required=False) for name, kind in columns.items()]),
        outputs=Schema([ColSpec(Array(DataType.double), "embedding")]),
    )


def _example() -> Any:
    """A picture as the bytes of a PNG file, and a sentence.

    Other cells are empty, because MLflow's reader of examples and requests accepts no missing bytes.
    """
    import pandas as pd
    from PIL import Image

    stream = io.BytesIO()
    Image.linear_gradient("L").resize((32, 32)).convert("RGB").save(stream, "PNG")
    return pd.DataFrame({"image": [stream.getvalue(), b""], "sentence": ["", _SENTENCE]})
