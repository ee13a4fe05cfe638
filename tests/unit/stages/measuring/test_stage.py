"""Every task on a run: the names of its numbers, kept once, and changed by nothing but what was asked."""

import json
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.torch import load, save

from tests.levels import slow_but
from tests.unit.asked import CONTRAST, asked, contrast
from vse.adversaries.caption_pairs import MatchedImages
from vse.config import override
from vse.errors import Diverged, InputError
from vse.evaluation.codes import Codes
from vse.evaluation.outcomes import pack
from vse.evaluation.protocol import PUBLISHED, Protocol
from vse.evaluation.statistics import Sample
from vse.evaluation.tasks import caption_pairs, retrieval
from vse.presets import preset
from vse.stages.measuring import members, plan, stage
from vse.stages.measuring.options import MeasureOptions, Size
from vse.stages.measuring.stage import measure_run
from vse.stages.train import run_training
from vse.stages.trained import load_run

pytestmark = pytest.mark.seconds

CHANGES = {"data.num_val": 4, "data.num_test": 6, "data.num_shifted": 4, "train.epochs": 1, "model.dim": 32}
R = ("r1", "r5", "r10")
PLAIN = {*(f"{side}/{m}" for side in ("i2t", "t2i") for m in (*R, "medr", "meanr")), "rsum", "unknown_words"}
ATTACKED = {*R, "rsum3", "pair_accuracy", "unknown_words"}


def named(split, words=("shared", "disjoint")):
    keys = {f"{split}/{key}" for key in PLAIN}
    for kind in ("object", "attribute", "relation"):
        for one in words:
            behind = "" if one == "shared" else f"/{one}"
            keys |= {f"{split}/attack_{kind}{behind}/{key}" for key in ATTACKED}
    return keys


def test_attacks_as_printed_have_numbers_of_their_own(place, vsepp):
    found = measure_run(vsepp, place, *asked(attacks__words=("shared", "published")))
    assert named("test", ("shared", "published")) <= found.keys()
    assert "test/attack_object/disjoint/r1" not in found


def test_a_published_protocol_measures_its_part_under_its_name(monkeypatch, place, vsepp):
    few = Protocol(name="two images", num_images=2, captions_per_image=1)
    monkeypatch.setitem(PUBLISHED, "coco_1k_first", few)
    found = measure_run(vsepp, place, *asked("retrieval", "attacks", *CONTRAST, protocol="coco_1k_first"))
    assert found["test/coco_1k_first/i2t/meanr"] <= 2  # of the two captions there are
    assert found["test/coco_1k_first/attack_object/r1"] <= found["test/coco_1k_first/i2t/r1"]
    assert not any(key.startswith("test/i2t") for key in found)
    with pytest.raises(InputError, match="needs 5000 images, split test/coco_5k has 6"):
        measure_run(vsepp, place, *asked(protocol="coco_5k"))
    with pytest.raises(InputError, match=r"measure.protocol=flickr_1k has its own folds"):
        measure_run(vsepp, place, *asked(protocol="flickr_1k", folds=2))


def test_true_pairs_are_positives_where_asked(place, vsepp):
    found = measure_run(vsepp, place, *asked("retrieval", "true_pairs"))
    for side in ("i2t", "t2i"):
        assert found[f"test/true_pairs/{side}/r1"] >= found[f"test/{side}/r1"]  # more that is right
        assert 0 <= found[f"test/true_pairs/{side}/map_at_r"] <= 100


@pytest.mark.slow
def test_codes_are_held_against_the_prior_where_a_family_keeps_them(place, vsepp):
    config = override(preset("jwae_mse_scenes"), {**CHANGES, "data.num_train": 40, "optim.lr": 1e-2})
    run = run_training(config, place).folder
    found = measure_run(run, place, *asked("retrieval", "gaussian_codes"))
    for side in ("images", "captions"):
        for when in ("", "before/"):
            assert 0 < found[f"test/gaussian_{side}/{when}ks_median"] <= 1
            for judge in ("own", "fresh"):
                assert 0 <= found[f"test/gaussian_{side}/{when}{judge}_accuracy"] <= 1
    again = run_training(override(config, {"train.epochs": 1, "optim.lr": 1e-12}), place).folder  # stays where it began
    begun = measure_run(again, place, *asked("retrieval", "gaussian_codes"))
    for key, value in begun.items():
        if "gaussian" in key and "before/" not in key:
            side, _, name = key.rpartition("/")
            assert value == pytest.approx(begun[f"{side}/before/{name}"], rel=1e-4), key
            assert begun[f"{side}/before/{name}"] == pytest.approx(found[f"{side}/before/{name}"], rel=1e-6), key
    assert found["test/gaussian_images/std"] != pytest.approx(found["test/gaussian_images/before/std"], rel=1e-2)
    with pytest.raises(InputError, match=r"^tasks=gaussian_codes: n/a: needs codes that are not unit vectors, as jWAE"):
        measure_run(vsepp, place, *asked("gaussian_codes"))
    assert measure_run(vsepp, place, *asked("retrieval", "gaussian_codes")) == measure_run(vsepp, place, ["retrieval"])


def test_an_alpha_for_a_family_without_one_is_refused(place, vsepp):
    with pytest.raises(InputError, match=rf"measure\.alpha=0\.5: the family of {vsepp.name} has no alpha"):
        measure_run(vsepp, place, *asked("retrieval", alpha=0.5))


@pytest.mark.parametrize("family", slow_but(["univse", "vsepp"], "univse"))
def test_names_and_ranges(request, place, family):
    found = measure_run(request.getfixturevalue(family), place, *asked())
    assert found.keys() == named("test")
    for key, value in found.items():
        if key.endswith(("medr", "meanr")):
            assert value >= 1
        else:
            assert 0 <= value <= 100 * {"rsum": 6, "rsum3": 3}.get(key.rsplit("/", 1)[-1], 1), key
    for kind in ("object", "attribute", "relation"):
        assert found[f"test/attack_{kind}/rsum3"] == pytest.approx(sum(found[f"test/attack_{kind}/{r}"] for r in R))
        for r in R:  # adversaries only add candidates
            assert found[f"test/attack_{kind}/{r}"] <= found[f"test/i2t/{r}"] + 1e-9
    assert found["test/rsum"] == pytest.approx(sum(found[f"test/{side}/{r}"] for side in ("i2t", "t2i") for r in R))


def test_computed_once(place, univse, monkeypatch):
    options = asked(attacks__words=("shared",))
    first = measure_run(univse, place, *options)
    folder = univse.child("evaluation")
    (name,) = [n for n in folder.names() if n.startswith("measures-attacks-") and words_of(folder, n) == ["shared"]]
    kept = folder.read_json(name)["metrics"]["test"]
    assert kept == {key.removeprefix("test/"): value for key, value in first.items() if "attack" in key}
    monkeypatch.setattr(members, "encode_split", lambda *a: pytest.fail("measured again"))
    assert measure_run(univse, place, *options) == first
    monkeypatch.setattr(plan, "REVISION", 99)
    with pytest.raises(pytest.fail.Exception):
        measure_run(univse, place, *options)


def words_of(folder, name):
    return folder.read_json(name)["options"]["attacks"]["words"]


def test_a_task_more_measures_no_other_again(place, vsepp, monkeypatch):
    first = measure_run(vsepp, place, *asked("retrieval", splits=("shifted",)))
    monkeypatch.setattr(retrieval.RetrievalTask, "measure", lambda *a: pytest.fail("measured again"))
    both = measure_run(vsepp, place, *asked("retrieval", "true_pairs", splits=("shifted",)))
    assert first.items() <= both.items()
    assert len(both) == len(first) + 12


def test_other_weights_of_the_same_epoch_are_measured_anew(place, vsepp, monkeypatch):
    """A run trained again, on another machine say, may keep the epoch of the same name."""
    options, again = asked("retrieval"), place.run("again")
    shutil.copytree(vsepp.local(), again.local())
    first, seen = measure_run(again, place, *options), list[int]()
    original = members.encode_split

    def watching(*arguments) -> Codes:
        seen.append(1)
        return original(*arguments)

    monkeypatch.setattr(members, "encode_split", watching)
    assert measure_run(again, place, *options) == first
    assert not seen
    kept = load_run(again).checkpoint
    state = load(kept.read_bytes("model.safetensors"))
    kept.write_bytes("model.safetensors", save({name: value.flip(0) for name, value in state.items()}))
    kept.commit_manifest(kept.read_json("manifest.json")["files"])
    assert load_run(again).checkpoint == kept
    assert measure_run(again, place, *options) != first
    assert seen


def test_scores_that_are_nan_name_the_run(place, vsepp):
    """A diverged family would have a perfect rank everywhere: a NaN is above nothing and nothing is above it."""
    again = place.run("diverged")
    shutil.copytree(vsepp.local(), again.local())
    kept = load_run(again).checkpoint
    state = {n: v.fill_(float("nan")) for n, v in load(kept.read_bytes("model.safetensors")).items()}
    kept.write_bytes("model.safetensors", save(state))
    kept.commit_manifest(kept.read_json("manifest.json")["files"])
    with pytest.raises(Diverged, match=r"^run=diverged: scores are NaN, so the training has diverged$"):
        measure_run(again, place, *asked("retrieval"))


def test_without_attacks_nothing_is_parsed(vsepp, place, monkeypatch):
    monkeypatch.setattr("vse.stages.parse.parse_captions", lambda *a: pytest.fail("parsed"))
    found = measure_run(vsepp, place, *asked("retrieval", splits=("val", "shifted")))
    assert found.keys() == named("val", ()) | named("shifted", ())


def test_alpha_and_components_change_what_they_should(place, univse):
    def at(**changes):
        return measure_run(univse, place, *asked("retrieval", **changes))

    configured = at()
    assert at(alpha=0.75) == configured  # the preset's own
    ends = [at(alpha=0.0), at(alpha=1.0)]
    assert ends[0] != ends[1]
    few = at(components=("object",), alpha=1.0)
    assert few == ends[1]  # with alpha 1 the components count for nothing
    assert at(components=("object",), alpha=0.0) != ends[0]


def test_folds_average_equal_parts(place, vsepp, monkeypatch):
    whole, halves = (measure_run(vsepp, place, *asked("retrieval", folds=n)) for n in (1, 2))
    assert halves.keys() == whole.keys()
    assert halves["test/t2i/meanr"] < whole["test/t2i/meanr"]
    with pytest.raises(InputError, match="6 images cannot be divided into 4 equal folds"):
        measure_run(vsepp, place, *asked("retrieval", folds=4))
    monkeypatch.setattr(plan, "attack_split", lambda *a: pytest.fail("adversaries were made first"))
    with pytest.raises(InputError, match="6 images cannot be divided into 4 equal folds"):
        measure_run(vsepp, place, *asked(folds=4))


def test_sizes_are_of_what_was_measured(place, vsepp, monkeypatch):
    few = Protocol(name="two images in folds", num_images=4, captions_per_image=1, folds=2)
    monkeypatch.setitem(PUBLISHED, "coco_1k_first", few)
    whole = stage.measure([vsepp], vsepp.child("evaluation"), place, *asked("retrieval", splits=("test", "val")))
    assert whole.sizes.keys() == {"test", "val"}
    assert (whole.sizes["test"].images, whole.sizes["val"].images, whole.sizes["test"].folds) == (6, 4, 1)
    records = plan.pipeline.prepare(load_run(vsepp).config, place).records
    assert whole.sizes["test"].captions == len(records.split("test").captions)
    options = asked("retrieval", protocol="coco_1k_first")
    for _ in ("measured", "read again"):
        found = stage.measure([vsepp], vsepp.child("evaluation"), place, *options)
        assert found.sizes == {"test/coco_1k_first": Size(4, 4, folds=2)}


def recomputed(outcomes, split):
    """Metrics of a split out of the outcomes of its queries."""
    found = {}
    for metric in ("rsum", *outcomes[split].table):
        hits, queries = outcomes[split].counts(metric)
        sample = Sample(hits=hits[None], queries=queries, images=split)
        if sample.defined:
            found[f"{split}/{metric}"] = sample.value()
    return found


@pytest.mark.parametrize("family", slow_but(["univse", "vsepp"], "univse"))
@pytest.mark.parametrize(
    ("names", "changes"),
    [
        pytest.param((), {"splits": ("test", "shifted")}, marks=pytest.mark.slow),
        ((), {"folds": 3}),
        (("retrieval", "attacks", *CONTRAST), {"attacks__words": ("shared",), **contrast("all")}),
    ],
    ids=str,
)
def test_outcomes_of_queries_give_the_numbers_back(request, place, family, names, changes):
    run = request.getfixturevalue(family)
    measured = stage.measure([run], run.child("evaluation"), place, *asked(*names, **changes))
    found = {key: value for split in measured.outcomes for key, value in recomputed(measured.outcomes, split).items()}
    kept = (*R, "rsum", "pair_accuracy")
    expected = {key: value for key, value in measured.metrics.items() if key.rpartition("/")[2] in kept}
    found = {key: value for key, value in found.items() if key in expected or "own_pool" not in key}  # these lack R@5
    assert found == pytest.approx(expected)
    records = plan.pipeline.prepare(load_run(run).config, place).records
    assert measured.outcomes["test"].images == tuple(image.id for image in records.split("test").images)
    assert all(run.child("evaluation").size(measures.table) for measures in measured.tasks.values() if measures.table)


def test_damaged_outcomes_are_measured_again(place, vsepp, monkeypatch):
    options, folder = asked("retrieval", splits=("val",)), place.run("lacking").child("evaluation")
    first = stage.measure([vsepp], folder, place, *options)
    table = first.tasks["retrieval"].table
    assert len(folder.names()) == 2
    folder.write_bytes(table, folder.read_bytes(table)[:-20])
    again = stage.measure([vsepp], folder, place, *options)
    monkeypatch.setattr(members, "encode_split", lambda *a: pytest.fail("measured again"))
    kept = stage.measure([vsepp], folder, place, *options)
    assert recomputed(kept.outcomes, "val") == recomputed(again.outcomes, "val") == recomputed(first.outcomes, "val")
    folder.write_bytes(table, pack(_rows(folder.read_bytes(table)), {"val": "of other data"}))
    with pytest.raises(pytest.fail.Exception):
        stage.measure([vsepp], folder, place, *options)


def _rows(packed):
    return [pq.read_table(pa.BufferReader(packed)).replace_schema_metadata(None)]


def test_wrong_requests_are_one_line(place, vsepp):
    for wrong, near in (("tset", "test"), ("other", "val")):
        there = f"no split '{wrong}'; it has train, val, test, shifted; measure.splits={near} measures that one$"
        with pytest.raises(InputError, match=there):
            measure_run(vsepp, place, *asked("retrieval", splits=(wrong,)))
    with pytest.raises(InputError, match="holds no finished checkpoint"):
        measure_run(place.run("absent"), place, *asked())
    for changes in ({"attacks.words": "both"}, {"alpha": "1.2"}, {"folds": "0"}):
        with pytest.raises(InputError, match=next(iter(changes))):
            override(MeasureOptions(), changes)
    with pytest.raises(InputError, match=r"^tasks=retreival: unknown; did you mean retrieval\?$"):
        measure_run(vsepp, place, ["retreival"])


@pytest.mark.parametrize("family", ["univse", "vsepp"])
def test_contrastive_captions_of_vse_c(request, place, family):
    run = request.getfixturevalue(family)
    found = measure_run(run, place, *asked("retrieval", *CONTRAST, **contrast("all")))
    plain = measure_run(run, place, *asked("retrieval"))
    own = {key for key in found if key.startswith("test/own_pool_")}
    classes = {key.split("/")[1] for key in own}
    assert {"own_pool_none", "own_pool_noun", "own_pool_numeral", "own_pool_relation", "own_pool_all"} <= classes
    assert found["test/own_pool_none/all/meanr"] == pytest.approx(plain["test/i2t/meanr"])
    for name in ("noun", "numeral", "relation"):  # more candidates never help, and all of them together least
        ranks = [found[f"test/own_pool_{k}/all/meanr"] for k in ("none", name, "all")]
        assert ranks == sorted(ranks)
        assert 0 <= found[f"test/attack_contrast_{name}/all/pair_accuracy"] <= 100
        assert found[f"test/attack_contrast_{name}/all/r1"] <= found[f"test/own_pool_{name}/all/r1"] + 1e-9
    assert found["test/complete/all/images"] <= 6


@pytest.mark.slow
def test_attacks_of_both_papers_keep_their_numbers_beside_each_other(place, vsepp):
    """Both have one on relations."""
    names = (("attacks",), CONTRAST, ("attacks", *CONTRAST))
    one, other, both = (
        measure_run(vsepp, place, *asked("retrieval", *each, attacks__words=("shared",))) for each in names
    )
    assert both == one | other
    assert len(both) == len(one) + len(other) - len(PLAIN)
    named = {key.split("/")[1] for key in both}
    assert {"attack_relation", "attack_contrast_relation", "attack_contrast_plural", "own_pool_relation"} <= named
    twice = asked(splits=("test", "test"), attacks__words=("shared", "shared"))
    assert measure_run(vsepp, place, *twice) == one


@pytest.mark.slow
def test_other_adversaries_are_measured_anew(place, univse, monkeypatch):
    """Those of another generator, parser or rules: each has its fingerprint in the name of what is kept."""
    options = asked("retrieval", "attacks", *CONTRAST, attacks__words=("shared",))
    measure_run(univse, place, *options)
    monkeypatch.setattr(members, "encode_split", lambda *a: pytest.fail("measured again"))
    measure_run(univse, place, *options)
    for changed in (plan.attack_split, plan.contrast_split):
        name = changed.__name__

        def other(*arguments, changed=changed, **more):
            return replace(changed(*arguments, **more), fingerprint="other")

        with monkeypatch.context() as patched:
            patched.setattr(plan, name, other)
            with pytest.raises(pytest.fail.Exception):
                measure_run(univse, place, *options)
    prepare = plan.pipeline.prepare

    def parsed_otherwise(*arguments, **more):
        material = prepare(*arguments, **more)
        return replace(material, fingerprints={**material.fingerprints, "language": "other"})

    monkeypatch.setattr(plan.pipeline, "prepare", parsed_otherwise)
    with pytest.raises(pytest.fail.Exception):
        measure_run(univse, place, *options)


def test_pairs_of_captions_on_images_found_by_name(place, univse, vsepp, tmp_path):
    material = plan.pipeline.prepare(load_run(univse).config, place)
    part = material.records.split("test")
    rows = {
        str(k): {"filename": f"dir/{c.image}.png", "caption": c.text, "negative_caption": negative}
        for k, c in enumerate(part.captions)
        for negative in [c.text if k % 2 else f"no {c.text}"]
    }
    rows["elsewhere"] = {"filename": "000000000042.jpg", "caption": "a dog", "negative_caption": "a cat"}
    path = tmp_path / "swap_obj.json"
    path.write_text(json.dumps(rows))
    for run in (univse, vsepp):
        found = measure_run(run, place, *asked("caption_pairs", caption_pairs__files=(str(path),)))
        assert 0 < found["pairs/swap_obj/found"] < 100
        assert 0 <= found["pairs/swap_obj/swap_obj"] == found["pairs/swap_obj/mean"] <= 100
    del rows["elsewhere"]
    path.write_text(json.dumps(rows))  # edited: measured anew
    assert (
        measure_run(vsepp, place, *asked("caption_pairs", caption_pairs__files=(str(path),)))["pairs/swap_obj/found"]
        == 100
    )
    path.write_text(json.dumps([{**next(iter(rows.values())), "category": "mean"}]))
    with pytest.raises(InputError, match="category 'mean' is the name of another metric"):
        measure_run(vsepp, place, *asked("caption_pairs", caption_pairs__files=(str(path),)))
    rows["elsewhere"] = {"filename": "000000000042.jpg", "caption": "a dog", "negative_caption": "a cat"}
    path.write_text(json.dumps({"0": rows["elsewhere"]}))
    with pytest.raises(InputError, match="none of 1 pairs is of an image of"):
        measure_run(vsepp, place, *asked("caption_pairs", splits=("val",), caption_pairs__files=(str(path),)))


def test_pairs_whose_name_several_images_share_are_left_out_and_told(monkeypatch, caplog, place, vsepp, tmp_path):
    material = plan.pipeline.prepare(load_run(vsepp).config, place)
    own = material.records.split("test").images[0].id
    row = {"caption": "a red ball", "negative_caption": "a blue ball"}
    path = tmp_path / "swap_obj.json"
    options = asked("retrieval", "caption_pairs", caption_pairs__files=(str(path),))
    monkeypatch.setattr(
        caption_pairs, "match_images", lambda pairs, _: MatchedImages({own: own}, frozenset({"001.jpg"}))
    )
    path.write_text(json.dumps([row | {"filename": own}, *[row | {"filename": "001.jpg"}] * 3]))
    told = "3 of 4 pairs give a name that several images share, such as '001.jpg'; write an image's id, or its path"
    assert measure_run(vsepp, place, *options)["pairs/swap_obj/found"] == 25
    assert told in caplog.text
    path.write_text(json.dumps([row | {"filename": "001.jpg"}]))
    with pytest.raises(
        InputError, match=r"none of 1 pairs is of an image of .*; 1 of 1 pairs give a name that several"
    ):
        measure_run(vsepp, place, *options)
