"""Parse every caption of a data set: `python jobs/parse_captions.py --preset univse_flickr8k data.root=...`."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from vse import registry
from vse.cli.command import Request, main
from vse.cluster.placement import gather
from vse.cluster.runtime import Config as RayConfig
from vse.cluster.runtime import cluster_of, set_up_logging
from vse.config import knob
from vse.stages.describe import describe, of_data
from vse.stages.parse import check_parser, language_fingerprint, not_english, parse_captions, parser_of
from vse.workspace.layout import Workspace, dataset_name


@dataclass(frozen=True, kw_only=True, slots=True)
class ParseOptions:
    """Keys of this job."""

    num_workers: int | None = knob(None, "processes or Ray actors; none: by the number of captions and cores", low=1)
    ray: RayConfig = field(default_factory=RayConfig)


def run(request: Request) -> str:
    """Parse what is not parsed yet; print counts."""
    config, options = request.config, request.options
    set_up_logging()
    workspace = Workspace.open(request.workspace).check_writable()
    check_parser(config)
    records = describe(config, workspace)
    gather(options.ray)
    parses = parse_captions(
        records, parser_of(config), workspace, num_workers=options.num_workers, cluster=cluster_of(options.ray)
    )
    parsed = [parses.components(text) for text in parses.texts()]
    folder = workspace.language(dataset_name(records), parses.fingerprint)
    headline = {
        "captions": len(records.captions),
        "distinct_texts": len(parses),
        "objects_per_text": sum(len(c.objects) for c in parsed) / max(len(parsed), 1),
        "attributes_per_text": sum(len(c.attributes) for c in parsed) / max(len(parsed), 1),
        "relations_per_text": sum(len(c.relations) for c in parsed) / max(len(parsed), 1),
        "texts_without_components": sum(not c.objects for c in parsed),
    }
    path = request.write_summary(
        folder,
        fingerprints={"records": records.fingerprint, "language": parses.fingerprint},
        headline=headline,
        outputs={"language": folder.uri},
    )
    for name, value in headline.items():
        print(f"{name:26} {value:10.2f}" if isinstance(value, float) else f"{name:26} {value:10}")
    return path


def plan(request: Request) -> Iterable[str]:
    """Say what would be parsed with what."""
    parser = request.config.text.parser
    check_parser(request.config)
    records = registry.build("source", request.config.data).describe()
    yield from of_data(records)
    yield from filter(None, [not_english(records, parser)])
    yield f"parser {parser.pipeline}, language fingerprint {language_fingerprint(parser)}"


if __name__ == "__main__":
    sys.exit(
        main(
            "parse_captions",
            run,
            description="Parse every caption and keep objects, attributes and relations.",
            default_preset="univse_scenes",
            options=ParseOptions(),
            plan=plan,
        )
    )
