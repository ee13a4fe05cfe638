"""What a run reads: nothing but training captions decides its words, and every array is the family's."""

import dataclasses
import functools

import numpy as np
import pytest
import torch

from vse.adversaries.pools import build_pools
from vse.adversaries.vsec.table import Candidates
from vse.config import override
from vse.data.records import Caption, Image, Records
from vse.errors import InputError
from vse.presets import preset
from vse.presets.catalogue import TINY
from vse.stages import pipeline
from vse.text.tokens import words
from vse.text.vocabulary import UNKNOWN
from vse.text.word_vectors import word_vectors
from vse.training import inputs
from vse.training.config import family_inputs
from vse.training.inputs import (
    make_collator,
    run_fingerprint,
    training_inputs,
    training_vocabulary,
    unfamiliar_words,
    warn_unfamiliar,
)


@pytest.fixture(scope="module")
def material(stages, tmp_path_factory):
    place = stages(tmp_path_factory.mktemp("inputs") / "workspace")
    return {name: pipeline.prepare(preset(name), place) for name in ("univse_tiny", "vsepp_tiny")}


def opened(material, name="univse_tiny", **changes):
    config = override(preset(name), {key.replace("__", "."): value for key, value in changes.items()})
    return config, training_inputs(config, material[name], family_inputs(config))


@pytest.mark.seconds
def test_adversaries_of_training_captions_reach_the_batch(stages, tmp_path, caplog):
    place = stages(tmp_path / "workspace")
    config = override(preset("vsec_scenes"), {**TINY, "objective.draws": 4, "objective.kinds": ("noun", "numeral")})
    found = pipeline.prepare(config, place)
    assert found.candidates is not None
    assert found.fingerprints["candidates"] == found.candidates.fingerprint
    data = training_inputs(config, found, family_inputs(config))
    assert 0 <= data.coverage["contrast/left_out"] < 0.5
    batch = make_collator(config, data, family_inputs(config), None)(np.arange(12), 1)
    assert batch["contrast"].shape[:2] == (12, 4)
    assert (batch["contrast_lengths"] > 0).float().mean() > 0.5
    for row in range(12):
        own = batch["tokens"][row, : batch["lengths"][row]].tolist()
        for other, length in zip(batch["contrast"][row], batch["contrast_lengths"][row], strict=True):
            assert other[:length].tolist() != own
            assert not other[length:].any()
    assert "has an adversary" not in caplog.text
    none = Candidates("none", found.candidates.words, found.candidates.table.slice(0, 0))
    training_inputs(config, dataclasses.replace(found, candidates=none), family_inputs(config))
    assert "no training caption has an adversary of objective.kinds=noun,numeral, so their loss is zero" in caplog.text
    with pytest.raises(InputError, match="this family encodes none"):
        pipeline.prepare(override(preset("vsepp_scenes"), {"objective": "vsec"}), place)
    paradigms = found.candidates.table.column("paradigm").to_pylist()

    def drawn(**objective):
        changed = override(config, {f"objective.{key}": value for key, value in objective.items()})
        sampler = training_inputs(changed, found, family_inputs(changed)).contrast
        assert sampler is not None
        return sampler, sampler.draw(np.arange(len(data.train)), 0)

    def nouns(**objective):
        sampler, found = drawn(**objective)
        return np.mean([paradigms[sampler.described(slot)] == "noun" for slot in found.slot[found.mask]])

    assert nouns(balance="candidate") > 0.8 > 0.7 > nouns(balance="paradigm") == nouns()
    slots = [drawn(redraw=number)[1].slot for number in (0, 1, 1, 2)]
    np.testing.assert_array_equal(slots[1], slots[2])  # the same other adversaries in every run and worker
    for one, other in ((0, 1), (0, 3), (1, 3)):
        assert (slots[one] != slots[other]).mean() > 0.3


@pytest.mark.seconds
def test_sentence_vectors_are_mapped_once_for_all_splits_and_single_in_batches(stages, tmp_path):
    small = {key: value for key, value in TINY.items() if key.partition(".")[0] in ("data", "features")}
    config = override(preset("embedding_network_scenes"), small)
    found = pipeline.prepare(config, stages(tmp_path / "workspace"))
    data = training_inputs(config, found, family_inputs(config))
    train, val = data.train.texts.sentence, data.val.texts.sentence
    assert train is not None
    assert val is not None
    assert isinstance(train.values, np.memmap)
    assert train.values is val.values
    assert train.values.dtype == np.float16
    rows = np.arange(7)
    batch = make_collator(config, data, family_inputs(config), None)(rows, 1)
    assert batch["sentence"].dtype == batch["sibling"].dtype == torch.float32
    np.testing.assert_array_equal(batch["sentence"], train.values[train.row[rows]])


@pytest.mark.seconds
def test_words_come_from_training_captions_only(material):
    _, data = opened(material)
    records, parses = material["univse_tiny"].records, material["univse_tiny"].parses
    expected = set()
    for caption in records.split("train").captions:
        found = parses.components(caption.text)
        expected |= {*words(caption.text), *(o.word for o in found.objects)}
        expected |= {w for a in found.attributes for w in (a.word, a.noun)}
        expected |= {w for r in found.relations for w in (r.subject, r.word, r.object)}
    assert set(data.vocabulary.words) == expected
    assert UNKNOWN not in data.train.texts.tokens.values
    unseen = {w for c in records.split("val").captions for w in words(c.text)} - expected
    assert (UNKNOWN in data.val.texts.tokens.values) == bool(unseen)


def test_a_family_without_components_waits_for_no_parser(material):
    _, data = opened(material, "vsepp_tiny")
    assert material["vsepp_tiny"].parses is None
    assert data.pools is None
    assert len(data.train.texts.objects.values) == 0
    assert data.context.feature_dims.keys() == {"pooled"}
    texts = {w for c in material["vsepp_tiny"].records.split("train").captions for w in words(c.text)}
    assert set(data.vocabulary.words) == texts


@pytest.mark.parametrize(("name", "output"), [("univse_tiny", "map"), ("vsepp_tiny", "pooled")])
def test_rows_are_the_images_and_captions_of_the_split(material, name, output):
    _, data = opened(material, name)
    records, features = material[name].records, material[name].features
    for part, split in ((data.train, records.split("train")), (data.val, records.split("val"))):
        assert (part.num_images, len(part)) == (len(split.images), len(split.captions))
        assert part.features.keys() == {output}
        np.testing.assert_array_equal(part.image, split.caption_to_image)
        some = [3, 0, len(split.images) - 1]
        ids = tuple(split.images[k].id for k in some)
        np.testing.assert_array_equal(part.features[output][some], features.array(output, ids))
    assert data.context.feature_dims == {output: features.channels(output)}
    assert data.context.vocabulary_size == len(data.vocabulary)


def test_rare_words_are_unknown(material):
    _, all_words = opened(material, "vsepp_tiny")
    _, fewer = opened(material, "vsepp_tiny", text__min_count=10)
    assert set(fewer.vocabulary.words) < set(all_words.vocabulary.words)
    assert UNKNOWN in fewer.train.texts.tokens.values


def of_captions(train, val):
    images = tuple(Image(f"{split}.png", f"{split}.png", split) for split in ("train", "val"))
    texts = [("train.png", text) for text in train] + [("val.png", text) for text in val]
    return Records("named", images, tuple(Caption(str(k), image, text) for k, (image, text) in enumerate(texts)))


def warning(train, val, **changes):
    records = of_captions(train, val)
    config = override(preset("vsepp_tiny"), {key.replace("__", "."): value for key, value in changes.items()})
    return unfamiliar_words(records, training_vocabulary(config, records, None))


def test_most_words_of_validation_captions_that_are_unknown_are_told():
    line = warning(["a dog runs.", "a cat."], ["ein Hund l\u00e4uft.", "ein Hund, a cat."])
    assert line.startswith("named: 5 of 7 words of the validation captions (71 %) are not in the vocabulary")
    assert "such as 'ein', 'hund', 'l\u00e4uft'; likely causes: words are not separated by spaces" in line
    assert len(line.splitlines()) == 1


def test_words_of_validation_captions_that_are_known_are_not_told():
    assert not warning(["a dog runs.", "a cat."], ["a dog.", "a horse ?! ..."])
    assert not warning(["\u4e00\u53ea\u732b\u5728\u6c99\u53d1\u4e0a"], ["\u6c99\u53d1\u4e0a\u4e00\u53ea"])


def test_words_that_a_threshold_leaves_out_are_told():
    assert not warning(["a dog runs."], ["a dog."], text__min_count=1)
    assert "text.min_count" in warning(["a dog runs."], ["a dog."], text__min_count=2)


def test_a_training_warns_of_unfamiliar_words(caplog):
    records = of_captions(["a dog"], ["ein Hund"])
    warn_unfamiliar(records, training_vocabulary(preset("vsepp_tiny"), records, None))
    assert "2 of 2 words of the validation captions (100 %)" in caplog.text


def test_word_vectors_reach_the_family(material, tmp_path):
    _, plain = opened(material)
    chosen = sorted(plain.vocabulary.words)[:4]
    file = tmp_path / "vectors.txt"
    file.write_text("".join(f"{word} {k} {k}.5 -1\n" for k, word in enumerate(chosen)))
    given = dataclasses.replace(material["univse_tiny"], vectors=functools.partial(word_vectors, str(file)))
    _, data = opened({"univse_tiny": given})
    assert 0 < data.coverage["word_vectors/tokens_found"] < 1
    vectors = data.context.word_vectors
    assert vectors is not None
    assert vectors.shape == (len(data.vocabulary), 3)
    for k, word in enumerate(chosen):
        assert vectors[data.vocabulary.encode([word])[0]].tolist() == [k, k + 0.5, -1]
    told = dataclasses.replace(given, fingerprints={"a": "b"}, backbone_weights="c")
    assert data.checkpoint_files(told)["context.json"] == {
        "feature_dims": dict(data.context.feature_dims),
        "word_vector_dim": 3,
        "sentence_dim": 0,
        "backbone_weights": "c",
        "fingerprints": {"a": "b"},
    }
    sizes = plain.checkpoint_files(material["univse_tiny"])["context.json"]
    assert isinstance(sizes, dict)
    assert sizes["word_vector_dim"] is None


def test_negatives_are_training_words_and_no_attack_word(material):
    config, data = opened(material)
    split, parses = material["univse_tiny"].records.split("train"), material["univse_tiny"].parses
    pools = build_pools((parses.parse(c.text), parses.components(c.text)) for c in split.captions)
    assert data.pools is not None
    assert data.pools.fingerprint == pools.fingerprint
    ids = inputs.pool_ids(data.pools, data.vocabulary)
    for kind, entries in pools.training.words().items():
        found = getattr(ids, kind)
        assert UNKNOWN not in found
        assert (np.diff(found) > 0).all()
        assert set(found) == set(data.vocabulary.encode(entries)) - {UNKNOWN}
    counts = registry_objective(config).negatives
    batch = make_collator(config, data, family_inputs(config), counts)(np.arange(20), 0)
    drawn = batch["object_negatives"].numpy()
    assert np.isin(drawn[drawn != 0], ids.nouns).all()


def registry_objective(config):
    from vse import registry

    return registry.build("objective", config.objective)


def test_an_empty_pool_is_one_line(material):
    _, data = opened(material)
    empty = dataclasses.replace(data.vocabulary, words=("nothing",), counts=(1,))
    assert data.pools is not None
    with pytest.raises(InputError, match="occur often enough in the training captions"):
        inputs.pool_ids(data.pools, empty)


def test_only_the_control_arm_sees_the_truth(material):
    assert opened(material)[1].truth is None
    config, data = opened(material, objective__mask="truth")
    split = material["univse_tiny"].records.split("train")
    assert data.truth is not None
    assert data.truth.shape == (len(split.images), len(split.captions))
    assert data.truth[split.caption_to_image, np.arange(len(split.captions))].all()
    assert data.truth.sum() > len(split.captions)  # partial captions are true of other images too
    other = override(config, {"data": "karpathy", "data.root": "nowhere"})
    with pytest.raises(InputError, match=r"objective\.mask=truth: needs a source that knows"):
        inputs._truth(other, material["univse_tiny"])


def test_identity_is_configuration_material_and_revision(material, monkeypatch):
    config, _ = opened(material)
    base = run_fingerprint(config, material["univse_tiny"])
    assert base == run_fingerprint(override(config, {"seed": 0}), material["univse_tiny"])
    for same in ({"train.workers": 2}, {"train.checkpoint_seconds": 5.0}):
        assert base == run_fingerprint(override(config, same), material["univse_tiny"])
    shared, whole = (
        run_fingerprint(override(config, {"train.gpus_per_worker": gpus}), material["univse_tiny"])
        for gpus in (0.5, 1.0)
    )
    assert shared == whole
    others = [
        whole,
        run_fingerprint(override(config, {"seed": 1}), material["univse_tiny"]),
        run_fingerprint(override(config, {"train.threads": 2}), material["univse_tiny"]),
        run_fingerprint(
            config, dataclasses.replace(material["univse_tiny"], fingerprints={"records": "0", "features": "1"})
        ),
    ]
    monkeypatch.setattr(inputs, "REVISION", inputs.REVISION + 1)
    others.append(run_fingerprint(config, material["univse_tiny"]))
    assert len({base, *others}) == 6
    assert set(material["univse_tiny"].fingerprints) == {"records", "features", "language"}
    assert set(material["vsepp_tiny"].fingerprints) == {"records", "features"}


def test_blocks_hold_every_row_once():
    rows = np.arange(20, dtype=np.float16).reshape(10, 2)
    found = list(inputs.feature_blocks(rows, 4))
    assert [len(block) for block in found] == [4, 4, 2]
    assert torch.equal(torch.cat(found), torch.from_numpy(rows))
