"""What was added to a catalog's log since it was read, without a call of the system: what readers mostly have to follow.

It reads all of it or says nothing. Where anything else has changed, or is not as it should be, the answer is None, and the
caller reads the catalog in the general way, which knows what is wrong and how to say it.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from fpstore._native cimport (
    Added,
    Moved,
    Piece,
    Tree,
    Value,
    c_crc32c,
    tail_added,
    tail_find,
    tail_ids,
    tail_last_page,
    tail_main_root,
    tail_moved,
    tail_touch,
    tail_tree,
)
from fpstore._pending cimport PendingIndex
from fpstore._watch cimport MappedWords

import fpstore._native

cdef enum:
    KEY_BYTES = 8
    CHECKSUM_BYTES = 4
    MOST_BYTES = 1 << 23  # more is for a way that lets others run meanwhile
    MOST_PAGES_AHEAD = 16
    PAGES_AT_ONCE = 2


cdef int set_pieces(Piece *pieces, tuple around) except -1:
    # Held by the caller's tuple.
    cdef bytes text
    cdef int i
    for i in range(3):
        text = around[i]
        pieces[i].data, pieces[i].bytes = <const uint8_t *><const char *>text, <size_t>len(text)
    return 0


def moved(const uint8_t[::1] text not None, tuple around not None, uint64_t transaction):
    """(next_change, max_id or None) where text is a state of that transaction and of these pieces, None where not.

    around: three bytes, what states have in common that differ in what additions change.
    """
    cdef Piece pieces[3]
    cdef Moved found
    set_pieces(pieces, around)
    if text.shape[0] == 0 or not tail_moved(&text[0], <size_t>text.shape[0], pieces, transaction, &found):
        return None
    return found.next_change, found.max_id if found.has_id else None


cdef class Places:
    """Where a catalog keeps what a tail is read for.

    state: its name in the main database. state_checksum: of that place. records: how many that database has. changes: the
    name of the database of changes.
    """

    def __cinit__(self, bytes state not None, uint32_t state_checksum, uint64_t records, bytes changes not None):
        self.state, self.state_checksum, self.records, self.changes = state, state_checksum, records, changes
        self.changes_checksum = c_crc32c(0, <const uint8_t *><const char *>changes, <size_t>len(changes))

    cdef uint32_t of_change(self, uint64_t number):
        # The checksum of a change's place.
        cdef uint8_t key[KEY_BYTES]
        set_key(key, number)
        return c_crc32c(self.changes_checksum, key, KEY_BYTES)


cdef class Tail:
    """A mapping of a catalog's file. words: of that mapping. page_bytes: of a page of it.

    Pages that the file has, but no transaction yet, are made ready for those that come, as many as came last: the first look
    at what was committed took a tenth of its time to have its pages in the mapping.
    """

    def __cinit__(self, MappedWords words not None, uint64_t page_bytes):
        self.words = words
        self.tree.base = <const uint8_t *>words.buffer.buf
        self.tree.page_bytes, self.tree.pages = page_bytes, <uint64_t>words.buffer.len // page_bytes

    def follow(self, Places places not None, uint64_t transaction, tuple around not None, uint64_t first_change,
               uint64_t next_change, PendingIndex pending not None, uint64_t live_since):
        """Append to pending what that transaction, the newest, has in the log from next_change on, if all are additions.

        around: as for moved(), of the state before. Returns what moved() does, after the rows of all changes were appended,
        or None, and then none was. The caller sees to it that nobody else appends.
        """
        cdef Moved found
        if not self.follow_now(places, transaction, around, first_change, next_change, pending, live_since, &found):
            return None
        return found.next_change, found.max_id if found.has_id else None

    cdef bint follow_now(self, Places places, uint64_t transaction, tuple around, uint64_t first_change, uint64_t next_change,
                         PendingIndex pending, uint64_t live_since, Moved *found) except -1:
        cdef uint64_t root, records, changes_root, changes
        cdef Value state
        cdef Piece pieces[3]
        cdef uint8_t *copy = NULL
        set_pieces(pieces, around)
        root = tail_main_root(&self.tree, transaction, &records)
        if not (records == places.records and self.tree_of(root, places.changes, &changes_root, &changes)
                and tail_find(&self.tree, root, <const char *>places.state, <size_t>len(places.state), &state)
                and CHECKSUM_BYTES < state.bytes <= MOST_BYTES):
            return False
        copy = <uint8_t *>malloc(state.bytes)
        if copy == NULL:
            raise MemoryError()
        try:
            memcpy(copy, state.data, state.bytes)
            if not (checksum_of(copy) == c_crc32c(places.state_checksum, copy + CHECKSUM_BYTES, state.bytes - CHECKSUM_BYTES)
                    and tail_moved(copy + CHECKSUM_BYTES, state.bytes - CHECKSUM_BYTES, pieces, transaction, found)):
                return False
        finally:
            free(copy)
        if found.next_change < next_change or changes != found.next_change - first_change:
            return False
        return self.append(places, changes_root, transaction, next_change, found.next_change, pending, live_since)

    cdef void expect_more(self, uint64_t transaction):
        # As many pages more as came by that transaction, which was followed.
        cdef uint64_t next_page = tail_last_page(&self.tree, transaction) + 1
        cdef uint64_t came = next_page - self.next_page if 0 < self.next_page < next_page else 0
        self.next_page, self.ready_pages = next_page, max(self.ready_pages, next_page)
        self.wanted_pages = min(next_page + min(came, <uint64_t>MOST_PAGES_AHEAD), self.tree.pages)

    cdef bint is_unready(self):
        return self.ready_pages < self.wanted_pages

    cdef void make_ready(self):
        # Some of those pages.
        cdef uint64_t end = min(self.ready_pages + PAGES_AT_ONCE, self.wanted_pages)
        while self.ready_pages < end:
            tail_touch(&self.tree, self.ready_pages)
            self.ready_pages += 1

    cdef bint append(self, Places places, uint64_t root, uint64_t transaction, uint64_t first, uint64_t end,
                     PendingIndex pending, uint64_t live_since) except -1:
        # The rows of these changes, all or none.
        cdef uint64_t count = end - first, total = 0, rows = 0, rising = 0, i
        cdef unsigned columns = 1 + pending.with_ids
        cdef Value *values
        cdef Added *added = NULL
        cdef uint8_t *copy = NULL
        cdef uint8_t *at
        cdef uint64_t *rising_ids = NULL
        cdef const uint64_t *keys
        cdef const uint64_t *ids
        if count > MOST_BYTES // (sizeof(Value) + sizeof(Added)):
            return False
        values = <Value *>malloc((count + 1) * (sizeof(Value) + sizeof(Added)))
        if values == NULL:
            raise MemoryError()
        added = <Added *>(values + count + 1)
        try:
            for i in range(count):
                if not self.find(root, first + i, &values[i]):
                    return False
                total += (values[i].bytes + 7) & ~<uint64_t>7
                if total > MOST_BYTES:
                    return False
            copy = at = <uint8_t *>malloc(total + 1)
            if copy == NULL:
                raise MemoryError()
            for i in range(count):
                memcpy(at, values[i].data, values[i].bytes)
                values[i].data = at
                at += (values[i].bytes + 7) & ~<uint64_t>7
            if not self.stands(transaction):
                return False
            for i in range(count):
                if not tail_added(values[i].data, values[i].bytes, places.of_change(first + i), columns, &added[i]):
                    return False
                rows += added[i].words
                rising += added[i].words if added[i].steps != NULL else 0
                if not pending.fit(<const uint64_t *>added[i].columns, added[i].words):
                    return False
            if not pending.has_room(rows, first):
                return False
            if rising:
                rising_ids = <uint64_t *>malloc(8 * rising)
                if rising_ids == NULL:
                    raise MemoryError()
            rising = 0
            for i in range(count):
                if added[i].steps != NULL:
                    if not tail_ids(&added[i], rising_ids + rising):
                        return False
                    rising += added[i].words
            rising = 0
            for i in range(count):
                keys = <const uint64_t *>added[i].columns
                ids = keys + added[i].words
                if added[i].steps != NULL:
                    ids = rising_ids + rising
                    rising += added[i].words
                pending.append_columns(keys, ids, added[i].words, first + i, live_since)
            return True
        finally:
            free(rising_ids)
            free(copy)
            free(values)

    cdef bint tree_of(self, uint64_t root, bytes name, uint64_t *own, uint64_t *entries):
        return tail_tree(&self.tree, root, <const char *>name, <size_t>len(name), own, entries)

    cdef bint find(self, uint64_t root, uint64_t number, Value *value):
        cdef uint8_t key[KEY_BYTES]
        set_key(key, number)
        return tail_find(&self.tree, root, key, KEY_BYTES, value)

    cdef bint stands(self, uint64_t transaction):
        # Whether what was copied until now is what that transaction left: no later one than two after it writes to pages
        # that it needs (see locks), and that begins when the one before it is there to be seen.
        return self.words.newest() <= transaction + 1


cdef void set_key(uint8_t *key, uint64_t number) noexcept:
    cdef int i
    for i in range(KEY_BYTES):
        key[i] = <uint8_t>(number >> (8 * (KEY_BYTES - 1 - i)))


cdef uint32_t checksum_of(const uint8_t *record) noexcept:
    cdef uint32_t checksum
    memcpy(&checksum, record, CHECKSUM_BYTES)
    return checksum
