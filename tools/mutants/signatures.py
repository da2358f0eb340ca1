"""Mistakes in stores of signatures: bands, sketches, and which documents share what."""

from mutants.record import Mutant

MODEL = ("tests/test_minhash_store.py::test_a_living_store_answers_as_a_plain_model",)
PAIRS = ("tests/test_minhash_store.py::test_each_pair_that_shares_a_band_is_told_once",)

MUTANTS = (
    Mutant(
        "a bucket that goes on in the next piece counts twice",
        "fpstore/minhash/buckets.py",
        "if count and int(keys[0]) == last:",
        "if False:",
        "an index tells buckets twice, with a part of their keys each",
        ("tests/test_adapters_datasketch.py::test_many_documents_are_merged_as_they_are",),
    ),
    Mutant(
        "a pickle is read unasked",
        "fpstore/adapters/keys.py",
        "self._pickled = pickled",
        "self._pickled = True",
        "whoever wrote a store chooses what is called where it is read",
        ("tests/test_adapters_keys.py::test_a_pickle_is_not_read_unasked",),
    ),
    Mutant(
        "a key comes back as one that only its bytes are equal to",
        "fpstore/adapters/keys.py",
        "return data if made == key and hash(made) == hash(key) else None",
        "return data",
        "a key that is equal to others than strings are is taken for a string",
        ("tests/test_adapters_keys.py::test_what_has_no_form_of_its_own_is_pickled_where_that_is_asked_for",),
    ),
    Mutant(
        "the last value of a band does not count",
        "fpstore/sketches/bands.py",
        "for row in range(self.rows_per_band):",
        "for row in range(max(1, self.rows_per_band - 1)):",
        "documents are candidates that share no band",
        ("tests/test_minhash_store.py::test_keys_are_equal_just_where_the_values_of_a_band_are",),
    ),
    Mutant(
        "bands share a range of keys",
        "fpstore/sketches/bands.py",
        "% sizes + bases",
        "% sizes + bases[0]",
        "pairs are told by another band than their first, or not at all",
        ("tests/test_minhash_store.py::test_each_band_has_its_own_range_of_keys",),
    ),
    Mutant(
        "the values that agree by chance are taken for similar",
        "fpstore/sketches/kept.py",
        "- chance) / (1 - chance)",
        "- 0 * chance) / (1 - 0 * chance)",
        "estimates are too high",
        ("tests/test_minhash_store.py::test_estimates_are_within_the_error_that_is_said",),
    ),
    Mutant(
        "sketches of a removed document count on",
        "fpstore/living/sketched.py",
        "kept = ~removals.ids_masked(ids[found.of], positions)",
        "kept = removals.ids_masked(ids[found.of], positions) | True",
        "an id that came again is as similar as its removed signature",
        MODEL,
    ),
    Mutant(
        "a merge keeps the sketches of removed documents",
        "fpstore/living/sketched.py",
        "elif not masked.all():",
        "elif masked.any():\n            yield ids, sketches\n        else:",
        "a store has sketches of ids that it does not have",
        MODEL,
    ),
    Mutant(
        "of several signatures of an id the least similar counts",
        "fpstore/living/similar.py",
        "np.maximum.reduceat(kept.similarity(",
        "np.minimum.reduceat(kept.similarity(",
        "a document that is there is not as similar as it is",
        MODEL,
    ),
    Mutant(
        "documents of one call are not compared with each other",
        "fpstore/living/documents.py",
        "return np.flatnonzero(earlier.any(axis=1))",
        "return np.flatnonzero(earlier.all(axis=1) & False)",
        "add_if_new stores copies that come together",
        MODEL,
    ),
    Mutant(
        "a pair is told in every band that it shares",
        "fpstore/living/similar_pairs.py",
        "new = shared.argmax(axis=1) == self._banding.of(keys[first])",
        "new = shared.any(axis=1)",
        "pairs come several times",
        PAIRS,
    ),
    Mutant(
        "a key at the end of a chunk is taken for one that nobody shares",
        "fpstore/living/similar_pairs.py",
        "self._before = keys[-2:-1].copy()",
        "self._before = keys[:0].copy()",
        "pairs are missed where rows are read in several chunks",
        PAIRS,
    ),
    Mutant(
        "a store is opened as one of the other kind",
        "fpstore/living/opening.py",
        "if kind not in (None, found):",
        "if kind not in (None, found) and not kind:",
        "keys of bands are given out as fingerprints",
        ("tests/test_minhash_store.py::test_stores_of_the_two_kinds_are_told_apart",),
    ),
)
