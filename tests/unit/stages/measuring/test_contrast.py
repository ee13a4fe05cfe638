"""Images that VSE-C's measures choose by their adversaries, under a protocol, against ranks counted one by one."""

import numpy as np
import pytest
import torch

from tests.unit.asked import CONTRAST, asked, contrast
from tests.unit.evaluation.contexts import context_of
from tests.unit.evaluation.models import Cosine
from vse.config import override
from vse.evaluation.attacks import AttackSet
from vse.evaluation.protocol import PUBLISHED, Protocol
from vse.evaluation.tasks import own_pools
from vse.evaluation.tasks.contrast import VSEC
from vse.evaluation.tasks.plural_split import plural_images
from vse.presets import preset
from vse.stages.measuring.stage import measure_run
from vse.stages.train import run_training
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

CLASSES = ("noun", "numeral", "relation")
PER_CLASS = 2


def made_up(seed=0, sizes=(3, 1, 0, 4, 2, 5, 1, 2, 3)):
    """Images with captions, of which every fifth lacks adversaries of a class and every fourth has a plural."""
    rng, draw = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    caption_to_image = np.repeat(np.arange(len(sizes)), sizes)
    images, captions = (
        {key: torch.randn(n, 4, generator=draw)} for key, n in (("v", len(sizes)), ("u", len(caption_to_image)))
    )
    sets = {}
    for k, name in enumerate((*CLASSES, "plural")):
        number = [
            (2 if c % 4 == 0 else 0) if name == "plural" else 1 if c % 15 == 5 * k else 2
            for c in range(len(caption_to_image))
        ]
        caption = rng.permutation(np.repeat(np.arange(len(caption_to_image)), number))
        sets[name] = AttackSet(encoded={"u": torch.randn(len(caption), 4, generator=draw)}, caption=caption)
    return images, captions, caption_to_image, sets


def measured(images, captions, caption_to_image, sets, protocol):
    """What both tasks measure on chosen images."""
    context = context_of(Cosine(), images, captions, caption_to_image, protocol, sets, VSEC)
    found = own_pools.chosen_pools(context, "complete", own_pools.complete_images, CLASSES, "shared")
    found |= own_pools.chosen_pools(context, "plural_split", plural_images, ("plural",), "shared")
    return {f"{protocol.split}/{key}": value for key, value in found.items()}


@pytest.fixture
def few_adversaries(monkeypatch):
    monkeypatch.setattr(own_pools, "PER_CLASS", PER_CLASS)


def by_hand(images, captions, caption_to_image, sets, protocol):
    """Metrics of every fold in which an image is chosen, as lists, by loops over images, captions and adversaries."""
    found: dict[str, list[float]] = {f"{label}/images": [] for label in ("complete", "plural_split")}
    num_images, folds = protocol.num_images or len(images["v"]), protocol.folds
    for fold in range(folds):
        inside = range(fold * num_images // folds, (fold + 1) * num_images // folds)
        mine = {
            i: [c for c, of in enumerate(caption_to_image) if of == i][: protocol.captions_per_image] for i in inside
        }
        number = {
            name: [list(each.caption).count(c) for c in range(len(caption_to_image))] for name, each in sets.items()
        }
        complete = [i for i in inside if mine[i] and all(number[k][c] >= PER_CLASS for c in mine[i] for k in CLASSES)]
        plural = [i for i in inside if any(number["plural"][c] for c in mine[i])]
        for label, chosen, classes in (("complete", complete, CLASSES), ("plural_split", plural, ("plural",))):
            found[f"{label}/images"].append(len(chosen))
            for name, pools in {"none": (), **{k: (k,) for k in classes}, "all": classes}.items():
                ranks = []
                for i in chosen:
                    others = [captions["u"][c] for j in chosen if j != i for c in mine[j]]
                    for pool in pools:
                        others += [
                            u for u, c in zip(sets[pool].encoded["u"], sets[pool].caption, strict=True) if c in mine[i]
                        ]
                    best = max(float(images["v"][i] @ captions["u"][c]) for c in mine[i])
                    ranks.append(1 + sum(float(images["v"][i] @ u) > best for u in others))
                if ranks:
                    found.setdefault(f"{label}/own_pool_{name}/meanr", []).append(float(np.mean(ranks)))
                    found.setdefault(f"{label}/own_pool_{name}/r1", []).append(100 * np.mean(np.array(ranks) == 1))
    return found


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(name="whole", split="test"),
        Protocol(name="first", split="test/first", num_images=6),
        Protocol(name="folds of two captions", split="test/folds", folds=3, captions_per_image=2),
        Protocol(name="one image each", split="test/nine", folds=9),  # some folds choose none
    ],
    ids=lambda protocol: protocol.name,
)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.usefixtures("few_adversaries")
def test_chosen_images_are_those_of_the_protocol(protocol, seed):
    images, captions, caption_to_image, sets = made_up(seed)
    expected = by_hand(images, captions, caption_to_image, sets, protocol)
    found = measured(images, captions, caption_to_image, sets, protocol)
    ours = {key: value for key, value in found.items() if key.rpartition("/")[2] in ("images", "meanr", "r1")}
    assert ours == pytest.approx(
        {
            f"{protocol.split}/{key}": float(sum(each)) if key.endswith("images") else np.mean(each)
            for key, each in expected.items()
        }
    )
    if protocol.folds == 9:
        assert 0 < sum(expected["plural_split/images"]) < 9


@pytest.mark.usefixtures("few_adversaries")
def test_where_no_image_is_complete_there_is_their_number_alone():
    images, captions, caption_to_image, sets = made_up()
    found = measured(images, captions, caption_to_image, {"noun": sets["noun"]}, Protocol(name="whole"))
    assert found == {"test/complete/images": 0.0, "test/plural_split/images": 0.0}


@pytest.mark.slow
def test_a_protocol_of_the_first_images_chooses_among_these(monkeypatch, tmp_path):
    place = Workspace.open(str(tmp_path))
    changes = {"data.num_val": 4, "data.num_test": 12, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 16}
    run = run_training(override(preset("vsepp_tiny"), changes), place).folder
    few = Protocol(name="first images", num_images=4, captions_per_image=2)
    monkeypatch.setitem(PUBLISHED, "coco_1k_first", few)
    whole = measure_run(run, place, *asked("retrieval", *CONTRAST, **contrast("all")))
    found = measure_run(run, place, *asked("retrieval", *CONTRAST, protocol="coco_1k_first", **contrast("all")))
    for label in ("complete", "plural_split"):
        assert found[f"test/coco_1k_first/{label}/all/images"] <= min(4, whole[f"test/{label}/all/images"])
    assert whole["test/plural_split/all/images"] > 4  # so that there is something to leave out
