"""The page of a search: a grid of pictures for every sentence, or a list of captions next to the picture."""

from collections.abc import Callable

from vse.inference.image_search import Answer, Hit, SearchResult
from vse.report.page import Provenance, render

MOST = 100  # sentences on one page: a thousand would make it a hundred megabytes
_MISSED = 3  # images that are true and rank below the hits
_RANKS = 8  # of true items, in the heading

Thumbnail = Callable[[str], str]


def search_page(result: SearchResult, thumbnail: Thumbnail, made_with: Provenance) -> str:
    """The whole document. thumbnail: the data URI of a picture, by its URI; empty if it cannot be shown."""
    query = "a picture" if result.picture else "a sentence" if len(result.answers) == 1 else "sentences"
    candidates = f"{result.number:,} {result.what}"
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
