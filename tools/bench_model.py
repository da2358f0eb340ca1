"""Measures whether what small stores take tells what a large one takes, for arithmetic of more keys than fit.

    python tools/bench_model.py [--n 1e9] [--fitted 1e7,1e8] [--queries 1e6] [--plan size] [--memory 12GiB] [--dir PATH]
                                [--small] [--json]

Stores of uniform keys, each built in a process of its own, in that memory; k = 3, no ids. A batch of queries of which
half have a match is looked up in order, and streamed, by one thread, everything in memory, once before it is timed;
the least of the rounds counts. Two lines go through the figures of the two fitted sizes. A stream takes a + b * n. A
look-up takes what the planner says of that size times a + b * log2(n): the planner knows how many keys share a slot,
which goes up and down between the powers of two, and the line how far queries in order are from each other. They are
held against what --n keys take, and told for 8 * 10^9.

To hold: each within 20 % at 10^9, and no more than 40 seconds of a processor for 8 * 10^9.
"""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from arguments import parse_budget, parse_count, parse_plan, parse_two_counts
from bench_scale import SEED, make_stream_queries
from benchlib import (
    DISTANCE,
    Results,
    Timing,
    child_task,
    new_parser,
    parse_arguments,
    print_json,
    run_child,
    scratch_folder,
    stream,
    timed,
)

import fpstore
from fpstore._probe import search
from fpstore.plans.planner import predict
from fpstore.query.batch import Asked, pieces, stream_some

REAL_KEYS, SMALL_KEYS = 10**9, 1 << 17
FITTED, SMALL_FITTED = "1e7,1e8", "32768,65536"
WEB = 8 * 10**9
WITHIN = 0.2
MOST_SECONDS = 40


def measured(task: dict[str, Any]) -> dict[str, Any]:
    """What one size takes: bytes of the file, and seconds of a processor of the build and of a batch in both ways."""
    n, path = task["n"], Path(task["path"])

    def build() -> None:
        keys = stream(SEED, n)
        fpstore.build(path, keys, ids=None, max_distance=DISTANCE, plan=task["plan"], memory=task["memory"]).close()

    built = timed(build)
    queries, _, _ = make_stream_queries(n, task["queries"])
    with fpstore.open(path, warm=True) as store:
        (segment,) = store._segments

        ordered = np.sort(queries)  # as tasks ask them

        def look_up() -> int:
            return len(search(segment.view, ordered, DISTANCE)[0])

        def stream_past() -> int:
            asked = Asked.of(queries)
            found = stream_some(segment, pieces(segment, DISTANCE), asked.distinct, DISTANCE)
            return sum(int(asked.repeats(asked.distinct.searchsorted(rows[:, 0])).sum()) for rows in found)

        return {
            "bytes": segment.file_bytes,
            "plan": store.plan.name,
            "built": built.cpu,
            "said": {size: predict(store.plan, size).lookup_nanoseconds for size in (n, WEB)},
            "found": [look_up(), stream_past()],
            "looked up": cpu_of(look_up, task["rounds"]),
            "streamed": cpu_of(stream_past, task["rounds"]),
        }


def cpu_of(call: Callable[[], Any], rounds: int) -> float:
    timings: list[Timing] = [timed(call) for _ in range(rounds)]
    return min(timing.cpu for timing in timings)  # whatever else was going on only added to it


def line(scale: Callable[[float], float], sizes: list[int], figures: list[float]) -> Callable[[float], float]:
    """The line through two figures, over that scale of the sizes."""
    (x, other_x), (y, other_y) = map(scale, sizes), figures
    slope = (other_y - y) / (other_x - x)
    return lambda n: y + slope * (scale(n) - x)


def bench(arguments: Any, results: Results, folder: Path) -> None:
    sizes = arguments.fitted
    rows = {}
    for n in [*sizes, arguments.n]:
        path = folder / f"{n}.fpstore"
        task = {"n": n, "path": str(path), "plan": arguments.plan, "memory": arguments.memory}
        rows[n] = run_child(__file__, task | {"queries": arguments.queries, "rounds": arguments.rounds})
        looked_up, streamed = rows[n]["found"]
        results.expect(looked_up == streamed, f"what {n:,} keys have: {looked_up}, streamed {streamed}")
        for file in sorted(path.rglob("*.fpseg")):
            file.unlink()  # the next store may need the room
    about = [
        {
            "keys": f"{n:,}",
            "plan": row["plan"],
            "bytes/key": row["bytes"] / n,
            "build, ns/key": 1e9 * row["built"] / n,
            "looked up, s": row["looked up"],
            "streamed, s": row["streamed"],
        }
        for n, row in rows.items()
    ]
    results.table(f"{arguments.queries:,} queries: seconds of a processor", about)
    # As the planner has it, of each size; JSON's keys are texts.
    said = {int(size): row["said"][size] for row in rows.values() for size in row["said"]}
    further = line(math.log2, sizes, [rows[n]["looked up"] / said[n] for n in sizes])
    lines = {
        "looked up": lambda n: said[n] * further(n),
        "streamed": line(float, sizes, [rows[n]["streamed"] for n in sizes]),
    }
    told = [
        {
            "way": way,
            "predicted, s": predicted(arguments.n),
            "found, s": rows[arguments.n][way],
            "ratio": predicted(arguments.n) / rows[arguments.n][way],
            f"{WEB:,} keys, s": predicted(WEB),
        }
        for way, predicted in lines.items()
    ]
    results.table(f"{arguments.n:,} keys, from {','.join(map(str, sizes))}", told)
    for row in told:
        results.bar(f"{row['way']}: off by", abs(row["ratio"] - 1), at_most=WITHIN)
    results.bar(f"{WEB:,} keys", min(predicted(WEB) for predicted in lines.values()), at_most=MOST_SECONDS, unit="s")


def main() -> int:
    if (task := child_task(sys.argv)) is not None:
        print_json(measured(task))
        return 0
    parser = new_parser(__doc__, rounds=3, real=REAL_KEYS, small=SMALL_KEYS)
    parser.add_argument("--fitted", type=parse_two_counts, help=f"of stores; default {FITTED}")
    parser.add_argument("--queries", type=parse_count, help="how many; default 1,000,000")
    parser.add_argument("--plan", type=parse_plan, default="size", help="default size")
    parser.add_argument("--memory", type=parse_budget, default="12GiB", help="of a build; default 12GiB")
    arguments = parse_arguments(parser, real=REAL_KEYS, small=SMALL_KEYS)
    if arguments.queries is None:
        arguments.queries = 2_000 if arguments.small else 10**6
    arguments.fitted = arguments.fitted or parse_two_counts(SMALL_FITTED if arguments.small else FITTED)
    results = Results("bench_model", arguments, only_keys=REAL_KEYS)
    with scratch_folder(arguments) as folder:
        bench(arguments, results, folder)
    return results.finish()


if __name__ == "__main__":
    raise SystemExit(main())
