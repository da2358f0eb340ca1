# cython: embedsignature=False
"""What is called once for each query, without a frame of Python's on its way.

After other work no cache has anything of a call: each object and each dictionary that Python looks at for it is waited for.
"""

from fpstore._following cimport Following
from fpstore._single cimport Single
from fpstore._watch cimport Watch


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


def nearest(self, fingerprint, count=1, *, max_distance=None):
    """The count rows that are nearest to this fingerprint, however far; with max_distance those within that.

    Of equally near ones the least fingerprints, and of these the least ids, are first.
    """
    found = (<Front?>self._front).first(fingerprint, count, max_distance)
    if found is None or found is True or found is False:
        return self._nearest_again(found, fingerprint, count, max_distance)
    return found


# For tools that read names, as of a method of Python.
nearest.__qualname__ = "Store.nearest"
