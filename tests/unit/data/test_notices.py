"""What is said of a file is said once."""

import pytest

from vse.data.reading import notice


def test_a_line_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    for line in ("a.csv: read 100 % as UTF-8", "b.csv", "a.csv: read 100 % as UTF-8"):
        notice(line)
    assert [record.getMessage() for record in caplog.records] == ["a.csv: read 100 % as UTF-8", "b.csv"]
