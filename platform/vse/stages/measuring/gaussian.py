"""How far the codes of a trained run are from the prior that its training pulls them to, before and after training."""

from vse.errors import InputError
from vse.evaluation.gaussianity import KeepsCodes, gaussian_numbers
from vse.models.family import Family
from vse.stages.measuring.members import Member
from vse.stages.train_worker import build_family
from vse.training.inputs import split_examples, training_inputs


def measure_gaussian(member: Member, split: str) -> dict[str, float]:
    """`{split}/gaussian_images/...` and `..._captions/...`: how far un-normalised codes are from N(0, I), and how well
    discriminators tell them apart, one half where they cannot (`vse.evaluation.gaussianity`); the same of the
    configuration's initial weights with `before/` in front of the name, its discriminator being untrained too."""
    trained, material = member.trained, member.material
    if not isinstance(trained.family, KeepsCodes):
        raise InputError("measure.gaussian: this family has only unit vectors; jWAE has other codes")
    part = material.records.split(split)
    if len(part.images) < 4:
        raise InputError(f"measure.gaussian: split {split} has {len(part.images)} images; statistics need more")
    examples = split_examples(material, part, trained.family.inputs, trained.vocabulary)
    found: dict[str, float] = {}
    for when, family in (("", trained.family), ("before/", _initial(member))):
        for key, value in gaussian_numbers(family, examples).items():
            side, _, name = key.partition("/")
            found[f"{split}/gaussian_{side}/{when}{name}"] = value
    return found


def _initial(member: Member) -> Family:
    """The family as the run's training began, where its trained parameters are."""
    trained = member.trained
    family = build_family(trained.config, training_inputs(trained.config, member.material, trained.family.inputs))
    return family.to(next(trained.family.parameters()).device).eval()
