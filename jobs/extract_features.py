"""Extract image features: `python jobs/extract_features.py --preset univse_flickr8k data.root=...`."""

import functools
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from vse import registry
from vse.cli.command import Request, main
from vse.cluster.placement import gather
from vse.cluster.runtime import Config as RayConfig
from vse.cluster.runtime import running_ray, set_threads, set_up_logging
from vse.config import knob
from vse.data.records import Records
from vse.display.escaping import one_line
from vse.stages.describe import describe, of_data
from vse.stages.extract import ExtractionConfig, check_features, extract, extracted, features_fingerprint, kept_features
from vse.stages.local_inputs import check_reach, image_lines
from vse.training.config import family_inputs
from vse.workspace.layout import Workspace, dataset_name


@dataclass(frozen=True, kw_only=True, slots=True)
class ExtractOptions:
    """Keys of this job."""

    outputs: tuple[str, ...] = knob((), "named outputs in one pass, map,pooled,fc1; none: what the family reads")
    extraction: ExtractionConfig = field(default_factory=ExtractionConfig)
    ray: RayConfig = field(default_factory=RayConfig)


def run(request: Request) -> str:
    """Extract what is not extracted yet; print counts and rates."""
    config, options = request.config, request.options
    set_up_logging()
    set_threads(options.ray.threads)
    workspace = Workspace.open(request.workspace).check_writable()
    if options.extraction.workers != 0:
        list(check_reach(config, request.workspace, options.ray, _outputs(request), captions=False))
    described, source = describe(config, workspace), registry.build("source", config.data)
    _check(request, described)
    records, outputs = extracted(config, described, _outputs(request))
    root = source.image_root
    fingerprint = features_fingerprint(records, config.features.backbone, outputs, root, config.features.precision)
    folder = workspace.features(dataset_name(records), fingerprint)
    if options.extraction.workers != 0:
        gather(options.ray)
    before = time.perf_counter()
    store = extract(
        records,
        config.features.backbone,
        outputs,
        folder,
        root=root,
        keys=source.image_keys,
        options=options.extraction,
        precision=config.features.precision,
        cluster=functools.partial(running_ray, options.ray),
    )
    seconds = time.perf_counter() - before
    headline: dict[str, Any] = {
        "images": len(store.ids),
        "rejected": len(store.rejects),
        "bytes": sum(entry["bytes"] for entry in store.manifest["files"].values()),
        "images_per_second": len(store.ids) / seconds,
    }
    path = request.write_summary(
        folder,
        fingerprints={"records": records.fingerprint, "features": store.fingerprint},
        headline=headline,
        outputs={"features": folder.uri},
    )
    for name in store.outputs:
        print(f"{name:18} {' x '.join(map(str, store.shape(name)))}")
    for name, value in headline.items():
        print(f"{name:18} {value:.1f}" if isinstance(value, float) else f"{name:18} {value}")
    for image, reason in list(store.rejects.items())[:10]:
        print(one_line(f"rejected {image}: {reason}"), file=sys.stderr)
    return path


def _outputs(request: Request) -> tuple[str, ...]:
    return request.options.outputs or (family_inputs(request.config).image,)


def _check(request: Request, records: Records) -> None:
    """Check features that are not extracted yet, before the first image is read."""
    workspace, outputs = Workspace.open(request.workspace), _outputs(request)
    if kept_features(request.config, workspace, records, outputs) is None:
        check_features(request.config, records, outputs, workspace)


def plan(request: Request) -> Iterable[str]:
    """Check source and backbone and say what would be extracted with what."""
    backbone = registry.build("backbone", request.config.features.backbone)
    outputs = _outputs(request)
    source = registry.build("source", request.config.data)
    records = source.describe()
    workspace, limit = Workspace.open(request.workspace), request.options.extraction.max_rejected
    images = [*image_lines(request.config, workspace, records, outputs, limit)]
    yield from of_data(records)
    yield from images
    yield f"images below {source.image_root or '(rendered)'}"
    yield f"backbone {backbone.identity()} in {request.config.features.precision}"
    yield f"outputs {', '.join(outputs)}"
    if request.options.extraction.workers != 0:
        yield from check_reach(request.config, request.workspace, request.options.ray, outputs, captions=False)


if __name__ == "__main__":
    sys.exit(
        main(
            "extract_features",
            run,
            description="Extract the features of every image by a frozen backbone, in resumable shards.",
            default_preset="univse_scenes",
            options=ExtractOptions(),
            plan=plan,
        )
    )
