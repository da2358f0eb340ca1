"""The report accounts for every byte, its bounds are arithmetic's, and its text can be read."""

import json
from dataclasses import asdict, replace
from fractions import Fraction
from itertools import pairwise
from math import comb, isclose, log2
from pathlib import Path

import helpers
import numpy as np
import pytest

from fpstore import format as layout
from fpstore.errors import CorruptStore
from fpstore.huffman import code_lengths
from fpstore.plans import families as plans
from fpstore.plans import planner
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import Plan
from fpstore.segment import crowding, report
from fpstore.segment.reader import Segment
from fpstore.segment.stats import stats
from fpstore.types import Keys

PLAN = plans.flips(2, (1, 1), 3)
UNIFORM = helpers.distinct(helpers.uniform(4000, np.random.default_rng(30)))
CLUSTERED = helpers.distinct(helpers.clustered(4000, np.random.default_rng(31)))


def pairs_of(fingerprints: Keys, ids: str) -> tuple[Keys, Keys] | None:
    if ids == "none":
        return None
    repeated = fingerprints if ids == "one each" else np.concatenate([fingerprints, fingerprints[::2]])
    return repeated, np.arange(len(repeated), dtype=np.uint64)


def report_of(fingerprints: Keys, plan: Plan = PLAN, *, codec: str = "gap", ids: str = "none") -> report.SegmentReport:
    with helpers.segment_of(fingerprints, plan, codec=codec, pairs=pairs_of(fingerprints, ids)) as segment:
        return report.report_segment(segment)


def deltas(keys: Keys, codec: str, slot_bits: int) -> list[int]:
    """The deltas of a table's keys as docs/format.md defines them."""
    found, before, slot_before = [], 0, -1
    for key in keys.tolist():
        slot = key >> (64 - slot_bits)
        previous = before if slot == slot_before else slot << (64 - slot_bits)
        found.append(key ^ previous if codec == "xor" else key - previous)
        before, slot_before = key, slot
    return found


# Bytes.


@pytest.mark.parametrize("ids", ["none", "one each", "many"])
@pytest.mark.parametrize("codec", layout.CODECS)
@pytest.mark.parametrize("kind", ["uniform", "clustered", "one_prefix", "all_equal"])
def test_the_parts_add_up_to_the_size_of_the_file(kind: str, codec: str, ids: str) -> None:
    fingerprints = helpers.distinct(helpers.KINDS[kind](3000, np.random.default_rng(32)))
    with helpers.segment_of(fingerprints, PLAN, codec=codec, pairs=pairs_of(fingerprints, ids)) as segment:
        found = report.report_segment(segment)
        size = segment.path.stat().st_size
    as_json = found.to_json()
    assert found.sizes.total == size == sum(as_json["bytes_in_detail"].values())
    assert sum(as_json["bytes"].values()) == 2 * size  # the parts, and their total
    assert sum(table.sizes.total for table in found.tables) + found.sizes.ids + found.sizes.rest == size
    assert (found.sizes.fences > 0) == any(table.record.fence_count for table in found.tables)
    assert (found.sizes.ids > 0) == (ids != "none")


def test_each_part_has_the_bytes_that_the_format_says() -> None:
    found = report_of(UNIFORM, ids="many")
    s = planner.slot_bits(4000, PLAN.slot_keys)
    assert found.sizes.directory == 2 * 32 * -(-(1 << s) // 12)
    assert found.sizes.ranks == -(-((1 << s) + 1) * 12 // 8)  # 4,000 has 12 bits
    assert found.sizes.id_groups == 10_000 // 8
    assert found.sizes.group_samples == (20 + 1) * 8  # 10,000 bits are 20 started runs of 512
    assert found.sizes.id_values == 6000 * 13 // 8  # up to 5,999
    assert (found.sizes.header, found.sizes.footer) == (64, 64)
    assert found.sizes.summary == 128 + 2 * 192


def test_a_file_longer_than_its_parts_is_an_error(tmp_path: Path) -> None:
    segment = Segment(helpers.write_segment(tmp_path / "x.fpseg", UNIFORM, PLAN))
    with segment.path.open("ab") as file:
        file.write(b"x")
    for read in (report.report_segment, stats):
        with pytest.raises(
            CorruptStore, match=r"x\.fpseg: file: found (\d+) bytes, expected \d+, the sum of its parts$"
        ):
            read(segment)
    segment.close()


@pytest.mark.parametrize("recorded", [3999, 4001])
def test_a_table_with_another_number_of_keys_is_an_error(tmp_path: Path, recorded: int) -> None:
    path = helpers.write_segment(tmp_path / "x.fpseg", UNIFORM, PLAN)
    data = bytearray(path.read_bytes())
    segment = Segment(path)
    offset = segment.footer.summary_offset
    data[offset : offset + 128] = replace(segment.record, key_count=recorded).pack()
    segment.close()
    path.write_bytes(helpers.resealed(data))
    segment = Segment(path)
    with pytest.raises(CorruptStore, match=rf"x\.fpseg: table 0: found 4000 keys, expected {recorded}$"):
        report.report_segment(segment)
    segment.close()


def test_a_table_that_does_not_decode_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = helpers.write_segment(tmp_path / "x.fpseg", UNIFORM, PLAN)
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    segment = Segment(path)
    with pytest.raises(CorruptStore, match=r"x\.fpseg: table 0, slot \d+, page at byte "):
        report.report_segment(segment)
    segment.close()


# Codes.


@pytest.mark.parametrize("codec", ["gap", "xor"])
@pytest.mark.parametrize("fingerprints", [UNIFORM, CLUSTERED], ids=["uniform", "clustered"])
def test_the_code_is_that_of_the_deltas(fingerprints: Keys, codec: str) -> None:
    found = report_of(fingerprints, codec=codec)
    for table in found.tables:
        keys = np.sort(Permutation(table.record.prefix_mask).apply(fingerprints))
        lengths = [delta.bit_length() for delta in deltas(keys, codec, table.record.slot_bits)]
        counts = [lengths.count(symbol) for symbol in range(65)]
        assert {word.symbol: word.count for word in table.code} == {s: c for s, c in enumerate(counts) if c}
        assert {word.symbol: word.length for word in table.code} == {
            s: length for s, length in enumerate(code_lengths(counts)) if length
        }
        assert all(len(word.word) == word.length for word in table.code)
        assert all(word.leading_bit == (word.symbol - 1 if word.symbol else None) for word in table.code)
        bits = sum(word.count * (word.length + max(0, word.symbol - 1)) for word in table.code)
        assert bits == table.record.payload_bits


@pytest.mark.parametrize("codec", layout.CODECS)
@pytest.mark.parametrize("fingerprints", [UNIFORM, CLUSTERED], ids=["uniform", "clustered"])
def test_the_cost_of_each_codec_is_what_a_table_of_it_takes(fingerprints: Keys, codec: str) -> None:
    # However the store is coded, its report says what a store in each codec has.
    expected = [table.record.payload_bits for table in report_of(fingerprints, codec=codec).tables]
    for stored in layout.CODECS:
        costs = [{cost.codec: cost.bits for cost in t.slot_costs} for t in report_of(fingerprints, codec=stored).tables]
        assert [cost[codec] for cost in costs] == expected


def test_the_cost_as_one_chain_is_that_of_one_slot() -> None:
    with helpers.segment_of(UNIFORM, PLAN, slot_bits=0) as segment:
        one_slot = report.report_segment(segment)
    many_slots = report_of(UNIFORM)
    for one, many in zip(one_slot.tables, many_slots.tables, strict=True):
        assert one.chain_costs == one.slot_costs == many.chain_costs
        assert many.slot_costs != many.chain_costs


# Bounds.


@pytest.mark.parametrize("count", [1, 2, 3, 10, 1000, 20_000])
def test_the_entropy_bound_is_exact(count: int) -> None:
    # log2 of a large integer by its leading bits: exact to the last digit of a float.
    sets = comb(1 << 64, count)
    shift = max(0, sets.bit_length() - 64)
    exact = (log2(sets >> shift) + shift) / count
    assert isclose(report.entropy_bound(count), exact, rel_tol=1e-12)


def test_the_entropy_bound_of_many_keys_is_that_of_the_formula() -> None:
    # 64 - log2 n + log2 e, which Stirling's next terms raise by less than 10^-6 bits at 10^8.
    for count in (10**8, 10**10, 10**13):
        assert isclose(report.entropy_bound(count), 64 - log2(count) + 1.4426950408889634, abs_tol=1e-6)


def test_the_correction_for_distinct_keys_is_counted() -> None:
    # At n = 2^46 every key takes (n - 1) / 2 / 2^64 / ln 2 bits less than n^-th of log2 (2^64n / n!): 2.75e-6.
    count = 1 << 46
    stirling = 64 - 46 + 1.4426950408889634 - 0.5 * log2(2 * 3.141592653589793 * count) / count
    assert isclose(
        stirling - report.entropy_bound(count), float(Fraction(count, 1 << 65)) * 1.4426950408889634, rel_tol=1e-3
    )


def test_no_keys_have_no_bound_and_one_key_has_64_bits() -> None:
    assert report.entropy_bound(0) == 0.0
    assert report.entropy_bound(1) == 64.0


def test_ratios_are_bytes_over_raw_bytes_and_over_the_bound() -> None:
    found = report_of(UNIFORM, ids="one each")
    without_ids = found.sizes.total - found.sizes.ids
    bound_bits = 4000 * report.entropy_bound(4000)
    assert found.ratio_to_raw == without_ids / 32_000
    assert found.ratio_to_bound == pytest.approx(8 * without_ids / (2 * bound_bits))
    for table in found.tables:
        assert table.ratio_to_raw == table.sizes.total / 32_000
        assert table.ratio_to_bound == pytest.approx(8 * table.sizes.total / bound_bits)
    assert found.ratio_to_bound is not None
    assert 1 < found.ratio_to_bound < 1.05


@pytest.mark.parametrize("ids", ["none", "one each"])
def test_a_segment_without_keys_has_no_ratios(ids: str) -> None:
    found = report_of(UNIFORM[:0], ids=ids)
    assert (found.ratio_to_raw, found.ratio_to_bound) == (None, None)
    as_json = report.combine([found]).to_json()
    assert as_json["bits_per_fingerprint"]["total"] is None
    assert as_json["segments"][0]["tables"][0]["codec_bits_per_key"]["slots"]["gap"] is None
    assert "0 fingerprints" in report.combine([found]).to_text()


def test_a_segment_of_one_key_is_reported() -> None:
    found = report_of(UNIFORM[:1])
    (word,) = found.tables[0].code
    assert (word.length, word.word, word.count) == (1, "0", 1)
    assert found.to_json()["entropy_bound"] == 64


# The report.


def test_progress_goes_to_its_total() -> None:
    calls: list[tuple[str, int, int | None]] = []
    with helpers.segment_of(UNIFORM, PLAN) as segment:
        report.report_segment(segment, lambda phase, done, total: calls.append((phase, done, total)))
    assert calls[-1] == ("report", 40_000, 40_000)  # 4,000 keys, 2 tables, 5 times
    assert all(before[1] < after[1] for before, after in pairwise(calls))


def test_a_store_is_the_sum_of_its_segments() -> None:
    parts = [report_of(UNIFORM, ids="one each"), report_of(CLUSTERED, ids="many")]
    whole = report.combine(parts)
    assert whole.keys == len(UNIFORM) + len(CLUSTERED)
    assert whole.ids == sum(part.ids for part in parts)
    assert whole.sizes.total == sum(part.sizes.total for part in parts)
    assert whole.table_count == 2
    bound = 2 * whole.keys * report.entropy_bound(whole.keys)
    assert whole.ratio_to_bound == pytest.approx(8 * whole.sizes.keys / bound)
    assert whole.to_text().count("fingerprints, ") >= 3


def test_a_store_without_segments_is_reported() -> None:
    empty = report.combine([])
    assert empty.to_json()["fingerprint_count"] == empty.to_json()["bytes"]["total"] == 0
    assert empty.to_text().startswith("store: 0 segments, 0 fingerprints, 0 bytes")


def test_the_json_keeps_its_keys_and_survives_json() -> None:
    as_json = report.combine([report_of(CLUSTERED, ids="many")]).to_json()
    assert json.loads(json.dumps(as_json)) == as_json
    totals = [
        "fingerprint_count",
        "id_count",
        "tables_per_segment",
        "bytes",
        "bytes_in_detail",
        "bits_per_fingerprint",
        "entropy_bound",
        "ratio_to_raw",
        "ratio_to_bound",
    ]
    assert list(as_json) == [*totals, "spikes", "segments"]
    assert list(as_json["bytes"]) == ["payload", "directory", "fences", "ids", "rest", "total"]
    (segment,) = as_json["segments"]
    assert list(segment) == ["segment", *totals, "tables", "layouts", "warnings"]
    assert list(segment["tables"][0]) == [
        "table",
        "codec",
        "prefix_mask",
        "prefix_bits",
        "flips",
        "slot_bits",
        "block_bytes",
        "rice_bits",
        "fence_count",
        "key_count",
        "bytes",
        "bits_per_key",
        "entropy_bound",
        "ratio_to_raw",
        "ratio_to_bound",
        "codec_bits_per_key",
        "code",
    ]
    assert list(segment["tables"][0]["code"][0]) == ["symbol", "leading_bit", "length", "word", "count"]
    assert segment["tables"][0]["prefix_mask"] == "ffffffff00000000"


@pytest.mark.parametrize("codec", layout.CODECS)
def test_the_text_fits_100_columns_of_plain_ascii(codec: str) -> None:
    for plan in (PLAN, plans.paper("paper-4")):
        text = report.combine([report_of(CLUSTERED, plan, codec=codec, ids="many")]).to_text()
        assert text.isascii()
        assert max(map(len, text.splitlines())) <= 100
        assert not any(line != line.rstrip() for line in text.splitlines())


def test_the_text_says_what_the_json_says() -> None:
    found = report_of(UNIFORM, codec="rice", ids="one each")
    text = report.combine([found]).to_text()
    assert f"{found.sizes.payload:,}" in text
    assert f"{found.sizes.total:,} bytes" in text
    assert f"codec rice, parameter {found.tables[0].record.rice_bits}" in text
    assert "entropy bound: 2 tables of 53.475 bits a key" in text  # 64 - 11.9658 + 1.4427 - 0.0018


def test_the_longest_bar_of_the_histogram_is_the_commonest_symbol() -> None:
    found = report_of(UNIFORM)
    most = max(found.tables[0].code, key=lambda word: word.count)
    lines = report.combine([found]).to_text().partition("table 0: ")[2].partition("\n\n")[0].splitlines()[2:]
    longest = max(lines, key=lambda line: line.count("#"))
    assert int(longest.split()[0]) == most.leading_bit
    assert longest.count("#") == report.BAR_WIDTH
    assert all(line.count("#") >= 1 for line in lines)


# What costs nothing.


def test_stats_say_what_the_records_say() -> None:
    with helpers.segment_of(UNIFORM, PLAN, codec="xor", pairs=pairs_of(UNIFORM, "many")) as segment:
        found = stats(segment)
        json.dumps(asdict(found))
        assert (found.name, found.codec) == ("x.fpseg", "xor")
        assert (found.fingerprint_count, found.id_count, found.id_bits) == (4000, 6000, 13)
        assert found.total_bytes == segment.file_bytes
        assert [table["prefix_mask"] for table in found.tables] == ["ffffffff00000000", "00000000ffffffff"]
        assert [table["flips"] for table in found.tables] == [1, 1]


def test_stats_decode_nothing(tmp_path: Path) -> None:
    path = helpers.write_segment(tmp_path / "x.fpseg", UNIFORM, PLAN)
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    segment = Segment(path)
    assert stats(segment).fingerprint_count == 4000
    segment.close()


def test_what_crowding_warns_of_is_in_the_report_and_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowding, "CROWDED_KEYS", 149)
    aimed = np.arange(150, dtype=np.uint64) + np.uint64(0xABCD << 48)
    with helpers.segment_of(np.unique(np.concatenate([aimed, UNIFORM[:50]])), PLAN, slot_bits=4) as segment:
        found = report.report_segment(segment)
        assert found.warnings == crowding.crowding_warnings(segment) != ()
    text = report.combine([found]).to_text()
    assert all(f"warning: {warning}" in text for warning in found.warnings)
