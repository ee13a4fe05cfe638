"""jobs/search.py as a user runs it: the best of a split and of a folder, a page, and wrong requests in one line."""

import json
import shutil
from pathlib import Path

import pytest
from jsonschema import validate
from PIL import Image

from tests.jobs.processes import run_many, run_without_ray
from tests.unit.inference.test_embedder import train
from tests.unit.report.pages import Outline
from vse.data.images import open_image
from vse.stages import pipeline
from vse.stages.trained import load_run
from vse.workspace.layout import Workspace
from vse.workspace.provenance import SCHEMA

pytestmark = pytest.mark.process

Answer = tuple[int | None, str, str]
COMMA = "two dogs, one of them black"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with three runs; pictures in a folder, two of which cannot be read; files of sentences."""
    folder = tmp_path_factory.mktemp("search")
    place = Workspace.open(str(folder / "workspace"))
    runs = {
        "univse": train(place, "univse_tiny"),
        "scan": train(place, "vsepp_tiny", model="scan", model__dim=32),
        "cca": train(
            place, "vsepp_tiny", model="cca", model__dim=8, text__word_vectors="captions", text__sentence="mean"
        ),
    }
    (folder / "runs.json").write_text(json.dumps({name: result.run for name, result in runs.items()}))
    for name in ("my pictures/deep", "nothing"):
        (folder / name).mkdir(parents=True)
    for k in range(5):
        picture = open_image(f"scene:seed=7,split=test,index={k},drawing=plain,size=112")
        picture.save(folder / "my pictures" / "deep" / f"{k}.{'jpg' if k % 2 else 'png'}")
    Image.new("CMYK", (300, 40)).save(folder / "my pictures" / "wide.tiff")
    (folder / "my pictures" / "broken.jpg").write_bytes(b"no picture")
    (folder / "my pictures" / "empty.png").write_bytes(b"")
    (folder / "some.txt").write_text(f"a red ball\n\n{COMMA}\n")
    return folder


def name_of(folder: Path, family: str) -> str:
    return json.loads((folder / "runs.json").read_text())[family]


def caption_of(folder: Path) -> str:
    """A caption of the second test image."""
    place = Workspace.open(str(folder / "workspace"))
    part = pipeline.prepare(load_run(place.run(name_of(folder, "univse"))).config, place).records.split("test")
    return next(caption.text for caption in part.captions if caption.image == part.images[1].id)


@pytest.fixture(scope="module")
def done(folder: Path) -> dict[str, Answer]:
    caption = caption_of(folder)
    lines = {
        "split": ["univse", "text=a red ball", f"text={COMMA}", f"text={caption}"],
        "again": ["univse", "text=a red ball", f"text={COMMA}", f"text={caption}"],
        "file": ["scan", f"texts={folder / 'some.txt'}", "top=2", "split=train"],
        "folder": ["scan", "text=a red ball", f"images={folder / 'my pictures'}"],
        "vectors": ["cca", "text=a red ball", "top=1"],
        "alpha": ["univse", "text=a red ball", "alpha=0.2"],
        "image": ["univse", f"image={folder / 'my pictures' / 'deep' / '1.jpg'}", "top=4"],
        "known": ["scan", "image=test_000001", "top=100"],
    }
    jobs = [
        ["search", "--workspace", str(folder / "workspace"), f"run={name_of(folder, family)}", *more]
        for family, *more in lines.values()
    ]
    return dict(zip(lines, run_many(jobs, folder), strict=True))


def result(answer: Answer) -> tuple[dict, Outline]:
    """The summary and the page of a search that went well."""
    status, out, error = answer
    assert status == 0, error
    path = Path(out.splitlines()[-1])
    assert (path.name, path.parents[1].name) == ("summary.json", "searches")
    summary = json.loads(path.read_text())
    validate(summary, SCHEMA)
    page = Path(summary["outputs"]["page"])
    assert page == path.with_name("search.html")
    assert f"search: {page}" in error.splitlines()  # named for people
    outline = Outline(page.read_text())
    assert outline.open == []
    assert all(link.startswith("data:image/jpeg;base64,") for link in outline.links)
    return summary, outline


def test_sentences_with_commas_find_the_images_of_a_split(folder: Path, done: dict[str, Answer]) -> None:
    summary, outline = result(done["split"])
    answers = summary["details"]["answers"]
    assert [answer["query"] for answer in answers] == ["a red ball", COMMA, caption_of(folder)]
    assert summary["options"]["text"] == [answer["query"] for answer in answers]
    for answer in answers:
        scores = [hit["score"] for hit in answer["hits"]]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) == 5  # all there are
        assert answer["highest"] == scores[0]
        assert all(hit["path"].startswith("scene:") for hit in answer["hits"])
    true = [hit["id"] for hit in answers[2]["hits"] if hit["true"]]
    assert "test_000001" in true
    assert summary["headline"]["with_true"] >= 1
    assert len(outline.links) == 15
    printed = done["split"][1].splitlines()
    assert printed[0] == "a red ball: best of 5 images of split test of scenes"
    first = answers[0]["hits"][0]
    rank, score, name, path = printed[1].removeprefix("*").split()
    assert (rank, name, path) == ("1", first["id"], first["path"])
    assert float(score) == pytest.approx(first["score"], abs=1e-4)
    assert "features:" not in done["split"][2]  # they were there


def test_the_same_search_again_lies_in_the_same_place(done: dict[str, Answer]) -> None:
    first, again = (done[name][1].splitlines() for name in ("split", "again"))
    assert again == first


def test_a_file_of_sentences(done: dict[str, Answer]) -> None:
    summary, outline = result(done["file"])
    assert [answer["query"] for answer in summary["details"]["answers"]] == ["a red ball", COMMA]
    assert summary["headline"]["among"] == 40
    assert len(outline.links) >= 4


def test_a_folder_less_what_cannot_be_read(done: dict[str, Answer]) -> None:
    summary, outline = result(done["folder"])
    assert summary["details"]["rejects"] == {
        "broken.jpg": "not an image of a known format",
        "empty.png": "file is empty",
    }
    (line,) = [line for line in done["folder"][2].splitlines() if "left out" in line]
    assert "2 of 8 left out" in line
    hits = summary["details"]["answers"][0]["hits"]
    assert sorted(hit["id"] for hit in hits) == [
        *(f"deep/{k}.{'jpg' if k % 2 else 'png'}" for k in range(5)),
        "wide.tiff",
    ]
    assert all(Path(hit["path"]).is_file() for hit in hits)
    assert len(outline.links) == 6
    assert "Left out" in outline.text


def test_families_on_sentence_vectors_and_other_weights_of_the_sentence(done: dict[str, Answer]) -> None:
    assert len(result(done["vectors"])[0]["details"]["answers"][0]["hits"]) == 1
    assert "α 0.2" in result(done["alpha"])[1].text
    scores = [result(done[name])[0]["details"]["answers"][0]["highest"] for name in ("split", "alpha")]
    assert scores[0] != scores[1]


def test_a_picture_finds_captions(folder: Path, done: dict[str, Answer]) -> None:
    summary, outline = result(done["image"])
    (answer,) = summary["details"]["answers"]
    assert len(answer["hits"]) == 4
    assert all(hit["caption"] in outline.text for hit in answer["hits"])
    assert len(outline.links) == 1
    summary, outline = result(done["known"])
    (answer,) = summary["details"]["answers"]
    assert caption_of(folder) in {hit["caption"] for hit in answer["hits"] if hit["true"]}
    assert "true captions: ranks " in outline.text


WRONG = {
    "nothing": (["run=RUN"], "text, image: give sentences"),
    "no run": (["text=a dog"], "run: name one of "),
    "other run": (["run=absent", "text=a dog"], "run=absent: no such run; there are "),
    "both": (["run=RUN", "text=a dog", "image=a.png"], "text, image: "),
    "split": (["run=RUN", "text=a dog", "split=tset"], "no split 'tset'; it has train, val, test"),
    "split of a folder": (["run=RUN", "text=a dog", "split=val", "images=HERE/my pictures"], "split, images: "),
    "empty folder": (["run=RUN", "text=a dog", "images=HERE/nothing"], "nothing: holds no image file"),
    "no folder": (["run=RUN", "text=a dog", "images=HERE/no"], "images=HERE/no: no such folder"),
    "no file": (["run=RUN", "texts=HERE/no.txt"], "texts=HERE/no.txt: no such file"),
    "no picture": (["run=RUN", "image=HERE/no.png"], "image=HERE/no.png: no such file, and no image of scenes"),
    "no word": (["run=RUN", "text=..."], "text: '...' has no word"),
    "alpha": (["run=SCAN", "text=a dog", "alpha=0.5"], "alpha=0.5: family scan of "),
    "alpha too large": (["run=RUN", "text=a dog", "alpha=2"], "alpha=2.0: must be between 0 and 1"),
    "top": (["run=RUN", "text=a dog", "top=0"], "top=0: must be >= 1"),
    "twice": (["run=RUN", "text=a dog", "top=1", "top=2"], "top: given twice, as 1 and 2"),
    "key": (["run=RUN", "txt=a dog"], "txt: no such key"),
}


@pytest.fixture(scope="module")
def refused(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    given = {"RUN": name_of(folder, "univse"), "SCAN": name_of(folder, "scan"), "HERE": str(folder)}

    def line(words: list[str], *more: str) -> list[str]:
        for key, value in given.items():
            words = [word.replace(key, value) for word in words]
        return ["search", "--workspace", str(folder / "workspace"), *more, *words]

    lines = {name: line(words) for name, (words, _) in WRONG.items()}
    lines |= {f"{name}, planned": line(words, "--dry-run") for name, (words, _) in WRONG.items()}
    lines["plan"] = line(["run=RUN", "text=a dog", f"texts={folder}/some.txt"], "--dry-run")
    lines["help"] = line([], "--help")
    return dict(zip(lines, run_without_ray(list(lines.values()), tmp_path_factory.mktemp("wrong")), strict=True))


@pytest.mark.parametrize("planned", ["", ", planned"])
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_request_is_one_line(folder: Path, refused: dict[str, Answer], case: str, planned: str) -> None:
    status, out, error = refused[case + planned]
    assert (status, out) == (2, ""), error
    assert len(error.splitlines()) == 1
    assert error.startswith("search: ")
    assert WRONG[case][1].replace("HERE", str(folder)) in error


def test_a_plan_and_the_help_start_nothing(folder: Path, refused: dict[str, Answer]) -> None:
    status, out, error = refused["plan"]
    assert (status, error) == (0, "")
    assert "dry run, nothing is started or written" in out
    assert "search 5 images of split test of scenes by 3 sentences" in out
    status, out, error = refused["help"]
    assert (status, error) == (0, "")
    assert "text=[]  [a string; may be given several times] sentence to find images for" in out


@pytest.mark.slow
def test_a_run_and_a_search_that_share_nothing_but_the_folder(folder: Path, tmp_path: Path) -> None:
    """Where the data set's features are gone, a folder is searched all the same."""
    shutil.copytree(folder / "workspace" / "runs", tmp_path / "workspace" / "runs")
    line = ["search", "--workspace", str(tmp_path / "workspace"), f"run={name_of(folder, 'univse')}"]
    (answer,) = run_many([[*line, "text=a dog", f"images={folder / 'my pictures'}"]], tmp_path)
    assert result(answer)[0]["headline"]["among"] == 6
    assert not (tmp_path / "workspace" / "features").exists()


@pytest.mark.slow
def test_the_page_has_a_command_that_finds_the_workspace(folder: Path) -> None:
    line = ["search", f"run={name_of(folder, 'univse')}", "text=a cube"]
    ((status, out, error),) = run_many(
        [line], folder / "nothing", variables={"VSE_WORKSPACE": str(folder / "workspace")}
    )
    assert status == 0, error
    page = Path(out.splitlines()[-1]).with_name("search.html").read_text()
    assert f"&#39;text=a cube&#39; --workspace {folder}/workspace</pre>" in page
