"""SCAN with autoencoders: it scores as SCAN does, and the drawn codes are those of existing regions and words."""

import numpy as np
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse.models.jwae_scan import _draw
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


def test_each_phase_has_its_losses():
    family, objective, batch = _made()
    names = [set(step_losses(family, objective, batch, 0, None, phase.name)[1]) for phase in family.phases()]
    assert names == [{"sent", "image", "text", "gauss_image", "gauss_text"}, {"discriminator"}]
