"""A gallery of two tiny runs: what it shows, what goes to MLflow, and wrong requests."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit.inference.test_embedder import train
from tests.unit.report.pages import Outline
from vse.cli.command import Request
from vse.errors import InputError
from vse.report import gallery_page
from vse.report.gallery_page import PAGE, GalleryOptions, build_gallery, foresee_gallery
from vse.stages import pipeline
from vse.stages.measuring.options import MeasureOptions
from vse.stages.measuring.stage import measure
from vse.stages.trained import encode_split, load_run
from vse.tracking.shipping import Shipper
from vse.workspace.journal import read
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("gallery") / "workspace"))


@pytest.fixture(scope="module")
def runs(place: Workspace) -> tuple[str, ...]:
    return tuple(train(place, name).run for name in ("univse_tiny", "vsepp_tiny"))


def request(place: Workspace, **keys: Any) -> Request:
    return Request(
        job="show_gallery",
        workspace=place.root.uri,
        preset=None,
        config=None,
        options=GalleryOptions(**keys),
        changed=frozenset(),
        tracking=None,
    )


@pytest.fixture(scope="module")
def page(place: Workspace, runs: tuple[str, ...]) -> str:
    """Of every failure, of one caption and one image, and of two queries drawn each way."""
    query = ("test_000001_0", "test_000002")
    summary = json.loads(Path(build_gallery(request(place, runs=runs, query=query, draw=2, failures=99))).read_text())
    return Path(summary["outputs"]["page"]).read_text()


def shown(page: str, heading: str) -> list[str]:
    """The sections of queries below a heading."""
    parts = re.split(r"<h2>(Failures|Queries asked for|Queries drawn)", page)
    (part,) = [text for name, text in zip(parts[1::2], parts[2::2], strict=True) if name == heading]
    return re.findall(r'<section class="search".*?</section>', part, re.DOTALL)


def test_every_tag_is_closed_and_the_page_needs_no_other_file(page: str) -> None:
    assert re.search(r'<li class="[a-z]*" title="[^"&]+ [^"&]+">', page)  # a caption, whole
    outline = Outline(page.replace("<!doctype html>", ""))
    assert not outline.links
    assert "Failures: the worst ranks first" in outline.text


def matched(pattern: str, section: str) -> str:
    """The group of a pattern, which every section has."""
    found = re.search(pattern, section)
    assert found is not None
    return found[1]


def test_failures_are_the_queries_whose_best_right_answer_is_not_first(
    place: Workspace, runs: tuple[str, ...], page: str
) -> None:
    """In the order of the first run, against ranks from a sort of its scores."""
    trained = load_run(place.run(runs[0]))
    codes = encode_split(trained, pipeline.prepare(trained.config, place), "test")
    scores, caption_to_image = trained.family.scores(codes.images, codes.captions), codes.caption_to_image
    expected = []
    for caption, image in enumerate(caption_to_image.tolist()):
        rank = 1 + int((scores[:, caption] > scores[image, caption]).sum())
        if rank > 1:
            expected.append(rank)
    ranks = [
        int(matched(r"right answer: rank (\d+)", section))
        for section in shown(page, "Failures")
        if 'data-pool="sentence to images"' in section
    ]
    assert ranks == sorted(expected, reverse=True)


def test_adversaries_are_among_the_answers_of_attacks_only(page: str) -> None:
    pools = {
        bool(re.search(r'<li class="adversary"', section)): matched(r'data-pool="([^"]*)"', section)
        for section in shown(page, "Failures")
    }
    assert "attack" in pools[True]
    for section in shown(page, "Failures"):
        if "attack" not in matched(r'data-pool="([^"]*)"', section):
            assert 'class="adversary"' not in section


def test_adversaries_of_vse_c_are_marked_and_in_the_filter(page: str) -> None:
    (pools,) = re.findall(r'<select id="pool">(.*?)</select>', page)
    assert {"object attack", "VSE-C noun attack", "VSE-C numeral attack"} <= set(re.findall(r"<option>([^<]*)", pools))
    nouns = [each for each in shown(page, "Failures") if 'data-pool="VSE-C noun attack"' in each]
    (mark,) = set(re.findall(r'<li class="adversary".*?<span class="name">([^“]*)“', "".join(nouns), re.DOTALL))
    assert mark == "VSE-C noun attack of "


def test_one_paper_s_adversaries_alone(place: Workspace, runs: tuple[str, ...]) -> None:
    summary = json.loads(Path(build_gallery(request(place, runs=runs[:1], tasks=("contrast",)))).read_text())
    pools = set(re.findall(r'data-pool="([^"]* attack)', Path(summary["outputs"]["page"]).read_text()))
    assert pools
    assert all(pool.startswith("VSE-C ") for pool in pools)


def test_a_caption_asked_for_meets_images_and_an_image_every_pool_of_captions(page: str) -> None:
    sections = shown(page, "Queries asked for")
    assert sum('data-pool="sentence to images"' in each for each in sections) == 1
    assert sum('data-pool="image to sentences"' in each for each in sections) == 1
    assert any("attack" in each.partition(">")[0] for each in sections)
    assert len(shown(page, "Queries drawn")) == 4


def test_the_page_becomes_an_artifact_of_a_row_in_mlflow(place: Workspace, runs: tuple[str, ...], page: str) -> None:
    folders = [folder for folder, _ in place.root.child("galleries").folders_with(PAGE)]
    (folder,) = [each for each in folders if each.read_bytes(PAGE).decode() == page]
    state = read(place.journal(folder).path)
    assert state.tags["kind"] == "gallery"
    assert state.params["runs"] == ",".join(runs)
    assert [path for path, _ in state.artifacts] == [PAGE]
    assert Shipper(place.root.uri).ship(wait=10).runs == len(runs) + len(folders)


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ({"runs": ("nope",)}, "runs=nope: no such run; there are "),
        ({"tasks": ()}, "tasks: name one or more of attacks, contrast"),
        ({"query": ("test_000002", "zzz")}, "query=zzz: no caption of split test, nor an image with captions; ids "),
    ],
)
def test_wrong_requests_end_in_one_line(
    place: Workspace, runs: tuple[str, ...], keys: dict, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gallery_page, "RunAnswers", None)  # refused before anything is encoded
    with pytest.raises(InputError) as error:
        build_gallery(request(place, **{"runs": runs[:1], **keys}))
    assert str(error.value).startswith(line)


def test_what_a_dry_run_refuses_too(place: Workspace, runs: tuple[str, ...]) -> None:
    for setting, value in {"folds": 2, "protocol": "coco_1k_folds"}.items():
        measure = MeasureOptions(**{setting: value})
        for do in (build_gallery, lambda request: list(foresee_gallery(request))):
            with pytest.raises(InputError, match=rf"^measure.{setting}={value}: a gallery shows one fold; name a"):
                do(request(place, runs=runs[:1], measure=measure))


def test_measuring_is_not_disturbed(place: Workspace, runs: tuple[str, ...], page: str) -> None:
    """A gallery scores by itself: an evaluation afterwards finds nothing half made."""
    metrics = measure([place.run(runs[0])], place.run(runs[0]).child("evaluation"), place, ("retrieval",)).metrics
    assert metrics["test/rsum"] > 0
