"""Fingerprints in Arrow batches, asked of a store where they lie: a function for whatever has frames of these."""

from collections.abc import Iterable, Iterator
from typing import Any

import fpstore
from fpstore.cluster.searching import Seen, expect_seen
from fpstore.cluster.tasks import HELD
from fpstore.errors import PathLike, StoreChanged
from fpstore.query.matches import Matches
from fpstore.store import Store

# Rows that are asked together where a frame comes in batches of fewer: many at once cost less each.
ASKED_ROWS = 1 << 16


class Probing:
    """A function from a batch of rows to one of their matches, in the order of `probe_many`; it can be pickled.

    Of a pyarrow.RecordBatch it makes a RecordBatch, of a Table a Table: query, what query_column has of the row (its
    fingerprint by default), fingerprint, distance, and id where the store has ids. Every batch is asked of the state
    in which the store was when this was made: StoreChanged where there is no such state any more.
    """

    def __init__(
        self,
        store: PathLike,
        *,
        fingerprint_column: str = "fingerprint",
        query_column: str | None = None,
        max_distance: int | None = None,
        signed: bool = False,
    ) -> None:
        """Signed: fingerprints and ids of uint64 as int64, the same bits, and distances as int32, as in Spark."""
        self._fingerprint_column, self._query_column = fingerprint_column, query_column or fingerprint_column
        self._signed = signed
        with fpstore.open(store) as opened:
            self._path, self._seen, self._bits = opened.path.absolute(), Seen.of(opened._latest.state), opened.bits
            self._max_distance = opened._reach(max_distance)
            self._rest = self._arrow(opened.probe_many([], max_distance=max_distance)).schema.remove(0)

    def __call__(self, batch: Any) -> Any:
        """The matches of a batch. ValueError for columns that are not as `schema` has them."""
        self.schema(batch.schema)
        try:
            found = self._ask(batch)
        except StoreChanged:
            HELD.let_go()  # what was open may be from before
            found = self._ask(batch)
        query = batch.column(self._query_column).take(_rows(found))
        columns = [query, *self._arrow(found).columns[1:]]
        schema = self.schema(batch.schema)
        import pyarrow

        table = pyarrow.Table.from_arrays(columns, schema=schema)
        if isinstance(batch, pyarrow.Table):
            return table
        own = [column.combine_chunks() for column in table.columns]
        return pyarrow.RecordBatch.from_arrays(own, schema=schema)

    def all(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The matches of many RecordBatches, which are asked some together."""
        import pyarrow

        held: list[Any] = []
        for batch in batches:
            held.append(batch)
            if sum(map(len, held)) >= ASKED_ROWS:
                yield from self(pyarrow.Table.from_batches(held)).to_batches()
                held = []
        if held:
            yield from self(pyarrow.Table.from_batches(held)).to_batches()

    def schema(self, given: Any) -> Any:
        """The pyarrow.Schema of the matches of rows of that one.

        ValueError where a column is not there, and for fingerprints that are no integers of 64 bits.
        """
        import pyarrow

        for name in (self._fingerprint_column, self._query_column):
            if given.get_field_index(name) < 0:
                told = f"found {', '.join(given.names) or 'none'}"
                raise ValueError(f"columns: {told}, expected one column {name}")
        kind = given.field(self._fingerprint_column).type
        if self._bits <= 64 and kind not in (pyarrow.int64(), pyarrow.uint64()):
            told = f"found {kind}, expected integers of 64 bits, int64 (in Spark bigint) or uint64"
            raise ValueError(f"column {self._fingerprint_column}: {told}")
        query = given.field(self._query_column)
        return self._rest.insert(0, pyarrow.field("query", query.type))

    def _ask(self, batch: Any) -> Matches:
        store: Store = HELD.opened(self._path)
        expect_seen(self._path, self._seen, store._latest)
        found = store.probe_many(batch.select([self._fingerprint_column]), max_distance=self._max_distance, threads=1)
        expect_seen(self._path, self._seen, store._latest)
        return found

    def _arrow(self, found: Matches) -> Any:
        if not self._signed:
            return found.to_arrow()
        table = found.signed().to_arrow()
        import pyarrow

        return table.set_column(2, "distance", table.column("distance").cast(pyarrow.int32()))


def _rows(found: Matches) -> Any:
    import pyarrow

    return pyarrow.array(found.query)
