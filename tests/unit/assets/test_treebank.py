import gzip
from random import Random

import pytest

from vse.assets.treebank import Sentence, group, read_conllu, vary
from vse.errors import InputError

TEXT = """# text = Dogs don't run.
1\tDogs\tdog\tNOUN\tNNS\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
3.1\tghost\tghost\tNOUN\tNN\t_\t_\t_\t_\t_
4\trun\trun\tVERB\tVB\t_\t0\troot\t_\t_
5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_
"""
DOGS = Sentence(
    words=("Dogs", "do", "n't", "run", "."),
    lemmas=("dog", "do", "not", "run", "."),
    pos=("NOUN", "AUX", "PART", "VERB", "PUNCT"),
    tags=("NNS", "VBP", "RB", "VB", "."),
    heads=(3, 3, 3, 3, 3),
    deps=("nsubj", "aux", "advmod", "ROOT", "punct"),
)


def test_multiword_tokens_and_empty_nodes_are_left_out(tmp_path):
    plain, packed = tmp_path / "a.conllu", tmp_path / "b.conllu.gz"
    plain.write_text(TEXT)  # no blank line at the end
    packed.write_bytes(gzip.compress(f"{TEXT}\n{TEXT}\n".encode()))
    assert read_conllu(plain) == [DOGS]
    assert read_conllu(packed) == [DOGS, DOGS]


def test_wrong_files_are_input_errors(tmp_path):
    with pytest.raises(InputError, match=r"missing\.conllu: no such file"):
        read_conllu(tmp_path / "missing.conllu")
    bad = tmp_path / "bad.conllu"
    bad.write_text("1\tDogs\n")
    with pytest.raises(InputError, match=r"bad\.conllu:1: expected ten"):
        read_conllu(bad)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("\t0\troot", "\t_\troot", r":7: column HEAD is '_'; expected 0 or the ID of one of 5 words"),
        ("\t0\troot", "\t-1\troot", r":7: column HEAD is '-1'"),
        ("_\t4\tnsubj", "_\t6\tnsubj", r":2: column HEAD is '6'; expected 0 or the ID of one of 5 words"),
        ("5\t.\t.", "7\t.\t.", r":8: column ID is '7'; expected 5"),
    ],
)
def test_a_head_that_is_no_word_is_named_with_its_line(tmp_path, old, new, says):
    path = tmp_path / "bad.conllu"
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(InputError, match=rf"bad\.conllu{says}"):
        read_conllu(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (TEXT.encode(), "is not compressed with gzip"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-12], r"is not a complete \.gz file"),
        (gzip.compress(TEXT.encode(), mtime=0)[:10] + b"\xff" * 50, r"is not a complete \.gz file"),
        (gzip.compress(b"\xff\n", mtime=0), "is not UTF-8 text"),
    ],
)
def test_damaged_files_are_named(tmp_path, content, says):
    path = tmp_path / "a.conllu.gz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"a\.conllu\.gz: {says}") as caught:
        read_conllu(path)
    assert "\n" not in str(caught.value)


def test_variations_keep_the_tree():
    assert vary(DOGS, Random(0), lower=0, no_stop=0) == DOGS
    varied = vary(DOGS, Random(0), lower=1, no_stop=1)
    assert varied.words == ("dogs", "do", "n't", "run")
    assert varied.heads == DOGS.heads[:4]
    assert varied.lemmas == DOGS.lemmas[:4]


def test_joined_sentences_keep_their_own_roots():
    (both,) = group([DOGS, DOGS], Random(0), share=1)
    assert both.heads == (3, 3, 3, 3, 3, 8, 8, 8, 8, 8)
    assert both.words == DOGS.words * 2
    assert list(group([DOGS, DOGS], Random(0), share=0)) == [DOGS, DOGS]
    assert list(group([], Random(0), share=0.5)) == []
