"""A share of the training pairs: what an epoch passes over, and that unknown partners teach no matching."""

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse import pipeline
from vse.config import override
from vse.data.batches import Collator
from vse.data.companions import Unpaired, known_images
from vse.errors import InputError
from vse.presets import preset
from vse.training.inputs import family_inputs, make_collator, training_batches, training_inputs
from vse.training.step import step_losses

DATA = synthetic(seed=6, images=10)


def _collator(workspace, name="vsepp_tiny", **changes):
    config = override(preset(name), {key.replace("__", "."): value for key, value in changes.items()})
    data = training_inputs(config, pipeline.prepare(config, workspace), family_inputs(config))
    return data.train, make_collator(config, data, family_inputs(config), None)


def test_pairs_left_out_shorten_the_epoch(workspace):
    train, collate = _collator(workspace, train__pairs=0.25)
    images = np.unique(train.image[collate.captions])
    assert len(images) == round(0.25 * train.num_images)
    assert np.array_equal(collate.captions, np.flatnonzero(np.isin(train.image, images)))
    assert "paired" not in collate(collate.captions[:3], 0)


def test_the_unpaired_rest_makes_the_epoch_whole_again(workspace):
    train, collate = _collator(workspace, train__pairs=0.25, train__unpaired=True)
    assert np.array_equal(collate.captions, np.arange(len(train)))
    batch = collate(collate.captions, 0)
    assert len(np.unique(train.image[batch["paired"].numpy()])) == round(0.25 * train.num_images)


def test_all_pairs_are_the_default(workspace):
    train, collate = _collator(workspace)
    assert np.array_equal(collate.captions, np.arange(len(train)))
    assert "paired" not in collate(collate.captions[:3], 0)


def test_objectives_that_need_every_partner_refuse(workspace):
    with pytest.raises(InputError, match=r"train.unpaired: objective=univse needs the image of every caption"):
        _collator(workspace, "univse_tiny", train__unpaired=True, train__pairs=0.5)


def test_closed_forms_read_known_pairs_only():
    chosen = np.array([4, 1, 9])
    blocks = list(training_batches(DATA.examples, make_family("cca", DATA.context).inputs, chosen, size=2))
    assert torch.cat([block["sample"] for block in blocks]).tolist() == [4, 1, 9]


@pytest.mark.parametrize("changes", [{}, {"match": "mse"}, {"objective": "ranking"}])
def test_unknown_partners_teach_no_matching(changes):
    """The matching loss is that of the known pairs alone; reconstructions count every item."""
    paired = known_images(10, 0.5, 0)[DATA.examples.image]
    name = "vsepp" if "objective" in changes else "jwae"
    family, objective = make_family(name, DATA.context), make_objective(name, **changes)
    extras = [Unpaired(DATA.examples, "pooled", paired, 0)]
    rows = np.arange(len(DATA))
    mixed = step_losses(family, objective, Collator(DATA.examples, "pooled", extras=extras)(rows, 1), 2)[1]
    known = step_losses(family, objective, Collator(DATA.examples, "pooled")(rows[paired], 1), 2)[1]
    matching = "mse" if "match" in changes else "sent"
    torch.testing.assert_close(mixed[matching], known[matching])
    assert float(known[matching]) > 0
    if name == "jwae":
        assert float(mixed["image"]) > float(known["image"])
