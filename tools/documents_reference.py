"""What docs/jobs.md promises of dedup and cluster, in plain Python: every document is compared with every other.

Nothing of fpstore's search is used, and fingerprints are those of tests/plain_recipe.py.
"""

import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from plain_hashes import hash_value
from plain_recipe import features_of, fingerprint_of, tokens_of

from fpstore.text import Recipe

Alike = Callable[[str, str], tuple[float, bool]]

# What is done where nothing else is said, and how many of the nearest kept documents are looked at for one.
DISTANCE, UNCONFIRMED_DISTANCE = 6, 3
CONFIRM = ("jaccard", 0.82)
LOOKED_AT = 64


@dataclass(frozen=True)
class Document:
    """A document as a job reads it: what it is called, and its text."""

    name: str
    text: str


@dataclass(frozen=True)
class Dropped:
    """Why a document was dropped: the name of a kept one, the distance, and how alike they are, if that was asked."""

    kept: str
    distance: int
    measure: float | None = None


@dataclass
class Seen:
    """What was kept so far, in that order: fingerprint and document.

    refused: matches that were not alike enough. cut_short: documents with more matches than were looked at, none alike.
    """

    kept: list[tuple[int, Document]] = field(default_factory=list)
    refused: int = 0
    cut_short: int = 0


def fingerprint(recipe: Recipe, text: str) -> int:
    """Of a text; without a single token a 64-bit hash of it stands for that."""
    if tokens_of(recipe, text):
        return fingerprint_of(recipe, text)
    return hash_value("xxh3", text.encode())


def measure(name: str, recipe: Recipe, one: str, other: str) -> float:
    """Jaccard of the shingles, or the cosine of their weights; of a text without tokens whether both are equal."""
    if not (tokens_of(recipe, one) and tokens_of(recipe, other)):
        return float(one == other)
    ours, theirs = features_of(recipe, one), features_of(recipe, other)
    if name == "jaccard":
        union = len(ours.keys() | theirs.keys())
        return len(ours.keys() & theirs.keys()) / union
    dot = sum(weight * theirs.get(shingle, 0) for shingle, weight in ours.items())
    return dot / math.sqrt(sum(w * w for w in ours.values()) * sum(w * w for w in theirs.values()))


def equal(recipe: Recipe, one: str, other: str) -> bool:
    """Whether two texts have the same shingles with the same weights; without tokens whether both are one."""
    if not (tokens_of(recipe, one) and tokens_of(recipe, other)):
        return one == other
    return features_of(recipe, one) == features_of(recipe, other)


def dedup(
    documents: Sequence[Document],
    distance: int,
    recipe: Recipe,
    seen: Seen,
    *,
    order: Sequence[int],
    alike: Alike | None,
    looked_at: int = LOOKED_AT,
) -> list[Dropped | None]:
    """Of each document why it is dropped, None where it is kept; seen grows by what is kept. order: of deciding.

    looked_at: of so many near ones it is asked whether they are alike; where more have its fingerprint, first of those
    that equal it.
    """
    verdicts: list[Dropped | None] = [None] * len(documents)
    for index in order:
        document = documents[index]
        own = fingerprint(recipe, document.text)
        near = [((own ^ key).bit_count(), key, place) for place, (key, _) in enumerate(seen.kept)]
        near = sorted(each for each in near if each[0] <= distance)
        looked = near if alike is None else near[:looked_at]
        if alike is not None and [apart for apart, _, _ in near].count(0) > looked_at:
            same = (each for each in near if not each[0] and equal(recipe, document.text, seen.kept[each[2]][1].text))
            looked = [*same, *looked]
        for apart, _, place in looked:
            other = seen.kept[place][1]
            found, enough = (None, True) if alike is None else alike(document.text, other.text)
            if enough:
                verdicts[index] = Dropped(other.name, apart, found)
                break
            seen.refused += 1
        else:
            seen.kept.append((own, document))
            seen.cut_short += alike is not None and len(near) > looked_at
    return verdicts


def ordered(values: Sequence[Any], *, largest: bool) -> list[int]:
    """The numbers of documents by their values, the first of equal ones first; those without a value come last."""
    order: list[int] = []
    for number, value in enumerate(values):
        if value is None:
            order.append(number)
            continue
        place = 0
        while place < len(order):
            other = values[order[place]]
            if other is None or (value > other if largest else value < other):
                break
            place += 1
        order.insert(place, number)
    return order


def leaders(
    documents: Sequence[Document], distance: int, recipe: Recipe, alike: Alike | None, looked_at: int
) -> tuple[list[tuple[int, int]], Seen]:
    """The cluster of each document, and the distance to its leader: dedup keeps the leaders."""
    seen = Seen()
    numbered = [Document(str(number), document.text) for number, document in enumerate(documents)]
    order = range(len(numbered))
    verdicts = dedup(numbered, distance, recipe, seen, order=order, alike=alike, looked_at=looked_at)
    cluster = {document.name: number for number, (_, document) in enumerate(seen.kept)}
    found = [
        (cluster[document.name], 0) if verdict is None else (cluster[verdict.kept], verdict.distance)
        for document, verdict in zip(numbered, verdicts, strict=True)
    ]
    return found, seen


def centers(keys: Sequence[int], distance: int) -> list[tuple[int, int]]:
    """As leaders, with the bits that most members have; where as many have a bit as have not, that of the first."""
    members: list[list[int]] = []
    found = []
    for key in keys:
        near = (
            min(((key ^ center).bit_count(), center, number) for number, center in enumerate(map(_center, members)))
            if members
            else None
        )
        if near is None or near[0] > distance:
            found.append((len(members), 0))
            members.append([key])
        else:
            found.append((near[2], near[0]))
            members[near[2]].append(key)
    return found


def _center(keys: list[int]) -> int:
    center = 0
    for bit in range(64):
        balance = sum(1 if key >> bit & 1 else -1 for key in keys)
        center |= (balance > 0 or (balance == 0 and keys[0] >> bit & 1)) << bit
    return center


def components(keys: Sequence[int], distance: int) -> list[tuple[int, int]]:
    """A chain of steps within the distance joins any two; numbers in the order of the first documents."""
    group = list(range(len(keys)))
    for one in range(len(keys)):
        for other in range(one):
            if (keys[one] ^ keys[other]).bit_count() <= distance and group[one] != group[other]:
                low, high = sorted((group[one], group[other]))
                group = [low if each == high else each for each in group]
    numbers = {first: number for number, first in enumerate(sorted(set(group)))}
    return [(numbers[first], (keys[index] ^ keys[first]).bit_count()) for index, first in enumerate(group)]


def topics(clusters: Sequence[int], texts: Sequence[str], most: int) -> list[tuple[int, int, str]]:
    """Number, size and words of the largest clusters of two documents or more, by tf-idf of their documents."""
    words = [set(re.findall(r"[^\W_]{1,40}", text.lower())) for text in texts]
    found = []
    for cluster in sorted(set(clusters), key=lambda each: (-clusters.count(each), each))[:most]:
        own = [each for each, label in zip(words, clusters, strict=True) if label == cluster]
        scores = {}
        for word in set().union(*own):
            having = sum(word in each for each in words)
            scores[word] = round(sum(word in each for each in own) / len(own) * math.log(len(words) / having), 9)
        best = sorted((-score, word) for word, score in scores.items() if score > 0)
        if len(own) > 1:
            found.append((cluster, len(own), " ".join(word for _, word in best[:10])))
    return found


def pairs(documents: Sequence[Document], keys: Sequence[int], distance: int) -> list[tuple[str, str, int]]:
    """The names of every two documents within the distance, the earlier first; sorted."""
    found = []
    for one in range(len(keys)):
        for other in range(one + 1, len(keys)):
            apart = (keys[one] ^ keys[other]).bit_count()
            if apart <= distance:
                found.append((documents[one].name, documents[other].name, apart))
    return sorted(found)
