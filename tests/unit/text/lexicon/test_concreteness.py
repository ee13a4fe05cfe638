"""Scores of concreteness: files, WordNet, seeds; thresholds by share; agreement."""

import math

import numpy as np
import pytest

from tests.unit.text.lexicon.database import write
from vse.errors import InputError
from vse.text.lexicon.concreteness import (
    PUBLISHED_SHARE,
    Concreteness,
    agreement,
    learned_scores,
    quantile_threshold,
    read_scores,
    save_scores,
    wordnet_scores,
)


def test_published_share():
    assert round(100 * PUBLISHED_SHARE, 1) == 10.5


def test_a_threshold_keeps_the_share_and_its_ties():
    scores = {f"w{k}": float(k) for k in range(100)}
    found = Concreteness.calibrated(scores, "ramp", 0.1)
    assert found.threshold == 90.0
    assert found.share == pytest.approx(0.1)
    assert found.is_concrete("W95")
    assert not found.is_concrete("w89")
    assert not found.is_concrete("unheard of")
    tied = Concreteness.calibrated({**dict.fromkeys("abcdef", 1.0), "g": 2.0}, "ties", 0.2)
    assert tied.threshold == 1.0
    assert tied.share == 1.0
    assert quantile_threshold([3.0, 1.0, 2.0], 1e-9) == 3.0
    assert quantile_threshold([3.0, 1.0, 2.0], 1.0) == 1.0
    assert Concreteness.calibrated(scores, "given", threshold=50.0).share == 0.5


def test_wrong_shares_and_empty_sources():
    with pytest.raises(InputError, match="share=0"):
        Concreteness.calibrated({"a": 1.0}, "x", 0.0)
    with pytest.raises(InputError, match="x: holds no scores"):
        Concreteness.calibrated({}, "x")


def test_files(tmp_path):
    path = tmp_path / "scores.txt"
    path.write_text("\ufeffDog\t0.9\n\nidea\t-1.5\ndog\t0.1\nx\x85y\t1\n", encoding="utf-8")
    assert read_scores(str(path)) == {"dog": 0.9, "idea": -1.5, "x\x85y": 1.0}
    for line in ("dog 0.9", "dog\tmuch", "dog\tnan"):
        path.write_text(f"cat\t1\n{line}\n")
        with pytest.raises(InputError, match=r"scores.txt, line 2: expected word<TAB>score"):
            read_scores(str(path))
    with pytest.raises(InputError, match="cannot be read"):
        read_scores(str(tmp_path / "absent"))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        read_scores(str(path))


def test_what_is_saved_is_read_again(tmp_path):
    scores = {"idea": -1.5, "dog": 0.1234567, "cat": 0.1234567, "na\u00efve": 2.0}
    path = tmp_path / "below" / "scores.txt"
    save_scores(path, scores)
    found = read_scores(str(path))
    assert list(found) == ["na\u00efve", "cat", "dog", "idea"]
    assert found == {word: pytest.approx(score, abs=5e-7) for word, score in scores.items()}
    with pytest.raises(InputError, match=r"scores\.txt: cannot be written"):
        save_scores(path / "under a file" / "scores.txt", scores)


def test_wordnet_scores_by_hand(tmp_path):
    scores = wordnet_scores(write(tmp_path))
    assert scores["dog"] == pytest.approx(43 / 46)  # 42 uses and one more, both senses physical; 3 of the prior
    assert scores["couch"] == pytest.approx(1 / 4)
    assert scores["idea"] == 0.0
    assert scores["plan"] == 0.0  # its physical sense was never seen and is not the first
    assert scores["run"] == 0.0  # no noun


def test_learned_scores_are_sums_of_cosines():
    rng = np.random.default_rng(0)
    vectors = {word: rng.normal(size=5) for word in ("dog", "chair", "idea", "truth", "bus")} | {"zero": np.zeros(5)}
    found = learned_scores(vectors, ("dog", "chair", "absent", "dog"), ("idea", "truth"))

    def cosine(a, b):
        return float(vectors[a] @ vectors[b] / np.linalg.norm(vectors[a]) / np.linalg.norm(vectors[b]))

    for word in ("dog", "bus", "truth"):
        by_hand = sum(cosine(word, s) for s in ("dog", "chair")) - sum(cosine(word, s) for s in ("idea", "truth"))
        assert found[word] == pytest.approx(by_hand)
    assert found["zero"] == 0.0
    with pytest.raises(InputError, match="no abstract seed word has a vector"):
        learned_scores({"dog": np.ones(2)})


def test_agreement():
    one = Concreteness({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "x": 9.0}, 2.5, "one")
    other = Concreteness({"a": 10.0, "b": 20.0, "c": 30.0, "d": 40.0, "y": 0.0}, 15.0, "other")
    found = agreement(one, other)
    assert found["words"] == 4
    assert found["spearman"] == pytest.approx(1.0)
    assert found["same"] == 0.75
    assert found["only_first"] == 0.0
    assert found["only_second"] == 0.25
    assert found["kappa"] == pytest.approx((0.75 - 0.5) / 0.5)
    assert agreement(one, other, ["A", "b", "x"])["words"] == 2
    reverse = Concreteness({k: -v for k, v in other.scores.items()}, 0.0, "reverse")
    assert agreement(one, reverse)["spearman"] == pytest.approx(-1.0)
    assert agreement(one, Concreteness({"z": 1.0}, 0.0, "z"))["words"] == 0
    flat = Concreteness(dict.fromkeys("abcd", 1.0), 0.0, "flat")
    assert math.isnan(agreement(one, flat)["spearman"])
