"""What bench_quality measures with: sets of documents and pairs, exact likeness, what a job drops, other sketches."""

from __future__ import annotations

import gettext
import io
import json
import random
import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import zstandard
from benchlib import distinct, scratch_folder
from numpy.typing import NDArray

import fpstore
from fpstore.text import Recipe
from fpstore.text.cleaning import stand_in
from fpstore.text.confirm import Checker, Confirm
from fpstore.text.deduplication import measured_apart
from fpstore.text.scripts import is_cut_badly

LABELS = {1: "near-duplicates", 0: "others", -1: "in between"}
WINDOW_LOG = 27
BATCH_BYTES = 8 << 20
SEED = 20070512
THREADS = 2
WORDS_JUDGE = Recipe("judge", shingle=3)
LETTERS_JUDGE = Recipe("judge", tokens="letters", shingle=5)
# What the relation of a pair begins with whose label people gave it, or who made the copy.
OF_PEOPLE = ("human_", "planted_", "authentic", "cut_and_paste", "light_revision", "heavy_revision")
MESSAGES_A_TEXT = 24
TEXTS_A_LANGUAGE = 300
PERMUTATIONS = 128


# Of pages by set, document and step: reading them takes far longer than all else.
_page_texts: dict[tuple[str, str, str], str] = {}


@dataclass(frozen=True)
class Labelled:
    """A set: documents by id, and pairs as columns: first and second index into the ids, and label.

    source: who says what is alike, people or the exact Jaccard similarity.
    """

    name: str
    path: Path
    ids: list[str]
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    label: NDArray[np.int64]
    source: str

    @property
    def is_complete(self) -> bool:
        """Whether every pair that is not listed is known to be of label 0."""
        return not (self.label == 0).any()


def lines(path: Path) -> Iterator[str]:
    with (
        path.open("rb") as file,
        zstandard.ZstdDecompressor(max_window_size=1 << WINDOW_LOG).stream_reader(file) as data,
    ):
        yield from io.TextIOWrapper(data, encoding="utf-8")


def read_set(folder: Path, name: str) -> Labelled:
    rows = [line.rstrip("\n").split("\t") for line in lines(folder / f"{name}.pairs.tsv.zst")][1:]
    path = folder / f"{name}.jsonl.zst"
    label = np.array([int(row[2]) for row in rows], dtype=np.int64)
    if (label == 0).any():
        ids = sorted({identity for row in rows for identity in row[:2]})
    else:
        ids = sorted(json.loads(line)["id"] for line in lines(path))
    index = {identity: number for number, identity in enumerate(ids)}
    first, second = (np.array([index[row[side]] for row in rows], dtype=np.int64) for side in (0, 1))
    by_people = all(row[4].startswith(OF_PEOPLE) for row in rows)
    return Labelled(name, path, ids, first, second, label, "people" if by_people else "Jaccard")


def texts_of(path: Path, recipe: Recipe) -> Iterator[tuple[str, str]]:
    """The id and the text of each document of a set, pages by the recipe."""
    for line in lines(path):
        document = json.loads(line)
        if "html" not in document:
            yield document["id"], document["text"]
            continue
        key = (path.name, document["id"], recipe.html)
        if key not in _page_texts:
            text = recipe.text_of(document["html"])
            _page_texts[key] = text if text.strip() else stand_in(document["html"])
        yield document["id"], _page_texts[key]


def holds_pages(path: Path) -> bool:
    return any("html" in json.loads(line) for line in islice(lines(path), 1))


def fingerprints(labelled: Labelled, recipe: Recipe) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """The fingerprints of the documents that the pairs name, as jobs have them, and their numbers of tokens."""
    index = {identity: number for number, identity in enumerate(labelled.ids)}
    shape = len(index) if recipe.bits == 64 else (len(index), recipe.bits // 64)
    prints = np.zeros(shape, dtype=np.uint64)
    tokens = np.zeros(len(index), dtype=np.uint32)
    waiting: list[tuple[int, str]] = []

    def take() -> None:
        places = [place for place, _ in waiting]
        measured = measured_apart(recipe, [text for _, text in waiting], THREADS)
        prints[places], tokens[places] = measured.fingerprints, measured.token_counts
        waiting.clear()

    size = 0
    for identity, text in texts_of(labelled.path, recipe):
        place = index.get(identity)
        if place is None:
            continue
        waiting.append((place, text))
        size += len(text)
        if size > BATCH_BYTES:
            take()
            size = 0
    if waiting:
        take()
    return prints, tokens


def pairs_within(prints: NDArray[np.uint64], k: int, arguments: Namespace) -> Iterator[tuple[int, int, int]]:
    """Every two distinct fingerprints within k of each other, and how far they are."""
    with (
        scratch_folder(arguments) as folder,
        fpstore.build(folder / "s.fpstore", distinct(prints), ids=None, max_distance=k, plan="size") as store,
    ):
        for chunk in store.pairs():
            yield from zip(chunk.first.tolist(), chunk.second.tolist(), chunk.distance.tolist(), strict=True)


def found_among_all(prints: NDArray[np.uint64], most: int, arguments: Namespace) -> dict[int, int]:
    """For each distance up to the most, how many pairs of all documents have it."""
    counts = dict.fromkeys(range(most + 1), 0)
    values, sizes = np.unique(prints, return_counts=True)
    counts[0] = int((sizes * (sizes - 1) // 2).sum())
    size = dict(zip(values.tolist(), sizes.tolist(), strict=True))
    for one, other, distance in pairs_within(prints, most, arguments):
        counts[distance] += size[one] * size[other]
    return counts


def groups_of(prints: NDArray[np.uint64]) -> dict[int, list[int]]:
    """The documents of each fingerprint, in their order."""
    order = np.argsort(prints, kind="stable")
    values, starts = np.unique(prints[order], return_index=True)
    parts = np.split(order, starts[1:])
    return {value: part.tolist() for value, part in zip(values.tolist(), parts, strict=True)}


def found_pairs(prints: NDArray[np.uint64], k: int, arguments: Namespace) -> list[tuple[int, int, int]]:
    """Every two documents within k of each other, and how far they are."""
    groups = groups_of(prints)
    pairs = [(one, other, 0) for group in groups.values() for i, one in enumerate(group) for other in group[:i]]
    for first, second, distance in pairs_within(prints, k, arguments):
        pairs += [(one, other, distance) for one in groups[first] for other in groups[second]]
    return pairs


def confirmed(
    labelled: Labelled, recipe: Recipe, first: Sequence[int], second: Sequence[int], confirm: str
) -> NDArray[np.bool_]:
    """Which of these pairs of documents a job takes for alike, by what it asks: bool[n]."""
    wanted = {labelled.ids[place]: place for place in {*first, *second}}
    texts = {wanted[name]: text for name, text in texts_of(labelled.path, recipe) if name in wanted}
    checker = Checker(Confirm.parse(confirm), recipe, lambda places: [texts[place] for place in places])
    found = [checker.first_alike(texts[one], [other]).place for one, other in zip(first, second, strict=True)]
    return np.array([place is not None for place in found], dtype=np.bool_)


def dropped(prints: NDArray[np.uint64], k: int, arguments: Namespace) -> list[tuple[int, int]]:
    """What a job drops that keeps the first of its like: each such document, and the nearest that is kept."""
    groups = groups_of(prints)
    earlier: dict[int, list[tuple[int, int]]] = {}
    for one, other, distance in pairs_within(prints, k, arguments):
        first, second = sorted((groups[one][0], groups[other][0]))
        earlier.setdefault(second, []).append((distance, first))
    found, is_dropped = [], set()
    for members in sorted(groups.values()):
        near = [each for each in earlier.get(members[0], ()) if each[1] not in is_dropped]
        keeper = min(near)[1] if near else members[0]
        if near:
            is_dropped.add(members[0])
        found += [(each, keeper) for each in members if each != keeper]
    return found


class Judge:
    """The exact Jaccard similarity of texts: of their shingles of three words, or by `letters` of five letters.

    Letters are for two texts of which one is in a script that does not part words, such as Chinese. Two texts without
    shingles are alike if they are equal.
    """

    def __init__(self, texts: Sequence[str], recipe: Recipe | None = None) -> None:
        """recipe: by whose shingles, in place of the two."""
        self._texts, self._recipe = texts, recipe
        self._known: dict[tuple[int, str], NDArray[np.uint64]] = {}

    def _hashes(self, number: int, recipe: Recipe) -> NDArray[np.uint64]:
        key = (number, recipe.tokens)
        if key not in self._known:
            if len(self._known) > 1 << 14:
                self._known.clear()
            self._known[key] = recipe.features(self._texts[number]).hashes
        return self._known[key]

    def jaccard(self, one: int, other: int) -> float:
        recipe = self._recipe
        if recipe is None:
            is_dense = any(is_cut_badly(self._texts[number], "words") for number in (one, other))
            recipe = LETTERS_JUDGE if is_dense else WORDS_JUDGE
        first, second = self._hashes(one, recipe), self._hashes(other, recipe)
        if not (len(first) and len(second)):
            return float(self._texts[one] == self._texts[other])
        both = len(np.intersect1d(first, second, assume_unique=True))
        return both / (len(first) + len(second) - both)


class MinHashes:
    """The rival of 128 values: datasketch's MinHash of the same shingles that a recipe has. ImportError without it."""

    def __init__(self, labelled: Labelled, recipe: Recipe) -> None:
        from datasketch import MinHash

        wanted = {identity: number for number, identity in enumerate(labelled.ids)}
        self.values = np.zeros((len(wanted), PERMUTATIONS), dtype=np.uint32)
        for identity, text in texts_of(labelled.path, recipe):
            if identity not in wanted:
                continue
            made = MinHash(num_perm=PERMUTATIONS, hashfunc=int)
            hashes = recipe.features(text).hashes
            made.update_batch((hashes & np.uint64((1 << 32) - 1)).tolist())
            self.values[wanted[identity]] = made.hashvalues

    def alike(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
        """The estimates for pairs."""
        parts = [
            (self.values[first[at : at + 4096]] == self.values[second[at : at + 4096]]).mean(axis=1)
            for at in range(0, len(first), 4096)
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def count_all(self, threshold: float) -> int:
        """How many of all pairs of the set are estimated at the threshold or more."""
        count = 0
        for number, row in enumerate(self.values[:-1]):
            count += int(((self.values[number + 1 :] == row).mean(axis=1) >= threshold).sum())
        return count


def messages(folder: Path) -> dict[str, list[str]]:
    """The translated messages of a package, by language; of English the ones that are translated."""
    found: dict[str, set[str]] = {}
    for path in sorted(folder.glob("**/locale/*/LC_MESSAGES/*.mo")):
        language = path.parent.parent.name
        with path.open("rb") as file:
            catalog: dict[Any, str] = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
        found.setdefault(language, set()).update(text for key, text in catalog.items() if key and text)
    for path in sorted(folder.glob("**/locale/en/LC_MESSAGES/*.po")):
        found.setdefault("en", set()).update(re.findall(r'^msgid "(.+)"$', path.read_text(), re.MULTILINE))
    return {language: sorted(texts) for language, texts in sorted(found.items())}


def random_texts(of_language: Sequence[str], seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts of random messages, and the same with one message changed."""
    source = random.Random(5 + seed)
    texts, changed = [], []
    for _ in range(TEXTS_A_LANGUAGE):
        chosen = source.sample(of_language, MESSAGES_A_TEXT)
        other = list(chosen)
        other[source.randrange(MESSAGES_A_TEXT)] = source.choice([each for each in of_language if each not in chosen])
        texts.append("\n".join(chosen))
        changed.append("\n".join(other))
    return texts, changed
