"""A search as files below the workspace: the page, and every answer in `summary.json`; and as lines to read at once."""

import functools
import time
from collections.abc import Iterator
from typing import Any

from vse.cli.command import Request
from vse.config import fingerprint, flatten, to_dict
from vse.display.escaping import one_line
from vse.errors import InputError
from vse.inference.image_search import Answer, Hit, Options, SearchResult, check_search, place_of, search
from vse.report.build import placed
from vse.report.html import Provenance
from vse.report.search_page import search_page
from vse.report.thumbnails import thumbnail
from vse.workspace.layout import Workspace
from vse.workspace.provenance import command_line, environment
from vse.workspace.redaction import redact_text
from vse.workspace.summary import write_summary

PAGE = "search.html"
REVISION = 1  # raise it when the same search would find something else


def build_search(request: Request) -> str:
    """Search, write what was found to searches/<digits>, then print it; returns the path of `summary.json`.

    The same search writes to the same folder. Raises InputError as `search.search` does.
    """
    started, options = time.time(), _checked(request)
    workspace = Workspace.open(request.workspace)
    workspace.existing("runs", options.run, "run")
    workspace.check_writable()
    found = search(workspace, options)
    folder = workspace.search(fingerprint([REVISION, to_dict(options), dict(found.fingerprints)]))
    made = Provenance(
        commands=[placed(redact_text(command_line()), request)],
        configuration={options.run: flatten(found.config)},
        versions=environment()["versions"],
        facts={**found.facts, **found.fingerprints},
    )
    shown = functools.cache(lambda uri: thumbnail(uri, found.root))
    folder.write_text(PAGE, search_page(found, shown, made))
    path = write_summary(
        folder,
        job=request.job,
        started=started,
        configuration=found.config,
        options=options,
        fingerprints=found.fingerprints,
        headline=_headline(found),
        outputs={"page": folder.address(PAGE)},
        details={
            "among": f"{found.number} {found.what} of {found.among}",
            "answers": [_as_data(answer, found) for answer in found.answers],
            "rejects": dict(found.rejects),
        },
    )
    print("\n".join(map(one_line, lines(found))))
    return path


def plan(request: Request) -> Iterator[str]:
    """The body of a dry run."""
    return check_search(Workspace.open(request.workspace), _checked(request))


def _checked(request: Request) -> Options:
    options: Options = request.options
    if options.images and "split" in request.changed:
        raise InputError("split, images: search a split or a folder; leave one of the two out")
    return options


def lines(found: SearchResult) -> Iterator[str]:
    """For every search a headline and a line a hit: rank, score, id and where it lies, or the caption."""
    for number, answer in enumerate(found.answers):
        if number:
            yield ""
        yield f"{answer.query}: best of {found.number:,} {found.what} of {found.among}"
        hits = (*answer.hits, *answer.missed[:1])
        names = [one_line(hit.item.id) for hit in hits]
        width = max(map(len, names))
        for name, hit in zip(names, hits, strict=True):
            mark = "*" if hit.true else " "
            yield f"{mark}{hit.rank:5,}  {hit.score:9.4f}  {name:{width}}  {_where(hit, found)}".rstrip()
        if answer.true_ranks:
            yield "* true by the data set"
        if answer.unknown:
            yield f"not in the vocabulary: {', '.join(answer.unknown)}"


def _where(hit: Hit, found: SearchResult) -> str:
    return place_of(hit.item.uri, found.root) if hit.item.uri else hit.item.text


def _headline(found: SearchResult) -> dict[str, Any]:
    """Numbers a reader wants first, and of a single search its best hit."""
    headline: dict[str, Any] = {"searches": len(found.answers), "among": found.number}
    if len(found.answers) == 1:
        best = found.answers[0].hits[0]
        headline |= {"best": best.item.id, "score": best.score}
    ranks = [min(answer.true_ranks) for answer in found.answers if answer.true_ranks]
    if ranks:
        headline |= {"with_true": len(ranks), "true_first": sum(rank == 1 for rank in ranks)}
    return headline


def _as_data(answer: Answer, found: SearchResult) -> dict[str, Any]:
    return {
        "query": answer.query,
        "median": answer.median,
        "highest": answer.highest,
        "unknown_words": list(answer.unknown),
        "hits": [_hit(hit, found) for hit in answer.hits],
        "missed": [_hit(hit, found) for hit in answer.missed],
    }


def _hit(hit: Hit, found: SearchResult) -> dict[str, Any]:
    item = hit.item
    where = {"path": place_of(item.uri, found.root)} if item.uri else {}
    text = {"caption": item.text} if item.text else {}
    return {"rank": hit.rank, "score": hit.score, "id": item.id, **where, **text, "true": hit.true}
