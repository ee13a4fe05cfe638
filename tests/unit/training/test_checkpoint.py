"""Checkpoints of a model and its optimisers, without a run around them."""

import dataclasses
import math

import pytest
import torch

from tests.levels import slow_but
from tests.synthetic import make_family, make_objective, synthetic
from vse import registry
from vse.errors import InputError, StorageError
from vse.storage.folder import Folder
from vse.training.batches import blocks, epoch_batches
from vse.training.checkpoint import Checkpoints, Progress, load_weights, read_progress
from vse.training.config import OptimConfig
from vse.training.step import Stepper


class Setup:
    """A model that has made the first steps of an epoch, and what is needed for more; `done` counts them."""

    def __init__(self, name="univse", seed=0, steps=2, **changes):
        self.data = synthetic(seed=4)
        self.family = make_family(name, self.data.context, seed, **changes)
        self.objective = make_objective(name, **changes)
        self.collate = self.data.collator(self.family, self.objective)
        self.stepper = Stepper(self.family, self.family, self.objective, OptimConfig(lr=0.01), "float64")
        self.done = 0
        self.learn(steps)

    def fit(self):
        self.family.fit(lambda: (self.collate(rows, 0) for rows in blocks(len(self.data), 4)))

    def learn(self, steps, epoch=2):
        """The losses and gradient norms of the next steps, numbered on from those done; seeded as the loop seeds."""
        logged = []
        for batch in epoch_batches(len(self.data), 2, 0, epoch)[self.done : self.done + steps]:
            torch.manual_seed(self.done)
            logged.append(self.stepper.step(self.collate(batch, epoch), epoch, self.done))
            self.done += 1
        return logged

    def save(self, checkpoints, progress):
        return checkpoints.save(progress, self.family, self.stepper.optimizers, self.stepper.scaler.state_dict())

    def restore(self, checkpoints):
        return checkpoints.restore(checkpoints.chosen(), self.family, self.stepper.optimizers, self.stepper.scaler)


PROGRESS = Progress(3, 7, 2, 0.1 + 0.2, [{"train/sent": 1 / 3}, {"a": 5e-324}], {"sent": math.pi}, {"sent": 96}, 12.25)


# Every registered family as it is, and what these leave out: a phase that waits for its turn, learned scalars of an
# objective, statistics of sentence vectors, dropout, a fit in closed form over them.
CASES = {name: {} for name in registry.names("family")} | {
    "jwae every third": {"discriminator_every": 3},
    "jwae_scan every third": {"discriminator_every": 3},
    "jwae_scan released": {"draw": "batch", "discriminator_codes": "unit", "discriminator_layers": 2},
    "jwae sentence": {"text": "sentence"},
    "jwae vae": {"regularizer": "vae"},
    "vsepp infonce": {"objective": "infonce"},
    "vsepp sigmoid": {"objective": "sigmoid"},
    "univse infonce": {"match": "infonce"},
    "univse given words": {"vectors": True},
    "jwae sigmoid": {"match": "sigmoid"},
    "univse dropout": {"dropout": 0.3, "learn_alpha": True},
}


def _equal(one, other):
    """Weights, buffers and moments of the optimisers, bit by bit."""
    assert one.family.state_dict().keys() == other.family.state_dict().keys()
    for key, value in one.family.state_dict().items():
        assert torch.equal(value, other.family.state_dict()[key]), key
    for first, second in zip(one.stepper.optimizers, other.stepper.optimizers, strict=True):
        mine, theirs = first.state_dict()["state"], second.state_dict()["state"]
        assert mine.keys() == theirs.keys()
        for number, state in mine.items():
            assert all(torch.equal(value, theirs[number][key]) for key, value in state.items()), number


@pytest.mark.seconds
@pytest.mark.parametrize(
    "case",
    slow_but(
        CASES, "vsepp", "univse", "scan", "cca", "jwae every third", "jwae sentence", "vsepp infonce", "univse dropout"
    ),
)
def test_everything_comes_back_bit_by_bit(tmp_path, case):
    """A run interrupted after four steps of an epoch goes on with the numbers of one that was not."""
    name, changes = case.split()[0], CASES[case]
    one, other = Setup(name, steps=0, **changes), Setup(name, seed=5, steps=0, **changes)
    one.fit()
    one.learn(4)
    checkpoints = Checkpoints(Folder.open(tmp_path), {"extra.json": {"words": ["ä"]}})
    one.save(checkpoints, Progress(epoch=2, best=2))
    target = one.save(checkpoints, PROGRESS)
    assert target.uri.endswith("epoch-0003-000007")
    assert target.read_json("extra.json") == {"words": ["ä"]}
    assert other.restore(checkpoints) == PROGRESS
    other.done = one.done
    _equal(one, other)
    expected, found = one.learn(4), other.learn(4)  # the moments came along, or the next steps would differ
    assert one.done == other.done == 8
    assert [list(step) for step in found] == [list(step) for step in expected]
    for k, step in enumerate(expected):
        assert all(torch.equal(value, found[k][key]) for key, value in step.items()), k
    _equal(one, other)


def test_the_turn_of_a_phase_comes_back(tmp_path):
    """What the number of the step decides: counted anew, the discriminator learns at other steps."""
    one = Setup("jwae", steps=4, discriminator_every=3)
    checkpoints = Checkpoints(Folder.open(tmp_path))
    one.save(checkpoints, PROGRESS)
    anew = Setup("jwae", steps=0, discriminator_every=3)
    anew.restore(checkpoints)
    turns = [["discriminator" in step for step in setup.learn(4)] for setup in (one, anew)]
    assert turns == [[False, True, False, False], [False, False, True, False]]


def test_another_than_the_chosen_one_is_refused(tmp_path):
    checkpoints, one = Checkpoints(Folder.open(tmp_path)), Setup()
    one.save(checkpoints, Progress(epoch=1))
    found = checkpoints.chosen()
    assert found is not None
    name, weights = found
    for chosen in ((name, "0" * 64), ("epoch-9999", weights)):
        with pytest.raises(
            StorageError, match="worker 0 sees another checkpoint here; use the same folder on every node"
        ):
            checkpoints.restore(chosen, one.family, one.stepper.optimizers, one.stepper.scaler)


def test_nothing_there_is_a_fresh_start(tmp_path):
    checkpoints = Checkpoints(Folder.open(tmp_path / "absent"))
    one = Setup(steps=0)
    before = {key: value.clone() for key, value in one.family.state_dict().items()}
    assert one.restore(checkpoints) == Progress()
    assert (checkpoints.newest(), checkpoints.best()) == (None, None)
    assert all(torch.equal(value, before[key]) for key, value in one.family.state_dict().items())


def test_newest_and_best_are_kept(tmp_path):
    checkpoints, one = Checkpoints(Folder.open(tmp_path)), Setup()
    progress = Progress()
    for epoch, step, best, kept in (
        (0, 4, 0, ["epoch-0000-000004"]),
        (1, 0, 1, ["epoch-0001"]),
        (1, 3, 1, ["epoch-0001", "epoch-0001-000003"]),
        (1, 12, 1, ["epoch-0001", "epoch-0001-000012"]),
        (2, 0, 1, ["epoch-0001", "epoch-0002"]),
        (3, 0, 3, ["epoch-0003"]),
        (4, 0, 3, ["epoch-0003", "epoch-0004"]),
    ):
        progress = dataclasses.replace(progress, epoch=epoch, step=step, best=best)
        target = one.save(checkpoints, progress)
        assert sorted(checkpoints.folder.names()) == kept
        newest, found = checkpoints.newest(), checkpoints.best()
        assert newest == target
        assert (found.uri.rsplit("/", 1)[-1] if found else None) == (f"epoch-{best:04d}" if best else None)


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "progress.json", "manifest.json"])
def test_what_is_damaged_does_not_exist(tmp_path, file):
    checkpoints, one = Checkpoints(Folder.open(tmp_path)), Setup()
    first = one.save(checkpoints, Progress(epoch=1, best=1))
    second = one.save(checkpoints, Progress(epoch=2, best=1))
    path = second.local(file)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert checkpoints.newest() == first
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))  # as long as before, one bit turned
    assert checkpoints.newest() == (first if file != "manifest.json" else checkpoints.newest())
    path.unlink()
    assert checkpoints.newest() == first
    path.write_bytes(whole)
    assert checkpoints.newest() == second


def test_what_was_written_is_not_read_again_for_its_checksum(tmp_path, monkeypatch):
    """On S3 that is the whole checkpoint, each time; the manifest is the same."""
    checkpoints, one = Checkpoints(Folder.open(tmp_path), {"config.json": {"seed": 1, "name": "ä"}}), Setup()
    with monkeypatch.context() as sealed:
        sealed.setattr(Folder, "entry", lambda self, name: pytest.fail(f"{name} is read again"))
        target = one.save(checkpoints, Progress(epoch=1, best=1))
    manifest = target.read_json("manifest.json")
    assert manifest == {"files": {name: target.entry(name) for name in target.names() if name != "manifest.json"}}
    assert list(manifest["files"]) == ["config.json", "model.safetensors", "optimizer.safetensors", "progress.json"]
    assert checkpoints.newest() == target


def test_an_unfinished_checkpoint_does_not_exist(tmp_path, monkeypatch):
    checkpoints, one = Checkpoints(Folder.open(tmp_path)), Setup()
    first = one.save(checkpoints, Progress(epoch=1, best=1))

    def killed(self, files, content=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(Folder, "commit_manifest", killed)
    with pytest.raises(KeyboardInterrupt):
        one.save(checkpoints, Progress(epoch=2, best=2))
    assert checkpoints.newest() == first
    assert read_progress(first).epoch == 1


def test_optimiser_state_of_another_model_is_one_line(tmp_path):
    checkpoints, one, other = Checkpoints(Folder.open(tmp_path)), Setup("univse"), Setup("vsepp")
    target = one.save(checkpoints, Progress(epoch=1, best=1))
    strange = other.save(Checkpoints(Folder.open(tmp_path / "b")), Progress(epoch=1))
    target.write_bytes("optimizer.safetensors", strange.read_bytes("optimizer.safetensors"))
    target.commit_manifest(target.read_json("manifest.json")["files"])
    with pytest.raises(InputError, match=r"optimizer.safetensors: 0/.* is unknown; another model wrote it"):
        one.restore(checkpoints)


def test_only_optional_weights_may_be_unknown_to_the_model(tmp_path):
    learned = Setup("univse", learn_alpha=True)
    target = learned.save(Checkpoints(Folder.open(tmp_path)), Progress(epoch=1))
    plain = make_family("univse", learned.data.context)
    with pytest.raises(InputError, match=r"alpha_logit is unknown; another model wrote it"):
        load_weights(target, plain)
    load_weights(target, plain, optional=("alpha_logit",))
    state = learned.family.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in plain.state_dict().items())


def test_weights_of_another_precision_are_taken(tmp_path):
    one = Setup("vsepp")
    target = one.save(Checkpoints(Folder.open(tmp_path)), Progress(epoch=1))
    single = make_family("vsepp", one.data.context, seed=9, double=False)
    load_weights(target, single)
    for key, value in one.family.state_dict().items():
        assert torch.equal(single.state_dict()[key], value.to(single.state_dict()[key].dtype))
