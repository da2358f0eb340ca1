# cython: embedsignature=False
"""What is called once for each query, without a frame of Python's on its way.

After other work no cache has anything of a call: each object and each dictionary that Python looks at for it is waited for.
"""

cimport cython
from cpython.object cimport PyObject

from fpstore._following cimport Following
from fpstore._single cimport Single, ask_code
from fpstore._watch cimport Watch

cdef extern from *:
    """
    /* The weak reference to an object that is listed first, by where objects of its kind have it. NULL for none, and where
       another thread may change the list meanwhile. */
    static inline PyObject *fpstore_first_reference(PyObject *object, Py_ssize_t place) {
    #ifdef Py_GIL_DISABLED
        return NULL;
    #else
        return place == 0 ? NULL : *(PyObject **)((char *)object + place);
    #endif
    }
    static inline PyObject *fpstore_next_reference(PyObject *reference) {
    #ifdef Py_GIL_DISABLED
        return NULL;
    #else
        return (PyObject *)((PyWeakReference *)reference)->wr_next;
    #endif
    }
    """
    PyObject *first_reference "fpstore_first_reference"(PyObject *object, Py_ssize_t place)
    PyObject *next_reference "fpstore_next_reference"(PyObject *reference)

cdef extern from "Python.h":
    ctypedef struct Kind "PyTypeObject":
        Py_ssize_t tp_weaklistoffset
    ctypedef class weakref.ReferenceType [object PyWeakReference]:
        pass

# How many weak references to a store are looked at; whoever has made more of them waits for an attribute.
cdef enum:
    REFERENCES = 4


@cython.final
cdef class Front(ReferenceType):
    """What the calls of one store need of it, and a weak reference to that: so an object has it at hand, whatever its kind.

    In a slot, or as a field of a compiled class, it was in the way of other bases that have some; and of objects that have none
    the attributes are in a dictionary, which takes three times as long.
    """

    cdef object newest
    cdef Following known
    cdef Watch watch
    cdef bint signed

    def of(self, newest, Watch watch not None, bint signed):
        """newest: has its newest snapshot; watch: over its catalog. signed: fingerprints, and ids that are numbers, as int64."""
        self.newest, self.watch, self.signed = newest, watch, signed
        self.known = newest if type(newest) is Following else None
        return self

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
    """A store, as far as these calls look at it: its attribute `_front` is the `Front` of it."""

    __slots__ = ()


# The kind of the store that was asked last, and where objects of it have the list of weak references to them.
cdef object kind = None
cdef Py_ssize_t place = 0


cdef Front front_of(self):
    # What a store asks through, without a look through its kinds, of which after other work no cache has any.
    global kind, place
    cdef PyObject *reference
    if type(self) is not kind:
        kind = type(self)
        place = (<Kind *>kind).tp_weaklistoffset
    reference = first_reference(<PyObject *>self, place)
    for i in range(REFERENCES):
        if reference == NULL:
            break
        if type(<object>reference) is Front:
            return <Front>reference
        reference = next_reference(reference)
    if not issubclass(type(self), Fronted):  # whatever it says that it is
        raise TypeError(f"nearest: found {type(self).__name__}, expected a store")
    return <Front?>self._front


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
