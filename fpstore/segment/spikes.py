"""Counts the rows that share a fingerprint: how many do, and which fingerprints the most have, the paper's spikes.

Spikes are empty pages, error pages, pages that ask for a login: many documents of one fingerprint that are near nothing
that anybody looks for.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fpstore.checks import hexadecimal, id_in_json, shown_id
from fpstore.fingerprints import as_numbers, as_strings, no_fingerprints, of_strings
from fpstore.format import KEY_BITS
from fpstore.types import KEY_NOUNS, Counts, Keys, Kind

# How many are named where nobody says how many.
NAMED = 10


@dataclass(frozen=True, slots=True)
class Spike:
    """A fingerprint, and how many rows have it.

    band, example_id: where it is the key of a band, of which, and the least id of those rows.
    """

    fingerprint: int
    row_count: int
    band: int | None = None
    example_id: int | str | bytes | None = None


@dataclass(frozen=True, slots=True)
class Sharing:
    """The fingerprints that `least` to `most` rows have, at least one of them: how many, and with how many rows."""

    least: int
    most: int
    fingerprint_count: int
    row_count: int


@dataclass(frozen=True)
class Spikes:
    """How rows share fingerprints.

    largest: of the fingerprints of two rows or more those of the most rows, of equally many the least fingerprint
    first. sharing: one entry for 1 row, for 2 to 3, for 4 to 7, and so on, where there are any. bits: of a fingerprint.
    kind: of the store; in one of signatures fingerprints are keys of bands, and rows documents that share one.
    """

    fingerprint_count: int
    row_count: int
    largest: tuple[Spike, ...]
    sharing: tuple[Sharing, ...]
    bits: int = KEY_BITS
    kind: Kind = "hamming"

    @property
    def shared_row_count(self) -> int:
        """Rows whose fingerprint another row has too."""
        return sum(each.row_count for each in self.sharing if each.least > 1)

    def to_json(self) -> dict[str, Any]:
        """Plain values, by name; fingerprints as hex digits."""
        return {
            "fingerprint_count": self.fingerprint_count,
            "row_count": self.row_count,
            "shared_row_count": self.shared_row_count,
            "largest": [self._spike_json(each) for each in self.largest],
            "sharing": [{name: getattr(each, name) for name in Sharing.__slots__} for each in self.sharing],
        }

    def _spike_json(self, spike: Spike) -> dict[str, Any]:
        named = {"fingerprint": hexadecimal(spike.fingerprint, self.bits), "row_count": spike.row_count}
        if self.kind == "hamming":
            return named
        return named | {"band": spike.band, "example_id": id_in_json(spike.example_id)}

    def to_text(self) -> list[str]:
        """Lines of at most 60 columns, but for ids that are names."""
        noun, rows = KEY_NOUNS[self.kind], "rows" if self.kind == "hamming" else "documents"
        lines = [f"{f'{rows} of one {noun}':<27}{f'{noun}s':>14}{rows:>14}"]
        for each in self.sharing:
            size = f"{each.least:,}" if each.least == each.most else f"{each.least:,} to {each.most:,}"
            lines.append(f"{size:<27}{each.fingerprint_count:>14,}{each.row_count:>14,}")
        if not self.largest:
            return [*lines, f"no {noun} is that of two {rows}"]
        lines.append(f"the most {rows} have:")
        width = max(len(f"{each.row_count:,}") for each in self.largest)
        for spike in self.largest:
            of = "" if spike.band is None else f", of band {spike.band}, such as id {shown_id(spike.example_id)}"
            lines.append(f"  {hexadecimal(spike.fingerprint, self.bits)}  {spike.row_count:>{width},} {rows}{of}")
        return lines


def count_spikes(chunks: Iterable[Keys], named: int = NAMED, bits: int = KEY_BITS) -> Spikes:
    """The spikes of rows whose fingerprints (in chunks) come in an order in which equal ones are neighbours.

    bits: of a fingerprint. named: how many are named. Holds one chunk at a time.
    """
    # By the bit length of the count, less 1.
    fingerprints, rows = np.zeros((2, 64), dtype=np.int64)
    best_keys, best_counts = as_strings(no_fingerprints(bits)), np.empty(0, dtype=np.int64)
    # What the last run was, which may go on.
    last, run = best_keys, 0

    def take(keys: Keys, counts: Counts) -> None:
        nonlocal best_keys, best_counts
        sizes = np.frexp(counts.astype(np.float64))[1] - 1  # no store has 2^53 rows
        np.add.at(fingerprints, sizes, 1)
        np.add.at(rows, sizes, counts)
        several = counts > 1
        best_keys = np.concatenate([best_keys, keys[several]])
        best_counts = np.concatenate([best_counts, counts[several]])
        first = np.lexsort((best_keys, -best_counts))[:named]
        best_keys, best_counts = best_keys[first], best_counts[first]

    for chunk in map(as_strings, chunks):
        if not len(chunk):
            continue
        starts = np.flatnonzero(np.concatenate([[True], chunk[1:] != chunk[:-1]]))
        counts = np.diff(starts, append=len(chunk))
        keys = chunk[starts]
        if run and keys[0] == last[0]:
            counts[0] += run
        elif run:
            take(last, np.array([run], dtype=np.int64))
        take(keys[:-1], counts[:-1])
        last, run = keys[-1:].copy(), int(counts[-1])
    if run:
        take(last, np.array([run], dtype=np.int64))
    return Spikes(
        int(fingerprints.sum()),
        int(rows.sum()),
        tuple(Spike(*each) for each in zip(as_numbers(of_strings(best_keys)), best_counts.tolist(), strict=True)),
        tuple(
            Sharing(1 << size, (2 << size) - 1, int(fingerprints[size]), int(rows[size]))
            for size in np.flatnonzero(fingerprints).tolist()
        ),
        bits,
    )
