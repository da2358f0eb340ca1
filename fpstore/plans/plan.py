"""A plan: which tables a store keeps and which bits each is probed by, as a record that is sane and can be proven.

A plan promises that errors on any k bits leave some table whose prefix holds no more errors than that
table's flips; `Plan.prove` decides it for any masks and flips, and names the errors that would be missed.
"""

import re
from dataclasses import dataclass
from dataclasses import replace as _replace
from hashlib import sha256

from fpstore.arrays import as_integer
from fpstore.checks import limited_list, named_fields, shown, typed, wrong
from fpstore.errors import PlanError
from fpstore.format import KEY_BITS, MAX_BLOCK_BYTES, MAX_BLOCK_KEYS, MAX_TABLES, MIN_BLOCK_BYTES
from fpstore.plans.proof import escape, ones
from fpstore.types import Layout

MAX_PLAN_BITS = 256  # the widest fingerprint the project means to hold; stores of this version have 64 at most
MAX_NAME_LENGTH = 200


@dataclass(frozen=True)
class TablePlan:
    """One table: prefix_mask are the fingerprint bits a probe matches, all but at most `flips` of them."""

    prefix_mask: int
    flips: int = 0

    @property
    def prefix_bits(self) -> int:
        """How many bits the prefix has."""
        return self.prefix_mask.bit_count()


@dataclass(frozen=True)
class Plan:
    """The tables of a store that answers every distance up to max_distance, over fingerprints of so many bits.

    bands: disjoint masks that cover every bit; each table's prefix is a union of bands.
    slot_keys: the least average number of keys in a slot (docs/format.md, section 2). block_bytes: 0, or what a block
    has at most where tables are laid out in blocks.

    Making one checks that it is sane, in time linear in its size, and raises PlanError; only `prove` says
    that it is exact.
    """

    name: str
    max_distance: int
    bands: tuple[int, ...]
    tables: tuple[TablePlan, ...]
    slot_keys: int = 24
    bits: int = KEY_BITS
    block_bytes: int = 0

    def __post_init__(self) -> None:
        if not (1 <= len(self.name) <= MAX_NAME_LENGTH and self.name.isprintable()):
            raise refusal("plan name", shown(self.name), f"1 to {MAX_NAME_LENGTH} printable characters")
        check_range(self.name, "bits", self.bits, 1, MAX_PLAN_BITS)
        check_range(self.name, "max_distance", self.max_distance, 0, MAX_PLAN_BITS)
        check_range(self.name, "slot_keys", self.slot_keys, 1, MAX_BLOCK_KEYS)
        if self.block_bytes:
            check_range(self.name, "block_bytes", self.block_bytes, MIN_BLOCK_BYTES, MAX_BLOCK_BYTES)
        check_range(self.name, "number of bands", len(self.bands), 1, self.bits)
        check_range(self.name, "number of tables", len(self.tables), 1, MAX_TABLES)
        self._check_bands()
        for index, table in enumerate(self.tables):
            self._check_table(index, table)

    def __hash__(self) -> int:
        """Of what is short, as costs that are remembered are asked for with each query: most plans differ in it."""
        return hash((self.name, self.max_distance, self.slot_keys, self.block_bytes))

    def _check_bands(self) -> None:
        every_bit = (1 << self.bits) - 1
        covered = 0
        for index, band in enumerate(self.bands):
            where = f"plan {self.name}, band {index}"
            if not 1 <= band <= every_bit:
                raise refusal(where, f"mask {band:#x}", f"some of {self.bits} bits")
            if band & covered:
                raise refusal(where, f"bits {band & covered:#x} of an earlier band", "disjoint bands")
            covered |= band
        if covered != every_bit:
            raise refusal(f"plan {self.name}", f"bits {every_bit & ~covered:#x} in no band", "every bit in one")

    def _check_table(self, index: int, table: TablePlan) -> None:
        whole_bands = 0
        for band in self.bands:
            if band & table.prefix_mask:
                whole_bands |= band
        where = f"{self.name}, table {index}"
        if table.prefix_mask <= 0 or whole_bands != table.prefix_mask:
            raise refusal(f"plan {where}", f"prefix mask {table.prefix_mask:#x}", "a union of bands")
        check_range(where, "flips", table.flips, 0, table.prefix_bits)

    @classmethod
    def named(cls, name: str, *, max_distance: int = 3, bits: int = KEY_BITS) -> "Plan":
        """The plan of that name, proven, for fingerprints of so many bits.

        name: paper-4, -10, -16 or -20, which are of 64 bits, scan, choose-BANDS, parts-PARTS:BANDS,
        flips-BANDS:FLIPS,FLIPS,..., spread-BANDS:FLIPS,FLIPS,... or general-COUNT:TAU. What size, balanced and speed
        pick depends on the number of fingerprints: fpstore.predict has it. Raises TypeError for what is no name and no
        integer, PlanError where there is no such plan, or it would miss.
        """
        # Families make plans, and a plan is asked for by name where plans are.
        from fpstore.plans.families import named

        for what, value in (("max_distance", max_distance), ("bits", bits)):
            if as_integer(value) is None:
                raise TypeError(f"plan, {what}: found {shown(value)}, expected an integer")
        if not isinstance(name, str):
            raise TypeError(f"plan: found a {type(name).__name__}, expected a name")
        return named(name, int(max_distance), int(bits))

    @property
    def layout(self) -> Layout:
        """How a table is cut: by the top bits of its keys, or by bytes."""
        return "blocks" if self.block_bytes else "slots"

    def missed(self) -> int | None:
        """A pattern of min(max_distance, bits) errors, as a bit mask, that no table catches; None if there is none.

        An exact search, not a formula: it holds for any masks and flips. Raises PlanError when the plan is
        too tangled to be decided in MAX_PROOF_VISITS.
        """
        tables = [(table.prefix_mask, table.flips) for table in self.tables]
        try:
            errors = escape(self.bands, tables, min(self.max_distance, self.bits))
        except PlanError as error:
            raise PlanError(f"plan {self.name}, {error}") from None
        if errors is None:
            return None
        # More errors escape too, so fill up to the distance that the plan promises.
        spare = ~errors
        for _ in range(min(self.max_distance, self.bits) - errors.bit_count()):
            errors |= spare & -spare
            spare &= spare - 1
        return errors

    def prove(self) -> None:
        """Raise PlanError, with the errors that would be missed, unless the plan is exact (`missed`)."""
        errors = self.missed()
        if errors is None:
            return
        on_bands = [(index, (errors & band).bit_count()) for index, band in enumerate(self.bands)]
        counts = ", ".join(f"band {index}: {count}" for index, count in on_bands if count)
        raise PlanError(
            f"plan {self.name} would miss matches at distance {errors.bit_count()}: "
            f"no table catches errors in bits {_hex(errors, self.bits)} ({counts or 'none'})"
        )

    def shuffled(self, seed: int) -> "Plan":
        """The plan with its bits in an order that only the seed tells; as exact, and as fast."""
        bits = sorted(range(self.bits), key=lambda bit: sha256(f"{seed}:{bit}".encode()).digest())
        bands = tuple(_moved(band, bits) for band in self.bands)
        tables = tuple(_replace(table, prefix_mask=_moved(table.prefix_mask, bits)) for table in self.tables)
        return _replace(self, name=f"{self.name} shuffled"[:MAX_NAME_LENGTH], bands=bands, tables=tables)

    def to_json(self) -> dict[str, object]:
        """The plan as a dict of plain values, masks as hex digits; `from_json` reads it back.

        block_bytes is there where tables are laid out in blocks.
        """
        layout = {"block_bytes": self.block_bytes} if self.block_bytes else {}
        return layout | {
            "name": self.name,
            "max_distance": self.max_distance,
            "bits": self.bits,
            "slot_keys": self.slot_keys,
            "bands": [_hex(band, self.bits) for band in self.bands],
            "tables": [
                {"prefix_mask": _hex(table.prefix_mask, self.bits), "flips": table.flips} for table in self.tables
            ],
        }

    @classmethod
    def from_json(cls, value: object) -> "Plan":
        """The plan that `to_json` wrote. Trusts nothing: PlanError unless it is whole and sane.

        It is not proven: whoever probes with it does that.
        """
        try:
            names = {"name", "max_distance", "bits", "slot_keys", "bands", "tables"}
            in_blocks = isinstance(value, dict) and "block_bytes" in value
            fields = named_fields("plan", value, names | ({"block_bytes"} if in_blocks else set()))
            block_bytes = typed("plan, block_bytes", fields["block_bytes"], int) if in_blocks else 0
            if in_blocks:
                check_range("from json", "block_bytes", block_bytes, MIN_BLOCK_BYTES, MAX_BLOCK_BYTES)
            key_bits = typed("plan, bits", fields["bits"], int)
            check_range("from json", "bits", key_bits, 1, MAX_PLAN_BITS)
            bands = limited_list("plan, bands", fields["bands"], key_bits)
            tables = limited_list("plan, tables", fields["tables"], MAX_TABLES)
            return cls(
                name=typed("plan, name", fields["name"], str),
                max_distance=typed("plan, max_distance", fields["max_distance"], int),
                bands=tuple(_mask(f"plan, band {i}", band, key_bits) for i, band in enumerate(bands)),
                tables=tuple(_table(f"plan, table {i}", table, key_bits) for i, table in enumerate(tables)),
                slot_keys=typed("plan, slot_keys", fields["slot_keys"], int),
                bits=key_bits,
                block_bytes=block_bytes,
            )
        except PlanError:
            raise
        except ValueError as error:
            raise PlanError(str(error)) from None


def check_range(where: str, what: str, found: int, least: int, most: int) -> None:
    """PlanError unless found is from least to most."""
    if not least <= found <= most:
        raise refusal(f"plan {where}, {what}", shown(found), f"{least} to {most}")


def refusal(where: str, found: str, expected: str) -> PlanError:
    """The error to raise."""
    return PlanError(wrong(where, found, expected))


def _moved(mask: int, bits: list[int]) -> int:
    return sum(1 << bits[i] for i in ones(mask))


def _hex(mask: int, key_bits: int) -> str:
    return f"{mask:0{(key_bits + 3) // 4}x}"


def _mask(where: str, value: object, key_bits: int) -> int:
    digit_count = (key_bits + 3) // 4
    digits = typed(where, value, str)
    if not re.fullmatch(rf"[0-9a-f]{{{digit_count}}}", digits):
        raise refusal(where, shown(digits), f"{digit_count} lowercase hex digits")
    return int(digits, 16)


def _table(where: str, value: object, key_bits: int) -> TablePlan:
    fields = named_fields(where, value, {"prefix_mask", "flips"})
    return TablePlan(
        prefix_mask=_mask(f"{where}, prefix_mask", fields["prefix_mask"], key_bits),
        flips=typed(f"{where}, flips", fields["flips"], int),
    )
