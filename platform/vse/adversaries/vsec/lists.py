"""Words that make poor adversaries, kept by hand: in nearly every picture, no things of their own, or no plurals."""


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# In or around nearly every picture, whether its captions say so or not: false words must not come from here.
AMBIENT = _words(
    "sky ground wall floor air light shadow sunlight sun cloud window door room ceiling tree grass plant leaf "
    "bush flower building house home roof fence gate road street path trail sidewalk pavement lane track dirt "
    "soil sand mud field lawn yard garden park land landscape hill area place spot location scene background "
    "city town village country world neighborhood outdoors inside outside corner edge side top bottom end "
    "center middle front back line row space surface wood metal plastic glass paper cloth fabric material "
    "concrete brick stone rock pole post object item thing piece part structure weather nature environment "
    "wilderness darkness shade distance view image picture photo photograph camera photographer color "
    "clothing clothes outfit uniform costume foliage greenery vegetation terrain slope terrace horizon "
    "foreground territory site property bar design logo letter word number name face expression smile pose "
    "position step stick string rope wire cord chain board sheet card block cover case handle wheel tire "
    "engine button screen frame equipment gear tool device machine"
)

# Named without an article: singular forms that no article or number goes with.
MASS = _words(
    "water snow ice grass sand dirt mud rain fog smoke steam hair fur food bread rice meat cheese butter soup "
    "sauce fruit broccoli lettuce cabbage spinach corn wheat hay wood metal glass plastic paper cardboard "
    "concrete leather denim fabric cloth wool cotton furniture luggage baggage equipment traffic jewelry "
    "clothing silverware tableware pasta spaghetti pizza cake ham bacon beef pork chicken salad coffee tea "
    "milk beer wine juice soda alcohol liquid mustard ketchup chocolate cream frosting icing syrup honey "
    "sugar salt flour oil trash garbage rubbish debris gravel foliage greenery scenery graffiti makeup soap "
    "toothpaste shampoo tape string wire rope mail tennis baseball soccer football basketball hockey golf "
    "volleyball rugby lacrosse cricket polo surfing skiing snowboarding skateboarding surf foam clay ocean "
    "sea beach countryside wilderness shade daylight darkness sunshine sunlight dust moss ivy bamboo gold "
    "silver steel iron brass cash money stuff junk popcorn cereal yogurt hummus guacamole"
)
# Both a mass and a thing: `a pizza`, `a cake`; they take articles all the same.
COUNTED_TOO = _words("pizza cake salad coffee beer soda rope chicken beach ocean")

# Named with `the`: without an article they say something else ("a pile of beach").
PLACES = _words("ocean sea beach countryside wilderness shade daylight darkness sunshine sunlight scenery")

# Plural in meaning whatever their form, so that no singular verb or article goes with them.
PLURAL_ONLY = _words(
    "cattle people police scissors pants shorts jeans glasses sunglasses goggles headphones binoculars "
    "trousers clothes pajamas tongs pliers skis"
)
# Nouns that captions use and parsers take for things, but that show nothing of their own.
POOR = _words(
    "lab york upside system male female adult can set stop hole rail tile one ones other kind toppings topping "
    "decoration"
)
# Plainly visible, although WordNet's tagged texts, which are no captions, mostly use them otherwise.
VISIBLE = _words("sign kite racket mug van wave doughnut lettuce meter trailer court carrot stroller snowboarder skier")

# Of a person or of what a person wears: true of most pictures with people in them.
PERSONAL = ("clothing", "body_part", "footwear", "hairdressing", "jewelry", "eyeglasses", "headdress", "bag")

# What something can be seen to be inside or outside of: kinds of the lexicon, and some that it files elsewhere.
ENCLOSURES = ("room", "vehicle", "container", "enclosure", "building")
ENCLOSED = _words("tent hut cabin shed garage booth tunnel cave tub cage kennel igloo greenhouse barn stall")

SINGULAR_PRONOUNS = _words("its itself he she him himself herself it his her")
PLURAL_PRONOUNS = _words("their them they themselves each other together both apart side")

# Parts, pairs and collections: a number before them says nothing that a picture could show to be false.
UNCOUNTED = _words(
    "group couple pair bunch lot set number row line stack pile bundle cluster collection variety assortment "
    "herd flock crowd team family piece slice part half side kind type sort handful dozen hundred thousand "
    "series bit crew band class audience pants jeans shorts scissors glasses sunglasses goggles trousers skis "
    "distance top front back end edge middle corner background air sky ground day night time way view lake "
    "ocean sea beach city world"
)

SYMMETRIC = _words(
    "with across and or & , next near beside besides by alongside along against around opposite between among "
    "together touch meet kiss hug embrace face join match resemble like as than talk chat speak dance play "
    "fight race wrestle shake surround contain include of for mix cover lie intersect cross adjacent close"
)

SLOPES = _words(
    "hill hillside hilltop slope mountain mountainside glacier iceberg canyon dune ramp stair stairs staircase step "
    "steps slide ladder cliff"
)
# What one is in the middle of without being inside of it: where its surface is cannot be seen.
WATERS = _words(
    "water ocean sea lake pool river pond stream creek brook wave waves surf rapids puddle fountain waterfall canal "
    "swamp sprinkler snow snowstorm storm rain fog mist smoke steam sun dark air sky foam bubble bubbles spray"
)
# What one is on or in the middle of, seen from wherever: before, behind and above mean little.
TERRAIN = SLOPES - _words("ramp stair stairs staircase step steps slide ladder") | _words(
    "grass field lawn meadow yard backyard garden park playground beach shore coast sand ice dirt mud gravel "
    "ground floor road street highway alley driveway intersection path pathway trail track tracks sidewalk pavement "
    "runway tarmac court pitch rink stadium arena course desert forest wood woods woodland jungle countryside plain "
    "pasture prairie area terrain land city town village hay straw weeds vegetation crowd rocks dock pier harbor bay "
    "island horizon scenery savannah enclosure garbage trash debris rubble refuse"
)
# What holds something from above or from the side, wherever it is seen to hang.
TETHERS = _words("leash rope string cord chain wire lead line cable tether net pole branch stick")
# Worn, whatever a lexicon files it under: what is in it is also under it.
WORN = _words(
    "gear equipment harness costume outfit uniform attire suit wetsuit helmet makeup armor lifejacket vest trunk "
    "trunks shorts bikini shoe boot sneaker sandal slipper heel skate cleat ski snowboard snowshoe sock glove mitten "
    "mitt hat cap beanie glasses goggles sunglasses mask scarf tie necklace bracelet watch ring headband bandana "
    "collar jersey"
)
# What carries one about: "on skis in the snow" is "in the snow on skis".
RIDDEN = _words("ski skate snowboard surfboard skateboard scooter sled wakeboard rollerblade unicycle")
COLORS = _words(
    "maroon tan beige turquoise teal lavender navy khaki crimson burgundy violet gold silver pink purple red blue "
    "green yellow black white brown gray grey blond blonde"
)
DRESS = WORN | COLORS | {"orange"}  # "a man in orange"

# Before a preposition they make it part of something longer: "out of", "covered in", "looking at".
NOT_AFTER = _words(
    "out up down off over away back in on along across around through from by at next close front top because "
    "instead covered dressed filled made full topped surrounded loaded lined decorated coated wrapped "
    "interested clad engaged look looking stare staring smile gaze gazing point pointing wave waving wearing "
    "wear outfitted reflected dipped soaked drenched painted outlined bathed doused each all both half many "
    "some most one chew gnaw bite nibble suck lick tug haul work focus concentrate laugh bark yell shout aim"
)

# Verbs that take a particle: "taking off a hat" says nothing of a place.
PHRASAL = _words("let take show turn put try set pick cut give blow tie pull throw knock hold open close clean")

# What may be such a particle.
PARTICLES = _words("off up down over out on in onto")

# What one may well be under when one is near it, so that "under" is not surely false.
OVERHEAD = _words(
    "tree trees palm bush bushes leaf leaves umbrella bridge mirror sign light lamp awning tent canopy roof branch "
    "clock tv television poster picture painting shelf cabinet arch tower kite balloon basket net person people man "
    "woman boy girl child men women boys girls children adult gate doorway archway entrance tunnel hallway corridor "
    "arbor sculpture statue monument structure rock rocks boulder tire tires "
    "flag banner"
)
BESIDE = _words("near next close beside alongside by around at behind past in inside through across along among over")
# Who sits in front of one is also said to be on it.
DEVICES = _words("computer laptop phone cellphone tv television screen monitor keyboard")
