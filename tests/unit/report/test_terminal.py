"""What a terminal shows of an evaluation: headlines with sizes, tables, and every number once."""

from vse.evaluation.task import Task
from vse.evaluation.tasks.attacks import AttacksTask
from vse.evaluation.tasks.retrieval import RetrievalTask
from vse.report.measured import MetricKey
from vse.report.terminal import lines
from vse.stages.measuring.options import Size

ATTACKED = {"r1": 20.0, "r5": 30.0, "r10": 40.0, "rsum3": 90.0, "pair_accuracy": 75.0}


def keyed(name: str, task: Task, label: str, values: dict[str, float]) -> dict[MetricKey, float]:
    return {MetricKey(name, label, task.metric(metric)): value for metric, value in values.items()}


def test_a_split_is_a_headline_and_tables() -> None:
    plain = {metric.name: float(k) for k, metric in enumerate(RetrievalTask().metrics)}
    attacked = {f"attack_{a}/{name}": v for a in ("object/disjoint", "relation") for name, v in ATTACKED.items()}
    values = keyed("attacks", AttacksTask(), "test", attacked) | keyed("retrieval", RetrievalTask(), "test", plain)
    shown = list(lines(values, {"test": Size(300, 1466)}, {"gaussian_codes": "codes"}))
    assert [line.split() for line in shown] == [
        ["test:", "300", "images,", "1,466", "captions"],
        ["rsum", "0.0"],
        ["unknown", "words", "11.0"],
        ["retrieval", "R@1", "R@5", "R@10", "Med", "r", "Mean", "r"],
        ["image", "→", "sentence", "1.0", "2.0", "3.0", "4.0", "5.0"],
        ["sentence", "→", "image", "6.0", "7.0", "8.0", "9.0", "10.0"],
        ["attacks", "R@1", "R@5", "R@10", "rsum3", "pairs"],
        ["object", "attack,", "disjoint", "words", "20.0", "30.0", "40.0", "90.0", "75.0"],
        ["relation", "attack", "20.0", "30.0", "40.0", "90.0", "75.0"],
        ["gaussian_codes:", "n/a:", "needs", "codes"],
    ]
    assert len({len(line) for line in shown[3:6]}) == len({len(line) for line in shown[6:9]}) == 1


def test_protocols_and_what_is_not_known() -> None:
    label = "test/coco_1k_folds"
    values = keyed("retrieval", RetrievalTask(), label, {"rsum": 1.0, "t2i/r1": 3.0})
    values |= keyed("attacks", AttacksTask(), label, {"attack_object/r1": 2.0, "attack_relation/r5": 4.0})
    shown = list(lines(values, {label: Size(5000, 25000, 5)}, {}))
    assert shown[0] == "test/coco_1k_folds: 5,000 images, 25,000 captions in 5 folds"
    assert [line.split()[-2:] for line in shown[-2:]] == [["2.0", "–"], ["–", "4.0"]]
    assert next(lines(values, {label: Size(1, 1)}, {})) == f"{label}: 1 image, 1 caption"
    assert next(lines(values, {}, {})) == label
