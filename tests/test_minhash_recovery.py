"""A damaged store of signatures is recovered: what is sound is as it was, what is lost is told, nothing is made up."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from minhashes import BANDS, ROWS, VALUES, Model, signatures
from outcome import Command

import fpstore
from fpstore import minhash
from fpstore.format import Footer
from fpstore.sketches.layout import SketchesRecord

COUNT = 240


def found_by(store: minhash.MinHashStore, queries: Any) -> list[list[tuple[Any, float, int]]]:
    answer: list[list[tuple[Any, float, int]]] = [[] for _ in queries]
    for match in store.probe_many(queries):
        answer[match.query].append((match.id, match.similarity, match.shared_bands))
    return answer


def make(path: Path, id_type: Any, kept: bool = True) -> tuple[Any, Model]:
    """A store with two segments, a log and removals, and what it holds."""
    own, model = signatures(40, COUNT), Model()
    ids: list[Any] = [f"n{i}" for i in range(COUNT)] if id_type == "string" else [*range(COUNT)]
    made = minhash.create(path, values=VALUES, bands=BANDS, rows_per_band=ROWS, id_type=id_type, keep_signatures=kept)
    with made as store:
        for start, end in ((0, 200), (200, 220), (220, 240)):
            store.add(own[start:end], ids=ids[start:end])
            if end < COUNT:
                store._flush()
        store.remove(ids=ids[10:20])
        store.upsert(own[:3], ids=ids[50:53])
    model.add(own, ids)
    model.remove(ids[10:20])
    model.upsert(own[:3], ids[50:53])
    return own, model


@pytest.mark.parametrize("id_type", ["uint64", "string"])
def test_a_sound_store_is_recovered_whole(tmp_path: Path, id_type: str) -> None:
    own, model = make(tmp_path / "s", id_type)
    recovered = fpstore.recover(tmp_path / "s", tmp_path / "new")
    assert (recovered.complete, recovered.damage) == (True, ())
    with minhash.open(tmp_path / "new", "w") as store:
        store.verify()
        assert found_by(store, own[:40]) == [model.similar(each) for each in own[:40]]
        assert store.count() == len(model.held)
        store.add(own[:1], ids=["later" if id_type == "string" else 10_000])
        store.compact()
        store.verify()


def test_without_signatures_rows_are_recovered(tmp_path: Path) -> None:
    own, model = make(tmp_path / "s", "uint64", kept=False)
    assert fpstore.recover(tmp_path / "s", tmp_path / "new").complete
    with minhash.open(tmp_path / "new") as store:
        found = [{(name, shared) for name, _, shared in rows} for rows in found_by(store, own[:40])]
        assert found == [{(name, shared) for name, _, shared in model.similar(each)} for each in own[:40]]


@pytest.mark.parametrize("id_type", ["uint64", "string"])
@pytest.mark.parametrize("what", ["page", "cut", "gone", "all gone"])
def test_ids_whose_sketches_are_lost_are_lost_and_all_others_as_they_were(
    tmp_path: Path, id_type: str, what: str
) -> None:
    own, model = make(tmp_path / "s", id_type)
    files = sorted((tmp_path / "s" / "segments").glob("*.fpsketch"))
    data = bytearray(files[0].read_bytes())
    if what == "page":
        data[5000] ^= 1
        files[0].write_bytes(data)
    elif what == "cut":
        files[0].write_bytes(data[:4096])
    else:
        for file in files if what == "all gone" else files[:1]:
            file.unlink()
    recovered = fpstore.recover(tmp_path / "s", tmp_path / "new")
    assert recovered.ids_lost > 0
    assert any(".fpsketch" in str(damage) for damage in recovered.damage)
    with minhash.open(tmp_path / "new") as store:
        store.verify()
        there = {each.id for rows in store.rows() for each in rows}
        assert there < {*model.held}
        assert {*recovered.lost_ids} == {*model.held} - there
        assert recovered.partial_ids == ()
        assert (recovered.without_ids, recovered.partial) == ((), ())
        assert (len(there) > 30) == (what != "all gone")
        for query, rows in zip(own[:40], found_by(store, own[:40]), strict=True):
            assert rows == [row for row in model.similar(query) if row[0] in there]


def test_a_store_of_which_no_sketch_is_left_is_empty(tmp_path: Path) -> None:
    minhash.build(tmp_path / "s", signatures(41, 50), bands=BANDS, rows_per_band=ROWS).close()
    (tmp_path / "s" / "segments" / "00000001.fpsketch").unlink()
    recovered = fpstore.recover(tmp_path / "s", tmp_path / "new")
    assert (recovered.ids_lost, recovered.rows) == (50 * BANDS, 0)
    assert recovered.lost_ids == (*range(50),)
    with minhash.open(tmp_path / "new", "w") as store:
        assert store.count() == 0
        store.add(signatures(41, 50), ids=np.arange(50))
        store.verify()


# --- Every page ---

# Ids in turn, apart by a little, far apart, so that the segment lists them; with one that came twice.
IDS: dict[str, Any] = {
    "in turn": [*range(600)],
    "apart": [*range(0, 1800, 3)],
    "far": [each << 40 for each in range(600)],
    "twice": [*range(0, 1797, 3), 30],
    "far, twice": [*(each << 40 for each in range(599)), 30 << 40],
    "names": [f"https://example.org/{each:04}" for each in range(600)],
}
MANY = signatures(42, 600)


def built(path: Path, kind: str, kept: bool = True) -> dict[Any, set[int]]:
    """A store in one segment; of each id the places of its signatures."""
    id_type: Any = "string" if kind == "names" else "uint64"
    cut: Any = {"values": VALUES, "bands": BANDS, "rows_per_band": ROWS, "bits": 64}  # so that rows have several pages
    with minhash.create(path, id_type=id_type, keep_signatures=kept, **cut) as store:
        store.add(MANY, ids=IDS[kind])
        store.compact()
    held: dict[Any, set[int]] = {}
    for place, name in enumerate(IDS[kind]):
        held.setdefault(name, set()).add(place)
    return held


def expect_told(path: Path, new: Path, held: dict[Any, set[int]], kept: bool = True) -> fpstore.Recovered:
    """Recover: what is there answers as before, and what is lost, or there in part, is named."""
    recovered = fpstore.recover(path, new)
    with minhash.open(new) as store:
        store.verify()
        found = store.probe_many(MANY)
        own = dict.fromkeys(held, 0)
        for match in found:
            if match.query in held[match.id]:
                own[match.id] = max(own[match.id], match.shared_bands)
                assert not kept or match.similarity == 1
        there = {name for name, bands in own.items() if bands}
        assert store.count() == len(there)
        if kept:
            assert {each.id for rows in store.rows() for each in rows} == there
    short = {name for name in there if own[name] < BANDS}
    assert {*recovered.partial_ids} == short
    assert {*recovered.lost_ids} <= {*held} - there
    assert recovered.complete or recovered.damage
    if there != {*held} or short:
        assert recovered.ids_lost or recovered.segments_lost
    else:
        assert (recovered.ids_lost, recovered.lost_ids) == (0, ())
    return recovered


def record_of(data: bytes | bytearray) -> tuple[Footer, SketchesRecord]:
    """The footer and the record of a file of sketches."""
    footer = Footer.unpack(bytes(data[-64:]), len(data))
    return footer, SketchesRecord.unpack(bytes(data[footer.summary_offset : footer.checksums_offset]), footer)


def damages(data: bytes) -> dict[str, bytes]:
    """A file, damaged in each page: noise in place of all of it, and a bit at its begin, its middle, its end."""
    rng, found = np.random.default_rng(8), {}
    for start in range(0, len(data), 4096):
        end = min(start + 4096, len(data))
        found[f"noise {start}"] = data[:start] + rng.bytes(end - start) + data[end:]
        for at in (start, (start + end) // 2, end - 1):
            found[f"bit {at}"] = data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]
    return found | {f"{count} more": data + bytes(count) for count in (1, 5000)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "suffix"), [*((kind, suffix) for kind in IDS for suffix in ("fpseg", "fpsketch")), ("names", "fpnames")]
)
def test_with_any_page_of_any_file_damaged_what_is_lost_is_named(tmp_path: Path, kind: str, suffix: str) -> None:
    held = built(tmp_path / "s", kind)
    (file,) = (tmp_path / "s" / "segments").glob(f"*.{suffix}")
    for name, damaged in damages(file.read_bytes()).items():
        file.write_bytes(damaged)
        recovered = expect_told(tmp_path / "s", tmp_path / f"new-{name}", held)
        assert recovered.damage, name
        if "more" in name:
            assert recovered.complete


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["apart", "names"])
def test_without_signatures_too(tmp_path: Path, kind: str) -> None:
    held = built(tmp_path / "s", kind, kept=False)
    (file,) = (tmp_path / "s" / "segments").glob("*.fpseg")
    data, losses = file.read_bytes(), 0
    for name, damaged in damages(data).items():
        file.write_bytes(damaged)
        losses += bool(expect_told(tmp_path / "s", tmp_path / f"new-{name}", held, kept=False).partial_ids)
    assert losses > 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", IDS)
def test_what_says_whose_sketches_are_whose_is_made_again(tmp_path: Path, kind: str) -> None:
    held = built(tmp_path / "s", kind)
    (file,) = (tmp_path / "s" / "segments").glob("*.fpsketch")
    data = file.read_bytes()
    footer, record = record_of(data)
    places = {
        "header": 3,
        "first id": record.handles_offset,
        "last id": max(record.handles_end - 1, record.handles_offset),
        "record": footer.summary_offset,
        "end of the record": footer.summary_offset + 319,
        "checksums": footer.checksums_offset,
        "roots": footer.roots_offset,
        "footer": footer.footer_offset + 5,
    }
    for name, at in places.items():
        file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        recovered = expect_told(tmp_path / "s", tmp_path / f"new-{name}", held)
        # What has an id twice is not told by the ids of its rows, where the record itself is gone.
        assert recovered.complete or ("twice" in kind and recovered.lost_ids), name
        if "twice" in kind and name in ("header", "checksums", "roots", "footer"):
            assert recovered.complete, name
        assert recovered.damage, name
    for missing in (1, 64, 300):
        file.write_bytes(data[:-missing])
        assert expect_told(tmp_path / "s", tmp_path / f"new-{missing}", held).complete
    # All ids at once.
    start, end = record.handles_offset, max(record.handles_end, record.handles_offset + 1)
    file.write_bytes(data[:start] + bytes(byte ^ 0xFF for byte in data[start:end]) + data[end:])
    assert expect_told(tmp_path / "s", tmp_path / "new-ids", held).complete or "twice" in kind


@pytest.mark.parametrize("lost", ["rows", "sketches"])
@pytest.mark.parametrize("kind", ["apart", "twice", "far, twice"])
def test_ids_are_taken_only_where_nothing_else_fits(tmp_path: Path, kind: str, lost: str) -> None:
    held = built(tmp_path / "s", kind)
    (file,) = (tmp_path / "s" / "segments").glob("*.fpsketch")
    data = bytearray(file.read_bytes())
    at = record_of(data)[1].handles_offset
    data[at + 8] ^= 1
    if lost == "sketches":  # in the page of the first ids
        data[at // 4096 * 4096] ^= 1
    else:
        (other,) = (tmp_path / "s" / "segments").glob("*.fpseg")
        rows = bytearray(other.read_bytes())
        rows[4096:8192] = bytes(4096)
        other.write_bytes(rows)
    file.write_bytes(data)
    recovered = expect_told(tmp_path / "s", tmp_path / "new", held)
    assert recovered.lost_ids or recovered.partial_ids
    # Where the ids are listed, one page has the place of each.
    assert len(recovered.lost_ids) < len(held) or kind == "far, twice"


def test_sketches_of_another_moment_are_not_taken(tmp_path: Path) -> None:
    held = built(tmp_path / "s", "apart")
    with minhash.create(tmp_path / "t", values=VALUES, bands=BANDS, rows_per_band=ROWS) as store:
        store.add(MANY[::-1], ids=IDS["apart"])
        store.compact()
    (own,), (other,) = ([*(tmp_path / name / "segments").glob("*.fpsketch")] for name in "st")
    own.write_bytes(other.read_bytes())
    recovered = expect_told(tmp_path / "s", tmp_path / "new", held)
    assert {*recovered.lost_ids} == {*held}
    assert any("which the catalog names" in damage.expected for damage in recovered.damage)


def test_the_command_names_documents(command: Command, tmp_path: Path) -> None:
    built(tmp_path / "s", "names")
    (file,) = (tmp_path / "s" / "segments").glob("*.fpsketch")
    data = bytearray(file.read_bytes())
    data[5000] ^= 1
    file.write_bytes(data)
    outcome = command("recover", tmp_path / "s", tmp_path / "new")
    assert outcome.status == 3
    lines = outcome.out.splitlines()
    assert len(lines) == 128
    assert {line.split("\t")[1] for line in lines} == {"lost"}
    assert all(line.startswith("https://example.org/") for line in lines)
    told = json.loads(command("recover", tmp_path / "s", tmp_path / "newer", "--json").out)
    assert (told["lost"], told["partial"], told["partial_ids"]) == ([], [], [])
    assert [f"{each}\tlost" for each in told["lost_ids"]] == lines


def test_what_a_damaged_segment_lost_is_not_made_up(tmp_path: Path) -> None:
    own, model = make(tmp_path / "s", "uint64")
    path = tmp_path / "s" / "segments" / "00000001.fpseg"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    recovered = fpstore.recover(tmp_path / "s", tmp_path / "new")
    assert not recovered.complete
    with minhash.open(tmp_path / "new") as store:
        store.verify()
        for query, rows in zip(own[:40], found_by(store, own[:40]), strict=True):
            wanted = {name: (similarity, shared) for name, similarity, shared in model.similar(query)}
            for name, similarity, shared in rows:
                assert wanted[name][0] == similarity
                assert shared <= wanted[name][1]
