"""What came of a recovery: what is there, and what is lost."""

from dataclasses import asdict, dataclass
from typing import Any

from fpstore.checks import hexadecimal, id_in_json
from fpstore.errors import Damage
from fpstore.format import KEY_BITS
from fpstore.types import Kind


@dataclass(frozen=True)
class Recovered:
    """What a recovery has made, and what it could not.

    fingerprints, rows: of the new store. fingerprints_lost, ids_lost: by the counts of the segments; what was removed,
    or is in another segment too, may be among them, so no more than that is lost. segments_lost: those of which nothing
    could be read; where the catalog says how much they held it is counted above. log_records_lost: additions and
    removals that were in no segment yet, up to 8,000 rows each. removals_lost: records of older removals; what they
    removed may be back. without_ids: fingerprints that count as lost because no id of theirs is left. partial: those
    that are there and may lack ids; where a table lost fingerprints, those of them that another segment has too lack
    the ids that they had here, and have no name. unknown: what else may be lost, a sentence each. damage: every place
    that was found damaged, whether it cost anything or not. bits: of a fingerprint. kind: of the
    store; in one of signatures fingerprints are keys of bands.

    lost_ids, partial_ids: of a store of signatures, in place of without_ids and partial: the documents of which there
    were rows but no sketch, and those that are there and have no row in some band, so that they are not found by it.
    """

    fingerprints: int
    rows: int
    fingerprints_lost: int
    ids_lost: int
    segments_lost: int
    log_records_lost: int
    removals_lost: int
    without_ids: tuple[int, ...]
    partial: tuple[int, ...]
    unknown: tuple[str, ...]
    damage: tuple[Damage, ...]
    bits: int = KEY_BITS
    kind: Kind = "hamming"
    lost_ids: tuple[int | str | bytes, ...] = ()
    partial_ids: tuple[int | str | bytes, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing was lost."""
        counts = (self.fingerprints_lost, self.ids_lost, self.segments_lost, self.log_records_lost, self.removals_lost)
        return not any(counts) and not self.unknown

    def to_json(self) -> dict[str, Any]:
        """Plain values, by name; fingerprints that are named as hex digits."""
        listed = ("without_ids", "partial")
        named = {name: [hexadecimal(each, self.bits) for each in getattr(self, name)] for name in listed}
        ids = {name: [*map(id_in_json, getattr(self, name))] for name in ("lost_ids", "partial_ids")}
        return asdict(self) | named | ids | {"complete": self.complete}
