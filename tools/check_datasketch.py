"""Makes the same random calls of fpstore.adapters.datasketch and of datasketch's MinHashLSH, and compares all answers.

    python tools/check_datasketch.py [--rounds 200] [--seed 0]

In each round both indexes, with settings that are drawn, get the same calls: insert, with and without a look for
duplicates, remove, merge, sessions for both, also of few at a time, pickling, keys of many types and what is none.
After each call it is compared what was raised, who is near each of a pool of MinHashes, alone and by the query buffer,
which keys there are, and what get_counts and get_subset_counts say. Of a key that has several MinHashes datasketch 2.0
removes and counts the first alone: such a one is not removed here, nor counted by get_subset_counts. Exit status 1 for
a difference, which is told with the round that makes it. Needs datasketch (make test-clients).
"""

import argparse
import pickle
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasketch
from arguments import parse_count, parse_whole

from fpstore.adapters.datasketch import MinHashLSH

CALLS_IN_A_ROUND = 30
KINDS = ("affine32", "affine64", "legacy", "lean", "weighted")
KEYS: tuple[Any, ...] = (
    *("a", "b", "", "\u00e9", "a\0", "x" * 300),
    *(b"a", b"", b"\xff\x00"),
    *(0, 1, -1, 2**70, True, 1.5, -0.0, float("inf"), None),
    *((), ("a", 1), ("a", (b"b", None)), frozenset({"a", 2}), frozenset()),
)
NO_KEYS: tuple[Any, ...] = ([], {}, {"a"}, ("a", []))


class Round:
    """Both indexes of one round, and what they are asked."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.dice, self.folder = random.Random(seed), folder
        self.kind = self.dice.choice(KINDS)
        self.values = self.dice.choice([16, 32, 33, 64])
        self.settings = self._settings()
        self.pool = [self._minhash() for _ in range(25)]
        self.theirs, self.ours = self._pair("one")
        self.several: set[Any] = set()  # the keys that have more than one

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"num_perm": self.values}
        if self.dice.random() < 0.5:
            return settings | {"params": self.dice.choice([(4, 4), (2, 8), (8, 2), (16, 1)])}
        weight = self.dice.choice([0.5, 0.25, 0.75])
        return settings | {"threshold": self.dice.choice([0.3, 0.5, 0.6]), "weights": (weight, 1 - weight)}

    def _minhash(self) -> Any:
        if self.kind == "weighted":
            weights = [self.dice.randrange(1, 4) for _ in range(6)]
            return datasketch.WeightedMinHashGenerator(6, self.values).minhash(weights)
        scheme = "affine32" if self.kind == "lean" else self.kind
        made = datasketch.MinHash(num_perm=self.values, scheme=scheme)
        made.update_batch([bytes([self.dice.randrange(8)]) for _ in range(8)])
        return datasketch.LeanMinHash(made) if self.kind == "lean" else made

    def _pair(self, name: str) -> tuple[Any, Any]:
        return datasketch.MinHashLSH(**self.settings), MinHashLSH(**self.settings, path=self.folder / name)

    def key(self) -> Any:
        """One that can be; now and then one that is none."""
        return self.dice.choice(NO_KEYS if self.dice.random() < 0.03 else KEYS)

    def play(self) -> Counter[str]:
        """Make the calls. Raises AssertionError with what differs."""
        calls: list[Callable[[], None]] = [self.insert, self.insert, self.remove, self.insert_many, self.remove_many]
        calls += [self.merge, self.pickled, self.opened]
        made: Counter[str] = Counter()
        assert (self.ours.b, self.ours.r) == (self.theirs.b, self.theirs.r)
        for _ in range(CALLS_IN_A_ROUND):
            call = self.dice.choice(calls)
            call()
            made[call.__name__] += 1
            self.compare()
        return made

    def both(self, call: Callable[[Any], Any]) -> None:
        """The same call of both raises the same, if anything."""
        raised = []
        for index in (self.theirs, self.ours):
            try:
                call(index)
                raised.append("nothing")
            except (TypeError, ValueError) as error:
                raised.append(type(error).__name__)
        assert raised[0] == raised[1], raised

    def insert(self) -> None:
        key, own, checks = self.key(), self.dice.choice(self.pool), self.dice.random() < 0.7
        if key not in NO_KEYS and key in self.theirs and not checks:
            self.several.add(key)
        self.both(lambda index: index.insert(key, own, check_duplication=checks))

    def remove(self) -> None:
        key = self.key()
        if key in NO_KEYS or key not in self.several:
            self.both(lambda index: index.remove(key))

    def insert_many(self) -> None:
        size = self.dice.choice([1, 3, 1000])
        rows = [
            (key, self.dice.choice(self.pool)) for key in KEYS if key not in self.theirs and self.dice.random() < 0.5
        ]
        again = self.dice.random() < 0.3
        if again:
            self.several |= {key for key, _ in rows[:3]}

        def insert(index: Any) -> None:
            with index.insertion_session(buffer_size=size) as session:
                for key, own in rows:
                    session.insert(key, own)
                for key, own in rows[:3] if again else ():
                    session.insert(key, own, check_duplication=False)

        self.both(insert)

    def remove_many(self) -> None:
        size = self.dice.choice([1, 3, 1000])
        keys = [key for key in KEYS if key in self.theirs and key not in self.several and self.dice.random() < 0.5]

        def remove(index: Any) -> None:
            with index.deletion_session(buffer_size=size) as session:
                for key in {*keys}:
                    session.remove(key)

        self.both(remove)

    def merge(self) -> None:
        theirs, ours = self._pair("other")
        others = [(key, self.dice.choice(self.pool)) for key in {*KEYS} if self.dice.random() < 0.3]
        checks = self.dice.random() < 0.5
        if not checks:
            self.several |= {key for key, _ in others if key in self.theirs}
        with ours:
            for index in (theirs, ours):
                for key, own in others:
                    index.insert(key, own)
            self.both(lambda index: index.merge(theirs if index is self.theirs else ours, check_overlap=checks))
        for path in sorted((self.folder / "other").rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        (self.folder / "other").rmdir()

    def pickled(self) -> None:
        # Ours comes back for reading, as there is one writer; theirs is a copy.
        self.theirs = pickle.loads(pickle.dumps(self.theirs))
        with pickle.loads(pickle.dumps(self.ours)) as copied:
            assert [{*copied.query(each)} for each in self.pool] == [{*self.ours.query(each)} for each in self.pool]

    def opened(self) -> None:
        self.ours.close()
        self.ours = MinHashLSH(**self.settings, path=self.folder / "one")

    def compare(self) -> None:
        """What both say."""
        theirs, ours = self.theirs, self.ours
        for each in self.pool:
            found = ours.query(each)
            assert len(found) == len({*found}), "a key comes twice"
            assert {*found} == {*theirs.query(each)}, "query"
        assert [key in ours for key in KEYS] == [key in theirs for key in KEYS], "contains"
        assert {*ours.keys} == {*theirs.keys.keys()}, "keys"
        assert ours.is_empty() == theirs.is_empty(), "is_empty"
        assert _counts(ours.get_counts()) == _counts(theirs.get_counts()), "get_counts"
        some = [key for key in {*KEYS} if key in theirs and key not in self.several][:3]
        if some:
            assert _counts(ours.get_subset_counts(*some)) == _counts(theirs.get_subset_counts(*some)), "subset"
        asked = self.dice.sample(self.pool, 2)
        answers = []
        for index in (theirs, ours):
            for each in asked:
                index.add_to_query_buffer(each)
            answers.append({*index.collect_query_buffer()})
        assert answers[0] == answers[1], "the query buffer"


def _counts(found: list[dict[Any, int]]) -> list[list[int]]:
    return [sorted(each.values()) for each in found]


def random_calls(rounds: int, first: int) -> bool:
    """Whether all rounds go as they should."""
    made: Counter[str] = Counter()
    different = 0
    for seed in range(first, first + rounds):
        with tempfile.TemporaryDirectory() as folder:
            own = Round(seed, Path(folder))
            try:
                made += own.play()
            except AssertionError as error:
                different += 1
                print(f"DIFFERENT: {error}; {own.kind}, {own.settings}: --rounds 1 --seed {seed}")
            finally:
                own.ours.close()
    calls = ", ".join(f"{count} {name}" for name, count in sorted(made.items()))
    print(f"datasketch {datasketch.__version__}: {rounds} rounds, {calls}: {different} different")
    return not different


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=parse_count, default=200)
    parser.add_argument("--seed", type=parse_whole, default=0)
    arguments = parser.parse_args()
    return 0 if random_calls(arguments.rounds, arguments.seed) else 1


if __name__ == "__main__":
    sys.exit(main())
