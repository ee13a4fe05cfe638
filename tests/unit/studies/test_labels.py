"""Every arm of every registered study has a printed name of its own."""

import pytest

from vse.studies.labels import label_of
from vse.studies.registered import STUDIES


@pytest.mark.parametrize("study", STUDIES.values(), ids=list(STUDIES))
def test_arms_have_names_that_tell_them_apart(study):
    labels = [label_of(name) for name in study.arms]
    assert len({*labels}) == len(labels)
    assert not [name for name in study.arms if label_of(name) == name.replace("_", " ")]


def test_names_of_few_pairs_say_what_becomes_of_the_rest():
    assert label_of("jwae_mse_5_unpaired") == "jWAE-MSE, 5 %, rest unpaired"
    assert label_of("mse_25_steps") == "MSE, 25 %, as many steps"
    assert label_of("mse_100") == "MSE, 100 %"


def test_who_has_no_name_keeps_its_own():
    assert label_of("an_arm_of_mine") == "an arm of mine"
    assert label_of("vsepp_10_x") == "vsepp 10 x"
