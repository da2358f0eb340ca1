"""What the catalog holds: the state, the log of changes and older removals, written to a transaction of LMDB.

A transaction is told before it begins how much it may write, so that the file has room for it.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fpstore.living import changes
from fpstore.living.changes import Change, RemovedBefore
from fpstore.living.environment import DATABASE_BYTES, Environment, Record, Transaction
from fpstore.living.state import KEY, Settings, State, encode, new_identity

CHANGES = b"changes"
REMOVALS = b"removals"
# What the main database has: both of them, and the state.
MAIN_RECORDS = 3
# What LMDB takes for a record beside its bytes: the rest of its last page, and a node that leads to it.
RECORD_MARGIN = 4096 + 64
# The state takes no more beside its settings, and no more for each segment, as every number has at most 20 digits.
STATE_MARGIN = 512


class Copied(NamedTuple):
    """What one transaction reads. entries: how many records of the state, of changes and, of all, of removals."""

    transaction: int
    record: bytes
    entries: list[int]
    changes: list[Record]
    removals: list[Record]


@dataclass(frozen=True, eq=False)
class Log:
    """What a reader learns in one transaction. changes: in the order of their numbers.

    removed: the removals that are older than the log; None where they are those that the reader has.
    """

    state: State
    changes: tuple[Change, ...]
    removed: tuple[RemovedBefore, ...] | None


def first_state(settings: Settings, log: Log | None, max_id: int | None) -> State:
    """The state of a new catalog without segments: with the log of another, or with this largest id."""
    identity = new_identity()
    state = State(settings, (), 1, 1, max_id=max_id, identity=identity, origin=identity)
    if log is None:
        return state
    first, following, removed = log.state.first_change, log.state.next_change, len(log.removed or ())
    return dataclasses.replace(
        state, first_change=first, next_change=following, removal_records=removed, max_id=log.state.max_id
    )


def state_record(transaction: Transaction, environment: Environment) -> bytes:
    """The record of the state. Up to version 9 there was a database of that name, and it was there: it is refused."""
    record: bytes = transaction.get(KEY) or b""
    if len(record) != DATABASE_BYTES:
        return record
    return transaction.get(KEY, db=environment.database(KEY, transaction)) or b""


def write_whole(
    state: State, records: Sequence[Change], removed: Sequence[RemovedBefore], make: Any, transaction: Transaction
) -> bytes:
    """Make and fill the databases of a new file; the record of the state."""
    record = encode(state, transaction.id())
    transaction.put(KEY, record)
    write_changes(records, transaction, make(CHANGES))
    write_removed(removed, transaction, make(REMOVALS))
    return record


def bytes_to_write(state: State, records: Sequence[Change] = (), removed: Sequence[RemovedBefore] = ()) -> int:
    """The most that a transaction which writes these adds to the file: twice the state, and some pages."""
    rows = sum(change.size_bytes for change in records)
    rows += sum(8 * (len(block.columns) + 1) * len(block.numbers) for block in removed)
    beside = (len(records) + len(removed)) * RECORD_MARGIN
    of_state = len(state.settings.text) + STATE_MARGIN * (1 + len(state.segments) + len(state.strays))
    return 2 * of_state + rows + beside + (128 << 10)


def write_changes(records: Sequence[Change], transaction: Transaction, database: Any) -> None:
    """Add changes to the log."""
    for change in records:
        transaction.put(changes.key_of(change.number), changes.encode_change(change), db=database)


def write_removed(removed: Sequence[RemovedBefore], transaction: Transaction, database: Any) -> None:
    """Put removals that are older than the log into an empty database."""
    for index, block in enumerate(removed):
        transaction.put(changes.key_of(index), changes.encode_removed(block, index), db=database)
