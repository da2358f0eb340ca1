"""The jobs in plain Python, corpora of texts that are near each other, and how a job is interrupted."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from plain_hashes import hash_value
from plain_recipe import widened

from fpstore.fingerprints import as_numbers
from fpstore.jobs import sharing
from fpstore.jobs.journal import Job
from fpstore.text import DEFAULT_RECIPE, Recipe


def always_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs hand over tasks to workers of this machine, however few these are and however little that is."""
    monkeypatch.setattr(sharing, "FEW_WORKERS", 0)
    monkeypatch.setattr(sharing, "WORTH_SECONDS", -1.0)


# Few words, so that many texts are near each other; the last is no token.
texts = st.lists(st.sampled_from(["a", "b", "c", "dd", "eee", "fox", "dog", "!"]), max_size=6).map(" ".join)
corpora = st.lists(texts, max_size=30)


def write_jsonl(path: Path, documents: Iterable[str]) -> Path:
    path.write_text("".join(json.dumps({"id": i, "text": text}) + "\n" for i, text in enumerate(documents)))
    return path


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def fingerprints(documents: Sequence[str], recipe: Recipe = DEFAULT_RECIPE) -> list[int]:
    """By recipe; of a document without tokens, the hash of its bytes, which most recipes make themselves."""
    keys, counts, *_ = recipe.measure_many(documents)
    found = zip(as_numbers(keys), counts.tolist(), documents, strict=True)
    return [
        key if count else widened(hash_value("xxh3", text.encode("utf-8", "replace")), recipe.bits)
        for key, count, text in found
    ]


# Which of the kept a document is near, and how far; None where it is kept.
Verdicts = list[tuple[int, int] | None]


def first_come(
    numbers: Sequence[int],
    keys: Sequence[int],
    k: int,
    known: Sequence[tuple[int, int]] = (),
    alike: Callable[[int, int], bool] = lambda one, other: True,
    looked_at: int | None = None,
    equal: Callable[[int, int], bool] = lambda one, other: False,
) -> Verdicts:
    """For each of the documents, taken in the order of numbers: the nearest kept one before it.

    Of several at one distance, the one with the least fingerprint, then the first.

    known: (fingerprint, number) of documents that were kept before. looked_at: so many of the nearest; all where None.
    equal: what is looked at behind these too.
    """
    kept = list(known)
    verdicts: Verdicts = [None] * len(keys)
    for number in numbers:
        near = [((keys[number] ^ key).bit_count(), key, order, other) for order, (key, other) in enumerate(kept)]
        near = sorted(found for found in near if found[0] <= k)
        near = (
            near[:looked_at] + [found for found in near[looked_at:] if equal(number, found[3])] if looked_at else near
        )
        near = [found for found in near if alike(number, found[3])]
        if near:
            distance, _, _, other = min(near)
            verdicts[number] = (other, distance)
        else:
            kept.append((keys[number], number))
    return verdicts


def shingle_weights(text: str, recipe: Recipe = DEFAULT_RECIPE) -> dict[int, float]:
    found = recipe.features(text)
    return dict(zip(found.hashes.tolist(), found.weights.tolist(), strict=True))


def jaccard(one: str, other: str, recipe: Recipe = DEFAULT_RECIPE) -> float:
    ours, theirs = set(shingle_weights(one, recipe)), set(shingle_weights(other, recipe))
    return len(ours & theirs) / len(ours | theirs) if ours and theirs else float(one == other)


def cosine(one: str, other: str, recipe: Recipe = DEFAULT_RECIPE) -> float:
    ours, theirs = shingle_weights(one, recipe), shingle_weights(other, recipe)
    if not ours or not theirs:
        return float(one == other)
    dot = sum(weight * theirs.get(shingle, 0) for shingle, weight in ours.items())
    squares = [sum(weight * weight for weight in weights.values()) for weights in (ours, theirs)]
    return dot / math.sqrt(squares[0] * squares[1])


# Of each document: its cluster, and the distance at which it joined.
Clusters = list[tuple[int, int]]


def leader_follower(keys: Sequence[int], k: int, *, update_center: bool = False) -> Clusters:
    """Each document joins the nearest center within k, of several the least, then the first, or is the next."""
    members: list[list[int]] = []
    centers: list[int] = []
    found: Clusters = []
    for key in keys:
        near = [((key ^ center).bit_count(), center, i) for i, center in enumerate(centers)]
        distance, _, cluster = min(near, default=(k + 1, 0, 0))
        if distance > k:
            distance, cluster = 0, len(centers)
            members.append([])
            centers.append(key)
        members[cluster].append(key)
        if update_center:
            centers[cluster] = majority(members[cluster])
        found.append((cluster, distance))
    return found


def majority(keys: Sequence[int]) -> int:
    """The bits that most of keys have; where as many have it as have not, that of the first."""
    center = 0
    for bit in range(max(keys).bit_length()):
        ones = 2 * sum(key >> bit & 1 for key in keys) - len(keys)
        center |= (ones > 0 or (ones == 0 and keys[0] >> bit & 1)) << bit
    return center


def connected(keys: Sequence[int], k: int) -> Clusters:
    """The components of the graph of those within k; numbered by their first documents, from which distances are."""
    cluster_of: list[int] = [-1] * len(keys)
    firsts: list[int] = []
    for start in range(len(keys)):
        if cluster_of[start] >= 0:
            continue
        waiting = [start]
        cluster_of[start] = len(firsts)
        while waiting:
            i = waiting.pop()
            for j, key in enumerate(keys):
                if cluster_of[j] < 0 and (key ^ keys[i]).bit_count() <= k:
                    cluster_of[j] = len(firsts)
                    waiting.append(j)
        firsts.append(keys[start])
    return [(cluster, (key ^ firsts[cluster]).bit_count()) for key, cluster in zip(keys, cluster_of, strict=True)]


class _Stop(BaseException):
    """What ends a job in these tests."""


def interrupt(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any], after: int) -> None:
    """Begin the work and stop it after so many commits."""
    commit, done = Job.commit, 0

    def stop(job: Job, *given: Any, **more: Any) -> None:
        nonlocal done
        commit(job, *given, **more)
        done += 1
        if done == after:
            raise _Stop

    with monkeypatch.context() as patch:
        patch.setattr(Job, "commit", stop)
        with pytest.raises(_Stop):
            work()
