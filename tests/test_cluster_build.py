"""A build by tasks: the very bytes of a build by one process, whatever the input and the cut; and what is refused."""

import fcntl
import importlib
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome import Command
from test_cluster import some_keys
from test_cluster_local import DEATHS, LONG
from test_cluster_ranks import Elsewhere
from test_workers import wait_for

import fpstore
from fpstore import Progress, cluster
from fpstore.building import rows
from fpstore.cluster import building, gathering, local, parts, sorting, stages, work
from fpstore.cluster.local import TRIES, Local, run_here
from fpstore.cluster.sorting import SortTask, TableTask
from fpstore.cluster.tasks import run_held
from fpstore.disk import Folder
from fpstore.errors import CorruptStore, JobError, PlanError, RecipeError
from fpstore.inputs import BadInput, read
from fpstore.inputs.reader import read_share
from fpstore.inputs.remote import stamp_of
from fpstore.types import Keys

PLANS = ("balanced", "size", "speed")


def in_one(path: Path, files: list[Path], ids: str | None = "auto", first_id: int = 0, **given: Any) -> None:
    """The store as the command builds it, without tasks."""
    reader = read(files, ids=ids, first_id=first_id, bits=given.get("bits", 64))
    rows: Any = ((b.fingerprints, b.ids) for b in reader) if ids else (b.fingerprints for b in reader)
    fpstore.build(path, rows, ids="row" if ids else None, **given).close()


def segment_of(path: Path) -> bytes:
    (file,) = (path / "segments").iterdir()
    return file.read_bytes()


def expect_equal(one: Path, many: Path) -> None:
    assert segment_of(many) == segment_of(one)
    with fpstore.open(one) as first, fpstore.open(many) as second:
        second.verify()
        for name in ("max_distance", "plan", "codec", "ids", "recipe", "bits"):
            assert getattr(second._settings, name) == getattr(first._settings, name)
        assert second._latest.state.max_id == first._latest.state.max_id


def written(folder: Path, keys: Keys, bits: int, kinds: list[str], with_ids: bool) -> list[Path]:
    """The keys in files of these kinds, one after the other; ids of their own are neither in order nor distinct."""
    found = []
    for number, (kind, own) in enumerate(zip(kinds, np.array_split(keys, len(kinds)), strict=True)):
        path = folder / f"{number}.{kind}"
        ids = (own * np.uint64(7) + np.uint64(number)) % np.uint64(50)
        lines = [f"{key:0{bits // 4}x}" for key in own.tolist()]
        if kind == "npy":
            np.save(path, own)
        elif kind == "csv":
            rows = [f"{a},{b}" for a, b in zip(lines, ids.tolist(), strict=True)] if with_ids else lines
            path.write_text("\n".join(["fingerprint,id" if with_ids else "fingerprint", *rows]) + "\n")
        else:
            rows = [f"{a}\t{b}" for a, b in zip(lines, ids.tolist(), strict=True)] if with_ids else lines
            path.write_text("".join(f"{row}\n" for row in rows))
        found.append(path)
    return found


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_tasks_build_the_bytes_of_one_process(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    bits = data.draw(st.sampled_from([16, 24, 40, 64]))
    ids = data.draw(st.sampled_from(["auto", "row", None]))
    own = ids == "auto" and data.draw(st.booleans())
    kind = st.sampled_from(["csv", "hex"] if own else ["npy", "csv", "hex"])
    kinds = data.draw(st.lists(kind, min_size=1, max_size=4))
    keys = some_keys(data.draw(st.sampled_from([0, 1, 40, 700])), data.draw(st.integers(0, 9))) >> np.uint64(64 - bits)
    given: dict[str, Any] = {
        "bits": bits,
        "max_distance": data.draw(st.integers(0, 3)),
        "plan": data.draw(st.sampled_from(PLANS)),
        "codec": data.draw(st.sampled_from(["gap", "xor", "rice", "raw"])),
        "layout": data.draw(st.sampled_from(["slots", "blocks"])),
        "shuffle": data.draw(st.sampled_from([None, 5])),
        "ids": ids,
        "first_id": data.draw(st.sampled_from([0, 1 << 40])) if ids == "row" else 0,
    }
    folder = tmp_path_factory.mktemp("built")
    files = written(folder, keys, bits, kinds, own)
    in_one(folder / "one", files, **given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "BLOCK_ROWS", 13)
        patch.setattr(gathering, "MOST_RUNS", 2)
        cluster.build(folder / "many", files, tasks=data.draw(st.integers(1, 6)), workers=1, **given).close()
    expect_equal(folder / "one", folder / "many")
    shutil.rmtree(folder)


def test_a_store_is_replaced_and_keeps_what_it_was_told(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", some_keys(500, 3))
    in_one(tmp_path / "one", [tmp_path / "a.npy"], recipe="text-1", mode=0o640)
    fpstore.create(tmp_path / "many").close()
    asked: dict[str, Any] = {"recipe": "text-1", "mode": 0o640, "tasks": 3, "workers": 1}
    with pytest.raises(FileExistsError, match=r"already there; --force \(force=True\) replaces a store"):
        cluster.build(tmp_path / "many", [tmp_path / "a.npy"], **asked)
    cluster.build(tmp_path / "many", [tmp_path / "a.npy"], force=True, **asked).close()
    expect_equal(tmp_path / "one", tmp_path / "many")
    assert (tmp_path / "many").stat().st_mode & 0o777 == 0o750


def test_bad_rows_are_skipped_and_counted_as_by_one_process(tmp_path: Path, command: Command) -> None:
    for number, bad in enumerate((b"", b"zz\n", b"\n\nyy\n")):
        (tmp_path / f"{number}.hex").write_bytes(b"00000000000000ff\n" + bad + b"%016x\n" % number)
    files = sorted(tmp_path.glob("*.hex"))
    one = command("build", tmp_path / "one", *files, "--skip-bad", "--json")
    many = command("build", tmp_path / "many", *files, "--skip-bad", "--json", "--workers", "2")
    assert (many[0], many[2]) == (one[0], one[2])
    assert many[1].replace("/many", "/one") == one[1]
    assert segment_of(tmp_path / "many") == segment_of(tmp_path / "one")
    for path in files:
        path.write_bytes(b"zz\n")
    with pytest.raises(BadInput, match="read 0 of 3, as all that was found is bad"):
        cluster.build(tmp_path / "none", files, skip_bad=True, workers=1, tasks=2)
    with pytest.raises(BadInput, match=r"0\.hex, line 1: found 'zz'"):
        cluster.build(tmp_path / "none", files, workers=1, tasks=2)
    assert not (tmp_path / "none").exists()


def test_the_recipe_that_parquet_says_is_kept(tmp_path: Path, command: Command) -> None:
    fpstore.build(tmp_path / "s", some_keys(90, 2), recipe="text-1").close()
    assert command("export", tmp_path / "s", tmp_path / "a.parquet")[0] == 0
    for name, more in (("one", ()), ("many", ("--workers", "2"))):
        assert command("build", tmp_path / name, tmp_path / "a.parquet", *more)[0] == 0
    expect_equal(tmp_path / "one", tmp_path / "many")
    with fpstore.open(tmp_path / "many") as store:
        assert store._settings.recipe is not None
    with pytest.raises(RecipeError, match="expected those by"):
        cluster.build(tmp_path / "t", [tmp_path / "a.parquet"], recipe="code")


# --- Tasks ---


def _kept(do_it: Any, done: list[Any]) -> Any:
    def do_and_keep(self: Any) -> int:
        done.append(self)
        rows: int = do_it(self)
        return rows

    return do_and_keep


def tasks_of(tmp_path: Path, count: int = 3) -> tuple[list[SortTask], list[TableTask], Path]:
    """The tasks of a build of three files, and the store, which is there."""
    files = written(tmp_path, some_keys(900, 4), 64, ["npy", "csv", "npy"], False)
    sorts: list[Any] = []
    tables: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SortTask, "do", _kept(SortTask.do, sorts))
        patch.setattr(TableTask, "do", _kept(TableTask.do, tables))
        cluster.build(tmp_path / "s", files, workers=1, tasks=count, folder=tmp_path / "f").close()
    return sorts, tables, tmp_path / "s"


def test_a_key_is_counted_once_wherever_its_rows_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "BLOCK_ROWS", 2)
    keys = np.array([3] * 7 + [5] + [9] * 6, dtype=np.uint64)
    made: list[Any] = []
    files = written(tmp_path, np.concatenate([keys, keys[::-1]]), 64, ["npy", "npy", "npy"], False)
    monkeypatch.setattr(TableTask, "do", _kept(TableTask.do, made))
    with cluster.build(tmp_path / "s", files, ids="row", workers=1, tasks=3) as store:
        assert store._latest.state.max_id == 27  # of a row of the least key
    assert {task.count for task in made} == {3}


def test_rows_of_a_file_that_is_cut_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path, some_keys(900, 4), 64, ["npy", "csv"], False)
    readers: list[Any] = []

    def kept(*given: Any, **options: Any) -> Any:
        readers.append(read(*given, **options))
        return readers[-1]

    monkeypatch.setattr(building, "read", kept)
    cluster.build(tmp_path / "s", files, workers=1, tasks=5).close()
    assert readers[0].seen.rows == 900


def test_a_task_done_twice_leaves_the_same_file(tmp_path: Path) -> None:
    sorts, tables, _ = tasks_of(tmp_path)
    assert len(sorts) == 3
    before = {path.name: path.read_bytes() for path in (tmp_path / "f").iterdir()}
    for task in (*sorts, *tables):
        assert pickle.loads(pickle.dumps(task)) == task
        run_held(pickle.loads(pickle.dumps(task)))
    assert {path.name: path.read_bytes() for path in (tmp_path / "f").iterdir()} == before


def test_a_task_of_another_version_or_of_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    sorts, tables, _ = tasks_of(tmp_path)
    for task, what in ((sorts[1], "which sorts rows"), (tables[0], "which makes table 1 of")):
        with pytest.raises(JobError, match=rf"^task \d of a build, {what}.*: found fpstore .*, expected 9\.9, as at"):
            run_held(replace(task, version="9.9"))
    np.save(tmp_path / "0.npy", some_keys(7, 1))
    with pytest.raises(BadInput, match=r"0\.npy: found 184 bytes, changed at \d+ ns, expected .*: it has changed"):
        run_held(sorts[0])


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    sorts, _, _ = tasks_of(tmp_path)
    (share, *_) = sorts[0].shares
    batches, _ = read_share(share, False, 10)
    next(batches)
    os.utime(share.path, (1, 1))
    with pytest.raises(BadInput, match="it has changed since the work was shared out"):
        list(batches)
    with pytest.raises(BadInput, match="it has changed since the work was shared out"):
        next(read_share(share, False, 10)[0])


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("format", ["npy", "u64"])
def test_rows_that_change_while_they_are_read_are_told_though_the_file_has_its_size_and_time(
    tmp_path: Path, format: str, replaces: bool
) -> None:
    """By their own checksum, as all else that is read: each share of a file is held to its own rows."""
    path, keys = tmp_path / f"a.{format}", np.arange(300, dtype=np.uint64)

    def write(to: Path, row: int | None) -> None:
        written = keys.copy()
        if row is not None:
            written[row] += 1000
        if format == "npy":
            np.save(to, written)
        else:
            to.write_bytes(written.astype("<u8").tobytes())
        os.utime(to, ns=(10**9, 10**9))

    write(path, None)
    shares = read([path]).shares(100)
    assert [share.only for share in shares] == [(0, 100), (100, 200), (200, 300)]
    for share, (first, end) in zip(shares, [(0, 100), (100, 200), (200, 300)], strict=True):
        for row in (first, end - 1):
            write(path, None)
            batches, _ = read_share(share, False, 10)
            next(batches)
            if replaces:
                write(tmp_path / f"other.{format}", row)
                (tmp_path / f"other.{format}").replace(path)
            else:
                write(path, row)
            with pytest.raises(BadInput, match="it has changed while it was read"):
                list(batches)


def test_a_part_or_a_table_that_is_missing_or_damaged_is_one_error_or_is_made_anew(tmp_path: Path) -> None:
    sorts, tables, store = tasks_of(tmp_path)
    files = [Path(share.path) for task in sorts for share in task.shares]
    asked: dict[str, Any] = {"workers": 1, "tasks": 3, "folder": tmp_path / "f", "force": True}
    before = segment_of(store)
    for gone in (sorts[1].maker.name, tables[0].name):
        (tmp_path / "f" / gone).unlink()
        cluster.build(store, files, **asked).close()
        assert segment_of(store) == before
    (tmp_path / "f" / sorts[1].maker.name).unlink()
    with pytest.raises(FileNotFoundError, match=sorts[1].maker.name):
        run_held(tables[0])
    run_held(sorts[1])
    table = tmp_path / "f" / tables[0].name
    good = table.read_bytes()
    table.write_bytes(good[:5000] + bytes([good[5000] ^ 1]) + good[5001:])
    with pytest.raises(CorruptStore, match=rf"{tables[0].name}: .*page at byte 4096: found bytes of another"):
        cluster.build(tmp_path / "t", files, **asked)
    table.unlink()
    assert not (tmp_path / "t").exists()


MET = {"end": 9, "good": 9, "last": 8, "has_ids": False, "bad": 0, "skipped": {}, "notes": {}}


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        [MET, MET],
        [{}],
        [MET | {"end": -1}],
        [MET | {"last": 1 << 64}],
        [MET | {"good": "9"}],
        [MET | {"has_ids": 1}],
        [MET | {"skipped": [1]}],
        [MET | {"notes": {"a": 0.5}}],
    ],
)
def test_what_a_task_has_not_met_is_refused(tmp_path: Path, told: Any) -> None:
    sorts, _, _ = tasks_of(tmp_path)
    (run,) = [[np.arange(9, dtype=np.uint64)] * 2]
    with Folder.open(tmp_path / "f") as home:
        with parts.whole_file(home, sorts[0].maker.name) as file:
            parts.write_runs(file, sorts[0].maker, 2, [[run]], told)
        with closing(parts.Part.open(home, sorts[0].maker, 2)) as part:
            assert part.told == told
            with pytest.raises(JobError, match=r"00000\.part: told: found .*, expected what the task has met; remove"):
                sorting.met_by(part, sorts[0])


def test_in_the_folder_of_a_build_with_another_first_number_the_rows_have_theirs(tmp_path: Path) -> None:
    files = written(tmp_path, some_keys(900, 4), 64, ["npy"] * 3, False)
    asked: dict[str, Any] = {"ids": "row", "workers": 1, "tasks": 3, "folder": tmp_path / "f", "force": True}
    for first_id in (0, 1000, 0):
        with cluster.build(tmp_path / "s", files, first_id=first_id, **asked) as store:
            assert sorted(np.concatenate([rows.id for rows in store.rows()])) == [*range(first_id, first_id + 900)]


def test_a_table_that_another_driver_makes_is_not_swept_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, tables, _ = tasks_of(tmp_path)
    home, writes = tmp_path / "f", rows.write_table
    before = (home / tables[0].name).read_bytes()
    (home / f"{tables[0].name}.0123456789abcdef.new").mkdir()
    (home / f"{tables[0].name}.0123456789abcdef.new" / tables[0].name).write_text("of a worker that was killed")

    def writes_beside(place: Any, *given: Any) -> None:
        writes(place, *given)
        with Folder.open(home) as folder:
            parts.sweep(folder)

    monkeypatch.setattr(sorting, "write_table", writes_beside)
    (home / tables[0].name).unlink()
    run_held(tables[0])
    assert (home / tables[0].name).read_bytes() == before
    assert not list(home.glob("*.new"))


def test_a_place_that_is_swept_away_before_it_is_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    creates, flocks = Folder.create, fcntl.flock
    swept: list[str] = []

    def create(self: Folder, name: str) -> Folder:
        made = creates(self, name)
        if len(swept) == 0:
            shutil.rmtree(made.path)
            swept.append(name)
            made.close()
            raise FileNotFoundError
        return made

    def flock(fd: int, how: int) -> None:
        if len(swept) == 1:
            (found,) = tmp_path.iterdir()
            shutil.rmtree(found)
            swept.append(found.name)
        flocks(fd, how)

    monkeypatch.setattr(Folder, "create", create)
    monkeypatch.setattr(fcntl, "flock", flock)
    with Folder.open(tmp_path) as home, parts.own_place(home, "a") as place:
        place.path.write_text("made")
    assert len({*swept, place.folder.path.name}) == 3
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "made")]


def test_a_file_is_known_by_its_size_and_its_time(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"12345678")
    times, stamp = os.stat(path), stamp_of(str(path))
    os.link(path, tmp_path / "b.npy")
    path.chmod(0o400)
    assert stamp_of(str(path)) == stamp_of(str(tmp_path / "b.npy")) == stamp
    path.unlink()
    path.write_bytes(b"87654321")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    assert stamp_of(str(path)) != stamp
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert stamp_of(str(path)) == stamp
    path.write_bytes(b"876543210")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert stamp_of(str(path)) != stamp


def test_a_file_elsewhere_that_has_changed_is_another_job(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    asked: dict[str, Any] = {"workers": 1, "folder": tmp_path / "f", "format": "hex"}
    files.pipe("/elsewhere/a.hex", b"00000000000000aa\n")
    cluster.build(tmp_path / "s", ["memory://elsewhere/a.hex"], **asked).close()
    files.pipe("/elsewhere/a.hex", b"00000000000000bb\n")
    with pytest.raises(JobError, match="found those of job"):
        cluster.build(tmp_path / "t", ["memory://elsewhere/a.hex"], **asked)


def test_an_interrupted_build_goes_on_and_does_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path, some_keys(900, 4), 64, ["npy"] * 3, False)
    asked: dict[str, Any] = {"workers": 1, "tasks": 3, "folder": tmp_path / "f"}
    done: list[Any] = []
    writes = rows.write_table

    def fails(*given: Any) -> None:
        if given[3] == 1:
            raise OSError("no room")
        writes(*given)

    with monkeypatch.context() as patch:
        patch.setattr(sorting, "write_table", fails)
        with pytest.raises(OSError, match="no room"):
            cluster.build(tmp_path / "s", files, **asked)
    assert not (tmp_path / "s").exists()
    assert not list((tmp_path / "f").glob("*.new"))
    for kind in (SortTask, TableTask):
        monkeypatch.setattr(kind, "do", _kept(kind.do, done))
    told: list[Progress] = []
    cluster.build(tmp_path / "s", files, progress=told.append, **asked).close()
    in_one(tmp_path / "one", files)
    expect_equal(tmp_path / "one", tmp_path / "s")
    assert [type(task) for task in done] == [TableTask] * len(done)
    tables = len(done) + 1
    assert told[0] == Progress("sorting", 3, 3, "tasks")
    assert told[1:] == [Progress("tables", count, tables, "tasks") for count in range(1, tables + 1)]
    with pytest.raises(JobError, match=r"found a job, of these files, that has codec \"gap\", expected \"raw\", as is"):
        cluster.build(tmp_path / "t", files, codec="raw", **asked)


class KilledSort(SortTask):
    """A task whose process is killed in the middle, as often as DEATHS says."""

    def do(self) -> int:
        deaths = self.folder / DEATHS
        count = int(deaths.read_text()) if self.maker.task == 1 else 0
        if count:
            deaths.write_text(str(count - 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().do()


@pytest.mark.slow
@pytest.mark.parametrize(("bits", "ids"), [(64, "row"), (64, None), (256, "row")])
def test_ranks_sort_and_make_tables_of_what_a_build_then_publishes(
    tmp_path: Path, bits: int, ids: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    words = rng.integers(0, 50, (900, bits // 64), dtype=np.uint64)
    files = written(tmp_path, words[:, 0], 64, ["npy", "npy", "npy"], with_ids=False) if bits == 64 else []
    for number, own in enumerate(np.array_split(words, 3) if bits > 64 else []):
        files.append(tmp_path / f"{number}.hex")
        files[-1].write_text("".join("".join(f"{word:016x}" for word in row) + "\n" for row in own.tolist()))
    how: dict[str, Any] = {"ids": ids, "bits": bits}
    in_one(tmp_path / "one", files, **how)
    shared: dict[str, Any] = {**how, "folder": tmp_path / "f", "world_size": 2, "memory": "64MiB", "tasks": 3}

    def rank(number: int) -> int:
        return cluster.build_rank(tmp_path / "many", files, rank=number, **shared)

    assert rank(1) == 1  # of three that sort, none of the tables: not all is sorted
    first = rank(0)
    assert first > 2
    assert rank(0) == 0
    tables = rank(1)
    assert tables > 0
    assert not (tmp_path / "many").exists()
    with fpstore.open(tmp_path / "one") as opened:
        assert first - 2 + tables == len(opened.plan.tables)

    def none_left(self: object, tasks: Any, *rest: Any) -> None:
        assert not tasks

    monkeypatch.setattr(local.Local, "__call__", none_left)
    cluster.build(tmp_path / "many", files, **shared | {"memory": "2GiB"}).close()
    expect_equal(tmp_path / "one", tmp_path / "many")


def test_what_no_rank_of_a_build_does_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(9, dtype=np.uint64))
    files, folder = [tmp_path / "a.npy"], tmp_path / "f"
    (tmp_path / "there").mkdir()
    for how, kind, message in (
        ({"rank": 2, "world_size": 2}, ValueError, "^rank: found 2, expected 0 to 1"),
        ({"rank": 0, "world_size": 0}, ValueError, "^world_size: found 0, expected 1 or more"),
        ({"rank": 0, "world_size": 1, "memory": "1MiB"}, ValueError, "^memory: found 1048576 bytes for 1 workers"),
        ({"rank": 0, "world_size": 1, "codec": "zip"}, ValueError, "codec"),
        ({"rank": 0, "world_size": 1, "engine": "ray"}, TypeError, "engine"),
        ({"rank": 0, "world_size": 1, "tasks": 0}, ValueError, "^tasks: found 0"),
    ):
        with pytest.raises(kind, match=message):
            cluster.build_rank(tmp_path / "s", files, folder=folder, **how)
    with pytest.raises(FileExistsError):
        cluster.build_rank(tmp_path / "there", files, folder=folder, rank=0, world_size=1)
    assert not folder.exists()


def test_the_command_of_a_rank_says_what_it_did(tmp_path: Path, command: Command) -> None:
    files = written(tmp_path, some_keys(900, 3), 64, ["npy", "csv"], with_ids=False)
    in_one(tmp_path / "one", files)
    given = ("build", tmp_path / "many", *files, "--folder", tmp_path / "f", "--world-size", 1)
    told = command(*given, "--rank", 0)
    assert (told.status, told.out) == (0, "")
    assert "rank 0 of 1: did" in told.err
    told = command(*given, "--rank", 0, "--json")
    assert json.loads(told.out) == {
        "format": "fpstore.rank/1",
        "rank": 0,
        "world_size": 1,
        "folder": str(tmp_path / "f"),
        "task_count": 0,
    }
    assert told.err == ""
    assert "--rank goes with --world-size" in command(*given[:-2], "--rank", 0).err
    told = command(*given)
    assert told.status == 0, told.err
    expect_equal(tmp_path / "one", tmp_path / "many")


def test_a_task_whose_processes_are_killed_is_done_again(tmp_path: Path) -> None:
    sorts, _, _ = tasks_of(tmp_path)
    home = tmp_path / "f"
    before = {task.maker.name: (home / task.maker.name).read_bytes() for task in sorts}
    killed = [KilledSort(**{name: getattr(task, name) for name in task.__dataclass_fields__}) for task in sorts]
    (home / DEATHS).write_text(str(TRIES - 1))
    run_here(killed, 2, LONG)
    assert {task.maker.name: (home / task.maker.name).read_bytes() for task in sorts} == before


@pytest.mark.slow
def test_ctrl_c_at_the_driver_ends_the_workers_and_leaves_nothing_visible(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.random.default_rng(1).integers(0, 1 << 64, 12 << 20, dtype=np.uint64))
    command = [sys.executable, "-m", "fpstore", "build", tmp_path / "s", tmp_path / "a.npy", "--workers", "2"]
    with subprocess.Popen([*map(str, command), "--folder", str(tmp_path / "f")], stderr=subprocess.PIPE) as process:
        while len(list((tmp_path / "f").glob("*.part.*"))) < 2:  # each of the two is at one
            assert process.poll() is None
            time.sleep(0.01)
        children = _descendants(process.pid)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert len(children) == 3  # the two, and who forked them
    assert wait_for(children) == []
    assert not (tmp_path / "s").exists()


def _descendants(pid: int) -> list[int]:
    """Also those that were started by other threads of the process."""
    found = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    children = [int(child) for each in found for child in each]
    return [*children, *(below for child in children for below in _descendants(child))]


def test_ids_take_longer_to_sort_and_once_in_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    call = Local.__call__

    def noted(self: Local, tasks: Any, seconds: float, *rest: Any) -> None:
        told.append(seconds * 1e9 / 1000)
        call(self, tasks, seconds, *rest)

    monkeypatch.setattr(Local, "__call__", noted)
    np.save(tmp_path / "a.npy", np.arange(1000, dtype=np.uint64) << np.uint64(50))
    for ids in (None, "auto"):
        cluster.build(tmp_path / str(ids), [tmp_path / "a.npy"], ids=ids, workers=1, tasks=1).close()
    sort, tables, sort_with, tables_with = told
    assert sort_with - sort == pytest.approx(stages.SORT_ID_NS, rel=0.1)  # by bytes, of which some are a header
    assert tables_with - tables == pytest.approx(stages.TABLE_ID_NS)
    assert tables / stages.TABLE_NS == pytest.approx(round(tables / stages.TABLE_NS))


@pytest.mark.slow
def test_processes_build_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fpstore.cluster.local.START_AFTER_SECONDS", -1.0)
    files = written(tmp_path, some_keys(3000, 4), 64, ["npy", "csv", "hex"], False)
    in_one(tmp_path / "one", files)
    cluster.build(tmp_path / "many", files, workers=2, tasks=5).close()
    expect_equal(tmp_path / "one", tmp_path / "many")


# --- Threads in place of tasks ---


@pytest.mark.parametrize("kinds", [["npy"], ["npy", "csv", "hex"], ["csv"], []])
@pytest.mark.parametrize("ids", ["auto", "row", None])
def test_little_work_and_numbers_are_for_the_threads_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command, kinds: list[str], ids: str | None
) -> None:
    def none_done(*_: object) -> None:
        raise AssertionError

    files = written(tmp_path, some_keys(900, 4), 64, kinds, False) if kinds else [tmp_path / "none.hex"]
    if not kinds:
        files[0].write_text("")
    first_id = 77 if ids == "row" else 0
    in_one(tmp_path / "one", files, ids=ids, first_id=first_id, codec="raw")
    monkeypatch.setattr(Local, "__call__", none_done)
    told: list[Progress] = []
    given: dict[str, Any] = {"ids": ids, "first_id": first_id, "codec": "raw", "workers": 3}
    cluster.build(tmp_path / "many", files, progress=told.append, **given).close()
    expect_equal(tmp_path / "one", tmp_path / "many")
    assert told[-1].phase != "tables"
    said = {"auto": [], "row": ["--ids", "from:77"], None: ["--ids", "none"]}[ids]
    made = command("build", tmp_path / "made", *files, "--workers", 2, "--codec", "raw", *said)
    assert made.status == 0, made.err
    expect_equal(tmp_path / "one", tmp_path / "made")


def test_threads_of_a_build_are_as_many_as_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []
    original = fpstore.build

    def noted(*given: Any, **how: Any) -> Any:
        asked.append(how)
        return original(*given, **how)

    monkeypatch.setattr(fpstore, "build", noted)
    np.save(tmp_path / "a.npy", some_keys(900, 4))
    cluster.build(tmp_path / "s", [tmp_path / "a.npy"], workers=5, memory="400MiB").close()
    assert (asked[0]["threads"], asked[0]["memory"]) == (5, "400MiB")


@pytest.mark.parametrize("how", [{"tasks": 1}, {"folder": "f"}, {"world_size": 1, "folder": "f"}])
def test_who_asks_for_tasks_or_for_a_folder_has_them(tmp_path: Path, how: dict[str, Any]) -> None:
    np.save(tmp_path / "a.npy", some_keys(90, 4))
    told: list[Progress] = []
    given = how | ({"folder": tmp_path / "f"} if "folder" in how else {})
    cluster.build(tmp_path / "s", [tmp_path / "a.npy"], workers=2, progress=told.append, **given).close()
    assert told[-1].phase == "tables"


def test_a_file_that_changes_while_threads_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", some_keys(90, 4))
    original = fpstore.build

    def late(path: Path, rows: Any, **how: Any) -> Any:
        def changed() -> Any:
            for each in rows:
                os.utime(tmp_path / "a.npy", (1, 1))
                yield each

        return original(path, changed(), **how)

    monkeypatch.setattr(fpstore, "build", late)
    with pytest.raises(BadInput, match=r"a\.npy: found .* it has changed since the work was shared out"):
        cluster.build(tmp_path / "s", [tmp_path / "a.npy"], workers=2)
    assert not (tmp_path / "s").exists()


def _share(format: str, size: int, only: tuple[int, int] | None = None) -> Any:
    return SimpleNamespace(format=format, stamp=(size, 0), only=only)


def test_processes_read_what_the_interpreter_reads_where_that_is_long() -> None:
    long = int(stages.WORTH_SECONDS * 1e9 / stages.READ_NS)
    pair = [_share("csv", long + 10), _share("csv", long + 10)]
    assert stages.worth_tasks(pair, 2)
    assert stages.worth_tasks([*pair, _share("npy", 1 << 40)], 8)
    assert not stages.worth_tasks(pair, 1)
    assert not stages.worth_tasks([_share("csv", long - 10), _share("csv", long - 10)], 2)
    assert not stages.worth_tasks([_share("csv", 100 * long), _share("csv", 10)], 2)  # one reads nearly all
    assert not stages.worth_tasks([_share("csv", 100 * long)], 2)
    for format in ("npy", "u64", "hex", "parquet"):
        assert not stages.worth_tasks([_share(format, 100 * long)] * 4, 4)


def test_files_that_are_long_to_read_are_for_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []

    def noted(self: Local, tasks: Any, seconds: float, *rest: Any) -> None:
        told.append(seconds)
        call(self, tasks, seconds, *rest)

    call = Local.__call__
    monkeypatch.setattr(Local, "__call__", noted)
    monkeypatch.setattr(stages, "READ_NS", 1e6)
    files = written(tmp_path, some_keys(900, 4), 64, ["csv", "csv", "npy"], False)
    monkeypatch.setattr(local, "START_AFTER_SECONDS", 1e9)
    cluster.build(tmp_path / "many", files, workers=2).close()
    in_one(tmp_path / "one", files)
    expect_equal(tmp_path / "one", tmp_path / "many")
    assert told[0] == pytest.approx(sum(path.stat().st_size for path in files[:2]) / 1e3, rel=0.01)


# --- What is refused ---


def test_what_a_build_by_tasks_cannot_do_is_one_line_with_the_way_out(tmp_path: Path, command: Command) -> None:
    (tmp_path / "a.txt").write_text("a text")
    np.save(tmp_path / "a.npy", np.arange(9, dtype=np.uint64))
    in_folder = ("--folder", str(tmp_path / "f"))
    refused = {
        ("a.txt", *in_folder): "found texts, expected fingerprints, as `fpstore fingerprint` writes; without workers",
        ("-", *in_folder): "inputs: found standard input, expected files, which every worker can open; without workers",
        ("a.npy", *in_folder, "--memory", "100MiB"): "memory: found 104857600 bytes for 2 workers, expected 64MiB for",
        ("a.npy", "--address", "x"): "--address goes with --engine ray or spark",
    }
    for (name, *more), expected in refused.items():
        path = name if name == "-" else tmp_path / name
        given = ("--format", "npy") if name == "-" else ()
        status, out, err = command("build", tmp_path / "s", path, *given, "--workers", "2", *more)
        assert (status != 0, out) == (True, "")
        assert expected in err
        assert err.count("\n") == 1
    for options, expected in (
        (("--id-type", "string"), "--folder: found ids of --id-type string, expected none of it"),
        (("--recipe", "minhash-128"), "--folder: found signatures, expected none of it"),
    ):
        status, out, err = command("build", tmp_path / "s", tmp_path / "a.txt", "--folder", tmp_path / "f", *options)
        assert (status, out) == (2, "")
        assert expected in err
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("what", ["texts", "names", "names of texts", "signatures", "standard input"])
def test_what_tasks_do_not_take_is_built_by_so_many_threads(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "some words and {n} of them"}}\n' for n in range(300)))
    (tmp_path / "a.csv").write_text("fingerprint,id\n" + "".join(f"{n * 7919:016x},name {n}\n" for n in range(300)))
    read = (tmp_path / "a.jsonl").read_bytes()
    asked: dict[str, tuple[Any, ...]] = {
        "texts": (tmp_path / "a.jsonl",),
        "names": (tmp_path / "a.csv", "--id-type", "string"),
        "names of texts": (tmp_path / "a.jsonl", "--id-type", "string"),
        "signatures": (tmp_path / "a.jsonl", "--recipe", "minhash-128"),
        "standard input": ("-", "--format", "jsonl"),
    }
    counts: set[int | None] = set()
    for module, name in ((fpstore, "build"), (importlib.import_module("fpstore.cli.build"), "build_of_signatures")):
        builds = getattr(module, name)

        def counted(*given: Any, builds: Any = builds, threads: int | None, **more: Any) -> Any:
            counts.add(threads)
            return builds(*given, threads=threads, **more)

        monkeypatch.setattr(module, name, counted)
    for place, more in (("one", ("--threads", "1")), ("three", ("--workers", "3"))):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(read)))
        outcome = command("build", tmp_path / place, *more, *asked[what])
        assert outcome.status == 0, outcome.err
    assert counts == {1, 3}
    one, three = (files_of_store(tmp_path / place) for place in ("one", "three"))
    assert one == three


def files_of_store(path: Path) -> dict[str, bytes]:
    """What a store has, but for its catalog, which tells which store it is."""
    files = (each for each in path.rglob("*") if each.is_file() and each.suffix != ".mdb")
    return {str(each.relative_to(path)): each.read_bytes() for each in files}


def test_what_no_build_does_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", np.arange(9, dtype=np.uint64))
    np.save(tmp_path / "floats.npy", np.zeros(9))
    (tmp_path / "b.csv").write_text("fingerprint,id\n00000000000000ff,1\n")
    (tmp_path / "c.csv").write_text("fingerprint,other\n00000000000000ff,1\n")
    with pytest.raises(BadInput, match=r"floats\.npy: found float64\[9\], expected uint64\[n\]"):
        cluster.build(tmp_path / "s", [tmp_path / "floats.npy"], workers=1)
    with pytest.raises(BadInput, match=r"c\.csv: found no column called id, and one in the files before; expected ids"):
        cluster.build(tmp_path / "s", [tmp_path / "b.csv", tmp_path / "c.csv"], workers=1, tasks=2)
    with pytest.raises(FileNotFoundError):
        cluster.build(tmp_path / "s", [tmp_path / "none.npy"])
    with pytest.raises(PlanError):
        cluster.build(tmp_path / "s", [tmp_path / "a.npy"], plan="paper-10", max_distance=9)
    with pytest.raises(ValueError, match=r"^first_id: found id 18446744073709551616 for a row, expected at most"):
        cluster.build(tmp_path / "s", [tmp_path / "a.npy"], ids="row", first_id=(1 << 64) - 8, workers=1)
    monkeypatch.setattr(work, "engine_named", lambda *_: Elsewhere())
    with pytest.raises(ValueError, match=r"^folder: found none, expected one on storage that all workers share"):
        cluster.build(tmp_path / "s", [tmp_path / "a.npy"], engine="ray")
    assert not (tmp_path / "s").exists()
