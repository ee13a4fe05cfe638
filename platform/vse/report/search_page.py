"""The page of a search: a grid of pictures for every sentence, or a list of captions beside the picture."""

import html
from collections.abc import Callable

from vse.inference.image_search import Answer, Hit, SearchResult
from vse.report.html import Provenance, details, header, page, provenance_parts

MOST = 100  # sentences on one page: a thousand would make it a hundred megabytes
_MISSED = 3  # images that are true and stand further down
_RANKS = 8  # that are told
_BLANK = '<span class="blank">no picture to show</span>'

Thumbnail = Callable[[str], str]


def search_page(found: SearchResult, thumbnail: Thumbnail, provenance: Provenance) -> str:
    """The whole document. thumbnail: the data URI of a picture, by its URI; empty where it cannot be shown."""
    asked = "a picture" if found.picture else "a sentence" if len(found.answers) == 1 else "sentences"
    facts = [f"α = {value}" if key == "α" else value for key, value in found.facts.items() if key != "checkpoint"]
    body = [header(f"{found.number:,} {found.what} searched by {asked}", " · ".join([found.among, *facts]))]
    for answer in found.answers[:MOST]:
        body.append(_captions(answer, found.picture, thumbnail) if found.picture else _images(answer, thumbnail))
    if len(found.answers) > MOST:
        left = f"The other {len(found.answers) - MOST:,} sentences are answered in summary.json."
        body.append(f'<p class="lead">{left}</p>')
    body.append(
        '<p class="lead">Scores are the similarities that evaluation ranks by. A bar is empty at the median score of '
        f"all {found.number:,} {found.what} and full at the highest.</p>"
    )
    if found.rejects:
        body += ["<h2>Left out</h2>", details(f"{len(found.rejects):,} unreadable", found.rejects)]
    body += ["<h2>Made again</h2>", f"<pre>{html.escape(chr(10).join(provenance.commands))}</pre>"]
    body += ["<h2>Made with</h2>", provenance_parts(provenance)]
    return page(f"Search {found.facts['run']}", body)


def _images(answer: Answer, thumbnail: Thumbnail) -> str:
    """A sentence with the images it finds."""
    tiles = "\n".join(_tile(hit, answer, thumbnail) for hit in (*answer.hits, *answer.missed[:_MISSED]))
    return (
        f'<section class="search"><h2>“{html.escape(answer.query)}”{_pills(answer, "image")}</h2>\n'
        f'<ol class="tiles">\n{tiles}\n</ol></section>'
    )


def _pills(answer: Answer, what: str) -> str:
    """What stands beside a query: ranks of what is true, and words that say nothing."""
    ranks, pills = [f"{rank:,}" for rank in answer.true_ranks], ""
    if ranks:
        named = (
            f"true {what}: rank {ranks[0]}" if len(ranks) == 1 else f"true {what}s: ranks {', '.join(ranks[:_RANKS])}"
        )
        pills += f'<span class="pill true">{named}{", …" * (len(ranks) > _RANKS)}</span>'
    if answer.unknown:
        pills += f'<span class="pill">not in the vocabulary: {html.escape(", ".join(answer.unknown))}</span>'
    return pills


def _tile(hit: Hit, answer: Answer, thumbnail: Thumbnail) -> str:
    item, source = hit.item, thumbnail(hit.item.uri)
    shown = f'<img alt="{html.escape(item.text or item.id, quote=True)}" src="{source}">' if source else _BLANK
    words = f'<span class="words">{html.escape(item.text)}</span>' if item.text else ""
    name, title = html.escape(item.id), html.escape(item.uri, quote=True)
    return (
        f'<li class="tile{_marks(hit, answer)}" title="{title}"><div class="shot">{shown}</div>'
        f'<div class="told">{_score(hit, answer)}{words}<span class="name">{name}</span></div></li>'
    )


def _captions(answer: Answer, picture: str, thumbnail: Thumbnail) -> str:
    """A picture with the captions it finds."""
    source = thumbnail(picture)
    shown = f'<img alt="{html.escape(answer.query, quote=True)}" src="{source}">' if source else _BLANK
    rows = "\n".join(
        f'<li class="line{_marks(hit, answer)}">{_score(hit, answer)}<span class="words">{html.escape(hit.item.text)}'
        f'</span><span class="name">{html.escape(hit.item.id)}</span></li>'
        for hit in (*answer.hits, *answer.missed)
    )
    return (
        f'<section class="search"><h2>{html.escape(answer.query)}{_pills(answer, "caption")}</h2>\n'
        f'<div class="beside"><div class="shot">{shown}</div>\n<ol class="lines">\n{rows}\n</ol></div></section>'
    )


def _marks(hit: Hit, answer: Answer) -> str:
    return " true" * hit.true + " missed" * (hit.rank > len(answer.hits))


def _score(hit: Hit, answer: Answer) -> str:
    span = answer.highest - answer.median
    share = 100 * max(0.0, hit.score - answer.median) / span if span > 0 else 100.0
    return (
        f'<span class="score"><span class="rank">{hit.rank:,}</span><b>{hit.score:.3f}</b>'
        f'<span class="bar"><span style="width: {share:.1f}%"></span></span></span>'
    )
