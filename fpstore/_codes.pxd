# What single queries of wide codes use of a segment's.
from fpstore._native cimport Codes, CodeTable
from fpstore._view cimport SegmentView


cdef class CodeIndex:
    cdef SegmentView view
    cdef Codes codes
    cdef hold_patterns(self, CodeTable *table, unsigned flips)
