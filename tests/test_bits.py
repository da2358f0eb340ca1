"""Fingerprints of every width: a segment, a plan and a store of 16 to 64 bits do what those of 64 do.

Everything is held against brute force, or the plain twin of the codec; what is wider than a store is refused.
"""

# mypy: disable-error-code="arg-type, call-arg"

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import plain_codec
import pytest
from helpers import (
    CODECS,
    KINDS,
    CodedTable,
    brute_force,
    coded_table,
    difference_count,
    distinct,
    fingerprint_array,
    key_sets,
    keys_of,
    queries_near,
    resealed,
    search_differences,
    segment_of,
    view_of_image,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fpstore
from fpstore import creation
from fpstore._codec import BitPermutation, Histogram, RiceCost, TableEncoder
from fpstore._pairs import Windows
from fpstore._pending import PendingIndex
from fpstore._probe import search, touch
from fpstore._sort import sort_permuted
from fpstore._view import SegmentView
from fpstore.building.permuted import sorted_permuted
from fpstore.errors import CorruptStore, PlanError, RecipeError
from fpstore.living.catalog import Catalog
from fpstore.living.changes import ADDED, Change
from fpstore.living.state import Settings
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.choice import PlanChoice, expect_bits
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.query.batch import stream
from fpstore.query.pairs import segment_joins
from fpstore.segment.crowding import largest_slots
from fpstore.segment.reader import Segment
from fpstore.segment.report import entropy_bound
from fpstore.segment.table import codec_costs
from fpstore.segment.verify import verify_segment
from fpstore.types import Keys

WIDTHS = range(16, 65, 8)
NARROW = range(16, 64, 8)


def narrow(keys: Keys, bits: int) -> Keys:
    """Keys of 64 bits as such of so many: some with their top bits, some with their low ones, so that they cluster."""
    shift = np.uint64(64 - bits)
    return distinct(np.where(keys & np.uint64(1), keys >> shift, keys & np.uint64((1 << bits) - 1)))


def plans_of(bits: int) -> list[Plan]:
    """Of each family some, and what the aims pick."""
    found = [plans.flips(1, (k,), k, bits) for k in (0, 1, 2)]
    found += [plans.flips(2, (1, 1), 3, bits), plans.flips(3, (1, 1, 0), 4, bits), plans.flips(2, (3, 2), 6, bits)]
    found += [plans.choose(bands, k, bits) for bands, k in ((4, 3), (5, 3), (2, 1))]
    found += [plans.general(bits, k, n, 4) for k, n in ((2, 1 << 10), (3, 1 << 12))]
    found += [planner.choose(10**4, k, aim, bits) for k in (0, 3, 5) for aim in planner.AIMS]
    found += [plan.shuffled(7) for plan in found[:6]]
    return list({(plan.tables, plan.max_distance): plan for plan in found}.values())


# --- The codec ---


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(key_sets(), st.sampled_from(CODECS), st.integers(0, 12), st.sampled_from(WIDTHS), st.integers(0, 1))
@example([], "gap", 0, 16, 0)
@example(list(range(1 << 12)), "raw", 4, 16, 1)
@example([0, 1, 2, 3], "xor", 12, 16, 1)
def test_a_table_of_any_width_has_the_bits_of_the_plain_twin(
    keys: list[int], codec: str, slot_bits: int, bits: int, low: int
) -> None:
    keys = sorted({key % (1 << bits) if low else key >> 64 - bits for key in keys})
    coded = coded_table(keys, codec, slot_bits, bits=bits)
    plain = plain_codec.encode_table(keys, codec, slot_bits, bits)
    assert coded.table.payload_bits == len(plain.payload)
    assert coded.payload == plain.payload.tobytes()
    assert coded.table.directory.tobytes() == plain.directory
    assert coded.table.fences.tobytes() == plain.fences
    assert coded.table.code_lengths == plain.code_lengths
    assert keys_of(coded.view(), slot_bits).tolist() == keys == plain_codec.decode_table(plain)


@pytest.mark.parametrize("bits", NARROW)
def test_every_key_of_a_raw_table_takes_its_own_bits(bits: int) -> None:
    keys = narrow(KINDS["uniform"](1000, np.random.default_rng(bits)), bits)
    assert coded_table(keys, "raw", 3, bits=bits).table.payload_bits == bits * len(keys)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("codec", CODECS)
def test_what_a_codec_is_said_to_cost_is_what_it_takes(bits: int, codec: str) -> None:
    keys = narrow(KINDS["uniform"](3000, np.random.default_rng(bits)), bits)

    class Held:
        count = len(keys)

        def chunks(self) -> Iterator[Keys]:
            yield keys

    costs = {cost.codec: cost.bits for cost in codec_costs(Held(), 6, bits=bits)}
    assert costs[codec] == coded_table(keys, codec, 6, bits=bits).table.payload_bits


@pytest.mark.parametrize("codec", CODECS)
def test_a_key_of_more_bits_is_refused_by_the_encoder(codec: str) -> None:
    lengths, words = np.full(65, 7, dtype=np.uint8), np.zeros(65, dtype=np.uint16)
    encoder = TableEncoder(CODECS.index(codec), 0, 0, lengths, words, with_ranks=False, bits=40)
    with pytest.raises(ValueError, match=r"^table: a key has more bits than the table's$"):
        encoder.push(fingerprint_array([1, 2, 1 << 40]))


def test_bits_that_no_key_has_are_refused_by_what_is_compiled() -> None:
    lengths, words = np.zeros(65, dtype=np.uint8), np.zeros(65, dtype=np.uint16)
    for bits in (0, 15, 65):
        for make in (
            lambda bits=bits: BitPermutation(0, bits),
            lambda bits=bits: Histogram(0, bits=bits),
            lambda bits=bits: RiceCost(0, 0, bits=bits),
            lambda bits=bits: TableEncoder(3, 0, 0, lengths, words, with_ranks=False, bits=bits),
        ):
            with pytest.raises(ValueError, match=rf"^bits: found {bits}, expected 16\.\.64$"):
                make()
        with pytest.raises(ValueError, match=rf"^bits: found {bits}, expected 16 to 64$"):
            PendingIndex([1], [0], with_ids=False, capacity=1, bits=bits)
        with pytest.raises(ValueError, match=f"of keys of {bits}$"):
            Windows(0, 0, 1, bits=bits)
        with pytest.raises(ValueError, match=f"^prefix mask 0x0 of {bits} bits$"):
            sort_permuted(0, fingerprint_array([1]), fingerprint_array([1]), bits)
    with pytest.raises(ValueError, match=r"^slot_bits: found 17, expected at most 16, the bits of a key$"):
        Histogram(17, bits=16)
    with pytest.raises(ValueError, match=r"^prefix mask: found 0x10000, expected 16 bits$"):
        BitPermutation(1 << 16, 16)
    with pytest.raises(ValueError, match=r"^windows of 16 bits of keys of 16$"):
        Windows(16, 0, 1, bits=16)


# --- Permutations ---


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(WIDTHS), st.data())
def test_keys_of_any_width_are_those_of_the_plain_twin(bits: int, data: st.DataObject) -> None:
    number = st.integers(0, (1 << bits) - 1)
    mask = data.draw(number)
    values = fingerprint_array(data.draw(st.lists(number, min_size=1, max_size=40)))
    permutation = Permutation(mask, bits)
    keys = permutation.apply(values)
    assert keys.tolist() == [plain_codec.permute(value, mask, bits) for value in values.tolist()]
    assert permutation.invert(keys).tolist() == values.tolist()
    assert permutation.is_identity == all(plain_codec.permute(1 << bit, mask, bits) == 1 << bit for bit in range(bits))
    held = sorted_permuted(values, permutation)
    assert [key for chunk in held.chunks() for key in chunk.tolist()] == sorted({*keys.tolist()})


def test_a_fingerprint_of_more_bits_is_not_sorted() -> None:
    with pytest.raises(ValueError, match=r"^a fingerprint has more than 16 bits$"):
        sort_permuted(0xFF, fingerprint_array([1, 1 << 16]), fingerprint_array([0, 0]), 16)


# --- Plans ---


@pytest.mark.slow
@pytest.mark.parametrize("bits", WIDTHS)
def test_every_plan_of_any_width_is_proven_and_of_its_bits(bits: int) -> None:
    for plan in plans_of(bits):
        assert plan.bits == bits
        plan.prove()
        assert sum(plan.bands) == (1 << bits) - 1
    for k in range(min(planner.MAX_DISTANCE, bits) + 1):
        for aim in planner.AIMS:
            plan = planner.choose(10**6, k, aim, bits) if bits > 16 else planner.choose(60_000, k, aim, bits)
            plan.prove()
            assert (plan.bits, plan.max_distance >= k) == (bits, True)


@pytest.mark.parametrize("bits", [16, 24])
@pytest.mark.parametrize("k", [1, 2])
def test_every_error_pattern_of_a_narrow_plan_is_found(bits: int, k: int) -> None:
    base = 0xA5C3F0 % (1 << bits)
    errors = [0, *(1 << i for i in range(bits)), *(1 << i | 1 << j for i in range(bits) for j in range(i))]
    stored = fingerprint_array(sorted(base ^ error for error in errors))
    near = [error for error in errors if error.bit_count() <= k]
    for plan in (plans.flips(1, (k,), k, bits), plans.choose(k + 1, k, bits), planner.choose(1000, k, "speed", bits)):
        with segment_of(stored, plan, slot_bits=5) as segment:
            found = search(segment.view, fingerprint_array([base]), k)[1]
        assert sorted(found.tolist()) == sorted(base ^ error for error in near)


@pytest.mark.parametrize("bits", [0, 8, 15, 17, 65, 72, 127, 192, 512, "64", 32.0, True])
def test_bits_that_no_store_has_are_refused(bits: object, tmp_path: Path) -> None:
    message = r"^bits: found .*, expected a multiple of 8 from 16 to 64, or 128 or 256"
    kept = {65: 128, 72: 128, 127: 128, 192: 256}.get(bits)  # type: ignore[call-overload]
    message += rf"; {bits} bits are kept as {kept}, with zeros below them$" if kept else "$"
    for call in (
        lambda: expect_bits(bits),
        lambda: fpstore.build(tmp_path / "s", [1], bits=bits),
        lambda: fpstore.create(tmp_path / "s", bits=bits),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert not (tmp_path / "s").exists()


def test_a_plan_of_other_bits_is_refused() -> None:
    with pytest.raises(PlanError, match=r"^plan flips-1:0, bits: found 32, expected 48$"):
        PlanChoice(0, plans.flips(1, (0,), 0, 32), 48)
    with pytest.raises(PlanError, match=r"^plan paper-4, bits: found 48, expected 64 to 64$"):
        PlanChoice(3, "paper-4", 48)


@pytest.mark.parametrize(("bits", "most"), [(16, 1 << 16), (40, 1 << 40), (64, 10**13)])
def test_no_more_fingerprints_are_planned_for_than_there_can_be(bits: int, most: int) -> None:
    with pytest.raises(ValueError, match=f"^n: found {most + 1}, expected 0 to {most} fingerprints$"):
        fpstore.predict(n=most + 1, bits=bits)
    assert all(choice.plan.bits == bits for choice in fpstore.predict(n=most, max_distance=2, bits=bits))
    assert PlanChoice(2, "balanced", bits).for_count(10**13).bits == bits


def test_the_entropy_bound_of_a_set_that_is_nearly_everything() -> None:
    assert entropy_bound(1 << 16, 16) == 0.0
    # C(2^16, 1) and C(2^16, 2^16 - 1) are both 2^16.
    assert entropy_bound(1, 16) == pytest.approx(16)
    assert entropy_bound((1 << 16) - 1, 16) == pytest.approx(16 / ((1 << 16) - 1), rel=1e-3)
    assert entropy_bound(1 << 15, 16) == pytest.approx(2, rel=1e-3)  # half of all: a bit for each of the 2^16


# --- Searching a segment ---


@pytest.mark.slow
@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("codec", CODECS)
def test_any_plan_of_any_width_is_searched_exactly(bits: int, codec: str) -> None:
    rng = np.random.default_rng(bits)
    for index, plan in enumerate(plans_of(bits)):
        kind = sorted(KINDS)[index % len(KINDS)]
        stored = narrow(KINDS[kind](1500, rng), bits)
        queries = queries_near(stored, plan.max_distance, 60, rng, bits)
        with segment_of(stored, plan, codec=codec, slot_bits=(None, 0, 7, 12)[index % 4]) as segment:
            assert search_differences(segment, stored, queries, plan.max_distance) == 0
            verify_segment(segment, plan)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.sampled_from(WIDTHS), st.integers(0, 2**32 - 1), st.sampled_from(CODECS), st.integers(0, 14), st.data())
def test_any_set_of_any_width_is_searched_exactly(
    bits: int, seed: int, codec: str, slot_bits: int, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    plan = data.draw(st.sampled_from(plans_of(bits)))
    stored = narrow(KINDS[data.draw(st.sampled_from(sorted(KINDS)))](data.draw(st.integers(0, 700)), rng), bits)
    queries = queries_near(stored, plan.max_distance, 20, rng, bits)
    with segment_of(stored, plan, codec=codec, slot_bits=slot_bits) as segment:
        assert search_differences(segment, stored, queries, plan.max_distance) == 0


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("k", [0, 2, 4])
def test_pairs_and_batches_of_any_width_are_those_of_brute_force(bits: int, k: int) -> None:
    rng = np.random.default_rng(bits + k)
    stored = narrow(KINDS["clustered"](900, rng), bits)
    queries = queries_near(stored, k, 200, rng, bits)
    first, second, distance = brute_force(stored, stored, k)
    expected = {
        (int(stored[left]), int(right), int(bits_apart))
        for left, right, bits_apart in zip(first, second, distance, strict=True)
        if stored[left] < right
    }
    for plan in (plans.flips(1, (k,), k, bits), plans.choose(k + 1, k, bits)):
        with segment_of(stored, plan) as segment:
            found = set()
            for join, _ in segment_joins(segment, k, 1 << 20):
                while not join.done:
                    found |= {*zip(*(column.tolist() for column in join.next()), strict=True)}
            assert found == expected
            assert difference_count(stream(segment, queries, k), brute_force(stored, queries, k)) == 0


def test_a_query_of_more_bits_is_refused_before_anything_is_read() -> None:
    plan = plans.flips(2, (1, 1), 3, 40)
    with segment_of(fingerprint_array([1, 2, 3]), plan) as segment:
        for ask in (lambda keys: search(segment.view, keys, 3), lambda keys: touch(segment.view, keys)):
            with pytest.raises(ValueError, match=r"^queries: found one of more bits, expected 40$"):
                ask(fingerprint_array([1, 1 << 40]))


def test_pending_rows_of_more_bits_are_refused() -> None:
    index = PendingIndex([0xFF00], [1], with_ids=False, capacity=8, bits=16)
    with pytest.raises(ValueError, match=r"^fingerprints: found one of more bits, expected 16$"):
        index.append(fingerprint_array([1, 1 << 16]), None, 1)
    index.append(fingerprint_array([1, 0xFFFF]), None, 1)
    for ask in (index.search, index.nearest):
        with pytest.raises(ValueError, match=r"^queries: found one of more bits, expected 16$"):
            ask(fingerprint_array([1 << 16]), 1, 2)
    assert index.search(fingerprint_array([0xFFFE]), 1, 2)[1].tolist() == [0xFFFF]
    assert index.grown(16).bits == 16


# --- A store ---


def rows_of(store: fpstore.Store) -> set[tuple[int, int]]:
    return {(int(row.fingerprint), int(row.id)) for part in store.rows() for row in part}


@pytest.mark.parametrize("bits", WIDTHS)
def test_a_store_of_any_width_lives(bits: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(bits)
    old, new = (narrow(KINDS["clustered"](400, rng), bits) for _ in range(2))
    path = tmp_path / "s.fpstore"
    fpstore.build(path, old, bits=bits, max_distance=2, codec="xor").close()
    rows = {(int(key), row) for row, key in enumerate(old)}
    with fpstore.open(path, "w") as store:
        assert store.bits == store.plan.bits == bits
        store.add(new, ids=np.arange(1000, 1000 + len(new), dtype=np.uint64))
        rows |= {(int(key), 1000 + row) for row, key in enumerate(new)}
        store.remove(fingerprints=old[:50])
        rows = {row for row in rows if row[0] not in {*old[:50].tolist()}}
        for step in ("pending", "one segment"):
            everything = distinct(fingerprint_array([key for key, _ in rows]))
            queries = queries_near(everything, 2, 40, rng, bits)
            query, fingerprint, distance = brute_force(everything, queries, 2)
            expected = {
                (int(at), int(key), int(apart), id)
                for at, key, apart in zip(query, fingerprint, distance, strict=True)
                for found, id in rows
                if found == key
            }
            matches = store.probe_many(queries)
            assert {(row.query, row.fingerprint, row.distance, row.id) for row in matches} == expected, step
            one = [store.probe(int(key)) for key in queries]
            assert sum(map(len, one)) == len(matches)
            assert [store.contains_near(int(key)) for key in queries] == [len(found) > 0 for found in one]
            # Of the nearest few within the distance.
            nearest = store.nearest_many(queries, 2, max_distance=2)
            assert len(nearest) == sum(min(2, len(found)) for found in one)
            pairs = brute_force(everything, everything, 2)
            assert store.count_pairs() == sum(everything[at] < key for at, key in zip(*pairs[:2], strict=True))
            assert rows_of(store) == rows
            store.verify()
            store.compact()
        assert store.report().bits == store.stats().bits == bits
        store.copy(tmp_path / "copy.fpstore")
    with fpstore.open(tmp_path / "copy.fpstore") as copied:
        assert (copied.bits, rows_of(copied)) == (bits, rows)


@pytest.mark.parametrize("bits", NARROW)
def test_a_fingerprint_of_more_bits_is_refused_wherever_it_comes(bits: int, tmp_path: Path) -> None:
    wide, path = 1 << bits, tmp_path / "s.fpstore"
    expected = f"found {wide}, expected a fingerprint of {bits} bits"
    for given_as in ([1, wide], np.array([1, wide], dtype=np.uint64), np.array([1, wide], dtype=np.int64)):
        for ids in ("row", None):
            with pytest.raises(ValueError, match=f"^fingerprints, item 1: {expected}$"):
                fpstore.build(path, given_as, bits=bits, ids=ids)
    with pytest.raises(ValueError, match=f"^fingerprints, item 1: {expected}$"):
        fpstore.build(path, iter([[1, wide]]), bits=bits)
    with pytest.raises(ValueError, match=f"^fingerprints, item 1: {expected}$"):
        fpstore.build(path, [1, wide], ids=["a", "b"], id_type="string", bits=bits)
    assert not path.exists()
    with fpstore.create(path, bits=bits) as store:
        store.add([1], ids=[1])
        for call in (
            lambda: store.add([wide], ids=[2]),
            lambda: store.add_if_new([wide], ids=[2]),
            lambda: store.upsert([wide], ids=[2]),
            lambda: store.remove(fingerprints=[wide]),
            lambda: store.remove(fingerprints=[wide], ids=[1]),
            lambda: store.probe_many([wide]),
            lambda: store.nearest_many([wide]),
        ):
            with pytest.raises(ValueError, match=f"^fingerprints, item 0: {expected}$"):
                call()
        for ask in (store.probe, store.contains_near, store.nearest):
            with pytest.raises(ValueError, match=f"^fingerprint: {expected}$"):
                ask(wide)
            with pytest.raises(ValueError, match=f"^fingerprint: found -1, expected a fingerprint of {bits} bits$"):
                ask(-1)
            with pytest.raises(ValueError, match=f"^fingerprint: found 8 bytes, expected {bits // 8}$"):
                ask(bytes(8))
        assert [row.id for row in store.probe((1).to_bytes(bits // 8, "big"))] == [1]
        assert rows_of(store) == {(1, 1)}


@pytest.mark.parametrize("bits", [16, 40, 56])
def test_bytes_of_a_narrow_store_have_its_width(bits: int, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    values = [1, (1 << bits) - 1, 7]
    column = pyarrow.array([value.to_bytes(bits // 8, "big") for value in values], pyarrow.binary(bits // 8))
    with fpstore.build(tmp_path / "s", column[1:], bits=bits) as store:
        assert [row.fingerprint for part in store.rows() for row in part] == sorted(values[1:])
    with pytest.raises(TypeError, match=r"^fingerprints: found type fixed_size_binary\[8\]"):
        fpstore.build(tmp_path / "t", pyarrow.array([bytes(8)], pyarrow.binary(8)), bits=bits)


def test_a_store_of_other_bits_takes_no_recipe(tmp_path: Path) -> None:
    message = r"^recipe: found web-en, which makes fingerprints of 64 bits, expected none in a store of 48$"
    with pytest.raises(RecipeError, match=message):
        fpstore.create(tmp_path / "s", bits=48, recipe="web-en")
    with pytest.raises(RecipeError, match=message):
        fpstore.build(tmp_path / "s", [1], bits=48, recipe="web-en")
    pytest.importorskip("pyarrow")
    with fpstore.build(tmp_path / "wide", [1, 2], recipe="web-en") as store:
        column = store.probe(1).to_arrow().select(["fingerprint"])
    with pytest.raises(RecipeError, match=r"which makes fingerprints of 64 bits, expected none in a store of 48$"):
        fpstore.build(tmp_path / "s", column, bits=48)


def test_a_store_that_is_there_has_the_bits_that_are_asked_for(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s", bits=32).close()
    fpstore.create(tmp_path / "s", bits=32, exist_ok=True).close()
    with pytest.raises(ValueError, match=r"s: bits: found 32, expected 64$"):
        fpstore.create(tmp_path / "s", exist_ok=True)


def test_every_fingerprint_that_there_is_can_be_stored(tmp_path: Path) -> None:
    everything = np.arange(1 << 16, dtype=np.uint64)
    for codec in CODECS:
        with fpstore.build(tmp_path / codec, everything, bits=16, codec=codec, max_distance=2) as store:
            assert store.count() == 1 << 16
            assert len(store.probe(0)) == 1 + 16 + 16 * 15 // 2
            store.verify()


@pytest.mark.parametrize("bits", NARROW)
def test_a_recovered_store_has_its_bits(bits: int, tmp_path: Path) -> None:
    keys = narrow(KINDS["uniform"](20_000, np.random.default_rng(bits)), bits)
    fpstore.build(tmp_path / "s", keys, bits=bits).close()
    whole = tmp_path / "whole"
    assert fpstore.recover(tmp_path / "s", whole).complete
    with fpstore.open(whole) as store:
        assert (store.bits, store.count()) == (bits, len(keys))
    (tmp_path / "s" / "catalog.mdb").unlink()
    (path,) = (tmp_path / "s" / "segments").iterdir()
    data = bytearray(path.read_bytes())
    data[4096] ^= 1  # of table 0
    path.write_bytes(data)
    told = fpstore.recover(tmp_path / "s", tmp_path / "mended")
    assert (told.bits, told.fingerprints, told.fingerprints_lost) == (bits, len(keys), 0)
    with fpstore.open(tmp_path / "mended") as store:
        assert store.bits == bits
        assert {key for key, _ in rows_of(store)} == {*keys.tolist()}


def test_a_segment_of_other_bits_than_the_catalog_says_is_refused(tmp_path: Path) -> None:
    for bits in (40, 48):
        fpstore.build(tmp_path / str(bits), [1, 2, 3], bits=bits, ids=None).close()
    one, other = (next((tmp_path / str(bits) / "segments").iterdir()) for bits in (40, 48))
    one.write_bytes(other.read_bytes())
    with pytest.raises(CorruptStore):
        fpstore.open(tmp_path / "40")


# --- A stranger's bytes ---


def with_bits(coded: CodedTable, bits: int) -> SegmentView:
    """The table as one of so many bits, whatever its keys have."""
    record, data = coded.image((1 << bits) - 1 & ~0xFF, 8)
    return view_of_image(replace(record, key_bits=bits), data)


@pytest.mark.parametrize("codec", ["gap", "xor", "rice"])
def test_a_key_that_adds_up_to_more_bits_is_damage_and_no_match(codec: str) -> None:
    view = with_bits(coded_table([5, 0x10005, 0x10006], codec, 0, bits=24), 16)
    with pytest.raises(CorruptStore, match="a block that does not decode"):
        search(view, fingerprint_array([5]), 8)
    with pytest.raises(CorruptStore, match="a block that does not decode"):
        keys_of(view, 0)


def test_fences_of_keys_of_more_bits_are_damage(tmp_path: Path) -> None:
    # A slot of 300 keys has three fences; the last one says a key of more bits.
    plan = plans.flips(1, (1,), 1, 16)
    with segment_of(np.arange(300, dtype=np.uint64), plan, slot_bits=0) as segment:
        record = segment.tables[0]
        last = record.fences_offset + (record.fence_count - 1) * 16
        data = bytearray(segment.path.read_bytes())
    data[last + 2] = 1
    path = tmp_path / "00000001.fpseg"
    path.write_bytes(resealed(data))
    hostile = Segment(path)
    with pytest.raises(
        CorruptStore, match=r"table 0, fence 2, last key: found 000000000001012b, expected a key of 16 bits$"
    ):
        verify_segment(hostile, plan)
    with pytest.raises(CorruptStore, match=r"key: found 000000000001012b, expected a key of 16 bits"):
        largest_slots(hostile, 0, 1)
    hostile.close()


def test_a_segment_is_verified_to_have_the_bits_of_the_plan() -> None:
    with (
        segment_of(fingerprint_array([1, 2, 3]), plans.flips(1, (1,), 1, 40)) as segment,
        pytest.raises(CorruptStore, match=r"summary: found fingerprints of 40 bits, expected 48 of plan flips-1:1$"),
    ):
        verify_segment(segment, plans.flips(1, (1,), 1, 48))


def test_a_catalog_whose_plan_is_of_other_bits_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plans.flips(1, (1,), 1, 40)
    settings = Settings(1, plan.to_json(), "gap", None, bits=40)
    object.__setattr__(settings, "bits", 48)
    monkeypatch.setattr(creation, "Settings", lambda *_: settings)
    with pytest.raises(CorruptStore, match=r"catalog, bits: found 48, expected 40 \(plan flips-1:1\)$"):
        fpstore.create(tmp_path / "s", bits=40, max_distance=1, plan=plan, id_type=None)


def test_a_record_of_the_log_with_a_fingerprint_of_more_bits_is_damage(tmp_path: Path) -> None:
    fpstore.create(tmp_path / "s", bits=16, id_type=None).close()
    with closing(Catalog.open(tmp_path / "s", writable=True)) as catalog:
        catalog.append([Change(1, ADDED, (fingerprint_array([1 << 16]),))])
    with pytest.raises(CorruptStore, match=r"change 1"):
        fpstore.open(tmp_path / "s")


def test_rows_of_one_fingerprint_are_more_than_there_are_slots(tmp_path: Path) -> None:
    with fpstore.create(tmp_path / "s", bits=16, max_distance=1, plan="flips-1:1") as store:
        keys = np.repeat(fingerprint_array([1, 3, 7]), 70_000)
        store.add(keys, ids=np.arange(len(keys), dtype=np.uint64))
        assert store.count_pairs() == 2
