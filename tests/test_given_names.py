"""The names that a writer has given handles: no name gets two, whatever the filters in memory can take."""

import random
from pathlib import Path
from typing import Any

import pytest

import fpstore
from fpstore.living.naming import FILTER_NAMES, GivenNames
from fpstore.living.sizes import LivingSizes
from fpstore.names.reader import NamesReader

SIZES = LivingSizes(flush_rows=40, growth=3, names_growth=3)


def opened(path: Path, given: GivenNames) -> fpstore.Store:
    store = fpstore.Store(path, "w", sizes=SIZES)
    store._expect_writer()._given = given
    return store


def rows_of(store: fpstore.Store, names: list[str]) -> set[tuple[int, str]]:
    found = store.lookup(names)
    assert found.id is not None
    return {*zip(found.fingerprint.tolist(), found.id.tolist(), strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [FILTER_NAMES, (30, 50), (1,), ()])
def test_a_store_has_one_handle_for_a_name_whatever_is_told_in_memory(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """Names come again, are removed, are flushed and merged, and another writer goes on."""
    rng, held = random.Random(14), set[tuple[int, str]]()
    fpstore.create(tmp_path / "s", id_type="string").close()
    for turn in range(4):
        with opened(tmp_path / "s", GivenNames(sizes)) as store:
            for step in range(12):
                names = [f"name {rng.randrange(60 * turn, 60 * turn + 200)}" for _ in range(15)]
                keys = [rng.randrange(1 << 64) for _ in names]
                store.add(keys, ids=names)
                held |= {*zip(keys, names, strict=True)}
                if step % 5 == 4:
                    gone = {*names[:3]}
                    store.remove(ids=[*gone])
                    held = {row for row in held if row[1] not in gone}
                if step == 6:
                    store.wait()
            names = sorted({name for _, name in held})
            assert rows_of(store, names) == held
            store.compact()
            store.verify()
            assert rows_of(store, names) == held
            (part,) = store._latest.parts
            assert sum(file.count for file in part.names) == len(names)


@pytest.mark.slow
def test_files_are_asked_for_a_new_name_only_where_it_may_be_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find, asked = NamesReader.find, list[tuple[str, int]]()

    def spied(file: NamesReader, names: Any, hashes: Any = None) -> Any:
        asked.append((file.path.name, names.size))
        return find(file, names, hashes)

    monkeypatch.setattr(NamesReader, "find", spied)
    fpstore.create(tmp_path / "s", id_type="string").close()

    def added(store: fpstore.Store, *numbers: int) -> list[int]:
        """Of how many names a file was asked, each time."""
        asked.clear()
        store.add([*numbers], ids=[f"name {number}" for number in numbers])
        counts = [count for _, count in asked]
        store._expect_writer().flush()
        return counts

    with opened(tmp_path / "s", GivenNames((4, 6))) as store:
        assert added(store, 0, 1, 2) == []
        assert added(store, 3, 4) == []
        assert added(store, 1, 5) == [1, 1]  # one that is there, in the first file or the second
        assert added(store, 6, 7, 8) == []
        assert added(store, 9, 10) == []  # for which there is no room any more
        assert added(store, 11) == [1]  # so the file of these two is asked
    with opened(tmp_path / "s", GivenNames()) as store:
        files = sum(len(part.names) for part in store._latest.parts)
        assert added(store, 12, 13) == [2] * files  # all are another writer's
        assert added(store, 14) == [1] * files  # but the newest one
        store.compact()
        assert added(store, 15) == [1]  # which is one with the others now


def test_names_of_an_addition_that_failed_may_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fpstore.create(tmp_path / "s", id_type="string") as store:
        store.add([1], ids=["first"])
        writer = store._expect_writer()
        with monkeypatch.context() as patched:

            def failing(_records: Any) -> None:
                raise OSError("no room")

            patched.setattr(writer._catalog, "append", failing)
            with pytest.raises(OSError, match="no room"):
                store.add([2, 3], ids=["second", "third"])
        store.add([4], ids=["other"])
        writer.flush()
        store.add([2, 5], ids=["third", "other"])
        writer.flush()
        expected = {(1, "first"), (2, "third"), (4, "other"), (5, "other")}
        assert rows_of(store, ["first", "second", "third", "other"]) == expected
        store.verify()


def test_files_that_are_asked_for_a_name_now_and_then_are_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or one name in some thousands, of which a filter is not sure, would bring in the filters of all files."""
    forget, forgotten = NamesReader.forget, list[str]()

    def spied(file: NamesReader) -> None:
        forgotten.append(file.path.name)
        forget(file)

    monkeypatch.setattr(NamesReader, "forget", spied)
    fpstore.create(tmp_path / "s", id_type="string").close()

    def added(store: fpstore.Store, *numbers: int) -> int:
        """How many files were let go of."""
        forgotten.clear()
        store.add([*numbers], ids=[f"name {number}" for number in numbers])
        return len(forgotten)

    with opened(tmp_path / "s", GivenNames()) as store:
        for first in (0, 20):
            assert added(store, *range(first, first + 20)) == 0
            store._expect_writer().flush()
        assert len([file for part in store._latest.parts for file in part.names]) == 2
        assert added(store, *range(40, 63), 5) > 0  # of 64 names the first that comes again
        assert added(store, *range(100, 162), 6) == 0  # of 63
        assert added(store, *range(200, 263), 7) > 0
    with opened(tmp_path / "s", GivenNames()) as store:
        assert added(store, *range(300, 500)) == 0  # another writer's files are asked for each
