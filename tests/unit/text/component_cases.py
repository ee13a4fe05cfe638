"""Sentences as hand-built trees, and the components that they must give."""

# (what it shows, tree, objects, attributes, relations)
CASES = [
    (
        "passive without agent, UD",
        "planes/plane/NOUN/NNS/3/nsubj:pass are/be/AUX/VBP/3/aux:pass parked/park/VERB/VBN/0/ROOT "
        "in/in/ADP/IN/6/case an/a/DET/DT/6/det airport/airport/NOUN/NN/3/obl",
        {"plane", "airport"},
        set(),
        {"plane park airport"},
    ),
    (
        "passive without agent, CLEAR",
        "planes/plane/NOUN/NNS/3/nsubjpass are/be/AUX/VBP/3/auxpass parked/park/VERB/VBN/0/ROOT in/in/ADP/IN/3/prep "
        "an/a/DET/DT/6/det airport/airport/NOUN/NN/4/pobj",
        {"plane", "airport"},
        set(),
        {"plane park airport"},
    ),
    (
        "the agent of a passive is the subject, UD",
        "house/house/NOUN/NN/0/ROOT surrounded/surround/VERB/VBN/1/acl by/by/ADP/IN/5/case tall/tall/ADJ/JJ/5/amod "
        "trees/tree/NOUN/NNS/2/obl:agent",
        {"house", "tree"},
        {"tall tree"},
        {"tree surround house"},
    ),
    (
        "the agent of a passive is the subject, CLEAR",
        "house/house/NOUN/NN/0/ROOT surrounded/surround/VERB/VBN/1/acl by/by/ADP/IN/2/agent tall/tall/ADJ/JJ/5/amod "
        "trees/tree/NOUN/NNS/3/pobj",
        {"house", "tree"},
        {"tall tree"},
        {"tree surround house"},
    ),
    (
        "parked by a tree: no agent",
        "bike/bike/NOUN/NN/0/ROOT parked/park/VERB/VBN/1/acl by/by/ADP/IN/5/case a/a/DET/DT/5/det "
        "tree/tree/NOUN/NN/2/obl:agent",
        {"bike", "tree"},
        set(),
        {"bike park tree"},
    ),
    (
        "participle after participle, UD",
        "man/man/NOUN/NN/0/ROOT wearing/wear/VERB/VBG/1/acl a/a/DET/DT/4/det hat/hat/NOUN/NN/2/obj "
        "riding/ride/VERB/VBG/2/advcl a/a/DET/DT/7/det horse/horse/NOUN/NN/5/obj",
        {"man", "hat", "horse"},
        set(),
        {"man wear hat", "man ride horse"},
    ),
    (
        "participle after participle, CLEAR",
        "man/man/NOUN/NN/0/ROOT wearing/wear/VERB/VBG/1/acl a/a/DET/DT/4/det hat/hat/NOUN/NN/2/dobj "
        "riding/ride/VERB/VBG/1/acl a/a/DET/DT/7/det horse/horse/NOUN/NN/5/dobj",
        {"man", "hat", "horse"},
        set(),
        {"man wear hat", "man ride horse"},
    ),
    (
        "conjoined verbs share the subject, UD",
        "dog/dog/NOUN/NN/2/nsubj sits/sit/VERB/VBZ/0/ROOT and/and/CCONJ/CC/4/cc eats/eat/VERB/VBZ/2/conj "
        "meat/meat/NOUN/NN/4/obj",
        {"dog", "meat"},
        set(),
        {"dog eat meat"},
    ),
    (
        "conjoined verbs share the subject, CLEAR",
        "dog/dog/NOUN/NN/2/nsubj sits/sit/VERB/VBZ/0/ROOT and/and/CCONJ/CC/2/cc eats/eat/VERB/VBZ/2/conj "
        "meat/meat/NOUN/NN/4/dobj",
        {"dog", "meat"},
        set(),
        {"dog eat meat"},
    ),
    (
        "conjoined nouns at both ends; an adjective belongs to its own noun",
        "red/red/ADJ/JJ/2/amod cat/cat/NOUN/NN/5/nsubj and/and/CCONJ/CC/4/cc dog/dog/NOUN/NN/2/conj "
        "watch/watch/VERB/VBP/0/ROOT birds/bird/NOUN/NNS/5/obj ,/,/PUNCT/,/8/punct fish/fish/NOUN/NN/6/conj "
        "and/and/CCONJ/CC/10/cc cows/cow/NOUN/NNS/6/conj",
        {"cat", "dog", "bird", "fish", "cow"},
        {"red cat"},
        {f"{s} watch {o}" for s in ("cat", "dog") for o in ("bird", "fish", "cow")},
    ),
    (
        "a phrase after conjoined nouns is about each",
        "cat/cat/NOUN/NN/0/ROOT and/and/CCONJ/CC/3/cc dog/dog/NOUN/NN/1/conj on/on/ADP/IN/5/case "
        "couch/couch/NOUN/NN/1/nmod",
        {"cat", "dog", "couch"},
        set(),
        {"cat on couch", "dog on couch"},
    ),
    (
        "a phrase before the second noun is about the first",
        "cat/cat/NOUN/NN/0/ROOT on/on/ADP/IN/3/case couch/couch/NOUN/NN/1/nmod and/and/CCONJ/CC/5/cc "
        "dog/dog/NOUN/NN/1/conj",
        {"cat", "dog", "couch"},
        set(),
        {"cat on couch"},
    ),
    (
        "relative clause, UD",
        "man/man/NOUN/NN/0/ROOT who/who/PRON/WP/4/nsubj is/be/AUX/VBZ/4/aux holding/hold/VERB/VBG/1/acl:relcl "
        "a/a/DET/DT/6/det bat/bat/NOUN/NN/4/obj",
        {"man", "bat"},
        set(),
        {"man hold bat"},
    ),
    (
        "relative clause, CLEAR",
        "man/man/NOUN/NN/0/ROOT who/who/PRON/WP/4/nsubj is/be/AUX/VBZ/4/aux holding/hold/VERB/VBG/1/relcl "
        "a/a/DET/DT/6/det bat/bat/NOUN/NN/4/dobj",
        {"man", "bat"},
        set(),
        {"man hold bat"},
    ),
    (
        "relative clause about what is acted on",
        "horse/horse/NOUN/NN/0/ROOT that/that/PRON/WDT/5/obj a/a/DET/DT/4/det man/man/NOUN/NN/5/nsubj "
        "rides/ride/VERB/VBZ/1/acl:relcl",
        {"horse", "man"},
        set(),
        {"man ride horse"},
    ),
    (
        "relative clause without a pronoun, CLEAR",
        "horse/horse/NOUN/NN/0/ROOT a/a/DET/DT/3/det man/man/NOUN/NN/4/nsubj rides/ride/VERB/VBZ/1/relcl",
        {"horse", "man"},
        set(),
        {"man ride horse"},
    ),
    (
        "in front of, UD",
        "car/car/NOUN/NN/0/ROOT in/in/ADP/IN/3/case front/front/NOUN/NN/1/nmod of/of/ADP/IN/6/case a/a/DET/DT/6/det "
        "house/house/NOUN/NN/3/nmod",
        {"car", "house"},
        set(),
        {"car front house"},
    ),
    (
        "in front of, CLEAR",
        "car/car/NOUN/NN/0/ROOT in/in/ADP/IN/1/prep front/front/NOUN/NN/2/pobj of/of/ADP/IN/3/prep a/a/DET/DT/6/det "
        "house/house/NOUN/NN/4/pobj",
        {"car", "house"},
        set(),
        {"car front house"},
    ),
    (
        "standing in front of: the verb",
        "man/man/NOUN/NN/0/ROOT standing/stand/VERB/VBG/1/acl in/in/ADP/IN/4/case front/front/NOUN/NN/2/obl "
        "of/of/ADP/IN/6/case bus/bus/NOUN/NN/4/nmod",
        {"man", "bus"},
        set(),
        {"man stand bus"},
    ),
    (
        "on the side of",
        "dog/dog/NOUN/NN/0/ROOT on/on/ADP/IN/4/case the/the/DET/DT/4/det side/side/NOUN/NN/1/nmod "
        "of/of/ADP/IN/6/case road/road/NOUN/NN/4/nmod",
        {"dog", "road"},
        set(),
        {"dog side road"},
    ),
    (
        "next to, UD",
        "light/light/NOUN/NN/0/ROOT next/next/ADP/IN/5/case to/to/ADP/IN/5/case a/a/DET/DT/5/det "
        "building/building/NOUN/NN/1/nmod",
        {"light", "building"},
        set(),
        {"light next building"},
    ),
    (
        "next to, CLEAR",
        "dog/dog/NOUN/NN/2/nsubj sits/sit/VERB/VBZ/0/ROOT next/next/ADV/RB/2/advmod to/to/ADP/IN/3/prep "
        "wall/wall/NOUN/NN/4/pobj",
        {"dog", "wall"},
        set(),
        {"dog sit wall"},
    ),
    (
        "is next to, CLEAR",
        "dog/dog/NOUN/NN/2/nsubj is/be/AUX/VBZ/0/ROOT next/next/ADV/RB/2/advmod to/to/ADP/IN/3/prep "
        "wall/wall/NOUN/NN/4/pobj",
        {"dog", "wall"},
        set(),
        {"dog next wall"},
    ),
    (
        "there is, UD",
        "There/there/PRON/EX/2/expl is/be/VERB/VBZ/0/ROOT a/a/DET/DT/4/det cat/cat/NOUN/NN/2/nsubj "
        "on/on/ADP/IN/6/case table/table/NOUN/NN/2/obl",
        {"cat", "table"},
        set(),
        {"cat on table"},
    ),
    (
        "there is, CLEAR",
        "There/there/PRON/EX/2/expl is/be/VERB/VBZ/0/ROOT a/a/DET/DT/4/det cat/cat/NOUN/NN/2/attr "
        "on/on/ADP/IN/2/prep table/table/NOUN/NN/5/pobj",
        {"cat", "table"},
        set(),
        {"cat on table"},
    ),
    (
        "predicate adjective, UD",
        "dog/dog/NOUN/NN/3/nsubj is/be/AUX/VBZ/3/cop black/black/ADJ/JJ/0/ROOT",
        {"dog"},
        {"black dog"},
        set(),
    ),
    (
        "predicate adjective, CLEAR",
        "dog/dog/NOUN/NN/2/nsubj is/be/AUX/VBZ/0/ROOT black/black/ADJ/JJ/2/acomp",
        {"dog"},
        {"black dog"},
        set(),
    ),
    (
        "the first modifier only; a predicate adjective yields to it",
        "old/old/ADJ/JJ/3/amod black/black/ADJ/JJ/3/amod dog/dog/NOUN/NN/5/nsubj is/be/AUX/VBZ/5/cop "
        "wet/wet/ADJ/JJ/0/ROOT",
        {"dog"},
        {"old dog"},
        set(),
    ),
    (
        "black and white: the first",
        "black/black/ADJ/JJ/4/amod and/and/CCONJ/CC/3/cc white/white/ADJ/JJ/1/conj cow/cow/NOUN/NN/0/ROOT",
        {"cow"},
        {"black cow"},
        set(),
    ),
    (
        "numbers and quantities are no attributes; participles keep their form",
        "two/two/NUM/CD/4/nummod several/several/ADJ/JJ/4/amod parked/park/VERB/VBN/4/amod cars/car/NOUN/NNS/0/ROOT",
        {"car"},
        {"parked car"},
        set(),
    ),
    (
        "a compound is its head",
        "tennis/tennis/NOUN/NN/2/compound racket/racket/NOUN/NN/0/ROOT",
        {"racket"},
        set(),
        set(),
    ),
    (
        "a group of people: the people, UD",
        "group/group/NOUN/NN/0/ROOT of/of/ADP/IN/3/case people/people/NOUN/NNS/1/nmod sitting/sit/VERB/VBG/1/acl "
        "on/on/ADP/IN/6/case bench/bench/NOUN/NN/4/obl",
        {"people", "bench"},
        set(),
        {"people sit bench"},
    ),
    (
        "a bowl of soup is both, CLEAR",
        "bowl/bowl/NOUN/NN/0/ROOT of/of/ADP/IN/1/prep hot/hot/ADJ/JJ/4/amod soup/soup/NOUN/NN/2/pobj",
        {"bowl", "soup"},
        {"hot soup"},
        {"bowl of soup"},
    ),
    (
        "full of",
        "crate/crate/NOUN/NN/3/nsubj is/be/AUX/VBZ/3/cop full/full/ADJ/JJ/0/ROOT of/of/ADP/IN/5/case "
        "bananas/banana/NOUN/NNS/3/obl",
        {"crate", "banana"},
        {"full crate"},
        {"crate full banana"},
    ),
    (
        "controlled clauses share the subject",
        "player/player/NOUN/NN/3/nsubj is/be/AUX/VBZ/3/cop ready/ready/ADJ/JJ/0/ROOT to/to/PART/TO/5/mark "
        "hit/hit/VERB/VB/3/xcomp ball/ball/NOUN/NN/5/obj while/while/SCONJ/IN/8/mark holding/hold/VERB/VBG/5/advcl "
        "bat/bat/NOUN/NN/8/obj",
        {"player", "ball", "bat"},
        set(),
        {"player hit ball", "player hold bat"},
    ),
    (
        "pronouns take no part",
        "It/it/PRON/PRP/2/nsubj sits/sit/VERB/VBZ/0/ROOT on/on/ADP/IN/4/case table/table/NOUN/NN/2/obl "
        "with/with/ADP/IN/6/case it/it/PRON/PRP/2/obl",
        {"table"},
        set(),
        set(),
    ),
    (
        "in the background: no object, no relation",
        "tree/tree/NOUN/NN/0/ROOT in/in/ADP/IN/4/case the/the/DET/DT/4/det background/background/NOUN/NN/1/nmod",
        {"tree"},
        set(),
        set(),
    ),
    (
        "has",
        "room/room/NOUN/NN/2/nsubj has/have/VERB/VBZ/0/ROOT a/a/DET/DT/5/det big/big/ADJ/JJ/5/amod "
        "bed/bed/NOUN/NN/2/obj",
        {"room", "bed"},
        {"big bed"},
        {"room have bed"},
    ),
    (
        "somebody's",
        "man/man/NOUN/NN/3/nmod:poss 's/'s/PART/POS/1/case hat/hat/NOUN/NN/0/ROOT",
        {"man", "hat"},
        set(),
        set(),
    ),
    (
        "garments do nothing: whoever wears them does, UD",
        "boys/boy/NOUN/NNS/0/ROOT in/in/ADP/IN/3/case suits/suit/NOUN/NNS/1/nmod holding/hold/VERB/VBG/3/acl "
        "boards/board/NOUN/NNS/4/obj",
        {"boy", "suit", "board"},
        set(),
        {"boy in suit", "boy hold board"},
    ),
    (
        "garments do nothing: whoever wears them does, CLEAR",
        "man/man/NOUN/NN/0/ROOT wearing/wear/VERB/VBG/1/acl a/a/DET/DT/4/det wetsuit/wetsuit/NOUN/NN/2/dobj "
        "riding/ride/VERB/VBG/4/acl waves/wave/NOUN/NNS/5/dobj",
        {"man", "wetsuit", "wave"},
        set(),
        {"man wear wetsuit", "man ride wave"},
    ),
    (
        "but they lie about",
        "hat/hat/NOUN/NN/0/ROOT sitting/sit/VERB/VBG/1/acl on/on/ADP/IN/4/case table/table/NOUN/NN/2/obl",
        {"hat", "table"},
        set(),
        {"hat sit table"},
    ),
    (
        "a verb mistaken for a noun that rules a clause",
        "dog/dog/NOUN/NN/2/nsubj sniffs/sniff/NOUN/NNS/0/ROOT a/a/DET/DT/4/det hydrant/hydrant/NOUN/NN/2/obj",
        {"dog", "hydrant"},
        set(),
        {"dog sniff hydrant"},
    ),
    (
        "a noun whose coarse tag went wrong",
        "Man/man/INTJ/NN/0/ROOT on/on/ADP/IN/3/case bench/bench/NOUN/NN/1/nmod",
        {"man", "bench"},
        set(),
        {"man on bench"},
    ),
    (
        "a second clause, taken for a noun of the first",
        "dog/dog/NOUN/NN/2/nsubj sits/sit/VERB/VBZ/0/ROOT on/on/ADP/IN/4/case mat/mat/NOUN/NN/2/obl "
        "and/and/CCONJ/CC/6/cc cat/cat/NOUN/NN/4/conj sits/sit/VERB/VBZ/2/advcl on/on/ADP/IN/9/case "
        "chair/chair/NOUN/NN/7/obl",
        {"dog", "mat", "cat", "chair"},
        set(),
        {"dog sit mat", "cat sit chair"},
    ),
    (
        "a second clause, conjoined with a predicate",
        "dog/dog/NOUN/NN/4/nsubj is/be/AUX/VBZ/4/cop on/on/ADP/IN/4/case mat/mat/NOUN/NN/0/ROOT "
        "and/and/CCONJ/CC/9/cc cat/cat/NOUN/NN/9/nsubj is/be/AUX/VBZ/9/cop on/on/ADP/IN/9/case "
        "chair/chair/NOUN/NN/4/conj",
        {"dog", "mat", "cat", "chair"},
        set(),
        {"dog on mat", "cat on chair"},
    ),
    (
        "a relative pronoun outside a relative clause stands for the noun before it",
        "ball/ball/NOUN/NN/2/nsubj floats/float/VERB/VBZ/0/ROOT above/above/ADP/IN/4/case books/book/NOUN/NNS/2/obl "
        "which/which/PRON/WDT/8/nsubj are/be/AUX/VBP/8/cop on/on/ADP/IN/8/case trucks/truck/NOUN/NNS/2/ccomp",
        {"ball", "book", "truck"},
        set(),
        {"ball float book", "book on truck"},
    ),
    (
        "a thing said to be a thing",
        "animal/animal/NOUN/NN/4/nsubj is/be/AUX/VBZ/4/cop a/a/DET/DT/4/det dog/dog/NOUN/NN/0/ROOT",
        {"animal", "dog"},
        set(),
        {"animal be dog"},
    ),
]
