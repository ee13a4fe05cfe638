"""Sweeps that are planned on files which are not there are refused, as they would be when they run."""

from pathlib import Path

import pytest

from tests.jobs.processes import run_many

pytestmark = pytest.mark.process

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


@pytest.mark.slow
def test_a_plan_that_the_machine_cannot_hold_says_what_it_has(tmp_path: Path) -> None:
    asked = ("sweep_margin", "--workspace", str(tmp_path), "--preset", SWEEPS["sweep_margin"], "--dry-run")
    ((status, _, error),) = run_many([[*asked, "train.threads=64", "ray.cpus=3"]], tmp_path)
    assert (status, error) == (
        2,
        "sweep_margin: a trial needs 64 CPUs and 0 GPUs of one node, but the cluster has 3 and 0 in total; lower "
        "train.workers, train.threads or train.gpus_per_worker\n",
    )


@pytest.mark.slow
def test_any_space_may_be_swept_by_any_of_the_three_jobs_and_their_help_says_so(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text('SPACE = {"optim.lr": {"grid_search": [1e-3, 2e-3]}}\n')
    jobs = ("sweep_eta", "sweep_margin", "sweep_lambda")
    asked = ("--workspace", str(tmp_path / "workspace"), "--preset", "vsepp_tiny", "sweep.space=mine.py", "--dry-run")
    found = run_many([line for job in jobs for line in ([job, *asked], [job, "--help"])], tmp_path)
    for (status, plan, error), (_, text, _) in zip(found[::2], found[1::2], strict=True):
        assert status == 0, error
        assert "optim.lr" in plan
        assert "on any preset that has its keys" in " ".join(text.split())
