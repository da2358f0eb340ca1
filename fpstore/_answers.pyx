"""The columns of a table, and answers of single queries, whose columns are made of their rows when they are asked for.

Four arrays are most of what it takes to answer a query that finds one row, and who asks how many there are wants none.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uint16_t, uint64_t

import numpy as np

from fpstore._native cimport MAX_CODE_WORDS

cdef extern from *:
    """
    /* Whether nothing else refers to it, nor may while the lock of the interpreter is held. */
    static inline int fpstore_is_only(PyObject *value) {
    #ifdef Py_GIL_DISABLED
        return 0;
    #else
        return Py_REFCNT(value) == 1;
    #endif
    }
    """
    bint is_only "fpstore_is_only"(PyObject *value)

FROMBUFFER = np.frombuffer
NDARRAY, INT64, UINT64, UINT16 = np.ndarray, np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.uint16)
cdef object METHOD = "probe"
cdef tuple NONE = ()


cdef object column(object dtype, bytes data, tuple rows, object offset):
    # Of bytes, which nobody can write to. In fewer lines of code, of which after other work no cache has any, where it can.
    if len(rows) == 1 and <Py_ssize_t>rows[0] > 0:
        return FROMBUFFER(data, dtype, rows[0], offset)
    return NDARRAY(rows, dtype, data, offset)


# Columns of an answer of one row, which most have that are not empty.
FIRST = column(INT64, bytes(8), (1,), 0)
DISTANCES = [column(UINT16, bits.to_bytes(2, "little"), (1,), 0) for bits in range(64 * MAX_CODE_WORDS + 1)]


# Tables say themselves what they are pickled as.
@cython.auto_pickle(False)
cdef class Columns:
    """What any table of columns has: _columns, each an array that nobody can write to, or None; _recipe, None where nobody
    said; _method, of matches.
    """

    @property
    def _columns(self):
        if self.columns is None:
            if self.is_one:
                self.rows = self.row()
            if self.rows is None:
                raise AttributeError("_columns")
            self.columns = self.of_rows()
        return self.columns

    @_columns.setter
    def _columns(self, tuple columns not None):
        self.columns = columns

    @cython.boundscheck(True)  # of what others gave
    def __len__(self):
        if self.columns is None and self.is_one:
            return 1
        if self.columns is None and self.rows is not None:
            return PyBytes_GET_SIZE(self.rows) // (8 * max(self.words, 1) + 10)
        return len(self._columns[0])

    cdef bytes row(self):
        # The one row, as Answers.of has rows.
        cdef bytes data = PyBytes_FromStringAndSize(NULL, 18)
        cdef uint64_t *words = <uint64_t *>PyBytes_AS_STRING(data)
        words[0], words[1] = self.fingerprint, self.id
        (<uint16_t *>(words + 2))[0] = <uint16_t>self.distance
        return data

    cdef tuple of_rows(self):
        # query, fingerprint, distance, and id or None.
        cdef uint64_t code_bytes = 8 * max(self.words, 1)
        cdef uint64_t n = <uint64_t>PyBytes_GET_SIZE(self.rows) // (code_bytes + 10)
        cdef bytes data = self.rows
        cdef const uint16_t *bits = <const uint16_t *>(PyBytes_AS_STRING(data) + (code_bytes + 8) * n)
        cdef object number = INT64 if self.signed else UINT64, rows = (n,)
        return (FIRST if n == 1 else column(INT64, bytes(8 * n), rows, 0),
                column(number, data, (n, self.words) if self.words else rows, 0),
                DISTANCES[bits[0]] if n == 1 else column(UINT16, data, rows, (code_bytes + 8) * n),
                column(UINT64 if self.named else number, data, rows, code_bytes * n) if self.with_ids else None)


@cython.auto_pickle(False)
cdef class Answers:
    """Makes the answers of one state of a store.

    kind: a table that is one of Columns. recipe: as the table has it. named: ids are handles, which have no sign. words: of a
    fingerprint, 0 where its column has one dimension.
    """

    def __cinit__(self, kind, recipe, bint with_ids, bint named, unsigned words=0):
        if not issubclass(kind, Columns) or words > MAX_CODE_WORDS:
            raise TypeError(f"answers: found {kind} of {words} words, expected a table of columns")
        self.kind, self.recipe, self.with_ids, self.named, self.words = kind, recipe, with_ids, named, words
        self.again = (kind.__basicsize__ == Columns.__basicsize__
                      and kind.__dictoffset__ == kind.__weakrefoffset__ == 0)

    cdef object of(self, bytes rows, bint signed, object method):
        # Of n rows: their fingerprints, then their ids (or anything where there are none), of eight bytes a word; then the
        # distances, of two. method: None for that of a query that is looked up.
        cdef Columns made = self.made(signed, method)
        made.rows = rows
        return made

    cdef object of_one(self, uint64_t fingerprint, uint64_t id, unsigned distance, bint signed, object method):
        # Of one row, of fingerprints that are no words: most answers, of which most have no need for more than this. To
        # make and to end an object takes lines of code and memory of which after other work no cache has any: so one that
        # nobody has any more is the next one. It has nothing that tells the two from each other, unless somebody gave it
        # another class.
        cdef Columns made
        if self.last is not None and is_only(<PyObject *>self.last) and type(self.last) is self.kind:
            made = self.last  # before anything ends: what is called then makes another
            made.columns = made.rows = None
            self.filled(made, signed, method)
        else:
            made = self.made(signed, method)
            if self.again:
                self.last = made
        made.is_one, made.fingerprint, made.id, made.distance = True, fingerprint, id, distance
        return made

    cdef Columns made(self, bint signed, object method):
        return self.filled((<PyTypeObject *>self.kind).tp_new(self.kind, <PyObject *>NONE, NULL), signed, method)

    cdef Columns filled(self, Columns made, bint signed, object method):
        made.signed, made.with_ids, made.named, made.words = signed, self.with_ids, self.named, self.words
        made._recipe, made._method = self.recipe, METHOD if method is None else method
        return made
