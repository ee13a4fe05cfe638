"""Data sets on S3 are the data sets on a disk: the same records, the same pictures, and no way out of their root."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import photographs, s3
from vse import registry
from vse.data.images import open_image
from vse.data.places import below
from vse.data.records import Records
from vse.data.sources.karpathy import Karpathy
from vse.data.sources.precomp import Precomp
from vse.data.sources.table import Table
from vse.errors import InputError
from vse.features.arrays import ReadyMade
from vse.stages.extract import extract
from vse.storage.folder import Folder


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = photographs.write(tmp_path_factory.mktemp("data") / "tiny")
    for stem, images in (("train", 3), ("dev", 2)):
        np.save(folder / f"{stem}_ims.npy", np.arange(images * 8, dtype=np.float32).reshape(images, 2, 4) + images)
        lines = (f"caption {k} of {stem}" for k in range(2 * images))
        (folder / f"{stem}_caps.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def remote(s3_server: str, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    place = Folder.open(s3.address(s3_server, "shelf/tiny"))
    return place if place.exists() else photographs.upload(disk, place)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (Karpathy, {}),
        (Karpathy, {"file": "dataset_tiny.json", "images": "images"}),
        (Table, {"file": "captions.csv"}),
        (Precomp, {}),
    ],
    ids=["karpathy", "karpathy, named", "table", "precomp"],
)
def test_the_records_are_those_of_the_disk(kind: Any, settings: dict[str, str], disk: Path, remote: Folder) -> None:
    here, there = (kind(kind.Config(root=root, **settings)) for root in (str(disk), remote.uri))
    ours, theirs = here.describe(), there.describe()
    assert theirs.fingerprint == ours.fingerprint
    if kind is not Precomp:
        for image in ours.images[:2]:
            mine, its = (np.asarray(open_image(image.uri, source.image_root)) for source in (here, there))
            assert np.array_equal(mine, its)


def test_a_table_by_address_lies_beside_its_images(disk: Path, remote: Folder) -> None:
    source = Table(Table.Config(file=remote.address("captions.csv")))
    assert source.describe().fingerprint == Table(Table.Config(file=str(disk / "captions.csv"))).describe().fingerprint
    assert source.image_root == remote.uri
    assert open_image("images/0.png", source.image_root).size == (50, 40)
    elsewhere = Table(
        Table.Config(file=str(disk / "captions.csv"), root=remote.uri)
    )  # the table here, its images there
    assert (elsewhere.image_root, len(elsewhere.describe().images)) == (remote.uri, len(photographs.SPLITS))


def test_ready_made_features_are_copied_to_the_node_and_named_without(
    disk: Path, remote: Folder, tmp_path: Path
) -> None:
    config, stores = ReadyMade.Config(), []
    for root in (str(disk), remote.uri):
        source = Precomp(Precomp.Config(root=root))
        records = source.describe()
        stores.append(extract(records, config, ["map"], Folder.open(tmp_path / f"store{len(stores)}"), root=root))
        assert registry.build("backbone", config).files_identity(records, root)["files"]
    ours, theirs = (store.array("map", store.ids) for store in stores)
    assert np.array_equal(ours, theirs)
    prints = [ReadyMade(config).files_identity(records, root) for root in (str(disk), remote.uri)]
    assert prints[0] == prints[1]


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (
            lambda uri: Karpathy(Karpathy.Config(root=uri.replace("tiny", "none"))),
            "no such folder; expected the folder",
        ),
        (lambda uri: Karpathy(Karpathy.Config(root=uri, file="none.json")), r"none\.json\?.*: no such file"),
        (lambda uri: Table(Table.Config(root=uri, file="none.csv")), r"data\.file=none\.csv: no such file in s3://"),
        (lambda uri: Table(Table.Config(file="s3://bucket/none.csv?" + uri.partition("?")[2])), "no such file"),
        (lambda uri: Precomp(Precomp.Config(root=uri.replace("/tiny", ""))), r"no train_ims\.npy"),
    ],
)
def test_what_is_not_there_is_one_line(make: Any, line: str, remote: Folder) -> None:
    with pytest.raises(InputError, match=line) as told:
        make(remote.uri).describe()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "uri",
    [
        *(
            "../secret.png",
            "images/../../secret.png",
            "s3://bucket/shelf/secret.png",
            "s3://other/a.png",
            "/etc/passwd",
        ),
        *(
            "file:///etc/passwd",
            "s3://bucket/shelf/tiny/../secret.png",
            "a.png?endpoint_override=evil:80",
            "https://a/b",
        ),
    ],
)
def test_nothing_leads_out_of_a_root_on_s3(uri: str, remote: Folder) -> None:
    with pytest.raises(InputError, match=r"leaves its root|question mark"):
        below(remote.uri, uri)


def test_addresses_below_a_root_keep_its_options(remote: Folder) -> None:
    place, _, options = remote.uri.partition("?")
    assert below(remote.uri, "images/./0.png") == f"{place}/images/0.png?{options}"
    assert below(remote.uri, f"{place}/images/0.png") == f"{place}/images/0.png?{options}"
    assert below(f"{place}/?{options}", "a") == f"{place}/a?{options}"
    records = Karpathy(Karpathy.Config(root=remote.uri)).describe()
    assert isinstance(records, Records)
