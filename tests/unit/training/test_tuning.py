"""A backbone in the step: the gradient of one function of pixels, in chunks or at once, with its own rate."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.synthetic import make_family, make_objective, synthetic
from vse.features.backbone import Network, Normalisation
from vse.models.family import Phase
from vse.storage.folder import Folder
from vse.training.adapters import add_adapters
from vse.training.checkpoint import Checkpoints, Progress
from vse.training.config import OptimConfig
from vse.training.pixels import PIXEL_ROW, PIXELS
from vse.training.step import Stepper, make_optimizer, step_losses
from vse.training.tuning import Tuner, has_batch_norm

CHANNELS = 5  # of the synthetic features
CPU = torch.device("cpu")


class Trunk(nn.Module):
    """A convolution with batch norm and dropout; `pooled` is the mean of its `map`."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(3, CHANNELS, 3, 2), nn.BatchNorm2d(CHANNELS), nn.Dropout(dropout)
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        grid = self.drop(self.norm(self.conv(x)).tanh())
        return {"map": grid, "pooled": grid.mean((2, 3))}


def make_tuner(output: str, precision: str = "float64", dropout: float = 0.0, **settings) -> Tuner:
    torch.manual_seed(3)
    network = Network(Trunk(dropout), Normalisation((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))).prepare(CPU, precision)
    return Tuner(network, output, **settings)


def pixel_batch(name: str, captions: int = 11, **changes):
    """A family, its objective and a batch of captions with pixels of their images; images have several captions."""
    data = synthetic(seed=4, images=9)
    family, objective = make_family(name, data.context, **changes), make_objective(name)
    batch = data.collator(family, objective)(np.arange(captions), 2)
    images, places = batch["image_group"].unique(return_inverse=True)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (len(images), 1, 12, 12, 3), generator=generator, dtype=torch.uint8)
    batch.pop(family.inputs.image)
    return family, objective, {**batch, PIXELS: pixels, PIXEL_ROW: places}


def gradients_of(tuner: Tuner) -> dict[str, torch.Tensor]:
    return {n: p.grad.clone() for n, p in tuner.network.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", ["vsepp", "univse", "scan", "jwae"])
@pytest.mark.parametrize("chunk", [0, 1, 3])
def test_the_gradient_is_that_of_the_loss_as_one_function_of_pixels(name, chunk):
    family, objective, batch = pixel_batch(name)
    tuner = make_tuner(family.inputs.image, chunk=chunk)
    phase = family.phases()[0]
    total, losses = step_losses(family, objective, tuner.shown(batch), 2, phase.losses, phase.name)
    total.backward()
    tuner.backward()
    found, of_family = gradients_of(tuner), {n: p.grad for n, p in family.named_parameters() if p.grad is not None}

    reference = make_tuner(family.inputs.image)
    family.zero_grad()
    features = reference.network.differentiable(batch[PIXELS])[family.inputs.image]
    plain = {key: value for key, value in batch.items() if key not in (PIXELS, PIXEL_ROW)}
    plain[family.inputs.image] = features[batch[PIXEL_ROW]]
    expected, named = step_losses(family, objective, plain, 2, phase.losses, phase.name)
    expected.backward()
    torch.testing.assert_close(total, expected, rtol=1e-12, atol=1e-14)
    assert named.keys() == losses.keys()
    wanted = gradients_of(reference)
    assert (
        wanted.keys()
        == found.keys()
        == {"trunk.conv.weight", "trunk.conv.bias", "trunk.norm.weight", "trunk.norm.bias"}
    )
    for key, value in wanted.items():
        assert value.abs().max() > 1e-6
        torch.testing.assert_close(found[key], value, rtol=1e-9, atol=1e-13)
    for key, parameter in family.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(of_family[key], parameter.grad, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_chunks_in_single_precision_are_the_large_batch(chunk):
    found = []
    for size in (0, chunk):
        family, objective, batch = pixel_batch("vsepp", double=False)
        tuner = make_tuner(family.inputs.image, "float32", chunk=size)
        total, _ = step_losses(family, objective, tuner.shown(batch), 2)
        total.backward()
        tuner.backward()
        found.append({"total": total.detach(), **gradients_of(tuner)})
    for key, value in found[0].items():
        assert (found[1][key] - value).abs().max() <= 1e-6 * max(1.0, float(value.abs().max())), key


def test_what_is_dropped_in_the_first_pass_is_dropped_in_the_second():
    """The gradient is that of the features which the losses saw, and the caller's random numbers go on."""
    family, objective, batch = pixel_batch("vsepp")
    tuner = make_tuner(family.inputs.image, dropout=0.5, frozen_statistics=False, chunk=2)
    tuner.network.trunk.norm = nn.Identity()
    tuner.train()
    torch.manual_seed(8)
    total, _ = step_losses(family, objective, tuner.shown(batch), 2)
    total.backward()
    then = torch.get_rng_state()
    tuner.backward()
    assert torch.equal(then, torch.get_rng_state())
    found = gradients_of(tuner)

    reference = make_tuner(family.inputs.image, dropout=0.5, frozen_statistics=False)
    reference.network.trunk.norm = nn.Identity()
    reference.train()
    family.zero_grad()
    torch.manual_seed(8)
    parts = [reference.network.differentiable(part)[family.inputs.image] for part in batch[PIXELS].split(2)]
    assert not torch.equal(parts[0], tuner.network.eval().differentiable(batch[PIXELS][:2])[family.inputs.image])
    plain = {key: value for key, value in batch.items() if key not in (PIXELS, PIXEL_ROW)}
    expected, _ = step_losses(family, objective, {**plain, family.inputs.image: torch.cat(parts)[batch[PIXEL_ROW]]}, 2)
    expected.backward()
    torch.testing.assert_close(total, expected)
    for key, value in gradients_of(reference).items():
        torch.testing.assert_close(found[key], value, rtol=1e-9, atol=1e-13)


def test_a_chunked_step_keeps_no_graph_of_the_first_pass():
    family, _, batch = pixel_batch("vsepp")
    for chunk in (0, 2):
        tuner = make_tuner(family.inputs.image, chunk=chunk)
        tuner.shown(batch)
        assert [part.features is None for part in tuner.pending] == [bool(chunk)] * len(tuner.pending)
    assert sum(len(part.pixels) for part in tuner.pending) == len(batch[PIXELS])


def test_the_backbone_has_its_own_rate_and_no_decay_of_vectors():
    tuner, own = make_tuner("pooled", rate=0.2), nn.Parameter(torch.ones(2, 2))
    optim = OptimConfig(lr=0.1, weight_decay=0.5)
    rates = {}
    for group in make_optimizer(Phase("all", None, (own,), rate=0.5), optim, tuner).param_groups:
        rates |= {id(p): (group["lr"], group["weight_decay"]) for p in group["params"]}
    assert rates[id(own)] == (0.05, 0.5)
    conv, norm = (tuner.network.get_parameter(f"trunk.{name}.weight") for name in ("conv", "norm"))
    assert rates[id(conv)] == (pytest.approx(0.01), 0.5)
    assert rates[id(norm)] == (pytest.approx(0.01), 0.0)


@pytest.mark.parametrize("frozen", [True, False])
def test_statistics_move_only_if_they_are_trained(frozen):
    family, objective, batch = pixel_batch("vsepp")
    tuner = make_tuner(family.inputs.image, frozen_statistics=frozen)
    stepper = Stepper(family, family, objective, OptimConfig(lr=0.01), "float64", tuner)
    before = {name: value.clone() for name, value in tuner.network.state_dict().items()}
    tuner.train()
    for k in range(3):
        stepper.step(batch, 2, k)
    after = tuner.network.state_dict()
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    learned = {f"trunk.{name}" for name in ("conv.weight", "conv.bias", "norm.weight", "norm.bias")}
    statistics = {f"trunk.norm.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
    assert moved == (learned if frozen else learned | statistics)
    assert has_batch_norm(tuner.network)
    assert not has_batch_norm(nn.Linear(2, 2))


@pytest.mark.seconds
@pytest.mark.parametrize("name", ["vsepp", "jwae"])
def test_steps_learn_and_clip_both(name):
    family, objective, batch = pixel_batch(name)
    tuner = make_tuner(family.inputs.image, rate=1.0)
    stepper = Stepper(family, family, objective, OptimConfig(lr=0.01, clip=1e-3), "float64", tuner)
    losses = []
    for k in range(40):
        losses.append(float(stepper.step(batch, 2, k)["sent"]))
        parameters = [*family.phases()[0].parameters, *tuner.parameters]
        norm = torch.linalg.vector_norm(torch.stack([p.grad.norm() for p in parameters if p.grad is not None]))
        assert float(norm) <= 1e-3 * (1 + 1e-6)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("rank", [0, 2])
def test_a_run_goes_on_from_its_checkpoint_to_the_same_bits(tmp_path, rank):
    """All weights of a backbone, and low-rank adapters alone."""

    def fresh():
        family, objective, batch = pixel_batch("vsepp")
        tuner = make_tuner(family.inputs.image, frozen_statistics=bool(rank))
        if rank:
            tuner.network.trunk.drop = nn.Linear(5, 5).double()  # over the width of the map
            add_adapters(tuner.network, rank, 4.0, seed=1)
            tuner = Tuner(tuner.network.double(), family.inputs.image)
            assert len(tuner.parameters) == 2
        tuner.train()
        return family, Stepper(family, family, objective, OptimConfig(lr=0.01), "float64", tuner), tuner, batch

    family, stepper, tuner, batch = fresh()
    checkpoints = Checkpoints(Folder.open(tmp_path))
    for k in range(4):
        if k == 2:
            progress = Progress(epoch=0, step=2)
            checkpoints.save(progress, family, stepper.optimizers, stepper.scaler.state_dict(), tuner)
        stepper.step(batch, 2, k)
    other, again, copy, _ = fresh()
    chosen = checkpoints.chosen()
    assert checkpoints.restore(chosen, other, again.optimizers, again.scaler, copy).step == 2
    for k in (2, 3):
        again.step(batch, 2, k)
    for mine, theirs in ((family, other), (tuner.network, copy.network)):
        for key, value in mine.state_dict().items():
            assert torch.equal(value, theirs.state_dict()[key]), key
