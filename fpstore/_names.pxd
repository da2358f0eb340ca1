# What the compiled modules share of names: two arrays as the kernels take them, and what kernels have gathered.
from fpstore._native cimport Bytes, Names
from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef Names names_of(const uint8_t[::1] data, const int64_t[::1] ends) except *
cdef object taken(Bytes *out)

cdef inline int64_t start_of(const Names *names, uint64_t index) noexcept nogil:
    return names.ends[index - 1] if index else 0
