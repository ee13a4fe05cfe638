"""Placeholders of binary files are told from their first bytes, whatever the name promises."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import s3
from vse.adversaries.caption_pairs import read_pairs
from vse.assets.treebank import read_conllu
from vse.errors import InputError
from vse.features.weights import read_weights
from vse.storage.folder import Folder
from vse.storage.placeholders import placeholder, refuse_placeholder, unfetched_link
from vse.text import parser as parser_module
from vse.text.lexicon.concreteness import read_scores
from vse.text.lexicon.wordnet import read_wordnet
from vse.text.parser import Parser
from vse.text.word_vector_files import read_rows
from vse.text.word_vector_training import read_captions

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


def test_an_object_on_s3_is_looked_at_as_well(s3_proxy: s3.Proxy, request: pytest.FixtureRequest) -> None:
    folder = Folder.open(s3.address_of(request, s3_proxy.place))
    folder.write_bytes("a.bin", LFS)
    with pytest.raises(InputError, match="git lfs pull"):
        refuse_placeholder(folder.address("a.bin"))
