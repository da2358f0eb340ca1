"""Measures `fpstore dedup` by signatures against the packages rensa and datasketch, on the same lines of JSON.

    python tools/bench_minhash_jobs.py [FILE.jsonl]... [--n 2e4] [--exact 1e3] [--peers FOLDER] [--rounds 3] [--small]

Each way is one process of its own, in turns: fpstore dedup as users begin it, by recipe minhash-128, one thread, with
its confirmation and without; and the loops of the packages' own pages, which read each line, make a signature of 128
values of three words in a row, ask an index of 16 bands of 8, and insert what is like nothing. CPU s is of all threads,
memory the largest of the process. Without a FILE --n documents are made as in bench_jobs.py. --peers: a folder with the
packages (pip install --target FOLDER rensa datasketch); they are left out where they are not to be had.

Then of the first --exact documents: which pairs have a Jaccard similarity of 0.8, and how many of these document-pairs
finds. Exit status 1 where that is further from what 16 bands of 8 find in the mean than 4 standard deviations.

To hold: at least 5 times the documents a CPU s of rensa, 20 times those of datasketch, and less memory than either.
"""

import json
import re
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from arguments import parse_count, parse_file, parse_folder
from bench_jobs import LONG_WORDS, made
from benchlib import (
    Results,
    child_task,
    new_parser,
    parse_arguments,
    print_json,
    resident_bytes,
    run_child,
    scratch_folder,
)

from fpstore.jobs import dedup, document_pairs
from fpstore.text import load_recipe

REAL_DOCUMENTS, SMALL_DOCUMENTS = 20_000, 300
VALUES, BANDS, ROWS, WORDS = 128, 16, 8, 3
LEAST = 0.8
BARS = {"rensa": 5, "datasketch": 20}
WORD = re.compile(r"\w+")


def shingles_of(line: bytes) -> list[str]:
    """What the packages' pages do: words in a row, once each."""
    words = WORD.findall(json.loads(line)["text"].lower())
    return list({" ".join(words[i : i + WORDS]) for i in range(max(1, len(words) - WORDS + 1))})


def by_fpstore(path: str, folder: str, confirm: str | None) -> int:
    recipe = load_recipe("minhash-128")
    return dedup([path], Path(folder) / "kept.jsonl", recipe=recipe, confirm=confirm, threads=1).results


def by_rensa(path: str, folder: str, confirm: str | None) -> int:
    import rensa

    index = rensa.RMinHashLSH(threshold=LEAST, num_perm=VALUES, num_bands=BANDS)
    kept = 0
    with Path(path).open("rb") as lines, (Path(folder) / "kept.jsonl").open("wb") as out:
        for number, line in enumerate(lines):
            own = rensa.RMinHash(num_perm=VALUES, seed=1)
            own.update(shingles_of(line))
            if not index.query(own):
                index.insert(number, own)
                kept += out.write(line) > 0
    return kept


def by_datasketch(path: str, folder: str, confirm: str | None) -> int:
    from datasketch import MinHash, MinHashLSH

    index = MinHashLSH(num_perm=VALUES, params=(BANDS, ROWS))
    kept = 0
    with Path(path).open("rb") as lines, (Path(folder) / "kept.jsonl").open("wb") as out:
        for number, line in enumerate(lines):
            own = MinHash(num_perm=VALUES)
            own.update_batch([each.encode() for each in shingles_of(line)])
            if not index.query(own):
                index.insert(str(number), own)
                kept += out.write(line) > 0
    return kept


WAYS: dict[str, tuple[Callable[[str, str, str | None], int], str | None]] = {
    "fpstore": (by_fpstore, None),
    "fpstore --confirm": (by_fpstore, "default"),
    "rensa": (by_rensa, None),
    "datasketch": (by_datasketch, None),
}


def child(task: dict[str, Any]) -> dict[str, Any]:
    """One way, in a process of its own."""
    if task["peers"]:
        sys.path.append(task["peers"])
    work, confirm = WAYS[task["way"]]
    if work in (by_rensa, by_datasketch):
        try:
            __import__(task["way"])
        except ImportError:
            return {"missing": True}
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    kept = work(task["path"], task["folder"], confirm)
    elapsed, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"kept": kept, "cpu": cpu, "elapsed": elapsed, "rss": resident_bytes("VmHWM") / 1e6}


def measure(results: Results, name: str, path: Path, rounds: int, folder: Path, peers: Path | None) -> None:
    """A table of all ways on one corpus."""
    with path.open("rb") as lines:
        documents = sum(1 for _ in lines)
    taken: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for turn in range(rounds):
        for number, way in enumerate(WAYS):
            place = folder / f"{path.name}-{turn}-{number}"
            place.mkdir()
            task = {"path": str(path), "folder": str(place), "way": way, "peers": str(peers) if peers else None}
            found = run_child(__file__, task)
            if not found.get("missing"):
                taken[way].append(found)
    own = taken["fpstore --confirm"]
    rows = []
    for way, runs in taken.items():
        rate = documents / median(each["cpu"] for each in runs)
        ratios = [other["cpu"] / each["cpu"] for each, other in zip(own, runs, strict=True)]
        rows.append(
            {
                "": way,
                "documents": documents,
                "kept": runs[0]["kept"],
                "documents/CPU s": rate,
                "CPU of fpstore --confirm": median(ratios),
                "to hold": BARS.get(way, ""),
                "peak RSS, MB": max(each["rss"] for each in runs),
            }
        )
    results.table(f"{name}, {path.stat().st_size / 1e6:.0f} MB", rows)


def measure_pairs(results: Results, name: str, path: Path, count: int, folder: Path) -> None:
    """Of the first documents, the pairs that are alike by all their shingles, and those that are found."""
    recipe = load_recipe("minhash-128")
    few = folder / f"{path.name}-few.jsonl"
    with path.open("rb") as lines:
        own = [line for line, _ in zip(lines, range(count), strict=False)]
    few.write_bytes(b"".join(own))
    sets = [recipe.features(json.loads(line)["text"]).hashes.tolist() for line in own]
    having: dict[int, list[int]] = defaultdict(list)
    for number, hashes in enumerate(sets):
        for each in hashes:
            having[each].append(number)
    common: Counter[tuple[int, int]] = Counter()
    for numbers in having.values():
        common.update(combinations(numbers, 2))
    alike = {
        pair: both / (len(sets[pair[0]]) + len(sets[pair[1]]) - both)
        for pair, both in common.items()
        if both >= LEAST * (len(sets[pair[0]]) + len(sets[pair[1]]) - both)
    }
    document_pairs([few], folder / "pairs.tsv", recipe=recipe, threads=1)
    found = set()
    for line in (folder / "pairs.tsv").read_text().splitlines():
        one, other = (int(each.rpartition(":")[2]) - 1 for each in line.split("\t")[:2])
        found.add((one, other))
    shares = [1 - (1 - share**ROWS) ** BANDS for share in alike.values()]
    expected = sum(shares)
    # Pairs of one group are found together or not: as if all of them were one.
    error = sum(share * (1 - share) for share in shares) ** 0.5 * max(1.0, len(alike) / max(1, len(own))) ** 0.5
    met = len(found & alike.keys())
    results.table(
        f"{name}, pairs of {len(own)} documents",
        [{"alike": len(alike), "found of them": met, "by theory": expected, "standard deviation": error}],
    )
    results.expect(abs(met - expected) <= 4 * error + 1, f"{name}: found {met} pairs, expected about {expected:.1f}")
    (folder / "pairs.tsv").unlink()


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    task = child_task(sys.argv)
    if task is not None:
        print_json(child(task))
        return 0
    parser = new_parser(
        __doc__, rounds=3, counted="documents that are made", real=REAL_DOCUMENTS, small=SMALL_DOCUMENTS
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="*", type=parse_file, help="what is read instead of what is made"
    )
    parser.add_argument("--exact", type=parse_count, default=1000, help="documents that are compared exactly")
    parser.add_argument("--peers", type=parse_folder, metavar="FOLDER", help="where the packages are")
    arguments = parse_arguments(parser, argv, real=REAL_DOCUMENTS, small=SMALL_DOCUMENTS)
    with scratch_folder(arguments) as folder:
        paths = arguments.files
        if not paths:
            paths = [folder / "made.jsonl"]
            texts = made(arguments.n, LONG_WORDS // 4)
            lines = (json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(texts))
            paths[0].write_text("".join(lines))
        arguments.files = [str(path) for path in paths]
        results = Results("bench_minhash_jobs", arguments)
        for path in paths:
            measure(results, path.name, path, arguments.rounds, folder, arguments.peers)
            measure_pairs(results, path.name, path, arguments.exact, folder)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
