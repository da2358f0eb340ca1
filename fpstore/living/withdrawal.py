"""Undoes jobs that will never end: the rows that they stored are taken out of the store again."""

import warnings
from collections.abc import Callable

from fpstore import notes
from fpstore.disk import Folder
from fpstore.notes import Asker, Note
from fpstore.types import Ids, Keys

# So many rows are removed in one step, which takes memory for them.
ROWS_AT_ONCE = 1 << 20


def undo(note: Note, home: Folder, asker: Asker | None, remove_rows: Callable[[Keys, Ids], None]) -> None:
    """Take out again, durably, what a job has stored that will never end, and forget it; home: the store's folder.

    Warns of it, unless the asker is that job begun again.
    """
    count = 0
    names = notes.open_names(home, note.store)
    if names is not None:
        with names:
            keys, ids = notes.stored_since(names, note.documents, note.first_id)
            notes.drop_next_votes(names)
            for start in range(0, len(keys), ROWS_AT_ONCE):
                remove_rows(keys[start : start + ROWS_AT_ONCE], ids[start : start + ROWS_AT_ONCE])
            notes.cut_back(names, note.documents)
            count = len(keys)
    notes.remove_note(home)
    if count and (asker is None or asker.folder != note.folder):
        undone = f"the job {note.folder}, which did not end and cannot go on, was undone: {count} documents"
        warnings.warn(f"{home.path}: {undone}", stacklevel=2)
