"""What the other compiled modules of texts take of it: how wide a fingerprint can be."""

cdef unsigned words_of(bits) except 0
