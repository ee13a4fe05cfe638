"""The table says what failed where the eye ends, and the verdict counts."""

from vse.preflight.checks import Check, table, verdict

CHECKS = [
    Check("disk", "10.0.0.2", "problem", "3 GiB free in /tmp, at least 10 are needed"),
    Check("clock", "10.0.0.2", "ok", "+0.001 s"),
    Check("account", "AWS", "not checked", "no credentials"),
]


def test_columns_are_aligned_and_problems_last() -> None:
    lines = table(CHECKS).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["check", "clock", "account", "disk"]
    assert len({line.index(word) for line, word in zip(lines[1:], ("ok", "not ch", "problem"), strict=True)}) == 1
    assert lines[-1].endswith("at least 10 are needed")


def test_the_verdict_counts() -> None:
    assert verdict(CHECKS) == "1 ok, 1 not checked, 1 problem"
    assert verdict([]) == "0 ok, 0 not checked, 0 problems"
