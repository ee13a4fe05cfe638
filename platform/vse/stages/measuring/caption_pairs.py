"""Caption pairs of files, such as SugarCrepe's, on a trained run: does the caption beat its negative on its image?"""

import logging
from collections.abc import Mapping, Sequence

from vse.adversaries.caption_pairs import CaptionPair, match_images
from vse.config import fingerprint
from vse.errors import InputError
from vse.evaluation.caption_pairs import evaluate_pairs
from vse.evaluation.codes import encode_captions, encode_images
from vse.evaluation.ensemble import joined
from vse.evaluation.retrieval import slice_items
from vse.models.family import Encoded
from vse.stages.measuring.members import Member, Members
from vse.stages.parse import language_fingerprint, parse_texts_to, parser_of
from vse.training.examples import encode_texts
from vse.workspace.layout import Workspace, dataset_name

log = logging.getLogger(__name__)

PAIRS_REVISION = 2  # 2: a file name that several images share is none of theirs


def match_pairs(
    pairs: Sequence[CaptionPair], images: Sequence[tuple[str, str]], data: str, files: Sequence[str]
) -> tuple[list[CaptionPair], Mapping[str, str], str]:
    """The pairs that are of images of a data set, the ids of these by file name, and what to warn of.

    Args:
        pairs: of all `files`.
        images: (id, uri) of each image.
        data: the name of the data set.
        files: as the user named them.

    Raises:
        InputError: no pair is of an image, or a category has the name of another metric.
    """
    matched = match_images(pairs, images)
    named = f"measure.pairs={','.join(files)}"
    unclear = [pair.filename for pair in pairs if pair.filename in matched.ambiguous]
    kept = [pair for pair in pairs if pair.filename in matched.ids]
    told = (
        f"{len(unclear)} of {len(pairs)} pairs give a name that several images share, such as {unclear[0]!r}; write an "
        f"image's id, or its path as {data} has it"
        if unclear
        else ""
    )
    if not kept:
        none = f"{named}: none of {len(pairs)} pairs is of an image of {data}"
        raise InputError(f"{none}; {told}" if told else none)
    if taken := {pair.category for pair in kept} & {"mean", "found"}:
        raise InputError(f"{named}: category {min(taken)!r} is the name of another metric; rename it")
    return kept, matched.ids, f"{named}: {told}" if told else ""


def measure_pairs(
    members: Members, workspace: Workspace, pairs: Sequence[CaptionPair], files: Sequence[str]
) -> dict[str, float]:
    """`pairs/<category>` in percent on images of the data set found by file name, and the share of pairs found."""
    records = members.each[0].material.records
    common = set.intersection(*({(i.id, i.uri) for i in m.material.records.images} for m in members.each))
    there = [(i.id, i.uri) for i in records.images if (i.id, i.uri) in common]
    kept, image, told = match_pairs(pairs, there, records.name, files)
    if told:
        log.warning("%s", told)
    ids = tuple(dict.fromkeys(image[pair.filename] for pair in kept))
    row = {found: k for k, found in enumerate(ids)}
    texts = [pair.caption for pair in kept] + [pair.negative for pair in kept]
    encoded = joined([_encode_pairs(member, workspace, texts) for member in members.each])
    images = joined(
        [
            encode_images(m.trained.family, m.material.features.array(m.trained.family.inputs.image, ids))
            for m in members.each
        ]
    )
    true, false = (slice_items(encoded, part) for part in (slice(0, len(kept)), slice(len(kept), None)))
    place = [row[image[pair.filename]] for pair in kept]
    found = evaluate_pairs(members.model, images, true, false, place, [pair.category for pair in kept])
    return {f"pairs/{name}": value for name, value in found.items()} | {"pairs/found": 100.0 * len(kept) / len(pairs)}


def _encode_pairs(member: Member, workspace: Workspace, texts: list[str]) -> Encoded:
    """Codes of captions that are no part of the data set, parsed where the family reads components."""
    trained, material = member.trained, member.material
    inputs, parses = trained.family.inputs, None
    if inputs.components:
        parser = parser_of(trained.config)
        digits = fingerprint(["pairs", language_fingerprint(parser), texts])
        whole = parse_texts_to(texts, parser, workspace.language(dataset_name(material.records), digits))
        parses = member.read(whole)
    sentences = material.sentences if inputs.sentence else None
    return encode_captions(trained.family, encode_texts(texts, trained.vocabulary, parses, sentences))
