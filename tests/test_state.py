"""The catalog's record: what it accepts, what it refuses, and that bytes lead back to the same state."""

import dataclasses
import json
import re
import struct
from typing import Any, cast

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from fpstore.errors import Error, UnsupportedVersion
from fpstore.living import state as records
from fpstore.living.state import MAX_NUMBER, Settings, State, decode, encode, expect_left
from fpstore.segment.entry import MAX_SEGMENT, NamesEntry, SegmentEntry

SETTINGS = Settings(max_distance=3, plan={"name": "paper-4"}, codec="gap", id_type="uint64")
ENTRY = SegmentEntry("00000007.fpseg", 4096, 10, 12, 0xDEADBEEF)
IDENTITY, ORIGIN = "0f" * 16, "a0" * 16
STATE = State(SETTINGS, (ENTRY,), 1, 8, identity=IDENTITY, origin=ORIGIN)


def sealed(text: bytes) -> bytes:
    """A record around any text, with the right checksum."""
    return struct.pack("<I", records._checksum(text)) + text


def changed(**fields: Any) -> bytes:
    """The record of STATE with some fields replaced, or dropped where the value is ..., and the right checksum."""
    content = json.loads(encode(STATE, 5)[4:]) | fields
    content = {name: value for name, value in content.items() if value is not ...}
    return sealed(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(st.text(), json_values, max_size=4)


def with_names(entry: SegmentEntry, counts: list[int]) -> SegmentEntry:
    """An entry with files of names, the last of which was made with it."""
    first = entry.number - len(counts) + 1
    return dataclasses.replace(entry, names=tuple(NamesEntry(first + i, 64, crc) for i, crc in enumerate(counts)))


entries = st.builds(
    SegmentEntry,
    st.integers(1, 99_999_998).map("{:08d}.fpseg".format),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**32 - 1),
)


@pytest.mark.slow
@given(
    st.builds(
        Settings,
        max_distance=st.integers(0, 64),
        plan=objects,
        codec=st.sampled_from(["gap", "xor", "rice", "raw"]),
        id_type=st.sampled_from(["uint64", None]),
        recipe=st.none() | objects,
    ),
    st.lists(entries, max_size=5, unique_by=lambda entry: entry.name),
    st.integers(1, 2**63 - 1),
    st.integers(1, 2**63 - 1),
    st.none() | st.integers(0, 2**64 - 1),
)
def test_a_state_read_back_is_the_state_written(
    settings: Settings, segments: list[SegmentEntry], generation: int, transaction: int, max_id: int | None
) -> None:
    segments = [with_names(entry, [7] * (entry.number % 2)) for entry in segments]
    half = len(segments) // 2
    state = State(
        settings,
        tuple(segments[half:]),
        generation,
        10**8,
        strays=tuple(segments[:half]),
        max_id=max_id,
        identity=IDENTITY,
        origin=ORIGIN,
    )
    assert decode(encode(state, transaction), transaction) == state


def test_the_record_is_canonical_json_under_a_checksum_of_its_place() -> None:
    text = (
        b'{"first_change":1,"generation":1,"identity":"0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f","max_id":null,"moving":false,"next_change":1,"next_segment":8,'
        b'"origin":"a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0","removal_records":0,'
        b'"segments":[{"crc":3735928559,"file_bytes":4096,"id_count":12,"key_count":10,'
        b'"name":"00000007.fpseg","names":[],"position":1,"sketches":null}],"settings":{"bits":64,"codec":"gap","id_type":"uint64",'
        b'"max_distance":3,"minhash":null,"plan":{"name":"paper-4"},"recipe":null},"strays":[],"transaction":1,"version":10}'
    )
    assert encode(STATE, 1) == struct.pack("<I", crc32c(b"\x05state\x05state" + text)) + text


def test_every_flipped_bit_and_every_truncation_of_a_record_is_noticed() -> None:
    record = encode(STATE, 5)
    damaged = [record[:length] for length in range(len(record))]
    for index in range(8 * len(record)):
        flipped = bytearray(record)
        flipped[index // 8] ^= 1 << index % 8
        damaged.append(bytes(flipped))
    for bad in damaged:
        with pytest.raises(ValueError, match=f"the state: found {len(bad)} bytes of another checksum"):
            decode(bad, 5)


def test_a_record_of_another_transaction_is_refused() -> None:
    with pytest.raises(ValueError, match="the transaction that wrote the state: found 5, expected 6"):
        decode(encode(STATE, 5), 6)


@pytest.mark.parametrize(("version", "age"), [(9, "an older"), (11, "a newer"), (2**32 - 1, "a newer")])
def test_a_record_of_another_version_is_refused_as_such(version: int, age: str) -> None:
    message = f"^the version of the state: found {version}, expected 10; made by {age} fpstore$"
    with pytest.raises(UnsupportedVersion, match=message):
        decode(changed(version=version), 5)


@pytest.mark.parametrize("version", [3.0, 2.0, 2**32 + 1, True, "2", None, ..., -1])
def test_what_is_no_version_is_damage(version: Any) -> None:
    with pytest.raises(ValueError, match=r"the version of the state: found .*, expected an integer"):
        decode(changed(version=version), 5)


def test_a_store_whose_numbers_are_used_up_says_so() -> None:
    last = dataclasses.replace(STATE, next_change=MAX_NUMBER - 1)
    assert last.after(1).next_change == MAX_NUMBER
    with pytest.raises(Error, match=f"the store is full: found changes up to number {MAX_NUMBER}, the last there is"):
        last.after(2)
    assert expect_left("segments", MAX_SEGMENT, MAX_SEGMENT) == 99_999_999


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000, b"NaN", b"1" * 5000])
def test_a_record_that_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="the state: found no JSON"):
        decode(sealed(text), 5)


@pytest.mark.parametrize("text", [b"[]", b"null", b'{"a": 1}', b'{"b":1,"a":1}', b'{"a":1,"a":1}', b'{"a":1}\n'])
def test_a_record_in_another_spelling_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"the state: found .*, expected a canonical JSON object"):
        decode(sealed(text), 5)


ENTRY_FIELDS = dataclasses.asdict(ENTRY)
NAMES_FIELDS = dataclasses.asdict(NamesEntry(6, 64, 5))
SETTINGS_FIELDS = dataclasses.asdict(SETTINGS)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"generation": 0}, "generation: found 0, expected an integer from 1 to"),
        ({"generation": True}, "generation: found True, expected an integer"),
        ({"generation": 1.0}, "generation: found 1.0, expected an integer"),
        ({"next_segment": 7}, "next_segment: found 7, expected an integer from 8 to 100000000"),
        ({"next_segment": 10**8 + 1}, "next_segment: found 100000001, expected an integer from 8"),
        (
            {"next_segment": ...},
            "State: found the fields .*, expected first_change, generation, identity, max_id, moving, next",
        ),
        ({"moving": 0}, "moving: found 0, expected true or false"),
        ({"more": 1}, "State: found the fields .*, expected first_change, generation, identity, max_id, moving, next"),
        ({"next_change": 0}, "next_change: found 0, expected an integer from 1 to"),
        ({"first_change": 0}, "first_change: found 0, expected 1"),
        ({"first_change": 2}, "first_change: found 2, expected 1"),
        ({"first_change": 6, "next_change": 5}, "first_change: found 6, expected an integer from 1 to 5"),
        ({"removal_records": -1}, "removal_records: found -1, expected an integer from 0"),
        ({"max_id": -1}, "max_id: found -1, expected an integer from 0 to 18446744073709551615"),
        ({"max_id": 2**64}, "max_id: found 18446744073709551616, expected an integer from 0"),
        ({"max_id": 1.0}, "max_id: found 1.0, expected an integer from 0"),
        (
            {"segments": [ENTRY_FIELDS | {"position": 2}]},
            "the latest position of a segment: found 2, expected 1",
        ),
        ({"segments": [ENTRY_FIELDS | {"position": 0}]}, "position: found 0, expected an integer from 1"),
        ({"segments": {}}, "segments: found {}, expected a list"),
        ({"segments": ...}, "segments: found None, expected a list"),
        ({"segments": [ENTRY_FIELDS, ENTRY_FIELDS]}, r"segments: found \[7, 7\], expected each of them once"),
        ({"strays": [ENTRY_FIELDS]}, r"segments: found \[7, 7\], expected each of them once"),
        ({"strays": [ENTRY_FIELDS | {"name": "00000008.fpseg"}]}, "next_segment: found 8, expected an integer from 9"),
        ({"strays": ...}, "strays: found None, expected a list"),
        ({"identity": "0F" * 16}, "identity: found '0F0F.*', expected 32 hexadecimal digits"),
        ({"identity": "0f" * 15}, "identity: found '0f0f.*', expected 32 hexadecimal digits"),
        ({"identity": 7}, "identity: found 7, expected 32 hexadecimal digits"),
        ({"origin": "0f" * 16 + "\n"}, "origin: found '0f0f.*', expected 32 hexadecimal digits"),
        ({"segments": [[]]}, r"SegmentEntry: found list, expected dict"),
        ({"segments": [ENTRY_FIELDS | {"more": 1}]}, "SegmentEntry: found the fields .*, expected crc, file_bytes"),
        ({"segments": [ENTRY_FIELDS | {"crc": 2**32}]}, "crc: found 4294967296, expected an integer from 0 to"),
        ({"segments": [ENTRY_FIELDS | {"file_bytes": -1}]}, "file_bytes: found -1, expected an integer from 0"),
        ({"segments": [ENTRY_FIELDS | {"key_count": "9"}]}, "key_count: found '9', expected an integer from 0"),
        ({"segments": [ENTRY_FIELDS | {"id_count": None}]}, "id_count: found None, expected an integer from 0"),
        ({"segments": [ENTRY_FIELDS | {"names": 1}]}, "names of a segment: found int, expected list"),
        ({"segments": [ENTRY_FIELDS | {"names": [{}]}]}, "NamesEntry: found the fields none, expected crc, file_bytes"),
        ({"segments": [ENTRY_FIELDS | {"names": [{}] * 10_001}]}, "found 10001 items, expected at most 10000"),
        (
            {"segments": [ENTRY_FIELDS | {"names": [NAMES_FIELDS | {"number": 8}]}]},
            r"numbers of files of names: found \[8\], expected rising ones up to 7",
        ),
        (
            {"segments": [ENTRY_FIELDS | {"names": [NAMES_FIELDS, NAMES_FIELDS]}]},
            r"numbers of files of names: found \[6, 6\], expected rising ones up to 7",
        ),
        (
            {"segments": [ENTRY_FIELDS | {"names": [NAMES_FIELDS | {"number": -1}]}]},
            "number of a file of names: found -1, expected an integer from 0",
        ),
        (
            {"segments": [ENTRY_FIELDS | {"names": [NAMES_FIELDS | {"file_bytes": 1.0}]}]},
            "file_bytes: found 1.0, expected an integer from 0",
        ),
        (
            {"segments": [ENTRY_FIELDS | {"names": [NAMES_FIELDS | {"crc": 2**32}]}]},
            "crc: found 4294967296, expected an integer from 0",
        ),
        (
            {
                "segments": [ENTRY_FIELDS | {"names": [NAMES_FIELDS]}],
                "strays": [ENTRY_FIELDS | {"name": "00000006.fpseg", "names": [NAMES_FIELDS]}],
            },
            r"files of names: found \[6, 6\], expected each of them once",
        ),
        ({"settings": ...}, "Settings: found NoneType, expected dict"),
        (
            {"settings": SETTINGS_FIELDS | {"max_distance": 65}},
            "max_distance: found 65, expected an integer from 0 to 64",
        ),
        ({"settings": SETTINGS_FIELDS | {"bits": 8}}, "bits: found 8, expected an integer from 16 to 64"),
        ({"settings": SETTINGS_FIELDS | {"bits": 72}}, "bits: found 72, expected an integer from 16 to 64"),
        ({"settings": SETTINGS_FIELDS | {"bits": 20}}, "bits: found 20, expected a multiple of 8"),
        (
            {"settings": SETTINGS_FIELDS | {"bits": 32, "recipe": {}}},
            "recipe: found {}, expected one that makes 32 bits, or null",
        ),
        ({"settings": SETTINGS_FIELDS | {"plan": []}}, r"plan: found \[\], expected an object"),
        ({"settings": SETTINGS_FIELDS | {"codec": "zip"}}, "codec: found 'zip', expected one of gap, xor, rice, raw"),
        ({"settings": SETTINGS_FIELDS | {"codec": []}}, r"codec: found \[\], expected one of"),
        ({"settings": SETTINGS_FIELDS | {"id_type": 1}}, "id_type: found 1, expected null or uint64"),
        ({"settings": SETTINGS_FIELDS | {"recipe": 1}}, "recipe: found 1, expected an object or null"),
    ],
)
def test_a_record_with_a_field_that_cannot_be_is_refused(fields: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode(changed(**fields), 5)


@pytest.mark.parametrize(
    "name",
    ["1.fpseg", "../0001.fpseg", "00000001.fpseg\n", "00000001xfpseg", "/0000001.fpseg", "٠٠٠٠٠٠٠١.fpseg", 7, ""],
)
def test_a_segment_name_cannot_lead_out_of_its_folder(name: int | str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"segment name: found {name!r}, expected 8 digits and .fpseg")):
        dataclasses.replace(ENTRY, name=cast(Any, name))


def test_a_message_stays_short_whatever_was_found() -> None:
    with pytest.raises(ValueError, match="plan: found") as caught:
        dataclasses.replace(SETTINGS, plan=cast(Any, ["x" * 10_000]))
    assert len(str(caught.value)) < 200


def test_settings_that_json_cannot_hold_are_refused_when_written() -> None:
    for recipe, kind in (({"a": float("nan")}, ValueError), ({"a": b""}, TypeError)):
        state = dataclasses.replace(STATE, settings=dataclasses.replace(SETTINGS, recipe=recipe))
        with pytest.raises(kind):
            encode(state, 1)


def test_a_state_after_changes_differs_in_nothing_else() -> None:
    before = dataclasses.replace(STATE, first_change=2, next_change=5)
    assert before.after(3) == dataclasses.replace(before, next_change=8)
    assert before.after(0) == before
    assert before.after(3, 0) == dataclasses.replace(before, next_change=8, max_id=0)
    assert before.after(1, 9).after(1, 7).after(1).after(1, 9).max_id == 9
    with pytest.raises(Error, match="the store is full: found changes up to number 9223372036854775807"):
        before.after(2**63 - 5)
    moving = dataclasses.replace(before, moving=True)
    assert encode(moving, 4) != encode(before, 4)
    assert moving.after(1) == before.after(1)
    replaced = dataclasses.replace(moving.after(1), segments=(), strays=(ENTRY,))
    for state in (moving, moving.after(1), before.after(1), replaced):
        assert decode(encode(state, 9), 9) == state


def test_a_file_of_names_that_goes_on_with_another_segment_is_not_one_to_remove() -> None:
    """A merge takes over the files of its parts; the parts go, and these files stay."""
    one, other = (SegmentEntry(f"0000000{i}.fpseg", 64, 1, 1, i, names=(NamesEntry(i, 64, i),)) for i in (1, 2))
    merged = SegmentEntry("00000003.fpseg", 64, 2, 2, 3, names=(NamesEntry(1, 64, 1), NamesEntry(3, 64, 3)))
    before = dataclasses.replace(STATE, segments=(one, other))
    announced = before.with_segments(before.segments, (merged,))
    # Until it is published, what the live ones have is theirs.
    assert [stray.files for stray in announced.strays] == [(("00000003.fpseg", 64, 3), ("00000003.fpnames", 64, 3))]
    published = announced.with_segments((merged,), announced.strays)
    assert [name for stray in published.strays for name, *_ in stray.files] == [
        "00000001.fpseg",
        "00000002.fpseg",
        "00000002.fpnames",
    ]
    for state in (before, announced, published):
        assert decode(encode(state, 9), 9) == state


NEXT_CHANGES = st.sampled_from([5, 6, 5 + 10**12, MAX_NUMBER])
MAX_IDS = st.sampled_from([None, 0, 7, 10**19, 2**64 - 1])


@given(
    st.builds(
        lambda fields, **more: dataclasses.replace(STATE, **fields, **more),
        st.sampled_from(
            [{}, {"generation": 2}, {"segments": ()}, {"strays": (), "segments": (ENTRY,)}, {"origin": IDENTITY}]
        ),
        next_change=NEXT_CHANGES,
        max_id=MAX_IDS,
        moving=st.booleans(),
    ),
    NEXT_CHANGES,
    MAX_IDS,
    st.booleans(),
    st.integers(1, 2**40),
)
def test_with_a_known_state_another_reads_as_without(
    state: State, next_change: int, max_id: int | None, moving: bool, transaction: int
) -> None:
    known = decode(encode(dataclasses.replace(STATE, next_change=next_change, max_id=max_id, moving=moving), 4), 4)
    found, expected = (decode(encode(state, transaction), transaction, one) for one in (known, None))
    assert found == expected
    assert found.transaction == transaction
    assert encode(found, transaction) == encode(expected, transaction)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_id": -1},
        {"max_id": 2**64},
        {"max_id": 10**20},
        {"max_id": 1.0},
        {"next_change": 0},
        {"next_change": 2**63},
        {"next_change": 4},
        {"moving": 0},
        {"generation": 0},
        {"version": 1000},
        {"transaction": 6},
        {"more": 1},
        {"segments": ...},
    ],
)
def test_with_a_known_state_what_cannot_be_is_refused_in_the_same_words(fields: Any) -> None:
    known = dataclasses.replace(STATE, next_change=5, segments=(dataclasses.replace(ENTRY, position=5),))
    record = sealed(
        json.dumps(
            {name: value for name, value in (json.loads(encode(known, 5)[4:]) | fields).items() if value is not ...},
            sort_keys=True,
            separators=(",", ":"),
        ).encode()
    )
    said = []
    for one in (None, known):
        with pytest.raises((ValueError, UnsupportedVersion)) as caught:
            decode(record, 5, one)
        said.append(f"{type(caught.value).__name__}: {caught.value}")
    assert said[0] == said[1]
