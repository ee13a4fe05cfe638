"""Files of the Hugging Face hub: from the local cache, else downloaded; and the optional packages that read them."""

import contextlib
import importlib
import logging
from collections.abc import Generator, Sequence
from pathlib import Path
from types import ModuleType

from vse.errors import InputError, first_line, install
from vse.storage.files import local_path

HUB, FOLDER = "hf-hub:", "local-dir:"  # prefixes of names of models


def optional_package(name: str, key: str, extra: str = "encoders") -> ModuleType:
    """A package of an extra of pyproject.toml.

    Args:
        name: of the module.
        key: the setting that needs it, for the message.
        extra: that holds the package.

    Raises:
        InputError: it is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(f"{key}: needs the package {error.name}; {install(extra)}") from None


def hub_file(repository: str, names: Sequence[str], key: str) -> Path:
    """The first of some files that a repository has, on this machine.

    Args:
        repository: as owner/name, or owner/name@revision.
        names: of files, in order of preference.
        key: the setting that asks for the file, for messages.

    Raises:
        InputError: the repository has none of them, or the file is neither in the cache nor can be downloaded.
    """
    hub = optional_package("huggingface_hub", key)
    from huggingface_hub.errors import HFValidationError, RemoteEntryNotFoundError

    name, _, revision = repository.partition("@")
    what = f"{repository}/{' or '.join(names)}"
    with _quiet_retries():
        try:
            for file in names:
                if isinstance(cached := hub.try_to_load_from_cache(name, file, revision=revision or None), str):
                    return Path(cached)
            for file in names[:-1]:
                with contextlib.suppress(RemoteEntryNotFoundError):
                    return Path(hub.hf_hub_download(name, file, revision=revision or None))
            return Path(hub.hf_hub_download(name, names[-1], revision=revision or None))
        except (OSError, HFValidationError) as error:
            raise _unavailable(key, what, error) from None


def first_file(model: str, names: Sequence[str], key: str) -> Path:
    """The first of some files that a folder or a repository has.

    Args:
        model: `local-dir:FOLDER` or `hf-hub:owner/name`.
        names: of files, in order of preference.
        key: the setting that asks for the file, for messages.

    Raises:
        InputError: there is none of them, or it cannot be downloaded.
    """
    if model.startswith(HUB):
        return hub_file(model.removeprefix(HUB), names, key)
    folder = local_path(model.removeprefix(FOLDER))
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise InputError(f"{key}: there is no {' or '.join(names)} in {folder}")


def hub_folder(repository: str, patterns: Sequence[str], key: str) -> Path:
    """The folder of a repository with its files that match, on this machine; those in folders below it stay away.

    Args:
        repository: as owner/name, or owner/name@revision.
        patterns: of names, such as `*.json`.
        key: the setting that asks for the files, for messages.

    Raises:
        InputError: the files are neither in the cache nor can be downloaded.
    """
    hub = optional_package("huggingface_hub", key)
    name, _, revision = repository.partition("@")
    wanted = {"allow_patterns": [*patterns], "ignore_patterns": ["*/*"]}
    with _quiet_retries():
        try:
            return Path(hub.snapshot_download(name, revision=revision or None, **wanted))
        except (OSError, ValueError) as error:  # ValueError: it is no name of a repository
            raise _unavailable(key, repository, error) from None


@contextlib.contextmanager
def _quiet_retries() -> Generator[None]:
    """Hide the hub's lines on its retries: the error at the end says what was missing."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _unavailable(key: str, what: str, error: Exception) -> InputError:
    return InputError(
        f"{key}: {what} is not in the cache of Hugging Face and cannot be downloaded ({type(error).__name__}); "
        "download it where there is a network, or name a local copy"
    )


def push_folder(folder: Path, repository: str, key: str) -> None:
    """Upload a folder to a repository of models, which is made as a private one if there is none.

    `summary.json` stays here, because it has commands and paths of this machine.

    Args:
        folder: with README.md.
        repository: OWNER/NAME.
        key: the setting that asks for it, for messages.

    Raises:
        InputError: the hub refuses the repository, or who is asking.
        OSError: the hub cannot be reached.
    """
    hub = optional_package("huggingface_hub", key)
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    api = hub.HfApi()
    try:
        with _quiet_retries():
            api.create_repo(repository, private=True, exist_ok=True)
            api.upload_folder(
                repo_id=repository,
                folder_path=folder,
                ignore_patterns=["summary.json"],
                commit_message=f"Upload {folder.name}",
            )
    except (HFValidationError, LocalTokenNotFoundError) as error:
        raise InputError(f"{key}={repository}: {first_line(error)}") from None
    except HfHubHTTPError as error:
        if getattr(error.response, "status_code", 500) < 500:
            reason = first_line(error)
            raise InputError(f"{key}={repository}: {reason}; log in with `hf auth login`, or check OWNER") from None
        raise
