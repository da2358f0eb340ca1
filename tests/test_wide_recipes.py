"""Recipes of 128 and 256 bits: golden, equal to their plain twin, and taken by stores, jobs and `fpstore.text`."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plain_recipe
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs_model import connected, fingerprints, first_come, interrupt, leader_follower, lines_of, write_jsonl
from outcome import Command

import fpstore
from fpstore import jobs, ledger, notes
from fpstore import text as fptext
from fpstore._turns import NEW, Turns
from fpstore.errors import JobError, RecipeError
from fpstore.fingerprints import as_bytes, as_codes, as_numbers, columns_of
from fpstore.jobs import stored
from fpstore.text import Recipe, compare, dedup, recipes, simhash_of_features, simhash_of_hashes
from fpstore.text.short import Lengths, short_below

TempFactory = pytest.TempPathFactory
MASK = (1 << 64) - 1
WIDE = {bits: replace(recipes()["text-1"], name=f"wide-{bits}", bits=bits) for bits in (128, 256)}
SIMHASH = {bits: replace(recipes()["simhash-1"], name=f"simhash-{bits}", bits=bits) for bits in (128, 256)}
BITS = pytest.mark.parametrize("bits", [128, 256])
# The bits above the 64 that tests/test_text_golden.py has, of the texts there; checked with tests/plain_recipe.py.
TEXTS = ("", "the quick brown fox jumps over the lazy dog", "敏捷的棕色狐狸跳过了懒狗，然后回家。T恤 3.14")
GOLDEN: dict[str, tuple[str, ...]] = {
    "text-1": (
        "d58c06b1348428fd97fcceb23526f9ec59b0ed710b28abee",
        "deb6e547ccb46cd11a44bca340b41777f7c65d889829f869",
        "12c59120a1131dc1a6e1965df977c788411dbe5d1aa92c7c",
    ),
    "simhash-1": (
        "d58c06b1348428fd97fcceb23526f9ec59b0ed710b28abee",
        "0380dc453e3046a508609139ccc4426b9a4eba1402620200",
        "488014601c1c40783722f14b2528f2a740c11120501ed321",
    ),
    "web-en": (
        "d58c06b1348428fd97fcceb23526f9ec59b0ed710b28abee",
        "0380dc453e3046a508609139ccc4426b9a4eba1402620200",
        "201867014c349c05c5c2515425219197000488436a10c451",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_wide_recipes_never_change(name: str) -> None:
    narrow = recipes()[name]
    wide = replace(narrow, bits=256)
    for text, above in zip(TEXTS, GOLDEN[name], strict=True):
        found = wide.fingerprint(text)
        assert f"{found >> 64:048x}" == above
        assert found & MASK == narrow.fingerprint(text)
        assert found & (1 << 128) - 1 == replace(narrow, bits=128).fingerprint(text)
        assert found == plain_recipe.fingerprint_of(wide, text)


@BITS
def test_several_are_rows_of_words_the_most_significant_first(bits: int) -> None:
    texts = [f"{number} quick foxes" * (number % 5) for number in range(200)]
    for recipe in (WIDE[bits], SIMHASH[bits], Recipe("letters", tokens="letters", hash="fnv1", bits=bits)):
        found = recipe.fingerprint_many(texts, threads=2)
        assert (found.dtype, found.shape) == (np.dtype(np.uint64), (200, bits // 64))
        assert [int.from_bytes(row.tobytes(), "big") for row in as_bytes(found)] == [
            recipe.fingerprint(text) for text in texts
        ]
        assert recipe.fingerprint_many([]).shape == (0, bits // 64)
        measured, kept = recipe.measure_and_keep(texts)
        assert np.array_equal(measured.fingerprints, found)
        assert (
            recipe.features_of(kept.hashes, kept.offsets[:-1], np.diff(kept.offsets)).counts.tolist()
            == [len(recipe.features(text).hashes) for text in texts]
            or not recipe.keeps_hashes
        )


@pytest.mark.parametrize("sketch", [WIDE, SIMHASH])
def test_bits_are_balanced_and_those_of_unrelated_texts_differ_in_half(sketch: dict[int, Recipe]) -> None:
    source = np.random.default_rng(5)
    texts = [" ".join(f"w{word}" for word in source.integers(0, 1 << 40, 60)) for _ in range(2000)]
    found = sketch[256].fingerprint_many(texts)
    bits = np.unpackbits(as_bytes(found), axis=1).astype(np.float64)
    # Of 2,000 fair coins the share of heads is within 0.056, five deviations, of a half; of two bits as often alike.
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.056
    alike = (2 * bits - 1).T @ (2 * bits - 1) / len(texts)
    assert np.abs(alike - np.eye(256)).max() < 0.14  # of 32,640 pairs, six deviations
    apart = np.bitwise_count(found[::2] ^ found[1::2])
    assert np.abs(apart.mean(axis=0) - 32).max() < 0.7  # of each word, five deviations
    assert apart.sum(axis=1).min() > 90
    assert abs(apart.sum(axis=1).std() - 8) < 1  # as of 256 coins


@pytest.mark.parametrize(("shared", "alone"), [(380, 10), (320, 40), (200, 100)])
def test_the_distance_of_a_wide_minhash_is_half_its_bits_times_what_is_not_shared(shared: int, alone: int) -> None:
    source = np.random.default_rng(shared)
    recipe = Recipe("words", shingle=1, weights="presence", sketch="minhash-1bit", bits=256)
    texts = []
    for _ in range(60):
        words = [f"w{number}" for number in source.integers(0, 1 << 40, shared + 2 * alone)]
        texts += [" ".join(words[: shared + alone]), " ".join(words[:shared] + words[shared + alone :])]
    found = recipe.fingerprint_many(texts)
    apart = np.bitwise_count(found[::2] ^ found[1::2]).sum(axis=1)
    assert abs(apart.mean() - 128 * (1 - shared / (shared + 2 * alone))) < 4


@given(st.lists(st.tuples(st.integers(0, MASK), st.floats(-9, 9)), max_size=30), st.sampled_from([64, 128, 192, 256]))
def test_hashes_and_features_have_wide_simhashes(pairs: list[tuple[int, float]], bits: int) -> None:
    weights = [round(weight * 65536) for _, weight in pairs]
    expected = 0
    for bit in range(bits):
        sides = [
            weight if plain_recipe.widened(value, bits) >> bit & 1 else -weight
            for (value, _), weight in zip(pairs, weights, strict=True)
        ]
        expected |= (sum(sides) > 0) << bit
    values = [value for value, _ in pairs]
    assert simhash_of_hashes(values, [weight / 65536 for weight in weights], bits=bits) == expected
    tokens = {f"t{value}": weight / 65536 for value, weight in zip(values, weights, strict=True)}
    assert simhash_of_features(tokens, bits=bits) & MASK == simhash_of_features(tokens)


def test_a_wide_record_has_its_bits_and_one_of_64_has_none() -> None:
    assert Recipe.from_json(WIDE[256].to_json()) == WIDE[256]
    assert WIDE[256].to_json()["bits"] == 256
    assert "bits" not in recipes()["text-1"].to_json()
    assert WIDE[128].steps() == recipes()["text-1"].steps()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bits": 96}, "recipe bits: found 96, expected 64 or 128 or 256"),
        ({"bits": "256"}, "recipe bits: found '256', expected int"),
        (
            {"bits": 128, "hash": "md5"},
            "recipe bits: found 128, expected 64 for hash md5, whose further bits other tools",
        ),
        (
            {"bits": 128, "sketch": "minhash", "weights": "presence"},
            "recipe bits: found 128, expected 64 for sketch minhash, which has values",
        ),
    ],
)
def test_bits_that_a_recipe_does_not_make_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe("other", **fields)


def test_other_bits_are_refused_where_hashes_are_given() -> None:
    for bits in (0, 32, 320, "64"):
        with pytest.raises(ValueError, match=f"bits: found {bits}, expected 64 to 256, a multiple of 64"):
            simhash_of_hashes([1], bits=bits)  # type: ignore[arg-type]


def test_a_digest_makes_wide_minhashes_of_which_no_other_tool_has_any() -> None:
    recipe = replace(WIDE[128], hash="sha1")
    assert recipe.fingerprint("one two three") == plain_recipe.fingerprint_of(recipe, "one two three")


# --- What is told of them ---


@BITS
def test_distances_and_bounds_are_those_of_64_bits_for_as_many_more(bits: int) -> None:
    for wide, narrow in ((WIDE[bits], recipes()["text-1"]), (SIMHASH[bits], recipes()["simhash-1"])):
        assert wide.distance(3) == 3 * bits // 64
        # They are to stay within k and a half, or by simhashes k and one, which is less of more bits.
        assert short_below(narrow) <= short_below(wide) <= 1.6 * short_below(narrow)
        assert short_below(wide, bits // 2) == short_below(narrow, 32)
    lengths = Lengths(SIMHASH[bits])
    texts = ["four words are few"] * 3
    lengths.see(texts, SIMHASH[bits].measure_many(texts))
    assert lengths.warning is not None
    assert f"recipe text-1 of {bits} bits and k = {6 * bits // 64} find more" in lengths.warning


@BITS
def test_two_texts_are_compared_by_wide_fingerprints(bits: int) -> None:
    found = compare("a b c d e f g h", "a b c d e f g i", WIDE[bits])
    assert found.max_distance == 3 * bits // 64
    assert found.distance == (found.first ^ found.second).bit_count()
    told = found.to_json()
    assert told["first_fingerprint"] == f"{WIDE[bits].fingerprint('a b c d e f g h'):0{bits // 4}x}"
    with pytest.raises(ValueError, match=rf"max_distance: found {bits + 1}, expected 0\.\.{bits}"):
        compare("a", "b", WIDE[bits], max_distance=bits + 1)


def test_commands_print_as_many_digits_as_there_are_bits(command: Command, tmp_path: Path) -> None:
    wide, source = tmp_path / "wide.json", write_jsonl(tmp_path / "in.jsonl", ["one two three", "four five six"])
    assert command("recipe", "text-1", "--bits", "256", "-o", wide).status == 2  # it prints
    outcome = command("recipe", "text-1", "--bits", "256")
    wide.write_text(outcome.out)
    assert json.loads(outcome.out)["name"] == "text-1-256"
    recipe = fptext.load_recipe(wide)
    assert recipe == replace(recipes()["text-1"], name="text-1-256", bits=256)
    printed = command("fingerprint", source, "--recipe", wide).lines
    assert [line.split("\t")[0] for line in printed] == [
        f"{recipe.fingerprint(text):064x}" for text in ("one two three", "four five six")
    ]
    (first,) = command("fingerprint", source, "--recipe", wide, "--json").lines[:1]
    assert json.loads(first)["fingerprint"] == f"{recipe.fingerprint('one two three'):064x}"
    (tmp_path / "f.jsonl").write_text('{"tokens": ["a", "b"]}\n')
    (line,) = command("fingerprint", tmp_path / "f.jsonl", "--features", "tokens", "--bits", "128").lines
    assert line.split("\t")[0] == f"{simhash_of_features(['a', 'b'], bits=128):032x}"
    for arguments, message in (
        (("recipe", "--bits", "256"), "--bits: found no NAME"),
        (("recipe", "pypi-simhash", "--bits", "128"), "expected 64 for hash md5"),
        (
            ("build", tmp_path / "s", source, "--bits", "256"),
            "read as texts, by recipe text-1, which makes fingerprints of 64 bits, expected a recipe of 256 (--recipe),"
            " or fingerprints (--format hex, --fingerprint-column)",
        ),
        (("build", tmp_path / "s", source, "--bits", "64", "--recipe", wide), "which makes fingerprints of 256 bits"),
    ):
        outcome = command(*arguments)
        assert (outcome.status, outcome.out) != (0, "")
        assert message in outcome.err
    assert command("build", tmp_path / "s", source, "--recipe", wide, "--ids", "row").status == 0
    outcome = command("probe", tmp_path / "s", "--text", "one two three")
    assert outcome.lines == [f"{recipe.fingerprint('one two three'):064x}\t" * 2 + "0\t0"]
    with fpstore.open(tmp_path / "s") as store:
        assert (store.bits, store.max_distance, store.recipe) == (256, 12, recipe)
    assert (
        json.loads(command("plan", "--n", "1e6", "--bits", "256", "-k", "24", "--json").out)["text_jaccard"] == 0.8125
    )
    assert json.loads(command("plan", "--n", "1e6", "--bits", "32", "--json").out)["text_jaccard"] is None


# --- Stores ---


@BITS
def test_a_store_takes_texts_by_a_wide_recipe(bits: int, tmp_path: Path) -> None:
    recipe, texts = WIDE[bits], ["one two three four", "five six seven eight", "one two three four five"]
    keys = [recipe.fingerprint(text) for text in texts]
    with fpstore.create(tmp_path / "s", recipe=recipe, max_distance=64) as store:
        assert (store.bits, store.recipe) == (bits, recipe)
        assert store.fingerprint(texts[0]) == keys[0]
        assert as_numbers(store.fingerprint_many(texts)) == keys
        store.add_texts(texts[:2], ids=[1, 2])
        assert [m.id for m in store.probe_text(texts[1], max_distance=0)] == [2]
        (added,) = store.add_texts_if_new(texts[2:], ids=[3], max_distance=64)
        assert added.stored is ((keys[0] ^ keys[2]).bit_count() > 64)
    with fpstore.create(tmp_path / "t", recipe=recipe) as store:
        assert store.max_distance == 3 * bits // 64
    with pytest.raises(
        RecipeError, match=f"wide-{bits}, which makes fingerprints of {bits} bits, expected one of 64, such"
    ):
        fpstore.create(tmp_path / "u", recipe=recipe, bits=64)
    with pytest.raises(RecipeError, match=f"found text-1, which makes fingerprints of 64 bits, expected one of {bits}"):
        fpstore.build(tmp_path / "u", [1], recipe="text-1", bits=bits)


# --- Documents in turn ---


@given(data=st.data(), words=st.sampled_from([2, 3, 4]), distance=st.integers(0, 3))
def test_wide_keys_go_to_the_nearest_of_several_by_their_words(data: Any, words: int, distance: int) -> None:
    some = st.lists(st.integers(0, 3), min_size=words, max_size=words)
    rows = data.draw(st.lists(some, min_size=1, max_size=40))
    keys = np.array(rows, dtype=np.uint64)
    turns = Turns(keys, distance, np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint16), columns_of(keys))
    turns.run()
    numbers = as_numbers(keys)
    leaders: list[int] = []
    for index, number in enumerate(numbers):
        near = [((number ^ numbers[other]).bit_count(), numbers[other], other) for other in leaders]
        best = min((each for each in near if each[0] <= distance), default=None)
        assert turns.rows[index] == (NEW if best is None else best[2])
        if best is None:
            leaders.append(index)


# --- Jobs ---

texts = st.lists(st.sampled_from(["a", "b", "c", "dd", "eee", "fox", "!"]), max_size=6).map(" ".join)
ANY = st.sampled_from([WIDE[128], WIDE[256], SIMHASH[256]])


def names(path: Path, count: int) -> list[int]:
    return [json.loads(line)["id"] for line in lines_of(path)][:count]


def kept_by(keys: Sequence[int], distance: int) -> list[int]:
    verdicts = first_come(range(len(keys)), keys, distance)
    return [number for number, verdict in enumerate(verdicts) if verdict is None]


@pytest.mark.slow
@given(st.lists(texts, max_size=25), ANY, st.integers(0, 90), st.booleans())
@settings(max_examples=6)
def test_jobs_decide_about_wide_fingerprints_as_plain_python_does(
    tmp_path_factory: TempFactory, documents: list[str], recipe: Recipe, distance: int, longest: bool
) -> None:
    folder, distance = tmp_path_factory.mktemp("jobs"), min(distance, 64)
    source, keys = write_jsonl(folder / "in.jsonl", documents), fingerprints(documents, recipe)
    order = sorted(range(len(keys)), key=lambda at: -len(documents[at])) if longest else list(range(len(keys)))
    verdicts = first_come(order, keys, distance)
    kept = [number for number, verdict in enumerate(verdicts) if verdict is None]
    keep = "longest" if longest else "first"
    jobs.dedup([source], folder / "kept", recipe=recipe, max_distance=distance, confirm=None, keep=keep)
    assert names(folder / "kept", len(keys)) == kept
    decided = dedup(documents, recipe=recipe, max_distance=distance, confirm=None, keep=keep)  # type: ignore[arg-type]
    assert decided.kept.tolist() == kept
    jobs.cluster([source], folder / "clusters", recipe=recipe, max_distance=distance, confirm=None)
    told = [line.split("\t") for line in lines_of(folder / "clusters")]
    assert [(int(row[0]), int(row[2])) for row in told] == leader_follower(keys, distance)
    jobs.components([source], folder / "components", recipe=recipe, max_distance=distance)
    told = [line.split("\t") for line in lines_of(folder / "components")]
    assert [(int(row[0]), int(row[2])) for row in told] == connected(keys, distance)
    found = jobs.document_pairs([source], folder / "pairs", recipe=recipe, max_distance=distance)
    assert found.pairs == sum(
        (one ^ other).bit_count() <= distance for at, one in enumerate(keys) for other in keys[at + 1 :]
    )


@pytest.mark.parametrize("confirm", [None, "default"])
@pytest.mark.parametrize("id_type", ["string", "uint64"])
def test_a_wide_standing_store_is_gone_on_with_also_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confirm: str | None, id_type: str
) -> None:
    documents = [" ".join(f"w{(number * 7 + word) % 40}" for word in range(12)) for number in range(30)]
    recipe = WIDE[256]
    halves = [write_jsonl(tmp_path / f"{half}.jsonl", documents[15 * half : 15 * half + 15]) for half in (0, 1)]
    whole = write_jsonl(tmp_path / "whole.jsonl", documents)
    jobs.dedup([whole], tmp_path / "once", recipe=recipe, confirm=confirm)
    monkeypatch.setattr(jobs.corpus, "BATCH_DOCUMENTS", 4)
    fpstore.create(tmp_path / "s", id_type=id_type, recipe=recipe, max_distance=24).close()  # type: ignore[arg-type]
    jobs.dedup([halves[0]], tmp_path / "one", store=tmp_path / "s", confirm=confirm)
    interrupt(
        monkeypatch, lambda: jobs.dedup([halves[1]], tmp_path / "two", store=tmp_path / "s", confirm=confirm), after=2
    )
    found = jobs.dedup([halves[1]], tmp_path / "two", store=tmp_path / "s", confirm=confirm)
    texts_of = [json.loads(line)["text"] for name in ("one", "two") for line in lines_of(tmp_path / name)]
    assert texts_of == [json.loads(line)["text"] for line in lines_of(tmp_path / "once")]
    assert 0 < len(texts_of) < 30
    assert found.kept < 15
    with fpstore.open(tmp_path / "s") as store:
        store.verify()
        assert store.count() == len(set(fingerprints(texts_of, recipe)))


def test_a_record_of_other_words_is_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "in.jsonl", ["a b c", "d e f"])
    jobs.dedup([source], tmp_path / "kept", store=tmp_path / "s", recipe=WIDE[256])
    record = tmp_path / "s" / notes.JOBS / ledger.SETTINGS
    settings_of = ledger.unsealed(record.read_bytes())
    assert settings_of["words"] == 4
    for words, message in ((2, "found fingerprints of 2 words, expected 4"), (9, "found words 9, expected 1..4")):
        record.write_bytes(ledger.sealed(settings_of | {"words": words}))
        with pytest.raises(JobError, match=message):
            jobs.dedup([source], tmp_path / "more", store=tmp_path / "s")
    with fpstore.open(tmp_path / "s") as store, pytest.raises(fpstore.CorruptStore):
        store.verify()


METHODS: dict[str, dict[str, Any]] = {
    "leaders": {},
    "components": {"components": True},
    "centers": {"update_center": True},
}


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.sets(st.integers(0, 255), max_size=5), st.integers(0, 20)), max_size=40),
    st.sampled_from([128, 256]),
    st.integers(0, 9),
    st.sampled_from([*METHODS]),
    st.booleans(),
)
@settings(max_examples=10)
def test_rows_of_a_wide_store_are_clustered_as_a_plain_loop_does(
    tmp_path_factory: TempFactory, rows: list[tuple[set[int], int]], bits: int, k: int, method: str, named: bool
) -> None:
    folder = tmp_path_factory.mktemp("stored")
    pairs = [(sum(1 << bit % bits for bit in some), number) for some, number in rows]
    id_type = "string" if named else "uint64"
    with (
        pytest.MonkeyPatch.context() as patch,
        fpstore.create(folder / "s", max_distance=9, bits=bits, id_type=id_type) as store,  # type: ignore[arg-type]
    ):
        patch.setattr(stored, "BATCH_DOCUMENTS", 7)
        patch.setattr(stored, "_AT_ONCE", 5)
        for key, number in pairs:
            store.add([key], ids=[f"{number:02}" if named else number])
        found = jobs.cluster_store(folder / "s", folder / "out", max_distance=k, **METHODS[method])
    ordered = sorted({(number, key) for key, number in pairs})
    keys = [key for _, key in ordered]
    expected = (
        connected(keys, k) if method == "components" else leader_follower(keys, k, update_center=method == "centers")
    )
    told = [
        [str(label), f"{number:02}" if named else str(number), f"{key:0{bits // 4}x}", str(distance)]
        for (number, key), (label, distance) in zip(ordered, expected, strict=True)
    ]
    assert [line.split("\t") for line in lines_of(folder / "out")] == told
    assert found.clusters == len({label for label, _ in expected})


def test_a_wide_store_without_ids_is_clustered(tmp_path: Path) -> None:
    codes = as_codes([5, 31 << 200, 4, 31 << 200 | 1], "codes", 256)
    fpstore.build(tmp_path / "s", codes, ids=None, bits=256, max_distance=3).close()
    jobs.cluster_store(tmp_path / "s", tmp_path / "out")
    assert [line.split("\t")[0::2] for line in lines_of(tmp_path / "out")] == [
        ["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"],
    ]  # fmt: skip
