"""MinHash signatures: equal to their plain twin and datasketch's, on every instruction set, and as near as is said."""

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import plain_minhash
import plain_rensa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_text_golden import TEXTS
from test_text_packed import texts_of
from test_text_recipe import TEXTS as ANY_TEXTS
from test_text_recipe import some_recipes

from fpstore import minhash
from fpstore.errors import RecipeError
from fpstore.minhash import sign
from fpstore.text import Recipe, recipes
from fpstore.text._signing import MOST_VALUES, Permutations, sign_hashes
from fpstore.text._signing import sign as sign_in_core
from fpstore.text._simhash import measure
from fpstore.text.permutations import SCHEMES, permutations_of

PRESET = recipes()["minhash-128"]
SIGNING = Recipe("signing", shingle=2, weights="presence", sketch="minhash")
OF_DATASKETCH = [scheme for scheme in SCHEMES if scheme.startswith("datasketch")]
DTYPES = {"datasketch-affine64": np.uint64, "datasketch-legacy": np.uint64}


def by_scheme(recipe: Recipe, scheme: str, **changes: Any) -> Recipe:
    """The recipe with these permutations, and with their hash where they have one."""
    hashes: Any = {"hash": "fxhash"} if scheme == "rensa" else {}
    return replace(recipe, permutations=scheme, **hashes, **changes)


def similarity(one: Any, other: Any) -> Any:
    """That of arrays: a float for two signatures, an array for more."""
    return minhash.similarity(one, other)


def signed(scheme: str, sets: Sequence[Sequence[int]], values: int = 128, seed: int = 0) -> Any:
    """The signatures of sets of hashes."""
    hashes = np.array([value for each in sets for value in each], dtype=np.uint64)
    ends = np.cumsum([len(each) for each in sets], dtype=np.uint64)
    return sign_hashes(hashes, ends, permutations_of(scheme, values, seed))


# --- What the values are ---


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@given(recipe=some_recipes(), text=ANY_TEXTS, values=st.sampled_from([1, 3, 64, 65, 128]), data=st.data())
@settings(max_examples=60)
def test_every_composition_equals_the_plain_twin(scheme: str, recipe: Any, text: Any, values: int, data: Any) -> None:
    bits = 64 if scheme == "rensa" else 32
    seed = recipe.seed if scheme == "fpstore" else data.draw(st.integers(0, (1 << bits) - 1))
    changes: Any = {
        "weights": "presence",
        "tie": "clear",
        "sketch": "minhash",
        "bits": 64,
        "values": values,
    }
    own = by_scheme(recipe, scheme, seed=seed, **changes)
    found = sign([text], own)
    assert found.dtype == DTYPES.get(scheme, np.uint32)
    assert found.tolist() == [plain_minhash.signature_of(own, text)]


@pytest.mark.parametrize("values", [1, 2, 15, 16, 17, 63, 64, 65, 100, 128, 200, 300, MOST_VALUES])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_signatures_of_any_number_of_values_equal_the_plain_twin(scheme: str, values: int) -> None:
    source = random.Random(values)
    sets = [[source.getrandbits(64) for _ in range(count)] for count in (0, 1, 2, 9, values // 4, values)]
    sets += [[], sets[3][::-1] * 3, [0], [(1 << 64) - 1]]
    found = signed(scheme, sets, values, 5)
    assert found.tolist() == [plain_minhash.signature_of_hashes(scheme, each, values, 5) for each in sets]


@pytest.mark.parametrize("distinct", [1, 40, 400, 3000])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_hashes_of_long_texts_are_taken_whole_however_often_they_come(scheme: str, distinct: int) -> None:
    # So many that those that wait for empty bins are taken in several times.
    source = random.Random(distinct)
    known = [source.getrandbits(64) for _ in range(distinct)]
    first = [source.getrandbits(64) for _ in range(20)]
    many = first * 110 + source.choices(known, k=5000) + known
    expected = plain_minhash.signature_of_hashes(scheme, {*many}, 100, 0)
    assert signed(scheme, [many], 100).tolist() == [expected]


# Of the first, the second, the third and the last value, and SHA-256 of all, by datasketch 2.0.0.
SHINGLES = ("one two three", "two three four", "größe 中文 ends")
GOLDEN_OF_DATASKETCH = {
    ("datasketch-affine32", 1): ((1596985859, 54428199, 2112996390, 318962749), "8aa4d1217134f896"),
    ("datasketch-affine32", 7): ((1206959395, 1136253589, 1230486938, 634178851), "5d59a3e75878730e"),
    ("datasketch-affine64", 1): (
        (2540191397023644648, 14872288165636937217, 2086306377706743408, 1999690581208508754),
        "427f2d7a11890048",
    ),
    ("datasketch-affine64", 7): (
        (378564663509158371, 2398854709682954501, 2350847615227853401, 3053891785731382853),
        "a786c2073f777635",
    ),
    ("datasketch-legacy", 1): ((337302918, 385860643, 566442822, 835372553), "d7d877fb44579de7"),
    ("datasketch-legacy", 7): ((1376167904, 334857152, 1711682027, 1657184876), "ac97690957e06703"),
}


@pytest.mark.parametrize(("scheme", "seed"), GOLDEN_OF_DATASKETCH)
def test_the_values_are_those_of_datasketch_2(scheme: str, seed: int) -> None:
    recipe = replace(
        SIGNING, tokens="whole", normalisation="none", shingle=1, hash="sha1", permutations=scheme, seed=seed
    )
    # A text of one shingle each, and their union.
    found = sign(SHINGLES, recipe).min(axis=0)
    values, digest = GOLDEN_OF_DATASKETCH[scheme, seed]
    assert tuple(found[[0, 1, 2, -1]].tolist()) == values
    assert hashlib.sha256(found.tobytes()).hexdigest()[:16] == digest


@pytest.mark.parametrize("values", [1, 100, 128, 1000])
@pytest.mark.parametrize("scheme", OF_DATASKETCH)
def test_signatures_are_those_that_datasketch_makes_of_the_same_shingles(scheme: str, values: int) -> None:
    datasketch = pytest.importorskip("datasketch", reason="datasketch: make test-clients")
    source = random.Random(11)
    texts = [" ".join(source.choices(["a", "bc", "größe", "中文", "d1", "e"], k=count)) for count in (1, 4, 90, 900)]
    for recipe in (
        replace(SIGNING, shingle=5, hash="sha1", permutations=scheme, values=values, seed=1),
        replace(PRESET, hash="sha1", permutations=scheme, values=values, seed=42),
    ):
        for text, found in zip(texts, sign(texts, recipe), strict=True):
            its = datasketch.MinHash(num_perm=values, seed=recipe.seed, scheme=scheme.removeprefix("datasketch-"))
            its.update_batch([shingle.encode() for _, shingle in recipe.shingles(text)])
            assert found.dtype == its.hashvalues.dtype
            assert found.tolist() == its.hashvalues.tolist()


# What rensa 0.4.0 makes of these, by its seed: the first values.
OF_RENSA = [
    "a",
    "bc",
    "größe",
    "中文",
    "x" * 40,
    "hello world foo",
    "12345678",
    "1234567890abcdef",
    "1234567890abcdefg",
    "",
]
RENSA_0_4 = {0: [249435685, 252035958, 510863400], 42: [752334380, 728203, 819115885]}


@pytest.mark.parametrize("seed", RENSA_0_4)
def test_the_rule_of_rensa_0_4_is_the_one_that_the_page_tells(seed: int) -> None:
    assert plain_rensa.signature(OF_RENSA, 64, seed)[:3] == RENSA_0_4[seed]


@pytest.mark.parametrize("values", [1, 7, 64, 100, 128])
def test_rensa_has_another_rule_in_another_version(values: int) -> None:
    rensa = pytest.importorskip("rensa", reason="rensa: in the extra bench")
    version = getattr(rensa.RMinHash, "ALGORITHM_VERSION", 1)
    if version > 2:
        pytest.skip(f"rensa: found version {version} of its algorithm, expected one that the page tells")
    rule = plain_rensa.signature if version == 1 else plain_rensa.later_signature
    for tokens in (OF_RENSA, OF_RENSA[:1], [], [f"{i} of many" for i in range(400)]):
        for seed in (0, 42, 2**64 - 1):
            made = rensa.RMinHash(num_perm=values, seed=seed)
            made.update(tokens)
            assert list(made.digest()) == rule(tokens, values, seed)


# The first, the second, the third and the last value, and SHA-256 of all, by rensa 0.5.0, of so many shingles.
GOLDEN_OF_RENSA = {
    (1, 128, 42): ((3642582012, 3260399989, 4001756444, 3595410235), "198093f4821bd9e5"),
    (3, 1024, (1 << 64) - 1): ((3247294593, 3328637214, 3357454247, 3427631336), "e409beace3f1c731"),
    (60, 100, 0): ((1766511847, 743427181, 1616714148, 938561397), "b9e80394bd1ff430"),
    (60, 128, 42): ((521761677, 743251321, 968725692, 3152233405), "e0cb59b9a2ea4730"),
    (700, 1024, (1 << 64) - 1): ((1270120670, 133654510, 721784467, 79875535), "f9f086cb3b45d1cd"),
    (5000, 1024, (1 << 64) - 1): ((662981995, 133654510, 56229334, 79875535), "9e22f478145f215b"),
    (5000, 128, 1): ((2479418, 12856065, 24438914, 9288133), "7b60c5687a10c135"),
}


@pytest.mark.parametrize(("count", "values", "seed"), GOLDEN_OF_RENSA)
def test_the_values_are_those_of_rensa_0_5(count: int, values: int, seed: int) -> None:
    recipe = by_scheme(SIGNING, "rensa", normalisation="none", shingle=1, values=values, seed=seed)
    (found,) = sign([" ".join(f"größe{number}" for number in range(count))], recipe)
    expected, digest = GOLDEN_OF_RENSA[count, values, seed]
    assert found.dtype == np.uint32
    assert tuple(found[[0, 1, 2, -1]].tolist()) == expected
    assert hashlib.sha256(found.tobytes()).hexdigest()[:16] == digest


@pytest.mark.parametrize("values", [1, 3, 100, 128, 1000])
def test_signatures_are_those_that_rensa_makes_of_the_same_shingles(values: int) -> None:
    rensa = pytest.importorskip("rensa", reason="rensa: in the extra bench")
    if getattr(rensa.RMinHash, "ALGORITHM_VERSION", 1) != 2:
        pytest.skip("rensa: found another version of its algorithm, expected 2")
    source = random.Random(11)
    texts = [" ".join(source.choices(["a", "bc", "größe", "中文", "d1", "e"], k=count)) for count in (1, 4, 90, 900)]
    texts.append(" ".join(f"w{number * number}" for number in range(3000)))
    for recipe in (
        by_scheme(SIGNING, "rensa", shingle=1, values=values),
        by_scheme(SIGNING, "rensa", shingle=5, values=values, seed=(1 << 64) - 1),
        by_scheme(PRESET, "rensa", values=values, seed=42),
    ):
        for text, found in zip(texts, sign(texts, recipe), strict=True):
            its = rensa.RMinHash(num_perm=values, seed=recipe.seed)
            shingles = [shingle for _, shingle in recipe.shingles(text)]
            # The later ones first, and these twice.
            for some in (shingles[len(shingles) // 2 :], shingles):
                its.update(some)
            assert found.tolist() == list(its.digest())


def test_similarity_of_rensa_is_the_share_of_equal_values() -> None:
    rensa = pytest.importorskip("rensa", reason="rensa: in the extra bench")
    recipe = by_scheme(SIGNING, "rensa", shingle=1)
    texts = ["a b c d e f g h", "a b c d e f g x y"]
    theirs = [rensa.RMinHash(num_perm=128, seed=0) for _ in texts]
    for its, text in zip(theirs, texts, strict=True):
        its.update(text.split())
    one, other = sign(texts, recipe)
    assert 0 < similarity(one, other) == theirs[0].jaccard(theirs[1]) < 1


def test_a_set_of_nothing_is_that_of_rensa() -> None:
    assert signed("rensa", [[]], 5).tolist() == [plain_rensa.later_signature([], 5, 0)] == [[(1 << 32) - 1] * 5]


@pytest.mark.parametrize("values", [3, 1000])
def test_a_number_that_some_bins_would_have_more_often_is_mixed_again(values: int) -> None:
    # A hash whose number of round 0 is the smallest: its product with values is 0, which is below 2^32 mod values.
    (_, key), *_ = plain_rensa.pairs_of(values, 0)
    own = plain_rensa.state_of(0) ^ key ^ plain_rensa.BUCKETS
    assert plain_rensa.one_number(own ^ key ^ plain_rensa.BUCKETS) == 0
    found = signed("rensa", [[own], [5, own, 7]], values)
    assert found.tolist() == [plain_rensa.later_signature_of_hashes(each, values, 0) for each in ([own], [5, own, 7])]
    assert np.flatnonzero(found[0] == 0).tolist() == [plain_rensa.bucket(0, values)]
    assert plain_rensa.bucket(0, values) != 0


GOLDEN = {
    "fpstore": "423a1f9a1d312867bce7dcf441a256a5",
    "datasketch-affine32": "36b276d4b68f9dffa59b3eb91d5c26f1",
    "datasketch-affine64": "0436237f2f9b438a63f925e3be7c62ca",
    "datasketch-legacy": "bdd8f8d41cebb07e15506b3168b9e594",
    "rensa": "493302e69d2acf2e4f7fbdd162419f2a",
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_preset_never_changes(scheme: str) -> None:
    recipe = by_scheme(PRESET, scheme)
    found = sign(TEXTS, recipe)
    assert hashlib.sha256(found.tobytes()).hexdigest()[:32] == GOLDEN[scheme]
    expected = [plain_minhash.signature_of(recipe, text) for text in TEXTS]
    assert found.tolist() == expected


CHILD = """
import hashlib, random
from fpstore._native import INSTRUCTION_SET
from fpstore.minhash import sign
from fpstore.text import Recipe
source = random.Random(1)
words = ["a", "bc", "gr\\u00f6\\u00dfe", "\\u4e2d", "d1"]
texts = [" ".join(source.choices(words, k=source.randrange(3000))) for _ in range(30)]
texts += [" ".join(f"w{source.getrandbits(30)}" for _ in range(count)) for count in (1, 30, 90, 300, 3000, 9000)]
digest = hashlib.sha256()
for scheme in ("fpstore", "datasketch-affine32", "datasketch-affine64", "datasketch-legacy", "rensa"):
    for values in (1, 77, 128, 300, 1024):
        name = "fxhash" if scheme == "rensa" else "xxh3"
        recipe = Recipe("r", weights="presence", sketch="minhash", values=values, permutations=scheme, hash=name)
        digest.update(sign(texts, recipe).tobytes())
print(INSTRUCTION_SET, digest.hexdigest())
"""


@pytest.mark.slow
def test_every_instruction_set_makes_the_same_signatures() -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("FPSTORE_")}
    told = {}
    for setting in ("FPSTORE_PORTABLE", "FPSTORE_NARROW", "FPSTORE_NOTHING"):
        environment = plain | {setting: "1"}
        done = subprocess.run(
            [sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment, check=True
        )
        instruction_set, digest = done.stdout.split()
        told[instruction_set] = digest
    assert "portable" in told
    assert len({*told.values()}) == 1


# --- What they are good for ---


@given(st.lists(st.integers(0, (1 << 64) - 1)), st.lists(st.integers(0, (1 << 64) - 1)), st.sampled_from(SCHEMES))
def test_the_signature_of_a_union_has_the_smaller_values(one: Any, other: Any, scheme: str) -> None:
    first, second, both = signed(scheme, [one, other, one + other])
    assert both.tolist() == np.minimum(first, second).tolist()


def pairs_of(source: np.random.Generator, count: int, shared: int, alone: int) -> tuple[Any, Any]:
    """So many pairs of sets of hashes that have `shared` in common and `alone` each for itself."""
    hashes = source.integers(0, 1 << 64, size=(count, shared + 2 * alone), dtype=np.uint64)
    return hashes[:, : shared + alone], np.delete(hashes, np.s_[shared : shared + alone], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(("shared", "alone"), [(3, 1), (8, 4), (32, 4), (40, 40), (100, 20), (200, 100), (900, 100)])
@pytest.mark.parametrize("scheme", ["fpstore", "datasketch-affine32", "rensa"])
def test_the_estimate_is_right_in_the_mean_and_errs_no_more_than_is_said(scheme: str, shared: int, alone: int) -> None:
    jaccard, count = shared / (shared + 2 * alone), 4000
    one, other = pairs_of(np.random.default_rng(shared), count, shared, alone)
    found = similarity(signed(scheme, one.tolist()), signed(scheme, other.tolist()))
    variance = jaccard * (1 - jaccard) / 128
    assert abs(found.mean() - jaccard) < 4 * (variance / count) ** 0.5
    # Of a sample of the plain one's, four standard deviations of such a mean.
    assert ((found - jaccard) ** 2).mean() < variance * (1 + 4 * (2 / count) ** 0.5)
    assert (abs(found - jaccard) > 4 * variance**0.5).mean() <= 0.001


def test_hashes_whose_high_bits_are_poor_fall_into_all_bins() -> None:
    # FNV of short texts: neither bins nor values may follow from one part of the hash.
    found = signed("fpstore", [range(1 << 20, (1 << 20) + 2000), [value << 40 for value in range(2000)]])
    assert (found < 1 << 31).all()


def test_similarity_is_the_share_of_equal_values() -> None:
    rows = np.array([[1, 2, 3, 4], [1, 2, 3, 5], [9, 9, 9, 9]], dtype=np.uint32)
    assert similarity(rows[0], rows[1]) == 0.75
    assert type(similarity(rows[0], rows[1])) is float
    assert similarity(rows[0], rows).tolist() == [1, 0.75, 0]
    assert similarity(rows, rows[::-1]).tolist() == [0, 1, 0]
    assert similarity(rows[:, None], rows[None]).tolist() == [[1, 0.75, 0], [0.75, 1, 0], [0, 0, 1]]
    assert similarity(rows[:0], rows[:0]).tolist() == []
    assert similarity(rows.astype(np.uint64), rows.astype(np.uint64)).tolist() == [1, 1, 1]


def test_what_is_no_pair_of_signatures_is_refused() -> None:
    row = np.zeros(4, dtype=np.uint32)
    for other in (row.astype(np.int64), [0, 0, 0, 0], row.astype(np.float32)):
        with pytest.raises(TypeError, match=r"signatures: found values of (int|float)\d+, expected uint32 or uint64"):
            similarity(row, other)
    with pytest.raises(TypeError, match="found values of uint32 and of uint64, expected those of one recipe"):
        similarity(row, row.astype(np.uint64))
    for wrong in (row[:3], row[:0], row[0]):
        with pytest.raises(ValueError, match=r"found 4 and \d values, expected as many, and one at least"):
            similarity(row, wrong)
    with pytest.raises(ValueError, match="found 0 and 0 values"):
        similarity(row[:0], row[:0])
    with pytest.raises(ValueError, match=r"found \(3,\) and \(2,\) of them, expected one, or as many"):
        similarity(np.zeros((3, 4), dtype=np.uint32), np.zeros((2, 4), dtype=np.uint32))


# --- Texts ---


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_text_without_a_shingle_is_like_its_equals_only(scheme: str) -> None:
    recipe = by_scheme(PRESET, scheme)
    texts: list[str | bytes] = ["", " ", "... --- !!!", "\u200b\ufeff", "!", "!!", b"\xff", "word", ""]
    found = sign(texts, recipe)
    alike = similarity(found[:, None], found[None])
    assert np.array_equal(alike == 1, [[one == other for other in texts] for one in texts])
    assert alike[alike < 1].max() == 0
    assert sign(["", b"\xff"], recipe).tolist() == [found[0].tolist(), sign(["\ufffd"], recipe)[0].tolist()]
    letters = Recipe("letters", tokens="letters", weights="presence", sketch="minhash")
    assert similarity(*sign(["!", "!!"], letters)) == 0


@pytest.mark.parametrize("changes", [{}, {"tokens": "letters", "dense_shingle": 0}, {"values": 33}])
def test_batches_threads_and_packed_texts_change_nothing(changes: Any) -> None:
    recipe = replace(PRESET, **changes)
    texts = [f"{number} 我来到北京 the quick brown fox {'jumps over ' * (number % 40)}" for number in range(300)]
    texts += ["", "!", " ".join(f"w{i * i}" for i in range(50_000)), "größe " * 3]
    one_by_one = [sign([text], recipe)[0].tolist() for text in texts]
    for given_texts in (texts, texts_of(texts), iter(texts), [text.encode() for text in texts]):
        assert sign(given_texts, recipe, threads=3).tolist() == one_by_one
    assert sign(texts, recipe).tolist() == one_by_one
    assert sign([], recipe).shape == (0, recipe.values)


def test_how_often_and_in_what_order_shingles_come_decides_nothing() -> None:
    recipe = replace(SIGNING, shingle=1)
    assert sign(["a b c d"], recipe).tolist() == sign(["d c a b b b a a"], recipe).tolist()


def test_other_seeds_are_other_permutations() -> None:
    for scheme in SCHEMES:
        one, other = (sign(["a b c d e f"], by_scheme(SIGNING, scheme, seed=seed)) for seed in (1, 2))
        assert similarity(one, other).tolist() == [0]


# --- What is refused ---


def test_what_is_no_text_or_no_recipe_of_signatures_is_refused() -> None:
    wrong: Any = ["text", b"text"]
    for text in wrong:
        with pytest.raises(TypeError, match=r"texts: found one (str|bytes), expected several of them"):
            sign(text, PRESET)
    with pytest.raises(
        TypeError, match=r"recipe: found 'minhash-128', a str, expected a Recipe: fpstore\.text\.recipes"
    ):
        sign(["text"], "minhash-128")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text: found int, expected str or bytes"):
        sign([5], PRESET)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="threads: found 0, expected"):
        sign(["text"], PRESET, threads=0)
    for name in ("text-1", "simhash-1"):
        told = f"recipe {name}: found sketch .*, which makes fingerprints and no signatures, expected minhash"
        with pytest.raises(RecipeError, match=told):
            sign(["text"], recipes()[name])


def test_the_core_refuses_what_makes_no_signature() -> None:
    words, none = np.ones(3, dtype=np.uint64), np.ones(0, dtype=np.uint64)
    with pytest.raises(ValueError, match="permutations: found 'other', expected fpstore or datasketch-affine32 or"):
        Permutations("other", words, words)
    with pytest.raises(ValueError, match=r"values: found 0, expected 1\.\.1024"):
        Permutations("fpstore", none, none)
    with pytest.raises(ValueError, match=r"values: found 1025, expected 1\.\.1024"):
        Permutations("fpstore", np.ones(1025, dtype=np.uint64), words)
    with pytest.raises(ValueError, match="permutations: found 3 factors with 0 terms, expected as many"):
        Permutations("fpstore", words, none)
    permutations = Permutations("fpstore", words, words)
    with pytest.raises(ValueError, match="ends: found 1 after 2, expected them to increase"):
        sign_hashes(words, np.array([2, 1], dtype=np.uint64), permutations)
    for ends in ([2], [4], []):
        with pytest.raises(ValueError, match=r"ends: found \d as the last, expected 3, as many as there are hashes"):
            sign_hashes(words, np.array(ends, dtype=np.uint64), permutations)
    with pytest.raises(TypeError, match="texts: found one str, expected a sequence of them"):
        sign_in_core("text", permutations)
    with pytest.raises(ValueError, match="threads: found 0, expected at least 1"):
        sign_in_core(["text"], permutations, threads=0)
    with pytest.raises(ValueError, match="sketch: found 'simhash', expected minhash"):
        sign_in_core(["text"], permutations, sketch="simhash")
    with pytest.raises(ValueError, match="sketch: found 'minhash', expected one that makes fingerprints"):
        measure(["text"], sketch="minhash", weights="presence")
