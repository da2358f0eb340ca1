/* Documents of one piece that share a band: which of those that lead each may go to, and in how many values they
 * differ. */
#ifndef FPSTORE_BANDED_H
#define FPSTORE_BANDED_H

#include "platform.h"

typedef struct {
    uint64_t count, bands, words;
    const uint64_t *keys;     /* of document i: bands of them, from i * bands on */
    const uint64_t *sketches; /* words of them, a value in each `width` bits */
    unsigned width;
    uint32_t far;  /* where so many values differ, more say nothing: all these are as far */
    uint32_t most; /* in more values no two differ that are near */

    /* A table of the keys of one band after the other: 0 stands for no document, so all are 1 more. */
    uint32_t *slots; /* slot_mask + 1 of them, a power of two: the document that has the key first */
    uint64_t slot_mask;
    uint64_t *column; /* room for the keys of one band */

    /* Entry i * bands + b is the key of document i in band b. */
    uint32_t *firsts;  /* of each entry, the first with its key */
    uint32_t *heads;   /* of each entry that is a first, the last entry of a leader with that key, 1 more; all 0 */
    uint32_t *earlier; /* of each entry of a leader, the one before it with its key, 1 more */
    uint32_t *askers;  /* of each document, who looked at it last; all 0 */
} Banded;

/* Fill in firsts. Set is_near of each document that shares a key with another, and has_earlier of all but the first
   that has it. */
void banded_look(Banded *banded, uint8_t *is_near, uint8_t *has_earlier);

/* From now on a document leads. */
void banded_lead(Banded *banded, uint64_t document);

/* The leaders that share a band with a document and are near: which, and in how many values they differ. How many. */
uint64_t banded_near(Banded *banded, uint64_t document, uint32_t *leaders, uint32_t *differing);

/* In how many values two sketches of so many words differ, at most `far`. */
uint32_t values_differing(const uint64_t *one, const uint64_t *other, uint64_t words, unsigned width, uint32_t far);

#endif
