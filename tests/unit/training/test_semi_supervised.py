"""A share of the training pairs: what an epoch passes over, and that unknown partners teach no matching."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse import registry
from vse.config import override
from vse.errors import InputError
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.train import build_family
from vse.text.vocabulary import Vocabulary
from vse.training.batches import Collator, Siblings, Unpaired, known_images
from vse.training.config import check_objective, family_inputs
from vse.training.inputs import TrainingInputs, make_collator, training_batches, training_inputs
from vse.training.step import step_losses

DATA = synthetic(seed=6, images=10)


def _collator(workspace, name="vsepp_tiny", **changes):
    config = override(preset(name), {key.replace("__", "."): value for key, value in changes.items()})
    data = training_inputs(config, pipeline.prepare(config, workspace), family_inputs(config))
    return data.train, make_collator(config, data, family_inputs(config), None)


@pytest.mark.seconds
def test_pairs_left_out_shorten_the_epoch(workspace):
    train, collate = _collator(workspace, train__pairs=0.25)
    images = np.unique(train.image[collate.captions])
    assert len(images) == round(0.25 * train.num_images)
    assert np.array_equal(collate.captions, np.flatnonzero(np.isin(train.image, images)))
    assert "paired" not in collate(collate.captions[:3], 0)


@pytest.mark.seconds
def test_the_unpaired_rest_makes_the_epoch_whole_again(workspace):
    train, collate = _collator(workspace, train__pairs=0.25, train__unpaired=True)
    assert np.array_equal(collate.captions, np.arange(len(train)))
    batch = collate(collate.captions, 0)
    assert len(np.unique(train.image[batch["paired"].numpy()])) == round(0.25 * train.num_images)


@pytest.mark.seconds
def test_all_pairs_are_the_default(workspace):
    train, collate = _collator(workspace)
    assert np.array_equal(collate.captions, np.arange(len(train)))
    assert "paired" not in collate(collate.captions[:3], 0)


def test_what_the_unpaired_rest_does_not_go_with_is_refused_before_any_stage():
    rest = {"train.unpaired": True, "train.pairs": 0.5}
    config = override(preset("univse_tiny"), rest)
    with pytest.raises(InputError, match=r"^train\.unpaired: objective=univse needs the image of every caption; use t"):
        check_objective(config)
    check_objective(override(preset("vsepp_tiny"), rest))
    with pytest.raises(InputError, match=r"^train\.window=8: train\.unpaired=true reads images from the whole split"):
        check_objective(override(preset("vsepp_tiny"), rest | {"train.window": 8}))


def test_closed_forms_read_known_pairs_only():
    chosen = np.array([4, 1, 9])
    blocks = list(training_batches(DATA.examples, make_family("cca", DATA.context).inputs, chosen, size=2))
    assert torch.cat([block["sample"] for block in blocks]).tolist() == [4, 1, 9]


SEMI_SUPERVISED = [
    ("jwae", {}),
    ("jwae", {"match": "mse"}),
    ("vsepp", {"objective": "ranking"}),
    ("vsepp", {"objective": "logistic"}),
    ("cse", {}),
    ("embedding_network", {}),
]


@pytest.mark.parametrize(("name", "changes"), SEMI_SUPERVISED)
def test_unknown_partners_teach_no_matching(name, changes):
    """The losses of `matching` are those of the known pairs alone; reconstructions count every item."""
    paired = known_images(10, 0.5, 0)[DATA.examples.image]
    family, objective = make_family(name, DATA.context, **changes), make_objective(name, **changes)
    extras = [Siblings(DATA.examples, 0)] if family.inputs.siblings else []
    rows = np.arange(len(DATA))

    def losses(chosen, *more):
        collate = Collator(DATA.examples, "pooled", extras=[*extras, *more])
        return step_losses(family, objective, collate(chosen, 1), 2)[1]

    mixed, known = losses(rows, Unpaired(DATA.examples, paired, 0)), losses(rows[paired])
    assert mixed.keys() & objective.matching
    for key, loss in mixed.items():
        assert float(known[key]) > 0
        if key in objective.matching:
            torch.testing.assert_close(loss, known[key])
        else:
            assert abs(float(loss) - float(known[key])) > 1e-3 * float(known[key])


def test_every_semi_supervised_objective_is_tried():
    tried = {changes.get("objective", name) for name, changes in SEMI_SUPERVISED}
    assert tried == {n for n in registry.names("objective") if registry.component("objective", n).semi_supervised}


@pytest.mark.parametrize("unpaired", [False, True])
@pytest.mark.parametrize(
    ("name", "key", "known_only"),
    [
        ("jwae_mse", "text_scale.mean", False),
        ("embedding_network", "text.scale.mean", False),
        ("cca", "caption_mean", True),
    ],
)
def test_scales_know_all_text_and_closed_forms_known_pairs(name, key, known_only, unpaired):
    changes = {"train.pairs": 0.3, "train.unpaired": unpaired, "model.image": "pooled", "model.dim": 4}
    config = override(preset(f"{name}_scenes"), changes)
    data = TrainingInputs(Vocabulary((), ()), None, DATA.context, DATA.examples, DATA.examples)
    family = build_family(config, data)
    read = known_images(10, 0.3, config.seed)[DATA.examples.image] if known_only else slice(None)
    sentences = DATA.examples.texts.sentence
    assert sentences is not None
    mean = family.state_dict()[key]
    torch.testing.assert_close(mean.double(), torch.as_tensor(sentences.values[read]).mean(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("unpaired", [False, True])
@pytest.mark.parametrize(("name", "start"), [("vsepp", "cca"), ("order", "cca"), ("cca", None)])
def test_no_closed_form_reads_whose_image_an_unknown_caption_shows(name, start, unpaired):
    """Weights stay the same, to the bit, where the images of captions without a known one change places."""
    changes = {"train.pairs": 0.5, "train.unpaired": unpaired, "model.image": "pooled", "model.dim": 4}
    changes |= {"model.text": "sentence", "model.start": start} if start else {}
    config, known = override(preset(f"{name}_scenes"), changes), known_images(10, 0.5, 0)
    unknown, examples = np.flatnonzero(~known), DATA.examples
    moved = examples.image.copy()
    for image, other in zip(unknown, np.roll(unknown, 1), strict=True):
        moved[examples.image == image] = other
    weights = [
        build_family(config, TrainingInputs(Vocabulary((), ()), None, DATA.context, each, each)).state_dict()
        for each in (examples, replace(examples, image=moved))
    ]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(values, weights[1][key]) for key, values in weights[0].items())
