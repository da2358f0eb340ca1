# What the compiled modules share of answers.
cdef object NDARRAY, INT64, UINT64, UINT16


cdef class Columns:
    cdef tuple columns
    cdef bytes rows
    cdef unsigned words
    cdef bint signed, with_ids, named
    cdef public object _recipe, _method
    cdef tuple of_rows(self)


cdef class Answers:
    cdef object kind, recipe
    cdef unsigned words
    cdef bint with_ids, named
    cdef object of(self, bytes rows, bint signed, object method)
