"""Opening a store with all of it read and checked: what is found afterwards, damage, interrupts, forks."""

import mmap
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fpstore
from fpstore import CorruptStore, StoreClosed
from fpstore.living import warming
from fpstore.threads import Threads

KEYS = np.random.default_rng(3).integers(0, 1 << 63, 30_000, dtype=np.uint64)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    fpstore.build(tmp_path / "s", KEYS).close()
    return tmp_path / "s"


@pytest.mark.parametrize("pages", [1, 7, 1 << 10])
@pytest.mark.parametrize("mode", ["r", "w"])
def test_every_page_has_been_checked_when_the_store_is_open(
    path: Path, mode: str, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "PAGES_AT_ONCE", pages)
    with fpstore.open(path, mode) as cold:  # type: ignore[arg-type]
        assert cold._segments[0].view.pages_seen < cold._segments[0].view.page_count
    with fpstore.open(path, mode, warm=True) as store:  # type: ignore[arg-type]
        view = store._segments[0].view
        assert view.page_count > 100
        assert view.pages_seen == view.page_count
        assert [match.id for match in store.probe(int(KEYS[5]))] == [5]


@pytest.mark.parametrize("id_type", ["uint64", "string", "bytes", None])
def test_every_file_that_a_search_can_need_has_been_checked(tmp_path: Path, id_type: Any) -> None:
    names: dict[Any, Any] = {"string": lambda row: f"document {row}", "bytes": lambda row: b"%d" % row}
    columns: dict[str, Any] = {}
    with fpstore.create(tmp_path / "s", id_type=id_type) as store:
        for start in (0, 20_000):
            rows = range(start, start + 5000)
            if id_type is not None:
                columns["ids"] = [names.get(id_type, int)(row) for row in rows]
            store.add(KEYS[rows.start : rows.stop], **columns)
            store.flush() if hasattr(store, "flush") else store.compact()
    for is_warm in (False, True):
        with fpstore.open(tmp_path / "s", warm=is_warm) as store:
            views = [view for part in store._latest.parts for view in part.views]
            files = [path for path in (tmp_path / "s").rglob("*.fp*") if path.is_file()]
            assert len(views) == len(files) > 0
            assert all(view.pages_seen == view.page_count for view in views) == is_warm


def test_an_empty_store_opens_warm(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s").close()
    with fpstore.open(tmp_path / "s", warm=True) as store:
        assert len(store.probe(5)) == 0


def test_damage_is_told_by_the_probe_that_meets_it(path: Path) -> None:
    with fpstore.open(path) as store:
        segment = store._segments[0]
        (region,) = [each for each in segment.regions() if (each.name, each.table) == ("payload", 0)]
        name, middle = segment.path, region.offset + region.bytes // 2
    with open(name, "r+b") as file:
        file.seek(middle)
        byte = file.read(1)[0]
        file.seek(middle)
        file.write(bytes([byte ^ 1]))
    with fpstore.open(path, warm=True) as store:
        view = store._segments[0].view
        assert view.pages_seen == view.page_count - 1
        with pytest.raises(CorruptStore, match="page at byte"):
            store.probe_many(KEYS, max_distance=0)


def test_what_interrupts_the_reading_closes_the_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def interrupted(self: Threads, work: object, items: object) -> None:
        raise KeyboardInterrupt

    def noted(self: fpstore.Store, close: object = fpstore.Store.close) -> None:
        opened.append(self)
        close(self)  # type: ignore[operator]

    monkeypatch.setattr(Threads, "map", interrupted)
    monkeypatch.setattr(fpstore.Store, "close", noted)
    with pytest.raises(KeyboardInterrupt):
        fpstore.open(path, warm=True)
    with pytest.raises(StoreClosed):
        opened[0].probe(5)


def test_a_child_of_a_warm_process_answers(path: Path) -> None:
    with fpstore.open(path, warm=True) as store:
        child = os.fork()
        if child == 0:
            try:
                with fpstore.open(path, warm=True) as own:
                    os._exit(0 if len(own.probe(int(KEYS[1]))) == 1 else 1)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert len(store.probe(int(KEYS[1]))) == 1


def test_pages_that_there_are_not_are_refused(path: Path) -> None:
    with fpstore.open(path) as store:
        view = store._segments[0].view
        with pytest.raises(ValueError, match=f"pages 0 to {view.page_count + 1}: there are {view.page_count}"):
            view.warm(0, view.page_count + 1)


# Of a mapping of a file: the flags that it was advised of, and the bytes that are mapped in large pages.
Mapping = tuple[list[str], int]


def mappings(path: Path) -> list[Mapping]:
    """Those that this process has of a file."""
    found: list[Mapping] = []
    for entry in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
        if entry.split("\n")[0].endswith(f" {path}"):
            large, flags = (re.search(rf"\n{field}: *(.*)", entry) for field in ("FilePmdMapped", "VmFlags"))
            found.append((flags[1].split() if flags else [], int(large[1].split()[0]) << 10 if large else 0))
    return found


def forget(path: Path) -> None:
    """Have nothing of a file in memory."""
    with open(path, "r+b") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A segment of several large pages, in a store."""
    keys = np.random.default_rng(4).integers(0, 1 << 63, 2_000_000, dtype=np.uint64)
    with fpstore.build(tmp_path / "s", keys, plan="speed") as store:
        segment = Path(store._segments[0].path)
    assert segment.stat().st_size > 12 << 20
    forget(segment)
    return segment


def test_a_warm_file_is_mapped_once_and_what_it_lacks_later_is_read_by_the_page(large: Path) -> None:
    with fpstore.open(large.parents[1]) as store:
        cold = [flags for flags, _ in mappings(large)]
        store._warm()
        warm = [flags for flags, _ in mappings(large)]
    assert warm == cold
    assert len(warm) == 1
    assert "rr" in warm[0]
    assert "hg" not in warm[0]


def test_what_is_not_in_memory_is_read_in_large_pages_where_the_system_has_them(large: Path) -> None:
    with open(large, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        mapped.madvise(mmap.MADV_HUGEPAGE)
        assert len([mapped[at] for at in range(0, len(mapped), mmap.PAGESIZE)]) > 0
        ((_, most),) = mappings(large)
    if most < 8 << 20:
        pytest.skip("this file system has no large pages")
    forget(large)
    with fpstore.open(large.parents[1], warm=True):
        ((_, found),) = mappings(large)
    assert found >= most // 2
