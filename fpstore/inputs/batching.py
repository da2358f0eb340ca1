"""Owns how what was read is cut into batches of one size."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import numpy as np

from fpstore.inputs.records import Batch


def in_batches(parts: Iterator[Batch], rows: int) -> Generator[Batch]:
    """The same rows in batches of so many; only the last is smaller."""
    held: list[Batch] = []
    count = 0
    for part in parts:
        held.append(part)
        count += len(part.fingerprints)
        if count < rows:
            continue
        joined = _join(held)
        whole = count - count % rows
        for start in range(0, whole, rows):
            yield _slice(joined, start, start + rows)
        count -= whole
        held = [_slice(joined, whole, whole + count)] if count else []
    if held:
        yield _join(held)


def _join(parts: list[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    ids = [part.ids for part in parts if part.ids is not None]
    fingerprints = np.concatenate([part.fingerprints for part in parts])
    return Batch(fingerprints, np.concatenate(ids) if ids else None)


def _slice(batch: Batch, start: int, end: int) -> Batch:
    return Batch(batch.fingerprints[start:end], None if batch.ids is None else batch.ids[start:end])
