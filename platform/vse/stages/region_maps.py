"""What is extracted if features of regions are pooled from maps of whole photographs (`data.regions=pooled`)."""

from vse import registry
from vse.data.records import Records
from vse.data.regions import sides_of
from vse.errors import InputError
from vse.features.arrays import ReadyMade
from vse.features.region_features import MAP
from vse.training.config import RunConfig


def photographs_and_maps(
    config: RunConfig, records: Records, outputs: tuple[str, ...]
) -> tuple[Records, tuple[str, ...]]:
    """The images that the backbone sees, and its outputs, in place of regions and theirs.

    Args:
        config: of the run.
        records: of the data.
        outputs: that are wanted of every image of the records.

    Raises:
        InputError: there is no map of the whole picture.
    """
    backbone = registry.build("backbone", config.features.backbone)
    if isinstance(backbone, ReadyMade):
        name = registry.name_of("backbone", config.features.backbone)
        raise InputError(f"data.regions=pooled: features.backbone={name} has no network; choose one that reads images")
    if backbone.transform.name != "scale":
        raise InputError(
            "data.regions=pooled: needs maps of whole pictures; use features.backbone.transform=scale or "
            "data.regions=cropped"
        )
    if other := next((name for name in outputs if name not in (MAP, "pooled")), None):
        raise InputError(f"data.regions=pooled: has one mean vector per region, no {other!r}; use model.image=pooled")
    photographs = tuple(image for image in records.images if sides_of(image.id) is None)
    return Records(records.name, photographs, (), records.source), (MAP,)
