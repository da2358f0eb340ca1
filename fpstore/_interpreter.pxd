"""For calls of C that let go of the interpreter's lock: `left` as they have, `comes` as they are about to take it again."""


cdef void left() noexcept nogil
cdef void comes() noexcept nogil
