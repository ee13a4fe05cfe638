"""The artefact test as a user runs it: a table, its numbers in the summary; wrong input is one line and status 2."""

import json

import pytest

from tests.jobs.processes import run_many

pytestmark = pytest.mark.process

TINY = ("--preset", "univse_tiny", "data.num_train=20", "data.num_val=2", "data.num_test=2", "data.num_shifted=2")


@pytest.mark.slow
def test_a_file_of_pairs_and_what_is_refused(tmp_path):
    pairs = tmp_path / "pairs.jsonl"
    swapped = ("an red cup", "two red cup")
    rows = [
        {"image": f"i{k}", "caption": "a red cup", "adversary": swapped[k % 2], "paradigm": "numeral"}
        for k in range(12)
    ]
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    workspace = ("--workspace", str(tmp_path / "w"), *TINY)
    done, training, absent, torn = run_many(
        [
            ["measure_artefacts", *workspace, f"pairs={pairs}", "folds=3"],
            ["measure_artefacts", *workspace, "splits=train"],
            ["measure_artefacts", *workspace, f"pairs={tmp_path}/absent"],
            ["measure_artefacts", *workspace, f"pairs={pairs}", f"outside={tmp_path}/absent"],
        ],
        tmp_path,
    )
    status, out, error = done
    assert status == 0, error
    head, *lines, path = out.splitlines()
    assert head.split()[0] == "paradigm"
    assert [line.split()[0] for line in lines] == ["numeral"] * len(lines)
    with open(path, encoding="utf-8") as file:
        summary = json.load(file)
    assert summary["details"]["artefacts/numeral/none/pairs"] == 12
    assert summary["headline"]["paradigms"] == 1
    assert "red cup" not in json.dumps(summary)  # numbers only: captions may not be passed on
    for (status, _, error), message in ((training, "use other splits"), (absent, "no such file"), (torn, "outside=")):
        assert status == 2
        assert message in error.splitlines()[-1]
