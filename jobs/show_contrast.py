"""A page of captions with their contrastive captions: `python jobs/show_contrast.py captions=FILE`."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from vse.adversaries.vsec.words import KINDS
from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.config import knob
from vse.errors import InputError
from vse.stages.parse import parser_of
from vse.stages.pipeline import check
from vse.storage.files import local_path
from vse.studies.contrast_page import page_of, read_images
from vse.workspace.layout import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class ContrastPageOptions:
    """Keys of this job."""

    captions: tuple[str, ...] = knob(
        (), "files of captions: text, a table with a column caption, or SugarCrepe's", reads="file"
    )
    out: str = knob("", "file to write; empty: contrast/page.txt in the workspace", writes="file")
    number: int = knob(40, "captions on the page", low=1)
    samples: int = knob(3, "adversaries of each paradigm and caption", low=1)
    words: str = knob("all", "kind of words put in", choices=KINDS)


def run(request: Request) -> str:
    """Parse the captions and write the page, with the parser, rules and seed of the configuration."""
    options, config = request.options, request.config
    set_up_logging()
    check(config, contrast=True)
    images = _read(options)
    rules, parser = config.text.contrast, parser_of(config)
    page = page_of(images, rules, parser, options.words, options.number, options.samples, config.seed)
    folder = Workspace.open(request.workspace).check_writable().root.child("contrast")
    path = local_path(options.out) if options.out else folder.local("page.txt")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page.text, encoding="utf-8")
    summary = request.write_summary(
        folder,
        headline=page.headline,
        outputs={"page": path},
    )
    for name, value in page.headline.items():
        print(f"{name:36} {value:10.3f}")
    return summary


def _read(options: ContrastPageOptions) -> list[tuple[str, ...]]:
    """The captions of each image. Raises InputError if no file is named or one cannot be read."""
    if not options.captions:
        raise InputError("captions: name at least one file")
    return [image for path in options.captions for image in read_images(path)]


def plan(request: Request) -> Iterable[str]:
    """Read the captions and say how many there are."""
    check(request.config, contrast=True)
    images = _read(request.options)
    yield f"captions: {sum(map(len, images))} of {len(images)} images in {', '.join(request.options.captions)}"


if __name__ == "__main__":
    sys.exit(
        main(
            "show_contrast",
            run,
            description="Show captions with their noun, numeral and relation adversaries.",
            default_preset="vsec_scenes",
            options=ContrastPageOptions(),
            plan=plan,
        )
    )
