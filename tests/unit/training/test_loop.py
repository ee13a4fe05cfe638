"""The loop by itself: what it logs, when it saves, what it says of a collapsed run."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.levels import slow_but
from tests.synthetic import make_family, make_objective, synthetic
from vse.config import override
from vse.objectives.ranking import Ranking
from vse.presets import preset
from vse.storage.folder import Folder
from vse.training.batches import Collator, Transfer, Unpaired, epoch_batches, known_images
from vse.training.checkpoint import Checkpoints
from vse.training.loop import ASK_EVERY, Hooks, Loop, PendingNumbers
from vse.training.step import Stepper, learning_rate


class Run:
    """A loop over random examples; `told` and `notes` keep what it says."""

    def __init__(self, tmp_path, name="vsepp", scores=None, hinge="hardest", **changes):
        self.data = synthetic(seed=2, images=11)
        start = {"train.batch_size": 8, "train.epochs": 3, "optim.lr": 1e-3, "train.precision": "float64"}
        self.config = override(preset("vsepp_tiny"), start | {k.replace("__", "."): v for k, v in changes.items()})
        self.family = make_family(name, self.data.context)
        self.objective = make_objective(name, hinge=hinge)
        self.collate = self.data.collator(self.family, self.objective, self.config.seed)
        self.checkpoints = Checkpoints(Folder.open(tmp_path))
        self.told, self.notes, self.modes = [], [], []
        self.scores = iter(scores or range(100))

    def loop(self):
        hooks = Hooks(self.validate, lambda epoch, numbers: self.told.append((epoch, numbers)), self.notes.append)
        return Loop(self.config, self.family, self.objective, self.collate, self.checkpoints, hooks)

    def validate(self, family):
        self.modes.append(family.training)
        return {"val/rsum": float(next(self.scores))}


@pytest.mark.seconds
def test_numbers_of_an_epoch_are_means_over_captions_and_steps(tmp_path):
    run = Run(tmp_path, "univse", train__epochs=1)
    reference = make_family("univse", run.data.context)
    stepper = Stepper(reference, reference, run.objective, run.config.optim, "float64")
    totals: dict[str, float] = {}
    batches = epoch_batches(len(run.data), 8, run.config.seed, 0)
    for k, batch in enumerate(batches):
        stepper.set_rate(learning_rate(run.config.optim, k / len(batches), 1))
        for name, value in stepper.step(run.collate(batch, 0), 0).items():
            totals[name] = totals.get(name, 0.0) + float(value)
    run.loop().run()
    (epoch, numbers), *_ = run.told
    assert epoch == 1
    for name, total in totals.items():
        share = len(batches) if name == "gradient" else len(run.data)
        assert numbers[f"train/{name}"] == pytest.approx(total / share, rel=1e-12), name
    assert numbers["train/rate"] == run.config.optim.lr
    assert numbers["train/collapse"] == pytest.approx(numbers["train/sent"] / 0.4)
    for mine, other in zip(run.family.parameters(), reference.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_a_loss_is_a_mean_over_the_captions_that_entered_it(tmp_path):
    """A discriminator that is trained at every third step; captions whose image is not known in a matching loss."""
    run = Run(tmp_path, "jwae", train__epochs=1, train__batch_size=4)
    run.family = make_family("jwae", run.data.context, discriminator_every=3)
    known = known_images(run.data.examples.num_images, 0.5, 0)[run.data.examples.image]
    run.collate.extras = (Unpaired(run.data.examples, known, 0), *run.collate.extras)
    loop, sums, counts = run.loop(), {}, {}
    step = loop.stepper.step

    def watched(batch, epoch, number=0):
        found = step(batch, epoch, number)
        assert ("discriminator" in found) == (number % 3 == 2)
        for name, value in found.items():
            sums[name] = sums.get(name, 0.0) + float(value)
            entered = int(batch["paired"].sum()) if name == "sent" else len(batch["sample"])
            counts[name] = counts.get(name, 0) + (1 if name == "gradient" else entered)
        return found

    loop.stepper.step = watched
    loop.run()
    ((_, numbers),) = run.told
    assert counts["discriminator"] < counts["image"] == len(run.data)
    assert 0 < counts["sent"] == known.sum() < len(run.data)
    for name, total in sums.items():
        assert numbers[f"train/{name}"] == pytest.approx(total / counts[name], rel=1e-12), name
    assert numbers["train/collapse"] == pytest.approx(numbers["train/sent"] / 0.4)


def test_steps_tell_their_captions_and_times(tmp_path):
    run, steps = Run(tmp_path, train__epochs=2), []
    loop = run.loop()
    loop.hooks = replace(loop.hooks, stepped=lambda *numbers: steps.append(numbers))
    loop.run()
    sizes = [len(batch) for epoch in range(2) for batch in epoch_batches(len(run.data), 8, run.config.seed, epoch)]
    assert [captions for captions, _, _ in steps] == sizes
    assert all(0 <= waited <= seconds for _, seconds, waited in steps)
    assert sum(waited for *_, waited in steps) == pytest.approx(loop.waited)


def test_every_caption_is_seen_once_an_epoch_and_the_order_changes(tmp_path, monkeypatch):
    run, seen = Run(tmp_path), []
    collate = Collator.__call__

    def watching(self, captions, epoch):
        seen.append((epoch, captions))
        return collate(self, captions, epoch)

    monkeypatch.setattr(Collator, "__call__", watching)
    run.loop().run()
    orders = [np.concatenate([rows for epoch, rows in seen if epoch == e]) for e in range(3)]
    for order in orders:
        assert sorted(order) == list(range(len(run.data)))
    assert not np.array_equal(orders[0], orders[1])


def test_training_and_evaluation_modes(tmp_path):
    run = Run(tmp_path)
    seen, loop = [], run.loop()
    step = loop.stepper.step
    loop.stepper.step = lambda batch, epoch, number=0: (seen.append(run.family.training), step(batch, epoch, number))[1]
    loop.run()
    assert all(seen)
    assert run.modes == [False] * 3


def test_the_rate_follows_the_schedule_within_an_epoch(tmp_path):
    run, rates = Run(tmp_path, optim__schedule="cosine", train__epochs=2), []
    loop = run.loop()
    set_rate = loop.stepper.set_rate
    loop.stepper.set_rate = lambda rate: (rates.append(rate), set_rate(rate))[1]
    loop.run()
    num = len(epoch_batches(len(run.data), 8, 0, 0))
    whens = [epoch + k / num for epoch in range(2) for k in range(num)]
    assert rates == pytest.approx([learning_rate(run.config.optim, when, 2) for when in whens])
    assert (np.diff(rates) < 0).all()


@pytest.mark.parametrize("hinge", ["hardest", "sum"])
def test_a_collapsed_run_says_so(tmp_path, hinge):
    run = Run(tmp_path, hinge=hinge, optim__lr=1e-12, train__epochs=1)
    with torch.no_grad():  # every code the same: no gradient leads away from it with hardest negatives
        for parameter in run.family.parameters():
            parameter.zero_()
        for name, parameter in run.family.named_parameters():
            if name.endswith(("bias", "bias_ih", "bias_ih_l0")):
                parameter.fill_(1.0)
    run.loop().run()
    if hinge == "hardest":
        assert run.told[0][1]["train/collapse"] == pytest.approx(1.0, abs=0.02)
        assert len(run.notes) == 1
        assert run.notes[0].startswith("epoch 1: the loss is that of codes that are all alike (train/collapse 1.0")
    else:
        assert run.notes == []
        assert "train/collapse" not in run.told[0][1]


@pytest.mark.parametrize(("hinge", "warmup", "told"), [("hardest", 0, [2]), ("hardest", 2, [3]), ("sum", 0, [])])
def test_one_note_comes_with_the_first_epoch_at_the_level_of_its_own_phase(tmp_path, hinge, warmup, told):
    run = Run(tmp_path, train__epochs=5)
    run.objective = Ranking(Ranking.Config(hinge=hinge, warmup=warmup))
    shares = iter(given := [1.2, 0.981, 1.003, 0.979, 0.1])
    step = Stepper.step
    loop = run.loop()
    current = {}

    def set_share(batch, epoch, number=0):
        if epoch not in current:
            current[epoch] = next(shares)
        numbers = step(loop.stepper, batch, epoch)
        return {name: torch.tensor(current[epoch] * 0.4 * len(batch["sample"])) for name in numbers}

    loop.stepper.step = set_share
    loop.run()
    found = [numbers.get("train/collapse") for _, numbers in run.told]
    assert [share for share in found if share is not None] == pytest.approx(given[warmup:] if hinge != "sum" else [])
    assert [note.split(":")[0] for note in run.notes] == [f"epoch {epoch}" for epoch in told]


def test_without_a_margin_there_is_no_level(tmp_path):
    run = Run(tmp_path, train__epochs=1)
    run.objective = Ranking(Ranking.Config(margin=0.0))
    run.loop().run()
    assert "train/collapse" not in run.told[0][1]


def test_checkpoints_within_an_epoch_come_by_the_clock(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("vse.training.loop.time.monotonic", lambda: clock[0])
    run, saved = Run(tmp_path, train__epochs=1, train__batch_size=2, train__checkpoint_seconds=25), []
    save = run.checkpoints.save

    def watched(progress, model, optimizers, scaler, tuner=None):
        saved.append(progress.step)
        return save(progress, model, optimizers, scaler, tuner)

    run.checkpoints.save = watched
    loop = run.loop()
    step = loop.stepper.step

    def slow(batch, epoch, number=0):
        clock[0] += 10.0
        return step(batch, epoch)

    loop.stepper.step = slow
    loop.run()
    num = len(epoch_batches(len(run.data), 2, 0, 0))
    assert saved == [*(k for k in range(3, num, 3)), 0]
    assert run.told[0][1]["train/seconds"] == 10.0 * num


def test_workers_save_when_rank_0_says_so(tmp_path, monkeypatch):
    asked = []
    for rank_0, mine in ((1, False), (0, True)):
        loop = Run(tmp_path).loop()
        loop.workers = 2
        monkeypatch.setattr(
            "vse.training.loop.dist.broadcast",
            lambda told, source, says=rank_0: (asked.append((source, int(told))), told.fill_(says)),
        )
        agreed = [loop._agreed(mine, done) for done in range(1, 2 * ASK_EVERY + 1)]
        assert agreed == [bool(rank_0) and done % ASK_EVERY == 0 for done in range(1, 2 * ASK_EVERY + 1)]
    assert asked == [(0, 0)] * 2 + [(0, 1)] * 2


@pytest.mark.seconds
def test_seconds_add_up_over_interruptions(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("vse.training.loop.time.monotonic", lambda: clock[0])
    run = Run(tmp_path, train__batch_size=2, train__checkpoint_seconds=5, train__epochs=2)
    num = len(epoch_batches(len(run.data), 2, 0, 0))

    def slowed(loop, limit):
        step, calls = loop.stepper.step, [0]

        def slow(batch, epoch, number=0):
            calls[0] += 1
            if calls[0] > limit:
                raise KeyboardInterrupt
            clock[0] += 10.0
            return step(batch, epoch)

        loop.stepper.step = slow
        return loop

    with pytest.raises(KeyboardInterrupt):
        slowed(run.loop(), num + 2).run()
    clock[0] += 1e6  # nobody trained
    run.scores = iter([5, 6])
    progress = slowed(run.loop(), 1000).run()
    assert progress.seconds == 10.0 * 2 * num
    assert [numbers["train/seconds"] for _, numbers in run.told] == [10.0 * num] * 2


def test_what_a_run_has_taken_counts_its_writing_and_the_workers_that_it_had(tmp_path, monkeypatch):
    """By hand: 7 s of writing an epoch; 10 s a step on one thread, then with as much of a GPU on two."""
    clock = [0.0]
    monkeypatch.setattr("vse.training.loop.time.monotonic", lambda: clock[0])

    def trained(**changes):
        run = Run(tmp_path, train__batch_size=64, train__patience=0, **changes)
        save, loop = run.checkpoints.save, run.loop()
        step = loop.stepper.step

        def written(*arguments):
            clock[0] += 7.0
            return save(*arguments)

        def slow(batch, epoch, number=0):
            clock[0] += 10.0
            return step(batch, epoch, number)

        monkeypatch.setattr(run.checkpoints, "save", written)
        loop.stepper.step = slow
        return loop.run().history

    trained(train__epochs=2)
    first, second, third = trained(train__epochs=3, train__threads=2, train__gpus_per_worker=0.5)
    assert [row["train/seconds"] for row in (first, second, third)] == [10.0] * 3
    assert [row["seconds"] for row in (first, second, third)] == [10.0, 27.0, 37.0]  # nobody tells of the last writing
    assert [row["cpu_seconds"] for row in (first, second, third)] == [10.0, 27.0, 47.0]
    assert [row["gpu_seconds"] for row in (first, second, third)] == [0.0, 0.0, 5.0]


def test_a_phase_of_every_third_step_has_its_turn_in_epochs_of_one(tmp_path):
    run = Run(tmp_path, "jwae", train__epochs=6, train__batch_size=64)
    run.family = make_family("jwae", run.data.context, discriminator_every=3)
    run.loop().run()
    assert ["train/discriminator" in numbers for _, numbers in run.told] == [False, False, True] * 2


@pytest.mark.seconds
@pytest.mark.parametrize("name", slow_but(["vsepp", "univse", "jwae"], "univse"))
def test_features_that_stay_on_the_device_change_no_bit(tmp_path, monkeypatch, name):
    """What a GPU does whose memory holds them, on a CPU; with images dealt to captions whose own is not known."""
    found = []
    for kept in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(Transfer, "_room_for", lambda transfer, num_bytes, kept=kept: kept)
            run = Run(tmp_path / str(kept), name, train__epochs=2)
            if name == "jwae":
                known = known_images(run.data.examples.num_images, 0.5, 0)[run.data.examples.image]
                run.collate.extras = (Unpaired(run.data.examples, known, 0), *run.collate.extras)
            if kept:
                patch.setattr(Collator, "__call__", None)  # no batch brings features
            loop = run.loop()
            assert list(loop.transfer.kept) == [run.collate.image] * kept
            loop.run()
            numbers = [{k: v for k, v in row.items() if "seconds" not in k} for _, row in run.told]
            found.append((numbers, [p.detach().clone() for p in run.family.parameters()]))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(a, b) for a, b in zip(found[0][1], found[1][1], strict=True))


def test_features_that_exceed_memory_stay_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(Transfer, "_room_for", lambda transfer, num_bytes: True)
    assert not Run(tmp_path, train__window=3).loop().transfer.kept


def test_numbers_are_read_once_a_step_when_the_next_one_is_under_way(tmp_path, monkeypatch):
    run = Run(tmp_path, "univse", train__epochs=2)
    loop, done = run.loop(), []
    step, numbers = loop.stepper.step, PendingNumbers.numbers

    def stepped(batch, epoch, number=0):
        done.append(f"step {epoch}.{number}")
        return step(batch, epoch, number)

    def read(reading):
        done.append(f"read {reading.epoch}.{reading.step}")
        return numbers(reading)

    loop.stepper.step = stepped
    monkeypatch.setattr(PendingNumbers, "numbers", read)
    loop.run()
    num, expected = len(epoch_batches(len(run.data), 8, 0, 0)), []
    for epoch in range(2):
        for k in range(num):
            expected += [f"step {epoch}.{epoch * num + k}", *([f"read {epoch}.{k - 1}"] if k else [])]
        expected.append(f"read {epoch}.{num - 1}")
    assert done == expected


def test_a_family_fitted_in_closed_form_makes_one_epoch_of_no_step(tmp_path):
    run = Run(tmp_path, "cca", train__epochs=3)
    before = {name: value.clone() for name, value in run.family.state_dict().items()}
    progress = run.loop().run()
    assert (progress.epoch, progress.best) == (1, 1)
    ((epoch, numbers),) = run.told
    assert epoch == 1
    assert numbers["val/rsum"] == 0
    assert not [name for name in numbers if name.startswith("train/") and name not in ("train/rate", "train/seconds")]
    assert all(torch.equal(value, before[name]) for name, value in run.family.state_dict().items())


@pytest.mark.seconds
def test_windows_train_on_every_caption_and_give_pages_back(tmp_path, monkeypatch):
    run = Run(tmp_path, train__window=3, train__batch_size=2)
    seen, released = [], []
    loop = run.loop()
    step = loop.stepper.step

    def watched(batch, epoch, number=0):
        seen.append((epoch, batch["sample"].tolist()))
        return step(batch, epoch, number)

    loop.stepper.step = watched
    monkeypatch.setattr(type(run.collate.examples), "release", lambda self: released.append(len(seen)))
    loop.run()
    examples, epochs = run.collate.examples, run.config.train.epochs
    assert sorted(c for _, some in seen for c in some) == sorted(list(range(len(examples))) * epochs)
    assert loop.waited > 0
    # Pages of so many images at a time, not of so many captions: an image comes with two or three of these.
    of_window = 3 * len(examples) // (2 * examples.num_images)
    assert of_window > 3 // 2
    steps = len(seen) // epochs
    assert released == [1 + step + epoch * steps for epoch in range(epochs) for step in range(0, steps, of_window)]
