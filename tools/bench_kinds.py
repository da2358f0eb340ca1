"""Measures the kinds of sketches on labelled pairs: simhash, 1-bit MinHash of 64 bits, MinHash of 128 values.

    python tools/bench_kinds.py FOLDER [--sets a,b] [--small] [--json]

FOLDER: labelled sets, as bench_quality.py takes them. Of each the documents that the pairs name. precision, recall: of
the labelled pairs, as there; a pair is found where the fingerprints are within k, or where the signatures share one of
16 bands of 8 values and, where that is said, the estimate from what the store keeps is 0.8 or more. bytes: of a store
of all of them with row numbers as ids, for each document; what every store has, some 100 kB, is not in it. Signing:
documents a second of processor time, one thread, from text. All: signing, the store, and all pairs in it.
"""

import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from arguments import names_among, parse_folder
from benchlib import Results, new_parser, parse_arguments, scratch_folder
from quality import Labelled, read_set, texts_of

import fpstore
from fpstore import minhash
from fpstore.minhash import sign
from fpstore.sketches.bands import Banding
from fpstore.sketches.kept import Kept, bits_for
from fpstore.text import recipes

BANDS, ROWS, LEAST = 16, 8, 0.8
DISTANCES = (3, 6)
SETS = ("en_bible_verses", "en_licenses", "en_tos_pga", "en_peps_history", "zh_python_docs")
SMALL_DOCUMENTS = 1_000

Pairs = np.ndarray[Any, np.dtype[np.bool_]]
Row = dict[str, Any]


def spent(call: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and the processor time that it took."""
    start = time.process_time()
    found = call()
    return found, time.process_time() - start


def store_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in (path / "segments").iterdir())


def judged(labelled: Labelled, found: Pairs) -> Row:
    right, wrong = (int(found[labelled.label == label].sum()) for label in (1, 0))
    total = int((labelled.label == 1).sum())
    return {"precision": right / max(1, right + wrong), "recall": right / max(1, total)}


def fingerprint_rows(labelled: Labelled, texts: list[str], name: str, folder: Path) -> list[Row]:
    recipe, rows = recipes()[name], []
    prints, signing = spent(lambda: recipe.fingerprint_many(texts, threads=1))
    distance = np.bitwise_count(prints[labelled.first] ^ prints[labelled.second])
    for k in DISTANCES:

        def work(k: int = k) -> int:
            with fpstore.build(folder / f"{name}-{k}", prints, max_distance=k, threads=1) as store:
                return store.count_pairs(of="ids")

        _, rest = spent(work)
        rows.append(
            {"sketch": f"{name}, k = {k}"}
            | judged(labelled, distance <= k)
            | {"bytes": store_bytes(folder / f"{name}-{k}") / len(texts)}
            | {"signing": len(texts) / signing, "all": len(texts) / (signing + rest)}
        )
    return rows


def signature_rows(labelled: Labelled, texts: list[str], folder: Path) -> list[Row]:
    recipe, rows = recipes()["minhash-128"], []
    signatures, signing = spent(lambda: sign(texts, recipe, threads=1))
    keys = Banding(BANDS, ROWS).keys(signatures)
    kept = Kept(recipe.values, bits_for(recipe.values))
    sketches = kept.sketches(signatures)
    shares = (keys[labelled.first] == keys[labelled.second]).any(axis=1)
    alike = shares & (kept.similarity(sketches[labelled.first], sketches[labelled.second]) >= LEAST)
    for way, found, keep in (("candidates alone", shares, False), (f"estimate {LEAST} or more", alike, True)):

        def work(keep: bool = keep) -> int:
            path = folder / f"minhash-{keep}"
            with minhash.build(path, signatures, bits=40, keep_signatures=keep, threads=1) as store:
                return store.count_pairs(min_similarity=LEAST if keep else None)

        _, rest = spent(work)
        rows.append(
            {"sketch": f"minhash-128, {way}"}
            | judged(labelled, found)
            | {"bytes": store_bytes(folder / f"minhash-{keep}") / len(texts)}
            | {"signing": len(texts) / signing, "all": len(texts) / (signing + rest)}
        )
    return rows


def measure(results: Results, arguments: Namespace, name: str) -> None:
    labelled = read_set(arguments.folder, name)
    wanted = {identity: number for number, identity in enumerate(labelled.ids)}
    texts = [""] * len(wanted)
    for identity, text in texts_of(labelled.path, recipes()["text-1"]):
        if identity in wanted:
            texts[wanted[identity]] = text
    if arguments.small:
        few = (labelled.first < SMALL_DOCUMENTS) & (labelled.second < SMALL_DOCUMENTS)
        first, second, label = (column[few] for column in (labelled.first, labelled.second, labelled.label))
        ids = labelled.ids[:SMALL_DOCUMENTS]
        labelled = Labelled(name, labelled.path, ids, first, second, label, labelled.source)
        texts = texts[:SMALL_DOCUMENTS]
    with scratch_folder(arguments) as folder:
        rows = [row for each in ("simhash-1", "text-1") for row in fingerprint_rows(labelled, texts, each, folder)]
        rows += signature_rows(labelled, texts, folder)
    letters = sum(map(len, texts)) / max(1, len(texts))
    title = f"{name}: {len(texts):,} documents of {letters:,.0f} letters, {len(labelled.first):,} labelled pairs"
    results.table(title, rows)


def main() -> int:
    parser = new_parser(__doc__, rounds=1)
    parser.add_argument("folder", type=parse_folder)
    parser.add_argument("--sets", type=names_among(SETS), default=[*SETS])
    arguments = parse_arguments(parser)
    results = Results("bench_kinds", arguments)
    for name in arguments.sets:
        measure(results, arguments, name)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
