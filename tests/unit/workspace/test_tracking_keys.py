"""Names of numbers, which MLflow must accept: it refuses a whole run for one name."""

import pytest
from mlflow.exceptions import MlflowException
from mlflow.utils.validation import _validate_metric_name

from vse.workspace.tracking_keys import KEY_LENGTH, clean_key


@pytest.mark.parametrize(
    ("key", "clean"),
    [
        ("test/i2t/r1", "test/i2t/r1"),
        ("pairs/swap obj: 1.0/mean", "pairs/swap obj: 1.0/mean"),
        ("...", "__."),
        ("..x/y", "__x/y"),
        (".hidden/..x/y.", ".hidden/..x/y."),
        ("swap (obj)", "swap _obj_"),
        ("count/", "count_"),
        ("/count", "_count"),
        ("a//b", "a/_b"),
        ("a////b", "a/___b"),
        ("/", "_"),
        ("//", "__"),
        ("", "_"),
        (".", "_"),
        ("..", "__"),
        ("../x", "__/x"),
        ("./x/.", "_/x/_"),
        ("a/./b/../c", "a/_/b/__/c"),
        ("a/./", "a/__"),
        ("x" * (KEY_LENGTH - 1) + "/y", "x" * (KEY_LENGTH - 1) + "_"),
        ("x" * (KEY_LENGTH - 2) + "/.y", "x" * (KEY_LENGTH - 2) + "/_"),
    ],
)
def test_names_that_mlflow_accepts(key: str, clean: str) -> None:
    assert clean_key(key) == clean
    assert clean_key(clean) == clean
    _validate_metric_name(clean)


@pytest.mark.parametrize("key", ["count/", "a//b", "../x", "..x", ".", "swap (obj)"])
def test_names_that_mlflow_refuses(key: str) -> None:
    with pytest.raises(MlflowException):
        _validate_metric_name(key)
