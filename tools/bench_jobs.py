"""Measures what `fpstore dedup` costs: processor time and memory of each way, with short documents and with long ones.

    python tools/bench_jobs.py [FILE...] [--n 2e5] [--rounds 3] [--html] [--recipe NAME] [--small] [--json]

Without a FILE the corpora are made: --n documents of 12 words, and as many words in documents of 600, of which a third
are earlier ones with a word changed. Each way is one process; CPU s is of that process and of the machine's at that
moment, so it is given as a ratio to the plain job too, taken in turns with it. "without digests" is the plain job if it
did not digest what it read, so that it could not tell whether the inputs have changed when it goes on.

The second table is of the job as users begin it, with its confirmation: bytes of JSON lines a second of the clock, by
one thread, by two, and by tasks of two workers (--workers), in turns, of the lines as they are and packed by zstd, best
of the rounds; CPU s has that of worker processes too, their start among it. "fixed s" is the same of the first document
alone, best of the rounds: what a job takes that no document adds to, nearly all of it waiting for the disk. Long
documents of --n 1e7 have ten times the bytes of 1e6, 800 MB, and that is a tenth as large a part of their time. What is
packed is one file, which is not cut into tasks. To hold, on two processors with nothing else to do: 600 MB/s of long
documents, 350 packed, 60 of short ones, 1.8 times one thread's, also with --html, and with --recipe zh.
"""

import json
import random
import resource
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import zstandard
from arguments import parse_file, parse_recipe
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

from fpstore.jobs import Inputs, dedup, parts
from fpstore.text import load_recipe

REAL_DOCUMENTS, SMALL_DOCUMENTS = 200_000, 2_000
SHORT_WORDS, LONG_WORDS = 12, 600
VOCABULARY = 30_000
ONE = "1 thread"
BY: dict[str, dict[str, int]] = {ONE: {"threads": 1}, "2 threads": {"threads": 2}, "2 workers": {"workers": 2}}
SEED = 20070508

PLAIN = "dedup --dropped"
WAYS: dict[str, dict[str, Any]] = {
    PLAIN: {"confirm": None},
    "without digests": {"confirm": None, "digests": False},
    "--store": {"confirm": None, "store": "s.fpstore"},
    "--keep longest": {"confirm": None, "keep": "longest"},
    '--confirm "jaccard>=0.8"': {"confirm": "jaccard>=0.8"},
}


def made(count: int, words: int) -> Iterator[str]:
    """Texts, of which a third are earlier ones with one word changed."""
    rng = random.Random(SEED)
    texts: list[list[str]] = []
    for _ in range(count):
        if texts and rng.random() < 1 / 3:
            text = list(rng.choice(texts))
            text[rng.randrange(len(text))] = f"w{rng.randrange(VOCABULARY)}"
        else:
            text = [f"w{rng.randrange(VOCABULARY)}" for _ in range(words)]
        texts.append(text)
        yield " ".join(text)


def corpora(arguments: Namespace, folder: Path) -> dict[str, Path]:
    """What is read, by its name."""
    if arguments.files:
        return {path.name: path for path in arguments.files}
    found = {}
    for words in (SHORT_WORDS, LONG_WORDS):
        path = folder / f"{words}.jsonl"
        count = max(1, arguments.n * SHORT_WORDS // words)
        with path.open("w") as file:
            file.writelines(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(made(count, words)))
        found[f"{count:,} documents of {words} words"] = path
    return found


def child(task: dict[str, Any]) -> dict[str, Any]:
    """One job, in this process."""
    folder, options = Path(task["folder"]), dict(task["way"])
    if not options.pop("digests", True):
        vars(parts)["packed_digests"] = lambda names, offsets, *_: np.zeros((len(offsets) - 1, 16), dtype=np.uint8)
    if "store" in options:
        options["store"] = folder / options["store"]
    html = task.get("html", False)
    inputs = Inputs([task["path"]], html=html, text_column=task.get("text_column"))
    recipe = load_recipe(task["recipe"]) if task.get("recipe") else None
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    options |= task.get("by", BY[ONE])
    summary = dedup(inputs, folder / "kept.jsonl", dropped=folder / "dropped.tsv", recipe=recipe, **options)
    elapsed = time.perf_counter() - began
    after, workers = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + workers.ru_utime + workers.ru_stime
    return {
        "documents": summary.documents,
        "kept": summary.results,
        "MB": summary.text_bytes / 1e6,
        "cpu": cpu,
        "elapsed": elapsed,
        "rss": resident_bytes("VmHWM") / 1e6,
    }


def measure(results: Results, name: str, path: Path, rounds: int, folder: Path, texts: dict[str, Any]) -> None:
    """A table of all ways on one corpus."""
    taken: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for turn in range(rounds):
        for number, (way, options) in enumerate(WAYS.items()):
            place = folder / f"{path.name}-{turn}-{number}"
            place.mkdir()
            taken[way].append(run_child(__file__, {"path": str(path), "folder": str(place), "way": options, **texts}))
    rows = []
    for way, found in taken.items():
        ratios = [one["cpu"] / plain["cpu"] for one, plain in zip(found, taken[PLAIN], strict=True)]
        rows.append(
            {
                "": way,
                "documents": found[0]["documents"],
                "MB": found[0]["MB"],
                "kept": found[0]["kept"],
                "CPU s": median(one["cpu"] for one in found),
                "to plain": median(ratios),
                "peak RSS, MB": max(one["rss"] for one in found),
            }
        )
        if way in ("without digests", "--store"):
            kept = taken[PLAIN][0]["kept"]
            results.expect(found[0]["kept"] == kept, f"{name}, {way}: kept {found[0]['kept']}, expected {kept}")
    results.table(name, rows)


def measure_threads(results: Results, name: str, path: Path, rounds: int, folder: Path, texts: dict[str, Any]) -> None:
    """A table of the plain and the packed lines, by one thread, by two, and by tasks."""
    packed = folder / f"{path.name}.zst"
    lines = path.read_bytes()
    packed.write_bytes(zstandard.ZstdCompressor().compress(lines))
    first = folder / f"first-of-{path.name}"
    first.write_bytes(lines[: lines.find(b"\n") + 1] or lines)
    rows = []
    fixed: dict[str, list[float]] = {by: [] for by in BY}
    for turn in range(rounds):
        for number, (by, options) in enumerate(BY.items()):
            place = folder / f"{first.name}-{turn}-by-{number}"
            place.mkdir()
            task = {"path": str(first), "folder": str(place), "way": {}, "by": options, **texts}
            fixed[by].append(run_child(__file__, task)["elapsed"])
    for source in (path, packed):
        taken: dict[str, list[dict[str, Any]]] = {by: [] for by in BY}
        for turn in range(rounds):
            for number, (by, options) in enumerate(BY.items()):
                place = folder / f"{source.name}-{turn}-by-{number}"
                place.mkdir()
                task = {"path": str(source), "folder": str(place), "way": {}, "by": options, **texts}
                taken[by].append(run_child(__file__, task))
        one = min(found["elapsed"] for found in taken[ONE])
        kept = taken[ONE][0]["kept"]
        for by, found in taken.items():
            best = min(each["elapsed"] for each in found)
            rows.append(
                {
                    "": source.suffix.removeprefix("."),
                    "by": by,
                    "MB/s": len(lines) / 1e6 / best,
                    "to one thread": one / best,
                    "CPU s": median(each["cpu"] for each in found),
                    "fixed s": min(fixed[by]),
                }
            )
            results.expect(found[0]["kept"] == kept, f"{name}, {by}: kept {found[0]['kept']}, not {kept}")
    results.table(f"{name}, from end to end", rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables."""
    task = child_task(sys.argv)
    if task is not None:
        print_json(child(task))
        return 0
    parser = new_parser(
        __doc__, rounds=3, counted="short documents that are made", real=REAL_DOCUMENTS, small=SMALL_DOCUMENTS
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="*", type=parse_file, help="what is read instead of what is made"
    )
    parser.add_argument("--html", action="store_true", help="the texts are HTML")
    parser.add_argument("--text-column", metavar="FIELD", help="the field of the texts")
    parser.add_argument("--recipe", type=parse_recipe, metavar="NAME", help="of the fingerprints")
    arguments = parse_arguments(parser, argv, real=REAL_DOCUMENTS, small=SMALL_DOCUMENTS)
    with scratch_folder(arguments) as folder:
        found = corpora(arguments, folder)
        arguments.files = [str(path) for path in arguments.files]
        results = Results("bench_jobs", arguments)
        for name, path in found.items():
            texts = {"html": arguments.html, "recipe": arguments.recipe, "text_column": arguments.text_column}
            measure(results, name, path, arguments.rounds, folder, texts)
            if path.suffix == ".jsonl":
                measure_threads(results, name, path, arguments.rounds, folder, texts)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
