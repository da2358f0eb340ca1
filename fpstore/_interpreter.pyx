"""Says who has the interpreter's lock, so that threads of a job wait for it awake where that is sooner than to be woken.

The rule is C (fpstore/native/interpreter.c). It is a hint: what is not said costs time alone.
"""

from fpstore._native cimport interpreter_begins, interpreter_comes, interpreter_ends, interpreter_left, interpreter_wait_at_most

from fpstore.platforms import processor_count

# About three times what it takes to be woken. On one processor nobody lets go of it while another waits like this.
_NANOSECONDS = 150_000 if processor_count() > 1 else 0
interpreter_wait_at_most(_NANOSECONDS)


cdef void left() noexcept nogil:
    interpreter_left()


cdef void comes() noexcept nogil:
    interpreter_comes()


def leave():
    """The calling thread is about to wait for something else."""
    interpreter_left()


def begin():
    """The calling thread is one of several of a job, until it calls end; others neither wait awake nor are waited for so."""
    interpreter_begins()


def end():
    """It is no more."""
    interpreter_ends()
