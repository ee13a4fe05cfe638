"""What the README and the pages of `docs/` say can be done, can be done."""

import importlib.util
import os
import re
import sys
import types
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from PIL import Image

from tests import documents, photographs
from tests.documents import PAGES, ROOT, SITE, Command, commands, job_commands, name_of, sources
from tests.levels import slow_but
from tests.synthetic import synthetic, with_word_vectors
from tests.unit.asked import asked
from tests.unit.write_job_keys import declared
from vse import presets, registry
from vse.adversaries.attacks import ATTACKS
from vse.cli import command
from vse.config import override, walk
from vse.data.sources.karpathy import Karpathy
from vse.data.sources.table import Table
from vse.errors import InputError
from vse.features.torchvision_backbone import FAMILIES
from vse.presets import catalogue
from vse.stages import pipeline
from vse.stages.measuring.stage import measure
from vse.stages.train import run_training
from vse.tracking.shipping import ship_all
from vse.training.config import OptimConfig
from vse.training.step import Stepper
from vse.workspace.layout import Workspace

DOCS = ROOT / "docs"
NOT_UNDERSTOOD = re.compile(r"no such key|unknown|expected key=value|given twice|see --help")
SPACES = dict(
    re.findall(
        r"^cat > ~/(\w+\.py) <<'END'\n(.*?)^END$",
        "".join(
            source
            for page in ("tutorials/first-sweep.md", "guides/add-a-sweep-space.md")
            for source in sources(DOCS / page, "sh")
        ),
        re.S | re.M,
    )
)
JOBS = declared()
ELSEWHERE = "ship-an-extension.md"  # tests/jobs/test_extension.py installs the package and runs these commands
JOB_COMMANDS = list(
    dict.fromkeys(each for page in PAGES if Path(page).name != ELSEWHERE for each in job_commands(page))
)


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def test_the_readme_is_short():
    assert len(text("README.md").splitlines()) <= 200


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    named = {words[1] for page in PAGES for words, _ in commands(page) if words[0] == "make" and len(words) > 1}
    assert {"sweep", "test", "docs"} <= named
    assert named <= targets


def test_jobs_and_files_exist():
    words = {word.rpartition("=")[2] for page in PAGES for each in commands(page) for word in each.words}
    files = {
        word for word in words if re.fullmatch(r"[\w/-]+\.(py|yaml)", word) and not re.search("[A-Z]{3}|X.py", word)
    }
    assert {"jobs/sweep_alpha.py", "cluster.yaml"} <= files
    assert [name for name in sorted(files) if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    ("job", "given"), JOB_COMMANDS, ids=[" ".join([job, *given.words]) for job, given in JOB_COMMANDS]
)
def test_every_command_is_understood(
    job: str, given: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """As a dry run that reads no data. If there are placeholders, only keys and names must be right."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, source in SPACES.items():
        (tmp_path / name).write_text(source)
    options = {name: value for name, value in JOBS[job].items() if name != "plan"}
    argv = [*given.words, "--dry-run", "--workspace", str(tmp_path)]
    status = command.main(job, lambda request: "", **options, argv=list(dict.fromkeys(argv)))
    error = capsys.readouterr().err
    assert not NOT_UNDERSTOOD.search(error), error
    if given.complete and "--help" not in given.words:
        assert (status, error) == (0, "")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path):
    """To files next to the page, and to headings of them."""
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, heading = link.partition("#")
        target = page.parent / name if name else page
        assert target.is_file() or (target / "README.md").is_file(), link
        if heading:
            lines = target.read_text(encoding="utf-8").splitlines()
            titles = {
                re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in lines if line[:1] == "#"
            }
            assert heading in titles, link


def test_every_page_is_in_the_navigation():
    nav = yaml.safe_load(text("mkdocs.yml"))["nav"]
    listed = set(re.findall(r"[\w/-]+\.(?:md|ipynb)", str(nav)))
    pages = {
        str(page.relative_to(DOCS)) for page in [*SITE, *DOCS.rglob("*.ipynb")] if ".ipynb_checkpoints" not in str(page)
    }
    assert listed == pages


def test_the_reference_lists_every_key():
    """Keys of all components, and of all jobs."""
    spec = importlib.util.spec_from_file_location("generated", DOCS / "generated.py")
    assert spec is not None
    assert spec.loader is not None
    generated = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generated)
    for page in SITE:
        assert "<!-- generated" not in generated.on_page_markdown(page.read_text(encoding="utf-8"))
    keys = set(re.findall(r"^\| `([\w.]+)`", generated.configuration(), re.MULTILINE))
    for name in presets.names():
        assert {key for key, *_ in walk(presets.preset(name))} <= keys, name
    options = set(re.findall(r"^\| `([\w.]+)`", generated.jobs(), re.MULTILINE))
    for job in JOBS.values():
        assert {key for key, spec, *_ in walk(job["options"]) if not spec.metadata.get("below")} <= options


def test_definitions_begin_on_their_own_line():
    """In a paragraph that was filled, Markdown shows the term and its definition as one sentence with a stray colon."""
    terms = re.findall(r"^.+(?=\n:   )", (DOCS / "glossary.md").read_text(), re.M)
    assert len(terms) > 40
    assert not [page for page in PAGES if re.search(r"\S :   ", Path(page).read_text())]


def test_quoted_error_lines_are_in_the_code():
    """The phrases by which the page on errors is searched."""
    rows = re.findall(r"^\| (`[^|]*`)[^|]*\|", text("docs/operations/when-it-breaks.md"), re.MULTILINE)
    phrases = [phrase for row in rows for phrase in re.findall(r"`([^`]+)`", row)]
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "platform").rglob("*.py"))
    code = re.sub(r'"\s*\n\s*f?"', "", code)
    written = [re.sub(r"\\? ?\b(?:NAME|N|RUN)\b(?:, NAME)?", "", phrase).strip() for phrase in phrases]
    assert [phrase for phrase in written if phrase not in code and "=" not in phrase[:4]] == []
    assert len(written) > 20


@pytest.mark.parametrize("pretrained", [False, True], ids=["learned words", "word vectors"])
def test_the_family_of_the_guide_trains(monkeypatch: pytest.MonkeyPatch, pretrained: bool):
    """Pre-trained word vectors bring their own size, which is neither of the configured ones."""
    guide = DOCS / "guides/add-a-family.md"
    (family_source, objective_source, preset_source), (its_test,) = sources(guide, "python"), sources(guide, "py")
    data = synthetic(0)
    context = with_word_vectors(data.context, 11) if pretrained else data.context
    try:
        for name, source in (
            ("vse.models.mean_words", family_source),
            ("vse.objectives.soft_ranking", objective_source),
            ("vse.presets.mean_words", preset_source),
        ):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
            exec(source, vars(sys.modules[name]))  # the text alone: what it uses it imports
        config = override(presets.preset("mean_words_scenes"), {"model.dim": 16})
        family = registry.component("family", "mean_words")(config.model, context)
        objective = registry.build("objective", config.objective)
        collate = data.collator(family, objective)
        stepper = Stepper(family, family, objective, OptimConfig(lr=1e-2), "float32")
        rows = torch.arange(len(data)).numpy()
        losses = [float(stepper.step(collate(rows, epoch), epoch)["sent"]) for epoch in range(30)]
        assert losses[-1] < 0.7 * losses[0]
        assert family.encode_captions(collate(rows, 0))["captions"].shape == (len(data), 16)
        names: dict[str, Any] = {}
        exec(its_test, names)
        names["test_a_caption_said_twice_has_the_same_code"]()
    finally:
        registry._COMPONENTS["family"].pop("mean_words", None)
        registry._COMPONENTS["objective"].pop("soft_ranking", None)
        for name in ("mean_words_scenes", "mean_words_small"):
            catalogue._PRESETS.pop(name, None)


def test_the_backbone_of_the_guide_has_the_outputs_that_it_declares(monkeypatch: pytest.MonkeyPatch):
    (source,) = sources(DOCS / "guides/add-a-backbone.md", "python")
    name = "vse.features.colour_grid"
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    try:
        exec(source, vars(sys.modules[name]))
        cls = registry.component("backbone", "colour_grid")
        backbone = cls(cls.Config(cells=3, size=32))
        squares = np.stack([backbone.transform(Image.new("RGB", (50, 40), colour)) for colour in ("red", "blue")])
        network = backbone.load(tuple(backbone.shapes())).prepare(torch.device("cpu"))
        features = network(torch.from_numpy(squares))
        assert {name: tuple(rows.shape[1:]) for name, rows in features.items()} == backbone.shapes()
        assert not torch.equal(*features["pooled"])
        assert backbone.identity() != cls(cls.Config(cells=4, size=32)).identity()
        with pytest.raises(InputError, match="this backbone has map, pooled"):
            backbone.load(("fc1",))
    finally:
        registry._COMPONENTS["backbone"].pop("colour_grid", None)


def test_the_attack_of_the_guide_passes_its_own_tests(monkeypatch: pytest.MonkeyPatch):
    guide = DOCS / "guides/add-an-attack.md"
    (source,), (its_tests,) = sources(guide, "python"), sources(guide, "py")
    name = "vse.adversaries.attacks.time"
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    try:
        exec(source, vars(sys.modules[name]))
        names: dict[str, Any] = {}
        exec(its_tests, names)
        functions = [function for name, function in names.items() if name.startswith("test_")]
        assert len(functions) == 2
        for function in functions:
            function()
    finally:
        ATTACKS.pop("time", None)


def test_the_source_of_the_guide_passes_its_own_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    guide = DOCS / "guides/add-a-source.md"
    (source,), (its_tests,) = sources(guide, "python"), sources(guide, "py")
    name = "vse.data.sources.text_files"
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    try:
        exec(source, vars(sys.modules[name]))
        names: dict[str, Any] = {}
        exec(its_tests, names)
        functions = [function for name, function in names.items() if name.startswith("test_")]
        assert len(functions) == 2
        for function in functions:
            (tmp_path / function.__name__).mkdir()
            function(tmp_path / function.__name__)
    finally:
        registry._COMPONENTS["source"].pop("text_files", None)


def test_the_data_of_the_examples_are_read(tmp_path: Path):
    (table,) = sources(DOCS / "tutorials/your-own-photographs.md", "csv")
    (karpathy,) = sources(DOCS / "reference/data-formats.md", "json")
    (tmp_path / "captions.csv").write_text(table)
    records = Table(Table.Config(file="captions.csv", root=str(tmp_path))).describe()
    assert len(table.splitlines()) == 4
    assert [image.uri for image in records.images] == ["beach/001.jpg", "crossing.png"]
    assert [caption.image for caption in records.captions] == ["beach/001.jpg", "beach/001.jpg", "crossing.png"]
    (tmp_path / "dataset_mine.json").write_text(karpathy)
    records = Karpathy(Karpathy.Config(root=str(tmp_path))).describe()
    assert [(image.id, image.uri, image.split) for image in records.images] == [("42", "val2014/1.jpg", "train")]
    assert [(caption.id, caption.text) for caption in records.captions] == [("7", "A dog runs.")]


@pytest.mark.seconds
@pytest.mark.parametrize(("preset", "shape"), [("vsepp", (40, 8)), ("univse", (40, 3, 8))])
def test_rows_of_an_array_with_any_number_of_captions_are_trained_on(
    tmp_path: Path, preset: str, shape: tuple[int, ...]
):
    page = text("docs/reference/data-formats.md")
    (first,) = re.findall(r"^\| feature arrays .*`--preset vsepp_flickr8k ([^`]*)`", page, re.MULTILINE)
    second, row = re.findall(
        r"^\| features of any .* line above with `([^`]*)` in .* as in `(feats\.npy#17)`", page, re.MULTILINE
    )[0]
    keys = dict(word.split("=") for word in f"{first} {second}".replace("DIR", str(tmp_path)).split())
    np.save(tmp_path / "feats.npy", np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    rows = [
        f"{row.replace('17', str(k))},{photographs.captions_of(k + j)[0]}" for k in range(40) for j in range(1 + k % 5)
    ]
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption", *rows]))
    config = override(presets.preset(f"{preset}_tiny"), {**keys, "train.epochs": 1})
    workspace = Workspace.open(str(tmp_path / "workspace"))
    assert run_training(config, workspace).metrics["val/rsum"] > 0
    records = pipeline.describe(config, workspace)
    assert len(records.captions) == len(rows) == 120
    assert set(records.split_names) == {"train", "val", "test"}


def test_the_families_of_backbones_are_listed():
    section = text("docs/reference/data-formats.md").split("## Backbones")[1]
    (listed,) = re.findall(r"torchvision's twelve families.*?: (.*?)\.", section, re.DOTALL)
    assert tuple(re.findall(r"\b(?!and\b)\w+", listed)) == FAMILIES


@pytest.mark.seconds
@pytest.mark.parametrize(
    "page",
    slow_but(["README.md", "docs/guides/use-it-from-python.md"], "docs/guides/use-it-from-python.md"),
)
def test_the_examples_from_python_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str):
    """On fewer images, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (40, 30), "red").save("ball.png")
    source = sources(ROOT / page, "py")[0]
    assert '"vsepp_small"' in source
    names: dict[str, Any] = {}
    exec(source.replace("vsepp_small", "vsepp_tiny"), names)
    assert names["metrics"]["test/attack_object/r1"] >= 0
    assert names["scores"].shape == (1, 2)
    if "pictures" in names:
        assert names["sentences"].shape == names["pictures"].shape == (1, names["model"].dim)
        assert names["scores"][0, 0] == pytest.approx((names["pictures"] @ names["sentences"].T).item(), abs=1e-5)


@pytest.mark.slow
def test_what_is_said_of_results_in_pandas_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The columns of outcomes and the snippet, on a run that was evaluated."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    workspace = Workspace.open("workspace")
    run = run_training(presets.preset("vsepp_tiny"), workspace).folder
    measured = measure([run], run.child("evaluation"), workspace, *asked(attacks__words=("shared",)))
    ship_all("workspace")
    page = DOCS / "guides/use-it-from-python.md"
    outcomes = pq.read_table(f"{run.child('evaluation').local()}/{measured.tasks['retrieval'].table}")
    assert set(outcomes.column_names) <= set(re.findall(r"`(\w+)`", page.read_text(encoding="utf-8")))
    assert set(outcomes["task"].to_pylist()) == {"i2t", "t2i"}
    names: dict[str, Any] = {}
    try:
        (snippet,) = (each for each in sources(page, "py") if "search_runs" in each)
        exec(snippet.replace("RUN", run.name), names)
    finally:
        # pyrefly: ignore[bad-argument-type]  # which takes it out of the environment again
        mlflow.set_tracking_uri(None)
    assert "MLFLOW_TRACKING_URI" not in os.environ
    assert names["trainings"]["tags.mlflow.runName"].tolist() == [run.name]
    part = names["material"].records.split("test")
    assert names["scores"].shape == (len(part.images), len(part.captions))
    ranks = 1 + (names["scores"] > names["right"]).sum(0)
    assert ranks.double().mean().item() == pytest.approx(measured.metrics["test/t2i/meanr"], abs=0.05)
    assert names["reciprocal_rank"].item() == pytest.approx((1 / ranks).mean().item())


def test_every_published_system_is_in_the_table():
    section = text("docs/reference/systems.md").split("## Systems")[1].split("\n## ")[0]
    mentioned = set(re.findall(r"`([a-z0-9_]+)`", section))
    systems = {name.removesuffix("_coco") for name in presets.names() if name.endswith("_coco")}
    assert {name for name in systems if not name.endswith("_hglmm")} <= mentioned
    assert {f"{name}_coco" for name in mentioned & systems} <= set(presets.names())


def test_blocks_are_executed_unless_marked(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("```sh\na\n```\n\n<!-- not executed: needs hosts -->\n```sh\nb\n```\n")
    assert [(block.source, block.executed) for block in documents.blocks(page, "sh")] == [("a\n", True), ("b\n", False)]
