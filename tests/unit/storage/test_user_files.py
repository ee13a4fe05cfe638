"""Files by path or address: copied once to a node, again when they change there, verified, within the cache's limit."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import s3
from tests.unit.text.lexicon import database
from vse.adversaries.caption_pairs import read_pairs, read_rewrites, read_twins
from vse.assets.treebank import read_conllu
from vse.errors import InputError
from vse.evaluation.foreign_captions import read_foreign
from vse.storage import node_cache
from vse.storage import user_files as named_files
from vse.storage.files import sha256_of, sha256_of_file
from vse.storage.folder import Folder
from vse.storage.object_store import ObjectStore
from vse.storage.user_files import digest, ends, is_file, local, placeholder, read, refuse_placeholder, unfetched_link
from vse.storage.weights import read_weights
from vse.studies.artefact_test import read_pairs as artefact_pairs
from vse.studies.contrast_page import read_images
from vse.text import parser as parser_module
from vse.text.lexicon.compact import knowledge
from vse.text.lexicon.concreteness import read_scores, wordnet_scores
from vse.text.lexicon.wordnet import read_wordnet
from vse.text.parser import Parser
from vse.text.word_vector_files import read_rows
from vse.text.word_vector_training import read_captions

DATA = bytes(range(256)) * 20


@pytest.fixture
def folder(
    s3_proxy: s3.Proxy, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Folder:
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    return Folder.open(s3.address_of(request, s3_proxy.place))


def test_paths_stay_what_they_are(tmp_path: Path) -> None:
    file = tmp_path / "a b.bin"
    file.write_bytes(DATA)
    assert local(str(file)) == file
    assert (read(str(file)), digest(str(file))) == (DATA, sha256_of(DATA))
    assert ends(str(file), 10) == (len(DATA), DATA[:10], DATA[-10:])
    file.write_bytes(DATA + b"more")
    assert digest(str(file)) == sha256_of(DATA + b"more")
    assert is_file(str(file))
    assert not is_file(str(tmp_path))
    assert not is_file("")
    for ask in (read, digest, lambda path: ends(path, 3)):
        with pytest.raises(InputError, match=r"absent: cannot be read: No such file"):
            ask(str(tmp_path / "absent"))


def test_an_object_is_copied_once_in_parts(
    folder: Folder, s3_proxy: s3.Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(named_files, "PART", 1000)
    folder.write_bytes("a b.bin", DATA)
    address = folder.address("a b.bin")
    s3_proxy.seen.clear()
    path = local(address)
    assert s3_proxy.seen == ["HEAD", *["GET"] * 6]
    assert path.is_relative_to(tmp_path / "cache")
    assert path.name == "a b.bin"
    assert path.read_bytes() == DATA
    s3_proxy.seen.clear()
    assert (read(address), digest(address), local(address)) == (DATA, sha256_of(DATA), path)
    assert s3_proxy.seen == ["HEAD"] * 3


def test_ends_need_no_copy(folder: Folder, s3_proxy: s3.Proxy, tmp_path: Path) -> None:
    folder.write_bytes("a", DATA)
    folder.write_bytes("empty", b"")
    assert ends(folder.address("a"), 10) == (len(DATA), DATA[:10], DATA[-10:])
    assert ends(folder.address("a"), 10**6) == (len(DATA), DATA, DATA)
    assert ends(folder.address("empty"), 10) == (0, b"", b"")
    assert not (tmp_path / "cache").exists()
    assert read(folder.address("empty")) == b""


def test_what_has_changed_there_is_copied_again(folder: Folder) -> None:
    for text in (b"one", b"two"):
        folder.write_bytes("a", text)
        assert (read(folder.address("a")), digest(folder.address("a"))) == (text, sha256_of(text))


def test_a_file_that_changes_while_it_is_read_is_read_from_its_start(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_files, "PART", 1000)
    folder.write_bytes("a", DATA)
    whole, changed = ObjectStore.read_range, []

    def read_range(store: ObjectStore, name: str, start: int, stop: int, tag: str) -> bytes:
        if start == 2000 and not changed:
            changed.append(folder.write_bytes("a", DATA[::-1]))
        return whole(store, name, start, stop, tag)

    monkeypatch.setattr(ObjectStore, "read_range", read_range)
    assert read(folder.address("a")) == DATA[::-1]
    assert changed


def test_a_copy_is_hashed_once_a_process(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_bytes("a", DATA)
    hashed = list[Path]()

    def counted(path: Path) -> str:
        hashed.append(path)
        return sha256_of_file(path)

    monkeypatch.setattr(named_files, "sha256_of_file", counted)
    for _ in range(3):
        assert read(folder.address("a")) == DATA
    assert len(hashed) == 1


def test_a_copy_that_its_disk_has_altered_is_made_again(folder: Folder, s3_proxy: s3.Proxy) -> None:
    folder.write_bytes("a", DATA)
    path = local(folder.address("a"))
    path.write_bytes(DATA[::-1])
    named_files._copy_sha256.cache_clear()  # as a process that comes later has it
    assert read(folder.address("a")) == DATA
    path = local(folder.address("a"))
    path.write_bytes(DATA[:-1])
    s3_proxy.seen.clear()
    assert read(folder.address("a")) == DATA
    assert s3_proxy.seen == ["HEAD", "GET"]


def test_copies_make_room_for_each_other(folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(node_cache.LIMIT, str(2.5 * len(DATA) / 2**30))
    for name in "abc":
        folder.write_bytes(name, DATA)
        local(folder.address(name))
    there = {path.name for path in (tmp_path / "cache" / "copies").glob("*/*")}
    assert there == {"b", "c"}
    assert read(folder.address("a")) == DATA


def test_what_is_not_there_is_one_line(folder: Folder) -> None:
    address = folder.address("absent")
    assert not is_file(address)
    for ask in (local, read, digest, lambda place: ends(place, 3)):
        with pytest.raises(InputError, match=r"^s3://bucket/.*/absent\?.*: no such file$"):
            ask(address)


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 123456\n"
ANNEX = b"/annex/objects/SHA256E-s4096--" + b"0" * 64 + b".jpg\n"
PAGES = (
    b"<!DOCTYPE html><html><title>404</title>",
    b"\xef\xbb\xbf\n<HTML lang=en>",
    b"<!-- saved -->\n<!doctype HTML PUBLIC>",
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code></Error>',
)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"", "file is empty"),
        (LFS, "Git LFS pointer.*git lfs pull"),
        (ANNEX, "git-annex pointer.*git annex get"),
        (b"../.git/annex/objects/Xk/0J/SHA256E-s5--00/SHA256E-s5--00", "git-annex pointer"),
        *((page, "HTML or XML page.*download the file again") for page in PAGES),
    ],
)
def test_placeholders_are_named_with_the_way_to_fetch_the_file(head: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(head)
    with pytest.raises(InputError, match=rf"^\S+a\.bin: .*{said}"):
        refuse_placeholder(str(file))
    with pytest.raises(InputError, match=rf"^some\.key=X: .*{said}"):
        refuse_placeholder(str(file), "some.key=X")


@pytest.mark.parametrize(
    "head",
    [
        b"\x93NUMPY\x01\x00",
        b"\xff\xd8\xff\xe0",
        b"PK\x03\x04",
        b"<s> 0.1 0.2\n",
        b"the 0.418 0.24968\n",
        b"version 0.1 0.2",
        b"annex 0.1 0.2\n/annex/objects/",
        b'<?xml version="1.0"?><svg>',
    ],
)
def test_other_files_are_none(head: bytes, tmp_path: Path) -> None:
    assert placeholder(head) == ""
    (tmp_path / "a.bin").write_bytes(head)
    refuse_placeholder(str(tmp_path / "a.bin"))
    refuse_placeholder(str(tmp_path / "absent"))


READERS: dict[str, Callable[[str], object]] = {
    "weights": read_weights,
    "word vectors": lambda path: read_rows(path, {"cat": 0}),
    "scores of words": read_scores,
    "pairs of captions": read_pairs,
    "captions": lambda path: list(read_captions(path)),
    "a treebank": lambda path: read_conllu(Path(path)),
}


@pytest.mark.parametrize("reader", READERS)
def test_whoever_reads_a_named_file_says_so(reader: str, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(LFS)
    with pytest.raises(InputError, match=r"a\.txt: is a Git LFS pointer"):
        READERS[reader](str(file))


def test_a_folder_with_a_placeholder_among_its_files(tmp_path: Path) -> None:
    for name in ("data.noun", "index.noun", "noun.exc"):
        (tmp_path / name).write_bytes(LFS)
    with pytest.raises(InputError, match=r"data\.noun: is a Git LFS pointer"):
        read_wordnet(str(tmp_path))
    parser = shutil.copytree(Path(parser_module.__file__).parent / "en_vse", tmp_path / "parser")
    (parser / "tagger" / "model").write_bytes(LFS)
    with pytest.raises(InputError, match=r"^parser\.pipeline=\S+/parser: tagger/model: is a Git LFS pointer"):
        Parser(Parser.Config(pipeline=str(parser)))


def test_a_link_to_content_of_git_annex_that_is_not_there_is_one(tmp_path: Path) -> None:
    link, content = tmp_path / "a.jpg", tmp_path / ".git" / "annex" / "objects" / "a" / "SHA256E-s5--00.jpg"
    link.symlink_to(".git/annex/objects/a/SHA256E-s5--00.jpg")
    with pytest.raises(InputError, match="git annex get"):
        refuse_placeholder(str(link))
    content.parent.mkdir(parents=True)
    content.write_bytes(b"\xff\xd8\xff")
    assert unfetched_link(link) == ""
    other = tmp_path / "b.jpg"
    other.symlink_to("absent.jpg")
    assert unfetched_link(other) == unfetched_link(tmp_path) == unfetched_link("a\0b") == ""


COCO = {
    "images": [{"id": 1, "file_name": "1.png"}],
    "annotations": [{"id": 1, "image_id": 1, "caption": "A dog"}],
}
PAIR = {"filename": "1.jpg", "caption": "a dog", "negative_caption": "a cat"}
TWINS = {"image_0": "1.jpg", "image_1": "2.jpg", "caption_0": "a dog", "caption_1": "a cat"}
SAMPLE = {"image": "1.jpg", "caption": "a dog", "adversary": "a cat", "paradigm": "noun"}


@pytest.mark.parametrize(
    ("reader", "name", "text"),
    [
        (read_pairs, "add_obj.json", json.dumps([PAIR])),
        (read_pairs, "add_obj.tsv", "image\tcaption\tnegative\n1.jpg\ta dog\ta cat\n"),
        (lambda path: read_rewrites(path) or read_pairs(path), "fine.json", json.dumps({"1.jpg": ["a big dog"]})),
        (read_twins, "twins.jsonl", json.dumps(TWINS)),
        (lambda path: list(read_captions(path)), "a.jsonl", '{"caption": "a dog"}\n'),
        (lambda path: list(read_captions(path)), "a.txt.gz", "a dog\ntwo dogs\n"),
        (read_foreign, "a.csv", "caption\na dog\n"),
        (read_foreign, "captions_val.json", json.dumps(COCO)),
        (read_scores, "scores.tsv", "dog\t4.9\n"),
        (lambda path: list(artefact_pairs(path)), "pairs.jsonl", json.dumps(SAMPLE)),
        (read_images, "add_obj.json", json.dumps([PAIR])),
    ],
)
def test_a_file_on_s3_is_read_as_one_on_a_disk(
    folder: Folder, tmp_path: Path, reader: Callable[[str], Any], name: str, text: str
) -> None:
    data = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    (tmp_path / name).write_bytes(data)
    folder.write_bytes(name, data)
    assert reader(folder.address(name)) == reader(str(tmp_path / name))
    with pytest.raises(InputError, match=r"(no|No) such file"):
        reader(folder.address(f"absent-{name}"))


def test_a_wordnet_database_on_s3(folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no WordNet database here \(data\.noun is missing\)"):
        read_wordnet(folder.uri)
    (tmp_path / "local").mkdir()
    here = database.write(tmp_path / "local")
    for file in (tmp_path / "local").iterdir():
        folder.write_bytes(file.name, file.read_bytes())
    folder.write_bytes("scores.tsv", b"dog\t4.9\ncat\t1.0\n")
    there = knowledge(folder.uri, folder.address("scores.tsv"))
    assert there.lexicon.fingerprint == read_wordnet(here).fingerprint
    assert there.concreteness.scores == {"dog": 4.9, "cat": 1.0}
    assert wordnet_scores(folder.uri) == wordnet_scores(here)


def test_an_object_on_s3_is_looked_at_as_well(s3_proxy: s3.Proxy, request: pytest.FixtureRequest) -> None:
    folder = Folder.open(s3.address_of(request, s3_proxy.place))
    folder.write_bytes("a.bin", LFS)
    with pytest.raises(InputError, match="git lfs pull"):
        refuse_placeholder(folder.address("a.bin"))
