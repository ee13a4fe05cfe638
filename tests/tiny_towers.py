"""Small checkpoints of dual encoders and vision towers, made here with random weights."""

import importlib
import json
from pathlib import Path
from typing import Any

import torch

VISION: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
TOWER: dict[str, Any] = {**VISION, "image_size": 32, "patch_size": 8}


def open_clip_folder(folder: Path, seed: int = 0) -> str:
    """A CLIP in open_clip's format, with its own tokenizer; returns the name of the model."""
    import open_clip

    vision: Any = {"image_size": 32, "layers": 2, "width": 32, "patch_size": 8, "head_width": 16}
    text: Any = {"context_length": 16, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}
    transform = {"mean": [0.48, 0.45, 0.4], "std": [0.26, 0.26, 0.27], "interpolation": "bicubic"}
    content = {
        "model_cfg": {"embed_dim": 24, "vision_cfg": vision, "text_cfg": text},
        "preprocess_cfg": {**transform, "resize_mode": "shortest"},
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "open_clip_config.json").write_text(json.dumps(content))
    torch.manual_seed(seed)
    model = open_clip.CLIP(24, vision, text)
    torch.save(model.state_dict(), folder / "open_clip_pytorch_model.bin")
    return f"local-dir:{folder}"


def transformers() -> Any:
    """The library, imported so that type checkers do not read all of its models for an `import`: half a minute."""
    return importlib.import_module("transformers")


def transformers_folder(folder: Path, kind: str, seed: int = 0) -> Any:
    """A vision tower or dual encoder in transformers' format; returns the model."""
    t = transformers()
    torch.manual_seed(seed)
    text: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 48,
    }
    text |= {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1, "vocab_size": 600, "max_position_embeddings": 16}
    square = t.ViTImageProcessor(size={"height": 32, "width": 32})
    crop = t.CLIPImageProcessor(size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32})
    models: dict[str, Any] = {
        "vit": lambda: (t.ViTModel(t.ViTConfig(**TOWER)), square),
        "dinov2": lambda: (t.Dinov2WithRegistersModel(t.Dinov2WithRegistersConfig(**TOWER)), square),
        "swin": lambda: (
            t.SwinModel(t.SwinConfig(image_size=32, embed_dim=16, depths=[1, 1], num_heads=[1, 2], window_size=4)),
            square,
        ),
        "convnext": lambda: (
            t.ConvNextModel(t.ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, image_size=32)),
            t.ConvNextImageProcessor(size={"shortest_edge": 32}),
        ),
        "clip": lambda: (
            t.CLIPModel(t.CLIPConfig(vision_config=TOWER, text_config=text, projection_dim=20)),
            crop,
        ),
        "siglip": lambda: (t.SiglipModel(t.SiglipConfig(vision_config=TOWER, text_config=text)), square),
    }
    model, processor = models[kind]()
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    return model


def dual_encoder_folder(folder: Path, kind: str) -> tuple[Any, Any]:
    """A dual encoder of transformers with a tokenizer of words; returns both."""
    import tokenizers

    model = transformers_folder(folder, kind)
    words = ("a", "red", "ball", "two", "dogs", "dog", "run", "on", "the", "grass", "cat", "is", "above")
    ids = {word: k for k, word in enumerate(("<start>", "<end>", "<unk>", *words))}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    ends = [("<start>", 0), ("<end>", 1)]
    inner.post_processor = tokenizers.processors.TemplateProcessing(single="<start> $A <end>", special_tokens=ends)
    tokenizer = transformers().PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<end>", unk_token="<unk>", eos_token="<end>", model_max_length=16
    )
    if kind == "siglip":
        tokenizer.model_input_names = ["input_ids"]
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def clip_changes(folder: Path) -> dict[str, Any]:
    """Keys that make any preset one of family `clip` on a small checkpoint, which is written to the folder."""
    arch = open_clip_folder(folder)
    return {
        "model": "clip",
        "features.backbone": "open_clip",
        "features.backbone.arch": arch,
        "features.scale": "none",
        "text.sentence": "encoder",
        "text.encoder": "open_clip",
        "text.encoder.arch": arch,
    }
