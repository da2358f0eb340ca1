/* Documents in memory, by the keys of their bands: they are only added to. Each band has a table of its own, so that no
   two tables are of two sizes at a time. */
#ifndef FPSTORE_BAND_INDEX_H
#define FPSTORE_BAND_INDEX_H

#include "platform.h"

/* A slot has BAND_TAG_BITS of a key, and below them a row, where 0 stands for none, so all are 1 more. */
#define BAND_ROW_BITS 22
#define BAND_TAG_BITS (64 - BAND_ROW_BITS)
#define BAND_MOST_ROWS ((UINT64_C(1) << BAND_ROW_BITS) - 1)

typedef struct {
    uint64_t *slots; /* `size` of them, 0 where empty: the last row that has a key */
    uint64_t size, used;
    uint32_t *earlier; /* of each row, the one before it with its key, 1 more; 0 for none */
} BandTable;

typedef struct {
    uint64_t count, room, bands, words;
    unsigned width;     /* bits of a value in a sketch */
    uint32_t far;       /* where so many values differ, more say nothing: all these are as far */
    BandTable *tables;  /* one for each band */
    uint64_t *sketches; /* words of each row */
    uint32_t *askers;   /* of each row, who looked at it last */
    uint32_t asker;
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

#endif
