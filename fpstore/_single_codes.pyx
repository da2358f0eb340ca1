"""One query of one state of a store of wide codes, in one call, as Single is of keys."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint16_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from fpstore._answers cimport NDARRAY, Answers
from fpstore._codes cimport CodeIndex
from fpstore._native cimport (
    OK,
    MAX_CODE_WORDS,
    CodePart,
    CodeRows,
    Status,
    codes_any,
    codes_rows,
)
from fpstore._probe cimport IdColumn
from fpstore._reaches cimport Reaches
from fpstore._single cimport (
    FEW_ROWS,
    MOST_ROWS,
    as_distance,
    enter_all,
    is_newest,
    leave_all,
)
from fpstore._watch cimport Watch


cdef class SingleCodes:
    """Answers single queries from one state of a store of wide codes, of which nothing waits for a segment or was removed.

    parts: of each segment its codes, and its ids or None. distance, most, answers: as for Single.
    """

    cdef tuple indexes, ids, views
    cdef CodePart *parts
    cdef uint64_t code_count
    cdef unsigned words, distance, most, part_count
    cdef Answers answers
    cdef object nothing
    cdef readonly dict reaches

    def __cinit__(self, parts, unsigned bits, unsigned distance, unsigned most, Answers answers not None):
        cdef CodeIndex index
        cdef IdColumn ids
        cdef unsigned i
        self.words, self.distance, self.most = bits // 64, distance, most
        self.answers, self.nothing, self.reaches = answers, None, {}
        if answers.words != self.words:
            raise ValueError(f"answers of {answers.words} words: expected {self.words}")
        self.indexes, self.ids = tuple(part[0] for part in parts), tuple(part[1] for part in parts)
        self.part_count = <unsigned>len(self.indexes)
        self.views = tuple((<CodeIndex?>part).view for part in self.indexes)
        self.parts = <CodePart *>calloc(self.part_count + 1, sizeof(CodePart))
        if self.parts == NULL:
            raise MemoryError()
        for i in range(self.part_count):
            index, ids = self.indexes[i], self.ids[i]
            if index.codes.words != self.words:
                raise ValueError(f"codes of {index.codes.words} words: expected {self.words}")
            self.parts[i].pages, self.parts[i].codes = &index.view.pages, &index.codes
            self.code_count += index.codes.count
            if ids is not None:
                self.parts[i].ids = &ids.ids

    def __dealloc__(self):
        free(self.parts)

    def probe(self, Watch watch, fingerprint, max_distance, bint signed):
        """As that of Single; fingerprint: an int, bytes or uint64[words]. None for signed ones, too."""
        cdef uint64_t query[MAX_CODE_WORDS]
        cdef unsigned distance
        cdef CodeRows found
        if not (not signed and is_newest(watch, self) and self.as_code(fingerprint, query)
                and as_distance(max_distance, self.distance, self.most, &distance)):
            return None
        found.rows, found.room, found.most, found.keep = NULL, 0, MOST_ROWS, 0
        try:
            return self.answer(&found) if self.search(query, distance, False, &found) else None
        finally:
            free(found.rows)

    def first(self, Watch watch, fingerprint, count, max_distance, bint signed, Reaches reaches=None, scanned=None):
        """As that of Single."""
        cdef uint64_t query[MAX_CODE_WORDS]
        cdef unsigned distance, bits = 64 * self.words
        cdef int at = 0
        cdef CodeRows found
        if not (not signed and not self.answers.named and type(count) is int and 0 < count <= FEW_ROWS
                and self.as_code(fingerprint, query) and as_distance(max_distance, bits, bits, &distance)):
            return None
        if not is_newest(watch, self):
            return True
        if reaches is None:
            reaches = self.reaches.get((distance, count))
        if reaches is None:
            return None
        found.rows, found.room, found.most, found.keep = NULL, 0, MOST_ROWS, count
        try:
            while reaches.next_of[at] < reaches.count:
                at = reaches.next_of[at]
                if not self.search(query, reaches.radii[at], False, &found):
                    return None
                at += 1
                if found.count >= <uint64_t>count or (reaches.whole and at == reaches.count):
                    return self.told(reaches, &found, count)
            if not reaches.reads(self.code_count, scanned):
                return False
            return self.told(reaches, &found, count) if self.search(query, distance, True, &found) else None
        finally:
            free(found.rows)

    cdef object told(self, Reaches reaches, CodeRows *found, uint64_t count):
        # The first rows of these; of their last one the radii are told.
        reaches.told(found.rows[count - 1].distance if found.count >= count else 64 * self.words + 1, 1)
        found.count = min(found.count, count)
        return self.answer(found)

    cdef bint search(self, const uint64_t *query, unsigned distance, bint scan, CodeRows *found) except -1:
        # Whether what is within the distance was found, in order.
        cdef Status status
        if not enter_all(self.views):
            return False
        found.count, found.scan = 0, scan
        with nogil:
            status = codes_rows(self.parts, self.part_count, query, distance, found)
        return leave_all(self.views) and status == OK

    def contains(self, Watch watch, fingerprint, max_distance):
        """As that of Single."""
        cdef uint64_t query[MAX_CODE_WORDS]
        cdef unsigned distance
        cdef Status status
        cdef int any = 0
        if not (is_newest(watch, self) and self.as_code(fingerprint, query)
                and as_distance(max_distance, self.distance, self.most, &distance) and enter_all(self.views)):
            return None
        with nogil:
            status = codes_any(self.parts, self.part_count, query, distance, &any)
        return any != 0 if leave_all(self.views) and status == OK else None

    cdef bint as_code(self, object value, uint64_t *code) except -1:
        # Whether it is a fingerprint in one of the forms that are common.
        cdef const uint64_t[::1] row
        cdef bytes data
        cdef unsigned i
        if type(value) is NDARRAY:
            try:
                row = value
            except ValueError:  # of another type, of more dimensions, or not in one piece
                return False
            if <unsigned>row.shape[0] != self.words:
                return False
            memcpy(code, &row[0], 8 * self.words)
            return True
        if type(value) is bytes and len(value) == 8 * self.words:
            data = value[::-1]
        elif type(value) is int and value >= 0 and value.bit_length() <= 64 * self.words:
            data = value.to_bytes(8 * self.words, "little")
        else:
            return False
        for i in range(self.words):
            memcpy(&code[i], PyBytes_AS_STRING(data) + 8 * (self.words - 1 - i), 8)
        return True

    cdef object answer(self, CodeRows *found):
        # Of no rows that were looked up, always the same.
        if found.scanned or found.count > 0:
            return self.answers.of(self.rows(found), False, "scan" if found.scanned else None)
        if self.nothing is None:
            self.nothing = self.answers.of(self.rows(found), False, None)
        return self.nothing

    cdef bytes rows(self, CodeRows *found):
        # As Answers has them.
        cdef uint64_t n = found.count, i
        cdef bytes data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>((8 * self.words + 10) * n))
        cdef uint64_t *code = <uint64_t *>PyBytes_AS_STRING(data)
        cdef uint64_t *id = code + self.words * n
        cdef uint16_t *bits = <uint16_t *>(id + n)
        for i in range(n):
            memcpy(code + i * self.words, found.rows[i].code, 8 * self.words)
            id[i], bits[i] = found.rows[i].id, <uint16_t>found.rows[i].distance
        return data
