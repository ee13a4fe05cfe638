"""Codes of a split made by a task of a cluster with a GPU, for a job whose own process has none."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from vse.data.records import Split
from vse.evaluation.codes import Codes
from vse.evaluation.work import Arrays, Work
from vse.stages.measuring.plan import MeasurePlan
from vse.stages.measuring.request import MeasureRequest, request_of
from vse.stages.measuring.work import computed, gpus_elsewhere


@dataclass(frozen=True, eq=False)
class EncodeWork(Work):
    """Codes of the first images of a split and their captions.

    Args:
        request: What is measured.
        split: Of the data.
        num_images: How many images.
    """

    request: MeasureRequest
    split: str
    num_images: int

    @cached_property
    def digits(self) -> str:
        return f"{self.request.digits}-{self.split}-{self.num_images}"

    def compute(self, number: int, device: torch.device) -> Arrays:
        plan = self.request.plan()
        for member in plan.members.each:
            member.trained.to(device)
        (part,) = (part for part in plan.parts if part.name == self.split)
        codes = plan.members.encode(part.first(self.num_images))
        sides = {"images": codes.images, "captions": codes.captions}
        named = {f"{side} {name}": value for side, items in sides.items() for name, value in items.items()}
        return {name: value.cpu().numpy() for name, value in named.items()}


def encoder_for(plan: MeasurePlan) -> Callable[[Split], Codes] | None:
    """Encodes splits on a GPU of the cluster; None if this process has one, is to use none, or the cluster has none."""
    if plan.options.device != "auto" or not gpus_elsewhere(plan.device):
        return None
    request = request_of(plan)

    def encode(part: Split) -> Codes:
        if not part.name:  # the whole data set is no split that a task could name
            return plan.members.encode(part)
        work = EncodeWork(request, part.name, len(part.images))
        workspace = request.workspace
        (arrays,) = computed([(work, 0)], plan.device, None, "encode splits", any_device=True, workspace=workspace)

        def side(name: str) -> dict[str, Tensor]:
            own = f"{name} "
            return {key.removeprefix(own): torch.tensor(value) for key, value in arrays.items() if key.startswith(own)}

        return Codes(side("images"), side("captions"), torch.from_numpy(part.caption_to_image))

    return encode
