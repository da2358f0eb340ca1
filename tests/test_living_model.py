"""The living store against a set of rows and brute force: any operations in any order, both ends of every answer."""

# mypy: disable-error-code="var-annotated"

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from living import rows_of

import fpstore
from fpstore.living.sizes import LivingSizes

STEPS = int(os.environ.get("FPSTORE_MODEL_STEPS", "30"))
RUNS = int(os.environ.get("FPSTORE_MODEL_RUNS", "30"))

# A few fingerprints far apart, and what lies a few bits from them: many near-duplicates, few different values.
CENTRES = [0, 2**64 - 1, 0x0123456789ABCDEF, 0xF0F0F0F000000000]
fingerprints = st.builds(
    lambda centre, bits: centre ^ sum(1 << bit for bit in bits),
    st.sampled_from(CENTRES),
    st.sets(st.sampled_from([0, 1, 17, 31, 32, 45, 62, 63]), max_size=5),
)
rows = st.lists(st.tuples(fingerprints, st.integers(0, 12)), max_size=30)
PLANS = ["paper-4", "flips-3:1,0,0", "flips-2:1,1"]
# What the numbers of the operations stand for, by the type of the ids: names that begin with one another, in another
# order than their numbers, with whatever bytes there are.
TEXTS = [
    "b",
    "",
    "a\0",
    "http://example.org/" + 40 * "é",
    "a",
    "ab",
    "\n",
    "aa",
    "日本",
    "A",
    "z" * 3000,
    "\x7f",
    "a\0b",
]
ID_OF: dict[Any, Any] = {
    None: lambda number: None,
    "uint64": lambda number: number,
    "string": lambda number: TEXTS[number],
    "bytes": lambda number: TEXTS[number].encode()[::-1],
}


def array(values: Any) -> np.ndarray:
    return np.array(list(values), dtype=np.uint64)


def apart(key: int, bits: int) -> int:
    """A key as a fingerprint of so many bits: its halves at both ends, so that order and distances are the same."""
    return key >> 32 << bits - 32 | key & 2**32 - 1


class LivingStore(RuleBasedStateMachine):
    """A writer and a reader of one store, beside the set of rows that it must hold. ids: what its ids are."""

    ids: Any = "uint64"
    bits = 64

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="fpstore-model-"))
        self.model: set[tuple[int, int | None]] = set()
        self.max_id: int | None = None
        self.writer: Any = None
        self.reader: Any = None

    @initialize(
        plan=st.sampled_from(PLANS),
        built=rows,
        codec=st.sampled_from(["gap", "xor", "rice", "raw"]),
        layout=st.sampled_from(["slots", "blocks"]),
        flush_rows=st.sampled_from([1, 20, 1 << 20]),
        names_growth=st.sampled_from([2, 8]),
        small=st.sampled_from([(1, 16), (8, 3), (1 << 20, 2), (1 << 20, 16)]),
        held_rows=st.sampled_from([1, 8, 1 << 21]),
    )
    def begin(
        self,
        plan: Any,
        built: Any,
        codec: Any,
        layout: Any,
        flush_rows: Any,
        names_growth: Any,
        small: Any,
        held_rows: Any,
    ) -> None:
        ids = self.ids
        built = self.named(built)
        if self.bits > 64:
            codec, layout, plan = "raw", "slots", plan if plan in PLANS[1:] else "balanced"
        self.sizes = LivingSizes(
            flush_rows=flush_rows,
            named_flush_rows=flush_rows,
            max_pending_rows=1 << 20,
            names_growth=names_growth,
            small_rows=small[0],
            small_segments=small[1],
            held_rows=held_rows,
        )
        if built:
            keys = self.array(key for key, _ in built)
            of = {"bits": self.bits, "plan": plan, "codec": codec, "layout": layout}
            fpstore.build(self.path, keys, ids=self.ids_of(built), id_type=ids or "uint64", **of).close()
            self.model = set(built)
            self.seen(built)
            self.writer = self.opened()
        else:
            fpstore.create(self.path, id_type=ids, bits=self.bits, plan=plan, codec=codec, layout=layout).close()
            self.writer = self.opened()
        self.reader = fpstore.open(self.path)

    def opened(self, durability: Any = "commit") -> Any:
        return fpstore.Store(self.path, "w", durability, self.sizes)

    @property
    def path(self) -> Path:
        return self.folder / "model.fpstore"

    def key(self, key: int) -> int:
        """A fingerprint of the store for one of 64 bits."""
        return key if self.bits == 64 else apart(key, self.bits)

    def array(self, keys: Any) -> Any:
        """Fingerprints as they are given."""
        return array(keys) if self.bits == 64 else list(keys)

    def named(self, given: Any) -> Any:
        """Rows of fingerprints of the store's width, with ids of its type in place of the numbers."""
        return [(self.key(key), ID_OF[self.ids](number)) for key, number in given]

    def ids_of(self, given: Any) -> Any:
        return [one for _, one in given] if self.ids else None

    def expect_max_id(self, store: Any) -> None:
        if self.ids in (None, "uint64"):
            assert store.max_id() == self.max_id
        else:
            with pytest.raises(ValueError, match="found ids that are names"):
                store.max_id()

    def seen(self, stored: Any) -> None:
        """These rows were stored: the largest id of all that ever were."""
        if self.ids == "uint64":
            self.max_id = max(
                [number for _, number in stored] + [self.max_id] * (self.max_id is not None), default=None
            )

    def columns(self, given: Any) -> Any:
        return {"fingerprints": self.array(key for key, _ in given), "ids": self.ids_of(given)}

    @rule(given=rows)
    def add(self, given: Any) -> None:
        given = self.named(given)
        self.writer.add(**self.columns(given))
        self.model |= set(given)
        self.seen(given)

    @rule(given=rows, k=st.integers(0, 3))
    def add_if_new(self, given: Any, k: Any) -> None:
        given = self.named(given)
        found = [addition.match for addition in self.writer.add_if_new(**self.columns(given), max_distance=k)]
        for row, match in zip(given, found, strict=True):
            key = row[0]
            near = [((key ^ other).bit_count(), other, other_id) for other, other_id in self.model]
            best = min((one for one in near if one[0] <= k), default=None, key=lambda one: one if self.ids else one[:2])
            if best is None:
                assert match is None
                self.model.add(row)
                self.seen([row])
            else:
                assert match is not None, (row, best)
                assert (match.distance, match.fingerprint, match.id) == best

    @rule(numbers=st.lists(st.integers(0, 12), max_size=3))
    def remove_ids(self, numbers: Any) -> None:
        if self.ids:
            gone = [ID_OF[self.ids](number) for number in numbers]
            self.writer.remove(ids=gone)
            self.model = {row for row in self.model if row[1] not in gone}

    @rule(keys=st.lists(fingerprints, max_size=5))
    def remove_fingerprints(self, keys: Any) -> None:
        keys = [self.key(key) for key in keys]
        self.writer.remove(fingerprints=self.array(keys))
        self.model = {row for row in self.model if row[0] not in keys}

    @rule(given=rows, numbers=st.lists(st.integers(0, 12), max_size=5))
    def remove_rows(self, given: Any, numbers: Any) -> None:
        if self.ids:
            there = sorted(self.model)
            given = self.named(given[:5]) + [there[7 * number % len(there)] for number in numbers if there]
            self.writer.remove(**self.columns(given))
            self.model -= set(given)

    @rule(given=rows)
    def upsert(self, given: Any) -> None:
        if self.ids:
            given = self.named(given)
            self.writer.upsert(**self.columns(given))
            for row in given:
                self.model = {other for other in self.model if other[1] != row[1]} | {row}
            self.seen(given)

    @rule(numbers=st.lists(st.integers(0, 12), max_size=6), by_writer=st.booleans())
    def lookup(self, numbers: Any, by_writer: Any) -> None:
        store = self.synced(by_writer)
        if self.ids:
            asked = [ID_OF[self.ids](number) for number in numbers]
            expected = sorted(((one, key) for key, one in self.model if one in asked))
            assert [(row.id, row.fingerprint) for row in store.lookup(asked)] == expected
        self.expect_max_id(store)

    @rule()
    def flush(self) -> None:
        self.writer._flush()

    @rule()
    def compact(self) -> None:
        self.writer.compact()
        assert len(self.writer._segments) <= 1

    @rule(durability=st.sampled_from(["commit", "batch"]))
    def reopen(self, durability: Any) -> None:
        self.writer.close()
        self.writer = self.opened(durability)

    @rule()
    def reopen_reader(self) -> None:
        self.reader.close()
        self.reader = fpstore.open(self.path)

    @rule(queries=st.lists(fingerprints, min_size=1, max_size=10), k=st.integers(0, 3), by_writer=st.booleans())
    def probe(self, queries: Any, k: Any, by_writer: Any) -> None:
        store = self.synced(by_writer)
        queries = [self.key(query) for query in queries]
        expected = (
            sorted(
                (index, (query ^ key).bit_count(), key, number)
                for index, query in enumerate(queries)
                for key, number in self.model
                if (query ^ key).bit_count() <= k
            )
            if self.ids
            else sorted(
                (index, (query ^ key).bit_count(), key)
                for index, query in enumerate(queries)
                for key, _ in self.model
                if (query ^ key).bit_count() <= k
            )
        )
        found = [
            (m.query, m.distance, m.fingerprint, *([m.id] if self.ids else []))
            for m in store.probe_many(self.array(queries), max_distance=k)
        ]
        assert found == expected
        first = [row[1:] for row in expected if row[0] == 0]
        assert [
            (m.distance, m.fingerprint, *([m.id] if self.ids else [])) for m in store.probe(queries[0], max_distance=k)
        ] == first
        assert store.contains_near(queries[0], max_distance=k) == bool(first)

    @rule(by_writer=st.booleans(), k=st.integers(0, 3))
    def pairs(self, by_writer: Any, k: Any) -> None:
        store = self.synced(by_writer)
        keys = sorted({key for key, _ in self.model})
        expected = [
            (first, second, (first ^ second).bit_count())
            for i, first in enumerate(keys)
            for second in keys[i + 1 :]
            if (first ^ second).bit_count() <= k
        ]
        assert sorted(pair for batch in store.pairs(max_distance=k) for pair in batch) == expected
        assert store.count_pairs(max_distance=k) == len(expected)
        if self.bits > 64 and self.ids:
            rows: Any = sorted(self.model, key=lambda row: str(row[1]) if self.ids == "string" else row[1] or 0)
            of_ids = [
                (one[1], other[1], (one[0] ^ other[0]).bit_count())
                for i, one in enumerate(rows)
                for other in rows[i + 1 :]
                if one[1] != other[1] and (one[0] ^ other[0]).bit_count() <= k
            ]
            assert sorted(p for batch in store.pairs(max_distance=k, of="ids") for p in batch) == sorted(of_ids)
            assert store.count_pairs(max_distance=k, of="ids") == len(of_ids)

    @rule(by_writer=st.booleans())
    def all_rows(self, by_writer: Any) -> None:
        store = self.synced(by_writer)
        found = [tuple(row) for rows in store.rows() for row in rows]
        assert len(found) == len(set(found))
        assert set(found) == self.model
        assert store.count() == len({key for key, _ in self.model})

    @rule(by_writer=st.booleans(), named=st.integers(1, 4))
    def spikes(self, by_writer: Any, named: Any) -> None:
        found = self.synced(by_writer).stats(spikes=named).spikes
        if not self.ids:
            assert found is None
            return
        counts = Counter(key for key, _ in self.model)
        assert (found.fingerprint_count, found.row_count) == (len(counts), len(self.model))
        shared = sorted((-count, key) for key, count in counts.items() if count > 1)
        assert [(-each.row_count, each.fingerprint) for each in found.largest] == shared[:named]

    @invariant()
    def a_probe_and_all_rows_tell_the_same(self) -> None:
        if self.writer is not None:
            assert set(rows_of(self.writer)) == self.model

    @rule()
    def copy(self) -> None:
        self.writer.copy(self.folder / "copy.fpstore")
        with fpstore.open(self.folder / "copy.fpstore") as copied:
            copied.verify()
            self.expect_max_id(copied)
            assert {tuple(row) for rows in copied.rows() for row in rows} == self.model
        shutil.rmtree(self.folder / "copy.fpstore")

    @rule()
    def verify(self) -> None:
        self.reader.verify()

    def synced(self, by_writer: Any) -> Any:
        """The store to ask: its own additions a writer sees at once, a reader when they are durable."""
        if not by_writer:
            self.writer.sync()
        return self.writer if by_writer else self.reader

    def teardown(self) -> None:
        for store in (self.writer, self.reader):
            if store is not None:
                store.close()
        shutil.rmtree(self.folder)


class LivingStoreOfStrings(LivingStore):
    ids = "string"


class LivingStoreOfBytes(LivingStore):
    ids = "bytes"


class LivingStoreWithoutIds(LivingStore):
    ids = None


class LivingStoreOfCodes(LivingStore):
    bits = 256


class LivingStoreOfCodesOfStrings(LivingStore):
    ids, bits = "string", 128


class LivingStoreOfCodesWithoutIds(LivingStore):
    ids, bits = None, 256


def case_of(machine: type[LivingStore]) -> Any:
    """The test of a machine. Each type of ids has runs of its own: where one machine drew them, some had hardly any."""
    machine.TestCase.settings = settings(max_examples=RUNS, stateful_step_count=STEPS, deadline=None)
    return pytest.mark.slow(machine.TestCase)


TestLivingStore = case_of(LivingStore)
TestLivingStoreOfStrings = case_of(LivingStoreOfStrings)
TestLivingStoreOfBytes = case_of(LivingStoreOfBytes)
TestLivingStoreWithoutIds = case_of(LivingStoreWithoutIds)
TestLivingStoreOfCodes = case_of(LivingStoreOfCodes)
TestLivingStoreOfCodesOfStrings = case_of(LivingStoreOfCodesOfStrings)
TestLivingStoreOfCodesWithoutIds = case_of(LivingStoreOfCodesWithoutIds)
