import subprocess
import sys

import pytest

from vse.data.records import Caption, Image, Records
from vse.errors import StorageError
from vse.stages import parse as parsing
from vse.stages.parse import language_fingerprint, not_english, parse_captions, parse_texts, parse_texts_to
from vse.storage.folder import Folder
from vse.text.components import extract
from vse.text.corpus import Language
from vse.text.parser import Parser, shared_parser
from vse.workspace.layout import Workspace, dataset_name

CONFIG = Parser.Config()
TEXTS = [
    f"A {colour} {animal} sits on a table." for colour in ("red", "black", "old") for animal in ("dog", "cat", "cow")
]


@pytest.fixture
def records():
    texts = [*TEXTS, TEXTS[0], ""]  # a text twice, an empty one; two images with four and seven captions
    captions = [Caption(f"c{i}", "a" if i < 4 else "b", text) for i, text in enumerate(texts)]
    images = (Image("a", "a.jpg", "train"), Image("b", "b.jpg", "test"))
    return Records("pets", images, tuple(captions), {"made": "by hand"})


@pytest.fixture
def parsed(monkeypatch):
    """Texts given to the parser, in order."""
    given: list[str] = []
    parse_all = Parser.parse_all

    def counting(self, texts, batch_size=128):
        given.extend(texts)
        return parse_all(self, texts, batch_size)

    monkeypatch.setattr(Parser, "parse_all", counting)
    monkeypatch.setattr(parsing, "SHARD_TEXTS", 4)
    return given


@pytest.mark.parametrize(("text", "warned"), [("Ein Hund läuft am Strand", True), ("A dog on the beach", False)])
def test_captions_that_are_not_english_are_warned_of(tmp_path, caplog, text, warned):
    german = Records("fotos", (Image("a", "a.jpg", "train"),), (Caption("c", "a", text),), {})
    parse_captions(german, CONFIG, Workspace.open(str(tmp_path)))
    lines = [message for message in caplog.messages if "for English" in message]
    assert len(lines) == warned
    if warned:
        assert lines[0].startswith("warning: data set 'fotos': fewer than a fifth of the captions contain English")
        assert "vsepp_flickr8k" in lines[0]
        assert "tasks=retrieval" in lines[0]
        assert "text.parser.pipeline" in lines[0]
    assert not not_english(german, Parser.Config(pipeline="de_core_news_sm"))


def test_every_distinct_caption_is_parsed_once_and_only_once(records, tmp_path, parsed):
    workspace = Workspace.open(str(tmp_path))
    first = parse_captions(records, CONFIG, workspace)
    assert parsed == [*TEXTS, ""]
    again = parse_captions(records, CONFIG, workspace)
    assert len(parsed) == len(TEXTS) + 1
    for text in [*TEXTS, ""]:
        expected = shared_parser(CONFIG).parse(text)
        assert first.parse(text) == again.parse(text) == expected
        assert first.components(text) == extract(expected)
    assert first.fingerprint == language_fingerprint(CONFIG)
    folder = workspace.language(dataset_name(records), first.fingerprint)
    manifest = folder.read_manifest()
    assert manifest is not None
    assert manifest["num_texts"] == len(TEXTS) + 1
    assert len([n for n in folder.names() if n.startswith("parses-")]) == 3


def test_a_stopped_run_goes_on_where_it_was(records, tmp_path, parsed, monkeypatch):
    workspace = Workspace.open(str(tmp_path))
    write = parsing.write_shard

    def stop_at_the_second(folder, fingerprint, texts, parses):
        if len(parsed) > 4:
            raise KeyboardInterrupt
        return write(folder, fingerprint, texts, parses)

    monkeypatch.setattr(parsing, "write_shard", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        parse_captions(records, CONFIG, workspace)
    monkeypatch.setattr(parsing, "write_shard", write)
    parsed.clear()
    stored = parse_captions(records, CONFIG, workspace)
    assert parsed == [*TEXTS[4:], ""]
    assert set(stored.texts()) == {*TEXTS, ""}


def test_what_a_disk_damages_at_once_is_never_committed(records, tmp_path, parsed, monkeypatch):
    whole = parsing.write_shard

    def torn(folder, *given):
        name = whole(folder, *given)
        folder.write_bytes(name, folder.read_bytes(name)[:-9])
        return name

    monkeypatch.setattr(parsing, "write_shard", torn)
    with pytest.raises(StorageError, match="just written are damaged"):
        parse_captions(records, CONFIG, Workspace.open(str(tmp_path)))
    monkeypatch.setattr(parsing, "write_shard", whole)
    assert parse_captions(records, CONFIG, Workspace.open(str(tmp_path))).parse(TEXTS[0])


def test_more_texts_later_are_added(tmp_path, parsed):
    folder = Folder.open(tmp_path / "x")
    parse_texts_to(TEXTS[:3], CONFIG, folder)
    assert len(parse_texts_to(TEXTS[:2], CONFIG, folder)) == 3
    more = parse_texts_to(TEXTS, CONFIG, folder)
    assert len(more) == len(parsed) == len(TEXTS)


def test_no_texts_at_all(tmp_path):
    assert len(parse_texts_to([], CONFIG, Folder.open(tmp_path / "x"))) == 0


def test_another_revision_of_the_rules_is_another_folder(records, tmp_path, monkeypatch):
    before = language_fingerprint(CONFIG)
    monkeypatch.setattr(parsing, "REVISION", parsing.REVISION + 1)
    assert language_fingerprint(CONFIG) != before


def test_parses_kept_nowhere_come_in_order_and_each_text_is_parsed_once(parsed):
    texts = [TEXTS[2], TEXTS[0], TEXTS[2], ""]
    assert parse_texts(texts, CONFIG) == [shared_parser(CONFIG).parse(text) for text in texts]
    assert parsed[:3] == [TEXTS[2], TEXTS[0], ""]


SCRIPT = """
import sys
from vse.stages import parse as parsing
from vse.text.parser import Parser
from vse.storage.folder import Folder

parsing.SHARD_TEXTS, parsing.WORTH_A_PROCESS = 4, 4
texts = [f"A dog near {n} cats." for n in range(14)]
{guard}
    print(len(parsing.parse_texts_to(texts, Parser.Config(), Folder.open(sys.argv[1]))))
"""


@pytest.mark.slow
@pytest.mark.parametrize("guard", ["if __name__ == '__main__':", "if True:"], ids=["guarded", "unguarded"])
def test_two_processes_give_what_one_gives(tmp_path, guard):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("{guard}", guard))
    done = subprocess.run(
        [sys.executable, script, tmp_path / "two"], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.split()[-1:] == ["14"], done.stderr
    texts = [f"A dog near {n} cats." for n in range(14)]
    two, parser = Language.open(Folder.open(tmp_path / "two")), shared_parser(CONFIG)
    assert [two.parse(text) for text in texts] == parser.parse_all(texts)


@pytest.mark.slow
def test_ray_data_gives_what_one_process_gives(tmp_path, monkeypatch):
    import ray

    from vse.cluster.runtime import Config, running_ray

    monkeypatch.setattr(parsing, "SHARD_TEXTS", 4)
    monkeypatch.setattr(parsing, "WORTH_RAY", 5)
    with running_ray(Config(address="local", cpus=2)):
        assert ray.is_initialized()
        stored = parse_texts_to(TEXTS, CONFIG, Folder.open(tmp_path / "ray"))
    parser = shared_parser(CONFIG)
    assert [stored.parse(text) for text in TEXTS] == parser.parse_all(TEXTS)
