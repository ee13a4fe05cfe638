"""Training of the shipped small backbone: cross-entropy per cell on the labels of rendered scenes.

Every cell of the 7×7 map predicts noun, colour, size and pattern of the object with the most pixels in it, or that
there is none. Only object labels are used: no caption, no relation, no count. The scenes come from the split
`pretrain`, which is unbiased and shares no draw with other splits. They have the plain drawing; the second drawing
stays unseen.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor, nn
from torch.nn import functional as F

from vse.config import knob
from vse.data.scenes.layout import Address
from vse.data.scenes.render import CELL_LABELS, cell_labels, render_with_segments
from vse.features.small_backbone import CHANNELS, NORMALISATION, SIZE, STRIDE, convolutions, fold

GRID = SIZE // STRIDE
EVALUATION_SEED = 9001  # scenes that accuracies are reported on; no training seed reaches it


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainingConfig:
    """Options of `jobs/pretrain_backbone.py`; the defaults made the shipped weights."""

    rounds: int = knob(16, "rounds, each over new scenes", low=1)
    images: int = knob(8_000, "rendered scenes per round, each seen once", low=64)
    batch: int = knob(64, "scenes per step", low=2)
    lr: float = knob(4e-3, "highest learning rate of the one-cycle schedule", above=0)
    decay: float = knob(1e-4, "weight decay", low=0)
    grounds: float = knob(0.5, "share of scenes whose ground gets another brightness and tint", low=0, high=1)
    threads: int = knob(1, "threads of this process", low=1)
    seed: int = knob(101, "seed of scenes, weights and grounds", low=0, high=EVALUATION_SEED - 1)


class CellReader(nn.Module):
    """The backbone's convolutions and one linear reader a label; label 0 means that a cell shows nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = convolutions(normalised=True)
        self.readers = nn.ModuleDict(
            {kind: nn.Conv2d(CHANNELS, len(names) + 1, 1) for kind, names in CELL_LABELS.items()}
        )

    def forward(
        self, pixels: UInt8[Tensor, "items size size 3"]
    ) -> dict[str, Float[Tensor, "items classes rows columns"]]:
        """Scores per cell for every kind of label."""
        grid = self.layers(normalise(pixels))
        return {kind: reader(grid) for kind, reader in self.readers.items()}


def normalise(pixels: UInt8[Tensor, "items size size 3"]) -> Float[Tensor, "items 3 size size"]:
    """Pixels as the backbone reads them."""
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (NORMALISATION.mean, NORMALISATION.std))
    return (pixels.permute(0, 3, 1, 2).float() / 255 - mean) / std


@dataclass(frozen=True, slots=True)
class Cells:
    """Rendered scenes and the labels of their cells, by kind."""

    pixels: UInt8[Tensor, "items size size 3"]
    labels: dict[str, Int[Tensor, "items rows columns"]]

    def __len__(self) -> int:
        return len(self.pixels)


def draw_cells(seed: int, split: str, indices: range, drawing: str = "plain", grounds: float = 0.0) -> Cells:
    """Render scenes of a split by seed and index, with the labels of their cells.

    All plain grounds are light. A network trained on light grounds only takes dark ground for objects.

    Args:
        seed: Seed of the scenes and of their grounds.
        split: Split of the scenes; `pretrain` for training.
        indices: Numbers of the scenes in the split.
        drawing: How nouns are drawn, `plain` or `second`.
        grounds: Probability, for each scene, of a ground with another brightness and tint.
    """
    pixels = np.empty((len(indices), SIZE, SIZE, 3), np.uint8)
    labels = {kind: np.empty((len(indices), GRID, GRID), np.int64) for kind in CELL_LABELS}
    for row, index in enumerate(indices):
        uri = Address(seed, split, index, drawing).uri
        pixels[row], segments = render_with_segments(uri)
        generator = np.random.default_rng([seed, index])
        if generator.random() < grounds:
            pixels[row] = _regrounded(pixels[row], segments, generator)
        for kind, values in cell_labels(uri, GRID).items():
            labels[kind][row] = values
    return Cells(torch.from_numpy(pixels), {kind: torch.from_numpy(values) for kind, values in labels.items()})


def _regrounded(pixels: np.ndarray, segments: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    factors = generator.uniform(0.25, 1.0) * generator.uniform(0.85, 1.15, 3)
    ground = np.clip(pixels * factors, 0, 255).astype(np.uint8)
    return np.where(segments[:, :, None] < 0, ground, pixels)


def cell_loss(
    scores: dict[str, Float[Tensor, "items classes rows columns"]], labels: dict[str, Int[Tensor, "items rows columns"]]
) -> Float[Tensor, ""]:
    """Sum over the kinds of label of the mean cross-entropy over cells, with a weight of a quarter for empty cells."""
    total = torch.zeros(())
    for kind, score in scores.items():
        weight = torch.ones(score.shape[1])
        weight[0] = 0.25  # nearly three cells in four are empty, and easy
        total = total + F.cross_entropy(score, labels[kind], weight=weight)
    return total


def pretrain(config: PretrainingConfig, progress: Callable[[int, str], None] = lambda count, text: None) -> CellReader:
    """Train in this process; `progress(scenes, text)` is called after every step. Deterministic on a CPU."""
    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
    model = CellReader().to(memory_format=torch.channels_last)
    steps = config.images // config.batch * config.rounds
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=config.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.lr, total_steps=steps, pct_start=0.2)
    for number in range(config.rounds):
        indices = range(number * config.images, (number + 1) * config.images)
        data = draw_cells(config.seed, "pretrain", indices, grounds=config.grounds)
        for start in range(0, config.images - config.batch + 1, config.batch):
            rows = slice(start, start + config.batch)
            loss = cell_loss(model(data.pixels[rows]), {kind: labels[rows] for kind, labels in data.labels.items()})
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            progress(config.batch, f"round {number + 1}, loss {loss.item():.3f}")
    return model.eval()


@torch.inference_mode()
def accuracies(model: CellReader, cells: Cells) -> dict[str, float]:
    """Share of cells with an object whose label is predicted correctly, by kind; `empty` is for cells without one."""
    correct: dict[str, list[Tensor]] = {kind: [] for kind in (*CELL_LABELS, "empty")}
    for start in range(0, len(cells), 128):
        part = slice(start, start + 128)
        for kind, score in model(cells.pixels[part]).items():
            truth = cells.labels[kind][part]
            right = score.argmax(1) == truth
            correct[kind].append(right[truth > 0])
            if kind == "noun":
                correct["empty"].append(right[truth == 0])
    return {kind: torch.cat(parts).double().mean().item() for kind, parts in correct.items()}


def report(model: CellReader, count: int = 500) -> dict[str, dict[str, float]]:
    """Accuracies on scenes never trained on: unbiased, biased, bias-breaking, and in the other drawing."""
    where = {
        "pretrain": ("pretrain", "plain"),
        "test": ("test", "plain"),
        "shifted": ("shifted", "plain"),
        "second_drawing": ("test", "second"),
    }
    return {
        name: {
            kind: round(v, 4)
            for kind, v in accuracies(model, draw_cells(EVALUATION_SEED, split, range(count), drawing)).items()
        }
        for name, (split, drawing) in where.items()
    }


def shipped_state(model: CellReader) -> dict[str, Tensor]:
    """What is written: convolutions with normalisation folded in, in half precision."""
    return {name: value.half().contiguous() for name, value in fold(model.layers).items()}
