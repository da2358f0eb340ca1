/* What a document and others have in common, of hashes as they come: in any order, and some more than once. */
#ifndef FPSTORE_LISTED_H
#define FPSTORE_LISTED_H

#include "alike.h"
#include "platform.h"

/* A hash of the document, or of one that it was compared with. */
typedef struct {
    uint64_t hash;
    uint32_t turn; /* of the marking that put it here, twice, and one more for one of the document; else it is free */
    uint32_t seen; /* the comparison that met it last */
} Mark;

typedef struct {
    Mark *cells;              /* a power of two, all zero at first; a quarter of them is never taken */
    uint64_t *bits;           /* as many words of 64 as there are cells, by four; all zero between calls */
    uint64_t room;            /* how many cells there are */
    uint64_t secret;          /* odd: so that no hashes chosen without knowing it share many cells */
    const Shingles *document; /* the one that all below is of, or NULL */
    uint64_t count;           /* its distinct hashes */
    int is_marked;            /* whether they are in cells, of which so many are taken */
    uint64_t taken;
    uint32_t turn, comparison;
} Listed;

/* The cells that comparisons need of documents of so many hashes at most. */
ALWAYS_INLINE uint64_t listed_room(uint64_t most) { return UINT64_C(4) << bit_length(most); }

/* How many distinct hashes a document and another one both have, and how many one of them has at least. Where those that
   both have are less than part / whole of the latter, it may be told that none is; whole is at least part. */
void listed_compare(Listed *listed, const Shingles *document, const Shingles *other, uint64_t part, uint64_t whole,
                    uint64_t *common, uint64_t *either);

/* The same two of a document and one whose hashes are its own, but for `others` in place of `own`. 0, and nothing told,
   where these differ in many. */
int listed_apart(Listed *listed, const Shingles *document, const Shingles *own, const Shingles *others,
                 uint64_t *common, uint64_t *either);

/* The two kernels for AVX2 and AVX-512: whether a hash is one of count, and how often. */
int is_among_fast(const uint64_t *hashes, uint64_t count, uint64_t hash);
uint64_t times_among_fast(const uint64_t *hashes, uint64_t count, uint64_t hash);
int is_among_wide(const uint64_t *hashes, uint64_t count, uint64_t hash);
uint64_t times_among_wide(const uint64_t *hashes, uint64_t count, uint64_t hash);

void listed_choose(InstructionSet set);

#endif
