"""Maps of a user's picture are those of the evaluation tasks; figures of several runs; messages."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

import vse
from tests.unit.asked import asked
from vse.cli.command import Request
from vse.config import override
from vse.data.images import open_image
from vse.errors import InputError
from vse.evaluation.task import SaliencyQuery
from vse.features.arrays import ReadyMade
from vse.presets import preset
from vse.report.saliency_figure import SaliencyFigureOptions, build_saliency, foresee_saliency
from vse.stages.measuring.plan import plan_measure
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

SHORT = {"train.epochs": 1, "model.dim": 32, "data.num_train": 40, "data.num_val": 6, "data.num_test": 5}
SHORT |= {"data.num_shifted": 0}
TEXTS = ["a red ball on a box", "a blue ball on a box"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("maps") / "workspace"))


def train(place: Workspace, name: str, **changes: Any) -> Folder:
    return run_training(override(preset(name), {**SHORT, **changes}), place).folder


@pytest.fixture(scope="module")
def univse(place: Workspace) -> Folder:
    return train(place, "univse_tiny")


@pytest.fixture(scope="module")
def vsepp(place: Workspace) -> Folder:
    return train(place, "vsepp_tiny")


def members(place: Workspace, run: Folder) -> Any:
    plan = plan_measure([run], place, *asked("saliency"))
    return plan.members, plan.parts[0].images


def test_a_relevance_map_is_the_task_s(place: Workspace, univse: Folder, tmp_path: Path) -> None:
    runs, images = members(place, univse)
    picture = runs.image(images[0].id)
    picture.save(tmp_path / "a.png")
    model = vse.load(univse.name, place)
    for source in (picture, tmp_path / "a.png", str(tmp_path / "a.png"), (tmp_path / "a.png").read_bytes()):
        result = vse.relevance_map(model, source, "red ball")
        regions, queries = runs.encode_regions([images[0].id]), runs.encode_queries(["red ball"], {})
        expected = runs.families[0].relevance(regions, queries, 0.1)[0, 0]
        np.testing.assert_allclose(result.values.ravel(), expected.numpy(), atol=2e-3)  # stored features are halves
        assert result.window == runs.window(images[0].id)
    assert result.values.shape == (7, 7)
    assert result.values.sum() == pytest.approx(1)
    assert result.upsampled().shape == result.grounded().shape == picture.size[::-1]
    assert result.draw().width > 300
    sharper = vse.relevance_map(univse.name, picture, "red ball", place, temperature=0.01)
    assert sharper.values.max() > result.values.max()
    assert sharper.values.argmax() == result.values.argmax()


@pytest.mark.parametrize("name", ["univse", "vsepp"])
def test_saliency_is_the_task_s(place: Workspace, name: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(name)
    runs, images = members(place, run)
    picture = runs.image(images[1].id)
    result = vse.saliency(run.name, picture, TEXTS, place)
    query = SaliencyQuery(images[1].id, tuple(TEXTS), (0, 1))
    (expected,) = runs.saliencies([query], "pixels")
    assert result.words is not None
    for number, each in enumerate(expected):
        assert result.scores[number] == pytest.approx(each.score, abs=1e-5)
        np.testing.assert_allclose(result.pixels[number], each.image, atol=1e-4)
        np.testing.assert_allclose([share for _, share in result.words[number]], each.shares, atol=1e-5)
        assert " ".join(word for word, _ in result.words[number]) == TEXTS[number]
    scores = vse.load(run.name, place).scores([picture_bytes(picture)], TEXTS)[0]
    np.testing.assert_allclose(result.scores, scores, atol=2e-3)
    assert result.draw(run.name).width > 300
    assert vse.saliency(run.name, picture, TEXTS[0], place).pixels.shape[0] == 1


def picture_bytes(picture: PIL.Image.Image) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, "PNG")
    return stream.getvalue()


def test_features_are_differentiated_if_there_is_no_backbone(
    place: Workspace, univse: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, images = members(place, univse)
    query = SaliencyQuery(images[0].id, tuple(TEXTS), (1,))
    (by_key,) = runs.saliencies([query], "features")
    monkeypatch.setitem(vars(runs), "_backbone", ReadyMade(ReadyMade.Config()))
    (ready_made,) = runs.saliencies([query], "pixels")
    for answer in (by_key, ready_made):
        assert [each.level for each in answer] == ["features"] * 2
        assert answer[0].image is None
        assert answer[1].image.shape == (7, 7)
        assert answer[1].image.max() == 1


def request(place: Workspace, **keys: Any) -> Request:
    return Request(
        job="show_saliency",
        workspace=place.root.uri,
        preset=None,
        config=None,
        options=SaliencyFigureOptions(**keys),
        changed=frozenset(),
        tracking=None,
    )


def test_figures_of_two_runs(place: Workspace, univse: Folder, vsepp: Folder, tmp_path: Path) -> None:
    _, images = members(place, univse)
    names = (univse.name, vsepp.name)
    summary = json.loads(Path(build_saliency(request(place, runs=names, image=images[0].id))).read_text())
    numbers = json.loads(Path(summary["outputs"]["numbers"]).read_text())
    assert set(numbers) == set(names)
    labels = [each["label"] for each in numbers[names[0]]]
    assert labels[0] == "caption"
    assert {"VSE-C noun attack", "object attack"} <= set(labels)
    assert len({each["caption"] for each in numbers[names[0]]}) == len(labels)
    for each in numbers[names[1]]:
        assert sum(share for _, share in each["words"]) == pytest.approx(1)
    figure = open_image(summary["outputs"]["page"])
    one = request(place, runs=names[:1], image=images[0].id)
    alone = open_image(json.loads(Path(build_saliency(one)).read_text())["outputs"]["page"])
    assert figure.height > 1.5 * alone.height
    open_image(images[0].uri).save(tmp_path / "own.png")
    keys = {"caption": tuple(TEXTS), "phrase": ("ball",)}
    both = request(place, runs=names[:1], image=str(tmp_path / "own.png"), **keys)
    assert "picture: " in "\n".join(foresee_saliency(both))
    outputs = json.loads(Path(build_saliency(both)).read_text())["outputs"]
    assert {"page", "numbers", "maps"} <= set(outputs)


def test_what_cannot_be_shown_is_one_line(place: Workspace, univse: Folder, vsepp: Folder, tmp_path: Path) -> None:
    PIL.Image.new("RGB", (60, 40), "red").save(tmp_path / "red.png")
    picture = str(tmp_path / "red.png")
    with pytest.raises(InputError, match=r"phrase 'qzx blorp': .* knows none of its words"):
        vse.relevance_map(univse.name, picture, "qzx blorp", place)
    with pytest.raises(InputError, match=r"phrase 'qzx\.': .* knows none of its words"):
        vse.relevance_map(univse.name, picture, "qzx.", place)
    with pytest.raises(InputError, match="VSEPP has no vectors of regions"):
        vse.relevance_map(vsepp.name, picture, "ball", place)
    with pytest.raises(InputError, match="UniVSE has no attention over regions"):
        vse.relevance_map(univse.name, picture, "ball", place, attention=True)
    with pytest.raises(InputError, match="temperature=0: must be above 0"):
        vse.relevance_map(univse.name, picture, "ball", place, temperature=0)
    with pytest.raises(InputError, match=r"image .*gone\.png: file is missing"):
        vse.saliency(univse.name, str(tmp_path / "gone.png"), "a ball", place)
    with pytest.raises(InputError, match=r"^image: has no pixels$"):
        vse.saliency(univse.name, PIL.Image.new("RGB", (0, 10)), "a ball", place)
    with pytest.raises(InputError, match="captions: name at least one sentence"):
        vse.saliency(univse.name, picture, [], place)
    with pytest.raises(InputError, match="runs, image: name at least one run"):
        build_saliency(request(place, runs=(univse.name,)))
    with pytest.raises(InputError, match=r"is not an image of the data set of .* give caption="):
        build_saliency(request(place, runs=(univse.name,), image=picture))
