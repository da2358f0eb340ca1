"""Measures what wide recipes find of labelled pairs: precision and recall of 64, 128 and 256 bits at one similarity.

    python tools/bench_widths.py [FOLDER] [--sets a,b] [--recipes text-1,simhash-1]

FOLDER and labels are those of bench_quality.py. For each set and recipe: at k = 3 and 6 of 64 bits, and as many more
of more bits (`Recipe.distance`), then the k up to 12 of 64 bits at which F1 is the highest, and that. Without a FOLDER:
what a fingerprint takes to make, of texts of 300 words, the least processor time of some turns, and how often that of
64 bits.
"""

import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import replace
from itertools import product

import numpy as np
from arguments import expect_sets, names_among, parse_folder, parse_list
from numpy.typing import NDArray
from quality import fingerprints, read_set

from fpstore.text import recipes

WIDTHS = (64, 128, 256)
SHOWN = (3, 6)
MOST = 12  # of 64 bits
WORDS, TEXTS, TURNS = 300, 4000, 9


def main() -> int:
    assert __doc__
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=parse_folder, nargs="?")
    parser.add_argument("--sets", type=parse_list, help="by default all of the folder")
    parser.add_argument("--recipes", type=names_among(recipes()), default=["text-1", "simhash-1"])
    arguments = parser.parse_args()
    if arguments.folder is None:
        times(arguments.recipes)
        return 0
    found = sorted(path.name.removesuffix(".pairs.tsv.zst") for path in arguments.folder.glob("*.pairs.tsv.zst"))
    expect_sets(parser, arguments.folder, arguments.sets or [])
    for name in arguments.sets or found:
        labelled = read_set(arguments.folder, name)
        if not (labelled.label == 0).any():
            continue
        for named in arguments.recipes:
            for bits in WIDTHS:
                recipe = replace(recipes()[named], bits=bits)
                prints, _ = fingerprints(labelled, recipe)
                apart = distances(prints[labelled.first], prints[labelled.second])
                told = [told_at(apart, labelled.label, recipe.distance(k)) for k in SHOWN]
                scores = [f1(*rates(apart, labelled.label, k)) for k in range(recipe.distance(MOST) + 1)]
                best = int(np.argmax(scores))
                print(f"{name} {named} {bits}: {', '.join(told)}; best F1 {scores[best]:.3f} at k = {best}", flush=True)
    return 0


def times(names: list[str]) -> None:
    """Print what fingerprints of each width take."""
    source = np.random.default_rng(1)
    texts = [" ".join(f"w{word}" for word in source.integers(0, 5000, WORDS)) for _ in range(TEXTS)]
    least: dict[tuple[str, int], float] = {}
    for _ in range(TURNS):
        for name, bits in product(names, WIDTHS):
            recipe, start = replace(recipes()[name], bits=bits), time.process_time()
            recipe.measure_many(texts, threads=1)
            taken = (time.process_time() - start) / TEXTS / WORDS * 1e9
            least[name, bits] = min(taken, least.get((name, bits), taken))
    for (name, bits), taken in least.items():
        print(f"{name} {bits}: {taken:.1f} ns a word, {taken / least[name, WIDTHS[0]]:.2f} of {WIDTHS[0]} bits")


def distances(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.int64]:
    """In how many bits each differs: int64[n]."""
    apart: NDArray[np.int64] = np.bitwise_count(one ^ other).astype(np.int64)
    return apart if apart.ndim == 1 else np.asarray(apart.sum(axis=1), dtype=np.int64)


def rates(apart: NDArray[np.int64], label: NDArray[np.int64], k: int) -> tuple[float, float]:
    """Precision and recall."""
    found, alike = apart <= k, int(np.count_nonzero(label == 1))
    right, wrong = int(np.count_nonzero(found & (label == 1))), int(np.count_nonzero(found & (label == 0)))
    return right / max(1, right + wrong), right / max(1, alike)


def told_at(apart: NDArray[np.int64], label: NDArray[np.int64], k: int) -> str:
    precision, recall = rates(apart, label, k)
    return f"k = {k}: {precision:.3f} / {recall:.3f}"


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


if __name__ == "__main__":
    sys.exit(main())
