"""Measures recipes on labelled pairs of documents: precision, recall and F1 for every k, and what jobs would drop.

    python tools/bench_quality.py FOLDER [--sets a,b] [--recipes text-1,FILE.json,...] [--k 3] [--rivals] [--lengths]
                                  [--judge a,b] [--dropped a,b] [--messages FOLDER] [--accept] [--histograms]
                                  [--png FILE] [--json]

FOLDER holds sets: NAME.jsonl.zst, a JSON object a line with `id` and `text` or `html`, and NAME.pairs.tsv.zst, a header
and lines of id, id, label (1 near-duplicates, 0 not, -1 in between), score, relation. A pair is found where the
fingerprints are within k. Pairs of label -1 are counted by themselves and are in no figure of precision or recall.
The relation says whose the label is: that of people, or of whoever made the copy, or by the exact Jaccard similarity.
A set without a pair of label 0 has a complete list: there every pair of its documents that is not listed is of
label 0, and all pairs are looked for in a store. Precision depends on how many hard pairs were labelled, so it
compares recipes on one set, not sets.

--rivals adds MinHash of 128 values of 32 bits, by datasketch, of the shingles of text-1; what the package `simhash`
makes are the fingerprints of recipe pypi-simhash. --lengths parts the pairs by the words of the shorter document.
--judge takes sets, labelled or not: all pairs of their documents within k are found and judged by the exact Jaccard
similarity of shingles of three words, or of five letters where a text is Chinese or the like. --dropped judges so what
a job drops that keeps the first of its like, by all that is visible of pages. --messages is a folder of a package
with translated messages, such as Django's: unrelated texts and changed ones in each of its languages. --weak prints
which shares of a set's texts are of the kinds that fpstore warns of. --accept prints
the figures that the default is held to, against web-en at the same k: as jobs take it, which look for k = 6 and confirm
(a pair is found that is within k and confirmed, by the very code of jobs), and at k = 3 with and without that. What
jobs drop is held to a bar with their defaults; without confirmation it is a row of the table, and no bar.
"""

import json
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from arguments import expect_sets, parse_any, parse_count, parse_folder, parse_list, parse_recipes, parse_whole
from benchlib import Results
from numpy.typing import NDArray
from quality import (
    LABELS,
    SEED,
    Judge,
    Labelled,
    MinHashes,
    confirmed,
    dropped,
    fingerprints,
    found_among_all,
    found_pairs,
    holds_pages,
    messages,
    random_texts,
    read_set,
    texts_of,
)

from fpstore.text import DEFAULT_RECIPE, Recipe, dedup, recipes
from fpstore.text.confirm import CONFIRMED_DISTANCE, DEFAULT_CONFIRM, UNCONFIRMED_DISTANCE
from fpstore.text.short import Lengths

DISTANCES = range(11)
SHORT_TABLE = (3, 6, 10)
THRESHOLDS = (0.9, 0.8, 0.7, 0.5)
JUDGED_PAIRS = 20_000
BOUNDS = (0.8, 0.5, 0.3, 0.0)
LENGTHS = (1, 25, 50, 100, 250, 1000, 1 << 32)
LEAST_MESSAGES = 300
OLD = "web-en"
# What the default is held to: see docs/choosing-a-recipe.md.
MORE_RECALL, LESS_RECALL, LESS_PRECISION, WRONG_DROPS = 0.05, 0.01, 0.005, 0.001
VISIBLE = 500
CHANGED_FOUND = 0.5

# What a job with nothing asked for looks for, as its k and what it confirms by; where it cannot confirm; and between.
JOBS = ((CONFIRMED_DISTANCE, DEFAULT_CONFIRM), (UNCONFIRMED_DISTANCE, ""), (UNCONFIRMED_DISTANCE, DEFAULT_CONFIRM))

Histograms = dict[int, NDArray[np.int64]]
Row = dict[str, Any]


def measures(right: int, wrong: int, total: int) -> dict[str, float]:
    return {
        "precision": right / (right + wrong) if right + wrong else float("nan"),
        "recall": right / total if total else float("nan"),
        "F1": 2 * right / max(1, right + wrong + total),
    }


def judge(
    labelled: Labelled, recipe: Recipe, prints: NDArray[np.uint64], tokens: NDArray[np.uint32], arguments: Namespace
) -> tuple[list[Row], Histograms, NDArray[np.uint8]]:
    """A row for every k, how many pairs of each label have each distance, and all distances."""
    apart = np.bitwise_count(prints[labelled.first] ^ prints[labelled.second])
    histograms = {label: np.bincount(apart[labelled.label == label], minlength=65) for label in LABELS}
    among_all = found_among_all(prints, DISTANCES[-1], arguments) if labelled.is_complete else None
    total = int(histograms[1].sum())
    rows = []
    for k in DISTANCES:
        right, wrong, grey = (int(histograms[label][: k + 1].sum()) for label in LABELS)
        if among_all is not None:
            wrong = sum(among_all[distance] for distance in range(k + 1)) - right - grey
        counted = {"right": right, "wrong": wrong, "in between": grey, "median tokens": float(np.median(tokens))}
        rows.append({"recipe": recipe.name, "k": k} | measures(right, wrong, total) | counted)
    return rows, histograms, apart


def confirmed_rows(
    labelled: Labelled, recipe: Recipe, prints: NDArray[np.uint64], apart: NDArray[np.uint8], arguments: Namespace
) -> dict[int, Row]:
    """By k what a job finds that confirms: pairs within k whose documents it takes for alike."""
    most = max(k for k, confirm in JOBS if confirm)
    listed = np.flatnonzero(apart <= most)
    label, distance = labelled.label[listed], apart[listed].astype(np.int64)
    first, second = labelled.first[listed].tolist(), labelled.second[listed].tolist()
    if labelled.is_complete:
        label_of = {
            frozenset(pair): label
            for *pair, label in zip(
                labelled.first.tolist(), labelled.second.tolist(), labelled.label.tolist(), strict=True
            )
        }
        pairs = found_pairs(prints, most, arguments)
        label = np.array([label_of.get(frozenset(pair[:2]), 0) for pair in pairs])
        distance = np.array([pair[2] for pair in pairs])
        first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    alike = confirmed(labelled, recipe, first, second, DEFAULT_CONFIRM)
    total = int((labelled.label == 1).sum())
    rows = {}
    for k in sorted({k for k, confirm in JOBS if confirm}):
        right, wrong, grey = (int((alike & (distance <= k) & (label == each)).sum()) for each in LABELS)
        counted = {"right": right, "wrong": wrong, "in between": grey, "median tokens": ""}
        rows[k] = {"recipe": f"  {DEFAULT_CONFIRM}", "k": k} | measures(right, wrong, total) | counted
    return rows


def rival_rows(labelled: Labelled) -> list[Row]:
    """Of MinHash by datasketch, for its thresholds."""
    made = MinHashes(labelled, DEFAULT_RECIPE)
    alike = made.alike(labelled.first, labelled.second)
    rows = []
    for threshold in THRESHOLDS:
        right, wrong, grey = (int((alike[labelled.label == label] >= threshold).sum()) for label in LABELS)
        if labelled.is_complete:
            wrong = made.count_all(threshold) - right - grey
        total = int((labelled.label == 1).sum())
        counted = {"right": right, "wrong": wrong, "in between": grey, "median tokens": ""}
        rows.append({"recipe": "MinHash 128", "k": f">= {threshold}"} | measures(right, wrong, total) | counted)
    return rows


def by_length(found: dict[str, list[tuple[Labelled, Any, Any]]], k: int) -> list[Row]:
    """Of all pairs that Jaccard labelled, parted by the tokens of the shorter document."""
    rows = []
    for name, sets in found.items():
        apart = np.concatenate([distances for _, distances, _ in sets])
        label = np.concatenate([labelled.label for labelled, _, _ in sets])
        shorter = np.concatenate(
            [np.minimum(tokens[labelled.first], tokens[labelled.second]) for labelled, _, tokens in sets]
        )
        for least, end in pairwise(LENGTHS):
            here = (shorter >= least) & (shorter < end)
            right, wrong = (int((apart[here & (label == each)] <= k).sum()) for each in (1, 0))
            total = int((here & (label == 1)).sum())
            words = f"{least} to {end - 1}" if end < LENGTHS[-1] else f"{least} and more"
            row = {"recipe": name, "words": words, "k": k, "pairs": total}
            rows.append(row | measures(right, wrong, total) | {"wrong": wrong})
    return rows


def shares(alike: NDArray[np.float64]) -> dict[str, float]:
    """How many of the judged are how alike, as parts of them."""
    found, above = {}, np.inf
    for bound in BOUNDS:
        part = float(((alike >= bound) & (alike < above)).mean()) if len(alike) else float("nan")
        found[f"Jaccard >= {bound}" if bound else "less"] = part
        above = bound
    return found


def judged(path: Path, recipe: Recipe, arguments: Namespace) -> Row:
    """How alike the documents are that a recipe finds within k of each other among all of a set."""
    texts = [text for _, text in texts_of(path, recipe)]
    prints = recipe.fingerprint_many(texts)
    pairs = [pair[:2] for pair in found_pairs(prints, arguments.k, arguments)]
    chosen = np.random.default_rng(SEED).permutation(len(pairs))[:JUDGED_PAIRS].tolist()
    judging = Judge(texts)
    alike = np.array([judging.jaccard(*pairs[i]) for i in chosen])
    row = {"recipe": recipe.name, "k": arguments.k, "pairs": len(pairs), "judged": len(chosen)}
    return row | shares(alike)


def drop_rows(path: Path, recipe: Recipe, ks: tuple[int, ...], arguments: Namespace) -> list[Row]:
    """What a job drops for every k, how alike it is to what is kept for it; of pages by all that is visible."""
    texts = [text for _, text in texts_of(path, recipe)]
    prints = recipe.fingerprint_many(texts)
    with_pages = holds_pages(path)
    visible = [text for _, text in texts_of(path, Recipe("visible", html="all"))] if with_pages else texts
    judging, compared, own = Judge(visible), Judge(texts), Judge(texts, recipe)
    rows = []
    for k in ks:
        found = dropped(prints, k, arguments)
        alike = np.array([judging.jaccard(*pair) for pair in found])
        confirmed = np.array([own.jaccard(*pair) >= 0.8 for pair in found], dtype=bool)
        wrong = [pair for pair, likeness in zip(found, alike.tolist(), strict=True) if likeness < 0.5]
        long = [pair for pair in wrong if len("".join(visible[pair[0]].split())) >= VISIBLE]
        other = sum(compared.jaccard(*pair) < 0.5 for pair in long) if with_pages else len(long)
        row = {"recipe": recipe.name, "k": k, "documents": len(texts), "dropped": len(found)}
        row |= {"below 0.5": len(wrong), "share": len(wrong) / max(1, len(found))}
        row |= {f"of {VISIBLE} characters": len(long), "other main text too": other}
        row |= {"confirmed": int(confirmed.sum()), "of them below 0.5": int((confirmed & (alike < 0.5)).sum())}
        rows.append(row)
        if arguments.show:
            for one, other in wrong[: arguments.show]:
                print(f"    {k} {visible[one][:150]!r}\n      {visible[other][:150]!r}", file=sys.stderr)
    return rows


def wrong_by_default(path: Path) -> tuple[int, int, int]:
    """How many documents a job drops by default; how many of these have a Jaccard below 0.5 with the kept one, by all
    that is visible of pages; and how many of them have VISIBLE characters."""
    texts = [text for _, text in texts_of(path, DEFAULT_RECIPE)]
    every = [text for _, text in texts_of(path, Recipe("visible", html="all"))] if holds_pages(path) else texts
    duplicate_of, judging = dedup(texts).duplicate_of.tolist(), Judge(every)
    pairs = [(index, kept) for index, kept in enumerate(duplicate_of) if index != kept]
    wrong = [index for index, kept in pairs if judging.jaccard(index, kept) < 0.5]
    return len(pairs), len(wrong), sum(len("".join(every[index].split())) >= VISIBLE for index in wrong)


def weak_row(path: Path, recipe: Recipe) -> Row:
    """Of a set the shares of texts that fpstore counts for its warnings."""
    texts = [text for _, text in texts_of(path, recipe)]
    lengths = Lengths(recipe, CONFIRMED_DISTANCE)
    lengths.see(texts, recipe.measure_many(texts))
    counted = {name: getattr(lengths, name) / max(1, len(texts)) for name in ("short", "empty")}
    counted |= {name: lengths.weak[name] / max(1, len(texts)) for name in ("few", "unseen")}
    return {"set": path.name.partition(".")[0], "recipe": recipe.name, "documents": len(texts)} | counted


def language_rows(of_language: dict[str, list[str]], recipe: Recipe, seeds: int) -> list[Row]:
    """Of each language how many pairs of unrelated texts are near each other, and how many changed texts are found.

    Of several seeds the sum of the first, and of the second the mean, the least and the most.
    """
    rows = []
    for language, texts in of_language.items():
        if len(texts) < LEAST_MESSAGES:
            continue
        apart, moved = [], []
        for seed in range(seeds):
            some, changed = random_texts(texts, seed)
            prints, others = recipe.fingerprint_many(some), recipe.fingerprint_many(changed)
            apart.append(np.bitwise_count(prints[:, None] ^ prints[None, :])[np.triu_indices(len(some), 1)])
            moved.append(np.bitwise_count(prints ^ others))
        row: Row = {"recipe": recipe.name, "language": language, "messages": len(texts), "pairs": sum(map(len, apart))}
        row |= {f"unrelated within {k}": int((np.array(apart) <= k).sum()) for k in SHORT_TABLE}
        recall = {k: (np.array(moved) <= k).mean(axis=1) for k in SHORT_TABLE}
        row |= {f"recall at {k}": float(found.mean()) for k, found in recall.items()}
        if seeds > 1:
            row |= {f"at {k}": f"{found.min():.3f} to {found.max():.3f}" for k, found in recall.items()}
        rows.append(row)
    return rows


def picture(path: Path, found: dict[tuple[str, str], Histograms]) -> None:
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


def accept_pairs(results: Results, rows_of: dict[tuple[str, str], list[Row]], jobs: dict[str, dict[int, Row]]) -> None:
    """The default, as jobs take it, against web-en at the same k and without confirmation, on every set."""
    gains, name_of = [], DEFAULT_RECIPE.name
    for name, confirmed_at in jobs.items():
        for k, confirm in JOBS:
            new, old = confirmed_at[k] if confirm else rows_of[name, name_of][k], rows_of[name, OLD][k]
            way = f"k = {k}, {f'confirmed by {confirm}' if confirm else 'not confirmed'}"
            for what, least in (("precision", -LESS_PRECISION), ("recall", -LESS_RECALL)):
                # Where one finds nothing, nothing that it finds can be wrong.
                if what == "recall" or all(row["right"] + row["wrong"] for row in (new, old)):
                    change = new[what] - old[what]
                    results.bar(f"{name}: {what} of {name_of} less that of {OLD}, {way}", change, at_least=least)
        gains.append(rows_of[name, name_of][3]["recall"] - rows_of[name, OLD][3]["recall"])
    results.bar("mean of the recall gained at k = 3", float(np.mean(gains)), at_least=MORE_RECALL)


def recipe_of(text: str) -> Recipe:
    """A preset by its name, or the recipe in a JSON file."""
    if text in recipes():
        return recipes()[text]
    return Recipe.from_json(json.loads(Path(text).read_text()))


def measure_labelled(arguments: Namespace, results: Results, names: list[str], recipes: list[Recipe]) -> None:
    found: dict[tuple[str, str], Histograms] = {}
    rows_of: dict[tuple[str, str], list[Row]] = {}
    jobs: dict[str, dict[int, Row]] = {}
    pooled: dict[str, list[tuple[Labelled, Any, Any]]] = {recipe.name: [] for recipe in recipes}
    for name in names:
        labelled = read_set(arguments.folder, name)
        counts = {text: int((labelled.label == label).sum()) for label, text in LABELS.items()}
        counted = ", ".join(f"{count:,} {text}" for text, count in counts.items())
        short, whole = [], []
        words = None
        for recipe in recipes:
            prints, tokens = fingerprints(labelled, recipe)
            rows, found[name, recipe.name], apart = judge(labelled, recipe, prints, tokens, arguments)
            rows_of[name, recipe.name] = rows
            words = tokens if words is None else words
            if labelled.source == "Jaccard":
                pooled[recipe.name].append((labelled, apart, words))
            best = max(rows, key=lambda row: row["F1"])
            short += [rows[arguments.k], best | {"recipe": "  its best F1"}]
            if arguments.accept and recipe.name == DEFAULT_RECIPE.name:
                jobs[name] = confirmed_rows(labelled, recipe, prints, apart, arguments)
                short += jobs[name].values()
            whole += rows
        if arguments.rivals:
            short += rival_rows(labelled)
        title = f"{name}: {len(labelled.ids):,} documents, {counted} by {labelled.source}"
        results.table(f"{title}; k = {arguments.k} and the best", short)
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
    if arguments.lengths and any(pooled.values()):
        for k in (3, 6):
            results.table(f"by length: all sets of Jaccard labels, k = {k}", by_length(pooled, k))
    if arguments.accept and names:
        accept_pairs(results, rows_of, jobs)
    if arguments.png:
        picture(arguments.png, found)


def measure_drops(arguments: Namespace, results: Results, recipes: list[Recipe]) -> None:
    for name in arguments.dropped:
        path = arguments.folder / f"{name}.jsonl.zst"
        rows = [row for recipe in recipes for row in drop_rows(path, recipe, (3, 6), arguments)]
        results.table(f"{name}: what a job drops that keeps the first of its like", rows)
        if arguments.accept:
            count, wrong, long = wrong_by_default(path)
            way = f"by default (k = {CONFIRMED_DISTANCE}, {DEFAULT_CONFIRM})"
            what = f"{name}: of {count} that a job drops {way} below a Jaccard of 0.5"
            results.bar(what, wrong / max(1, count), at_most=WRONG_DROPS)
            if name.startswith("html_"):
                results.bar(f"{what}, of {VISIBLE} visible characters", long, at_most=0)


def measure_languages(arguments: Namespace, results: Results, recipes: list[Recipe]) -> None:
    of_language = messages(arguments.messages)
    rows = [row for recipe in recipes for row in language_rows(of_language, recipe, arguments.seeds)]
    if not rows:
        results.say(f"\n{arguments.messages}: no language has {LEAST_MESSAGES} messages")
        return
    results.table("languages: texts of 24 messages, and the same with one of them another", rows)
    ours = [row for row in rows if row["recipe"] == DEFAULT_RECIPE.name]
    if arguments.accept and ours:
        found = [row["language"] for row in ours if row["recall at 3"] >= CHANGED_FOUND]
        near = sum(row["unrelated within 3"] for row in ours)
        results.bar(f"unrelated pairs within 3, in all of {len(ours)} languages", near, at_most=0)
        results.bar(f"languages with a recall of {CHANGED_FOUND} at 3 for one changed message", len(found), at_least=12)


def main() -> int:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=parse_folder)
    parser.add_argument("--sets", type=parse_any, help="'' for none; default: all that have pairs")
    parser.add_argument("--recipes", type=parse_recipes, default=list(recipes()), help="names and files; default: all")
    parser.add_argument("--k", type=parse_whole, default=3, help="the distance of the short table; default 3")
    parser.add_argument("--png", type=Path, help="where a picture of the distances goes")
    parser.add_argument("--rivals", action="store_true", help="MinHash by datasketch, where it is installed")
    parser.add_argument("--lengths", action="store_true", help="by the words of the shorter document")
    parser.add_argument("--judge", type=parse_list, default=[], help="sets without labels, or with")
    parser.add_argument("--dropped", type=parse_list, default=[], help="sets without labels, or with")
    parser.add_argument("--weak", type=parse_list, default=[], help="sets without labels, or with")
    parser.add_argument(
        "--show", type=parse_whole, default=0, help="so many that are dropped wrongly, of each set and k"
    )
    parser.add_argument("--messages", type=parse_folder, help="a package with translated messages, unpacked")
    parser.add_argument(
        "--seeds", type=parse_count, default=1, help="so many draws of the texts of --messages; default 1"
    )
    parser.add_argument("--accept", action="store_true", help="the bars of the default; --recipes has it and web-en")
    parser.add_argument("--histograms", action="store_true", help="print the distances of each label")
    parser.add_argument(
        "--dir", type=parse_folder, help="where stores go, which are removed afterwards; default: temporary"
    )
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(small=False, n=0)
    arguments = parser.parse_args()
    named = [*(arguments.sets or []), *arguments.judge, *arguments.dropped, *arguments.weak]
    expect_sets(parser, arguments.folder, named)
    results = Results("bench_quality", arguments)
    suffix = ".pairs.tsv.zst"
    every = sorted(path.name.removesuffix(suffix) for path in arguments.folder.glob(f"*{suffix}"))
    names = every if arguments.sets is None else arguments.sets
    chosen = [recipe_of(text) for text in arguments.recipes]
    measure_labelled(arguments, results, names, chosen)
    for name in arguments.judge:
        rows = [judged(arguments.folder / f"{name}.jsonl.zst", recipe, arguments) for recipe in chosen]
        results.table(f"{name}: all pairs within {arguments.k} among all its documents", rows)
    measure_drops(arguments, results, chosen)
    if arguments.weak:
        rows = [weak_row(arguments.folder / f"{name}.jsonl.zst", each) for name in arguments.weak for each in chosen]
        results.table("shares of texts that a recipe is weak on, as fpstore warns of them", rows)
    if arguments.messages:
        measure_languages(arguments, results, chosen)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
