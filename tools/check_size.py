"""Checks the sizes that fpstore promises, on generated keys and on the documents that are given.

    python tools/check_size.py [DOCUMENTS...] [--n 1e7] [--plans size,balanced,speed] [--small] [--json]

- Uniform keys without ids: the file of each plan against its tables times the entropy bound, everything counted.
- xor, as one chain of deltas: 1.95 bits a key over the bound, as theory says.
- Clustered keys, and the fingerprints of each file of DOCUMENTS (texts by words and by 4 words in a row; or
  fingerprints themselves): gap is the smallest of the four codecs or within 0.1 bit per key of it. Clustered keys go
  below the uniform bound.
- The report's total is what stat says.

DOCUMENTS: what `fpstore build` reads. Exit status 1 if a bar is missed. --small shows the figures of fewer keys, for
which the bars are not meant, and is 1 only where the report and stat disagree.
"""

import os
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
from arguments import parse_file, parse_plans
from benchlib import (
    DISTANCE,
    SET_NAMES,
    ArrayKeys,
    Keys,
    Results,
    distinct,
    make_set,
    new_parser,
    parse_arguments,
    scratch_folder,
)

import fpstore
from fpstore.inputs import format_of, read
from fpstore.plans import planner
from fpstore.segment.report import entropy_bound
from fpstore.segment.table import CodecCost, codec_costs
from fpstore.text import Recipe

MAX_OF_BOUND = {"size": 1.03, "balanced": 1.03, "speed": 1.08}
XOR_EXCESS_BITS = 1.95
XOR_TOLERANCE_BITS = 0.1
GAP_TOLERANCE_BITS = 0.1
SHINGLES = (1, 4)
TEXT_FORMATS = ("jsonl", "text")
# A report decodes every table several times; it is asked of the smallest plan alone, and stats of all.
REPORTED_PLAN = "size"


def check_files(arguments: Namespace, folder: Path, results: Results) -> None:
    """Uniform keys: whole files against the bound, and the report against stat."""
    keys = make_set("u", arguments.n)
    bound = entropy_bound(len(keys))
    rows: list[dict[str, Any]] = []
    for plan in arguments.plans:
        with fpstore.build(folder / f"{plan}.fpstore", keys, ids=None, plan=plan) as store:
            (segment,) = store._segments
            size, tables = os.stat(segment.path).st_size, len(store.plan.tables)
            said = [store.stats().segments[0].total_bytes]
            if plan == REPORTED_PLAN:
                said.append(store.report().to_json()["bytes"]["total"])
            same = all(total == size for total in said)
            results.expect(same, f"plan {plan}: {said} bytes reported, stat says {size}")
            least = tables * bound * len(keys) / 8
            rows.append(
                {
                    "plan": f"{plan} ({store.plan.name})",
                    "tables": tables,
                    "file bytes": size,
                    "bytes/key": round(size / len(keys), 3),
                    "tables x bound": int(least),
                    "file / bound": round(size / least, 4),
                }
            )
            if plan in MAX_OF_BOUND:
                results.bar(f"plan {plan}: file over tables x bound", size / least, at_most=MAX_OF_BOUND[plan])
    results.table(f"uniform {len(keys):,} without ids; the entropy bound is {bound:.3f} bits a key", rows)


def named_sets(arguments: Namespace) -> list[tuple[str, Keys]]:
    """The sets on which the codecs are compared: distinct keys in order."""
    found = [(name, distinct(make_set(kind, arguments.n))) for kind, name in SET_NAMES.items()]
    for path in arguments.documents:
        if _format(path) in TEXT_FORMATS:
            for shingle in SHINGLES:
                recipe = Recipe(f"words-{shingle}", shingle=shingle)
                found.append((f"{path.name}, {recipe.name}", _fingerprints(path, recipe)))
        else:
            found.append((path.name, _fingerprints(path, None)))
    return found


def _format(path: Path) -> str:
    try:
        return format_of(path)
    except ValueError:  # a suffix that says nothing: fingerprints as hex lines
        return "hex"


def _fingerprints(path: Path, recipe: Recipe | None) -> Keys:
    batches = [batch.fingerprints for batch in read([path], ids=None, format=_format(path), recipe=recipe)]
    return distinct(np.concatenate(batches)) if batches else np.empty(0, dtype=np.uint64)


def check_codecs(arguments: Namespace, results: Results) -> None:
    rows: list[dict[str, Any]] = []
    for name, keys in named_sets(arguments):
        count, bound = len(keys), entropy_bound(len(keys))
        costs: tuple[CodecCost, ...] = codec_costs(ArrayKeys(keys))
        bits = {cost.codec: cost.bits / count for cost in costs}
        slot_bits = planner.slot_bits(count, planner.choose(count, DISTANCE, "size").slot_keys)
        in_slots = {cost.codec: cost.bits / count for cost in codec_costs(ArrayKeys(keys), slot_bits)}
        rows.append(
            {
                "set": name,
                "distinct keys": count,
                "bound": round(bound, 2),
                **{codec: round(value, 2) for codec, value in bits.items()},
                "gap over smallest": round(bits["gap"] - min(bits.values()), 3),
                "gap in slots": round(in_slots["gap"], 2),
                "below the bound": bits["gap"] < bound,
            }
        )
        if name == SET_NAMES["u"]:
            excess = bits["xor"] - bound
            limits = {"at_least": XOR_EXCESS_BITS - XOR_TOLERANCE_BITS, "at_most": XOR_EXCESS_BITS + XOR_TOLERANCE_BITS}
            results.bar("uniform: xor over the bound", excess, unit="bits", **limits)
        else:
            over = bits["gap"] - min(bits.values())
            results.bar(f"{name}: gap over the smallest codec", over, at_most=GAP_TOLERANCE_BITS, unit="bits")
        if name == SET_NAMES["c"]:
            results.bar("clustered: gap over the uniform bound", bits["gap"] - bound, at_most=0, unit="bits")
    results.table("bits per key of each codec, as one chain of deltas, without the code table", rows)


def main() -> int:
    parser = new_parser(__doc__, rounds=1)
    parser.add_argument("documents", nargs="*", type=parse_file, help="files of texts or fingerprints")
    parser.add_argument(
        "--plans", type=parse_plans, default=list(planner.AIMS), help="separated by commas; default all"
    )
    arguments = parse_arguments(parser)
    results = Results("check_size", arguments)
    with scratch_folder(arguments) as folder:
        check_files(arguments, folder, results)
    check_codecs(arguments, results)
    wrong = results.finish()
    return int(bool(wrong or results.missed))


if __name__ == "__main__":
    sys.exit(main())
