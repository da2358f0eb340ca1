"""Measures what other programs wait for: a line of a coprocess, and requests over HTTP beside a writer.

    python tools/bench_serve.py [--n 1e7] [--lines 5000] [--seconds 10] [--connections 16] [--parts lines,http]
                                [--rounds 3] [--small] [--json]

A store of uniform keys with ids, plan balanced. lines: a client writes a line and waits for its answer, one at a time;
half of the lines have a match. Additions are durable when they are answered, so most of their time is the disk's: a
synced write of 4 KiB, in turns with them, says how much. http: clients of httpx, in this process, each with a
connection, ask as fast as they can while another one adds; both share the cores with the service, whose own time of a
processor is told apart. Answers are checked.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from arguments import names_among, parse_count, parse_seconds
from benchlib import Keys, Results, new_parser, parse_arguments, scratch_folder, uniform

import fpstore

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from serving import serving

PARTS = ("lines", "http")
SEED = 11
FPSTORE = (sys.executable, "-m", "fpstore")
MOST_MS = 1.0


def main() -> int:
    parser = new_parser(__doc__, rounds=3, counted="rows of the store")
    parser.add_argument("--lines", type=parse_count, default=5_000, help="lines of each round; default 5,000")
    parser.add_argument("--seconds", type=parse_seconds, default=10, help="of each round over HTTP; default 10")
    parser.add_argument("--connections", type=parse_count, default=16, help="over HTTP; default 16")
    parser.add_argument("--parts", type=names_among(PARTS), default=list(PARTS), help=f"default {','.join(PARTS)}")
    arguments = parse_arguments(parser)
    if arguments.small:
        arguments.lines, arguments.seconds = min(arguments.lines, 200), min(arguments.seconds, 1)
    results = Results("bench_serve", arguments)
    keys = uniform(arguments.n, np.random.default_rng(SEED))
    with scratch_folder(arguments) as folder:
        path = folder / "s.fpstore"
        fpstore.build(path, keys, ids=np.arange(len(keys), dtype=np.uint64)).close()
        if "lines" in arguments.parts:
            lines(arguments, results, path, keys)
        if "http" in arguments.parts:
            http(arguments, results, path, keys)
    return results.finish()


# --- Lines ---


@contextmanager
def coprocess(*command: object) -> Iterator[tuple[Callable[[str], dict[str, Any]], int]]:
    """What asks a coprocess one line, and the number of its process."""
    typed = [*FPSTORE, *map(str, command)]
    with subprocess.Popen(typed, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        questions, answers = process.stdin, os.fdopen(os.dup(process.stdout.fileno()), "rb")

        def ask(line: str) -> dict[str, Any]:
            questions.write(f"{line}\n".encode())
            answer: dict[str, Any] = json.loads(answers.readline())
            return answer

        with answers:
            yield ask, process.pid
            questions.close()
            if process.wait() != 0:
                raise SystemExit(f"coprocess: found status {process.returncode}, expected 0")


def lines(arguments: Namespace, results: Results, path: Path, keys: Keys) -> None:
    """Time lines one by one, and say how long the slowest take."""
    rng = np.random.default_rng(SEED)
    rows = []
    for _ in range(arguments.rounds):
        chosen = rng.integers(0, len(keys), arguments.lines)
        asked = keys[chosen] ^ (np.uint64(1) << rng.integers(0, 64, arguments.lines, dtype=np.uint64))
        asked[::2] = rng.integers(0, 1 << 64, len(asked[::2]), dtype=np.uint64)
        took = []
        with coprocess("probe", path, "--input", "-", "--unbuffered") as (ask, process):
            ask("0")
            before = cpu_seconds(process)
            for place, key in enumerate(asked.tolist()):
                begun = time.perf_counter()
                answer = ask(f"{key:016x}")
                took.append(time.perf_counter() - begun)
                if place % 2:
                    found = {match["id"] for match in answer["matches"]}
                    results.expect(str(chosen[place]) in found, f"probe of {key:016x}: its row is not found")
            used = cpu_seconds(process) - before
        rows.append(timings("probe a line", took, used))
    results.bar("a line of probe, p50", min(row["p50 ms"] for row in rows), at_most=MOST_MS, unit="ms")
    results.bar("a line of probe, its process", min(row["cpu ms"] for row in rows), at_most=MOST_MS, unit="ms")
    for turn in range(arguments.rounds):
        took, bare = [], []
        with (
            coprocess("add", path, "-", "--if-new", "--unbuffered") as (ask, process),
            open(path.parent / "bare", "wb") as file,
        ):
            ask("0")
            before = cpu_seconds(process)
            for number in range(min(arguments.lines, 1000)):
                key = int(rng.integers(0, 1 << 64, dtype=np.uint64))
                line = json.dumps({"fingerprint": f"{key:x}", "id": str(10**12 + turn * 10**6 + number)})
                begun = time.perf_counter()
                answer = ask(line)
                took.append(time.perf_counter() - begun)
                results.expect("stored" in answer, f"{line}: found {answer}")
                begun = time.perf_counter()
                os.pwrite(file.fileno(), b"x" * 4096, 0)
                os.fdatasync(file.fileno())
                bare.append(time.perf_counter() - begun)
            used = cpu_seconds(process) - before
        rows += [timings("add a line", took, used), timings("a synced write", bare, 0)]
    results.table(f"a line of a coprocess, {len(keys):,} rows", rows)


def timings(what: str, seconds: list[float], used: float) -> dict[str, Any]:
    """A row of a table. used: seconds of a processor, of the process that answered."""
    p50, p99, most = (float(np.quantile(seconds, share)) * 1e3 for share in (0.5, 0.99, 1))
    each = used / len(seconds) * 1e3
    return {"what": what, "times": len(seconds), "p50 ms": p50, "p99 ms": p99, "most ms": most, "cpu ms": each}


def cpu_seconds(process: int) -> float:
    """How long a process has had a processor."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- HTTP ---


def http(arguments: Namespace, results: Results, path: Path, keys: Keys) -> None:
    """Ask over as many connections as asked for, beside one that adds."""
    rows = []
    for turn in range(arguments.rounds):
        with serving(path) as served:
            before = cpu_seconds(served.process.pid)
            read, wrote = asyncio.run(load(served, arguments, keys, turn))
            used = cpu_seconds(served.process.pid) - before
        share = used / (len(read) + len(wrote))
        rows += [timings("probe", read, share * len(read)), timings("add_if_new, beside it", wrote, share * len(wrote))]
        rows[-2]["a second"] = len(read) / arguments.seconds
        rows[-1]["a second"] = len(wrote) / arguments.seconds
    results.table(f"requests over {arguments.connections} connections and one that adds, {len(keys):,} rows", rows)


async def load(served: Any, arguments: Namespace, keys: Keys, turn: int) -> tuple[list[float], list[float]]:
    """How long each probe, and each addition, took. SystemExit for an answer that is wrong."""
    ends = time.monotonic() + arguments.seconds
    read: list[float] = []
    wrote: list[float] = []
    rng = np.random.default_rng(turn)

    async def ask(client: Any, path: str, rows: dict[str, list[str]], took: list[float]) -> dict[str, Any]:
        begun = time.perf_counter()
        response = await client.post(path, json=rows)
        took.append(time.perf_counter() - begun)
        if response.status_code != 200:
            raise SystemExit(f"{path}: found {response.status_code} {response.text:.200}, expected 200")
        answer: dict[str, Any] = response.json()
        return answer

    async def probe(client: Any) -> None:
        while time.monotonic() < ends:
            place = int(rng.integers(0, len(keys)))
            answer = await ask(client, "/probe", {"fingerprints": [f"{int(keys[place]):x}"]}, read)
            if str(place) not in {match["id"] for match in answer["matches"]}:
                raise SystemExit(f"/probe: row {place} is not found")

    async def add(client: Any) -> None:
        number = 10**13 + turn * 10**7
        while time.monotonic() < ends:
            key = int(rng.integers(0, 1 << 64, dtype=np.uint64))
            await ask(client, "/add_if_new", {"fingerprints": [f"{key:x}"], "ids": [str(number)]}, wrote)
            number += 1

    async with served.async_client(arguments.connections + 1) as client:
        await asyncio.gather(add(client), *(probe(client) for _ in range(arguments.connections)))
    return read, wrote


if __name__ == "__main__":
    sys.exit(main())
