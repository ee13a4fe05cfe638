"""The pages that users read, and what they tell users to type."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SITE = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *SITE, *sorted((ROOT / "evidence").rglob("README.md"))]

_BLOCK = re.compile(r"^( *)(?:<!-- not executed[^\n]*-->\n *)?```(\w+)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`((?:python jobs/|vse |make |ray submit )[^`]+)`")
JOBS = {file.stem for file in (ROOT / "jobs").glob("[!_]*.py")}
_PLACEHOLDER = re.compile(r"\$\w+|\b[A-Z]{3,}\b|\.\.\.")


class Block(NamedTuple):
    """A code block of a page. `executed` is whether a reader can run it as it stands, in order."""

    language: str
    source: str
    executed: bool


class Command(NamedTuple):
    """A command of a page, split as by a shell. `complete` is whether it has no placeholder such as RUN."""

    words: tuple[str, ...]
    complete: bool


def name_of(page: Path) -> str:
    """The path of a page below the repository."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[Block]:
    """The code blocks of a page in these languages."""
    found = [
        Block(match[2], match[3], "<!-- not executed" not in match[0])
        for match in _BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]
    return [block for block in found if block.language in languages]


def sources(page: Path, language: str) -> list[str]:
    """The text of the blocks of one language."""
    return [block.source for block in blocks(page, language)]


def commands(page: Path) -> list[Command]:
    """Commands of the shell blocks of a page, and inline code that begins like one."""
    scripts = [re.sub(r"<<'END'\n.*?^END$", "", text, flags=re.S | re.M) for text in sources(page, "sh")]
    lines = [line for script in scripts for line in script.replace("\\\n", " ").splitlines()]
    lines = [re.sub(r"^(?:\w+=)?\$\((.*)\)$", r"\1", line) for line in lines]
    lines += _INLINE.findall(page.read_text(encoding="utf-8"))
    split = [tuple(shlex.split(part, comments=True)) for line in lines for part in line.split(";")]
    return [Command(words, not _PLACEHOLDER.search(" ".join(words))) for words in split if words]


def job_commands(page: Path) -> list[tuple[str, Command]]:
    """(name of the job, its arguments) of the commands that start a job, here or on a cluster."""
    found = []
    for words, complete in commands(page):
        if words[0] == "vse":
            length = next((n for n in (3, 2, 1) if "_".join(words[1 : 1 + n]) in JOBS), 0)
            name, place = "_".join(words[1 : 1 + length]), length
            assert name or words[1:2] in (("--help",), ("--version",), ("X",)), f"{page}: {' '.join(words)}"
        else:
            place = next((k for k, word in enumerate(words) if re.fullmatch(r"jobs/\w+\.py", word)), 0)
            name = Path(words[place]).stem if words[0] == "python" or words[:2] == ("ray", "submit") else ""
        if name in JOBS:
            found.append((name, Command(_without_bare_placeholders(words[place + 1 :]), complete)))
    return found


def _without_bare_placeholders(words: tuple[str, ...]) -> tuple[str, ...]:
    """Without words that stand for an argument as a whole, such as `$COMMON`, or `--preset NAME`."""
    kept = list[str]()
    for word in words:
        if "=" not in word and _PLACEHOLDER.search(word):
            del kept[len(kept) - (kept[-1:] == ["--preset"]) :]
        else:
            kept.append(word)
    return tuple(kept)
