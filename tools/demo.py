"""The demo: near-duplicate files in Python's own standard library, found through the command line.

Fingerprints every .py file of the library, and copies of a few with one word changed, so that near-duplicates surely
exist; builds a store, probes it with every file, compares with brute force, and checks the store. Then it keeps one of
each group, and adds to the store only what is new. Works in a scratch folder that is gone afterwards; says at its end
how to go on. Everything is under 60 lines.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

DISTANCE = 3
EDITED_COPIES = 5
SHOWN_PAIRS = 5
SHOWN_OF_REPORT = ("part ", "total ", "without ids")
SHOWN_DROPPED = 3
SHOWN_KNOWN = 3
NOT_THE_LIBRARY = {"site-packages", "dist-packages", "__pycache__"}
LIBRARY = Path(sysconfig.get_path("stdlib"))

Pair = tuple[str, str]


def main() -> int:
    """Run the demo; 1 if its answer differs from brute force."""
    started = perf_counter()
    with TemporaryDirectory(prefix="fpstore-demo-") as folder:
        scratch = Path(folder)
        files = scratch / "files"
        count = copy_library(LIBRARY, files / "library")
        edited = edit_copies(files / "library", files / "edited", 1 / 2)
        say(
            f"{count} files of Python {sys.version.split()[0]}'s library, and {len(edited)} copies with a word changed:"
        )
        print("  " + ", ".join(f"{name} ({before!r})" for name, (before, _) in edited.items()))

        say("Build a store from the files; the recipe turns texts into fingerprints.")
        fpstore(scratch, "build", "library.fpstore", "files", "--format", "text")
        say("The same fingerprints with their names; the row number is the id in the store.")
        names, fingerprints = read_listing(fpstore(scratch, "fingerprint", "files", "--format", "text"))

        say(f"Probe the store with every file: who is within distance {DISTANCE} of whom?")
        queries = "".join(f"{fingerprint:016x}\n" for fingerprint in sorted(set(fingerprints)))
        (scratch / "queries.hex").write_text(queries)
        pairs = read_pairs(fpstore(scratch, "probe", "library.fpstore", "--input", "queries.hex"), names, fingerprints)
        show_pairs(pairs, names, fingerprints)
        expected = brute_force_pairs(names, fingerprints)
        agrees = pairs == expected
        print(f"  Brute force over all pairs: {len(expected)}, {'the same' if agrees else 'NOT the same'}")

        say("Check every byte of the store, and see where they go.")
        print("  " + fpstore(scratch, "verify", "library.fpstore"), end="")
        report = fpstore(scratch, "report", "library.fpstore").splitlines()
        print("".join(f"  {line}\n" for line in report if line.startswith(SHOWN_OF_REPORT)), end="")

        say("Keep one file of each group; for the others: which one is kept for it, and the distance.")
        fpstore(scratch, "dedup", "files", "--format", "text", "-o", "kept.jsonl", "--dropped", "dropped.tsv")
        show((scratch / "dropped.tsv").read_text(), SHOWN_DROPPED)

        say("The same modules with another word changed, and this script: add what is new, and print the others.")
        edit_copies(files / "library", scratch / "more", 1 / 3)
        shutil.copyfile(__file__, scratch / "more" / "demo.py")
        added = ("--format", "text", "--ids", f"from:{len(names)}", "--if-new")
        show(fpstore(scratch, "add", "library.fpstore", "more", *added), SHOWN_KNOWN)
    print(f"\nDone in {perf_counter() - started:.1f} s; the scratch folder is gone.")
    show_how_to_go_on()
    return 0 if agrees else 1


def say(text: str) -> None:
    """A heading before a step."""
    print(f"\n{text}", flush=True)


def show(text: str, count: int) -> None:
    """The first lines of what a command gave."""
    lines = [line for line in text.splitlines() if line]
    print("\n".join(f"  {line}" for line in lines[:count]))
    if len(lines) > count:
        print(f"  ... and {len(lines) - count} lines more")


def show_how_to_go_on() -> None:
    """Three commands to copy, which run as they stand, from where the demo was started."""
    command = Path(sysconfig.get_path("scripts"), "fpstore")
    here = shlex.quote(os.path.relpath(command) if command.is_relative_to(Path.cwd()) else str(command))
    texts = shlex.quote(str(LIBRARY / "email"))
    print("To go on, with files of your own in the place of Python's (README.md has the rest):")
    print(f"  {here} dedup {texts}/*.py --format text -o kept.jsonl --dropped dropped.tsv")
    print(f"  {here} build texts.fpstore {texts}/*.py --format text")
    print(f'  {here} probe texts.fpstore --text "$(cat {texts}/message.py)"')


def fpstore(folder: Path, *arguments: object) -> str:
    """Run the command line in a folder, showing the command, and return what it prints."""
    typed = ["fpstore", *map(str, arguments)]
    print(f"$ {shlex.join(typed)}", flush=True)
    command = [sys.executable, "-m", *typed]
    return subprocess.run(
        command, check=True, cwd=folder, stdout=subprocess.PIPE, encoding="utf-8", errors="surrogateescape"
    ).stdout


def copy_library(library: Path, target: Path) -> int:
    """Copy the .py files of the library that are UTF-8, without what others installed beside it; returns how many."""
    count = 0
    for path in sorted(library.rglob("*.py")):
        inside = path.relative_to(library)
        if NOT_THE_LIBRARY.isdisjoint(inside.parts) and is_utf8(path):
            copy = target / inside
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            count += 1
    return count


def is_utf8(path: Path) -> bool:
    """Whether a file is a text in UTF-8: a few of the library's tests are not, and fpstore refuses them."""
    try:
        path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False
    return True


def edit_copies(library: Path, target: Path, place: float) -> dict[str, Pair]:
    """Copy the largest modules with one word changed, so far from the first to the last; their names and the change."""
    largest = sorted(library.glob("*.py"), key=lambda path: (-path.stat().st_size, path.name))[:EDITED_COPIES]
    target.mkdir()
    changes = {}
    for path in largest:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        words = list(re.finditer(r"\w+", text))
        word = words[int(len(words) * place)]
        copy = text[: word.start()] + "changed" + text[word.end() :]
        (target / path.name).write_text(copy, encoding="utf-8", errors="surrogateescape")
        changes[path.name] = (word[0], "changed")
    return changes


def read_listing(listing: str) -> tuple[list[str], list[int]]:
    """The names (below files) and the fingerprints that `fpstore fingerprint` printed."""
    names, fingerprints = [], []
    for line in listing.splitlines():
        fingerprint, _, name = line.partition("\t")
        names.append(str(Path(name).relative_to("files")))
        fingerprints.append(int(fingerprint, 16))
    print(f"  {len(names)} fingerprints, {len(set(fingerprints))} distinct")
    return names, fingerprints


def read_pairs(answer: str, names: list[str], fingerprints: list[int]) -> dict[Pair, int]:
    """The pairs of files in what `fpstore probe` printed, and their distance."""
    by_fingerprint: dict[int, list[str]] = defaultdict(list)
    for name, fingerprint in zip(names, fingerprints, strict=True):
        by_fingerprint[fingerprint].append(name)
    pairs = {}
    for line in answer.splitlines():
        query, _, distance, row = line.split("\t")
        found = names[int(row)]
        for name in by_fingerprint[int(query, 16)]:
            if name < found:
                pairs[name, found] = int(distance)
    return pairs


def show_pairs(pairs: dict[Pair, int], names: list[str], fingerprints: list[int]) -> None:
    """Print the pairs, edited copies first, then the nearest; of files with one fingerprint only the first two."""
    copies: dict[int, list[str]] = defaultdict(list)
    for name, fingerprint in sorted(zip(names, fingerprints, strict=True)):
        copies[fingerprint].append(name)
    copy_number = {name: number for same in copies.values() for number, name in enumerate(same)}
    told = [
        (distance, (first, second))
        for (first, second), distance in pairs.items()
        if copy_number[first] + copy_number[second] == (0 if distance else 1)
    ]
    print(f"  {len(pairs)} pairs. Without further copies:")
    # The copies that were edited first: those are the near-duplicates that everybody can see.
    told.sort(key=lambda pair: (not pair[1][0].startswith("edited/"), pair))
    for distance, (first, second) in told[:SHOWN_PAIRS]:
        print(f"  {distance}  {first}  {second}")
    if len(told) > SHOWN_PAIRS:
        print(f"  ... and {len(told) - SHOWN_PAIRS} more")


def brute_force_pairs(names: list[str], fingerprints: list[int]) -> dict[Pair, int]:
    """Every pair of files within the distance, by comparing all of them."""
    array = np.array(fingerprints, dtype=np.uint64)
    pairs = {}
    for index, fingerprint in enumerate(array):
        distances = np.bitwise_count(array[index + 1 :] ^ fingerprint)
        for other in (np.flatnonzero(distances <= DISTANCE) + index + 1).tolist():
            first, second = sorted((names[index], names[other]))
            pairs[first, second] = int(distances[other - index - 1])
    return pairs


if __name__ == "__main__":
    sys.exit(main())
