"""Captions in other languages are noticed by the lack of English function words."""

import pytest

from vse.text.english import are_english

ENGLISH = ["A dog runs along the beach.", "Two people cross a street", "Dogs playing in snow"]
OTHERS = {
    "German": ["Ein brauner Hund läuft am Strand entlang.", "Zwei Menschen gehen über die Straße", "Hunde in Schnee"],
    "French": ["Un chien court sur la plage.", "Deux personnes traversent une rue", "On voit un chat à la fenêtre"],
    "Dutch": ["Een hond is op het strand.", "Twee mensen lopen over de straat", "Een man met een hoed"],
    "Danish": ["En hund løber på stranden.", "To mennesker går over gaden", "En kvinde ser at det regner"],
    "Chinese": ["一只棕色的狗在海滩上奔跑。", "两个人过马路"],
}


def test_english_captions() -> None:
    assert are_english(ENGLISH)
    assert are_english([ENGLISH[0], *["Hunde"] * 4])
    assert not are_english([ENGLISH[0], *["Hunde"] * 5])
    assert are_english([])


@pytest.mark.parametrize("language", OTHERS)
def test_captions_in_another_language(language: str) -> None:
    assert not are_english(OTHERS[language] * 1000)
