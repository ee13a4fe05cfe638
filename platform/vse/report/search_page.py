"""jobs/search.py: the page of a search, every answer in `summary.json`, and lines for the terminal."""

import base64
import functools
import io
from collections.abc import Callable, Iterator
from typing import Any

from vse.cli.command import Request
from vse.config import fingerprint, flatten, to_dict
from vse.data.images import UnreadableImage, open_image
from vse.display.counts import count
from vse.display.escaping import one_line
from vse.errors import InputError
from vse.inference.image_search import Answer, Hit, SearchOptions, SearchResult, check_search, place_of, search
from vse.report.build import placed
from vse.report.page import Provenance, provenance, render
from vse.workspace.layout import Workspace
from vse.workspace.provenance import command_line
from vse.workspace.redaction import redact_text

PAGE = "search.html"
REVISION = 1  # raise it if the same search would find something else
THUMBNAIL = 288  # pixels: one and a half of a tile, for dense screens
MOST = 100  # sentences on one page: a thousand would make it a hundred megabytes
_MISSED = 3  # images that are true and rank below the hits
_RANKS = 8  # of true items, in the heading

Thumbnail = Callable[[str], str]


def build_search(request: Request) -> str:
    """Search, write the page to `searches/DIGITS` and print the hits; returns the path of `summary.json`.

    The same search writes to the same folder. Raises InputError as `image_search.search` does.
    """
    options = _checked(request)
    workspace = Workspace.open(request.workspace)
    workspace.existing("runs", options.run, "run")
    workspace.check_writable()
    result = search(workspace, options)
    folder = workspace.search(fingerprint([REVISION, to_dict(options), dict(result.fingerprints)]))
    command, facts = placed(redact_text(command_line()), request), {**result.facts, **result.fingerprints}
    made_with = provenance([command], {options.run: flatten(result.config)}, facts)
    shown = functools.cache(lambda uri: thumbnail(uri, result.root))
    folder.write_text(PAGE, search_page(result, shown, made_with))
    path = request.write_summary(
        folder,
        configuration=result.config,
        fingerprints=result.fingerprints,
        headline=_headline(result),
        outputs={"page": folder.address(PAGE)},
        details={
            "among": f"{_candidates(result)} of {result.among}",
            "answers": [_as_data(answer, result) for answer in result.answers],
            "rejects": dict(result.rejects),
        },
    )
    print("\n".join(map(one_line, lines(result))))
    return path


def thumbnail(uri: str, root: str, side: int = THUMBNAIL) -> str:
    """A picture as the data URI of a JPEG, scaled down to fit a square but never enlarged.

    Args:
        uri: Address of the picture, as for `open_image`.
        root: Folder or s3:// address that a relative path starts from.
        side: Side of the square in pixels.

    Returns:
        The URI. Empty if the picture cannot be read, or if there is none, as with ready-made features.
    """
    try:
        picture = open_image(uri, root)
    except (UnreadableImage, InputError):
        return ""
    picture.thumbnail((side, side))
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=85, subsampling=0)
    return f"data:image/jpeg;base64,{base64.b64encode(stream.getvalue()).decode()}"


def plan(request: Request) -> Iterator[str]:
    """The body of a dry run."""
    return check_search(Workspace.open(request.workspace), _checked(request))


def _checked(request: Request) -> SearchOptions:
    options: SearchOptions = request.options
    if options.images and "split" in request.changed:
        raise InputError("split, images: search a split or a folder; leave one of the two out")
    return options


def lines(result: SearchResult) -> Iterator[str]:
    """For every search a headline, then one line for each hit: rank, score, id, and its path or caption."""
    for number, answer in enumerate(result.answers):
        if number:
            yield ""
        yield f"{answer.query}: best of {_candidates(result)} of {result.among}"
        hits = (*answer.hits, *answer.missed[:1])
        names = [one_line(hit.item.id) for hit in hits]
        width = max(map(len, names))
        for name, hit in zip(names, hits, strict=True):
            mark = "*" if hit.true else " "
            yield f"{mark}{hit.rank:5,}  {hit.score:9.4f}  {name:{width}}  {_where(hit, result)}".rstrip()
        if answer.true_ranks:
            yield "* true by the data set"
        if answer.unknown:
            yield f"not in the vocabulary: {', '.join(answer.unknown)}"


def _candidates(result: SearchResult) -> str:
    return count(result.number, result.what.removesuffix("s"))


def _where(hit: Hit, result: SearchResult) -> str:
    return place_of(hit.item.uri, result.root) if hit.item.uri else hit.item.text


def _headline(result: SearchResult) -> dict[str, Any]:
    """Counts, and the best hit of a single search."""
    headline: dict[str, Any] = {"searches": len(result.answers), "among": result.number}
    if len(result.answers) == 1:
        best = result.answers[0].hits[0]
        headline |= {"best": best.item.id, "score": best.score}
    ranks = [min(answer.true_ranks) for answer in result.answers if answer.true_ranks]
    if ranks:
        headline |= {"with_true": len(ranks), "true_first": sum(rank == 1 for rank in ranks)}
    return headline


def _as_data(answer: Answer, result: SearchResult) -> dict[str, Any]:
    return {
        "query": answer.query,
        "median": answer.median,
        "highest": answer.highest,
        "unknown_words": list(answer.unknown),
        "hits": [_hit(hit, result) for hit in answer.hits],
        "missed": [_hit(hit, result) for hit in answer.missed],
    }


def _hit(hit: Hit, result: SearchResult) -> dict[str, Any]:
    item = hit.item
    where = {"path": place_of(item.uri, result.root)} if item.uri else {}
    text = {"caption": item.text} if item.text else {}
    return {"rank": hit.rank, "score": hit.score, "id": item.id, **where, **text, "true": hit.true}


def search_page(result: SearchResult, thumbnail: Thumbnail, made_with: Provenance) -> str:
    """The page of a search: every sentence or the query picture, with its best answers.

    Args:
        result: Answers and what they were searched among; the page shows the first `MOST` of them.
        thumbnail: Returns the data URI of a picture by its URI, empty if it cannot be shown.
        made_with: How the answers can be reproduced.

    Returns:
        The HTML document.
    """
    query = "a picture" if result.picture else "a sentence" if len(result.answers) == 1 else "sentences"
    candidates = _candidates(result)
    return render(
        "search.html",
        title=f"Search {result.facts['run']}",
        heading=f"{candidates} searched by {query}",
        lead=f"The best {result.what} by similarity, as evaluation ranks them.",
        protocol={"data": result.among, "candidates": candidates}
        | {key: value for key, value in result.facts.items() if key != "checkpoint"},
        answers=result.answers[:MOST],
        left=max(0, len(result.answers) - MOST),
        picture=result.picture,
        noun="caption" if result.picture else "image",
        thumbnail=thumbnail,
        share=_share,
        most_missed=_MISSED,
        most_ranks=_RANKS,
        candidates=candidates,
        rejects=result.rejects,
        provenance=made_with,
    )


def _share(hit: Hit, answer: Answer) -> float:
    """How far a score lies between the median and the highest of all scores, from 0 to 1."""
    span = answer.highest - answer.median
    return max(0.0, hit.score - answer.median) / span if span > 0 else 1.0
