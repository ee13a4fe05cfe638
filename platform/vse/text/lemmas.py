"""Base forms of words by their part of speech: exceptions first, then the longest suffix rule that a treebank taught.

Rules cover words the treebank never had ("snowboarders", "skateboarding"), which captions are full of.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

LEMMAS_FILE = "lemmas.json"
_LONGEST = 6
_CLASSES = {"NOUN": "n", "PROPN": "n", "VERB": "v", "AUX": "v", "ADJ": "a", "ADV": "a", "PRON": "p", "DET": "p"}

# Irregular forms that everyday captions have and small treebanks may lack.
_IRREGULAR = {
    "n": "men man women woman children child people people feet foot teeth tooth geese goose mice mouse sheep "
    "sheep knives knife shelves shelf leaves leaf loaves loaf calves calf wolves wolf lives life wives wife "
    "scarves scarf halves half hooves hoof elves elf oxen ox deer deer fish fish scissors scissors glasses "
    "glasses pants pants jeans jeans shorts shorts sunglasses sunglasses goggles goggles gentlemen gentleman "
    "firemen fireman policemen policeman snowmen snowman fishermen fisherman businessmen businessman "
    "salesmen salesman clothes clothes skis ski buses bus bus bus gas gas lens lens lenses lens glass glass "
    "dress dress grass grass tennis tennis cactus cactus cacti cactus octopus octopus species species series "
    "series bison bison moose moose aircraft aircraft stairs stair movies movie cookies cookie pies pie ties "
    "tie zombies zombie veggies veggie smoothies smoothie hoodies hoodie selfies selfie doggies doggie "
    "horses horse houses house vases vase noses nose roses rose nurses nurse purses purse cases case "
    "suitcases suitcase bases base hoses hose cheeses cheese blouses blouse axes axe shoes shoe canoes canoe "
    "toes toe potatoes potato tomatoes tomato avocados avocado photos photo tacos taco waffles waffle "
    "pastries pastry headphones headphone christmas christmas canvas canvas iris iris walrus walrus "
    "hippopotamus hippopotamus circus circus asparagus asparagus hummus hummus citrus citrus surfaces "
    "surface spices spice slices slice pieces piece faces face fences fence places place bicycles bicycle "
    "mattress mattress waitress waitress cross cross boss boss binoculars binoculars pajamas pajamas tongs "
    "tongs chess chess mattresses mattress sandwiches sandwich benches bench couches couch watches watch "
    "peaches peach beaches beach dishes dish brushes brush boxes box foxes fox batteries battery busses bus "
    "pegasus pegasus platypus platypus campus campus news news olives olive gloves glove waves wave sleeves "
    "sleeve beehives beehive graves grave caves cave doves dove stoves stove valves valve dice dice "
    "furnishings furnishing toppings topping markings marking buildings building paintings painting drawings "
    "drawing earrings earring carvings carving railings railing siblings sibling ceilings ceiling wings wing "
    "rings ring kings king strings string swings swing things thing puddings pudding dumplings dumpling "
    "fillings filling crossings crossing stockings stocking evenings evening mornings morning surroundings "
    "surrounding",
    "v": "sat sit stood stand lying lie laid lay lain lie rode ride ridden ride flew fly flown fly wore wear worn "
    "wear ate eat eaten eat held hold hung hang swung swing shone shine drove drive driven drive fed feed "
    "led lead slept sleep caught catch threw throw thrown throw hit hit bent bend built build cut cut drank "
    "drink drunk drink drew draw drawn draw fell fall fallen fall ran run swam swim took take taken take "
    "tore tear torn tear spread spread shot shoot shut shut set set split split stuck stick sprang spring "
    "spun spin swept sweep made make wrote write written write broke break broken break bit bite bitten bite "
    "blew blow blown blow grew grow grown grow left leave lit light lighted light knelt kneel leapt leap "
    "leaned lean lept leap dug dig fought fight forgot forget froze freeze frozen freeze gave give given "
    "give went go gone go kept keep knew know known know met meet paid pay put put read read rose rise risen "
    "rise sang sing sung sing sold sell sent send shook shake shaken shake shown show sank sink sunk sink "
    "spilt spill spoke speak spoken speak stolen steal stole steal struck strike strung string taught teach "
    "told tell thought think understood understand woke wake worn wear wound wind wove weave woven weave "
    "dying die tying tie tied tie was be were be is be are be 's be 're be 'm be am be been be being be has "
    "have had have 've have does do did do done do having have dove dive bound bind wed wed dressing dress "
    "dressed dress passing pass crossing cross kissing kiss tossing toss pressing press missing miss crossed "
    "cross grazing graze riding ride skating skate skateboarding skateboard snowboarding snowboard surfing "
    "surf skiing ski taking take biting bite dicing dice diced dice slicing slice sliced slice glazed glaze "
    "gliding glide hiking hike biking bike posing pose lounging lounge leaving leave waving wave driving "
    "drive diving dive shaving shave serving serve typing type wiping wipe racing race facing face placing "
    "place dancing dance balancing balance bouncing bounce chasing chase closing close using use raising "
    "raise browsing browse perched perch arranged arrange staring stare sharing share preparing prepare "
    "wading wade sliding slide writing write smiling smile piled pile piling pile styled style tiled tile "
    "juggling juggle cuddling cuddle paddling paddle snuggling snuggle kneeling kneel rolling roll pulling "
    "pull filled fill filling fill spilled spill grilled grill fallen fall stuffed stuff standing stand "
    "sitting sit putting put cutting cut hitting hit running run swimming swim getting get batting bat "
    "petting pet patting pat chopped chop hopping hop dipping dip flipping flip clapping clap wrapped wrap "
    "stopped stop topped top dropped drop grabbing grab hugging hug jogging jog begging beg dragging drag "
    "planning plan spinning spin grinning grin skidding skid bidding bid nodding nod swinging swing bringing "
    "bring hanging hang",
    "a": "better good best good bigger big biggest big larger large largest large smaller small smallest small "
    "worse bad worst bad older old oldest old younger young youngest young taller tall tallest tall shorter "
    "short",
    "p": "an a these this those that them they him he us we me i his his her her its its their their",
}


@dataclass(frozen=True, slots=True)
class LemmaTable:
    """`exceptions`: class -> form -> lemma; `suffixes`: class -> ending of the form -> ending of the lemma."""

    exceptions: dict[str, dict[str, str]]
    suffixes: dict[str, dict[str, str]]

    @classmethod
    def learn(cls, seen: Iterable[tuple[str, str, str]]) -> "LemmaTable":
        """From (form, coarse part of speech, lemma) triples: the majority edit of every ending, then what it misses."""
        forms: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        for form, pos, lemma in seen:
            form, lemma = _normal(form), _normal(lemma)
            if pos in _CLASSES and form.isalpha() and lemma.isalpha():
                forms[_CLASSES[pos]][form][lemma] += 1
        suffixes, exceptions = {}, {}
        for kind, by_form in sorted(forms.items()):
            best = {form: max(sorted(lemmas), key=lemmas.__getitem__) for form, lemmas in by_form.items()}
            best.update(_irregular(kind))
            suffixes[kind] = _endings(best) if kind in "nva" else {}
            table = cls({}, suffixes)
            pos = next(p for p, k in _CLASSES.items() if k == kind)
            exceptions[kind] = {f: lemma for f, lemma in sorted(best.items()) if table.lemma(f, pos) != lemma}
        return cls(exceptions, suffixes)

    def lemma(self, form: str, pos: str, tag: str = "") -> str:
        """Lower-case base form of a word; the word itself if no rule applies.

        Args:
            form: the word as it is written.
            pos: its part of speech (UPOS); only nouns, verbs, adjectives, adverbs, pronouns and determiners have rules.
            tag: its Penn tag, if known: a verb in its base form (VB, VBP) keeps its ending unless it is an exception.
        """
        form = _normal(form)
        kind = _CLASSES.get(pos)
        if kind is None:
            return form
        exception = self.exceptions.get(kind, {}).get(form)
        if exception is not None:
            return exception
        if tag in ("VB", "VBP"):
            return form
        rules = self.suffixes.get(kind, {})
        for length in range(min(_LONGEST, len(form) - 2), 0, -1):
            ending = rules.get(form[-length:])
            if ending is not None:
                return form[:-length] + ending
        return form

    def accuracy(self, seen: Iterable[tuple[str, str, str]]) -> float:
        """Share of right lemmas among (form, pos, lemma), case aside."""
        verdicts = [self.lemma(form, pos) == _normal(lemma) for form, pos, lemma in seen]
        return sum(verdicts) / max(len(verdicts), 1)

    def to_json(self) -> str:
        """One line of JSON per class, so that changes can be read."""
        data = {"exceptions": self.exceptions, "suffixes": self.suffixes}
        return json.dumps(data, ensure_ascii=False, sort_keys=True, indent=0, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "LemmaTable":
        data = json.loads(text)
        return cls(data["exceptions"], data["suffixes"])


def _normal(word: str) -> str:
    return word.lower().replace("\u2019", "'")


def _irregular(kind: str) -> dict[str, str]:
    words = _IRREGULAR.get(kind, "").split()
    return dict(zip(words[::2], words[1::2], strict=True))


def _endings(lemmas: dict[str, str]) -> dict[str, str]:
    """Ending -> replacement by majority over distinct forms; an ending agreeing with a shorter one is left out."""
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for form, lemma in lemmas.items():
        for length in range(1, min(_LONGEST, len(form) - 2) + 1):
            if lemma.startswith(form[:-length]):
                votes[form[-length:]][lemma[len(form) - length :]] += 1
    rules: dict[str, str] = {}
    for ending in sorted(votes, key=lambda e: (len(e), e)):
        replacement, count = max(sorted(votes[ending].items()), key=lambda item: item[1])
        if count < 2 and len(ending) > 2:
            continue
        shorter = next((e for k in range(1, len(ending)) if (e := ending[k:]) in rules), None)
        implied = ending[: -len(shorter)] + rules[shorter] if shorter else None
        if replacement != implied:
            rules[ending] = replacement
    return rules
