"""The proposal stage: regions of every photograph of a data set, in shards, joined into one file.

Finished shards of an interrupted run are kept. The result is a file as `vse.data.proposal_files` describes it, which
`data=phrase_regions data.proposals=FILE` reads.
"""

import functools
import json
import logging
from collections.abc import Iterator, Sequence

import numpy as np

from vse import registry
from vse.cluster.runtime import Cluster
from vse.config import fingerprint, to_dict
from vse.data.images import UnreadableImage, open_image
from vse.data.phrases import phrases_of, upper_bound
from vse.data.places import AddressError
from vse.data.proposal_files import proposals_as_parquet, read_proposals
from vse.data.records import Records
from vse.data.source import Source
from vse.data.sources.phrase_regions import PhraseRegions
from vse.display.progress import Progress
from vse.features.proposing import REVISION, ProposalConfig, propose
from vse.stages.shards import run_shards
from vse.storage import user_files
from vse.storage.files import sha256_of
from vse.storage.folder import Folder
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace, dataset_name

log = logging.getLogger(__name__)

FILE = "proposals.parquet"
SHARD_IMAGES = 32
WORTH_A_PROCESS, WORTH_RAY = 64, 2000  # photographs
COUNTS = (100, 200, 500)  # proposals of which the upper bound is told


def photographs(config: RunConfig) -> Source:
    """The source of the photographs: of a data set of their regions, the one that it is made of."""
    data = config.data
    return registry.build("source", data.of if isinstance(data, PhraseRegions.Config) else data)


def proposals_folder(records: Records, config: ProposalConfig, workspace: Workspace) -> Folder:
    """proposals/<dataset>/<fingerprint>: named by the photographs and all settings of the boxes.

    Args:
        records: the photographs.
        config: how regions are proposed; a file of a model counts by its content.
        workspace: where proposals are kept.
    """
    model = user_files.digest(config.model) if config.model else ""
    digits = fingerprint([REVISION, records.content_fingerprint, {**to_dict(config), "model": model}])
    return workspace.proposals(dataset_name(records), digits)


def propose_regions(
    records: Records,
    root: str,
    config: ProposalConfig,
    workspace: Workspace,
    *,
    num_workers: int | None = None,
    cluster: Cluster | None = None,
) -> Folder:
    """The folder with the file of proposals, made as far as it is missing.

    Args:
        records: The photographs.
        root: Their folder.
        config: Method and number.
        workspace: Where the file is kept.
        num_workers: Processes or Ray actors; by default as many as cores, at most four.
        cluster: Gives a running Ray, for many photographs.

    Raises:
        InputError: OpenCV or a model is missing.
    """
    folder = proposals_folder(records, config.check(), workspace)
    with folder.locked():
        if folder.exists(FILE):
            return folder
        folder.check_writable()
        rows = [json.dumps([image.id, image.uri]) for image in records.images]
        shards = [rows[start : start + SHARD_IMAGES] for start in range(0, len(rows), SHARD_IMAGES)]
        missing = _missing(shards, folder)
        with Progress("propose regions", total=sum(map(len, missing)), unit="images") as bar:
            for count in run_shards(
                functools.partial(propose_shard, config=config, root=root, folder=folder),
                missing,
                [len(shard) for shard in missing],
                functools.partial(_missing, folder=folder),
                num_workers=num_workers,
                cluster=cluster,
                worth_a_process=WORTH_A_PROCESS,
                worth_ray=WORTH_RAY,
            ):
                bar.advance(count)
        joined = dict[str, np.ndarray]()
        for shard in shards:
            joined |= read_proposals(folder.address(_name(shard)))
        folder.write_bytes(FILE, proposals_as_parquet(joined))
    return folder


def propose_shard(shard: Sequence[str], config: ProposalConfig, root: str, folder: Folder) -> int:
    """Propose and write the regions of one shard; returns its number of photographs.

    Args:
        shard: Id and address of each photograph, as JSON.
        config: Method and number.
        root: Folder of the photographs.
        folder: Where the shard is written.
    """
    boxes = dict[str, np.ndarray]()
    for image, uri in map(json.loads, shard):
        try:
            boxes[image] = propose(open_image(uri, root), config)
        except (UnreadableImage, AddressError) as error:
            log.warning("no proposals of %s: %s", image, error)
    folder.write_bytes(_name(shard), proposals_as_parquet(boxes))
    return len(shard)


def _name(shard: Sequence[str]) -> str:
    return f"shard-{sha256_of(chr(10).join(shard).encode())[:16]}.parquet"


def _missing(shards: Sequence[list[str]], folder: Folder) -> list[list[str]]:
    there = set(folder.names())
    return [shard for shard in shards if _name(shard) not in there]


def upper_bounds(records: Records, file: str) -> Iterator[tuple[str, int, int, int]]:
    """(split, proposals, phrases with a proposal of IoU >= 0.5, phrases) of each split with boxes."""
    proposals = read_proposals(file)
    for split in records.split_names:
        ids = [image.id for image in records.images if image.split == split and image.id in records.boxes]
        phrases = {image: phrases_of(records.boxes[image]) for image in ids}
        for count in COUNTS if ids else ():
            yield (split, count, *upper_bound(phrases, proposals, count))
