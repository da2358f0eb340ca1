"""Owns which values the fields of a recipe can have, each by itself and beside the others; see `recipe` for them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from fpstore.errors import UnsupportedVersion
from fpstore.text import _simhash
from fpstore.text.cleaning import HTML_CHOICES
from fpstore.text.permutations import DEFAULT_VALUES, HASH_OF_SCHEME, MOST_VALUES, SCHEMES, SEED_BITS_OF_SCHEME

if TYPE_CHECKING:
    from fpstore.text.recipe import Recipe

# When a golden value of tests/test_text_golden.py changes, this becomes a new version.
VERSION = 2
MAX_SHINGLE = 64
DEFAULT_BITS = 64

# Every value that a field can have.
CHOICES: dict[str, tuple[Any, ...]] = {
    "html": HTML_CHOICES,
    "normalisation": ("nfkc-casefold", "nfkc", "lower", "none"),
    "tokens": ("words", "mixed", "characters", "letters", "chinese", "whole"),
    "weights": ("frequency", "capped", "log", "presence", "idf"),
    "hash": ("xxh3", "xxh64", "md5", "sha1", "sha256", "md5-first", "blake2b", "fnv1", "fnv1a", "murmur3", "fxhash"),
    "tie": ("clear", "set"),
    "sketch": ("simhash", "minhash-1bit", "minhash"),
    "permutations": SCHEMES,
    "bits": (64, 128, 256),
}
# The fields that records of this version do not all have, and what is meant where one is missing.
ADDED: dict[str, str | int] = {
    "seed": 0,
    "tie": "clear",
    "sketch": "simhash",
    "dense_shingle": 0,
    "values": DEFAULT_VALUES,
    "permutations": SCHEMES[0],
    "bits": DEFAULT_BITS,
}
_INTEGERS = ("version", "shingle", "seed", "dense_shingle", "values", "bits")
_WORDS = ("words", "chinese")  # those tokens that can be stop words or have stems
_OF_SETS = {"weights": "presence", "tie": "clear"}  # what a sketch of the set of shingles leaves no choice of
# Of these there are further bits, which other tools take for wide simhashes: so they could be meant as well.
_OF_TOOLS = ("md5", "sha1", "sha256", "md5-first", "blake2b", "murmur3")
_IDF_DIGITS = 64  # of a model's checksum, in hexadecimal


def expect_fields(recipe: Recipe) -> None:
    """ValueError for a value that no step has or another step rules out, UnsupportedVersion for another version."""
    for each in fields(recipe):
        if each.name != "model":
            _check_type(each.name, getattr(recipe, each.name))
    expect_version(recipe.version)
    if not recipe.name:
        raise ValueError("recipe name: found an empty string, expected a name")
    if not 1 <= recipe.shingle <= MAX_SHINGLE:
        raise ValueError(f"recipe shingle: found {recipe.shingle}, expected 1..{MAX_SHINGLE} tokens")
    for step, choices in CHOICES.items():
        if getattr(recipe, step) not in choices:
            expected = " or ".join(map(str, choices))
            raise ValueError(f"recipe {step}: found {getattr(recipe, step)!r}, expected {expected}")
    for step in ("stop_words", "stemming"):
        if getattr(recipe, step) and recipe.tokens not in _WORDS:
            expected = f"none for tokens {recipe.tokens}"
            raise ValueError(f"recipe {step}: found {getattr(recipe, step)!r}, expected {expected}")
    if recipe.tokens == "whole" and recipe.shingle != 1:
        raise ValueError(f"recipe shingle: found {recipe.shingle}, expected 1 for tokens whole")
    dense = range(1, MAX_SHINGLE + 1) if recipe.tokens == "mixed" else range(1)
    if recipe.dense_shingle not in dense:
        expected = f"{dense[0]}..{dense[-1]}" if len(dense) > 1 else "0"
        told = f"found {recipe.dense_shingle}, expected {expected} for tokens {recipe.tokens}"
        raise ValueError(f"recipe dense_shingle: {told}")
    _check_signature(recipe.sketch, recipe.values, recipe.permutations)
    _check_hash(recipe.permutations, recipe.hash)
    _check_width(recipe.sketch, recipe.hash, recipe.bits)
    if recipe.permutations in SEED_BITS_OF_SCHEME:
        _check_bits(recipe.seed, SEED_BITS_OF_SCHEME[recipe.permutations], f"permutations {recipe.permutations}")
    else:
        _check_bits(recipe.seed, _simhash.SEED_BITS.get(recipe.hash, 0), f"hash {recipe.hash}")
    _check_idf(recipe.weights, recipe.idf)
    if recipe.sketch != "simhash":
        for step, expected in _OF_SETS.items():
            if getattr(recipe, step) != expected:
                told = f"found {getattr(recipe, step)!r}, expected {expected} for sketch {recipe.sketch}"
                raise ValueError(f"recipe {step}: {told}")


def expect_version(version: int) -> None:
    """UnsupportedVersion for the version of another recipe."""
    if version == VERSION:
        return
    advice = "" if version > VERSION else "; build again, from the documents"
    raise UnsupportedVersion("recipe version", version, VERSION, advice)


def _check_type(name: str, value: object) -> None:
    expected = int if name in _INTEGERS else str
    # A bool is an int to isinstance, and True is no version.
    if type(value) is not expected:
        raise ValueError(f"recipe {name}: found {value!r}, expected {expected.__name__}")


def _check_bits(seed: int, bits: int, what: str) -> None:
    if not 0 <= seed < 1 << bits:
        expected = f"0..2**{bits} - 1" if bits else "0"
        raise ValueError(f"recipe seed: found {seed}, expected {expected} for {what}")


def _check_signature(sketch: str, values: int, permutations: str) -> None:
    if sketch == "minhash":
        if not 1 <= values <= MOST_VALUES:
            raise ValueError(f"recipe values: found {values}, expected 1..{MOST_VALUES}")
        return
    for name, found in (("values", values), ("permutations", permutations)):
        if found != ADDED[name]:
            raise ValueError(f"recipe {name}: found {found!r}, expected {ADDED[name]!r} for sketch {sketch}")


def _check_hash(permutations: str, hash_name: str) -> None:
    expected = HASH_OF_SCHEME.get(permutations, hash_name)
    if hash_name != expected:
        told = f"found {hash_name!r}, expected {expected} for permutations {permutations}, which have no other"
        raise ValueError(f"recipe hash: {told}")


def _check_width(sketch: str, hash_name: str, bits: int) -> None:
    if bits == DEFAULT_BITS:
        return
    if sketch == "minhash":
        raise ValueError(f"recipe bits: found {bits}, expected {DEFAULT_BITS} for sketch {sketch}, which has values")
    if sketch == "simhash" and hash_name in _OF_TOOLS:
        others = " or ".join(name for name in CHOICES["hash"] if name not in _OF_TOOLS)
        told = f"expected {DEFAULT_BITS} for hash {hash_name}, whose further bits other tools take; or hash {others}"
        raise ValueError(f"recipe bits: found {bits}, {told}")


def _check_idf(weights: str, checksum: str) -> None:
    if checksum and weights != "idf":
        raise ValueError(f"recipe idf: found {checksum!r}, expected none for weights {weights}")
    if checksum and not (len(checksum) == _IDF_DIGITS and set(checksum) <= set("0123456789abcdef")):
        raise ValueError(f"recipe idf: found {checksum!r}, expected {_IDF_DIGITS} hexadecimal digits")
