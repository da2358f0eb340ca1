"""What the tests of the living store share: keys, and ways to read what a store holds."""

import errno
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np
from helpers import uniform

import fpstore
from fpstore.living.sizes import LivingSizes
from fpstore.types import Durability, Ids

SOME = uniform(300, np.random.default_rng(1))
MORE = uniform(300, np.random.default_rng(2))


def store_of_some(path: Path) -> Path:
    """A store of SOME with row numbers."""
    fpstore.build(path, SOME, plan="paper-4").close()
    return path


def store_without_ids(path: Path) -> Path:
    """An empty one."""
    fpstore.create(path, id_type=None, plan="paper-4").close()
    return path


def writer_of(path: Path, durability: Durability = "commit", **sizes: int) -> fpstore.Store:
    """The store at path, open for writing, with other sizes than a store has; no segment is small unless told so."""
    rows = sizes.get("flush_rows", 1 << 16)
    given = {"small_rows": 1, "growth": 9, "named_flush_rows": rows, "max_pending_rows": 4 * rows, "batch_rows": rows}
    return fpstore.Store(path, "w", durability, LivingSizes(**given | sizes))


def rows_of(store: fpstore.Store) -> list[tuple[int, int | None]]:
    """What a store holds, in order. It is asked by rows and by probes, which must agree."""
    found: list[tuple[int, int | None]] = []
    if store.bits > 64:
        found += ((row.fingerprint, row.id) for rows in store.rows() for row in rows)
        expect_probes_of_codes(store, found)
        return found
    for keys, ids in ((rows.fingerprint, rows.id) for rows in store.rows()):
        found += zip(keys.tolist(), [None] * len(keys) if ids is None else ids.tolist(), strict=True)
    expect_probes(store, found, [*SOME.tolist(), *MORE.tolist()])
    return found


def expect_probes_of_codes(store: fpstore.Store, rows: Sequence[tuple[int, int | None]]) -> None:
    """As expect_probes, of wide codes as numbers: some of those stored, and some near them."""
    keys = sorted({key for key, _ in rows})[:: max(1, len(rows) // 20)]
    asked = [*keys, *(key ^ (1 << 70 | 1) for key in keys[::3]), *(key ^ 0xFF << 50 for key in keys[::5])]
    found = [tuple(match) for match in store.probe_many(asked)]
    expected = []
    for index, query in enumerate(asked):
        near = [(index, key, (query ^ key).bit_count(), id) for key, id in rows]
        near = [row for row in near if row[2] <= store.max_distance]
        expected += sorted(near, key=lambda row: (row[2], row[1], row[3] if store.id_type else 0))
    assert found == expected


def expect_probes(store: fpstore.Store, rows: Sequence[tuple[int, int | None]], known: Sequence[int] = ()) -> None:
    """A probe finds these rows and no others, asked for all of them, for known fingerprints and for some near these."""
    stored = sorted(set(rows), key=lambda row: row[: 1 + (row[1] is not None)])
    assert len(stored) == len(rows)
    asked = np.array(sorted({key for key, _ in rows} | {*known}), dtype=np.uint64)
    asked = np.concatenate([asked, asked[::7] ^ np.uint64(1 << 40 | 1), asked[::11] ^ np.uint64(0xFF << 20)])
    keys = np.array([key for key, _ in stored], dtype=np.uint64)
    apart = np.bitwise_count(asked[:, None] ^ keys[None, :])
    query, row = np.nonzero(apart <= store.max_distance)
    order = np.lexsort((row, apart[query, row], query))
    expected = [(int(q), int(apart[q, r]), *stored[r]) for q, r in zip(query[order], row[order], strict=True)]
    found = store.probe_many(asked)
    ids = [None] * len(found) if found.id is None else found.id.tolist()
    columns = (found.query.tolist(), found.distance.tolist(), found.fingerprint.tolist(), ids)
    assert list(zip(*columns, strict=True)) == expected
    for key in asked[:3].tolist():
        assert store.contains_near(key, max_distance=0) == (key in {key for key, _ in stored})


def keys_of(store: fpstore.Store) -> list[int]:
    return [key for key, _ in rows_of(store)]


def ids_from(first: int, count: int) -> Ids:
    return np.arange(first, first + count, dtype=np.uint64)


def run_python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    code = f"import sys, numpy as np, fpstore\n{code}"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )


def no_space(*_args: object, **_options: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")
