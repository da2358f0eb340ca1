"""Measures recipes on labelled pairs of documents: precision, recall and F1 for every k, and the distances.

    python tools/bench_quality.py FOLDER [--sets a,b] [--recipes web-en,FILE.json,...] [--k 3]
                                  [--judge a,b] [--histograms] [--png FILE] [--json]

FOLDER holds sets: NAME.jsonl.zst, a JSON object a line with `id` and `text` or `html`, and NAME.pairs.tsv.zst, a header
and lines of id, id, label (1 near-duplicates, 0 not, -1 in between), score, relation. A pair is found where the
fingerprints are within k. Pairs of label -1 are counted by themselves and are in no figure of precision or recall.
A set without a pair of label 0 has a complete list: there every pair of its documents that is not listed is of
label 0, and all pairs are looked for in a store. Precision depends on how many hard pairs were labelled, so it
compares recipes on one set, not sets. --judge takes sets without labels: all pairs of their documents within k are
found, and a sample of 1,500 is judged by the exact Jaccard similarity of their shingles of three words.
"""

import io
import json
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from benchlib import Results, distinct, parse_list, scratch_folder
from numpy.typing import NDArray

import fpstore
from fpstore import text as fptext
from fpstore.text import Recipe

DISTANCES = range(11)
LABELS = {1: "near-duplicates", 0: "others", -1: "in between"}
WINDOW_LOG = 27
BATCH_BYTES = 8 << 20
SEED = 20070512
JUDGED_PAIRS = 1500
JUDGE = Recipe("judge", shingle=3)


@dataclass(frozen=True)
class Labelled:
    """A set: documents by id, and pairs as columns: first and second index into the ids, and label."""

    name: str
    path: Path
    ids: list[str]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    label: NDArray[np.int64]

    @property
    def is_complete(self) -> bool:
        """Whether every pair that is not listed is known to be of label 0."""
        return not (self.label == 0).any()


def lines(path: Path) -> Iterator[str]:
    with (
        path.open("rb") as file,
        zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_LOG).stream_reader(file) as data,
    ):
        yield from io.TextIOWrapper(data, encoding="utf-8")


def read_set(folder: Path, name: str) -> Labelled:
    rows = [line.rstrip("\n").split("\t") for line in lines(folder / f"{name}.pairs.tsv.zst")][1:]
    path = folder / f"{name}.jsonl.zst"
    label = np.array([int(row[2]) for row in rows], dtype=np.int64)
    if (label == 0).any():
        ids = sorted({identity for row in rows for identity in row[:2]})
    else:
        ids = sorted(json.loads(line)["id"] for line in lines(path))
    index = {identity: number for number, identity in enumerate(ids)}
    first, second = (np.array([index[row[side]] for row in rows], dtype=np.int64) for side in (0, 1))
    return Labelled(name, path, ids, first, second, label)


def fingerprints(labelled: Labelled, recipe: Recipe) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """The fingerprints of the documents that the pairs name, and their numbers of tokens."""
    index = {identity: number for number, identity in enumerate(labelled.ids)}
    prints = np.zeros(len(index), dtype=np.uint64)
    tokens = np.zeros(len(index), dtype=np.uint32)
    waiting: list[tuple[int, str]] = []

    def take() -> None:
        places = [place for place, _ in waiting]
        prints[places], tokens[places] = recipe.measure_many([text for _, text in waiting])
        waiting.clear()

    size = 0
    for line in lines(labelled.path):
        document = json.loads(line)
        place = index.get(document["id"])
        if place is None:
            continue
        text = recipe.text_of(document["html"]) if "html" in document else document["text"]
        waiting.append((place, text))
        size += len(text)
        if size > BATCH_BYTES:
            take()
            size = 0
    if waiting:
        take()
    return prints, tokens


def found_among_all(prints: NDArray[np.uint64], labelled: Labelled, arguments: Namespace) -> dict[int, int]:
    """For each distance, how many pairs of all documents of the set have it."""
    counts = dict.fromkeys(DISTANCES, 0)
    values, sizes = np.unique(prints, return_counts=True)
    counts[0] = int((sizes * (sizes - 1) // 2).sum())
    size = dict(zip(values.tolist(), sizes.tolist(), strict=True))
    with (
        scratch_folder(arguments) as folder,
        fpstore.build(
            folder / "s.fpstore", distinct(prints), ids=None, max_distance=DISTANCES[-1], plan="size"
        ) as store,
    ):
        for chunk in store.pairs():
            columns = (chunk.first.tolist(), chunk.second.tolist(), chunk.distance.tolist())
            for one, other, distance in zip(*columns, strict=True):
                counts[distance] += size[one] * size[other]
    return counts


def judge(
    labelled: Labelled, recipe: Recipe, arguments: Namespace
) -> tuple[list[dict[str, Any]], dict[int, NDArray[np.int64]]]:
    """A row for every k, and how many pairs of each label have each distance."""
    prints, tokens = fingerprints(labelled, recipe)
    apart = np.bitwise_count(prints[labelled.first] ^ prints[labelled.second])
    histograms = {label: np.bincount(apart[labelled.label == label], minlength=65) for label in LABELS}
    among_all = found_among_all(prints, labelled, arguments) if labelled.is_complete else None
    total = int(histograms[1].sum())
    rows = []
    for k in DISTANCES:
        right = int(histograms[1][: k + 1].sum())
        wrong = int(histograms[0][: k + 1].sum())
        if among_all is not None:
            grey = int(histograms[-1][: k + 1].sum())
            wrong = sum(among_all[distance] for distance in range(k + 1)) - right - grey
        precision = right / (right + wrong) if right + wrong else float("nan")
        recall = right / total
        f1 = 2 * right / (right + wrong + total)
        rows.append(
            {
                "recipe": recipe.name,
                "k": k,
                "precision": precision,
                "recall": recall,
                "F1": f1,
                "right": right,
                "wrong": wrong,
                "in between": int(histograms[-1][: k + 1].sum()),
                "median tokens": float(np.median(tokens)),
            }
        )
    return rows, histograms


def picture(path: Path, found: dict[tuple[str, str], dict[int, NDArray[np.int64]]]) -> None:
    """Draw the distances of every set (rows) by every recipe (columns)."""
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(name for name, _ in found))
    recipes = list(dict.fromkeys(recipe for _, recipe in found))
    figure = Figure(figsize=(3.2 * len(recipes), 2.0 * len(sets)), layout="constrained")
    axes = figure.subplots(len(sets), len(recipes), squeeze=False, sharex=True)
    colours = {1: "tab:green", -1: "tab:gray", 0: "tab:red"}
    for (name, recipe), histograms in found.items():
        axis = axes[sets.index(name)][recipes.index(recipe)]
        for label, histogram in histograms.items():
            share = histogram / max(1, histogram.sum())
            axis.step(range(65), share, where="mid", color=colours[label], label=LABELS[label], linewidth=1)
        axis.axvline(3.5, color="black", linewidth=0.5)
        axis.set_xlim(-1, 48)
        axis.tick_params(labelsize=6)
        axis.set_title(f"{name}\n{recipe}", fontsize=7)
    axes[0][0].legend(fontsize=6)
    figure.supxlabel("Hamming distance", fontsize=8)
    figure.supylabel("share of the pairs", fontsize=8)
    figure.savefig(path, dpi=110)


def judged(path: Path, recipe: Recipe, arguments: Namespace) -> dict[str, Any]:
    """How alike the documents are that a recipe finds within k of each other among all of a set."""
    texts = [json.loads(line)["text"] for line in lines(path)]
    prints = recipe.fingerprint_many(texts)
    order = np.argsort(prints, kind="stable")
    starts = np.searchsorted(prints[order], np.unique(prints))
    groups = dict(zip(prints[order[starts]].tolist(), np.split(order, starts[1:]), strict=True))
    pairs = [(one, other) for group in groups.values() for i, one in enumerate(group) for other in group[:i]]
    with (
        scratch_folder(arguments) as folder,
        fpstore.build(folder / "s.fpstore", distinct(prints), ids=None, max_distance=arguments.k, plan="size") as store,
    ):
        for chunk in store.pairs():
            for first, second in zip(chunk.first.tolist(), chunk.second.tolist(), strict=True):
                pairs += [(one, other) for one in groups[first] for other in groups[second]]
    chosen = np.random.default_rng(SEED).permutation(len(pairs))[:JUDGED_PAIRS].tolist()
    alike = np.array([jaccard(texts[pairs[i][0]], texts[pairs[i][1]]) for i in chosen])
    bounds = (0.8, 0.5, 0.3, 0.0)
    shares: dict[str, Any] = {"recipe": recipe.name, "pairs": len(pairs), "judged": len(chosen)}
    above = np.inf
    for bound in bounds:
        shares[f"Jaccard >= {bound}" if bound else "less"] = float(((alike >= bound) & (alike < above)).mean())
        above = bound
    return shares


def jaccard(one: str, other: str) -> float:
    """The exact similarity of two texts as sets of shingles; two without any are equal."""
    first, second = JUDGE.features(one).hashes, JUDGE.features(other).hashes
    both = len(np.intersect1d(first, second, assume_unique=True))
    return both / max(1, len(first) + len(second) - both) if len(first) or len(second) else 1.0


def recipe_of(text: str) -> Recipe:
    """A preset by its name, or the recipe in a JSON file."""
    if text in fptext.recipes():
        return fptext.recipes()[text]
    return Recipe.from_json(json.loads(Path(text).read_text()))


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", type=parse_list, help="default: all that have pairs")
    parser.add_argument(
        "--recipes", type=parse_list, default=list(fptext.recipes()), help="presets and files; default: presets"
    )
    parser.add_argument("--k", type=int, default=3, help="the distance of the short table; default 3")
    parser.add_argument("--png", type=Path, help="where a picture of the distances goes")
    parser.add_argument("--judge", type=parse_list, default=[], help="sets without labels, or with")
    parser.add_argument("--histograms", action="store_true", help="print the distances of each label")
    parser.add_argument("--dir", type=Path, help="where stores go, which are removed afterwards; default: temporary")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(small=False, n=0)
    arguments = parser.parse_args()
    results = Results("bench_quality", arguments)
    suffix = ".pairs.tsv.zst"
    names = arguments.sets or sorted(path.name.removesuffix(suffix) for path in arguments.folder.glob(f"*{suffix}"))
    recipes = [recipe_of(text) for text in arguments.recipes]
    found: dict[tuple[str, str], dict[int, NDArray[np.int64]]] = {}
    for name in names:
        labelled = read_set(arguments.folder, name)
        counts = {text: int((labelled.label == label).sum()) for label, text in LABELS.items()}
        counted = ", ".join(f"{count:,} {text}" for text, count in counts.items())
        short, whole = [], []
        for recipe in recipes:
            rows, found[name, recipe.name] = judge(labelled, recipe, arguments)
            best = max(rows, key=lambda row: row["F1"])
            short += [rows[arguments.k], best | {"recipe": "  its best F1"}]
            whole += rows
        results.table(f"{name}: {len(labelled.ids):,} documents, {counted}; k = {arguments.k} and the best", short)
        if arguments.json:
            results.table(f"{name}: every k", whole)
        if arguments.histograms:
            rows = [
                {"recipe": recipe.name, "label": LABELS[label]}
                | {str(distance): int(count) for distance, count in enumerate(histogram[:33])}
                for recipe in recipes
                for label, histogram in found[name, recipe.name].items()
            ]
            results.table(f"{name}: pairs at each distance", rows)
    for name in arguments.judge:
        rows = [judged(arguments.folder / f"{name}.jsonl.zst", recipe, arguments) for recipe in recipes]
        results.table(f"{name}, not labelled: pairs within {arguments.k} among all its documents", rows)
    if arguments.png:
        picture(arguments.png, found)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
