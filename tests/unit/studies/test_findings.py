"""The findings of a miniature study: whole, plain, and the same in another workspace."""

import json
from pathlib import Path

import pytest

from tests.unit.studies.miniature import ALPHAS, SPLITS, STUDY, chosen_of, run_here
from vse.presets import preset
from vse.studies.claims import registered_hash
from vse.studies.findings import PLAIN, findings, row_metrics
from vse.studies.planner import Planner
from vse.studies.trainings import ARCHIVE, Training, TrainingArchive
from vse.studies.univse_claims import UNIVSE_CLAIMS
from vse.training.code import name_of, this_code
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.slow  # nine trainings


def test_an_archive_serves_another_workspace(planner: Planner, done: dict[str, list[Training]], tmp_path: Path) -> None:
    other = Workspace.open(str(tmp_path)).root.child("evidence", "miniature")
    other.write_bytes(ARCHIVE, planner.archive.folder.read_bytes(ARCHIVE))
    elsewhere = Planner(STUDY, TrainingArchive(other), planner.given, planner.seeds)
    arms = elsewhere.arms(chosen_of(elsewhere))
    assert arms == done
    assert run_here(elsewhere, elsewhere.in_order(arms)) == (True, [])
    assert findings(elsewhere, arms, "") == findings(planner, done, "")


def test_findings_are_complete_plain_data(planner: Planner, done: dict[str, list[Training]]) -> None:
    found = findings(planner, done, "python jobs/evidence.py")
    assert json.dumps(found, allow_nan=False)  # as the file is written
    assert found["study"] == "miniature"
    assert found["claims_hash"] == registered_hash(UNIVSE_CLAIMS)
    assert found["seeds"] == 2
    assert found["code"] == [name_of(this_code(preset("vsepp_tiny")))]
    assert found["search"].keys() == {"vsepp", "univse"}
    assert found["alpha"].keys() == {"univse"}
    assert found["alpha"]["univse"] in ALPHAS
    for words in ("shared", "disjoint"):
        assert found["claims"][words].keys() == {claim.name for claim in UNIVSE_CLAIMS}
        for verdict in found["claims"][words].values():
            assert verdict["statement"]
            assert verdict["answer"] in ("holds", "does not hold", "undecided")
            assert 0 < verdict["p_holds"] <= 1  # rounded to what counts, never to nothing
            assert 0 < verdict["p_fails"] <= 1
        rows = found["table"][words]
        expected = {
            (name, split, alpha)
            for name, arm in STUDY.arms.items()
            for split in (*SPLITS, "drawing", "wording")
            for alpha in arm.alphas or (None,)
        }
        assert {(row["arm"], row["split"], row["alpha"]) for row in rows} == expected
        assert len(rows) == len(expected)
        for row in rows:
            assert row["seconds"][0] > 0
            assert ("attack_object/r1" in row) == (row["split"] in SPLITS)
            for metric in row_metrics() if row["split"] in SPLITS else PLAIN:
                mean, low, high = row[metric]
                assert low <= mean + 1e-3
                assert mean <= high + 1e-3


def test_no_verdict_from_two_seeds_claims_too_much(planner: Planner, done: dict[str, list[Training]]) -> None:
    verdicts = findings(planner, done, "")["claims"]["shared"]
    assert {v["answer"] for v in verdicts.values()} == {"undecided"}  # headline claims ask for ten seeds
