"""Draws contrastive captions as vocabulary ids, for a batch at a time, without a string in between.

VSE-C (Shi et al., COLING 2018, section 3.3): in each iteration N = 8 of about a thousand candidates a caption. A draw
is a function of (seed, epoch, caption), so batches, workers and restarts see the same captions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from vse.adversaries.univse.generate import text_hash
from vse.adversaries.vsec.table import Candidates, width_of
from vse.data import keyed
from vse.data.ragged import Ragged
from vse.data.records import Caption
from vse.errors import InputError
from vse.text.tokens import words as token_words
from vse.text.vocabulary import END, START, UNKNOWN, Vocabulary

NUM = 8
BALANCES = ("paradigm", "candidate")  # of what a draw takes one with equal chances


@dataclass(frozen=True, eq=False)
class Drawn:
    """Contrastive captions of a batch: tokens (batch, N, time) between <start> and <end>, zeros behind; lengths (batch,
    N); mask (batch, N) is False where a caption has fewer candidates; slot (row of the table) and choice say which."""

    tokens: np.ndarray
    lengths: np.ndarray
    mask: np.ndarray
    slot: np.ndarray
    choice: np.ndarray


class ContrastSampler:
    """Candidates of captions, numbered as they are given, in arrays."""

    def __init__(
        self,
        candidates: Candidates,
        captions: Sequence[Caption],
        vocabulary: Vocabulary,
        *,
        seed: int,
        num: int = NUM,
        balance: str = "paradigm",
        paradigms: Sequence[str],
    ) -> None:
        """num: draws a caption and epoch, distinct. balance: each draw takes a paradigm first, or any candidate alike.

        Alternatives with a word outside the vocabulary are left out. Raises InputError if candidates were made for
        other texts than the captions'.
        """
        if balance not in BALANCES:
            raise InputError(f"balance={balance}: expected one of {', '.join(BALANCES)}")
        self.seed, self.num = seed, num
        row_of = {caption.id: row for row, caption in enumerate(captions)}
        table, chosen_rows = _of_captions(
            candidates.table, row_of, {c.id: text_hash(c.text) for c in captions}, paradigms
        )
        texts = [token_words(caption.text) for caption in captions]
        phrases = _Phrases(candidates, table, vocabulary)
        caption = _codes(table.column("caption").combine_chunks().dictionary_encode(), row_of)
        order = np.argsort(caption, kind="stable")
        self._rows, caption = chosen_rows[order], caption[order]
        first, last = (np.asarray(table.column(name)).astype(np.int64)[order] for name in ("first", "last"))
        self._edits = phrases.edits(first, last, order)
        self._bits = phrases.bits(order)
        counts = self._bits.counts
        kind = np.zeros(len(order), dtype=np.int64)
        if balance == "paradigm":
            chosen = {paradigm: k for k, paradigm in enumerate(paradigms)}
            kind = _codes(table.column("paradigm").combine_chunks(), chosen)[order]
        num_kinds = len(paradigms) if balance == "paradigm" else 1
        self._slots = _SlotIndex.of(caption, kind, counts, len(captions), num_kinds)
        encoded = [[START, *(vocabulary.encode(text) or [UNKNOWN]), END] for text in texts]
        self._captions = Ragged.of(encoded)
        self._pool = np.concatenate([self._captions.values, phrases.tokens.values]).astype(np.int64)
        self._phrase_start = phrases.tokens.offsets[:-1] + len(self._captions.values)
        self._phrase_length = phrases.tokens.lengths
        self.unknown = {"alternatives": phrases.total, "left_out": phrases.total - int(counts.sum())}

    def sizes(self) -> np.ndarray:
        """Candidates of each caption."""
        return self._slots.totals.sum(1)

    def draw(self, captions: np.ndarray, epoch: int) -> Drawn:
        """Contrastive captions of these caption numbers in an epoch."""
        captions = np.asarray(captions, dtype=np.int64)
        keys = keyed.keys(self.seed, epoch, "contrast", captions)
        totals = self._slots.totals[captions]
        taken = shares(keys, totals, self.num)
        slot = np.full((len(captions), self.num), -1, dtype=np.int64)
        nth = np.zeros((len(captions), self.num), dtype=np.int64)
        place = np.zeros(len(captions), dtype=np.int64)
        for kind in range(totals.shape[1]):
            numbers = distinct(keyed.mix(keys + np.uint64(kind + 1)), totals[:, kind], taken[:, kind], self.num)
            for k in range(self.num):
                row = np.flatnonzero(taken[:, kind] > k)
                slots, rest = self._slots.find(captions[row], kind, numbers[row, k])
                slot[row, place[row]], nth[row, place[row]] = slots, rest
                place[row] += 1
        mask = slot >= 0
        choice = np.zeros_like(slot)
        choice[mask] = self._bits.nth(slot[mask], nth[mask])
        caption = np.broadcast_to(captions[:, None], slot.shape)
        tokens, lengths = self._assemble(caption[mask], slot[mask], choice[mask])
        padded = np.zeros((*slot.shape, int(lengths.max(initial=0))), dtype=np.int64)
        padded[mask] = tokens
        all_lengths = np.zeros(slot.shape, dtype=np.int64)
        all_lengths[mask] = lengths
        return Drawn(padded, all_lengths, mask, slot, choice)

    def described(self, slot: int | np.integer) -> int:
        """The row of the candidates' table that a drawn slot is."""
        return int(self._rows[slot])

    def _assemble(self, caption: np.ndarray, slot: np.ndarray, choice: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ids (drawn, time), zero-padded, and lengths: pieces of the caption and phrases in turn."""
        offsets = self._captions.offsets
        start, end = offsets[caption], offsets[caption + 1]
        first, last, phrase = self._edits.of(slot, choice)
        absent = first < 0
        first = np.where(absent, end[:, None], first + 1 + start[:, None])  # behind <start>
        last = np.where(absent, end[:, None], last + 1 + start[:, None])
        order = np.argsort(first, axis=1, kind="stable")
        first, last, phrase = (np.take_along_axis(each, order, axis=1) for each in (first, last, phrase))
        num_edits = first.shape[1]
        starts = np.zeros((len(slot), 2 * num_edits + 1), dtype=np.int64)
        sizes = np.zeros_like(starts)
        starts[:, 0], starts[:, 2::2] = start, last
        sizes[:, 0:-1:2] = first - starts[:, 0:-1:2]
        sizes[:, -1] = end - starts[:, -1]
        real = phrase >= 0
        starts[:, 1::2] = np.where(real, self._phrase_start[np.maximum(phrase, 0)], 0)
        sizes[:, 1::2] = np.where(real, self._phrase_length[np.maximum(phrase, 0)], 0)
        lengths = sizes.sum(1)
        steps = np.arange(int(lengths.max(initial=0)))
        flat_sizes = sizes.ravel()
        begin = np.cumsum(flat_sizes) - flat_sizes
        index = np.repeat(starts.ravel() - begin, flat_sizes) + np.arange(int(flat_sizes.sum()))
        tokens = np.zeros((len(slot), len(steps)), dtype=np.int64)
        tokens[steps[None, :] < lengths[:, None]] = self._pool[index]
        return tokens, lengths


@dataclass(frozen=True, eq=False)
class _SlotIndex:
    """Slots by (caption, kind): a drawn number finds its slot by how many alternatives come before it."""

    totals: np.ndarray  # (captions, kinds)
    before: np.ndarray  # of all alternatives in order of (caption, kind), those before each slot
    slots: np.ndarray  # slots in that order
    start: np.ndarray  # (captions, kinds): alternatives before the first of its slots

    @classmethod
    def of(cls, caption: np.ndarray, kind: np.ndarray, counts: np.ndarray, captions: int, kinds: int) -> "_SlotIndex":
        cell = caption * kinds + kind
        order = np.argsort(cell, kind="stable")
        order = order[counts[order] > 0]
        totals = np.bincount(cell, weights=counts, minlength=captions * kinds).astype(np.int64)
        before = np.cumsum(counts[order]) - counts[order]
        start = np.cumsum(totals) - totals
        return cls(totals.reshape(captions, kinds), before, order, start.reshape(captions, kinds))

    def find(self, captions: np.ndarray, kind: int, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(slot, which of its alternatives) of the alternatives with these numbers."""
        wanted = self.start[captions, kind] + numbers
        place = np.searchsorted(self.before, wanted, side="right") - 1
        return self.slots[place], wanted - self.before[place]


@dataclass(frozen=True, eq=False)
class _Bits:
    """Bitsets of all slots, by list: `group` and `row` say where those of a slot are."""

    group: np.ndarray
    row: np.ndarray
    tables: list[np.ndarray]
    counts: np.ndarray

    def nth(self, slot: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """The alternative that is number `numbers` among those of each slot."""
        alternatives = np.zeros(len(slot), dtype=np.int64)
        for group, table in enumerate(self.tables):
            here = np.flatnonzero(self.group[slot] == group)
            alternatives[here] = nth_ones(table[self.row[slot[here]]], numbers[here])
        return alternatives


@dataclass(frozen=True, eq=False)
class _Edits:
    """Edits of all slots: the varying one (first, last, number of its list's first phrase) and the fixed ones."""

    first: np.ndarray
    last: np.ndarray
    base: np.ndarray
    fixed: np.ndarray  # (slots, most, 3): first, last, phrase; -1 where there is none

    def of(self, slot: np.ndarray, choice: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(first, last, phrase) of all edits of some alternatives, each (drawn, edits), -1 where there is none."""
        varying = np.stack([self.first[slot], self.last[slot], self.base[slot] + choice], axis=1)
        varying[self.first[slot] == self.last[slot]] = -1
        every = np.concatenate([varying[:, None], self.fixed[slot]], axis=1)
        return every[..., 0], every[..., 1], every[..., 2]


class _Phrases:
    """All phrases as vocabulary ids: those of the lists, then the distinct texts of fixed edits."""

    def __init__(self, candidates: Candidates, table: pa.Table, vocabulary: Vocabulary) -> None:
        self._table, lists = table, candidates.words.phrases
        self._names = list(lists)
        fixed = table.column("fixed").combine_chunks()
        self._offsets = np.asarray(fixed.offsets)
        flat = fixed.flatten()
        encoded = flat.field("text").dictionary_encode()
        rows = [vocabulary.encode(token_words(phrase)) for name in self._names for phrase in lists[name]]
        self._base = np.cumsum([0, *(len(lists[name]) for name in self._names)])
        self._fixed = np.stack(
            [
                np.asarray(flat.field("first")).astype(np.int64),
                np.asarray(flat.field("last")).astype(np.int64),
                np.asarray(encoded.indices).astype(np.int64) + len(rows),
            ],
            axis=1,
        ).reshape(-1, 3)
        rows += [vocabulary.encode(token_words(text)) for text in encoded.dictionary.to_pylist()]
        self._known = np.array([UNKNOWN not in row for row in rows], dtype=bool)
        self.tokens = Ragged.of(rows)
        self._list = _codes(table.column("phrases").combine_chunks(), {name: k for k, name in enumerate(self._names)})
        self._widths = {name: width_of(candidates.words, name) for name in self._names}
        self.total = 0

    def edits(self, first: np.ndarray, last: np.ndarray, order: np.ndarray) -> _Edits:
        """Edits of the slots in `order`."""
        lengths = np.diff(self._offsets)
        most = int(lengths.max(initial=0))
        fixed = np.full((len(lengths), most, 3), -1, dtype=np.int64)
        there = np.arange(most)[None, :] < lengths[:, None]
        fixed[there] = self._fixed
        return _Edits(first, last, self._base[self._list[order]], fixed[order])

    def bits(self, order: np.ndarray) -> _Bits:
        """Bitsets of the slots in `order`, without alternatives that have a word outside the vocabulary."""
        group = self._list[order]
        row, tables = np.zeros(len(order), dtype=np.int64), []
        caption = np.repeat(np.arange(len(self._offsets) - 1), np.diff(self._offsets))
        spoilt = np.bincount(caption[~self._known[self._fixed[:, 2]]], minlength=len(self._offsets) - 1) > 0
        counts = np.zeros(len(order), dtype=np.int64)
        packed = self._table.column("allowed").combine_chunks()
        _, ends, data = packed.buffers()
        begin = np.frombuffer(ends, dtype=np.int32)[packed.offset : packed.offset + len(packed)].astype(np.int64)
        every = np.frombuffer(data if data is not None else b"", dtype=np.uint8)
        for k, name in enumerate(self._names):
            here, width = np.flatnonzero(group == k), self._widths[name]
            bits = every[begin[order[here]][:, None] + np.arange(width)]
            self.total += int(np.bitwise_count(bits).sum())
            known = self._known[self._base[k] :][: 8 * width]
            mask = np.zeros(8 * width, dtype=bool)
            mask[: len(known)] = known
            bits &= np.packbits(mask, bitorder="little")
            bits[spoilt[order[here]]] = 0
            counts[here] = np.bitwise_count(bits).sum(1)
            row[here] = np.arange(len(here))
            tables.append(bits)
        return _Bits(group, row, tables, counts)


def _of_captions(
    table: pa.Table, row_of: dict[str, int], hashes: dict[str, str], paradigms: Sequence[str]
) -> tuple[pa.Table, np.ndarray]:
    """Slots of the given captions and paradigms, and their rows; the slots must be of these texts."""
    names = table.column("caption").combine_chunks().dictionary_encode()
    texts = table.column("text_hash").combine_chunks().dictionary_encode()
    every = names.dictionary.to_pylist()
    wanted = np.array([name in row_of for name in every], dtype=bool)
    here = wanted[np.asarray(names.indices)] if len(every) else np.zeros(0, dtype=bool)
    pairs = np.unique(np.stack([np.asarray(names.indices), np.asarray(texts.indices)], axis=1)[here], axis=0)
    made_for = texts.dictionary.to_pylist()
    for name, text in pairs.tolist():
        if hashes[every[name]] != made_for[text]:
            raise InputError(f"contrastive captions of {every[name]}: the caption has changed since they were made")
    kinds = table.column("paradigm").combine_chunks()
    selected = np.array([kind in paradigms for kind in kinds.dictionary.to_pylist()], dtype=bool)
    if len(selected):
        here &= selected[np.asarray(kinds.indices)]
    chosen = np.flatnonzero(here)
    return table.take(pa.array(chosen, pa.int64())), chosen


def _codes(encoded: pa.DictionaryArray, numbers: Mapping[str, int]) -> np.ndarray:
    """The number of every value of a column."""
    of_value = np.array([numbers.get(value, -1) for value in encoded.dictionary.to_pylist()], dtype=np.int64)
    return of_value[np.asarray(encoded.indices)] if len(of_value) else np.zeros(0, dtype=np.int64)


def shares(keys: np.ndarray, totals: np.ndarray, num: int) -> np.ndarray:
    """How many of `num` draws each kind of candidate gets.

    Each draw takes one of the kinds that have something left, with equal probability.

    Args:
        keys: (rows,), 64-bit key of each row.
        totals: (rows, kinds), candidates of each kind.
        num: Draws of a row. A row with fewer candidates in all gives all of them.

    Returns:
        Counts of shape (rows, kinds), at most `totals`.
    """
    taken = np.zeros_like(totals)
    chances = keyed.uniform(keyed.mix(keys), num)
    rows = np.arange(len(totals))
    for k in range(num):
        left = taken < totals
        number = left.sum(1)
        pick = np.minimum((chances[:, k] * number).astype(np.int64), number - 1)
        kind = ((left.cumsum(1) - 1 == pick[:, None]) & left).argmax(1)
        some = number > 0
        taken[rows[some], kind[some]] += 1
    return taken


def distinct(keys: np.ndarray, totals: np.ndarray, wanted: np.ndarray, most: int) -> np.ndarray:
    """Draw distinct numbers for each row (Floyd's algorithm).

    Args:
        keys: (rows,), 64-bit key of each row.
        totals: (rows,); numbers of a row are below its total.
        wanted: (rows,), how many numbers a row gets, at most its total and `most`.
        most: Columns of the result.

    Returns:
        Numbers of shape (rows, most); -1 after the first `wanted` of a row.
    """
    chances = keyed.uniform(keys, most)
    numbers = np.full((len(totals), most), -1, dtype=np.int64)
    for k in range(most):
        top = totals - wanted + k
        drawn = np.minimum((chances[:, k] * (top + 1)).astype(np.int64), top)
        again = (numbers[:, :k] == drawn[:, None]).any(1)
        numbers[:, k] = np.where(k < wanted, np.where(again, top, drawn), -1)
    return numbers


def nth_ones(bits: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Position of the one with this number (from 0) in each row of packed bits (rows, bytes), lowest bit first."""
    if not len(bits):
        return np.zeros(0, dtype=np.int64)
    before = np.cumsum(np.bitwise_count(bits), axis=1, dtype=np.int64)
    byte = (before <= numbers[:, None]).sum(1)
    rows = np.arange(len(bits))
    rest = numbers - np.where(byte > 0, before[rows, np.maximum(byte - 1, 0)], 0)
    ones = np.unpackbits(bits[rows, byte][:, None], axis=1, bitorder="little").cumsum(1)
    return 8 * byte + (ones > rest[:, None]).argmax(1)
