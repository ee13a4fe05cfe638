"""Folders: atomic writes, manifests that notice damage, refusals in one line, S3 through a local server."""

import multiprocessing
import os
import pickle
import time
from pathlib import Path

import pytest
from filelock import lock_descriptor

from vse.data.records import Image, Records
from vse.errors import InputError, NotMadeError
from vse.storage.files import sha256_of, sha256_of_file
from vse.storage.folder import Folder
from vse.storage.read_only import SealedFolder
from vse.workspace.layout import Workspace, dataset_name


@pytest.fixture
def folder(tmp_path):
    return Folder.open(tmp_path / "made" / "later")


def test_bytes_text_and_json_come_back(folder):
    folder.write_bytes("a.bin", b"\x00\x01")
    folder.write_text("a.txt", "α = .75")
    folder.write_json("a.json", {"x": [1, 2.5, None]})
    assert folder.read_bytes("a.bin") == b"\x00\x01"
    assert folder.read_text("a.txt") == "α = .75"
    assert folder.read_json("a.json") == {"x": [1, 2.5, None]}
    assert folder.names() == ("a.bin", "a.json", "a.txt")
    assert folder.exists("a.bin")
    assert not folder.exists("b.bin")
    assert folder.size("a.bin") == 2
    assert folder.size("b.bin") is None


def test_names_that_are_not_utf8_come_back_from_json(tmp_path: Path) -> None:
    folder = Folder.open(tmp_path)
    folder.write_json("a.json", {"caf\udce9": "é"})
    assert folder.read_json("a.json") == {"caf\udce9": "é"}


def test_uris_paths_and_children_name_the_same_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Folder.open(str(tmp_path)).child("with space", "b")
    folder.write_text("x", "1")
    assert Folder.open("with space").child("b").read_text("x") == "1"
    assert Folder.open(f"file://{tmp_path}/with%20space/b").read_text("x") == "1"
    assert folder.local("x") == tmp_path / "with space" / "b" / "x"
    assert pickle.loads(pickle.dumps(folder)) == folder


@pytest.mark.parametrize("name", ["..", "", ".", "a/b", "a\\b"])
def test_a_child_cannot_leave_its_folder(folder, name):
    with pytest.raises(InputError, match="folder"):
        folder.child(name)


def test_a_write_that_fails_leaves_the_old_file_and_no_trace(folder, monkeypatch):
    folder.write_text("x", "old")

    def broken(*args):
        raise OSError("power cut")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="power cut"):
        folder.write_text("x", "new")
    assert folder.read_text("x") == "old"
    assert os.listdir(folder.local()) == ["x"]


def test_an_unfinished_write_of_a_killed_process_is_not_listed(folder):
    folder.write_text("x", "1")
    (folder.local() / ".writing-0123456789ab-y").write_text("half")
    assert folder.names() == ("x",)


def test_the_first_write_to_a_folder_removes_what_killed_writers_left(folder):
    folder.local().mkdir(parents=True, exist_ok=True)
    dead, young, living = (folder.local(f".writing-{digit * 12}-x[1]") for digit in "012")
    other, lock = folder.local(".writing-333333333333-y"), folder.local(".writing-lock")
    paths = (dead, young, living, other, lock)
    for path in paths:
        path.write_text("half")
        if path != young:
            os.utime(path, (0, 0))
    with living.open("r+b") as stream:
        assert lock_descriptor(stream.fileno(), blocking=False)
        folder.write_text("x[1]", "2")
    assert [path.exists() for path in paths] == [False, True, True, False, True]
    assert folder.read_text("x[1]") == "2"


def test_a_folder_below_a_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    folder = Folder.open(tmp_path / "file" / "workspace")
    with pytest.raises(InputError) as refusal:
        folder.check_writable()
    assert str(folder.local()) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    with pytest.raises(InputError, match="cannot write x"):
        folder.write_text("x", "1")


def test_json_refuses_nan_and_names_a_damaged_file(folder):
    with pytest.raises(ValueError, match="JSON"):
        folder.write_json("x.json", float("nan"))
    folder.write_text("y.json", '{"a": ')
    with pytest.raises(InputError, match=r"y\.json: damaged or not JSON"):
        folder.read_json("y.json")


def test_who_may_do_without_a_lock_is_told_whether_it_is_free(folder):
    with folder.taken() as mine:
        assert mine
        with folder.taken() as second:
            assert not second
        assert folder.is_locked()
    assert not folder.is_locked()


def test_who_works_in_a_folder_can_be_seen(folder):
    assert not folder.is_locked()
    with folder.locked():
        assert folder.is_locked()
    assert not folder.is_locked()
    with folder.locked():  # looking took nothing
        assert folder.is_locked()
        with pytest.raises(TimeoutError, match="another process holds its lock"), folder.locked(wait=0.1):
            pass


def test_a_folder_is_committed_once_its_manifest_matches_its_files(folder):
    assert folder.read_manifest() is None
    folder.write_bytes("a", b"one")
    folder.write_bytes("b", b"two")
    assert folder.read_manifest() is None
    folder.commit_manifest(["b", "a"], {"rows": 2})
    manifest = folder.read_manifest()
    assert manifest is not None
    assert manifest["rows"] == 2
    assert manifest["files"]["a"] == {"bytes": 3, "sha256": sha256_of(b"one")}
    assert sha256_of_file(folder.local("a")) == sha256_of(b"one")
    assert folder.is_committed()


def test_damage_makes_a_folder_uncommitted(folder):
    folder.write_bytes("a", b"one")
    folder.commit_manifest(["a"])
    folder.local("a").write_bytes(b"on")  # truncated
    assert folder.read_manifest(checksums=False) is None
    folder.local("a").write_bytes(b"onE")  # same size, other content
    assert folder.read_manifest() is None
    folder.delete("a")
    assert folder.read_manifest() is None
    folder.write_bytes("a", b"one")
    assert folder.read_manifest() is not None
    folder.local("manifest.json").write_bytes(folder.read_bytes("manifest.json")[:-5])
    assert folder.read_manifest() is None


def test_delete_takes_files_and_folders(folder):
    folder.child("sub").write_text("x", "1")
    folder.write_text("y", "1")
    folder.delete("sub")
    folder.delete("y")
    folder.delete("y")
    assert folder.names() == ()


def test_an_unknown_scheme_is_refused():
    with pytest.raises(InputError, match="gopher"):
        Folder.open("gopher://host/path")


def test_the_workspace_is_laid_out_by_stage(tmp_path):
    workspace = Workspace.open(str(tmp_path))
    records = Records("tiny", (Image("1", "1.jpg", "train"),), ())
    name = dataset_name(records)
    assert name == f"tiny-{records.content_fingerprint}"
    assert workspace.dataset(records).local() == tmp_path / "datasets" / f"tiny-{records.fingerprint}"
    assert workspace.features(name, "0a1b2c3d").local() == tmp_path / "features" / name / "0a1b2c3d"
    assert workspace.language(name, "0a1b2c3d").local() == tmp_path / "language" / name / "0a1b2c3d"
    assert workspace.run("r-1").local() == tmp_path / "runs" / "r-1"
    assert workspace.sweep("alpha").local() == tmp_path / "sweeps" / "alpha"
    assert workspace.report("all").local() == tmp_path / "reports" / "all"
    assert workspace.check_writable() is workspace
    with pytest.raises(InputError, match="letters"):
        workspace.sweep("a b")


def test_a_folders_name_is_the_last_step_of_its_path(tmp_path):
    assert Folder.open(tmp_path / "runs").child("a-b").name == "a-b"
    assert Folder("s3://bucket/prefix/run-1?endpoint_override=http://127.0.0.1:1/x").name == "run-1"


def _hold(path: str, order: str) -> None:
    with Folder(path).locked(), open(order, "a") as file:
        file.write("in ")
        file.flush()
        time.sleep(0.3)
        file.write("out ")


def test_a_slash_before_the_options_of_an_address_is_none_of_its_names() -> None:
    one, other = (Folder.open(f"s3://bucket/prefix{end}?region=eu-central-1") for end in ("", "/"))
    assert one == other
    assert other.child("runs").uri == "s3://bucket/prefix/runs?region=eu-central-1"


@pytest.mark.slow
def test_one_process_at_a_time_makes_a_stage(tmp_path):
    context = multiprocessing.get_context("spawn")
    jobs = [context.Process(target=_hold, args=(str(tmp_path / "stage"), str(tmp_path / "order"))) for _ in range(3)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(60)
    assert (tmp_path / "order").read_text().split() == ["in", "out"] * 3
    assert Folder(str(tmp_path / "stage")).names() == ()


def test_a_sealed_folder_is_read_and_never_written(tmp_path: Path) -> None:
    made = Folder.open(tmp_path).child("made")
    made.write_text("a", "1")
    made.commit_manifest(["a"])
    before = sorted(tmp_path.rglob("*"))
    sealed = SealedFolder.open(tmp_path)
    assert sealed.child("made").read_text("a") == "1"
    assert sealed.child("made").read_manifest() == made.read_manifest()
    with sealed.child("made").locked():
        pass  # a stage that finds it complete
    for write in (
        lambda: sealed.child("made").write_text("b", "2"),
        lambda: sealed.child("made").delete("a"),
        lambda: sealed.child("lacking", "deep").check_writable(),
        lambda: sealed.child("lacking").locked().__enter__(),
        lambda: sealed.child("made").commit_manifest([]),
    ):
        with pytest.raises(NotMadeError, match=f"^{tmp_path}/(made|lacking)"):
            write()
    assert sorted(tmp_path.rglob("*")) == before
