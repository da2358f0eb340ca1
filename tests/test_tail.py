"""The end of a catalog's log as it lies in the file: what LMDB would say of it, or nothing, whatever the bytes are."""

import ctypes
import mmap
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fpstore
from fpstore._following import Following
from fpstore._pending import PendingIndex
from fpstore._tail import Places, Tail, moved
from fpstore._watch import MappedWords
from fpstore.errors import CorruptStore
from fpstore.living import following, steps
from fpstore.living.catalog import Catalog
from fpstore.living.following import PLACES
from fpstore.living.header import META
from fpstore.living.state import PLACE_CHECKSUM, State
from fpstore.types import Keys

PAGE = 4096
WORDS = (META.size - 8, PAGE + META.size - 8)
AROUND = (b'{"a":1,', b'"b":2,', b'"c":3}')


def text_of(middle: str, transaction: object = 7, around: tuple[bytes, bytes, bytes] = AROUND) -> bytes:
    head, between, end = around
    return head + middle.encode() + between + f'"transaction":{transaction},'.encode() + end


# --- What is the same in two states -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("max_id", "next_change", "expected"),
    [
        ("null", "1", (1, None)),
        ("0", "2", (2, 0)),
        (str(2**64 - 1), str(2**63 - 1), (2**63 - 1, 2**64 - 1)),
        ("10", "1000", (1000, 10)),
    ],
)
def test_what_additions_change_is_read(max_id: str, next_change: str, expected: tuple[int, int | None]) -> None:
    text = text_of(f'"max_id":{max_id},"moving":false,"next_change":{next_change},')
    assert moved(text, AROUND, 7) == expected
    assert moved(text, AROUND, 8) is None
    assert moved(text, (b"", *AROUND[1:]), 7) is None
    for end in range(len(text)):
        assert moved(text[:end], AROUND, 7) is None
    assert moved(text + b" ", AROUND, 7) is None


@pytest.mark.parametrize(
    "middle",
    [
        '"max_id":null,"moving":true,"next_change":5,',
        '"max_id":01,"moving":false,"next_change":5,',
        '"max_id":,"moving":false,"next_change":5,',
        '"max_id":-1,"moving":false,"next_change":5,',
        f'"max_id":{2**64},"moving":false,"next_change":5,',
        f'"max_id":{10**30},"moving":false,"next_change":5,',
        f'"max_id":1,"moving":false,"next_change":{2**63},',
        '"max_id":1,"moving":false,"next_change":05,',
        '"max_id":1,"moving":false,"next_change":5.0,',
        '"max_id": 1,"moving":false,"next_change":5,',
        '"max_id":1,"moving":false,"next_change":5',
        '"moving":false,"next_change":5,',
    ],
)
def test_a_text_that_says_anything_else_is_no_such_state(middle: str) -> None:
    assert moved(text_of(middle), AROUND, 7) is None


def test_a_state_of_no_bytes_is_none() -> None:
    assert moved(b"", (b"", b"", b""), 0) is None


# --- A catalog's file ---------------------------------------------------------------------------------------


class Written:
    """A store whose writer has added batches, and what its catalog's file was before the last few of these."""

    def __init__(self, path: Path, batches: list[int], late: int, id_type: str | None = "uint64") -> None:
        rng = np.random.default_rng(len(batches))
        self.keys = [rng.integers(0, 1 << 64, count, dtype=np.uint64) for count in batches]
        # They rise, by 1 or by 1 to 256; or as they come.
        self.ids = [np.arange(count, dtype=np.uint64) + np.uint64(1000 * i) for i, count in enumerate(batches)]
        for i, ids in enumerate(self.ids[2::3]):
            ids += np.cumsum(rng.integers(0, 1 << 2 ** (i % 4), len(ids)), dtype=np.uint64)
        for ids in self.ids[1::3]:
            rng.shuffle(ids)
        fpstore.create(path, id_type=id_type, plan="paper-4").close()  # type: ignore[arg-type]
        with fpstore.open(path, "w") as store:
            for i, (keys, ids) in enumerate(zip(self.keys, self.ids, strict=True)):
                if i == len(batches) - late:
                    self.before: State = store._latest.state
                store.add(keys, ids=ids if id_type else None)
            self.after: State = store._latest.state
            with Catalog.open(path) as catalog:
                self.after = catalog.state()
        self.with_ids = id_type is not None
        self.late = late
        self.bytes = (path / "catalog.mdb").read_bytes()

    def index(self, capacity: int = 10_000) -> PendingIndex:
        return PendingIndex([0xFFFF << 48], [3], with_ids=self.with_ids, capacity=capacity)

    def follow(self, data: Any, index: PendingIndex, **other: Any) -> tuple[int, int | None] | None:
        given: dict[str, Any] = {
            "places": PLACES,
            "transaction": self.after.transaction,
            "around": self.before.bytes_around,
            "first_change": self.before.first_change,
            "next_change": self.before.next_change,
            "pending": index,
            "live_since": 0,
        }
        return Tail(MappedWords(data, *WORDS), PAGE).follow(**given | other)

    def expect_right(self, found: tuple[int, int | None], index: PendingIndex) -> None:
        assert found == (self.after.next_change, self.after.max_id)
        keys, ids, _ = index.rows(0, index.count)
        assert keys.tolist() == np.concatenate(self.keys[-self.late :]).tolist()
        assert ids is None or ids.tolist() == np.concatenate(self.ids[-self.late :]).tolist()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Records inside of pages and such as have pages of their own."""
    return Written(tmp_path_factory.mktemp("written") / "s", [3, 20, 700, 1, 5, 900, 40], 4)


@pytest.mark.parametrize("id_type", ["uint64", None])
@pytest.mark.parametrize(
    ("batches", "late"),
    [([1], 1), ([5, 6], 1), ([700, 700], 2), ([9000, 1], 1), ([1, 9000], 1), ([1] * 300, 120), ([400] * 90, 10)],
    ids=["first", "small", "large", "after several records", "several records", "many", "a tree of levels"],
)
def test_what_was_added_is_what_follows(tmp_path: Path, batches: list[int], late: int, id_type: str | None) -> None:
    written = Written(tmp_path / "s", batches, late, id_type)
    index = written.index(20_000)
    found = written.follow(written.bytes, index)
    assert found is not None
    written.expect_right(found, index)


def test_the_rows_have_the_numbers_of_their_changes(written: Written) -> None:
    index = written.index()
    assert written.follow(written.bytes, index, live_since=0)
    _, _, positions = index.rows(0, index.count)
    first = written.before.next_change
    counts = [len(keys) for keys in written.keys[-written.late :]]
    assert positions.tolist() == np.repeat(np.arange(first, first + len(counts)), counts).tolist()


def test_where_nothing_was_added_nothing_follows(written: Written) -> None:
    index = written.index()
    found = written.follow(written.bytes, index, next_change=written.after.next_change)
    assert found == (written.after.next_change, written.after.max_id)
    assert index.count == 0


@pytest.mark.parametrize(
    "other",
    [
        {"transaction": 1},
        {"transaction": 2**64 - 1},
        {"first_change": 2},
        {"next_change": 100},
        {"around": (b"{", b"", b"}")},
        {"places": Places(b"state", 0, 3, b"changes")},
        {"places": Places(b"none", PLACE_CHECKSUM, 3, b"changes")},
        {"places": Places(b"changes", PLACE_CHECKSUM, 3, b"changes")},
        {"places": Places(b"state", PLACE_CHECKSUM, 4, b"changes")},
        {"places": Places(b"state", PLACE_CHECKSUM, 3, b"removals")},
        {"places": Places(b"state", PLACE_CHECKSUM, 3, b"state")},
        {"places": Places(b"", 0, 3, b"")},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_state_than_the_one_expected_is_none(written: Written, other: dict[str, Any]) -> None:
    index = written.index()
    assert written.follow(written.bytes, index, **other) is None
    assert index.count == 0


def test_rows_without_room_or_of_too_many_bits_or_of_another_kind_are_left_to_others(written: Written) -> None:
    index = written.index(capacity=945)  # 946 are new
    assert written.follow(written.bytes, index) is None
    narrow = PendingIndex([0xFF00], [3], with_ids=True, capacity=10_000, bits=16)
    assert written.follow(written.bytes, narrow) is None
    without = PendingIndex([0xFF00], [3], with_ids=False, capacity=10_000)
    assert written.follow(written.bytes, without) is None
    later = written.index()
    later.append(written.keys[0], written.ids[0], 10**6)
    assert written.follow(written.bytes, later) is None
    assert (index.count, narrow.count, without.count, later.count) == (0, 0, 0, 3)


TOP = 2**64 - 1


@pytest.mark.parametrize(
    ("words", "is_followed"),
    [
        ([5, 0], True),
        ([TOP - 69, 0], True),
        ([TOP - 70, 1, 0, 1 << 4], True),
        ([TOP - 69, 1, 0, 1 << 4], False),
        ([TOP - 68, 0], False),
        ([5, 3, *[0] * 4], False),
        ([5, 32, *[0] * 35], False),
        ([5, 0, 0], False),
        ([5, 1, 0], False),
        ([5], False),
        ([], False),
    ],
)
def test_ids_beyond_the_last_number_or_of_steps_that_are_none_are_left_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[int], is_followed: bool
) -> None:
    as_words = np.array(words, dtype=np.uint64)
    monkeypatch.setattr(steps, "packed", lambda ids: as_words if len(ids) == 70 else None)
    written = Written(tmp_path / "s", [3, 70], 1)
    index = written.index()
    assert (written.follow(written.bytes, index) is not None) is is_followed
    if not is_followed:
        assert index.count == 0
        with pytest.raises(CorruptStore, match=r"70 rising ids|a record of kind 5"):
            fpstore.open(tmp_path / "s")
        return
    found = index.rows(0, 70)[1]
    assert found is not None
    assert found.tolist() == steps.unpacked(as_words, 70).tolist()


@pytest.mark.parametrize(("ahead", "stands"), [(0, True), (1, True), (2, False), (5, False)])
def test_what_a_writer_may_write_over_by_now_is_none(written: Written, ahead: int, stands: bool) -> None:
    """The transaction that does so is three later, and begins when the one before it is in the file."""
    data = bytearray(written.bytes)
    newest = written.after.transaction
    other = WORDS[(newest + 1) % 2]
    data[other : other + 8] = (newest + ahead).to_bytes(8, "little")
    index = written.index()
    assert (written.follow(bytes(data), index) is not None) is stands
    assert (index.count > 0) is stands


def test_a_file_cut_short_is_none_or_the_same(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for pages in range(2, len(written.bytes) // PAGE):
        index = written.index()
        if (found := written.follow(written.bytes[: pages * PAGE], index)) is not None:
            written.expect_right(found, index)
        # Cut while it is mapped, which is a signal.
        path.write_bytes(written.bytes)
        with path.open("r+b") as opened:
            mapping = mmap.mmap(opened.fileno(), len(written.bytes), access=mmap.ACCESS_READ)
            index, tail = written.index(), Tail(MappedWords(mapping, *WORDS), PAGE)
            os.truncate(path, pages * PAGE)
            around, next_change = written.before.bytes_around, written.before.next_change
            found = tail.follow(PLACES, written.after.transaction, around, 1, next_change, index, 0)
        if found is not None:
            written.expect_right(found, index)
        else:
            assert index.count == 0


def used_bytes(written: Written) -> np.ndarray[Any, Any]:
    """Where anything lies in the pages: not the zeros behind it."""
    return np.flatnonzero(np.frombuffer(written.bytes, dtype=np.uint8))


def expect_none_or_right(written: Written, data: bytes) -> bool:
    index = written.index()
    found = written.follow(data, index)
    if found is None:
        assert index.count == 0
        return False
    written.expect_right(found, index)
    return True


@given(st.data())
@settings(max_examples=300)
def test_bytes_of_anything_are_none_or_what_was_added(written: Written, data: st.DataObject) -> None:
    changed = bytearray(written.bytes)
    places = used_bytes(written)
    for _ in range(data.draw(st.integers(1, 4))):
        at = int(places[data.draw(st.integers(0, len(places) - 1))])
        changed[at : at + 2] = data.draw(st.binary(min_size=2, max_size=2))
    expect_none_or_right(written, bytes(changed))


def a_page_before_nothing(data: bytes) -> Any:
    """uint8[bytes] in memory that processes share, behind which none may read."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS
    place = libc.mmap(None, len(data) + PAGE, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    assert libc.mprotect(place + len(data), PAGE, 0) == 0
    shared = np.ctypeslib.as_array((ctypes.c_uint8 * len(data)).from_address(place))
    shared[:] = np.frombuffer(data, dtype=np.uint8)
    return shared


@pytest.mark.slow
def test_a_length_that_changes_after_it_was_compared_leads_nowhere(tmp_path: Path) -> None:
    """Another process changes the lengths of keys all the while: two seconds, in which a mistake may stay unseen."""
    written = Written(tmp_path / "s", [2] * 200, 150)
    shared = a_page_before_nothing(written.bytes)
    pages = shared.reshape(-1, PAGE)
    words = pages.view(np.uint16)
    # Where the lengths of keys stand: 6 bytes into each node, whose places are in the page's offsets.
    lengths = [
        (page, (int(at) + 6) // 2)
        for page in np.flatnonzero(np.isin(words[:, 5], [1, 2]))
        for at in words[page, 8 : int(words[page, 6]) // 2]
        if at % 2 == 0 and at < PAGE - 8
    ]
    rows, columns = (np.array(numbers) for numbers in zip(*lengths, strict=True))
    right = words[rows, columns].copy()
    child = os.fork()
    if child == 0:
        while True:
            words[rows, columns] = 0xFFF0
            words[rows, columns] = right
    try:
        index, answers = written.index(), {True: 0, False: 0}
        end = time.monotonic() + 2
        while time.monotonic() < end:
            index = written.index()
            found = written.follow(shared, index)
            answers[found is None] += 1
            if found is not None:
                written.expect_right(found, index)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert answers[True]
    assert answers[False]


@pytest.mark.slow
def test_whatever_byte_is_another_it_is_none_or_what_was_added(written: Written) -> None:
    rng = np.random.default_rng(3)
    outcomes = {True: 0, False: 0}
    structure = [at for at in used_bytes(written).tolist() if at % PAGE < 200]
    for at in [*structure, *rng.choice(used_bytes(written), 4000).tolist()]:
        for bits in (1 << int(rng.integers(0, 8)), 0xFF):
            changed = bytearray(written.bytes)
            changed[at] ^= bits
            outcomes[expect_none_or_right(written, bytes(changed))] += 1
    assert min(outcomes.values()) > 100


# --- A reader -----------------------------------------------------------------------------------------------


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each state that a reader came to was one that it followed to."""
    told: list[bool] = []

    class Spied(Following):
        def read(self, stamp: tuple[int, int]) -> bool:
            told.append(super().read(stamp))
            return told[-1]

    monkeypatch.setattr(following, "Following", Spied)
    return told


def add(store: fpstore.Store) -> None:
    count = store.count("rows")
    keys = np.random.default_rng(count).integers(0, 1 << 64, 50, dtype=np.uint64)
    ids: Any = np.arange(count, count + 50, dtype=np.uint64)
    store.add(keys, ids=[str(one) for one in ids] if store.id_type == "string" else ids if store.id_type else None)


STEPS: dict[str, Callable[[fpstore.Store], object]] = {
    "add": add,
    "remove": lambda store: store.remove(fingerprints=next(store.rows())[0][:3]),
    "flush": lambda store: store._flush(),
    "compact": lambda store: store.compact(),
}


@pytest.mark.parametrize(
    ("id_type", "step", "is_followed"),
    [
        ("uint64", "add", True),
        (None, "add", True),
        ("string", "add", False),
        ("uint64", "remove", False),
        ("uint64", "flush", False),
        ("uint64", "compact", False),
    ],
)
def test_a_reader_follows_additions_without_lmdb_and_the_rest_with_it(
    tmp_path: Path, followed: list[bool], id_type: Any, step: str, is_followed: bool
) -> None:
    fpstore.create(tmp_path / "s", id_type=id_type).close()
    with fpstore.open(tmp_path / "s", "w") as writer:
        add(writer)
        with fpstore.open(tmp_path / "s") as reader:
            for _ in range(2):
                followed.clear()
                STEPS[step](writer)
                assert reader.count("rows") == writer.count("rows")
                assert any(followed) is is_followed
                assert list(map(list, reader.rows())) == list(map(list, writer.rows()))
                state, own = reader._latest.state, writer._latest.state
                assert state == own
                add(writer)
                assert reader.count("rows") == writer.count("rows")


def follow_thousands(writer: fpstore.Store, reader: fpstore.Store, count: int) -> Keys:
    """Have a reader follow so many commits of 1,000 rows; their keys, and 1,000 that may be added next."""
    keys = np.random.default_rng(1).integers(0, 1 << 64, 1_000 * (count + 1), dtype=np.uint64)
    for start in range(0, 1_000 * count, 1_000):
        writer.add(keys[start:][:1_000], ids=np.arange(start, start + 1_000, dtype=np.uint64))
        assert len(reader.probe(int(keys[start]))) == 1
    return keys


def test_pages_for_as_much_as_came_are_made_ready_by_queries_behind_the_first(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s").close()
    with fpstore.open(tmp_path / "s", "w") as writer, fpstore.open(tmp_path / "s") as reader:
        keys = follow_thousands(writer, reader, 10)
        tail, ready = reader._living._catalog.tail, []
        used = tail.next_page
        assert (tail.ready_pages, 1 <= tail.wanted_pages - used <= 16) == (used, True)
        for _ in range(10):
            reader.probe(1)
            ready.append(tail.ready_pages - used)
        wanted = tail.wanted_pages - used
        assert ready == [min(2 * asked, wanted) for asked in range(1, 11)]
        # The next rows come to them.
        writer.add(keys[10_000:], ids=np.arange(10_000, 11_000, dtype=np.uint64))
        assert len(reader.probe(int(keys[10_999]))) == 1
        assert used < tail.next_page <= used + wanted + 1
        assert tail.next_page <= tail.ready_pages
        # Never more than the file has.
        large = np.arange(200_000, dtype=np.uint64)
        writer.add(large, ids=large)
        assert len(reader.probe(5, max_distance=0)) == 1
        tail = reader._living._catalog.tail
        for _ in range(20):
            reader.probe(1)
        assert tail.ready_pages * 4096 <= (tmp_path / "s" / "catalog.mdb").stat().st_size


def test_a_page_that_cannot_be_had_is_left(tmp_path: Path) -> None:
    """On a full disk in memory there is no room for a page that was never written; this one is cut off instead."""
    fpstore.create(tmp_path / "s").close()
    with fpstore.open(tmp_path / "s", "w") as writer, fpstore.open(tmp_path / "s") as reader:
        keys = follow_thousands(writer, reader, 6)
        tail, catalog = reader._living._catalog.tail, tmp_path / "s" / "catalog.mdb"
        whole = catalog.stat().st_size
        os.truncate(catalog, tail.next_page * 4096)
        try:
            for _ in range(10):
                assert len(reader.probe(int(keys[0]))) == 1
        finally:
            os.truncate(catalog, whole)
        assert tail.ready_pages == tail.wanted_pages > tail.next_page
        assert tail.words.read() is not None


def test_a_reader_goes_on_where_the_file_has_grown(tmp_path: Path, followed: list[bool]) -> None:
    fpstore.create(tmp_path / "s").close()
    keys = np.arange(60_000, dtype=np.uint64)
    with fpstore.open(tmp_path / "s", "w") as writer, fpstore.open(tmp_path / "s") as reader:
        for start in range(0, 60_000, 2_000):
            writer.add(keys[start:][:2_000], ids=keys[start:][:2_000][::-1])
            assert reader.count("rows") == start + 2_000
        assert (tmp_path / "s" / "catalog.mdb").stat().st_size > 1 << 20
    assert followed.count(False) < 10 < followed.count(True)


def test_additions_after_a_removal_are_followed_and_live(tmp_path: Path, followed: list[bool]) -> None:
    fpstore.create(tmp_path / "s").close()
    with fpstore.open(tmp_path / "s", "w") as writer, fpstore.open(tmp_path / "s") as reader:
        writer.add([5, 6], ids=[1, 2])
        writer.remove(ids=[1, 2])
        assert (len(reader.probe(5)), len(reader.probe(6))) == (0, 0)
        followed.clear()
        writer.add([5, 5], ids=[1, 1])
        assert (reader.probe(5).id.tolist(), reader.probe(6).id.tolist()) == ([1], [1])  # type: ignore[union-attr]
        assert followed == [True]
