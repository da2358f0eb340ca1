"""Owns the deduplication of frames: rows that have a fingerprint or a text, and an id by which they are in order.

Workers make the fingerprints, batch by batch; the driver decides, by fingerprints and ids alone; workers then tell what
became of each row, batch by batch. The rows and their other columns stay where they are.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from fpstore.format import WIDE_BITS
from fpstore.living.memory import Memory
from fpstore.query.leaders import Leaders
from fpstore.text import DEFAULT_RECIPE, Recipe
from fpstore.text.confirm import UNCONFIRMED_DISTANCE
from fpstore.text.deduplication import measured_apart
from fpstore.text.recipe import expect_fingerprints
from fpstore.types import Array, Keys

# What a frame gets: the number of the cluster, from 0 on in the order of the kept ones; the id of the row that is kept
# of it; and whether the row is another one.
ADDED = ("cluster_id", "representative_id", "is_duplicate")
__all__ = ["ADDED", "UNCONFIRMED_DISTANCE", "Keyed", "Told", "decided"]


class Keyed:
    """A function from a pyarrow.RecordBatch, or Table, to one of ids and fingerprints; it can be pickled."""

    def __init__(
        self,
        *,
        id_column: str = "id",
        fingerprint_column: str | None = None,
        text_column: str | None = None,
        recipe: Recipe | None = None,
    ) -> None:
        """text_column: of texts that become fingerprints by the recipe, DEFAULT_RECIPE where None.

        Without it fingerprint_column has them, `fingerprint` where None. ValueError for both, for a recipe without
        texts, and for one of 128 or 256 bits; RecipeError for one that makes no fingerprints.
        """
        if text_column is not None and fingerprint_column is not None:
            raise ValueError("fingerprint_column and text_column: found both, expected one: fingerprints or texts")
        if text_column is None and recipe is not None:
            raise ValueError("recipe: found one without text_column, expected it with texts, which it is for")
        self.id_column = id_column
        self._recipe = None if text_column is None else expect_fingerprints(recipe or DEFAULT_RECIPE)
        if self._recipe is not None and self._recipe.bits in WIDE_BITS:
            told = f"found recipe {self._recipe.name}, of {self._recipe.bits} bits, expected one of 64"
            raise ValueError(f"recipe: {told}: a column of int64 has the fingerprints")
        self._column = text_column or fingerprint_column or "fingerprint"

    @property
    def columns(self) -> list[str]:
        """Those that are read."""
        return [self.id_column, self._column]

    def expect(self, schema: Any) -> None:
        """ValueError where rows of a pyarrow.Schema have no such columns, or these are of other types."""
        import pyarrow

        types = pyarrow.types
        for name in self.columns:
            if schema.names.count(name) != 1:
                raise ValueError(f"columns: found {', '.join(schema.names) or 'none'}, expected one column {name}")
        for name in ADDED:
            if name in schema.names:
                raise ValueError(f"columns: found {name}, expected none of that name, which is to be added")
        given = schema.field(self.id_column).type
        if not types.is_integer(given):
            raise ValueError(f"column {self.id_column}: found {given}, expected integers, by which rows are in order")
        given = schema.field(self._column).type
        if self._recipe is not None and not (types.is_string(given) or types.is_large_string(given)):
            raise ValueError(f"column {self._column}: found {given}, expected texts")
        if self._recipe is None and given not in (pyarrow.int64(), pyarrow.uint64()):
            told = f"found {given}, expected integers of 64 bits, int64 (in Spark bigint) or uint64"
            raise ValueError(f"column {self._column}: {told}")

    def __call__(self, batch: Any) -> Any:
        """The ids of a batch, and the fingerprints, as int64, the same bits."""
        import pyarrow

        self.expect(batch.schema)
        for name in self.columns:
            if batch.column(name).null_count:
                raise ValueError(f"column {name}: found a null, expected a value in each row")
        given = batch.column(self._column)
        if self._recipe is None:
            keys = np.asarray(given.to_numpy(zero_copy_only=False) if hasattr(given, "type") else given)
        else:
            keys = measured_apart(self._recipe, given.to_pylist(), 1).fingerprints
        columns = [batch.column(self.id_column), pyarrow.array(keys.view(np.int64))]
        return pyarrow.Table.from_arrays(columns, names=["id", "fingerprint"])

    def all(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same of many RecordBatches."""
        for batch in batches:
            yield from self(batch).to_batches()


class Told:
    """A function from a RecordBatch, or Table, to the same with the columns ADDED; it can be pickled.

    ids: of all rows, increasing, and of each the number of its cluster and the id of the row that is kept.
    """

    def __init__(self, id_column: str, ids: Array, cluster: Array, representative: Array) -> None:
        self._id_column = id_column
        self._ids, self._cluster, self._representative = ids, cluster, representative

    def __call__(self, batch: Any) -> Any:
        """The batch with what became of its rows. ValueError for a row that was not there when all were read."""
        import pyarrow

        ids = np.asarray(batch.column(self._id_column)).astype(self._ids.dtype, copy=False)
        places = np.minimum(self._ids.searchsorted(ids), max(len(self._ids) - 1, 0))
        strange = np.flatnonzero(self._ids[places] != ids) if len(self._ids) else np.arange(len(ids))
        if len(strange):
            told = (
                "which was not there when all were read, expected the same rows; have the frame kept (cache, persist)"
            )
            raise ValueError(f"column {self._id_column}: found {ids[strange[0]]}, {told}")
        schema = self.schema(batch.schema)
        kept = self._representative[places]
        columns = [*batch.columns, *map(pyarrow.array, (self._cluster[places], kept, kept != ids))]
        columns = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        return type(batch).from_arrays(columns, schema=schema)

    def all(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The same of many RecordBatches."""
        return map(self, batches)

    def schema(self, given: Any) -> Any:
        """The pyarrow.Schema of what comes out of rows of that one."""
        import pyarrow

        types = (pyarrow.int64(), given.field(self._id_column).type, pyarrow.bool_())
        for name, kind in zip(ADDED, types, strict=True):
            given = given.append(pyarrow.field(name, kind))
        return given


def decided(keyed: Keyed, found: Sequence[Any], max_distance: int) -> Told:
    """What becomes of rows, decided in the order of their ids: each is kept that is near none that was kept before.

    found: what keyed makes of all rows. ValueError for an id that two rows have. Takes 40 bytes for each row, and some
    90 for each that is kept.
    """
    # Of the type that they have: together with another, integers of 64 bits without a sign would be rounded.
    ids: Array = np.concatenate([np.asarray(each.column(0)) for each in found] or [np.empty(0, dtype=np.int64)])
    every = [np.asarray(each.column(1)).view(np.uint64) for each in found]
    keys: Keys = np.concatenate(every or [np.empty(0, dtype=np.uint64)])
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    twice = np.flatnonzero(ids[1:] == ids[:-1])
    if len(twice):
        told = f"found {ids[twice[0]]} in two rows, expected ids that differ: they say which row came first"
        raise ValueError(f"column {keyed.id_column}: {told}")
    verdicts = Leaders(Memory(max_distance, len(ids)), max_distance, 0).decide(keys[order])
    cluster = verdicts["id"].astype(np.int64)
    return Told(keyed.id_column, ids, cluster, ids[verdicts["leads"]][cluster])
