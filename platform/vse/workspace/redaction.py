"""Keeps credentials out of journals, summaries and error messages."""

import functools
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any
from urllib.parse import quote

HIDDEN = "[hidden]"

_NAMES = re.compile(r"[a-z0-9]+")
_STRONG = frozenset({"password", "passwd", "pwd", "passphrase", "secret", "secrets", "credential", "credentials",
                     "authorization", "apikey", "accesskey"})  # fmt: skip
_PAIRS = (("api", "key"), ("access", "key"), ("private", "key"), ("account", "key"), ("auth", "key"))
_WEAK = frozenset({"token", "bearer", "auth", "signature", "sig"})  # also words of the trade: hidden for long strings
_SHORTEST_TOKEN = 12
_SHORTEST = 6  # a shorter value of the environment may be part of harmless words

# Up to the last @ of the word: what people paste as a password may hold @ and / unescaped. A port is no password.
_URI_PASSWORD = re.compile(r"(?P<head>(?<![\w+.-])[\w+.-]+://[^\s/@:\"']*):(?!\d+(?:[/?#]|$))(?P<secret>[^\s\"']+)@")
_QUERY = re.compile(
    r"(?P<head>(?:[?&;\s\"'{,]|^)(?:[\w-]*(?:signature|credential|password|secret|token|api_?key|access_?key)[\w-]*)"
    r"(?:\\*[\"'])?\s*[=:]\s*(?:\\*[\"'])?)(?P<secret>[^\s&;\"',\\]{6,})",  # quoted in JSON, once or more often
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<head>\b(?:bearer|basic)\s+)(?P<secret>[\w.~+/=-]{12,})", re.IGNORECASE)
_KEY_BLOCK = r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
_KEY_BLOCK_OF_TEXT = re.compile(_KEY_BLOCK, re.DOTALL)
_KEY_BLOCK_OF_LOG = re.compile(_KEY_BLOCK.encode(), re.DOTALL)
_SHAPES = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"  # AWS access key ids
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}\b|\bgithub_pat_\w{20,}\b"
    r"|\bhf_[A-Za-z0-9]{20,}\b|\bsk-[A-Za-z0-9_-]{20,}|\bxox[abprs]-[\w-]{10,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"  # JSON web tokens
)
_PIECE = 4096  # bytes of a log that are searched at a time, about 30 lines
# A newline that no match spans: matches continue after a line only at `=` or `:`, or after `bearer` or `basic`.
_CUT = re.compile(rb"(?<=[!-9;<>-~])(?<!(?i:bearer))(?<!(?i:basic))\n(?=[!-9;<>-~])")
_CLUES = tuple(  # one of them is in every match, in small letters
    clue.encode()
    for clue in (
        *("@", "signature", "credential", "password", "secret", "token", "apikey", "api_key", "accesskey"),
        *("access_key", "bearer", "basic", "akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        *("hf_", "sk-", "xox", "eyj"),
    )
)


@functools.lru_cache(maxsize=4096)
def _words(key: str) -> list[str]:
    return _NAMES.findall(re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", key).lower())


def names_a_secret(key: str, value: Any) -> bool:
    """Whether `key` (dotted, snake or camel case) says that `value` is a credential.

    `text.token_dim` and `num_tokens` are not: ambiguous words count only at the end of the key of a long string.
    """
    words = _words(key)
    if not words or isinstance(value, bool) or value is None:
        return False
    if _STRONG & set(words) or any(pair in _PAIRS for pair in pairwise(words)):
        return True
    return words[-1] in _WEAK and isinstance(value, str) and len(value) >= _SHORTEST_TOKEN


def _of_environment() -> list[str]:
    """Values of environment variables whose names mark them as credentials, plain and as quoted in addresses."""
    secrets = {
        value
        for name, value in os.environ.items()
        if len(value) >= _SHORTEST and not value.startswith("/") and names_a_secret(name, value)  # no path of a file
    }
    return sorted(secrets | {quote(value, safe="") for value in secrets}, key=len, reverse=True)


def redact_text(text: str, secrets: Sequence[str] | None = None) -> str:
    """A text with credentials replaced by `[hidden]`.

    These are passwords in addresses, signed queries, tokens of well-known form, and secrets in the environment of this
    process.

    Args:
        text: to be shown or written.
        secrets: of the environment, if they were collected before.
    """
    for secret in _of_environment() if secrets is None else secrets:
        text = text.replace(secret, HIDDEN)
    text = _KEY_BLOCK_OF_TEXT.sub(HIDDEN, text)  # first: hiding its first word by another rule would leave the rest
    text = _URI_PASSWORD.sub(lambda m: f"{m['head']}:{HIDDEN}@", text)
    text = _QUERY.sub(lambda m: f"{m['head']}{HIDDEN}", text)
    text = _BEARER.sub(lambda m: f"{m['head']}{HIDDEN}", text)
    return _SHAPES.sub(HIDDEN, text)


def redact_log(log: bytes) -> bytes:
    """`redact_text` of a long log, with less time and memory; bytes that are not UTF-8 stay.

    Most lines of a log have no word that belongs to a credential, so only pieces with one are searched by all rules.
    """
    for secret in _of_environment():
        log = log.replace(secret.encode(errors="surrogateescape"), HIDDEN.encode())
    log = _KEY_BLOCK_OF_LOG.sub(HIDDEN.encode(), log)
    redacted = io.BytesIO()
    for piece in _pieces(log):
        small = piece.lower()
        if not piece.isascii() or any(clue in small for clue in _CLUES):
            text = redact_text(piece.decode(errors="surrogateescape"), secrets=())
            redacted.write(text.encode(errors="surrogateescape"))
        else:
            redacted.write(piece)
    return redacted.getvalue()


def _pieces(log: bytes) -> Iterator[bytes]:
    """A log in pieces of whole lines, of `_PIECE` bytes or a little more; no match reaches from one into the next."""
    start = 0
    while start < len(log):
        cut = _CUT.search(log, start + _PIECE)
        stop = cut.end() if cut else len(log)
        yield log[start:stop]
        start = stop


def redact(value: Any, key: str = "") -> Any:
    """Plain data of any depth with credentials hidden, found by the name of their key or by their shape."""
    return _redacted(value, key, _of_environment())


def _redacted(value: Any, key: str, secrets: Sequence[str]) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _redacted(v, str(k), secrets) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item, key, secrets) for item in value]
    if names_a_secret(key, value):
        return HIDDEN
    return redact_text(value, secrets) if isinstance(value, str) else value
