"""Local files that other nodes read are seen to be there or refused in one line; those of the driver alone are not."""

import contextlib
import unicodedata
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests import photographs
from vse.cluster.capacity import Capacity, NodeKind
from vse.cluster.runtime import Config as RayConfig
from vse.config import override
from vse.errors import InputError
from vse.presets import preset
from vse.stages import local_inputs as reach
from vse.stages.local_inputs import check_reach, local_reads
from vse.stages.pipeline import prepare
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

FAR = RayConfig(address="10.0.0.4:6379")


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return photographs.write(tmp_path / "tiny")


def configured(folder: Path) -> RunConfig:
    keys = {"data": "karpathy", "data.root": str(folder), "text.word_vectors": str(folder / photographs.VECTORS)}
    weights = str(folder / photographs.WEIGHTS)
    return override(preset("vsepp_tiny"), keys | {"features.backbone.weights": weights, "model.word_dim": 6})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes a cluster of so many nodes; what `look` finds on those beside the first is what `others` says."""

    def make(nodes: int, most: int = 4, others: Callable[[tuple[str, ...]], list[str]] = reach.look) -> None:
        @contextlib.contextmanager
        def joined(config: RayConfig) -> Generator[int]:
            yield nodes

        def each(function: Callable[..., Any], files: tuple[str, ...]) -> dict[str, Any]:
            return {f"10.0.0.{k}": others(files) if k else function(files) for k in range(nodes)}

        monkeypatch.setattr(reach, "running_ray", joined)
        monkeypatch.setattr(reach, "on_every_node", each)
        monkeypatch.setattr(reach, "capacity", lambda config: Capacity((NodeKind(8, 0, count=most),)))

    return make


def keys(config: RunConfig, workspace: Path) -> list[str]:
    return [read.key for read in local_reads(config, Workspace.open(str(workspace)))]


def test_images_and_weights_are_read_elsewhere_until_the_workspace_has_features(disk: Path, tmp_path: Path) -> None:
    config = configured(disk)
    assert keys(config, tmp_path / "w") == ["features.backbone.weights", "data.root"]
    prepare(config, Workspace.open(str(tmp_path / "w")))
    assert keys(config, tmp_path / "w") == []  # captions and word vectors have come with it


def test_what_the_driver_reads_alone_is_no_matter(tmp_path: Path) -> None:
    assert keys(preset("vsepp_tiny"), tmp_path) == keys(preset("univse_tiny"), tmp_path) == []
    (tmp_path / "parser").mkdir()
    (tmp_path / "parser" / "meta.json").write_text("{}")
    changes = {"text.parser.pipeline": str(tmp_path / "parser")}
    assert keys(override(preset("univse_tiny"), changes), tmp_path) == ["text.parser.pipeline"]
    assert keys(override(preset("vsepp_tiny"), changes), tmp_path) == []  # it parses nothing


def test_a_lexicon_on_s3_is_no_local_file(tmp_path: Path) -> None:
    changes = {"text.contrast.lexicon": "s3://b/wordnet", "text.contrast.concreteness": "s3://b/scores.tsv"}
    assert keys(override(preset("vsec_scenes"), changes), tmp_path) == []


def test_the_lexicon_of_adversaries_in_training_is_read_by_every_worker(tmp_path: Path) -> None:
    changes = {"text.contrast.lexicon": str(tmp_path / "wordnet"), "text.contrast.concreteness": "scores.tsv"}
    config = override(preset("vsec_scenes"), changes)
    assert keys(config, tmp_path) == ["text.contrast.lexicon", "text.contrast.concreteness"]
    lexicon, scores = local_reads(config, Workspace.open(str(tmp_path)))
    assert lexicon.files[0] == str(tmp_path / "wordnet" / "data.noun")
    assert scores.files == (str(Path("scores.tsv").absolute()),)
    assert keys(preset("vsec_scenes"), tmp_path) == []  # the shipped ones come with the code


def test_one_machine_is_never_asked(disk: Path, tmp_path: Path, cluster: Callable[..., None]) -> None:
    cluster(1, most=1)
    for ray in (RayConfig(address="local"), FAR):
        assert list(check_reach(configured(disk), str(tmp_path / "w"), ray)) == []


def test_nodes_that_have_the_same_files_are_evidence(disk: Path, tmp_path: Path, cluster: Callable[..., None]) -> None:
    cluster(3)
    told = list(check_reach(configured(disk), str(tmp_path / "w"), FAR))
    assert told == [
        f"features.backbone.weights={disk / photographs.WEIGHTS}: alike on all 3 nodes",
        f"data.root={disk / 'images'}: alike on all 3 nodes",
    ]


@pytest.mark.parametrize(
    ("others", "line"),
    [
        (
            lambda files: [""] * len(files),
            r"^features\.backbone\.weights=.*: node 10\.0\.0\.1 lacks .* or has a different file",
        ),
        (
            lambda files: reach.look(files) if len(files) == 1 else [*reach.look(files)[:-1], "7 abc"],
            r"^data\.root=.*images: node 10\.0\.0\.1 lacks .*15\.png or has a different file; copy it to S3",
        ),
    ],
    ids=["nothing", "another picture"],
)
def test_a_node_without_them_is_named(
    others: Any, line: str, disk: Path, tmp_path: Path, cluster: Callable[..., None]
) -> None:
    cluster(2, others=others)
    with pytest.raises(InputError, match=line) as told:
        list(check_reach(configured(disk), str(tmp_path / "w"), FAR))
    assert "\n" not in str(told.value)


def test_files_are_compared_under_the_name_they_have(tmp_path: Path) -> None:
    """Not in the form of Unicode that their list has: what no node has would be alike on all."""
    there, listed = (unicodedata.normalize(form, "\u00e9.png") for form in ("NFC", "NFD"))
    (tmp_path / there).touch()
    rows = [f"{image},a dog,{split}" for image, split in ((listed, "train"), ("no.png", "val"))]
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption,split", *rows]))
    source = {"data": "table", "data.file": str(tmp_path / "captions.csv"), "features.backbone": "small"}
    reads = local_reads(override(preset("vsepp_tiny"), source), Workspace.open(str(tmp_path / "w")))
    assert [read.files for read in reads] == [(str(tmp_path / there), str(tmp_path / "no.png"))]


def test_nodes_that_are_yet_to_come_show_nothing(disk: Path, tmp_path: Path, cluster: Callable[..., None]) -> None:
    cluster(1)
    with pytest.raises(InputError, match=r"local path that other nodes will read, and no other node is up yet"):
        list(check_reach(configured(disk), str(tmp_path / "w"), FAR))
    shared = RayConfig(address=FAR.address, shared_workspace=True)
    (tmp_path / "w").mkdir()
    assert list(check_reach(configured(disk), str(tmp_path / "w"), shared)) == []  # on the same disk as the workspace
