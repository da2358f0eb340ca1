"""Clusters that go on: tomorrow's documents join those of a standing store, as if all had come in one job."""

import shutil
import struct
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import corpora, fingerprints, interrupt, leader_follower, lines_of, write_jsonl
from outcome import Command

import fpstore
from fpstore import CorruptStore, JobError, ledger, notes
from fpstore._codec import crc32c
from fpstore.disk import Folder
from fpstore.jobs import cluster, corpus, dedup
from fpstore.jobs.centers import Votes
from fpstore.text import DEFAULT_RECIPE

TempFactory = pytest.TempPathFactory

DAYS = [
    ["a b c d e", "x", "a b c d fox", "", "y z", "!", "x y"] * 2,
    ["a b c dd e", "x", "fox dog", "y z dog", "a b c d e", "new one"] * 2,
    ["fox dog", "a b", "x y z", "the last of all", "a b c d e"],
]
K = 8
BOTH = pytest.mark.parametrize("update_center", [False, True])


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BATCH_DOCUMENTS", 3)


def joined(days: list[list[Any]]) -> list[Any]:
    return list(chain.from_iterable(days))


def told(result: Path) -> list[tuple[int, int]]:
    """Cluster and distance of each document."""
    rows = [line.split("\t") for line in lines_of(result)]
    return [(int(row[0]), int(row[2])) for row in rows]


def day(folder: Path, number: int, documents: list[str], *, update_center: bool, k: int = K) -> list[tuple[int, int]]:
    source = write_jsonl(folder / f"day{number}.jsonl", documents)
    out = folder / f"out{number}"
    cluster([source], out, store=folder / "s.fpstore", max_distance=k, update_center=update_center)
    return told(out)


def expected(update_center: bool, days: list[list[str]] = DAYS) -> list[list[tuple[int, int]]]:
    """What one run says, cut into days."""
    found = iter(leader_follower(fingerprints(joined(days)), K, update_center=update_center))
    return [[next(found) for _ in documents] for documents in days]


def jobs_in(store: Path) -> set[str]:
    return {path.name for path in (store / notes.JOBS).iterdir()}


@pytest.mark.slow
@given(st.lists(corpora, min_size=3, max_size=3), st.integers(0, 12), st.booleans())
@settings(max_examples=15)
def test_clusters_over_three_days_are_those_of_one_run(
    tmp_path_factory: TempFactory, days: list[list[str]], k: int, update_center: bool
) -> None:
    folder = tmp_path_factory.mktemp("days")
    found = [day(folder, i, documents, update_center=update_center, k=k) for i, documents in enumerate(days)]
    whole = write_jsonl(folder / "whole.jsonl", joined(days))
    cluster([whole], folder / "whole", max_distance=k, update_center=update_center)
    assert joined(found) == told(folder / "whole")
    keys = fingerprints(joined(days))
    assert joined(found) == leader_follower(keys, k, update_center=update_center)


@BOTH
def test_the_store_has_the_first_document_of_each_cluster(tmp_path: Path, update_center: bool) -> None:
    found = joined([day(tmp_path, i, documents, update_center=update_center) for i, documents in enumerate(DAYS)])
    keys = fingerprints(joined(DAYS))
    first = {number: keys[i] for i, (number, _) in reversed(list(enumerate(found)))}
    with fpstore.open(tmp_path / "s.fpstore") as store:
        assert {row.id: row.fingerprint for rows in store.rows() for row in rows} == first
    votes = tmp_path / "s.fpstore" / notes.JOBS / ledger.VOTES
    assert votes.exists() is update_center
    if update_center:
        assert votes.stat().st_size == 264 * len(first) + 8


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("after", [1, 2, 3, 4, 5])
def test_a_second_day_that_is_interrupted_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, update_center: bool, after: int
) -> None:
    days = expected(update_center)
    assert day(tmp_path, 0, DAYS[0], update_center=update_center) == days[0]
    interrupt(monkeypatch, lambda: day(tmp_path, 1, DAYS[1], update_center=update_center), after)
    with pytest.raises(JobError, match="is not finished, and only it may write here"):
        day(tmp_path, 2, DAYS[2], update_center=update_center)
    assert [day(tmp_path, i, DAYS[i], update_center=update_center) for i in (1, 2)] == days[1:]


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("after", [1, 4, 5])
def test_a_second_day_that_is_given_up_never_was(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, update_center: bool, after: int
) -> None:
    days = expected(update_center, [DAYS[0], DAYS[2]])
    day(tmp_path, 0, DAYS[0], update_center=update_center)
    interrupt(monkeypatch, lambda: day(tmp_path, 1, DAYS[1], update_center=update_center), after)
    shutil.rmtree(tmp_path / "out1.job")
    with pytest.warns(UserWarning, match="which did not end and cannot go on, was undone: "):
        assert day(tmp_path, 2, DAYS[2], update_center=update_center) == days[1]


@pytest.mark.slow
@pytest.mark.parametrize("at", ["put_next_votes", "remove_note", "take_next_votes"])
@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("gives_up", [False, True])
def test_the_votes_of_a_day_count_when_its_note_has_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at: str, before: bool, gives_up: bool
) -> None:
    day(tmp_path, 0, DAYS[0], update_center=True)
    step: Callable[..., None] = getattr(notes, at)
    taken = 0

    def killed(*arguments: object) -> None:
        nonlocal taken
        taken += 1
        ends = at != "take_next_votes" or taken > 1  # the first is that of the beginning
        if not (ends and before):
            step(*arguments)
        if ends:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(notes, at, killed)
        with pytest.raises(KeyboardInterrupt):
            day(tmp_path, 1, DAYS[1], update_center=True)
    note_is_there = (tmp_path / "s.fpstore" / notes.JOBS / ledger.NOTE).exists()
    assert note_is_there is (at == "put_next_votes" or (at == "remove_note" and before))
    if gives_up:
        shutil.rmtree(tmp_path / "out1.job")
        days = [DAYS[0], DAYS[2]] if note_is_there else DAYS
        if note_is_there:
            with pytest.warns(UserWarning, match="was undone"):
                found = day(tmp_path, 2, DAYS[2], update_center=True)
        else:
            found = day(tmp_path, 2, DAYS[2], update_center=True)
        assert found == expected(True, days)[-1]
    else:
        if not note_is_there:  # the store is free: the next day may come before this job has done its last step
            assert day(tmp_path, 2, DAYS[2], update_center=True) == expected(True)[2]
        assert day(tmp_path, 1, DAYS[1], update_center=True) == expected(True)[1]
        assert day(tmp_path, 3, DAYS[2], update_center=True) == expected(
            True, [*DAYS[:2], *([] if note_is_there else [DAYS[2]]), DAYS[2]]
        )[-1]  # fmt: skip
    assert ledger.NEXT_VOTES not in jobs_in(tmp_path / "s.fpstore")


@BOTH
def test_a_copy_goes_on_by_itself(tmp_path: Path, update_center: bool) -> None:
    day(tmp_path, 0, DAYS[0], update_center=update_center)
    other = tmp_path / "other"
    other.mkdir()
    with fpstore.open(tmp_path / "s.fpstore") as store:
        store.copy(other / "s.fpstore")
    for folder in (tmp_path, other):
        assert day(folder, 1, DAYS[1], update_center=update_center) == expected(update_center)[1]


def test_a_copy_made_while_a_day_is_at_work_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    day(tmp_path, 0, DAYS[0], update_center=True)
    interrupt(monkeypatch, lambda: day(tmp_path, 1, DAYS[1], update_center=True), 4)
    other = tmp_path / "other"
    other.mkdir()
    with fpstore.open(tmp_path / "s.fpstore") as store:
        store.copy(other / "s.fpstore")
    with pytest.raises(JobError, match=r"found the bit counts of \d+ clusters, expected those of \d+, which the store"):
        day(other, 1, DAYS[1], update_center=True)


def test_votes_that_are_replaced_while_a_store_is_copied_are_copied_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    day(tmp_path, 0, DAYS[0], update_center=True)
    names = tmp_path / "s.fpstore" / notes.JOBS
    (names / ledger.NEXT_VOTES).write_bytes(b"newer")
    copy, done = notes._copy_file, 0

    def late(source: Folder, target: Folder, name: str) -> None:
        nonlocal done
        done += 1
        if done == 2:  # the votes that come are about to be copied, and go
            notes.take_next_votes(source)
        copy(source, target, name)

    monkeypatch.setattr(notes, "_copy_file", late)
    with fpstore.open(tmp_path / "s.fpstore") as store:
        store.copy(tmp_path / "copy.fpstore")
    copied = tmp_path / "copy.fpstore" / notes.JOBS
    assert (copied / ledger.VOTES).read_bytes() == b"newer"
    assert jobs_in(tmp_path / "copy.fpstore") == jobs_in(tmp_path / "s.fpstore")


def test_a_cluster_whose_row_was_removed_takes_no_members_any_more(tmp_path: Path) -> None:
    for update_center in (False, True):
        folder = tmp_path / str(update_center)
        folder.mkdir()
        assert day(folder, 0, ["x y", "fox dog"], update_center=update_center) == [(0, 0), (1, 0)]
        with fpstore.open(folder / "s.fpstore", "w") as store:
            store.remove(ids=[0])
        assert day(folder, 1, ["x y", "fox dog"], update_center=update_center) == [(2, 0), (1, 0)]


# --- What is refused ---


def test_a_store_is_of_leaders_or_of_moving_centers(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", DAYS[0])
    store = tmp_path / "centers.fpstore"
    cluster([source], tmp_path / "out", store=store, update_center=True)
    message = f"^{store}: found a store of clusters with moving centers, expected one without: only cluster"
    with pytest.raises(ValueError, match=message):
        cluster([source], tmp_path / "2", store=store)
    with pytest.raises(ValueError, match=message):
        dedup([source], tmp_path / "2", store=store)
    store = tmp_path / "leaders.fpstore"
    cluster([source], tmp_path / "3", store=store)
    with pytest.raises(ValueError, match=f"^{store}: found 7 rows or numbers that no job with --update-center gave"):
        cluster([source], tmp_path / "4", store=store, update_center=True)
    with fpstore.open(store, "w"):  # and no note of those that were refused is left
        pass
    with pytest.raises(ValueError, match=f"^{store}: found a store of clusters, expected one without: only cluster"):
        dedup([source], tmp_path / "5", store=store)
    assert cluster([source], tmp_path / "6", store=store).new == 0


def test_clusters_over_several_jobs_have_one_distance(tmp_path: Path) -> None:
    day(tmp_path, 0, DAYS[0], update_center=False)
    for k in (0, K - 1):
        with pytest.raises(ValueError, match=f"found max_distance {k}, expected {K}, as the store has: clus"):
            day(tmp_path, 1, DAYS[1], update_center=False, k=k)
    assert day(tmp_path, 1, DAYS[1], update_center=False) == expected(False)[1]


@pytest.mark.parametrize("update_center", [False, True])
@pytest.mark.parametrize("row", [(12345, 7777), (12345, 1)])
def test_a_row_of_somebody_else_is_no_cluster(tmp_path: Path, row: tuple[int, int], update_center: bool) -> None:
    day(tmp_path, 0, DAYS[0], update_center=update_center)
    path = tmp_path / "s.fpstore"
    with fpstore.open(path, "w") as store:
        store.add([row[0]], ids=[row[1]])
    told = r"found 1 rows or numbers that no job|the first of no cluster|counts of 7 clusters, expected those of 7778"
    with pytest.raises((JobError, ValueError), match=told):
        day(tmp_path, 1, DAYS[1], update_center=update_center)
    with fpstore.open(path, "w") as store:
        store.remove(fingerprints=[row[0]])
    assert day(tmp_path, 1, DAYS[1], update_center=update_center) == expected(update_center)[1]


def test_clusters_begin_in_a_store_that_nothing_was_ever_in(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", DAYS[0])
    for name, keys in (("rows", [1, 2]), ("empty", [])):
        store = tmp_path / f"{name}.fpstore"
        fpstore.build(store, np.array(keys, dtype=np.uint64), ids="row", recipe=DEFAULT_RECIPE).close()
        if keys:
            with pytest.raises(ValueError, match=f"^{store}: found 2 rows or numbers that no job .*; begin with a new"):
                cluster([source], tmp_path / name, store=store)
        else:
            assert cluster([source], tmp_path / name, store=store).new == 7
    fpstore.create(tmp_path / "d.fpstore", recipe=DEFAULT_RECIPE).close()
    dedup([source], tmp_path / "d", store=tmp_path / "d.fpstore", confirm=None)
    with fpstore.open(tmp_path / "d.fpstore", "w") as opened:
        opened.remove(ids=range(20))
    with pytest.raises(ValueError, match=r"found \d rows or numbers that no job with cluster gave"):
        cluster([source], tmp_path / "dc", store=tmp_path / "d.fpstore")


def test_a_row_that_is_no_first_document_is_refused_with_moving_centers(tmp_path: Path) -> None:
    day(tmp_path, 0, DAYS[0], update_center=True)
    path = tmp_path / "s.fpstore"
    with fpstore.open(path, "w") as store:
        store.add([12345], ids=[1])
    with pytest.raises(JobError, match=f"^{path}: found document 1, which is the first of no cluster, expected those"):
        day(tmp_path, 1, DAYS[1], update_center=True)
    with fpstore.open(path, "w") as store:
        store.remove(fingerprints=[12345])
    assert day(tmp_path, 1, DAYS[1], update_center=True) == expected(True)[1]


@pytest.mark.parametrize("left", [0, 7, 8, -1, -264])
def test_votes_that_are_cut_are_refused(tmp_path: Path, left: int) -> None:
    day(tmp_path, 0, DAYS[0], update_center=True)
    votes = tmp_path / "s.fpstore" / notes.JOBS / ledger.VOTES
    data = votes.read_bytes()
    votes.write_bytes(data[:left])
    size = len(data[:left])
    message = {
        8: "0 clusters, checksum: found 0x00000000, expected ",
        -264: "6 clusters, checksum: found 0x.*, expected ",
    }.get(left, f"votes: found {size} bytes, expected 8 more than a multiple of 264")
    with pytest.raises(CorruptStore, match=message):
        day(tmp_path, 1, DAYS[1], update_center=True)
    votes.write_bytes(data)
    assert day(tmp_path, 1, DAYS[1], update_center=True) == expected(True)[1]


def test_force_does_not_count_a_finished_day_twice(tmp_path: Path) -> None:
    day(tmp_path, 0, DAYS[0], update_center=True)
    arguments = ([tmp_path / "day0.jsonl"], tmp_path / "out0")
    with pytest.raises(JobError, match="its documents are in the store: begun again it would count each a second time"):
        cluster(*arguments, store=tmp_path / "s.fpstore", max_distance=K, update_center=True, force=True)


def test_build_force_takes_the_votes_away(tmp_path: Path) -> None:
    day(tmp_path, 0, DAYS[0], update_center=True)
    path = tmp_path / "s.fpstore"
    fpstore.build(path, np.arange(3, dtype=np.uint64), recipe="web-en", force=True).close()
    assert jobs_in(path) == set()


def test_votes_end_behind_the_last_cluster(tmp_path: Path) -> None:
    folder = Folder.open(tmp_path)
    votes = Votes(folder, "votes", 1)
    votes.lead(0, 5)
    votes.settle(1)
    data = (tmp_path / "votes").read_bytes()
    assert struct.unpack("<64iQQ", data) == (*(1 if 5 >> i & 1 else -1 for i in range(64)), 5, crc32c(data[:264]))


# --- The command ---


def test_the_command_says_how_many_clusters_are_new(command: Command, tmp_path: Path) -> None:
    store = tmp_path / "s.fpstore"
    for number, said in ((0, "clusters 7, new 7"), (1, "clusters 11, new 4")):
        source = write_jsonl(tmp_path / f"{number}.jsonl", DAYS[number])
        outcome = command("cluster", source, "-o", tmp_path / f"{number}", "--store", store, "-k", 0)
        assert (outcome.status, outcome.out) == (0, "")
        assert f"documents, {said}, refused matches 0, passed over 0" in outcome.err
    with fpstore.open(store) as opened:
        assert opened.max_distance == 0
        assert opened.count("rows") == 11


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "-"), "-o - and --store: found both, expected a file"),
        ((), "standard output and --store: found both, expected a file"),
        (("-o", "out", "--components"), "--store and --components: found both, expected one"),
    ],
)
def test_what_cannot_go_on_is_refused(
    command: Command, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", DAYS[0])
    outcome = command("cluster", source, "--store", tmp_path / "s.fpstore", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err
