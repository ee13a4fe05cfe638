"""Model cards: the numbers of the measured tables, the licences that were given, and the upload to a hub that is faked.

No test reaches the Hugging Face hub: its client is replaced by one that records the calls.
"""

import html
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import pytest
import yaml

from tests.unit.asked import asked
from tests.unit.inference.test_embedder import train
from vse.config import override, to_dict
from vse.errors import InputError, StorageError
from vse.inference.served_model import CARD, offer_model
from vse.presets import preset
from vse.report.measured import RunNumbers
from vse.report.model_card import NOT_STATED, CardOptions, model_card, write_card
from vse.stages.measuring.stage import measure
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("card") / "workspace"))


@pytest.fixture(scope="module")
def run(place: Workspace) -> Folder:
    return train(place, "vsepp_tiny").folder


def parts_of(card: str) -> tuple[dict[str, Any], str]:
    _, front, body = card.split("---\n", 2)
    return yaml.safe_load(front), body


@pytest.mark.seconds
def test_a_card_says_what_is_known_and_what_is_not(run: Folder) -> None:
    front, body = parts_of(model_card(run, CardOptions()))
    assert front["library_name"] == "vse-platform"
    assert "vsepp" in front["tags"]
    assert "license" not in front
    assert NOT_STATED in body
    front, body = parts_of(model_card(run, CardOptions(license="cc-by-4.0", data_license="terms of scenes")))
    assert front["license"] == "cc-by-4.0"
    assert "terms of scenes" in body
    assert "| data set | scenes |" in body
    assert "small" in body


@pytest.mark.seconds
def test_a_family_without_alpha_has_no_card_of_one(run: Folder) -> None:
    with pytest.raises(InputError, match=r"alpha: family vsepp of .* has no such setting"):
        model_card(run, CardOptions(), 0.5)


@pytest.mark.seconds
def test_a_card_names_the_data_set_and_the_text_encoder(run: Folder, tmp_path: Path) -> None:
    """Of a run with the configuration of a preset on photographs."""
    shutil.copytree(run.local(), tmp_path / run.name)
    copy, encoder = Folder.open(tmp_path / run.name), "text.encoder.model"
    named = {"data.file": "dataset_flickr8k.json", encoder: "sentence-transformers/all-MiniLM-L6-v2"}
    copy.write_json("config.json", to_dict(override(preset("vsepp_encoder_flickr8k"), named)))
    _, body = parts_of(model_card(copy, CardOptions()))
    assert "| data set | karpathy, dataset_flickr8k.json |" in html.unescape(body)
    assert "| text encoder | transformers, all-MiniLM-L6-v2 |" in body
    assert "none |" not in body
    assert "Its vocabulary has" not in body  # an encoder reads words that no training caption has
    assert "Its vocabulary has" in model_card(run, CardOptions())


@pytest.mark.seconds
def test_numbers_are_those_of_the_measured_tables_with_intervals(place: Workspace) -> None:
    run = train(place, "vsepp_tiny", seed=2).folder
    before = model_card(run, CardOptions())
    assert not RunNumbers(run).intervals  # only numbers of training
    assert "### retrieval: val" in before
    assert "Intervals are bootstraps" not in before
    measure([run], run.child("evaluation"), place, *asked("retrieval"))
    card = model_card(run, CardOptions())
    assert card != before
    assert card == model_card(run, CardOptions())
    values, intervals = RunNumbers(run).metrics, RunNumbers(run).intervals
    key = next(each for each in intervals if each.name == "test/t2i/r1")
    low, high = intervals[key]
    assert low <= values[key] <= high
    assert f"| {values[key]:.1f} | {low:.1f} to {high:.1f} |" in card
    assert "5 images" in card
    assert "Intervals are bootstraps" in card


@pytest.mark.seconds
def test_numbers_are_of_the_alpha_of_the_model_or_the_card_says_of_which(place: Workspace) -> None:
    run = train(place, "univse_tiny").folder
    measure([run], run.child("evaluation"), place, *asked("retrieval"))
    as_configured = model_card(run, CardOptions())
    assert "| α, the weight of the sentence embedding | 0.75 |" in as_configured
    assert model_card(run, CardOptions(), alpha=0.75) == as_configured
    names, options = asked("retrieval")
    measure([run], run.child("evaluation"), place, names, replace(options, alpha=0.25))
    assert model_card(run, CardOptions()) == as_configured
    other = model_card(run, CardOptions(), alpha=0.0)
    assert "| α, the weight of the sentence embedding | 0 |" in other
    assert "Measured at α = 0.75; this model uses α = 0." in other
    assert "### retrieval: test" in other
    measured = model_card(run, CardOptions(), alpha=0.25)
    assert "Measured at" not in measured
    assert re.findall(r"### (\S+ \S+)", measured) == ["retrieval: alpha-0.25/test"]


@pytest.mark.seconds
def test_a_registered_model_has_its_card(place: Workspace, run: Folder) -> None:
    card = model_card(run, CardOptions())
    offer = offer_model(place, run.name, card=card)
    packed = run.child("served", offer.digest)
    assert packed.read_text(CARD) == card
    manifest = packed.read_manifest()
    assert manifest is not None
    assert CARD in manifest["files"]
    assert offer_model(place, run.name, card=card).digest == offer.digest
    assert offer_model(place, run.name, card=card + "more").digest != offer.digest


class FakeHub:
    """Records what the client of the hub is asked for; `error` is raised by the upload."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.calls = error, list[tuple[str, dict[str, Any]]]()

    def create_repo(self, repository: str, **options: Any) -> None:
        self.calls.append(("create", {"repository": repository, **options}))

    def upload_folder(self, **options: Any) -> None:
        if self.error:
            raise self.error
        names = sorted(path.name for path in Path(options["folder_path"]).iterdir())
        self.calls.append(("upload", {**options, "names": names}))


def test_a_folder_is_uploaded_to_a_private_repository(
    run: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = FakeHub()
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: hub)
    folder = Folder.open(tmp_path / "export")
    folder.write_text("vectors.txt", "1 2 3")
    write_card(folder, run, CardOptions())
    assert hub.calls == []
    write_card(folder, run, CardOptions(push_to_hub="me/model"))
    (create, made), (upload, sent) = hub.calls
    assert (create, made) == ("create", {"repository": "me/model", "private": True, "exist_ok": True})
    assert upload == "upload"
    assert sent["repo_id"] == "me/model"
    assert sent["names"] == [CARD, "vectors.txt"]
    assert sent["ignore_patterns"] == ["summary.json"]


def test_a_refused_upload_is_one_line(run: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub.errors import HfHubHTTPError

    folder, options = Folder.open(tmp_path / "export"), CardOptions(push_to_hub="me/model")
    response: Any = SimpleNamespace(status_code=403, headers={}, request=None)
    refused = HfHubHTTPError("403 Forbidden\nmore", response=response)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: FakeHub(refused))
    with pytest.raises(InputError, match=r"^card\.push_to_hub=me/model: 403 Forbidden; log in with `hf auth login`"):
        write_card(folder, run, options)
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda: FakeHub(ConnectionError("no route")))
    with pytest.raises(StorageError, match=r"^card\.push_to_hub=me/model: not uploaded \(no route\)$"):
        write_card(folder, run, options)


@pytest.mark.parametrize("repository", ["model", "me/", "/model", "me/my/model"])
def test_a_repository_has_an_owner_and_a_name(repository: str) -> None:
    with pytest.raises(InputError, match=r"^card\.push_to_hub=.*: expected OWNER/NAME"):
        CardOptions(push_to_hub=repository).check()
