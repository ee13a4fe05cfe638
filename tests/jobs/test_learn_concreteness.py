"""Learned concreteness as a user makes it: the file against loops over cosines, its agreement, what is refused."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from jsonschema import validate

from tests.jobs.processes import run_without_ray
from tests.unit.text.lexicon.database import write
from vse.text.lexicon.compact import knowledge
from vse.text.lexicon.concreteness import ABSTRACT_SEEDS, CONCRETE_SEEDS, read_scores
from vse.workspace.provenance import SCHEMA

pytestmark = pytest.mark.process

Found = dict[str, tuple[int | None, str, str]]
CAPTIONS = ["A dog on a bus", "a dog and a notion", "the kayak on a bus", "a whim and a notion", "zorp zorp"]
WORDS = ("dog", "bus", "notion", "kayak", "whim", "on", "a", "and", "the")  # zorp has no vector
RARE = ("kayak", "whim", "the")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors of words and most seeds, captions, another source that agrees in part, a WordNet of a few words."""
    folder = tmp_path_factory.mktemp("concreteness")
    rng = np.random.default_rng(0)
    names = [*dict.fromkeys((*WORDS, *CONCRETE_SEEDS[:-2], *ABSTRACT_SEEDS[3:]))]
    lines = [f"{name} {' '.join(f'{value:.4f}' for value in rng.normal(size=6))}" for name in names]
    (folder / "words.vec").write_text(f"{len(names)} 6\n" + "\n".join(lines) + "\n")
    (folder / "captions.txt").write_text("\n".join(CAPTIONS) + "\n")
    (folder / "rated.txt").write_text("dog\t3\nbus\t2\nnotion\t1\nelsewhere\t9\n")
    (folder / "torn.txt").write_text("dog 3\n")
    (folder / "wordnet").mkdir()
    write(folder / "wordnet")
    return folder


def by_hand(folder: Path, words: set[str]) -> dict[str, float]:
    rows = [line.split() for line in (folder / "words.vec").read_text().splitlines()[1:]]
    vectors = {row[0]: [float(value) for value in row[1:]] for row in rows}

    def cosine(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)

    return {
        word: sum(cosine(vectors[word], vectors[s]) for s in CONCRETE_SEEDS if s in vectors)
        - sum(cosine(vectors[word], vectors[s]) for s in ABSTRACT_SEEDS if s in vectors)
        for word in words & vectors.keys()
    }


WRONG = {
    "no vectors": (["captions=captions.txt"], "vectors: name a file of word vectors"),
    "no words": (["vectors=words.vec"], "captions, wordnet: name at least one of them"),
    "absent vectors": (["vectors=absent.vec", "captions=captions.txt"], "absent.vec: no such file of word vectors"),
    "no vectors inside": (["vectors=captions.txt", "captions=captions.txt"], "captions.txt: line 1: expected a word"),
    "absent captions": (["vectors=words.vec", "captions=absent"], "captions=absent: no such file"),
    "absent database": (["vectors=words.vec", "wordnet=absent"], "wordnet=absent: no such folder"),
    "torn source": (["vectors=words.vec", "captions=captions.txt", "against=torn.txt"], "torn.txt, line 1: expected"),
    "share": (["vectors=words.vec", "captions=captions.txt", "share=0"], "share=0"),
    "out": (["vectors=words.vec", "captions=captions.txt", "out=torn.txt/x"], "torn.txt is not a folder"),
}
RIGHT = {
    "captions": ["vectors=words.vec", "captions=captions.txt", "against=rated.txt", "share=0.5"],
    "frequent": ["vectors=words.vec", "captions=captions.txt", "min_count=1", "out=frequent.txt"],
    "wordnet": ["vectors=words.vec", "wordnet=wordnet", "out=wordnet.txt"],
    "dry": ["vectors=words.vec", "captions=captions.txt", "--dry-run"],
}


@pytest.fixture(scope="module")
def found(folder: Path) -> Found:
    lines = [
        ["learn_concreteness", "--workspace", str(folder / "workspaces" / str(k)), *more]
        for k, more in enumerate((*RIGHT.values(), *(more for more, _ in WRONG.values())))
    ]
    return dict(zip((*RIGHT, *WRONG), run_without_ray(lines, folder), strict=True))


def summary(found: Found, case: str) -> dict:
    status, out, error = found[case]
    assert status == 0, error
    data = json.loads(Path(out.splitlines()[-1]).read_text())
    validate(data, SCHEMA)
    return data


@pytest.mark.slow
def test_scores_are_sums_of_cosines_and_are_accepted_as_a_source(folder: Path, found: Found) -> None:
    seeds = {*CONCRETE_SEEDS, *ABSTRACT_SEEDS}
    (last,) = [line for line in found["captions"][1].splitlines() if line.endswith("summary.json")]
    path = Path(last).parent / "learned.txt"
    scores = read_scores(str(path))
    assert scores == pytest.approx(by_hand(folder, {*WORDS, *seeds} - set(RARE)), abs=1e-6)
    known = knowledge(concreteness=str(path), share=0.5)  # what text.contrast.concreteness reads
    assert known.concreteness.scores == scores
    assert known.concreteness.share == pytest.approx(0.5, abs=1 / len(scores))
    more = read_scores(str(folder / "frequent.txt"))
    assert more.keys() == scores.keys() | set(RARE)


def test_the_summary_says_how_sources_agree(folder: Path, found: Found) -> None:
    headline = summary(found, "captions")["headline"]
    scores = by_hand(folder, {"dog", "bus", "notion"})
    order = sorted(scores, key=lambda word: scores[word])
    distance = sum((order.index(word) - rank) ** 2 for rank, word in enumerate(("notion", "bus", "dog")))
    assert headline["rated.txt/words"] == 3
    assert headline["rated.txt/spearman"] == pytest.approx(1 - 6 * distance / (3 * 8))
    top = {*order[-2:]}  # half of three, upwards; and of the ratings dog and bus
    same = [(word in top) == (word in ("dog", "bus")) for word in scores]
    assert headline["rated.txt/same_at_quantile"] == pytest.approx(np.mean(same))
    assert headline["concrete_seeds"] == len(CONCRETE_SEEDS) - 2
    assert headline["abstract_seeds"] == len(ABSTRACT_SEEDS) - 3
    assert headline["without_vector"] == 5 + 1  # seeds, and zorp
    assert headline["shipped/words"] > 0
    printed = {line.split()[0] for line in found["captions"][1].splitlines()[:-1]}
    assert printed == headline.keys()


def test_words_of_a_database_are_scored_and_compared(folder: Path, found: Found) -> None:
    headline = summary(found, "wordnet")["headline"]
    assert headline["wordnet/words"] >= 1
    assert "dog" in read_scores(str(folder / "wordnet.txt"))


def test_a_dry_run_counts_and_writes_nothing(folder: Path, found: Found) -> None:
    status, out, error = found["dry"]
    assert (status, error) == (0, "")
    assert "46 words to look up" in out  # the seeds, and a, and, bus, notion, on, zorp
    assert not (folder / "workspaces" / str(list(RIGHT).index("dry"))).exists()


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_one_line(found: Found, case: str) -> None:
    status, out, error = found[case]
    assert status == 2, error
    assert out == ""
    assert len(error.splitlines()) == 1
    assert error.startswith("learn_concreteness: ")
    assert WRONG[case][1] in error
