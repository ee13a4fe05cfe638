"""Sweeps that are planned on files which are not there are refused, as they would be when they run."""

import pytest

from tests.jobs.processes import run_many

SWEEPS = {
    "sweep_alpha": "univse_tiny",
    "sweep_eta": "univse_tiny",
    "sweep_margin": "relational_attention_scenes",
    "sweep_lambda": "jwae_mse_scenes",
}
LACKING = ("--dry-run", "text.word_vectors=no.vec")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int | None, str, str]]:
    folder = tmp_path_factory.mktemp("planned")
    at = ("--workspace", str(folder / "workspace"))
    found = run_many([[job, *at, "--preset", name, *LACKING] for job, name in SWEEPS.items()], folder)
    assert not (folder / "workspace").exists()
    return dict(zip(SWEEPS, found, strict=True))


@pytest.mark.parametrize("job", SWEEPS)
def test_a_plan_without_its_files_is_refused(planned: dict[str, tuple[int | None, str, str]], job: str) -> None:
    assert planned[job] == (2, "", f"{job}: no.vec: no such file of word vectors\n")
