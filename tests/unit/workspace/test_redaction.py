"""Passwords in any address, and the secrets of the environment, are hidden; ports and paths are not."""

from urllib.parse import quote

import pytest

from vse.workspace.redaction import HIDDEN, redact, redact_text


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
