"""Numbers of things in sentences."""


def count(number: int, noun: str) -> str:
    """3 seeds, 1 seed."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
