"""Fingerprints that other packages make: pinned values of theirs, and the packages themselves where they are installed.

`make test-clients` installs them. Those in CLIENTS need far more packages than what is called here does, or have the
name of another; of each only the functions that make a fingerprint are loaded, from its own file.
"""

import ast
import importlib.util
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import plain_hashes
import plain_recipe
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fpstore.text import Recipe, simhash_of_features, simhash_of_hashes
from fpstore.text._simhash import hash_of

CLIENTS = Path(sys.prefix, "clients")

TEXTS = (
    "this is a test phrase",
    "foo bar",
    "the quick brown fox jumps over the lazy dog, and the lazy dog sleeps on",
    "Größe Straße ÉTÉ 中文 текст " * 3 + "end",
    "to be or not to be that is the question whether it is nobler in the mind to suffer the slings",
)
TOKENS = st.lists(st.text(max_size=8), max_size=50)


def module_at(path: Path, name: str) -> ModuleType:
    """The package or module in a file of CLIENTS, under a name of its own; skips where it is not installed."""
    if not path.exists():
        pytest.skip(f"{path.relative_to(CLIENTS)} is not installed: make test-clients")
    folder = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folder)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def functions_at(path: Path, names: dict[str, Any], *wanted: str) -> dict[str, Any]:
    """Functions of a file of CLIENTS whose module imports what is not installed; names: what they use of it."""
    if not path.exists():
        pytest.skip(f"{path.relative_to(CLIENTS)} is not installed: make test-clients")
    tree = ast.parse(path.read_text())
    tree.body = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef) and node.name in wanted)
        or (isinstance(node, ast.ImportFrom) and node.module == "__future__")
    ]
    exec(compile(tree, str(path), "exec"), names)
    return names


# --- What each package does, in fpstore's words: the rows of docs/compatibility.md ---


def as_text_dedup(text: str) -> int:
    """Version 0.4.0: the distinct shingles of three characters, each in lower case; XXH3 without a seed."""
    shingles = {text[i : i + 3].lower() for i in range(len(text) - 2)} if len(text) >= 5 else set()
    return simhash_of_features(shingles)


TEXT_DEDUP = Recipe(
    "text-dedup", normalisation="lower", tokens="characters", shingle=3, weights="presence", hash="xxh3", seed=0
)
GO_SIMHASH = Recipe("go-simhash", normalisation="lower", tokens="words", shingle=1, hash="fnv1", tie="set")


def as_go_simhash(text: str) -> int:
    """mfonda/simhash: NewWordFeatureSet(text), then Simhash."""
    words = re.findall(rb"[\w']+(?:://[\w./]+)?", text.encode().lower())
    return simhash_of_features(words, hash="fnv1", tie="set")


def as_seomoz(text: str) -> int:
    """simhash-py: compute([unsigned_hash(word) for word in words])."""
    return simhash_of_features(text.split(), hash="md5-first")


def as_floc(text: str) -> int:
    return simhash_of_features(text.split(" "), hash="md5-first")


def as_trafilatura(text: str) -> int:
    from trafilatura.deduplication import sample_tokens

    return simhash_of_features(sample_tokens(text), hash="blake2b", tie="set")


def by_text_dedup() -> Callable[[str], int]:
    """text_dedup.simhash.embed_func, and what of the package it calls."""
    from bitarray import bitarray
    from xxhash import xxh3_64_digest

    folder = CLIENTS / "text_dedup"
    ngrams = module_at(folder / "utils" / "tokenization.py", "client_tokenization").ngrams
    names: dict[str, Any] = {"np": np, "bitarray": bitarray, "ngrams": ngrams}
    names |= {"INDEX_COLUMN": "index", "KEY_COLUMN": "keys", "SIGNATURE_COLUMN": "signature"}
    embed = functions_at(folder / "simhash.py", names, "_unsigned_hash", "compute", "embed_func")["embed_func"]
    steps = {"ngram": 3, "permutations": None, "hash_func": xxh3_64_digest}
    return lambda text: int.from_bytes(embed(text, 0, **steps)["signature"], "big")


def by_seomoz() -> Callable[[str], int]:
    module = module_at(CLIENTS / "simhash" / "__init__.py", "client_seomoz")
    return lambda text: int(module.compute([module.unsigned_hash(word.encode()) for word in text.split()]))


def by_floc() -> Callable[[str], int]:
    module = module_at(CLIENTS / "floc_simhash" / "text" / "simhash.py", "client_floc")
    return lambda text: int(module.SimHash(64).inthash(text))


def by_trafilatura() -> Callable[[str], int]:
    module = pytest.importorskip("trafilatura.deduplication", reason="trafilatura: make test-clients")
    return lambda text: int(module.Simhash(text).hash)


# Of TEXTS, from the packages themselves: the versions that docs/compatibility.md names.
PINNED = {
    "text-dedup": ("2aa8ec0121838c03", "8c6f5b60853a59ae", "a23fc5d4e8df7dcc", "72c5f88579382245", "e202d3738f592783"),
    "simhash-pybind": (
        "088375b944a197e3",
        "24b5181948401044",
        "0fd47c3cd58b66cd",
        "e6fbc333fdcd8376",
        "81846c2d45be28b5",
    ),
    "floc-simhash": (
        "088375b944a197e3",
        "24b5181948401044",
        "0fd47c3cd58b66cd",
        "e6fbc333fdcd8376",
        "81846c2d45be28b5",
    ),
    "trafilatura": ("16bd17bcab4e42d7", "7603aeb79fff5bff", "1bd8837090563a3f", "00ef5127e8b8da7a", "5fde4f0eb9de13f2"),
}
# What trafilatura takes as the tokens of the first TEXTS.
SAMPLED = (
    ["this", "is", "a", "test", "phrase"],
    ["foo", "bar"],
    [
        "the",
        "quick",
        "brown",
        "fox",
        "jumps",
        "over",
        "the",
        "lazy",
        "dog",
        "and",
        "the",
        "lazy",
        "dog",
        "sleeps",
        "on",
    ],
)
PACKAGES = {
    "text-dedup": (by_text_dedup, as_text_dedup),
    "simhash-pybind": (by_seomoz, as_seomoz),
    "floc-simhash": (by_floc, as_floc),
    "trafilatura": (by_trafilatura, as_trafilatura),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_gives_what_is_pinned_and_what_is_computed_here(name: str) -> None:
    its, ours = PACKAGES[name][0](), PACKAGES[name][1]
    assert tuple(f"{its(text):016x}" for text in TEXTS) == PINNED[name]
    source = random.Random(5)
    letters = "abcdefgh ABC, .'éßΣ中文 "
    for _ in range(200):
        text = "".join(source.choices(letters, k=source.randint(5, 300)))
        assert its(text) == ours(text), text


@pytest.mark.parametrize("name", ["text-dedup", "simhash-pybind", "floc-simhash"])
def test_what_a_package_gave_is_what_is_computed_here(name: str) -> None:
    assert tuple(f"{PACKAGES[name][1](text):016x}" for text in TEXTS) == PINNED[name]


def test_what_trafilatura_gave_is_what_is_computed_here() -> None:
    found = [simhash_of_features(tokens, hash="blake2b", tie="set") for tokens in SAMPLED]
    assert tuple(f"{value:016x}" for value in found) == PINNED["trafilatura"][: len(SAMPLED)]


def test_a_recipe_gives_the_fingerprints_of_text_dedup_where_spaces_are_single() -> None:
    assert tuple(f"{TEXT_DEDUP.fingerprint(text):016x}" for text in TEXTS) == PINNED["text-dedup"]
    source = random.Random(6)
    for _ in range(200):
        text = " ".join("".join(source.choices("abcDEF,.éß中文", k=source.randint(1, 9))) for _ in range(30))
        assert TEXT_DEDUP.fingerprint(text) == as_text_dedup(text), text
    for text in ("two  spaces", " a space before", "a line\nand another"):
        assert TEXT_DEDUP.fingerprint(text) != as_text_dedup(text)


# What Go printed for these texts: three are the example of the README of mfonda/simhash (79f94a1), and all four that of
# example_test.go in its fork go-dedup/simhash, whose output `go test` compares.
GO_EXAMPLE = {
    "this is a test phrase": "8c3a5f7e9ecb3f35",
    "this is a test phrass": "8c3a5f7e9ecb3f21",
    "these are test phrases": "ddfdbf7fbfaffb1d",
    "foo bar": "d8dbe7186bad3db3",
}


@pytest.mark.parametrize("text", GO_EXAMPLE)
def test_the_published_example_of_go_simhash_is_computed_here(text: str) -> None:
    assert f"{as_go_simhash(text):016x}" == GO_EXAMPLE[text]
    assert f"{GO_SIMHASH.fingerprint(text):016x}" == GO_EXAMPLE[text]


def test_what_the_tests_of_go_simhash_expect_is_computed_here() -> None:
    """Of mfonda/simhash (79f94a1): simhash_test.go, feature_test.go, vector_test.go, fingerprint_test.go."""
    first, second, _, last = (as_go_simhash(text) for text in GO_EXAMPLE)
    assert [(first ^ other).bit_count() for other in (second, last)] == [2, 29]
    assert hash_of(b"test string", "fnv1") == 8811532157352841348
    assert as_go_simhash("here's a test string.") == simhash_of_features(
        ["here's", "a", "test", "string"], hash="fnv1", tie="set"
    )
    sums = [0, -2, 0, 0, -2, -2, -2, 0, 0, 0, -2, 0, 0, 0, -2, 0, -2, 0, 0, 0, 0, 0, 2, 2, 2, -2, 0, -2, 0, -2, 2, 0]
    sums += [0, 2, 0, 2, -2, 0, 2, 0, 2, -2, 0, 0, 2, 0, 0, 2, 0, 0, 0, 2, 0, 0, 2, -2, -2, 2, -2, 0, 2, 0, 2, -2]
    expected = {"set": [value >= 0 for value in sums], "clear": [value > 0 for value in sums]}
    for tie, bits in expected.items():
        found = simhash_of_features(["test string", "test thing"], hash="fnv1", tie=tie)
        assert found == sum(1 << bit for bit in range(64) if bits[bit])
    assert simhash_of_features([], hash="fnv1", tie="set") == 0xFFFFFFFFFFFFFFFF


def test_the_recipe_for_go_simhash_is_its_rule_for_ascii() -> None:
    source = random.Random(7)
    letters = [chr(code) for code in range(128) if chr(code) not in "'/"]
    for _ in range(300):
        text = "".join(source.choices(letters, k=source.randint(0, 60)))
        assert GO_SIMHASH.fingerprint(text) == as_go_simhash(text), text


def test_the_example_of_go_simhash_tells_its_hash_and_its_ties_from_others() -> None:
    words = ["foo", "bar"]
    assert f"{simhash_of_features(words, hash='fnv1', tie='clear'):016x}" != GO_EXAMPLE["foo bar"]
    assert f"{simhash_of_features(words, hash='fnv1a', tie='set'):016x}" != GO_EXAMPLE["foo bar"]


def test_the_published_vectors_of_simhash_py_are_computed_here() -> None:
    """Those of TestCompute in its test/test.py."""
    assert simhash_of_hashes([]) == 0
    assert simhash_of_hashes([0xABCD, 0xBCDE, 0xCDEF]) == 0xADCF
    assert simhash_of_hashes([0xDEADBEEFDEADBEEF, 0x2152411021524110]) == 0
    assert simhash_of_hashes([0xDEADBEEF] * 100) == 0xDEADBEEF


@given(TOKENS)
def test_hashes_of_simhash_pybind_and_its_sums_are_those_computed_here(tokens: list[str]) -> None:
    module = module_at(CLIENTS / "simhash" / "__init__.py", "client_seomoz")
    hashes = [module.unsigned_hash(token.encode()) for token in tokens]
    assert simhash_of_features(tokens, hash="md5-first") == module.compute(hashes) == simhash_of_hashes(hashes)


def test_gaoya_hashes_by_none_of_ours() -> None:
    gaoya = pytest.importorskip("gaoya.simhash", reason="gaoya: make test-clients")
    found = gaoya.SimHashStringIndex().index.tokenize_and_simhash("foo")
    assert found not in [hash_of(b"foo", name) for name in plain_hashes.NAMES]


# FNV: golden64 and golden64a of Go's hash/fnv/fnv_test.go, and foobar of test_fnv.c of its authors. MurmurHash3: foo of
# test_hash64 in mmh3's tests, the others of murmur_test.go in spaolacci/murmur3, without a seed. FxHash: `bytes` of the
# tests of rustc-hash 2. MD5: RFC 1321.
@pytest.mark.parametrize(
    ("hash", "data", "expected"),
    [
        ("fnv1", b"", 0xCBF29CE484222325),
        ("fnv1", b"a", 0xAF63BD4C8601B7BE),
        ("fnv1", b"ab", 0x08326707B4EB37B8),
        ("fnv1", b"abc", 0xD8DCCA186BAFADCB),
        ("fnv1", b"foobar", 0x340D8765A4DDA9C2),
        ("fnv1a", b"", 0xCBF29CE484222325),
        ("fnv1a", b"a", 0xAF63DC4C8601EC8C),
        ("fnv1a", b"ab", 0x089C4407B545986A),
        ("fnv1a", b"abc", 0xE71FA2190541574B),
        ("fnv1a", b"foobar", 0x85944171F73967E8),
        ("murmur3", b"", 0),
        ("murmur3", b"foo", 16316970633193145697),
        ("murmur3", b"hello", 0xCBD8A7B341BD9B02),
        ("murmur3", b"hello, world", 0x342FAC623A5EBC8E),
        ("murmur3", b"19 Jan 2038 at 3:14:07 AM", 0xB89E5988B737AFFC),
        ("fxhash", b"", 17606491139363777937),
        ("fxhash", bytes(1), 5448590020104574886),
        ("fxhash", bytes(6), 16766921560080789783),
        ("fxhash", b"\x01", 5922447956811044110),
        ("fxhash", b"uwu", 7168164714682931527),
        ("fxhash", b"These are some bytes for testing rustc_hash.", 2349210501944688211),
        ("md5", b"abc", 0xD6963F7D28E17F72),
        ("sha1", b"abc", 0x6A810647363E99A9),
        ("md5-first", b"abc", 0x900150983CD24FB0),
    ],
)
def test_published_vectors_of_the_hashes(hash: str, data: bytes, expected: int) -> None:
    assert hash_of(data, hash) == expected


def test_murmur3_has_the_verification_value_of_smhasher() -> None:
    """0x6384BA69 for MurmurHash3_x64_128 in its main.cpp, taken as VerificationTest of KeysetTest.cpp does."""
    hashes = b""
    for size in range(256):
        key, seed = bytes(range(size)), 256 - size
        words = plain_hashes.murmur3_words(key, seed)
        assert hash_of(key, "murmur3", seed) == words[0]
        hashes += b"".join(word.to_bytes(8, "little") for word in words)
    assert hash_of(hashes, "murmur3") & 0xFFFFFFFF == 0x6384BA69


def test_murmur3_is_the_first_word_of_mmh3() -> None:
    mmh3 = pytest.importorskip("mmh3", reason="mmh3: make test-clients")
    source = random.Random(3)
    for size in range(200):
        data, seed = source.randbytes(size), source.getrandbits(32)
        assert hash_of(data, "murmur3", seed) == mmh3.hash64(data, seed, True, signed=False)[0]


def test_fnv_is_that_of_fnvhash() -> None:
    fnvhash = pytest.importorskip("fnvhash", reason="fnvhash: make test-clients")
    source = random.Random(4)
    for size in range(100):
        data = source.randbytes(size)
        assert hash_of(data, "fnv1") == fnvhash.fnv1_64(data)
        assert hash_of(data, "fnv1a") == fnvhash.fnv1a_64(data)


GOLDEN = {
    Recipe("xxh3-42", shingle=2, seed=42): "8360f4b5a7400474",
    Recipe("xxh64-42", shingle=2, hash="xxh64", seed=42): "f9d2f72a88005875",
    Recipe("murmur3", shingle=2, hash="murmur3"): "e7b30d284d24467c",
    Recipe("murmur3-42", shingle=2, hash="murmur3", seed=42): "f4b48e2231031413",
    Recipe("fnv1", shingle=2, hash="fnv1"): "52ed634438d20434",
    Recipe("fnv1a", shingle=2, hash="fnv1a"): "18809023c9c01a44",
    Recipe("fxhash", shingle=2, hash="fxhash"): "0215a43ed099fb2d",
    Recipe("blake2b", shingle=2, hash="blake2b"): "2ae20a20c6a993b0",
    Recipe("md5-first", shingle=2, hash="md5-first"): "6d337db51088c005",
    Recipe("tie", shingle=1, tie="set"): "c31887c398d2b0f7",
}


@pytest.mark.parametrize("recipe", GOLDEN, ids=lambda recipe: recipe.name)
def test_recipes_of_other_hashes_never_change(recipe: Recipe) -> None:
    assert f"{recipe.fingerprint(TEXTS[2]):016x}" == GOLDEN[recipe]
    assert f"{plain_recipe.fingerprint_of(recipe, TEXTS[2]):016x}" == GOLDEN[recipe]
