"""Image towers of open_clip as backbones against open_clip's own forward pass and transform."""

from pathlib import Path
from typing import Any

import open_clip
import pytest
import torch

from tests.tiny_towers import open_clip_folder
from tests.unit.features.test_timm_backbone import CPU, pictures, squares
from vse.errors import InputError
from vse.features.open_clip_backbone import OpenClipBackbone


def build(arch: str, **fields: Any) -> OpenClipBackbone:
    return OpenClipBackbone(OpenClipBackbone.Config(arch=arch, **fields))


def test_outputs_and_transform_of_a_folder_are_open_clips_own(tmp_path: Path) -> None:
    arch = open_clip_folder(tmp_path)
    backbone, images = build(arch), pictures()
    made: Any = open_clip.create_model_and_transforms(arch)
    own, transform = made[0].eval(), made[2]
    network = backbone.load(["map", "pooled"]).prepare(CPU)
    features = network(squares(backbone, images))
    with torch.no_grad():
        x = torch.stack([transform(image) for image in images])
        torch.testing.assert_close(features["pooled"], own.encode_image(x))
        own.visual.output_tokens = True
        pooled, tokens = own.visual(x)
    torch.testing.assert_close(features["map"], tokens)
    assert backbone.shapes() == {"map": (16, 32), "pooled": (24,)}
    alone = backbone.load(["pooled"]).prepare(CPU)(squares(backbone, images))
    torch.testing.assert_close(alone["pooled"], pooled)


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("arch", "size", "shapes"),
    [
        ("RN50", 64, {"map": (4, 2048), "pooled": (1024,)}),
        ("ViT-B-16-SigLIP", None, {"map": (196, 768), "pooled": (768,)}),
        ("convnext_base", 64, {"map": (4, 1024), "pooled": (512,)}),
    ],
)
def test_towers_of_every_kind_have_both_outputs(arch: str, size: int | None, shapes: dict[str, tuple[int]]) -> None:
    assert build(arch, weights="random", size=size).shapes() == shapes


def test_positions_are_resampled_for_another_size(tmp_path: Path) -> None:
    arch = open_clip_folder(tmp_path)
    large = build(arch, size=48)
    assert large.shapes()["map"] == (36, 32)
    assert large.identity() != build(arch).identity()
    own = build(arch).load(["pooled"]).trunk.get_parameter("visual.positional_embedding")
    resampled = large.load(["pooled"]).trunk.get_parameter("visual.positional_embedding")
    grid = torch.nn.functional.interpolate(
        own[1:].T.reshape(1, 32, 4, 4), size=(6, 6), mode="bicubic", antialias=True, align_corners=False
    )
    torch.testing.assert_close(resampled, torch.cat([own[:1], grid[0].flatten(1).T]))


def test_published_weights_are_chosen_by_tag_and_must_fit_the_activation() -> None:
    with pytest.raises(
        InputError, match=r"\.weights=openai: were trained with QuickGELU; use .*\.arch=ViT-B-32-quickgelu"
    ):
        build("ViT-B-32", weights="openai")
    with pytest.raises(InputError, match=r"^features\.backbone\.weights=default: .* give one of openai, .* or random$"):
        build("ViT-B-32").identity()
    with pytest.raises(InputError, match=r"^features\.backbone\.weights=mine: no such file, nor one of .*, openai, "):
        build("ViT-B-32", weights="mine")


def test_weights_that_cannot_be_downloaded_and_unknown_models_are_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=r"weights=laion2b_s34b_b79k: laion/CLIP-ViT-B-32-laion2B-s34B-b79K/.* not in"):
        build("ViT-B-32", weights="laion2b_s34b_b79k").identity()
    with pytest.raises(InputError, match=r"^features\.backbone\.arch=hf-hub:a/b: a/b/open_clip_config\.json is not in"):
        build("hf-hub:a/b")
    with pytest.raises(InputError, match=r"^features\.backbone\.arch=vot: not in open_clip"):
        build("vot", weights="random")
    (tmp_path / "open_clip_config.json").write_text("{}")
    with pytest.raises(InputError, match=r"open_clip_config\.json is not a configuration of open_clip$"):
        build(f"local-dir:{tmp_path}")


def test_a_transform_that_cannot_be_reproduced_must_be_replaced(tmp_path: Path) -> None:
    arch = open_clip_folder(tmp_path)
    file = tmp_path / "open_clip_config.json"
    file.write_text(file.read_text().replace("shortest", "longest"))
    with pytest.raises(InputError, match=r"^features\.backbone\.transform=longest: the published one .* choose one of"):
        build(arch)
    assert build(arch, transform="scale").transform.name == "scale"
