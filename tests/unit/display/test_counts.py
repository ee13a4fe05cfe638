"""Numbers of things in sentences."""

from vse.display.counts import count


def test_one_has_no_s_and_thousands_have_commas() -> None:
    assert [count(number, "seed") for number in (0, 1, 3, 1200)] == ["0 seeds", "1 seed", "3 seeds", "1,200 seeds"]
