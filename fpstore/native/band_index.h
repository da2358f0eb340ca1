/* Documents in memory, by the keys of their bands: they are only added to. Each band has a table of its own, so that no
   two tables are of two sizes at a time. */
#ifndef FPSTORE_BAND_INDEX_H
#define FPSTORE_BAND_INDEX_H

#include "large.h"
#include "platform.h"

/* A slot has BAND_TAG_BITS of a key, and below them a row, where 0 stands for none, so all are 1 more. */
#define BAND_ROW_BITS 22
#define BAND_TAG_BITS (64 - BAND_ROW_BITS)
#define BAND_MOST_ROWS ((UINT64_C(1) << BAND_ROW_BITS) - 1)

/* Slots of one line of memory, which are filled one after the other: where one is empty no further bucket has what is
   looked for. */
#define BAND_BUCKET 8

typedef struct {
    uint64_t *slots; /* BAND_BUCKET for each bucket, 0 where empty: the last row that has a key */
    uint64_t buckets, used;
} BandTable;

typedef struct {
    uint64_t count, bands, words;
    unsigned width;    /* bits of a value in a sketch */
    uint32_t far;      /* where so many values differ, more say nothing: all these are as far */
    BandTable *tables; /* one for each band */
    Large *slots;      /* of each band, where its table has them */
    Large sketches;    /* uint64_t, words of each row */
    Large askers;      /* uint32_t: of each row, who looked at it last */
    uint32_t asker;
    /* Few rows have a key that another had before. Of each of them: uint32_t, for each band the row before it with its
       key, 1 more; 0 for none. */
    Large earlier;
    uint64_t chained;
    Large chains; /* uint32_t: of each row which it is of these, 1 more; 0 where it is none */
} BandIndex;

typedef struct {
    uint32_t query, row, differing;
} BandNear;

/* Of queries, in their order; the caller frees them. */
typedef struct {
    BandNear *rows;
    uint64_t count, room;
} BandNears;

/* Which of the rows that share a band: at most `limit`, from the nearest on, of several as near from the first
   on, and all in which no value differs; none in which more than `most` values do. */
typedef struct {
    uint64_t limit;
    uint32_t most;
} BandAsked;

/* An empty one, of which bands, words, width and far are given. band_index_free after NO_MEMORY too. */
Status band_index_make(BandIndex *index);
void band_index_free(BandIndex *index);

/* Add documents: bands keys and words of a sketch of each. NO_MEMORY, after which it has as many as before. */
Status band_index_add(BandIndex *index, const uint64_t *keys, const uint64_t *sketches, uint64_t count);

/* The rows near each document, until there are more than most_rows, but of one document at least. answered: of how
   many. NO_MEMORY. */
Status band_index_near(BandIndex *index, const uint64_t *keys, const uint64_t *sketches, uint64_t count,
                       const BandAsked *asked, uint64_t most_rows, BandNears *found, uint64_t *answered);

/* The bytes that it takes. */
uint64_t band_index_bytes(const BandIndex *index);

/* What a slot has of a key, and the bucket that it is looked for in first. */
ALWAYS_INLINE uint64_t band_tag(uint64_t key) { return key * UINT64_C(0x9E3779B97F4A7C15) >> BAND_ROW_BITS; }
ALWAYS_INLINE uint64_t band_home(const BandTable *table, uint64_t tag) {
    return (tag >> (BAND_TAG_BITS - 32)) * table->buckets >> 32;
}

/* Of one table. Keys, heads and earlier rows lie `step` apart, one for each of `count` documents.

   find: of each key the last row that has it, 1 more, 0 for none. put: rows from `first` on; earlier: of each the one
   before it. */
#define BAND_KERNELS(set)                                                                                      \
    void band_find_##set(const BandTable *table, const uint64_t *keys, uint64_t step, uint64_t count,          \
                         uint32_t *heads);                                                                     \
    void band_put_##set(BandTable *table, const uint64_t *keys, uint64_t step, uint64_t count, uint64_t first, \
                        uint32_t *earlier);
BAND_KERNELS(portable)
BAND_KERNELS(fast)
BAND_KERNELS(wide)

void band_choose(InstructionSet set);

#endif
