"""Measures what wide recipes find of labelled pairs: precision and recall of 64, 128 and 256 bits at one similarity.

    python tools/bench_widths.py FOLDER [--sets a,b] [--recipes text-1,simhash-1]

FOLDER and labels are those of bench_quality.py. For each set and recipe: at k = 3 and 6 of 64 bits, and as many more
of more bits (`Recipe.distance`), then the k up to 12 of 64 bits at which F1 is the highest, and that.
"""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from quality import fingerprints, read_set

from fpstore.text import recipes

WIDTHS = (64, 128, 256)
SHOWN = (3, 6)
MOST = 12  # of 64 bits


def main() -> int:
    assert __doc__
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", help="by default all of the folder")
    parser.add_argument("--recipes", default="text-1,simhash-1")
    arguments = parser.parse_args()
    found = sorted(path.name.removesuffix(".pairs.tsv.zst") for path in arguments.folder.glob("*.pairs.tsv.zst"))
    for name in arguments.sets.split(",") if arguments.sets else found:
        labelled = read_set(arguments.folder, name)
        if not (labelled.label == 0).any():
            continue
        for named in arguments.recipes.split(","):
            for bits in WIDTHS:
                recipe = replace(recipes()[named], bits=bits)
                prints, _ = fingerprints(labelled, recipe)
                apart = distances(prints[labelled.first], prints[labelled.second])
                told = [told_at(apart, labelled.label, recipe.distance(k)) for k in SHOWN]
                scores = [f1(*rates(apart, labelled.label, k)) for k in range(recipe.distance(MOST) + 1)]
                best = int(np.argmax(scores))
                print(f"{name} {named} {bits}: {', '.join(told)}; best F1 {scores[best]:.3f} at k = {best}", flush=True)
    return 0


def distances(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> NDArray[np.int64]:
    """In how many bits each differs: int64[n]."""
    apart = np.bitwise_count(one ^ other).astype(np.int64)
    return apart if apart.ndim == 1 else apart.sum(axis=1)


def rates(apart: NDArray[np.int64], label: NDArray[np.int64], k: int) -> tuple[float, float]:
    """Precision and recall."""
    right, wrong = np.count_nonzero((apart <= k) & (label == 1)), np.count_nonzero((apart <= k) & (label == 0))
    return right / max(1, right + wrong), right / max(1, np.count_nonzero(label == 1))


def told_at(apart: NDArray[np.int64], label: NDArray[np.int64], k: int) -> str:
    precision, recall = rates(apart, label, k)
    return f"k = {k}: {precision:.3f} / {recall:.3f}"


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


if __name__ == "__main__":
    sys.exit(main())
