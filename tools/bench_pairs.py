"""Measures finding all pairs within 3, against the classical way in numpy: sort, and compare equal prefixes.

    python tools/bench_pairs.py [--n 1e7] [--sets u,c] [--plans size,balanced,speed] [--rounds 3] [--small] [--json]

Of two keys within 3, at least two of five bands (13, 13, 13, 13 and 12 bits) are equal. So for each choice of two:
bring them to the top, sort, and compare each key with those after it that share the 25 or 26 bits. The baseline
counts the pairs, each once; `pairs` also hands them over, `count` is Store.count_pairs. Processor time; the stores are
there already, as the array of keys is. --parts: the same keys in so many segments and, a hundredth of them, pending,
over that store compacted, which keeps its plan, and over one built of all of them, whose plan is chosen for as many.
"""

import sys
import unittest.mock
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from arguments import names_among, parse_count, parse_plans
from benchlib import (
    DISTANCE,
    SET_NAMES,
    Keys,
    Results,
    cpu_ratio,
    interleaved,
    make_set,
    median_cpu,
    median_wall,
    new_parser,
    parse_arguments,
    scratch_folder,
)

import fpstore
from fpstore.living.writer import Writer
from fpstore.plans import planner
from fpstore.store import Store

MAX_OF_NUMPY = 0.25
MAX_OF_COMPACTED = 1.3
PENDING_SHARE = 100
JUDGED_PLAN = "balanced"
BAND_WIDTHS = (13, 13, 13, 13, 12)
EQUAL_BANDS = 2
# Keys reordered at a time: few enough to stay in the cache between the steps, which is 2.5 times as fast.
SLICE_KEYS = 1 << 15
MIX = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Move:
    """Where a band lies in a fingerprint and in a reordered key: how far its mask is shifted."""

    band: int
    mask: int
    home: int
    place: int


def moves_for(chosen: tuple[int, ...]) -> list[Move]:
    """The chosen bands on top, then the others."""
    rest = [band for band in range(len(BAND_WIDTHS)) if band not in chosen]
    moves, place = [], 64
    for band in (*chosen, *rest):
        place -= BAND_WIDTHS[band]
        moves.append(Move(band, (1 << BAND_WIDTHS[band]) - 1, sum(BAND_WIDTHS[band + 1 :]), place))
    return moves


def reordered(keys: Keys, moves: list[Move]) -> Keys:
    result, fields = np.zeros_like(keys), np.empty(SLICE_KEYS, dtype=np.uint64)
    for first in range(0, len(keys), SLICE_KEYS):
        source, target = keys[first : first + SLICE_KEYS], result[first : first + SLICE_KEYS]
        field = fields[: len(source)]
        for move in moves:
            np.right_shift(source, np.uint64(move.home), out=field)
            field &= np.uint64(move.mask)
            field <<= np.uint64(move.place)
            target |= field
    return result


def restored(keys: Keys, moves: list[Move]) -> Keys:
    return reordered(keys, [Move(move.band, move.mask, move.place, move.home) for move in moves])


def numpy_pairs(keys: Keys) -> Iterator[tuple[list[Move], Keys, Keys]]:
    """Every pair of distinct keys within the distance, once, as arrays: (how they are reordered, one, the other)."""
    for chosen in combinations(range(len(BAND_WIDTHS)), EQUAL_BANDS):
        moves = moves_for(chosen)
        ordered = reordered(keys, moves)
        ordered.sort()
        # A pair that agrees in a band before the second of these was found under an earlier choice.
        differing = [np.uint64(move.mask << move.place) for move in moves[EQUAL_BANDS:] if move.band < chosen[-1]]
        limit = np.uint64(1 << moves[EQUAL_BANDS - 1].place)
        bits = ordered[1:] ^ ordered[:-1]
        at = np.flatnonzero(bits < limit)
        bits, step = bits[at], 1
        while len(at):
            near = np.bitwise_count(bits) <= DISTANCE
            for mask in differing:
                near &= bits & mask != 0
            hits = at[near]
            if len(hits):
                yield moves, ordered[hits], ordered[hits + step]
            # Only where a prefix's run goes on is there another key to compare with.
            step += 1
            at = at[: np.searchsorted(at, len(ordered) - step)]
            bits = ordered[at] ^ ordered[at + step]
            going_on = bits < limit
            at, bits = at[going_on], bits[going_on]


def digest(first: Keys, second: Keys) -> int:
    """A number for a set of pairs, whatever their order; sums of it stand for unions."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    mixed = (low * np.uint64(MIX)) ^ high
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(MIX)
    return int(mixed.sum())


def numpy_answer(keys: Keys) -> tuple[int, int]:
    """How many pairs, and their digest."""
    count = total = 0
    for moves, one, other in numpy_pairs(keys):
        count += len(one)
        total += digest(restored(one, moves), restored(other, moves))
    return count, total % (1 << 64)


def store_answer(store: Store, results: Results, name: str) -> tuple[int, int]:
    count = total = 0
    for pairs in store.pairs(max_distance=DISTANCE):
        bits = np.bitwise_count(pairs.first ^ pairs.second)
        results.expect(bool((bits == pairs.distance).all()), f"{name}: a distance is wrong")
        count += len(pairs)
        total += digest(pairs.first, pairs.second)
    return count, total % (1 << 64)


def count_numpy(keys: Keys) -> int:
    return sum(len(one) for _, one, _ in numpy_pairs(keys))


def hand_over(store: Store) -> int:
    return sum(len(pairs) for pairs in store.pairs(max_distance=DISTANCE))


def bench_set(kind: str, arguments: Namespace, folder: Path, results: Results) -> None:
    keys = make_set(kind, arguments.n)
    name = f"{SET_NAMES[kind]} {len(keys):,}"
    expected = numpy_answer(keys)
    rows: list[dict[str, Any]] = []
    baseline: Callable[[], Any] = partial(count_numpy, keys)
    for plan in arguments.plans:
        with fpstore.build(folder / f"{kind}-{plan}.fpstore", keys, ids=None, plan=plan) as store:
            said = f"{name}, plan {plan}"
            results.expect(store_answer(store, results, said) == expected, f"{said}: other pairs than numpy's")
            results.expect(
                store.count_pairs(max_distance=DISTANCE) == expected[0], f"{said}: counts other pairs than numpy's"
            )
            calls: list[Callable[[], Any]] = [
                baseline,
                partial(hand_over, store),
                partial(store.count_pairs, max_distance=DISTANCE),
            ]
            numpy_times, pairs_times, count_times = interleaved(calls, arguments.rounds)
            rows.append(
                {
                    "plan": f"{plan} ({len(store.plan.tables)} tables)",
                    "pairs": expected[0],
                    "numpy CPU s": median_cpu(numpy_times),
                    "pairs CPU s": median_cpu(pairs_times),
                    "/ numpy": cpu_ratio(pairs_times, numpy_times),
                    "count CPU s": median_cpu(count_times),
                    "count / numpy": cpu_ratio(count_times, numpy_times),
                    "pairs wall s": median_wall(pairs_times),
                }
            )
            if plan == JUDGED_PLAN:
                results.bar(f"{said}: pairs over numpy", cpu_ratio(pairs_times, numpy_times), at_most=MAX_OF_NUMPY)
    results.table(f"{name}: all pairs within {DISTANCE}", rows)


def in_parts(path: Path, keys: Keys, plan: str, parts: int) -> None:
    """A store of keys in so many segments, with some pending."""
    cut = len(keys) - len(keys) // PENDING_SHARE
    segments, pending = np.array_split(keys[:cut], parts), keys[cut:]
    fpstore.build(path, segments[0], ids=None, plan=plan).close()
    with unittest.mock.patch.object(Writer, "_start_merge"), fpstore.open(path, "w", durability="batch") as writer:
        for segment in segments[1:]:
            for piece in np.array_split(segment, max(1, len(segment) // 1_000_000)):
                writer.add(piece)
            writer._flush()
        writer.add(pending)


def bench_parts(kind: str, arguments: Namespace, folder: Path, results: Results) -> None:
    """The same keys in several parts over those in one segment: of the same plan, and of that of a build of all."""
    keys = make_set(kind, arguments.n)
    rows: list[dict[str, Any]] = []
    for plan in arguments.plans:
        said = f"{SET_NAMES[kind]} {len(keys):,}, plan {plan}, {arguments.parts} segments"
        parts = folder / f"{kind}-{plan}-parts.fpstore"
        in_parts(parts, keys, plan, arguments.parts)
        with fpstore.open(parts) as several:
            several.copy(folder / f"{kind}-{plan}-compacted.fpstore")
        with fpstore.open(folder / f"{kind}-{plan}-compacted.fpstore", "w") as writer:
            writer.compact()
        built = fpstore.build(folder / f"{kind}-{plan}-one.fpstore", keys, ids=None, plan=plan)
        compacted = fpstore.open(folder / f"{kind}-{plan}-compacted.fpstore")
        with built, compacted, fpstore.open(parts) as several:
            every = (compacted, built, several)
            found = [store_answer(store, results, said) for store in every]
            results.expect(len(set(found)) == 1, f"{said}: other pairs than the compacted store's")
            results.expect(len(compacted._segments) == 1, f"{said}: the compacted store has several segments")
            segments = len(several._segments)
            for name, call in (("pairs", hand_over), ("count_pairs", lambda store: store.count_pairs())):
                calls: list[Callable[[], Any]] = [partial(call, store) for store in every]
                compacted_times, built_times, several_times = interleaved(calls, arguments.rounds)
                over_compacted, over_built = (cpu_ratio(several_times, each) for each in (compacted_times, built_times))
                rows.append(
                    {
                        "plan": f"{plan} ({len(several.plan.tables)} tables, {len(built.plan.tables)} of all)",
                        "what": f"{name}, {segments} segments",
                        "compacted CPU s": median_cpu(compacted_times),
                        "built CPU s": median_cpu(built_times),
                        "several CPU s": median_cpu(several_times),
                        "several wall s": median_wall(several_times),
                        "/ compacted": over_compacted,
                        "/ built": over_built,
                    }
                )
                results.bar(f"{said}: {name} over the compacted store", over_compacted, at_most=MAX_OF_COMPACTED)
                results.bar(f"{said}: {name} over one built of all", over_built, at_most=MAX_OF_COMPACTED)
    results.table(f"{SET_NAMES[kind]} {len(keys):,}: several segments with pending rows", rows)


def main() -> int:
    parser = new_parser(__doc__, rounds=3)
    parser.add_argument(
        "--sets", type=names_among(SET_NAMES), default=list(SET_NAMES), help="u, c or u,c; default both"
    )
    parser.add_argument(
        "--plans", type=parse_plans, default=list(planner.AIMS), help="separated by commas; default all"
    )
    parser.add_argument(
        "--parts",
        type=parse_count,
        help="measure a store of so many segments instead, over it compacted and one built of all",
    )
    arguments = parse_arguments(parser)
    results = Results("bench_pairs", arguments)
    with scratch_folder(arguments) as folder:
        for kind in arguments.sets:
            (bench_parts if arguments.parts else bench_set)(kind, arguments, folder, results)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
