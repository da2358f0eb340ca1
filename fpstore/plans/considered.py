"""The plans that are considered for a distance, before anybody has asked what they cost."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from math import comb

from fpstore.plans import families
from fpstore.plans.plan import Plan

# More tables than this is beyond any limit on bytes below: at 10^11 keys a table takes 4 bytes a key.
MAX_TABLES_CONSIDERED = 64
CHOICES_OF_BANDS = 6  # k + 1 bands up to k + 6; more make prefixes longer than any slot needs
# Up to this distance every way to spread flips over bands is considered, beyond it the most even one alone. No other
# was the fastest of its size at any k from 4 to 12 and n up to 10^13; there are 200 ways at k = 12, millions at k = 64.
MAX_SPREAD = 4
# The slots of a policy, at several distances.
REMEMBERED_FAMILIES = 64
TAUS = (4, 6, 8, 12, 16)


def considered(n: int, k: int, bits: int, slot_keys: int) -> tuple[Plan, ...]:
    """The plans for n fingerprints, in slots of so many keys; families overlap, and the first to have some tables names
    them. None is proven yet.
    """
    return *_of_any_count(k, bits, slot_keys), *_general(n, k, bits, slot_keys)


@cache
def scan_plan(k: int, bits: int, slot_keys: int) -> Plan:
    """The scan, in slots of so many keys."""
    return replace(families.scan(k, bits), slot_keys=slot_keys)


@lru_cache(maxsize=REMEMBERED_FAMILIES)
def _of_any_count(k: int, bits: int, slot_keys: int) -> tuple[Plan, ...]:
    """The plans that do not depend on how many keys there are."""
    of_paper = (k, bits) == (families.PAPER_DISTANCE, families.PAPER_KEY_BITS)
    found = [families.paper(name) for name in families.PAPER_NAMES] if of_paper else []
    choices = range(k + 1, min(k + CHOICES_OF_BANDS, bits) + 1)
    found += [families.choose(count, k, bits) for count in choices if comb(count, k) <= MAX_TABLES_CONSIDERED]
    # One part is choose; k + 1 parts, and one band of each, are bands without a flip, which come below. Elsewhere parts
    # take two to nine times the bytes for nearly as long, and proofs of many take too many steps.
    found += [
        families.parts(part_count, prefix_bands, k, bits)
        for part_count in (range(2, k + 1) if of_paper else ())
        for prefix_bands in range(2, CHOICES_OF_BANDS + 1)
    ]
    for band_count in range(1, min(k + 1, bits, MAX_TABLES_CONSIDERED) + 1):
        narrowest_bits = bits // band_count  # more flips than a band has bits are no plan
        flips = k - band_count + 1
        spread = _partitions(flips, band_count, narrowest_bits) if k <= MAX_SPREAD else [_evenly(flips, band_count)]
        found += [families.unproven_flips(band_count, counts, k, bits) for counts in spread]
    return tuple(replace(plan, slot_keys=slot_keys) for plan in found)


def _general(n: int, k: int, bits: int, slot_keys: int) -> Iterator[Plan]:
    for tau in TAUS:
        table_count = families.general_table_count(bits, k, n, tau)
        if table_count is not None and table_count <= MAX_TABLES_CONSIDERED:
            yield replace(families.general(bits, k, n, tau), slot_keys=slot_keys)


def _partitions(total: int, parts: int, most: int) -> Iterator[tuple[int, ...]]:
    """Every way to write total as so many terms of 0 to most, largest first: wider bands get more flips."""
    if parts == 0:
        if total == 0:
            yield ()
        return
    for first in range(min(total, most), -1, -1):
        for rest in _partitions(total - first, parts - 1, first):
            yield (first, *rest)


def _evenly(total: int, parts: int) -> tuple[int, ...]:
    """total as so many terms that differ by one at most, largest first."""
    least, more = divmod(total, parts)
    return (least + 1,) * more + (least,) * (parts - more)
