"""The compiled core: XXH64 against the published package, and what its door refuses."""

import random
import subprocess
import sys

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from fpstore.text._simhash import fingerprint_words, xxh64


def test_xxh64_equals_the_package_at_every_length_to_200():
    source = random.Random(64)
    for size in range(201):
        for data in (bytes(size), b"\xff" * size, source.randbytes(size)):
            assert xxh64(data) == xxhash.xxh64_intdigest(data), data.hex()


def test_xxh64_of_nothing_is_the_published_value():
    assert xxh64(b"") == 0xEF46DB3751D8E999


@given(st.binary(max_size=5000))
def test_xxh64_equals_the_package_on_random_bytes(data):
    assert xxh64(data) == xxhash.xxh64_intdigest(data)


@given(st.binary(min_size=1, max_size=100), st.integers(0, 15))
def test_xxh64_does_not_care_how_its_bytes_are_aligned(data, shift):
    assert xxh64(memoryview(bytes(shift) + data)[shift:]) == xxhash.xxh64_intdigest(data)


@pytest.mark.parametrize("shingle_words", [0, -1, 65])
def test_a_shingle_outside_1_to_64_words_is_refused(shingle_words):
    with pytest.raises(ValueError, match=rf"found {shingle_words}, expected 1\.\.64"):
        fingerprint_words("text", shingle_words)


def test_text_that_is_not_str_is_refused():
    with pytest.raises(TypeError, match="found bytes, expected str"):
        fingerprint_words(b"text", 4)


def test_a_subclass_of_str_is_read_as_str():
    class Title(str):
        __slots__ = ()

    assert fingerprint_words(Title("a title"), 4) == fingerprint_words("a title", 4)


def test_a_word_too_long_for_memory_is_a_memory_error():
    script = """
import resource
from fpstore.text._simhash import fingerprint_words
word = "x" * (64 << 20)
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), resource.RLIM_INFINITY))
try:
    fingerprint_words(word, 3)
except MemoryError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "text: no memory for shingles of 3 words\n"
