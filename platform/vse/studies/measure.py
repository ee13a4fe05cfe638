"""Measures a trained arm: retrieval per image on every split, under attack, and on the test splits of other data.

If a model scores each pair by itself, adversaries among all images are most of the work: SCAN on scenes would take
eleven minutes for them after three of training. For such models, VSE-C's adversaries are scored with their own image
only, and only the first split is attacked.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vse.adversaries.attacks import contrast_classes
from vse.adversaries.univse.generate import WORDS
from vse.config import override
from vse.evaluation.alpha import evaluate_alphas
from vse.evaluation.attacks import Attacked, AttackSet, attack, own_scores, pair_wins
from vse.evaluation.codes import Codes
from vse.evaluation.metrics import Retrieval, RetrievalCounter, by_image
from vse.evaluation.per_image import own_pools, per_image
from vse.evaluation.retrieval import count_retrieval, retrieve
from vse.evaluation.tasks.own_pools import own_pool_ranks
from vse.models.family import Family
from vse.stages import pipeline
from vse.stages.attack import attack_split, contrast_split, first_of_each
from vse.stages.trained import Trained, encode_adversaries, encode_split
from vse.studies.tables import Key, Tables, alpha_key
from vse.studies.trainings import Training
from vse.training.inputs import Material
from vse.workspace.layout import Workspace

Scored = Mapping[str, tuple[Retrieval, Mapping[str, Attacked]]]
"""`alpha_key` -> plain retrieval, and retrieval under each attack."""


class _Subject(NamedTuple):
    """A trained model and the data that it was trained on."""

    training: Training
    workspace: Workspace
    trained: Trained
    material: Material

    @property
    def pairwise(self) -> bool:
        """Whether the model scores every pair by itself."""
        return bool(self.trained.family.pairwise)


def measure(training: Training, workspace: Workspace, trained: Trained) -> tuple[Tables, dict[str, dict[str, float]]]:
    """Measure a trained arm: validation over its values of α, its splits with their attacks, and its transfers.

    Args:
        training: What is measured of the arm.
        workspace: Where adversaries and parses are kept; missing ones are made.
        trained: The model.

    Returns:
        Per-image tables, and validation metrics by `alpha_key` (empty for families without an α).
    """
    subject = _Subject(training, workspace, trained, pipeline.prepare(trained.config, workspace, parsed=True))
    curves = _validation(subject) if training.alphas else {}
    tables: Tables = {}
    for split in training.splits:
        tables |= _split(subject, split)
    for name, changes in training.transfers:
        tables |= _transfer(subject, name, dict(changes))
    return tables, curves


def _validation(subject: _Subject) -> dict[str, dict[str, float]]:
    """Metrics of the validation split by `alpha_key`, under attack with words of the first kind; they choose alpha."""
    training, family, codes = (
        subject.training,
        subject.trained.family,
        encode_split(subject.trained, subject.material, "val"),
    )
    sets: dict[str, AttackSet] = {}
    if not subject.pairwise:
        drawn = attack_split(training.config, subject.workspace, subject.material, "val", WORDS[0])
        sets = encode_adversaries(subject.trained, drawn, subject.material)
    caption_to_image = codes.caption_to_image.cpu().numpy()
    points = evaluate_alphas(family, codes.images, codes.captions, caption_to_image, sets, training.alphas)
    return {alpha_key(p.alpha): {f"val/{name}": value for name, value in p.metrics().items()} for p in points}


def _split(subject: _Subject, split: str) -> Tables:
    """Retrieval and attacks of a split, with both kinds of words."""
    training, family, codes = (
        subject.training,
        subject.trained.family,
        encode_split(subject.trained, subject.material, split),
    )
    caption_to_image, tables = codes.caption_to_image.cpu().numpy(), Tables()
    counter = None if training.alphas else count_retrieval(family, codes.images, codes.captions, caption_to_image)
    for words in WORDS:
        sets, contrast = _adversaries(subject, split, words)
        named = {f"contrast_{name}": each for name, each in contrast.items()}
        if not subject.pairwise:
            sets |= named
        if counter is None:
            points = evaluate_alphas(family, codes.images, codes.captions, caption_to_image, sets, training.alphas)
            scored: Scored = {alpha_key(p.alpha): (p.retrieval, p.attacks) for p in points}
        else:
            attacks = {name: attack(family, codes.images, counter, each)[0] for name, each in sets.items()}
            scored = {alpha_key(None): (counter.result(), attacks)}
            if subject.pairwise:
                tables |= _own_pairs(split, words, family, codes, counter, named)
        tables |= _tables(split, words, scored, codes)
        if contrast:
            tables |= _own_pools(split, words, family, codes, contrast, training.alphas)
    return tables


def _adversaries(subject: _Subject, split: str, words: str) -> tuple[dict[str, AttackSet], dict[str, AttackSet]]:
    """(UniVSE's by attack, VSE-C's by class) of a split, none if it is not attacked."""
    training, workspace, trained, material = subject
    if subject.pairwise and split != training.splits[0]:
        return {}, {}
    sets = encode_adversaries(trained, attack_split(training.config, workspace, material, split, words), material)
    if not training.contrast:
        return sets, {}
    drawn = contrast_split(training.config, workspace, material, split, words)
    first = first_of_each(drawn, tuple(contrast_classes()), training.contrast)
    return sets, encode_adversaries(trained, first, material)


def _transfer(subject: _Subject, name: str, changes: Mapping[str, Any]) -> Tables:
    """Retrieval on the test split of other data. Nothing is attacked there: the same under either kind of words."""
    training, workspace, trained, material = subject
    other = pipeline.prepare_transfer(override(trained.config, changes), workspace, material)
    codes = encode_split(trained, other, "test")
    if training.alphas:
        points = evaluate_alphas(
            trained.family, codes.images, codes.captions, codes.caption_to_image, {}, training.alphas
        )
        scored: Scored = {alpha_key(p.alpha): (p.retrieval, p.attacks) for p in points}
    else:
        scored = {alpha_key(None): (retrieve(trained.family, codes.images, codes.captions, codes.caption_to_image), {})}
    tables: Tables = {}
    for words in WORDS:
        tables |= _tables(name, words, scored, codes)
    return tables


def _tables(split: str, words: str, scored: Scored, codes: Codes) -> Tables:
    caption_to_image, num_images = codes.caption_to_image.cpu().numpy(), len(next(iter(codes.images.values())))
    return {
        Key(split, words, alpha, metric): value
        for alpha, (retrieval, attacked) in scored.items()
        for metric, value in per_image(retrieval, attacked, caption_to_image, num_images).items()
    }


def _own_pairs(
    split: str, words: str, family: Family, codes: Codes, counter: RetrievalCounter, sets: Mapping[str, AttackSet]
) -> Tables:
    """Share of adversaries that score lower with their own image than the caption they were made from."""
    num_images = len(next(iter(codes.images.values())))
    tables: Tables = {}
    for name, each in sets.items():
        own = own_scores(family, codes.images, counter.caption_to_image, each)
        wins = pair_wins(counter.pairs[own.caption], own.scores, counter.ties).cpu().numpy()
        key = Key(split, words, alpha_key(None), f"attack_{name}/pair_accuracy")
        tables[key] = by_image(wins, own.image.cpu().numpy(), num_images)
    return tables


def _own_pools(
    split: str, words: str, family: Family, codes: Codes, sets: Mapping[str, AttackSet], alphas: Sequence[float]
) -> Tables:
    caption_to_image, num_images = codes.caption_to_image.cpu().numpy(), len(next(iter(codes.images.values())))
    tables: Tables = {}
    for alpha in alphas or (None,):
        settings = None if alpha is None else {"alpha": alpha}
        counter = count_retrieval(family, codes.images, codes.captions, caption_to_image, settings=settings)
        scored = {
            name: own_scores(family, codes.images, counter.caption_to_image, each, settings=settings)
            for name, each in sets.items()
        }
        pools = own_pool_ranks(counter, scored, sets)
        own = own_pools({name: pools[name] for name in sets}, num_images)
        tables |= {Key(split, words, alpha_key(alpha), metric): value for metric, value in own.items()}
    return tables
