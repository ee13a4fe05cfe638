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

# Attributes that a picture shows, by kind: one of a kind contradicts the others, unless it is close to them.
ATTRIBUTE_KINDS = {
    kind: frozenset(words.split())
    for kind, words in {
        "colour": "white black red green brown yellow orange pink gray grey purple blue tan golden silver maroon beige",
        "size": "large big huge giant small little tiny",
        "age": "young old elderly",
        "hair": "bald blond blonde",
        "material": "wooden plastic concrete metal metallic brick leather glass rocky",
        "pattern": "striped spotted plaid checkered dotted floral",
        "dress": "shirtless barefoot naked",
        "wetness": "wet dry",
    }.items()
}
CLOSE_ATTRIBUTES = tuple(
    frozenset(group.split())
    for group in (
        "tan brown golden yellow orange beige blond blonde",
        "red pink maroon orange purple",
        "white gray grey silver beige",
        "black gray grey",
        "blue purple gray grey",
        "brown black red",
        "striped plaid checkered",
        "spotted dotted",
        "concrete brick rocky",
        "metal metallic silver",
        "blond blonde",
    )
)
# Where a caption says nothing of the kind, what a person or an animal never is, and what other things hardly ever are.
_NEVER_OF_LIVING = "purple green blue pink orange wooden plastic concrete metal brick rocky checkered"
_HARDLY_OF_THINGS = "purple pink orange checkered spotted plaid floral"
NEVER_OF_LIVING = frozenset(_NEVER_OF_LIVING.split())
HARDLY_OF_THINGS = frozenset(_HARDLY_OF_THINGS.split())

# Too weak to be surely false of two things in one picture, or nothing that a picture shows.
_VAGUE_RELATIONS = (
    "have get take make use go come move show wait enjoy relax prepare approach attach cover face see watch look stick "
    "set put give help turn reach touch hit near at with by up down along across through from out off against pose "
    "gather rest stand sit be lean lay lie play perform next front on in top full over around run walk travel leave "
    "start try begin stop keep need let hang work cross kick practice compete participate surround shak shake trick "
    "smile laugh point wave gaze stare dress overlook pick"
)
VAGUE_RELATIONS = frozenset(_VAGUE_RELATIONS.split()) | NO_RELATION
