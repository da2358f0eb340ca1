"""Ids that come again with many fingerprints are listed once, and rows have their places in the list."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import resealed
from hypothesis import given
from hypothesis import strategies as st
from minhashes import BANDS, ROWS, VALUES, Model, signatures

import fpstore
from fpstore import minhash
from fpstore._probe import places_of
from fpstore.errors import CorruptStore
from fpstore.format import SegmentRecord
from fpstore.minhash.store import MinHashStore
from fpstore.segment import listing
from fpstore.segment.listing import Listing, listed_ids, places_in
from fpstore.segment.reader import Segment
from fpstore.segment.verify import verify_segment
from fpstore.types import Keys

SETTINGS: dict[str, Any] = {"bands": BANDS, "rows_per_band": ROWS}
ANY_IDS = np.random.default_rng(1).integers(0, 1 << 64, 400, dtype=np.uint64)


@given(st.lists(st.integers(0, 60), max_size=80), st.lists(st.integers(0, 61), max_size=80))
def test_the_place_of_an_id_is_where_it_is_or_none(held: list[int], asked: list[int]) -> None:
    listed = np.array(sorted({*held}), dtype=np.uint64) * np.uint64(1 << 58)
    ids = np.array(asked, dtype=np.uint64) * np.uint64(1 << 58)
    order = listed.tolist()
    wanted = [order.index(each) if each in order else -1 for each in ids.tolist()]
    assert places_of(listed, ids).tolist() == wanted


@given(
    st.lists(st.lists(st.integers(0, 1 << 40), max_size=30), max_size=8),
    st.integers(1, 9),
    st.integers(20, 64),
    st.booleans(),
)
def test_a_list_has_each_id_once_and_is_there_where_it_takes_less(
    chunks: list[list[int]], times: int, width: int, sketched: bool
) -> None:
    rows = [np.array(chunk, dtype=np.uint64) for chunk in chunks] * times
    distinct, count = sorted({each for chunk in chunks for each in chunk}), sum(map(len, rows))
    beside = 0 if not sketched else 32 if width <= 32 else 64  # bits of an id, which the sketches would have
    saved = count * (width - max(len(distinct) - 1, 0).bit_length()) - (64 - beside) * len(distinct)
    found = listed_ids(iter(rows), count, width, Listing(sketched))
    assert (None if found is None else found.tolist()) == (distinct if saved > 0 else None)
    if found is not None:
        for chunk in rows:
            assert found[places_in(found, chunk).astype(np.int64)].tolist() == chunk.tolist()


def test_a_list_is_no_longer_than_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [np.arange(50, dtype=np.uint64)] * 20
    assert listed_ids(iter(rows), 1000, 64, Listing(sketched=False)) is not None
    monkeypatch.setattr(listing, "MOST_LISTED", 49)
    assert listed_ids(iter(rows), 1000, 64, Listing(sketched=True)) is None
    monkeypatch.setattr(listing, "WAITING", 10)
    reads = iter(rows)
    assert listed_ids(reads, 1000, 64, Listing(sketched=False)) is None
    assert next(reads, None) is not None  # as soon as it is known


def found_by(store: MinHashStore, queries: Any) -> list[list[tuple[Any, float, int]]]:
    answer: list[list[tuple[Any, float, int]]] = [[] for _ in queries]
    for match in store.probe_many(queries):
        answer[match.query].append((match.id, match.similarity, match.shared_bands))
    return answer


@pytest.mark.parametrize("kept", [True, False])
def test_a_store_of_any_ids_answers_as_a_plain_model_through_all_its_life(tmp_path: Path, kept: bool) -> None:
    own, model = signatures(2, 400), Model()
    minhash.create(tmp_path / "s", values=VALUES, keep_signatures=kept, **SETTINGS).close()

    def expect(store: MinHashStore) -> None:
        found = found_by(store, own[::9])
        wanted = [model.similar(query) for query in own[::9]]
        if kept:
            assert found == wanted
        else:
            bands = [[sorted((row[0], row[2]) for row in rows) for rows in each] for each in (found, wanted)]
            assert bands[0] == bands[1]
        store.verify()

    with minhash.open(tmp_path / "s", "w") as store:
        for start in (0, 100, 200):
            store.add(own[start : start + 100], ids=ANY_IDS[start : start + 100])
            model.add(own[start : start + 100], ANY_IDS[start : start + 100].tolist())
            store._flush()
            expect(store)
        assert all(segment.record.list_count for segment in store._segments)
        gone = ANY_IDS[50:250:3]
        store.remove(ids=gone)
        model.remove(gone.tolist())
        expect(store)
        store.upsert(own[300:350], ids=ANY_IDS[100:150])
        model.upsert(own[300:350], ANY_IDS[100:150].tolist())
        expect(store)
        store.compact()
        expect(store)
        assert store.count() == len(model.held)
        (segment,) = store._segments
        assert segment.record.list_count == len(model.held)
        pairs = {(min(a, b), max(a, b)): shared for a, b, _, shared in (row for part in store.pairs() for row in part)}
        assert pairs == {names: shared for names, (_, shared) in model.pairs().items()}
        store.copy(tmp_path / "copy")
    with minhash.open(tmp_path / "copy") as store:
        expect(store)


def test_sketches_of_ids_that_are_listed_have_their_places(tmp_path: Path) -> None:
    own, model = signatures(2, 400), Model()
    with minhash.create(tmp_path / "s", values=VALUES, **SETTINGS) as store:
        for again, end in ((0, 200), (20, 400)):  # an id that comes again has two signatures
            ids = np.concatenate([ANY_IDS[:again], ANY_IDS[200 if again else 0 : end]])
            signed = np.concatenate([own[100 : 100 + again], own[200 if again else 0 : end]])
            store.add(signed, ids=ids)
            model.add(signed, ids.tolist())
            store.compact()
            (part,) = store._latest.parts
            assert part.sketches is not None
            record = part.sketches.record
            assert (record.listed, record.handle_base, record.handle_last) == (1, 0, end - 1)
            assert (record.count, record.handle_bytes) == (end + again, 1 if again else 0)
            places = part.segment.places(np.concatenate([ANY_IDS, ANY_IDS + np.uint64(1)]))
            order = np.sort(ANY_IDS[:end]).tolist()
            assert places.tolist() == [
                order.index(each) if each in order else -1
                for each in [*ANY_IDS.tolist(), *(ANY_IDS + np.uint64(1)).tolist()]
            ]
            assert found_by(store, own[::9]) == [model.similar(query) for query in own[::9]]
            store.verify()


@pytest.mark.parametrize("kept", [True, False])
def test_a_build_and_a_merge_of_the_same_documents_have_the_same_bytes(tmp_path: Path, kept: bool) -> None:
    own = signatures(3, 400)
    minhash.build(tmp_path / "built", own, ids=ANY_IDS, bits=40, keep_signatures=kept, **SETTINGS).close()
    with minhash.create(tmp_path / "s", values=VALUES, bits=40, keep_signatures=kept, **SETTINGS) as store:
        for start in (0, 200):
            store.add(own[start : start + 200], ids=ANY_IDS[start : start + 200])
            store._flush()
        store.compact()
    made = [[path.read_bytes() for path in sorted((tmp_path / name / "segments").iterdir())] for name in ("s", "built")]
    assert [len(files) for files in made] == [1 + kept] * 2
    assert made[0] == made[1]


def test_numbers_in_a_row_are_not_listed(tmp_path: Path) -> None:
    with minhash.build(tmp_path / "s", signatures(4, 300), **SETTINGS) as store:
        assert [segment.record.list_count for segment in store._segments] == [0]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("bands", [16, 1])
@pytest.mark.parametrize("span", [64, 32, 24])
def test_any_ids_take_ten_bytes_more_than_numbers_in_a_row(tmp_path: Path, kept: bool, bands: int, span: int) -> None:
    own = np.random.default_rng(5).integers(0, 1 << 32, size=(20_000, 128), dtype=np.uint32)
    ids = np.random.default_rng(6).integers(0, 1 << span, 20_000, dtype=np.uint64)
    sizes = []
    for name, given_ids in (("rows", "row"), ("any", ids)):
        cut: Any = {"bands": bands, "rows_per_band": 8, "keep_signatures": kept}
        with minhash.build(tmp_path / name, own, ids=given_ids, **cut) as store:
            stats = store.stats()
            sizes.append((stats.segments_bytes + stats.sketches_bytes) / 20_000)
    assert sizes[1] - sizes[0] <= 10


@pytest.mark.parametrize("kept", [True, False])
def test_every_damaged_page_of_a_list_is_found_and_recovery_gives_back_the_rest(tmp_path: Path, kept: bool) -> None:
    own = np.random.default_rng(7).integers(0, 1 << 32, size=(3000, VALUES), dtype=np.uint32)
    ids = np.random.default_rng(8).integers(0, 1 << 64, 3000, dtype=np.uint64)
    minhash.build(tmp_path / "s", own, ids=ids, keep_signatures=kept, **SETTINGS).close()
    with minhash.open(tmp_path / "s") as store:
        (segment,) = store._segments
        path, (region,) = segment.path, [each for each in segment.regions() if each.name == "id list"]
    assert region.bytes == 8 * 3000
    data = bytearray(path.read_bytes())
    place = region.offset + 4096
    data[place] ^= 1
    path.write_bytes(data)
    with minhash.open(tmp_path / "s") as store:
        with pytest.raises(CorruptStore, match="id list"):
            store.verify()
        with pytest.raises(CorruptStore, match=rf"{path}: .*page at byte"):
            store.probe_many(own)
    fpstore.recover(tmp_path / "s", tmp_path / "again")
    start = place // 4096 * 4096
    lost = {
        *np.sort(ids)[max(0, (start - region.offset + 7) // 8 - 1) : (start + 4096 - region.offset + 7) // 8].tolist()
    }
    with minhash.open(tmp_path / "again") as store:
        store.verify()
        found = {match.id for match in store.probe_many(own)}
        assert {*ids.tolist()} - lost <= found <= {*ids.tolist()}
        assert len(found) < 3000


Change = Callable[[bytearray, SegmentRecord], SegmentRecord]


def swapped(data: bytearray, record: SegmentRecord) -> SegmentRecord:
    at = record.list_offset
    data[at : at + 16] = data[at + 8 : at + 16] + data[at : at + 8]
    return record


def twice(data: bytearray, record: SegmentRecord) -> SegmentRecord:
    at = record.list_offset
    data[at : at + 8] = data[at + 8 : at + 16]
    return record


def shorter(data: bytearray, record: SegmentRecord) -> SegmentRecord:
    return replace(record, list_count=33)  # places take as many bits


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (swapped, "id list: found some out of order from id 0 on, expected them increasing"),
        (twice, "id list: found some out of order from id 0 on, expected them increasing"),
        (shorter, "id values, the largest: found 39, expected below 33, the ids listed"),
        (lambda data, record: replace(record, id_base=1), "id_base: found 1, expected 0"),
        (lambda data, record: replace(record, id_width=7), "id_width: found 7, expected 6"),
        (lambda data, record: replace(record, list_offset=0), "list_offset"),
        (lambda data, record: replace(record, list_count=161), "list_count: found 161, expected 0..160"),
        (lambda data, record: replace(record, list_count=0), "list_offset"),
    ],
)
def test_a_list_that_is_not_as_the_page_says_is_refused(tmp_path: Path, change: Change, message: str) -> None:
    own = np.random.default_rng(9).integers(0, 1 << 32, size=(40, VALUES), dtype=np.uint32)
    minhash.build(tmp_path / "s", own, ids=ANY_IDS[:40], keep_signatures=False, **SETTINGS).close()
    with minhash.open(tmp_path / "s") as store:
        (segment,) = store._segments
        path, record, start, plan = segment.path, segment.record, segment.footer.summary_offset, store._latest.plan
    data = bytearray(path.read_bytes())
    data[start : start + 128] = change(data, record).pack()
    path.write_bytes(resealed(data))
    with pytest.raises(CorruptStore) as caught, closing(Segment(path)) as again:
        verify_segment(again, plan)
    assert message in "; ".join([str(caught.value), *map(str, caught.value.damage)])
    if change is shorter:
        with closing(Segment(path)) as again:
            assert again.ids is not None
            for ask in (lambda: again.ids.read(0, again.key_count), lambda: again.ids.least(keys_of(again))):
                with pytest.raises(CorruptStore, match="points outside its region"):
                    ask()


def keys_of(segment: Segment) -> Keys:
    return np.concatenate([*segment.keys(0)])


def test_a_listed_id_without_a_row_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = np.random.default_rng(9).integers(0, 1 << 32, size=(40, VALUES), dtype=np.uint32)
    more = np.sort(ANY_IDS[:41])
    ids = np.delete(more, 7)
    monkeypatch.setattr("fpstore.segment.writer.listed_ids", lambda *_: more)
    minhash.build(tmp_path / "s", own, ids=ids, keep_signatures=False, **SETTINGS).close()
    with (
        minhash.open(tmp_path / "s") as store,
        pytest.raises(CorruptStore, match="id list: found id 7 without a row, expected one or more of each"),
    ):
        store.verify()
