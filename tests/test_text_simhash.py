"""The compiled core against a plain twin: hashes, shingles, weights, threads, and what its door refuses."""

# mypy: disable-error-code="comparison-overlap"

import math
import random
import subprocess
import sys
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import plain_hashes
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from fpstore.text._shingles import features_many, measure_and_keep
from fpstore.text._simhash import SEED_BITS, Idf, hash_of, measure, tokens_of
from fpstore.text._sums import simhash_of, xxh3, xxh64
from fpstore.text.held import Features, Sets

WEIGHTS = ("frequency", "presence", "capped", "log")
ONE = 1 << 16


def shingles(
    text: str, tokens: str = "words", shingle: int = 4, normalisation: str = "nfkc-casefold"
) -> tuple[list[Any], int] | tuple[list[str], int]:
    """The shingles of text, of tokens that test_text_unicode compares with re."""
    found = tokens_of(text, tokens=tokens, normalisation=normalisation)
    joint = "" if tokens == "characters" else " "
    count = max(len(found) - shingle, 0) + 1 if found else 0
    return [joint.join(found[i : i + shingle]) for i in range(count)], len(found)


def weight_of(count: int, weights: str) -> int:
    """In units of 2^-16."""
    if weights == "log":
        return int(((1 + Decimal(count).ln()) * ONE).to_integral_value(ROUND_HALF_UP))
    return ONE * {"frequency": count, "presence": 1, "capped": min(count, 4)}[weights]


def features(text: str | bytes, **steps: Any) -> Features:
    return Sets.join(features_many([text], **steps))[0]


def twin_features(
    text: str, weights: str = "frequency", hash: str = "xxh3", seed: int = 0, **steps: Any
) -> dict[int, int]:
    counts = Counter(plain_hashes.hash_value(hash, shingle.encode(), seed) for shingle in shingles(text, **steps)[0])
    return {value: weight_of(count, weights) for value, count in sorted(counts.items())}


def sign(weighted: dict[int, int]) -> int:
    total = sum(weighted.values())
    ones = [sum(weight for value, weight in weighted.items() if value >> bit & 1) for bit in range(64)]
    return sum(1 << bit for bit in range(64) if 2 * ones[bit] > total)


def assert_as_twin(text: str, **steps: Any) -> None:
    expected = twin_features(text, **steps)
    fingerprints, counts, *_ = measure([text], **steps)
    assert int(fingerprints[0]) == sign(expected)
    assert counts[0] == len(tokens_of(text, tokens=steps.get("tokens", "words")))
    hashes, weighed = features(text, **steps)
    assert hashes.tolist() == list(expected)
    assert (weighed * ONE).tolist() == list(expected.values())
    assert simhash_of(hashes, weighed) == int(fingerprints[0])


LENGTHS = [*range(300), 511, 512, 513, *range(1020, 1030), 1087, 1088, 1089, 2047, 2048, 2049, 3000, 10_000]


SHORTER = [size for size in LENGTHS if size < 600]  # of the hashes that the twin takes byte by byte


@pytest.mark.parametrize("name", plain_hashes.NAMES)
def test_a_hash_equals_the_package_at_every_length(name: str) -> None:
    source = random.Random(64)
    for size in SHORTER if name in ("fnv1", "fnv1a", "murmur3") else LENGTHS:
        for data in (bytes(size), b"\xff" * size, source.randbytes(size)):
            assert hash_of(data, name) == plain_hashes.hash_value(name, data), data.hex()


@pytest.mark.parametrize("name", plain_hashes.SEEDED)
def test_a_hash_with_a_seed_equals_the_package_at_every_length(name: str) -> None:
    source = random.Random(42)
    bits = plain_hashes.SEEDED[name]
    for size in SHORTER if name == "murmur3" else LENGTHS:
        data = source.randbytes(size)
        for seed in (1, 42, (1 << bits) - 1, source.getrandbits(bits)):
            assert hash_of(data, name, seed) == plain_hashes.hash_value(name, data, seed), (seed, data.hex())


@pytest.mark.parametrize("name", plain_hashes.NAMES)
def test_a_seed_that_a_hash_does_not_take_is_refused(name: str) -> None:
    bits = plain_hashes.SEEDED.get(name, 0)
    assert SEED_BITS.get(name, 0) == bits
    expected = rf"0\.\.2\*\*{bits} - 1" if bits else "0"
    for seed in (-1, 1 << bits):
        with pytest.raises(ValueError, match=f"seed: found {seed}, expected {expected} for hash {name}$"):
            hash_of(b"data", name, seed)
        with pytest.raises(ValueError, match=f"seed: found {seed}, expected {expected} for hash {name}$"):
            measure(["text"], hash=name, seed=seed)


def test_the_hashes_of_nothing_are_the_published_values() -> None:
    assert xxh64(b"") == 0xEF46DB3751D8E999
    assert xxh3(b"") == 0x2D06800538D394C2
    assert hash_of(b"", "fnv1") == hash_of(b"", "fnv1a") == 0xCBF29CE484222325
    assert hash_of(b"", "murmur3") == 0


@given(st.binary(max_size=5000))
def test_a_hash_equals_the_package_on_random_bytes(data: bytes) -> None:
    assert xxh64(data) == xxhash.xxh64_intdigest(data)
    assert xxh3(data) == xxhash.xxh3_64_intdigest(data)


@given(st.binary(min_size=1, max_size=300), st.integers(0, 63))
def test_a_hash_does_not_care_how_its_bytes_are_aligned(data: bytes, shift: int) -> None:
    moved = memoryview(bytes(shift) + data)[shift:]
    assert xxh64(moved) == xxhash.xxh64_intdigest(data)
    assert xxh3(moved) == xxhash.xxh3_64_intdigest(data)


WORDY = st.lists(st.sampled_from(["a", "the", "of", "word", "Größe", "中文", "x" * 70, "two words"]), max_size=200)


@given(
    st.text(max_size=200) | WORDY.map(" ".join),
    st.sampled_from(["words", "characters", "separated"]),
    st.sampled_from([1, 2, 3, 4, 5, 7, 64]),
    st.sampled_from(WEIGHTS),
    st.sampled_from(plain_hashes.NAMES),
)
def test_a_text_is_measured_as_the_plain_twin_does(
    text: str, tokens: str, shingle: int, weights: str, hash: str
) -> None:
    if tokens == "separated":
        text = text.replace(" ", "\x1f")
    assert_as_twin(text, tokens=tokens, shingle=shingle, weights=weights, hash=hash)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", ["words", "characters"])
@pytest.mark.parametrize("shingle", [1, 4, 64])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_a_long_text_is_measured_as_the_plain_twin_does(tokens: Any, shingle: Any, weights: Any) -> None:
    source = random.Random(shingle)
    words = ["".join(source.choices("etaoinshrdlu_0é", k=source.randint(1, 14))) for _ in range(3000)]
    # Nearly all shingles of 64 characters are distinct, and the twin sums the bits of each in Python.
    count = 9_000 if (tokens, shingle) == ("characters", 64) else 20_000
    text = "".join(source.choice(words) + source.choice([" ", " ", " ", ", ", ".\n\n", "\u2019"]) for _ in range(count))
    assert len(text) > 1 << 16
    assert_as_twin(text, tokens=tokens, shingle=shingle, weights=weights)


@pytest.mark.parametrize("shingle", [1, 2, 3])
def test_shingles_of_any_sizes_beside_each_other_are_hashed_as_each_alone(shingle: int) -> None:
    source = random.Random(shingle)
    sizes = [*range(1, 70), *(source.randint(1, source.choice([3, 9, 20, 40])) for _ in range(2000))]
    for first in range(1, 20):  # the first shingle is the only one with nothing before it
        words = ["".join(source.choices("etaoinshrdlu_09", k=size)) for size in [first, *source.sample(sizes, 700)]]
        slices = [" ".join(words[i : i + shingle]) for i in range(len(words) - shingle + 1)]
        ((hashes, ends),) = measure_and_keep([" ".join(words)], shingle=shingle)[1]
        assert ends.tolist() == [len(slices)]
        assert hashes[:-1].tolist() == [xxhash.xxh3_64_intdigest(each.encode()) for each in slices]


def _available_bytes() -> int:
    (line,) = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:")]
    return int(line.split()[1]) << 10


@pytest.mark.slow
@pytest.mark.skipif(_available_bytes() < 10 << 30, reason="a word of 2 GiB takes 6 GiB with its tokens")
def test_what_comes_behind_a_word_of_2_gib_is_hashed_as_it_is() -> None:
    words = [b"a"] * 1100 + [b"word%d" % (i % 10) for i in range(150)]  # more than are hashed with the long one
    text = b" ".join([b"x" * ((1 << 31) + 8), *words])
    ((hashes, _),) = measure_and_keep([text], normalisation="none", shingle=1)[1]
    assert hashes[1:-1].tolist() == [xxhash.xxh3_64_intdigest(word) for word in words]


@pytest.mark.parametrize("shingle", [1, 2, 4, 64])
def test_words_longer_than_a_piece_are_hashed_whole(shingle: int) -> None:
    rng = np.random.default_rng(7)
    sizes = [*rng.integers(1, 60_000, 70), 4_095, 4_096, 4_097, 8_192]
    assert_as_twin(" ".join("ab"[size & 1] * int(size) for size in sizes), shingle=shingle)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 254, 255, 256, 511, 1000, 65_537])
def test_sums_of_any_number_of_shingles_do_not_overflow(count: Any) -> None:
    fingerprint = xxh3(b"same")
    assert measure(["same " * count], shingle=1)[0].tolist() == [fingerprint]
    assert_as_twin(" ".join(str(number) for number in range(count)), shingle=1)


def test_a_tie_sets_the_bit_where_it_is_asked_to() -> None:
    one, two = xxh3(b"one"), xxh3(b"two")
    assert measure(["one two"], shingle=1, tie="set")[0].tolist() == [one | two]
    assert measure(["one two one"], shingle=1, tie="set")[0].tolist() == [one]
    assert measure(["one two one"], shingle=1, weights="presence", tie="set")[0].tolist() == [one | two]
    assert measure([""], tie="set")[0].tolist() == [2**64 - 1]


def test_a_tie_leaves_the_bit_clear() -> None:
    one, two = xxh3(b"one"), xxh3(b"two")
    assert measure(["one two"], shingle=1)[0].tolist() == [one & two]
    assert measure(["one two one"], shingle=1)[0].tolist() == [one]
    assert measure(["one two one"], shingle=1, weights="presence")[0].tolist() == [one & two]


@pytest.mark.parametrize("text", ["", b"", " ", "\0", "... !!!", "\ud800", b"\xff\xfe"])
def test_a_text_without_words_has_the_fingerprint_zero_and_no_tokens(text: bytes | str) -> None:
    fingerprints, counts, *_ = measure([text])
    assert (fingerprints.tolist(), counts.tolist()) == ([0], [0])
    assert [column.tolist() for column in features(text)] == [[], []]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_text_with_fewer_tokens_than_a_shingle_is_one_shingle_of_all(count: int) -> None:
    text = " ".join(["one", "two", "three", "four"][:count])
    fingerprints, counts, *_ = measure([f"  {text.title()}! "])
    assert (fingerprints.tolist(), counts.tolist()) == ([xxh3(text.encode())], [count])


def test_characters_are_joined_by_nothing_and_white_space_is_one_space() -> None:
    assert measure(["\t a\r\n\x00 b \x1f"], tokens="characters", shingle=3)[0].tolist() == [xxh3(b"a b")]
    assert measure(["ab"], tokens="characters", shingle=3)[0].tolist() == [xxh3(b"ab")]


def test_separated_tokens_keep_what_is_in_them_and_empty_ones_are_none() -> None:
    fingerprints, counts, *_ = measure(["\x1fNew York\x1f\x1fis big\x1f"], tokens="separated", normalisation="none")
    assert (fingerprints.tolist(), counts.tolist()) == ([xxh3(b"New York is big")], [2])


def test_logarithms_are_rounded_alike_everywhere() -> None:
    # As far from the middle between two weights as no logarithm of a processor errs.
    for count in [*range(1, 5000), *(2**power + step for power in range(13, 31) for step in (-1, 0, 1))]:
        exact = (1 + Decimal(count).ln()) * ONE
        assert abs(exact % 1 - Decimal("0.5")) > 32 * math.ulp(float(exact)), count


def idf_of(weights: dict[str, float] | dict[str, np.float64], unseen: float) -> Idf:
    hashes = np.array([xxh3(shingle.encode()) for shingle in weights], dtype=np.uint64)
    return Idf(hashes, np.array(list(weights.values()), dtype=np.float64), unseen)


def test_idf_multiplies_how_often_a_shingle_occurs() -> None:
    model = idf_of({"a": 0.5, "b": 2.25, "zero": 0.0}, unseen=3.0)
    hashes, weighed = features("a A b c c zero", shingle=1, weights="idf", idf=model)
    expected = {xxh3(b"a"): 1.0, xxh3(b"b"): 2.25, xxh3(b"c"): 6.0, xxh3(b"zero"): 0.0}
    assert dict(zip(hashes.tolist(), weighed.tolist(), strict=True)) == expected
    fingerprints, *_ = measure(["a A b c c zero"], shingle=1, weights="idf", idf=model)
    assert fingerprints.tolist() == [sign({value: int(weight * ONE) for value, weight in expected.items()})]


def test_idf_of_many_shingles_finds_each() -> None:
    rng = np.random.default_rng(5)
    weights = {str(number): weight for number, weight in enumerate(rng.uniform(0, 1024, 10_000))}
    model = idf_of(weights, unseen=1.0)
    hashes, weighed = features(" ".join(weights), shingle=1, weights="idf", idf=model)
    expected = {xxh3(word.encode()): round(weight * ONE) / ONE for word, weight in weights.items()}
    assert dict(zip(hashes.tolist(), weighed.tolist(), strict=True)) == expected


def test_an_empty_idf_weighs_everything_alike() -> None:
    model = idf_of({}, unseen=1.0)
    assert measure(["a b b"], shingle=1, weights="idf", idf=model)[0] == measure(["a b b"], shingle=1)[0]


@pytest.mark.parametrize("weight", [-0.1, 1024.1, math.nan, math.inf])
def test_an_idf_outside_its_range_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match=r"found weight .*, expected 0\.\.1024"):
        idf_of({"a": weight}, unseen=1.0)
    with pytest.raises(ValueError, match=r"found weight .*, expected 0\.\.1024"):
        idf_of({"a": 1.0}, unseen=weight)


def test_an_idf_with_a_hash_twice_or_without_a_weight_is_refused() -> None:
    with pytest.raises(ValueError, match="found hash 0000000000000007 twice"):
        Idf(np.array([7, 7], dtype=np.uint64), np.array([1.0, 1.0]), 1.0)
    with pytest.raises(ValueError, match="found 1 hashes with 0 weights"):
        Idf(np.array([7], dtype=np.uint64), np.array([], dtype=np.float64), 1.0)


@given(st.dictionaries(st.integers(0, 2**64 - 1), st.integers(-(2**20), 2**20), max_size=20))
def test_simhash_of_given_features_is_the_sign_of_their_sums(weighted: dict[int, int]) -> None:
    hashes = np.array(list(weighted), dtype=np.uint64)
    weights = np.array(list(weighted.values()), dtype=np.float64) / 1024
    assert simhash_of(hashes, weights) == sign({value: weight * 64 for value, weight in weighted.items()})


@pytest.mark.parametrize("weights", [[math.nan], [math.inf], [2.0**46], [2.0**45, -(2.0**45)]])
def test_features_too_heavy_to_be_summed_exactly_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match=r"expected less than 2\^46"):
        simhash_of(np.zeros(len(weights), dtype=np.uint64), np.array(weights))


def test_features_without_a_weight_are_refused() -> None:
    with pytest.raises(ValueError, match="found 2 hashes with 1 weights"):
        simhash_of(np.zeros(2, dtype=np.uint64), np.zeros(1))


@pytest.fixture(scope="module")
def texts() -> list[bytes | str]:
    source = random.Random(3)
    words = ["".join(source.choices("abcdefghijé", k=source.randint(1, 9))) for _ in range(500)]
    sizes = [*(source.randint(0, 300) for _ in range(400)), 100_000, 0, 0, 5_000, 60_000]
    made = [" ".join(source.choices(words, k=size)) for size in sizes]
    return [text.encode() if source.random() < 0.5 else text for text in made]


@pytest.mark.parametrize("weights", WEIGHTS)
def test_threads_and_batches_change_nothing(texts: list[bytes | str], weights: str) -> None:
    fingerprints, counts, *_ = measure(texts, weights=weights)
    assert (fingerprints.dtype, counts.dtype) == (np.uint64, np.uint32)
    for threads in (2, 3, 16):
        again, counted, *_ = measure(texts, weights=weights, threads=threads)
        assert np.array_equal(again, fingerprints)
        assert np.array_equal(counted, counts)
    one_by_one = [int(measure([text], weights=weights)[0][0]) for text in texts]
    assert one_by_one == fingerprints.tolist()


def test_no_texts_have_no_fingerprints() -> None:
    assert [column.tolist() for column in measure([], threads=4)] == [[]] * 5


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ({"shingle": 0}, r"shingle: found 0, expected 1\.\.64"),
        ({"shingle": 65}, r"shingle: found 65, expected 1\.\.64"),
        ({"normalisation": "nfd"}, "normalisation: found 'nfd', expected nfkc-casefold or nfkc or none"),
        ({"tokens": "letters"}, "tokens: found 'letters', expected words or characters or separated"),
        ({"weights": "tf"}, "weights: found 'tf', expected frequency"),
        ({"weights": "idf"}, "weights: found 'idf' with idf None"),
        ({"idf": Idf(np.array([], dtype=np.uint64), np.array([]), 1.0)}, "weights: found 'frequency' with idf <"),
        ({"tie": "one"}, "tie: found 'one', expected clear or set"),
        ({"hash": "md4"}, "hash: found 'md4', expected xxh3 or xxh64 or md5 or sha1 or sha256"),
    ],
)
def test_an_unknown_step_is_refused(steps: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        measure(["text"], **steps)
    with pytest.raises(ValueError, match=message):
        features("text", **steps)


def test_what_is_no_idf_is_refused() -> None:
    with pytest.raises(TypeError):
        measure(["text"], weights="idf", idf=cast(Any, {1: 2.0}))


def test_no_thread_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="threads: found 0, expected at least 1"):
        measure(["text"], threads=0)


@pytest.mark.parametrize("wrong", [None, 7, bytearray(b"text"), ["text"]])
def test_what_is_no_text_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="expected str or bytes"):
        measure(["fine", wrong])
    with pytest.raises(TypeError, match="expected str or bytes"):
        features(wrong)


@pytest.mark.parametrize("one", ["text", b"text"])
def test_one_text_in_place_of_a_sequence_is_refused(one: Any) -> None:
    with pytest.raises(TypeError, match="expected a sequence of them"):
        measure(one)


def test_subclasses_of_str_and_bytes_are_read_as_these() -> None:
    class Title(str):
        __slots__ = ()

        def encode(self, encoding: str = "", errors: str = "") -> bytes:
            raise AssertionError("its own")

    class Data(bytes):
        __slots__ = ()

    texts: list[str | bytes] = [Title("a títle"), Data("a títle".encode()), "a títle", Title("a title"), "a title"]
    fingerprints = measure(texts)[0].tolist()
    assert len(set(fingerprints[:3])) == len(set(fingerprints[3:])) == 1


LACK = """
import resource
import sys
import numpy as np
from fpstore.text._shingles import features_many
from fpstore.text._simhash import Idf, measure, tokens_of
text = "x" * (64 << 20)
many = np.arange(8 << 20, dtype=np.uint64)
weights = np.ones(len(many))
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), resource.RLIM_INFINITY))
for call in (
    lambda: measure([text], shingle=3),
    lambda: measure([text], shingle=3, threads=2),
    lambda: features_many([text]),
    lambda: tokens_of(text),
    lambda: Idf(many, weights, 1.0),
):
    try:
        call()
    except MemoryError as error:
        print(error)
"""


def test_a_word_too_long_for_memory_is_a_memory_error() -> None:
    run = subprocess.run([sys.executable, "-c", LACK], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "text 0: no memory for 67108864 bytes",
        "text 0: no memory for 67108864 bytes",
        "text 0: no memory for the shingles of 67108864 bytes",
        "text: no memory for the tokens of 67108864 bytes",
        "idf: no memory for 8388608 shingles",
    ]


# Golden values: a change of any of them is a change of every recipe that has these steps, and needs a new version.
GOLDEN_TEXTS = [
    "The quick brown fox\x1fjumps over the lazy dog; the lazy dog sleeps, the quick brown fox does not.",
    "Ｆｕｌｌ－ｗｉｄｔｈ and ﬁne print, İstanbul to Straße, cafe\u0301 or café, 42 times",
    "敏捷的棕色狐狸 跳过了 懒狗 然后 回家，敏捷的棕色狐狸。",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165 한국어 ｶﾞｷﾞｸﾞ हिन्दी क़िला العَرَبِيَّة",
    "a a a a a a a b b b b b c c c d d e f g",
]
GOLDEN = [
    ({}, ["01a5b6561ef85998", "1dd6b46404ac72b9", "33edbc6bf1fefc55", "98a025e33e8ca1bb", "cbac297469ca724f"]),
    (
        {"shingle": 1},
        ["ca02868318f2b1ef", "1402dac958eae67f", "247b107c2f4b3920", "57a32b20a13d9b27", "c6c222964e90ce1f"],
    ),
    (
        {"shingle": 2, "hash": "xxh64"},
        ["8143f7061a9bd990", "275142f7bf8b6670", "abc85d560e07e30b", "4bfe3c15aacb419c", "8375933d35539bdd"],
    ),
    (
        {"tokens": "characters", "shingle": 3},
        ["a33ec5c56cdf31ed", "ab35b035c60db7dd", "e2faf692f2234adf", "5de6ba289c84ed1f", "30d1b9c96020af30"],
    ),
    (
        {"tokens": "separated", "shingle": 1},
        ["3024046020ce6078", "d2480473b4afddc8", "77469026ac1dbd4f", "75e555d7c57454c1", "115d2f587d2b45d7"],
    ),
    (
        {"normalisation": "nfkc", "shingle": 1},
        ["820286831872b0ef", "1087dfddf1ef447f", "247b107c2f4b3920", "57a32b20a13d9b27", "c6c222964e90ce1f"],
    ),
    (
        {"normalisation": "none", "shingle": 1},
        ["820286831872b0ef", "d423dfec51cff43b", "247b107c2f4b3920", "7eaf2b2021ff1b6d", "c6c222964e90ce1f"],
    ),
    (
        {"weights": "presence", "shingle": 1},
        ["82038683891291e3", "1402dacb5deae6ff", "757f387c2f7bbd35", "56a22b00a1391a25", "e7c0229c5ef9ae1b"],
    ),
    (
        {"weights": "capped", "shingle": 1},
        ["ca02868318f2b1ef", "1402dac958eae67f", "247b107c2f4b3920", "57a32b20a13d9b27", "c642229c46d88e1f"],
    ),
    (
        {"weights": "log", "shingle": 1},
        ["82028683985291e7", "1402dacb5deae6ff", "757f387c2f7bbd35", "57a32b20a13d9b27", "c7c2229c4ed88e1f"],
    ),
]


@pytest.mark.parametrize(("steps", "expected"), GOLDEN)
def test_golden_fingerprints_never_change(steps: dict[str, int | str] | dict[str, int], expected: list[str]) -> None:
    assert [f"{value:016x}" for value in measure(GOLDEN_TEXTS, **steps)[0].tolist()] == expected
    assert [f"{sign(twin_features(text, **steps)):016x}" for text in GOLDEN_TEXTS] == expected


def test_texts_are_measured_where_the_system_has_no_thread_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    texts = [f"{'words of a text that is long enough ' * 4000}{number}" for number in range(8)]
    expected = measure(texts)[0].tolist()
    monkeypatch.setattr("fpstore.threads.start_new_thread", refuse)
    assert measure(texts, threads=4)[0].tolist() == expected
