# What single queries of wide codes share with those of keys.
from fpstore._watch cimport Watch


cdef enum:
    MOST_ROWS = 4096  # more are another answer than a single query mostly has
    FEW_ROWS = 64  # where the first are wanted, what reads no others is as fast from here on

cdef object NDARRAY, INT64, UINT64, UINT16
# The column `query` of an answer of one row.
cdef object FIRST
cdef object column(object dtype, bytes data, tuple rows, object offset)
cdef bint as_distance(object value, unsigned own, unsigned most, unsigned *distance) except -1
cdef bint enter_all(tuple views) except -1
cdef bint leave_all(tuple views) except -1
cdef bint is_newest(Watch watch) except -1
