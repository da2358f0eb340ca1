"""Within which radii the nearest are looked for before all is read: those that were worth it lately.

A look within a radius is worth what it takes where enough is found, and is lost where not. Nobody can tell beforehand,
but queries that come one after the other are much alike.
"""

MOST_RADII = MAX_RADII

cdef enum:
    # What is known of the last 32 queries, where the older half counts half, as much less of those before. What a query
    # adds is worth so many times what is supposed where none has been.
    WEIGHT = 64
    HELD = 32 * WEIGHT


cdef class Reaches:
    """Radii, increasing, and how far the last row that was wanted lay of those that were asked for lately.

    shares: what a look within each takes, of the time of the rest: of a look at everything, or, where the answer is
    `whole` within the last of them, of that one. lookups: of each the flips of each segment, which `Single` makes what it
    looks within, or None. scanned: how many keys a query may look at by itself. read: whether all was read for some query,
    so that it has come from the disk.
    """

    def __cinit__(self, radii, shares, bint whole, lookups=None, uint64_t scanned=0):
        cdef int i
        self.radii, self.count, self.whole, self.lookups = tuple(radii), <int>len(radii), whole, lookups
        self.scanned = scanned
        if self.count > MAX_RADII or len(shares) != self.count or (whole and self.count == 0):
            raise ValueError(f"{len(radii)} radii, {len(shares)} shares: expected as many, at most {MAX_RADII}")
        for i in range(self.count):
            self.shares[i], self.ends[i] = shares[i], radii[i]
        for i in range(self.count + 1):
            self.counts[i] = 1
        self.total = self.count + 1
        self.choose()

    def following(self, int at):
        """The index of the radius to look within next, where those below index `at` are done with; len(radii) for the
        rest."""
        if not 0 <= at <= self.count:
            raise ValueError(f"radius {at} of {self.count}")
        return self.next_of[at]

    def tell(self, unsigned distance, unsigned times=1):
        """So many queries had all that was wanted within this distance, and not within less."""
        self.told(distance, times)

    cdef bint reads(self, uint64_t count, scanned) except -1:
        # Whether a query may look at so many keys by itself.
        return self.read and count <= (self.scanned if scanned is None else <uint64_t>scanned)

    cdef int told(self, unsigned distance, unsigned times) except -1:
        cdef int i = 0
        cdef unsigned more = WEIGHT * min(times, <unsigned>HELD)
        while i < self.count and self.ends[i] < distance:
            i += 1
        self.counts[i] += more
        self.total += more
        # What is found within the first radius that is looked within, and no nearer one, is found for least as it is: no
        # choice is better for it, and those behind it do not depend on it.
        if self.total <= HELD and i == self.next_of[0] and i < self.count:
            return 0
        while self.total > HELD:
            self.total = 0
            for i in range(self.count + 1):
                self.counts[i] = (self.counts[i] + 1) // 2
                self.total += self.counts[i]
        return self.choose()

    cdef int choose(self) except -1:
        # From the last one back: what the rest of a search takes that has not found enough before `at`, at the least, where
        # a look within radius i leaves what lies beyond it.
        cdef double least[MAX_RADII + 1]
        cdef double left[MAX_RADII + 2]
        cdef double cost, part
        cdef int i, at
        left[self.count + 1] = 0
        for i in range(self.count, -1, -1):
            left[i] = left[i + 1] + self.counts[i]
        for at in range(self.count, -1, -1):
            least[at], self.next_of[at] = 0.0 if self.whole and at == self.count else 1.0, self.count
            if self.whole and at < self.count:
                least[at] = 1e300
            part = 1 / left[at]  # a division takes as long as all of the loop
            for i in range(at, self.count):
                cost = self.shares[i] + left[i + 1] * part * least[i + 1]
                if cost < least[at]:
                    least[at], self.next_of[at] = cost, i
        return 0
