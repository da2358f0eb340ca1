"""Values that are held packed are those that were given, and what is computed of them is what lists of them give."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import FINGERPRINTING
from hypothesis import given
from hypothesis import strategies as st

from fpstore.jobs.forms import TSV, Form
from fpstore.jobs.rows import Lines
from fpstore.text import Recipe, recipes
from fpstore.text._packed import count_marked, digests, gather, lines, ranges, written
from fpstore.text._shingles import features_many
from fpstore.text._simhash import measure
from fpstore.text.packed import (
    Encoded,
    Packed,
    Passed,
    Texts,
    heads,
    offsets_of,
    packed,
    plain_lines,
    taken,
)

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def texts_of(values: Sequence[str]) -> Texts:
    found = Texts.pack(value.encode() for value in values)
    assert isinstance(found, Texts)
    return found


@given(st.lists(WORDS, max_size=12), st.sets(st.characters(min_codepoint=0x800, exclude_categories=["Cs"])), st.data())
def test_characters_are_counted_in_packed_texts(values: list[str], chosen: set[str], data: Any) -> None:
    ends = st.sampled_from(["", "of ASCII " * 3, *sorted(chosen)])
    values = [value + data.draw(ends) + data.draw(ends) for value in values]
    chosen |= {character for character in "".join(values) if character >= "\u0800" and data.draw(st.booleans())}
    marks = np.zeros(1 << 21, dtype=np.uint8)
    marks[[ord(character) for character in chosen]] = 1
    found = texts_of(values)
    indexes = np.array([at for at in range(len(values)) if at % 3], dtype=np.int64)
    expected = [sum(character in chosen for character in values[at]) for at in indexes.tolist()]
    assert count_marked(found.data, found.offsets, indexes, marks).tolist() == expected


def test_what_cannot_be_counted_is_refused_and_cut_characters_are_none() -> None:
    marks = np.ones(1 << 21, dtype=np.uint8)
    cut = Encoded.pack([b"\xff", b"\xf0\x9f", b"\xe4\xb8", b"\xf4\x8f\xbf", b"\xff" * 5])
    first, every = np.zeros(1, dtype=np.int64), np.arange(5)
    assert count_marked(cut.data, cut.offsets, every, marks).tolist() == [0, 0, 0, 1, 1]
    with pytest.raises(ValueError, match="marks: found 3, expected 2097152"):
        count_marked(cut.data, cut.offsets, first, marks[:3])
    for index in (-1, 5):
        with pytest.raises(ValueError, match=f"index: found {index}, expected one of 5 values"):
            count_marked(cut.data, cut.offsets, first + index, marks)
    with pytest.raises(ValueError, match="do not increase"):
        count_marked(cut.data[:3], cut.offsets, first, marks)


@given(st.lists(WORDS, max_size=12), st.data())
def test_packed_texts_are_those_that_were_packed(values: list[str], data: Any) -> None:
    found = texts_of(values)
    assert (len(found), list(found), [found[i] for i in range(-len(values), len(values))]) == (
        len(values),
        values,
        values * 2,
    )
    indexes = range(1, len(values))
    for some in (found, values):
        for count in (0, 1, 3, 30):
            assert heads(some, indexes, count) == [value[:count] for value in values[1:]]
    assert found.sizes.tolist() == [len(value.encode()) for value in values]
    start, stop, step = data.draw(st.tuples(*[st.integers(-14, 14)] * 2, st.sampled_from([1, 2, -1])))
    part = found[start:stop:step]
    assert list(part) == values[start:stop:step]
    assert part.together().tobytes() == "".join(values[start:stop:step]).encode()
    if values:
        indexes = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=9))
        assert (
            list(found.take(np.array(indexes, dtype=np.int64)))
            == taken(values, indexes)
            == [values[i] for i in indexes]
        )
        assert list(taken(found, indexes)) == taken(values, indexes)
    assert list(Texts.join([found, part, found[:1]])) == [*values, *values[start:stop:step], *values[:1]]
    assert list(Texts.join([])) == []
    with pytest.raises(IndexError, match=f"found index {len(values)}, expected one of {len(values)} values"):
        found[len(values)]


def test_what_is_packed_of_texts_is_their_utf8_and_of_halves_of_pairs_what_utf8_would_be() -> None:
    assert packed(["a", "\ud800", "ä"]).together().tobytes() == b"a\xed\xa0\x80\xc3\xa4"
    assert list(packed(["a", "\ud800"])) == [b"a", b"\xed\xa0\x80"]
    found = texts_of(["a"])
    assert packed(found) is found
    with pytest.raises(TypeError, match="abstract"):
        Packed(found.data, found.offsets)  # type: ignore[abstract]


def test_values_that_lie_outside_of_the_bytes_are_refused() -> None:
    data = np.arange(4, dtype=np.uint8)
    for bad in ([], [1, 0], [-1, 2], [0, 5]):
        offsets = np.array(bad, dtype=np.int64)
        with pytest.raises(ValueError, match="offsets: found some that do not increase to at most 4"):
            gather(data, offsets, np.empty(0, dtype=np.int64))
        with pytest.raises(ValueError, match="offsets: found some"):
            digests(data, offsets, data, offsets, 0)
    for bad in ([1], [-1]):
        with pytest.raises(ValueError, match=f"index: found {bad[0]}, expected one of 1 values"):
            gather(data, offsets_of([4]), np.array(bad, dtype=np.int64))
    for size in (3, 5):
        with pytest.raises(ValueError, match=f"place: found one of {size} bytes, expected 4"):
            gather(data, offsets_of([4]), np.zeros(1, dtype=np.int64), np.empty(size, dtype=np.uint8))
    with pytest.raises(ValueError, match="found 1 names of 2 values"):
        digests(data, offsets_of([4]), data, offsets_of([2, 2]), 0)
    one, other = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    with pytest.raises(ValueError, match="found 1 starts and 2 ends, expected as many"):
        ranges(-1, 4, one, other)
    for start, end in ((-1, 2), (0, 5), (2, 1)):
        with pytest.raises(ValueError, match=f"value 0: found {start} to {end}, expected some of 4 bytes"):
            ranges(-1, 4, one + start, one + end)
    with pytest.raises(ValueError, match="found columns of \\[0, 1\\] values, expected as many in each"):
        lines([(data, one), (data, other)])
    with pytest.raises(ValueError, match="found columns of \\[\\] values"):
        lines([])
    with pytest.raises(ValueError, match="offsets: found some"):
        lines([(data, other - 1)])
    for call in (measure, features_many):
        with pytest.raises(ValueError, match="offset 0: found 0, expected those of texts in 4 bytes"):
            call(Texts(data, np.array([0, 5], dtype=np.int64)))


def test_ranges_of_a_file_are_those_of_plain_python(tmp_path: Path) -> None:
    """Also those that lie side by side, before others and last."""
    values = texts_of(["one", "", "zwei", "3", "five"])
    starts, ends = values.offsets[:-1], values.offsets[1:]
    path = tmp_path / "file"
    path.write_bytes(values.data.tobytes())
    with path.open("rb") as file:
        fd = file.fileno()
        for which in ([2, 1, 2, 0], [0, 1, 2, 4], [3], [1], [4, 3, 3], [0, 2, 3, 4], [1, 1]):
            data, offsets = ranges(fd, len(values.data), starts[which], ends[which])
            assert [*Texts(data, offsets)] == [values[index] for index in which]
        assert [len(each) for each in ranges(fd, 0, starts[:0], ends[:0])] == [0, 1]
        with pytest.raises(EOFError, match="found less than the 100 bytes of a file"):
            ranges(fd, 100, starts[:1] + 2, ends[:1] + 90)
    with pytest.raises(OSError, match="Bad file descriptor"):
        ranges(-1, 100, starts[:1], ends[:1])


def test_lines_are_those_of_plain_python() -> None:
    values, which = texts_of(["one", "", "zwei", "3"]), [2, 1, 2, 0]
    taken = values.take(np.array(which))
    assert lines([(each.data, each.offsets) for each in (values, taken[:4])]).tobytes() == (
        b"one\tzwei\n\t\nzwei\tzwei\n3\tone\n"
    )
    assert lines([(values.data, values.offsets[1:4])]).tobytes() == b"\nzwei\n"
    assert lines([(values.data, values.offsets[:1])]).tobytes() == b""


@pytest.mark.parametrize("odd", ["\\", "\n", "\t", "\x7f", "\x1f", "é", "\u200e"])
def test_only_lines_that_python_writes_as_they_stand_are_written_so(odd: str) -> None:
    plain = texts_of([chr(code) for code in range(0x20, 0x7F) if chr(code) != "\\"])
    assert plain_lines([plain]) is not None
    written = Lines(Form(TSV), {"name": "string"}, "x")
    for names in ([*plain], [*plain, odd], ["", odd]):
        assert bytes(written.encode(texts_of(names))) == written.encode(names)
    assert plain_lines([plain, texts_of([odd] * len(plain))]) is None
    assert plain_lines([plain[1:2], texts_of(["a", odd])[:1]]) is not None, "what lies behind is not looked at"


def test_numbers_are_written_as_python_writes_them() -> None:
    names, written = ["a", "b", "c", "d"], Lines(Form(TSV), {}, "x")
    distances, measures = [3, 0, 3, 64], [0.12345, 1.0, float("nan"), 2 / 3]
    found = written.encode(texts_of(names), np.array(distances, dtype=np.uint8), np.array(measures))
    assert bytes(found) == written.encode(names, distances, measures)
    assert bytes(found).splitlines()[0] == b"a\t3\t0.1235"
    empty = written.encode(texts_of([]), np.empty(0, dtype=np.uint8))
    assert bytes(empty) == b""


def test_half_of_a_surrogate_pair_is_seen_and_hangul_is_none() -> None:
    def passed(*texts: str) -> Passed:
        every = Encoded.pack(text.encode("utf-8", "surrogatepass") for text in texts)
        return Passed(every.data, every.offsets)

    assert [*passed("a\udc80", "\ud7ff")] == ["a\udc80", "\ud7ff"]
    assert passed("\ud7ff\ud000", "í", "\U0001d800").has_halves is False
    assert passed().has_halves is False
    for half in ("\ud800", "\udfff"):
        assert passed("a", f"a{half}", "b").has_halves is True


def test_another_name_value_or_seed_gives_another_digest_and_the_place_does_not() -> None:
    def digest(names: list[str], values: list[str], seed: int) -> list[bytes]:
        one, other = texts_of(names), texts_of(values)
        return [each.tobytes() for each in digests(one.data, one.offsets, other.data, other.offsets, seed)]

    known = digest(["a", "b", "a", "", "a"], ["x", "x", "y" * 1000, "ax", "x"], 1)
    assert (len({*known}), known[0], len(known[0])) == (4, known[4], 16)
    assert digest(["a"], ["x"], 1) == known[:1] != digest(["a"], ["x"], 2)
    assert digest([], [], 1) == []


@pytest.mark.parametrize("name", [*FINGERPRINTING, "letters"])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_measured_of_packed_texts_is_what_each_gives(name: str, threads: int) -> None:
    recipe = Recipe("own", tokens="letters", shingle=3) if name == "letters" else recipes()[name]
    values = ["", "!", "some words, and more of them", "größe \u4e2d\u6587\u4e2d\u6587 \U0001f600", "a " * 3000]
    values += [f"word{i} " * (i % 7) + f"other{i}" for i in range(40)]
    values += [" ".join(f"w{i * i}" for i in range(5000))]
    for texts in (values, texts_of(values)):
        for got, plain in zip(recipe.measure_many(texts, threads=threads), recipe.measure_many(values), strict=True):
            assert np.array_equal(np.asarray(got), np.asarray(plain))
        found = recipe.features_many(texts, threads=threads)
        for features, text in zip(found, values, strict=True):
            expected = recipe.features(text)
            assert (features.hashes.tolist(), features.weights.tolist()) == (
                expected.hashes.tolist(),
                expected.weights.tolist(),
            )
    assert list(recipe.features_many([])) == []


@pytest.mark.parametrize("hash", ["fnv1a", "murmur3"])
def test_shingles_are_sorted_also_where_their_hashes_are_alike(hash: str) -> None:
    recipe = Recipe("own", shingle=1, hash=hash)
    text = " ".join(chr(97 + i % 26) * (1 + i // 26) for i in range(26 * 60))
    (found,) = recipe.features_many([text])
    assert found.hashes.tolist() == recipe.features(text).hashes.tolist() == sorted({*found.hashes.tolist()})


def numbers_of(column: np.ndarray[Any, Any]) -> list[str]:
    return [*Texts(*written(column))]


def test_measures_are_rounded_as_python_rounds_them() -> None:
    """Also those that lie in the middle of two: a half is rounded to the even digit, where it is one exactly."""
    rng = np.random.default_rng(3)
    middles = (np.arange(1, 20_000, 2) / 20_000).astype(np.float64)
    halves = np.arange(1, 4096) / 2.0**12
    wide = 2.0 ** rng.uniform(-80, 40, 5000)
    ends = [0.0, 1.0, 5e-5, 0.99995, 0.999949999, 9.99995, 5e-324, 2.0**-66, 2.0**40 - 2**-13, 1099511627775.99995]
    others = [2.0**40, 1e300, -0.0, -0.5, float("nan"), float("inf"), -float("inf")]
    for column in (middles, np.nextafter(middles, 0), np.nextafter(middles, 1), halves, wide, rng.random(5000), ends):
        measures = np.array(column, dtype=np.float64)
        assert numbers_of(measures) == [f"{measure:.4f}" for measure in measures.tolist()]
    for other in others:
        assert numbers_of(np.array([0.5, other, 0.25])) == ["0.5000", f"{other:.4f}", "0.2500"]
    assert numbers_of(np.array([0.125, 7.0, 0.0625, 7.0])[::2]) == ["0.1250", "0.0625"]
    narrow = rng.random(5000).astype(np.float32)
    assert numbers_of(narrow) == [f"{measure:.4f}" for measure in narrow.tolist()]


def test_integers_of_any_type_are_written_as_python_writes_them() -> None:
    for kind in (np.uint8, np.uint16, np.int64, np.uint64):
        bounds = np.iinfo(kind)
        values = [0, 9, 10, 99, 100, bounds.max, bounds.max - 1, bounds.max // 10]
        assert numbers_of(np.array(values, dtype=kind)) == [*map(str, values)]
    assert numbers_of(np.array([3, -4, np.iinfo(np.int64).min])) == ["3", "-4", "-9223372036854775808"]
    assert numbers_of(np.empty(0, dtype=np.int64)) == numbers_of(np.empty(0)) == []
    for column in (np.array(["1"]), np.array([True])):
        with pytest.raises(TypeError, match="expected integers or floats"):
            written(column)
