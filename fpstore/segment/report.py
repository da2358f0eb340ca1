"""Says where the bytes of a store go, what its keys cost, and what they would cost otherwise.

Every byte of a file is in exactly one part, and the parts add up to what the file system says. The *entropy bound* of n
keys of h bits is log2 of C(2^h, n) / n bits each: what no code can beat on average over sets drawn at random. A skewed
set can go below it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from math import lgamma, log
from typing import Any, Self

from fpstore import format as layout
from fpstore.checks import hexadecimal
from fpstore.errors import CorruptStore
from fpstore.format import TableRecord
from fpstore.huffman import canonical_codes
from fpstore.progress import Tell
from fpstore.segment.crowding import crowding_warnings
from fpstore.segment.layouts import LayoutCost, layouts_text
from fpstore.segment.reader import Segment
from fpstore.segment.spikes import Spikes
from fpstore.segment.table import CodecCost, codec_costs, leading_bit_histogram
from fpstore.types import KEY_NOUNS, Keys, Kind

PASSES = 5  # over the keys of a table: one for the histogram, two for each of two codec_costs
BAR_WIDTH = 34
GROUPS = ("payload", "directory", "fences", "ids", "rest", "total")
TABLE_GROUPS = ("payload", "directory", "fences", "total")
# As which part the regions of wide codes are counted.
OF_CODES = {"codes": "payload", "entries": "payload", "starts": "directory"}
CODE_FIELDS = ("symbol", "leading_bit", "length", "word", "count")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of each part of a file; the names are those of docs/format.md."""

    payload: int = 0
    directory: int = 0
    fences: int = 0
    ranks: int = 0
    id_groups: int = 0
    group_samples: int = 0
    id_values: int = 0
    id_list: int = 0
    header: int = 0
    summary: int = 0
    checksums: int = 0
    roots: int = 0
    footer: int = 0
    padding: int = 0

    @classmethod
    def of(cls, segment: Segment, table: int | None = None) -> Self:
        """The sizes of a whole segment, or of one of its tables. CorruptStore if they are not the whole file."""
        sizes: Counter[str] = Counter()
        for region in segment.regions():
            if table is None or region.table == table:
                sizes[OF_CODES.get(region.name, region.name).replace(" ", "_")] += region.bytes
        found = cls(**sizes)
        # Of the open file: its name may have gone since.
        if table is None and found.total != (size := segment.size_now()):
            raise CorruptStore("file", f"{size} bytes", f"{found.total}, the sum of its parts")
        return found

    @property
    def ids(self) -> int:
        """What serves the ids alone."""
        return self.ranks + self.id_groups + self.group_samples + self.id_values + self.id_list

    @property
    def rest(self) -> int:
        """What serves neither keys nor ids: records, checksums, padding."""
        return self.header + self.summary + self.checksums + self.roots + self.footer + self.padding

    @property
    def keys(self) -> int:
        """What there would be without ids."""
        return self.payload + self.directory + self.fences + self.rest

    @property
    def total(self) -> int:
        """Everything."""
        return self.keys + self.ids

    def named(self, names: Sequence[str]) -> dict[str, int]:
        """Some of the sizes, by name; GROUPS are the whole and all its parts, TABLE_GROUPS those of a table."""
        return {name: getattr(self, name) for name in names}

    def __add__(self, other: "Sizes") -> "Sizes":
        return Sizes(*(getattr(self, name) + getattr(other, name) for name in PARTS))


PARTS = tuple(field.name for field in fields(Sizes))


@dataclass(frozen=True, slots=True)
class CodeWord:
    """One symbol of a table's code: the bit length of a delta, and how often it occurs."""

    symbol: int
    length: int  # of the code word; 0 where the codec has none
    word: str  # its bits, the first on the left
    count: int

    @property
    def leading_bit(self) -> int | None:
        """The position of the delta's leading bit; None for a delta of 0."""
        return self.symbol - 1 if self.symbol else None


@dataclass(frozen=True, slots=True)
class TableReport:
    """One table: its sizes, its code, and what each codec costs on its keys."""

    index: int
    record: TableRecord
    keys: int
    sizes: Sizes
    code: tuple[CodeWord, ...]  # the symbols that occur, of gap deltas unless the codec is xor
    chain_costs: tuple[CodecCost, ...]  # all keys as one chain: before slots and blocks
    slot_costs: tuple[CodecCost, ...]  # in this table's slots: its payload

    @property
    def codec(self) -> str:
        """The name of the table's codec."""
        return layout.CODECS[self.record.codec]

    @property
    def ratio_to_raw(self) -> float | None:
        """The table's bytes over those of its keys as they are; None without keys."""
        return _ratio(self.sizes.total * 8, self.keys * self.record.key_bits)

    @property
    def ratio_to_bound(self) -> float | None:
        """The table's bits over the entropy bound of its keys; None without keys, and where it has ranks for keys."""
        if self.record.key_bits in layout.WIDE_BITS:
            return None
        return _ratio(self.sizes.total * 8, self.keys * entropy_bound(self.keys, self.record.key_bits))

    def to_json(self) -> dict[str, Any]:
        """The table as plain values; see Report.to_json."""
        return {
            **record_json(self.index, self.record),
            "key_count": self.keys,
            "bytes": self.sizes.named(TABLE_GROUPS),
            "bits_per_key": {
                name: each_of(8 * size, self.keys) for name, size in self.sizes.named(TABLE_GROUPS).items()
            },
            "entropy_bound": _rounded(entropy_bound(self.keys, self.record.key_bits)),
            "ratio_to_raw": _rounded(self.ratio_to_raw),
            "ratio_to_bound": _rounded(self.ratio_to_bound),
            "codec_bits_per_key": {
                "chain": {cost.codec: each_of(cost.bits, self.keys) for cost in self.chain_costs},
                "slots": {cost.codec: each_of(cost.bits, self.keys) for cost in self.slot_costs},
            },
            "code": [{name: getattr(word, name) for name in CODE_FIELDS} for word in self.code],
        }


@dataclass(frozen=True)
class _Totals:
    """What a segment and a store have in common."""

    keys: int
    ids: int
    table_count: int
    sizes: Sizes
    bits: int  # of a fingerprint

    @property
    def ratio_to_raw(self) -> float | None:
        """Bytes of all tables and the rest, without ids, over those of the keys as they are, once each."""
        return _ratio(self.sizes.keys * 8, self.keys * self.bits)

    @property
    def copies(self) -> int:
        """How often each key is there: once in each table, wide ones once in all."""
        return min(1, self.table_count) if self.bits in layout.WIDE_BITS else self.table_count

    @property
    def ratio_to_bound(self) -> float | None:
        """Bits of all tables and the rest, without ids, over the entropy bound of that many copies of the keys."""
        return _ratio(self.sizes.keys * 8, self.copies * self.keys * entropy_bound(self.keys, self.bits))

    def totals_json(self) -> dict[str, Any]:
        """What to_json says of a segment and of a store alike."""
        groups = self.sizes.named(GROUPS)
        return {
            "fingerprint_count": self.keys,
            "id_count": self.ids,
            "tables_per_segment": self.table_count,
            "bytes": groups,
            "bytes_in_detail": self.sizes.named(PARTS),
            "bits_per_fingerprint": {name: each_of(8 * size, self.keys) for name, size in groups.items()},
            "entropy_bound": _rounded(entropy_bound(self.keys, self.bits)),
            "ratio_to_raw": _rounded(self.ratio_to_raw),
            "ratio_to_bound": _rounded(self.ratio_to_bound),
        }


@dataclass(frozen=True)
class SegmentReport(_Totals):
    """One segment file."""

    name: str
    tables: tuple[TableReport, ...]
    warnings: tuple[str, ...]
    layouts: tuple[LayoutCost, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The segment as plain values; see Report.to_json."""
        tables, layouts = ([part.to_json() for part in parts] for parts in (self.tables, self.layouts))
        told = {"tables": tables, "layouts": layouts, "warnings": list(self.warnings)}
        return {"segment": self.name, **self.totals_json(), **told}


@dataclass(frozen=True)
class Report(_Totals):
    """All the segments of a store. Its entropy bound is that of one set of all their keys.

    spikes: of its live rows, pending ones too; None where there are no ids. kind: of the store; in one of signatures
    fingerprints are keys of bands.
    """

    segments: tuple[SegmentReport, ...]
    spikes: Spikes | None = None
    kind: Kind = "hamming"

    def to_json(self) -> dict[str, Any]:
        """The report as plain values, whose keys will stay what they are.

        Of the store, and of each of "segments": fingerprint_count, id_count, tables_per_segment, bytes and
        bits_per_fingerprint (payload, directory, fences, ids, rest, total), bytes_in_detail (every region),
        entropy_bound (bits a key), ratio_to_raw and ratio_to_bound (without ids; null without keys). Of each of a
        segment's "tables": table, codec, prefix_mask (hex), prefix_bits, flips, slot_bits, rice_bits, fence_count,
        key_count, bytes and bits_per_key (payload, directory, fences, total), the same three ratios of this table
        alone, codec_bits_per_key (chain and slots, a number for each codec), and code (symbol, leading_bit, length,
        word, count), which is the histogram too. Ratios and bits are rounded to 4 decimals. A segment's "layouts" are
        those of LayoutCost.to_json, none for signatures; its "warnings" those of fpstore/crowding.py. "spikes": as
        Spikes.to_json, or null.
        """
        spikes = None if self.spikes is None else self.spikes.to_json()
        segments = [segment.to_json() for segment in self.segments]
        return {**self.totals_json(), "spikes": spikes, "segments": segments}

    def to_text(self) -> str:
        """The report as plain text of at most 100 columns."""
        lines = [f"store: {_counted(len(self.segments), 'segment')}, {_described(self, self.kind)}"]
        lines += _sizes_text(self, self.kind) if len(self.segments) != 1 else []
        for segment in self.segments:
            lines += ["", f"segment {segment.name}: {_described(segment, self.kind)}"]
            lines += _sizes_text(segment, self.kind)
            if self.bits in layout.WIDE_BITS:
                lines += _code_tables_text(segment.tables)
            else:
                lines += [*_tables_text(segment.tables), *_costs_text(segment.tables)]
                lines += layouts_text(segment.layouts, segment.keys)
                for table in segment.tables:
                    lines += _code_text(table)
            lines += [f"warning: {warning}" for warning in segment.warnings]
        if self.spikes is not None:
            lines += ["", *self.spikes.to_text()]
        return "\n".join(lines)


def entropy_bound(key_count: int, bits: int = layout.KEY_BITS) -> float:
    """log2 of C(2^h, n) / n: bits a key that a random set of n keys of h bits takes at least; 0 for no keys.

    C(N, n) = N^n / n! * product of (1 - i/N) for i < n. The logarithm of that product is minus the sum of i/N and
    i^2 / 2N^2 and so on; the third term is below 2^-50 a key where n is up to 2^-17 N, as up to 2^47 keys of 64 bits,
    beyond which no payload goes. Where more of the N are there, the factorials themselves are taken.
    """
    if key_count == 0:
        return 0.0
    share = key_count / 2**bits
    if share > 2.0**-17:
        total = 2**bits
        logarithm = lgamma(total + 1) - lgamma(key_count + 1) - lgamma(total - key_count + 1)
        return max(0.0, logarithm / key_count / log(2))
    # Sums of i and of i^2 for i < n, over n.
    product = (key_count - 1) / 2 ** (bits + 1) + share * share / 6
    bound: float = bits - (lgamma(key_count + 1) / key_count + product) / log(2)
    return bound


def report_segment(segment: Segment, progress: Tell | None = None) -> SegmentReport:
    """Read every table and count. progress gets the phase "report" (keys, each table five times).

    Raises CorruptStore where a table does not decode, or the parts of the file are not all of it.
    """
    total = PASSES * segment.key_count * len(segment.tables)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if progress:
            progress("report", done, total)

    with segment.naming:
        sizes = Sizes.of(segment)
        tables = tuple(_report_table(segment, index, advance) for index in range(len(segment.tables)))
    return _report_of(segment, sizes, tables, crowding_warnings(segment))


def report_codes(segment: Segment) -> SegmentReport:
    """The same of a segment of wide codes, which are kept as they are: no code of theirs is counted or compared."""
    with segment.naming:
        sizes = Sizes.of(segment)
        tables = tuple(
            TableReport(index, record, segment.key_count, Sizes.of(segment, index), (), (), ())
            for index, record in enumerate(segment.tables)
        )
    return _report_of(segment, sizes, tables, ())


def _report_of(
    segment: Segment, sizes: Sizes, tables: tuple[TableReport, ...], warnings: tuple[str, ...]
) -> SegmentReport:
    counts = (segment.key_count, segment.record.id_count, len(tables))
    return SegmentReport(*counts, sizes, segment.bits, segment.path.name, tables, warnings)


def combine(
    reports: Sequence[SegmentReport],
    spikes: Spikes | None = None,
    bits: int = layout.KEY_BITS,
    kind: Kind = "hamming",
) -> Report:
    """The report of a store of that kind with these segments, of fingerprints of so many bits."""
    keys, ids = sum(report.keys for report in reports), sum(report.ids for report in reports)
    table_count = max((report.table_count for report in reports), default=0)
    sizes = sum((report.sizes for report in reports), Sizes())
    return Report(keys, ids, table_count, sizes, bits, tuple(reports), spikes, kind)


@dataclass(frozen=True)
class _TableKeys:
    """The keys of a table as SortedKeys; advance is told of each chunk."""

    segment: Segment
    index: int
    count: int
    advance: Callable[[int], None]

    def chunks(self) -> Iterator[Keys]:
        for chunk in self.segment.keys(self.index):
            yield chunk
            self.advance(len(chunk))


def _report_table(segment: Segment, index: int, advance: Callable[[int], None]) -> TableReport:
    record = segment.tables[index]
    keys = _TableKeys(segment, index, segment.key_count, advance)
    slot_bits = 0 if record.block_bytes else record.slot_bits  # from which the code was chosen
    counts = leading_bit_histogram(keys, layout.CODECS[record.codec], slot_bits, bits=record.key_bits).tolist()
    if sum(counts) != keys.count:
        raise CorruptStore(f"table {index}", f"{sum(counts)} keys", keys.count)
    words = canonical_codes(record.code_lengths)
    code = tuple(
        CodeWord(symbol, length, f"{word:0{length}b}" if length else "", count)
        for symbol, (length, word, count) in enumerate(zip(record.code_lengths, words, counts, strict=True))
        if count
    )
    costs = codec_costs(keys, bits=record.key_bits), codec_costs(keys, record.slot_bits, bits=record.key_bits)
    return TableReport(index, record, keys.count, Sizes.of(segment, index), code, *costs)


def record_json(index: int, record: TableRecord) -> dict[str, Any]:
    """What the record of a table says, as plain values."""
    return {
        "table": index,
        "codec": layout.CODECS[record.codec],
        "prefix_mask": hexadecimal(record.prefix_mask, record.key_bits),
        "prefix_bits": record.prefix_mask.bit_count(),
        "flips": record.flips,
        "slot_bits": record.slot_bits,
        "block_bytes": record.block_bytes,
        "rice_bits": record.rice_bits,
        "fence_count": record.fence_count,
    }


def _ratio(found: float, expected: float) -> float | None:
    return found / expected if expected else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def each_of(bits: int, keys: int) -> float | None:
    """Bits of each key, rounded; None without keys."""
    return _rounded(_ratio(bits, keys))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _shown(value: float | None, digits: int, unit: str = "") -> str:
    return "-" if value is None else f"{value:,.{digits}f}{unit}"


def _described(totals: _Totals, kind: Kind) -> str:
    ids = f", {_counted(totals.ids, 'id')}" if totals.ids else ""
    return f"{_counted(totals.keys, KEY_NOUNS[kind])}{ids}, {totals.sizes.total:,} bytes"


def _sizes_text(totals: _Totals, kind: Kind) -> list[str]:
    lines = ["", f"{'part':<12}{'bytes':>20}{'share':>10}{f'bits per {KEY_NOUNS[kind]}':>24}"]
    for name, size in totals.sizes.named(GROUPS).items():
        share = _shown(_ratio(100 * size, totals.sizes.total), 2, " %")
        lines.append(f"{name:<12}{size:>20,}{share:>10}{_shown(_ratio(8 * size, totals.keys), 3):>24}")
    raw_ratio, bound_ratio = _shown(totals.ratio_to_raw, 3), _shown(totals.ratio_to_bound, 4)
    lines += [
        "",
        f"without ids: {raw_ratio} times the raw {totals.bits}-bit keys, {bound_ratio} times the entropy bound",
    ]
    wide = totals.bits in layout.WIDE_BITS
    copies = "one copy" if wide else _counted(totals.table_count, "table")
    return [*lines, f"entropy bound: {copies} of {entropy_bound(totals.keys, totals.bits):.3f} bits a key"]


def _tables_text(tables: Sequence[TableReport]) -> list[str]:
    header = f"{'table':>5}  {'prefix mask':<16}{'bits':>6}{'flips':>7}{'slots':>8}{'payload':>10}{'directory':>11}"
    lines = ["", "bits per key", header + f"{'fences':>8}{'total':>9}{'/ raw':>8}{'/ bound':>9}"]
    for table in tables:
        record = table.record
        sizes = table.sizes.named(TABLE_GROUPS).values()
        payload, directory, fences, total = (_shown(_ratio(8 * size, table.keys), 3) for size in sizes)
        lines.append(
            f"{table.index:>5}  {hexadecimal(record.prefix_mask, record.key_bits):<16}"
            f"{record.prefix_mask.bit_count():>6}{record.flips:>7}"
            f"{f'2^{record.slot_bits}':>8}{payload:>10}{directory:>11}{fences:>8}{total:>9}"
            f"{_shown(table.ratio_to_raw, 3):>8}{_shown(table.ratio_to_bound, 4):>9}"
        )
    return lines


def _code_tables_text(tables: Sequence[TableReport]) -> list[str]:
    """Tables of wide codes, whose masks are longer than a line; fpstore inspect tells them."""
    header = f"{'table':>5}{'bits':>6}{'flips':>7}{'slots':>8}{'entries':>10}{'starts':>10}{'total':>9}"
    lines = ["", "bits per key, beside the codes", header]
    for table in tables:
        sizes = table.sizes.payload, table.sizes.directory, table.sizes.total
        entries, starts, total = (_shown(_ratio(8 * size, table.keys), 3) for size in sizes)
        lines.append(
            f"{table.index:>5}{table.record.prefix_mask.bit_count():>6}{table.record.flips:>7}"
            f"{f'2^{table.record.slot_bits}':>8}{entries:>10}{starts:>10}{total:>9}"
        )
    return lines


def _costs_text(tables: Sequence[TableReport]) -> list[str]:
    names = "".join(f"{codec:>10}" for codec in layout.CODECS)
    header = f"{'':<8}{'bits per key, one chain':^40}    {'in these slots':>27}"
    lines = ["", header, f"{'table':>5}   {names}    {names}"]
    for table in tables:
        costs = (
            "".join(f"{_shown(_ratio(cost.bits, table.keys), 3):>10}" for cost in costs)
            for costs in (table.chain_costs, table.slot_costs)
        )
        lines.append(f"{table.index:>5}   {'    '.join(costs)}")
    return lines


def _code_text(table: TableReport) -> list[str]:
    rice = f", parameter {table.record.rice_bits}" if table.codec == "rice" else ""
    lines = ["", f"table {table.index}: codec {table.codec}{rice}; code words and the leading bit of each delta"]
    lines.append(f"{'leading bit':>11}{'length':>8}  {'code word':<14}{'keys':>16}{'share':>10}")
    most = max((word.count for word in table.code), default=0)
    for word in table.code:
        leading = "none" if word.leading_bit is None else str(word.leading_bit)
        bar = "#" * -(-word.count * BAR_WIDTH // most)
        share = _shown(100 * word.count / table.keys, 3, " %")
        code = f"{word.length or '-':>8}  {word.word or '-':<14}"
        lines.append(f"{leading:>11}{code}{word.count:>16,}{share:>10}  {bar}")
    return lines
