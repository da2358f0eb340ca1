/* Fingerprints added lately, indexed in memory: distinct fingerprints are *entries*, each with a chain of *rows* (an id
   and a position), newest first. For each table, an entry lies in the bucket of the top bits of its permuted key; one
   more set of buckets, by a hash of the key, finds the entry of a fingerprint that comes again.

   A row is appended as it is, which costs a copy, and *indexed* for searches, which costs some reads that no cache has:
   of one who only adds, no row ever is. A batch has all rows indexed; a single query compares those that are not yet.

   Entries and rows are numbered from 1, and 0 ends a chain. Nothing is ever moved or taken out: what is new is written
   first and then published by a release store (of a bucket's head, an entry's newest row, a count), so a search in
   another thread sees all of it or none. What it sees too early, rows beyond the `end` it was asked for, it skips. */
#ifndef FPSTORE_PENDING_H
#define FPSTORE_PENDING_H

#include "match.h"
#include "permute.h"

#define PENDING_LEVELS 33       /* flips of 0..31 bits of a bucket number, and 0 ways to flip 32 */
#define PENDING_CURSORS 128     /* look-ups in flight */
#define PENDING_SCAN_ENTRIES 5  /* compared in the time of one look-up: measured, 0.72 ns against 3.0 to 4.7 */
#define PENDING_TILE 256        /* entries that stay in the first-level cache while every query is compared with them */
#define PENDING_PAGE 4096       /* bytes, the least that a system gives at a time */
#define PENDING_PAGES 2         /* so many are made ready at a time: some microseconds */
#define PENDING_READY_ROWS 4096 /* for no more rows */
#define PENDING_AHEAD 8         /* keys between asking for memory and using it, when rows are added */

typedef struct {
    uint64_t key;
    uint32_t newest_row;
    uint32_t next[]; /* the next entry of the bucket, for each table; then of the bucket of the hash */
} Entry;

typedef struct {
    uint64_t position, key;
    uint64_t id[]; /* one, or none in an index without ids */
} Row;

typedef struct {
    uint32_t *heads;
    unsigned bucket_bits, bucket_shift, flips; /* a bucket's number is a key shifted down */
    uint32_t patterns[PENDING_LEVELS];         /* how many ways to flip exactly so many bits of a bucket's number */
    Permutation permutation;
} PendingTable;

typedef struct {
    unsigned table_count, hash_bits,
        max_distance; /* max_distance: what the tables answer; beyond it all is looked at */
    int with_ids;
    uint32_t capacity, count, indexed, entry_count; /* indexed: so many rows, from the first on */
    uint32_t appended;                              /* so many rows came last */
    uint64_t ready_bytes; /* of the rows: the memory up to there was written to, or is ready */
    uint64_t live_since;  /* no row of that position or a later one was removed before it */
    uint64_t secret; /* odd: multiply-shift is universal, so no keys chosen without knowing it share many buckets */
    PendingTable *tables;
    void *arena; /* everything below, in one piece; pages never touched take no memory */
    size_t arena_bytes;
    char *entries, *rows;
    size_t entry_bytes, row_bytes;
    uint32_t *before; /* of each indexed row the one before it of the same entry */
    uint32_t *hash_heads;
    /* Bucket numbers with few bits set, by how many: those below 2^b of each level are the flips of b bits. Levels are
       left out from where they are more than capacity, as scanning is faster then. */
    uint32_t *patterns;
    uint32_t pattern_level[PENDING_LEVELS];
    unsigned levels;
} Pending;

typedef struct {
    Match match; /* first, for match_order */
    const Entry *entry;
} PendingMatch;

typedef struct {
    const void *at; /* a bucket's head, then an entry */
    uint64_t query;
    uint32_t query_index, table;
} PendingCursor;

typedef struct {
    const Pending *pending;
    unsigned distance;
    uint32_t end; /* rows numbered up to it belong to the answer */
    PendingMatch *matches;
    uint64_t match_count, match_room, row_count;
    uint64_t match_most;  /* how many the caller takes: TOO_MANY where there are more; 0 for any number */
    uint64_t keep;        /* of each query the nearest so many, and their rows are not counted; 0 for all */
    uint64_t keep_room;   /* match_keep_room of the queries */
    uint64_t query_count; /* where keep is not 0 */
    Match *bounds;        /* match_bounds, once there were more than keep_room; the caller frees them */
    const Match *after;   /* for each query, what its matches come after in the order of answers; NULL for all */
    PendingCursor cursors[2 * PENDING_CURSORS];
    unsigned live; /* cursors[0..live) stand at entries */
} PendingSearch;

ALWAYS_INLINE Entry *pending_entry(const Pending *pending, uint32_t number) {
    return (Entry *)(pending->entries + number * pending->entry_bytes);
}

ALWAYS_INLINE Row *pending_row(const Pending *pending, uint32_t number) {
    return (Row *)(pending->rows + number * pending->row_bytes);
}

ALWAYS_INLINE uint32_t *pending_hash_head(const Pending *pending, uint64_t key) {
    return &pending->hash_heads[key * pending->secret >> (64 - pending->hash_bits)];
}

/* The entry of a fingerprint, or 0. For the one who appends. */
ALWAYS_INLINE uint32_t pending_find(const Pending *pending, uint64_t key) {
    uint32_t entry = *pending_hash_head(pending, key);
    while (entry != 0 && pending_entry(pending, entry)->key != key)
        entry = pending_entry(pending, entry)->next[pending->table_count];
    return entry;
}

ALWAYS_INLINE int pending_has(const Pending *pending, uint32_t entry, uint64_t id, uint64_t live_since) {
    if (entry == 0) return 0;
    const Row *newest = pending_row(pending, pending_entry(pending, entry)->newest_row);
    return newest->position >= live_since && (!pending->with_ids || newest->id[0] == id);
}

/* masks, flips: of 1..1024 tables of keys of key_bits, no mask 0. Every key and query has so many bits. capacity is
 * below 2^31, so the bytes are below 2^45. max_distance: what the tables answer. pending is all zero.
 */
Status pending_init(Pending *pending, const uint64_t *masks, const unsigned *flips, unsigned table_count,
                    unsigned key_bits, unsigned max_distance, int with_ids, uint32_t capacity, uint64_t secret);
void pending_free(Pending *pending);

uint32_t pending_count(const Pending *pending);
/* The position of the row added last, 0 without any. */
uint64_t pending_last_position(const Pending *pending);
/* How many rows come before the first that has this position or a later one. */
uint32_t pending_rows_before(const Pending *pending, uint64_t position);

/* There is room for `count` rows; ids is NULL without. */
void pending_append(Pending *pending, const uint64_t *keys, const uint64_t *ids, uint32_t count, uint64_t position,
                    uint64_t live_since);

/* Whether the memory of further rows, of as many as came last, is not all ready. Each page of it is slow at its first use,
   which makes half of what it takes to append rows. */
int pending_is_unready(const Pending *pending);
/* Make some of it ready. For the one who appends, when there is time. */
void pending_make_ready(Pending *pending);

/* How many rows can be searched, and making it all of them; a row that is there already is passed over. */
uint32_t pending_indexed(const Pending *pending);
/* Index so many rows more, at most. */
void pending_index(Pending *pending, uint32_t most);

/* The first row from `first` to `end` whose fingerprint is within `distance` of query, end + 1 where there is none. */
uint32_t pending_near(const Pending *pending, uint64_t query, unsigned distance, uint32_t first, uint32_t end);

/* Append rows [first, end) of source, counted from 0, which has the same tables, to a pending that has room for them.
 */
void pending_copy(Pending *pending, const Pending *source, uint32_t first, uint32_t end);

/* A search that has found nothing yet, and is to find everything. */
void pending_search_init(PendingSearch *search, const Pending *pending, unsigned distance, uint32_t end);

/* Search for queries[0..count), when all rows of the answer are indexed. Matches go to search->matches in the order of
 * answers. */
Status pending_search(PendingSearch *search, const uint64_t *queries, uint64_t count);

/* The rows of what a search has found; ids is NULL without. */
void pending_fill(const PendingSearch *search, int64_t *query, uint64_t *fingerprint, uint16_t *distance, uint64_t *ids,
                  uint64_t *positions);

/* The newest row of an entry that is numbered up to `end`; 0 where the entry is younger than that. */
uint32_t pending_newest(const Pending *pending, const Entry *entry, uint32_t end);

/* Where a walk over the rows of entries[0..count) stands: at `row` of entries[index], or at its newest for 0. */
typedef struct {
    uint64_t index;
    uint32_t row;
} PendingWalk;

/* Up to `room` more rows numbered up to `end`, and of which of the entries each is; fewer only where those are all. */
uint64_t pending_walk_rows(const Pending *pending, const uint32_t *entries, uint64_t count, uint32_t end,
                           PendingWalk *walk, uint64_t room, int64_t *which, uint64_t *ids, uint64_t *positions);

/* The least id of each entry's rows up to `end`; for an index with ids. Every entry has such a row. */
void pending_least_ids(const Pending *pending, const uint32_t *entries, uint64_t count, uint32_t end, uint64_t *ids);

/* The number of an entry that a search has found. */
uint32_t pending_entry_number(const Pending *pending, const PendingMatch *match);

/* Rows [first, end), counted from 0. */
void pending_rows(const Pending *pending, uint32_t first, uint32_t end, uint64_t *keys, uint64_t *ids,
                  uint64_t *positions);

/* For the kernels: one match more. */
Status pending_add_match(PendingSearch *search, uint32_t query, const Entry *entry, unsigned distance);

/* How many buckets a query looks into; 2^32 where the patterns were left out. */
uint64_t pending_probes(const Pending *pending, unsigned distance);

void pending_choose(InstructionSet set);

#define PENDING_KERNELS(set)                                                              \
    void pending_index_##set(Pending *, uint32_t);                                        \
    uint32_t pending_near_##set(const Pending *, uint64_t, unsigned, uint32_t, uint32_t); \
    Status pending_search_##set(PendingSearch *, const uint64_t *, uint64_t);
PENDING_KERNELS(portable)
PENDING_KERNELS(fast)
#undef PENDING_KERNELS

#endif
