"""Undoes jobs that will never end: the rows that they stored are taken out of the store again."""

import warnings
from collections.abc import Callable

from fpstore import notes
from fpstore.disk import Folder
from fpstore.names.column import Names, as_names
from fpstore.notes import Asker, Note
from fpstore.types import Ids, Keys


def undo(
    note: Note, home: Folder, asker: Asker | None, remove_rows: Callable[[Keys, Ids | Names], None], *, named: bool
) -> None:
    """Take out again, durably, what a job has stored that will never end, and forget it; home: the store's folder.

    named: whether ids are names. Warns of it, unless the asker is that job begun again.
    """
    count = 0
    record = notes.open_record(home, note.store)
    if record is not None:
        with record:
            if notes.document_count(record) or note.documents:
                for keys, ids in notes.stored_since(record, note.documents, note.first_id, named=named):
                    remove_rows(keys, as_names(ids, False, "names") if isinstance(ids, list) else ids)
                    count += len(keys)
            notes.drop_next_votes(record)
            notes.cut_back(record, note.documents)
            notes.remove_note(home)
            notes.clear_record(record, named=named)
    if count and (asker is None or asker.folder != note.folder):
        undone = f"the job {note.folder}, which did not end and cannot go on, was undone: {count} documents"
        warnings.warn(f"{home.path}: {undone}", stacklevel=2)
