"""SCAN with autoencoders: it scores as SCAN does, and the drawn codes are those of existing regions and words."""

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse.models.jwae_scan import _draw, _one_place
from vse.training.step import step_losses

DATA = synthetic(seed=5, images=6)


def _made():
    family, objective = make_family("jwae_scan", DATA.context), make_objective("jwae")
    return family, objective, DATA.collator(family, objective)(np.arange(len(DATA)), 1)


def test_it_scores_as_scan_does():
    family, _, batch = _made()
    plain = make_family("scan", DATA.context)
    plain.load_state_dict({name: value for name, value in family.state_dict().items() if name in plain.state_dict()})
    mine, theirs = family(batch), plain(batch)
    for name in ("regions", "words"):
        torch.testing.assert_close(mine[name], theirs[name])
    torch.testing.assert_close(family.scores(mine, mine), plain.scores(theirs, theirs))


def test_drawn_codes_are_among_the_captions_own_and_not_normalised():
    family, _, batch = _made()
    encoded = family(batch)
    for codes, drawn in ((encoded["regions"], encoded["image_codes"]), (encoded["words"], encoded["caption_codes"])):
        cosines = (codes * torch.nn.functional.normalize(drawn, dim=1)[:, None]).sum(2)
        torch.testing.assert_close(cosines.amax(1), torch.ones(len(DATA), dtype=torch.float64))
        assert not torch.allclose(drawn.norm(dim=1), torch.ones(len(DATA), dtype=torch.float64))


def test_draws_are_even_and_of_what_there_is():
    mask = torch.tensor([[True, False, True, True]]).expand(6000, 4)
    counts = torch.bincount(_draw(torch.arange(6000), mask, 914), minlength=4)
    assert counts[1] == 0
    assert (counts[[0, 2, 3]] - 2000).abs().max() < 200
    assert torch.equal(
        _draw(torch.arange(9), mask[:9, :3], 914), _draw(torch.arange(9), mask[:9] & (torch.arange(4) < 3), 914)
    )


@pytest.mark.seconds
def test_one_place_for_a_batch_is_never_the_last_and_exists():
    mask = torch.ones(5, 4, dtype=torch.bool)
    mask[1, 2:] = mask[2, 0] = mask[3, 1:] = False
    mask[4] = False
    places = []
    for step in range(300):
        torch.manual_seed(step)
        places.append(_one_place(mask, 914).tolist())
        assert _one_place(mask[:2], 914).tolist() == places[-1][:2]  # alone or with others
        torch.manual_seed(step)
        torch.rand(7)  # what else was drawn in the step does not matter
        assert _one_place(mask, 914).tolist() == places[-1]
    assert [set(column) for column in zip(*places, strict=True)] == [{0, 1, 2}, {0}, {1, 2}, {0}, {0}]
    assert all({0: [1], 1: [1, 2], 2: [2]}[row[0]].count(row[2]) for row in places)  # the same share of the way


def test_the_released_discriminator():
    """Two layers, unit vectors, one region and one word a batch; the rest is as in the paper's."""
    paper, _, batch = _made()
    released = make_family("jwae_scan", DATA.context, draw="batch", discriminator_codes="unit", discriminator_layers=2)
    assert len(paper.discriminator.layers) == 3
    assert len(released.discriminator.layers) == 2
    shared = {k: v for k, v in paper.state_dict().items() if not k.startswith("discriminator")}
    released.load_state_dict(shared, strict=False)
    mine, theirs = released(batch), paper(batch)
    for name in ("regions", "words", "next_word_logits"):
        torch.testing.assert_close(mine[name], theirs[name])
    drawn = [(mine["regions"], mine["image_codes"], "fooling_images"), (mine["words"], mine["caption_codes"], "")]
    for codes, code, judged in drawn:
        place = (codes * torch.nn.functional.normalize(code, dim=1)[:, None]).sum(2).argmax(1)
        if judged:
            assert len(place.unique()) == 1  # as many regions everywhere: one place
            expected = released.discriminator.logits(torch.nn.functional.normalize(code, dim=1))
            torch.testing.assert_close(mine[judged], expected)
        else:
            assert (place < (batch["lengths"] - 1)).all()
    judged = released(batch, "discriminator")
    samples = released.discriminator.judge_prior(batch["draw"])  # the prior is as it is
    torch.testing.assert_close(judged["judged_prior"], samples)
    torch.testing.assert_close(judged["judged_images"], mine["fooling_images"])


def test_each_phase_has_its_losses():
    family, objective, batch = _made()
    names = [set(step_losses(family, objective, batch, 0, None, phase.name)[1]) for phase in family.phases()]
    assert names == [{"sent", "image", "text", "gauss_image", "gauss_text"}, {"discriminator"}]
