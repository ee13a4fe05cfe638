"""Passwords in any address, and the secrets of the environment, are hidden; ports and paths are not."""

import random
import tracemalloc
from urllib.parse import quote

import pytest

from vse.workspace import redaction
from vse.workspace.redaction import HIDDEN, redact, redact_log, redact_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://user:pass@host:5000/x", f"http://user:{HIDDEN}@host:5000/x"),
        ("http://user:p@ss@host", f"http://user:{HIDDEN}@host"),
        ("http://user:p/a:s@host/x", f"http://user:{HIDDEN}@host/x"),
        ("http://user:123@host", f"http://user:{HIDDEN}@host"),
        ("s3://id:with/slash+plus=@bucket/x?region=eu", f"s3://id:{HIDDEN}@bucket/x?region=eu"),
        ("postgresql+psycopg2://:secret@db/x", f"postgresql+psycopg2://:{HIDDEN}@db/x"),
        ("two: a://u:one@h and b://u:two@h", f"two: a://u:{HIDDEN}@h and b://u:{HIDDEN}@h"),
        ('{"uri": "a://u:one@h", "mail": "me@h"}', f'{{"uri": "a://u:{HIDDEN}@h", "mail": "me@h"}}'),
    ],
)
def test_passwords_in_addresses(text: str, expected: str) -> None:
    assert redact_text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("http://127.0.0.1:5000", "http://127.0.0.1:5000/", "http://host:5000/runs@latest", "http://host:5000?at=a@b"),
        *("s3://bucket/a@b", "git@github.com:user/project", "a: b@c", "sqlite:////absolute/path@x.db", "x://user@host"),
    ],
)
def test_what_holds_no_password_stays(text: str) -> None:
    assert redact_text(text) == text


def test_secrets_of_the_environment_are_hidden_wherever_they_turn_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "no/known shape+")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "no/known")
    monkeypatch.setenv("TINY_PASSWORD", "vse")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/home/somebody/.aws/credentials")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false-or-true-or-so")
    assert redact_text("server said: no/known shape+!") == f"server said: {HIDDEN}!"
    assert redact_text(f"?x={quote('no/known shape+', safe='')}") == f"?x={HIDDEN}"
    assert redact({"innocent": ["a no/known b"]}) == {"innocent": [f"a {HIDDEN} b"]}
    for text in ("the vse package", "/home/somebody/.aws/credentials", "false-or-true-or-so"):
        assert redact_text(text) == text
    monkeypatch.delenv("SOME_SECRET")
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD")
    assert redact_text("no/known shape+") == "no/known shape+"


def test_a_private_key_is_hidden_whole_whatever_its_name() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEplanted\n-----END RSA PRIVATE KEY-----"
    assert redact_text(f"TLS_SECRET={key} end") == f"TLS_SECRET={HIDDEN} end"


FRAGMENTS = [
    *(
        "\n",
        "\n",
        "\n\n",
        " ",
        "\t",
        "=",
        ":",
        '"',
        "\\",
        "'",
        ",",
        "?",
        "\u00a0",
        "\xfc",
        "plain words",
        "loss=0.5",
        "127.0.0.1:8265",
    ),
    *("token", "num_tokens", "AWS_SECRET_ACCESS_KEY", "api_key", "password", "Bearer", "basic", "planted123456"),
    *(
        "http://user:planted@host/x",
        "AKIAABCDEFGHIJKLMNOP",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "?X-Amz-Signature=0123456789",
    ),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "two\nlines"),
]


@pytest.mark.parametrize("piece", [0, 7, 40])
def test_a_log_in_pieces_is_redacted_as_a_whole(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values on the line after their key too, key blocks, and secrets of the environment that have several lines."""
    monkeypatch.setattr(redaction, "_PIECE", piece)
    monkeypatch.setenv("SOME_SECRET", "two\nlines")
    drawn = random.Random(piece)
    weights = [1.0] * (len(FRAGMENTS) - 3) + [0.1, 0.2, 1.0]  # of a key block without an end all is hidden
    cut = 0
    for _ in range(800):
        text = "".join(drawn.choices(FRAGMENTS, weights, k=drawn.randrange(40)))
        assert redact_log(text.encode()).decode() == redact_text(text)
        cut += len(list(redaction._pieces(text.encode()))) > 1
    assert cut > 250


def test_bytes_of_a_log_that_are_not_text_stay() -> None:
    assert redact_log(b"\xff\x00 token=planted\n\xff\n") == b"\xff\x00 token=[hidden]\n\xff\n"


@pytest.mark.parametrize("line", [b"2026-08-19 INFO step 1 loss 0.5 (pid=12, ip=10.0.0.1)\n", b"num_tokens: 100\n"])
def test_a_long_log_takes_little_more_memory_than_its_copy(line: bytes) -> None:
    log = line * (2**18 // len(line))
    tracemalloc.start()
    try:
        redact_log(log)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * len(log)
    finally:
        tracemalloc.stop()
