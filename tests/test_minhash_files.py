"""Files of sketches: every byte of them, what is read back, and what damage becomes of."""

import contextlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from minhashes import BANDS, ROWS, signatures

import fpstore
from fpstore import minhash
from fpstore.disk import Folder, Place
from fpstore.errors import CorruptStore, UnsupportedVersion
from fpstore.format import Footer
from fpstore.segment.reader import Segment
from fpstore.sketches import writer as writers
from fpstore.sketches.kept import Kept
from fpstore.sketches.layout import RECORD_BYTES, SketchesRecord
from fpstore.sketches.pending import PendingSketches, in_order, merged_sketches
from fpstore.sketches.reader import SketchesReader, verify_sketches
from fpstore.sketches.writer import SketchesWriter

KEPT = Kept(8, 8)


def write(path: Path, handles: list[int], sketches: list[int], kept: Kept = KEPT) -> Path:
    with SketchesWriter(path, path.parent, kept) as writer:
        for start in range(0, len(handles), 3):  # in pieces
            own = slice(start, start + 3)
            words = np.array(sketches[own], dtype=np.uint64).reshape(-1, kept.words)
            writer.add(np.array(handles[own], dtype=np.uint64), words)
        writer.finish()
    return path


def read_all(path: Path) -> list[tuple[int, int]]:
    with contextlib.closing(SketchesReader(path)) as reader:
        verify_sketches(reader)
        return [
            (int(handle), int(sketch[0]))
            for handles, sketches in reader.chunks()
            for handle, sketch in zip(handles, sketches, strict=True)
        ]


def test_a_small_file_has_the_bytes_worked_through_in_the_format(tmp_path: Path) -> None:
    data = write(tmp_path / "a", [7, 7, 9], [1, 5, 2]).read_bytes()
    assert data[:64] == b"FPSTORE\n" + struct.pack("<II", 3, 3) + bytes(48)
    assert data[64:128] == struct.pack("<3Q", 1, 5, 2) + bytes(40)
    assert data[128:192] == struct.pack("<3I", 0, 0, 2) + bytes(52)
    assert data[192:512] == struct.pack("<3Q5I", 3, 7, 9, 4, 1, 8, 8, 0) + bytes(276)
    assert data[512:516] == struct.pack("<I", crc32c(data[:512]))
    in_turn = write(tmp_path / "b", [7, 8, 9], [1, 5, 2]).read_bytes()
    assert in_turn[128:448] == struct.pack("<3Q5I", 3, 7, 9, 0, 1, 8, 8, 0) + bytes(276)
    far = write(tmp_path / "c", [7, 8, 7 + 2**32], [1, 5, 2]).read_bytes()
    assert far[128:152] == struct.pack("<3Q", 0, 1, 2**32)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, 2**32, 2**40, 2**64 - 1]), st.integers(0, 3))))
def test_what_is_found_is_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]]
) -> None:
    wanted = sorted({*rows, (5, 5)})
    path = write(tmp_path_factory.mktemp("sketches") / "a", *map(list, zip(*wanted, strict=True)))  # type: ignore[arg-type]
    assert read_all(path) == wanted
    asked = np.array([2**64 - 1, 0, 4, 5, 2, 2**40], dtype=np.uint64)
    pending = PendingSketches(1)
    for number, (handle, sketch) in enumerate(wanted):
        pending.add(np.array([handle], dtype=np.uint64), np.array([[sketch]], dtype=np.uint64), number)
    with contextlib.closing(SketchesReader(path)) as reader:
        for of, sketches in (reader.find(asked), pending.find(asked, len(wanted))[0]):
            found = [(int(asked[which]), int(sketch[0])) for which, sketch in zip(of, sketches, strict=True)]
            assert sorted(found) == [row for row in wanted if row[0] in asked.tolist()]
            assert [which for which, _ in found] == [int(asked[which]) for which in sorted(of.tolist())]
        places = reader.places(asked)
        assert [place >= 0 for place in places.tolist()] == [handle in dict(wanted) for handle in asked.tolist()]


def test_handles_that_do_not_fit_in_memory_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "HELD_HANDLES", 4)
    rows = [(handle * 3, handle) for handle in range(20)]
    assert read_all(write(tmp_path / "a", *map(list, zip(*rows, strict=True)))) == rows  # type: ignore[arg-type]


@pytest.mark.parametrize("at_once", [1, 2, 3])
@pytest.mark.parametrize("sketches", [[1, 5, 4], [1, 5, 5], [5, 5, 6]])
def test_sketches_out_of_order_or_twice_are_refused_wherever_pieces_meet(
    sketches: list[int], at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fpstore.sketches.reader.ROWS_AT_ONCE", at_once)
    assert read_all(write(tmp_path / "a", [7, 7, 7], [1, 4, 5])) == [(7, 1), (7, 4), (7, 5)]
    with pytest.raises(CorruptStore, match="out of order"):
        read_all(write(tmp_path / "b", [7, 7, 7], sketches))


def test_ids_that_the_segment_does_not_list_are_written(tmp_path: Path) -> None:
    for name, ids in (("a", [3, 1 << 40, 1 << 63]), ("b", [3, 1 << 41, 1 << 63]), ("in turn", [3, 4, 5])):
        own = np.array(ids, dtype=np.uint64)
        minhash.build(tmp_path / name, signatures(4, 3), ids=own, bands=BANDS, rows_per_band=ROWS).close()
    handles, words = np.array([3, 3, 1 << 40, 1 << 63], dtype=np.uint64), np.arange(4, dtype=np.uint64)[:, None]
    for name, asked in (("a", handles), ("b", handles), ("in turn", handles), ("a", handles[:3]), ("a", handles[2:])):
        path = tmp_path / "file"
        with contextlib.closing(Segment(tmp_path / name / "segments" / "00000001.fpseg")) as segment:
            with SketchesWriter(path, tmp_path, KEPT) as writer:
                writer.add(asked, words[: len(asked)])
                writer.finish(segment)
            with contextlib.closing(SketchesReader(path, segment)) as reader:
                assert reader.record.listed == (name == "a" and len(asked) == 4)
                assert [ids.tolist() for ids, _ in reader.chunks()] == [asked.tolist()]
                assert reader.find(np.array([7, 1 << 40], dtype=np.uint64)).of.tolist() == [1]
        path.unlink()


@pytest.mark.parametrize(("again", "width"), [(0, 0), (1, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 4)])
def test_of_listed_ids_so_many_bytes_are_written_as_sketches_come_again(tmp_path: Path, again: int, width: int) -> None:
    ids = np.array([3, 1 << 40, 1 << 63], dtype=np.uint64)
    minhash.build(tmp_path / "s", signatures(4, 3), ids=ids, bands=BANDS, rows_per_band=ROWS).close()
    handles, words = np.repeat(ids, [1, again + 1, 1]), np.arange(again + 3, dtype=np.uint64)[:, None]
    with contextlib.closing(Segment(tmp_path / "s" / "segments" / "00000001.fpseg")) as segment:
        with SketchesWriter(tmp_path / "a", tmp_path, KEPT) as writer:
            writer.add(handles, words)
            writer.finish(segment)
        with contextlib.closing(SketchesReader(tmp_path / "a", segment)) as reader:
            assert (reader.record.listed, reader.record.handle_bytes) == (1, width)
            assert np.concatenate([own for own, _ in reader.chunks()]).tolist() == handles.tolist()
            found = reader.find(ids[::-1].copy())
            assert found.of.tolist() == [0, *[1] * (again + 1), 2]
            assert found.sketches[:, 0].tolist() == [again + 2, *range(1, again + 2), 0]
            assert reader.places(ids).tolist() == [0, 1, again + 2]


def test_a_file_beside_a_segment_that_lists_other_ids_is_refused(tmp_path: Path) -> None:
    for count in (3, 4):
        own = np.arange(count, dtype=np.uint64) << np.uint64(40)
        minhash.build(tmp_path / f"{count}", signatures(4, count), ids=own, bands=BANDS, rows_per_band=ROWS).close()
    path = tmp_path / "3" / "segments" / "00000001.fpsketch"
    with (
        contextlib.closing(Segment(tmp_path / "4" / "segments" / "00000001.fpseg")) as other,
        pytest.raises(CorruptStore, match=f"{path}: sketches record, handle_last: found 2, expected 3, as the seg"),
    ):
        SketchesReader(path, other)
    with pytest.raises(CorruptStore, match="handle_last: found 2, expected -1, as the segment lists 0"):
        SketchesReader(path)


def test_what_cannot_be_written_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="handles of sketches: found some out of order, expected them sorted"):
        write(tmp_path / "a", [1, 2, 3, 2], [1, 1, 1, 1])
    with pytest.raises(ValueError, match="handles of sketches: found some out of order, expected them sorted"):
        write(tmp_path / "a", [2, 1], [1, 1])
    with pytest.raises(ValueError, match="a file of sketches: found none, expected one sketch or more"):
        write(tmp_path / "a", [], [])
    with pytest.raises(ValueError, match="bits of a value: found 3, expected one of 32, 16, 8, 4, 2, 1"):
        Kept(8, 3)
    assert [*tmp_path.iterdir()] == []


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1), max_size=4), st.integers(1, 4))
def test_sources_are_merged_in_order_each_once(sources: list[list[tuple[int, int]]], piece: int) -> None:
    def chunks(rows: list[tuple[int, int]]) -> Any:
        for start in range(0, len(rows), piece):
            handles, sketches = np.array(rows[start : start + piece], dtype=np.uint64).T
            yield handles, sketches[:, None]

    found = merged_sketches([chunks(sorted({*rows})) for rows in sources])
    rows = [(int(a), int(b[0])) for handles, sketches in found for a, b in zip(handles, sketches, strict=True)]
    assert rows == sorted({row for own in sources for row in own})
    if sources:
        handles, words = np.array(sources[0], dtype=np.uint64).T
        ordered, own = in_order(handles, words[:, None])
        assert [*zip(ordered.tolist(), own[:, 0].tolist(), strict=True)] == sorted({*sources[0]})


# --- Damage ---


@pytest.mark.slow
@pytest.mark.parametrize("handles", [[7, 8, 9], [7, 7, 90]])
def test_every_changed_byte_and_every_cut_is_found(tmp_path: Path, handles: list[int]) -> None:
    data = write(tmp_path / "good", handles, [1, 5, 2]).read_bytes()
    bad = tmp_path / "bad"
    for damaged in [
        *(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))),
        *(data[:length] for length in range(0, len(data), 7)),
        data + b"\0",
    ]:
        bad.write_bytes(damaged)
        with pytest.raises((CorruptStore, UnsupportedVersion), match=r"bad: "):
            read_all(bad)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"words": 0}, "words: found 0, expected 1 to 4096"),
        ({"count": 2**60}, "count: found 1152921504606846976, expected 1 to "),
        ({"count": 0}, "count: found 0, expected 1 to "),
        ({"handle_last": 6}, "handle_last: found 6, expected 7 to "),
        ({"handle_last": 10}, "handle_last: found 4, expected 3"),
        ({"handle_bytes": 8}, "handle_bytes: found 8, expected 4"),
        ({"handle_bytes": 4}, "summary_offset: found 128, expected 192"),
        ({"listed": 2}, "listed: found 2, expected 0 to 1"),
        ({"listed": 1}, "handle_base: found 7, expected 0"),
        ({"listed": 1, "handle_base": 0}, "handle_last: found 9, expected 0 to 2"),
        ({"listed": 1, "handle_base": 0, "handle_last": 1}, "handle_bytes: found 0, expected 1"),
        ({"listed": 1, "handle_base": 0, "handle_last": 2, "handle_bytes": 4}, "handle_bytes: found 4, expected 0"),
    ],
)
def test_a_record_with_a_number_that_cannot_be_is_refused(changed: dict[str, int], message: str) -> None:
    fields = {"count": 3, "handle_base": 7, "handle_last": 9, "handle_bytes": 0, "words": 1, "values": 8, "bits": 8}
    footer = Footer.locate(128, 1, 0)
    assert SketchesRecord.unpack(SketchesRecord(**fields).pack(), footer) == SketchesRecord(**fields)
    with pytest.raises(CorruptStore, match=f"sketches record, {message}"):
        SketchesRecord.unpack(SketchesRecord(**fields | changed).pack(), footer)
    with pytest.raises(CorruptStore, match="expected 320, with zeros after 44"):
        SketchesRecord.unpack(SketchesRecord(**fields).pack()[:-1] + b"\1", footer)
    with pytest.raises(CorruptStore, match="sketches record: found 319 bytes"):
        SketchesRecord.unpack(SketchesRecord(**fields).pack()[: RECORD_BYTES - 1], footer)


def test_a_damaged_file_of_sketches_is_told_and_no_estimate_is_given(tmp_path: Path) -> None:
    own = signatures(1, 2000)
    minhash.build(tmp_path / "s", own, bands=BANDS, rows_per_band=ROWS).close()
    path = tmp_path / "s" / "segments" / "00000001.fpsketch"
    data = bytearray(path.read_bytes())
    data[64 + 32 * 1000] ^= 16
    path.write_bytes(data)
    with minhash.open(tmp_path / "s") as store:
        store.probe(own[0])
        with pytest.raises(CorruptStore, match=r"00000001\.fpsketch: sketches, page at byte"):
            store.probe_many(own)
        with pytest.raises(CorruptStore, match=r"00000001\.fpsketch: sketches, page at byte"):
            store.verify()
        with pytest.raises(CorruptStore, match=r"page at byte"):
            store.copy(tmp_path / "copy")
    with minhash.open(tmp_path / "s", "w") as store:
        store.remove(ids=[3])
        with pytest.raises(CorruptStore, match=r"00000001\.fpsketch: sketches, page at byte"):
            store.compact()
    path.unlink()
    with pytest.raises(CorruptStore, match="expected the file that the catalog names"):
        minhash.open(tmp_path / "s")


def test_a_file_of_other_sketches_is_refused(tmp_path: Path) -> None:
    own = signatures(2, 50)
    for name, seed in (("a", 2), ("b", 3)):
        minhash.build(tmp_path / name, signatures(seed, 50), bands=BANDS, rows_per_band=ROWS).close()
    places = [tmp_path / name / "segments" / "00000001.fpsketch" for name in "ab"]
    good = places[0].read_bytes()
    places[0].write_bytes(places[1].read_bytes())
    with pytest.raises(CorruptStore, match=r"sketches: found .* which the catalog names"):
        minhash.open(tmp_path / "a")
    places[0].write_bytes(good)
    with minhash.open(tmp_path / "a") as store:
        assert len(store.probe(own[0]))


@pytest.mark.parametrize(
    ("ids", "message"),
    [([0, 1, 3], "none for id 2, expected one"), ([0, 1, 2, 3], "found 4 ids, expected 3, as have rows")],
)
def test_sketches_of_other_ids_than_those_of_the_rows_are_found_by_verify(
    tmp_path: Path, ids: list[int], message: str
) -> None:
    from fpstore.living.live import Live
    from fpstore.living.removals import Removals
    from fpstore.living.sketched import sketches_damage

    minhash.build(tmp_path / "s", signatures(4, 3), bands=BANDS, rows_per_band=ROWS).close()
    other = write(tmp_path / "other", ids, [1] * len(ids))
    segment = Segment(tmp_path / "s" / "segments" / "00000001.fpseg")
    with contextlib.closing(Live(segment, 1, Removals.none(), sketches=SketchesReader(other))) as part:
        (damage,) = sketches_damage(part)
        assert message in str(damage)


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Any:
        yield signatures(1, 10), [f"n{i}" for i in range(10)]
        raise OSError("the input ends")

    with pytest.raises(OSError, match="the input ends"):
        minhash.build(tmp_path / "s", broken(), id_type="string", bands=BANDS, rows_per_band=ROWS)
    assert [*tmp_path.iterdir()] == []
    fpstore.build(tmp_path / "s", [1, 2]).close()
    with pytest.raises(OSError, match="the input ends"):
        minhash.build(tmp_path / "s", broken(), id_type="string", bands=BANDS, rows_per_band=ROWS, force=True)
    assert [path.name for path in (tmp_path / "s" / "segments").iterdir()] == ["00000001.fpseg"]
    with fpstore.open(tmp_path / "s") as store:
        assert store.count() == 2
    with Folder.open(tmp_path) as folder, pytest.raises(FileExistsError):
        SketchesWriter(Place(folder, "s"), tmp_path, KEPT)
