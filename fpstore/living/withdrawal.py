"""Takes single rows out of a store again, each with the one id it was stored with, and undoes jobs by that."""

import warnings
from collections.abc import Callable

import numpy as np

from fpstore import notes
from fpstore.disk import Folder
from fpstore.living import changes
from fpstore.living.changes import Change
from fpstore.living.snapshot import Snapshot
from fpstore.notes import Asker, Note
from fpstore.types import Ids, Keys


def row_removals(snapshot: Snapshot, keys: Keys, ids: Ids) -> list[Change]:
    """The changes after which each of these fingerprints lacks its id of ids, for one transaction; none if it does now.

    All of a fingerprint goes, and what stays of it comes again. Memory grows with the ids of these fingerprints.
    """
    found = snapshot.search(np.unique(keys), 0)
    found_ids = np.empty(0, dtype=np.uint64) if found.id is None else found.id
    wanted = set(zip(keys.tolist(), ids.tolist(), strict=True))
    rows = zip(found.fingerprint.tolist(), found_ids.tolist(), strict=True)
    goes = np.array([row in wanted for row in rows], dtype=bool)
    touched = np.unique(found.fingerprint[goes])
    stays = ~goes & np.isin(found.fingerprint, touched)
    number = snapshot.state.next_change
    removals = list(changes.split(changes.FINGERPRINTS_REMOVED, (touched,), number))
    number += len(removals)
    left = (found.fingerprint[stays], found_ids[stays])
    names = None if snapshot.names is None else snapshot.names.of(left[1])
    return [*removals, *changes.split(changes.ADDED, left, number, names)]


def undo(note: Note, home: Folder, asker: Asker | None, remove_rows: Callable[[Keys, Ids], None]) -> None:
    """Take out again, durably, what a job has stored that will never end, and forget it; home: the store's folder.

    Warns of it, unless the asker is that job begun again.
    """
    count = 0
    names = notes.open_names(home, note.store)
    if names is not None:
        with names:
            keys, ids = notes.stored_since(names, note.documents, note.first_id)
            remove_rows(keys, ids)
            notes.cut_back(names, note.documents)
            count = len(keys)
    notes.remove_note(home)
    if count and (asker is None or asker.folder != note.folder):
        undone = f"the job {note.folder}, which did not end and cannot go on, was undone: {count} documents"
        warnings.warn(f"{home.path}: {undone}", stacklevel=2)
