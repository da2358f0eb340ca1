"""Undoes jobs that will never end, whose rows are taken out of the store again, and completes those that have ended."""

import warnings
from collections.abc import Callable

from fpstore import later, notes
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
            later.drop_later(record)
            notes.cut_back(record, note.documents)
            notes.remove_note(home)
            notes.clear_record(record, named=named)
    if count and (asker is None or asker.folder != note.folder):
        undone = f"the job {note.folder}, which did not end and cannot go on, was undone: {count} documents"
        warnings.warn(f"{home.path}: {undone}", stacklevel=2)


def complete(home: Folder, identity: str, shape: tuple[int, int], store: Callable[[Keys, Keys, Names], None]) -> None:
    """Store what a job has kept under names that has ended, if there is any; home: the folder of the store.

    shape: the keys of a document there, and the words of its sketch. store: makes some durable; what was stored before
    this was interrupted is stored again, which changes nothing that is found.
    """
    record = notes.open_record(home, identity)
    if record is None:
        return
    with record:
        if later.has_later(record) and notes.read_note(home) is None:
            for names, keys, sketches in later.later_documents(record, shape):
                store(keys, sketches, as_names(names, False, "names"))
            later.drop_later(record)
