"""What tasks share of a split: codes, folds and adversaries, of whatever process measures it."""

from collections.abc import Mapping

import torch

from vse.data.records import Split
from vse.evaluation.task import Context, Scope, Task
from vse.stages.attack import of_captions
from vse.stages.measuring.members import Members
from vse.stages.measuring.options import MeasureOptions, protocol_of
from vse.stages.measuring.plan import MeasurePlan


def context_of(plan: MeasurePlan, part: Split, here: Mapping[str, Task], members: Members) -> Context:
    """What tasks share of a split, or of the whole data set, which is in one fold.

    Args:
        plan: The measurement.
        part: The split; the whole data set has the name "".
        here: The tasks that are measured on it, by name. Only adversaries that they need are read.
        members: The runs of the plan, perhaps with a folder for probes and a function that counts scored pairs.
    """
    protocol = plan.protocols[part.name] if part.name else protocol_of("", MeasureOptions())
    whole = any(task.scope is Scope.SPLIT for task in here.values())
    context = Context(members, part, protocol, {}, whole, () if part.name else plan.training_images())
    wanted = {kind for task in here.values() for kind in task.adversaries}
    if wanted:
        rows = torch.cat([torch.from_numpy(fold.captions) for fold in context.folds]).numpy()
        context.known = {
            kind: members.attacks([of_captions(each, rows) for each in made])
            for kind, made in plan.adversaries[part.name].items()
            if kind in wanted
        }
    return context
