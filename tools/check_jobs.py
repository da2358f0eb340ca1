"""Kills the jobs with -9 between any two steps and runs them again; the results must be those of one run.

    python tools/check_jobs.py [--kills 1000] [--seed 0] [--short]

Each job runs over a small corpus in batches of a few documents, in a child that is killed before its n-th step: a write
that is made durable, a rename, a removal, a change of the store. The same job is then run again, killed again now and
then, until it ends. In between somebody tries to add a row of his own to the standing store. After that the results are
byte for byte those of a run that nobody killed. So are the rows that the job has stored, and their names; each row of
others that was accepted is there; nothing else is left in the folder; and the same job once more does nothing. --short:
each job is killed at some of its steps only. Exit status 1 if anything did not hold.
"""

# mypy: disable-error-code="union-attr"

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Set
from pathlib import Path
from typing import Any

import numpy as np
from arguments import parse_count, parse_whole

import fpstore
from fpstore import jobs, ledger, notes
from fpstore.jobs import corpus, files, runs
from fpstore.text import DEFAULT_RECIPE

BATCH = 7
WORDS = ("a", "b", "c", "dd", "eee", "fox", "dog", "!", "gnu")

Work = Callable[[Path], jobs.Summary]


def first(folder: Path) -> jobs.Summary:
    return jobs.dedup(
        [folder / "a.jsonl", folder / "b.jsonl"], folder / "kept", dropped=folder / "dropped", confirm=None
    )


def first_into_store(folder: Path) -> jobs.Summary:
    sources = jobs.Inputs([folder / "a.jsonl", folder / "bad.jsonl"], skip_bad=True)
    return jobs.dedup(sources, folder / "kept", dropped=folder / "dropped", store=folder / "s.fpstore", confirm=None)


def confirmed(folder: Path) -> jobs.Summary:
    options: dict[str, Any] = {
        "store": folder / "s.fpstore",
        "confirm": "jaccard>=0.5",
        "max_distance": 10,
        "keep": "first",
    }
    return jobs.dedup([folder / "a.jsonl", folder / "b.jsonl"], folder / "kept", **options)


def longest(folder: Path) -> jobs.Summary:
    options: dict[str, Any] = {
        "dropped": folder / "dropped",
        "store": folder / "s.fpstore",
        "keep": "longest",
        "confirm": None,
    }
    return jobs.dedup([folder / "a.jsonl", folder / "b.jsonl"], folder / "kept", **options)


def ranked(folder: Path) -> jobs.Summary:
    """In the order of a field, all documents written with what became of them."""
    options: dict[str, Any] = {"keep": "max:text", "tag": True, "dropped": folder / "dropped"}
    return jobs.dedup([folder / "a.jsonl", folder / "b.jsonl"], folder / "kept.csv", **options)


def numbered(folder: Path) -> None:
    """A store whose ids are numbers, as somebody made it."""
    fpstore.create(folder / "s.fpstore", recipe=DEFAULT_RECIPE, max_distance=10).close()


def before_with_texts(folder: Path) -> None:
    """Names that come again, with other texts."""
    sources = jobs.Inputs([folder / "a.jsonl"], id_column="id")
    jobs.dedup(sources, folder / "earlier", store=folder / "s.fpstore", confirm="jaccard>=0.9", max_distance=10)


def confirmed_again(folder: Path) -> jobs.Summary:
    """Names that the store has already, some with the very fingerprint; set up by `before_with_texts`."""
    sources = jobs.Inputs([folder / "b.jsonl"], id_column="id")
    options: dict[str, Any] = {"store": folder / "s.fpstore", "confirm": "jaccard>=0.9", "tag": True}
    return jobs.dedup(sources, folder / "kept", dropped=folder / "dropped", **options)


def again_into_store(folder: Path) -> jobs.Summary:
    """Another corpus, against a store that has one; set up by `before`."""
    return jobs.dedup(
        [folder / "b.jsonl"], folder / "kept", dropped=folder / "dropped", store=folder / "s.fpstore", confirm=None
    )


def before(folder: Path) -> None:
    jobs.dedup([folder / "a.jsonl"], folder / "earlier", store=folder / "s.fpstore", confirm=None)


def leaders(folder: Path) -> jobs.Summary:
    return jobs.cluster([folder / "a.jsonl", folder / "b.jsonl"], folder / "kept", max_distance=8)


def centers(folder: Path) -> jobs.Summary:
    return jobs.cluster([folder / "a.jsonl", folder / "b.jsonl"], folder / "kept", max_distance=8, update_center=True)


def labelled(folder: Path) -> jobs.Summary:
    """Documents with their clusters, and the words of these."""
    sources = jobs.Inputs([folder / "a.jsonl", folder / "bad.jsonl"], skip_bad=True)
    options: dict[str, Any] = {"max_distance": 8, "annotate": True, "topics": folder / "topics.csv"}
    return jobs.cluster(sources, folder / "kept.jsonl.gz", **options)


def labelled_components(folder: Path) -> jobs.Summary:
    options: dict[str, Any] = {"max_distance": 8, "annotate": True, "topics": folder / "topics"}
    return jobs.components([folder / "a.jsonl", folder / "b.jsonl"], folder / "kept.csv", **options)


def leaders_into_store(folder: Path) -> jobs.Summary:
    """Tomorrow's documents join yesterday's clusters; set up by `yesterday`."""
    return jobs.cluster([folder / "b.jsonl"], folder / "kept", store=folder / "s.fpstore")


def yesterday(folder: Path) -> None:
    jobs.cluster([folder / "a.jsonl"], folder / "earlier", store=folder / "s.fpstore", max_distance=8)


def centers_into_store(folder: Path) -> jobs.Summary:
    """The same with centers that move; set up by `yesterday_centers`."""
    return jobs.cluster([folder / "b.jsonl"], folder / "kept", store=folder / "s.fpstore", update_center=True)


def yesterday_centers(folder: Path) -> None:
    options: dict[str, Any] = {"store": folder / "s.fpstore", "max_distance": 8, "update_center": True}
    jobs.cluster([folder / "a.jsonl"], folder / "earlier", **options)


def packed(folder: Path) -> jobs.Summary:
    """Results that are made of their parts in the end."""
    sources = jobs.Inputs([folder / "a.jsonl", folder / "bad.jsonl"], skip_bad=True)
    return jobs.dedup(sources, folder / "kept.parquet", dropped=folder / "dropped.csv.gz", confirm=None)


def components(folder: Path) -> jobs.Summary:
    return jobs.components([folder / "a.jsonl", folder / "b.jsonl"], folder / "kept", max_distance=8)


SCENARIOS: dict[str, tuple[Work, Callable[[Path], None] | None]] = {
    "dedup": (first, None),
    "dedup --store": (first_into_store, None),
    "dedup --store, a second corpus": (again_into_store, before),
    "dedup --store, of numbers": (first_into_store, numbered),
    "dedup --confirm": (confirmed, None),
    "dedup --confirm, names that come again": (confirmed_again, before_with_texts),
    "dedup --confirm, of numbers": (confirmed, numbered),
    "dedup --keep longest, of numbers": (longest, numbered),
    "dedup --keep longest": (longest, None),
    "dedup --keep max:text --tag": (ranked, None),
    "dedup to Parquet and .gz": (packed, None),
    "cluster": (leaders, None),
    "cluster --update-center": (centers, None),
    "cluster --components": (components, None),
    "cluster --annotate --topics": (labelled, None),
    "cluster --components --annotate --topics": (labelled_components, None),
    "cluster --store, a second day": (leaders_into_store, yesterday),
    "cluster --store --update-center, a second day": (centers_into_store, yesterday_centers),
}


def make_corpus(folder: Path, rng: random.Random) -> None:
    """Two files of documents that are often near each other, and one with bad lines."""

    def line() -> str:
        return json.dumps({"id": rng.choice("xyz"), "text": " ".join(rng.choices(WORDS, k=rng.randrange(5)))})

    for name in ("a", "b"):
        (folder / f"{name}.jsonl").write_text("".join(f"{line()}\n" for _ in range(rng.randrange(10, 30))))
    lines = [line() if rng.random() < 0.8 else "{" for _ in range(25)]
    (folder / "bad.jsonl").write_text("\n".join(lines))


def steps_hooked(tell: Callable[[], None]) -> None:
    """Have tell called before every step that changes what is on the disk."""

    def hooked(call: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            tell()
            return call(*arguments, **options)

        return step

    for owner, names in (
        (os, ("fsync", "unlink", "rmdir", "mkdir", "rename", "replace", "truncate", "ftruncate", "pwrite")),
        (Path, ("replace", "unlink", "rmdir", "mkdir")),
        (shutil, ("rmtree",)),
        (fpstore.Store, ("add", "sync", "remove", "close")),
        (files.AppendFile, ("write", "append_lines")),
    ):
        for name in names:
            setattr(owner, name, hooked(getattr(owner, name)))


def run(work: Work, folder: Path, kill_at: int | None) -> tuple[int, int]:
    """Do the work in a child; its wait status, and how many steps it took, 0 where it was killed."""
    read_fd, write_fd = os.pipe()
    child = os.fork()
    if child == 0:
        steps = itertools.count(1)  # of several threads, no two of which get the same number

        def tell() -> None:
            if next(steps) == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            steps_hooked(tell)
            work(folder)
            os.write(write_fd, str(next(steps) - 1).encode())
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(write_fd)
    _, status = os.waitpid(child, 0)
    with os.fdopen(read_fd) as pipe:
        return status, int(pipe.read() or 0)


def outcome(folder: Path, others: Set[tuple[int, Any]] = frozenset()) -> dict[str, object]:
    """What is in a folder: the bytes of its files, and what jobs have stored in its store, in the order of the ids.

    others: the rows that others have stored there, which must be there too. Of the records of finished jobs, whose
    times and identities differ, only that they are there.
    """
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not name.startswith("s.fpstore/"):
            found[name] = path.read_bytes() if path.is_file() and not name.endswith(".done") else None
    if (folder / "s.fpstore").exists():
        rows = rows_of(folder)
        # Where ids are numbers others may have taken some in between: it is the order that tells.
        own = sorted((document, key) for key, document in rows - others)
        found["rows"] = [key if isinstance(document, int) else (document, key) for document, key in own]
        found["rows of others that are gone"] = others - rows
        record = folder / "s.fpstore" / notes.JOBS
        found["record"] = sorted(path.name for path in record.iterdir())
        found |= {
            name: (record / name).read_bytes() for name in ("names", "texts", ledger.VOTES) if (record / name).exists()
        }
        if (record / ledger.INDEX).exists():
            entries = np.frombuffer((record / ledger.INDEX).read_bytes(), dtype=ledger.ENTRY)
            columns = ("fingerprint", "name_end", "text_end", "known")
            found["index"] = [entries[column].tolist() for column in columns]
    return found


def rows_of(folder: Path) -> set[tuple[int, Any]]:
    """The fingerprints and ids in the store of a folder."""
    with fpstore.open(folder / "s.fpstore") as store:
        return {(row.fingerprint, row.id) for rows in store.rows() for row in rows}


def add_another(folder: Path, rng: random.Random) -> tuple[int, Any] | None:
    """Add a row to the store of a folder, under the next id; None where there is no store, or a job has it."""
    if not (folder / "s.fpstore").exists():
        return None
    try:
        with fpstore.open(folder / "s.fpstore", "w") as store:
            key = rng.getrandbits(64)
            largest = None if store.id_type == "string" else store.max_id()
            row = (key, f"other {key}" if store.id_type == "string" else 0 if largest is None else largest + 1)
            store.add([row[0]], ids=[row[1]])
    except fpstore.JobError:
        return None
    return row


def check(work: Work, prepared: Path, expected: dict[str, object], kill_at: int, rng: random.Random) -> str | None:
    """Kill the work at a step, run it again until it ends; what is wrong then, None if nothing is."""
    folder = prepared.parent / "here"
    shutil.copytree(prepared, folder)
    kills: list[int] = [kill_at]
    others: set[tuple[int, Any]] = set()
    status = run(work, folder, kill_at)[0]
    while os.WIFSIGNALED(status):
        # --confirm refuses a store with documents whose texts it lacks, and the numbers of clusters are their ids.
        if work not in (confirmed, confirmed_again, leaders_into_store, centers_into_store) and (
            row := add_another(folder, rng)
        ):
            others.add(row)
        kills.append(rng.randrange(1, 400))
        status = run(work, folder, kills[-1])[0]
    if status:
        shutil.rmtree(folder)
        return f"killed at {kills}: ended with status {status}"
    found, again = outcome(folder, others), work(folder)
    wrong = [f"not as expected: {name}" for name in {*found, *expected} if found.get(name) != expected.get(name)]
    if outcome(folder, others) != found or not again.was_done:
        wrong.append("not known as done")
    shutil.rmtree(folder)
    return f"killed at {kills}: {'; '.join(wrong)}" if wrong else None


def check_scenario(name: str, home: Path, most_kills: int, rng: random.Random) -> tuple[int, list[str]]:
    """How many times a job was killed, and what was wrong."""
    work, prepare = SCENARIOS[name]
    prepared = home / "prepared"
    prepared.mkdir()
    make_corpus(prepared, rng)
    if prepare:
        prepare(prepared)
    # In the same place, as names and the journal hold paths.
    folder = home / "here"
    shutil.copytree(prepared, folder)
    status, steps = run(work, folder, None)
    if status:
        return 0, [f"{name}: ended with status {status}"]
    expected = outcome(folder)
    shutil.rmtree(folder)
    points = list(range(1, steps + 1))
    if len(points) > most_kills:
        points = sorted(rng.sample(points, most_kills))
    wrong = [f"{name}: {found}" for at in points if (found := check(work, prepared, expected, at, rng))]
    return len(points), wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=parse_count, default=1000)
    parser.add_argument("--seed", type=parse_whole, default=0)
    parser.add_argument("--short", action="store_true")
    arguments = parser.parse_args()
    for module in (corpus, runs):
        setattr(module, "BATCH_DOCUMENTS", BATCH)  # noqa: B010
    corpus.COMMIT_DOCUMENTS = 2 * BATCH
    warnings.simplefilter("ignore")  # of jobs that were undone
    rng = random.Random(arguments.seed)
    killed, wrong = 0, []
    most = 4 if arguments.short else 1 << 30
    while killed < arguments.kills:
        for name in SCENARIOS:
            with tempfile.TemporaryDirectory() as home:
                count, found = check_scenario(name, Path(home), most, rng)
            killed += count
            wrong += found
        if arguments.short or wrong:
            break
    print(*wrong, f"{killed} kills, {len(wrong)} wrong", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
