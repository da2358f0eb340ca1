"""Mistakes in stores of signatures: bands, sketches, and which documents share what."""

from mutants.record import Mutant

MODEL = ("tests/test_minhash_store.py::test_a_living_store_answers_as_a_plain_model",)
PAIRS = ("tests/test_minhash_store.py::test_each_pair_that_shares_a_band_is_told_once",)

MUTANTS = (
    Mutant(
        "of several sketches of an id the last counts",
        "fpstore/native/similar.c",
        "if (!(candidate->similarity >= similarity)) candidate",
        "candidate",
        "a document that is there is not as similar as it is",
        MODEL,
    ),
    Mutant(
        "a band in which two signatures of an id are equal counts twice",
        "fpstore/native/similar.c",
        "+= rows[i].key != rows[i - 1].key",
        "+= 1",
        "more bands are shared than are",
        MODEL,
    ),
    Mutant(
        "the search for a group by its guess ends one block too soon",
        "fpstore/native/ids.c",
        "at = high - low > step ? low + step : high - 1;",
        "high = at + 1;",
        "ids are not found where groups are of uneven sizes",
        ("tests/test_segment_ids.py::test_ids_come_back_to_their_fingerprints",),
    ),
    Mutant(
        "the last value of a band does not count",
        "fpstore/native/sketches.c",
        "row < bands->rows_per_band; row++",
        "row + 1 < bands->rows_per_band || row == 0; row++",
        "documents are candidates that share no band",
        ("tests/test_minhash_store.py::test_keys_are_equal_just_where_the_values_of_a_band_are",),
    ),
    Mutant(
        "bands share a range of keys",
        "fpstore/native/sketches.c",
        "bands->bases[band] +",
        "bands->bases[0] +",
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
        "of several signatures of an id the least similar counts in pairs",
        "fpstore/living/similar.py",
        "np.maximum.reduceat(kept.similarity(",
        "np.minimum.reduceat(kept.similarity(",
        "two documents that are there are not as similar as they are",
        PAIRS,
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
