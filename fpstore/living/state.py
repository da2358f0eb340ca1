"""The state of a store, its settings and its live segments: as records, and as the bytes the catalog keeps.

The bytes are one canonical JSON object under a checksum; what is read back is checked field by field.
"""

import dataclasses
import json
import re
import secrets
import struct
from collections.abc import Sequence
from typing import Any

from fpstore._codec import crc32c
from fpstore._tail import moved
from fpstore.checks import canonical_json, expect, expect_integer, fields_of, named_fields, record_of
from fpstore.errors import Error, UnsupportedVersion, Wrong
from fpstore.fingerprints import words_of
from fpstore.forks import cached_property
from fpstore.format import BITS_STEP, CODECS, KEY_BITS, MAX_KEY_BITS, MIN_KEY_BITS, WIDE_BITS
from fpstore.living.changes import LogForm
from fpstore.origin import RECIPE_BITS, Made, bits_of
from fpstore.segment.entry import MAX_SEGMENT, SegmentEntry, entry_of
from fpstore.segment.listing import Listing
from fpstore.sketches.bands import Banding
from fpstore.sketches.kept import WIDTHS, Kept
from fpstore.types import Kind

RECORD_VERSION = 10
# What ids can be.
ID_TYPES = ("uint64", "string", "bytes")
# Those that are names: a number, their handle, stands for each.
NAMED = ("string", "bytes")
# The last number of a change, and of a generation.
MAX_NUMBER = 2**63 - 1
# Where the catalog keeps it: in the main database, of which every commit writes a page anyway. One record says
# everything, so that it cannot contradict another.
KEY = b"state"
# What the checksum of the record goes on from: the name of the database that it was in up to version 9, and its key.
PLACE_CHECKSUM = crc32c(2 * (struct.pack("<B", len(KEY)) + KEY))


@dataclasses.dataclass(frozen=True)
class Minhash:
    """Of a store of MinHash signatures: how these are cut, and what is kept of them. ValueError for what cannot be.

    sketch_bits: so many bits of each of the values are kept, 0 for none.
    """

    bands: int
    rows_per_band: int
    values: int
    sketch_bits: int

    def __post_init__(self) -> None:
        self.banding(KEY_BITS).expect_sound(self.values)
        widths = (0, *WIDTHS)
        expect("sketch_bits", self.sketch_bits, self.sketch_bits in widths, f"one of {', '.join(map(str, widths))}")

    def banding(self, bits: int) -> Banding:
        """How signatures become keys of so many bits."""
        return Banding(self.bands, self.rows_per_band, bits)

    @cached_property
    def kept(self) -> Kept | None:
        """What is kept of a signature; None for nothing."""
        return Kept(self.values, self.sketch_bits) if self.sketch_bits else None


@dataclasses.dataclass(frozen=True)
class Settings:
    """What holds for the whole store. plan: of Plan.to_json. ValueError for what cannot be.

    id_type: what the ids of its fingerprints are, None where these have none. bits: of a fingerprint. minhash: of a
    store of signatures, whose fingerprints are the keys of their bands; None in a store of fingerprints.
    """

    max_distance: int
    plan: dict[str, Any]
    codec: str
    id_type: str | None
    recipe: dict[str, Any] | None = None
    bits: int = KEY_BITS
    minhash: Minhash | None = None

    def __post_init__(self) -> None:
        if not self.is_wide or self.minhash is not None:
            expect_integer("bits", self.bits, MIN_KEY_BITS, MAX_KEY_BITS)
        whole = self.bits % BITS_STEP == 0 or self.minhash is not None
        expect("bits", self.bits, whole, f"a multiple of {BITS_STEP}")
        expect_integer("max_distance", self.max_distance, 0, self.bits)
        expect("plan", self.plan, isinstance(self.plan, dict), "an object")
        expect("codec", self.codec, self.codec in CODECS, f"one of {', '.join(CODECS)}")
        expect("id_type", self.id_type, self.id_type in (None, *ID_TYPES), f"null or {', '.join(ID_TYPES)}")
        expect("recipe", self.recipe, self.recipe is None or isinstance(self.recipe, dict), "an object or null")
        # The keys of bands are made of signatures, whatever their bits.
        made = self.bits if self.recipe is None or self.minhash is not None else bits_of(self.recipe)
        expect("recipe", self.recipe, made == self.bits, f"one that makes {self.bits} bits, or null")
        if self.minhash is not None:
            self.minhash.banding(self.bits).expect_sound(self.minhash.values)
            expect("max_distance", self.max_distance, self.max_distance == 0, "0, as bands must be equal")

    @cached_property
    def made_by(self) -> Made | None:
        """What its answers say of their fingerprints, None where there is nothing to say."""
        return None if self.recipe is None and self.bits == RECIPE_BITS else Made(self.recipe, self.bits)

    @property
    def is_wide(self) -> bool:
        """Whether its fingerprints are wide codes, in a segment of their own kind."""
        return self.bits in WIDE_BITS and isinstance(self.bits, int)

    @property
    def kind(self) -> Kind:
        """What is kept of a document."""
        return "hamming" if self.minhash is None else "minhash"

    @property
    def bands(self) -> int:
        """How many rows a document has."""
        return 1 if self.minhash is None else self.minhash.bands

    @property
    def kept(self) -> Kept | None:
        """What is kept of a signature beside its bands; None for nothing."""
        return None if self.minhash is None else self.minhash.kept

    @property
    def words(self) -> int:
        """How many words of 64 bits that has."""
        return 0 if self.kept is None else self.kept.words

    @property
    def ids(self) -> bool:
        """Whether its fingerprints have ids."""
        return self.id_type is not None

    @property
    def id_columns(self) -> int:
        """How many columns the log has for ids beside that of the fingerprints: names have two."""
        return self.ids + self.named

    @property
    def log_form(self) -> LogForm:
        """What the log's records have."""
        return LogForm(self.id_columns, self.bands, self.words, self.width)

    @cached_property
    def width(self) -> int:
        """How many words a fingerprint has."""
        return words_of(self.bits)

    @property
    def listing(self) -> Listing | None:
        """Of its segments, as SegmentWriter takes it."""
        sketched = self.kept is not None
        return Listing(sketched) if self.ids and (self.bands > 1 or sketched) else None

    @property
    def flushes_late(self) -> bool:
        """Whether the log becomes a segment later than where a fingerprint has one row, of a number."""
        return self.named or self.minhash is not None

    @property
    def named(self) -> bool:
        """Whether the ids are names."""
        return self.id_type in NAMED

    @cached_property
    def text(self) -> str:
        """As JSON; made once, as it is written with every change."""
        minhash = None if self.minhash is None else fields_of(self.minhash)
        return canonical_json(fields_of(self) | {"minhash": minhash})


@dataclasses.dataclass(frozen=True)
class State:
    """Everything the catalog says at one moment. ValueError for what cannot be.

    identity: whose content it is, 32 hexadecimal digits: a copy has another, and so has what replaces all content.
    origin: the identity that the catalog was made with, which stays. strays: files in segments/ that are this
    store's to remove: one that is about to get its name, and those that were replaced.
    moving: another file is about to take the place of the catalog's, or was, when its writer died.
    generation: how many times segments or settings have been published. next_segment: the number of the next
    segment's name. first_change, next_change: the log holds the changes of the numbers from the one up to the other.
    removal_records: how many records of removals there are which are older than the log. max_id: the largest id that
    was ever stored, None before any was. transaction: where the state
    was read, the one of LMDB that wrote it; two states that differ in nothing else say the same.
    """

    settings: Settings
    segments: tuple[SegmentEntry, ...]
    generation: int
    next_segment: int
    first_change: int = 1
    next_change: int = 1
    removal_records: int = 0
    strays: tuple[SegmentEntry, ...] = ()
    moving: bool = False
    max_id: int | None = None
    identity: str = dataclasses.field(kw_only=True)
    origin: str = dataclasses.field(kw_only=True)
    transaction: int = dataclasses.field(default=0, compare=False)

    def __post_init__(self) -> None:
        for name, value in (("identity", self.identity), ("origin", self.origin)):
            identified = isinstance(value, str) and re.fullmatch(r"[0-9a-f]{32}", value, re.ASCII)
            expect(name, value, bool(identified), "32 hexadecimal digits")
        expect("moving", self.moving, isinstance(self.moving, bool), "true or false")
        expect_integer("generation", self.generation, 1, MAX_NUMBER)
        numbers = [entry.number for entry in (*self.segments, *self.strays)]
        expect("segments", numbers, len(set(numbers)) == len(numbers), "each of them once")
        named = [file.number for entry in (*self.segments, *self.strays) for file in entry.names]
        expect("files of names", named, len(set(named)) == len(named), "each of them once")
        # A name is never given to a second file.
        expect_integer("next_segment", self.next_segment, max(numbers, default=0) + 1, MAX_SEGMENT + 1)
        expect_integer("next_change", self.next_change, 1, MAX_NUMBER)
        expect_integer("first_change", self.first_change, 1, self.next_change)
        expect_integer("removal_records", self.removal_records, 0, 2**32)
        if self.max_id is not None:
            expect_integer("max_id", self.max_id, 0, 2**64 - 1)
        latest = max((entry.position for entry in self.segments), default=1)
        expect_integer("the latest position of a segment", latest, 1, self.next_change)

    @cached_property
    def text_around(self) -> tuple[str, str, str]:
        """As JSON, what additions do not change; made once, as it is written with every one of them."""
        segments, strays = (",".join([entry.text for entry in entries]) for entries in (self.segments, self.strays))
        return (
            f'{{"first_change":{self.first_change},"generation":{self.generation},"identity":"{self.identity}",',
            f'"next_segment":{self.next_segment},"origin":"{self.origin}","removal_records":{self.removal_records},'
            f'"segments":[{segments}],"settings":{self.settings.text},"strays":[{strays}],',
            f'"version":{RECORD_VERSION}}}',
        )

    @cached_property
    def bytes_around(self) -> tuple[bytes, bytes, bytes]:
        """text_around as the record has it."""
        head, middle, end = (text.encode() for text in self.text_around)
        return head, middle, end

    def after(self, changes: int, max_id: int | None = None) -> "State":
        """This state when so many changes more are in the log. max_id: the largest id that they add."""
        next_change = expect_left("changes", self.next_change + changes, MAX_NUMBER)
        return self._with(next_change=next_change, max_id=larger(self.max_id, max_id), moving=False)

    def read_after(self, text: bytes, transaction: int) -> "State | None":
        """The state of a record's text that says what this one says, but for what additions change; None for others."""
        found = moved(text, self.bytes_around, transaction)
        return None if found is None or found[0] < self.next_change else self.moved(*found, transaction)

    def moved(self, next_change: int, max_id: int | None, transaction: int) -> "State":
        """This state as that transaction wrote it, after additions."""
        return self._with(next_change=next_change, max_id=max_id, moving=False, transaction=transaction)

    def _with(self, **fields: Any) -> "State":
        # dataclasses.replace would look at all the rest again, with every addition.
        following = object.__new__(State)
        object.__setattr__(following, "__dict__", self.__dict__ | fields)
        return following

    def with_segments(self, segments: Sequence[SegmentEntry], strays: Sequence[SegmentEntry] = ()) -> "State":
        """This state with these live segments, and as strays those of before and of strays which are not among them.

        A file of names that a live segment has is no stray's.
        """
        live = {entry.name for entry in segments}
        names = {file.number for entry in segments for file in entry.names}
        left = tuple(entry.without_names(names) for entry in (*strays, *self.segments) if entry.name not in live)
        next_segment = max([self.next_segment, *(entry.number + 1 for entry in (*segments, *left))])
        return dataclasses.replace(self, segments=tuple(segments), strays=left, next_segment=next_segment, moving=False)

    def follows(self, earlier: "State") -> bool:
        """Whether this state can have come of the earlier one, by what writers do to one catalog."""
        mine = (self.generation, self.next_change, self.transaction)
        before = (earlier.generation, earlier.next_change, earlier.transaction)
        return self.origin == earlier.origin and all(one >= other for one, other in zip(mine, before, strict=True))


def larger(one: int | None, other: int | None) -> int | None:
    """The larger of two ids, either of which may be none."""
    return one if other is None or (one is not None and one >= other) else other


def expect_left(what: str, number: int, most: int) -> int:
    """The number, which is the next of its kind. Error where there are no more such numbers."""
    if number > most:
        raise Error(
            f"the store is full: found {what} up to number {most}, the last there is; copy its rows to a new one"
        )
    return number


def encode(state: State, transaction: int) -> bytes:
    """The record of state, bound to its place and to the number of the transaction that writes it."""
    head, middle, end = state.text_around
    moving = "true" if state.moving else "false"
    max_id = "null" if state.max_id is None else state.max_id
    here = f'"max_id":{max_id},"moving":{moving},"next_change":{state.next_change},'
    text = f'{head}{here}{middle}"transaction":{transaction},{end}'.encode()
    return struct.pack("<I", _checksum(text)) + text


def decode(record: bytes, transaction: int, known: State | None = None) -> State:
    """The state in record, read by that transaction. Raises ValueError, UnsupportedVersion.

    known: an earlier one; what is written there in the same bytes is not looked at again.
    """
    text = record[4:]
    if len(record) < 4 or struct.unpack_from("<I", record)[0] != _checksum(text):
        raise Wrong("the state", f"{len(record)} bytes of another checksum", "those of its own")
    if known is not None and (state := known.read_after(text, transaction)) is not None:
        return state
    fields = _parse(text)
    version = fields.pop("version", None)
    expect_integer("the version of the state", version, 0, 2**32)  # 2.0 equals 2, and True equals 1
    if version != RECORD_VERSION:
        raise UnsupportedVersion("the version of the state", version, RECORD_VERSION)
    expect_integer("the transaction that wrote the state", fields.get("transaction"), transaction, transaction)
    for name in ("segments", "strays"):
        entries = fields.get(name)
        expect(name, entries, isinstance(entries, list), "a list")
        fields[name] = tuple(map(entry_of, fields[name]))
    fields["settings"] = _settings_of(fields.get("settings"))
    return record_of(State, fields)


def new_identity() -> str:
    """One that no other store has."""
    return secrets.token_hex(16)


def _settings_of(value: object) -> Settings:
    fields = named_fields("Settings", value, {field.name for field in dataclasses.fields(Settings)})
    minhash = fields["minhash"]
    return Settings(**fields | {"minhash": None if minhash is None else record_of(Minhash, minhash)})


def _checksum(text: bytes) -> int:
    return crc32c(text, PLACE_CHECKSUM)


def _parse(text: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(text)
        canonical = canonical_json(fields).encode("ascii")
    except (ValueError, RecursionError) as error:
        raise Wrong("the state", f"no JSON ({error})", "an object") from None
    expect("the state", text, isinstance(fields, dict) and canonical == text, "a canonical JSON object")
    return dict(fields)
