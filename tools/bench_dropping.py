"""Measures what it saves that pairs of signatures drop the keys of bands that one document alone has.

    python tools/bench_dropping.py FOLDER [--sets a,b] [--n 1e5] [--rounds 3] [--small]

FOLDER: sets as bench_quality.py takes them, NAME.jsonl.zst; of each the first --n documents, pages by their main text.
They are signed by the recipe minhash-128 and built into a store. Then count_pairs of it, without estimates, each time
in a process of its own, by turns: as it is, and with every row kept, which is no option of fpstore but done here. Both
must count the same.

rows: those that are held by key and sorted by document. files: what lies in files without a name, by key and by
document. CPU s: of the whole call, the least of all rounds. memory: by how much the process grew, at most, with the
pages of these files that it had mapped.
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from arguments import expect_sets, parse_folder, parse_list
from benchlib import (
    Results,
    child_task,
    new_parser,
    parse_arguments,
    print_json,
    resident_bytes,
    run_child,
    scratch_folder,
    timed,
)
from quality import texts_of

from fpstore import minhash
from fpstore.living import similar_pairs
from fpstore.minhash import sign
from fpstore.text import recipes

RECIPE = recipes()["minhash-128"]
REAL_DOCUMENTS, SMALL_DOCUMENTS = 100_000, 300
WORD = 8
SETS = (
    "en_bible_verses",
    "zh_zhihu_questions",
    "zh_poems_tang",
    "multi_stsb_train_dev",
    "es_laws_uy",
    "en_licenses",
    "en_peps_history",
    "en_tos_pga",
    "html_docs_ipython",
    "zh_python_docs",
)
Row = dict[str, Any]


def keep_all() -> None:
    """Keep each row of the store, in this process, as a job would that looked at nothing before it sorted."""

    def take(self: Any, keys: Any, ids: Any, first: int) -> None:
        keys, ids = keys[first:-1], ids[:-1]
        self._keys.append(keys)
        self._ids.append(ids)
        self._by_id.add(ids, keys)

    similar_pairs._Buckets._take = take  # type: ignore[method-assign]


def told_of(seen: Row) -> Callable[[Any], None]:
    """finish of buckets, which says how much they hold."""
    finish = similar_pairs._Buckets.finish

    def told(self: Any) -> None:
        finish(self)
        rows, documents = self._keys._count, self._documents._ids._count
        bands = self._banding.bands
        seen.update(rows=rows, documents=documents, files=WORD * (2 * rows + (1 + bands) * documents) / 1e6)

    return told


def child(task: Row) -> Row:
    """One count of all pairs, in a process of its own."""
    seen: Row = {}
    if task["all"]:
        keep_all()
    similar_pairs._Buckets.finish = told_of(seen)  # type: ignore[method-assign, assignment]
    with minhash.open(task["path"]) as store:
        store.contains_near(np.zeros(RECIPE.values, dtype=np.uint32))  # what every call needs is there
        before = resident_bytes()
        timing = timed(lambda: seen.update(pairs=store.count_pairs()))
    return seen | {"cpu": timing.cpu, "memory": (resident_bytes("VmHWM") - before) / 1e6}


def documents_of(folder: Path, name: str, count: int) -> Iterator[str]:
    return islice((text for _, text in texts_of(folder / f"{name}.jsonl.zst", RECIPE)), count)


def measure(results: Results, arguments: Namespace, name: str) -> Row:
    with scratch_folder(arguments) as folder:
        texts = [*documents_of(arguments.folder, name, arguments.n)]
        minhash.build(folder / "store", sign(texts, RECIPE), recipe=RECIPE, bits=40).close()
        count = len(texts)
        del texts
        runs: dict[bool, list[Row]] = {False: [], True: []}
        for _ in range(arguments.rounds):
            for every, taken in runs.items():
                taken.append(run_child(__file__, {"path": str(folder / "store"), "all": every}))
    one, other = runs[False], runs[True]
    results.expect({run["pairs"] for run in one + other} == {one[0]["pairs"]}, f"{name}: the pairs that are counted")

    def both(field: str) -> Row:
        least = [min(run[field] for run in taken) for taken in (one, other)]
        return {f"{field}, dropped": least[0], f"{field}, all": least[1]}

    row = {"set": name, "documents": count, "with a pair": one[0]["documents"], "pairs": one[0]["pairs"]}
    for field in ("rows", "files", "cpu", "memory"):
        row |= both(field)
    return row


def main() -> int:
    task = child_task(sys.argv)
    if task is not None:
        print_json(child(task))
        return 0
    counted, real, small = "documents of each set, the first ones", REAL_DOCUMENTS, SMALL_DOCUMENTS
    parser = new_parser(__doc__, rounds=3, counted=counted, real=real, small=small)
    parser.add_argument("folder", type=parse_folder)
    parser.add_argument("--sets", type=parse_list, default=[*SETS])
    arguments = parse_arguments(parser, real=real, small=small)
    expect_sets(parser, arguments.folder, arguments.sets)
    results = Results("bench_dropping", arguments)
    rows = [measure(results, arguments, name) for name in arguments.sets]
    results.table("pairs with the keys of one document dropped, and with all rows; files and memory in MB", rows)
    return results.finish()


if __name__ == "__main__":
    sys.exit(main())
