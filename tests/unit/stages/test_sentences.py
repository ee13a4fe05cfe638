"""Sentence features as a stage: fitted on training captions only, kept, the same for any text."""

from dataclasses import replace

import numpy as np
import pytest

from tests import s3
from vse import registry
from vse.config import override, to_dict
from vse.errors import InputError
from vse.stages.sentences import SentenceStore, fitted
from vse.storage.folder import Folder
from vse.text.sentence.features import SentenceFeatures, WordSentenceFeatures
from vse.text.sentence.kinds import GMM, HGLMM, Mean, NoSentence, sentence_fingerprint
from vse.text.word_vectors import WordVectors

NOUNS, PLACES = ("dog", "cat", "man", "bird", "kite"), ("grass", "sofa", "street", "roof")
TRAIN = [f"A {n} on the {p}." for n in NOUNS for p in PLACES[:3]] + [f"one {NOUNS[0]}"]
OTHERS = ["A kite on the roof.", "zebra", "", "A dog on the grass."]
VOCABULARY = ("<pad>", "a", "on", "the", ".", "one", *NOUNS, *PLACES)


@pytest.fixture
def vectors():
    values = np.random.default_rng(0).normal(size=(len(VOCABULARY), 6)).astype(np.float32)
    found = np.array([word not in ("<pad>", "one") for word in VOCABULARY])
    return WordVectors(VOCABULARY, values * found[:, None], found, "text", "0123abcd")


def config(kind, **changes):
    return override(registry.component("sentence", kind).Config(), changes)


SMALL = {"num_components": 2, "dims": 8}


def test_defaults_are_the_published_ones():
    assert registry.names("sentence") == ("encoder", "gmm", "hglmm", "mean", "none", "states")
    for kind in (GMM, HGLMM):
        published = {"num_components": 30, "dims": 6000, "power": 0.5}
        assert published.items() <= to_dict(kind.Config()).items()
    assert Mean.Config().dims == 0


@pytest.mark.parametrize(
    ("kind", "changes", "dim"),
    [
        ("mean", {}, 6),
        ("mean", {"dims": 4}, 4),
        ("gmm", SMALL, 8),
        ("hglmm", SMALL, 8),
        ("hglmm", {"num_components": 2, "dims": 0}, 24),
    ],
)
def test_fit_keep_and_encode(tmp_path, vectors, kind, changes, dim):
    place, chosen = Folder.open(tmp_path).child, config(kind, **changes)
    features = fitted(chosen, TRAIN, vectors, place)
    assert features is not None
    assert features.dim == dim
    found = features.encode(OTHERS)
    assert found.shape == (4, dim)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[1], found[2], atol=1e-6)  # no known word in either
    direct = registry.build("sentence", chosen).fit(TRAIN, vectors)
    np.testing.assert_array_equal(direct.encode(OTHERS), found)
    np.testing.assert_allclose(features.encode(OTHERS[3:]), found[3:], atol=1e-5)  # neighbours change nothing
    again = SentenceFeatures.open(place(features.fingerprint).child("fit"))
    np.testing.assert_array_equal(again.encode(OTHERS), found)


def test_fitted_arrays_are_not_read_back_from_a_store(vectors, s3_proxy, request):
    features = registry.build("sentence", config("hglmm", **SMALL)).fit(TRAIN, vectors)
    features.save(Folder.open(s3.address_of(request, s3_proxy.place)))
    assert s3_proxy.seen.count("PUT") == 10
    assert s3_proxy.seen.count("GET") == 1  # words.json


def test_there_are_as_many_components_as_the_training_captions_have(vectors):
    features = registry.build("sentence", config("hglmm", num_components=3)).fit(TRAIN, vectors)
    whole = features.unreduced(features.bags(TRAIN)).astype(np.float64)
    values = np.linalg.svd(whole - whole.mean(0), compute_uv=False)
    assert features.dim == (values > 1e-5 * values[0]).sum() <= len(TRAIN) - 1


def test_mean_is_the_mean_of_the_known_words(vectors):
    features = Mean(Mean.Config()).fit(TRAIN, vectors)
    rows = [VOCABULARY.index(word) for word in ("a", "dog", "on", "the", "grass", ".")]
    np.testing.assert_allclose(features.encode([OTHERS[3]])[0], vectors.vectors[rows].mean(0), rtol=1e-5)
    np.testing.assert_array_equal(features.encode(["one zebra"]), np.zeros((1, 6)))


def test_what_is_fitted_depends_on_training_captions_alone(tmp_path, vectors):
    chosen = config("hglmm", **SMALL)
    one = registry.build("sentence", chosen).fit(TRAIN, vectors)
    other = registry.build("sentence", chosen).fit(TRAIN[:-1], vectors)
    assert one.fingerprint != other.fingerprint
    digits = {
        sentence_fingerprint(chosen, TRAIN, vectors),
        sentence_fingerprint(config("gmm", **SMALL), TRAIN, vectors),
        sentence_fingerprint(override(chosen, {"seed": 1}), TRAIN, vectors),
        sentence_fingerprint(chosen, TRAIN[::-1], vectors),
    }
    assert len(digits) == 4
    assert one.fingerprint in digits


@pytest.mark.parametrize(("power", "weight"), [(1.0, 0.75), (0.5, 3**0.5 / (1 + 3**0.5)), (0.0, 0.5)])
def test_frequent_words_weigh_by_a_power_of_their_count(vectors, power, weight):
    features = registry.build("sentence", config("gmm", num_components=2, dims=0, count_power=power)).fit(
        ["dog", "dog cat dog"], vectors
    )
    assert features.mixture.weights.max() == pytest.approx(weight)


def test_none_is_none(tmp_path, vectors):
    assert fitted(NoSentence.Config(), TRAIN, vectors, Folder.open(tmp_path).child) is None
    assert NoSentence(NoSentence.Config()).fit(TRAIN, vectors) is None


def test_captions_without_a_known_word_are_refused(vectors):
    with pytest.raises(InputError, match="contain no word of the training captions"):
        HGLMM(HGLMM.Config()).fit(["zebra", "one"], vectors)
    with pytest.raises(InputError, match=r"text\.sentence\.dims: components need two training captions"):
        HGLMM(HGLMM.Config()).fit(["dog"], vectors)


def array(store, texts):
    """Vectors of texts in single precision."""
    return store.vectors(texts).of(np.arange(len(texts))).numpy()


@pytest.mark.parametrize("scale", [1e9, 1e5, 1e3, 1, 1e-3, 1e-5, 1e-7, 1e-9])
def test_vectors_that_half_precision_cannot_hold_are_refused(tmp_path, vectors, scale):
    scaled = replace(vectors, vectors=vectors.vectors * np.float32(scale))
    features = fitted(config("mean"), TRAIN, scaled, Folder.open(tmp_path).child)
    assert features is not None
    if not 1e-5 <= scale <= 1e3:
        with pytest.raises(InputError, match=r"^text\.word_vectors: .* half precision, .*; scale all word vectors"):
            SentenceStore.make(features, TRAIN, Folder.open(tmp_path).child, tmp_path / "cache")
        return
    store = SentenceStore.make(features, TRAIN, Folder.open(tmp_path).child, tmp_path / "cache")
    exact = features.encode(TRAIN).astype(np.float64)
    lost = np.linalg.norm(array(store, TRAIN) - exact, axis=1) / np.linalg.norm(exact, axis=1)
    assert lost.max() < 2.0**-7


class TestStore:
    @pytest.fixture
    def make(self, tmp_path, vectors, monkeypatch):
        """A store of the training captions in four shards, in a folder; `cache` is the node."""
        monkeypatch.setattr("vse.stages.sentences.SHARD_TEXTS", 4)
        features = fitted(config("hglmm", **SMALL), TRAIN, vectors, Folder.open(tmp_path).child)
        assert features is not None

        def made(folder, cache="cache"):
            return SentenceStore.make(features, [*TRAIN, *TRAIN], folder.child, tmp_path / cache)

        return made

    @pytest.fixture
    def place(self, tmp_path):
        return Folder.open(tmp_path)

    @pytest.fixture
    def store(self, make, place):
        return make(place)

    def test_kept_and_other_texts_in_any_order(self, store):
        texts = [TRAIN[9], OTHERS[0], TRAIN[0], OTHERS[0], TRAIN[9]]
        found = array(store, texts)
        assert (found.dtype, found.shape) == (np.float32, (5, store.dim))
        np.testing.assert_allclose(found, store.features.encode(texts), atol=1e-3)
        np.testing.assert_array_equal(found[0], found[4])
        np.testing.assert_array_equal(array(store, texts[::2]), found[::2])  # without another text beside them
        assert array(store, []).shape == (0, store.dim)

    def test_kept_ones_are_not_computed_again(self, store, monkeypatch):
        monkeypatch.setattr(WordSentenceFeatures, "encode", lambda *a: pytest.fail("computed"))
        assert np.isfinite(array(store, TRAIN)).all()

    def test_a_stopped_run_goes_on(self, store, make, place, monkeypatch):
        before = array(store, TRAIN)
        store.folder.delete("manifest.json")
        store.folder.delete("vectors-00001.npy")
        encoded = []
        encode = WordSentenceFeatures.encode
        monkeypatch.setattr(WordSentenceFeatures, "encode", lambda self, t: (encoded.extend(t), encode(self, t))[1])
        again = make(place, "another node")
        assert encoded == TRAIN[4:8]
        np.testing.assert_array_equal(array(again, TRAIN), before)

    def test_a_node_has_them_once_mapped_in_half_precision(self, store, make, place, tmp_path, monkeypatch):
        found = store.vectors(TRAIN[5:9]).values
        assert isinstance(found, np.memmap)
        assert (found.dtype, found.shape) == (np.float16, (len(TRAIN), store.dim))
        assert store.vectors(TRAIN[:2]).values is found  # another split
        monkeypatch.setattr("vse.stages.sentences.read_checked", lambda *a: pytest.fail("read again"))
        np.testing.assert_array_equal(array(make(place), TRAIN), store.vectors(TRAIN).values)  # another process
        assert len(list((tmp_path / "cache").rglob("*.npy"))) == 1

    @pytest.mark.parametrize("remote", [False, True])
    def test_damage_is_found_and_made_again(self, remote, make, place, s3_server, request, tmp_path, monkeypatch):
        monkeypatch.setenv("VSE_CACHE", str(tmp_path / "own cache"))
        folder = Folder.open(s3.address_of(request, s3_server)) if remote else place
        store = make(folder)
        before, name = array(store, TRAIN), "vectors-00002.npy"
        data = bytearray(store.folder.read_bytes(name))
        data[-3] ^= 64
        store.folder.write_bytes(name, bytes(data))
        np.testing.assert_array_equal(array(make(folder, "another node"), TRAIN), before)
        store.folder.write_bytes(name, bytes(data[:-1]))  # cut short
        np.testing.assert_array_equal(array(make(folder, "a third node"), TRAIN), before)

    def test_a_damaged_shard_beside_a_missing_one_is_made_again_too(self, store, make, place, caplog):
        before = array(store, TRAIN)
        data = bytearray(store.folder.read_bytes("vectors-00002.npy"))
        data[-3] ^= 64
        store.folder.write_bytes("vectors-00002.npy", bytes(data))
        store.folder.delete("vectors-00000.npy")
        np.testing.assert_array_equal(array(make(place, "another node"), TRAIN), before)
        assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == [
            f"{store.folder}: vectors-00002.npy is damaged or missing; making them again"
        ]

    def test_a_store_sends_nothing_back_that_was_just_written(self, make, s3_proxy, request, tmp_path, monkeypatch):
        monkeypatch.setenv("VSE_CACHE", str(tmp_path / "own cache"))
        folder = Folder.open(s3.address_of(request, s3_proxy.place))
        store = make(folder)
        sent = s3_proxy.seen.count("GET")  # manifests and listings, and those of the lease
        assert sent < 10
        monkeypatch.setattr("vse.stages.sentences.SHARD_TEXTS", 1)
        more = make(folder.child("more"))
        assert len(more.manifest["files"]) == len(store.manifest["files"]) + 12
        assert s3_proxy.seen.count("GET") == 2 * sent
