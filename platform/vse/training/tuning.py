"""A backbone in training: its features with a gradient, all at once or in chunks, and its share of an update."""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn

from vse.determinism import repeatable
from vse.features.backbone import Network
from vse.features.tuned_backbone import FILE, fill
from vse.training.adapters import adapter_state, is_adapter, load_adapters, merged_state
from vse.training.batches import Batch
from vse.training.collectives import world
from vse.training.pixels import PIXEL_ROW, PIXELS

ADAPTERS = "adapters.safetensors"  # in a checkpoint


class Tuner:
    """Puts the features of a trained network into batches, and takes the gradient of these features back to it.

    The step is cut at the features. The family, its losses and what workers exchange see a whole batch of features, as
    with a frozen backbone; then the gradient of the features goes through the network. With `chunk`, the network first
    computes features without a graph, and computes them again, `chunk` images at a time with a graph, when their
    gradient is known (Gao et al., 2021, "GradCache"). Memory then holds the activations of one chunk, and the gradient
    equals the gradient of the whole batch. Random numbers of the first pass are drawn again in the second.

    Args:
        network: prepared, on the device of training.
        output: which of its features the family reads.
        rate: learning rate of its parameters as a share of the family's.
        frozen_statistics: keep it in evaluation mode, so that batch norm keeps its statistics and nothing is dropped.
        chunk: images that pass it at a time; 0: all of a batch.
    """

    def __init__(
        self, network: Network, output: str, rate: float = 1.0, frozen_statistics: bool = True, chunk: int = 0
    ) -> None:
        self.network, self.output, self.rate = network, output, rate
        self.frozen_statistics, self.chunk = frozen_statistics, chunk
        self.pending: list[_Pending] = []
        self._features: Tensor | None = None
        self.adapted = bool(adapter_state(network))  # then only the adapters are trained
        for name, parameter in network.trunk.named_parameters():
            parameter.requires_grad_(not self.adapted or is_adapter(name))
        self.parameters = tuple(p for p in network.parameters() if p.requires_grad)

    def files(self) -> dict[str, dict[str, Tensor]]:
        """Weights by file of a checkpoint; the file of the network, which other code reads, has the adapters added."""
        if not self.adapted:
            return {FILE: self.network.state_dict()}
        return {FILE: merged_state(self.network), ADAPTERS: adapter_state(self.network)}

    def restore(self, read: Callable[[str], Mapping[str, Tensor]], where: str) -> None:
        """Set what is trained from the files of a checkpoint. Raises InputError if they do not fit."""
        if self.adapted:
            load_adapters(self.network, read(ADAPTERS), f"{where}/{ADAPTERS}")
        else:
            fill(self.network, read(FILE), f"{where}/{FILE}")

    def train(self, mode: bool = True) -> None:
        """Training or evaluation mode of the network."""
        self.network.train(mode and not self.frozen_statistics)

    def shown(self, batch: Mapping[str, Tensor], learns: bool = True) -> Batch:
        """The batch with features in place of pixels, one row per caption. `learns`: whether `backward` follows."""
        pixels, rows = batch[PIXELS], batch[PIXEL_ROW]
        parts = pixels.split(self.chunk) if self.chunk else (pixels,)
        graph = learns and len(parts) == 1
        self.pending, done = [], []
        for part in parts:
            state = _RandomState(part.device) if learns and not graph and self.network.training else None
            with torch.set_grad_enabled(graph):
                features = self.network.differentiable(part)[self.output]
            self.pending.append(_Pending(part, state, features if graph else None))
            done.append(features.detach())
        self._features = torch.cat(done).requires_grad_(learns)
        others = {name: value for name, value in batch.items() if name not in (PIXELS, PIXEL_ROW)}
        return others | {self.output: self._features.index_select(0, rows)}

    def backward(self, computing: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        """Add the gradient of the features of the last `shown` to the network's parameters, averaged over workers.

        Call it after the backward pass of the losses. `computing`: the context of `shown`, such as autocast.
        """
        assert self._features is not None, "backward follows shown"
        gradient, device = self._features.grad, self._features.device
        assert gradient is not None, "the losses depend on the images"
        for part, wanted in zip(self.pending, gradient.split([len(p.pixels) for p in self.pending]), strict=True):
            features = part.features
            if features is None:
                with part.replayed(), computing():
                    features = self.network.differentiable(part.pixels)[self.output]
            with repeatable(device):
                features.backward(wanted)
        self.pending, self._features = [], None
        self._average()

    def _average(self) -> None:
        """Gradients of the mean over workers, as DDP gives them for the family."""
        workers = world()[1]
        if workers == 1:
            return
        gradients = [p.grad for p in self.parameters if p.grad is not None]  # others are not used, on any worker
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat)
        for gradient, mean in zip(gradients, (flat / workers).split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(mean.view_as(gradient))

    @torch.inference_mode()
    def features(self, pixels: Tensor) -> Tensor:
        """Features of pixels for validation."""
        return self.network(pixels)[self.output]


class _Pending:
    """Images of a step whose gradient is still to come: their features with a graph, or what makes these again."""

    def __init__(self, pixels: Tensor, state: "_RandomState | None", features: Tensor | None) -> None:
        self.pixels, self.state, self.features = pixels, state, features

    @contextmanager
    def replayed(self) -> Generator[None]:
        """Random numbers as in the first pass; those of the caller go on afterwards as if nothing was drawn."""
        if self.state is None:
            yield
            return
        now = _RandomState(self.pixels.device)
        self.state.restore()
        try:
            yield
        finally:
            now.restore()


class _RandomState:
    """torch's generators of the host and of a device."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.host = device, torch.get_rng_state()
        self.there = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def restore(self) -> None:
        """Set the generators to what they were."""
        torch.set_rng_state(self.host)
        if self.there is not None:
            torch.cuda.set_rng_state(self.there, self.device)


def has_batch_norm(module: nn.Module) -> bool:
    """Whether a network computes statistics over a batch in training."""
    return any(isinstance(each, nn.modules.batchnorm._BatchNorm) for each in module.modules())
