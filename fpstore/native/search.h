/* The Hamming search: for each query, each table, each flip, the slots that can hold a match; their blocks; their keys.

   Latency here is memory latency, so the work goes in three stages, a batch at a time: collect slots (asking for their
   directory lines), resolve them to blocks (asking for their bytes), scan the blocks asked for a batch ago. */
#ifndef FPSTORE_SEARCH_H
#define FPSTORE_SEARCH_H

#include "decode.h"
#include "match.h"
#include "several.h"

#define STREAMS 4
/* Of one query with two flips in three tables, 363 slots that no cache has: 64 slots and 96 blocks at a time take 1.2
   to 1.3 of the time of these, as memory is asked for less of them together; twice as many take as long. */
#define BATCH_SLOTS 192
#define BATCH_BLOCKS 256
#define SLOT_ROOM (BATCH_SLOTS + 16)
#define BLOCK_ROOM (BATCH_BLOCKS + 16)

typedef struct {
    uint64_t slot, query, first_wanted, last_wanted;
    uint32_t query_index;
    uint16_t table;
} SlotProbe;

/* What is under way: slots to look at, blocks asked for, and those asked for a turn ago, which wait. */
typedef struct {
    SlotProbe slots[BATCH_SLOTS];
    Block resolved[BATCH_BLOCKS], waiting[BATCH_BLOCKS];
} SearchRows;

/* The same by column, with room for what is stored beyond the last one. Slots. line: the offset of the directory's
   line; index: the place in it; start: the slot's lowest key; payload: where the table's begins, a bit; scale: how far
   to shift a distance from `start` for 256ths of the slot; tag: query_index and table. What a table has is repeated for
   each, so that lanes can be of any tables. */
typedef struct {
    uint64_t line[SLOT_ROOM], index[SLOT_ROOM], start[SLOT_ROOM], first_wanted[SLOT_ROOM], last_wanted[SLOT_ROOM],
        query[SLOT_ROOM], payload[SLOT_ROOM], payload_bits[SLOT_ROOM], scale[SLOT_ROOM], tag[SLOT_ROOM];
    uint16_t large[SLOT_ROOM]; /* indexes of those that fences tell of */
    unsigned large_count;
    int new; /* whether a line lies in a page that was not used before */
} SlotColumns;

/* Blocks: bits [at, end) of the file, the key before, and what is wanted, which likely lies up to bit `reached`. */
typedef struct {
    uint64_t at[BLOCK_ROOM], key[BLOCK_ROOM], end[BLOCK_ROOM], last_wanted[BLOCK_ROOM], query[BLOCK_ROOM],
        tag[BLOCK_ROOM], reached[BLOCK_ROOM];
    unsigned asked_at_once; /* of these; of the others while those before them are scanned */
    int new;                /* of those that wait: whether one may lie in a page that was not used before */
} BlockColumns;

/* One query of few slots, see search_one.h: a row for each slot, which has a key alone, then for each of their blocks,
   in the same place. The blocks are runs of one group each, a table's or those that wait: those of its slots and those
   that fences tell of. end: where the rows of a group's slots end. waiting: 1 as long as group LATE waits. reached:
   bytes behind that of `at` up to which what is wanted likely lies; no more than fit are asked for beforehand. */
#define ONE_TABLES 8
#define ONE_GROUPS (ONE_TABLES + 1)
#define ONE_SLOTS 544
#define ONE_BLOCKS 640
#define ONE_ROOM (ONE_BLOCKS + 16)
/* next: the next block to scan; ahead: the next one to ask for; end: where they end. more: whether another run of this
   table comes behind it. */
typedef struct {
    unsigned next, ahead, end, more;
} OneRun;
typedef struct {
    uint64_t at[ONE_ROOM], key[ONE_ROOM], last_wanted[ONE_ROOM], end_bit[ONE_ROOM];
    uint16_t reached[ONE_ROOM];
    uint64_t query, queries[ONE_TABLES];
    unsigned groups, waiting, end[ONE_GROUPS];
    OneRun runs[ONE_GROUPS][2];
} OneColumns;

typedef struct {
    int one_class;                    /* all tables are of one class of codes */
    BlockColumns *resolved, *waiting; /* blocks[0] and blocks[1], by turns */
    SlotColumns slots;
    union {
        BlockColumns blocks[2];
        OneColumns one;
    };
} SearchColumns;

#define FEW_MATCHES 16

typedef struct {
    Pages *pages;
    Table *const *tables; /* all of one codec */
    unsigned table_count;
    unsigned own_tables; /* of these, of each segment: table_count but where several are searched together */
    unsigned distance;
    int first_only; /* stop at the first match */
    int done;
    uint32_t query_index;

    Match *matches;
    uint64_t match_count, match_room;
    uint64_t found_count; /* matches met so far, those that were not kept too */
    uint64_t match_limit; /* what a sound file cannot exceed: a hostile one may hold a key any number of times */
    uint64_t match_most;  /* how many the caller takes: TOO_MANY where there are more; 0 for any number */
    uint64_t keep;        /* of each query the nearest so many, in order; 0 for all, in no order */
    uint64_t keep_room;   /* match_keep_room of the queries */
    uint64_t query_count; /* where keep is not 0 */
    Match *bounds;        /* match_bounds, once there were more than keep_room; the caller frees them */
    const Match *after; /* for each query, what its matches come after in the order of answers; NULL for all of them */
    uint64_t blocks_scanned;

    unsigned slot_count, resolved_count, waiting_count;
    int is_one;             /* the stages are those of search_one.h */
    unsigned waits;         /* 1 where slots of the first table wait there, which comes behind the others; else 0 */
    Match few[FEW_MATCHES]; /* what matches are kept in at first, after search_keep_few() */
    union {
        SearchRows rows;
        SearchColumns columns; /* see search_many.h */
    };
} Search;

/* How far to shift a distance from the lowest key of a slot for 256ths of the slot, or the keys of a smaller one. */
ALWAYS_INLINE unsigned reach_shift(unsigned slot_shift) { return slot_shift > 8 ? slot_shift - 8 : 0; }

/* A search of so many queries that has found nothing yet, and is to find everything. */
void search_init(Search *search, Pages *pages, Table *const *tables, unsigned table_count, unsigned distance,
                 uint64_t query_count);

/* Have the first few matches in the search itself, without memory of their own. Such a search is freed by search_free(). */
void search_keep_few(Search *search);
void search_free(Search *search);

/* The three stages of a search for queries[0..count), which are numbered from first_index on: name slots and ask for
   their directory lines; read these and ask for blocks; scan them. Matches go to search->matches. Searches of several
   segments take turns, so that what one has asked for arrives while another works. */
Status search_begin(Search *search, const uint64_t *queries, uint64_t count, uint64_t first_index);
Status search_ask(Search *search);
Status search_end(Search *search);

/* Ask for the code of a search of one query, which after other work no near cache has. */
void search_ask_code(void);

/* Copies of a segment's tables that look up with as many flips each as are given, for `made` to point to; to be freed.
   NULL where there is no memory. */
Table *tables_with_flips(Table *const *tables, unsigned count, const unsigned *flips, Table **made);

/* A search in several segments at once, of tables of all of them: `query` of a match is then its segment. *answered: 0
   where a query has more to look at than fits, and has to be asked of each segment alone. */
void search_several_init(Search *search, const Several *several, unsigned distance);
Status search_several(Search *search, const Several *several, uint64_t query, int *answered);

/* All of them. */
Status search_run(Search *search, const uint64_t *queries, uint64_t count, uint64_t first_index);

/* How many of keys are within `distance` of query. */
uint64_t scan_keys(const uint64_t *keys, uint64_t count, uint64_t query, unsigned distance);

/* Read a word of the directory and then one of the payload where the slot of each query is, in each table, one query
   after the other: what any search waits for. Pages need not have been checked; the sum of the words means nothing. */
uint64_t search_touch(Table *const *tables, unsigned table_count, const Pages *pages, const uint64_t *queries,
                      uint64_t count);

/* For the kernels: one match more. */
Status search_add(Search *search, uint32_t query, uint64_t fingerprint, unsigned distance);

void search_choose(InstructionSet set);

Status search_several_wide(Search *search, const Several *several, uint64_t query, int *answered);

#define SEARCH_KERNELS(set)                                                    \
    Status search_begin_##set(Search *, const uint64_t *, uint64_t, uint64_t); \
    void ask_code_##set(void);                                                 \
    Status search_ask_##set(Search *);                                         \
    Status search_end_##set(Search *);                                         \
    uint64_t scan_keys_##set(const uint64_t *, uint64_t, uint64_t, unsigned);  \
    uint64_t touch_##set(Table *const *, unsigned, const Pages *, const uint64_t *, uint64_t);
SEARCH_KERNELS(portable)
SEARCH_KERNELS(fast)
SEARCH_KERNELS(wide)
#undef SEARCH_KERNELS

#endif
