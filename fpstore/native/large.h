/* Memory that is held for long and grows: from the system itself where it is much.

   What malloc gives is cut from one heap, in which short-lived arrays lie around it: each time it moves on to a larger
   place it leaves a hole there. Of the 92 MB that a job over 100,000 verses added these holes were 47. */
#ifndef FPSTORE_LARGE_H
#define FPSTORE_LARGE_H

#include "platform.h"

#define LARGE_LINE_BYTES 64
#define LARGE_BYTES ((uint64_t)1 << 16) /* so many or more are from the system */

/* Zeros at first, from a line of memory on. NULL and 0 are none. */
typedef struct {
    void *memory;
    uint64_t bytes;
} Large;

/* Exactly so many bytes, into what has none. whole: all of them will be written to soon. NO_MEMORY. */
Status large_make(Large *large, uint64_t bytes, int whole);

/* Have it be so many bytes at least, and half as many again as before where it has fewer; what was there stays.
   NO_MEMORY, which leaves it as it is. */
Status large_reserve(Large *large, uint64_t bytes);

/* It is read here and there: the system may hold it in large pages, of which it finds each sooner. */
void large_advise(const Large *large);

/* The same of memory that malloc gave: all of its mapping, as one of two kinds could not be moved when it grows. */
void large_pages(void *start, uint64_t bytes);

/* Have the system give the pages of memory from malloc now, which it otherwise does when they are first written to:
   those that lie in it whole, and the one where it begins. */
void large_populate(void *start, uint64_t bytes);

/* Have it be none. */
void large_free(Large *large);

#endif
