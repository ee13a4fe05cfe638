"""Probes of trained runs: numbers by a loop, sources of word vectors, evaluations that are killed and continue."""

import io
from types import SimpleNamespace
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from tests.unit.asked import asked
from vse.data.records import Records
from vse.data.source import source_of
from vse.errors import InputError
from vse.evaluation.probes import alignment
from vse.evaluation.probes.alignment import AlignmentProbe
from vse.evaluation.probes.blank_filling import BlankProbe
from vse.evaluation.probes.frozen_vectors import random_vectors
from vse.evaluation.task import Context, Subject
from vse.evaluation.tasks.fill_in_blank import FillInBlankTask
from vse.evaluation.tasks.image_to_word import ImageToWordTask
from vse.evaluation.work import plain_map
from vse.stages.measuring.checks import foresee_measure
from vse.stages.measuring.stage import measure, measure_run
from vse.stages.measuring.word_sources import vectors_of
from vse.stages.measuring.work import ResultFolder, work_runner
from vse.stages.trained import load_run
from vse.storage.folder import Folder

pytestmark = pytest.mark.seconds

CHANGES = {"data.num_val": 4, "data.num_test": 8, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 32}
IMAGES = {"image_to_word__epochs": 3, "image_to_word__hidden": 4}
BLANKS = {"fill_in_blank__epochs": 1, "fill_in_blank__dim": 8}


@pytest.fixture
def vectors(tmp_path):
    """A file with vectors of three words."""
    file = tmp_path / "few.npz"
    np.savez(file, words=np.array(["dog", "on", "red"]), vectors=np.eye(3, 4, dtype=np.float32))
    return str(file)


def images_asked(words=("own",), seeds=(0,), **more):
    return asked("image_to_word", image_to_word__words=words, image_to_word__seeds=seeds, **IMAGES, **more)


def blanks_asked(words=("own",), seeds=(0,)):
    return asked("fill_in_blank", fill_in_blank__words=words, fill_in_blank__seeds=seeds, **BLANKS)


def test_image_to_word_by_a_loop(place, vsepp, univse, monkeypatch):
    """MAP of every table and seed from the scores, candidate by candidate; the gain is the difference of two."""
    met = []
    scores = AlignmentProbe.scores

    def spied(probe, trained, images, device):
        given = torch.cat(list(scores(probe, trained, images, device))).double()
        given = 1e5 * (given + torch.linspace(0, 1e-3, given.shape[1]))  # so far apart that none counts as tied
        met.append(given.numpy())
        yield from given.split(alignment.BLOCK)

    monkeypatch.setattr(alignment, "BLOCK", 3)
    monkeypatch.setattr(AlignmentProbe, "scores", spied)
    objects = []
    chosen = ImageToWordTask._objects

    def noted(self, context):
        objects.append(chosen(self, context))
        return objects[-1]

    monkeypatch.setattr(ImageToWordTask, "_objects", noted)
    values = measure_run(vsepp, place, *images_asked(("own", univse.name, "random"), (0, 3)))
    _, here, _ = objects[0]
    queries = np.flatnonzero(here.queries)
    assert values["test/image_to_word/images"] == len(queries) > 0
    means = {}
    for number, label in enumerate(("own", univse.name, "random")):
        precisions = []
        for given in met[2 * number : 2 * number + 2]:
            for row, image in enumerate(queries):
                order = [w for w in np.argsort(-given[row]) if here.positive[image, w] or here.negative[image, w]]
                right = np.array([here.positive[image, w] for w in order])
                precisions.append((right.cumsum() / np.arange(1, len(right) + 1))[right].mean())
        means[label] = 100 * np.mean(precisions)
        assert values[f"test/image_to_word/{label}/map"] == pytest.approx(means[label])
        low, high = (values[f"test/image_to_word/{label}/map_{end}"] for end in ("low", "high"))
        assert low <= means[label] <= high
    gain = values["test/image_to_word/random/map_gain"]
    assert gain == pytest.approx(means["random"] - means["own"])
    assert 0 < values["test/image_to_word/chance"] < 100


def test_fill_in_blank_counts_every_blank(place, univse, monkeypatch):
    """Recalls over nouns, prepositions and both, summed blank by blank."""
    met = []
    ranks = BlankProbe.ranks

    def spied(probe, trained, blanks, images, device, nearest=0):
        met.append((blanks, *ranks(probe, trained, blanks, images, device, nearest)))
        return met[-1][1:]

    monkeypatch.setattr(BlankProbe, "ranks", spied)
    values = measure_run(univse, place, *blanks_asked(("own", "random")))
    assert values["test/fill_in_blank/own/covered"] == pytest.approx(100)
    for (blanks, ranked, _), label in zip(met, ("own", "random"), strict=True):
        for kind, rows in (("noun", blanks.kind == 0), ("preposition", blanks.kind == 1), ("all", blanks.kind >= 0)):
            assert rows.any()
            for k in (1, 10, 100):
                wanted = 100 * ranked.hits(k).numpy()[rows].mean()
                assert values[f"test/fill_in_blank/{label}/{kind}/r{k}"] == pytest.approx(wanted)
    nouns, prepositions = (values[f"test/fill_in_blank/{kind}s"] for kind in ("noun", "preposition"))
    assert nouns + prepositions == len(met[0][0])


def test_word_vectors_of_a_run_a_file_and_none(place, vsepp, vectors):
    own = load_run(vsepp)
    known = own.vocabulary.words[0]
    words = (known, "dog", "unheardof")
    table = vectors_of("own", words, own, place)
    row = own.family.get_parameter("words.embedding.weight")[own.vocabulary.ids[known]]
    assert table.vectors[0] == pytest.approx(row.detach().numpy())
    assert not table.vectors[2].any()
    assert table.found.tolist() == [True, "dog" in own.vocabulary, False]
    assert (vectors_of(vsepp.name, words, own, place).vectors == table.vectors).all()
    file = vectors_of(vectors, words, own, place)
    assert file.vectors[1].tolist() == [1, 0, 0, 0]
    assert file.found.tolist() == [False, True, False]


def test_random_vectors_are_of_the_word_alone():
    one, other = random_vectors(("a", "b", "c"), 400), random_vectors(("c", "a"), 400)
    assert (one.vectors[[2, 0]] == other.vectors).all()
    assert one.vectors.mean() == pytest.approx(0, abs=0.1)
    assert one.vectors.std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), r"^measure\.image_to_word\.words=nowhere: neither a run \(.*\) nor a file of word vectors"),
        (("own", "own"), r"^measure\.image_to_word\.words=own,own: two have the same name"),
        ((), r"^measure\.image_to_word\.words=: name one or more of own, random"),
    ],
)
def test_bad_word_vectors_are_one_line(place, vsepp, words, said):
    for ask in (measure_run, lambda *given: list(foresee_measure([given[0]], *given[1:]))):
        with pytest.raises(InputError, match=said):
            ask(vsepp, place, *images_asked(words))


def test_no_seeds_are_refused(place, vsepp):
    with pytest.raises(InputError, match=r"^measure\.image_to_word\.seeds: name one or more"):
        measure_run(vsepp, place, *images_asked(seeds=()))


def test_a_family_without_words_needs_others(place, vsepp):
    trained = load_run(vsepp)

    class Wordless(type(trained.family)):
        def word_vectors(self, words):
            return None

    trained.family.__class__ = Wordless
    records = Records("empty", (), ())
    subject = Subject(families=(trained.family,), source=source_of(trained.config.data), records=records, own_data=True)
    for kind in (ImageToWordTask, FillInBlankTask):
        assert kind().missing(subject) == "a family that reads word vectors"
        assert not kind(kind.Config(words=("random",))).missing(subject)


def test_a_killed_evaluation_continues(place, vsepp, monkeypatch):
    """What was trained before is read; a damaged probe is trained again; the numbers are those of one go."""
    compute, fitted = AlignmentProbe.compute, []

    def counted(probe, seed, device):
        if len(fitted) == killed_after:
            raise KeyboardInterrupt
        fitted.append(seed)
        return compute(probe, seed, device)

    monkeypatch.setattr(AlignmentProbe, "compute", counted)
    ask = images_asked(("own", "random"), (11, 12))
    killed_after = 3
    with pytest.raises(KeyboardInterrupt):
        measure_run(vsepp, place, *ask)
    assert fitted == [11, 12, 11]
    kept = vsepp.child("evaluation", "probes")
    damaged = next(name for name in kept.names() if name.endswith("-s12.npz"))
    kept.write_bytes(damaged, kept.read_bytes(damaged)[:-40])
    killed_after = 99
    values = measure_run(vsepp, place, *ask)
    assert fitted == [11, 12, 11, 12, 12]
    for name in kept.names():
        kept.delete(name)
    for name in vsepp.child("evaluation").names():
        if name.startswith("measures-"):
            vsepp.child("evaluation").delete(name)
    assert measure_run(vsepp, place, *ask) == values
    assert sorted(fitted[5:]) == [11, 11, 12, 12]


def test_a_further_seed_trains_that_seed_alone(place, vsepp, monkeypatch):
    measure_run(vsepp, place, *blanks_asked(seeds=(21, 22)))
    compute, fitted = BlankProbe.compute, []

    def counted(probe, seed, device):
        fitted.append(seed)
        return compute(probe, seed, device)

    monkeypatch.setattr(BlankProbe, "compute", counted)
    measure_run(vsepp, place, *blanks_asked(seeds=(21, 22, 23)))
    assert fitted == [23]


def test_kept_probes_are_read_back(tmp_path):
    folder, arrays = ResultFolder(Folder.open(tmp_path)), {"a.b": np.arange(6.0).reshape(2, 3), "c": np.zeros(0)}
    assert folder.read("x") is None
    folder.write("x", arrays)
    again = folder.read("x")
    assert again is not None
    assert again.keys() == arrays.keys()
    assert all((again[name] == arrays[name]).all() for name in arrays)


@pytest.mark.parametrize("name", ["vsepp_tiny", "univse_tiny"])
def test_every_family_gives_its_table(place, vsepp, univse, name):
    trained = load_run({"vsepp_tiny": vsepp, "univse_tiny": univse}[name])
    vectors = trained.family.word_vectors(torch.tensor([4, 5]))
    assert vectors is not None
    assert vectors.shape[0] == 2
    assert vectors.any()


def test_what_is_recorded_gives_the_numbers_and_pictures_are_kept(place, vsepp):
    for ask, name, picture in (
        (images_asked(("own", "random"), (0, 5)), "image_to_word/{}/map{}", "words.png"),
        (blanks_asked(("own", "random"), (0, 5)), "fill_in_blank/{}/noun/r10{}", "blanks.png"),
    ):
        measured = measure([vsepp], vsepp.child("evaluation"), place, *ask)
        (task,) = measured.tasks.values()
        for label, end in (("own", ""), ("random", ""), ("random", "_gain")):
            metric = name.format(label, end)
            by_unit = task.outcomes["test"].by_unit[metric]
            assert 100 * by_unit.hits.sum() / by_unit.queries.sum() == pytest.approx(measured.metrics[f"test/{metric}"])
            assert (by_unit.queries > 0).all()
        (file,) = task.pictures
        assert file.endswith(picture)
        with PIL.Image.open(io.BytesIO(vsepp.child("evaluation").read_bytes(file))) as image:
            assert image.width > 400


def test_one_seed_has_no_interval_of_seeds(place, vsepp):
    values = measure_run(vsepp, place, *images_asked(seeds=(0,)))
    assert "test/image_to_word/own/map" in values
    assert not any(name.endswith(("_low", "_high")) for name in values)


def test_without_ray_this_process_trains():
    with work_runner() as runner:
        assert runner is plain_map


def test_tables_of_words_that_are_equal(place, vsepp, vectors):
    """Two objects may have one form: each gets its vector."""
    runs = SimpleNamespace(word_vectors=lambda s, w: vectors_of(s, w, load_run(vsepp), place))
    context: Any = object.__new__(Context)
    context.runs = runs
    words = ("on", "dog", "on", "nowhere")
    tables = ImageToWordTask(ImageToWordTask.Config(words=(vectors, "random"))).tables(context, words)
    assert (tables["few"].vectors == np.eye(3, 4)[[1, 0, 1, 1]] * [[1], [1], [1], [0]]).all()
    assert tables["few"].found.tolist() == [True, True, True, False]
    assert tables["random"].vectors.shape == (4, 300)
    assert (tables["random"].vectors[0] == tables["random"].vectors[2]).all()
