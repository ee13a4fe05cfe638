"""Images and captions that a trained run is applied to: a split of its data set, or a folder of pictures."""

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from vse import registry
from vse.data.image_files import picture_files
from vse.data.records import Records, Split
from vse.display.progress import Progress
from vse.errors import InputError, by_reason
from vse.features.store import StoredFeatures
from vse.inference.embedder import Embedder
from vse.stages.describe import describe, without
from vse.stages.extract import stored_features
from vse.stages.parse import parse_dataset
from vse.storage import user_files as named_files
from vse.text.corpus import Language
from vse.training.config import RunConfig, family_inputs
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class SplitData:
    """A split of a run's data set with its features."""

    config: RunConfig
    workspace: Workspace
    described: Records
    records: Records  # without the images that have no features
    part: Split
    features: StoredFeatures
    root: str
    output: str

    @classmethod
    def of(
        cls,
        embedder: Embedder,
        workspace: Workspace,
        split: str,
        check: Callable[[Records, str], object] | None = None,
    ) -> "SplitData":
        """The split, with features from the workspace, or extracted if it has none.

        Args:
            embedder: with the run.
            workspace: of the run.
            split: name of a split.
            check: called with all records and the folder of the images before anything is extracted.

        Raises:
            InputError: the data set has no such split, or what `check` and the stages raise.
        """
        config, output = embedder.trained.config, embedder.trained.family.inputs.image
        described, root = describe(config, workspace), registry.build("source", config.data).image_root
        described.split(split)  # raises for an unknown split before anything is extracted
        if check:
            check(described, root)
        features = stored_features(config, workspace, described, (output,))
        records = without(described, set(features.store.rejects))
        return cls(config, workspace, described, records, records.split(split), features, root, output)

    @property
    def fingerprints(self) -> dict[str, str]:
        return {"records": self.records.fingerprint, "features": self.features.store.fingerprint}

    @property
    def name(self) -> str:
        return f"split {self.part.name} of {self.records.name}"

    def array(self, first: int = 0, end: int | None = None) -> np.ndarray:
        """The features of the split's images, or of those from `first` to before `end`, (images, ...)."""
        return self.features.array(self.output, tuple(image.id for image in self.part.images[first:end]))

    def parses(self) -> Language | None:
        """Components of all captions of the data set; None if the family reads none."""
        reads = family_inputs(self.config).components
        return parse_dataset(self.config, self.workspace, self.described) if reads else None


def expanded(images: str) -> str:
    """The file or folder that a key names: an address as it is, or a path with the home folder in place of `~`."""
    return images if named_files.is_remote(images) else os.path.expanduser(images)


class FolderPictures:
    """The pictures of a folder named by `images`, at any depth. Unreadable pictures are left out.

    Attributes:
        root: the folder, of which `files` are relative paths.
        rejects: path and reason of pictures that cannot be read, once `features` is used up.

    Raises:
        InputError: there is no such folder, or no picture file in it.
    """

    def __init__(self, embedder: Embedder, images: str) -> None:
        self.embedder, self.images, self.root = embedder, images, expanded(images)
        self.files, others = picture_files(self.root, "images")
        if others:
            log.warning("%s", others)
        self.rejects = dict[str, str]()

    @property
    def readable(self) -> list[str]:
        """The files that are not rejected."""
        return [file for file in self.files if file not in self.rejects]

    def features(self, label: str) -> Iterator[np.ndarray]:
        """Features of the readable pictures in batches (pictures, ...), with a progress bar of this label."""
        done, total, numbers = 0, len(self.files), dict[int, str]()
        with Progress(label, total=total, unit="pictures") as bar:
            for batch in self.embedder.features(self.files, self.root, numbers):
                yield batch
                done += len(batch)
                bar.advance(done + len(numbers) - bar.done)
            bar.advance(total - bar.done)
        self.rejects.update((self.files[number], reason) for number, reason in numbers.items())

    def report_rejects(self) -> None:
        """Log all rejects in one line. Raises InputError if no picture is left."""
        if not self.rejects:
            return
        file, reason = next(iter(self.rejects.items()))
        summary, total = by_reason(self.rejects.values()), len(self.files)
        if len(self.rejects) == total:
            raise InputError(
                f"images={self.images}: none of {total} pictures can be read ({summary}); for one, {file}: {reason}"
            )
        log.warning(
            "images=%s: %d of %d left out (%s); for one, %s", self.images, len(self.rejects), total, summary, file
        )
