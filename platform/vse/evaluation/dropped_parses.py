"""Test Drop of UniVSE's supplement (A.2, Table 1): evaluation with a parser of lower recall."""

import hashlib
from dataclasses import replace

import numpy as np

from vse.config import fingerprint
from vse.data import keyed
from vse.text.components import Components
from vse.text.parse import Parse
from vse.training.inputs import Parses


class DroppedParses:
    """Parses that lack a share of the attributes and of the relations; objects stay.

    The paper drops "30% relations and 30% attributes from the parser's output during training/test" and says that
    low recall on test captions makes it harder to tell adversaries. Read here as: whatever caption is encoded at test,
    true or adversarial, its components are dropped, each on its own with probability `share`; adversaries are made, as
    ever, of whole parses. A component that a caption names twice counts once, as for the model. What is dropped is a
    function of (seed, text), so it is the same for every run, attack, batch and order.
    """

    def __init__(self, whole: Parses, share: float, seed: int) -> None:
        self.whole, self.share, self.seed = whole, share, seed
        self.fingerprint = fingerprint([whole.fingerprint, share, seed])

    def parse(self, text: str) -> Parse:
        """The whole parse."""
        return self.whole.parse(text)

    def components(self, text: str) -> Components:
        """What is left of the components of a text."""
        whole = self.whole.components(text)
        attributes = self._kept(text, "attributes", [(a.word, a.noun) for a in whole.attributes])
        relations = self._kept(text, "relations", [(r.subject, r.word, r.object) for r in whole.relations])
        return replace(
            whole,
            attributes=tuple(a for a in whole.attributes if (a.word, a.noun) in attributes),
            relations=tuple(r for r in whole.relations if (r.subject, r.word, r.object) in relations),
        )

    def _kept(self, text: str, kind: str, items: list[tuple[str, ...]]) -> set[tuple[str, ...]]:
        sample = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        key = keyed.keys(self.seed, 0, f"test drop {kind}", np.array([sample], dtype=np.uint64))
        distinct = list(dict.fromkeys(items))
        draws = keyed.uniform(key, len(distinct))[0]
        return {item for item, draw in zip(distinct, draws, strict=True) if draw >= self.share}
