"""Stores that lie elsewhere, in `memory://` and `local://` here, are read through a mirror as if they were here."""

import contextlib
import errno
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fpstore
from fpstore import minhash
from fpstore._source import PageSource
from fpstore.cli import main
from fpstore.disk import CATALOG_NAME, MIRROR_NAME
from fpstore.errors import CorruptStore, ReadOnly, StoreChanged, StoreClosed, StoreWarning
from fpstore.format import PAGE_BYTES
from fpstore.remote import objects as objects_module
from fpstore.remote.cache import LOCK, held_bytes
from fpstore.remote.mirror import THREADS, Mirror
from fpstore.remote.objects import Objects, Range
from fpstore.text import recipes

fsspec = pytest.importorskip("fsspec", reason="an optional package, which the tests bring")

COUNT = 40_000


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    monkeypatch.setenv("FPSTORE_CACHE", str(path))
    monkeypatch.setattr(objects_module, "PAUSES_SECONDS", (0.0, 0.0))
    return path


@pytest.fixture
def bucket() -> Iterator[str]:
    name = f"memory://{uuid.uuid4().hex}"
    yield name
    memory = fsspec.filesystem("memory")
    with contextlib.suppress(FileNotFoundError):
        memory.rm(name.removeprefix("memory:/"), recursive=True)


def keys_of(count: int = COUNT, seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(0, 1 << 64, count, dtype=np.uint64)


# A thread says that what must stay is more than such a budget, if it looks before the store is closed.
budget_of_nothing = pytest.mark.filterwarnings("ignore:.*bytes that stay:fpstore.StoreWarning")


@pytest.fixture
def local(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "s", keys_of()).close()
    return tmp_path / "s"


@pytest.fixture
def url(local: Path) -> str:
    return f"local://{local}"


def mirror_of(store: Any) -> Mirror:
    assert isinstance(store._mirror, Mirror)
    return store._mirror


def same(found: Any, expected: Any) -> None:
    assert len(found) == len(expected)
    for name in ("query", "fingerprint", "distance"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert list(found.id if found.id is not None else ()) == list(expected.id if expected.id is not None else ())


# --- Rows ---------------------------------------------------------------------------------------------------


def living_store(path: Path, seed: int, **options: Any) -> Any:
    """Several segments, removals and pending rows; the keys that were stored."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 1 << options.get("bits", 64), 6000, dtype=np.uint64)
    named = options.get("id_type") in ("string", "bytes")
    names: Any = [f"document {i % 4500}" for i in range(len(keys))]
    ids = names if named else np.arange(len(keys), dtype=np.uint64) * 7 % 4001
    with fpstore.create(path, **options) as store:
        for first in range(0, len(keys), 2000):
            own = slice(first, first + 2000)
            store.add(keys[own], ids=None if options.get("id_type", "uint64") is None else ids[own])
            if first < 4000:
                store._flush()
        store.remove(fingerprints=keys[5:500:7])
    return keys


SHAPES: list[dict[str, Any]] = [
    {},
    {"id_type": None},
    {"layout": "blocks", "block_bytes": 256},
    {"id_type": "string"},
    {"bits": 32, "max_distance": 2, "codec": "rice"},
    {"codec": "xor", "max_distance": 5},
]


def spoil(cache: Path, rng: Any) -> None:
    """Zero some pages of each file of all mirrors, fill others with noise, and let some lose their end."""
    for path in cache.glob("*/store.mirror/segments/*"):
        size = path.stat().st_size
        with open(path, "r+b") as file:
            for page in rng.integers(0, size // PAGE_BYTES + 1, 20):
                file.seek(int(page) * PAGE_BYTES)
                left = min(PAGE_BYTES, size - int(page) * PAGE_BYTES)
                file.write(bytes(left) if rng.random() < 0.5 else rng.bytes(left))
            if rng.random() < 0.2:
                file.truncate(int(rng.integers(0, size)))


@pytest.mark.parametrize("options", SHAPES, ids=lambda options: "-".join(map(str, options.values())) or "default")
def test_rows_are_those_of_the_store_itself_whatever_the_mirror_holds(
    tmp_path: Path, cache: Path, options: dict[str, Any]
) -> None:
    rng = np.random.default_rng(7)
    keys = living_store(tmp_path / "s", 3, **options)
    url = f"local://{tmp_path}/s"
    for turn in range(4):
        asked = rng.choice(keys, 50) ^ (np.uint64(1) << rng.integers(0, options.get("bits", 64), 50, dtype=np.uint64))
        with fpstore.open(tmp_path / "s") as here, fpstore.open(url) as there:
            same(there.probe_many(asked), here.probe_many(asked))
            same(there.probe(int(asked[0])), here.probe(int(asked[0])))
            same(there.nearest_many(asked[:5], 3), here.nearest_many(asked[:5], 3))
            assert there.contains_near(int(asked[1])) == here.contains_near(int(asked[1]))
            if turn == 0 and options.get("id_type", "uint64") is not None:
                wanted = ["document 7", "document 8"] if options.get("id_type") == "string" else [7, 14]
                assert list(there.lookup(wanted)) == list(here.lookup(wanted))
            if turn % 2:
                rows = zip(there.rows(), here.rows(), strict=True)
                assert all(list(one) == list(other) for one, other in rows)
                assert there.count() == here.count()
                assert there.count_pairs() == here.count_pairs()
                assert there.verify() == here.verify()
        spoil(cache, rng)


def test_a_store_of_wide_fingerprints_is_read(tmp_path: Path) -> None:
    wide = np.random.default_rng(5).integers(0, 1 << 64, (3000, 4), dtype=np.uint64)
    fpstore.build(tmp_path / "s", wide, bits=256, max_distance=20).close()
    asked = wide[:40] ^ np.uint64(3)
    with fpstore.open(tmp_path / "s") as here, fpstore.open(f"local://{tmp_path}/s") as there:
        same(there.probe_many(asked), here.probe_many(asked))
        assert there.verify() == here.verify()


def test_pages_of_wide_fingerprints_that_made_room_are_brought_again(tmp_path: Path) -> None:
    wide = np.random.default_rng(5).integers(0, 1 << 64, (40_000, 4), dtype=np.uint64)
    fpstore.build(tmp_path / "s", wide, bits=256, max_distance=31).close()
    asked = wide[:100] ^ np.uint64(3)
    with fpstore.open(tmp_path / "s") as here, fpstore.open(f"local://{tmp_path}/s") as there:
        there._warm()
        same(there.probe_many(asked), here.probe_many(asked))
        for view, _, fd in mirror_of(there)._views:
            assert view.drop(fd)
        same(there.probe_many(asked), here.probe_many(asked))


def test_a_store_of_signatures_is_read(tmp_path: Path) -> None:
    texts = [" ".join(f"w{(i * j) % 97}" for j in range(40)) for i in range(200)]
    signed = minhash.sign(texts, recipes()["minhash-128"])
    minhash.build(tmp_path / "s", signed, recipe="minhash-128").close()
    with minhash.open(tmp_path / "s") as here, minhash.open(f"local://{tmp_path}/s") as there:
        assert list(there.probe_many(signed)) == list(here.probe_many(signed))
        assert there.verify() == here.verify()


def test_many_threads_wait_for_the_same_pages(url: str, local: Path) -> None:
    asked = keys_of()[:200] ^ np.uint64(9)
    with fpstore.open(local) as here, fpstore.open(url) as there:
        expected, found = here.probe_many(asked), []
        threads = [threading.Thread(target=lambda: found.append(there.probe_many(asked))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 6
        for one in found:
            same(one, expected)


# --- What is read -------------------------------------------------------------------------------------------


def test_what_was_read_is_not_read_again(url: str) -> None:
    asked = keys_of()[:100]
    counts = []
    for _ in range(2):
        with fpstore.open(url) as store:
            opening = mirror_of(store).objects.bytes_read
            store.probe_many(asked)
            counts.append((opening, mirror_of(store).objects.bytes_read - opening))
    size = os.stat(f"{url.removeprefix('local://')}/{CATALOG_NAME}").st_size
    assert counts[0][1] > 0 < counts[0][0] - size
    assert counts[1] == (size, 0)  # the catalog alone, which says that the mirror is of this store


def test_single_pages_are_fetched_for_few_queries(tmp_path: Path) -> None:
    keys = keys_of(300_000)
    with fpstore.build(tmp_path / "s", keys) as store:
        size = sum(segment.file_bytes for segment in store._segments)
    with fpstore.open(f"local://{tmp_path}/s") as store:
        opening = mirror_of(store).objects.bytes_read
        store.probe(int(keys[5]))
        assert 0 < mirror_of(store).objects.bytes_read - opening < size / 20


def test_a_walk_asks_for_long_stretches(url: str) -> None:
    with fpstore.open(url) as store:
        before = mirror_of(store).objects.requests
        assert sum(map(len, store.rows())) == COUNT
        pages = sum(segment.file_bytes for segment in store._segments) // PAGE_BYTES
        assert (
            mirror_of(store).objects.requests - before < pages / 2
        )  # page by page it would be `pages`; on a busy machine each of 8 threads takes what is there


def test_warming_reads_all_of_it(url: str) -> None:
    with fpstore.open(url, warm=True) as store:
        assert all(view.pages_seen == view.page_count for part in store._latest.parts for view in part.views)
        warm = mirror_of(store).objects.bytes_read
        store.probe_many(keys_of()[:500])
        assert mirror_of(store).objects.bytes_read == warm


# --- Errors -------------------------------------------------------------------------------------------------


def published(local: Path, bucket: str) -> str:
    with fpstore.open(local) as store:
        store.copy(f"{bucket}/s")
    return f"{bucket}/s"


def files_of(bucket: str) -> Any:
    return fsspec.filesystem("memory"), bucket.removeprefix("memory:/")


def test_what_copy_puts_there_is_the_store(local: Path, bucket: str, tmp_path: Path) -> None:
    url = published(local, bucket)
    with fpstore.open(local) as here, fpstore.open(url) as there:
        same(there.probe_many(keys_of()[:300]), here.probe_many(keys_of()[:300]))
        there.copy(tmp_path / "back")
    with fpstore.open(tmp_path / "back") as back:
        assert back.verify().fingerprint_count == COUNT


def test_the_catalog_is_put_there_last_and_nothing_is_replaced(
    local: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put: list[str] = []
    first = Objects.put

    def note(self: Objects, path: Path, name: str) -> None:
        put.append(name)
        first(self, path, name)

    monkeypatch.setattr(Objects, "put", note)
    url = published(local, bucket)
    assert put == ["segments/00000001.fpseg", CATALOG_NAME]
    with pytest.raises(FileExistsError, match=url):
        published(local, bucket)
    assert len(put) == 2


def test_an_object_cut_short_is_told_at_opening(local: Path, bucket: str) -> None:
    url = published(local, bucket)
    files, root = files_of(bucket)
    name = f"{root}/s/segments/00000001.fpseg"
    files.pipe(name, files.cat(name)[:-1])
    with pytest.raises(
        CorruptStore, match=f"{url}/segments/00000001.fpseg: object: found .* bytes, expected .*cut short"
    ):
        fpstore.open(url)


def test_an_object_cut_short_while_it_is_open_is_told(local: Path, bucket: str) -> None:
    url = published(local, bucket)
    files, root = files_of(bucket)
    name = f"{root}/s/segments/00000001.fpseg"
    with fpstore.open(url) as store:
        files.pipe(name, files.cat(name)[:5000])
        for read in (lambda: store.probe_many(keys_of()[:100]), lambda: list(store.rows())):
            with pytest.raises(StoreChanged, match=f"{url}/segments/00000001.fpseg: found 5000 bytes, .*cut short"):
                read()


def test_an_object_in_the_place_of_another_is_told(local: Path, bucket: str, tmp_path: Path) -> None:
    url = published(local, bucket)
    fpstore.build(tmp_path / "other", keys_of(seed=2)).close()
    files, root = files_of(bucket)
    name = f"{root}/s/segments/00000001.fpseg"
    own = files.cat(name)
    other = (tmp_path / "other" / "segments" / "00000001.fpseg").read_bytes()
    with fpstore.open(url) as store:
        files.pipe(name, (other + own)[: len(own)])
        with pytest.raises(CorruptStore, match=f"{url}/segments/00000001.fpseg: .*another took its place"):
            store.probe_many(keys_of()[:100])
    files.pipe(name, own[:-64] + bytes(64))
    with pytest.raises(CorruptStore, match=f"{url}/segments/00000001.fpseg"):
        Mirror(url, tmp_path / "a new cache")
    files.pipe(name, own[:100] + bytes([own[100] ^ 1]) + own[101:])
    with pytest.raises(CorruptStore, match=f"{url}/segments/00000001.fpseg: footer: found another one"):
        Mirror(url, tmp_path / "a new cache")


def test_a_missing_object_is_told(local: Path, bucket: str) -> None:
    url = published(local, bucket)
    files, root = files_of(bucket)
    with fpstore.open(url) as store:
        files.rm(f"{root}/s/segments/00000001.fpseg")
        with pytest.raises(FileNotFoundError) as gone:
            store.probe_many(keys_of()[:100])
        assert gone.value.filename == f"{url}/segments/00000001.fpseg"
        with pytest.raises(FileNotFoundError):  # again, as nothing is kept of it
            store.probe(int(keys_of()[0]))
    with pytest.raises(FileNotFoundError, match=r"00000001\.fpseg"):
        fpstore.open(url)
    files.rm(f"{root}/s/{CATALOG_NAME}")
    with pytest.raises(FileNotFoundError, match=CATALOG_NAME):
        fpstore.open(url)


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (PermissionError(errno.EACCES, "no such key for you"), PermissionError, "no such key for you"),
        (ConnectionResetError(errno.ECONNRESET, "by peer"), OSError, "ConnectionResetError"),
        (RuntimeError("the session ended"), OSError, "the session ended"),
    ],
)
def test_what_fsspec_says_is_told_of_the_object(
    local: Path, bucket: str, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[Exception], told: str
) -> None:
    url = published(local, bucket)
    files, _ = files_of(bucket)
    tries = []

    def refuse(*given: Any, **options: Any) -> Any:
        tries.append(given)
        raise error

    with fpstore.open(url) as store:
        monkeypatch.setattr(type(files), "cat_file", refuse)
        with pytest.raises(kind, match=told) as found:
            store.probe(int(keys_of()[0]))
        assert found.value.filename == f"{url}/segments/00000001.fpseg"  # type: ignore[attr-defined]
        assert len(tries) >= 2 * (1 if isinstance(error, PermissionError) else 3)
        monkeypatch.undo()
        monkeypatch.setenv("FPSTORE_CACHE", str(local.parent / "cache"))
        assert len(store.probe(int(keys_of()[0]))) == 1


def test_what_goes_well_at_the_second_try_is_no_error(
    local: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = published(local, bucket)
    files, _ = files_of(bucket)
    honest, failed = type(files).cat_file, set()

    def once(self: Any, path: str, start: Any = None, end: Any = None, **options: Any) -> bytes:
        if (path, start) not in failed:
            failed.add((path, start))
            raise TimeoutError(errno.ETIMEDOUT, "slow down")
        return bytes(honest(self, path, start, end, **options))

    monkeypatch.setattr(type(files), "cat_file", once)
    with fpstore.open(local) as here, fpstore.open(url) as there:
        same(there.probe_many(keys_of()[:100]), here.probe_many(keys_of()[:100]))
    assert failed


def test_a_catalog_that_changes_while_it_is_fetched_is_refused(
    local: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = published(local, bucket)
    looks = iter(range(100))
    monkeypatch.setattr(Objects, "look", lambda self, name: (64, str(next(looks))))
    with pytest.raises(CorruptStore, match=f"{url}/{CATALOG_NAME}: catalog: found one that changed"):
        fpstore.open(url)


def test_a_store_elsewhere_is_not_written_to(url: str) -> None:
    with pytest.raises(ReadOnly, match="fpstore copy it here"):
        fpstore.open(url, "w")
    with fpstore.open(url) as store, pytest.raises(ReadOnly):
        store.add([1], ids=[1])


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"a store at s3:// needs fsspec: pip install 'fpstore\[fs\]'"):
        fpstore.open("s3://bucket/store")


def test_a_full_disk_here_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with fpstore.open(url) as store:
        monkeypatch.setattr(os, "pwrite", full)
        with pytest.raises(OSError, match="No space left"):
            store.probe(int(keys_of()[0]))


def test_a_closed_source_lets_nobody_wait(url: str) -> None:
    with fpstore.open(url) as store:
        mirror_of(store)._source.close()
        with pytest.raises(StoreClosed):
            store.probe(int(keys_of()[0]))


class Hanging:
    """Objects that give nothing more until they are let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.ended = threading.Event(), threading.Event()
        monkeypatch.setattr(Objects, "read_many", self.read_many)

    def read_many(self, ranges: Any) -> Any:
        self.asked.set()
        assert self.ended.wait(60)
        return [OSError("hung")] * len(ranges)

    def interrupt(self) -> None:
        """Send this process a Ctrl-C once somebody waits for a page."""

        def kill() -> None:
            assert self.asked.wait(20)
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=kill).start()


@pytest.mark.parametrize("ask", ["one", "many", "threads", "warm", "walk"])
def test_ctrl_c_is_heard_while_an_object_hangs_and_closing_does_not_wait_for_it(
    url: str, monkeypatch: pytest.MonkeyPatch, ask: str
) -> None:
    store = fpstore.open(url)
    hanging = Hanging(monkeypatch)
    hanging.interrupt()
    asks: dict[str, Any] = {
        "one": lambda: store.probe(int(keys_of()[0])),
        "many": lambda: store.probe_many(keys_of()[:3000], threads=1),
        "threads": lambda: store.probe_many(keys_of()[:3000], threads=4),
        "warm": store._warm,
        "walk": lambda: list(store.rows()),
    }
    with pytest.raises(KeyboardInterrupt):
        asks[ask]()
    mirror = mirror_of(store)
    lock = mirror._held._fd
    store.close()
    assert not hanging.ended.is_set()
    os.fstat(lock)  # the files stay open for who still writes to them
    hanging.ended.set()
    until = time.monotonic() + 20
    while mirror._at_work and time.monotonic() < until:
        time.sleep(0.01)
    assert mirror._held._fd == -1
    assert mirror._views == []


def test_ctrl_c_is_heard_while_only_a_helper_waits_for_an_object_that_hangs(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fpstore.open(url) as store:
        hanging = Hanging(monkeypatch)
        hanging.interrupt()
        told: list[BaseException] = []

        def ask(item: int) -> None:
            if threading.current_thread() is threading.main_thread():
                assert hanging.asked.wait(20)
                return
            try:
                store.probe(int(keys_of()[item]))
            except BaseException as error:
                told.append(error)
                raise

        with pytest.raises(KeyboardInterrupt):
            store._team(2).map(ask, [0, 1])
        assert [type(error) for error in told] == [InterruptedError]
        hanging.ended.set()


def test_what_a_handler_of_a_signal_raises_is_raised_and_others_ask_on_afterwards(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fpstore.open(url) as store:
        hanging = Hanging(monkeypatch)
        told: list[BaseException] = []

        def raises(*_: object) -> None:
            raise TimeoutError("enough")

        before = signal.signal(signal.SIGALRM, raises)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(TimeoutError, match="enough"):
                store.probe(int(keys_of()[0]))
        finally:
            signal.signal(signal.SIGALRM, before)

        def ask() -> None:
            try:
                store.probe(int(keys_of()[1]))
            except BaseException as error:
                told.append(error)

        time.sleep(0.5)  # until then whoever waits is told that a call was interrupted
        thread = threading.Thread(target=ask)
        thread.start()
        time.sleep(0.3)
        assert thread.is_alive()
        hanging.ended.set()
        thread.join(20)
        assert [type(error) for error in told] == [OSError]


@pytest.mark.parametrize("many", [False, True])
def test_a_handler_does_not_wait_for_a_call_of_its_thread_that_waits_for_pages(
    url: str, monkeypatch: pytest.MonkeyPatch, many: bool
) -> None:
    refused: list[str] = []

    def waited(*_: object) -> None:
        raise AssertionError("close() waited for what called it")

    def closes(*_: object) -> None:
        signal.signal(signal.SIGALRM, waited)
        signal.setitimer(signal.ITIMER_REAL, 5)
        try:
            store.close()
        except RuntimeError as error:
            refused.append(str(error))
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise TimeoutError("enough")

    with fpstore.open(url) as store:
        hanging = Hanging(monkeypatch)
        before = signal.signal(signal.SIGALRM, closes)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(TimeoutError, match="enough"):
                _ = store.probe_many(keys_of()[:9], threads=1) if many else store.probe(int(keys_of()[0]))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            hanging.ended.set()
        assert len(refused) == 1
        assert "in the midst of another of this thread to the same store" in refused[0]
    with pytest.raises(StoreClosed):
        store.probe(int(keys_of()[0]))


@pytest.mark.parametrize("others", [0, 1])
def test_a_handler_may_ask_another_store_while_its_thread_waits_for_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """Also where another thread waits too; what the call that waits has found so far stays."""
    near, far = keys_of(500, 5).tolist(), keys_of().tolist()
    asked, ended = threading.Event(), threading.Event()
    read_many, found = Objects.read_many, list[int]()

    def wait(objects: Objects, ranges: Any) -> Any:
        asked.set()
        assert ended.wait(60)
        return read_many(objects, ranges)

    def asks(*_: object) -> None:
        for key in near[:3]:
            found.extend(here.probe(key).fingerprint.tolist())
        ended.set()

    fpstore.build(tmp_path / "near", near, ids=None).close()
    fpstore.build(tmp_path / "far", far, ids=None).close()
    with fpstore.open(f"local://{tmp_path}/far") as store, fpstore.open(tmp_path / "near") as here:
        single = store._newest.snapshot.single  # without whoever asks once more where it tells nothing
        assert here.probe(near[0]).fingerprint.tolist() == near[:1]
        monkeypatch.setattr(Objects, "read_many", wait)
        threads = [threading.Thread(target=single.probe, args=(None, far[1 + i], 3, False)) for i in range(others)]
        before = signal.signal(signal.SIGALRM, asks)
        try:
            for thread in threads:
                thread.start()
                assert asked.wait(20)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            assert single.probe(None, far[0], 3, False).fingerprint.tolist() == far[:1]
        finally:
            ended.set()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            for thread in threads:
                thread.join(20)
        assert found == near[:3]


def test_a_view_has_one_source(url: str) -> None:
    with fpstore.open(url) as store, pytest.raises(ValueError, match="the view has a source"):
        store._segments[0].view.attach(PageSource(), "x")


def test_a_range_beyond_the_end_is_cut_short(local: Path, bucket: str) -> None:
    url = published(local, bucket)
    size = Objects(url).look(CATALOG_NAME)[0]
    with pytest.raises(StoreChanged, match="cut short"):
        Objects(url).read(CATALOG_NAME, size - 10, size + 10)
    found = Objects(url).read_many([Range(CATALOG_NAME, 0, 10), Range("none", 0, 10)])
    assert isinstance(found[0], bytes)
    assert isinstance(found[1], FileNotFoundError)


# --- Room ---------------------------------------------------------------------------------------------------


def test_mirrors_that_nobody_has_open_make_room(tmp_path: Path, cache: Path) -> None:
    urls = []
    for i in range(3):
        fpstore.build(tmp_path / f"s{i}", keys_of(seed=i)).close()
        urls.append(f"local://{tmp_path}/s{i}")
    with fpstore.open(urls[0], warm=True) as first:
        fpstore.open(urls[1], warm=True).close()
        taken = held_bytes(cache)
        fpstore.open(urls[2], warm=True, cache_bytes=taken // 2 + (64 << 10)).close()
        left = {path.parent.joinpath("url").read_text() for path in cache.glob(f"*/{LOCK}")}
        assert left == {urls[0], urls[2]}  # the one that is open stays, though it is the oldest
        same(first.probe_many(keys_of(seed=0)[:100]), first.probe_many(keys_of(seed=0)[:100]))


def test_mirrors_of_earlier_states_go_unless_somebody_has_them_open(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("s", "other"):
        fpstore.build(tmp_path / name, keys_of()).close()
    url, other = (f"local://{tmp_path}/{name}" for name in ("s", "other"))
    fpstore.open(other).close()

    def add(key: int) -> None:
        with fpstore.open(tmp_path / "s", "w") as store:
            store.add([key], ids=[1 << 40 | key])

    def mirrors() -> list[str]:
        return sorted(path.read_text() for path in cache.glob("*/url"))

    with fpstore.open(url) as first:
        add(1)
        with fpstore.open(url) as second:
            assert mirror_of(second).outdated == 0
            assert mirrors() == [other, url, url]
            same(first.probe_many(keys_of()[:100]), second.probe_many(keys_of()[:100]))
    add(2)
    size = sum(held_bytes(path.parent) for path in cache.glob("*/url") if path.read_text() == url)
    with fpstore.open(url) as third:
        assert (mirror_of(third).outdated, mirror_of(third).outdated_bytes) == (2, size)
        assert mirrors() == [other, url]
    with fpstore.open(url) as again:
        assert mirror_of(again).outdated == 0
    add(3)
    assert main(["probe", url, "5", "--json"]) == 0
    assert f"{url}: removed 1 mirror of an earlier state, " in capsys.readouterr().err
    assert main(["nearest", url, "5"]) == 0
    assert capsys.readouterr().err == ""


def with_an_earlier_mirror(tmp_path: Path, cache: Path) -> tuple[str, Path]:
    """The URL of a store that has changed since, and its mirror from before."""
    fpstore.build(tmp_path / "s", keys_of()).close()
    url = f"local://{tmp_path}/s"
    fpstore.open(url).close()
    (earlier,) = (path.parent for path in cache.glob("*/url"))
    with fpstore.open(tmp_path / "s", "w") as store:
        store.add([1], ids=[1 << 40])
    return url, earlier


def test_what_is_left_of_a_mirror_by_a_killed_process_goes(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, earlier = with_an_earlier_mirror(tmp_path, cache)

    def killed(path: Path) -> None:  # names of a folder are in any order
        (path / LOCK).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            fpstore.open(url)
    assert not earlier.exists()
    assert len([path for path in cache.iterdir() if path.is_dir()]) == 2
    (cache / f"{'0' * 32}.leaving").symlink_to(tmp_path)
    (cache / f"{'0' * 31}.leaving").mkdir()
    with fpstore.open(url, cache_bytes=1 << 40) as store:
        (own,) = (path.parent for path in cache.glob("*/url"))
        assert own == mirror_of(store).path.parent
    assert {path.name for path in cache.iterdir()} == {LOCK, own.name, f"{'0' * 32}.leaving", f"{'0' * 31}.leaving"}


@budget_of_nothing
@pytest.mark.parametrize("refused", [(os, "open"), (os, "rename"), (shutil, "rmtree")])
def test_a_mirror_that_cannot_be_removed_keeps_no_store_from_being_opened(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, refused: tuple[Any, str]
) -> None:
    url, earlier = with_an_earlier_mirror(tmp_path, cache)
    real = getattr(*refused)

    def refusing(path: Any, *args: Any, **named: Any) -> Any:
        if os.fspath(path).startswith(os.fspath(earlier)):
            raise PermissionError(errno.EACCES, "Permission denied", "segments")
        return real(path, *args, **named)

    monkeypatch.setattr(*refused, refusing)
    told = rf"{earlier}[.a-z]*: found a mirror that has to go and cannot \(Permission denied\), .*; remove it$"
    with pytest.warns(StoreWarning, match=told):
        store = fpstore.open(url, cache_bytes=1)
    assert mirror_of(store).outdated == 0
    assert store.contains_near(1)
    store.close()


def test_a_store_that_is_read_takes_no_more_than_its_budget(tmp_path: Path, local: Path) -> None:
    keys = keys_of(300_000)
    fpstore.build(tmp_path / "large", keys).close()
    url, budget = f"local://{tmp_path}/large", 2 << 20
    largest = 0
    with fpstore.open(tmp_path / "large") as here, fpstore.open(url, cache_bytes=budget) as there:
        for first in range(0, 6000, 200):
            own = keys[first : first + 200]
            same(there.probe_many(own), here.probe_many(own))
            until = time.monotonic() + 5
            while held_bytes(there.path) > budget and time.monotonic() < until:
                time.sleep(0.01)
            largest = max(largest, held_bytes(there.path))
        assert mirror_of(there).objects.bytes_read > 2 * budget
    assert largest <= budget


def test_pages_come_where_no_room_could_be_made(url: str, local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[threading.ExceptHookArgs] = []

    def failing(self: Mirror) -> None:
        raise OSError("no room")

    monkeypatch.setattr(Mirror, "_make_room", failing)
    monkeypatch.setattr(threading, "excepthook", told.append)
    with fpstore.open(url, cache_bytes=1 << 10) as there, fpstore.open(local) as here:
        for first in range(0, 2000, 200):
            own = keys_of()[first : first + 200]
            same(there.probe_many(own), here.probe_many(own))
    assert {str(each.exc_value) for each in told} == {"no room"}
    assert len(told) <= THREADS


def test_what_others_read_too_is_not_taken_from_them_and_that_is_said(tmp_path: Path, url: str) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with fpstore.open(url, cache_bytes=300 << 10) as one, fpstore.open(url) as other:
            other.probe_many(keys_of()[:100])
            for first in range(0, 2000, 200):
                one.probe_many(keys_of()[first : first + 200])
            until = time.monotonic() + 5
            while not told and time.monotonic() < until:
                time.sleep(0.01)
            assert len(other.probe_many(keys_of()[:100])) == 100
    assert [each.category for each in told] == [StoreWarning]
    assert "which others read too" in str(told[0].message)


def test_a_budget_below_what_must_stay_is_said_with_one_that_would_do(tmp_path: Path) -> None:
    keys = keys_of(300_000)
    fpstore.build(tmp_path / "large", keys).close()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with fpstore.open(f"local://{tmp_path}/large", cache_bytes=2000) as there:
            for first in range(0, 1000, 200):
                there.probe_many(keys[first : first + 200])
                until = time.monotonic() + 5
                while not told and time.monotonic() < until:
                    time.sleep(0.01)
    assert [each.category for each in told] == [StoreWarning]
    expected = r"large: found (\d+) bytes that stay, .*; expected cache_bytes .* of (\d+) and room for pages, not 2000"
    found = re.search(expected, str(told[0].message))
    assert found is not None
    assert 2000 < int(found[1]) == int(found[2]) < 600_000


def test_a_mirror_is_for_nobody_else_whatever_the_folder_of_mirrors_is_for(cache: Path, url: str) -> None:
    cache.mkdir(0o755)
    os.chmod(cache, 0o755)
    for _ in range(2):
        with fpstore.open(url) as store:
            store.probe(int(keys_of()[0]))
            (mirror,) = (path for path in cache.iterdir() if path.is_dir())
            for made in (mirror, *mirror.rglob("*")):
                assert made.stat().st_mode & 0o777 == (0o700 if made.is_dir() else 0o600), made
        for made in (mirror, *(path for path in mirror.rglob("*") if path.is_dir())):
            made.chmod(0o755)  # as an earlier version left them
    assert cache.stat().st_mode & 0o777 == 0o755


@budget_of_nothing
def test_what_others_have_in_the_folder_of_mirrors_stays(tmp_path: Path, cache: Path, url: str) -> None:
    for name in ("thesis", "0" * 32):
        (cache / name).mkdir(parents=True)
        (cache / name / LOCK).touch()
        (cache / name / "data").write_bytes(b"x" * 100_000)
    (tmp_path / "theirs" / MIRROR_NAME).mkdir(parents=True)
    (tmp_path / "theirs" / LOCK).touch()
    (cache / ("1" * 32)).symlink_to(tmp_path / "theirs")
    fpstore.open(url, cache_bytes=1).close()
    assert (cache / "thesis" / "data").exists()
    assert (cache / ("0" * 32) / "data").exists()
    assert (tmp_path / "theirs" / LOCK).exists()


@pytest.mark.parametrize("mode", [0o1777, 0o775, 0o757])
def test_each_user_has_mirrors_of_his_own_in_a_folder_that_others_write_to(
    cache: Path, url: str, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    cache.mkdir()
    os.chmod(cache, mode)
    for _ in range(2):
        fpstore.open(url).close()
    (own,) = cache.iterdir()
    assert (own.name, own.stat().st_mode & 0o777) == (f"user-{os.geteuid()}", 0o700)
    (mirror,) = own.glob("*/store.mirror")
    assert {path.name for path in own.iterdir()} == {LOCK, mirror.parent.name}
    # Of the name of another user's is what this one has made.
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(CorruptStore, match=r"user-12345: folder: found somebody else's, expected this user's own$"):
        fpstore.open(url)


@pytest.mark.parametrize("size", [-1, objects_module.MOST_CATALOG_BYTES + 1])
def test_a_catalog_of_a_size_that_none_has_is_not_asked_for(
    url: str, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(Objects, "look", lambda *_: (size, "an hour"))
    monkeypatch.setattr(Objects, "read", lambda *_: pytest.fail("it was read"))
    with pytest.raises(CorruptStore, match=rf"catalog\.mdb: catalog: found {size} bytes, expected at most \d+$"):
        fpstore.open(url)


def test_of_a_catalog_nothing_is_held_that_has_not_come(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects_module, "PIECE_BYTES", 1000)
    with fpstore.open(url) as whole:
        assert whole.probe(int(keys_of()[0])).distance.tolist() == [0]
    read, asked = Objects.read, []

    def some(objects: Objects, name: str, first: int, end: int) -> bytes:
        asked.append((first, end))
        return read(objects, name, first, end)

    real = Objects(url).look("catalog.mdb")[0]
    monkeypatch.setattr(Objects, "look", lambda *_: (objects_module.MOST_CATALOG_BYTES, "an hour"))
    monkeypatch.setattr(Objects, "read", some)
    with pytest.raises(StoreChanged, match="the object was cut short"):
        fpstore.open(url, cache_bytes=1 << 30)
    assert all(end - first == 1000 for first, end in asked)
    assert asked[-1][0] <= real


def test_what_lies_behind_a_link_in_a_mirror_is_not_written_to(tmp_path: Path, cache: Path, url: str) -> None:
    fpstore.open(url).close()
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (mirror,) = cache.glob("*/store.mirror")
    (segment,) = (mirror / "segments").iterdir()
    for path in (segment, mirror.parent / "url", mirror.parent / LOCK, cache / LOCK, mirror / "catalog.mdb"):
        path.unlink()
        path.symlink_to(victim)
        with pytest.raises(CorruptStore, match="not a regular file"):
            fpstore.open(url)
        path.unlink()
        path.symlink_to(tmp_path / "nothing")
        with pytest.raises(CorruptStore, match="not a regular file"):
            fpstore.open(url)
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(CorruptStore, match="not a regular file"):
            fpstore.open(url)
        assert victim.read_bytes() == b"precious"
        assert not (tmp_path / "nothing").exists()
        path.unlink()
    with fpstore.open(url) as store:
        assert len(store.probe_many(keys_of()[:100])) == 100


def test_a_folder_behind_a_link_in_the_place_of_a_mirror_stays_as_it_is(tmp_path: Path, cache: Path, url: str) -> None:
    fpstore.open(url).close()
    (mirror,) = cache.glob("*/store.mirror")
    victim = tmp_path / "victim"
    victim.mkdir()
    victim.chmod(0o755)
    for path in (mirror / "segments", mirror, mirror.parent):
        shutil.rmtree(path)
        path.symlink_to(victim)
        with pytest.raises(CorruptStore, match="folder: found something else, expected a folder that fpstore made"):
            fpstore.open(url)
        assert victim.stat().st_mode & 0o777 == 0o755
        assert list(victim.iterdir()) == []
        path.unlink()
    fpstore.open(url).close()


@budget_of_nothing
def test_mirrors_of_another_user_are_passed_over(
    tmp_path: Path, cache: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = cache / ("1" * 32)
    (theirs / MIRROR_NAME).mkdir(parents=True)
    (theirs / LOCK).touch()
    lstat = os.lstat

    def refused(path: Any, **given: Any) -> os.stat_result:
        if Path(path).parent == theirs:
            raise PermissionError(13, "Permission denied", str(path))
        return lstat(path, **given)

    monkeypatch.setattr(os, "lstat", refused)
    fpstore.open(url, cache_bytes=1).close()
    assert (theirs / LOCK).exists()


@pytest.mark.parametrize("data", [b"\xff", b"u" * 70_000, None])
def test_what_is_no_url_beside_a_mirror_is_refused(tmp_path: Path, data: bytes | None) -> None:
    (tmp_path / MIRROR_NAME).mkdir()
    if data is None:
        os.mkfifo(tmp_path / "url")
    else:
        (tmp_path / "url").write_bytes(data)
    with pytest.raises(CorruptStore, match=r"/url: (url|file): found "):
        fpstore.open(tmp_path / MIRROR_NAME)


# --- Ways in ------------------------------------------------------------------------------------------------


def test_a_mirror_is_opened_by_its_path_as_the_store_it_is_of(url: str) -> None:
    with fpstore.open(url) as store:
        path = store.path
        assert path.name == MIRROR_NAME
    with fpstore.open(path) as again:
        assert again.path == path
        assert len(again.probe_many(keys_of()[:300])) == 300


def test_a_pickled_store_is_opened_where_it_lies(url: str) -> None:
    with fpstore.open(url, signed=True) as store, pickle.loads(pickle.dumps(store)) as again:
        assert again.path == store.path
        assert list(again.probe(5, max_distance=3)) == list(store.probe(5, max_distance=3))


def test_a_url_of_this_machine_is_refused_with_its_path(local: Path, cache: Path) -> None:
    with pytest.raises(ValueError, match=f"expected a path for it: {local}$"):
        fpstore.open(f"file://{local}")
    with fpstore.open(local) as store, pytest.raises(ValueError, match=f"expected a path for it: {local}2$"):
        store.copy(f"file://{local}2")
    assert not cache.exists()


def test_the_commands_take_urls(local: Path, url: str, bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = f"{int(keys_of()[3]):016x}"
    assert main(["probe", str(local), asked]) == 0
    expected = capsys.readouterr().out
    assert main(["probe", url, asked]) == 0
    assert capsys.readouterr().out == expected != ""
    assert main(["copy", url, f"{bucket}/copied"]) == 0
    assert f"{bucket}/copied: 40000 rows" in "".join(capsys.readouterr())


def test_a_job_of_tasks_probes_a_store_elsewhere(url: str, local: Path) -> None:
    from fpstore import cluster

    asked = keys_of()[:500] ^ np.uint64(6)
    with fpstore.open(local) as here, cluster.probe(url, asked, tasks=3, workers=1) as answer:
        rows = [row for matches in answer for row in matches]
        assert rows == list(here.probe_many(asked))


def test_processes_share_a_mirror(url: str) -> None:
    program = f"import fpstore\nwith fpstore.open({url!r}) as s: print(sum(map(len, s.rows())))"
    ran = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [each.communicate()[0] for each in ran] == [f"{COUNT}\n"] * 3
    with fpstore.open(url) as store:
        before = mirror_of(store).objects.bytes_read
        assert sum(map(len, store.rows())) == COUNT
        assert mirror_of(store).objects.bytes_read == before


def test_a_fork_lets_go_of_what_it_has_inherited(url: str) -> None:
    with fpstore.open(url) as store:
        pid = os.fork()
        if pid == 0:
            try:
                store.close()
                os._exit(0)
            except BaseException:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        assert len(store.probe(int(keys_of()[0]))) == 1
