"""What a terminal shows of an evaluation: headlines with sizes, tables, and every number once."""

from vse.report.order import RETRIEVAL
from vse.report.terminal import lines
from vse.stages.measuring.options import Size

PLAIN = {name: float(k) for k, name in enumerate(RETRIEVAL)}
ATTACKED = {"rsum3": 90.0, "r1": 20.0, "r5": 30.0, "r10": 40.0, "pair_accuracy": 75.0}


def test_a_split_is_a_headline_and_tables() -> None:
    metrics = {f"test/{name}": value for name, value in reversed(PLAIN.items())}
    metrics |= {f"test/attack_{a}/{name}": v for a in ("relation", "object/disjoint") for name, v in ATTACKED.items()}
    shown = list(lines(metrics | {"pairs/mean": 70.0}, {"test": Size(300, 1466)}))
    assert [line.split() for line in shown] == [
        ["test:", "300", "images,", "1,466", "captions;", "percent"],
        ["rsum", "0.0"],
        ["R@1", "R@5", "R@10", "medr", "meanr"],
        ["i2t", "1.0", "2.0", "3.0", "4.0", "5.0"],
        ["t2i", "6.0", "7.0", "8.0", "9.0", "10.0"],
        ["attack", "R@1", "R@5", "R@10", "pairs"],
        ["object/disjoint", "20.0", "30.0", "40.0", "75.0"],
        ["relation", "20.0", "30.0", "40.0", "75.0"],
        ["test/attack_object/disjoint/rsum3", "90.000"],
        ["test/attack_relation/rsum3", "90.000"],
        ["pairs/mean", "70.000"],
    ]
    assert len({line.index(last) + len(last) for line in shown[2:5] for last in [line.split()[-1]]}) == 1


def test_protocols_and_what_is_not_known() -> None:
    metrics = {"test/coco_1k_folds/rsum": 1.0, "test/coco_1k_folds/attack_object/r1": 2.0, "val/x": 3.0}
    shown = list(lines(metrics, {"test/coco_1k_folds": Size(5000, 25000, 5)}))
    assert shown[0] == "test/coco_1k_folds: 5,000 images, 25,000 captions in 5 folds; percent"
    assert shown[-2].split() == ["object", "2.0", "–", "–", "–"]
    assert shown[-1].split() == ["val/x", "3.000"]
    assert next(lines(metrics, {})) == "test/coco_1k_folds: percent"
