"""Holds signatures, candidates and estimates against datasketch's and against the exact Jaccard similarity.

    python tools/check_minhash.py FOLDER [--n 1e5] [--signed 1e4] [--pairs 1e5] [--sets a,b] [--small] [--json]

FOLDER: labelled sets, as bench_quality.py takes them; documents are taken of each set in turn. First the signatures of
texts, by datasketch's three schemes, value for value. Then candidates: what a store and datasketch's MinHashLSH find of
the same signatures, bands and rows, for real documents, and where all are equal, none shares anything, and all share
one band alone. With keys of 64 bits they are the same; with those that a build chooses none is missing, and as many are
found by chance as is said of keys of so few bits. At last the estimates of pairs of documents, whole values and what a
store keeps of them, beside the exact similarity of their shingles: by how many standard errors they differ. The pairs
are the labelled ones, and so chosen without a look at any signature; of equal documents none is taken, as these are
estimated without an error. Beside them stands what independent values would come to: of pairs that are hardly alike few
values agree, and their number is skewed, so that not even ideal ones stay within 4 standard errors in 99.9 % of them.
Needs datasketch (make test-clients).
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import datasketch
import numpy as np
from arguments import names_among, parse_count, parse_folder
from benchlib import Results, new_parser, parse_arguments, scratch_folder
from quality import Judge, Labelled, read_set, texts_of

from fpstore import minhash
from fpstore.minhash import sign, similarity
from fpstore.sketches.kept import Kept, bits_for
from fpstore.text import recipes

DOCUMENTS, SMALL_DOCUMENTS = 100_000, 2_000
VALUES = 128
BANDS = ((16, 8), (25, 5))
SCHEMES = ("affine32", "affine64", "legacy")
SETS = (
    "en_bible_verses",
    "en_licenses",
    "en_peps_history",
    "en_articles_planted",
    "multi_stsb_train_dev",
    "zh_python_docs",
)
LETTERS = 4_000  # of a document, at most: datasketch takes 50 us a shingle of some schemes
QUERIES_OF_ALL = 20
# With keys of so many bits nothing is found by chance; with those that a build chooses twice as much as on average, and
# so many more, are taken for chance, as one key may be that of several documents.
WHOLE_KEYS, CHANCES = 64, 20
ERRORS, SHARE, ALIKE = 4, 0.999, 0.1
RECIPE = replace(recipes()["minhash-128"], name="checked")


def documents(folder: Path, sets: list[str], count: int) -> list[str]:
    """So many documents, as many of each set as it has, by turns."""
    sources: list[Iterator[tuple[str, str]]] = [texts_of(folder / f"{name}.jsonl.zst", RECIPE) for name in sets]
    found: list[str] = []
    while sources and len(found) < count:
        for source in [*sources]:
            text = next(source, None)
            if text is None:
                sources.remove(source)
            else:
                found.append(text[1][:LETTERS])
    return found[:count]


def its(values: Any, scheme: str = "affine32") -> Any:
    return datasketch.LeanMinHash(seed=1, hashvalues=values, scheme=scheme)  # which draws no permutations


def check_signatures(results: Results, texts: list[str]) -> None:
    rows = []
    for scheme in SCHEMES:
        recipe = replace(RECIPE, hash="sha1", permutations=f"datasketch-{scheme}", seed=1)
        own, differing, shingles = sign(texts, recipe), 0, 0
        for text, found in zip(texts, own, strict=True):
            given = [shingle.encode() for _, shingle in recipe.shingles(text)]
            if not given:  # which is like its equals here, and like every empty one there
                continue
            made = datasketch.MinHash(num_perm=VALUES, scheme=scheme)
            made.update_batch(given)
            shingles += len(given)
            differing += found.dtype != made.hashvalues.dtype or not np.array_equal(found, made.hashvalues)
        rows.append({"scheme": scheme, "documents": len(texts), "shingles": shingles, "differing": differing})
        results.bar(f"signatures that are not datasketch's, {scheme}", differing, at_most=0)
        results.expect(not differing, f"{differing} signatures of the scheme {scheme}")
    results.table("signatures beside datasketch's", rows)


class Differing(NamedTuple):
    """How many candidates are not found that datasketch has, how many that it has not, and how many there are.

    by_chance: how many of the second kind there are on average.
    """

    missing: int
    further: int
    candidates: int
    by_chance: float


def differing(signatures: Any, asked: Any, bands: tuple[int, int], bits: int | None, folder: Path) -> Differing:
    """What the asked find in a store beside what they find in datasketch's index. bits: of a key."""
    theirs = datasketch.MinHashLSH(num_perm=VALUES, params=bands)
    with theirs.insertion_session() as session:
        for number, values in enumerate(signatures):
            session.insert(number, its(values), check_duplication=False)
    missing = further = candidates = 0
    path = folder / f"{len(list(folder.iterdir()))}.fpstore"
    with minhash.build(path, signatures, bands=bands[0], rows_per_band=bands[1], bits=bits) as store:
        by_chance = len(asked) * store._minhash.banding(store._settings.bits).by_chance(len(signatures))
        for start in range(0, len(asked), 10_000):
            own = asked[start : start + 10_000]
            found = store.probe_many(own)
            ends = found.query.searchsorted(np.arange(len(own) + 1))
            assert found.id is not None
            for index, values in enumerate(own):
                ids = found.id[ends[index] : ends[index + 1]].tolist()
                candidates += len(ids)
                expected = {*theirs.query(its(values))}
                missing += len(expected - {*ids}) + len(ids) - len({*ids})
                further += len({*ids} - expected)
    return Differing(missing, further, candidates, by_chance)


def check_candidates(results: Results, signatures: Any, folder: Path) -> None:
    count = len(signatures)
    turn = np.arange(count * VALUES, dtype=np.uint32).reshape(count, VALUES)
    one_band = turn.copy()
    one_band[:, 8:16] = 7
    kinds: list[tuple[str, Any, Any, tuple[int, int]]] = [
        *((f"real documents, {bands} x {rows}", signatures, signatures, (bands, rows)) for bands, rows in BANDS),
        ("all equal", np.broadcast_to(signatures[0], signatures.shape), signatures[:QUERIES_OF_ALL], BANDS[0]),
        ("none shares a band", turn, turn, BANDS[0]),
        ("one bucket of all", one_band, one_band[:QUERIES_OF_ALL], BANDS[0]),
    ]
    rows = []
    for name, stored, asked, bands in kinds:
        for bits in (WHOLE_KEYS, None):
            found = differing(stored, asked, bands, bits, folder)
            keys = f"{name}, keys of {bits} bits" if bits else f"{name}, keys as built"
            counts = {"found": found.candidates, "missing": found.missing, "further": found.further}
            rows.append({"documents": keys, "stored": len(stored), "asked": len(asked)} | counts)
            most = 0 if bits else int(2 * found.by_chance) + CHANCES
            results.bar(f"candidates that are missing, {keys}", found.missing, at_most=0)
            results.bar(f"candidates that are not datasketch's, {keys}", found.further, at_most=most)
            wrong = found.missing + max(0, found.further - most)
            results.expect(not wrong, f"{wrong} candidates about {keys}")
    results.table("candidates beside datasketch's MinHashLSH", rows)


def labelled_pairs(found: Labelled, most: int) -> Iterator[tuple[str, str]]:
    """The texts of labelled pairs that are not equal, chosen at random where there are more."""
    texts = dict(texts_of(found.path, RECIPE))
    order = np.random.default_rng(5).permutation(len(found.first))
    pairs = ((texts[found.ids[found.first[at]]], texts[found.ids[found.second[at]]]) for at in order.tolist())
    yield from islice(((one, other) for one, other in pairs if one != other), most)


def ideal(exact: Any) -> Any:
    """With what chance an estimate of so many independent values is within the standard errors: float64[n]."""
    logs = np.cumsum(np.log(np.maximum(np.arange(VALUES + 1), 1)))
    ways = logs[-1] - logs - logs[::-1]
    counts, found = np.arange(VALUES + 1), np.ones(len(exact))
    for start in range(0, len(exact), 4096):
        own = exact[start : start + 4096, None]
        sound = np.clip(own, 1e-12, 1 - 1e-12)
        chances = np.exp(ways + counts * np.log(sound) + (VALUES - counts) * np.log1p(-sound))
        near = np.abs(counts / VALUES - own) <= ERRORS * np.sqrt(own * (1 - own) / VALUES) + 1e-9
        found[start : start + 4096] = (chances * near).sum(axis=1)
    return found


def check_estimates(results: Results, folder: Path, sets: list[str], most: int) -> None:
    labelled = [read_set(folder, name) for name in sets if (folder / f"{name}.pairs.tsv.zst").exists()]
    judged: dict[str, list[Any]] = {name: [] for name in ("whole", "kept")}
    exact_of: list[Any] = []
    kept = Kept(VALUES, bits_for(VALUES))
    rows = []
    left = most
    for number, found in enumerate(sorted(labelled, key=lambda each: len(each.first))):
        pairs = [*labelled_pairs(found, left // (len(labelled) - number))]
        left -= len(pairs)
        if not pairs:
            continue
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        place = {text: index for index, text in enumerate(texts)}
        first, second = (np.array([place[pair[side]] for pair in pairs]) for side in (0, 1))
        judge = Judge(texts, RECIPE)
        exact = np.array([judge.jaccard(*pair) for pair in zip(first.tolist(), second.tolist(), strict=True)])
        signatures = sign(texts, RECIPE)
        errors = np.sqrt(exact * (1 - exact) / VALUES)
        estimates = similarity(signatures[first], signatures[second])
        assert not isinstance(estimates, float)
        sketches = kept.sketches(signatures)
        chance = np.array([kept.standard_error(each) for each in exact.tolist()])
        off = {
            "whole": (estimates - exact, errors),
            "kept": (kept.similarity(sketches[first], sketches[second]) - exact, chance),
        }
        row: dict[str, Any] = {"set": found.name, "pairs": len(pairs), "mean Jaccard": float(exact.mean())}
        for name, (apart, error) in off.items():
            within = np.abs(apart) <= ERRORS * error + 1e-9
            judged[name].append(within)
            row |= {f"{name}: within {ERRORS}": float(within.mean()), f"{name}: mean error": float(apart.mean())}
        exact_of.append(exact)
        rows.append(row)
    results.table("estimates beside the exact Jaccard similarity", rows)
    exact = np.concatenate(exact_of)
    best = ideal(exact)
    steps = [(0.0, 0.1), (0.1, 0.3), (0.3, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.01)]
    by_jaccard = []
    for low, high in steps:
        own = (exact >= low) & (exact < high)
        if own.any():
            shares = {name: float(np.concatenate(every)[own].mean()) for name, every in judged.items()}
            row = {"Jaccard": f"{low} to {min(high, 1)}", "pairs": int(own.sum()), "ideal": float(best[own].mean())}
            by_jaccard.append(row | shares)
    results.table(f"within {ERRORS} standard errors, by similarity", by_jaccard)
    for name, every in judged.items():
        within = np.concatenate(every)
        told = f"share within {ERRORS} standard errors, {name} values"
        results.bar(told, float(within.mean()), at_least=SHARE)
        results.bar(f"{told}, Jaccard of {ALIKE} or more", float(within[exact >= ALIKE].mean()), at_least=SHARE)
    results.say(f"of ideal values {best.mean():.4f} would be within {ERRORS} standard errors, of {len(exact)} pairs")


def main() -> int:
    parser = new_parser(__doc__, rounds=1, counted="documents", real=DOCUMENTS, small=SMALL_DOCUMENTS)
    parser.add_argument("folder", type=parse_folder)
    parser.add_argument("--sets", type=names_among(SETS), default=[*SETS])
    parser.add_argument("--signed", type=parse_count, help="documents whose signatures are compared; default all")
    parser.add_argument("--pairs", type=parse_count, default=100_000)
    arguments = parse_arguments(parser, real=DOCUMENTS, small=SMALL_DOCUMENTS)
    results = Results("check_minhash", arguments, only_keys=DOCUMENTS)
    texts = documents(arguments.folder, arguments.sets, arguments.n)
    results.say(f"{len(texts)} documents, {sum(map(len, texts)):,} letters")
    check_signatures(results, texts[: arguments.signed])
    with scratch_folder(arguments) as folder:
        check_candidates(results, sign(texts, RECIPE), folder)
    check_estimates(results, arguments.folder, arguments.sets, arguments.pairs if not arguments.small else arguments.n)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
