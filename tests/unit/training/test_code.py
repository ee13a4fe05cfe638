"""Which code made a number: what its digest sees, and what is said where it is another's."""

from pathlib import Path

import pytest

import vse
from tests.levels import slow
from tests.unit.boundaries import imports_of
from vse import presets
from vse.training import code
from vse.training.code import SOURCES, Sources, digest_of, name_of, names_of, others, read_code, this_code, warning

pytestmark = pytest.mark.seconds

PACKAGE = Path(vse.__file__).parent
# Rooms that training reads and that decide no weight
ELSEWHERE = {"cluster", "display", "errors", "presets", "storage", "tracking", "workspace"}


Digests = dict[str, str]  # by preset


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    return dict(Sources.read(PACKAGE).texts)


@pytest.fixture(scope="module")
def digests(texts: dict[str, str]) -> Digests:
    return _digests(texts)


def _digests(texts: dict[str, str]) -> Digests:
    sources, names = (
        Sources(texts),
        ("vsepp_scenes", "vsepp_infonce_scenes", "univse_scenes", "jwae_mh_scan_t2i_scenes"),
    )
    return {name: digest_of(sources, this_code(presets.preset(name))["components"]) for name in names}


@pytest.mark.parametrize(
    ("module", "changed"),
    [
        ("training.loop", {"vsepp_scenes", "vsepp_infonce_scenes", "univse_scenes"}),
        ("objectives.infonce", {"vsepp_infonce_scenes", "univse_scenes"}),  # which may match sentences by it
        *slow(
            [
                ("models.vsepp", {"vsepp_scenes", "vsepp_infonce_scenes"}),
                ("models.family", {"vsepp_scenes", "vsepp_infonce_scenes", "univse_scenes"}),
                ("models.univse", {"univse_scenes"}),
                ("objectives.ranking", {"vsepp_scenes", "univse_scenes"}),
                ("models.scan", set()),
            ]
        ),
    ],
)
def test_a_run_s_code_is_what_its_training_reads(
    texts: dict[str, str], digests: Digests, module: str, changed: set[str]
) -> None:
    edited = _digests({**texts, module: texts[module] + "\n_EDITED = True\n"})
    assert {name for name in edited if edited[name] != digests[name]} - {"jwae_mh_scan_t2i_scenes"} == changed


def test_another_family_makes_no_run_another_code_s(texts: dict[str, str], digests: Digests) -> None:
    more = {**texts, "models.mine": "SIZE = 3\n", "models.__init__": "from vse.models import mine, vsepp\n"}
    assert _digests(more) == digests


def test_a_component_that_is_gone_was_other_code(texts: dict[str, str], digests: Digests) -> None:
    fewer = {module: text for module, text in texts.items() if module != "models.vsepp"}
    assert _digests(fewer)["vsepp_scenes"] != digests["vsepp_scenes"]


def test_everything_that_training_reads_is_a_source_or_decides_no_weight() -> None:
    inside = ("loop", "step", "inputs", "checkpoint", "collectives")
    for module in ("stages.train", *(f"training.{name}" for name in inside)):
        for name, _ in imports_of((PACKAGE / f"{module.replace('.', '/')}.py").read_text(), module):
            room, _, rest = name.removeprefix("vse.").partition(".")
            if not name.startswith("vse.") or room in ELSEWHERE:
                continue
            file = f"{room}/{rest.partition('.')[0]}.py" if rest else f"{room}.py"
            assert {room, f"{room}.py", file} & set(SOURCES), f"{module} reads {name}"
    assert all((PACKAGE / source).exists() for source in SOURCES)


def test_this_code_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    config = presets.preset("vsepp_tiny")
    digest = this_code(config)["digest"]
    read_code.cache_clear()
    monkeypatch.setattr(code, "git_state", lambda: {"commit": "0123456789", "changed_files": 2})
    found = this_code(config)
    assert found == {"digest": digest, "components": found["components"], "commit": "0123456789", "changed": True}
    assert {"models.vsepp", "objectives.ranking"} < set(found["components"])
    monkeypatch.setattr(Sources, "read", lambda folder: pytest.fail("read again"))
    monkeypatch.setattr(code, "git_state", lambda: pytest.fail("asked again"))
    assert this_code(config)["changed"]
    monkeypatch.undo()
    read_code.cache_clear()
    monkeypatch.setattr(code, "git_state", dict)
    assert this_code(config).keys() == {"digest", "components"}
    read_code.cache_clear()


def test_other_code_is_named_by_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "digest_of", lambda sources, components: "aa")
    mine, later = {"digest": "aa", "commit": "e" * 40, "changed": True}, {"digest": "aa"}
    theirs = {"digest": "bb", "commit": "0123456789", "changed": True}
    bare, clean = {"digest": "cc"}, {"digest": "dd", "commit": "fedcba9876", "changed": False}
    assert others([mine, theirs, later, bare]) == [theirs, bare]
    assert names_of([theirs, bare, clean, theirs]) == "commit 01234567 with changes, code cc, commit fedcba98"
    assert name_of(clean) == "commit fedcba9876"
    assert warning({"one": [mine], "two": []}, "runs", "remove x") == ""
    line = "warning: 2 runs were computed with other code (code cc, commit fedcba98); to compute them again, remove x"
    assert warning({"one": [mine, bare], "two": [clean, bare], "three": [mine]}, "runs", "remove x") == line
