"""Plans: which tables a store keeps, which bits each is probed by, and the proof that no match is missed.

A plan promises that errors on any k bits leave some table whose prefix holds no more errors than that
table's flips; `Plan.prove` decides it for any masks and flips, and names the errors that would be missed.

The plans of "the paper" (Manku, Jain and Das Sarma, Detecting Near-Duplicates for Web Crawling, WWW 2007)
are those of its section 3.1; flips are the step beyond it (docs/design.md).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import replace as _replace
from hashlib import sha256
from itertools import combinations, pairwise
from math import comb
from typing import TypeVar

from fpstore.errors import PlanError
from fpstore.format import MAX_BLOCK_KEYS, MAX_TABLES

MAX_KEY_BITS = 256  # the widest fingerprint the project means to hold; stores of this version have 64
MAX_NAME_LENGTH = 200
# A proof visits tables; the plans in the product need some thousands of visits, and this many take seconds.
# A plan is a stranger's when it comes from a store, so the search must end.
MAX_PROOF_VISITS = 1_000_000
# The paper scans what is left once it is below 2^tau keys: about two blocks here.
DEFAULT_TAU = 6
MAX_TAU = 40

PAPER_DISTANCE = 3
PAPER_KEY_BITS = 64
PAPER_NAMES = ("paper-4", "paper-10", "paper-16", "paper-20")
_PAPER_BANDS = {"paper-4": 4, "paper-10": 5, "paper-20": 6}

_NUMBER = r"(0|[1-9][0-9]{0,19})"
_CHOOSE_NAME = re.compile(rf"choose-{_NUMBER}")
_FLIPS_NAME = re.compile(rf"flips-{_NUMBER}:({_NUMBER}(?:,{_NUMBER})*)")
_GENERAL_NAME = re.compile(rf"general-{_NUMBER}:{_NUMBER}")
KNOWN_NAMES = (*PAPER_NAMES, "choose-BANDS", "flips-BANDS:FLIPS,FLIPS,...", "general-COUNT:TAU")

_Kind = TypeVar("_Kind")


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
    """The tables of a store that answers every distance up to k, over fingerprints of key_bits bits.

    bands: disjoint masks that cover every bit; each table's prefix is a union of bands.
    slot_keys: the least average number of keys in a slot (docs/format.md, section 2).

    Making one checks that it is sane, in time linear in its size, and raises PlanError; only `prove` says
    that it is exact.
    """

    name: str
    k: int
    bands: tuple[int, ...]
    tables: tuple[TablePlan, ...]
    slot_keys: int = 24
    key_bits: int = 64

    def __post_init__(self) -> None:
        if not (1 <= len(self.name) <= MAX_NAME_LENGTH and self.name.isprintable()):
            raise _error("plan name", _short(self.name), f"1 to {MAX_NAME_LENGTH} printable characters")
        _check_range(self.name, "key_bits", self.key_bits, 1, MAX_KEY_BITS)
        _check_range(self.name, "k", self.k, 0, MAX_KEY_BITS)
        _check_range(self.name, "slot_keys", self.slot_keys, 1, MAX_BLOCK_KEYS)
        _check_range(self.name, "number of bands", len(self.bands), 1, self.key_bits)
        _check_range(self.name, "number of tables", len(self.tables), 1, MAX_TABLES)
        self._check_bands()
        for index, table in enumerate(self.tables):
            self._check_table(index, table)

    def _check_bands(self) -> None:
        every_bit = (1 << self.key_bits) - 1
        covered = 0
        for index, band in enumerate(self.bands):
            where = f"plan {self.name}, band {index}"
            if not 1 <= band <= every_bit:
                raise _error(where, f"mask {band:#x}", f"some of {self.key_bits} bits")
            if band & covered:
                raise _error(where, f"bits {band & covered:#x} of an earlier band", "disjoint bands")
            covered |= band
        if covered != every_bit:
            raise _error(f"plan {self.name}", f"bits {every_bit & ~covered:#x} in no band", "every bit in one")

    def _check_table(self, index: int, table: TablePlan) -> None:
        whole_bands = 0
        for band in self.bands:
            if band & table.prefix_mask:
                whole_bands |= band
        where = f"{self.name}, table {index}"
        if table.prefix_mask <= 0 or whole_bands != table.prefix_mask:
            raise _error(f"plan {where}", f"prefix mask {table.prefix_mask:#x}", "a union of bands")
        _check_range(where, "flips", table.flips, 0, table.prefix_bits)

    def missed(self) -> int | None:
        """A pattern of min(k, key_bits) errors, as a bit mask, that no table catches; None if there is none.

        An exact search, not a formula: it holds for any masks and flips. Raises PlanError when the plan is
        too tangled to be decided in MAX_PROOF_VISITS.
        """
        errors = _EscapeSearch(self, _atoms(self.bands, self.tables)).run()
        if errors is None:
            return None
        # More errors escape too, so fill up to the distance that the plan promises.
        spare = ~errors
        for _ in range(min(self.k, self.key_bits) - errors.bit_count()):
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
            f"no table catches errors in bits {_hex(errors, self.key_bits)} ({counts or 'none'})"
        )

    def shuffled(self, seed: int) -> "Plan":
        """The plan with its bits in an order that only the seed tells; as exact, and as fast."""
        bits = sorted(range(self.key_bits), key=lambda bit: sha256(f"{seed}:{bit}".encode()).digest())
        bands = tuple(_moved(band, bits) for band in self.bands)
        tables = tuple(_replace(table, prefix_mask=_moved(table.prefix_mask, bits)) for table in self.tables)
        return _replace(self, name=f"{self.name} shuffled"[:MAX_NAME_LENGTH], bands=bands, tables=tables)

    def to_json(self) -> dict[str, object]:
        """The plan as a dict of plain values, masks as hex digits; `from_json` reads it back."""
        return {
            "name": self.name,
            "k": self.k,
            "key_bits": self.key_bits,
            "slot_keys": self.slot_keys,
            "bands": [_hex(band, self.key_bits) for band in self.bands],
            "tables": [
                {"prefix_mask": _hex(table.prefix_mask, self.key_bits), "flips": table.flips} for table in self.tables
            ],
        }

    @classmethod
    def from_json(cls, value: object) -> "Plan":
        """The plan that `to_json` wrote. Trusts nothing: PlanError unless it is whole and sane.

        It is not proven: whoever probes with it does that.
        """
        fields = _fields("plan", value, ("name", "k", "key_bits", "slot_keys", "bands", "tables"))
        key_bits = _typed("plan, key_bits", fields["key_bits"], int)
        _check_range("from json", "key_bits", key_bits, 1, MAX_KEY_BITS)
        bands = _items("plan, bands", fields["bands"], key_bits)
        tables = _items("plan, tables", fields["tables"], MAX_TABLES)
        return cls(
            name=_typed("plan, name", fields["name"], str),
            k=_typed("plan, k", fields["k"], int),
            bands=tuple(_mask(f"plan, band {i}", band, key_bits) for i, band in enumerate(bands)),
            tables=tuple(_table(f"plan, table {i}", table, key_bits) for i, table in enumerate(tables)),
            slot_keys=_typed("plan, slot_keys", fields["slot_keys"], int),
            key_bits=key_bits,
        )


def even_bands(mask: int, count: int) -> tuple[int, ...]:
    """The bits of `mask` cut into `count` runs from the most significant bit down, wider runs first."""
    bits = [1 << i for i in reversed(range(mask.bit_length())) if mask >> i & 1]
    if not 1 <= count <= len(bits):
        raise _error("plan, number of bands", str(count), f"1 to {len(bits)}, the bits that there are")
    width, wider_count = divmod(len(bits), count)
    starts = [index * width + min(index, wider_count) for index in range(count + 1)]
    return tuple(sum(bits[start:end]) for start, end in pairwise(starts))


def paper(name: str) -> Plan:
    """One of the paper's four plans for k = 3 and 64 bits (section 3.1.1): paper-4, -10, -16, -20."""
    if name in _PAPER_BANDS:
        return _replace(choose(_PAPER_BANDS[name], PAPER_DISTANCE), name=name)
    if name == "paper-16":
        # Bands finer than the 16 bits of the first level, so that the 12 bits of the second are unions too.
        bands = even_bands(_every_bit(PAPER_KEY_BITS), 16)
        prefixes = _prefixes(_every_bit(PAPER_KEY_BITS), PAPER_DISTANCE, {64: 4, 48: 4})
        return Plan(name, PAPER_DISTANCE, bands, tuple(map(TablePlan, prefixes)))
    raise _error("plan", _short(name), f"one of {', '.join(PAPER_NAMES)}")


def choose(band_count: int, k: int, key_bits: int = 64) -> Plan:
    """The paper's simple rule (section 3.1.1): a table for each choice of band_count - k even bands.

    k errors touch at most k bands, so the others are free of errors and one table has just those on top.
    """
    if not 0 <= k < band_count <= key_bits:
        raise _error(f"plan choose-{band_count}", f"k = {k}", f"k < bands, at most {key_bits} bands")
    _check_range(f"choose-{band_count}", "number of tables", comb(band_count, k), 1, MAX_TABLES)
    bands = even_bands(_every_bit(key_bits), band_count)
    tables = tuple(TablePlan(sum(chosen)) for chosen in combinations(bands, band_count - k))
    return Plan(f"choose-{band_count}", k, bands, tables, key_bits=key_bits)


def flips(bands: int | Iterable[int], flip_counts: Iterable[int], k: int, key_bits: int = 64) -> Plan:
    """A table for each band, table i probed with every pattern of at most flip_counts[i] flips. Proven.

    bands: how many even bands, or their masks. Of k errors on m bands, some band i has at most e_i when
    sum(e_i) >= k - m + 1 (the general pigeonhole); anything less is a PlanError that names what is missed.
    """
    counts = tuple(flip_counts)
    masks = even_bands(_every_bit(key_bits), bands) if isinstance(bands, int) else tuple(bands)
    label = str(len(masks)) if masks == even_bands(_every_bit(key_bits), len(masks) or 1) else "masks"
    name = f"flips-{label}:{','.join(map(str, counts))}"
    if len(counts) != len(masks):
        raise _error(f"plan {name}", f"{len(counts)} flips", f"one for each of {len(masks)} bands")
    plan = Plan(name, k, masks, tuple(map(TablePlan, masks, counts)), key_bits=key_bits)
    plan.prove()
    return plan


def general_table_count(key_bits: int, k: int, n: int, tau: int = DEFAULT_TAU) -> int | None:
    """How many tables `general` would make; None when no choice of bands narrows n keys to below 2^tau."""
    return _general_splits(key_bits, k, n, tau)[0]


def general(key_bits: int, k: int, n: int, tau: int = DEFAULT_TAU) -> Plan:
    """The paper's general rule (section 3.1.2) for n = 2^d keys of f = key_bits bits, as an actual plan.

    X(f, k, d) = 1 if d < tau, else min over r > k of C(r, k) * X(fk/r, k, d - (r-k)f/r). That is: split f bits in r
    bands, let some r - k be the prefix, and go on with the rest until fewer than 2^tau keys share a prefix. Bands here
    have whole numbers of bits, so the tables of one level may differ by a level below. At least one split is made.
    Raises PlanError when that takes more than MAX_TABLES tables.
    """
    name = f"general-{n}:{tau}"
    table_count, splits = _general_splits(key_bits, k, n, tau)
    if table_count is None or table_count > MAX_TABLES:
        raise _error(f"plan {name}, k = {k}", f"{table_count or 'endless'} tables", f"at most {MAX_TABLES}")
    prefixes = tuple(_prefixes(_every_bit(key_bits), k, splits))
    return Plan(name, k, _refinement(key_bits, prefixes), tuple(map(TablePlan, prefixes)), key_bits=key_bits)


def named(name: str, k: int) -> Plan:
    """The plan of that name for 64-bit fingerprints and distance k, proven. PlanError if there is none."""
    if name in PAPER_NAMES:
        plan = _replace(paper(name), k=k)
    elif match := _CHOOSE_NAME.fullmatch(name):
        plan = choose(int(match[1]), k)
    elif match := _FLIPS_NAME.fullmatch(name):
        plan = flips(int(match[1]), map(int, match[2].split(",")), k)
    elif match := _GENERAL_NAME.fullmatch(name):
        plan = general(64, k, int(match[1]), int(match[2]))
    else:
        raise _error("plan", _short(name), f"one of {', '.join(KNOWN_NAMES)}")
    plan.prove()
    return plan


def _moved(mask: int, bits: list[int]) -> int:
    return sum(1 << bits[i] for i in _ones(mask))


def _every_bit(key_bits: int) -> int:
    return (1 << key_bits) - 1


def _general_splits(key_bits: int, k: int, n: int, tau: int) -> tuple[int | None, dict[int, int]]:
    """The paper's minimum: how many tables, and into how many bands to split what has f bits left, by f.

    The bits left determine d = log2 n - (key_bits - f), so f alone is the state. Widths of even bands differ
    by one; the choices are counted by how many wide bands they take.
    """
    where = f"general-{n}:{tau}"
    _check_range(where, "key_bits", key_bits, 1, MAX_KEY_BITS)
    _check_range(where, "k", k, 0, MAX_KEY_BITS)
    _check_range(where, "number of keys", n, 0, 1 << key_bits)
    _check_range(where, "tau", tau, 1, MAX_TAU)
    fewest: dict[int, int | None] = {}
    splits: dict[int, int] = {}
    for bits_left in range(key_bits + 1):
        # In whole numbers, d < tau; the first split is made in any case: a table needs a prefix.
        if bits_left < key_bits and n < 1 << (tau + key_bits - bits_left):
            fewest[bits_left] = 1
            continue
        fewest[bits_left] = None
        for band_count in range(k + 1, bits_left + 1):
            tables = _tables_of_split(bits_left, band_count, k, fewest)
            best = fewest[bits_left]
            if tables is not None and (best is None or tables < best):
                fewest[bits_left] = tables
                splits[bits_left] = band_count
    return fewest[key_bits], splits


def _tables_of_split(bits_left: int, band_count: int, k: int, fewest: Mapping[int, int | None]) -> int | None:
    width, wide_count = divmod(bits_left, band_count)
    chosen = band_count - k
    tables = 0
    for wide in range(max(0, chosen - (band_count - wide_count)), min(chosen, wide_count) + 1):
        below = fewest[bits_left - chosen * width - wide]
        if below is None:
            return None
        tables += comb(wide_count, wide) * comb(band_count - wide_count, chosen - wide) * below
    return tables


def _prefixes(bits_left: int, k: int, splits: Mapping[int, int]) -> Iterator[int]:
    """Every prefix of the recursion: of a split, the bands free of errors and a prefix of the other bits."""
    band_count = splits.get(bits_left.bit_count())
    if band_count is None:
        yield 0
        return
    for chosen in combinations(even_bands(bits_left, band_count), band_count - k):
        for below in _prefixes(bits_left & ~sum(chosen), k, splits):
            yield sum(chosen) | below


def _refinement(key_bits: int, prefixes: tuple[int, ...]) -> tuple[int, ...]:
    """The widest runs of bits of which every prefix is a union, from the most significant down."""
    bands: list[int] = []
    run_owners: list[int] | None = None
    for i in reversed(range(key_bits)):
        owners = [index for index, prefix in enumerate(prefixes) if prefix >> i & 1]
        if owners == run_owners:
            bands[-1] |= 1 << i
        else:
            bands.append(1 << i)
            run_owners = owners
    return tuple(bands)


def _atoms(bands: tuple[int, ...], tables: tuple[TablePlan, ...]) -> tuple[int, ...]:
    """The bands merged where the same tables hold them: which bit of an atom is wrong does not matter."""
    merged: dict[tuple[int, ...], int] = {}
    for band in bands:
        owners = tuple(index for index, table in enumerate(tables) if table.prefix_mask & band)
        merged[owners] = merged.get(owners, 0) | band
    return tuple(merged[owners] for owners in merged if owners)


# Tables still to be escaped: a set of atoms (bit i = atom i), and how many more errors must fall on them.
_Needs = dict[int, int]


class _EscapeSearch:
    """Looks for few errors that give every table more of them than it has flips.

    Depth-first: some atom of a table that still catches either gets another error, or none ever, so no pattern is
    visited twice. A branch ends when tables that share no atom need more errors than are left, or one table more than
    its atoms have room for. Remembering hopeless states would only halve the visits.
    """

    def __init__(self, plan: Plan, atoms: tuple[int, ...]) -> None:
        self._name = plan.name
        self._atoms = atoms
        self._errors_left = min(plan.k, plan.key_bits)
        self._needs: _Needs = {}
        for table in plan.tables:
            owned = sum(1 << i for i, atom in enumerate(atoms) if atom & table.prefix_mask)
            self._needs[owned] = max(self._needs.get(owned, 0), table.flips + 1)
        self._visits_left = MAX_PROOF_VISITS

    def run(self) -> int | None:
        """The errors as a bit mask, or None when no pattern escapes."""
        room = tuple(atom.bit_count() for atom in self._atoms)
        path = self._escape(self._needs, room, self._errors_left)
        if path is None:
            return None
        errors = 0
        for i in path:
            spare = self._atoms[i] & ~errors
            errors |= 1 << (spare.bit_length() - 1)
        return errors

    def _escape(self, needs: _Needs, room: tuple[int, ...], errors_left: int) -> list[int] | None:
        """The atoms to give an error to, one entry for each error, or None when errors_left are too few."""
        if not needs:
            return []
        if self._is_hopeless(needs, room, errors_left):
            return None
        tightest = min(needs, key=lambda owned: (owned.bit_count(), -needs[owned], owned))
        # The atom that serves most of the tables in need: doing without it prunes most.
        i = max(_ones(tightest), key=lambda atom: sum(owned >> atom & 1 for owned in needs))
        path = self._escape(*_with_error(needs, room, i), errors_left - 1)
        if path is not None:
            return [i, *path]
        return self._escape(*_without_room(needs, room, i), errors_left)

    def _is_hopeless(self, needs: _Needs, room: tuple[int, ...], errors_left: int) -> bool:
        self._visits_left -= len(needs)
        if self._visits_left < 0:
            raise _error(f"plan {self._name}", f"no proof in {MAX_PROOF_VISITS} steps", "a simpler plan")
        needed = 0
        taken = 0
        for owned in sorted(needs, key=int.bit_count):
            need = needs[owned]
            if need > errors_left or need > sum(room[i] for i in _ones(owned)):
                return True
            if not owned & taken:
                taken |= owned
                needed += need
        return needed > errors_left


def _ones(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _with_error(needs: _Needs, room: tuple[int, ...], i: int) -> tuple[_Needs, tuple[int, ...]]:
    """The state after one more error on atom i."""
    fewer = {owned: need - (owned >> i & 1) for owned, need in needs.items()}
    still_needy = {owned: need for owned, need in fewer.items() if need}
    if room[i] == 1:
        return _without_room(still_needy, room, i)
    return still_needy, (*room[:i], room[i] - 1, *room[i + 1 :])


def _without_room(needs: _Needs, room: tuple[int, ...], i: int) -> tuple[_Needs, tuple[int, ...]]:
    """The state in which atom i gets no further error. Tables that then hold the same atoms become one."""
    narrower: _Needs = {}
    for owned, need in needs.items():
        rest = owned & ~(1 << i)
        narrower[rest] = max(narrower.get(rest, 0), need)
    return narrower, (*room[:i], 0, *room[i + 1 :])


def _hex(mask: int, key_bits: int) -> str:
    return f"{mask:0{(key_bits + 3) // 4}x}"


def _check_range(where: str, what: str, found: int, least: int, most: int) -> None:
    if not least <= found <= most:
        raise _error(f"plan {where}, {what}", _short(found), f"{least} to {most}")


def _error(where: str, found: str, expected: str) -> PlanError:
    return PlanError(f"{where}: found {found}, expected {expected}")


def _short(value: object) -> str:
    # A stranger's integer may have a million digits, and Python refuses to print more than 4,300.
    if isinstance(value, int) and value.bit_length() > MAX_KEY_BITS:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _typed(where: str, value: object, kind: type[_Kind]) -> _Kind:
    # bool is an int to Python, not to a reader of plans.
    if not isinstance(value, kind) or isinstance(value, bool):
        raise _error(where, type(value).__name__, kind.__name__)
    return value


def _fields(where: str, value: object, names: tuple[str, ...]) -> dict[str, object]:
    fields: dict[str, object] = _typed(where, value, dict)
    if set(fields) != set(names):
        found = ", ".join(sorted(map(_short, fields))[:10])
        raise _error(where, f"the fields {found or 'none'}", ", ".join(names))
    return fields


def _items(where: str, value: object, most: int) -> list[object]:
    items: list[object] = _typed(where, value, list)
    if len(items) > most:
        raise _error(where, f"{len(items)} items", f"at most {most}")
    return items


def _mask(where: str, value: object, key_bits: int) -> int:
    digit_count = (key_bits + 3) // 4
    digits = _typed(where, value, str)
    if not re.fullmatch(rf"[0-9a-f]{{{digit_count}}}", digits):
        raise _error(where, _short(digits), f"{digit_count} lowercase hex digits")
    return int(digits, 16)


def _table(where: str, value: object, key_bits: int) -> TablePlan:
    fields = _fields(where, value, ("prefix_mask", "flips"))
    return TablePlan(
        prefix_mask=_mask(f"{where}, prefix_mask", fields["prefix_mask"], key_bits),
        flips=_typed(f"{where}, flips", fields["flips"], int),
    )
