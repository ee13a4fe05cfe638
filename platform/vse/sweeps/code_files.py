"""Codes of a run on disk: encoded once, opened memory-mapped by everything that scores them.

They lie below `runs/<run>/evaluation/`, one folder per split and kind of adversaries, as plain float32 .npy files
under a manifest.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vse.config import fingerprint
from vse.errors import DamagedError
from vse.evaluation.attacks import AttackSet
from vse.evaluation.codes import Codes
from vse.models.family import Encoded, Family
from vse.stages.attack import Adversaries
from vse.stages.trained import Trained, encode_adversaries, encode_split
from vse.storage.folder import Folder
from vse.storage.node_cache import committed_path
from vse.training.inputs import Material

REVISION = 1  # part of the folder's name: raise it when the same checkpoint would be encoded otherwise


@dataclass(frozen=True, eq=False)
class StoredCodes:
    """Codes of one split with the adversaries of its captions, by attack."""

    codes: Codes
    attacks: dict[str, AttackSet]


def codes_folder(trained: Trained, run: Folder, split: str, adversaries: str) -> Folder:
    """Where codes of a split belong; `adversaries` is the fingerprint of the adversaries encoded beside it."""
    return run.child("evaluation", f"codes-{split}-{fingerprint([trained.weights, split, adversaries, REVISION])}")


def store_codes(trained: Trained, run: Folder, material: Material, adversaries: Adversaries) -> Folder:
    """Encode a split and its adversaries if that was not done yet; returns the committed folder."""
    folder = codes_folder(trained, run, adversaries.split, adversaries.fingerprint)
    if folder.read_manifest(checksums=folder.is_local) is None:
        codes = encode_split(trained, material, adversaries.split)
        attacks = encode_adversaries(trained, adversaries, material)
        write_codes(folder, trained.family, StoredCodes(codes, attacks), adversaries.fingerprint)
    return folder


def write_codes(folder: Folder, family: Family, stored: StoredCodes, digits: str) -> None:
    """Write codes and commit them; `digits` is the fingerprint of the adversaries among them."""
    codes = stored.codes
    images, captions = scored_names(family, codes.images, codes.captions)
    arrays = {f"images.{name}": codes.images[name] for name in images}
    arrays |= {f"captions.{name}": codes.captions[name] for name in captions}
    for attack, chosen in stored.attacks.items():
        arrays |= {f"{attack}.{name}": chosen.encoded[name] for name in captions}
    whole = {"owner": codes.owner.cpu().numpy()} | {f"{a}.caption": s.caption for a, s in stored.attacks.items()}
    files: dict[str, np.ndarray] = {name: value.float().cpu().numpy() for name, value in arrays.items()} | whole
    for name, array in files.items():
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
        folder.write_bytes(f"{name}.npy", buffer.getvalue())
    content = {"kind": "codes", "attacks": sorted(stored.attacks), "adversaries": digits, "revision": REVISION}
    folder.commit_manifest([f"{name}.npy" for name in files], content)


class _Watched(dict[str, Tensor]):
    """Notes which entries are looked at."""

    def __init__(self, items: Mapping[str, Tensor]) -> None:
        super().__init__(items)
        self.seen: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.seen.add(name)
        return super().__getitem__(name)


@torch.inference_mode()
def scored_names(family: Family, images: Encoded, captions: Encoded) -> tuple[list[str], list[str]]:
    """Names of the tensors that scoring reads: what else a family encodes (regions, say) need not be kept."""
    one = _Watched({k: v[:1] for k, v in images.items()}), _Watched({k: v[:1] for k, v in captions.items()})
    family.score_parts(*one)
    return sorted(one[0].seen), sorted(one[1].seen)


def open_codes(folder: Folder) -> StoredCodes:
    """Codes as `store_codes` wrote them, memory-mapped: processes of a node share their pages, and one copy of what
    lies on S3. Raises DamagedError where they are not whole."""
    manifest = folder.read_manifest(checksums=folder.is_local)  # a copy from S3 is verified as it is made
    if manifest is None:
        raise DamagedError(f"{folder}: codes are damaged or missing; the sweep makes them again")
    arrays = {name.removesuffix(".npy"): _open(folder, manifest, name) for name in manifest["files"]}
    owner = torch.from_numpy(np.array(arrays.pop("owner")))
    attacks = {
        attack: AttackSet(encoded=dict(_below(arrays, attack)), caption=np.array(arrays.pop(f"{attack}.caption")))
        for attack in manifest["attacks"]
    }
    return StoredCodes(Codes(dict(_below(arrays, "images")), dict(_below(arrays, "captions")), owner), attacks)


def _open(folder: Folder, manifest: Mapping[str, Any], name: str) -> np.ndarray:
    path = committed_path(folder, manifest, name)
    return np.load(path, mmap_mode="c", allow_pickle=False)  # private pages: torch wants writable ones


def _below(arrays: Mapping[str, np.ndarray], prefix: str) -> Iterator[tuple[str, Tensor]]:
    for key, array in arrays.items():
        head, _, name = key.partition(".")
        if head == prefix and name != "caption":
            yield name, torch.from_numpy(array)
