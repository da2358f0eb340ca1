"""The planner of wide fingerprints: what each plan would cost for n of them, and which one to use.

A plan is a band for each table, and as many flips as distance and bands ask for. Predictions are arithmetic by
docs/format.md, section 10, on uniform codes; the time is a model of one query on one thread with all in memory.
"""

from dataclasses import replace
from functools import cache
from math import comb

from fpstore.checks import wrong
from fpstore.errors import PlanError
from fpstore.format import CRC_BYTES, MAX_SLOT_BITS, PAGE_BYTES, SEGMENT_RECORD_BYTES, TABLE_RECORD_BYTES, WORD_BITS
from fpstore.plans import families
from fpstore.plans.plan import Plan, TablePlan
from fpstore.plans.planner import AIMS, CACHE_BYTES, MIN_PLANNED_KEYS, Prediction, beyond, slot_bits

MAX_WIDE_DISTANCE = 64
# On average; up to twice as many. Smaller slots are more of them, larger ones more lines of memory each: at 10^7 codes
# of 256 bits twice as many took 1.06 to 1.16 times as long for hashes of source code, for a twentieth fewer bytes.
SLOT_CODES = 4
MAX_TAG_BITS = 8
MAX_LEVELS, MAX_LEVEL_TABLES = 8, 128  # native/codes.h
# Fitted as those of the planner of narrower ones, at 10^6 and 10^7 codes of 256 bits, k = 3 to 31, in 1 to 14 bands,
# and of 128 bits, k = 1 to 16, in 1 to 8, on the same machine: all of 88 stores take 0.73 to 1.3 of what is said.
QUERY_NS, TABLE_NS = 280.0, 190.0
SLOT_NS = 17.5  # a slot looked at, with its entries
# And more for a line that comes from memory, while others are under way. It says where so many slots start, which
# differ in their low bits; of the first table it is that of a slot's first code.
FAR_LINE_NS, LINE_SLOT_BITS = 22.5, 4
CODE_NS, FAR_CODE_NS = 19.0, 34.0  # a code that is read for its entry, and more where it comes from memory
ORDERED_CODE_NS = 1.5  # one compared in a slot of the first table, in whose order they lie
GUIDE_RANGES = 1 << 18  # native/codes.c
WORD_NS, FAR_WORD_NS = 0.29, 0.3  # of codes that are all read in order
SIZE_SLOWDOWN = 32
BALANCED_COPIES = 2.5  # bytes a code, in codes
SPEED_COPIES = 5.0
NEARLY = 1.05
FILE_BYTES = SEGMENT_RECORD_BYTES + 128
MAX_CODES = 10**13


def predict_wide(plan: Plan, n: int, distance: int | None = None) -> Prediction:
    """The costs of the plan for n wide fingerprints without ids. ValueError for an n that no store holds.

    distance: of a probe, at most the plan's, which it is by default; for less not all levels of a table are looked at.
    """
    if not 0 <= n <= MAX_CODES:
        raise ValueError(f"n: found {n}, expected 0 to {MAX_CODES} fingerprints")
    rank_bits = max(1, (n - 1).bit_length()) if n else 1
    size, slots, entries, candidates = float(FILE_BYTES + n * plan.bits // 8), 0, 0.0, 0.0
    codes, ordered, lines, first_lines, reaches = 0.0, 0.0, 0, 0, _reaches(plan)
    distance = plan.max_distance if distance is None else distance
    first = plan.tables[0]
    known = min(slot_bits(n, plan.slot_keys), first.prefix_bits, max(1, min(n, GUIDE_RANGES)).bit_length() - 2)
    for table, reach in zip(plan.tables, reaches, strict=True):
        s = min(slot_bits(n, plan.slot_keys), table.prefix_bits, MAX_SLOT_BITS)
        in_order = _is_in_order(table, plan.bits)
        tag = 0 if in_order else min(MAX_TAG_BITS, table.prefix_bits - s)
        flips = table.flips if reaches[-1] is None else _flips_within(reach, distance, len(reaches))
        visited, matching = _patterns(s, flips), _patterns(s + tag, flips)
        slots += visited
        size += TABLE_RECORD_BYTES + (4 if n < 1 << 32 else 8) * ((1 << s) + 1)
        candidates += matching * n / (1 << (s + tag))
        if in_order:
            first_lines += visited
            ordered += visited * n / (1 << s)
            continue
        entries += visited * n / (1 << s)
        lines += _patterns(max(0, s - LINE_SLOT_BITS), flips)
        size += n * (rank_bits + tag) / 8
        for level in range(min(flips, s + tag) + 1):
            share = 1.0 if reach is None else _patterns(known, distance + reach[level]) / (1 << max(0, known))
            codes += comb(s + tag, level) * n / (1 << (s + tag)) * share
    code_bytes = n * plan.bits / 8
    far, far_codes = beyond(CACHE_BYTES, size - code_bytes), beyond(CACHE_BYTES, code_bytes)
    searched = TABLE_NS * len(plan.tables) + SLOT_NS * slots + FAR_LINE_NS * (far * lines + far_codes * first_lines)
    searched += (CODE_NS + FAR_CODE_NS * far_codes) * codes + ORDERED_CODE_NS * ordered
    return Prediction(
        plan=plan,
        n=n,
        slot_bits=min(slot_bits(n, plan.slot_keys), MAX_SLOT_BITS),
        file_bytes=round(size * (1 + CRC_BYTES / PAGE_BYTES)),
        probes=slots,
        block_decodes=slots,
        keys_decoded=entries + ordered,
        candidates=candidates,
        nanoseconds=QUERY_NS + min(searched, all_nanoseconds(n, plan.bits)),
    )


def all_nanoseconds(n: int, bits: int) -> float:
    """What one query takes that is compared with all n codes, in order."""
    return (WORD_NS + FAR_WORD_NS * beyond(CACHE_BYTES, n * bits / 8)) * n * bits / WORD_BITS


def _flips_within(reach: tuple[int, ...] | None, distance: int, tables: int) -> int:
    """With how many flips a table is looked up for a distance, by native/codes_levels.h; -1 where it is not at all.

    As where all are as crowded: distance + 1 levels are dealt to so many tables by turns, to the first one last. reach:
    that of _reaches.
    """
    of_first = (distance + 1) // tables
    return of_first - 1 if reach is None else sum(distance + each >= of_first for each in reach) - 1


def _reaches(plan: Plan) -> list[tuple[int, ...] | None]:
    """Of each table and level, by how much the errors in the first table's bits may exceed the distance of a search.

    As native/codes_levels.h says; a search chooses levels by what its query finds, for which here all tables are as
    crowded. None for the first table, and where tables look on all levels.
    """
    first, *others = plan.tables
    masks = [table.prefix_mask for table in plan.tables]
    disjoint = sum(masks).bit_count() == sum(mask.bit_count() for mask in masks)
    highest = max(table.flips for table in plan.tables)
    if (
        not 1 <= len(others) < MAX_LEVEL_TABLES
        or not disjoint
        or not _is_in_order(first, plan.bits)
        or highest >= MAX_LEVELS
    ):
        return [None] * len(plan.tables)
    levels = range(highest + 1)
    return [None, *(tuple(place + 1 - len(others) * (level + 1) for level in levels) for place in range(len(others)))]


def _is_in_order(table: TablePlan, bits: int) -> bool:
    return table.prefix_mask == ((1 << table.prefix_bits) - 1) << (bits - table.prefix_bits)


def choose_wide(n: int, k: int, aim: str | float, bits: int) -> Plan:
    """The plan for n wide fingerprints that serves the aim best, proven.

    - "size": the fewest bytes, unless that takes SIZE_SLOWDOWN times as long as the fastest;
    - "balanced", "speed": of BALANCED_COPIES and SPEED_COPIES times the bytes of the fingerprints at most, the fewest
      bytes that take no more than NEARLY the time of the fastest: narrower bands suffer more where bits are not even;
    - a number: the fastest in so many bytes a fingerprint; PlanError where there is none.

    Ties go to fewer bytes. Fewer than MIN_PLANNED_KEYS are expected to become that many.
    """
    planned = max(n, MIN_PLANNED_KEYS)
    found = [predict_wide(plan, planned) for plan in _families(k, bits)]
    fastest = min(each.nanoseconds for each in found)
    if aim == "size":
        within = [each for each in found if each.nanoseconds <= SIZE_SLOWDOWN * fastest]
        best = min(within, key=lambda each: (each.file_bytes, each.nanoseconds))
    else:
        copies = {"balanced": BALANCED_COPIES, "speed": SPEED_COPIES}
        if isinstance(aim, str) and aim not in copies:
            raise ValueError(f"aim: found {aim!r:.40}, expected {', '.join(AIMS)} or a number of bytes per key")
        most = copies[aim] * bits / 8 if isinstance(aim, str) else aim
        within = [each for each in found if each.file_bytes <= most * planned]
        if not within:
            least = min(each.bytes_per_key for each in found)
            raise PlanError(wrong(f"plan for n = {n}, k = {k}", f"{least:.2f} bytes per key", f"{most:g}"))
        fastest = min(each.nanoseconds for each in within)
        nearly = [each for each in within if each.nanoseconds <= NEARLY * fastest]
        best = min(nearly, key=lambda each: (each.file_bytes, each.nanoseconds))
    best.plan.prove()
    return best.plan


def choices_wide(n: int, k: int, bits: int) -> list[Prediction]:
    """The plans worth a look, smallest first, each faster than all before it, and those that the aims pick."""
    found = sorted((predict_wide(plan, n) for plan in _families(k, bits)), key=lambda each: each.file_bytes)
    picked: dict[Plan, list[str]] = {}
    fastest = float("inf")
    for each in found:
        if each.nanoseconds < fastest:
            picked[each.plan] = []
            fastest = each.nanoseconds
    for aim in AIMS:
        picked.setdefault(choose_wide(n, k, aim, bits), []).append(aim)
    predictions = [replace(predict_wide(plan, n), picked_by=tuple(aims)) for plan, aims in picked.items()]
    return sorted(predictions, key=lambda each: (each.file_bytes, each.nanoseconds))


def flips_over(band_count: int, k: int, bits: int) -> Plan:
    """A table for each of so many spread bands, with as many flips as k asks for: the first bands have the fewest.

    The first is the top of a fingerprint, where they lie in order: what its slots hold is all compared.
    """
    least, more = divmod(k + 1, band_count)
    counts = [least - 1 + (index >= band_count - more) for index in range(band_count)]
    return replace(families.spread(band_count, counts, k, bits), slot_keys=SLOT_CODES)


@cache
def _families(k: int, bits: int) -> tuple[Plan, ...]:
    if not 0 <= k <= MAX_WIDE_DISTANCE:
        raise ValueError(f"max_distance: found {k}, expected 0 to {MAX_WIDE_DISTANCE}")
    return tuple(flips_over(band_count, k, bits) for band_count in range(1, min(k + 1, bits) + 1))


def _patterns(bits: int, flips: int) -> int:
    """How many patterns of at most so many flips there are; none for fewer than 0 flips or bits."""
    return sum(comb(bits, used) for used in range(min(flips, bits) + 1))
