"""All pairs cut into tasks: those of one `Store.pairs`, in order, whatever the store and the cut."""

import errno
import fcntl
import os
import pickle
import shutil
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from living import writer_of
from test_cluster import ID_TYPES, grown, some_keys
from test_cluster_local import DEATHS, LONG
from test_cluster_ranks import Elsewhere

import fpstore
from fpstore import cluster, minhash
from fpstore.cluster import engines, gathering, pairing, parts, work
from fpstore.cluster.local import TRIES, run_here
from fpstore.cluster.pairing import PairsTask
from fpstore.cluster.parts import Maker, Part, sweep, whole_file
from fpstore.cluster.searching import Seen
from fpstore.cluster.tasks import HELD, run
from fpstore.disk import NEW_SUFFIX, Folder
from fpstore.errors import JobError, StoreChanged, WrongKind
from fpstore.query.pairs import stretches
from fpstore.types import Keys, Paired

Rows = list[tuple[Any, Any, int]]
PLANS = ("balanced", "size", "speed")


def crowded(count: int, seed: int) -> Keys:
    """Many are near one another, many equal, and most in one part of the tables."""
    rng = np.random.default_rng(seed)
    return rng.choice(some_keys(count, seed) >> np.uint64(40), count)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stores")
    found = {f"grown {each}": grown(folder / f"grown-{each}", each) for each in ID_TYPES}
    for plan in PLANS:
        fpstore.build(folder / plan, some_keys(2000, 5), ids="row", plan=plan).close()
    fpstore.build(folder / "crowded", crowded(1500, 8), ids="row").close()
    fpstore.build(folder / "narrow", some_keys(900, 6) >> np.uint64(32), ids=None, bits=32).close()
    fpstore.build(folder / "one", [7], ids="row").close()
    fpstore.create(folder / "empty", id_type="uint64").close()
    fpstore.create(folder / "pending", id_type="uint64").close()
    with writer_of(folder / "pending") as store:
        store.add(some_keys(300, 7), ids=list(range(300)))
    return found | {name: folder / name for name in (*PLANS, "crowded", "narrow", "one", "empty", "pending")}


def rows_of(batches: Any) -> Rows:
    found: Rows = []
    for each in batches:
        found += [tuple(row) for row in each]
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is cut, however little there is of it."""
    monkeypatch.setattr("fpstore.cluster.runs.RUN_ROWS", 50)
    monkeypatch.setattr(parts, "BLOCK_ROWS", 13)
    monkeypatch.setattr(gathering, "MOST_RUNS", 3)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(
        [*PLANS, "crowded", "narrow", "one", "empty", "pending", *(f"grown {each}" for each in ID_TYPES)]
    ),
    of=st.sampled_from(["fingerprints", "ids"]),
    distance=st.sampled_from([0, 1, 3]),
    task_count=st.integers(1, 12),
    memory=st.sampled_from(["1GiB", "48KiB"]),
)
def test_tasks_find_the_pairs_that_one_search_finds(
    stores: dict[str, Path], small: None, name: str, of: Paired, distance: int, task_count: int, memory: str
) -> None:
    with fpstore.open(stores[name]) as store:
        if of == "ids" and store.id_type is None:
            return
        expected = rows_of(store.pairs(max_distance=distance, of=of))
        if name == "crowded" and of == "ids":
            memory = "1GiB"
    # Cut as for so many workers, though one does all: for fewer, tables with flips would be cut less.
    with cluster.pairs(
        stores[name], max_distance=distance, of=of, tasks=task_count, world_size=task_count, workers=1, memory=memory
    ) as answer:
        found = rows_of(answer)
    assert sorted(found) == sorted(expected)
    if of == "fingerprints" or not name.endswith("string"):
        assert found == sorted(found)


@pytest.mark.parametrize("count", [2, 5, 40])
@pytest.mark.parametrize("plan", PLANS)
def test_stretches_cover_every_table_once_and_find_every_pair_once(
    stores: dict[str, Path], plan: str, count: int
) -> None:
    with fpstore.open(stores[plan]) as store:
        snapshot = store._latest
        (part,) = snapshot.parts
        cut = [stretch for stretch, _ in stretches(part.segment, 3, count)]
        for table in range(len(part.segment.tables)):
            own = [each for each in cut if each.table == table]
            assert len(own) == 1 << (count - 1).bit_length()
            assert [each.first for each in own] == list(range(len(own)))
            assert {each.end - each.first for each in own} == {1}
        expected = sorted(rows_of(store.pairs()))
        found: Rows = []
        each_has = []
        for stretch in cut:
            before = len(found)
            for join, share in snapshot.joins(3, 1 << 30, [stretch]):
                assert 0 <= share <= 1
                while not join.done:
                    found += list(zip(*(column.tolist() for column in join.next()), strict=True))
            each_has.append(len(found) - before)
        assert sorted(found) == expected
        assert np.count_nonzero(each_has) > 1


def pieces_of(path: Path, workers: int, asked: int) -> dict[int, int]:
    """Into how many pieces each table with flips is cut; all tables are whole, in one lot or another."""
    with fpstore.open(path) as store:
        tables = store._latest.parts[0].segment.tables
        _, lots = pairing._cut(store._latest, "fingerprints", 3, workers, asked)
    assert 1 < len(lots) <= asked
    every = sorted(stretch for lot in lots for stretch in lot)
    for number in range(len(tables)):
        own = [each for each in every if each.table == number]
        assert [each.first for each in own] == [0, *(each.end for each in own[:-1])]
        assert own[-1].end == 1 << own[-1].bits
    return {each.table: 1 << each.bits for each in every if tables[each.table].flips}


def test_tables_with_flips_are_cut_no_finer_than_it_takes_to_share_the_work(
    stores: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece reads its partners once more: 10^7 keys in eighths took 1.45 times what one search takes."""
    alone, two, eight = (pieces_of(stores["size"], workers, 8) for workers in (1, 2, 8))
    assert alone
    assert set(alone.values()) == {1}
    assert sum(two.values()) < sum(eight.values())
    assert max(eight.values()) > 2
    with monkeypatch.context() as patched:
        patched.setattr(pairing, "TASK_SECONDS", 1e-9)  # whatever the cut, a task takes longer
        assert min(pieces_of(stores["size"], 1, 8).values()) >= 8


def test_who_is_free_takes_the_next_task() -> None:
    for takes, workers, expected in (
        ([], 2, 0),
        ([3, 3, 1, 1, 1], 1, 9),
        ([3, 3, 1, 1, 1], 2, 5),
        ([3, 3, 1, 1, 1], 9, 3),
        ([1, 1, 4], 2, 5),
    ):
        assert pairing._until_all_are_done(takes, workers) == expected


def test_no_pairs_have_no_rows(stores: dict[str, Path]) -> None:
    for name in ("one", "empty"):
        for of in ("fingerprints", "ids"):
            with cluster.pairs(stores[name], of=of) as answer:
                assert list(answer) == []


def test_pairs_of_another_kind_are_another_job(stores: dict[str, Path], tmp_path: Path) -> None:
    """Their parts have as many columns."""
    cluster.pairs(stores["balanced"], tasks=2, workers=1, folder=tmp_path / "f").close()
    other: list[tuple[dict[str, Any], str]] = [
        ({"of": "ids"}, 'of "fingerprints", expected "ids"'),
        ({"max_distance": 2}, "max_distance 3, expected 2"),
    ]
    for asked, told in other:
        with pytest.raises(JobError, match=f"found a job, of this store, these pairs, that has {told}"):
            cluster.pairs(stores["balanced"], tasks=2, workers=1, folder=tmp_path / "f", **asked)


def test_each_process_has_its_share_of_the_memory(stores: dict[str, Path], tmp_path: Path) -> None:
    with fpstore.open(stores["balanced"]) as store, Folder.open(tmp_path) as home:
        _, tasks = pairing._tasks(store, home, "fingerprints", 3, 1 << 30, 4, 8, 4)
    assert len(tasks) > 4
    assert {task.memory_bytes for task in tasks} == {1 << 28}


# --- Tasks ---


class Killed(PairsTask):
    """A task whose process is killed before it has written anything, as often as DEATHS says."""

    def run(self, store: fpstore.Store) -> int:
        deaths = self.folder / DEATHS
        count = int(deaths.read_text()) if self.maker.task == 1 else 0
        if count:
            deaths.write_text(str(count - 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(store)


def tasks_of(store: Path, folder: Path, count: int = 3, kind: type[PairsTask] = PairsTask) -> list[Any]:
    """The tasks of all pairs, as the driver makes them."""
    folder.mkdir(exist_ok=True)
    with fpstore.open(store) as opened:
        _, lots = pairing._cut(opened._latest, "fingerprints", 3, 1, count)
        seen = Seen.of(opened._latest.state)
    return [
        kind(Maker("j", number), fpstore.__version__, store, seen, folder, "fingerprints", 3, 1 << 28, lot)
        for number, lot in enumerate(lots)
    ]


def gathered(tasks: Sequence[PairsTask], folder: Path) -> Rows:
    with Folder.open(folder) as home:
        opened = [Part.open(home, task.maker, 3) for task in tasks]
    chunks = gathering.gathered(opened, 3, gathering.each_row)
    return [row for chunk in chunks for row in zip(*(column.tolist() for column in chunk), strict=True)]


def test_a_task_done_twice_leaves_the_same_part(stores: dict[str, Path], tmp_path: Path) -> None:
    (task,) = tasks_of(stores["grown string"], tmp_path / "f", 1)
    assert pickle.loads(pickle.dumps(task)) == task
    rows = run(task)
    part = (tmp_path / "f" / task.maker.name).read_bytes()
    assert rows > 0
    assert run(pickle.loads(pickle.dumps(task))) == rows
    assert (tmp_path / "f" / task.maker.name).read_bytes() == part
    assert os.listdir(tmp_path / "f") == [task.maker.name]


def test_a_task_of_a_store_that_has_changed_or_of_another_version_is_refused(
    stores: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "s"
    shutil.copytree(stores["grown uint64"], path)
    (task,) = tasks_of(path, tmp_path / "f", 1)
    with pytest.raises(JobError, match=r"task 0 of the pairs of .*: found fpstore .*, expected 9\.9, as at the driver"):
        run(replace(task, version="9.9"))
    with fpstore.open(path, "w") as store:
        store.add([1], ids=[1])
    with pytest.raises(StoreChanged, match=r"found store .*, expected store .*, which the job"):
        run(task)
    assert os.listdir(tmp_path / "f") == []


@pytest.mark.slow
def test_a_task_whose_processes_are_killed_is_done_again_or_named(stores: dict[str, Path], tmp_path: Path) -> None:
    store = stores["balanced"]
    tasks = tasks_of(store, tmp_path, 4, Killed)
    (tmp_path / DEATHS).write_text("9")
    with pytest.raises(JobError, match=f"^task 1 of the pairs of {store}: tried 3 times"):
        run_here(tasks, 2, LONG)
    (tmp_path / DEATHS).write_text(str(TRIES - 1))
    run_here(tasks, 2, LONG)
    with fpstore.open(store) as opened:
        assert gathered(tasks, tmp_path) == sorted(rows_of(opened.pairs()))


# --- The driver ---


def test_what_was_done_is_not_done_again(
    stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []
    runs = PairsTask.run

    def counted(self: PairsTask, store: fpstore.Store) -> int:
        done.append(self.maker.task)
        return runs(self, store)

    monkeypatch.setattr(PairsTask, "run", counted)
    asked: dict[str, Any] = {"tasks": 4, "world_size": 4, "workers": 1, "folder": tmp_path / "f"}
    found = [rows_of(cluster.pairs(stores["size"], **asked)) for _ in range(2)]
    assert found[0] == found[1]
    assert done == [0, 1, 2, 3]
    (tmp_path / "f" / "00002.part").unlink()
    assert rows_of(cluster.pairs(stores["size"], **asked)) == found[0]
    assert done == [0, 1, 2, 3, 2]
    others: list[tuple[dict[str, Any], str]] = [
        ({"max_distance": 2}, "that has max_distance 3, expected 2"),
        ({"of": "ids"}, "that has of "),
        ({"tasks": 3}, r"that has tasks 4, expected \d, as is asked for here: ask as it does, with its world_size"),
        ({"world_size": 1}, r"that has tasks 4, expected 2, as is asked for here: ask as it does, with its world_size"),
    ]
    for other, told in others:
        with pytest.raises(JobError, match=told):
            cluster.pairs(stores["size"], **asked | other)


@pytest.mark.slow
def test_processes_find_what_one_search_finds(
    stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpstore.cluster.local.START_AFTER_SECONDS", -1.0)
    with cluster.pairs(stores["grown string"], of="ids", tasks=5, workers=2) as answer:
        found = rows_of(answer)
    with fpstore.open(stores["grown string"]) as store:
        assert sorted(found) == sorted(rows_of(store.pairs(of="ids")))


def test_an_engine_of_other_machines_finds_what_one_search_finds_in_a_folder_that_all_share(
    stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "engine_named", lambda *_: Elsewhere())
    with pytest.raises(ValueError, match=r"^folder: found none, expected one on storage that all workers share"):
        cluster.pairs(stores["size"], engine="ray")
    with cluster.pairs(stores["size"], engine="ray", folder=tmp_path / "f", tasks=8, world_size=8) as answer:
        found = rows_of(answer)
    HELD.let_go()
    with fpstore.open(stores["size"]) as store:
        assert found == sorted(rows_of(store.pairs()))
    *parts_left, job = sorted(os.listdir(tmp_path / "f"))
    assert parts_left == [f"{number:05d}.part" for number in range(len(parts_left))]
    assert len(parts_left) > 2
    assert job == "job"


def test_an_engine_is_asked_for_by_name_address_and_workers(
    stores: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def named(*asked: object) -> engines.Engine:
        seen.append(asked)
        return engines.engine_named("local", None, 1)

    monkeypatch.setattr(work, "engine_named", named)
    with cluster.pairs(stores["one"], engine="spark", address="a", workers=3) as answer:
        assert list(answer) == []
    assert seen == [("spark", "a", 3)]


def test_what_pairs_refuses_is_refused(stores: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="of: found 'rows', expected"):
        cluster.pairs(stores["size"], of="rows")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="the store has no ids"):
        cluster.pairs(stores["narrow"], of="ids")
    with pytest.raises(ValueError, match=r"^engine: found 'dask', expected one of local, ray, spark$"):
        cluster.pairs(stores["size"], engine="dask")
    with pytest.raises(ValueError, match=r"^address: found 10.0.0.1, expected none: engine local is this machine$"):
        cluster.pairs(stores["size"], address="10.0.0.1")
    with pytest.raises(fpstore.PlanError):
        cluster.pairs(stores["size"], max_distance=9)
    with pytest.raises(ValueError, match="needs a memory budget of"):
        cluster.pairs(stores["crowded"], memory=64, tasks=2, workers=1)
    minhash.create(tmp_path / "m").close()
    with pytest.raises(WrongKind):
        cluster.pairs(tmp_path / "m")


# --- What a killed writer leaves ---


def test_what_a_killed_writer_left_is_swept_away_and_what_is_being_written_stays(tmp_path: Path) -> None:
    left = f"00000.part.0123456789abcdef{NEW_SUFFIX}"
    (tmp_path / left).write_bytes(b"half")
    with Folder.open(tmp_path) as home:
        with whole_file(home, "00001.part") as file:
            file.write(b"whole")
            sweep(home)
            assert left not in os.listdir(tmp_path)
            assert len(os.listdir(tmp_path)) == 1
        sweep(home)
    assert (tmp_path / "00001.part").read_bytes() == b"whole"


def test_what_no_writer_of_a_job_left_is_kept_and_makes_a_folder_nobodys(
    stores: dict[str, Path], tmp_path: Path
) -> None:
    theirs = [f"draft{NEW_SUFFIX}", f"a.0123456789abcdeg{NEW_SUFFIX}", "b.0123456789abcdef.newer"]
    for name in theirs:
        home = tmp_path / name
        home.mkdir()
        (home / name).write_bytes(b"theirs")
        with pytest.raises(JobError, match="found a file that is no job's, expected an empty folder"):
            cluster.pairs(stores["size"], folder=home)
        assert os.listdir(home) == [name]
    with cluster.pairs(stores["size"], folder=tmp_path / "f"):
        (tmp_path / "f" / theirs[0]).write_bytes(b"theirs")
    with cluster.pairs(stores["size"], folder=tmp_path / "f"):
        assert (tmp_path / "f" / theirs[0]).read_bytes() == b"theirs"


def test_a_file_that_was_swept_away_before_it_was_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = fcntl.flock
    swept: list[Path] = []

    def slow(fd: int, how: int) -> None:
        if not swept:
            swept.extend(tmp_path.iterdir())
            swept[0].unlink()
        locks(fd, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    with Folder.open(tmp_path) as home, whole_file(home, "a") as file:
        file.write(b"whole")
    assert len(swept) == 1
    assert os.listdir(tmp_path) == ["a"]


def test_where_there_are_no_locks_files_are_written_and_none_is_swept_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(fd: int, how: int) -> None:
        raise OSError(errno.ENOSYS, "no locks")

    monkeypatch.setattr(fcntl, "flock", refused)
    (tmp_path / f"a.0123456789abcdef{NEW_SUFFIX}").write_bytes(b"half")
    with Folder.open(tmp_path) as home:
        with whole_file(home, "a") as file:
            file.write(b"whole")
        sweep(home)
    assert sorted(os.listdir(tmp_path)) == ["a", f"a.0123456789abcdef{NEW_SUFFIX}"]


def test_a_driver_leaves_no_half_files_of_killed_workers(stores: dict[str, Path], tmp_path: Path) -> None:
    for _ in range(2):
        with cluster.pairs(stores["size"], folder=tmp_path / "f") as answer:
            list(answer)
        (tmp_path / "f" / f"00000.part.0123456789abcdef{NEW_SUFFIX}").write_bytes(b"half")
    with cluster.pairs(stores["size"], folder=tmp_path / "f"):
        assert sorted(os.listdir(tmp_path / "f")) == ["00000.part", "job"]


def test_ids_that_stand_for_many_rows_are_paired_as_often_as_they_meet(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", [1, 2, 4, 3], ids=[7, 7, 8, 8]).close()
    with fpstore.open(tmp_path / "s") as store:
        expected = rows_of(store.pairs(of="ids"))
    assert len(expected) > len(set(expected))
    assert rows_of(cluster.pairs(tmp_path / "s", of="ids", tasks=5, workers=1)) == sorted(expected)
