"""The families of plans, by name: the paper's four, its rules, its simple rule in parts, and flips of query bits.

The plans of "the paper" (Manku, Jain and Das Sarma, Detecting Near-Duplicates for Web Crawling, WWW 2007)
are those of its section 3.1; parts and flips are the steps beyond it (docs/design.md).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, chain, combinations, pairwise
from math import comb

from fpstore.checks import shown
from fpstore.format import KEY_BITS, MAX_TABLES
from fpstore.plans.plan import MAX_PLAN_BITS, Plan, TablePlan, check_range, refusal

# The paper scans what is left once it is below 2^tau keys: about two blocks here.
DEFAULT_TAU = 6
MAX_TAU = 40

# What the general rule makes of a width, a distance and a size: small, and each costs up to some milliseconds.
REMEMBERED_SPLITS = 1024

PAPER_DISTANCE = 3
PAPER_KEY_BITS = 64
PAPER_NAMES = ("paper-4", "paper-10", "paper-16", "paper-20")
_PAPER_BANDS = {"paper-4": 4, "paper-10": 5, "paper-20": 6}

_NUMBER = r"(0|[1-9][0-9]{0,19})"
_CHOOSE_NAME = re.compile(rf"choose-{_NUMBER}")
_PARTS_NAME = re.compile(rf"parts-{_NUMBER}:{_NUMBER}")
_FLIPS_NAME = re.compile(rf"flips-{_NUMBER}:({_NUMBER}(?:,{_NUMBER})*)")
_SPREAD_NAME = re.compile(rf"spread-{_NUMBER}:({_NUMBER}(?:,{_NUMBER})*)")
_GENERAL_NAME = re.compile(rf"general-{_NUMBER}:{_NUMBER}")
SCAN_NAME = "scan"
KNOWN_NAMES = (
    *PAPER_NAMES,
    SCAN_NAME,
    "choose-BANDS",
    "parts-PARTS:BANDS",
    "flips-BANDS:FLIPS,FLIPS,...",
    "spread-BANDS:FLIPS,FLIPS,...",
    "general-COUNT:TAU",
)


def even_bands(mask: int, count: int) -> tuple[int, ...]:
    """The bits of `mask` cut into `count` runs from the most significant bit down, wider runs first."""
    bits = [1 << i for i in reversed(range(mask.bit_length())) if mask >> i & 1]
    if not 1 <= count <= len(bits):
        raise refusal("plan, number of bands", str(count), f"1 to {len(bits)}, the bits that there are")
    width, wider_count = divmod(len(bits), count)
    starts = [index * width + min(index, wider_count) for index in range(count + 1)]
    return tuple(sum(bits[start:end]) for start, end in pairwise(starts))


def paper(name: str) -> Plan:
    """One of the paper's four plans for k = 3 and 64 bits (section 3.1.1): paper-4, -10, -16, -20."""
    if name in _PAPER_BANDS:
        return replace(choose(_PAPER_BANDS[name], PAPER_DISTANCE), name=name)
    if name == "paper-16":
        # Bands finer than the 16 bits of the first level, so that the 12 bits of the second are unions too.
        bands = even_bands(_every_bit(PAPER_KEY_BITS), 16)
        prefixes = _prefixes(_every_bit(PAPER_KEY_BITS), PAPER_DISTANCE, {64: 4, 48: 4})
        return Plan(name, PAPER_DISTANCE, bands, tuple(map(TablePlan, prefixes)))
    raise refusal("plan", shown(name), f"one of {', '.join(PAPER_NAMES)}")


def choose(band_count: int, k: int, key_bits: int = KEY_BITS) -> Plan:
    """The paper's simple rule (section 3.1.1): a table for each choice of band_count - k even bands.

    k errors touch at most k bands, so the others are free of errors and one table has just those on top.
    """
    if not 0 <= k < band_count <= key_bits:
        raise refusal(f"plan choose-{band_count}", f"k = {k}", f"k < bands, at most {key_bits} bands")
    check_range(f"choose-{band_count}", "number of tables", comb(band_count, k), 1, MAX_TABLES)
    bands = even_bands(_every_bit(key_bits), band_count)
    tables = tuple(TablePlan(sum(chosen)) for chosen in combinations(bands, band_count - k))
    return Plan(f"choose-{band_count}", k, bands, tables, bits=key_bits)


def parts(part_count: int, prefix_bands: int, k: int, key_bits: int = KEY_BITS) -> Plan:
    """The simple rule in each of several parts: one with e errors has prefix_bands + e bands, and a table for each
    choice of prefix_bands of them.

    The errors of all parts, each e + 1, add up to k + 1, so that k errors leave some part its e or fewer (the
    pigeonhole). All bands are even, and so are the e. Parts with one error more come first.
    """
    name = f"parts-{part_count}:{prefix_bands}"
    errors = _errors_of_parts(part_count, k)
    band_counts = [prefix_bands + e for e in errors]
    if not errors or prefix_bands < 1 or sum(band_counts) > key_bits:
        told = f"1 to k + 1 parts of 1 band or more, and of all at most {key_bits}"
        raise refusal(f"plan {name}", f"k = {k}", told)
    check_range(name, "number of tables", table_count_of_parts(part_count, prefix_bands, k), 1, MAX_TABLES)
    # Each part has its share of the wider bands, so that the shortest prefix is as long as can be.
    ends = [end * key_bits // sum(band_counts) for end in accumulate(band_counts)]
    every_bit = _every_bit(key_bits)
    masks = [every_bit >> begin & ~(every_bit >> end) for begin, end in pairwise([0, *ends])]
    cut = [even_bands(mask, count) for mask, count in zip(masks, band_counts, strict=True)]
    prefixes = [sum(chosen) for bands in cut for chosen in combinations(bands, prefix_bands)]
    return Plan(name, k, tuple(chain.from_iterable(cut)), tuple(map(TablePlan, prefixes)), bits=key_bits)


def table_count_of_parts(part_count: int, prefix_bands: int, k: int) -> int:
    """How many tables `parts` would make of 1 to k + 1 parts."""
    return sum(comb(prefix_bands + e, e) for e in _errors_of_parts(part_count, k))


def _errors_of_parts(part_count: int, k: int) -> tuple[int, ...]:
    """How many errors each part may have; of none where there are more than k + 1, or none."""
    if not 1 <= part_count <= k + 1:
        return ()
    least, more = divmod(k + 1 - part_count, part_count)
    return (least + 1,) * more + (least,) * (part_count - more)


def flips(bands: int | Iterable[int], flip_counts: Iterable[int], k: int, key_bits: int = KEY_BITS) -> Plan:
    """A table for each band, table i probed with every pattern of at most flip_counts[i] flips. Proven.

    bands: how many even bands, or their masks. Of k errors on m bands, some band i has at most e_i when
    sum(e_i) >= k - m + 1 (the general pigeonhole); anything less is a PlanError that names what is missed.
    """
    plan = unproven_flips(bands, flip_counts, k, key_bits)
    plan.prove()
    return plan


def unproven_flips(bands: int | Iterable[int], flip_counts: Iterable[int], k: int, key_bits: int = KEY_BITS) -> Plan:
    """What `flips` makes, before it is proven."""
    masks = even_bands(_every_bit(key_bits), bands) if isinstance(bands, int) else tuple(bands)
    label = str(len(masks)) if masks == even_bands(_every_bit(key_bits), len(masks) or 1) else "masks"
    return _of_bands(f"flips-{label}", masks, tuple(flip_counts), k, key_bits)


def spread(band_count: int, flip_counts: Iterable[int], k: int, key_bits: int = KEY_BITS) -> Plan:
    """As `flips`, of bands whose bits lie far apart: the first is the top, and the others are dealt what follows.

    Where some words of a fingerprint are common, or its neighbouring bits are alike, runs of bits have few values, each
    of which many fingerprints share; bits from all over have more.
    """
    masks = spread_bands(band_count, key_bits)
    plan = _of_bands(f"spread-{band_count}", masks, tuple(flip_counts), k, key_bits)
    plan.prove()
    return plan


def spread_bands(count: int, key_bits: int) -> tuple[int, ...]:
    """The masks of so many bands, the first of which is the top; every bit below it goes to the next of the others."""
    top, *others = even_bands(_every_bit(key_bits), count)
    below = [1 << i for i in reversed(range(key_bits - top.bit_count()))]
    return top, *(sum(below[index :: len(others)]) for index in range(len(others)))


def _of_bands(label: str, masks: tuple[int, ...], counts: tuple[int, ...], k: int, key_bits: int) -> Plan:
    """A table for each band, with so many flips."""
    name = f"{label}:{','.join(map(str, counts))}"
    if len(counts) != len(masks):
        raise refusal(f"plan {name}", f"{len(counts)} flips", f"one for each of {len(masks)} bands")
    return Plan(name, k, masks, tuple(map(TablePlan, masks, counts)), bits=key_bits)


def scan(k: int, key_bits: int = KEY_BITS) -> Plan:
    """One table, in the order of the fingerprints, which catches everything: all keys are read, at any distance.

    Where so few flips as the distance asked for are looked up sooner, that is done.
    """
    every_bit = _every_bit(key_bits)
    return Plan(SCAN_NAME, k, (every_bit,), (TablePlan(every_bit, key_bits),), bits=key_bits)


def general_table_count(key_bits: int, k: int, n: int, tau: int = DEFAULT_TAU) -> int | None:
    """How many tables `general` would make; None when no choice of bands narrows n keys to below 2^tau."""
    return _general_splits(key_bits, k, n, tau)[0]


def general(key_bits: int, k: int, n: int, tau: int = DEFAULT_TAU) -> Plan:
    """The paper's general rule (section 3.1.2) for n = 2^d keys of f = key_bits bits, as an actual plan.

    X(f, k, d) = 1 if d < tau, else min over r > k of C(r, k) * X(fk/r, k, d - (r-k)f/r). That is: split f bits in r
    bands, let some r - k be the prefix, and go on with the rest until fewer than 2^tau keys share a prefix. Bands here
    have whole numbers of bits, so the tables of one level may differ by a level below. At least one split is made.
    Raises PlanError when that takes more than MAX_TABLES tables.
    """
    name = f"general-{n}:{tau}"
    table_count, splits = _general_splits(key_bits, k, n, tau)
    if table_count is None or table_count > MAX_TABLES:
        raise refusal(f"plan {name}, k = {k}", f"{table_count or 'endless'} tables", f"at most {MAX_TABLES}")
    prefixes = tuple(_prefixes(_every_bit(key_bits), k, splits))
    return Plan(name, k, _refinement(key_bits, prefixes), tuple(map(TablePlan, prefixes)), bits=key_bits)


def named(name: str, k: int, key_bits: int = KEY_BITS, *, others: Iterable[str] = ()) -> Plan:
    """The plan of that name for fingerprints of key_bits bits and distance k, proven. PlanError if there is none.

    others: what the caller takes besides, for that message.
    """
    check_range(shown(name), "bits", key_bits, 1, MAX_PLAN_BITS)
    check_range(shown(name), "max_distance", k, 0, key_bits)
    if name in PAPER_NAMES:
        check_range(name, "bits", key_bits, PAPER_KEY_BITS, PAPER_KEY_BITS)
        plan = replace(paper(name), max_distance=k)
    elif name == SCAN_NAME:
        plan = scan(k, key_bits)
    elif match := _CHOOSE_NAME.fullmatch(name):
        plan = choose(int(match[1]), k, key_bits)
    elif match := _PARTS_NAME.fullmatch(name):
        plan = parts(int(match[1]), int(match[2]), k, key_bits)
    elif match := _FLIPS_NAME.fullmatch(name):
        plan = flips(int(match[1]), map(int, match[2].split(",")), k, key_bits)
    elif match := _SPREAD_NAME.fullmatch(name):
        plan = spread(int(match[1]), map(int, match[2].split(",")), k, key_bits)
    elif match := _GENERAL_NAME.fullmatch(name):
        plan = general(key_bits, k, int(match[1]), int(match[2]))
    else:
        raise refusal("plan", shown(name), f"one of {', '.join((*others, *KNOWN_NAMES))}")
    plan.prove()
    return plan


def of_tables(tables: Iterable[TablePlan], key_bits: int = KEY_BITS) -> Plan:
    """The plan that has just these tables of key_bits bits, for the largest k at which it misses nothing."""
    chosen = tuple(tables)
    bands = _refinement(key_bits, tuple(table.prefix_mask for table in chosen))
    plan = Plan("of these tables", 0, bands, chosen, bits=key_bits)
    plan.prove()
    for distance in range(1, key_bits + 1):
        larger = replace(plan, max_distance=distance)
        if larger.missed() is not None:
            break
        plan = larger
    return plan


def _every_bit(key_bits: int) -> int:
    return (1 << key_bits) - 1


def _general_splits(key_bits: int, k: int, n: int, tau: int) -> tuple[int | None, Mapping[int, int]]:
    """The paper's minimum: how many tables, and into how many bands to split what has f bits left, by f."""
    where = f"general-{n}:{tau}"
    check_range(where, "key_bits", key_bits, 1, MAX_PLAN_BITS)
    check_range(where, "k", k, 0, MAX_PLAN_BITS)
    check_range(where, "number of keys", n, 0, 1 << key_bits)
    check_range(where, "tau", tau, 1, MAX_TAU)
    # In whole numbers, d < tau where n < 2^(tau + key_bits - f).
    return _fewest_tables(key_bits, k, key_bits + tau - int(n).bit_length())


@lru_cache(maxsize=REMEMBERED_SPLITS)
def _fewest_tables(key_bits: int, k: int, narrow_bits: int) -> tuple[int | None, Mapping[int, int]]:
    """The same where a table of up to narrow_bits bits left has d < tau.

    The bits left determine d = log2 n - (key_bits - f), so f alone is the state. Widths of even bands differ
    by one; the choices are counted by how many wide bands they take.
    """
    fewest: dict[int, int | None] = {}
    splits: dict[int, int] = {}
    for bits_left in range(key_bits + 1):
        # The first split is made in any case: a table needs a prefix.
        if bits_left < key_bits and bits_left <= narrow_bits:
            fewest[bits_left] = 1
            continue
        fewest[bits_left] = None
        for band_count in range(k + 1, bits_left + 1):
            best = fewest[bits_left]
            if best is not None and best <= comb(band_count, k):
                break  # a split has a table at least for each choice, and more bands have as many choices, or more
            tables = _tables_of_split(bits_left, band_count, k, fewest)
            if tables is not None and (best is None or tables < best):
                fewest[bits_left] = tables
                splits[bits_left] = band_count
    return fewest[key_bits], splits


def _tables_of_split(bits_left: int, band_count: int, k: int, fewest: Mapping[int, int | None]) -> int | None:
    width, wide_count = divmod(bits_left, band_count)
    chosen = band_count - k
    tables = 0
    for wide in range(max(0, chosen - (band_count - wide_count)), min(chosen, wide_count) + 1):
        below = fewest[bits_left - chosen * width - wide]
        if below is None:
            return None
        tables += comb(wide_count, wide) * comb(band_count - wide_count, chosen - wide) * below
    return tables


def _prefixes(bits_left: int, k: int, splits: Mapping[int, int]) -> Iterator[int]:
    """Every prefix of the recursion: of a split, the bands free of errors and a prefix of the other bits."""
    band_count = splits.get(bits_left.bit_count())
    if band_count is None:
        yield 0
        return
    for chosen in combinations(even_bands(bits_left, band_count), band_count - k):
        for below in _prefixes(bits_left & ~sum(chosen), k, splits):
            yield sum(chosen) | below


def _refinement(key_bits: int, prefixes: tuple[int, ...]) -> tuple[int, ...]:
    """The widest runs of bits of which every prefix is a union, from the most significant down."""
    bands: list[int] = []
    run_owners: list[int] | None = None
    for i in reversed(range(key_bits)):
        owners = [index for index, prefix in enumerate(prefixes) if prefix >> i & 1]
        if owners == run_owners:
            bands[-1] |= 1 << i
        else:
            bands.append(1 << i)
            run_owners = owners
    return tuple(bands)
