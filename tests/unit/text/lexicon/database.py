"""A WordNet database of a dozen synsets, written in the format of wndb(5WN)."""

LICENCE = "  1 This line begins with a blank, as the licence does.\n"
# name: (offset, hypernyms)
SYNSETS = {
    "entity": (100, ()),
    "physical_entity": (200, ("entity",)),
    "abstraction": (300, ("entity",)),
    "animal": (400, ("physical_entity",)),
    "canine": (500, ("animal",)),
    "dog": (600, ("canine",)),
    "poodle": (700, ("dog",)),
    "cat": (800, ("animal",)),
    "couch": (900, ("physical_entity",)),
    "idea": (1000, ("abstraction",)),
    "guy": (1100, ("physical_entity",)),
    "knife": (1200, ("physical_entity",)),
}
WORDS = {
    **{name: (name,) for name in SYNSETS},
    "dog": ("dog", "guy"),
    "cat": ("cat", "guy"),
    "sofa": ("couch",),
    "rex": ("dog",),
    "plan": ("idea", "couch"),
}
COUNTS = {"dog%1:05:00:: 1": 42, "idea%1:09:00:: 1": 20, "plan%1:09:00:: 1": 3, "dog%2:38:00:: 1": 5}


def write(folder):
    """The files in a folder, which is returned as text."""
    data, index = [LICENCE], [LICENCE]
    for name, (offset, above) in SYNSETS.items():
        sign = "@i" if name == "poodle" else "@"
        pointers = " ".join(f"{sign} {SYNSETS[each][0]:08d} n 0000" for each in above)
        data.append(f"{offset:08d} 05 n 01 {name} 0 {len(above):03d} {pointers} | gloss, | bars, @ 00000100 n\n")
    for word, senses in sorted(WORDS.items()):
        offsets = " ".join(f"{SYNSETS[s][0]:08d}" for s in senses)
        index.append(f"{word} n {len(senses)} 2 @ ~ {len(senses)} 0 {offsets}  \n")
    files = {"data.noun": data, "index.noun": index, "noun.exc": ["knives knife\n", "mice mouse\n"]}
    files |= {f"index.{kind}": [LICENCE, f"run {kind[0]} 1 0 1 0 00000001\n"] for kind in ("verb", "adj", "adv")}
    files["cntlist.rev"] = [f"{key} {count}\n" for key, count in COUNTS.items()]
    for name, lines in files.items():
        (folder / name).write_text("".join(lines))
    return str(folder)
