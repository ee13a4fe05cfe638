"""Files of the hub's cache by repository and revision, without a network."""

import re
from pathlib import Path

import pytest

from vse.errors import InputError
from vse.storage.hub import hub_folder

FIRST, SECOND = "a" * 40, "b" * 40  # commits


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with two commits of a model, of which `main` is the first and `v2` the second."""
    pytest.importorskip("huggingface_hub")
    model = tmp_path / "models--owner--name"
    for commit, reference in ((FIRST, "main"), (SECOND, "v2")):
        folder = model / "snapshots" / commit
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(commit)
        (model / "refs").mkdir(exist_ok=True)
        (model / "refs" / reference).write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return tmp_path


@pytest.mark.parametrize(("revision", "commit"), [("", FIRST), ("@v2", SECOND), (f"@{SECOND}", SECOND)])
def test_a_folder_is_that_of_its_revision(cache: Path, revision: str, commit: str) -> None:
    folder = hub_folder(f"owner/name{revision}", ["*.json"], "text.encoder.model")
    assert (folder / "config.json").read_text() == commit


@pytest.mark.parametrize("name", ["owner/other", "owner/name@v3", "no name", "a/b/c"])
def test_what_the_cache_lacks_is_one_line(cache: Path, name: str) -> None:
    expected = rf"^text\.encoder\.model: {re.escape(name)} is not in the cache of Hugging Face and cannot be downloaded"
    with pytest.raises(InputError, match=expected) as refusal:
        hub_folder(name, ["*.json"], "text.encoder.model")
    assert "\n" not in str(refusal.value)
