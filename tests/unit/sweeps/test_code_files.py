"""Codes on disk are the codes in memory, without what scoring never reads."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from tests import s3
from vse.evaluation.alpha import evaluate_alphas
from vse.evaluation.attacks import AttackSet
from vse.evaluation.codes import Codes
from vse.models.family import Context
from vse.models.univse import UniVSE
from vse.storage.folder import Folder
from vse.sweeps.code_files import StoredCodes, open_codes, scored_names, write_codes


def unit(*shape: int, seed: int) -> Tensor:
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return x / x.norm(dim=-1, keepdim=True)


@pytest.fixture
def family() -> UniVSE:
    config = UniVSE.Config(dim=8, basic_dim=4, modifier_dim=4)
    return UniVSE(config, Context(20, {"map": 6})).eval()


@pytest.fixture
def stored() -> StoredCodes:
    images = {"images": unit(5, 8, seed=0), "regions": unit(5, 9, 8, seed=1), "region_norms": torch.ones(5, 9)}
    captions = {"sentences": unit(7, 8, seed=2), "bags": unit(7, 8, seed=3)}
    attack = {"sentences": unit(3, 8, seed=4), "bags": unit(3, 8, seed=5)}
    owner = torch.tensor([0, 0, 1, 2, 3, 4, 4])
    return StoredCodes(
        Codes(images, captions, owner), {"object": AttackSet(encoded=attack, caption=np.array([0, 6, 2]))}
    )


def test_only_what_is_scored_is_kept(family: UniVSE, stored: StoredCodes) -> None:
    assert scored_names(family, stored.codes.images, stored.codes.captions) == (["images"], ["bags", "sentences"])


def test_round_trip(family: UniVSE, stored: StoredCodes, tmp_path: Path) -> None:
    folder = Folder.open(tmp_path / "codes")
    write_codes(folder, family, stored, "01234567")
    found = open_codes(folder)
    assert list(found.codes.images) == ["images"]
    for name, value in stored.codes.captions.items():
        assert torch.equal(found.codes.captions[name], value)
        assert torch.equal(found.attacks["object"].encoded[name], stored.attacks["object"].encoded[name])
    assert torch.equal(found.codes.owner, stored.codes.owner)
    assert found.attacks["object"].caption.tolist() == [0, 6, 2]
    assert folder.read_manifest() is not None


def test_scores_from_disk_are_scores_from_memory(family: UniVSE, stored: StoredCodes, tmp_path: Path) -> None:
    folder = Folder.open(tmp_path / "codes")
    write_codes(folder, family, stored, "01234567")

    def curve(held: StoredCodes) -> list[dict[str, float]]:
        codes, alphas = held.codes, (0.0, 0.3, 1.0)
        points = evaluate_alphas(family, codes.images, codes.captions, codes.owner, held.attacks, alphas)
        return [point.metrics("test") for point in points]

    assert curve(open_codes(folder)) == curve(stored)


def test_processes_share_one_copy_of_what_lies_on_s3(
    family: UniVSE, stored: StoredCodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    fetched, read_bytes = list[str](), Folder.read_bytes

    def read(folder: Folder, name: str) -> bytes:
        fetched.append(name)
        return read_bytes(folder, name)

    with s3.server() as place:
        folder = Folder.open(s3.address(place)).child("codes")
        write_codes(folder, family, stored, "01234567")
        monkeypatch.setattr(Folder, "read_bytes", read)
        for times in (1, 0):  # the second process finds it there
            fetched.clear()
            found = open_codes(folder)
            assert [name for name in fetched if name == "captions.bags.npy"] == ["captions.bags.npy"] * times
            assert torch.equal(found.codes.captions["bags"], stored.codes.captions["bags"])
        if Path("/proc/self/smaps").exists():
            mapped = Path("/proc/self/smaps").read_text()
            assert f"{tmp_path}/cache/copies/" in mapped
            assert "captions.bags.npy" in mapped


def test_no_pickle_is_read(family: UniVSE, stored: StoredCodes, tmp_path: Path) -> None:
    folder = Folder.open(tmp_path / "codes")
    write_codes(folder, family, stored, "01234567")
    np.save(folder.local("owner.npy"), np.array([{"a": 1}], dtype=object), allow_pickle=True)
    folder.commit_manifest([name for name in folder.names() if name.endswith(".npy")], {"attacks": ["object"]})
    with pytest.raises(ValueError, match="Python objects"):
        open_codes(folder)
