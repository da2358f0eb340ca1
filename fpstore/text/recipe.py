"""Owns the recipe: every step from a document to its fingerprint, under names that a store can record.

The steps of version 2, in order:

1. `html`: the text of a document that its input calls HTML (see `cleaning`): `main`, without menus and other
   boilerplate; `all`; or `main-or-all`, all where little is left as main. Other documents have no such step. Bytes are
   UTF-8; what is not becomes U+FFFD.
2. `normalisation`: `nfkc-casefold`, Unicode NFKC and then case folding (it is not normalised again); `nfkc`;
   `lower`, lower case only; `none`.
3. `tokens`:
   - `words`: the runs that `re` finds for `\\w+`: characters that are alphanumeric in Unicode, and `_`;
   - `mixed`: the words, with the marks that belong to their letters (Unicode categories Mn, Mc, Me, and the zero width
     joiners); of scripts that do not part words (Han, kana, Thai, Lao, Khmer, Myanmar and the like) each letter, with
     its marks, is a token;
   - `characters`: every character, where a run of whitespace and control characters is one space, and none at
     either end;
   - `letters`: the characters of the words, without anything between;
   - `chinese`: the runs of `\\w` in the words into which rjieba cuts the text after NFKC, if that is of the
     normalisation, and before case folding;
   - `whole`: the text of `characters` as one token.
4. `stop_words`: words that stopwordsiso lists for this language (ISO 639-1) are dropped. `stemming`: words
   become their stems by the Snowball algorithm of this name. Empty: no such step.
5. `shingle`: every so many tokens in a row; words are joined by one space. Of `mixed` tokens it is `dense_shingle`
   where the first of them is a letter of a script that does not part words. A document with too few tokens for any
   shingle, but at least one, is a single shingle of all of them.
6. `hash`: of the shingle's UTF-8:
   - `xxh3` (XXH3, 64 bits), `xxh64` and `murmur3`, the first word of MurmurHash3 x64 128, all with the `seed`;
   - `md5` and `sha256`, the last 8 bytes of the digest as a big-endian number; `md5-first`, the first 8 so; `sha1`,
     the first 8 as a little-endian number;
   - `blake2b`, BLAKE2b with a digest of 8 bytes, as a big-endian number;
   - `fnv1` and `fnv1a` of 64 bits;
   - `fxhash`, the FxHash of rustc-hash 2 of one write of these bytes.
7. `weights`: what a shingle that occurs n times counts: `frequency`, n; `capped`, n but at most 4; `log`,
   1 + ln n; `presence`, 1; `idf`, n times what the model of checksum `idf` says (see `idf`).
8. `sketch`, what the shingles become, with so many `bits`:
   - `simhash` (Charikar, STOC 2002): bit b is set if the weight of the shingles whose hash has bit b is more than half
     of all the weight. `tie`: what a bit is of which it is just half, `clear` or `set`. Beyond 64 bits a hash is
     widened: bits 64 * i to 64 * i + 63 are number i of the SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) that begins
     with the hash, whatever hash it is. The digests and `murmur3`, of which other tools take more bits, have 64 alone;
   - `minhash-1bit` (b-bit minwise hashing with b = 1, Li and Koenig, WWW 2010): bit i is a bit of the smallest value of
     permutation i (of as many as bits, made by the `seed`) over the shingles. Documents whose sets of shingles have the
     Jaccard similarity J differ in bits / 2 * (1 - J) bits in the mean. A shingle counts once: weights are `presence`;
   - `minhash` (Broder, SEQUENCES 1997): no fingerprint but a signature, which fpstore.minhash makes. It has so many
     `values` by the `permutations` of that name (see the module of that name), and the share of those that are equal is
     the Jaccard similarity in the mean. The `seed` is of hash and permutations; by those of datasketch it is theirs
     alone, 0..2**32 - 1, and by those of rensa, whose hash is `fxhash`, 0..2**64 - 1. Weights are `presence`.

   A document without tokens has the XXH3 of its UTF-8, widened, as its fingerprint, or as the only hash of its
   signature: it is near none that has other bytes. Not so by simhashes, of another hash than `xxh3` and other tokens
   than `mixed`, that other tools make: there it is 0, or all bits where ties are set, but `letters` makes one empty
   shingle of it.

   Bit 0 is the lowest, so that the lowest 64 bits of a wide fingerprint are those of the same recipe of 64 bits.

A change of any step is a new version, so that equal recipes give equal fingerprints, on every machine and under every
Python: letters and foldings are those of Unicode 14. What is not assigned there is no letter and is not normalised.

A field that came after the first recipes of a version stands in a record only where it differs from what they all did
(`ADDED`). So a record says the same in every fpstore that reads it, and one that does not know the field refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fpstore.errors import RecipeError
from fpstore.fingerprints import as_fingerprint, as_numbers, single_of
from fpstore.text import _shingles, _signing, _simhash
from fpstore.text._sums import widened, xxh3
from fpstore.text.cleaning import text_of_html, without_surrogates
from fpstore.text.fields import (
    ADDED,
    DEFAULT_BITS,
    VERSION,
    expect_fields,
    expect_version,
)
from fpstore.text.held import Counts, Features, HashesPart, KeptHashes, Sets
from fpstore.text.model import IdfModel
from fpstore.text.permutations import DEFAULT_VALUES, SCHEMES, SEED_BITS_OF_SCHEME, permutations_of
from fpstore.text.scripts import mixed_shingles
from fpstore.text.several import expect_several
from fpstore.text.tokens import Prepare, preparation, prepared, prepared_groups
from fpstore.threads import thread_count
from fpstore.types import Kind

# Those fields that do not decide which shingles a text has.
_NO_STEPS = ("name", "weights", "idf", "tie", "sketch", "values", "permutations", "bits")
_OF_THE_CORE = ("shingle", "weights", "hash", "tie", "sketch", "dense_shingle", "bits")


Signatures = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]


class Measured(NamedTuple):
    """Of texts, in their order: fingerprints, how many tokens each has, and how far these are to be trusted.

    fingerprints: uint64[n], or beyond 64 bits uint64[n, bits / 64], word 0 the most significant.
    outweighed: texts of several shingles, of which the heaviest weighs more than three times the root of the sum of the
    squares of the others: nearly every bit of their simhash is that shingle's. distinct_counts: how many distinct
    shingles; of 1-bit MinHash within an eighth as a rule, as its smallest values tell; 0 by weights `frequency`, which
    count none, and of a text without tokens. unseen: the share of what is visible that is in no token, 0 to 1, in bytes
    of UTF-8 after normalisation, where each word has a space behind it and marks are not taken for visible. Only of
    tokens `words`, `mixed` and `chinese`, and without stop words or stems; 0 of all others.
    """

    fingerprints: npt.NDArray[np.uint64]
    token_counts: npt.NDArray[np.uint32]
    outweighed: npt.NDArray[np.bool_]
    distinct_counts: npt.NDArray[np.uint32]
    unseen: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a document becomes a fingerprint; see the module for what each step means.

    name: what people call it. shingle: how many tokens, 1..64. dense_shingle: the same where a shingle of tokens
    `mixed` begins with a letter of a script that does not part words, else 0. seed: of a hash that takes one,
    0..2**64 - 1 (`murmur3`: 2**32 - 1), else 0. Two recipes are the same if every field is; the model is no field of
    the record, only its checksum `idf` is. Weights `idf` need with_model before a text is read. Raises ValueError for a
    value that no step has or that another step rules out, UnsupportedVersion for another version.
    """

    name: str
    version: int = VERSION
    html: str = "main"
    normalisation: str = "nfkc-casefold"
    tokens: str = "words"
    stop_words: str = ""
    stemming: str = ""
    shingle: int = 4
    weights: str = "frequency"
    idf: str = ""
    hash: str = "xxh3"
    seed: int = 0
    tie: str = "clear"
    sketch: str = "simhash"
    dense_shingle: int = 0
    values: int = DEFAULT_VALUES
    permutations: str = SCHEMES[0]
    bits: int = DEFAULT_BITS
    model: IdfModel | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        expect_fields(self)

    def fingerprint(self, text: str | bytes) -> int:
        """The fingerprint (0..2**bits - 1) of one text; bytes are UTF-8."""
        return as_numbers(self.fingerprint_many([text], threads=1))[0]

    def fingerprint_many(self, texts: Iterable[str | bytes], *, threads: int | None = None) -> npt.NDArray[np.uint64]:
        """The fingerprints of texts, in their order, as Measured has them. threads: as for measure_many."""
        expect_several(texts)
        return self.measure_many(list(texts), threads=threads).fingerprints

    def measure_many(self, texts: Sequence[str | bytes], *, threads: int | None = None) -> Measured:
        """The fingerprints of texts, and what is to be known of how far these can be trusted.

        threads: how many work on what is compiled here, one for each processor where None; they change nothing. What
        packages do, such as cutting Chinese, takes one. ValueError for what is no number of threads, RecipeError for a
        recipe that makes no fingerprints.
        """
        return self._measured(texts, threads, lambda group, **steps: (_simhash.measure(group, **steps), []))[0]

    def measure_and_keep(
        self, texts: Sequence[str | bytes], *, threads: int | None = None
    ) -> tuple[Measured, KeptHashes]:
        """The same, and the hashes of the shingles of the texts, as they come, for features_of.

        They take 8 bytes a shingle, so it is for recipes with keeps_hashes.
        """
        found, parts = self._measured(texts, threads, _shingles.measure_and_keep)
        return found, KeptHashes.join(parts, are_features=False)

    def _measured(
        self, texts: Sequence[str | bytes], threads: int | None, measure: Callable[..., tuple[Any, list[HashesPart]]]
    ) -> tuple[Measured, list[HashesPart]]:
        expect_fingerprints(self)
        count = thread_count(threads)
        expect_several(texts)
        prepare, steps = self._steps()
        groups = [texts] if prepare is None else prepared_groups(prepare, texts)
        parts, kept = zip(*(measure(group, threads=count, **steps) for group in groups), strict=True)
        columns = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        found = Measured(*columns)
        fingerprints, counts = found.fingerprints, found.token_counts
        if self.parts_empty:
            for at in np.flatnonzero(counts == 0).tolist():
                fingerprints[at] = self.without_tokens(texts[at])
        elif self.tokens == "letters":
            fingerprints[counts == 0] = self._widened(self._nothing())
        return found, [part for parts_of_group in kept for part in parts_of_group]

    def sign_many(self, texts: Sequence[str | bytes], *, threads: int | None = None) -> Signatures:
        """The signatures of texts, in their order: uint32[n, values], or uint64 by permutations of 64 bits.

        threads: as for measure_many. RecipeError for a recipe that makes fingerprints.
        """
        return self.sign_counted(texts, threads=threads)[0]

    def sign_counted(
        self, texts: Sequence[str | bytes], *, threads: int | None = None
    ) -> tuple[Signatures, npt.NDArray[np.uint32]]:
        """As sign_many, and how many tokens each text has."""
        return self._signed(texts, threads, keeps=False)[:2]

    def sign_and_keep(
        self, texts: Sequence[str | bytes], *, threads: int | None = None
    ) -> tuple[Signatures, npt.NDArray[np.uint32], KeptHashes]:
        """As sign_counted, and the hashes of the shingles, as of measure_and_keep; but they are the features."""
        found, counts, parts = self._signed(texts, threads, keeps=True)
        return found, counts, KeptHashes.join(parts, are_features=True)

    def _signed(
        self, texts: Sequence[str | bytes], threads: int | None, *, keeps: bool
    ) -> tuple[Signatures, npt.NDArray[np.uint32], list[HashesPart]]:
        expect_signatures(self)
        count = thread_count(threads)
        expect_several(texts)
        prepare, steps = self._steps()
        groups = [texts] if prepare is None else prepared_groups(prepare, texts)
        permutations = permutations_of(self.permutations, self.values, self.seed)
        parts = [_signing.sign(group, permutations, threads=count, keeps=keeps, **steps) for group in groups]
        columns = [part[:2] for part in parts]
        # Signatures are larger than short texts: where all are in one array they are not copied.
        found, counts = columns[0] if len(parts) == 1 else map(np.concatenate, zip(*columns, strict=True))
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            hashes = np.array([bytes_hash(texts[at]) for at in empty.tolist()], dtype=np.uint64)
            found[empty] = _signing.sign_hashes(hashes, np.arange(1, len(hashes) + 1, dtype=np.uint64), permutations)
        return found, counts, [part for _, _, kept in parts for part in kept]

    def features(self, text: str | bytes) -> Features:
        """The distinct shingles of one text and their weights."""
        prepare, steps = self._steps()
        ready = text if prepare is None else prepared(prepare, text)
        found = Sets.join(_shingles.features_many([ready], **steps))[0]
        if self.tokens == "letters" and len(found.hashes) == 0:
            return Features(np.array([self._nothing()], dtype=np.uint64), np.ones(1))
        return found

    def features_many(self, texts: Sequence[str], *, threads: int | None = None) -> Sets:
        """Of each of texts what features gives, together; threads: as for measure_many."""
        count = thread_count(threads)
        prepare, steps = self._steps()
        ready = texts if prepare is None else [prepared(prepare, text) for text in texts]
        found = Sets.join(_shingles.features_many(ready, threads=count, **steps))
        if self.tokens == "letters" and not found.counts.all():
            nothing = Features(np.array([self._nothing()], dtype=np.uint64), np.ones(1))
            return Sets.of([features if len(features.hashes) else nothing for features in found])
        return found

    def features_of(
        self, hashes: npt.NDArray[np.uint64], starts: Counts, counts: Counts, *, threads: int | None = None
    ) -> Sets:
        """Of texts what features_many gives, by hashes that were kept: of each counts[i] of them from starts[i] on."""
        _, steps = self._steps()
        return Sets.join(_shingles.features_of(hashes, starts, counts, threads=thread_count(threads), **steps))

    def shingles(self, text: str | bytes) -> Iterator[tuple[int, str]]:
        """The hash of every shingle of one text, and the shingle, in its order; all its tokens are held as str."""
        prepare, steps = self._steps()
        ready = text if prepare is None else prepared(prepare, text)
        tokens = _simhash.tokens_of(ready, normalisation=steps["normalisation"], tokens=steps["tokens"])
        joint = "" if steps["tokens"] == "characters" else " "
        if self.tokens == "mixed":
            for shingle in mixed_shingles(tokens, self.shingle, self.dense_shingle):
                yield _simhash.hash_of(shingle.encode(), self.hash, self._hash_seed), shingle
            return
        for first in range(max(len(tokens) - self.shingle, 0) + 1 if tokens or self.tokens == "letters" else 0):
            shingle = joint.join(tokens[first : first + self.shingle])
            yield _simhash.hash_of(shingle.encode(), self.hash, self._hash_seed), shingle

    def text_of(self, html: str | bytes, charset: str | None = None) -> str:
        """The text of an HTML document, by the step `html`; charset: what its server said that bytes are.

        Raises ValueError for one that is too large, ImportError without the extra `html`.
        """
        return text_of_html(html, self.html, charset)

    def with_model(self, model: IdfModel) -> Recipe:
        """This recipe with weights `idf` by the model, which it pins.

        Raises ValueError where another model is pinned, the model was learned by other steps, or the sketch is of sets,
        in which no shingle weighs more than another.
        """
        if self.sketch != "simhash":
            raise ValueError(f"recipe {self.name}: found sketch {self.sketch}, expected simhash, such as simhash-1 has")
        if self.idf not in ("", model.checksum):
            raise ValueError(f"idf model: found checksum {model.checksum}, expected {self.idf}, as the recipe has")
        found, expected = ADDED | dict(model.steps), ADDED | self.steps()
        for step in expected | found:
            if step not in _NO_STEPS and found.get(step) != expected.get(step):
                told = f"found {step} {found.get(step)!r}, expected {expected.get(step)!r}, as the recipe has"
                raise ValueError(f"idf model: {told}")
        return replace(self, weights="idf", idf=model.checksum, model=model)

    def without_tokens(self, text: str | bytes) -> Any:
        """The fingerprint of a text that has no tokens, as a row of fingerprints is: a number, or its words."""
        return self._widened(bytes_hash(text))

    def hexadecimal(self, fingerprint: int) -> str:
        """Every digit of a fingerprint, as the lines of commands have it."""
        return f"{fingerprint:0{self.bits // 4}x}"

    def distance(self, of_64: int) -> int:
        """As many of its bits as these are of 64: texts that are so far apart are as alike by either, in the mean."""
        return of_64 * self.bits // DEFAULT_BITS

    @property
    def is_prepared(self) -> bool:
        """Whether steps are left to Python and its packages, which come before those of the compiled core."""
        plain = self.tokens in ("words", "mixed", "characters") and self.normalisation != "lower"
        return not plain or bool(self.stop_words or self.stemming)

    @property
    def keeps_hashes(self) -> bool:
        """Whether a text has no more shingles than words, or letters that stand for some: a third of its bytes."""
        return self.tokens in ("words", "mixed", "chinese")

    @property
    def parts_empty(self) -> bool:
        """Whether texts without tokens have fingerprints of their own, and not all the same."""
        return self.sketch != "simhash" or self.tokens == "mixed" or self.hash == "xxh3"

    @property
    def _hash_seed(self) -> int:
        """That of the hash: none where the seed is of the permutations alone."""
        return 0 if self.permutations in SEED_BITS_OF_SCHEME else self.seed

    def steps(self) -> dict[str, str | int]:
        """What decides which shingles a text has: all of the record but the name, the weights and what a tie is."""
        return {name: value for name, value in self.to_json().items() if name not in _NO_STEPS}

    def to_json(self) -> dict[str, str | int]:
        """The recipe as a plain dictionary, for json; from_json reads it back. Those of ADDED where they differ."""
        record = {name: getattr(self, name) for name in FIELDS}
        return {name: value for name, value in record.items() if name not in ADDED or value != ADDED[name]}

    @classmethod
    def from_json(cls, record: Mapping[str, object]) -> Recipe:
        """The recipe that to_json recorded.

        Raises ValueError where a field is missing, unknown or of a wrong value, UnsupportedVersion for another
        version.
        """
        if not isinstance(record, Mapping):
            raise ValueError(f"recipe: found {type(record).__name__}, expected an object")
        version = record.get("version")
        if type(version) is int:
            # Said before its fields are compared: another version may well have others.
            expect_version(version)
        if not set(FIELDS) - set(ADDED) <= set(record) <= set(FIELDS):
            found = ", ".join(map(str, record))
            fields_of_all = ", ".join(name for name in FIELDS if name not in ADDED)
            expected = f"{fields_of_all}, and where they differ {', '.join(ADDED)}"
            raise ValueError(f"recipe: found fields {found}, expected {expected}")
        return cls(**record)  # type: ignore[arg-type]  # __post_init__ checks each

    def _widened(self, value: int) -> Any:
        """What a hash stands for as a fingerprint, as a row of fingerprints is."""
        return single_of(as_fingerprint(widened(value, self.bits), "hash", self.bits))

    def _nothing(self) -> int:
        """The hash of an empty shingle."""
        return _simhash.hash_of(b"", self.hash, self._hash_seed)

    def _steps(self) -> tuple[Prepare | None, dict[str, Any]]:
        """The steps that the core leaves out, None where there are none, and what it has to be told of the others."""
        if self.weights == "idf" and self.model is None:
            raise ValueError(f"recipe {self.name}: found no idf model, expected that of checksum {self.idf or 'any'}")
        steps: dict[str, Any] = {name: getattr(self, name) for name in _OF_THE_CORE}
        steps["seed"] = self._hash_seed
        steps["idf"] = None if self.model is None else self.model.table
        if not self.is_prepared:
            return None, steps | {"normalisation": self.normalisation, "tokens": self.tokens}
        prepare, normalisation, kind = preparation(self.normalisation, self.tokens, self.stop_words, self.stemming)
        return prepare, steps | {"normalisation": normalisation, "tokens": kind}


def expect_fingerprints(recipe: Recipe) -> Recipe:
    """The recipe. RecipeError where it makes no fingerprints, of which stores are made and by which jobs decide."""
    if recipe.sketch == "minhash":
        told = "found sketch minhash, which makes signatures and no fingerprints"
        raise RecipeError(f"recipe {recipe.name}: {told}, expected simhash or minhash-1bit")
    return recipe


def expect_signatures(recipe: Recipe) -> Recipe:
    """The recipe. RecipeError where it makes no signatures, of which stores of the other kind are made."""
    if recipe.sketch != "minhash":
        told = f"found sketch {recipe.sketch}, which makes fingerprints and no signatures, expected minhash"
        raise RecipeError(f"recipe {recipe.name}: {told}")
    return recipe


def expect_of_kind(recipe: Recipe, kind: Kind) -> Recipe:
    """The recipe. RecipeError where it makes not what a store of this kind has."""
    return expect_fingerprints(recipe) if kind == "hamming" else expect_signatures(recipe)


FIELDS = tuple(each.name for each in fields(Recipe) if each.name != "model")


def bytes_hash(text: str | bytes) -> int:
    """What stands for the fingerprint of a text without tokens: the XXH3 of its UTF-8."""
    return xxh3(utf8(text))


def utf8(text: str | bytes) -> bytes:
    """The bytes of a text, with U+FFFD for what is none."""
    return without_surrogates(text.decode("utf-8", "replace") if isinstance(text, bytes) else text).encode()
