"""States of words by a frozen text encoder through the stages: stored in shards, mapped, and read by families."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.levels import slow
from tests.tiny_encoder import write_encoder
from vse.config import override
from vse.errors import InputError
from vse.inference.embedder import Embedder, sentence_features
from vse.inference.served_model import pack
from vse.inference.towers import text_tower
from vse.presets import preset
from vse.stages import pipeline, sentences
from vse.stages.sentences import SentenceStore, fitted
from vse.stages.train import run_training
from vse.stages.trained import encode_split, load_run
from vse.storage.folder import Folder
from vse.text.encoder import TransformersEncoder
from vse.text.sentence.encoded import EncoderWordStates
from vse.text.sentence.features import SentenceFeatures
from vse.text.sentence.kinds import WordStates
from vse.text.tokens import words
from vse.training.batches import text_batch
from vse.training.config import RunConfig
from vse.training.examples import encode_texts
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

TEXTS = ["a red dog is left of two dogs", "a zebra", "", "a cat on the street", "the man's dog", "a zebra"]
SMALL = {
    "data.num_train": 8,
    "data.num_val": 4,
    "data.num_test": 4,
    "data.num_shifted": 2,
    "train.epochs": 1,
    "train.batch_size": 8,
    "model.dim": 4,
    "text.sentence": "states",
    "text.encoder": "transformers",
}


ADVERSARIES = {"objective": "vsec", "text__contrast__minimum": 1, "text__contrast__held_out": False}


def config(folder: Path, family: str = "vsepp", **changes: Any) -> RunConfig:
    base = override(preset("vsepp_tiny"), {"model": family, "model.text": "states", **SMALL})
    given = {key.replace("__", "."): value for key, value in changes.items()}
    return override(base, {"text.encoder.model": str(folder), **given})


def features_of(folder: Path) -> EncoderWordStates:
    return EncoderWordStates(TransformersEncoder(TransformersEncoder.Config(model=str(folder))))


def test_states_are_kept_in_shards_and_an_interrupted_run_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    features, place = features_of(write_encoder(tmp_path / "encoder")), Folder.open(tmp_path / "language").child
    monkeypatch.setattr(sentences, "SHARD_TEXTS", 2)
    encode, asked = EncoderWordStates.encode, list[int]()

    def stop(self: EncoderWordStates, texts: Any) -> np.ndarray:
        asked.append(len(texts))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return encode(self, texts)

    monkeypatch.setattr(EncoderWordStates, "encode", stop)
    with pytest.raises(KeyboardInterrupt):
        SentenceStore.make(features, TEXTS, place, tmp_path / "cache")
    store = SentenceStore.make(features, TEXTS, place, tmp_path / "cache")
    assert asked == [2, 2, 1, 1]  # five texts are distinct, and two shards are kept
    vectors = store.vectors(TEXTS)
    assert vectors.values.dtype == np.float16
    assert vectors.lengths is not None
    assert vectors.lengths.tolist() == [max(1, len(words(text))) + 2 for text in TEXTS]
    order = np.array([3, 0, 5, 2])
    found = vectors.of(order).numpy()
    for row, number in zip(found, order, strict=True):
        own = encode(features, [TEXTS[number]]).astype(np.float16).astype(np.float32)
        np.testing.assert_allclose(row[: len(own)], own, atol=2e-3)
        assert not row[len(own) :].any()
    mixed = store.vectors(["the dog", TEXTS[4], "a man runs"])  # one that is stored between two that are not
    for number, text in enumerate(["the dog", TEXTS[4], "a man runs"]):
        own = encode(features, [text]).astype(np.float16)
        np.testing.assert_allclose(mixed.of(np.array([number])).numpy()[0], own, atol=2e-3)


def test_stored_states_are_mapped_and_not_copied(tmp_path: Path) -> None:
    features, place = features_of(write_encoder(tmp_path / "encoder")), Folder.open(tmp_path / "language").child
    stores = [SentenceStore.make(features, TEXTS, place, tmp_path / "cache") for _ in range(2)]
    one, other = (store.vectors(TEXTS[:4]).values for store in stores)
    assert one.base is not None
    np.testing.assert_array_equal(one, other)
    assert len(list((tmp_path / "cache" / "arrays").rglob("*.npy"))) == 1
    assert not one.flags.writeable


def test_features_outlive_the_folder(tmp_path: Path) -> None:
    encoder = TransformersEncoder(TransformersEncoder.Config(model=str(write_encoder(tmp_path / "encoder"))))
    place = Folder.open(tmp_path / "language").child
    made = fitted(WordStates.Config(), ["ignored"], encoder, place)
    assert made is not None
    expected = made.encode(TEXTS)
    shutil.rmtree(tmp_path / "encoder")
    again = SentenceFeatures.open(place(made.fingerprint).child("fit"))
    assert isinstance(again, EncoderWordStates)
    assert again.fingerprint == made.fingerprint != encoder.fingerprint
    np.testing.assert_array_equal(again.encode(TEXTS), expected)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("vsepp", {"model__image": "map"}),
        ("scan", {"model__text": "projected"}),
        *slow(
            [
                ("vse_infinity", {"model__hidden_dim": 4}),
                ("relational", {"model__heads": 2, "model__feedforward_dim": 4}),
                ("vsec", ADVERSARIES),
            ]
        ),
    ],
)
def test_runs_on_states(tmp_path: Path, family: str, changes: dict[str, Any]) -> None:
    folder, place = write_encoder(tmp_path / "encoder"), Workspace.open(str(tmp_path / "workspace"))
    wanted = config(folder, family, **changes)
    result = run_training(wanted, place)
    trained, material = load_run(result.folder), pipeline.prepare(wanted, place)
    shutil.rmtree(folder)
    codes = encode_split(trained, material, "test")
    features = sentence_features(trained, place)
    assert features is not None
    captions = [caption.text for caption in material.records.split("test").captions]
    texts = Embedder(trained, features).read(captions)
    mine = text_batch(texts, np.arange(len(captions)), False)
    for key, code in trained.family.encode_captions(mine).items():
        np.testing.assert_allclose(code.detach(), codes.captions[key], atol=1e-4)
    with pytest.raises(InputError, match=r"^towers=text: this run reads states of text.encoder"):
        text_tower(Embedder(trained, features))
    if family != "scan":
        packed = pack(trained, result.folder, features).folder.local()
        shutil.copytree(packed, tmp_path / "pack")
        vectors = Embedder(trained, features).encode_captions(captions)
        np.testing.assert_allclose(
            Embedder.open(Folder.open(tmp_path / "pack")).encode_captions(captions), vectors, atol=1e-6
        )


def test_adversaries_in_training_are_the_encoders(tmp_path: Path) -> None:
    """Drawn as ids, encoded as words: the states are those of the text, and the caption's where nothing differs."""
    from vse.training.batches import Contrast
    from vse.training.config import family_inputs
    from vse.training.inputs import make_collator, training_inputs

    folder, place = write_encoder(tmp_path / "encoder"), Workspace.open(str(tmp_path / "workspace"))
    wanted = config(folder, "vsec", **ADVERSARIES)
    material = pipeline.prepare(wanted, place)
    data = training_inputs(wanted, material, family_inputs(wanted))
    collate = make_collator(wanted, data, family_inputs(wanted), None)
    assert any(isinstance(extra, Contrast) for extra in collate.extras)
    batch, features = collate(np.arange(8), 1), features_of(folder)
    there = batch["contrast_lengths"] > 0
    assert there.any()
    for row, k in there.nonzero().tolist():
        length = int(batch["contrast_lengths"][row, k])
        text = " ".join(data.vocabulary.decode(batch["contrast"][row, k, 1 : length - 1].tolist()))
        states = batch["contrast_states"][row, k]
        np.testing.assert_allclose(states[:length], features.encode([text]), atol=2e-3)
        assert not states[length:].any()
    vectors = encode_texts(["a red ball"], data.vocabulary, None, material.sentences).sentence
    assert vectors is not None


@pytest.mark.parametrize(
    ("family", "changes", "line"),
    [
        ("vsepp", {"text__encoder": "none"}, r"text.sentence=states: needs a text encoder; add text.encoder"),
        (
            "vsepp",
            {"text__sentence": "encoder"},
            r"text.sentence=encoder: this family reads states of words; use text.",
        ),
        ("vsepp", {"text__sentence": "none"}, r"text.sentence=none: this family reads states of words; use text."),
        ("vsepp", {"model__text": "sentence"}, r"text.sentence=states: this family reads one vector of a caption"),
        ("vsepp", {"model__text": "words"}, r"text.encoder: nothing reads .* add model.text=states text.sentence=st"),
        ("univse", {}, r"text.encoder: nothing reads its vectors; family univse reads words, or leave it out"),
        ("vsepp", {"text__word_vectors": "captions"}, r"text.word_vectors=captions: has no effect with text.encoder"),
        ("vsepp", {"text__encoder": "open_clip"}, r"text.encoder=open_clip: gives no word states; use text"),
        ("vsec", {"objective": "vsec", "text__min_count": 2}, r"text.min_count=2: adversaries go through"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path: Path, family: str, changes: dict[str, Any], line: str) -> None:
    folder, changes = write_encoder(tmp_path / "encoder"), dict(changes)
    base = {"model": family, **SMALL, "text.encoder": changes.pop("text__encoder", "transformers")}
    if family != "univse":
        base["model.text"] = changes.pop("model__text", "states")
    if base["text.encoder"] == "transformers":
        base["text.encoder.model"] = str(folder)
    base |= {key.replace("__", "."): value for key, value in changes.items()}
    with pytest.raises(InputError, match=f"^{line}") as error:
        pipeline.check(override(preset("vsepp_tiny"), base))
    assert "\n" not in str(error.value)
