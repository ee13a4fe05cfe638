"""Words that the rules for components know by themselves."""

from vse.text.caption_words import CLOTHES


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


QUANTITIES = _words(
    "group couple bunch pair lot number variety dozen hundred thousand ton kind type sort set plenty amount array "
    "assortment collection handful load majority host series half none"
)
LOCATIONS = _words(
    "front top side back middle center centre bottom end edge corner rear background foreground distance inside "
    "outside left right midst base"
)
NO_OBJECTS = _words(
    "one something someone somebody anything anyone anybody everything everyone everybody nothing nobody none other "
    "another each way"
)
NO_ATTRIBUTES = _words(
    "several many few much more most other another same own different various multiple numerous such certain enough "
    "next first second third last only else less double single various able ready same half all both each"
)
GARMENTS = frozenset(CLOTHES) | {"clothing", "attire", "garment", "outfit", "swimsuit", "bikini", "blouse", "robe"}
STATIC = _words("park sit stand lie lay seat locate place position situate lean perch rest wait set dock")
LOCATIVE = _words(
    "on in at under below above behind beside near next by over inside outside across against along atop around "
    "beneath underneath between"
)
# Verbs whose object may be a clause: "a sign that says dogs are allowed"
SAYING = _words("say read think know believe hope show see watch let make mean claim state tell indicate")
