"""Stores whose ids are names: what they answer, what they hold, and what they refuse."""

# mypy: disable-error-code="union-attr,index,no-untyped-call"

import os
import random
import shutil
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from living import writer_of

import fpstore
from fpstore.errors import CorruptStore
from fpstore.living import changes, renewal
from fpstore.living.sizes import LivingSizes
from fpstore.names.column import as_names

KEY = np.ones(1, dtype=np.uint64)
FAR = [0, (1 << 64) - 1, 0x0F0F0F0F0F0F0F0F, 0x3333333333333333, 0x00FF00FF00FF00FF]


@pytest.fixture(params=["string", "bytes"])
def id_type(request: pytest.FixtureRequest) -> Any:
    return request.param


def ids(id_type: str, *names: str) -> list[Any]:
    return [name if id_type == "string" else name.encode() for name in names]


def rows(store: fpstore.Store) -> list[tuple[int, Any]]:
    return [(row.fingerprint, row.id) for table in store.rows() for row in table]


def read_and_verify(path: Path, expected: list[tuple[int, Any]]) -> None:
    with fpstore.open(path) as store:
        assert rows(store) == expected
        store.verify()


@pytest.mark.parametrize("where", ["rows", "a part", "the file"])
def test_a_flush_that_fails_leaves_neither_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """By two threads: whatever fails first, the other ends, and both files go."""

    def fails(*_: object, **__: object) -> Any:
        raise OSError("no room")

    fpstore.create(tmp_path / "s.fpstore", id_type="string").close()
    with writer_of(tmp_path / "s.fpstore") as store:
        store.add(FAR, ids=list("abcde"))
        with monkeypatch.context() as patch:
            if where == "rows":
                patch.setattr(renewal, "write_rows", fails)
            elif where == "a part":
                patch.setattr("fpstore.living.naming.parts_of", lambda pending: [fails])
            else:
                patch.setattr("fpstore.living.naming.NamesWriter.finish", fails)
            with pytest.raises(OSError, match="no room"):
                store.compact()
        assert [file.name for file in (tmp_path / "s.fpstore" / "segments").iterdir()] == []
        store.compact()
        assert len(rows(store)) == 5
        store.verify()


DIGESTS = [b"a", b"b\0", b"\0\0"]


@pytest.mark.parametrize("how", ["array", "has __array__", "view"])
def test_bytes_of_numpy_that_would_lose_zeros_are_refused(tmp_path: Path, how: str) -> None:
    class Given:
        def __array__(self, *args: object, **kwargs: object) -> Any:
            return np.array([b"ab", b"cd"])

    wide = np.array([b"ab", b"c\0"])
    given: dict[str, Any] = {"array": wide, "has __array__": Given(), "view": wide.view("V2")}
    with fpstore.create(tmp_path / "s", id_type="bytes") as store:
        if how == "view":
            store.add(FAR[:2], ids=given[how])
            assert rows(store) == sorted(zip(FAR[:2], [b"ab", b"c\0"], strict=True))
            return
        with pytest.raises(
            TypeError, match=r"ids: found dtype \|S2, which drops zeros .* \.view\('V2'\) where each has 2"
        ):
            store.add(FAR[:2], ids=given[how])
        with pytest.raises(TypeError, match=r"found dtype \|S2"):
            store.lookup(given[how])
        with pytest.raises(TypeError, match=r"found dtype \|S2"):
            fpstore.build(tmp_path / "t", FAR[:2], ids=given[how], id_type="bytes")
        assert store.count() == 0
    assert not (tmp_path / "t").exists()


TEXTS = ["a\0", "\0b", "\0", "c"]


@pytest.mark.parametrize("how", ["U", "has __array__", "strings", "objects", "list", "Arrow"])
def test_text_of_numpy_is_what_numpy_says_it_is(tmp_path: Path, how: str) -> None:
    """Its array of str has lost the NULs that end an item before anybody sees it; everything else keeps them."""

    class Given:
        def __array__(self, *args: object, **kwargs: object) -> Any:
            return np.array(TEXTS)

    given: dict[str, Any] = {
        "U": np.array(TEXTS),
        "has __array__": Given(),
        "strings": np.array(TEXTS, dtype=np.dtypes.StringDType()),
        "objects": np.array(TEXTS, dtype=object),
        "list": TEXTS,
        "Arrow": pa.array(TEXTS),
    }
    kept = ["a", "\0b", "", "c"] if how in ("U", "has __array__") else TEXTS
    with fpstore.create(tmp_path / "s", id_type="string") as store:
        store.add(FAR[:4], ids=given[how])
        assert rows(store) == sorted(zip(FAR[:4], kept, strict=True))
        found = store.lookup(given[how]).id
        assert found is not None
        assert sorted(found.tolist()) == sorted(kept)
        store.remove(ids=given[how])
        assert store.count() == 0


@pytest.mark.parametrize("dtype", [object, "V"])
def test_bytes_that_end_with_zeros_come_back_as_they_were(tmp_path: Path, dtype: Any) -> None:
    names = DIGESTS if dtype is object else [name.ljust(2, b"\0") for name in DIGESTS]
    column = np.empty(3, dtype=dtype if dtype is object else "V2")
    column[:] = names if dtype is object else [np.void(name) for name in names]
    with fpstore.create(tmp_path / "s", id_type="bytes") as store:
        store.add(FAR[:3], ids=column)
        assert sorted(row[1] for row in rows(store)) == sorted(names)


def test_names_come_back_from_the_log_from_segments_and_from_both(tmp_path: Path, id_type: Any) -> None:
    given = ids(id_type, "b", "", "a\0\n", "http://example.org/é")
    with fpstore.create(tmp_path / "s", id_type=id_type) as store:
        store.add(FAR[:4], ids=given)
        for step in (lambda: None, store._flush, store.compact, lambda: store.add(FAR[:1], ids=ids(id_type, "aa"))):
            step()
            assert [match.id for match in store.probe(FAR[0])][-1] == given[0]
            assert [store.probe(key).id[0] for key in FAR[1:4]] == given[1:]
        assert store.probe(FAR[0]).id.tolist() == ids(id_type, "aa", "b")
        assert sorted(rows(store)) == sorted([*zip(FAR[:4], given, strict=True), (FAR[0], *ids(id_type, "aa"))])
        store.verify()
    with fpstore.open(tmp_path / "s") as store:
        assert store.id_type == id_type
        assert store.probe(FAR[0]).id.tolist() == ids(id_type, "aa", "b")


def test_rows_of_one_fingerprint_are_in_the_order_of_their_names(tmp_path: Path, id_type: Any) -> None:
    names = [f"name {(i * 7919 + 150) % 300}" for i in range(300)]  # the least comes late
    with fpstore.create(tmp_path / "s", id_type=id_type) as store:
        store.add([5] * 100, ids=ids(id_type, *names[:100]))
        store._flush()
        store.add([5] * 200, ids=ids(id_type, *names[100:]))
        expected = sorted(ids(id_type, *names))
        assert store.probe(5).id.tolist() == expected
        assert [row[1] for row in rows(store)] == expected
        assert store.nearest_many([5, 4]).id.tolist() == expected[:1] * 2
        assert store.add_if_new([4], ids=ids(id_type, "x"))[0].match.id == expected[0]


def test_a_removed_name_goes_and_may_come_again(tmp_path: Path, id_type: Any) -> None:
    one, other = ids(id_type, "one", "other")
    with fpstore.create(tmp_path / "s", id_type=id_type) as store:
        for merged in (False, True, False, True):
            store.add(FAR[:3], ids=[one, one, other])
            if merged:
                store.compact()
            store.remove(ids=[one, *ids(id_type, "nobody")])
            assert rows(store) == [(FAR[2], other)]
            if merged:
                store.compact()
        store.add(FAR[:1], ids=[one])
        assert store.probe(FAR[0]).id.tolist() == [one]
        store.remove(fingerprints=[FAR[2], FAR[0]], ids=[other, other])
        assert rows(store) == [(FAR[0], one)]
        store.verify()


def test_a_name_is_gone_from_the_disk_when_its_last_row_is_merged_away(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s", id_type="string") as store:
        store.add(FAR[:3], ids=["stays", "goes", "goes"])
        store.compact()
        store.remove(ids=["goes"])
        store.compact()
    data = b"".join(path.read_bytes() for path in (tmp_path / "s" / "segments").iterdir())
    assert b"stays" in data
    assert b"goes" not in data


def test_a_file_of_names_comes_and_goes_with_its_segment(tmp_path: Path) -> None:
    def files() -> list[str]:
        return sorted(os.listdir(tmp_path / "s" / "segments"))

    with fpstore.create(tmp_path / "s", id_type="string") as store:
        store.add(FAR[:2], ids=["a", "b"])
        assert files() == []
        store._flush()
        assert files() == ["00000001.fpnames", "00000001.fpseg"]
        store.add(FAR[2:], ids=["a", "c", "d"])
        store.compact()
        (number,) = {name[:8] for name in files()}
        assert files() == [f"{number}.fpnames", f"{number}.fpseg"]
    # What a writer leaves that died goes; what nobody knows is set aside.
    segments = tmp_path / "s" / "segments"
    with fpstore.open(tmp_path / "s") as store:
        identity = store.identity
    (segments / f"00000077.fpnames.{identity[:16]}.new").write_bytes(b"")
    shutil.copy(segments / f"{number}.fpnames", segments / "00000078.fpnames")
    with pytest.warns(fpstore.StoreWarning, match=r"00000078\.fpnames"), fpstore.open(tmp_path / "s", "w"):
        pass
    assert files() == [f"{number}.fpnames", f"{number}.fpseg"]
    assert os.listdir(tmp_path / "s" / "aside") == ["00000078.fpnames"]


def files_of(path: Path) -> list[str]:
    return sorted(os.listdir(path / "segments"))


def test_a_merge_of_segments_takes_over_the_files_of_names_until_some_are_due(tmp_path: Path, id_type: Any) -> None:
    path = tmp_path / "s"
    expected: list[tuple[int, Any]] = []
    fpstore.create(path, id_type=id_type).close()
    with writer_of(path, growth=1000, names_growth=3) as store:
        for number in range(1, 8):
            given = ids(id_type, f"{number % 4} again", f"n{number}", f"n{number} too")
            store.add([number, number + 50, number + 90], ids=given)
            expected += zip([number, number + 50, number + 90], given, strict=True)
            store._flush()
            store.wait()
            assert rows(store) == sorted(expected)
            assert [file.path.name for file in store._latest.parts[0].names] == [
                name for name in files_of(path) if name.endswith(".fpnames")
            ]
            assert len(files_of(path)) <= 1 + 4
            store.verify()
        assert store.lookup(ids(id_type, "3 again")).fingerprint.tolist() == [3, 7]
        # A name of which the last row goes is gone with the merge, from whichever file had it.
        store.remove(ids=ids(id_type, "n2", "n7"))
        expected = [row for row in expected if row[1] not in ids(id_type, "n2", "n7")]
        store.add([500], ids=ids(id_type, "last"))
        store._flush()
        store.wait()
        store.verify()
        names = store._latest.names
        assert names is not None
        known = names.handles(as_names(ids(id_type, "n2", "n2 too", "n7", "last"), id_type == "string", "ids"))[1]
        assert known.tolist() == [False, True, False, True]
        before = store._segments[0].path.name[:8]
        store.compact()
        after = store._segments[0].path.name[:8]
        assert files_of(path) == [f"{after}.fpnames", f"{after}.fpseg"]
        assert after > before
        store.compact()
        assert files_of(path) == [f"{after}.fpnames", f"{after}.fpseg"]
    read_and_verify(path, sorted([*expected, (500, *ids(id_type, "last"))]))


def test_names_that_a_merge_took_over_are_copied_and_recovered(tmp_path: Path, id_type: Any) -> None:
    path = tmp_path / "s"
    fpstore.create(path, id_type=id_type).close()
    with writer_of(path, growth=1000) as store:
        for number, name in enumerate(["a", "b", "c"] if id_type == "string" else [b"a", b"b", b"\xff"]):
            store.add([number], ids=[name])
            store._flush()
            store.wait()
        expected = rows(store)
        assert len(store._latest.parts[0].names) == 3
        store.copy(tmp_path / "copy")
    read_and_verify(tmp_path / "copy", expected)
    for lost in (None, "catalog.mdb"):
        if lost is not None:
            (path / lost).unlink()
        fpstore.recover(path, tmp_path / f"recovered {lost}")
        read_and_verify(tmp_path / f"recovered {lost}", expected)


def test_many_names_are_flushed_before_there_are_many_rows(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s", id_type="string").close()
    sizes = LivingSizes(flush_name_bytes=1000, max_name_bytes=1500, growth=0)
    with fpstore.Store(tmp_path / "s", "w", sizes=sizes) as store:
        for i in range(40):
            store.add([i << 40], ids=[f"{i:0100d}"])
        store.wait()
        assert len(store._segments) >= 2
        assert sorted(row[1] for row in rows(store)) == [f"{i:0100d}" for i in range(40)]


@pytest.mark.parametrize("ends", ["well", "badly", "after the catalog was read anew"])
def test_names_that_come_during_a_flush_are_found_then_and_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """Also one that is added once more, and one whose row is removed meanwhile."""
    segment_of_rows, expected = renewal.segment_of_rows, [(1, "a"), (2, "again"), (3, "during"), (4, "again")]
    with fpstore.create(tmp_path / "s", id_type="string") as store:
        writer = store._expect_writer()

        def meanwhile(*given: Any) -> Any:
            monkeypatch.undo()
            store.add([3, 4], ids=["during", "again"])
            store.remove(ids=["gone"])
            assert rows(store) == expected
            if ends == "after the catalog was read anew":
                writer._uncertain.marked = True
            if ends == "badly":
                raise OSError("no room")
            return segment_of_rows(*given)

        store.add([1, 2, 5], ids=["a", "again", "gone"])
        monkeypatch.setattr(renewal, "segment_of_rows", meanwhile)
        if ends == "badly":
            with pytest.raises(OSError, match="no room"):
                writer.flush()
        else:
            writer.flush()
        assert rows(store) == expected
        held = [generation.names.count for generation in store._latest.pending_names.generations]
        assert sum(held) == (5 if ends == "badly" else 2)
        store.add([6], ids=["during"])
        for last in (writer.flush, store.compact):
            last()
            assert rows(store) == [*expected, (6, "during")]
        store.verify()
    read_and_verify(tmp_path / "s", [*expected, (6, "during")])


def test_a_build_numbers_names_in_their_order(tmp_path: Path, id_type: Any) -> None:
    keys = np.arange(3000, dtype=np.uint64) << np.uint64(30)
    names = ids(id_type, *(f"doc/{i * 7 % 2000}" for i in range(3000)))
    for given in ((keys, names), (iter([(keys[:1000], names[:1000]), (keys[1000:], names[1000:])]), "row")):
        with fpstore.build(tmp_path / "s", given[0], ids=given[1], id_type=id_type, force=True) as store:
            assert rows(store) == [*zip(keys.tolist(), names, strict=True)]
            store.verify()
            (part,) = store._latest.parts
            (file,) = part.names
            assert file.record.handle_width == 0
        with fpstore.open(tmp_path / "s", "w") as store:
            store.add([5], ids=ids(id_type, "doc/0"))
            store.compact()
            store.verify()


def test_an_empty_build_and_an_empty_answer_have_the_types_of_the_store(tmp_path: Path, id_type: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    with fpstore.build(tmp_path / "s", [], ids=[], id_type=id_type) as store:
        assert rows(store) == []
        empty = store.probe(5)
        assert len(empty) == 0
        store.verify()
    with fpstore.open(tmp_path / "s", "w") as store:
        store.add([5], ids=ids(id_type, "x"))
        full = store.probe(5)
        new = store.add_if_new([FAR[1]], ids=ids(id_type, "y"))
        old = store.add_if_new([5], ids=ids(id_type, "y"))
    wanted = pyarrow.string() if id_type == "string" else pyarrow.binary()
    assert full.schema.field("id").type == wanted
    assert empty.schema == full.schema == full.to_arrow().schema == empty.to_arrow().schema
    assert full.to_arrow()["id"].to_pylist() == ids(id_type, "x")
    assert new.schema == old.schema
    assert new.to_arrow()["match_id"].to_pylist() == [None]
    assert old.to_arrow()["match_id"].to_pylist() == ids(id_type, "x")
    assert full == full[0:]
    assert full != empty


def test_names_are_copied_with_their_store(tmp_path: Path, id_type: Any) -> None:
    with fpstore.create(tmp_path / "s", id_type=id_type) as store:
        store.add(FAR[:2], ids=ids(id_type, "a", "b"))
        store._flush()
        store.add(FAR[2:3], ids=ids(id_type, "a"))
        store.copy(tmp_path / "t")
        expected = rows(store)
    with fpstore.open(tmp_path / "t") as store:
        store.verify()
        assert rows(store) == expected


@pytest.mark.parametrize("lost", [None, "catalog.mdb"])
def test_names_are_recovered(tmp_path: Path, id_type: Any, lost: str | None) -> None:
    given = ids(id_type, "a", "b") if id_type == "string" else [b"a", b"\xff"]
    with fpstore.create(tmp_path / "s", id_type=id_type) as store:
        store.add(FAR[:2], ids=given)
        store._flush()
        if lost is None:
            store.add(FAR[2:3], ids=given[:1])
        expected = rows(store)
    if lost is not None:
        (tmp_path / "s" / lost).unlink()
    recovered = fpstore.recover(tmp_path / "s", tmp_path / "t")
    assert recovered.complete == (lost is None)
    with fpstore.open(tmp_path / "t") as store:
        store.verify()
        assert store.id_type == id_type
        assert rows(store) == expected


def test_rows_whose_names_are_lost_are_told_of_as_lost(tmp_path: Path) -> None:
    with fpstore.build(tmp_path / "s", np.arange(5000) << 40, ids=[f"n{i:05d}" for i in range(5000)], id_type="string"):
        pass
    path = tmp_path / "s" / "segments" / "00000001.fpnames"
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    with fpstore.open(tmp_path / "s") as store, pytest.raises(CorruptStore) as raised:
        store.verify()
    assert [damage.segment for damage in raised.value.damage] == [str(path)]
    recovered = fpstore.recover(tmp_path / "s", tmp_path / "t")
    # The page has parts of two blocks, of 2,048 names each.
    assert recovered.ids_lost == 4096
    assert recovered.rows == 5000 - 4096
    assert {damage.segment for damage in recovered.damage} == {str(path)}
    with fpstore.open(tmp_path / "t") as store:
        store.verify()
    path.unlink()
    assert fpstore.recover(tmp_path / "s", tmp_path / "u").ids_lost == 5000


def test_a_file_of_names_that_is_not_the_one_that_was_meant_is_refused(tmp_path: Path) -> None:
    for name in ("s", "t"):
        fpstore.build(tmp_path / name, FAR[:2], ids=[f"{name}1", f"{name}2"], id_type="string").close()
    path = tmp_path / "s" / "segments" / "00000001.fpnames"
    shutil.copy(tmp_path / "t" / "segments" / "00000001.fpnames", path)
    with pytest.raises(CorruptStore, match=r"names: found .*, which the catalog names"):
        fpstore.open(tmp_path / "s")
    path.unlink()
    with pytest.raises(CorruptStore, match="segment: found none, expected the file that the catalog names"):
        fpstore.open(tmp_path / "s")


@pytest.mark.slow
def test_every_changed_byte_of_the_names_is_found_or_changes_no_answer(tmp_path: Path) -> None:
    fpstore.build(tmp_path / "s", FAR, ids=["a", "ab", "b", "", "zz"], id_type="string").close()
    path = tmp_path / "s" / "segments" / "00000001.fpnames"
    whole = path.read_bytes()
    expected = [
        *zip(
            sorted(FAR), [dict(zip(FAR, ["a", "ab", "b", "", "zz"], strict=True))[f] for f in sorted(FAR)], strict=True
        )
    ]
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(CorruptStore):
            read_and_verify(tmp_path / "s", expected)


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        (["ok", "\ud800"], ValueError, "half of a surrogate pair"),
        (["ok", 5], TypeError, "ids, item 1: found a int, expected a str"),
        (["ok", "x" * 65537], ValueError, "found 65537 bytes, expected at most 65536"),
        (["ok"], ValueError, "1 ids for 2 fingerprints: expected one for each"),
        (None, ValueError, "the store has ids, expected one for each fingerprint"),
    ],
)
def test_what_are_no_names_is_refused_and_changes_nothing(
    tmp_path: Path, given: Any, error: type[Exception], told: str
) -> None:
    with fpstore.create(tmp_path / "s", id_type="string") as store:
        for call in (store.add, store.add_if_new):
            with pytest.raises(error, match=told):
                call([1, 2], ids=given)
        assert store.count("rows") == 0
        assert store.stats().pending_count == 0


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        (([1], {}), ValueError, "ids: found 'row', expected a name for each fingerprint"),
        (([1], {"ids": None}), ValueError, "ids: found None, expected a name for each fingerprint"),
        (([1], {"ids": ["a", "b"]}), ValueError, "2 ids for 1 fingerprints: expected one for each"),
        ((iter([[1]]), {}), TypeError, r"the stream yields \[1\], expected pairs of arrays"),
        ((iter([[1]]), {"ids": ["a"]}), TypeError, "ids of a stream: found a list, expected names in the stream"),
        (([1], {"ids": [1]}), TypeError, "ids, item 0: found a int, expected a str"),
    ],
)
def test_a_build_refuses_what_are_no_names(tmp_path: Path, arguments: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        fpstore.build(tmp_path / "s", arguments[0], **arguments[1], id_type="string")
    assert os.listdir(tmp_path) == []


def test_the_longest_names_come_back(tmp_path: Path) -> None:
    names = ["x" * 65536, "x" * 65535, "y" * 65536]
    with fpstore.create(tmp_path / "s", id_type="string") as store:
        store.add(FAR[:3], ids=names)
        store.compact()
        assert [store.probe(key).id[0] for key in FAR[:3]] == names
        store.verify()


def test_a_row_without_a_name_is_damage(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s", id_type="string") as store:
        store.add(FAR[:1], ids=["a"])
        names = store._latest.names
        assert names is not None
        for handles in ([5], [0, 5]):
            with pytest.raises(CorruptStore, match="found none for handle 5"):
                names.of(np.array(handles, dtype=np.uint64))
        store._flush()
        names = store._latest.names
        assert names is not None
        with pytest.raises(CorruptStore, match="found none for handle 5"):
            names.of(np.array([0, 5], dtype=np.uint64))
        assert names.handles(as_names(["a", "b"], True, "ids"))[1].tolist() == [True, False]


def test_rows_are_looked_up_by_name_in_the_order_of_the_names(tmp_path: Path, id_type: Any) -> None:
    with fpstore.create(tmp_path / "s", id_type=id_type) as store:
        store.add(FAR[:3], ids=ids(id_type, "b", "a", "b"))
        store._flush()
        store.add(FAR[3:4], ids=ids(id_type, "a"))
        found = store.lookup(ids(id_type, "nobody", "b", "a", "a"))
        a, b = ids(id_type, "a", "b")
        assert [tuple(row) for row in found] == sorted(
            [(FAR[1], a), (FAR[3], a), (FAR[0], b), (FAR[2], b)], key=lambda row: (row[1], row[0])
        )
        assert len(store.lookup([])) == 0
        store.remove(ids=[a])
        assert [row.id for row in store.lookup([a, b])] == [b, b]
        with pytest.raises(ValueError, match="found ids that are names, expected numbers"):
            store.max_id()


def test_what_has_a_name_is_replaced_in_one_step(tmp_path: Path, id_type: Any) -> None:
    a, b, c = ids(id_type, "a", "b", "c")
    with fpstore.create(tmp_path / "s", id_type=id_type) as store:
        store.add(FAR[:3], ids=[a, a, b])
        store._flush()
        store.upsert([FAR[3], FAR[4], FAR[0]], ids=[a, c, a])
        assert sorted(rows(store)) == sorted([(FAR[0], a), (FAR[2], b), (FAR[4], c)])
        store.compact()
        store.upsert([], ids=[])
        store.verify()
    with fpstore.open(tmp_path / "s") as store:
        assert sorted(rows(store)) == sorted([(FAR[0], a), (FAR[2], b), (FAR[4], c)])


def test_a_handle_is_never_given_twice(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s", id_type="string") as store:
        store.add(FAR[:1], ids=["a"])
        store.remove(ids=["a"])
        store.compact()
        store.add(FAR[:1], ids=["b"])
        names = store._latest.names
        assert names is not None
        assert names.handles(as_names(["b"], True, "ids"))[0].tolist() == [1]


def test_a_catalog_of_one_moment_with_files_of_another_loses_no_names(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with fpstore.create(path, id_type="string") as store:
        store.add(FAR[:2], ids=["a", "b"])
        store._flush()
        earlier = rows(store)
    (tmp_path / "earlier.mdb").write_bytes((path / "catalog.mdb").read_bytes())
    with writer_of(path, growth=0) as store:  # which merges nothing
        store.add(FAR[2:], ids=["c", "a", "d"])
        store._flush()
        later = rows(store)
    (tmp_path / "later.mdb").write_bytes((path / "catalog.mdb").read_bytes())
    shutil.copy(tmp_path / "earlier.mdb", path / "catalog.mdb")
    with pytest.warns(fpstore.StoreWarning, match="its catalog never named"):
        fpstore.open(path, "w").close()
    read_and_verify(path, earlier)
    aside = sorted(os.listdir(path / "aside"))
    assert [name[8:] for name in aside] == [".fpnames", ".fpseg"]
    for name in aside:
        os.rename(path / "aside" / name, path / "segments" / name)
    shutil.copy(tmp_path / "later.mdb", path / "catalog.mdb")
    with fpstore.open(path, "w") as store:
        assert rows(store) == later
        store.verify()


def test_a_log_whose_names_contradict_each_other_is_damage(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s", id_type="string") as store:
        store.add(FAR[:1], ids=["a"])
        snapshot = store._latest
        change = changes.Change(snapshot.state.next_change, changes.ADDED, (KEY, KEY * 0), as_names(["b"], True, "ids"))
        with pytest.raises(CorruptStore, match=r"change 2: found what is refused \(handle 0 and its name"):
            snapshot.extended([change], snapshot.state)


@pytest.mark.parametrize("compacted", [False, True])
def test_the_nearest_few_and_pairs_of_names_are_in_the_order_of_names(
    tmp_path: Path, id_type: Any, compacted: bool
) -> None:
    """Handles are numbers in the order of arrival, which is not that of the names."""
    source = random.Random(14)
    words = source.sample([f"{letter}{number}" for letter in "zaqm" for number in range(30)], 100)
    names = words if id_type == "string" else [word.encode() for word in words]
    keys = [source.choice([0, 1, 3, 7, 0xF0]) for _ in names]
    with fpstore.create(tmp_path / "s", id_type=id_type) as store:
        for start in range(0, 100, 30):
            store.add(keys[start : start + 30], ids=names[start : start + 30])
            if start == 30:
                store.compact()
        if compacted:
            store.compact()
        for count in (1, 2, 7, 1000):
            expected: list[Any] = sorted(
                ((key ^ 1).bit_count(), key, name) for key, name in zip(keys, names, strict=True)
            )
            expected = [each for each in expected if each[0] <= 3][:count]
            found = store.nearest(1, count, max_distance=3)
            assert [(match.distance, match.fingerprint, match.id) for match in found] == expected
        rows = sorted(zip(names, keys, strict=True))
        pairs = Counter(
            (name, other_name, (key ^ other).bit_count())
            for (name, key), (other_name, other) in combinations(rows, 2)
            if (key ^ other).bit_count() <= 3
        )
        found_pairs = (pair for some in store.pairs(of="ids") for pair in some)
        assert Counter((pair.first_id, pair.second_id, pair.distance) for pair in found_pairs) == pairs
        assert store.count_pairs(of="ids") == pairs.total()
