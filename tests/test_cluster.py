"""A search cut into tasks: the rows of one `probe_many`, whatever the store, the queries and the cut; its parts."""

import json
import os
import pickle
import resource
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import flipped, stream_by
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from living import writer_of

import fpstore
from fpstore import cluster, minhash
from fpstore._codec import crc32c
from fpstore.cluster import gathering, local, parts, searching, shares, work
from fpstore.cluster.parts import Maker, Part, write_part
from fpstore.cluster.searching import ProbeTask, Queries, Seen
from fpstore.cluster.shares import PENDING, Share, cut
from fpstore.cluster.tasks import run
from fpstore.disk import Folder
from fpstore.errors import CorruptStore, JobError, StoreChanged, TooManyMatches, WrongKind
from fpstore.query import batch, ways
from fpstore.types import Keys

Rows = list[tuple[int, int, int, Any]]
ID_TYPES: tuple[Any, ...] = (None, "uint64", "string")


def some_keys(count: int, seed: int) -> Keys:
    """Some near one another, some apart, some several times."""
    rng = np.random.default_rng(seed)
    bases = rng.integers(0, 1 << 64, max(1, count // 3), dtype=np.uint64)
    return flipped(rng.choice(bases, count), rng.integers(0, 4, count), rng)


def ids_for(id_type: Any, first: int, count: int) -> Any:
    if id_type is None:
        return None
    return [f"n{i * 263 % 700:04d}" if id_type == "string" else i for i in range(first, first + count)]


def grown(path: Path, id_type: Any) -> Path:
    """A store of several segments, of what is pending, of rows that lie in two of these, and of what was removed."""
    fpstore.create(path, id_type=id_type).close()
    keys = some_keys(3000, 4)
    with writer_of(path) as store:
        for first, end in ((0, 1500), (1000, 2400), (2400, 2700)):
            store.add(keys[first:end], ids=ids_for(id_type, first, end - first))
            store._flush()
            store.remove(fingerprints=keys[first : first + 20])
        if id_type is not None:
            store.remove(ids=ids_for(id_type, 100, 30))
            store.remove(fingerprints=keys[300:330], ids=ids_for(id_type, 300, 30))
        store.add(np.repeat(keys[500:540], 8), ids=ids_for(id_type, 5000, 320))
        store._flush()
        store.add(keys[2300:], ids=ids_for(id_type, 2300, 700))
        store.remove(fingerprints=keys[2990:])
    return path


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stores")
    found = {f"grown {each}": grown(folder / f"grown-{each}", each) for each in ID_TYPES}
    fpstore.build(folder / "plain", some_keys(2000, 5), ids=None).close()
    fpstore.build(folder / "narrow", some_keys(2000, 6) >> np.uint64(32), ids="row", bits=32).close()
    fpstore.create(folder / "empty", id_type="uint64").close()
    fpstore.create(folder / "pending", id_type="uint64").close()
    with writer_of(folder / "pending") as store:
        store.add(some_keys(300, 7), ids=list(range(300)))
    return found | {name: folder / name for name in ("plain", "narrow", "empty", "pending")}


def rows_of(batches: Sequence[fpstore.Matches]) -> Rows:
    found: Rows = []
    for each in batches:
        ids = [None] * len(each) if each.id is None else each.id.tolist()
        found += zip(each.query.tolist(), each.fingerprint.tolist(), each.distance.tolist(), ids, strict=True)
    return found


def brute(store: fpstore.Store, queries: Keys, distance: int) -> Rows:
    """Every row against every query."""
    found: Rows = []
    for rows in store.rows():
        ids = [None] * len(rows) if rows.id is None else rows.id.tolist()
        bits = np.bitwise_count(rows.fingerprint[:, None] ^ queries[None, :])
        for at, query in zip(*np.nonzero(bits <= distance), strict=True):
            found.append((int(query), int(rows.fingerprint[at]), int(bits[at, query]), ids[at]))
    return sorted(found, key=lambda row: (row[0], row[2], row[1], row[3] if row[3] is not None else 0))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is cut, however little there is of it."""
    for module, name, value in (
        (batch, "CHUNK_KEYS", 100),
        (ways, "MIN_STREAMED", 20),
        (shares, "RUN_ROWS", 50),
        (shares, "SLICE_QUERIES", 16),
        (shares, "GROUP_QUERIES", 16),
        (parts, "BLOCK_ROWS", 13),
        (gathering, "MOST_RUNS", 3),
    ):
        monkeypatch.setattr(module, name, value)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["plain", "narrow", "empty", "pending", *(f"grown {each}" for each in ID_TYPES)]),
    count=st.sampled_from([0, 1, 2, 30, 90]),
    kind=st.sampled_from(["near", "random", "repeated", "all"]),
    streamed=st.sampled_from([True, False]),
    distance=st.sampled_from([0, 2, 3, 5]),
    task_count=st.integers(1, 12),
    seed=st.integers(0, 1 << 20),
)
def test_tasks_find_what_one_search_finds(
    stores: dict[str, Path],
    small: None,
    name: str,
    count: int,
    kind: str,
    streamed: bool,
    distance: int,
    task_count: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    with fpstore.open(stores[name]) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr("fpstore.living.radius._told", True)
        stream_by(patch, streamed)
        others = some_keys(9, seed) >> np.uint64(64 - store.bits)
        stored = np.concatenate([others, *(rows.fingerprint for rows in store.rows())])
        queries = rng.choice(stored, count)
        if kind == "random":
            queries = some_keys(count, seed) >> np.uint64(64 - store.bits)
        elif kind == "near":
            queries = flipped(queries, rng.integers(0, 4, count), rng, store.bits)
        elif kind == "repeated":
            queries = rng.choice(queries[:3], count) if count else queries
        expected = store.probe_many(queries, max_distance=distance)
        with cluster.probe(stores[name], queries, max_distance=distance, tasks=task_count, workers=1) as answer:
            found = rows_of(list(answer))
        assert found == rows_of([expected])
        assert found == brute(store, queries, distance)


# --- How a search is cut ---


@pytest.mark.parametrize("count", [1, 2, 5, 40])
@pytest.mark.parametrize("streams", [True, False])
def test_lots_have_every_piece_or_every_query_once_and_take_about_as_long(
    stores: dict[str, Path], small: None, monkeypatch: pytest.MonkeyPatch, streams: bool, count: int
) -> None:
    stream_by(monkeypatch, streams)
    with fpstore.open(stores["grown uint64"]) as store:
        snapshot = store._latest
        lots = cut(snapshot, 3, 200, count)
        assert 1 <= len(lots) <= count
        every = [share for lot in lots for share in lot]
        ends = [len(batch.pieces(part.segment, 3)) if streams else 200 for part in snapshot.searched]
        for part, end in zip([*range(len(ends)), PENDING], [*ends, 200], strict=True):
            own = [share for share in every if share.part == part]
            assert [share.streams for share in own] == [streams and part != PENDING] * len(own)
            assert [0, *(share.end for share in own)] == [*(share.first for share in own), end]


def test_a_share_finds_what_its_pieces_find(stores: dict[str, Path], small: None) -> None:
    queries = flipped(some_keys(2000, 5), np.full(2000, 3), np.random.default_rng(1))
    with fpstore.open(stores["plain"]) as store:
        snapshot, asked = store._latest, batch.Asked.of(queries)

        def found(first: int, end: int) -> set[tuple[int, ...]]:
            runs = [np.stack(list(run)) for run in shares.runs_of(snapshot, Share(0, True, first, end), asked, 3)]
            return set(map(tuple, np.concatenate(runs, axis=1).T.tolist())) if runs else set()

        count = len(batch.pieces(snapshot.searched[0].segment, 3))
        each = [found(index, index + 1) for index in range(count)]
        assert min(map(len, each)) > 0
        assert sum(map(len, each)) == len(set.union(*each)) == len(store.probe_many(queries))
        for first, end in ((0, count), (3, count - 5), (count - 2, count)):
            assert found(first, end) == set.union(*each[first:end])


def test_names_are_in_order_where_a_batch_ends_among_those_of_one_fingerprint(tmp_path: Path, small: None) -> None:
    names = [f"n{i * 37 % 100:02d}" for i in range(100)]
    fpstore.create(tmp_path / "s", id_type="string").close()
    with writer_of(tmp_path / "s") as store:
        for name in names:  # each has a handle above those before
            store.add([7], ids=[name])
    with cluster.probe(tmp_path / "s", [7, 5], workers=1) as answer:
        batches = list(answer)
    assert len(batches) > 1
    assert rows_of(batches) == [(query, 7, query, name) for query in (0, 1) for name in sorted(names)]


def test_no_queries_have_no_tasks_and_no_rows(stores: dict[str, Path]) -> None:
    with cluster.probe(stores["plain"], []) as answer:
        assert list(answer) == []


def test_a_share_holds_few_rows_however_many_it_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "RUN_ROWS", 100)
    fpstore.build(tmp_path / "s", np.full(5000, 7, dtype=np.uint64), ids="row").close()
    with fpstore.open(tmp_path / "s") as store:
        asked = batch.Asked.of(np.full(3, 7, dtype=np.uint64))
        (lot,) = cut(store._latest, 3, 1, 1)
        sizes = [len(run[0]) for run in shares.runs_of(store._latest, lot[0], asked, 3)]
        assert sum(sizes) == 15_000
        asked = batch.Asked.of(np.arange(64, dtype=np.uint64))
        (lot,) = cut(store._latest, 0, 64, 1)
        assert sum(len(run[0]) for run in shares.runs_of(store._latest, lot[0], asked, 0)) == 5000


def test_more_rows_of_one_query_than_an_answer_may_have_are_refused(
    stores: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "RUN_ROWS", 1)
    monkeypatch.setattr(shares, "MAX_MATCHES", 2)
    with pytest.raises(TooManyMatches, match="1 queries: found"):
        cluster.probe(stores["plain"], some_keys(30, 5))


def test_a_job_has_no_more_tasks_than_files_may_be_open() -> None:
    assert [work.task_count(100.0, 8, asked) for asked in (1, 512, 513, 1 << 40)] == [1, 512, 512, 512]
    assert work.task_count(1e9, 8, None) == 512


# --- Parts ---


def a_part(folder: Path, maker: Maker, runs: int = 2) -> Path:
    with Folder.open(folder) as home:
        columns = [np.arange(4, dtype=np.uint64), np.arange(4, dtype=np.uint64) * np.uint64(3)]
        assert write_part(home, maker, 2, [[columns]] * runs) == 4 * runs
    return folder / maker.name


def read_part(folder: Path, maker: Maker, columns: int = 2) -> int:
    with Folder.open(folder) as home:
        return sum(len(chunk[0]) for chunk in gathering.gathered([Part.open(home, maker, columns)], columns))


def test_a_damaged_part_is_refused_whatever_byte_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "BLOCK_ROWS", 3)
    maker = Maker("a", 3)
    path = a_part(tmp_path, maker)
    data = path.read_bytes()
    assert read_part(tmp_path, maker) == 4
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with pytest.raises(JobError, match=f"^{path}: .*found .*, expected .*; remove the file, and its task makes"):
            read_part(tmp_path, maker)
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        with pytest.raises(JobError, match=f"^{path}: .*found .*, expected "):
            read_part(tmp_path, maker)


@pytest.mark.parametrize(
    "footer",
    [
        {},
        [],
        {"job": "j", "task": 0, "columns": 2, "runs": 3},
        {"runs": [[[-1, 0], [1, 0]]]},
        b"[" * 100_000,
    ],
)
def test_a_footer_that_no_task_writes_is_refused(tmp_path: Path, footer: Any) -> None:
    maker = Maker("j", 0)
    if isinstance(footer, dict) and list(footer) == ["runs"]:
        footer = {"job": "j", "task": 0, "columns": 2, **footer}
    data = footer if isinstance(footer, bytes) else json.dumps(footer).encode()
    maker_path = tmp_path / maker.name
    maker_path.write_bytes(data + parts._TAIL.pack(len(data), crc32c(data), parts.MAGIC))
    with pytest.raises(JobError, match="the footer: found "):
        read_part(tmp_path, maker)


@pytest.mark.parametrize("footer_bytes", [1, parts._TAIL.size, 1 << 40])
def test_a_footer_that_begins_before_the_file_is_refused(tmp_path: Path, footer_bytes: int) -> None:
    path = tmp_path / Maker("j", 0).name
    path.write_bytes(bytes(9) + parts._TAIL.pack(9 + footer_bytes, 0, parts.MAGIC))
    with pytest.raises(JobError, match=rf"the footer: found {9 + footer_bytes} bytes, expected at most 9"):
        read_part(tmp_path, Maker("j", 0))


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_footer_of_fewer_or_more_rows_than_there_are_is_refused(tmp_path: Path, rows: int) -> None:
    block = bytes(16 * 2)
    runs = [[[rows, crc32c(block[: 16 * rows])]]] if rows else []
    data = json.dumps({"job": "j", "task": 0, "columns": 2, "runs": runs}).encode()
    path = tmp_path / Maker("j", 0).name
    path.write_bytes(block + data + parts._TAIL.pack(len(data), crc32c(data), parts.MAGIC))
    with pytest.raises(JobError, match=rf"the footer: found \d blocks of {16 * rows} bytes, expected 32"):
        read_part(tmp_path, Maker("j", 0))


def test_a_block_of_more_rows_than_one_may_have_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_part(tmp_path, Maker("a", 3))
    monkeypatch.setattr(parts, "BLOCK_ROWS", 3)
    with pytest.raises(JobError, match="the footer: found 2 blocks of 128 bytes"):
        read_part(tmp_path, Maker("a", 3))


def test_what_is_whole_is_on_the_disk_before_its_name_and_the_name_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(fd: int) -> None:
        told.append(f"sync {Path(os.readlink(f'/proc/self/fd/{fd}')).name.partition('.')[0]}")
        fsync(fd)

    def renamed(old: str, new: str, **where: Any) -> None:
        told.append(f"name {new}")
        rename(old, new, **where)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    with Folder.open(tmp_path) as home:
        with parts.whole_file(home, "a") as file:
            file.write(b"whole")
        with parts.own_place(home, "b") as place:
            place.path.write_text("whole")
    assert told == ["sync a", "name a", f"sync {tmp_path.name}", "name b", f"sync {tmp_path.name}"]


@pytest.mark.parametrize("rows", [1.0, True])
def test_a_count_of_rows_that_is_no_integer_is_refused(tmp_path: Path, rows: Any) -> None:
    maker = Maker("j", 0)
    block = bytes(16)
    data = json.dumps({"job": "j", "task": 0, "columns": 2, "runs": [[[rows, crc32c(block)]]]}).encode()
    tail = parts._TAIL.pack(len(data), crc32c(data), parts.MAGIC)
    (tmp_path / maker.name).write_bytes(block + data + tail)
    with pytest.raises(JobError, match="the footer: found 1 blocks of 16"):
        read_part(tmp_path, maker)


@pytest.mark.parametrize(
    "rows", [[(2, 0), (1, 9)], [(1, 9), (1, 8)], [(1, 1), (2, 0), (3, 0), (2, 9)], [(1, 1), (2, 0), (3, 5), (3, 4)]]
)
def test_rows_in_no_order_are_refused_whatever_their_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[tuple[int, int]]
) -> None:
    monkeypatch.setattr(parts, "BLOCK_ROWS", 3)
    with Folder.open(tmp_path) as home:
        columns = list(np.array(rows, dtype=np.uint64).T)
        write_part(home, Maker("a", 3), 2, [[columns]])
        assert write_part(home, Maker("a", 4), 2, [[[np.sort(column) for column in columns]]]) == len(rows)
    with pytest.raises(JobError, match=r"00003\.part: a block at \d+: found rows in no order, expected those of a run"):
        read_part(tmp_path, Maker("a", 3))
    assert read_part(tmp_path, Maker("a", 4)) == len(rows)


def test_a_part_has_the_bytes_that_the_format_says(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [5, 6], ids=[70, 80]).close()
    with cluster.probe(tmp_path / "s", [6, 5], max_distance=0, folder=tmp_path / "f"):
        pass
    job, *about = (tmp_path / "f" / "job").read_text().split("\n")
    assert about == ["this store, these queries", fpstore.__version__, '{"max_distance": 0, "tasks": 1}']
    data = (tmp_path / "f" / "00000.part").read_bytes()
    block = np.array([0 << 16, 1 << 16, 6, 5, 80, 70], dtype="<u8").tobytes()
    footer = json.dumps({"job": job, "task": 0, "columns": 3, "runs": [[[2, crc32c(block)]]]}).encode()
    tail = len(footer).to_bytes(8, "little") + crc32c(footer).to_bytes(4, "little") + b"fppart01"
    assert data == block + footer + tail
    assert len(job) == 32
    assert np.load(tmp_path / "f" / "queries.npy").tolist() == [[5, 6], [1, 0]]
    assert sorted(os.listdir(tmp_path / "f")) == ["00000.part", "job", "queries.npy"]


def test_a_part_of_another_job_or_task_is_refused(tmp_path: Path) -> None:
    path = a_part(tmp_path, Maker("a", 3))
    for other, columns in ((Maker("b", 3), 2), (Maker("a", 4), 2), (Maker("a", 3), 3)):
        shutil.copy(path, tmp_path / other.name) if other.task != 3 else None
        with pytest.raises(JobError, match="found the part of job 'a', task 3, of 2 columns; expected job"):
            read_part(tmp_path, other, columns)


def test_a_file_that_has_no_room_is_named(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Folder.open(tmp_path) as home:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        try:
            with pytest.raises(OSError, match=f"{tmp_path}/a.*new"), parts.whole_file(home, "a") as file:
                file.write(bytes(100))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == []


def test_a_part_that_could_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[Any]:
        yield [[np.arange(9, dtype=np.uint64)] * 2]
        raise ValueError("no more")

    with Folder.open(tmp_path) as home, pytest.raises(ValueError, match="no more"):
        write_part(home, Maker("a", 0), 2, failing())
    assert list(tmp_path.iterdir()) == []


# --- Tasks ---


def tasks_of(store: Path, folder: Path, queries: Keys, count: int = 3, kind: type[ProbeTask] = ProbeTask) -> list[Any]:
    """The tasks of a probe, as the driver makes them."""
    folder.mkdir(exist_ok=True)
    with fpstore.open(store) as opened, Folder.open(folder) as home:
        about, table = Queries.of(queries)
        Queries.write(home, table)
        lots = cut(opened._latest, 3, about.distinct, count)
        seen = Seen.of(opened._latest.state)
        told = (fpstore.__version__, store, seen, folder, about, 3)
        return [kind(Maker("j", number), *told, lot) for number, lot in enumerate(lots)]


def test_a_task_done_twice_leaves_the_same_part(stores: dict[str, Path], tmp_path: Path) -> None:
    (task,) = tasks_of(stores["grown string"], tmp_path / "f", some_keys(50, 4), 1)
    assert pickle.loads(pickle.dumps(task)) == task
    rows = run(task)
    part = (tmp_path / "f" / task.maker.name).read_bytes()
    assert rows > 0
    assert run(pickle.loads(pickle.dumps(task))) == rows
    assert (tmp_path / "f" / task.maker.name).read_bytes() == part
    assert sorted(os.listdir(tmp_path / "f")) == [task.maker.name, searching.QUERIES]


def test_a_task_of_a_store_that_has_changed_is_refused(stores: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(stores["grown uint64"], path)
    (task,) = tasks_of(path, tmp_path / "f", some_keys(5, 4), 1)
    with fpstore.open(path, "w") as store:
        store.add([1], ids=[1])
    with pytest.raises(StoreChanged, match=r"found store \w{32} at generation .*, expected store .*, which the job"):
        run(task)
    assert os.listdir(tmp_path / "f") == [searching.QUERIES]


def test_a_task_with_other_queries_or_of_another_version_is_refused(stores: dict[str, Path], tmp_path: Path) -> None:
    (task,) = tasks_of(stores["plain"], tmp_path / "f", some_keys(5, 4), 1)
    tasks_of(stores["plain"], tmp_path / "f", some_keys(5, 5), 1)
    with pytest.raises(JobError, match=r"found queries .*, expected .*, those of the job"):
        run(task)
    with pytest.raises(JobError, match=r"task 0 of a probe of .*: found fpstore .*, expected 9\.9, as at the driver"):
        run(replace(task, version="9.9"))


def hostile_queries(path: Path, kind: str) -> None:
    """A file that is no queries of a job in place of those."""
    data = path.read_bytes()
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("elsewhere")
    elif kind == "npz":
        with path.open("wb") as file:
            np.savez(file, np.arange(3))
    elif kind == "objects":
        np.save(path, np.array([{}]))
    elif kind == "large":
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "<u8", "fortran_order": False, "shape": (2, 1 << 33)})
            file.truncate(1 << 38)
    elif kind == "too large":
        path.write_bytes(data.replace(b"(2, 5)", b"(2, 1" + b"0" * 30 + b")"))
    else:
        path.write_bytes({"empty": b"", "cut": data[:-1], "text": b"a" * 200, "header": data[:20]}[kind])


@pytest.mark.parametrize(
    "kind", ["pipe", "link", "npz", "objects", "large", "too large", "empty", "cut", "text", "header"]
)
def test_what_are_no_queries_is_one_error(stores: dict[str, Path], tmp_path: Path, kind: str) -> None:
    (task,) = tasks_of(stores["plain"], tmp_path / "f", some_keys(5, 4), 1)
    hostile_queries(tmp_path / "f" / searching.QUERIES, kind)
    with pytest.raises((JobError, CorruptStore), match=r"queries\.npy: (found queries .*those of the job|file: found)"):
        run(task)


def test_a_vanished_segment_or_store_is_one_error(stores: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "s"
    shutil.copytree(stores["plain"], path)
    (task,) = tasks_of(path, tmp_path / "f", some_keys(5, 4), 1)
    next((path / "segments").glob("*.fpseg")).unlink()
    with pytest.raises(fpstore.CorruptStore, match="segment: found none, expected the file that the catalog names"):
        run(task)
    shutil.rmtree(path)
    with pytest.raises(FileNotFoundError):
        run(task)


# --- The driver ---


def test_what_was_done_is_not_done_again(
    stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []

    def interrupted(self: ProbeTask, store: fpstore.Store) -> int:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(self.maker.task)
        return runs(self, store)

    runs: Callable[[ProbeTask, fpstore.Store], int] = ProbeTask.run
    queries = some_keys(3000, 4)
    asked: dict[str, Any] = {"tasks": 4, "workers": 1, "folder": tmp_path / "f"}
    with monkeypatch.context() as patch:
        patch.setattr(ProbeTask, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cluster.probe(stores["grown uint64"], queries, **asked)
    assert done == [0, 1]
    patient = done.copy()

    def counted(self: ProbeTask, store: fpstore.Store) -> int:
        patient.append(self.maker.task)
        return runs(self, store)

    monkeypatch.setattr(ProbeTask, "run", counted)
    for _ in range(2):
        with cluster.probe(stores["grown uint64"], queries, **asked) as answer, fpstore.open(answer._store.path) as one:
            assert rows_of(list(answer)) == rows_of([one.probe_many(queries)])
    assert patient == [0, 1, 2, 3]


def test_a_folder_of_another_job_or_of_none_is_refused(stores: dict[str, Path], tmp_path: Path) -> None:
    queries = some_keys(9, 4)
    with cluster.probe(stores["plain"], queries, folder=tmp_path / "f"):
        pass
    others: list[tuple[Path, Keys, dict[str, Any]]] = [
        (stores["narrow"], queries >> np.uint64(32), {}),
        (stores["plain"], queries[1:], {}),
        (stores["plain"], queries[::-1].copy(), {}),
        (stores["plain"], queries, {"max_distance": 2}),
    ]
    for path, asked, options in others:
        with pytest.raises(
            JobError,
            match=r"found those of job \w+, of this store, these queries, expected an empty"
            if not options
            else "found a job, of this store, these queries, that has max_distance 3, expected 2, as is asked for here",
        ):
            cluster.probe(path, asked, folder=tmp_path / "f", **options)
    (tmp_path / "f" / "job").unlink()
    with pytest.raises(JobError, match="found a file that is no job's, expected an empty folder"):
        cluster.probe(stores["plain"], queries, folder=tmp_path / "f")
    with pytest.raises(ValueError, match="found a place inside the store"):
        cluster.probe(stores["plain"], queries, folder=stores["plain"] / "f")
    (tmp_path / "link").symlink_to(stores["plain"] / "f")
    with pytest.raises(ValueError, match="found a place inside the store"):
        cluster.probe(stores["plain"], queries, folder=tmp_path / "link")


def test_what_is_no_number_of_tasks_or_workers_is_refused(stores: dict[str, Path]) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [({"workers": 0}, "workers: found 0"), ({"tasks": 0}, "tasks: found 0")]
    for options, told in wrong:
        with pytest.raises(ValueError, match=told):
            cluster.probe(stores["plain"], [1], **options)


def test_stores_of_another_kind_are_refused(tmp_path: Path) -> None:
    minhash.create(tmp_path / "m", recipe="minhash-128").close()
    with pytest.raises(WrongKind, match="found a store of kind minhash, expected hamming"):
        cluster.probe(tmp_path / "m", [1])


def test_an_answer_that_ends_early_leaves_nothing(stores: dict[str, Path], tmp_path: Path, small: None) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with cluster.probe(stores["grown string"], some_keys(900, 4), tasks=3, workers=1) as answer:
        assert len(next(answer))
    with pytest.raises(StopIteration):
        next(answer)
    assert set(os.listdir("/proc/self/fd")) <= before


def test_a_part_that_is_damaged_meanwhile_ends_the_answer(stores: dict[str, Path], tmp_path: Path) -> None:
    with cluster.probe(stores["plain"], some_keys(900, 5), folder=tmp_path / "f", workers=1) as answer:
        path = tmp_path / "f" / "00000.part"
        with open(path, "r+b") as file:
            file.seek(50)
            file.write(b"another")
        with pytest.raises(JobError, match="a block at 0: found another checksum, expected its own"):
            list(answer)
    path.unlink()
    with cluster.probe(stores["plain"], some_keys(900, 5), folder=tmp_path / "f", workers=1) as answer:
        assert sum(map(len, answer)) > 900


def test_a_part_that_vanished_is_an_error_that_leaves_no_file_open(
    stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local.Local, "__call__", lambda *_: None)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        cluster.probe(stores["grown uint64"], some_keys(900, 5), tasks=3)
    assert set(os.listdir("/proc/self/fd")) <= before


def test_what_cannot_be_read_while_a_part_is_written_keeps_its_name(tmp_path: Path) -> None:
    with Folder.open(tmp_path) as home:
        with pytest.raises(FileNotFoundError) as caught, parts.whole_file(home, "a"):
            (tmp_path / "input").read_bytes()
        assert caught.value.filename == str(tmp_path / "input")
        assert not home.names()
