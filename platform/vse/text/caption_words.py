"""Word lists and regular inflection behind the caption grammar: plain everyday words, chosen by hand."""


def _listed(words: str) -> tuple[str, ...]:
    return tuple(words.split())


PEOPLE = _listed(
    "man woman boy girl child person man woman people man woman baby player rider skier surfer skateboarder "
    "snowboarder batter catcher pitcher umpire kid lady guy gentleman couple family crowd team officer worker "
    "chef toddler bride groom musician skater cyclist biker passenger tourist student teacher soldier policeman "
    "fireman cowboy farmer vendor driver waiter waitress dancer athlete referee jockey businessman teenager adult "
    "male female infant mother father son daughter friend customer fisherman sailor clown pedestrian spectator "
    "fan coach doctor baker butcher shopper dweller performer model swimmer runner hiker golfer pilot owner "
    "trainer snowman character figure"
)
ANIMALS = _listed(
    "dog cat horse cow sheep elephant giraffe zebra bear bird duck goose goat puppy kitten pigeon seagull lamb "
    "bull parrot monkey squirrel calf swan ox pony donkey pig rabbit deer owl eagle crow chicken rooster turtle "
    "fish panda camel lion tiger ostrich peacock flamingo crane sparrow hawk ram llama rhino hippo ape butterfly "
    "bee"
)
VEHICLES = _listed(
    "car truck bus train boat plane airplane jet helicopter van taxi motorcycle bike bicycle scooter tractor "
    "trolley tram ship ferry sailboat canoe kayak cab suv trailer cart wagon carriage locomotive moped yacht "
    "aircraft jeep ambulance"
)
RIDEABLE = _listed(
    "horse bike motorcycle wave skateboard surfboard snowboard bicycle elephant scooter bus train ski board pony "
    "camel donkey bull carousel wave skateboard"
)
CLOTHES = _listed(
    "hat shirt tie jacket coat dress suit helmet glove shoe sock glasses sunglasses scarf sweater vest uniform "
    "shorts jeans pants skirt boot cap backpack costume wetsuit apron mask necklace bow belt hoodie sandal robe "
    "gown goggles collar bandana watch crown wig earring outfit gear headband jersey tuxedo"
)
FOOD = _listed(
    "sandwich pizza cake donut doughnut banana apple orange broccoli carrot hotdog salad soup rice bread meat "
    "cheese food meal vegetable fruit cookie cupcake pastry pasta noodle burger hamburger steak fry egg bacon "
    "sausage tomato onion potato mushroom pepper lettuce bean corn strawberry grape pear peach lemon lime "
    "pineapple watermelon melon berry pie bagel muffin croissant waffle pancake toast cereal yogurt dessert "
    "breakfast lunch dinner snack sushi shrimp fish chicken turkey ham bun topping sauce ketchup mustard syrup "
    "frosting chocolate candy cream nut cucumber celery spinach taco burrito dough slice treat mayonnaise chip "
    "cracker pickle parsley"
)
PLACES = _listed(
    "beach street road field park room kitchen bathroom table desk bed couch sidewalk court river lake ocean snow "
    "grass water wall floor tree building house fence bench counter shelf hill mountain slope airport station "
    "track runway city bedroom office yard garden sky wave box bowl plate basket window door bridge store "
    "restaurant zoo pen lot sink stove tub toilet mirror sand forest hillside dirt pole stage tray rack sofa "
    "stand ramp highway intersection crosswalk corner curb driveway alley trail path dock pier harbor shore pond "
    "stream pool meadow pasture barn stable stall cage enclosure exhibit farm ranch market shop cafe bar hotel "
    "apartment church tower castle stadium arena rink gym school classroom library museum hall hallway lobby "
    "porch balcony patio deck stair roof ceiling cabinet cupboard drawer closet dresser nightstand fireplace "
    "mantle doorway windowsill ledge rail railing platform terminal tarmac hangar gate garage parking ground area "
    "town village countryside desert cliff rock log branch bush plain air sun rain fog shade hole net goal base "
    "mound plate chair carpet rug mat lawn sea marina canal tunnel plaza square carriage"
)
THINGS = _listed(
    "ball bat racket racquet kite umbrella frisbee skateboard surfboard snowboard ski clock sign light lamp vase "
    "flower plant phone cellphone laptop computer monitor keyboard mouse remote controller television tv book bag "
    "backpack suitcase purse luggage cup glass mug bottle knife fork spoon chopstick toy blanket pillow towel "
    "curtain rug refrigerator fridge freezer oven microwave toaster toothbrush toothpaste scissors pot pan tower "
    "statue balloon flag hydrant meter cart camera guitar piano drum violin candle wine beer coffee tea milk "
    "juice water plate bowl tray fan cabinet drawer tile rock branch leaf cloud shadow hand head face hair leg "
    "arm mouth ear tail trunk nose wing neck foot eye tongue paw horn lip finger beard paper card newspaper "
    "magazine letter picture photo painting poster map note pen pencil marker tape box crate basket bucket jar "
    "can container lid lunchbox napkin tablecloth straw ribbon rope chain leash hook key lock wheel tire engine "
    "seat window mirror headlight door handle button screen speaker cord wire cable printer scanner desktop "
    "machine blender kettle grill dishwasher faucet shower curtain soap brush comb razor bottle stick pole post "
    "paddle oar sail anchor mast stick disc puck trophy medal net goal helmet tent tarp sleeping-bag teddy doll "
    "robot puzzle game block balloon snowball firework sculpture fountain bench stool ottoman mattress sheet "
    "cushion lampshade chandelier bulb pipe brick stone wood log fire smoke cone barrel ladder hammer saw tool "
    "shovel broom mop hose bouquet rose tulip daisy sunflower wreath pumpkin tree bush vine fern cactus weed tie "
    "bow rainbow moon star snowflake puddle graffiti mural banner logo number word writing decoration ornament "
    "gift present parasol billboard skyscraper windmill kiosk cactus antenna umbrella wallet bracelet pitcher "
    "saucer platter teapot burner toilet sink bathtub urinal counter countertop island shelf bookshelf bookcase "
    "stereo console device equipment"
)
THINGS = tuple(word for word in THINGS if "-" not in word)
COMPOUNDS = _listed(
    "tennis baseball soccer fire stop street traffic living dining parking police coffee kitchen computer cell "
    "wine paper hot ski snow train bus brick stone city birthday chocolate wedding school park picnic teddy dirt "
    "tree air passenger bathroom office water wood metal glass surf cutting tile cow horse dog cat baby skate "
    "golf football basketball hockey volleyball beach street city garden game video remote toy tea dinner fruit "
    "vegetable egg cheese leather rock cement marble window door table desk bed wall floor ceiling bar farm "
    "mountain road sport boogie tour cargo steam freight church hotel airport luggage power stone palm pine fern "
    "banana apple christmas plane jet fishing swimming sewing washing roller cardboard bunk laptop phone "
    "television tv screen fishing lounge flower"
)
QUANTITIES = _listed(
    "group group couple bunch pair row herd flock number variety lot crowd set line team assortment collection display"
)
CONTAINERS = _listed(
    "bowl plate glass cup slice piece pile basket vase bottle box stack tray bag pot mug bunch loaf can jar bucket "
    "platter picture statue"
)
CONTENTS = FOOD[:40] + _listed(
    "food soup wine flower water book milk coffee juice beer fruit toy luggage cat bird man clothes"
)
LOCATIONS = _listed("front top side middle back edge corner center end bottom left right left right")
PICTURES = ("picture", "photo", "photograph", "view", "image", "painting", "drawing", "shot", "portrait", "scene")
COLOURS = _listed("white black red green brown yellow orange pink gray grey purple blue white black red tan beige")
ADJECTIVES = _listed(
    "young old small large big little tall short long wooden snowy grassy cloudy colorful sunny beautiful bright "
    "sandy fresh modern cute dry dirty clean crowded silver plastic concrete rocky wooded messy square empty open "
    "fancy busy metal full round dark stuffed public blurry striped tiled furry fluffy lush steep calm ripe hot "
    "cold wet outdoor indoor male female adult happy huge tiny narrow wide high low broken nice pretty decorative "
    "antique vintage giant massive brick golden shiny rusty dusty muddy icy rainy foggy misty leafy hairy fuzzy "
    "curly bald bearded elderly chubby thin thick heavy light flat curved curvy sharp smooth rough soft hard warm "
    "cool frozen raw cooked baked fried grilled roasted sliced chopped half-eaten delicious tasty healthy sweet "
    "spicy creamy crispy burnt elegant ornate simple plain cozy comfortable luxurious expensive cheap rural urban "
    "suburban residential industrial commercial military professional electric electronic digital mechanical "
    "manual portable mobile metallic ceramic woolen leathery transparent clear stainless granite marble checkered "
    "plaid polka floral spotted calico tabby wild domestic exotic tropical local lone single solitary lonely "
    "quiet loud sleepy tired angry sad serious funny silly strange odd weird unusual unique ancient historic "
    "traditional classic rustic contemporary new fresh deep shallow distant nearby overcast stormy windy chilly "
    "bare naked shirtless barefoot blond blonde asian african american european chinese japanese pregnant "
    "homeless handsome attractive lovely gorgeous scenic picturesque mountainous"
)
ADJECTIVES = tuple(word for word in ADJECTIVES if "-" not in word and word != "polka")
TRANSITIVE = _listed(
    "hold hold carry hit catch throw fly swing watch pull push play cut cross use brush take face read feed chase "
    "kick climb prepare walk drive wash cook sniff hug lick bite fill show touch grab herd have display examine "
    "perform do make open enter leave approach lead pet kiss hold kick toss pitch bounce drop lift raise lower "
    "pick reach serve prepare decorate paint clean wipe sweep dry pour stir mix bake roast slice chop peel spread "
    "photograph film record text call answer greet help guide follow pass exit board load unload pack unpack move "
    "drag tow haul steer row paddle sail operate fix repair inspect check try test enjoy celebrate share sell buy "
    "order deliver collect gather build draw write type sign point shake wave stretch bend twist lean adjust tie "
    "untie wrap unwrap cover uncover hide wear balance juggle spin twirl blow light smoke sip taste swallow guard "
    "protect attack bite graze nibble munch scratch feature contain hold display include overlook surround depict "
    "support train ride groom milk return block dodge shave comb trim beg roll flip fold hang attach study "
    "inspect stare catch miss"
)
INTRANSITIVE = _listed(
    "sit stand walk lie lay fly play run jump graze ski surf skateboard swim sleep eat hang lean rest drive "
    "travel ride float stand sit wait pose look move smile skate snowboard kneel crouch roam wade drink race "
    "perform work slide grow gather land talk relax bend fall dance sit stand walk squat perch roll glide soar "
    "hover dive splash bathe cuddle snuggle nap lounge laugh grin cry yell sing shout chat converse meet huddle "
    "march parade wander stroll hike jog sprint gallop trot climb crawl hop leap bounce balance tumble wrestle "
    "fight compete practice train cook shop browse pass cross turn stop arrive depart approach pull head come go "
    "speed rush cruise sail row paddle drift tow shine glow burn melt bloom blow flow rise set stick extend hang "
    "droop spin cool boil bake dine feast snack munch forage peck swoop wallow yawn stretch peek peer gaze glance "
    "squint mingle socialize beg struggle prepare"
)
RESTING = _listed("sit sit sit stand stand lie lay hang rest float lean grow wait shine glow stick perch")
MOVING = _listed("travel drive move fly pass sit ride sail float go wait turn land park head speed")
AIMED = ("look", "stare", "point", "wait", "prepare", "talk", "play", "walk", "work", "smile", "reach", "listen")
PASSIVE = _listed(
    "park cover fill surround sit decorate top dress tie line load seat locate display place hang pull stack "
    "arrange make carry ride follow paint set mount prepare pack cut attach slice serve feed light lock crowd "
    "watch hold park leave throw scatter spread wrap plant build dock strap chain secure position perch pile "
    "crowd show use clean cook shape design print write connect gather litter garnish stuff equip flank accompany "
    "drive push drag lift raise knock catch land plug turn leash frost coat sprinkle season furnish cram separate "
    "bind chase groom shear"
)
AGENTLESS = frozenset(
    _listed(
        "park seat locate display place hang stack arrange set mount sit dress attach lock dock perch position "
        "pile scatter plant leave"
    )
)
PREPOSITIONS = _listed(
    "in in in in on on on on at at near near by with over under behind beside above below between around through "
    "into across along against inside outside beneath underneath down up from to towards past onto over within "
    "among off toward atop amongst amid by during"
)
DOUBLE_PREPOSITIONS = (
    ("next", "to"), ("next", "to"), ("next", "to"), ("out", "of"), ("off", "of"), ("across", "from"),
    ("outside", "of"), ("inside", "of"), ("up", "against"), ("down", "on"), ("away", "from"), ("along", "with"),
    ("over", "by"), ("up", "to"), ("from", "behind"),
)  # fmt: skip
ANIMATE = frozenset((*PEOPLE, *ANIMALS))
MOBILE = frozenset(VEHICLES)
NOUNS = THINGS + THINGS + PLACES + PEOPLE[:14] + ANIMALS[:16] + VEHICLES[:16] + FOOD[:40] + CLOTHES[:12]
OBJECTS = {"ride": RIDEABLE, "wear": CLOTHES, "eat": FOOD, "cook": FOOD, "bake": FOOD, "slice": FOOD, "serve": FOOD,
           "taste": FOOD, "hold": THINGS, "carry": THINGS, "herd": ANIMALS, "groom": ANIMALS, "drive": VEHICLES,
           "steer": VEHICLES, "board": VEHICLES, "park": VEHICLES, "prepare": FOOD, "cut": FOOD}  # fmt: skip
_SAME = "sheep hair sunglasses glasses goggles scissors jeans pants shorts clothes deer fish people aircraft luggage"
PLURAL_ONLY = frozenset(word for word in _SAME.split() if word.endswith(("s", "people")))
PLURALS = {
    **{word: word for word in f"{_SAME} equipment someone furniture".split()},
    **dict(
        pair.split("/")
        for pair in _listed(
            "man/men woman/women child/children person/people goose/geese gentleman/gentlemen knife/knives "
            "shelf/shelves leaf/leaves calf/calves mouse/mice loaf/loaves snowman/snowmen policeman/policemen "
            "fireman/firemen fisherman/fishermen businessman/businessmen ox/oxen foot/feet scarf/scarves "
            "photo/photos"
        )
    ),
}
_PARTICIPLES = dict(
    pair.split("/")
    for pair in _listed(
        "sit/sat hang/hung set/set make/made ride/ridden hold/held cut/cut feed/fed light/lit leave/left "
        "throw/thrown spread/spread build/built show/shown write/written drive/driven bind/bound catch/caught "
        "shear/shorn"
    )
)
_DOUBLING = frozenset(
    _listed(
        "sit cut hit run swim set top get put hug jog pet grab hop nap shop chop flip spin mop chat drag pin wrap "
        "strap trim beg trot plug drip cram sip squat drop stop pat knit dip skip step slam scrub"
    )
)


def plural(noun: str) -> str:
    """The regular plural."""
    if noun.endswith(("s", "x", "ch", "sh")) or noun in ("potato", "tomato", "go", "do"):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"


def third(verb: str) -> str:
    """Third person singular, present."""
    return {"have": "has", "do": "does"}.get(verb) or plural(verb)


def ing(verb: str) -> str:
    """The present participle."""
    if verb in _DOUBLING:
        return f"{verb}{verb[-1]}ing"
    if verb.endswith("ie"):
        return f"{verb[:-2]}ying"
    return f"{verb[:-1]}ing" if verb.endswith("e") and not verb.endswith(("ee", "oe")) else f"{verb}ing"


def participle(verb: str) -> str:
    """The past participle."""
    if verb in _PARTICIPLES:
        return _PARTICIPLES[verb]
    if verb in _DOUBLING:
        return f"{verb}{verb[-1]}ed"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return f"{verb[:-1]}ied"
    return f"{verb}d" if verb.endswith("e") else f"{verb}ed"
