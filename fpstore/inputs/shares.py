"""Owns what inputs of fingerprints are cut into for others to read: files, and some rows of those of numbers."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fpstore.inputs import remote
from fpstore.inputs.cells import MAX_VALUE
from fpstore.inputs.columns import Asked
from fpstore.inputs.compressed import display_name
from fpstore.inputs.errors import BadInput, Faults
from fpstore.inputs.numeric import row_count
from fpstore.inputs.records import Batch, Piece, Request
from fpstore.inputs.sources import Source, is_stream
from fpstore.origin import Origin, Record
from fpstore.text import DEFAULT_RECIPE, Recipe
from fpstore.types import ByteOrder


@dataclass(frozen=True)
class Share:
    """A file of fingerprints, or some rows of it; it can be pickled. only: the first row, and the one after the last.

    path: from wherever a worker is; shown: as it was given, which is what messages say. file: its number among all.
    stamp: its size, and when it was changed last, or what one elsewhere says of itself.
    record: the recipe that the fingerprints are by, as far as it was said.
    """

    file: int
    path: str
    shown: str
    format: str
    only: tuple[int, int] | None
    stamp: tuple[int, int | str]
    asked: Asked
    fingerprint_format: str
    byte_order: ByteOrder
    bits: int
    json_field: str | None
    record: Record | None

    def request(self, skip_bad: bool, rows: int) -> Request:
        """What is asked of the file; rows: of a batch."""
        return Request(
            asked=self.asked,
            recipe=DEFAULT_RECIPE,
            rows=rows,
            faults=Faults(skip_bad),
            on_bytes=None,
            fingerprint_format=self.fingerprint_format,
            byte_order=self.byte_order,
            bits=self.bits,
            json_field=self.json_field,
            only=self.only,
            threads=1,
            takes_fingerprints=True,
            origin=Origin(self.record, "recipe (--recipe)"),
        )

    def throughout(self, batches: Iterator[Batch]) -> Generator[Batch]:
        """The batches, read of the file. BadInput where it is not the same before the first and behind the last."""
        with self.as_given():
            self.expect_same()
            yield from batches
            self.expect_same()

    @contextmanager
    def as_given(self) -> Iterator[None]:
        """A context whose errors name the file as it was given."""
        try:
            yield
        except BadInput as error:
            if error.args[0].startswith(self.path):
                error.args = (self.shown + error.args[0][len(self.path) :],)
            if error.source == self.path:
                error.source = self.shown
            raise
        except OSError as error:
            if error.filename == self.path:
                raise OSError(error.errno, error.strerror, self.shown) from None
            raise

    def told(self) -> dict[str, Any]:
        """What it is, by whatever name the file was given."""
        return {name: value for name, value in asdict(self).items() if name != "shown"}

    def expect_same(self) -> None:
        """BadInput where the file is not what it was when it was shared out."""
        found = remote.stamp_of(self.path)
        if found != self.stamp:
            told = f"found {_shown(found)}, expected {_shown(self.stamp)}: it has changed since the work was shared out"
            raise BadInput(f"{self.path}: {told}")


def shares_of(sources: Sequence[Source], recipe: Recipe | None, request: Request, most_rows: int) -> list[Share]:
    """What `Reader.shares` has. recipe: of texts, where there are any."""
    found = []
    for file, source in enumerate(sources):
        if is_stream(source.path):
            told = "found standard input, expected files, which every worker can open; without workers it is read here"
            raise ValueError(f"inputs: {told}")
        if recipe is not None:
            told = "found texts, expected fingerprints, as `fpstore fingerprint` writes; without workers both are read"
            raise ValueError(f"{display_name(source.path)}: {told}")
        path = source.path if remote.is_remote(source.path) else os.path.abspath(source.path)
        about = (
            remote.stamp_of(path),
            request.asked,
            request.fingerprint_format,
            request.byte_order,
            request.bits,
            request.json_field,
            request.origin.record,
        )
        rows = None if remote.is_remote(path) else row_count(path, source.format, request.bits)
        stretches: list[tuple[int, int] | None] = [None]
        if rows is not None and rows > most_rows:
            count = -(-rows // most_rows)
            stretches = [(rows * i // count, rows * (i + 1) // count) for i in range(count)]
        found += [Share(file, path, display_name(source.path), source.format, only, *about) for only in stretches]
    return found


def reads_ids(request: Request) -> bool | None:
    """Whether the ids of what was read are those that it holds; None where it has no row that would tell."""
    asked = request.asked
    if asked.ids == "auto" and asked.id is None:
        return request.decided.ids
    return asked.ids == "column" or asked.id is not None


def batch_of(piece: Piece, request: Request, first_id: int) -> Batch:
    """The piece, with the numbers of its rows as ids where it has none and these are asked for."""
    by_row = piece.ids is None and request.asked.ids in ("auto", "row")
    return Batch(piece.fingerprints, _row_ids(piece.rows, first_id) if by_row else piece.ids)


def _row_ids(rows: npt.NDArray[np.uint64], first: int) -> npt.NDArray[np.uint64]:
    expect_id(first + int(rows[-1]))
    return rows + np.uint64(first)


def expect_id(last: int) -> None:
    """ValueError where the last row has a number that no id is."""
    if last > MAX_VALUE:
        raise ValueError(
            f"first_id: found id {last} for a row, expected at most 2**64 - 1: a smaller first (--ids from:N)"
        )


def _shown(stamp: tuple[int, int | str]) -> str:
    size, changed = stamp
    return f"{size} bytes, " + (f"changed at {changed} ns" if isinstance(changed, int) else f"state {changed}")
