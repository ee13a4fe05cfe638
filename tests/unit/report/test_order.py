"""Numbers stand in the order in which they are read, whatever their names."""

import pytest

from vse.report.order import RETRIEVAL, grouped, parts


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test/rsum", ("test", "rsum")),
        ("test/coco_5k/i2t/r1", ("test/coco_5k", "i2t/r1")),
        ("alpha-0.6/test/attack_object/disjoint/r1", ("alpha-0.6/test", "attack_object/disjoint/r1")),
        ("test/complete/own_pool_noun/all/r1", ("test/complete", "own_pool_noun/all/r1")),
        ("test/true_pairs/i2t/r1", ("test", "true_pairs/i2t/r1")),
        ("pairs/swap_att/mean", ("", "pairs/swap_att/mean")),
        ("test/unheard_of", ("test", "unheard_of")),
        ("x", ("", "x")),
    ],
)
def test_a_name_is_a_split_and_a_task(name: str, expected: tuple[str, str]) -> None:
    assert parts(name) == expected


def test_groups_and_their_order() -> None:
    names = ["val/rsum", "pairs/mean", *(f"test/{name}" for name in sorted(RETRIEVAL)), "test/unknown_words"]
    attacks = [f"attack_{name}" for name in ("contrast_noun/all", "relation", "object/disjoint", "object", "attribute")]
    names += [f"test/{attack}/{m}" for attack in attacks for m in ("unknown_words", "r10", "r1", "pair_accuracy", "r5")]
    found = grouped([*names, "test/own_pool_noun/all/r1", "shifted/rsum", "x"])
    assert list(found) == [
        *("retrieval: test", "retrieval: shifted", "retrieval: val", "attacks: test", "pairs", "others: test", "others")
    ]
    assert found["retrieval: test"] == [f"test/{name}" for name in RETRIEVAL]
    tried = [name.removeprefix("test/attack_").rpartition("/") for name in found["attacks: test"]]
    assert list(dict.fromkeys(attack for attack, _, _ in tried)) == [
        *("object", "object/disjoint", "attribute", "relation", "contrast_noun/all")
    ]
    assert [metric for _, _, metric in tried[:4]] == ["r1", "r5", "r10", "pair_accuracy"]
    assert found["others: test"][0] == "test/unknown_words"
    assert sorted(name for group in found.values() for name in group) == sorted(
        {*names, "test/own_pool_noun/all/r1", "shifted/rsum", "x"}
    )
