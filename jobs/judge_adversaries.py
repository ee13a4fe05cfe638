"""Adversaries for people to judge: `python jobs/judge_adversaries.py --preset univse_flickr8k data.root=DIR`."""

import io
import sys

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.errors import InputError
from vse.storage.user_files import read
from vse.studies.adversary_samples import SampleOptions, drawn, judged_by_source, listing, sheets
from vse.studies.adversary_verdicts import from_json_lines, table, tally, to_json_lines
from vse.workspace.layout import Workspace


def run(request: Request) -> str:
    """Count verdicts, judge all adversaries if the truth is known, or draw a sample with sheets and blank verdicts."""
    options = request.options
    set_up_logging()
    workspace = Workspace.open(request.workspace).check_writable()
    folder = workspace.root.child("judging", options.sample)
    headline: dict[str, float] = {}
    outputs: dict[str, str] = {}
    lines: list[str] = []
    if options.verdicts:
        try:
            text = read(options.verdicts).decode()
        except UnicodeDecodeError as error:
            raise InputError(f"verdicts={options.verdicts}: is not UTF-8 text (byte {error.start})") from None
        rows = tally(from_json_lines(text, options.verdicts))
        lines = table(rows)
        headline = {f"{row.sample}/{row.paradigm}".replace(" ", "_"): row.good.value for row in rows}
    elif (judged := judged_by_source(request.config, workspace, options)) is not None:
        lines = [f"{'paradigm':<20}{'n':>7}  {'false':<22}{'true':<22}not understood"]
        for row in judged:
            shares = (row.false.text(), row.true.text(), row.unread.text())
            lines.append(f"{row.kind:<20}{row.false.total:>7}  {shares[0]:<22}{shares[1]:<22}{shares[2]}")
        headline = {row.kind.replace(" ", "_"): row.false.value for row in judged}
    else:
        images, candidates = drawn(request.config, workspace, options)
        folder.write_text("listing.txt", listing(images, candidates))
        folder.write_text("verdicts.jsonl", to_json_lines(one.verdict(options.sample) for one in candidates))
        for number, sheet in enumerate(sheets(request.config, images, options.per_sheet)):
            picture = io.BytesIO()
            sheet.save(picture, "PNG")
            folder.write_bytes(f"sheet-{number}.png", picture.getvalue())
        outputs = {"listing": folder.address("listing.txt"), "verdicts": folder.address("verdicts.jsonl")}
        outputs["sheets"] = folder.uri
        headline = {"images": len(images), "adversaries": len(candidates)}
    summary = request.write_summary(
        folder,
        headline=headline,
        outputs=outputs,
    )
    if lines:
        print("\n".join(lines))
    return summary


if __name__ == "__main__":
    sys.exit(
        main(
            "judge_adversaries",
            run,
            description="Write adversaries for people to judge, and count the grammatical and false ones.",
            default_preset="univse_scenes",
            options=SampleOptions(),
        )
    )
