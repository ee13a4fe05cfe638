"""Write both encoders of a run as ONNX networks: `python jobs/export_onnx.py run=RUN towers=features,pixels,text`."""

import sys
from dataclasses import dataclass, field

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.inference.onnx_export import OnnxOptions, check_onnx, export_onnx
from vse.report.model_card import CardOptions, write_card
from vse.workspace.layout import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportOnnxOptions(OnnxOptions):
    """Keys of this job."""

    card: CardOptions = field(default_factory=CardOptions)


def run(request: Request) -> str:
    """Export, compare with onnxruntime, print the largest difference of each network."""
    set_up_logging()
    workspace, options = Workspace.open(request.workspace).check_writable(), request.options
    exported = export_onnx(workspace, options)
    write_card(exported.folder, workspace.run(options.run), options.card, options.alpha)
    path = request.write_summary(
        exported.folder,
        fingerprints=exported.fingerprints,
        headline={f"{name}/difference": value for name, value in exported.differences.items()},
        outputs={f"{name}": exported.folder.address(f"{name}.onnx") for name in exported.differences},
    )
    for name, value in exported.differences.items():
        print(f"{name}.onnx: differs from torch by {value:.1e} at most")
    return path


if __name__ == "__main__":
    sys.exit(
        main(
            "export_onnx",
            run,
            description="Write the encoders of images and captions of a run as ONNX networks, checked in onnxruntime.",
            options=ExportOnnxOptions(),
            check=lambda request: request.options.card.check(),
            plan=lambda request: check_onnx(Workspace.open(request.workspace), request.options),
        )
    )
