"""Searches of a data set in files, here and on S3, and of a folder: what is found, what is marked, what is refused."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests import photographs, s3
from tests.jobs.odd_data import write_arrays
from vse.cli.command import Request
from vse.config import override
from vse.errors import Diverged, InputError
from vse.inference import image_search as search_module
from vse.inference.embedder import Embedder
from vse.inference.image_search import SearchOptions, check_search, place_of, search, sentences_of
from vse.presets import preset
from vse.report.search_page import build_search, thumbnail
from vse.stages.extract import Forward
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

SHORT = {"train.epochs": 1, "model.dim": 32, "features.backbone": "small"}


def train(place: Workspace, name: str, **changes: Any) -> str:
    given = {key.replace("__", "."): value for key, value in changes.items()}
    return run_training(override(preset(name), {**given, **SHORT}), place).run


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return photographs.write(tmp_path_factory.mktemp("data") / "tiny")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("search") / "workspace"))


@pytest.fixture(scope="module")
def run(place: Workspace, data: Path) -> str:
    own = {"data": "table", "data__file": "captions.csv", "data__root": str(data)}
    return train(place, "vsepp_tiny", model="scan", **own)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"^text, image: give sentences \(\"text=a red ball\", texts=FILE\) or image=FILE$"),
        ({"text": ("a dog",), "image": "a.png"}, "^text, image: "),
        ({"image": "a.png", "images": "folder"}, "^images: a folder has no captions"),
        ({"text": ("",)}, "^text: '' has no word to search by"),
        ({"text": ("a dog", " ... ")}, r"^text: '\.\.\.' has no word"),
        ({"text": ("\U0001f415 \u2b50",)}, "has no word to search by; \U0001f415, \u2b50: not in the vocabulary"),
        ({"texts": "absent.txt"}, r"^texts=absent\.txt: no such file"),
        ({"texts": "TMP/empty.txt"}, r"empty\.txt: holds no sentence"),
        ({"texts": "TMP/latin.txt"}, r"latin\.txt: is not UTF-8 text"),
        ({"texts": "TMP/dots.txt"}, r"dots\.txt: line 2: '\.\.\.' has no word"),
    ],
)
def test_what_is_no_search_is_one_line(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    for name, content in (("empty", b"\n \n"), ("latin", b"caf\xe9"), ("dots", b"a dog\n...\n")):
        (tmp_path / f"{name}.txt").write_bytes(content)
    given: dict[str, Any] = {}
    for key, value in options.items():
        given[key] = value.replace("TMP", str(tmp_path)) if isinstance(value, str) else value
    with pytest.raises(InputError, match=message) as told:
        sentences_of(SearchOptions(**given))
    assert len(str(told.value).splitlines()) == 1


def test_sentences_come_as_captions_are_kept_and_once(tmp_path: Path) -> None:
    (tmp_path / "some.txt").write_bytes("\ufeffa dog, and  a cat\r\n\n cafe\u0301 \na dog\n".encode())
    options = SearchOptions(text=("a dog", " a  dog"), texts=str(tmp_path / "some.txt"))
    assert sentences_of(options) == ["a dog", "a dog, and a cat", "caf\u00e9"]
    assert sentences_of(SearchOptions(text=("a #red_ball &amp; http://a.example",))) == ["a red ball &"]


@pytest.mark.seconds
def test_the_images_of_a_split_in_the_order_of_their_scores(place: Workspace, run: str, data: Path) -> None:
    caption = photographs.captions_of(13)[1]
    texts = (f"{caption.capitalize()}.", "a dog with, say, a xylophone \U0001f415")
    found = search(place, SearchOptions(run=run, text=texts, top=3))
    files = [str(data / "images" / f"{k}.png") for k in range(12, 16)]
    scores = Embedder.of_run(place, run).scores(files, texts)
    assert (found.number, found.what, found.among) == (4, "images", "split test of captions")
    for answer, column in zip(found.answers, scores.T, strict=True):
        order = np.argsort(-column)
        assert [place_of(hit.item.uri, found.root) for hit in answer.hits] == [files[k] for k in order[:3]]
        np.testing.assert_allclose([hit.score for hit in answer.hits], column[order[:3]], atol=5e-3)
        assert [hit.rank for hit in answer.hits] == [1, 2, 3]
        assert (answer.median, answer.highest) == pytest.approx((np.median(column), column.max()), abs=5e-3)
    first, second = found.answers
    assert [hit.item.id for hit in (*first.hits, *first.missed) if hit.true] == ["images/13.png"]
    assert second.true_ranks == ()
    assert {"say", "xylophone", "\U0001f415"} <= set(second.unknown)


@pytest.mark.seconds
def test_what_is_true_and_stands_further_down_is_kept(place: Workspace, run: str) -> None:
    for k in range(12, 16):
        (answer,) = search(place, SearchOptions(run=run, text=(photographs.captions_of(k)[0],), top=1)).answers
        true = [hit for hit in (*answer.hits, *answer.missed) if hit.true]
        assert [hit.item.id for hit in true] == [f"images/{k}.png"]
        assert all(hit.rank > 1 for hit in answer.missed)
        assert len(answer.hits) == 1


def test_features_of_a_split_are_not_made_again(place: Workspace, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **more: Any) -> None:
        raise AssertionError("a backbone was loaded")

    monkeypatch.setattr(Forward, "__init__", refuse)
    assert len(search(place, SearchOptions(run=run, text=("a dog",), split="train")).answers[0].hits) == 8
    assert search(place, SearchOptions(run=run, image="images/13.png")).number == 8


@pytest.mark.parametrize("given", ["images/13.png", "FILE"])
def test_the_captions_of_an_image_of_the_data_set(place: Workspace, run: str, data: Path, given: str) -> None:
    file = str(data / "images" / "13.png")
    found = search(place, SearchOptions(run=run, image=given.replace("FILE", file), top=8))
    (answer,) = found.answers
    captions = [caption for k in range(12, 16) for caption in photographs.captions_of(k)]
    scores = Embedder.of_run(place, run).scores([file], captions)[0]
    assert found.number == 8
    assert {hit.item.text for hit in answer.hits} == set(captions)
    np.testing.assert_allclose([hit.score for hit in answer.hits], np.sort(scores)[::-1], atol=5e-3)
    assert {hit.item.text for hit in answer.hits if hit.true} == set(photographs.captions_of(13))
    assert thumbnail(found.picture, found.root)


def test_the_captions_of_another_picture(place: Workspace, run: str, tmp_path: Path) -> None:
    Image.new("RGB", (30, 20), "red").save(tmp_path / "13.png")  # the name of one that is there
    found = search(place, SearchOptions(run=run, image=str(tmp_path / "13.png"), top=100))
    (answer,) = found.answers
    assert len(answer.hits) == found.number == 8
    assert answer.true_ranks == ()
    assert thumbnail(found.picture, found.root)
    with pytest.raises(InputError, match=r"^image=.*absent\.png: no such file, and no image of captions has this id$"):
        search(place, SearchOptions(run=run, image=str(tmp_path / "absent.png")))
    (tmp_path / "broken.png").write_bytes(b"x")
    with pytest.raises(InputError, match=r"^image=.*broken\.png: not an image of a known format$"):
        search(place, SearchOptions(run=run, image=str(tmp_path / "broken.png")))


def test_a_folder_of_pictures_less_those_that_cannot_be_read(
    place: Workspace, run: str, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "some, pictures"
    shutil.copytree(data / "images", folder / "deep")
    (folder / "broken.jpg").write_bytes(b"x")
    (folder / "empty.png").write_bytes(b"")
    (folder / "notes.txt").write_text("no picture")
    with caplog.at_level("WARNING", logger="vse"):
        found = search(place, SearchOptions(run=run, text=("a dog", "a cup"), images=str(folder), top=5))
    assert found.rejects == {"broken.jpg": "not an image of a known format", "empty.png": "file is empty"}
    others, line = caplog.messages
    assert others == f"images={folder}: skipped 1 file that is not an image"
    assert line.startswith(f"images={folder}: 2 of 18 left out (1 x not an image of a known format, 1 x file is empty)")
    assert found.number == 16
    scores = Embedder.of_run(place, run).scores(sorted((folder / "deep").iterdir()), ["a dog", "a cup"])
    for answer, column in zip(found.answers, scores.T, strict=True):
        np.testing.assert_allclose([hit.score for hit in answer.hits], np.sort(column)[::-1][:5], atol=1e-5)
        assert all(thumbnail(hit.item.uri, found.root) for hit in answer.hits)
        assert answer.true_ranks == ()
    for file in (folder / "deep").iterdir():
        file.unlink()
    with pytest.raises(InputError, match=r"none of 2 pictures can be read \(.*\); for one, broken\.jpg: not an image"):
        search(place, SearchOptions(run=run, text=("a dog",), images=str(folder)))


def test_equal_scores_stay_in_order(place: Workspace, run: str, tmp_path: Path) -> None:
    for name in "cab":
        Image.new("RGB", (30, 20), "red").save(tmp_path / f"{name}.png")
    (answer,) = search(place, SearchOptions(run=run, text=("a dog",), images=str(tmp_path))).answers
    assert [hit.item.id for hit in answer.hits] == ["a.png", "b.png", "c.png"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"run": "absent"}, "^run=absent: no such run; there are "),
        ({"split": "tset"}, "no split 'tset'; it has train, val, test"),
        ({"images": "absent"}, "^images=absent: no such folder"),
        ({"alpha": 0.5, "run": "PLAIN"}, "^alpha=0.5: family vsepp of .* has none; leave it out"),
    ],
)
def test_a_wrong_request_is_one_line_planned_or_not(
    place: Workspace, run: str, data: Path, options: dict[str, Any], message: str
) -> None:
    plain = train(place, "vsepp_tiny", data="table", data__file="captions.csv", data__root=str(data))
    asked = replace(SearchOptions(run=run, text=("a dog",)), **options)
    asked = replace(asked, run=plain) if asked.run == "PLAIN" else asked
    for act in (lambda: search(place, asked), lambda: list(check_search(place, asked))):
        with pytest.raises(InputError, match=message) as told:
            act()
        assert len(str(told.value).splitlines()) == 1


def test_a_plan_says_what_is_searched_and_writes_nothing(
    place: Workspace, run: str, data: Path, tmp_path: Path
) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "one.png")
    before = sorted(place.root.local().rglob("*"))
    plans = [
        (SearchOptions(run=run, text=("a dog", "a cat")), "search 4 images of split test of captions by 2 sentences"),
        (
            SearchOptions(run=run, image="images/1.png"),
            "search 8 captions of split test of captions by image=images/1.png",
        ),
        (SearchOptions(run=run, text=("a dog",), images=str(data)), f"search 16 pictures in {data} by 1 sentence"),
        (
            SearchOptions(run=run, text=("a dog",), images=str(tmp_path)),
            f"search 1 picture in {tmp_path} by 1 sentence",
        ),
    ]
    for options, line in plans:
        *_, first, last = check_search(place, options)
        assert first == line
        assert last.startswith("not checked: ")
    assert sorted(place.root.local().rglob("*")) == before


def test_scores_that_are_no_numbers_end_a_search(place: Workspace, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_run = Embedder.of_run

    def broken(*given: Any) -> Embedder:
        embedder = open_run(*given)
        next(embedder.trained.family.parameters()).data.fill_(float("nan"))
        return embedder

    monkeypatch.setattr(search_module.Embedder, "of_run", broken)
    with pytest.raises(Diverged, match=rf"^run={run}: scores are NaN"):
        search(place, SearchOptions(run=run, text=("a dog",)))


def test_ready_made_features_are_searched_and_read_no_pictures(place: Workspace, tmp_path: Path) -> None:
    write_arrays(tmp_path / "arrays")
    changes = {"data": "precomp", "data.root": str(tmp_path / "arrays"), "features.backbone": "arrays"}
    config = override(preset("vsepp_tiny"), {**changes, "train.epochs": 1, "model.dim": 32})
    run = run_training(config, place).run
    found = search(place, SearchOptions(run=run, text=("a dog",), split="val"))
    assert thumbnail(found.answers[0].hits[0].item.uri, found.root) == ""
    folder = SearchOptions(run=run, text=("a dog",), images=str(photographs.write(tmp_path / "tiny")))
    for act in (lambda: search(place, folder), lambda: list(check_search(place, folder))):
        with pytest.raises(InputError, match="trained on ready-made features, so it cannot read pictures"):
            act()


@pytest.mark.seconds
def test_regions_are_found_and_whole_pictures_have_no_position(place: Workspace, tmp_path: Path) -> None:
    few = {"num_train": 12, "num_val": 3, "num_test": 3, "num_shifted": 0}
    sizes = {f"data.of.{key}": value for key, value in few.items()} | {"train.epochs": 1, "data.geometry": True}
    run = run_training(override(preset("cite_localisation_small"), sizes), place).run
    found = search(place, SearchOptions(run=run, text=("a red ball",), top=1000))
    assert {hit.item.text == "" for hit in found.answers[0].hits} == {True, False}  # background has no caption
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    in_folder = SearchOptions(run=run, text=("a red ball",), images=str(tmp_path))
    for options in (in_folder, SearchOptions(run=run, image=str(tmp_path / "a.png"))):
        for act in (search, lambda *given: list(check_search(*given))):
            with pytest.raises(InputError, match="reads regions with their positions, not whole pictures"):
                act(place, options)


@pytest.fixture
def remote(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    with s3.server() as server:
        monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
        yield photographs.upload(data, Folder.open(s3.address(server, "shelf/tiny")))


@pytest.mark.process
@pytest.mark.slow
def test_data_folders_and_the_workspace_on_s3(remote: Folder) -> None:
    place = Workspace.open(remote.uri.replace("shelf/tiny", "work-space"))
    run = train(place, "vsepp_tiny", data="table", data__file="captions.csv", data__root=remote.uri)
    found = search(place, SearchOptions(run=run, text=("a dog",)))
    assert all(thumbnail(hit.item.uri, found.root) for hit in found.answers[0].hits)
    assert place_of(found.answers[0].hits[0].item.uri, found.root).startswith("s3://bucket/shelf/tiny/images/")
    folder = search(place, SearchOptions(run=run, text=("a dog",), images=remote.uri))
    assert folder.number == 16
    assert all(thumbnail(hit.item.uri, folder.root) for hit in folder.answers[0].hits)
    image = remote.child("images").address("13.png")
    assert set(search(place, SearchOptions(run=run, image=image)).answers[0].true_ranks) <= set(range(1, 9))
    assert len(search(place, SearchOptions(run=run, image=image)).answers[0].true_ranks) == 2
    options = SearchOptions(run=run, text=("a dog",), images=remote.uri, top=2)
    request = Request(
        job="search",
        workspace=place.root.uri,
        preset=None,
        config=None,
        options=options,
        changed=frozenset({"run", "text", "images"}),
        tracking=None,
    )
    target, name = Folder.of_file(build_search(request))
    assert target.uri.startswith(place.root.child("searches").uri.partition("?")[0])
    assert target.read_json(name)["outputs"] == {"page": target.address("search.html")}
    assert target.read_text("search.html").count("data:image/jpeg;base64,") == 2
