"""How concrete words are: files of scores, the learned score of Turney et al., and one computed from WordNet.

Scales differ, so a threshold is a share of a source's words: 0.6 on the scale that VSE-C published keeps the 7,939 most
concrete of 75,625 words, 10.5 per cent (Shi et al., COLING 2018, section 3.2; counted in the published list).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vse.errors import InputError
from vse.storage.user_files import local, refuse_placeholder
from vse.text.lexicon.lexicon import Lexicon
from vse.text.lexicon.wordnet import NOUN, read_sense_counts, read_wordnet, single_words

PUBLISHED_SHARE = 7939 / 75625
_PRIOR = 3.0  # unseen uses that name nothing physical

# Seeds chosen by us in the manner of the paper: plainly visible things, and plainly nothing to see.
CONCRETE_SEEDS = (
    *["dog", "horse", "table", "chair", "bread", "apple", "shirt", "hat", "boat", "truck"],
    *["brick", "spoon", "bottle", "tree", "flower", "stone", "fence", "bridge", "bird", "knife"],
)
ABSTRACT_SEEDS = (
    *["idea", "truth", "theory", "belief", "sense", "purpose", "reason", "hope", "logic", "virtue"],
    *["concept", "justice", "freedom", "doubt", "essence", "attitude", "opinion", "principle", "spirit", "ideal"],
)


@dataclass(frozen=True)
class Concreteness:
    """Scores of words in lower case, the higher the more concrete, and the threshold above which a word counts."""

    scores: Mapping[str, float]
    threshold: float
    source: str

    def is_concrete(self, word: str) -> bool:
        """Whether a word reaches the threshold; words without a score do not."""
        return self.scores.get(word.lower(), -math.inf) >= self.threshold

    @property
    def share(self) -> float:
        """Share of the words that reach the threshold: more than the requested share if scores tie."""
        return sum(score >= self.threshold for score in self.scores.values()) / max(len(self.scores), 1)

    @classmethod
    def calibrated(
        cls, scores: Mapping[str, float], source: str, share: float = PUBLISHED_SHARE, threshold: float | None = None
    ) -> "Concreteness":
        """Scores with a threshold, given or computed from a share.

        Args:
            scores: word in lower case -> score, the higher the more concrete.
            source: where they come from, for errors and fingerprints.
            share: share of the words that reach the threshold, in (0, 1]; words that tie with the last one do as well.
            threshold: used instead of one by share.

        Raises:
            InputError: there are no scores, or the share is out of range.
        """
        if not scores:
            raise InputError(f"{source}: holds no scores of words")
        if not 0 < share <= 1:
            raise InputError(f"concreteness share={share}: must be above 0 and at most 1")
        return cls(scores, quantile_threshold(scores.values(), share) if threshold is None else threshold, source)


def quantile_threshold(scores: Iterable[float], share: float) -> float:
    """The largest score that at least `share` of the scores reach."""
    ordered = np.sort(np.fromiter(scores, dtype=np.float64))[::-1]
    return float(ordered[max(1, math.ceil(share * len(ordered) - 1e-9)) - 1])


def read_scores(path: str) -> dict[str, float]:
    """Scores from lines `word<TAB>score`, in lower case; of a word named twice the first counts.

    Raises InputError naming file and line.
    """
    refuse_placeholder(path)
    try:
        lines = local(path).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as text ({error})") from None
    scores: dict[str, float] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        word, tab, value = line.partition("\t")
        try:
            score = float(value)
            if not tab or not math.isfinite(score):
                raise ValueError("not word<TAB>score")
        except ValueError:
            raise InputError(f"{path}, line {number}: expected word<TAB>score, found {line[:40]!r}") from None
        scores.setdefault(word.strip().lower(), score)
    return scores


def save_scores(path: Path, scores: Mapping[str, float]) -> None:
    """Lines `word<TAB>score`, the most concrete first, as `read_scores` reads them; ties in alphabetical order.

    Scores keep six digits behind the point. Raises InputError if the file cannot be written.
    """
    lines = (f"{word}\t{scores[word]:.6f}\n" for word in sorted(scores, key=lambda word: (-scores[word], word)))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def wordnet_scores(directory: str) -> dict[str, float]:
    """P / (P + A + 3) for every single-word lemma of a database: how surely its uses as a noun name a thing.

    P counts uses in WordNet's tagged texts of senses below *physical entity*, A those of other senses (*abstraction*);
    the first sense has one use more, so that words never seen there count too. Words that are no nouns score 0. Unseen
    nouns whose first sense is physical tie at 1/4.
    """
    return scores_of(read_wordnet(directory), directory, single_words(directory))


def scores_of(lexicon: Lexicon, directory: str, words: Iterable[str]) -> dict[str, float]:
    """The score of `wordnet_scores` for some words.

    Args:
        lexicon: the senses of the words and what they lie below.
        directory: of a WordNet database, with the counts of senses in tagged texts.
        words: distinct or not.

    Returns:
        By word, in sorted order; 0 for words that are no nouns.
    """
    counts = read_sense_counts(directory)
    scores = {}
    for word in sorted(set(words)):
        uses, physical, total = counts.get(word, {}).get(NOUN, {}), 0.0, 0.0
        senses = lexicon.tables()[0].get(word, ())
        for number, synset in enumerate(senses, 1):
            weight = uses.get(number, 0) + (number == 1)
            total += weight
            physical += weight * _below(lexicon, synset, "physical_entity")
        scores[word] = round(physical / (total + _PRIOR), 6)
    return scores


def _below(lexicon: Lexicon, synset: int, kind: str) -> bool:
    anchor = lexicon.synsets(kind)[0]
    return synset == anchor or anchor in lexicon.hypernyms(synset)


def learned_scores(
    vectors: Mapping[str, np.ndarray],
    concrete: Iterable[str] = CONCRETE_SEEDS,
    abstract: Iterable[str] = ABSTRACT_SEEDS,
) -> dict[str, float]:
    """Sum of cosines with concrete seed words minus the sum with abstract ones (Turney et al., EMNLP 2011, section 3).

    Args:
        vectors: by word, of one length; a zero vector scores 0.
        concrete: seed words. Seeds without a vector are ignored.
        abstract: likewise.

    Returns:
        A score for every word of `vectors`, in their order.

    Raises:
        InputError: no seed of one side has a vector.
    """
    names = list(vectors)
    matrix = np.stack([np.asarray(vectors[name], dtype=np.float64) for name in names]) if names else np.zeros((0, 1))
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit = matrix / np.where(norms > 0, norms, 1.0)
    row = {name: k for k, name in enumerate(names)}
    sides = []
    for side, seeds in (("concrete", concrete), ("abstract", abstract)):
        rows = [row[seed] for seed in dict.fromkeys(seeds) if seed in row]
        if not rows:
            raise InputError(f"learned concreteness: no {side} seed word has a vector")
        sides.append(unit[rows].sum(0))
    return dict(zip(names, (unit @ (sides[0] - sides[1])).tolist(), strict=True))


def agreement(one: Concreteness, other: Concreteness, words: Iterable[str] | None = None) -> dict[str, float]:
    """How two sources agree on the words that both score.

    Args:
        one: the first source.
        other: the second source.
        words: compare only these; None: all.

    Returns:
        words: how many; spearman: rank correlation; same: share with the same verdict; kappa: Cohen's, beyond chance;
        only_first and only_second: shares that one alone calls concrete. NaN if it is not defined.
    """
    from scipy.stats import rankdata

    shared = set(one.scores) & set(other.scores)
    names = sorted(shared if words is None else shared & {word.lower() for word in words})
    if not names:
        return {"words": 0.0, **dict.fromkeys(("spearman", "same", "kappa", "only_first", "only_second"), math.nan)}
    first, second = (np.array([each.is_concrete(name) for name in names]) for each in (one, other))
    same = float((first == second).mean())
    chance = float(first.mean() * second.mean() + (1 - first.mean()) * (1 - second.mean()))
    ranks = np.stack([rankdata([each.scores[name] for name in names]) for each in (one, other)])
    varied = bool((ranks.std(1) > 0).all())
    return {
        "words": float(len(names)),
        "spearman": float(np.corrcoef(ranks)[0, 1]) if varied else math.nan,
        "same": same,
        "kappa": (same - chance) / (1 - chance) if chance < 1 else math.nan,
        "only_first": float((first & ~second).mean()),
        "only_second": float((second & ~first).mean()),
    }
