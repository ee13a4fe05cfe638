"""Packed models in MLflow's registry: one version per digest, an alias, a signature and an input example.

A version is a python_function model with `vse.inference.served_model` as its loader and the package's code next to it:
nothing is pickled, and it loads where this project is not installed.
"""

import io
import tempfile
import warnings
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from vse.errors import InputError, first_line

DIGEST_TAG = "vse.digest"
_OFFERED_TAG = "vse.offered."  # and the alias: of a registered model, when the offer was made that the alias follows
_LOADER = "vse.inference.served_model"
_PACKAGE = Path(__file__).parents[1]
# What reading pictures and sentences imports; versions are those that are installed here.
REQUIREMENTS = ("jaxtyping", "mlflow", "numpy", "pandas", "pillow", "pyarrow", "safetensors", "spacy", "torch")
REQUIREMENTS += ("torchvision",)
_SENTENCE = "A white clock on the wall is above a wooden table."


def register(
    client: Any, run_id: str, packed: Path, *, name: str, alias: str, digest: str, tags: Mapping[str, str], offered: int
) -> int | None:
    """The number of the version of `name` that has this digest, made if there is none; it gets the alias. None if
    the alias stays with an offer that was made later than `offered` (milliseconds since 1970).

    client: an MlflowClient. Raises InputError if MLflow will not have such a name or alias.
    """
    from mlflow.exceptions import MlflowException

    try:
        version = _find(client, name, digest)
        if version is None:
            version = _make(client, run_id, packed, name, digest, tags)
        return version if _follow(client, name, alias, version, offered) else None
    except MlflowException as error:
        if error.error_code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST"):
            raise InputError(first_line(error)) from error
        raise


def _follow(client: Any, name: str, alias: str, version: int, offered: int) -> bool:
    """Give the alias to a version, unless it has followed this offer or a later one; returns whether it is there.

    Journals come in any order, and again where the shipping state was lost. The time is kept beside the alias and not
    in the version, so that an alias which somebody moved by hand is moved by new offers only.
    """
    model = client.get_registered_model(name)
    last, holder = model.tags.get(_OFFERED_TAG + alias, ""), model.aliases.get(alias)
    if holder is not None and last.isdecimal() and offered <= int(last):
        return str(holder) == str(version)
    client.set_registered_model_alias(name, alias, str(version))
    client.set_registered_model_tag(name, _OFFERED_TAG + alias, str(offered))  # after a crash in between: both again
    return True


def _find(client: Any, name: str, digest: str) -> int | None:
    quoted = name.replace("'", "")
    versions = client.search_model_versions(f"name = '{quoted}' and tags.`{DIGEST_TAG}` = '{digest}'")
    return min((int(found.version) for found in versions if found.status == "READY"), default=None)


def _make(client: Any, run_id: str, packed: Path, name: str, digest: str, tags: Mapping[str, str]) -> int:
    from mlflow.exceptions import MlflowException

    place = f"model-{digest}"
    with tempfile.TemporaryDirectory() as scratch:
        save(packed, Path(scratch, place))
        client.log_artifacts(run_id, str(Path(scratch, place)), place)
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    source = f"{client.get_run(run_id).info.artifact_uri}/{place}"
    made = client.create_model_version(name, source, run_id, tags={**tags, DIGEST_TAG: digest})
    return int(made.version)


def save(packed: Path, target: Path) -> None:
    """Write a packed model as an MLflow model into the folder `target`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow about its own type hints, and of pandas about MLflow
        import mlflow.pyfunc

        mlflow.pyfunc.save_model(
            str(target),
            loader_module=_LOADER,
            data_path=str(packed),
            code_paths=[str(_PACKAGE)],
            signature=_signature(),
            input_example=_example(),
            pip_requirements=[f"{name}=={metadata.version(name).partition('+')[0]}" for name in REQUIREMENTS],
        )


def _signature() -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema
    from mlflow.types.schema import Array

    asked = {"image": DataType.binary, "path": DataType.string, "sentence": DataType.string}
    return ModelSignature(
        inputs=Schema([ColSpec(kind, name, required=False) for name, kind in asked.items()]),
        outputs=Schema([ColSpec(Array(DataType.double), "embedding")]),
    )


def _example() -> Any:
    """A picture as the bytes of a PNG file, and a sentence; what a row does not fill is empty, since MLflow's reader of
    examples and requests takes no missing bytes."""
    import pandas as pd
    from PIL import Image

    stream = io.BytesIO()
    Image.linear_gradient("L").resize((32, 32)).convert("RGB").save(stream, "PNG")
    return pd.DataFrame({"image": [stream.getvalue(), b""], "sentence": ["", _SENTENCE]})
