"""Are documents dropped wrongly by the defaults of `fpstore dedup`? Judges the dropped ones of corpora by their texts.

    python tools/check_defaults.py FOLDER [NAME...] [--k K] [--confirm MEASURE>=X|none]

Corpora: FOLDER/NAME.jsonl.zst with fields id and text, or html; NAME.pairs.tsv.zst has labelled pairs of them. Of each
dropped document and the kept one that it was dropped for, the exact Jaccard similarity of all shingles: of 3 words, or
of 5 characters where more than a fifth is Han. Prints how many are below 0.5, and each of these; how many of the pairs
labelled as near-duplicates have one document left or the same reason; the processor time. Ends with 1 where more than
1 in 1,000 dropped documents is below 0.5, or one page with 500 visible characters. Needs zstandard.
"""

import argparse
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import zstandard
from arguments import expect_sets, parse_confirm, parse_folder, parse_whole

from fpstore.plans.choice import most_distance
from fpstore.text.cleaning import text_of_html

HAN = re.compile("[\u4e00-\u9fff]")
LEAST, ALLOWED = 0.5, 1 / 1000
VISIBLE = 500


def lines(path: Path) -> Iterator[str]:
    """Of a packed file."""
    with path.open("rb") as file:
        yield from io.TextIOWrapper(zstandard.ZstdDecompressor(max_window_size=1 << 31).stream_reader(file), "utf-8")


@lru_cache(1 << 12)
def shingles(text: str) -> frozenset[str]:
    """Every 3 words, or 5 characters of a text that is Chinese; all of one that is shorter."""
    letters = re.sub(r"\W+", "", text.casefold())
    if 5 * len(HAN.findall(text)) > len(letters):
        return frozenset(letters[i : i + 5] for i in range(max(1, len(letters) - 4)))
    words = re.findall(r"\w+", text.casefold())
    return frozenset(" ".join(words[i : i + 3]) for i in range(max(1, len(words) - 2)))


def judge(path: Path, options: list[str]) -> bool:
    """Print what became of a corpus; whether few enough were dropped wrongly."""
    records = [json.loads(line) for line in lines(path)]
    texts = [record["text"] if "text" in record else text_of_html(record["html"], "all") for record in records]
    reading = ["--text-column", "html", "--html"] if "html" in records[0] else []
    before = getrusage(RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        kept, dropped = f"{folder}/kept.jsonl", Path(folder, "dropped.tsv")
        command = ["dedup", str(path), "-o", kept, "--dropped", str(dropped), *reading, *options]
        subprocess.run([sys.executable, "-m", "fpstore", *command], check=True)
        rows = [line.split("\t")[:2] for line in dropped.read_text().splitlines()]
    after = getrusage(RUSAGE_CHILDREN)
    reason = {int(one.rpartition(":")[2]) - 1: int(other.rpartition(":")[2]) - 1 for one, other in rows}
    wrong, pages = [], 0
    for one, other in reason.items():
        ours, theirs = shingles(texts[one]), shingles(texts[other])
        if texts[one] != texts[other] and len(ours & theirs) < LEAST * len(ours | theirs):
            wrong.append((texts[one][:100], texts[other][:100]))
            pages += bool(reading) and len("".join(texts[one].split())) >= VISIBLE
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    told = f"{path.name}: dropped {len(reason)}, below {LEAST}: {len(wrong)}, {seconds:.1f} s"
    print(told + labelled(path, records, reason))
    for pair in wrong:
        print("  ", *map(repr, pair))
    return len(wrong) <= ALLOWED * len(reason) and not pages


def labelled(path: Path, records: list[dict[str, str]], reason: dict[int, int]) -> str:
    """How many of the pairs labelled as near-duplicates are together."""
    pairs = path.with_name(path.name.replace(".jsonl", ".pairs.tsv"))
    if not pairs.exists():
        return ""
    place = {str(record["id"]): index for index, record in enumerate(records)}
    rows = [line.split("\t") for line in lines(pairs)]
    near = [(place[row[0]], place[row[1]]) for row in rows[1:] if row[2] == "1"]
    together = sum(reason.get(one, one) == reason.get(other, other) for one, other in near)
    return f", together {together} of {len(near)}"


def main() -> int:
    """Run the check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=parse_folder)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--k", type=parse_whole, choices=range(most_distance(64) + 1))
    parser.add_argument("--confirm", type=parse_confirm)
    arguments = parser.parse_args()
    expect_sets(parser, arguments.folder, arguments.names)
    options = ["--k", str(arguments.k)] * (arguments.k is not None)
    options += ["--confirm", arguments.confirm] * (arguments.confirm is not None)
    paths = [arguments.folder / f"{name}.jsonl.zst" for name in arguments.names]
    found = [judge(path, options) for path in paths or sorted(arguments.folder.glob("*.jsonl.zst"))]
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
