"""Addresses of a data set stay below their root, however they are written."""

import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse.data.places import Root, below
from vse.errors import InputError

BUCKET = "s3://bucket/photos"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a file, a folder, links inside, and a neighbour whose name begins like its own."""
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a.png").touch()
    (root / "inner.png").symlink_to("a.png")
    (root / "twice.png").symlink_to("inner.png")
    (tmp_path / "root2").mkdir()
    (tmp_path / "root2" / "secret").touch()
    (root / "out.png").symlink_to(tmp_path / "root2" / "secret")
    (root / "again.png").symlink_to("out.png")
    (root / "folder").symlink_to(tmp_path / "root2")
    (tmp_path / "link").symlink_to(root)
    return root


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("a.png", "a.png"),
        ("sub/../a.png", "a.png"),
        ("./a.png", "a.png"),
        ("inner.png", "inner.png"),
        ("twice.png", "twice.png"),
        ("..a/...", "..a/..."),
        ("not there.png", "not there.png"),
        ("ROOT/a.png", "a.png"),
        ("file://ROOT/a.png", "a.png"),
        ("größe 100%.png", "größe 100%.png"),
    ],
)
def test_inside(root: Path, uri: str, expected: str) -> None:
    for base in (root, root.with_name("link")):
        assert below(str(base), uri.replace("ROOT", str(base))) == f"{base}/{expected}"
        assert below(base.as_uri(), uri.replace("ROOT", str(base))) == f"{base}/{expected}"


@pytest.mark.parametrize(
    "uri",
    [
        *("..", "../root2/secret", "sub/../../root2/secret", "/etc/passwd", "file:///etc/passwd", "ROOT2/secret"),
        *("file://ROOT/../root2/secret", "file://ROOT/%2e%2e/root2/secret", "ROOT/sub/../../root2/secret"),
        *("out.png", "again.png", "folder/secret", "s3://other/bucket", "sub/../out.png"),
    ],
)
def test_outside(root: Path, uri: str) -> None:
    for base in (root, root.with_name("link")):
        with pytest.raises(InputError, match=r"leaves its root .* image paths must stay below it"):
            below(str(base), uri.replace("ROOT", str(root)))


def test_other_folders_count_like_the_root(root: Path) -> None:
    other = root.with_name("root2")
    wide = Root(str(root), (str(other),))
    for each in (wide, pickle.loads(pickle.dumps(wide))):
        assert below(each, "out.png") == f"{root}/out.png"
        assert below(each, "folder/secret") == f"{root}/folder/secret"
        assert below(each, f"{other}/secret") == below(each, "../root2/secret") == f"{other}/secret"
        for uri in ("../root3/x", "/etc/passwd", "s3://other/bucket"):
            with pytest.raises(InputError, match="leaves its root"):
                below(each, uri)
    (root / "etc.png").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match=r"through a symbolic link; .* data\.links=/etc allows links into that folder"):
        below(wide, "etc.png")


def test_other_folders_may_lie_on_either_side() -> None:
    remote = Root(BUCKET, ("s3://other/val?region=x", "/disk/val"))
    assert below(remote, "a.png") == f"{BUCKET}/a.png"
    assert below(remote, "s3://other/val/a.png") == "s3://other/val/a.png?region=x"
    assert below(remote, "/disk/val/a.png") == "/disk/val/a.png"
    assert below(Root("/disk", ("s3://other/val",)), "s3://other/val/a.png") == "s3://other/val/a.png"
    for uri in ("s3://other/train/a.png", "/disk/a.png", "../a.png", "/disk/val/../a.png", "s3://other/val/../a.png"):
        with pytest.raises(InputError, match="leaves its root"):
            below(remote, uri)


@pytest.mark.parametrize(
    ("uri", "expected"),
    [("a.png", f"{BUCKET}/a.png"), ("x/../a.png", f"{BUCKET}/a.png"), (f"{BUCKET}/a.png", f"{BUCKET}/a.png")],
)
def test_inside_a_bucket(uri: str, expected: str) -> None:
    assert below(BUCKET, uri) == expected
    assert below(f"{BUCKET}/", uri) == expected


@pytest.mark.parametrize(
    "uri",
    ["../x", "/etc/passwd", "file:///etc/passwd", "s3://bucket/photos2/x", f"{BUCKET}/../x", "s3://other/photos/x"],
)
def test_outside_of_a_bucket(uri: str) -> None:
    with pytest.raises(InputError, match="leaves its root"):
        below(BUCKET, uri)


def test_without_a_root_the_user_named_the_file_itself() -> None:
    assert below("", "/somewhere/a.png") == "/somewhere/a.png"
    assert below("", "file:///some%20where/a.png") == "/some where/a.png"
    assert below("", "s3://bucket/a.png") == "s3://bucket/a.png"


@given(st.lists(st.sampled_from(["..", ".", "a", "", "/", "~", "..."]), max_size=8))
def test_whatever_is_written_stays_below_or_is_refused(steps: list[str]) -> None:
    try:
        place = below("/nowhere/base", "/".join(steps))
    except InputError:
        return
    assert place == "/nowhere/base" or place.startswith("/nowhere/base/")
    assert ".." not in place.split("/")
