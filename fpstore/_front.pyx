# cython: embedsignature=False
"""What is called once for each query, without a frame of Python's on its way.

After other work no cache has anything of a call: each object and each dictionary that Python looks at for it is waited for.
"""

from cpython.object cimport PyObject

from fpstore._following cimport Following
from fpstore._single cimport Single, ask_code
from fpstore._watch cimport Watch

cdef extern from *:
    """
    #include <structmember.h>
    /* Where in an object one of its kind's __slots__ lies. */
    static inline Py_ssize_t fpstore_place_of(PyObject *slot) {
        return ((PyMemberDescrObject *)slot)->d_member->offset;
    }
    /* What is there; NULL for nothing, and where another thread may change it meanwhile. */
    static inline PyObject *fpstore_at_place(PyObject *object, Py_ssize_t place) {
    #ifdef Py_GIL_DISABLED
        return NULL;
    #else
        return *(PyObject **)((char *)object + place);
    #endif
    }
    """
    Py_ssize_t place_of "fpstore_place_of"(object slot)
    PyObject *at_place "fpstore_at_place"(object self, Py_ssize_t place)


cdef class Front:
    """What the calls of one store need of it.

    newest: has its newest snapshot; watch: over its catalog. signed: fingerprints, and ids that are numbers, as int64.
    """

    cdef object newest
    cdef Following known
    cdef Watch watch
    cdef bint signed

    def __cinit__(self, newest, Watch watch not None, bint signed):
        self.newest, self.watch, self.signed = newest, watch, signed
        self.known = newest if type(newest) is Following else None

    cdef object first(self, fingerprint, count, max_distance):
        # As first() of what answers from the newest snapshot.
        cdef Following known = self.known
        # Where nothing has to be done before, what answers is at hand. Another thread may go on until it is known to be.
        if known is not None and not known.is_unready and self.watch.following is known and self.watch.holds_now():
            single = known.single if known.single is not None else known.own()
            if type(single) is Single:
                return (<Single>single).first_rows(None, fingerprint, count, max_distance, self.signed, None, None)
        single = self.newest.snapshot.single if known is None else known.answering()
        if type(single) is Single:
            return (<Single>single).first_rows(self.watch, fingerprint, count, max_distance, self.signed, None, None)
        return single.first(self.watch, fingerprint, count, max_distance, self.signed)


class Fronted:
    """A store, as far as these calls look at it: where its `Front` is, at hand.

    A class of Python's: of objects of others the attributes would be in a dictionary, which takes three times as long.
    """

    __slots__ = ("_front",)


cdef Py_ssize_t place = place_of(Fronted._front)
# The kind of the store that was asked last, which is known to be Fronted.
cdef object kind = None


cdef Front front_of(self):
    # What a store asks through, without a look through its kinds, of which after other work no cache has any.
    global kind
    cdef PyObject *front
    if type(self) is not kind:
        if not issubclass(type(self), Fronted):  # whatever it says that it is
            raise TypeError(f"nearest: found {type(self).__name__}, expected a store")
        kind = type(self)
    front = at_place(self, place)
    return <Front?>self._front if front == NULL else <Front?><object>front


def nearest(self, fingerprint, count=1, *, max_distance=None):
    """The count rows that are nearest to this fingerprint, however far; with max_distance those within that.

    Of equally near ones the least fingerprints, and of these the least ids, are first.
    """
    ask_code()
    found = front_of(self).first(fingerprint, count, max_distance)
    if found is None or found is True or found is False:
        return self._nearest_again(found, fingerprint, count, max_distance)
    return found


# For tools that read names, as of a method of Python.
nearest.__qualname__ = "Store.nearest"
