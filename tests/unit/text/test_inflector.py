import subprocess
import sys

import pytest

from vse.text.inflector import inflector


def test_words_come_out_inflected():
    engine = inflector()
    assert [engine.plural_noun(word) for word in ("sheep", "knife", "dog")] == ["sheep", "knives", "dogs"]
    assert engine.singular_noun("geese") == "goose"
    assert [engine.a(word) for word in ("hour", "umbrella", "unicorn")] == ["an hour", "an umbrella", "a unicorn"]
    assert engine.number_to_words(12) == "twelve"


@pytest.mark.process
def test_its_methods_are_not_recompiled_and_the_checker_is_left_as_it_was():
    # Every process that makes adversaries imports it: recompiled for checks, that takes three seconds.
    check = (
        "import typeguard\n"
        "before = typeguard.typechecked\n"
        "from vse.text.inflector import inflector\n"
        "engine = inflector()\n"
        "assert typeguard.typechecked is before\n"
        "assert 'check_argument_types_internal' not in engine.plural_noun.__code__.co_names\n"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
