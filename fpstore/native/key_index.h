/* Fingerprints in memory alone, which are only added to: rows 0, 1, ... Those within a distance are found by bands of
   up to 16 bits. Each band has a table, whose buckets are the values of these bits; of keys within the distance at
   least one band differs in no more bits than its table has flips, and all values of so many are looked at. Few keys
   have bands of fewer bits, so that the buckets are in reach of the caches.

   A bucket is a line of memory with the next 32 bits of each key, by which nearly all others fall out, and, elsewhere,
   a line of rows, which is read for those that do not. A full line is copied behind, and begun again. */
#ifndef FPSTORE_KEY_INDEX_H
#define FPSTORE_KEY_INDEX_H

#include "large.h"
#include "platform.h"

#define KEY_TABLES 4
#define KEY_BAND_STEP 16 /* from band to band */
#define KEY_LEAST_BITS 12
#define KEY_MOST_BITS 16
#define KEY_MORE_BITS 2 /* than before, when there are more than KEY_FULL keys for a bucket */
#define KEY_FULL 10
#define KEY_MOST_FLIPS 2
#define KEY_NO_FIRST UINT32_MAX
#define KEY_PATTERNS (1 + 16 + 120) /* of at most so many flips */
/* Within so many bits two keys have a band that differs in KEY_MOST_FLIPS at most. */
#define KEY_MOST_DISTANCE (KEY_TABLES * (KEY_MOST_FLIPS + 1) - 1)
#define KEY_MOST_ROWS (UINT64_C(1) << 27)
/* What a line has: places, filled one after the other, and the line behind it, 0 for none. */
#define KEY_PLACES 15

typedef struct {
    uint32_t marks[KEY_PLACES]; /* the 32 bits that follow the band, around the key */
    uint32_t behind;
} KeyLine;

typedef struct {
    uint32_t rows[KEY_PLACES]; /* 1 more; 0 in places that are empty */
    uint32_t used;             /* places, of the first line of a bucket */
} KeyRows;

typedef struct {
    uint64_t count, keys_held; /* rows, and those of which none before has the key */
    uint64_t secret;           /* odd: so that no keys chosen without knowing it share many slots */
    unsigned distance, tables, band_bits;
    unsigned flips[KEY_TABLES];
    uint32_t lines_used;
    Large lines, line_rows; /* KeyLine and KeyRows: those of each table, one for each bucket, and those behind */
    Large keys;             /* uint64_t, of each row */
    Large next;             /* uint32_t: of each row the next that has its key, 1 more; 0 for none */
    Large last;  /* uint32_t: of each row that is the first of its key the last, 1 more, 0 where it is alone; or
                    KEY_NO_FIRST */
    Large slots; /* uint32_t: the first row of a key, 1 more; by a hash of the key */
    unsigned slot_bits;
} KeyIndex;

typedef struct {
    uint64_t key;
    uint32_t row, distance; /* the first row that has the key */
} KeyNear;

typedef struct {
    uint64_t key;
    uint32_t query, row, distance;
} KeyMatch;

/* Of queries, in their order; the caller frees them. */
typedef struct {
    KeyMatch *rows;
    uint64_t count, room;
} KeyMatches;

/* Some of what is near one query: the nearest keys, which are cut to `limit` where there is no more room. */
typedef struct {
    KeyNear *keys;
    uint64_t count, room, limit;
} KeyNears;

/* An empty one, of which distance, up to KEY_MOST_DISTANCE, and secret are given. key_index_free after NO_MEMORY too.
 */
Status key_index_make(KeyIndex *index);
void key_index_free(KeyIndex *index);

/* Add rows, of which there are KEY_MOST_ROWS at most. NO_MEMORY, after which nothing may be asked. */
Status key_index_add(KeyIndex *index, const uint64_t *keys, uint64_t count);

/* The rows within the distance of each query: the first `limit` of each, ordered by distance, key and row. NO_MEMORY.
 */
Status key_index_near(const KeyIndex *index, const uint64_t *queries, uint64_t count, uint64_t limit,
                      KeyMatches *found);

/* The bytes that it takes. */
uint64_t key_index_bytes(const KeyIndex *index);

/* One more near key; NO_MEMORY. For the kernels. */
Status key_index_met(KeyNears *found, uint64_t key, uint32_t row, unsigned distance);

/* A key from the band of a table on, around it: first the bits of its bucket, then those of its mark. */
ALWAYS_INLINE uint64_t key_turned(uint64_t key, unsigned table) {
    const unsigned bits = table * KEY_BAND_STEP;
    return bits == 0 ? key : key << bits | key >> (64 - bits);
}
ALWAYS_INLINE uint64_t key_bucket(const KeyIndex *index, uint64_t turned) { return turned >> (64 - index->band_bits); }
ALWAYS_INLINE uint32_t key_mark(const KeyIndex *index, uint64_t turned) {
    return (uint32_t)(turned >> (32 - index->band_bits));
}
ALWAYS_INLINE uint64_t key_buckets(const KeyIndex *index) { return UINT64_C(1) << index->band_bits; }

/* Have the lines of some tables come that a query will look at; the keys near it that these tables find, and none
   before them: each once of all tables. */
#define KEY_KERNELS(set)                                                                      \
    void key_ask_##set(const KeyIndex *index, uint64_t query, unsigned first, unsigned last); \
    Status key_collect_##set(const KeyIndex *, uint64_t, unsigned first, unsigned last, KeyNears *);
KEY_KERNELS(portable)
KEY_KERNELS(fast)
KEY_KERNELS(wide)
#undef KEY_KERNELS

/* All values with at most KEY_MOST_FLIPS bits set, by their number, of each number those of fewer bits first. */
extern HIDDEN uint16_t key_patterns[KEY_PATTERNS];

/* Those that have so many set, and only some of the lowest `bits`. */
ALWAYS_INLINE unsigned key_first_pattern(unsigned flips) { return flips == 0 ? 0 : flips == 1 ? 1 : 1 + KEY_MOST_BITS; }
ALWAYS_INLINE unsigned key_pattern_count(unsigned flips, unsigned bits) {
    return flips == 0 ? 1 : flips == 1 ? bits : bits * (bits - 1) / 2;
}

void key_choose(InstructionSet set);

#endif
