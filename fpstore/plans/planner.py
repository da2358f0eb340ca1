"""The planner: what each plan would cost for n fingerprints, and which one to use.

Predictions are arithmetic by the layout of docs/format.md, on uniform keys or on keys whose code is known to take
fewer bits; the time is a model of one query on one thread with everything in memory, which looks up or reads all keys,
whichever costs less. The same n, k and aim always give the same plan.
"""

from collections import Counter
from dataclasses import dataclass
from dataclasses import replace as _replace
from functools import cache, partial
from math import ceil, comb, inf, log2, nextafter

from fpstore.errors import PlanError
from fpstore.format import (
    ALIGNMENT,
    BLOCK_BYTES,
    CRC_BYTES,
    FENCE_BYTES,
    FOOTER_BYTES,
    HEADER_BYTES,
    KEY_BITS,
    MAX_SLOT_BITS,
    PAGE_BYTES,
    SEGMENT_RECORD_BYTES,
    TABLE_RECORD_BYTES,
    directory_bytes,
)
from fpstore.plans import families as plans
from fpstore.plans.considered import considered, scan_plan
from fpstore.plans.plan import Plan

# The time model: one of many queries, each another, on one thread, a store whose pages are mapped already. Fitted to
# what tools/bench_plans.py measures at 10^6 and 10^7 keys, k = 0 to 16, on an Intel Xeon with AVX-512, whose caches
# other machines share, at real-time priority beside other work. Of 172 stores that are looked up 167 take 0.8 to 1.25
# of what is said, and the others 0.75 to 1.27.
QUERY_NS = 50.0
TABLE_NS = 60.0  # one table begun: nothing of it is under way, and its pages' addresses are not known yet
BLOCK_NS = 16.0  # one block located, asked for and begun
# And more where it comes from memory, with what says where it is, while others are under way. Its next lines come by
# themselves, so that a block of 38 keys waits no longer than one of 10.
FAR_BLOCK_NS = 33.0
CACHE_BYTES = 32 << 20  # of a file, what comes from a cache
KEY_NS = 1.4  # one key decoded and compared
# What a search of a directory of blocks waits for, of a block and of a table; and more where that is beyond a
# second-level cache, with those of the other tables.
FENCES_NS, TABLE_FENCES_NS = 50.0, 75.0
FAR_FENCES_NS, FAR_TABLE_FENCES_NS = 75.0, 105.0
NEAR_BYTES = 1 << 20
# A scan, which decodes table 0 once for all queries of a batch: tools/bench_far.py.
SCAN_CALL_NS = 3000.0  # one scan of a segment begun, and what it found put together
SCAN_KEY_NS, SCAN_BLOCK_KEY_NS = 1.6, 4.3  # one key decoded, of a slot and of a block
COMPARE_NS = 0.085  # and compared with one query
NEARLY_ALL = 0.9  # of the keys: who looks up the slots of so many takes no less time than a scan

# The size model; its other numbers are those of the format.
CODE_EXCESS_BITS = 0.12  # Huffman's whole-bit words and their limit of 12 bits, over the entropy
SET_SAVING_BITS = 1.44  # log2 e: a set of n keys has no order, which saves log2(n!) bits
FILE_BYTES = HEADER_BYTES + FOOTER_BYTES + SEGMENT_RECORD_BYTES
TABLE_BYTES = TABLE_RECORD_BYTES + ALIGNMENT  # the zeros before two regions are half a line each

AIMS = ("size", "balanced", "speed")
MAX_DISTANCE = 64
MAX_KEYS = 10**13  # beyond it the payload of one table outgrows its 48-bit offsets
# A store grows and its plan stays, and a small store is fast under any plan: choose for at least this many.
MIN_PLANNED_KEYS = 10**6
# One table with k flips is always the smallest. At k = 3 and 10^6 keys or more the model gives it 60 to 160
# times the time of the fastest plan, and two tables 3 to 5 times: the limit lies between.
SIZE_SLOWDOWN = 32
# Of "balanced" where "size" is a scan, which it then may be as fast as only with several tables more.
BALANCED_TABLES = 3
# Fewer keys are expected to become more than a scan is good for: at 12 us each, nobody loses by a plan that scales.
LEAST_SCANNED = 10**4
# A scan is picked up to so many times the bytes times time of tables: near where they change places the model says of
# these 0.6 to 0.97 of what was measured, the median 0.86, beside what it says of scans.
SCAN_WORTH = 1.2
SPEED_BYTES_PER_KEY = 80
NEARLY_AS_FAST = 1.1  # the model is no better, so such a difference is worth no bytes
# A file below this is within every limit on bytes per key: a few keys cannot pay for its fixed parts.
NEGLIGIBLE_FILE_BYTES = 1 << 16


@dataclass(frozen=True)
class _SlotPolicy:
    """An average of slot_keys to twice as many keys in a slot, and the promise that it serves."""

    slot_keys: int
    excess: float  # what a table may take above the entropy bound


SMALL = _SlotPolicy(24, 0.03)
MIDDLE = _SlotPolicy(12, 0.03)  # with 12 keys for 24 a search takes 0.75 to 0.8 of the time, for 1.7 % more bytes
FAST = _SlotPolicy(6, 0.08)
# Of 10^8 keys a slot has 23.8 or 47.7, which take 1.15 of the time of the others and 0.99 of the bytes.
NEARLY_SMALL = _SlotPolicy(23, 0.03)


@dataclass(frozen=True)
class Prediction:
    """What a plan would cost for n distinct fingerprints without ids.

    A file has file_bytes and 2^slot_bits slots in each table; the rest is for one query.
    probes: patterns looked for, over all tables. block_decodes: slots decoded for them. keys_decoded: keys in
    these up to the last that is looked at. candidates: keys that share a probed prefix. nanoseconds: on one thread
    with everything in memory, by a model: of looking up, lookup_nanoseconds, or of reading all keys where that is less.
    picked_by: which of size, balanced and speed take this plan.
    """

    plan: Plan
    n: int
    slot_bits: int
    file_bytes: int
    probes: int
    block_decodes: int
    keys_decoded: float
    candidates: float
    nanoseconds: float
    picked_by: tuple[str, ...] = ()
    lookup_nanoseconds: float = 0.0

    @property
    def method(self) -> str:
        """What `Matches.method` says of one query: "scan" where reading all keys takes less time than looking up."""
        return "scan" if self.nanoseconds < self.lookup_nanoseconds else "probe"

    @property
    def directory_bytes(self) -> int:
        """Of all directories, on uniform fingerprints: lines of slots, or a last key and the place of each block."""
        if not self.plan.block_bytes:
            return len(self.plan.tables) * directory_bytes(self.slot_bits)
        block_keys = _block_keys(self.n, self.plan, _code_bits(self.n, self.plan.bits))
        return len(self.plan.tables) * FENCE_BYTES * ceil(self.n / block_keys)

    @property
    def bytes_per_key(self) -> float:
        """The file's bytes for each fingerprint, all tables together; 0 when there is none."""
        return self.file_bytes / self.n if self.n else 0.0

    def to_json(self) -> dict[str, object]:
        """As plain values; the plan by its name, which with slot_keys tells it from the others."""
        return {
            "plan": self.plan.name,
            "picked_by": list(self.picked_by),
            "tables": len(self.plan.tables),
            "slot_keys": self.plan.slot_keys,
            "block_bytes": self.plan.block_bytes,
            "directory_bytes": self.directory_bytes,
            "file_bytes": self.file_bytes,
            "bytes_per_key": self.bytes_per_key,
            "probes": self.probes,
            "block_decodes": self.block_decodes,
            "keys_decoded": self.keys_decoded,
            "candidates": self.candidates,
            "nanoseconds": self.nanoseconds,
            "method": self.method,
        }


def slot_bits(n: int, slot_keys: int) -> int:
    """The largest s for which 2^s slots hold slot_keys keys or more on average; 0..40, and 0 for few keys."""
    return min(MAX_SLOT_BITS, max(0, (n // slot_keys).bit_length() - 1))


def predict(plan: Plan, n: int, bits_saved: float = 0.0) -> Prediction:
    """The costs of the plan for n fingerprints. ValueError for an n that no store holds.

    bits_saved: by how much the code of a skewed fingerprint is shorter than that of a uniform one; see `saving`.
    """
    _check_count(n, plan.bits)
    s = slot_bits(n, plan.slot_keys)
    slot_keys = n / (1 << s)
    code_bits = max(0.0, _code_bits(n, plan.bits) - bits_saved)
    if plan.block_bytes:
        return _predict_blocks(plan, n, s, code_bits)
    probes = block_decodes = 0
    keys_decoded = candidates = 0.0
    for (p, flips), tables in _kinds(plan).items():
        patterns = pattern_count(p, flips)
        probes += tables * patterns
        candidates += tables * patterns * n / (1 << p)
        if p < s:
            run = 1 << (s - p)  # whole slots, neighbours in the directory and in the payload
            decodes = patterns * run
            keys_decoded += tables * decodes * slot_keys
        else:
            decodes = pattern_count(s, flips)
            for used in range(min(flips, s) + 1):
                keys_decoded += tables * comb(s, used) * slot_keys * _reach(p - s, flips - used)
        block_decodes += tables * decodes
    file_bytes = _file_bytes(n, s, len(plan.tables), code_bits)
    block_ns = BLOCK_NS + FAR_BLOCK_NS * beyond(CACHE_BYTES, file_bytes)
    looked_up = begun_nanoseconds(plan) + block_ns * block_decodes + KEY_NS * keys_decoded
    if keys_decoded > NEARLY_ALL * n:
        looked_up = max(looked_up, nextafter(scan_nanoseconds(n), inf))
    return Prediction(
        plan=plan,
        n=n,
        slot_bits=s,
        file_bytes=file_bytes,
        probes=probes,
        block_decodes=block_decodes,
        keys_decoded=keys_decoded,
        candidates=candidates,
        nanoseconds=min(looked_up, scan_nanoseconds(n)),
        lookup_nanoseconds=looked_up,
    )


def _kinds(plan: Plan) -> Counter[tuple[int, int]]:
    """How many tables there are of so many prefix bits and flips: more flips than errors are never made."""
    return Counter((table.prefix_bits, min(table.flips, plan.max_distance)) for table in plan.tables)


def begun_nanoseconds(plan: Plan) -> float:
    """What it takes of a query's time to begin with it, and with each table, while nothing of these is under way.

    Next to nothing in one call for thousands: they are under way together, and where tables begin is in the caches.
    """
    return QUERY_NS + TABLE_NS * len(plan.tables)


def scan_nanoseconds(n: int, query_count: int = 1, block_bytes: int = 0) -> float:
    """What one of so many queries takes on one thread where all n keys are decoded once for them, and compared."""
    key_ns = SCAN_BLOCK_KEY_NS if block_bytes else SCAN_KEY_NS
    return (SCAN_CALL_NS + key_ns * n) / max(1, query_count) + COMPARE_NS * n


def beyond(cache_bytes: int, held_bytes: float) -> float:
    """The share of so many bytes that a cache does not hold."""
    return max(0.0, 1 - cache_bytes / max(1.0, held_bytes))


def in_blocks(prediction: Prediction, bits_saved: float = 0.0, block_bytes: int = BLOCK_BYTES) -> Prediction:
    """The costs of a plan where tables are laid out in blocks of so many bytes."""
    found = predict(_replace(prediction.plan, block_bytes=block_bytes), prediction.n, bits_saved)
    return _replace(found, picked_by=prediction.picked_by)


def _predict_blocks(plan: Plan, n: int, s: int, code_bits: float) -> Prediction:
    """`predict` for tables of blocks: a probe looks for ranges of keys, decodes half of a block on average, and more
    where the range goes on.
    """
    block_keys = _block_keys(n, plan, code_bits)
    blocks = ceil(n / block_keys)
    probes = 0
    decodes = keys_decoded = candidates = 0.0
    for (p, flips), tables in _kinds(plan).items():
        patterns = pattern_count(p, flips)
        probes += tables * patterns
        candidates += tables * patterns * n / (1 << p)
        ranges = tables * pattern_count(min(p, s), flips)
        range_keys = n / (1 << p)
        decodes += ranges * (1 + range_keys / block_keys) if n else 0
        keys_decoded += ranges * (block_keys / 2 + range_keys)
    table_bits = n * code_bits + blocks * (plan.bits - code_bits + 8 * FENCE_BYTES)
    table_bytes = ceil(table_bits / 8 * (1 + CRC_BYTES / PAGE_BYTES))
    file_bytes = FILE_BYTES + len(plan.tables) * (TABLE_BYTES + table_bytes)
    far = beyond(NEAR_BYTES, FENCE_BYTES * blocks * len(plan.tables))
    block_ns = BLOCK_NS + FENCES_NS + FAR_FENCES_NS * far + FAR_BLOCK_NS * beyond(CACHE_BYTES, file_bytes)
    table_ns = TABLE_NS + TABLE_FENCES_NS + FAR_TABLE_FENCES_NS * far
    looked_up = QUERY_NS + table_ns * len(plan.tables) + block_ns * decodes + KEY_NS * keys_decoded
    return Prediction(
        plan=plan,
        n=n,
        slot_bits=s,
        file_bytes=file_bytes,
        probes=probes,
        block_decodes=round(decodes),
        keys_decoded=keys_decoded,
        candidates=candidates,
        nanoseconds=min(looked_up, scan_nanoseconds(n, 1, plan.block_bytes)),
        lookup_nanoseconds=looked_up,
    )


def saving(n: int, code_bits: float, bits: int = KEY_BITS) -> float:
    """bits_saved for `predict`, where the code was found to take code_bits a key in a table of n; may be negative."""
    return _code_bits(n, bits) - code_bits if n else 0.0


def choose(n: int, k: int, aim: str | float, bits: int = KEY_BITS) -> Plan:
    """The plan for n fingerprints of so many bits and distance k that serves the aim best, proven.

    - "size": the fewest bytes, unless that takes SIZE_SLOWDOWN times as long as the fastest plan; or fewer yet, where
      they shrink by more than the time grows; in slots of NEARLY_SMALL where these are half of SMALL's, and the time
      shrinks by more than the bytes grow;
    - "balanced": the fastest in slots of MIDDLE, or of SMALL, with at most one table more than "size" has, or
      BALANCED_TABLES where that is a scan; the scan itself, where its bytes times time are at most SCAN_WORTH times
      theirs; what "speed" has, where that takes fewer bytes, as small slots of few tables do for some n;
    - "speed": the fastest of at most SPEED_BYTES_PER_KEY, or the smallest nearly as fast and no slower than "balanced";
    - a number: the fastest of at most so many bytes per fingerprint, or NEGLIGIBLE_FILE_BYTES, or the smallest nearly
      as fast; PlanError when there is none.

    So from LEAST_SCANNED on "balanced" is no slower than "size", nor "speed" than "balanced"; and from "size" to
    "speed" none takes fewer bytes than the one before. Ties go to fewer bytes, then to the name. Fewer than
    MIN_PLANNED_KEYS are expected to become that many, unless a scan serves the n there are, from LEAST_SCANNED on.
    Raises ValueError for another aim, and for n or k out of range.
    """
    if aim not in AIMS if isinstance(aim, str) else not 0 < aim < inf:
        raise ValueError(f"aim: found {aim!r:.40}, expected {', '.join(AIMS)} or a number of bytes per key")
    planned = max(n, min(MIN_PLANNED_KEYS, 1 << bits))
    small, every = _candidates(planned, k, SMALL, bits), partial(_every_candidate, planned, k, bits)
    if aim == "size":
        best = _smallest(n, small)
    elif isinstance(aim, str):
        balanced = _balanced(n, _smallest(n, small), _candidates(planned, k, MIDDLE, bits) + small)
        fastest = _fastest(n, balanced, every())
        smaller = predict(fastest.plan, n).file_bytes < predict(balanced.plan, n).file_bytes
        best = fastest if aim == "speed" or smaller else balanced
    else:
        best = _fastest_within(n, float(aim), every())
    best.plan.prove()
    return best.plan


def table_of_choices(n: int, k: int, bits: int = KEY_BITS) -> list[Prediction]:
    """The plans worth a look, smallest first: each faster than all before it, and for k = 3 the paper's.

    Raises ValueError for n or k out of range.
    """
    choices = []
    fastest = inf
    for prediction in sorted(_every_candidate(n, k, bits), key=_by_size):
        faster = prediction.nanoseconds < fastest
        fastest = min(fastest, prediction.nanoseconds)
        of_paper = prediction.plan.name in plans.PAPER_NAMES and prediction.plan.slot_keys >= SMALL.slot_keys
        if faster or of_paper:
            choices.append(prediction)
    return choices


def choices(n: int, k: int, bits_saved: float = 0.0, bits: int = KEY_BITS) -> list[Prediction]:
    """The plans worth a look and those that the aims pick, smallest first, each with the aims that pick it.

    bits_saved: as for predict. Which plans there are, and which are picked, depends on n, k and bits alone.
    """
    picked_by: dict[Plan, list[str]] = {each.plan: [] for each in table_of_choices(n, k, bits)}
    for aim in AIMS:
        picked_by.setdefault(choose(n, k, aim, bits), []).append(aim)
    predictions = [_replace(predict(plan, n, bits_saved), picked_by=tuple(aims)) for plan, aims in picked_by.items()]
    return sorted(predictions, key=_by_size)


def _smallest(n: int, predictions: list[Prediction]) -> Prediction:
    patience = SIZE_SLOWDOWN * _fastest_within(n, SPEED_BYTES_PER_KEY, predictions).nanoseconds
    small = min((each for each in predictions if each.nanoseconds <= patience), key=_by_size)
    smallest = min((each for each in predictions if _effort(each) <= _effort(small)), key=_by_size)
    found = min(small, smallest, _scanned(n, smallest), key=_by_size)
    slot_keys = min(found.plan.slot_keys, _slot_keys(found.n, NEARLY_SMALL, found.plan.bits))
    return min(found, predict(_replace(found.plan, slot_keys=slot_keys), found.n), key=_effort)


def _balanced(n: int, smallest: Prediction, predictions: list[Prediction]) -> Prediction:
    table_count = len(smallest.plan.tables) + 1
    if smallest.method == "scan":
        table_count = max(table_count, BALANCED_TABLES)
    few = [each for each in predictions if len(each.plan.tables) <= table_count]
    fastest = min(_within(n, SPEED_BYTES_PER_KEY, few), key=_by_time)
    if n >= LEAST_SCANNED:
        now = predict(smallest.plan, n)
        if now.method == "scan" and _effort(now) <= SCAN_WORTH * _effort(predict(fastest.plan, n)):
            return smallest
    return _no_slower(n, fastest, smallest)


def _fastest(n: int, balanced: Prediction, every: list[Prediction]) -> Prediction:
    enough = predict(balanced.plan, every[0].n).nanoseconds
    return _no_slower(n, _fastest_within(n, SPEED_BYTES_PER_KEY, every, enough), balanced)


def _effort(prediction: Prediction) -> float:
    """Bytes times time: what saves more of the one than it costs of the other has less."""
    return prediction.file_bytes * prediction.nanoseconds


def _scanned(n: int, other: Prediction) -> Prediction:
    """The scan of the n keys that there are, where its effort is no more than SCAN_WORTH that of the other; or that."""
    scan = predict(scan_plan(other.plan.max_distance, other.plan.bits, other.plan.slot_keys), n)
    most = SCAN_WORTH * _effort(predict(other.plan, n))
    worth = n >= LEAST_SCANNED and scan.method == "scan" and _effort(scan) <= most
    return scan if worth else other


def _no_slower(n: int, one: Prediction, other: Prediction) -> Prediction:
    """The one, unless the other, which takes fewer bytes, is as fast among the n keys that there are, or faster.

    Among few keys that says nothing: they are expected to become more, and any plan is fast.
    """
    faster = n < LEAST_SCANNED or predict(one.plan, n).nanoseconds < predict(other.plan, n).nanoseconds
    return one if faster else other


def _fastest_within(
    n: int, bytes_per_key: float, predictions: list[Prediction], most_nanoseconds: float = inf
) -> Prediction:
    """Of the plans within the limit the fastest, or rather the smallest of those that are NEARLY_AS_FAST."""
    within = _within(n, bytes_per_key, predictions)
    fastest = min(each.nanoseconds for each in within)
    enough = max(fastest, min(most_nanoseconds, NEARLY_AS_FAST * fastest))
    return min((each for each in within if each.nanoseconds <= enough), key=_by_size)


def _within(n: int, bytes_per_key: float, predictions: list[Prediction]) -> list[Prediction]:
    """The plans within the limit for n fingerprints (not for as many as are planned). PlanError for none."""
    limit = max(bytes_per_key * n, NEGLIGIBLE_FILE_BYTES)
    sizes = [each.file_bytes if each.n == n else predict(each.plan, n).file_bytes for each in predictions]
    within = [each for each, size in zip(predictions, sizes, strict=True) if size <= limit]
    if not within:
        least, k = min(sizes) / max(1, n), predictions[0].plan.max_distance
        raise PlanError(f"plan for n = {n}, k = {k}: takes {least:.2f} bytes per key, expected {bytes_per_key:g}")
    return within


def _by_size(prediction: Prediction) -> tuple[float, float, str]:
    return prediction.file_bytes, prediction.nanoseconds, prediction.plan.name


def _by_time(prediction: Prediction) -> tuple[float, float, str]:
    return prediction.nanoseconds, prediction.file_bytes, prediction.plan.name


def _every_candidate(n: int, k: int, bits: int) -> list[Prediction]:
    found = [each for slots in (SMALL, MIDDLE, FAST) for each in _candidates(n, k, slots, bits)]
    return list({(each.plan.tables, each.plan.slot_keys): each for each in reversed(found)}.values())


def _candidates(n: int, k: int, slots: _SlotPolicy, bits: int = KEY_BITS) -> list[Prediction]:
    _check_count(n, bits)
    if not 0 <= k <= min(MAX_DISTANCE, bits):
        raise ValueError(f"max_distance: found {k}, expected 0 to {min(MAX_DISTANCE, bits)}")
    slot_keys = _slot_keys(n, slots, bits)
    # Families overlap (paper-4 is choose-4 is flips-4:0,0,0,0): the first name stays.
    distinct = {plan.tables: plan for plan in reversed(considered(n, k, bits, slot_keys))}
    found = [predict(plan, n) for plan in distinct.values()]
    scanned = predict(scan_plan(k, bits, _slot_keys(n, SMALL, bits)), n)  # no slot is looked up
    if scanned.method == "probe":
        return found
    # What is scanned in any case is so by one table, whose flips then mean nothing.
    return [each for each in found if len(each.plan.tables) > 1] + [scanned]


def _slot_keys(n: int, slots: _SlotPolicy, bits: int = KEY_BITS) -> int:
    """The policy's average, or the next one up that keeps its promise on the entropy bound."""
    bound = _entropy_bits(n, bits)
    for slot_keys in range(slots.slot_keys, 2 * SMALL.slot_keys):
        s = slot_bits(n, slot_keys)
        if s == 0 or _table_bits(n, s, _code_bits(n, bits)) <= (1 + slots.excess) * bound * n:
            return slot_keys
    return 2 * SMALL.slot_keys


def _entropy_bits(n: int, bits: int) -> float:
    """Bits per key of n uniform keys as a set: log2 of the number of such sets, over n. Nearly so."""
    return max(SET_SAVING_BITS, bits - log2(n) + SET_SAVING_BITS) if n else 0.0


def _code_bits(n: int, bits: int) -> float:
    """Bits of code for each of n uniform keys; 0 for no keys."""
    return _entropy_bits(n, bits) + CODE_EXCESS_BITS if n else 0.0


def _table_bits(n: int, s: int, code_bits: float) -> float:
    return (n * code_bits + 8 * directory_bytes(s)) * (1 + CRC_BYTES / PAGE_BYTES)


def _file_bytes(n: int, s: int, table_count: int, code_bits: float) -> int:
    return FILE_BYTES + table_count * (TABLE_BYTES + ceil(_table_bits(n, s, code_bits) / 8))


def _block_keys(n: int, plan: Plan, code_bits: float) -> float:
    """Keys of a block on average: half a code does not fit, and the first key is there as it is."""
    room = max(0.0, 8 * plan.block_bytes - code_bits / 2 - plan.bits)
    return max(1.0, min(float(n), 1 + room / max(1.0, code_bits)))


def pattern_count(bits: int, flips: int) -> int:
    """How many patterns invert at most so many of these bits."""
    return sum(comb(bits, used) for used in range(min(flips, bits) + 1))


@cache
def _reach(low_bits: int, flips: int) -> float:
    """The share of its slot that a probe decodes on average, up to the last pattern it looks for.

    low_bits: prefix bits below those that name the slot, uniform; flips: how many of them may be inverted.
    With none it is the end of one of 2^low_bits equal parts. Else the furthest pattern has a 1 on top, by the
    query or at the price of a flip, so it lies in the upper half, and the rest of the bits say where.
    """
    if flips == 0:
        return (1 + 0.5**low_bits) / 2
    if low_bits == 0:
        return 1.0
    return 1 / 2 + (_reach(low_bits - 1, flips) + _reach(low_bits - 1, flips - 1)) / 4


def _check_count(n: int, bits: int) -> None:
    most = min(MAX_KEYS, 1 << bits)
    if not 0 <= n <= most:
        raise ValueError(f"n: found {n}, expected 0 to {most} fingerprints")
