"""Word lists kept by hand: UniVSE's attributes and look-alikes, and words that name nothing a picture could lack."""

# UniVSE supplement A.1, the 37 strings as printed (with its misprint "morden" and without "blue").
_PUBLISHED = (
    "white black red green brown yellow orange pink gray grey purple young wooden old snowy grassy cloudy "
    "colorful sunny beautiful bright sandy fresh morden cute dry dirty clean polar crowded silver plastic "
    "concrete rocky wooded messy square"
)
PUBLISHED_ATTRIBUTES = tuple(_PUBLISHED.split())
CORRECTED_ATTRIBUTES = tuple(
    sorted({"blue", "modern", *PUBLISHED_ATTRIBUTES} - {"morden"}, key=lambda w: (w not in PUBLISHED_ATTRIBUTES, w))
)

# Supplement B.2, then spellings and near-synonyms that would make a false attribute true.
SIMILAR_ATTRIBUTES = tuple(
    frozenset(group.split())
    for group in (
        "white snowy polar",
        "red pink",
        "blue cloudy",
        "green grassy",
        "brown sandy yellow orange",
        "rocky concrete",
        "gray grey silver",
        "colorful colourful bright multicolored",
        "large big huge tall giant",
        "small little tiny short",
        "wooden wooded",
        "old older elderly",
        "young little small",
        "dirty messy muddy",
        "clean fresh",
        "striped stripy",
        "dotted spotted polka",
    )
)

SIMILAR_RELATIONS = tuple(
    frozenset(group.split())
    for group in (
        "next near beside by alongside with adjacent close",
        "on atop top upon onto",
        "in inside within into through",
        "under beneath below underneath",
        "above over",
        "wear have dress",
        "hold carry grasp have",
        "stand be sit",
        "walk run go move",
        "look watch stare gaze see",
        "ride drive",
        "at by in on",
        "across through over",
        "behind back after",
    )
)

SIMILAR_NOUNS = tuple(
    frozenset(group.split())
    for group in (
        "person people man woman boy girl child kid lady guy gentleman adult teenager toddler baby player human "
        "worker crowd family athlete",
        "dog puppy animal",
        "cat kitten animal",
        "horse pony animal",
        "bird seagull pigeon duck goose animal",
        "cow bull cattle calf animal",
        "bike bicycle motorcycle motorbike",
        "plane airplane aircraft jet airliner",
        "car vehicle truck van taxi cab suv",
        "bus vehicle",
        "boat ship canoe kayak",
        "couch sofa",
        "chair seat stool",
        "road street highway pavement",
        "sidewalk pavement path trail",
        "ocean sea water wave lake river pool",
        "beach sand shore",
        "tv television screen monitor",
        "phone cellphone telephone",
        "laptop computer",
        "ground floor dirt grass field lawn",
        "tree forest wood branch leaf",
        "building house tower",
        "hill mountain slope hillside",
        "cup mug",
        "plate dish bowl",
        "hat cap helmet",
        "shirt jacket coat sweater top",
        "picture photo photograph image painting",
        "rock stone boulder",
        "ball baseball basketball football soccer",
        "food meal lunch dinner",
        "donut doughnut pastry",
        "refrigerator fridge",
    )
)

# Object heads that are not concrete, or that are in nearly every picture or in none: never swapped in.
_NOT_CONCRETE = (
    "front side top bottom back middle center centre left right end edge corner group couple pair bunch lot "
    "number set row line series variety type kind sort part piece half rest view picture photo photograph image "
    "shot scene scenery background foreground distance day night morning evening afternoon time moment way area "
    "place position direction location spot space something someone somebody anything everyone nothing one other "
    "thing stuff air light shade color colour style design pattern shape size game match competition race event "
    "party trip ride jump run walk trick turn swing stunt action activity motion fun work life use process hand- "
    "held look love name word weather sunset summer winter fall spring attention conversation practice "
    "preparation order inside outside outdoors middle-aged setting environment surface body angle mid midair "
    "close-up closeup black white red blue green yellow brown"
)
NOT_CONCRETE = frozenset(_NOT_CONCRETE.split())

# B.4 sets such words aside as ambiguous; bare auxiliaries say nothing either.
_NO_RELATION = "of to include as for be do than like about such because that if while"
NO_RELATION = frozenset(_NO_RELATION.split())
