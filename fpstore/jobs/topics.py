"""Owns which words tell a cluster from the rest: those with the largest tf-idf of its members.

tf is the share of the cluster's documents that have a word, idf the logarithm of all documents over those that have it.
A word is a run of letters and digits, without regard to case. Only the MOST_CLUSTERS largest clusters of two documents
or more are told of. Memory is bounded: MOST_WORDS are counted, and MOST_WORDS_OF_A_CLUSTER of each. Where there are
more, those that are the rarest so far are forgotten, until half of them are left. So what is told is exact below these
numbers, and above them a rare word may be missing; the same documents in the same order always give the same words.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

MOST_CLUSTERS = 100
MOST_WORDS = 200_000
MOST_WORDS_OF_A_CLUSTER = 2_000
WORDS_TOLD = 10
MOST_CHARACTERS = 40

_WORD = re.compile(r"[^\W_]+")


class Topics:
    """The words of clusters, given all documents, one after the other."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        """sizes: of the clusters that are to be told of."""
        self._sizes = dict(sizes)
        self._of: dict[int, Counter[str]] = {cluster: Counter() for cluster in self._sizes}
        self._all: Counter[str] = Counter()
        self._documents = 0

    def see(self, labels: Sequence[int], texts: Sequence[str]) -> None:
        """More documents, each with its cluster."""
        for label, text in zip(labels, texts, strict=True):
            words = words_of(text)
            self._documents += 1
            self._all.update(words)
            _forget(self._all, MOST_WORDS)
            own = self._of.get(label)
            if own is not None:
                own.update(words)
                _forget(own, MOST_WORDS_OF_A_CLUSTER)

    def told(self) -> Iterator[tuple[int, int, str]]:
        """Number, size and words of each cluster, in the order that they were given in."""
        for cluster, size in self._sizes.items():
            own = self._of[cluster]
            scores = {
                word: round(count / size * math.log(self._documents / max(count, self._all[word])), 9)
                for word, count in own.items()
            }
            best = sorted((word for word in scores if scores[word] > 0), key=lambda word: (-scores[word], word))
            yield cluster, size, " ".join(best[:WORDS_TOLD])


def words_of(text: str) -> set[str]:
    """The words of a text, each once; long runs are no words."""
    return {word for word in _WORD.findall(text.lower()) if len(word) <= MOST_CHARACTERS}


def _forget(counts: Counter[str], most: int) -> None:
    """Where there are more than so many, forget the rarest ones, until half as many are left, and no more."""
    if len(counts) <= most:
        return
    # Of equally rare ones those that come later in the alphabet go, so that no order of a dictionary decides.
    kept = sorted(counts, key=lambda word: (-counts[word], word))[: most // 2]
    held = {word: counts[word] for word in kept}
    counts.clear()
    counts.update(held)
