"""Measures the codec: decoding and encoding a whole table, and bits per key, on uniform and clustered keys.

    python tools/bench_codec.py [--n 1e7] [--sets u,c] [--rounds 7] [--small] [--json]

Decoding is compared with the machine's limit, a XOR and popcount of every raw key in memory, and with the same
decoder made to read one stretch of blocks at a time. One thread, processor time, rounds in turns.
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from arguments import names_among
from benchlib import (
    DISTANCE,
    SET_NAMES,
    ArrayKeys,
    Keys,
    Results,
    cpu_ratio,
    distinct,
    interleaved,
    make_set,
    median_cpu,
    new_parser,
    parse_arguments,
    scratch_folder,
)

import fpstore
from fpstore._probe import scan
from fpstore._view import TableCursor
from fpstore.format import CODECS
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.plan import Plan
from fpstore.segment.reader import Segment
from fpstore.segment.report import entropy_bound
from fpstore.segment.table import codec_costs, encode_table

MIN_OF_SCAN = 0.15
MIN_OF_ONE_STREAM = 1.8


def one_table(count: int) -> Plan:
    """A single table in the order of the keys themselves, its slots as plan `size` makes them."""
    slot_keys = planner.choose(count, DISTANCE, "size").slot_keys
    return replace(plans.flips(1, (DISTANCE,), DISTANCE), slot_keys=slot_keys)


def decoded(segment: Segment, alone: bool) -> Iterator[Keys]:
    cursor = TableCursor(segment.view, 0, 0, 1 << segment.tables[0].slot_bits, alone=alone)
    while len(chunk := cursor.read()):
        yield chunk


def decoder(segment: Segment, alone: bool) -> Callable[[], None]:
    def decode() -> None:
        for _ in decoded(segment, alone):
            pass

    return decode


def bench_set(kind: str, arguments: Namespace, folder: Path, results: Results) -> None:
    keys = distinct(make_set(kind, arguments.n))
    plan, name = one_table(len(keys)), f"{SET_NAMES[kind]} {len(keys):,}"
    slot_bits = planner.slot_bits(len(keys), plan.slot_keys)
    query = int(keys[len(keys) // 2])
    expected = int((np.bitwise_count(keys ^ np.uint64(query)) <= DISTANCE).sum())
    results.expect(scan(keys, query, DISTANCE) == expected, f"{name}: the scan counts other keys than numpy")

    rows: list[dict[str, Any]] = []
    for codec in CODECS:
        with fpstore.build(folder / f"{kind}-{codec}.fpstore", keys, ids=None, plan=plan, codec=codec) as store:
            segment = store._segments[0]
            for alone in (True, False):
                same = np.array_equal(np.concatenate(list(decoded(segment, alone))), keys)
                results.expect(
                    same, f"{name}, {codec}: {'one stream decodes' if alone else 'streams decode'} other keys"
                )
            scans, one, many = interleaved(
                [lambda: scan(keys, query, DISTANCE), decoder(segment, True), decoder(segment, False)],
                arguments.rounds,
            )
        (encodes,) = interleaved(
            [partial(encode_table, ArrayKeys(keys), codec, slot_bits, lambda data: None)],
            arguments.rounds,
        )
        of_scan, of_one = 1 / cpu_ratio(many, scans), 1 / cpu_ratio(many, one)
        million = len(keys) / 1e6
        rows.append(
            {
                "codec": codec,
                "decode M keys/s": million / median_cpu(many),
                "one stream": million / median_cpu(one),
                "ratio": of_one,
                "scan of raw keys": million / median_cpu(scans),
                "decode / scan": of_scan,
                "encode M keys/s": million / median_cpu(encodes),
            }
        )
        if codec == "gap":
            results.bar(f"{name}: decode over scan", of_scan, at_least=MIN_OF_SCAN)
            results.bar(f"{name}: decode over one stream", of_one, at_least=MIN_OF_ONE_STREAM)
    results.table(f"{name}: one table of 2^{slot_bits} slots, one thread", rows)
    bits_of_set(name, keys, slot_bits, results)


def bits_of_set(name: str, keys: Keys, slot_bits: int, results: Results) -> None:
    """What each codec takes, as one chain of deltas and in the table's slots."""
    bound, count = entropy_bound(len(keys)), len(keys)
    chain, slots = codec_costs(ArrayKeys(keys)), codec_costs(ArrayKeys(keys), slot_bits)
    rows = [
        {
            "codec": whole.codec,
            "bits per key": round(whole.bits / count, 3),
            "over the bound": round(whole.bits / count - bound, 3),
            "in slots": round(cut.bits / count, 3),
        }
        for whole, cut in zip(chain, slots, strict=True)
    ]
    results.table(f"{name}: bits per key; the entropy bound is {bound:.3f}", rows)


def main() -> int:
    parser = new_parser(__doc__, rounds=7)
    parser.add_argument(
        "--sets", type=names_among(SET_NAMES), default=list(SET_NAMES), help="u, c or u,c; default both"
    )
    arguments = parse_arguments(parser)
    results = Results("bench_codec", arguments)
    with scratch_folder(arguments) as folder:
        for kind in arguments.sets:
            bench_set(kind, arguments, folder, results)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
