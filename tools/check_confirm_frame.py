"""How long `dedup` takes of pages of one frame that are all near and just not alike enough to be dropped.

Prints documents, those that were kept, and seconds of the processor: what docs/jobs.md says of them.
"""

import argparse
import json
import random
import resource
import tempfile
from pathlib import Path
from string import ascii_lowercase

from fpstore import jobs

SHARED, OWN = 91, 10
COUNTS = (2_500, 5_000, 10_000)


def write_pages(path: Path, count: int) -> None:
    """So many texts of SHARED words that all have and OWN words that one has."""
    source = random.Random(8)

    def words(number: int) -> list[str]:
        return ["".join(source.choices(ascii_lowercase, k=7)) for _ in range(number)]

    frame = words(SHARED)
    with path.open("w") as file:
        for _ in range(count):
            file.write(json.dumps({"text": " ".join(frame + words(OWN))}) + "\n")


def seconds() -> float:
    """Of the processor, of this process until now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """One line for each number of pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tenth of the pages")
    share = 10 if parser.parse_args().small else 1
    print("documents    kept  seconds")
    for count in (count // share for count in COUNTS):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "pages.jsonl"
            write_pages(source, count)
            start = seconds()
            summary = jobs.dedup([source], Path(folder) / "kept.jsonl")
            print(f"{count:9,} {summary.results:7,} {seconds() - start:8.1f}")


if __name__ == "__main__":
    main()
