"""Vision towers of transformers as backbones against transformers' own forward pass and image processors."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.tiny_towers import TOWER, transformers, transformers_folder
from tests.unit.features.test_timm_backbone import CPU, pictures, squares
from vse.errors import InputError
from vse.features.transformers_backbone import TransformersBackbone, _unlike

SHAPES = {
    "vit": ((16, 32), (32,), 1),
    "dinov2": ((16, 32), (32,), 5),
    "swin": ((16, 32), (32,), 0),
    "convnext": ((16, 16), (16,), 0),
    "clip": ((16, 32), (20,), 1),
    "siglip": ((16, 32), (32,), 0),
}


def build(folder: Path, **fields: Any) -> TransformersBackbone:
    return TransformersBackbone(TransformersBackbone.Config(arch=str(folder), **fields))


@pytest.mark.parametrize("kind", SHAPES)
def test_outputs_and_transform_are_transformers_own(kind: str, tmp_path: Path) -> None:
    own = transformers_folder(tmp_path, kind)
    backbone, images = build(tmp_path), pictures()
    grid, vector, prefix = SHAPES[kind]
    assert backbone.shapes() == {"map": grid, "pooled": vector}
    network = backbone.load(["map", "pooled"]).prepare(CPU)
    x = squares(backbone, images)
    features = network(x)
    pixels = (x[:, 0].permute(0, 3, 1, 2).float() / 255 - network.mean) / network.std
    with torch.no_grad():
        output = getattr(own, "get_image_features", own)(pixel_values=pixels)
    torch.testing.assert_close(features["pooled"], output.pooler_output.flatten(1), rtol=1e-4, atol=1e-5)
    hidden = output.last_hidden_state
    tokens = hidden.flatten(2).transpose(1, 2) if hidden.dim() == 4 else hidden[:, prefix:]
    torch.testing.assert_close(features["map"], tokens, rtol=1e-4, atol=1e-5)
    processor: Any = transformers().AutoImageProcessor.from_pretrained(tmp_path)
    processed = processor(images, return_tensors="pt")["pixel_values"]
    assert (processed - pixels).abs().mean() < 1e-3  # resized as tensors there, as 8-bit pictures here


def test_random_weights_and_a_file_of_weights(tmp_path: Path) -> None:
    own = transformers_folder(tmp_path, "vit", seed=3)
    published = build(tmp_path)
    weights = str(tmp_path / "model.safetensors")
    assert build(tmp_path, weights=weights).identity() == published.identity()
    one, other = (build(tmp_path, weights="random", seed=seed).load(["pooled"]).state_dict() for seed in (1, 2))
    key = "trunk.model.embeddings.cls_token"
    torch.testing.assert_close(published.load(["pooled"]).state_dict()[key], own.state_dict()["embeddings.cls_token"])
    assert not torch.equal(one[key], other[key])


def test_a_checkpoint_without_a_pooling_layer_gives_its_class_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "classifier"
    torch.manual_seed(1)
    classifier: Any = transformers().ViTForImageClassification(transformers().ViTConfig(**TOWER)).eval()
    classifier.save_pretrained(folder)
    transformers().ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    backbone = build(folder)
    with caplog.at_level(logging.INFO, logger="vse"):
        network = backbone.load(["map", "pooled"]).prepare(CPU)
    assert caplog.messages[0].endswith("has no pooling layer; the pooled vector is the class token")
    x = squares(backbone, pictures())
    pixels = (x[:, 0].permute(0, 3, 1, 2).float() / 255 - network.mean) / network.std
    with torch.no_grad():
        hidden = classifier.vit(pixel_values=pixels).last_hidden_state
    torch.testing.assert_close(network(x)["pooled"], hidden[:, 0])


def test_positions_are_interpolated_for_another_size(tmp_path: Path) -> None:
    own = transformers_folder(tmp_path, "clip")
    backbone = build(tmp_path, size=48)
    assert backbone.shapes()["map"] == (36, 32)
    network = backbone.load(["pooled"]).prepare(CPU)
    x = squares(backbone, pictures())
    pixels = (x[:, 0].permute(0, 3, 1, 2).float() / 255 - network.mean) / network.std
    with torch.no_grad():
        expected = own.get_image_features(pixel_values=pixels, interpolate_pos_encoding=True).pooler_output
    torch.testing.assert_close(network(x)["pooled"], expected)


def test_of_the_published_preprocessing_nothing_is_left_out(tmp_path: Path) -> None:
    transformers_folder(tmp_path, "vit")
    file = tmp_path / "preprocessor_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "do_normalize": False}))
    network = build(tmp_path).load(["pooled"]).prepare(CPU)
    assert (network.mean.unique().tolist(), network.std.unique().tolist()) == ([0.0], [1.0])
    for other in ({"do_rescale": False}, {"rescale_factor": 1.0}, {"do_resize": False}):
        ((name, value),) = other.items()
        file.write_text(json.dumps({**settings, **other}))
        with pytest.raises(InputError, match=f"arch={tmp_path}: its preprocessing has {name}={value}, which this back"):
            build(tmp_path).load(["pooled"])
    published = SimpleNamespace(do_rescale=True, do_flip_channel_order=True, include_top=None)
    assert _unlike(published) == "do_flip_channel_order=True"
    assert _unlike(SimpleNamespace(include_top=True)) == "include_top=True"
    assert not _unlike(SimpleNamespace(do_resize=True, rescale_factor=1 / 255, include_top=False))


def test_wrong_requests_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=r"^features\.backbone\.arch=a/b: a/b/config\.json is not in the cache"):
        build(Path("a/b"))
    folder = tmp_path / "model"
    model = transformers_folder(folder, "vit")
    state = {key: value.contiguous() for key, value in model.state_dict().items()}
    save_file({k: v for k, v in state.items() if "layers.0" not in k}, tmp_path / "part.safetensors")
    with pytest.raises(InputError, match=r"part\.safetensors: not weights of this architecture: .* more are missing"):
        build(folder, weights=str(tmp_path / "part.safetensors")).load(["pooled"])
    state["embeddings.cls_token"] = torch.zeros(1, 1, 5)
    save_file(state, tmp_path / "wide.safetensors")
    with pytest.raises(InputError, match=r"wide\.safetensors: not weights .*cls_token .* have other shapes"):
        build(folder, weights=str(tmp_path / "wide.safetensors")).load(["pooled"])
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**settings, "model_type": "none"}))
    with pytest.raises(InputError, match=r"transformers cannot read its configuration"):
        build(folder)
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match=r"there is no config\.json in "):
        build(folder)
