"""By which recipe fingerprints were made, where what they come in says so: a column of Arrow's, or of a Parquet file.

Such a column has the recipe of its fingerprints in the metadata of its field, as JSON, as the catalog of a store keeps
it, and of how many bits they are where that is not 64. Slices, tables and files of it keep that; the bare values have
lost it, and nothing is assumed of those.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fpstore.errors import PathLike, RecipeError

# The keys of the metadata; the second where fingerprints have other bits than their numbers, and than 64.
KEY, BITS_KEY = b"fpstore.recipe", b"fpstore.bits"
# How many bits recipes make that say nothing of it.
RECIPE_BITS = 64
ADVICE = "fingerprints of two recipes tell nothing of each other: make them by the same one, or give each a store"
_SHOWN = 60

Record = Mapping[str, Any]


class Made(NamedTuple):
    """What a table says of its fingerprints: by which recipe they are, None where nobody said, and their bits."""

    recipe: Record | None
    bits: int

    @property
    def metadata(self) -> dict[bytes, bytes] | None:
        """That of a field of them."""
        return metadata_of(self.recipe, self.bits)


class Origin:
    """By which recipe the fingerprints are that come together. record: as a catalog keeps it, None where nobody said.

    said_by: who said it. Where nobody did, the first column that does decides for those after it.
    """

    __slots__ = ("_check", "record", "said_by")

    def __init__(
        self, record: Record | None = None, said_by: PathLike = "", check: Callable[[Record], object] | None = None
    ) -> None:
        """check: raises ValueError for a record that is no recipe."""
        self.record = record
        self.said_by = said_by
        self._check = check

    def meet(self, field: Any, where: str) -> None:
        """Compare with what a field of Arrow's says, if anything. RecipeError for another recipe, or what is none."""
        found = said(field, where)
        if found is None:
            return
        if self.record is None:
            self._take(found, where)
        elif found != self.record:
            raise RecipeError(
                f"{where}: found fingerprints by recipe {_told(found, self.record)}, expected those by"
                f" {_told(self.record, found)}, as {self.said_by} says; {ADVICE}"
            )

    def _take(self, found: Record, where: str) -> None:
        if self._check is not None:
            try:
                self._check(found)
            except ValueError as error:
                raise RecipeError(f"{where}: {error}") from None
        self.record, self.said_by = found, where


def said(field: Any, where: str) -> Record | None:
    """What a field of Arrow's says, None where it says nothing. RecipeError for what can be no recipe."""
    data = (field.metadata or {}).get(KEY)
    if data is None:
        return None
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        shown = repr(data[:_SHOWN])
        raise RecipeError(f"{where}: found {shown} as its {KEY.decode()}, expected a recipe as a JSON object")
    return record


def bits_of(record: Record) -> Any:
    """How many bits a record says that its fingerprints have; who checks the record checks what that is."""
    return record.get("bits", RECIPE_BITS)


def metadata_of(record: Record | None, bits: int = RECIPE_BITS) -> dict[bytes, bytes] | None:
    """The metadata of a field of fingerprints of so many bits by a recipe; None where nobody said by which."""
    of_recipe = {} if record is None else {KEY: json.dumps(record, sort_keys=True, separators=(",", ":")).encode()}
    of_bits = {} if bits == RECIPE_BITS else {BITS_KEY: str(bits).encode()}
    return {**of_recipe, **of_bits} or None


def expect_bits_said(field: Any, bits: int, where: str) -> None:
    """ValueError for a field of Arrow's that says that its fingerprints have other bits than so many."""
    data = (field.metadata or {}).get(BITS_KEY, b"")
    if data not in (b"", str(bits).encode()):
        found = data[:_SHOWN].decode("ascii", "backslashreplace")
        raise ValueError(f"{where}: found fingerprints of {found} bits, as it says, expected {bits}")


def _told(record: Record, other: Record) -> str:
    """The name of a recipe; where another one has that too, what else it has that the other has not."""
    name = f"{record.get('name')!s:.40}"
    if record.get("name") != other.get("name"):
        return name
    field = next(each for each in sorted({*record, *other}) if record.get(each) != other.get(each))
    return f"{name} with {field:.40} {record.get(field)!r:.40}"
