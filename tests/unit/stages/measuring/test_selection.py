"""Images that are selected by the adversaries of their captions, on a trained run."""

import numpy as np
import pytest

from tests.unit.asked import asked
from vse.adversaries.attacks import contrast_classes
from vse.errors import InputError
from vse.evaluation.protocol import PUBLISHED, Protocol
from vse.evaluation.tasks.contrast import VSEC
from vse.stages.measuring.checks import foresee_measure
from vse.stages.measuring.plan import plan_measure
from vse.stages.measuring.stage import measure_run

pytestmark = pytest.mark.seconds

LEAST = 1
CHANGES = {"data.num_val": 4, "data.num_test": 30, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 32}


def qualified(plan, least):
    """Images of the split whose captions all have enough adversaries, by a loop."""
    (part,), made = plan.parts, plan.adversaries["test"][VSEC, "all"][0]
    counts = [np.bincount(made.caption[name], minlength=len(part.captions)) for name in contrast_classes()]
    enough = np.stack(counts).min(0) >= least
    return [i for i in range(len(part.images)) if all(enough[part.caption_to_image == i])]


def planned(place, run, *tasks, **keys):
    names, options = asked(*tasks, **keys)
    return plan_measure([run], place, names, options)


@pytest.fixture(scope="module")
def images(place, vsepp):
    """The images that qualify: some, not all of them."""
    found = qualified(planned(place, vsepp, "contrast", contrast__words=("all",)), LEAST)
    assert 2 <= len(found) < 30
    return found


@pytest.mark.slow
def test_the_first_that_qualify_are_measured_under_a_name_of_their_own(place, vsepp, images):
    keys = {"selection__images": 2, "selection__least": LEAST}
    plan = planned(place, vsepp, "retrieval", **keys)
    assert plan.protocols["test"].chosen == tuple(images[:2])
    captions = np.isin(plan.parts[0].caption_to_image, images[:2]).sum()
    assert {name: (size.images, size.captions) for name, size in plan.sizes.items()} == {
        f"test/selected_2_with_{LEAST}_all": (2, captions)
    }
    values = measure_run(vsepp, place, *asked("retrieval", "contrast", **keys, contrast__words=("all",)))
    assert all(name.startswith("test/selected_2_with_1_all/") for name in values)
    assert values["test/selected_2_with_1_all/t2i/meanr"] <= 2
    fewer = planned(place, vsepp, "retrieval", selection__images=1, selection__least=LEAST)
    prints = [each["protocol"] for one in (plan, fewer) for each in one.met("retrieval").values()]
    assert len(set(prints)) == 2
    assert planned(place, vsepp, "retrieval").met("retrieval").keys() == {"test"}
    assert planned(place, vsepp, "retrieval", **keys).digits("retrieval") == plan.digits("retrieval")


@pytest.mark.slow
def test_a_selection_of_what_a_protocol_takes(monkeypatch, place, vsepp, images):
    monkeypatch.setitem(PUBLISHED, "coco_5k", Protocol(name="few", num_images=images[1], captions_per_image=None))
    keys = {"protocol": "coco_5k", "selection__images": 1, "selection__least": LEAST}
    plan = planned(place, vsepp, "retrieval", **keys)
    assert plan.protocols["test"].chosen == (images[0],)
    with pytest.raises(InputError, match=rf"selection.images=2: 1 of {images[1]} images of split test qualify"):
        planned(place, vsepp, "retrieval", **{**keys, "selection__images": 2})


def test_too_few_images_are_refused_with_their_number(place, vsepp, images):
    with pytest.raises(InputError) as refused:
        planned(place, vsepp, "retrieval", selection__images=30, selection__least=LEAST)
    assert f"measure.selection.images=30: {len(images)} of 30 images of split test qualify" in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(InputError, match=r"selection.images=2: needs a protocol with one fold, but test has 2"):
        planned(place, vsepp, "retrieval", selection__images=2, folds=2)


def test_a_dry_run_says_what_is_selected(place, vsepp):
    names, options = asked("retrieval", selection__images=2, selection__least=LEAST)
    lines = list(foresee_measure([vsepp], place, names, options))
    assert any("the first 2 images whose captions all have 1 adversaries of each class" in line for line in lines)
