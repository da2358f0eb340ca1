"""Reads wide fingerprints, of 128 or 256 bits: lines of `hex`, with an id behind a tab or without, and `npy`.

Other formats do not hold them yet, which is said before anything is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fpstore.inputs.columns import Asked, Decided, with_ids
from fpstore.inputs.compressed import Lines, display_name, open_stream
from fpstore.inputs.errors import BadInput, Faults, shown
from fpstore.inputs.sources import inputs_of, total_bytes

WIDE_BITS = (128, 256)
WIDE_FORMATS = ("hex", "npy")
ROWS_AT_ONCE = 1 << 14

Codes = npt.NDArray[np.uint64]
_ID = re.compile(rb"[0-9]{1,20}")


def parse_wide(text: str, bits: int) -> int:
    """A fingerprint that was typed: every hexadecimal digit of it, with 0x before or without. Raises BadInput."""
    digits = text.strip().lower().removeprefix("0x")
    if len(digits) != bits // 4 or not re.fullmatch("[0-9a-f]*", digits):
        raise BadInput(f"found {shown(text)}, expected {bits // 4} hexadecimal digits ({bits} bits)")
    return int(digits, 16)


def codes_of(values: Sequence[int], bits: int) -> Codes:
    """Fingerprints as words: uint64[n, bits / 64]."""
    data = b"".join(value.to_bytes(bits // 8, "big") for value in values)
    return np.frombuffer(data, dtype=">u8").astype(np.uint64).reshape(-1, bits // 64)


class WideReader:
    """The rows of several sources: pieces of codes, uint64[n, words], and ids, uint64[n] or None.

    ids: "auto", those behind tabs where the first line has one, else the row's number; "column"; "row", from first_id
    on; None.
    total_bytes: of all sources, where it is known. rows, files: that were read so far.
    """

    def __init__(
        self,
        sources: Sequence[str | Path],
        bits: int,
        *,
        format: str = "auto",
        ids: str | None = "auto",
        first_id: int = 0,
        on_bytes: Callable[[int], object] | None = None,
    ) -> None:
        """Raises ValueError for a format that holds no wide fingerprints, and what inputs_of does."""
        self._inputs, self._bits, self._ids, self._on_bytes = inputs_of(sources, format), bits, ids, on_bytes
        self._first_id, self.total_bytes = first_id, total_bytes(self._inputs)
        self._asked, self._decided = Asked(ids=ids), Decided()
        self.rows = self.files = 0
        for one in self._inputs:
            for kind in one.kinds:
                if kind not in WIDE_FORMATS:
                    told = f"{display_name(one.path)}: format {kind}: not there yet for fingerprints of {bits} bits"
                    raise ValueError(f"{told}, expected {' or '.join(WIDE_FORMATS)}")

    def __iter__(self) -> Iterator[tuple[Codes, npt.NDArray[np.uint64] | None]]:
        for one in self._inputs:
            for source in one.files(Faults(False)):
                self.files += 1
                read = self._npy if source.format == "npy" else self._hex
                for codes, ids in read(source.path):
                    if ids is None and self._ids is not None:
                        first = self._first_id + self.rows
                        ids = np.arange(first, first + len(codes), dtype=np.uint64)
                    self.rows += len(codes)
                    yield codes, ids

    def _hex(self, path: str) -> Iterator[tuple[Codes, npt.NDArray[np.uint64] | None]]:
        with open_stream(path, self._on_bytes) as stream:
            lines, has_ids = Lines(stream), False
            first_has_tab: bool | None = None
            blank = 0  # the first blank line behind the last one that was read
            keys: list[int] = []
            ids: list[int] = []
            for line in lines:
                if not line.strip():
                    blank = blank or lines.number
                    continue
                where = f"{stream.name}, line {lines.number}"
                written, tab, id = line.rstrip(b"\r\n").partition(b"\t")
                if first_has_tab is None:
                    first_has_tab, blank = bool(tab), 0
                    has_ids = self._expects_ids(first_has_tab, stream.name, where)
                if blank:
                    told = f"{stream.name}, line {blank}: found a blank line before others, expected a fingerprint"
                    raise BadInput(told, source=stream.name, line=blank)
                if bool(tab) != first_has_tab:
                    found, expected = ("a tab", "none") if tab else ("no tab", "a fingerprint, a tab and an id")
                    told = f"{where}: found {found}, expected {expected}, as in the first line"
                    raise BadInput(told, source=stream.name, line=lines.number)
                try:
                    keys.append(parse_wide(written.decode("ascii", "replace"), self._bits))
                except BadInput as error:
                    raise BadInput(f"{where}: {error}", source=stream.name, line=lines.number) from None
                if has_ids:
                    if not _ID.fullmatch(id) or int(id) >> 64:
                        told = f"{where}: found id {shown(id.decode('utf-8', 'replace'))}, expected a decimal number"
                        raise BadInput(f"{told} from 0 to 2**64 - 1", source=stream.name, line=lines.number)
                    ids.append(int(id))
                if len(keys) == ROWS_AT_ONCE:
                    yield codes_of(keys, self._bits), np.array(ids, dtype=np.uint64) if has_ids else None
                    keys, ids = [], []
            if keys:
                yield codes_of(keys, self._bits), np.array(ids, dtype=np.uint64) if has_ids else None

    def _expects_ids(self, has_tab: bool, name: str, where: str) -> bool:
        if self._ids == "column" and not has_tab:
            raise BadInput(f"{where}: found no tab, expected a fingerprint, a tab and an id")
        return with_ids(self._asked, self._decided, has_tab, name)

    def _npy(self, path: str) -> Iterator[tuple[Codes, None]]:
        words = self._bits // 64
        if self._ids == "column":
            raise BadInput(f"{display_name(path)}: found no ids in a .npy file, expected hex, or no --ids column")
        with open_stream(path, self._on_bytes) as stream:
            try:
                array = np.lib.format.read_array(stream.reader, allow_pickle=False)
            except (ValueError, SyntaxError, TypeError, EOFError, MemoryError) as error:
                reason = str(error).partition("\n")[0]
                raise BadInput(f"{stream.name}: found no array ({reason}), expected a .npy file") from None
            if stream.reader.read(1):
                raise BadInput(f"{stream.name}: found bytes behind the array, expected those of its header")
            with_ids(self._asked, self._decided, False, stream.name)
            forms = {np.dtype(np.uint64): words, np.dtype(np.int64): words, np.dtype(np.uint8): self._bits // 8}
            if array.ndim != 2 or forms.get(array.dtype) != array.shape[1]:
                found = f"{array.dtype} of shape {list(array.shape)}"
                raise BadInput(
                    f"{stream.name}: found {found}, expected uint64[n, {words}] or uint8[n, {self._bits // 8}]"
                )
            for first in range(0, len(array), ROWS_AT_ONCE):
                piece = np.ascontiguousarray(array[first : first + ROWS_AT_ONCE])
                narrow = piece.dtype == np.uint8
                yield piece.view(">u8").astype(np.uint64) if narrow else piece.view(np.uint64), None
