"""A run opened from its checkpoint alone embeds as the model that was trained."""

import itertools
import re

import numpy as np
import pytest
import torch
from PIL import Image as Picture
from safetensors.torch import save_file

from tests.levels import slow_but
from tests.unit.inference.test_embedder import png
from vse.config import flatten, override
from vse.errors import InputError
from vse.evaluation.codes import encode_captions, encode_examples
from vse.evaluation.item_vectors import alpha_of
from vse.features.small_backbone import convolutions
from vse.inference.embedder import Embedder
from vse.inference.served_model import pack
from vse.presets import preset
from vse.stages import pipeline
from vse.stages import train as worker
from vse.stages.attack import attack_split
from vse.stages.measuring.options import MeasureOptions
from vse.stages.measuring.stage import measure_run
from vse.stages.train import run_training
from vse.stages.trained import encode_adversaries, encode_split, load_checkpoint, load_run, read_config
from vse.storage.folder import Folder
from vse.training.examples import encode_texts
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

SHORT = {"train.epochs": 1, "model.dim": 32, "data.num_val": 6, "data.num_test": 5, "data.num_shifted": 0}
TEXTS = ["a red ball is left of two dogs", "a dog"]
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Workspace.open(str(tmp_path_factory.mktemp("trained")))


class Kept:
    """The trained family itself, caught on its way, with the run and its material."""

    def __init__(self, place, name, **changes):
        given = {key.replace("__", "."): value for key, value in changes.items()}
        self.config = override(preset(name), {**SHORT, "seed": next(NUMBERS), **given})
        self.material = pipeline.prepare(self.config, place)
        build, caught = worker.build_family, []

        def catching(*arguments):
            caught.append(build(*arguments))
            return caught[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(worker, "build_family", catching)
            self.result = run_training(self.config, place)
        (self.family,) = caught


@pytest.fixture(scope="module", params=slow_but(["vsepp_tiny", "univse_tiny"], "univse_tiny"))
def kept(place, request):
    return Kept(place, request.param)


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(value, other[key]) for key, value in one.items())


def test_codes_are_those_of_the_trained_family_bit_by_bit(kept):
    trained = load_run(kept.result.folder)
    assert not trained.family.training
    codes = encode_split(trained, kept.material, "test")
    expected = encode_examples(
        kept.family.eval(),
        worker.training_inputs(kept.config, kept.material, kept.family.inputs).val,
    )
    found = encode_split(trained, kept.material, "val")
    assert equal(found.images, expected.images)
    assert equal(found.captions, expected.captions)
    assert torch.equal(found.caption_to_image, expected.caption_to_image)
    assert len(codes.caption_to_image) == len(kept.material.records.split("test").captions)


def test_the_checkpoint_alone_is_enough(kept, tmp_path):
    """Raw strings become codes with nothing of the workspace but a copied checkpoint."""
    target = Folder.open(tmp_path / "alone")
    for name in kept.result.checkpoint.names():
        target.write_bytes(name, kept.result.checkpoint.read_bytes(name))
    trained = load_checkpoint(target)
    assert trained.config == kept.config
    parses = kept.material.parses if trained.family.inputs.components else None
    texts = [kept.material.records.captions[k].text for k in (0, 5)]
    alone = encode_captions(trained.family, encode_texts(texts, trained.vocabulary, parses))
    there = load_run(kept.result.folder)
    assert equal(alone, encode_captions(there.family, encode_texts(texts, there.vocabulary, parses)))
    assert read_config(target) == kept.config


def test_adversaries_get_codes_beside_the_captions_they_attack(kept, place):
    trained = load_run(kept.result.folder)
    material = pipeline.prepare(kept.config, place, parsed=True)
    made = attack_split(kept.config, place, material, "test", "shared")
    sets = encode_adversaries(trained, made, material)
    assert sets.keys() == set(made.texts)
    for attack, each in sets.items():
        assert (each.caption == made.caption[attack]).all()
        assert all(len(value) == len(made.texts[attack]) for value in each.encoded.values())
    codes = encode_split(trained, material, "test")
    assert next(iter(sets.values())).encoded.keys() == codes.captions.keys()


def test_changes_touch_inference(place):
    kept = Kept(place, "univse_tiny")
    changed = load_run(kept.result.folder, {"model.components": "object"})
    assert flatten(changed.config)["model.components"] == ("object",)
    whole, part = (encode_split(t, kept.material, "val") for t in (load_run(kept.result.folder), changed))
    assert equal(whole.images, part.images)
    assert torch.equal(whole.captions["sentences"], part.captions["sentences"])
    assert not torch.equal(whole.captions["bags"], part.captions["bags"])


def test_a_given_alpha_takes_the_place_of_the_learned_one(place):
    run = Kept(place, "univse_tiny", model__learn_alpha=True).result.folder
    learned = load_run(run)
    vectors = {alpha: Embedder(load_run(run, {"model.alpha": alpha})).encode_captions(TEXTS) for alpha in (0.0, 1.0)}
    assert alpha_of(learned.family) not in (None, *vectors)
    assert abs(vectors[0.0] - vectors[1.0]).max() > 0.1
    pictures = [png(Picture.linear_gradient("L").convert("RGB"))]
    for alpha, found in vectors.items():
        given = Embedder(load_run(run, {"model.alpha": alpha}))
        scores = Embedder(learned).scores(pictures, TEXTS, alpha)
        np.testing.assert_allclose(given.encode_images(pictures) @ found.T, scores, atol=1e-5)


def test_a_packed_model_has_the_alpha_that_its_tag_names(place):
    run = Kept(place, "univse_tiny", model__learn_alpha=True).result.folder
    for changes in ({}, {"model.alpha": 0.0}):
        trained = load_run(run, changes)
        packed = pack(trained, run)
        served = Embedder.open(packed.folder)
        assert packed.tags["model.alpha"] == served.alpha == alpha_of(trained.family)
        np.testing.assert_array_equal(served.encode_captions(TEXTS), Embedder(trained).encode_captions(TEXTS))


@pytest.fixture(scope="module")
def vsepp(place):
    return Kept(place, "vsepp_tiny").result.folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.dim": 16}, r"has shape .*, expected"),
        ({"model.image": "map"}, "trained on pooled features, model reads map"),
        ({"model": "univse"}, "trained on pooled features, model reads map"),
        ({"model.colour": "red"}, r"^colour: family vsepp of .*epoch-000. has no such setting$"),
    ],
)
def test_changes_that_do_not_fit_are_one_line(vsepp, changes, message):
    with pytest.raises(InputError, match=message):
        load_run(vsepp, changes)


@pytest.mark.parametrize("name", ["vsepp_tiny", "univse_tiny"])
def test_word_vectors_are_in_the_weights(place, name, tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text("red 1 2 3 4 5\nblue 5 4 3 2 1\n")
    kept = Kept(place, name, text__word_vectors=str(file))
    sizes = kept.result.checkpoint.read_json("context.json")
    assert sizes["word_vector_dim"] == 5
    assert sizes["fingerprints"] == dict(kept.material.fingerprints)
    file.unlink()
    trained = load_run(kept.result.folder)
    weights = trained.family.state_dict()
    (table,) = [w for key, w in weights.items() if key in ("words.embedding.weight", "phi.basic.embedding.weight")]
    row = table[trained.vocabulary.encode(["red"])[0]]
    if name == "univse_tiny":
        assert row.tolist() == [1, 2, 3, 4, 5]  # fixed by default (A.3)
    else:
        assert row.tolist() == pytest.approx([1, 2, 3, 4, 5], abs=0.1)  # fine-tuned
    assert equal(
        encode_split(trained, kept.material, "val").captions,
        encode_examples(kept.family.eval(), _val(kept, trained)).captions,
    )


def _val(kept, trained):
    from vse.training.inputs import split_examples

    return split_examples(kept.material, kept.material.records.split("val"), kept.family.inputs, trained.vocabulary)


def test_double_precision_stays_double(place):
    kept = Kept(place, "vsepp_tiny", train__precision="float64")
    trained = load_run(kept.result.folder)
    found = encode_split(trained, kept.material, "val")
    assert found.images["images"].dtype == torch.float64
    assert equal(found.captions, encode_examples(kept.family.eval(), _val(kept, trained)).captions)


def test_a_run_without_a_checkpoint_is_one_line(place, tmp_path):
    with pytest.raises(InputError, match=r"holds no finished checkpoint; train it with jobs/train\.py"):
        load_run(place.run("nothing"))
    with pytest.raises(InputError, match="not a complete checkpoint"):
        load_checkpoint(Folder.open(tmp_path))


def small_weights(file, seed):
    draw = torch.Generator().manual_seed(seed)
    layers = convolutions(normalised=False).state_dict()
    save_file({name: 0.05 * torch.randn(weight.shape, generator=draw) for name, weight in layers.items()}, file)


def test_weights_replaced_after_the_training_are_refused(place, tmp_path):
    file = tmp_path / "weights.safetensors"
    small_weights(file, 0)
    run = Kept(place, "vsepp_tiny", features__backbone__weights=str(file)).result.folder
    of_training = load_run(run)
    assert of_training.backbone.identity()["weights"] == of_training.backbone_weights
    picture = png(Picture.linear_gradient("L").convert("RGB"))
    before = Embedder(of_training).encode_images([picture])
    small_weights(file, 1)
    line = f"features.backbone: {file}: was replaced after {of_training.checkpoint} was trained; put back the file "
    refused = [
        lambda: Embedder(load_run(run)).encode_images([picture]),
        lambda: measure_run(run, place, ["retrieval"], MeasureOptions(splits=("val",))),
        lambda: pack(load_run(run), run),
    ]
    for use in refused:
        with pytest.raises(InputError, match=re.escape(line)):
            use()
    small_weights(file, 0)
    assert (Embedder(load_run(run)).encode_images([picture]) == before).all()
