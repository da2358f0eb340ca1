"""The tables of a plan from table 0's sorted keys: the same keys under each permutation, sorted.

Keys in memory are permuted, dealt out and sorted in one go; with threads and room for it, while the table before is
encoded. Keys in a spill file go through a sorter of their own.
"""

from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np

from fpstore._sort import GrowingKeys, PermutedParts, sort_permuted
from fpstore.building.rooms import Rooms
from fpstore.building.runs import KEY_BYTES
from fpstore.building.spill import CHUNK_BYTES, KeySorter, SortedKeys, interruptible
from fpstore.format import KEY_BITS
from fpstore.plans.permutation import Permutation
from fpstore.plans.plan import TablePlan
from fpstore.threads import Background, Threads, ahead
from fpstore.types import Keys
from fpstore.types import SortedKeys as AnyKeys

# Fewer keys than this for each thread are sorted before another one has begun.
MIN_KEYS_OF_A_THREAD = 1 << 18


def permuted_tables(
    keys0: AnyKeys,
    in_memory: Keys | None,
    tables: tuple[TablePlan, ...],
    directory: Path,
    memory_bytes: int,
    threads: int,
    bits: int = KEY_BITS,
    again: Callable[[], AnyKeys] | None = None,
    lender: Rooms | None = None,
) -> Generator[AnyKeys, None, None]:
    """The keys of each of tables, in order; each is good until the next is asked for.

    keys0: those of the first table; in_memory: the same, where they lie in one array (sorted, equal ones allowed).
    again: where they do not, what gives them for the other tables once the caller is done with keys0; or these do.
    bits: of a fingerprint. memory_bytes: the budget for the other tables, with spill files in directory. threads:
    beyond one, the next table is sorted while the caller has the one before, if two fit the budget. lender: of
    rooms, as for KeySorter.
    """
    first = Permutation(tables[0].prefix_mask, bits)
    others = [Permutation(table.prefix_mask, bits) for table in tables[1:]]
    if in_memory is None or not first.is_identity or in_memory.nbytes > memory_bytes:
        yield keys0
        if others and again is not None:
            keys0 = again()
        for permutation in others:
            with closing(_through_sorter(keys0, first, permutation, directory, memory_bytes, threads, lender)) as keys:
                yield keys
        return
    ahead = threads > 1 and 2 * in_memory.nbytes <= memory_bytes
    rooms = [np.empty(len(in_memory), dtype=np.uint64) for _ in range(min(1 + ahead, len(others)))]
    own = max(1, threads - 1) if ahead else threads  # the caller has one of them
    works = [_sorting(permutation, in_memory, own) for permutation in others]
    running: Background[int] | None = Background(partial(works[0], rooms[0])) if ahead and others else None
    yield keys0
    for index, work in enumerate(works):
        room = rooms[index % len(rooms)]
        count = running.result() if running else interruptible(partial(work, room), len(room))
        if running and index + 1 < len(works):
            running = Background(partial(works[index + 1], rooms[(index + 1) % len(rooms)]))
        with closing(SortedKeys([room[:count]], None, [], CHUNK_BYTES // KEY_BYTES)) as keys:
            yield keys


def sorted_permuted(fingerprints: Keys, permutation: Permutation, threads: int = 1) -> SortedKeys:
    """The keys of fingerprints (uint64[n], in any order), sorted and distinct, in memory: 8 bytes for each."""
    room = GrowingKeys(len(fingerprints))
    work = _sorting(permutation, fingerprints, threads)
    count = interruptible(lambda: work(np.asarray(room)), len(room))
    room.resize(count)
    return SortedKeys([np.asarray(room)], None, [], CHUNK_BYTES // KEY_BYTES)


def _sorting(permutation: Permutation, fingerprints: Keys, threads: int) -> Callable[[Keys], int]:
    """What fills an array with the keys of fingerprints, sorted and distinct, and returns how many there are."""
    mask, bits = permutation.prefix_mask, permutation.bits
    parts = min(threads, len(fingerprints) // MIN_KEYS_OF_A_THREAD)
    if parts < 2:
        return lambda keys: sort_permuted(mask, fingerprints, keys, bits)
    return lambda keys: _sort_in_parts(PermutedParts(mask, fingerprints, keys, bits, parts), parts)


def _sort_in_parts(work: PermutedParts, parts: int) -> int:
    """As sort_permuted, by so many threads."""
    with closing(Threads(parts)) as threads:
        threads.map(work.tally, range(parts))
        work.share()
        threads.map(work.deal, range(parts))
        threads.map(work.settle, range(parts))
        return work.gather()


def _through_sorter(
    keys0: AnyKeys,
    first: Permutation,
    permutation: Permutation,
    directory: Path,
    memory_bytes: int,
    threads: int,
    lender: Rooms | None,
) -> SortedKeys:
    sorter = KeySorter(directory, memory_bytes, keys0.count, threads=threads, distinct=True, rooms=lender)
    room = np.empty(0, dtype=np.uint64)
    chunks = (chunk for chunk in keys0.chunks())
    for chunk in chunks if threads == 1 else ahead(chunks):
        if len(room) < len(chunk) and not first.is_identity:
            room = np.empty(len(chunk), dtype=np.uint64)
        sorter.add(chunk if first.is_identity else first.invert(chunk, out=room[: len(chunk)]), permutation)
    return sorter.finish()
